/* cpu_embedding_bag.c: rows of a table joined by bag: an element of a bag is one chain over its indices in ascending
 * order, in the compute type, rounded once [B2.13]; threads share out bags. Positions are checked before anything is
 * written. */
#include <math.h>
#include <string.h>

#include "ir/schema.h"
#include "runtime/cpu/cpu_copy.h"
#include "runtime/core/pool.h"
#include "runtime/device/alloc_cpu.h"

OpKernel cpu_embedding_bag;

typedef struct Bags {
    const sn_tensor *weight;
    const int64_t *indices, *offsets;
    int64_t n, count, length, padding; /* of indices, bags, a row; -1 */
    int64_t mode;
    const void *by; /* a factor of each index in the compute type, or NULL */
    DType type;     /* the compute type's dtype */
    char *out;      /* [count, length] */
    int64_t *sizes, *from;
    int64_t each;  /* bags of one part */
    char *buffers; /* of parts: a row each */
} Bags;

static int64_t bag_end(const Bags *b, int64_t bag) { return bag + 1 < b->count ? b->offsets[bag + 1] : b->n; }

/* A row in the compute type: its own memory, or `capacity`. */
static const void *row_of(const Bags *b, int64_t index, void *buffer) {
    const Meta *const meta = b->weight->base.meta;
    char *const at = (char *)tensor_data(b->weight) + index * meta->strides[0] * dtype_bytes(meta->dtype);
    if (meta->dtype == b->type && (meta->strides[1] == 1 || b->length < 2)) return at;
    const int64_t one = 1;
    const StridedSpan to = {buffer, b->type, &one}, from = {at, meta->dtype, &meta->strides[1]};
    span_copy(&to, &from, &b->length, 1);
    return buffer;
}

#define TYPE       float
#define NAME(word) word##_f32
#include "runtime/cpu/cpu_embedding_bag_type.h"
#undef TYPE
#undef NAME
#define TYPE       double
#define NAME(word) word##_f64
#include "runtime/cpu/cpu_embedding_bag_type.h"

static void join_bags(void *context, int part) {
    const Bags *const b = context;
    const int64_t last = min_i64((part + 1) * b->each, b->count);
    void *const buffer = b->buffers + part * b->length * (int64_t)sizeof(double);
    for (int64_t bag = part * b->each; bag < last; bag++) (b->type == DT_f64 ? join_f64 : join_f32)(b, bag, buffer);
}

/* Lists of ints as i64 ------------------------------------------------------------------------ */

static int64_t *list_of(const sn_tensor *t, size_t *bytes) {
    const int64_t n = t->base.meta->numel, one = 1;
    int64_t *const list = cpu_alloc(*bytes = (size_t)max_i64(n, 1) * sizeof *list);
    const StridedSpan to = {(char *)list, DT_i64, &one}, from = span_of(t);
    if (list && n) span_copy(&to, &from, t->base.meta->sizes, 1);
    return list;
}

static Status check_indices(const OpRow *row, const Bags *b) {
    const int64_t rows = b->weight->base.meta->sizes[0];
    for (int64_t i = 0; i < b->n; i++)
        if (b->indices[i] < 0 || b->indices[i] >= rows)
            return error_raise(ST_VALUE, "%s: %s %lld is out of range for %lld elements of dim 0", row->name,
                               row->check.param, (long long)b->indices[i], (long long)rows);
    return ST_OK;
}

/* From 0 on, never down, at most as many as there are indices. */
static Status check_offsets(const OpRow *row, const Bags *b, int64_t n_offsets) {
    for (int64_t i = 0; i < n_offsets; i++) {
        const int64_t at = b->offsets[i];
        const char *const wrong = i == 0 && at != 0                 ? "the first must be 0"
                                  : i > 0 && at < b->offsets[i - 1] ? "they must not descend"
                                  : at > b->n                       ? "there are fewer indices"
                                                                    : NULL;
        if (wrong)
            return error_raise(ST_VALUE, "%s: offsets[%lld] is %lld: %s", row->name, (long long)i, (long long)at,
                               wrong);
    }
    return ST_OK;
}

/* The results ---------------------------------------------------------------------------------- */

static void store_ints(const int64_t *list, sn_tensor *out) {
    const Meta *const meta = out->base.meta;
    int64_t strides[2];
    meta_contiguous_strides(NULL, meta->sizes, meta->rank, strides);
    const StridedSpan from = {(char *)(uintptr_t)list, DT_i64, strides}, to = span_of(out);
    if (meta->numel) span_copy(&to, &from, meta->sizes, meta->rank);
}

/* What a sum has no use for is 0, as PyTorch leaves it. */
static void store_results(const Bags *b, sn_tensor *const *outs, int64_t *bag_of) {
    const int64_t strides[] = {b->length, 1};
    const StridedSpan from = {b->out, b->type, strides}, to = span_of(outs[0]);
    if (outs[0]->base.meta->numel) span_copy(&to, &from, outs[0]->base.meta->sizes, 2);
    for (int64_t bag = 0; bag < b->count; bag++)
        for (int64_t i = b->offsets[bag]; i < bag_end(b, bag); i++) bag_of[i] = bag;
    store_ints(bag_of, outs[1]);
    store_ints(b->sizes, outs[2]);
    store_ints(b->mode == BAG_max ? b->from : b->sizes, outs[3]);
}

/* Memory of a call, given back whole. */
typedef struct Blocks {
    void *at[8];
    size_t bytes[8];
    int n;
} Blocks;

static void *block_kept(Blocks *blocks, void *at, size_t bytes) {
    if (at && bytes) blocks->at[blocks->n] = at, blocks->bytes[blocks->n++] = bytes;
    return at;
}
static void *block_zero(Blocks *blocks, int64_t items, size_t item) {
    const size_t bytes = (size_t)max_i64(items, 1) * item;
    void *const at = block_kept(blocks, cpu_alloc(bytes), bytes);
    return at ? memset(at, 0, bytes) : NULL;
}
static int64_t *block_list(Blocks *blocks, const sn_tensor *t) {
    size_t bytes;
    int64_t *const list = list_of(t, &bytes);
    return block_kept(blocks, list, bytes);
}

static Status join_all(OpCall *call, Bags *b, Blocks *blocks) {
    const sn_tensor *const by = call->args[6].kind == ARG_tensor ? tensor_of(call->args[6].val) : NULL;
    sn_tensor *const offsets = tensor_of(call->args[2].val);
    size_t by_bytes = 0;
    b->indices = block_list(blocks, tensor_of(call->args[1].val));
    b->offsets = block_list(blocks, offsets);
    b->sizes = block_zero(blocks, b->count + 1, sizeof *b->sizes); /* as many as offsets */
    b->from = block_zero(blocks, b->mode == BAG_max ? b->count * b->length : 0, sizeof *b->from);
    b->out = block_zero(blocks, b->count * b->length, (size_t)dtype_bytes(b->type));
    int64_t *const bag_of = block_zero(blocks, b->n, sizeof *bag_of);
    const int parts = b->n * b->length >= 1 << 16 ? (int)min_i64(pool_threads(), b->count) : 1;
    b->each = ceil_div(max_i64(b->count, 1), parts);
    b->buffers = block_zero(blocks, parts * b->length, sizeof(double));
    if (by) b->by = compute_buffer(by, &by_bytes);
    if (by) block_kept(blocks, (void *)(uintptr_t)b->by, by_bytes);
    if (!b->indices || !b->offsets || !b->sizes || !b->from || !b->out || !bag_of || !b->buffers || (by && !b->by))
        return ST_MEMORY;
    TRY(check_indices(call->row, b));
    TRY(check_offsets(call->row, b, offsets->base.meta->numel));
    pool_run((int)ceil_div(b->count, b->each), join_bags, b);
    store_results(b, call->outs, bag_of);
    return error_pending();
}

/* (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx) */
Status cpu_embedding_bag(OpCall *call) {
    const sn_tensor *const weight = tensor_of(call->args[0].val);
    Bags b = {.weight = weight,
              .n = call->args[1].val->meta->numel,
              .count = call->outs[0]->base.meta->sizes[0],
              .length = weight->base.meta->sizes[1],
              .padding = call->args[8].i,
              .mode = call->args[4].i,
              .type = compute_dtype(weight->base.meta->dtype)};
    Blocks blocks = {0};
    const Status status = join_all(call, &b, &blocks);
    while (blocks.n--) cpu_free(blocks.at[blocks.n], blocks.bytes[blocks.n]);
    return status;
}
