/* name_index.c: see name_index.h. */
#include "runtime/base/name_index.h"

#include "runtime/base/alloc.h"

static uint64_t hash_name(const char *name) { return hash_bytes(0, name, strlen(name)); }
static int newest(const NameIndex *index, uint64_t hash) { return (int)(intptr_t)map_get(&index->first, hash) - 1; }

int name_index_find(const NameIndex *index, const char *name) {
    int i = newest(index, hash_name(name));
    while (i >= 0 && strcmp(index->at[i].name, name)) i = index->at[i].next;
    return i;
}

static Status grow_capacity(NameIndex *index) {
    if (index->n < index->capacity) return ST_OK;
    const int capacity = index->capacity ? index->capacity * 2 : 16;
    IndexedName *const at = mem_resize(index->at, (size_t)capacity * sizeof *at);
    if (!at) return ST_MEMORY;
    index->at = at, index->capacity = capacity;
    return ST_OK;
}

Status name_index_add(NameIndex *index, const char *name) {
    const uint64_t hash = hash_name(name);
    TRY(grow_capacity(index));
    index->at[index->n] = (IndexedName){name, newest(index, hash)};
    if (!map_set(&index->first, hash, (void *)(intptr_t)(index->n + 1))) return ST_MEMORY;
    index->n++;
    return ST_OK;
}

void name_index_free(NameIndex *index) {
    map_free(&index->first);
    mem_free(index->at);
    *index = (NameIndex){0};
}
