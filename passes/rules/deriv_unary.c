/* deriv_unary.c: derivatives of pointwise ops of one tensor: functions of mathematics and rounding.
 * x is the argument, y the result, g the incoming gradient; which of them a row saves is said in
 * its row. */
#include "passes/rules/deriv.h"

#include <math.h>

typedef struct Unary {
    Builder *b;
    Val *g, *x, *y;
} Unary;

static Unary unary(const Deriv *d) { return (Unary){d->b, grad_of(d), saved(d, 0), d->results[0]}; }

static Val *times_slope(Unary u, Val *slope) { return mul(u.b, u.g, slope); }
static Val *over(Unary u, Val *slope) { return quotient(u.b, u.g, slope); }

/* Steps: the slope is zero wherever there is one; laid out as what comes in. */
Status deriv_zero(Deriv *d) { return deriv_set(d, 0, E(d->b, zeros_like, V(grad_of(d)))); }
Status deriv_neg(Deriv *d) { return deriv_set(d, 0, negate(d->b, grad_of(d))); }

Status deriv_abs(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times_slope(u, E(u.b, sign, V(u.x))));
}

Status deriv_exp(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times_slope(u, u.y));
}
Status deriv_exp2(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, mul_n(u.b, times_slope(u, u.y), M_LN2));
}
Status deriv_expm1(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times_slope(u, add_n(u.b, u.y, 1)));
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
Status deriv_sin(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times_slope(u, E(u.b, cos, V(u.x))));
}
Status deriv_cos(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times_slope(u, negate(u.b, E(u.b, sin, V(u.x)))));
}
Status deriv_tan(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times_slope(u, add_n(u.b, square_of(u.b, u.y), 1)));
}

/* (a cos a - sin a) / (a x), a = pi x. At 0, and where a x is as small as 0, it is the line that touches it there, so
 * that the second derivative has its limit, -pi^2 / 3. */
Status deriv_sinc(Deriv *d) {
    const Unary u = unary(d);
    const double pi = 3.14159265358979323846;
    Val *const line = n_minus(u.b, 0, mul_n(u.b, u.x, pi * pi / 3));
    Val *const flat = E(u.b, eq_Scalar, V(mul_n(u.b, square_of(u.b, u.x), pi)), F(0));
    Val *const x = E(u.b, where_self, V(flat), F(1), V(u.x)), *const angle = mul_n(u.b, x, pi);
    Val *const wave = mul(u.b, angle, E(u.b, cos, V(angle)));
    Val *const slope = quotient(u.b, sub(u.b, wave, E(u.b, sin, V(angle))), mul_n(u.b, square_of(u.b, x), pi));
    return deriv_set(d, 0, times_slope(u, E(u.b, where_self, V(flat), V(line), V(slope))));
}

/* -(1 + log x): infinite at 0, none below. */
Status deriv_special_entr(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times_slope(u, negate(u.b, add_n(u.b, E(u.b, log, V(u.x)), 1))));
}

static Val *gaussian(Builder *b, Val *x) { return E(b, exp, V(negate(b, square_of(b, x)))); }

Status deriv_erf(Deriv *d) {
    const Unary u = unary(d);
    return deriv_set(d, 0, times_slope(u, mul_n(u.b, gaussian(u.b, u.x), M_2_SQRTPI)));
}
