/* hash.h: one 64-bit hash and one map from 64-bit keys to pointers. Maps are never iterated: order comes from lists. */
#ifndef SINTER_RUNTIME_BASE_HASH_H
#define SINTER_RUNTIME_BASE_HASH_H
#include "runtime/base/base.h"

static inline uint64_t hash_mix(uint64_t seed, uint64_t value) {
    uint64_t h = (seed ^ value) * 0x9E3779B97F4A7C15u;
    return h ^ (h >> 32);
}
uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t n);

/* Keys are full hashes; a caller whose keys may collide compares the payload itself and chains. Zero-init = empty. */
typedef struct Map {
    uint64_t *keys;
    void **values;
    size_t n, capacity;
} Map;
void *map_get(const Map *map, uint64_t key); /* NULL when absent */
/* value NULL removes, which never fails; false when memory is out */
bool map_set(Map *map, uint64_t key, void *value);
void map_free(Map *map);

#endif
