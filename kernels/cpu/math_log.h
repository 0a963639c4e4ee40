/* math_log.h: f64 functions made of the logarithm: log2, log10, log1p, inverse hyperbolic ones. The logarithm is a pair
 * until the result is rounded, which is exact where the result is a double (log2 of powers of two,
 * log10 of powers of ten). Part of math_f64.h. */
#ifndef SINTER_KERNELS_CPU_MATH_LOG_H
#define SINTER_KERNELS_CPU_MATH_LOG_H
#include "kernels/cpu/math_pair.h"

/* y of a > 0, and what a logarithm is elsewhere. */
INLINE v_f64 log_ends(v_f64 a, v_f64 y) {
    y = a < __builtin_inf() ? y : a; /* inf and NaN */
    y = a == 0.0 ? (v_f64)-__builtin_inf() : y;
    return a < 0.0 ? (v_f64)__builtin_nan("") : y;
}

/* e unit + log(1 + f) / log(base) */
INLINE v_f64 log_to(v_f64 a, Pair unit, Pair scale) {
    const Split_f64 split = split_f64(a);
    const Pair rest = pair_product(log_fraction(pair_of(split.f, (v_f64)0.0)), scale);
    Pair sum = pair_sum(split.exponent * unit.high, rest.high);
    sum.low += rest.low + split.exponent * unit.low;
    return log_ends(a, pair_value(sum));
}

INLINE v_f64 vec_log2_f64(v_f64 a) {
    return log_to(a, pair_of((v_f64)1.0, (v_f64)0.0), pair_of((v_f64)LOG2_E, (v_f64)0x1.777d0ffda0d24p-56));
}

/* log10(2) in 32 bits and the rest: a product with the exponent is exact. */
INLINE v_f64 vec_log10_f64(v_f64 a) {
    return log_to(a, pair_of((v_f64)LOG10_2_HIGH, (v_f64)LOG10_2_LOW), pair_of((v_f64)LOG10_E, (v_f64)LOG10_E_LOW));
}

INLINE v_f64 vec_log1p_f64(v_f64 a) {
    const v_f64 y = pair_value(log1p_pair(pair_of(a, (v_f64)0.0)));
    const v_i64 plain = vec_abs_f64(a) < 0x1p-60; /* zeros keep their sign, denormals what they are */
    return plain ? a : log_ends(1.0 + a, y);
}

/* log(2 x) where x^2 + 1 is x^2. */
INLINE v_f64 log_twice(v_f64 x) {
    const Split_f64 split = split_f64(x);
    return pair_value(log_pair(split.exponent + 1.0, pair_of(split.f, (v_f64)0.0)));
}

/* log1p(x + x^2 / (1 + sqrt(1 + x^2))) */
INLINE v_f64 vec_asinh_f64(v_f64 a) {
    const v_i64 sign = bits_f64(a) & INT64_MIN;
    const v_f64 x = double_of(bits_f64(a) ^ sign), held = x > 0x1p40 ? (v_f64)1.0 : x;
    const Pair one = {(v_f64)1.0, (v_f64)0.0}, whole = {held, (v_f64)0.0}, square = pair_product(whole, whole);
    const Pair root = pair_sqrt(pair_add(one, square));
    const Pair more = pair_quotient(square, pair_add(one, root));
    const v_f64 near = pair_value(log1p_pair(pair_add(whole, more)));
    const v_f64 y = x > 0x1p40 ? log_twice(x) : x < 0x1p-30 ? x : near;
    return x < __builtin_inf() ? double_of(bits_f64(y) | sign) : a;
}

/* log1p(t + sqrt(2 t + t^2)), t = x - 1 */
INLINE v_f64 vec_acosh_f64(v_f64 a) {
    const v_f64 held = a > 0x1p60 ? (v_f64)1.0 : a;
    const Pair t = pair_two_sum(held, (v_f64)-1.0);
    const Pair root = pair_sqrt(pair_add(pair_scale(t, (v_f64)2.0), pair_product(t, t)));
    const v_f64 y = a > 0x1p60 ? log_twice(a) : pair_value(log1p_pair(pair_add(t, root)));
    return a < 1.0 ? (v_f64)__builtin_nan("") : a < __builtin_inf() ? y : a;
}

/* log1p(2 x / (1 - x)) / 2 */
INLINE v_f64 vec_atanh_f64(v_f64 a) {
    const v_i64 sign = bits_f64(a) & INT64_MIN;
    const v_f64 x = double_of(bits_f64(a) ^ sign), held = x < 1.0 ? x : (v_f64)0.0;
    const Pair below = pair_two_sum((v_f64)1.0, -held);
    const Pair half = log1p_pair(pair_quotient(pair_of(held + held, (v_f64)0.0), below));
    const v_f64 y = x < 0x1p-30 ? x : x == 1.0 ? (v_f64)__builtin_inf() : 0.5 * pair_value(half);
    return x > 1.0 ? (v_f64)__builtin_nan("") : x == x ? double_of(bits_f64(y) | sign) : a;
}

#endif
