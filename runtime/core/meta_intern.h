/* meta_intern.h: interned metadata: equal layouts are one Meta, so that comparing them is comparing addresses.
 *
 * The first few thousand of a process stay as long as it lives, and those that compiled functions were recorded with;
 * any other lives as long as something holds it (meta_retain): a tensor, an entry of eager's cache, a node of the tape.
 * So ever new sizes take no memory, and the layouts of most programs are never counted. */
#ifndef SINTER_RUNTIME_META_INTERN_H
#define SINTER_RUNTIME_META_INTERN_H
#include "ir/arg.h"
#include "runtime/base/refs.h"
#include "runtime/core/state.h"

/* What every interned Meta is the beginning of. */
typedef struct InternedMeta {
    Meta meta;
    uint64_t hash, keys; /* the device's backend key and autograd's */
    size_t bytes;        /* from the first to past the last element: what a fresh storage needs */
    bool overlaps;       /* two indices may name one element (stride 0 or the like) */
    _Atomic bool stays;  /* for the life of the process; once set, it is */
    _Atomic int32_t refs;
    struct InternedMeta *next; /* of those that are counted */
    int64_t numbers[];         /* sizes, then strides */
} InternedMeta;

/* Borrowed; NULL raises (sizes that overflow, out of memory). One that nobody retains stays until this thread has
 * interned LENT_METAS others. */
const Meta *meta_intern(DType dtype, Device device, const int64_t *sizes, const int64_t *strides, int rank,
                        bool wrapped);
const Meta *meta_intern_contiguous(DType dtype, Device device, const int64_t *sizes, int rank);
enum { LENT_METAS = 2048 };

static inline size_t meta_bytes(const Meta *meta) { return ((const InternedMeta *)meta)->bytes; }
static inline uint64_t meta_keys(const Meta *meta) { return ((const InternedMeta *)meta)->keys; }
static inline bool meta_overlaps(const Meta *meta) { return ((const InternedMeta *)meta)->overlaps; }

/* From now on it lives as long as the process: for what many things look at and none frees, as compiled functions do.
 * NULL: nothing. */
void meta_stay(const Meta *meta);
static inline void metas_stay(const Meta *const *metas, int n) {
    for (int i = 0; i < n; i++) meta_stay(metas[i]);
}
/* As if interned just now. */
void meta_linger(const Meta *meta);

static inline InternedMeta *meta_counted(const Meta *meta) { /* NULL: it stays anyway */
    InternedMeta *const in = (InternedMeta *)(uintptr_t)meta;
    return LIKELY(atomic_load_explicit(&in->stays, memory_order_relaxed)) ? NULL : in;
}
static inline void meta_retain(const Meta *meta) {
    InternedMeta *const in = meta_counted(meta);
    if (UNLIKELY(in != NULL)) refs_add(&in->refs, 1);
}
COLD void meta_drop(InternedMeta *in);
static inline void meta_release(const Meta *meta) {
    InternedMeta *const in = meta_counted(meta);
    if (UNLIKELY(in != NULL)) meta_drop(in);
}

void meta_lent_free(sn_state *state); /* what a thread that ends was lent */

typedef struct MetaCounts { /* of the process, for tests */
    int64_t stay, counted;
} MetaCounts;
MetaCounts meta_counts(void);

#endif
