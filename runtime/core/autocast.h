/* autocast.h: to which dtype a thread's ops are cast, by kind of device, and the casts that a region keeps.
 *
 *   sn_autocast_set(SN_CPU, SN_BF16)      the thread's word: 2 bits for each backend key; the key autocast is included
 *   sn_linear(x, w, b)                    the key's kernel casts (runtime/autograd/autocast.c)
 *   end of the scope                      the word as it was; the outermost region ends: its cached casts go
 *
 * A region begins where the word is first set, and ends with that scope, or where the word is 0 again in that very
 * scope; a part inside of it that is off does not end it. Cached are casts of leaves that require gradients, as long as
 * the leaf has the version, memory and layout that it was cast with. */
#ifndef SINTER_RUNTIME_AUTOCAST_H
#define SINTER_RUNTIME_AUTOCAST_H
#include "runtime/core/dispatch.h"

/* A value only: each use gets a tape node of its own [semantics G6]. */
typedef struct CachedCast {
    sn_tensor *leaf, *value; /* owned */
    const Meta *meta;        /* the leaf's then; retained */
    const Storage *storage;
    int64_t offset;
    uint32_t version, value_version;
} CachedCast;

/* DT_default: off there. */
DType autocast_dtype(uint32_t word, Key backend);
/* DT_default: off. The dtype is one of autocast's. */
uint32_t autocast_word(uint32_t word, Key backend, DType dtype);
bool autocast_to(DType dtype); /* f16 or bf16 */
/* From here to the end of the scope. */
void autocast_set(sn_state *state, uint32_t word);
/* The same for what a callback inside of a region has: no region begins or ends. */
void autocast_use(sn_state *state, uint32_t word);
/* "cpu bf16, cuda f16", or "off". */
void autocast_print(uint32_t word, Text *text);

/* The outermost region is over: what it keeps goes. */
void autocast_region_end(sn_state *state);
/* The cached cast of a leaf; NULL: there is none that is still right. Borrowed. */
sn_tensor *autocast_cached(const sn_state *state, const sn_tensor *leaf, DType dtype);
/* Caches it, where a region is open; retains both. Without memory it is not cached. */
void autocast_cache(sn_state *state, sn_tensor *leaf, sn_tensor *value);
/* Of the leaves whose casts are cached now: how many, and the bytes of the casts. */
int64_t autocast_cached_bytes(const sn_state *state);

#endif
