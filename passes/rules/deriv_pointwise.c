/* deriv_pointwise.c: derivatives of pointwise ops of several tensors. A number may stand in a
 * tensor's place: then it is never asked for a gradient, and it is passed on as it is. */
#include "passes/rules/deriv.h"

Status deriv_add(Deriv *d) {
    Val *const g = grad_of(d);
    if (wants(d, 0)) TRY(deriv_set(d, 0, g));
    if (wants(d, 1)) TRY(deriv_set(d, 1, scaled(d->b, g, &d->args[2])));
    return ST_OK;
}

Status deriv_sub(Deriv *d) {
    Val *const g = grad_of(d);
    if (wants(d, 0)) TRY(deriv_set(d, 0, g));
    if (wants(d, 1)) TRY(deriv_set(d, 1, scaled(d->b, negate(d->b, g), &d->args[2])));
    return ST_OK;
}

Status deriv_rsub(Deriv *d) {
    Val *const g = grad_of(d);
    if (wants(d, 0)) TRY(deriv_set(d, 0, scaled(d->b, negate(d->b, g), &d->args[2])));
    if (wants(d, 1)) TRY(deriv_set(d, 1, g));
    return ST_OK;
}

Status deriv_mul(Deriv *d) {
    const Arg g = V(grad_of(d));
    if (wants(d, 0)) TRY(deriv_set(d, 0, E(d->b, mul_Tensor, g, d->args[1])));
    if (wants(d, 1)) TRY(deriv_set(d, 1, E(d->b, mul_Tensor, g, d->args[0])));
    return ST_OK;
}

Status deriv_div(Deriv *d) {
    Builder *const b = d->b;
    const Arg g = V(grad_of(d));
    if (wants(d, 0)) TRY(deriv_set(d, 0, E(b, div_Tensor, g, d->args[1])));
    if (!wants(d, 1)) return ST_OK;
    Val *const ratio = E(b, div_Tensor, V(E(b, div_Tensor, d->args[0], d->args[1])), d->args[1]);
    return deriv_set(d, 1, mul(b, negate(b, g.val), ratio));
}

/* Rounded quotients are steps. */
Status deriv_div_mode(Deriv *d) {
    if (d->args[2].kind == ARG_none) return deriv_div(d);
    for (int i = 0; i < 2; i++)
        if (wants(d, i)) TRY(deriv_set(d, i, zeros_of(d->b, d->arg_meta[i])));
    return ST_OK;
}

/* self - other * round(self / other) */
static Status modulo(Deriv *d, const char *rounding) {
    Builder *const b = d->b;
    Val *const g = grad_of(d);
    if (wants(d, 0)) TRY(deriv_set(d, 0, g));
    if (!wants(d, 1)) return ST_OK;
    Val *const quot = E(b, div_Tensor_mode, d->args[0], d->args[1], A_STR(rounding));
    return deriv_set(d, 1, mul(b, negate(b, g), quot));
}
Status deriv_fmod(Deriv *d) { return modulo(d, "trunc"); }
Status deriv_remainder(Deriv *d) { return modulo(d, "floor"); }

/* pow ----------------------------------------------------------------------------------------- */

static Status pow_number(Deriv *d) {
    Builder *const b = d->b;
    double e;
    TRY(deriv_number(d, 1, &e));
    if (e == 0) return deriv_set(d, 0, zeros_of(b, d->arg_meta[0]));
    Val *const power = E(b, pow_Tensor_Tensor, d->args[0], F(e - 1));
    return deriv_set(d, 0, mul(b, grad_of(d), mul_n(b, power, e)));
}

/* Zero where the exponent is, also at self = 0. */
static Status pow_self(Deriv *d) {
    Builder *const b = d->b;
    Val *const e = saved(d, 1);
    Val *const power = E(b, pow_Tensor_Tensor, d->args[0], V(add_n(b, e, -1)));
    Val *const slope = mul(b, grad_of(d), mul(b, e, power));
    return deriv_set(d, 0, zero_where(b, E(b, eq_Tensor, V(e), F(0)), slope));
}

/* A number as a value without dims: in f64, where its logarithm is that of the number, not of what a narrower dtype
 * holds of it. */
static Val *wide_number(const Deriv *d, const Arg *number) {
    return E(d->b, full, A_INTS(NULL, 0), *number, I(DT_f64), A_NONE, I(d->arg_meta[1]->device));
}

/* result * log(self); zero at self = 0 with an exponent of at least 0. */
static Status pow_exponent(Deriv *d) {
    Builder *const b = d->b;
    Val *const base = saved(d, 0) ? saved(d, 0) : wide_number(d, &d->args[0]);
    Val *const nonnegative = E(b, ge_Tensor, d->args[1], F(0));
    Val *const zero = E(b, logical_and, V(E(b, eq_Tensor, V(base), F(0))), V(nonnegative));
    Val *const slope = mul(b, grad_of(d), mul(b, d->results[0], E(b, log, V(base))));
    return deriv_set(d, 1, zero_where(b, zero, slope));
}

Status deriv_pow(Deriv *d) {
    if (wants(d, 0)) TRY(d->args[1].kind == ARG_tensor ? pow_self(d) : pow_number(d));
    return wants(d, 1) ? pow_exponent(d) : ST_OK;
}

/* max, min: ties share the gradient ----------------------------------------------------------- */

/* g where self wins, half of it on a tie */
static Val *winner(Builder *b, Val *g, Val *loses, Val *tie) {
    return zero_where(b, loses, E(b, where_self, V(tie), V(div_n(b, g, 2)), V(g)));
}

/* of self and argument `at` */
static Status extremum(Deriv *d, int at, bool largest) {
    Builder *const b = d->b;
    Val *const g = grad_of(d);
    Val *const tie = E(b, eq_Tensor, d->args[0], d->args[at]);
    Val *const below = E(b, lt_Tensor, d->args[0], d->args[at]);
    Val *const above = E(b, gt_Tensor, d->args[0], d->args[at]);
    if (wants(d, 0)) TRY(deriv_set(d, 0, winner(b, g, largest ? below : above, tie)));
    if (wants(d, at)) TRY(deriv_set(d, at, winner(b, g, largest ? above : below, tie)));
    return ST_OK;
}
Status deriv_maximum(Deriv *d) { return extremum(d, 1, true); }
Status deriv_minimum(Deriv *d) { return extremum(d, 1, false); }

/* clamp --------------------------------------------------------------------------------------- */

/* PyTorch loses the gradient at number bounds, also at a tie and at NaN. */
static Status clamp_numbers(Deriv *d, const Arg *min, const Arg *max) {
    Builder *const b = d->b;
    Val *inside = NULL;
    if (min) inside = E(b, gt_Tensor, d->args[0], *min);
    if (max) {
        Val *const below = E(b, lt_Tensor, d->args[0], *max);
        inside = min ? E(b, logical_and, V(inside), V(below)) : below;
    }
    return deriv_set(d, 0, keep_where(b, inside, grad_of(d)));
}

/* g where the bound is the result, half of it where self is that too */
static Val *bounds_share(Builder *b, Val *g, Val *mine, Val *tie) {
    return E(b, where_self, V(tie), V(div_n(b, g, 2)), V(keep_where(b, mine, g)));
}

/* Both are tensors: ties share only where min < max, else self's; where min > max, max's. A NaN
 * compares false: it takes no gradient from self. */
static Status clamp_tensors(Deriv *d) {
    Builder *const b = d->b;
    const Arg self = d->args[0], min = d->args[1], max = d->args[2];
    Val *const g = grad_of(d), *const apart = E(b, lt_Tensor, min, max);
    Val *const low = E(b, logical_and, V(E(b, eq_Tensor, self, min)), V(apart));
    Val *const high = E(b, logical_and, V(E(b, eq_Tensor, self, max)), V(apart));
    Val *const below = E(b, lt_Tensor, self, min), *const above = E(b, gt_Tensor, self, max);
    if (wants(d, 0)) {
        Val *const tie = E(b, logical_or, V(low), V(high));
        TRY(deriv_set(d, 0, winner(b, g, E(b, logical_or, V(below), V(above)), tie)));
    }
    if (!wants(d, 1) && !wants(d, 2)) return ST_OK;
    Val *const order = E(b, le_Tensor, min, max);
    if (wants(d, 1)) {
        Val *const mine = E(b, logical_and, V(order), V(below));
        TRY(deriv_set(d, 1, bounds_share(b, g, mine, low)));
    }
    if (!wants(d, 2)) return ST_OK;
    Val *const mine = E(b, logical_or, V(E(b, logical_and, V(order), V(above))), V(E(b, gt_Tensor, min, max)));
    return deriv_set(d, 2, bounds_share(b, g, mine, high));
}

/* The larger of self and a bound if `low`, else the smaller; bound: argument `at`. */
static Status clamp_one(Deriv *d, int at, bool low) {
    const Arg *const bound = &d->args[at];
    if (bound->kind == ARG_tensor) return extremum(d, at, low);
    return clamp_numbers(d, low ? bound : NULL, low ? NULL : bound);
}
Status deriv_clamp_min(Deriv *d) { return clamp_one(d, 1, true); }
Status deriv_clamp_max(Deriv *d) { return clamp_one(d, 1, false); }

static bool given(const Arg *arg) { return arg->kind != ARG_none && arg->kind != ARG_default; }

Status deriv_clamp(Deriv *d) { /* (self, min?, max?), numbers or tensors */
    const Arg *const min = &d->args[1], *const max = &d->args[2];
    if (!given(min) && !given(max)) return deriv_set(d, 0, grad_of(d));
    if (!given(min) || !given(max)) return clamp_one(d, given(min) ? 1 : 2, given(min));
    const bool tensors = min->kind == ARG_tensor || max->kind == ARG_tensor;
    return tensors ? clamp_tensors(d) : clamp_numbers(d, min, max);
}

/* selection ----------------------------------------------------------------------------------- */

Status deriv_where(Deriv *d) {
    const Arg mask = d->args[0], g = V(grad_of(d)); /* the mask may be a number */
    if (wants(d, 1)) TRY(deriv_set(d, 1, E(d->b, where_self, mask, g, F(0))));
    if (wants(d, 2)) TRY(deriv_set(d, 2, E(d->b, where_self, mask, F(0), g)));
    return ST_OK;
}

Status deriv_masked_fill(Deriv *d) { /* (self, mask, value) */
    const Arg mask = d->args[1];
    if (wants(d, 0)) TRY(deriv_set(d, 0, filled_where(d->b, mask, grad_of(d))));
    if (wants(d, 2)) TRY(deriv_set(d, 2, E(d->b, where_self, mask, V(grad_of(d)), F(0))));
    return ST_OK;
}

/* self is overwritten: what it held gets zeros (PyTorch's CopyBackwards). */
Status deriv_copy(Deriv *d) {
    if (wants(d, 0)) TRY(deriv_set(d, 0, zeros_of(d->b, d->arg_meta[0])));
    return wants(d, 1) ? deriv_set(d, 1, to_device_of(d->b, grad_of(d), d->arg_meta[1])) : ST_OK;
}
/* fill: likewise; a tensor value gets the sum */
Status deriv_fill(Deriv *d) {
    if (wants(d, 0)) TRY(deriv_set(d, 0, zeros_of(d->b, d->arg_meta[0])));
    return d->row->n_params > 1 && wants(d, 1) ? deriv_set(d, 1, grad_of(d)) : ST_OK;
}

/* more of two and three ----------------------------------------------------------------------- */

Status deriv_addcmul(Deriv *d) { /* self + value tensor1 tensor2 */
    Builder *const b = d->b;
    Val *const g = grad_of(d);
    if (wants(d, 0)) TRY(deriv_set(d, 0, g));
    for (int i = 1; i <= 2; i++)
        if (wants(d, i)) TRY(deriv_set(d, i, mul(b, g, E(b, mul_Tensor, d->args[3 - i], d->args[3]))));
    return ST_OK;
}

Status deriv_fma(Deriv *d) { /* a b + c */
    Builder *const b = d->b;
    Val *const g = grad_of(d);
    for (int i = 0; i <= 1; i++)
        if (wants(d, i)) TRY(deriv_set(d, i, E(b, mul_Tensor, V(g), d->args[1 - i])));
    return wants(d, 2) ? deriv_set(d, 2, g) : ST_OK;
}

Status deriv_addcdiv(Deriv *d) { /* self + value tensor1 / tensor2 */
    Builder *const b = d->b;
    Val *const g = grad_of(d), *const under = saved(d, 2);
    if (wants(d, 0)) TRY(deriv_set(d, 0, g));
    if (wants(d, 1)) TRY(deriv_set(d, 1, mul(b, g, E(b, div_Tensor, d->args[3], V(under)))));
    if (!wants(d, 2)) return ST_OK;
    Val *const top = E(b, mul_Tensor, d->args[1], d->args[3]);
    return deriv_set(d, 2, mul(b, negate(b, g), quotient(b, top, square_of(b, under))));
}

Status deriv_lerp(Deriv *d) { /* self + weight (end - self); weight a tensor or a number */
    Builder *const b = d->b;
    Val *const g = grad_of(d);
    if (wants(d, 0)) {
        Val *rest = saved(d, 2) ? n_minus(b, 1, saved(d, 2)) : NULL;
        double w = 0;
        if (!rest) TRY(deriv_number(d, 2, &w));
        TRY(deriv_set(d, 0, rest ? mul(b, g, rest) : mul_n(b, g, 1 - w)));
    }
    if (wants(d, 1)) TRY(deriv_set(d, 1, E(b, mul_Tensor, V(g), d->args[2])));
    return wants(d, 2) ? deriv_set(d, 2, mul(b, g, sub(b, saved(d, 1), saved(d, 0)))) : ST_OK;
}

/* self log(other), 0 where self is 0 and other is not NaN. There the slope by self would be log(other): PyTorch takes
 * 0 where other <= 0, and of a number also where it is NaN. */
Status deriv_xlogy(Deriv *d) {
    Builder *const b = d->b;
    const Arg self = d->args[0], other = d->args[1];
    Val *const g = grad_of(d);
    if (wants(d, 0)) {
        Val *const flat = other.kind == ARG_tensor ? E(b, le_Tensor, other, F(0))
                                                   : E(b, logical_not, V(E(b, lt_Tensor, self, other))); /* self is 0 */
        Val *const zero = E(b, logical_and, V(E(b, eq_Tensor, self, F(0))), V(flat));
        TRY(deriv_set(d, 0, filled_where(b, V(zero), E(b, xlogy_Tensor, V(g), other))));
    }
    return wants(d, 1) ? deriv_set(d, 1, mul(b, g, E(b, div_Tensor, self, other))) : ST_OK;
}
