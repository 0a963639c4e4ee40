/* deriv_help.c: what the derivative rules share: undoing broadcasts and reductions, casts, zeros.
 * Everything is emitted ops; nothing is emitted where there is nothing to do, so that eager pays
 * only for what a formula needs. */
#include "passes/rules/deriv.h"

Status deriv_number(const Deriv *d, int arg, double *out) {
    if (d->args[arg].kind == ARG_runtime)
        return error_raise(ST_UNSUPPORTED, "derivative of %s: argument '%s' must be a constant", d->row->name,
                           d->row->params[arg].name);
    *out = arg_double_now(d->b->env, &d->args[arg]);
    return ST_OK;
}

static bool is_constant(const Arg *arg, double value) {
    return (arg->kind == ARG_int || arg->kind == ARG_float || arg->kind == ARG_bool) && arg_double(arg) == value;
}

Val *cast_to(Builder *b, Val *x, DType dtype) {
    if (!x || x->meta->dtype == dtype) return x;
    return E(b, _to_copy, V(x), I(dtype));
}

Val *to_device_of(Builder *b, Val *x, const Meta *like) {
    if (!x || x->meta->device == like->device) return x;
    return E(b, _to_copy, V(x), I(like->dtype), A_NONE, I(like->device));
}

Val *compute_of(Builder *b, Val *x) {
    if (!x || (x->meta->dtype != DT_bf16 && x->meta->dtype != DT_f16)) return x;
    return cast_to(b, x, DT_f32);
}

Val *zeros_of(Builder *b, const Meta *like) {
    return E(b, full, A_INTS(like->sizes, like->rank), F(0), I(like->dtype), A_NONE, I(like->device));
}

static bool sizes_are(Builder *b, const Meta *meta, const int64_t *sizes, int rank) {
    if (meta->rank != rank) return false;
    for (int i = 0; i < rank; i++)
        if (!sym_same(b->env, meta->sizes[i], sizes[i])) return false;
    return true;
}

Val *reshape_to(Builder *b, Val *x, const int64_t *sizes, int rank) {
    if (!x || sizes_are(b, x->meta, sizes, rank)) return x;
    if (x->meta->contiguous) return E(b, view, V(x), A_INTS(sizes, rank));
    return E(b, reshape, V(x), A_INTS(sizes, rank));
}

Val *expand_to(Builder *b, Val *x, const int64_t *sizes, int rank) {
    if (!x || sizes_are(b, x->meta, sizes, rank)) return x;
    return E(b, expand, V(x), A_INTS(sizes, rank));
}

Val *sum_dims(Builder *b, Val *x, const int64_t *dims, int n, bool keepdim) {
    return n ? E(b, sum_dim_IntList, V(x), A_INTS(dims, n), A_BOOL(keepdim)) : x;
}

/* Undoes broadcasting. */
static Val *sum_to(Builder *b, Val *grad, const Meta *like) {
    if (!grad || meta_same_sizes(grad->meta, like)) return grad;
    const Meta *const from = grad->meta;
    const int extra = from->rank - like->rank;
    int64_t dims[MAX_RANK];
    int n = 0;
    for (int i = 0; i < from->rank; i++) {
        const bool spread =
            i < extra || (!sym_identical(like->sizes[i - extra], from->sizes[i]) &&
                          sym_same(b->env, like->sizes[i - extra], 1) && !sym_same(b->env, from->sizes[i], 1));
        if (spread) dims[n++] = i;
    }
    return reshape_to(b, sum_dims(b, grad, dims, n, true), like->sizes, like->rank);
}

Status deriv_set(Deriv *d, int arg, Val *grad) {
    const Meta *const meta = d->arg_meta[arg];
    grad = cast_to(d->b, sum_to(d->b, grad, meta), meta->dtype);
    if (!grad) {
        const Status pending = error_pending();
        return pending ? pending : error_raise(ST_INTERNAL, "derivative of %s gave no gradient", d->row->name);
    }
    d->grad_in[arg] = grad;
    return ST_OK;
}

Val *swap_dims(Builder *b, Val *x, int dim0, int dim1) {
    if (!x) return NULL;
    int64_t order[MAX_RANK];
    for (int i = 0; i < x->meta->rank; i++) order[i] = i;
    order[dim0] = dim1, order[dim1] = dim0;
    return E(b, permute, V(x), A_INTS(order, x->meta->rank));
}

Val *scaled(Builder *b, Val *x, const Arg *number) {
    return is_constant(number, 1) ? x : E(b, mul_Tensor, V(x), *number);
}

Val *slice_of(Builder *b, Val *x, int64_t dim, int64_t start, int64_t length) {
    return E(b, slice_Tensor, V(x), I(dim), I(start), I(sym_add(b->env, start, length)), I(1));
}

Dims dims_of(const Arg *arg, int rank) {
    Dims dims = {0};
    const int64_t *const given = arg->kind == ARG_int ? &arg->i : arg->ints;
    const int n = arg->kind == ARG_int ? 1 : arg->kind == ARG_ints ? arg->n : 0;
    for (int i = 0; i < n && rank > 0; i++) dims.has[dim_wrap(given[i], rank)] = true;
    for (int i = 0; i < rank; i++) {
        if (n == 0) dims.has[i] = true;
        if (dims.has[i]) dims.at[dims.n++] = i;
    }
    return dims;
}

int64_t dims_count(Builder *b, const Dims *dims, const Meta *meta) {
    int64_t count = 1;
    for (int i = 0; i < dims->n; i++) count = sym_mul(b->env, count, meta->sizes[dims->at[i]]);
    return count;
}

Val *restore_dims(Builder *b, Val *x, const Dims *dims, const Meta *full, bool keepdim) {
    if (!x || keepdim || dims->n == 0) return x;
    int64_t sizes[MAX_RANK];
    for (int i = 0; i < full->rank; i++) sizes[i] = dims->has[i] ? 1 : full->sizes[i];
    return E(b, view, V(x), A_INTS(sizes, full->rank));
}

Val *mean_of(Builder *b, Val *x, const Dims *dims) {
    if (!x) return NULL;
    const int64_t count = dims_count(b, dims, x->meta);
    return E(b, div_Tensor, V(sum_dims(b, x, dims->at, dims->n, true)), I(count));
}
