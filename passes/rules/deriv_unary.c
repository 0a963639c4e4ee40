/* deriv_unary.c: derivatives of pointwise ops of one tensor: functions of mathematics and rounding. x is the argument, y the
 * result, g the incoming gradient; which of them a row saves is said in its row. */
#include "passes/rules/deriv.h"

#include <math.h>

typedef struct Unary {
    Builder *b;
    Val *g, *x, *y;
} Unary;

static Unary unary(const Deriv *d) { return (Unary){d->b, grad_of(d), saved(d, 0), d->results[0]}; }

static Val *rsqrt_of(Builder *b, Val *x) { return E(b, rsqrt, V(x)); }
static Val *times(Unary u, Val *slope) { return mul(u.b, u.g, slope); }
static Val *over(Unary u, Val *slope) { return quotient(u.b, u.g, slope); }

/* Steps: the slope is zero wherever there is one. */
Status deriv_zero(Deriv *d) { return deriv_set(d, 0, zeros_of(d->b, d->arg_meta[0])); }
/* Slope one: frac, fmod's self, clone, alias. */
Status deriv_identity(Deriv *d) { return deriv_set(d, 0, grad_of(d)); }

Status deriv_neg(Deriv *d) { return deriv_set(d, 0, negate(d->b, grad_of(d))); }

Status deriv_abs(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times(u, E(u.b, sign, V(u.x))));
}

Status deriv_exp(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times(u, u.y));
}
Status deriv_exp2(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, mul_n(u.b, times(u, u.y), M_LN2));
}
Status deriv_expm1(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times(u, add_n(u.b, u.y, 1)));
}

Status deriv_log(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, over(u, u.x));
}
Status deriv_log2(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, over(u, mul_n(u.b, u.x, M_LN2)));
}
Status deriv_log10(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, over(u, mul_n(u.b, u.x, M_LN10)));
}
Status deriv_log1p(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, over(u, add_n(u.b, u.x, 1)));
}

Status deriv_sqrt(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, over(u, mul_n(u.b, u.y, 2)));
}
Status deriv_rsqrt(Deriv *d) {
    const Unary u = unary(d);
    Val *const cube = mul(u.b, square_of(u.b, u.y), u.y);
    return deriv_set(d, 0, mul(u.b, mul_n(u.b, u.g, -0.5), cube));
}
Status deriv_reciprocal(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, mul(u.b, negate(u.b, u.g), square_of(u.b, u.y)));
}
Status deriv_square(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times(u, mul_n(u.b, u.x, 2)));
}

Status deriv_sin(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times(u, E(u.b, cos, V(u.x))));
}
Status deriv_cos(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times(u, negate(u.b, E(u.b, sin, V(u.x)))));
}
Status deriv_tan(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times(u, add_n(u.b, square_of(u.b, u.y), 1)));
}
Status deriv_sinh(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times(u, E(u.b, cosh, V(u.x))));
}
Status deriv_cosh(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times(u, E(u.b, sinh, V(u.x))));
}
Status deriv_asin(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times(u, rsqrt_of(u.b, n_minus(u.b, 1, square_of(u.b, u.x)))));
}
Status deriv_acos(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times(u, negate(u.b, rsqrt_of(u.b, n_minus(u.b, 1, square_of(u.b, u.x))))));
}
Status deriv_atan(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, over(u, add_n(u.b, square_of(u.b, u.x), 1)));
}
Status deriv_asinh(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times(u, rsqrt_of(u.b, add_n(u.b, square_of(u.b, u.x), 1))));
}
Status deriv_acosh(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times(u, rsqrt_of(u.b, add_n(u.b, square_of(u.b, u.x), -1))));
}
Status deriv_atanh(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, over(u, n_minus(u.b, 1, square_of(u.b, u.x))));
}

static Val *gaussian(Builder *b, Val *x) { return E(b, exp, V(negate(b, square_of(b, x)))); }

Status deriv_erf(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times(u, mul_n(u.b, gaussian(u.b, u.x), M_2_SQRTPI)));
}
Status deriv_erfc(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times(u, mul_n(u.b, gaussian(u.b, u.x), -M_2_SQRTPI)));
}
Status deriv_erfinv(Deriv *d) {
    const Unary u = unary(d);
    Val *const e = E(u.b, exp, V(square_of(u.b, u.y)));
    return deriv_set(d, 0, times(u, mul_n(u.b, e, M_PI_4 * M_2_SQRTPI)));
}

Status deriv_deg2rad(Deriv *d) { return deriv_set(d, 0, mul_n(d->b, grad_of(d), M_PI / 180)); }
Status deriv_rad2deg(Deriv *d) { return deriv_set(d, 0, mul_n(d->b, grad_of(d), 180 / M_PI)); }

/* Zero where the value was replaced. */
Status deriv_nan_to_num(Deriv *d) {
    const Unary u = unary(d);
    Val *const odd = E(u.b, logical_or, V(E(u.b, isinf, V(u.x))), V(E(u.b, isnan, V(u.x))));
    return deriv_set(d, 0, zero_where(u.b, odd, u.g));
}
