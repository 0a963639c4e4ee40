/* deriv_reduce.c: derivatives of reductions: the gradient of a result is spread over the elements
 * that made it. */
#include <math.h>

#include "passes/rules/deriv.h"

static bool keeps(const Deriv *d, int arg) { return arg < d->row->n_params && d->args[arg].i; }

/* "dim, keepdim" after self where the row has them, else all dims. */
static Dims row_dims(const Deriv *d) {
    const Arg none = A_NONE;
    const bool has = d->row->n_params > 1 && strcmp(d->row->params[1].name, "dim") == 0;
    return dims_of(has ? &d->args[1] : &none, d->arg_meta[0]->rank);
}
static bool row_keeps(const Deriv *d) {
    const int arg = op_param_find(d->row, "keepdim");
    return arg >= 0 && keeps(d, arg);
}
static Val *restored(const Deriv *d, Val *x, const Dims *dims) {
    return restore_dims(d->b, x, dims, d->arg_meta[0], row_keeps(d));
}
static Val *spread(const Deriv *d, Val *x) { return expand_to(d->b, x, d->arg_meta[0]->sizes, d->arg_meta[0]->rank); }

Status deriv_sum(Deriv *d) {
    const Dims dims = row_dims(d);
    return deriv_set(d, 0, spread(d, restored(d, grad_of(d), &dims)));
}

Status deriv_mean(Deriv *d) {
    const Dims dims = row_dims(d);
    const int64_t count = dims_count(d->b, &dims, d->arg_meta[0]);
    Val *const share = E(d->b, div_Tensor, V(restored(d, grad_of(d), &dims)), I(count));
    return deriv_set(d, 0, spread(d, share));
}

/* Shared evenly among the elements that are the extremum, which NaNs are where there are any. */
Status deriv_amax(Deriv *d) {
    Builder *const b = d->b;
    const Dims dims = row_dims(d);
    Val *const most = restored(d, d->results[0], &dims), *tie = E(b, eq_Tensor, d->args[0], V(most));
    if (dtype_is_float(d->arg_meta[0]->dtype))
        tie = E(b, logical_or, V(tie), V(E(b, logical_and, V(E(b, isnan, d->args[0])), V(E(b, isnan, V(most))))));
    Val *const count = sum_dims(b, tie, dims.at, dims.n, true);
    Val *const share = quotient(b, restored(d, grad_of(d), &dims), count);
    return deriv_set(d, 0, keep_where(b, tie, share));
}
Status deriv_amin(Deriv *d) { return deriv_amax(d); }

/* max, min along a dim: all to the element that the index names, also at a tie; (self, dim, keepdim) */
Status deriv_max_dim(Deriv *d) {
    const Dims dims = row_dims(d);
    return deriv_set(d, 0,
                     E(d->b, scatter_src, V(zeros_of(d->b, d->arg_meta[0])), d->args[1],
                       V(restored(d, d->results[1], &dims)), V(restored(d, grad_of(d), &dims))));
}

/* x - mean, the mean in f64 where x is narrower: its sum does not overflow. */
static Val *centred(Builder *b, Val *x, const Dims *dims) {
    return x ? sub(b, x, cast_to(b, mean_of(b, cast_to(b, x, DT_f64), dims), x->meta->dtype)) : NULL;
}

/* n - correction; (self, dim, *, correction, keepdim) */
static Status var_divisor(Deriv *d, const Dims *dims, Arg *out) {
    Builder *const b = d->b;
    double correction = 1;
    if (d->args[2].kind != ARG_none && d->args[2].kind != ARG_default) TRY(deriv_number(d, 2, &correction));
    const int64_t n = dims_count(b, dims, d->arg_meta[0]);
    *out = double_is_i64(correction) ? I(sym_sub(b->env, n, double_to_i64(correction)))
                                     : F((double)sym_concrete(b->env, n) - correction);
    return ST_OK;
}

/* factor g / (n - correction), and x - mean. */
static Status var_parts(Deriv *d, const Dims *dims, double factor, Val **share, Val **away) {
    Builder *const b = d->b;
    Arg under;
    TRY(var_divisor(d, dims, &under));
    *away = centred(b, compute_of(b, saved(d, 0)), dims);
    Val *const g = compute_of(b, restored(d, grad_of(d), dims));
    *share = E(b, div_Tensor, V(factor == 1 ? g : mul_n(b, g, factor)), under);
    return ST_OK;
}

/* 2 g (x - mean) / (n - correction) */
Status deriv_var(Deriv *d) {
    const Dims dims = row_dims(d);
    Val *share, *away;
    TRY(var_parts(d, &dims, 2, &share, &away));
    return deriv_set(d, 0, mul(d->b, share, away));
}

/* x / y, and 0 where y is 0, with a slope of 0. */
static Val *quotient_or_zero(Builder *b, Val *x, Val *y) {
    const Arg zero = V(E(b, eq_Tensor, V(y), F(0)));
    return zero_where(b, zero.val, quotient(b, x, E(b, where_self, zero, F(1), V(y))));
}

/* g / (n - correction) (x - mean) / std, whose quotients stay in the range. Where all elements are the same there is no
 * slope; 0, as in PyTorch. */
Status deriv_std(Deriv *d) {
    Builder *const b = d->b;
    const Dims dims = row_dims(d);
    Val *share, *away;
    TRY(var_parts(d, &dims, 1, &share, &away));
    Val *const std = compute_of(b, restored(d, d->results[0], &dims));
    return deriv_set(d, 0, mul(b, share, quotient_or_zero(b, away, std)));
}

Status deriv_dot(Deriv *d) {
    if (wants(d, 0)) TRY(deriv_set(d, 0, E(d->b, mul_Tensor, V(grad_of(d)), d->args[1])));
    return wants(d, 1) ? deriv_set(d, 1, E(d->b, mul_Tensor, V(grad_of(d)), d->args[0])) : ST_OK;
}

/* A column in the shape of x: [n] to [n, 1]. */
static Val *column(Builder *b, Val *x) { return E(b, unsqueeze, V(x), I(1)); }

Status deriv_mv(Deriv *d) { /* (self [n, k], vec [k]) */
    Builder *const b = d->b;
    Val *const g = grad_of(d);
    if (wants(d, 0)) TRY(deriv_set(d, 0, mul(b, column(b, g), saved(d, 1))));
    return wants(d, 1) ? deriv_set(d, 1, E(b, mv, V(swap_dims(b, saved(d, 0), 0, 1)), V(g))) : ST_OK;
}

Status deriv_row_dots(Deriv *d) {
    Val *const g = wants(d, 0) || wants(d, 1) ? E(d->b, unsqueeze, V(grad_of(d)), I(-1)) : NULL;
    if (wants(d, 0)) TRY(deriv_set(d, 0, mul(d->b, g, saved(d, 1))));
    return wants(d, 1) ? deriv_set(d, 1, mul(d->b, g, saved(d, 0))) : ST_OK;
}

/* norms: by their order (PyTorch's norm_backward); where one is 0 the slope is taken as 0. -------- */

typedef struct NormSlope {
    Builder *b;
    Val *x, *g, *norm; /* in the compute type; g and norm ready to broadcast */
    Dims dims;
    double order;
} NormSlope;

/* Below 1: an x of 0 has no slope. Orders below 0 raise norm / |x|, which is at most 1; where the norm is no number,
 * nor is any slope. */
static Val *steep_slope(const NormSlope *n, Val *size) {
    Builder *const b = n->b;
    const double p = n->order;
    const Arg none = V(E(b, eq_Tensor, V(n->x), F(0))), sign = V(E(b, sign, V(n->x)));
    if (p < 0) {
        const Arg zero = V(E(b, logical_and, none, V(E(b, eq_Tensor, V(n->norm), V(n->norm)))));
        Val *const share = quotient(b, n->norm, E(b, where_self, none, F(1), V(size)));
        Val *const part = E(b, mul_Tensor, sign, V(E(b, pow_Tensor_Tensor, V(share), F(1 - p))));
        return mul(b, zero_where(b, zero.val, part), n->g);
    }
    Val *const part = E(b, mul_Tensor, sign, V(E(b, pow_Tensor_Tensor, V(size), F(p - 1))));
    return mul(b, mul(b, zero_where(b, none.val, part), n->g), E(b, pow_Tensor_Tensor, V(n->norm), F(1 - p)));
}

/* g sign(x) (|x| / norm)^(p - 1), 0 where the norm is: what is raised is at most 1. */
static Val *power_slope(const NormSlope *n) {
    Builder *const b = n->b;
    Val *const size = E(b, abs, V(n->x));
    if (n->order == 2) return mul(b, quotient_or_zero(b, n->x, n->norm), n->g);
    if (n->order < 1) return steep_slope(n, size);
    Val *const share = quotient_or_zero(b, size, n->norm);
    Val *const part = mul(b, E(b, sign, V(n->x)), E(b, pow_Tensor_Tensor, V(share), F(n->order - 1)));
    return mul(b, zero_where(b, E(b, eq_Tensor, V(n->norm), F(0)), part), n->g);
}

/* Shared evenly among the elements that are the extremum. */
static Val *extremum_slope(const NormSlope *n) {
    Builder *const b = n->b;
    Val *const size = E(b, abs, V(n->x)), *const tie = E(b, eq_Tensor, V(size), V(n->norm));
    Val *const share = quotient(b, n->g, sum_dims(b, tie, n->dims.at, n->dims.n, true));
    return keep_where(b, tie, mul(b, E(b, sign, V(n->x)), share));
}

/* (self, ord, dim, keepdim, dtype) */
Status deriv_vector_norm(Deriv *d) {
    Builder *const b = d->b;
    const Meta *const self = d->arg_meta[0];
    NormSlope n = {.b = b, .dims = dims_of(&d->args[2], self->rank)};
    TRY(deriv_number(d, 1, &n.order));
    if (n.order == 0) return deriv_set(d, 0, zeros_of(b, self));
    const bool keepdim = d->args[3].i;
    n.x = compute_of(b, cast_to(b, saved(d, 0), d->results[0]->meta->dtype));
    n.g = restore_dims(b, compute_of(b, grad_of(d)), &n.dims, self, keepdim);
    n.norm = restore_dims(b, compute_of(b, d->results[0]), &n.dims, self, keepdim);
    if (n.order == 1) return deriv_set(d, 0, mul(b, E(b, sign, V(n.x)), n.g));
    return deriv_set(d, 0, isinf(n.order) ? extremum_slope(&n) : power_slope(&n));
}
