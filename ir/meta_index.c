/* meta_index.c: ops that read or write at positions given by tensors. Positions themselves are checked where they are
 * used (OPF_check); here only their dtype and shape. */
#include "ir/meta_rules.h"

Status meta_embedding(MetaCall *call) {
    const Meta *weight = tensor_meta(call, 0), *indices = tensor_meta(call, 1);
    if (weight->rank != 2)
        return meta_fail(call, ST_SHAPE, "weight must have 2 dims, not sizes %s", SIZES(call, weight));
    if (indices->dtype != DT_i64 && indices->dtype != DT_i32)
        return meta_fail(call, ST_DTYPE, "indices must be i64 or i32, not %s", dtype_name(indices->dtype));
    TRY(same_device(call, weight, indices));
    int64_t sizes[MAX_RANK];
    if (indices->rank + 1 > MAX_RANK) return meta_fail(call, ST_SHAPE, "more than %d dims", MAX_RANK);
    if (indices->rank) memcpy(sizes, indices->sizes, sizeof *sizes * (size_t)indices->rank);
    sizes[indices->rank] = weight->sizes[1];
    out_plain(call, 0, weight->dtype, weight->device, sizes, indices->rank + 1);
    return ST_OK;
}

static Status index_dtype(const MetaCall *call, int i, bool i32_too) {
    const Meta *index = tensor_meta(call, i);
    if (index->dtype == DT_i64 || (i32_too && index->dtype == DT_i32)) return ST_OK;
    if (sym_identical(index->numel, 0)) return ST_OK; /* nothing to read */
    return meta_fail(call, ST_DTYPE, "%s must be i64, not %s", arg_name(call, i), dtype_name(index->dtype));
}

/* Result: self's sizes with dim replaced by the number of positions. */
Status meta_index_select(MetaCall *call) {
    const Meta *self = tensor_meta(call, 0), *index = tensor_meta(call, 2);
    int dim = 0;
    int64_t sizes[MAX_RANK];
    TRY(wrap_dim(call, call->args[1].i, self->rank, "dim", &dim));
    TRY(index_dtype(call, 2, true));
    if (index->rank > 1)
        return meta_fail(call, ST_SHAPE, "index must have at most 1 dim, not sizes %s", SIZES(call, index));
    if (self->rank) memcpy(sizes, self->sizes, sizeof *sizes * (size_t)self->rank);
    if (self->rank)
        sizes[dim] = index->numel;
    else if (!sym_same(call->env, index->numel, 1))
        return meta_fail(call, ST_SHAPE, "a 0-dim self takes one position");
    out_plain(call, 0, self->dtype, self->device, sizes, self->rank);
    return ST_OK;
}

/* index may be smaller than `than` in every dim but (optionally) one. */
static Status index_fits(const MetaCall *call, const Meta *index, int than, int except) {
    const Meta *meta = tensor_meta(call, than);
    if (max_i64(meta->rank, 1) != max_i64(index->rank, 1))
        return meta_fail(call, ST_SHAPE, "index %s and %s %s must have the same number of dims", SIZES(call, index),
                         arg_name(call, than), SIZES(call, meta));
    for (int i = 0; i < index->rank && i < meta->rank; i++)
        if (i != except && sym_less(call->env, meta->sizes[i], index->sizes[i]))
            return meta_fail(call, ST_SHAPE, "index %s exceeds %s %s in dim %d", SIZES(call, index),
                             arg_name(call, than), SIZES(call, meta), i);
    return ST_OK;
}

Status meta_gather(MetaCall *call) {
    const Meta *self = tensor_meta(call, 0), *index = tensor_meta(call, 2);
    int dim = 0;
    TRY(wrap_dim(call, call->args[1].i, self->rank, "dim", &dim));
    TRY(index_dtype(call, 2, true));
    if (!sym_same(call->env, index->numel, 0)) TRY(index_fits(call, index, 0, dim));
    out_plain(call, 0, self->dtype, self->device, index->sizes, index->rank);
    return ST_OK;
}

/* scatter, scatter_add: self with something at (index, the other coordinates). */
Status meta_scatter(MetaCall *call) {
    const Meta *self = tensor_meta(call, 0), *index = tensor_meta(call, 2), *src = tensor_meta(call, 3);
    int dim = 0;
    TRY(wrap_dim(call, call->args[1].i, self->rank, "dim", &dim));
    TRY(index_dtype(call, 2, true));
    if (src && src->dtype != self->dtype)
        return meta_fail(call, ST_DTYPE, "src is %s, but self is %s", dtype_name(src->dtype), dtype_name(self->dtype));
    if (!sym_same(call->env, index->numel, 0)) {
        TRY(index_fits(call, index, 0, dim));
        if (src) TRY(index_fits(call, index, 3, -1));
    }
    out_plain(call, 0, self->dtype, self->device, self->sizes, self->rank);
    call->order = ORDER_index;
    return ST_OK;
}

Status meta_scatter_reduce(MetaCall *call) {
    const char *const reduce = call->args[4].string;
    if (strcmp(reduce, "add") && strcmp(reduce, "multiply"))
        return meta_fail(call, ST_ARGUMENT, "reduce must be 'add' or 'multiply', not '%s'", reduce);
    return meta_scatter(call);
}

Status meta_scatter_reduce_two(MetaCall *call) {
    static const char *const known[] = {"sum", "prod", "mean", "amax", "amin"};
    for (int i = 0; i < COUNT_OF(known); i++)
        if (!strcmp(call->args[4].string, known[i])) return meta_scatter(call);
    return meta_fail(call, ST_ARGUMENT, "reduce must be 'sum', 'prod', 'mean', 'amax' or 'amin', not '%s'",
                     call->args[4].string);
}

Status meta_index_add(MetaCall *call) {
    const Meta *self = tensor_meta(call, 0), *index = tensor_meta(call, 2), *source = tensor_meta(call, 3);
    int dim = 0;
    TRY(wrap_dim(call, call->args[1].i, self->rank, "dim", &dim));
    TRY(index_dtype(call, 2, true));
    if (source->dtype != self->dtype)
        return meta_fail(call, ST_DTYPE, "source is %s, but self is %s", dtype_name(source->dtype),
                         dtype_name(self->dtype));
    bool fits = index->rank <= 1 && source->rank == self->rank;
    for (int i = 0; fits && i < self->rank; i++)
        fits = sym_same(call->env, source->sizes[i], i == dim ? index->numel : self->sizes[i]);
    if (!fits)
        return meta_fail(call, ST_SHAPE, "source %s does not fit self %s with index %s", SIZES(call, source),
                         SIZES(call, self), SIZES(call, index));
    out_plain(call, 0, self->dtype, self->device, self->sizes, self->rank);
    call->order = ORDER_index;
    return ST_OK;
}

Status meta_index_select_backward(MetaCall *call) {
    const Meta *grad = tensor_meta(call, 0);
    const Arg *sizes = &call->args[1];
    int dim = 0;
    TRY(check_numel(call, sizes->ints, sizes->n));
    TRY(wrap_dim(call, call->args[2].i, sizes->n, "dim", &dim));
    TRY(index_dtype(call, 3, true));
    out_plain(call, 0, grad->dtype, grad->device, sizes->ints, sizes->n);
    return ST_OK;
}

Status meta_gather_backward(MetaCall *call) {
    const Meta *grad = tensor_meta(call, 0), *self = tensor_meta(call, 1);
    int dim = 0;
    TRY(wrap_dim(call, call->args[2].i, self->rank, "dim", &dim));
    TRY(index_dtype(call, 3, true));
    out_plain(call, 0, grad->dtype, grad->device, self->sizes, self->rank);
    return ST_OK;
}

Status meta_embedding_dense_backward(MetaCall *call) {
    const Meta *grad = tensor_meta(call, 0), *indices = tensor_meta(call, 1);
    TRY(index_dtype(call, 1, true));
    bool fits = grad->rank == indices->rank + 1;
    for (int i = 0; fits && i < indices->rank; i++) fits = sym_same(call->env, grad->sizes[i], indices->sizes[i]);
    if (!fits)
        return meta_fail(call, ST_SHAPE, "grad_output %s does not match indices %s", SIZES(call, grad),
                         SIZES(call, indices));
    const int64_t sizes[2] = {arg_named(call, "num_weights")->i, grad->sizes[grad->rank - 1]};
    out_plain(call, 0, grad->dtype, grad->device, sizes, 2);
    call->order = ORDER_index;
    return ST_OK;
}

/* joining ------------------------------------------------------------------------------------- */

/* PyTorch leaves 1-D tensors of size 0 out of a cat, whatever the others' rank. */
static bool is_skipped(const MetaCall *call, const Meta *meta) {
    return meta->rank == 1 && sym_identical(meta->sizes[0], 0);
}

static DType list_dtype(const Arg *list) {
    Elementwise e = {0};
    DType dtype = DT_default;
    for (int i = 0; i < list->n; i++) { /* pairwise: categories join the same way */
        Meta joined = {.dtype = dtype, .rank = 1};
        e.n = 0;
        if (dtype) e.in[e.n++] = &joined;
        e.in[e.n++] = list->vals[i]->meta;
        dtype = promoted(&e);
    }
    return dtype;
}

/* The format that all parts agree on (those left out too), else contiguous; `deeper`: with a last dim of 1 more. */
static void joined_strides(const MetaCall *call, const Arg *list, bool deeper, MetaOut *out) {
    out_contiguous(call, out);
    for (int i = 0; i < list->n; i++) {
        Meta part = *list->vals[i]->meta;
        int64_t sizes[MAX_RANK + 1], strides[MAX_RANK + 1];
        if (part.rank) memcpy(sizes, part.sizes, sizeof *sizes * (size_t)part.rank);
        if (part.rank) memcpy(strides, part.strides, sizeof *strides * (size_t)part.rank);
        sizes[part.rank] = strides[part.rank] = 1;
        part.sizes = sizes, part.strides = strides, part.rank += deeper;
        if (part.rank != out->rank || !meta_suggests_channels_last(call->env, &part)) return;
    }
    int64_t next = 1;
    for (int i = 0; i < out->rank; i++) {
        const int d = i == 0 ? 1 : i == out->rank - 1 ? 0 : out->rank - i;
        out->strides[d] = next;
        next = sym_mul(call->env, next, out->sizes[d]);
    }
}

static Status cat_fits(const MetaCall *call, const Meta *first, const Meta *meta, int i, int dim) {
    bool fits = first->rank == meta->rank;
    for (int d = 0; fits && d < first->rank; d++)
        fits = d == dim || sym_same(call->env, first->sizes[d], meta->sizes[d]);
    if (fits) return same_device(call, first, meta);
    return meta_fail(call, ST_SHAPE, "tensors[%d] %s does not match %s outside dim %d", i, SIZES(call, meta),
                     SIZES(call, first), dim);
}

Status meta_cat(MetaCall *call) {
    const Arg *list = &call->args[0];
    const Meta *first = NULL;
    int dim = 0;
    int64_t sizes[MAX_RANK], total = 0;
    if (!list->n) return meta_fail(call, ST_ARGUMENT, "tensors must not be empty");
    for (int i = 0; i < list->n; i++) {
        const Meta *meta = list->vals[i]->meta;
        if (!meta->rank) return meta_fail(call, ST_SHAPE, "tensors[%d] has 0 dims", i);
        if (!first && !is_skipped(call, meta)) first = meta;
    }
    if (first) /* where all are left out, so is dim */
        TRY(wrap_dim(call, call->args[1].i, first->rank, "dim", &dim));
    else
        first = list->vals[0]->meta;
    for (int i = 0; i < list->n; i++) {
        const Meta *meta = list->vals[i]->meta;
        if (is_skipped(call, meta)) continue;
        TRY(cat_fits(call, first, meta, i, dim));
        total = sym_add(call->env, total, meta->sizes[dim]);
    }
    memcpy(sizes, first->sizes, sizeof *sizes * (size_t)first->rank);
    sizes[dim] = total;
    out_set(&call->out[0], list_dtype(list), first->device, sizes, first->rank);
    joined_strides(call, list, false, &call->out[0]);
    return check_numel(call, sizes, first->rank);
}

/* As PyTorch: a cat of them with its dim split in two; in a new last dim, of them with a dim of 1. */
Status meta_stack(MetaCall *call) {
    const Arg *list = &call->args[0];
    if (!list->n) return meta_fail(call, ST_ARGUMENT, "tensors must not be empty");
    const Meta *first = list->vals[0]->meta;
    int dim = 0;
    TRY(wrap_dim(call, call->args[1].i, first->rank + 1, "dim", &dim));
    for (int i = 0; i < list->n; i++) TRY(cat_fits(call, first, list->vals[i]->meta, i, -1));
    int64_t sizes[MAX_RANK];
    if (first->rank == MAX_RANK) return meta_fail(call, ST_SHAPE, "more than %d dims", MAX_RANK);
    for (int i = 0, from = 0; i <= first->rank; i++) sizes[i] = i == dim ? list->n : first->sizes[from++];
    MetaOut *const out = &call->out[0], whole;
    out_set(out, list_dtype(list), first->device, sizes, first->rank + 1);
    if (dim == first->rank) {
        joined_strides(call, list, true, out);
        return ST_OK;
    }
    out_set(&whole, out->dtype, first->device, first->sizes, first->rank);
    whole.sizes[dim] = sym_mul(call->env, first->sizes[dim], list->n);
    joined_strides(call, list, false, &whole);
    out_contiguous(call, out);
    const bool plain = meta_is_contiguous(call->env, whole.sizes, whole.strides, whole.rank);
    for (int d = 0; d < out->rank && !plain; d++)
        out->strides[d] =
            d == dim ? sym_mul(call->env, whole.strides[dim], first->sizes[dim]) : whole.strides[d - (d > dim)];
    return ST_OK;
}

static Status add_pad(const MetaCall *call, int64_t *size, int64_t by) {
    const Meta *const self = tensor_meta(call, 0);
    const Arg *const pad = &call->args[1];
    if (sym_is(*size) || sym_is(by))
        *size = sym_add(call->env, *size, by);
    else if (!add_ok(*size, by, size))
        return meta_fail(call, ST_SHAPE, "pad %s makes self %s larger than memory can hold",
                         sizes_text(call, pad->ints, pad->n).at, SIZES(call, self));
    if (!sym_less(call->env, *size, 0)) return ST_OK;
    return meta_fail(call, ST_SHAPE, "pad %s leaves nothing of self %s", sizes_text(call, pad->ints, pad->n).at,
                     SIZES(call, self));
}

/* What is only cut is a copy of a view, which keeps its layout as far as a copy does. */
static void out_cut(const MetaCall *call, const int64_t *sizes) {
    Meta view = *tensor_meta(call, 0);
    view.sizes = sizes;
    view.contiguous = meta_is_contiguous(call->env, sizes, view.strides, view.rank);
    out_like(call, 0, &view, view.dtype);
}

/* Row-major results, also of what may only be cut: then it is no matter which it is, by a pad of a sign not known. */
static bool pads_alike(const MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const Arg *const pad = &call->args[1];
    int64_t strides[MAX_RANK];
    bool symbolic = false, same = true;
    for (int i = 0; i < pad->n; i++) symbolic |= sym_is(pad->ints[i]);
    if (!symbolic) return false;
    meta_contiguous_strides(call->env, self->sizes, self->rank, strides);
    for (int d = 0; d < self->rank; d++) same = same && sym_identical(self->strides[d], strides[d]);
    return same;
}

/* pad: pairs (before, after), last dim first. A negative one cuts, and first: at most what is there. */
Status meta_constant_pad_nd(MetaCall *call) {
    const Meta *self = tensor_meta(call, 0);
    const Arg *pad = &call->args[1];
    int64_t sizes[MAX_RANK];
    bool cuts = !pads_alike(call);
    if (pad->n % 2 || pad->n > 2 * self->rank)
        return meta_fail(call, ST_ARGUMENT, "pad %s needs pairs for at most %d dims",
                         sizes_text(call, pad->ints, pad->n).at, self->rank);
    if (self->rank) memcpy(sizes, self->sizes, sizeof *sizes * (size_t)self->rank);
    for (int i = 0; i < pad->n / 2; i++) {
        int64_t *const size = &sizes[self->rank - 1 - i];
        const int64_t before = pad->ints[2 * i], after = pad->ints[2 * i + 1];
        const bool after_first = !sym_is(after) && after < 0;
        TRY(add_pad(call, size, after_first ? after : before));
        TRY(add_pad(call, size, after_first ? before : after));
        cuts = cuts && !sym_less(call->env, 0, before) && !sym_less(call->env, 0, after);
    }
    if (cuts)
        out_cut(call, sizes);
    else
        out_suggested(call, 0, self, self->dtype, sizes, self->rank);
    return check_numel(call, sizes, self->rank);
}

/* A copy of self in its strides, with the holes that they leave (PyTorch's clone_preserve_strides); where elements may
 * share a place, as a clone. */
static void out_copied(const MetaCall *call, const Meta *self) {
    out_like(call, 0, self, self->dtype);
    if (self->rank && apart(call->env, self->sizes, self->strides, self->rank))
        memcpy(call->out[0].strides, self->strides, sizeof *self->strides * (size_t)self->rank);
}

/* src must have the sizes of the view that it replaces; `rule` is that view's meta rule with src's argument left
 * out. */
static Status scattered(MetaCall *call, OpId view) {
    const Meta *self = tensor_meta(call, 0), *src = tensor_meta(call, 1);
    MetaOut part;
    Arg args[MAX_ARGS];
    args[0] = call->args[0];
    for (int i = 2; i < call->row->n_params; i++) args[i - 1] = call->args[i];
    MetaCall inner = {.row = op_row(view), .args = args, .env = call->env, .out = &part, .n_out = 1};
    TRY(inner.row->meta(&inner));
    bool fits = part.rank == src->rank;
    for (int i = 0; fits && i < src->rank; i++) fits = sym_same(call->env, src->sizes[i], part.sizes[i]);
    if (!fits)
        return meta_fail(call, ST_SHAPE, "src %s does not have the sizes %s of the part it replaces", SIZES(call, src),
                         sizes_text(call, part.sizes, part.rank).at);
    out_copied(call, self);
    return ST_OK;
}

Status meta_slice_scatter(MetaCall *call) { return scattered(call, OP_ID(slice_Tensor)); }
Status meta_select_scatter(MetaCall *call) { return scattered(call, OP_ID(select_int)); }

/* Which of several elements stays in a place nothing says: PyTorch refuses some such views and leaves others open. */
static Status written_once(const MetaCall *call, const Arg *sizes, const Arg *strides) {
    if (apart(call->env, sizes->ints, strides->ints, sizes->n)) return ST_OK;
    return meta_fail(call, ST_ARGUMENT, "a view of sizes %s and strides %s has several elements in one place",
                     sizes_text(call, sizes->ints, sizes->n).at, sizes_text(call, strides->ints, strides->n).at);
}

static bool all_plain(const int64_t *numbers, int n) {
    bool plain = true;
    for (int i = 0; i < n; i++) plain = plain && !sym_is(numbers[i]);
    return plain;
}

/* Elements that a layout takes; INT64_MAX: more than can be counted; -1: that is not known. */
static int64_t known_span(const int64_t *sizes, const int64_t *strides, int rank) {
    int64_t span;
    if (!all_plain(sizes, rank) || !all_plain(strides, rank)) return -1;
    return meta_span(sizes, strides, rank, &span) ? span : INT64_MAX;
}

/* What is symbolic sn::view_scatter checks. */
static Status inside_of_result(const MetaCall *call, const Arg *sizes, const Arg *strides, const Arg *offset) {
    const MetaOut *const out = &call->out[0];
    const int64_t at = offset->kind == ARG_int ? offset->i : 0;
    const int64_t span = known_span(sizes->ints, strides->ints, sizes->n);
    const int64_t capacity = known_span(out->sizes, out->strides, out->rank);
    if (sym_is(at) || span <= 0 || capacity < 0 || (span <= capacity && at <= capacity - span)) return ST_OK;
    return meta_fail(call, ST_VALUE, "the view of %lld elements from self's element %lld on leaves self's %lld",
                     (long long)span, (long long)at, (long long)capacity);
}

/* (self, src, size, stride, storage_offset): the offset is told from self's first element. */
Status meta_as_strided_scatter(MetaCall *call) {
    const Arg *const sizes = &call->args[2], *const strides = &call->args[3];
    TRY(scattered(call, OP_ID(as_strided)));
    TRY(written_once(call, sizes, strides));
    TRY(inside_of_result(call, sizes, strides, &call->args[4]));
    return same_device(call, tensor_meta(call, 0), tensor_meta(call, 1));
}

Status meta_flip(MetaCall *call) {
    const Meta *self = tensor_meta(call, 0);
    const Arg *dims = &call->args[1];
    bool seen[MAX_RANK] = {false};
    for (int i = 0; i < dims->n; i++) {
        int dim = 0;
        TRY(wrap_dim(call, dims->ints[i], self->rank, "dims", &dim));
        if (seen[dim]) return meta_fail(call, ST_ARGUMENT, "dim %d appears twice in dims", dim);
        seen[dim] = true;
    }
    out_like(call, 0, self, self->dtype);
    return ST_OK;
}

/* *size times a repeat; the error has what was given: a wrapped product says nothing. */
static Status repeat_size(const MetaCall *call, int64_t times, int64_t *size) {
    int64_t plain;
    if (sym_is(times) || sym_is(*size) || mul_ok(times, *size, &plain)) {
        *size = sym_mul(call->env, times, *size);
        return ST_OK;
    }
    const Arg *const repeats = &call->args[1];
    return meta_fail(call, ST_SHAPE, "repeats %s of self %s: more elements than memory can hold",
                     sizes_text(call, repeats->ints, repeats->n).at, SIZES(call, tensor_meta(call, 0)));
}

Status meta_repeat(MetaCall *call) {
    const Meta *self = tensor_meta(call, 0);
    const Arg *times = &call->args[1];
    const int lead = times->n - self->rank;
    int64_t sizes[MAX_RANK];
    if (lead < 0 || times->n > MAX_RANK)
        return meta_fail(call, ST_SHAPE, "repeats %s has fewer dims than self %s",
                         sizes_text(call, times->ints, times->n).at, SIZES(call, self));
    for (int i = 0; i < times->n; i++) {
        if (sym_less(call->env, times->ints[i], 0)) return meta_fail(call, ST_SHAPE, "repeats must not be negative");
        sizes[i] = i < lead ? 1 : self->sizes[i - lead];
        TRY(repeat_size(call, times->ints[i], &sizes[i]));
    }
    TRY(check_numel(call, sizes, times->n));
    out_plain(call, 0, self->dtype, self->device, sizes, times->n);
    return ST_OK;
}

/* No graph has it: values decide how many positions there are. */
Status meta_where_positions(MetaCall *call) {
    return meta_fail(call, ST_UNSUPPORTED, "the sizes of the results depend on values");
}

/* Zeros of the sizes that are given, with grad_output in a part of them; the part's own op checks that it fits. */
Status meta_placed_backward(MetaCall *call) {
    const Meta *const grad = tensor_meta(call, 0);
    const Arg *const sizes = &call->args[1];
    if (sizes->n > MAX_RANK) return meta_fail(call, ST_SHAPE, "more than %d dims", MAX_RANK);
    TRY(check_numel(call, sizes->ints, sizes->n));
    out_plain(call, 0, grad->dtype, grad->device, sizes->ints, sizes->n);
    return ST_OK;
}

MetaFn meta_diagonal;
/* Argument `src` must have the sizes of a diagonal of `whole`: offset and dims are arguments from `offset` on. */
static Status fits_diagonal(MetaCall *call, const Meta *whole, int src, int offset) {
    const Meta *const given = tensor_meta(call, src);
    const Val val = {whole};
    const Arg *const own = call->args, of_whole[] = {A_VAL((Val *)&val), own[offset], own[offset + 1], own[offset + 2]};
    const OpRow *const row = call->row;
    call->row = OP_ROW(diagonal), call->args = of_whole;
    const Status status = meta_diagonal(call);
    call->row = row, call->args = own;
    TRY(status);
    const MetaOut part = call->out[0];
    if (part.rank != given->rank || !all_same(call->env, part.sizes, given->sizes, given->rank))
        return meta_fail(call, ST_SHAPE, "%s %s must have the sizes of the diagonal, %s", arg_name(call, src),
                         SIZES(call, given), sizes_text(call, part.sizes, part.rank).at);
    out_plain(call, 0, whole->dtype, whole->device, whole->sizes, whole->rank);
    return ST_OK;
}

Status meta_diagonal_scatter(MetaCall *call) {
    TRY(fits_diagonal(call, tensor_meta(call, 0), 1, 2));
    out_copied(call, tensor_meta(call, 0));
    return same_device(call, tensor_meta(call, 0), tensor_meta(call, 1));
}

Status meta_diagonal_backward(MetaCall *call) {
    int64_t strides[MAX_RANK];
    TRY(meta_placed_backward(call));
    const Arg *const sizes = &call->args[1];
    const Meta *const grad = tensor_meta(call, 0);
    meta_contiguous_strides(call->env, sizes->ints, sizes->n, strides);
    const Meta whole = {.dtype = grad->dtype,
                        .device = grad->device,
                        .rank = sizes->n,
                        .contiguous = true,
                        .numel = sym_product(call->env, sizes->ints, sizes->n),
                        .sizes = sizes->ints,
                        .strides = strides};
    return fits_diagonal(call, &whole, 0, 2);
}

Status meta_take(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0), *const index = tensor_meta(call, 1);
    if (index->dtype != DT_i64) return meta_fail(call, ST_DTYPE, "index must be i64, not %s", dtype_name(index->dtype));
    if (sym_same(call->env, self->numel, 0) && !sym_same(call->env, index->numel, 0))
        return meta_fail(call, ST_VALUE, "index: self has no elements");
    out_plain(call, 0, self->dtype, self->device, index->sizes, index->rank);
    return same_device(call, self, index);
}
