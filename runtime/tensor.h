/* tensor.h: the runtime tensor: refcounted handle -> interned metadata, storage, autograd metadata.
 *
 *   sn_tensor --meta-->  Meta (interned, immutable, shared by all of equal dtype, device, sizes, strides)
 *             --storage-> Storage (bytes, version counter; shared by views)
 *
 * Header and small payloads come from one size-class free list per thread. */
#ifndef SINTER_RUNTIME_TENSOR_H
#define SINTER_RUNTIME_TENSOR_H
#include <stdatomic.h>

#include "ir/arg.h"
#include "runtime/state.h"

typedef struct Storage {
    _Atomic int32_t refs;
    _Atomic uint32_t version; /* bumped by every write; shared by all views */
    Device device;
    bool user_owned, read_only;
    bool pointer_given;       /* a mutable pointer left the library: never cache packed copies of it */
    void *data;
    size_t bytes;
    sn_free_fn free;          /* user memory; NULL: the allocator's */
    void *context;
} Storage;

enum { /* sn_tensor.flags */
    TF_inference = 1,   /* made in inference mode */
    TF_error = 2,       /* a handle of an op that failed after the fact [C8]: every function treats it as NULL */
    TF_in_scope = 4     /* a scope holds one of the references */
};

struct AutogradMeta;   /* runtime/tape.h; NULL until needed */
struct Placeholder;    /* runtime/capture.h; non-NULL: data not computed yet */

struct sn_tensor {
    Val base;                /* first: an sn_tensor is a Val; meta is interned */
    _Atomic int32_t refs;
    uint8_t flags;
    uint64_t keys;           /* bits of dispatch keys (runtime/dispatch.h) */
    Storage *storage;        /* NULL only for placeholders and meta tensors */
    int64_t offset;          /* elements */
    struct AutogradMeta *autograd;
    struct Placeholder *placeholder;
    uint32_t scope_slot;     /* its index in state->handles where TF_in_scope */
};
static inline sn_tensor *tensor_of(Val *v) { return (sn_tensor *)v; }

/* Interned metadata; NULL raises. Lives until shutdown. */
const Meta *meta_intern(DType dtype, Device device, const int64_t *sizes, const int64_t *strides, int rank, bool wrapped);

/* All return tensors owned by the innermost scope, NULL on error. */
sn_tensor *tensor_new(const Meta *meta);                          /* fresh uninitialised storage */
sn_tensor *tensor_new_zero(const Meta *meta);
sn_tensor *tensor_view(sn_tensor *base, const Meta *meta, int64_t offset); /* shares storage */
sn_tensor *tensor_from_storage(Storage *storage, const Meta *meta, int64_t offset); /* retains storage */
sn_tensor *tensor_scalar(const Arg *number, DType dtype);         /* 0-dim, wrapped */
void *tensor_data(const sn_tensor *t);                            /* first element */
void tensor_written(sn_tensor *t);                                /* bumps the version */

Storage *storage_new(Device device, size_t bytes); /* one reference; from the caching allocator, 64-byte aligned */
void storage_retain(Storage *storage);
void storage_release(Storage *storage);

/* The CPU caching allocator (runtime/alloc_cpu.c): size classes, huge pages above 2 MiB, bounded retention. */
void *cpu_alloc(size_t bytes);
void cpu_free(void *block, size_t bytes);

#endif
