/* math_pow.h: pow of f64: the logarithm as the sum of two doubles (about 2^-65 of it), times b, into exp; and the edges
 * of C's pow (Annex F.10.4.4), which f32 shares. Part of math_f64.h. */
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

typedef struct Pair { /* high + low, |low| <= ulp(high)/2 */
    v_f64 high, low;
} Pair;

/* |a| >= |b| or a = 0. */
INLINE Pair pair_sum(v_f64 a, v_f64 b) {
    const v_f64 high = a + b;
    const Pair sum = {high, b - (high - a)};
    return sum;
}
INLINE Pair pair_product(Pair a, Pair b) {
    const v_f64 high = a.high * b.high;
    const v_f64 error = vec_fma_f64(a.high, b.high, -high);
    const Pair product = {high, error + (a.high * b.low + a.low * b.high)};
    return product;
}

/* ((2 atanh(s) - 2 s)/(s z) - 2/3)/z, z = s^2. */
static const double log_pair_terms[] = {0x1.e0533fdb7d1e0p-4, 0x1.df792d194ad57p-4, 0x1.1118d9a1f288ep-3,
                                        0x1.3b13957be162ap-3, 0x1.745d177b6c625p-3, 0x1.c71c71c6e9a43p-3,
                                        0x1.2492492492525p-2, 0x1.999999999999ap-2};

/* log(2^e (1 + f)) = e ln2 + 2 s + s z (2/3 + z P(z)), s = f / (2 + f). */
INLINE Pair log_pair(Split_f64 split) {
    const v_f64 f = split.f, e = split.exponent;
    const Pair below = pair_sum((v_f64)2.0, f);
    const v_f64 s = f / below.high;
    const v_f64 s_rest = vec_fma_f64(-s, below.high, f) - s * below.low;
    const Pair ratio = {s, s_rest / below.high};
    const Pair z = pair_product(ratio, ratio);
    const v_f64 p = z.high * poly(z.high, log_pair_terms, COUNT_OF(log_pair_terms));
    Pair c = pair_sum((v_f64)0x1.5555555555555p-1, p);
    c.low += 0x1.5555555555555p-55;
    const Pair u = pair_product(ratio, pair_product(z, c));
    Pair m = pair_sum(2.0 * s, u.high);
    m.low += u.low + 2.0 * ratio.low;
    Pair sum = pair_sum(e * LN2_HIGH, m.high);
    sum.low += m.low + e * LN2_LOW;
    return pair_sum(sum.high, sum.low);
}

/* pow, at most 1.25 ulp. */
INLINE v_f64 vec_pow_f64(v_f64 a, v_f64 b) {
    const Pair log = log_pair(split_f64(vec_abs_f64(a)));
    const v_f64 p = b * log.high;
    const v_f64 low = vec_fma_f64(b, log.high, -p) + b * log.low;
    const v_i64 plain = vec_abs_f64(p) < 800.0;
    return pow_edges(a, b, exp_sum(p, plain ? low : (v_f64)0.0));
}

#endif
