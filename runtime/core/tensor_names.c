/* tensor_names.c: see tensor_names.h. Entries hold their tensors, so that no address here is that of another one. */
#include "runtime/core/tensor_names.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"

typedef struct Name {
    struct Name *older;
    char text[];
} Name;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Map names; /* of a tensor, newest first; under the lock */

static uint64_t address_of(const sn_tensor *t) { return (uint64_t)(uintptr_t)t; }

Status tensor_named(const sn_tensor *t, const char *name) {
    const size_t bytes = strlen(name) + 1;
    Name *const entry = mem_alloc(sizeof *entry + bytes);
    if (!entry) return ST_MEMORY;
    memcpy(entry->text, name, bytes);
    pthread_mutex_lock(&lock);
    entry->older = map_get(&names, address_of(t));
    const bool noted = map_set(&names, address_of(t), entry);
    pthread_mutex_unlock(&lock);
    if (!noted) mem_free(entry);
    return noted ? ST_OK : ST_MEMORY;
}

void tensor_unnamed(const sn_tensor *t, const char *name) {
    pthread_mutex_lock(&lock);
    Name *first = map_get(&names, address_of(t)), **at = &first;
    while (*at && strcmp((*at)->text, name)) at = &(*at)->older;
    Name *const gone = *at;
    if (gone) {
        *at = gone->older;
        map_set(&names, address_of(t), first);
        mem_free(gone);
    }
    pthread_mutex_unlock(&lock);
}

bool tensor_name(const sn_tensor *t, char *out, size_t capacity) {
    pthread_mutex_lock(&lock);
    const Name *const name = map_get(&names, address_of(t));
    if (name) snprintf(out, capacity, "%s", name->text);
    pthread_mutex_unlock(&lock);
    return name != NULL;
}
