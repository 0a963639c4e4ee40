/* tensor.h: the runtime tensor: refcounted handle -> interned metadata, storage, autograd metadata.
 *
 *   sn_tensor --meta---> Meta (interned, immutable, shared by all of equal dtype, device, sizes,
 *                        strides)
 *             --storage-> Storage (bytes, version counter; shared by views)
 *
 * Header, storage and small payloads come from one size-class free list per thread:
 *
 *   | sn_tensor 64 | Storage 64 | payload 0, 128 or 512 bytes |  lives until its storage dies
 *   | sn_tensor 64 |                                             views and placeholders */
#ifndef SINTER_RUNTIME_TENSOR_H
#define SINTER_RUNTIME_TENSOR_H
#include "runtime/core/meta_intern.h"
#include "runtime/core/reason.h"

typedef struct Memory Memory; /* runtime/core/memory.h */

typedef struct Storage {
    _Atomic int32_t refs;
    _Atomic uint32_t version; /* bumped by every write; shared by all views */
    Device device;
    bool user_owned, read_only;
    bool pointer_given; /* a mutable pointer left the library: never cache packed copies of it */
    /* BLOCK_ class of the tensor block it is part of; BLOCK_header: it stands alone */
    uint8_t block;
    void *data;
    size_t bytes;
    const Memory *memory; /* its device's, with functions; NULL: of a device that has none */
    sn_free_fn free;      /* user memory; NULL: the allocator's */
    void *context;
} Storage;

enum {                   /* sn_tensor.flags */
       TF_inference = 1, /* made in inference mode */
       TF_error = 2,     /* a handle of an op that failed after the fact [C8]: every function treats it
                            as NULL */
       TF_batched = 8,   /* a handle of a level (runtime/transform): of sn_vmap, one example of many, */
       TF_whole = 16,    /* or of another, which has the same sizes as what it stands for */
       TF_learnt = 4,    /* a replay function was called with it (capture/replay/replay_guards.h) */
       TF_lent = 32,     /* of a call's array (tensor_lent): no body has closed over it */
       TF_versioned = 64 /* without memory, with a version counter all the same (bare_version.h) */
};

struct AutogradMeta; /* runtime/autograd/tape.h; NULL until needed */
struct Placeholder;  /* runtime/capture/record/capture.h; non-NULL: data not computed yet */

struct sn_tensor {
    Val base; /* first: an sn_tensor is a Val; meta is interned */
    _Atomic int32_t refs;
    _Atomic uint8_t flags;
    uint8_t block;    /* BLOCK_ class */
    uint64_t keys;    /* bits of dispatch keys (runtime/core/dispatch.h) */
    Storage *storage; /* NULL for placeholders, meta tensors, examples; TF_whole: without memory, for the version */
    union {
        int64_t offset;   /* elements */
        sn_tensor *inner; /* TF_batched: what it stands for, one level further out; owned */
    };
    struct AutogradMeta *autograd;
    _Atomic(struct Placeholder *) placeholder; /* cleared when all else is in place */
    /* 1 + its index in the handles of the state that holds it; 0: no scope does */
    _Atomic uint32_t scope_place;
    union {
        uint32_t level;  /* TF_batched: the level's id */
        uint32_t learnt; /* TF_learnt: its number among all such tensors, which none that is made later has */
    };
};
static inline sn_tensor *tensor_of(Val *v) { return (sn_tensor *)v; }

/* A scope holds one of the references. Only the holder's thread changes it; others may look. */
static inline bool tensor_in_scope(const sn_tensor *t) {
    return atomic_load_explicit(&t->scope_place, memory_order_relaxed) != 0;
}
static inline uint32_t tensor_scope_slot(const sn_tensor *t) {
    return atomic_load_explicit(&t->scope_place, memory_order_relaxed) - 1;
}
static inline void tensor_set_scope_place(sn_tensor *t, uint32_t place) {
    atomic_store_explicit(&t->scope_place, place, memory_order_relaxed);
}

/* Into the innermost scope, which has room for it. */
static inline void scope_put(sn_state *state, sn_tensor *t) {
    tensor_set_scope_place(t, state->handles.n + 1);
    state->handles.at[state->handles.n++] = t;
}

/* All return tensors owned by the innermost scope, NULL on error. */
sn_tensor *tensor_new(const Meta *meta); /* fresh uninitialised storage */
sn_tensor *tensor_new_zero(const Meta *meta);
sn_tensor *tensor_view(sn_tensor *base, const Meta *meta, int64_t offset); /* shares storage */
void tensor_mark_inference(sn_tensor *t);                                  /* as if made in inference mode */
/* Another handle of t's data, of the same mode, without history: the caller's, not a scope's. NULL raises. */
sn_tensor *tensor_alias(const sn_tensor *t);
/* Retains storage. */
sn_tensor *tensor_from_storage(Storage *storage, const Meta *meta, int64_t offset);
/* 0-dim, wrapped; dtype DT_default: the number's */
sn_tensor *tensor_scalar(const Arg *number, DType dtype);

/* The handle of one example: inner without its dim 0; retains inner. */
sn_tensor *tensor_batched(sn_tensor *inner, uint32_t level);
/* The same with all dims: a handle of another transform's level, which shares the version of what it is a view of
 * (NULL: of none). */
sn_tensor *tensor_wrapped(sn_tensor *inner, uint32_t level, const sn_tensor *of);
static inline bool tensor_is_wrapped(const sn_tensor *t) { return t->flags & TF_whole; }
static inline bool tensor_is_batched(const sn_tensor *t) { return t->flags & TF_batched; }
/* Makes t, batched, what `from`, of the same level, is. */
void tensor_batched_become(sn_tensor *t, const sn_tensor *from);

/* A key of KEYS_UNCAPTURED: from now on some tensor may have one, and calls look at their inputs. */
void tensor_add_key(sn_tensor *t, uint64_t key);
extern _Atomic bool tensor_keys_added;

/* Like tensor_new with no storage: a meta tensor, or one that is given its storage next. */
sn_tensor *tensor_without_data(const Meta *meta);
/* The same, with the key that has no op of it look for values, whatever device it claims. NULL raises. */
sn_tensor *tensor_fake(const Meta *meta);
/* Gives a tensor without data its storage (retained). */
void tensor_set_storage(sn_tensor *t, Storage *storage, int64_t offset);

static inline void tensor_retain(sn_tensor *t) { refs_add(&t->refs, 1); }
static inline sn_tensor *tensor_retained(sn_tensor *t) { /* t with one reference more; NULL allowed */
    if (t) tensor_retain(t);
    return t;
}
void tensor_free(sn_tensor *t);                   /* whose last reference has gone */
static inline void tensor_release(sn_tensor *t) { /* NULL allowed */
    if (t && refs_drop(&t->refs)) tensor_free(t);
}

/* Lays t out otherwise, over the same memory. */
void tensor_set_meta(sn_tensor *t, const Meta *meta);

/* A block of a class: the thread's newest free one, or memory. */
void *tensor_block_new(int class);
static inline void *tensor_block_alloc(sn_state *state, int class) {
    void *const block = state->blocks.first[class];
    if (UNLIKELY(!block)) return tensor_block_new(class);
    state->blocks.first[class] = *(void **)block;
    state->blocks.n[class]--;
    return block;
}

/* To the innermost scope goes one reference; NULL when memory is out. */
static inline sn_tensor *tensor_adopt(sn_state *state, sn_tensor *t) {
    const bool plain = state->n_scopes && !state->scopes[state->n_scopes - 1].owned;
    if (UNLIKELY(!plain || state->handles.n == state->handles.capacity)) return scope_adopt(state, t) ? t : NULL;
    scope_put(state, t);
    return t;
}

/* A tensor whose value is not computed yet: the scope holds it, and the caller a second reference. */
static ALWAYS_INLINE sn_tensor *tensor_pending(sn_state *state, const Meta *meta, bool inference, uint64_t keys,
                                               struct Placeholder *placeholder) {
    sn_tensor *const t = tensor_block_alloc(state, BLOCK_header);
    if (UNLIKELY(!t)) return NULL;
    meta_retain(meta);
    *t = (sn_tensor){.base = {meta},
                     .refs = 2,
                     .flags = inference ? TF_inference : 0,
                     .block = BLOCK_header,
                     .keys = keys,
                     .placeholder = placeholder};
    if (LIKELY(tensor_adopt(state, t) != NULL)) return t;
    t->placeholder = NULL;
    tensor_release(t);
    return NULL;
}

/* First element. The tensor must have data: see tensor_ready. */
static inline void *tensor_data(const sn_tensor *t) {
    char *const data = t->storage->data;
    return LIKELY(!t->offset) ? data : data + t->offset * dtype_bytes(t->base.meta->dtype);
}
void tensor_written(sn_tensor *t); /* bumps the version */
uint32_t bare_version_now(const sn_tensor *t);
static inline uint32_t tensor_version(const sn_tensor *t) {
    if (LIKELY(t->storage != NULL)) return atomic_load(&t->storage->version);
    return UNLIKELY(t->flags & TF_versioned) ? bare_version_now(t) : 0;
}

/* Host code is about to write memory that any tensor may depend on: what is pending runs first. */
Status tensor_materialize_all(Reason why);
/* t usable by a function that needs its data: not NULL, not an error handle, flushed. Raises,
 * naming `what`. */
Status tensor_ready(sn_tensor *t, const char *what);
/* The same for what asks no value: a fake tensor, or one on the meta device, stays as it is. */
Status tensor_materialize(sn_tensor *t, const char *what);
/* The same; `why` is the reason of a break in a compiled function. */
Status tensor_ready_for(sn_tensor *t, const char *what, Reason why);
Status tensor_materialize_for(sn_tensor *t, const char *what, Reason why);
/* The same for what asks about the handle alone, of a sparse tensor or one of a level as well. */
Status tensor_handle_materialize(sn_tensor *t, const char *what);
/* A ready tensor where the host may read it: itself, or a copy in the same layout; the caller's reference. NULL
 * raises. */
sn_tensor *tensor_copy_to_host(sn_tensor *t);
static inline sn_tensor *tensor_on_host(sn_tensor *t) {
    return LIKELY(device_is_host(t->base.meta->device)) ? tensor_retained(t) : tensor_copy_to_host(t);
}
/* Raises where t is a handle of a level (sn_vmap, sn_func_grad...), for what is no op. */
Status tensor_alone(const sn_tensor *t, const char *what);
/* The one element on the host: the caller's reference; NULL raises. */
sn_tensor *tensor_item(sn_tensor *t, const char *what);
/* The same without data: metadata suffices. */
Status tensor_invalid(const sn_tensor *t, const char *what); /* of one that is not: raises why */
static inline Status tensor_valid(const sn_tensor *t, const char *what) {
    return LIKELY(t && !(t->flags & TF_error)) ? error_pending() : tensor_invalid(t, what);
}

/* One reference; from the caching allocator, 64-byte aligned. */
Storage *storage_new(Device device, size_t bytes);
/* A tensor of the user's memory for one call; header and storage are one block. read_only: of the storage. */
sn_tensor *tensor_lent(const Meta *meta, void *data, size_t bytes, bool read_only);
/* The user's memory. */
Storage *storage_wrap(Device device, void *data, size_t bytes, sn_free_fn free, void *context);
/* Keeps the bytes; refused for user memory. */
Status storage_resize(Storage *storage, size_t bytes);
static inline void storage_retain(Storage *storage) { refs_add(&storage->refs, 1); }
void storage_release(Storage *storage);

void tensor_blocks_trim(sn_state *state); /* frees the thread's kept blocks */
/* on: it keeps none, so that each tensor comes from the allocator (tracking.h). */
void tensor_blocks_track(sn_state *state, bool on);

#endif
