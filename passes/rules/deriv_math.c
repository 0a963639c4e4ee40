/* deriv_math.c: derivatives of the rows of ir/ops/math.def, in plain ops, so that any number of
 * further derivatives follow. */
#include "passes/rules/deriv.h"

#include <math.h>

/* inverse and hyperbolic functions ------------------------------------------------------------ */

/* g / sqrt(sign x^2 + shift) */
static Status over_root(Deriv *d, double sign, double shift) {
    Builder *const b = d->b;
    Val *const square = square_of(b, saved(d, 0));
    Val *const under = add_n(b, sign < 0 ? negate(b, square) : square, shift);
    return deriv_set(d, 0, mul(b, grad_of(d), E(b, rsqrt, V(under))));
}
Status deriv_asin(Deriv *d) { return over_root(d, -1, 1); }
Status deriv_asinh(Deriv *d) { return over_root(d, 1, 1); }
Status deriv_acosh(Deriv *d) { return over_root(d, 1, -1); }
Status deriv_acos(Deriv *d) {
    TRY(over_root(d, -1, 1));
    return deriv_set(d, 0, negate(d->b, d->grad_in[0]));
}

Status deriv_atan(Deriv *d) {
    Builder *const b = d->b;
    return deriv_set(d, 0, quotient(b, grad_of(d), add_n(b, square_of(b, saved(d, 0)), 1)));
}
Status deriv_atanh(Deriv *d) {
    Builder *const b = d->b;
    return deriv_set(d, 0, quotient(b, grad_of(d), n_minus(b, 1, square_of(b, saved(d, 0)))));
}
Status deriv_sinh(Deriv *d) { return deriv_set(d, 0, mul(d->b, grad_of(d), E(d->b, cosh, d->args[0]))); }
Status deriv_cosh(Deriv *d) { return deriv_set(d, 0, mul(d->b, grad_of(d), E(d->b, sinh, d->args[0]))); }
Status deriv_erfc(Deriv *d) { /* -2 / sqrt(pi) exp(-x^2) */
    Builder *const b = d->b;
    Val *const bell = E(b, exp, V(negate(b, square_of(b, saved(d, 0)))));
    return deriv_set(d, 0, mul(b, grad_of(d), mul_n(b, bell, -M_2_SQRTPI)));
}

/* (self, other): the angle; both halves share 1 / (self^2 + other^2). */
Status deriv_atan2(Deriv *d) {
    Builder *const b = d->b;
    Val *const y = saved(d, 0), *const x = saved(d, 1);
    Val *const radius = add(b, square_of(b, y), square_of(b, x));
    Val *const share = zero_where(b, E(b, eq_Tensor, V(radius), F(0)), E(b, reciprocal, V(radius))); /* PyTorch's 0 */
    Val *const g = mul(b, grad_of(d), share);
    if (wants(d, 0)) TRY(deriv_set(d, 0, mul(b, g, x)));
    return wants(d, 1) ? deriv_set(d, 1, negate(b, mul(b, g, y))) : ST_OK;
}

Status deriv_hypot(Deriv *d) {
    Builder *const b = d->b;
    Val *const g = grad_of(d);
    for (int i = 0; i < 2; i++)
        if (wants(d, i)) TRY(deriv_set(d, i, mul(b, g, quotient(b, saved(d, i), d->results[0]))));
    return ST_OK;
}

/* g / (1 + exp(other - self)), and the other way round */
Status deriv_logaddexp(Deriv *d) {
    Builder *const b = d->b;
    Val *const ahead = sub(b, saved(d, 0), saved(d, 1));
    if (wants(d, 0)) TRY(deriv_set(d, 0, mul(b, grad_of(d), E(b, sigmoid, V(ahead)))));
    if (!wants(d, 1)) return ST_OK;
    return deriv_set(d, 1, mul(b, grad_of(d), E(b, sigmoid, V(negate(b, ahead)))));
}

/* activations --------------------------------------------------------------------------------- */

/* g where low < x < high */
static Status inside_range(Deriv *d, Val *g, double low, double high) {
    Builder *const b = d->b;
    Val *const above = E(b, gt_Tensor, d->args[0], F(low));
    Val *const below = E(b, lt_Tensor, d->args[0], F(high));
    return deriv_set(d, 0, keep_where(b, E(b, logical_and, V(above), V(below)), g));
}
Status deriv_relu6(Deriv *d) { return inside_range(d, grad_of(d), 0, 6); }

Status deriv_log_sigmoid(Deriv *d) {
    Builder *const b = d->b;
    Val *const rest = E(b, sigmoid, V(negate(b, compute_of(b, saved(d, 0)))));
    return deriv_set(d, 0, mul(b, compute_of(b, grad_of(d)), rest));
}

Status deriv_threshold(Deriv *d) {
    return deriv_set(d, 0, E(d->b, threshold_backward, V(grad_of(d)), d->args[0], d->args[1]));
}

/* selection ----------------------------------------------------------------------------------- */

Status deriv_nan_to_num(Deriv *d) {
    return deriv_set(d, 0, keep_where(d->b, E(d->b, isfinite, d->args[0]), grad_of(d)));
}

/* +-g as the sign changed, 0 at 0; a sign has no slope. */
Status deriv_copysign(Deriv *d) {
    Builder *const b = d->b;
    if (wants(d, 1)) TRY(deriv_set(d, 1, zeros_of(b, d->arg_meta[1])));
    if (!wants(d, 0)) return ST_OK;
    Val *const ratio = E(b, div_Tensor, V(d->results[0]), d->args[0]);
    Val *const slope = zero_where(b, E(b, eq_Tensor, d->args[0], F(0)), ratio);
    return deriv_set(d, 0, mul(b, grad_of(d), slope));
}

/* self's where it wins or other is NaN, else other's; a tie is shared (PyTorch's rule). */
static Status winner_takes(Deriv *d, Val *wins) {
    Builder *const b = d->b;
    Val *const mine = E(b, logical_or, V(wins), V(E(b, isnan, d->args[1])));
    Val *const g = grad_of(d), *const tie = E(b, eq_Tensor, d->args[0], d->args[1]), *const half = div_n(b, g, 2);
    if (wants(d, 0)) TRY(deriv_set(d, 0, E(b, where_self, V(tie), V(half), V(keep_where(b, mine, g)))));
    return wants(d, 1) ? deriv_set(d, 1, E(b, where_self, V(tie), V(half), V(zero_where(b, mine, g)))) : ST_OK;
}
Status deriv_fmax(Deriv *d) { return winner_takes(d, E(d->b, gt_Tensor, d->args[0], d->args[1])); }
Status deriv_fmin(Deriv *d) { return winner_takes(d, E(d->b, lt_Tensor, d->args[0], d->args[1])); }
