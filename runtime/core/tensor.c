/* tensor.c: making and freeing tensors. A block of a size class holds header, storage and small
 * payload; freed blocks wait in the thread's list of their class (at most KEEP of each), so that a
 * small result costs no malloc.
 *
 * Who frees what: a tensor holds one reference of its storage. A BLOCK_header tensor is freed when
 * it dies; the block of any other is freed when the storage inside dies, which the tensor's own
 * reference keeps from happening earlier. */
#include "runtime/core/tensor.h"

#include "runtime/base/alloc.h"
#include "runtime/core/bare_version.h"
#include "runtime/core/breaks.h"
#include "runtime/core/dispatch.h"
#include "runtime/core/ends.h"
#include "runtime/core/tracer.h"
#include "runtime/core/memory.h"
#include "runtime/core/tracking.h"

enum { HEADER_BYTES = 64, KEEP = 1024 };
_Static_assert(sizeof(sn_tensor) == HEADER_BYTES, "the storage begins at 64");
_Static_assert(sizeof(Storage) <= HEADER_BYTES, "the payload begins at 128");

static const size_t payload_bytes[BLOCK_CLASSES] = {0, 128, 512, 0};

static inline int block_class(size_t bytes) {
    return bytes <= payload_bytes[BLOCK_small]    ? BLOCK_small
           : bytes <= payload_bytes[BLOCK_medium] ? BLOCK_medium
                                                  : BLOCK_large;
}

static inline size_t block_bytes(int class) {
    return class == BLOCK_header ? HEADER_BYTES : 2 * HEADER_BYTES + payload_bytes[class];
}

void *tensor_block_new(int class) {
    void *const block = mem_aligned(HEADER_BYTES, block_bytes(class));
    if (LIKELY(!tracking_is_on()) || !block || tracking_made(block, block_bytes(class))) return block;
    mem_free(block);
    return NULL;
}

static inline void block_put_back(void *block, int class) {
#ifndef SINTER_PLAIN_MALLOC
    sn_state *const state = state_current;
    if (LIKELY(state && state->blocks.n[class] < KEEP)) {
        *(void **)block = state->blocks.first[class];
        state->blocks.first[class] = block;
        state->blocks.n[class]++;
        return;
    }
#endif
    (void)class;
    if (UNLIKELY(tracking_is_on()) && tracking_gone(block)) return;
    mem_free(block);
}

/* Full lists of nothing: every block is the allocator's. */
void tensor_blocks_track(sn_state *state, bool on) {
    tensor_blocks_trim(state);
    for (int class = 0; on && class < BLOCK_CLASSES; class ++) state->blocks.n[class] = KEEP;
}

void tensor_blocks_trim(sn_state *state) {
    for (int class = 0; class < BLOCK_CLASSES; class ++) {
        while (state->blocks.first[class]) {
            void *const block = state->blocks.first[class];
            state->blocks.first[class] = *(void **)block;
            mem_free(block);
        }
        state->blocks.n[class] = 0;
    }
}

static inline Storage *storage_in(void *block) { return (Storage *)((char *)block + HEADER_BYTES); }
static inline void *block_of(Storage *storage) { return (char *)storage - HEADER_BYTES; }

/* Header fields of a new tensor with one reference, given to the scope. */
static inline sn_tensor *begin_tensor(sn_state *state, void *block, int class, const Meta *meta) {
    sn_tensor *const t = block;
    const bool inference = state->grad_mode == SN_INFERENCE;
    meta_retain(meta);
    *t = (sn_tensor){.base = {meta},
                     .block = (uint8_t) class,
                     .flags = inference ? TF_inference : 0,
                     .keys = inference ? meta_keys(meta) & ~KEY_BIT(autograd) : meta_keys(meta)};
    atomic_init(&t->refs, 1);
    return t;
}

static Status fill_storage(Storage *storage, void *payload, int class, const Memory *memory, Device device,
                           size_t bytes) {
    *storage = (Storage){.device = device, .block = (uint8_t) class, .bytes = bytes, .memory = memory};
    atomic_init(&storage->refs, 1);
    storage->data = class == BLOCK_large || class == BLOCK_header ? memory->allocate(memory, bytes) : payload;
    return storage->data ? ST_OK : ST_MEMORY;
}

sn_tensor *tensor_without_data(const Meta *meta) {
    sn_state *const state = state_get();
    void *const block = tensor_block_alloc(state, BLOCK_header);
    return block ? tensor_adopt(state, begin_tensor(state, block, BLOCK_header, meta)) : NULL;
}

_Atomic bool tensor_keys_added;

void tensor_add_key(sn_tensor *t, uint64_t key) {
    t->keys |= key;
    atomic_store_explicit(&tensor_keys_added, true, memory_order_relaxed);
}

sn_tensor *tensor_fake(const Meta *meta) {
    sn_tensor *const t = meta ? tensor_without_data(meta) : NULL;
    if (t) tensor_add_key(t, KEY_BIT(fake));
    return t;
}

/* In memory that the host may not touch: no payload beside the header. */
static COLD sn_tensor *new_elsewhere(const Meta *meta) {
    if (!device_has_memory(meta->device)) return tensor_without_data(meta);
    Storage *const storage = storage_new(meta->device, meta_bytes(meta));
    sn_tensor *const t = storage ? tensor_from_storage(storage, meta, 0) : NULL;
    if (storage) storage_release(storage);
    return t;
}

sn_tensor *tensor_new(const Meta *meta) {
    if (UNLIKELY(!device_is_host(meta->device))) return new_elsewhere(meta);
    sn_state *const state = state_get();
    const size_t bytes = meta_bytes(meta);
    const int class = block_class(bytes);
    char *const block = tensor_block_alloc(state, class);
    if (UNLIKELY(!block)) return NULL;
    sn_tensor *const t = begin_tensor(state, block, class, meta);
    Storage *const storage = storage_in(block);
    if (UNLIKELY(fill_storage(storage, block + 2 * HEADER_BYTES, class, memory_host(), DEV_host, bytes) != ST_OK)) {
        meta_release(meta);
        block_put_back(block, class);
        return NULL;
    }
    t->storage = storage;
    return tensor_adopt(state, t);
}

sn_tensor *tensor_new_zero(const Meta *meta) {
    sn_tensor *const t = tensor_new(meta);
    if (!t || !t->storage) return t;
    const Storage *const storage = t->storage;
    return memory_fill(storage->memory, storage->data, 0, storage->bytes) == ST_OK ? t : NULL;
}

sn_tensor *tensor_from_storage(Storage *storage, const Meta *meta, int64_t offset) {
    sn_tensor *const t = tensor_without_data(meta);
    if (t) tensor_set_storage(t, storage, offset);
    return t;
}

void tensor_set_storage(sn_tensor *t, Storage *storage, int64_t offset) {
    if (storage) storage_retain(storage);
    t->storage = storage;
    t->offset = offset;
}

/* What is captured here may remember t as it was. */
void tensor_set_meta(sn_tensor *t, const Meta *meta) {
    const Meta *const before = t->base.meta;
    meta_retain(meta);
    t->base.meta = meta;
    if (tracer_recording(state_get())) meta_stay(before);
    meta_release(before);
}

void tensor_mark_inference(sn_tensor *t) {
    t->keys &= ~KEY_BIT(autograd);
    t->flags |= TF_inference;
}

sn_tensor *tensor_view(sn_tensor *base, const Meta *meta, int64_t offset) {
    sn_tensor *const t = tensor_from_storage(base->storage, meta, offset);
    if (!t) return NULL;
    t->keys = base->keys; /* an inference tensor's views are such, whatever the mode */
    const uint8_t flags = (uint8_t)((t->flags & ~TF_inference) | (base->flags & TF_inference));
    atomic_store_explicit(&t->flags, flags, memory_order_relaxed);
    return LIKELY(base->storage != NULL) || bare_version_share(t, base) == ST_OK ? t : NULL;
}

/* A handle that stands for what t does, of its level. */
static void become_handle(sn_tensor *t, const sn_tensor *of, sn_tensor *inner) {
    t->keys = inner->keys | KEY_BIT(vmap);
    atomic_store_explicit(&t->flags, of->flags & (TF_batched | TF_whole), memory_order_relaxed);
    t->inner = tensor_retained(inner);
    t->level = of->level;
}

sn_tensor *tensor_alias(const sn_tensor *t) {
    sn_tensor *const alias = tensor_block_alloc(state_get(), BLOCK_header);
    if (UNLIKELY(!alias)) return NULL;
    meta_retain(t->base.meta);
    *alias = (sn_tensor){
        .base = t->base, .refs = 1, .flags = t->flags & TF_inference, .block = BLOCK_header, .keys = t->keys};
    tensor_set_storage(alias, t->storage, t->offset);
    if (UNLIKELY(tensor_is_batched(t))) become_handle(alias, t, t->inner);
    if (LIKELY(t->storage != NULL) || bare_version_share(alias, t) == ST_OK) return alias;
    tensor_release(alias);
    return NULL;
}

static void store_number(void *to, DType dtype, const Arg *number) {
    const int64_t i = arg_int(number, dtype_compute(dtype));
    const double f = arg_double(number);
    const float single = arg_single(number);
    if (dtype == DT_f64)
        memcpy(to, &f, 8);
    else if (dtype == DT_f32)
        memcpy(to, &single, 4);
    else if (dtype == DT_bool)
        *(uint8_t *)to = f != 0;
    else
        memcpy(to, &i, (size_t)dtype_bytes(dtype)); /* little-endian: low bytes */
}

static DType number_dtype(const Arg *number) {
    return number->kind == ARG_float ? DT_f64 : number->kind == ARG_bool ? DT_bool : DT_i64;
}

sn_tensor *tensor_scalar(const Arg *number, DType dtype) {
    if (dtype == DT_default) dtype = number_dtype(number);
    if (dtype == DT_f16 || dtype == DT_bf16) dtype = DT_f32; /* callers cast where they need it */
    const Meta *const meta = meta_intern(dtype, DEV_cpu, NULL, NULL, 0, true);
    sn_tensor *const t = meta ? tensor_new(meta) : NULL;
    if (t) store_number(t->storage->data, dtype, number);
    return t;
}

static COLD void free_handle(sn_tensor *t) {
    sn_tensor *const inner = t->inner;
    block_put_back(t, BLOCK_header);
    tensor_release(inner);
}

/* The tensor's history goes last: a closure_free there may leave by a jump. */
void tensor_free(sn_tensor *t) {
    struct AutogradMeta *const history = t->autograd;
    Storage *const storage = t->storage;
    if (UNLIKELY(t->flags & TF_versioned)) bare_version_drop(t);
    meta_release(t->base.meta);
    if (t->block != BLOCK_header)
        atomic_store_explicit(&t->refs, 0, memory_order_relaxed); /* the block lives on while views do */
    else if (UNLIKELY(tensor_is_batched(t)))
        free_handle(t);
    else
        block_put_back(t, BLOCK_header);
    if (LIKELY(storage != NULL)) storage_release(storage);
    if (UNLIKELY(history != NULL)) history_class(history)->free(history);
}

static const Meta *meta_of_example(const Meta *all) {
    return meta_intern(all->dtype, all->device, all->sizes + 1, all->strides + 1, all->rank - 1, false);
}

sn_tensor *tensor_batched(sn_tensor *inner, uint32_t level) {
    const Meta *const meta = meta_of_example(inner->base.meta);
    sn_tensor *const t = meta ? tensor_without_data(meta) : NULL;
    if (!t) return NULL;
    become_handle(t, &(sn_tensor){.flags = TF_batched, .level = level}, inner);
    return t;
}

sn_tensor *tensor_wrapped(sn_tensor *inner, uint32_t level, const sn_tensor *of) {
    Storage *const version = of ? of->storage : storage_wrap(inner->base.meta->device, NULL, 0, NULL, NULL);
    sn_tensor *const t = version ? tensor_without_data(inner->base.meta) : NULL;
    if (t) tensor_set_storage(t, version, 0);
    if (!of && version) storage_release(version);
    if (t) become_handle(t, &(sn_tensor){.flags = TF_batched | TF_whole, .level = level}, inner);
    return t;
}

void tensor_batched_become(sn_tensor *t, const sn_tensor *from) {
    sn_tensor *const before = t->inner;
    tensor_set_meta(t, from->base.meta);
    t->inner = tensor_retained(from->inner);
    t->keys = from->keys;
    tensor_release(before);
}

void tensor_written(sn_tensor *t) {
    if (LIKELY(t->storage != NULL))
        atomic_fetch_add_explicit(&t->storage->version, 1, memory_order_relaxed);
    else
        bare_version_bump(t);
}

Status tensor_materialize_all(Reason why) { return tracer_settle(why); }

Status tensor_invalid(const sn_tensor *t, const char *what) {
    const Status pending = error_pending();
    if (pending != ST_OK) return pending;
    if (t) TRY(tracking_error(t, what));
    return t ? error_raise(ST_STATE, "%s: the tensor is the result of an op that failed", what)
             : error_raise(ST_ARGUMENT, "%s: the tensor is NULL", what);
}

Status tensor_alone(const sn_tensor *t, const char *what) {
    if (LIKELY(!tensor_is_batched(t))) return ST_OK;
    if (!tensor_is_wrapped(t))
        return error_raise(ST_STATE, "%s: inside of sn_vmap a tensor stands for many examples; only ops take it", what);
    return error_raise(ST_STATE,
                       "%s: inside of sn_func_grad and its like a tensor stands for another; only ops take it", what);
}

/* The place of its own call is the caller's: a break there names `what`. */
static Status flush_for(sn_tensor *t, const char *what, Reason why) {
    sn_state *const state = state_get();
    if (!state->breaker) state->breaker = what;
    const Status status = tracer_make(t, why);
    state->breaker = NULL;
    return status;
}

Status tensor_ready(sn_tensor *t, const char *what) { return tensor_ready_for(t, what, BREAK_REASON(host_value)); }

Status tensor_ready_for(sn_tensor *t, const char *what, Reason why) {
    TRY(tensor_valid(t, what));
    TRY(state_untraced(what));
    TRY(tensor_alone(t, what));
    if (UNLIKELY(t->placeholder != NULL || tracer_recording(state_get()))) TRY(flush_for(t, what, why));
    if (UNLIKELY(t->keys & KEYS_SPARSE))
        return error_raise(ST_UNSUPPORTED, "%s: a sparse tensor has no memory of its own: sn_to_dense", what);
    if (t->storage) return ST_OK;
    if (tensor_is_fake(t))
        return error_raise(ST_STATE, "%s: a fake tensor (sn_fake_mode_set) on %s has no values", what,
                           DEVICE_TEXT(t->base.meta->device));
    return error_raise(ST_DEVICE, "%s: a tensor on the %s device has no data", what, DEVICE_TEXT(t->base.meta->device));
}

Status tensor_materialize(sn_tensor *t, const char *what) {
    return tensor_materialize_for(t, what, BREAK_REASON(host_value));
}

Status tensor_materialize_for(sn_tensor *t, const char *what, Reason why) {
    TRY(tensor_valid(t, what));
    TRY(tensor_alone(t, what));
    return t->storage || t->placeholder ? tensor_ready_for(t, what, why) : state_untraced(what);
}

Status tensor_handle_materialize(sn_tensor *t, const char *what) {
    TRY(tensor_valid(t, what));
    const bool bare = !t->placeholder && (!t->storage || t->keys & KEYS_SPARSE);
    return bare ? ST_OK : tensor_ready(t, what);
}

sn_tensor *tensor_copy_to_host(sn_tensor *t) {
    const Meta *const there = t->base.meta;
    const Meta *const meta =
        meta_intern(there->dtype, DEV_host, there->sizes, there->strides, there->rank, there->wrapped);
    sn_tensor *const copy = meta ? tensor_new(meta) : NULL;
    const size_t bytes = copy && there->numel ? meta_bytes(meta) : 0;
    if (!copy || memory_copy(memory_host(), tensor_data(copy), t->storage->memory, tensor_data(t), bytes) != ST_OK)
        return NULL;
    if (!scope_disown(state_get(), copy)) tensor_retain(copy);
    return copy;
}

sn_tensor *tensor_item(sn_tensor *t, const char *what) {
    while (t && UNLIKELY(tensor_is_wrapped(t))) t = t->inner;
    if (tensor_ready(t, what) != ST_OK) return NULL;
    if (t->base.meta->numel == 1) return tensor_on_host(t);
    error_raise(ST_SHAPE, "%s: a tensor with %lld elements has no single value", what, (long long)t->base.meta->numel);
    return NULL;
}

/* storage ------------------------------------------------------------------------------------- */

Storage *storage_new(Device device, size_t bytes) {
    const Memory *const memory = memory_needed(device);
    Storage *const storage = memory ? mem_alloc(sizeof *storage) : NULL;
    if (!storage) return NULL;
    if (fill_storage(storage, NULL, BLOCK_header, memory, device, bytes) == ST_OK) return storage;
    mem_free(storage);
    return NULL;
}

Storage *storage_wrap(Device device, void *data, size_t bytes, sn_free_fn free, void *context) {
    Storage *const storage = mem_alloc(sizeof *storage);
    if (!storage) return NULL;
    *storage = (Storage){.device = device,
                         .user_owned = true,
                         .pointer_given = true,
                         .data = data,
                         .bytes = bytes,
                         .memory = memory_of_device(device),
                         .free = free,
                         .context = context};
    atomic_init(&storage->refs, 1);
    return storage;
}

sn_tensor *tensor_lent(const Meta *meta, void *data, size_t bytes, bool read_only) {
    sn_state *const state = state_get();
    char *const block = tensor_block_alloc(state, BLOCK_large);
    if (UNLIKELY(!block)) return NULL;
    sn_tensor *const t = begin_tensor(state, block, BLOCK_large, meta);
    Storage *const storage = storage_in(block);
    *storage = (Storage){.device = meta->device,
                         .user_owned = true,
                         .read_only = read_only,
                         .pointer_given = true,
                         .block = BLOCK_large,
                         .data = data,
                         .bytes = bytes,
                         .memory = device_is_host(meta->device) ? memory_host() : memory_of_device(meta->device)};
    atomic_init(&storage->refs, 1);
    t->storage = storage;
    t->flags |= TF_lent;
    return tensor_adopt(state, t);
}

static bool has_payload(const Storage *storage) {
    return storage->block == BLOCK_small || storage->block == BLOCK_medium;
}

/* Whether data points into the block (a resize may have moved it out). */
static bool data_is_payload(Storage *storage) {
    return has_payload(storage) && storage->data == (char *)block_of(storage) + 2 * HEADER_BYTES;
}

static void free_data(Storage *storage) {
    if (data_is_payload(storage)) return;
    if (!storage->user_owned) {
        if (storage->data) storage->memory->free(storage->memory, storage->data, storage->bytes);
        return;
    }
    if (!storage->free) return;
    memory_drain(storage->memory);
    storage->free(storage->data, storage->context);
}

Status storage_resize(Storage *storage, size_t bytes) {
    if (storage->user_owned)
        return error_raise(ST_UNSUPPORTED, "memory of %zu bytes that the program owns cannot be resized",
                           storage->bytes);
    const Memory *const memory = storage->memory;
    void *const data = memory->allocate(memory, bytes);
    if (!data) return ST_MEMORY;
    const size_t kept = storage->bytes < bytes ? storage->bytes : bytes;
    Status status = memory_copy(memory, data, memory, storage->data, kept);
    if (status == ST_OK) /* an op that fails may leave it as it is */
        status = memory_fill(memory, (char *)data + kept, 0, bytes - kept);
    if (status != ST_OK) {
        memory->free(memory, data, bytes);
        return status;
    }
    free_data(storage);
    storage->data = data;
    storage->bytes = bytes;
    return ST_OK;
}

void storage_release(Storage *storage) {
    if (!refs_drop(&storage->refs)) {
        if (UNLIKELY(tracking_is_on()) && storage->block != BLOCK_header) tracking_ended(block_of(storage));
        return;
    }
    free_data(storage);
    if (storage->block == BLOCK_header)
        mem_free(storage);
    else
        block_put_back(block_of(storage), storage->block);
}
