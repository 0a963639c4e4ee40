/* math_pow.h: pow of f64: the logarithm as a pair (about 2^-65 of it), times b, into exp; and the edges of C's pow
 * (Annex F.10.4.4), which f32 shares. Part of math_f64.h. */
#ifndef SINTER_KERNELS_CPU_MATH_POW_H
#define SINTER_KERNELS_CPU_MATH_POW_H
#include "kernels/cpu/fma.h"

/* Given r = |x|^y where that is plain (x and y finite and not 0), the result for all x and y. */
INLINE v_f64 pow_edges(v_f64 x, v_f64 y, v_f64 r) {
    const v_f64 size = vec_abs_f64(x), inf = (v_f64)__builtin_inf(), half = 0.5 * y;
    const v_i64 integer = __builtin_elementwise_trunc(y) == y;
    const v_i64 odd = integer & (__builtin_elementwise_trunc(half) != half);
    const v_i64 falls = y < 0.0;
    r = size == 0.0 ? (falls ? inf : (v_f64)0.0) : r;
    r = size == inf ? (falls ? (v_f64)0.0 : inf) : r;
    r = size == 1.0 ? (v_f64)1.0 : r;
    r = ((bits_f64(x) < 0) & odd) ? -r : r;
    r = ((x < 0.0) & (size < inf) & !integer) ? (v_f64)__builtin_nan("") : r;
    r = ((x != x) | (y != y)) ? x + y : r;
    return ((x == 1.0) | (y == 0.0)) ? (v_f64)1.0 : r;
}

/* e^p is the sum of two doubles until it is rounded. */
INLINE v_f64 vec_pow_f64(v_f64 a, v_f64 b) {
    const Split_f64 split = split_f64(vec_abs_f64(a));
    const Pair log = log_pair(split.exponent, pair_of(split.f, (v_f64)0.0));
    v_f64 p = b * log.high;
    v_f64 low = vec_fma_f64(b, log.high, -p) + b * log.low;
    low = vec_abs_f64(p) < 800.0 ? low : (v_f64)0.0;
    p = p > 710.0 ? (v_f64)710.0 : p;
    p = p < -750.0 ? (v_f64)-750.0 : p;
    const Power power = exp_pair(p, low);
    const Pair fraction = power_fraction(power);
    return pow_edges(a, b, scale_f64(fraction.high, power.n)); /* high is the sum, rounded */
}

#endif
