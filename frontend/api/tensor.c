/* tensor.c: lifetime, metadata, values and memory of tensors (sinter/tensor.h). */
#include <math.h>
#include <sinter/device.h>
#include <sinter/tensor.h>
#include <stdio.h>

#include "frontend/api/enter.h"
#include "frontend/api/sparse.h"
#include "runtime/base/alloc.h"
#include "runtime/base/spans.h"
#include "runtime/core/element.h"
#include "runtime/core/repr.h"
#include "runtime/autograd/query.h"
#include "runtime/autograd/tape.h"
#include "runtime/core/tensor.h"
#include "runtime/core/tracer.h"
#include "runtime/core/tracking.h"
#include "runtime/autograd/region.h"
#include "runtime/device/device.h"

#define SAME(a, b) _Static_assert((int)(a) == (int)(b), "the public enum mirrors the internal one")
SAME(SN_F64, DT_f64);
SAME(SN_F32, DT_f32);
SAME(SN_BF16, DT_bf16);
SAME(SN_I64, DT_i64);
SAME(SN_U8, DT_u8);
SAME(SN_BOOL, DT_bool);
SAME(SN_KIND_DEFAULT, ARG_default);
SAME(SN_KIND_TENSOR, ARG_tensor);
SAME(SN_KIND_STRING, ARG_string);
SAME(SN_KIND_TENSORS, ARG_tensors);
SAME(SN_CPU, DEV_cpu);
SAME(SN_META, DEV_meta);
SAME(SN_CUDA(0), DEV_cuda);
_Static_assert(sizeof(sn_value) == sizeof(Arg) && offsetof(sn_value, tensor) == offsetof(Arg, val), "one layout");

/* lifetime ------------------------------------------------------------------------------------ */

/* Under check_handles: nobody holds a handle that has ended. */
static bool has_ended(const sn_tensor *t, const char *what) {
    return UNLIKELY(t->flags & TF_error) && tracking_error(t, what) != ST_OK;
}

sn_tensor *sn_keep(sn_tensor *t) {
    API_ENTER(sn_keep);
    if (!t || state_untraced("sn_keep") != ST_OK || has_ended(t, "sn_keep")) return NULL;
    tracking_kept(t, __builtin_return_address(0));
    sn_state *const state = state_get();
    const uint32_t first = state->n_scopes ? state->scopes[state->n_scopes - 1].first : 0;
    const bool innermost = tensor_in_scope(t) && tensor_scope_slot(t) >= first;
    if (!innermost || !scope_disown(state, t)) tensor_retain(t);
    return t;
}

sn_tensor *sn_retain(sn_tensor *t) {
    API_ENTER(sn_retain);
    if (!t || state_untraced("sn_retain") != ST_OK || has_ended(t, "sn_retain")) return NULL;
    if (UNLIKELY(tracking_is_on())) tracking_kept(t, __builtin_return_address(0));
    tensor_retain(t);
    return t;
}

/* At the call where it ends. */
static COLD void release_tracked(sn_tensor *t, const void *at) {
    sn_state *const state = state_get();
    const void *const site = state->site;
    state->site = at;
    tensor_release(t);
    state->site = site;
}

void sn_release(sn_tensor *t) {
    API_ENTER(sn_release);
    if (!t || has_ended(t, "sn_release")) return;
    if (UNLIKELY(tracking_is_on())) return release_tracked(t, __builtin_return_address(0));
    tensor_release(t);
}

/* metadata ------------------------------------------------------------------------------------ */

static const Meta *meta_of(sn_tensor *t, const char *what) {
    return tensor_valid(t, what) == ST_OK ? t->base.meta : NULL;
}

int64_t sn_rank(sn_tensor *t) {
    API_ENTER(sn_rank);
    return meta_of(t, "sn_rank") ? query_ask(QUERY_rank, t, 0) : 0;
}

int64_t sn_size(sn_tensor *t, int64_t dim) {
    API_ENTER(sn_size);
    const Meta *const meta = meta_of(t, "sn_size");
    if (!meta) return 0;
    query_ask(QUERY_rank, t, 0);
    if (dim >= -meta->rank && dim < meta->rank) return query_ask(QUERY_size, t, dim < 0 ? dim + meta->rank : dim);
    error_raise(ST_SHAPE, "sn_size: dim %lld is out of range for a tensor of rank %d", (long long)dim, meta->rank);
    return 0;
}

static void show_sizes(sn_tensor *t) {
    query_ask(QUERY_rank, t, 0);
    for (int d = 0; d < t->base.meta->rank; d++) query_ask(QUERY_size, t, d);
}

int64_t sn_numel(sn_tensor *t) {
    API_ENTER(sn_numel);
    const Meta *const meta = meta_of(t, "sn_numel");
    if (meta) show_sizes(t);
    return meta ? meta->numel : 0;
}

sn_ints sn_sizes(sn_tensor *t) {
    API_ENTER(sn_sizes);
    const Meta *const meta = meta_of(t, "sn_sizes");
    if (meta) show_sizes(t);
    return meta ? (sn_ints){meta->sizes, meta->rank} : (sn_ints){0};
}

sn_ints sn_strides(sn_tensor *t) {
    API_ENTER(sn_strides);
    const Meta *const meta = meta_of(t, "sn_strides");
    for (int d = 0; meta && d < meta->rank; d++) query_ask(QUERY_stride, t, d);
    if (meta) query_ask(QUERY_rank, t, 0);
    return meta ? (sn_ints){meta->strides, meta->rank} : (sn_ints){0};
}

sn_dtype sn_dtype_of(sn_tensor *t) {
    API_ENTER(sn_dtype_of);
    return meta_of(t, "sn_dtype_of") ? (sn_dtype)query_ask(QUERY_dtype, t, 0) : SN_DTYPE_DEFAULT;
}

sn_device sn_device_of(sn_tensor *t) {
    API_ENTER(sn_device_of);
    return meta_of(t, "sn_device_of") ? (sn_device)query_ask(QUERY_device, t, 0) : -1;
}

bool sn_is_contiguous(sn_tensor *t) {
    API_ENTER(sn_is_contiguous);
    return meta_of(t, "sn_is_contiguous") && query_ask(QUERY_contiguous, t, 0);
}

/* values -------------------------------------------------------------------------------------- */

bool sn_ok(sn_tensor *t) {
    API_ENTER(sn_ok);
    return t && !(t->flags & TF_error);
}

static sn_status check_layout(sn_tensor *t, sn_dtype expected, const char *what) {
    const Meta *const meta = t->base.meta;
    if ((sn_dtype)meta->dtype != expected)
        return (sn_status)error_raise(ST_DTYPE, "%s: the tensor is %s, not %s", what, dtype_name(meta->dtype),
                                      (int)expected > 0 && (int)expected < DT_COUNT ? dtype_name((DType)expected)
                                                                                    : "that");
    if (!meta->contiguous)
        return (sn_status)error_raise(ST_SHAPE, "%s: the tensor is not contiguous; take sn_contiguous(t)", what);
    return SN_OK;
}

/* A pointer that host code will follow. */
static Status check_host(const sn_tensor *t, const char *what) {
    const Device device = t->base.meta->device;
    if (LIKELY(device_is_host(device))) return ST_OK;
    return error_raise(ST_DEVICE, "%s: the tensor is on %s, whose memory the host cannot reach; take sn_to_device",
                       what, DEVICE_TEXT(device));
}

const void *sn_data(sn_tensor *t, sn_dtype expected) {
    API_ENTER(sn_data);
    if (tensor_ready(t, "sn_data") != ST_OK || check_host(t, "sn_data") != ST_OK ||
        check_layout(t, expected, "sn_data") != SN_OK)
        return NULL;
    return tensor_data(t);
}

static Status check_writable(const sn_tensor *t, const char *what) {
    if (t->flags & TF_inference && state_get()->grad_mode != SN_INFERENCE)
        return error_raise(ST_STATE, "%s: a tensor made in inference mode would be written outside of it", what);
    return t->storage->read_only ? error_raise(ST_STATE, "%s: the memory is read-only", what) : ST_OK;
}

void *sn_data_mut(sn_tensor *t, sn_dtype expected) {
    API_ENTER(sn_data_mut);
    if (tensor_materialize_all(REASON_CALLED(sn_data_mut)) != ST_OK || tensor_ready(t, "sn_data_mut") != ST_OK ||
        check_host(t, "sn_data_mut") != ST_OK || check_layout(t, expected, "sn_data_mut") != SN_OK)
        return NULL;
    if (check_writable(t, "sn_data_mut") != ST_OK) return NULL;
    t->storage->pointer_given = true;
    tensor_written(t);
    return tensor_data(t);
}

void *sn_data_raw(sn_tensor *t) {
    API_ENTER(sn_data_raw);
    if (tensor_materialize_all(REASON_CALLED(sn_data_raw)) != ST_OK || tensor_ready(t, "sn_data_raw") != ST_OK)
        return NULL;
    t->storage->pointer_given = true;
    return tensor_data(t);
}

sn_status sn_touch(sn_tensor *t) {
    API_ENTER(sn_touch);
    if (tensor_materialize_all(REASON_CALLED(sn_touch)) != ST_OK || tensor_ready(t, "sn_touch") != ST_OK)
        return sn_check();
    tensor_written(t);
    return SN_OK;
}

static void append_element(void *context, const char *element, size_t bytes) {
    char **const to = context;
    memcpy(*to, element, bytes);
    *to += bytes;
}

sn_status sn_read(sn_tensor *t, void *to, size_t bytes) {
    API_ENTER(sn_read);
    if (tensor_ready(t, "sn_read") != ST_OK) return sn_check();
    const Meta *const meta = t->base.meta;
    const size_t needed = (size_t)meta->numel * (size_t)dtype_bytes(meta->dtype);
    if (bytes != needed)
        return (sn_status)error_raise(ST_ARGUMENT, "sn_read: %zu bytes of room for a tensor of %zu bytes", bytes,
                                      needed);
    if (!needed) return SN_OK;
    if (!to) return (sn_status)error_raise(ST_ARGUMENT, "sn_read: the destination is NULL");
    sn_tensor *const here = tensor_on_host(t);
    if (!here) return sn_check();
    if (meta->contiguous)
        memcpy(to, tensor_data(here), bytes);
    else
        each_element(here, append_element, &(char *){to});
    tensor_release(here);
    return SN_OK;
}

int64_t sn_storage_offset(sn_tensor *t) {
    API_ENTER(sn_storage_offset);
    return tensor_materialize(t, "sn_storage_offset") == ST_OK ? t->offset : 0;
}

static int64_t whole_number(double value) {
    if (double_is_i64(value)) return double_to_i64(value);
    error_raise(ST_VALUE, "sn_item_int: %g is not an integer", value);
    return 0;
}

double sn_item(sn_tensor *t) {
    API_ENTER(sn_item);
    sn_tensor *const item = tensor_item(t, "sn_item");
    if (!item) return (double)NAN;
    const double value = element_double(item->base.meta->dtype, tensor_data(item));
    tensor_release(item);
    return value;
}

int64_t sn_item_int(sn_tensor *t) {
    API_ENTER(sn_item_int);
    sn_tensor *const item = tensor_item(t, "sn_item_int");
    if (!item) return 0;
    const DType dtype = item->base.meta->dtype;
    const void *const at = tensor_data(item);
    const int64_t value = dtype_is_float(dtype) ? whole_number(element_double(dtype, at)) : element_int(dtype, at);
    tensor_release(item);
    return value;
}

/* "grad_fn=<MulBackward0>" or "requires_grad=True", as far as there is one. */
static void print_gradient(const sn_tensor *t, Text *text) {
    const TapeNode *const node = t->autograd ? t->autograd->node : NULL;
    if (node) {
        text_puts(text, "grad_fn=<");
        node->class->name(node, text);
        text_puts(text, "0>");
    } else if (tape_tracks(t)) {
        text_puts(text, "requires_grad=True");
    }
}

const char *sn_repr(sn_tensor *t) {
    API_ENTER(sn_repr);
    if (tensor_valid(t, "sn_repr") != ST_OK) return "";
    const bool sparse = sparse_fields(t) != NULL;
    if ((sparse ? tensor_alone(t, "sn_repr") : tensor_materialize(t, "sn_repr")) != ST_OK) return "";
    Text gradient = {0}, text = {0};
    print_gradient(sparse ? sparse_fields(t)->values : t, &gradient); /* whose history it has */
    const Status printed =
        sparse ? sparse_print(t, text_str(&gradient), &text) : tensor_print(t, text_str(&gradient), &text);
    text_free(&gradient);
    if (printed != ST_OK) return text_free(&text), "";
    return state_text(state_get(), text.at);
}

/* tensors from memory ------------------------------------------------------------------------- */

static Status check_sizes(sn_ints sizes, sn_dtype dtype, const char *what) {
    if ((int)dtype <= DT_default || (int)dtype >= DT_COUNT)
        return error_raise(ST_DTYPE, "%s: dtype %d is unknown", what, (int)dtype);
    if (sizes.n < 0 || sizes.n > MAX_RANK || (sizes.n && !sizes.data))
        return error_raise(ST_SHAPE, "%s: a rank of %lld is not possible", what, (long long)sizes.n);
    for (int i = 0; i < sizes.n; i++)
        if (sym_is(sizes.data[i]))
            return error_raise(ST_ARGUMENT, "%s: size of dim %d is symbolic; take sn_sym_value", what, i);
    for (int i = 0; i < sizes.n; i++)
        if (sizes.data[i] < 0)
            return error_raise(ST_SHAPE, "%s: size %lld of dim %d is negative", what, (long long)sizes.data[i], i);
    return ST_OK;
}

/* Like any factory's result in that mode. */
static sn_tensor *fake_from_data(const Meta *meta) {
    return tensor_fake(meta_intern_contiguous(meta->dtype, state_get()->device, meta->sizes, meta->rank));
}

sn_tensor *sn_from_data(const void *data, sn_ints sizes, sn_dtype dtype) {
    API_ENTER(sn_from_data);
    if (error_pending() != ST_OK || check_sizes(sizes, dtype, "sn_from_data") != ST_OK) return NULL;
    const Meta *const meta = meta_intern_contiguous((DType)dtype, DEV_cpu, sizes.data, (int)sizes.n);
    if (!meta) return error_set_op("sn_from_data"), NULL;
    if (!data && meta->numel) {
        error_raise(ST_ARGUMENT, "sn_from_data: the data is NULL");
        return NULL;
    }
    if (UNLIKELY(state_get()->include & KEY_BIT(fake))) return fake_from_data(meta);
    sn_tensor *const t = tensor_new(meta);
    if (t && meta->numel) memcpy(tensor_data(t), data, meta_bytes(meta));
    if (t && UNLIKELY(state_get()->saved_hooks || tracer_recording(state_get()))) region_made(t);
    const Device device = state_get()->device;
    return t && UNLIKELY(device != DEV_cpu) ? sn_to_device(t, device) : t;
}

static const Meta *blob_meta(const sn_blob *blob) {
    if (!blob->strides.data)
        return meta_intern_contiguous((DType)blob->dtype, blob->device, blob->sizes.data, (int)blob->sizes.n);
    if (blob->strides.n != blob->sizes.n) {
        error_raise(ST_ARGUMENT, "sn_wrap: there are %lld strides for %lld sizes", (long long)blob->strides.n,
                    (long long)blob->sizes.n);
        return NULL;
    }
    for (int i = 0; i < blob->strides.n; i++)
        if (blob->strides.data[i] < 0) {
            error_raise(ST_ARGUMENT, "sn_wrap: stride %lld of dim %d is negative", (long long)blob->strides.data[i], i);
            return NULL;
        }
    return meta_intern((DType)blob->dtype, blob->device, blob->sizes.data, blob->strides.data, (int)blob->sizes.n,
                       false);
}

static Status check_blob(const sn_blob *blob) {
    if (!blob || blob->size < sizeof(size_t))
        return error_raise(ST_ARGUMENT, "sn_wrap: the blob is NULL or has no size");
    if (!device_exists(blob->device)) return error_raise(ST_ARGUMENT, "sn_wrap: %d is no device", (int)blob->device);
    if (!device_is_host(blob->device)) {
        if (blob->device < DEV_cuda)
            return error_raise(ST_DEVICE, "sn_wrap: %s is neither the CPU nor a CUDA device",
                               DEVICE_TEXT(blob->device));
        TRY(device_open(blob->device));
    }
    return check_sizes(blob->sizes, blob->dtype, "sn_wrap");
}

/* Older programs' blobs are shorter. */
static int64_t blob_offset(const sn_blob *blob) {
    return blob->size >= offsetof(sn_blob, offset) + sizeof blob->offset ? blob->offset : 0;
}

/* The layout of a blob that has room for it; NULL raises. */
static const Meta *checked_blob_meta(const sn_blob *blob) {
    if (error_pending() != ST_OK || check_blob(blob) != ST_OK) return NULL;
    const Meta *const meta = blob_meta(blob);
    if (!meta) return error_set_op("sn_wrap"), NULL;
    const size_t width = (size_t)dtype_bytes(meta->dtype);
    const int64_t offset = blob_offset(blob);
    if (offset < 0 || (size_t)offset > blob->bytes / width || meta_bytes(meta) > blob->bytes - (size_t)offset * width ||
        (!blob->data && meta->numel)) {
        error_raise(ST_ARGUMENT, "sn_wrap: sizes and strides need %zu bytes behind %lld elements, the blob has %zu",
                    meta_bytes(meta), (long long)offset, blob->bytes);
        return NULL;
    }
    if ((uintptr_t)blob->data % width) {
        error_raise(ST_ARGUMENT, "sn_wrap: the memory of %s elements is not aligned to %zu bytes",
                    dtype_name(meta->dtype), width);
        return NULL;
    }
    return meta;
}

static Storage *wrap_storage(const sn_blob *block, void *data, size_t bytes, sn_free_fn free, void *context) {
    Storage *const storage = storage_wrap(block->device, data, bytes, NULL, context);
    if (!storage) return NULL;
    storage->read_only = block->read_only;
    storage->free = free; /* from here on it is ours to free */
    return storage;
}

sn_tensor *sn_wrap(const sn_blob *blob) {
    API_ENTER(sn_wrap);
    const Meta *const meta = checked_blob_meta(blob);
    sn_tensor *const t = meta ? tensor_without_data(meta) : NULL;
    Storage *const storage = t ? wrap_storage(blob, blob->data, blob->bytes, blob->free, blob->context) : NULL;
    if (!storage) return NULL;
    tensor_set_storage(t, storage, blob_offset(blob));
    storage_release(storage);
    return t;
}

/* Many tensors of one block -------------------------------------------------------------------- */

/* The block is given back when the last part's storage is gone. */
typedef struct BlockOwner {
    _Atomic int refs;
    sn_free_fn free; /* NULL while the block is still the caller's */
    void *data, *context;
} BlockOwner;

static void drop_owner(void *data, void *context) {
    (void)data;
    BlockOwner *const owner = context;
    if (atomic_fetch_sub(&owner->refs, 1) > 1) return;
    if (owner->free) owner->free(owner->data, owner->context);
    mem_free(owner);
}

typedef struct BlockParts {
    const sn_blob *block;
    const sn_part *parts;
    int n;
    BlockOwner *owner;
    const Meta **metas; /* by part */
    Span *spans;        /* sorted */
} BlockParts;

static Status check_part(const BlockParts *b, int i) {
    const sn_part *const part = &b->parts[i];
    if (part->offset > b->block->bytes)
        return error_raise(ST_ARGUMENT, "sn_wrap: it begins at byte %zu of %zu", part->offset, b->block->bytes);
    const sn_blob one = {.size = sizeof one,
                         .data = b->block->data ? (char *)b->block->data + part->offset : NULL,
                         .bytes = b->block->bytes - part->offset,
                         .sizes = part->sizes,
                         .strides = part->strides,
                         .dtype = part->dtype,
                         .device = b->block->device};
    if (!(b->metas[i] = checked_blob_meta(&one))) return error_pending();
    const uintptr_t from = (uintptr_t)one.data;
    b->spans[i] = (Span){from, from + meta_bytes(b->metas[i]), i};
    return ST_OK;
}

static Status read_parts(const BlockParts *b) {
    for (int i = 0; i < b->n; i++) {
        if (check_part(b, i) == ST_OK) continue;
        char said[sizeof error_slot()->message];
        snprintf(said, sizeof said, "%s", error_slot()->message);
        snprintf(error_slot()->message, sizeof said, "sn_wrap_many: part %d: %.900s", i, said);
        return error_pending();
    }
    spans_sort(b->spans, b->n);
    return ST_OK;
}

/* Elements from the storage's start; false: it is not a whole number of them. */
static bool offset_in(const Storage *storage, const BlockParts *b, const Span *span, int64_t *offset) {
    const uintptr_t width = (uintptr_t)dtype_bytes(b->metas[span->of]->dtype),
                    bytes = span->from - (uintptr_t)storage->data;
    *offset = (int64_t)(bytes / width);
    return bytes % width == 0;
}

static Status make_parts(const BlockParts *b, const Span *spans, int n, sn_tensor **out) {
    uintptr_t to = spans->to;
    for (int i = 1; i < n; i++) to = spans[i].to > to ? spans[i].to : to;
    atomic_fetch_add(&b->owner->refs, 1);
    Storage *const storage = wrap_storage(b->block, (void *)spans->from, to - spans->from, drop_owner, b->owner);
    if (!storage) return atomic_fetch_sub(&b->owner->refs, 1), ST_MEMORY;
    Status status = ST_OK;
    for (int i = 0; i < n && status == ST_OK; i++) {
        int64_t offset;
        sn_tensor *const t = tensor_without_data(b->metas[spans[i].of]);
        if (t && offset_in(storage, b, &spans[i], &offset))
            tensor_set_storage(out[spans[i].of] = t, storage, offset);
        else
            status = t ? make_parts(b, &spans[i], 1, out) : ST_MEMORY; /* between elements: in a storage of its own */
    }
    storage_release(storage);
    return status;
}

/* Those that share bytes, directly or by others, are one storage. */
static Status make_all_parts(const BlockParts *b, sn_tensor **out) {
    for (int i = 0, end; i < b->n; i = end) {
        uintptr_t reached = b->spans[i].to;
        for (end = i + 1; end < b->n && b->spans[end].from < reached; end++)
            if (b->spans[end].to > reached) reached = b->spans[end].to;
        TRY(make_parts(b, &b->spans[i], end - i, out));
    }
    return ST_OK;
}

static Status wrap_parts(const sn_blob *block, const sn_part *parts, int n, BlockOwner *owner, sn_tensor **out) {
    BlockParts b = {.block = block, .parts = parts, .n = n, .owner = owner};
    b.metas = mem_alloc(((size_t)n + 1) * (sizeof *b.metas + sizeof *b.spans));
    if (!b.metas) return ST_MEMORY;
    b.spans = (Span *)(b.metas + n + 1);
    const Status status = read_parts(&b) == ST_OK ? make_all_parts(&b, out) : error_pending();
    mem_free(b.metas);
    return status;
}

static Status check_parts(const sn_blob *block, const sn_part *parts, int64_t n, sn_tensor **out) {
    TRY(error_pending());
    if (n < 0 || n > INT32_MAX || (n && (!parts || !out)))
        return error_raise(ST_ARGUMENT, "sn_wrap_many: %lld parts, or a list that is NULL", (long long)n);
    if (!block || block->size < offsetof(sn_blob, offset))
        return error_raise(ST_ARGUMENT, "sn_wrap_many: the block is NULL or has no size");
    if (block->sizes.n || block->strides.n || block->dtype != SN_DTYPE_DEFAULT)
        return error_raise(ST_ARGUMENT, "sn_wrap_many: sizes, strides and dtypes are the parts', not the block's");
    return ST_OK;
}

sn_status sn_wrap_many(const sn_blob *block, const sn_part *parts, int64_t n, sn_tensor **out) {
    API_ENTER(sn_wrap_many);
    sn_state *const state = state_get();
    const uint32_t depth = state->n_scopes;
    for (int64_t i = 0; out && i < n; i++) out[i] = NULL;
    if (check_parts(block, parts, n, out) != ST_OK) return sn_check();
    BlockOwner *const owner = mem_zero(sizeof *owner);
    if (!owner || scope_push(state, false) != ST_OK) return mem_free(owner), sn_check();
    owner->refs = 1;
    const Status status = wrap_parts(block, parts, (int)n, owner, out);
    if (status == ST_OK) {
        owner->data = block->data, owner->context = block->context, owner->free = block->free;
        scope_pop_passing(state, depth, out, (int)n);
    } else {
        scope_pop_to(state, depth);
        for (int64_t i = 0; i < n; i++) out[i] = NULL;
    }
    drop_owner(NULL, owner); /* without parts the block is given back at once */
    return sn_check();
}
