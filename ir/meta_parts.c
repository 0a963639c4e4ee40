/* meta_parts.c: meta rules of ir/ops/parts.def. */
#include "ir/meta_rules.h"

MetaFn meta_mean;

Status meta_last_transposed(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    MetaOut *const out = &call->out[0];
    if (self->rank < 2)
        return meta_fail(call, ST_SHAPE, "self must have 2 dims at least, not sizes %s", SIZES(call, self));
    out_set(out, self->dtype, self->device, self->sizes, self->rank);
    memcpy(out->strides, self->strides, sizeof *out->strides * (size_t)self->rank);
    const int last = self->rank - 1;
    out->sizes[last] = self->sizes[last - 1], out->sizes[last - 1] = self->sizes[last];
    out->strides[last] = self->strides[last - 1], out->strides[last - 1] = self->strides[last];
    out->alias = 0;
    return ST_OK;
}

Status meta_ravel(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    out_plain(call, 0, self->dtype, self->device, &self->numel, 1);
    if (meta_decide_contiguous(call->env, self)) call->out[0].alias = 0;
    return ST_OK;
}

/* (self, indices, dim) */
Status meta_take_along_dim(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0), *const indices = tensor_meta(call, 1);
    int64_t sizes[MAX_RANK];
    int dim = 0;
    if (indices->dtype != DT_i64)
        return meta_fail(call, ST_DTYPE, "indices must be i64, not %s", dtype_name(indices->dtype));
    TRY(same_device(call, self, indices));
    if (!arg_given(call, 2)) return out_plain(call, 0, self->dtype, self->device, &indices->numel, 1), ST_OK;
    if (self->rank != indices->rank)
        return meta_fail(call, ST_SHAPE, "self %s and indices %s must have the same number of dims", SIZES(call, self),
                         SIZES(call, indices));
    TRY(wrap_dim(call, call->args[2].i, self->rank, "dim", &dim));
    for (int d = 0; d < self->rank; d++) {
        const int64_t own = self->sizes[d], given = indices->sizes[d];
        const bool one = d == dim || sym_same(call->env, own, 1);
        if (!one && !sym_same(call->env, given, 1) && !sym_same(call->env, own, given))
            return meta_fail(call, ST_SHAPE, "self %s and indices %s do not broadcast beside dim %d", SIZES(call, self),
                             SIZES(call, indices), dim);
        sizes[d] = one ? given : own;
    }
    out_plain(call, 0, self->dtype, self->device, sizes, self->rank);
    return ST_OK;
}

static Status below_line(MetaCall *call, DType dtype) {
    const Meta *const y = tensor_meta(call, 0);
    int64_t sizes[MAX_RANK];
    int dim = 0, n = 0;
    TRY(wrap_dim(call, arg_named(call, "dim")->i, y->rank, "dim", &dim));
    if (!y->rank) return meta_fail(call, ST_SHAPE, "y has no dims");
    if (y->dtype == DT_bool) return meta_fail(call, ST_DTYPE, "y must not be bool");
    for (int d = 0; d < y->rank; d++)
        if (d != dim) sizes[n++] = y->sizes[d];
    out_plain(call, 0, dtype, y->device, sizes, n);
    return ST_OK;
}
static DType float_of(DType dtype) { return dtype_is_float(dtype) ? dtype : DT_f32; }

/* (y, *, dx, dim) */
Status meta_trapezoid_dx(MetaCall *call) { return below_line(call, float_of(tensor_meta(call, 0)->dtype)); }

/* (y, x, *, dim): x has as many places as y along the dim, and one dim or y's, which may be of size 1. */
Status meta_trapezoid(MetaCall *call) {
    const Meta *const y = tensor_meta(call, 0), *const x = tensor_meta(call, 1);
    int dim = 0;
    TRY(same_device(call, y, x));
    TRY(wrap_dim(call, call->args[2].i, y->rank, "dim", &dim));
    if (x->dtype == DT_bool) return meta_fail(call, ST_DTYPE, "x must not be bool");
    bool fits = x->rank == y->rank || (x->rank == 1 && y->rank && sym_same(call->env, x->sizes[0], y->sizes[dim]));
    for (int d = 0; fits && x->rank == y->rank && d < y->rank; d++)
        fits = sym_same(call->env, x->sizes[d], y->sizes[d]) || (d != dim && sym_same(call->env, x->sizes[d], 1));
    if (!fits)
        return meta_fail(call, ST_SHAPE, "x %s is neither like y %s nor its dim %d", SIZES(call, x), SIZES(call, y),
                         dim);
    return below_line(call, float_of(dtype_promote(y->dtype, x->dtype)));
}

/* (self, size) */
Status meta_sum_to_size(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const Arg *const size = &call->args[1];
    bool fits = size->n <= self->rank;
    for (int d = 0; fits && d < size->n; d++) {
        const int64_t own = self->sizes[self->rank - size->n + d];
        fits = sym_same(call->env, size->ints[d], own) || sym_same(call->env, size->ints[d], 1);
    }
    if (!fits)
        return meta_fail(call, ST_SHAPE, "size %s does not broadcast to self %s",
                         sizes_text(call, size->ints, size->n).at, SIZES(call, self));
    const bool same = size->n && size->n == self->rank && all_same(call->env, size->ints, self->sizes, self->rank);
    const DType dtype = same || dtype_is_float(self->dtype) ? self->dtype : DT_i64;
    out_plain(call, 0, dtype, self->device, size->ints, size->n);
    if (!same) return ST_OK;
    memcpy(call->out[0].strides, self->strides, sizeof *self->strides * (size_t)self->rank);
    call->out[0].alias = 0;
    return ST_OK;
}

Status meta_nanmean(MetaCall *call) {
    const DType dtype = tensor_meta(call, 0)->dtype;
    if (!dtype_is_float(dtype))
        return meta_fail(call, ST_DTYPE, "self must be floating point, not %s", dtype_name(dtype));
    return meta_mean(call);
}

/* Each with 2 dims at least; ranks and sizes of what cat takes. */
Status meta_vstack(MetaCall *call) {
    const Arg *const list = &call->args[0];
    if (!list->n) return meta_fail(call, ST_ARGUMENT, "tensors is empty");
    int64_t sizes[MAX_RANK], rows = 0;
    int rank = 0;
    DType dtype = list->vals[0]->meta->dtype;
    for (int i = 0; i < list->n; i++) {
        const Meta *const meta = list->vals[i]->meta;
        const int own = meta->rank < 2 ? 2 : meta->rank, missing = own - meta->rank;
        bool fits = !i || own == rank;
        for (int d = 1; fits && d < own; d++) {
            const int64_t size = d < missing ? 1 : meta->sizes[d - missing];
            fits = !i || sym_same(call->env, size, sizes[d]);
            sizes[d] = size;
        }
        if (!fits) return meta_fail(call, ST_SHAPE, "tensor %d of sizes %s fits none before it", i, SIZES(call, meta));
        rank = own;
        rows = sym_add(call->env, rows, missing ? 1 : meta->sizes[0]);
        dtype = dtype_promote(dtype, meta->dtype);
        TRY(same_device(call, list->vals[0]->meta, meta));
    }
    sizes[0] = rows;
    out_plain(call, 0, dtype, list->vals[0]->meta->device, sizes, rank);
    return ST_OK;
}
