/* hash.c: open addressing with linear probing, load at most one half; removal marks the value NULL. */
#include "runtime/base/hash.h"

#include "runtime/base/alloc.h"

uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    uint64_t h = hash_mix(seed, n);
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        h = hash_mix(h, word);
    }
    uint64_t tail = 0;
    if (n) memcpy(&tail, p, n);
    return hash_mix(h, tail);
}

static uint64_t stored(uint64_t key) { return key ? key : 1; } /* 0 marks a free slot */

static size_t slot_of(const Map *map, uint64_t key) {
    size_t i = (size_t)hash_mix(0, key) & (map->capacity - 1);
    while (map->keys[i] && map->keys[i] != key) i = (i + 1) & (map->capacity - 1);
    return i;
}

void *map_get(const Map *map, uint64_t key) { return map->capacity ? map->values[slot_of(map, stored(key))] : NULL; }

/* Removed keys go on the way: a map whose keys come and go stays as it is. */
static bool grow(Map *map) {
    size_t live = 0;
    for (size_t i = 0; i < map->capacity; i++) live += map->keys[i] && map->values[i];
    Map bigger = {.capacity = !map->capacity ? 16 : live * 4 > map->capacity ? map->capacity * 2 : map->capacity};
    bigger.keys = mem_zero(bigger.capacity * sizeof *bigger.keys);
    bigger.values = mem_zero(bigger.capacity * sizeof *bigger.values);
    if (!bigger.keys || !bigger.values) {
        map_free(&bigger);
        return false;
    }
    for (size_t i = 0; i < map->capacity; i++) {
        if (!map->keys[i] || !map->values[i]) continue;
        const size_t slot = slot_of(&bigger, map->keys[i]);
        bigger.keys[slot] = map->keys[i];
        bigger.values[slot] = map->values[i];
        bigger.n++;
    }
    map_free(map);
    *map = bigger;
    return true;
}

static bool removed(const Map *map, uint64_t key) {
    if (map->capacity) map->values[slot_of(map, stored(key))] = NULL;
    return true;
}

bool map_set(Map *map, uint64_t key, void *value) {
    if (!value) return removed(map, key);                        /* which needs no memory */
    if (map->capacity && map->keys[slot_of(map, stored(key))]) { /* nor does this */
        map->values[slot_of(map, stored(key))] = value;
        return true;
    }
    if ((map->n + 1) * 2 > map->capacity && !grow(map)) return false;
    const size_t slot = slot_of(map, stored(key));
    map->n++;
    map->keys[slot] = stored(key);
    map->values[slot] = value;
    return true;
}

void map_free(Map *map) {
    mem_free(map->keys);
    mem_free(map->values);
    *map = (Map){0};
}
