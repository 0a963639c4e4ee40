/* math_pair.h: numbers as the sum of two doubles (about 2^-100 of it by sums, 2^-65 by the series here), of which the
 * f64 functions are made whose errors would add up otherwise: the logarithm and the exponential of a pair. Products are
 * split by named fma. Polynomials: tests/oracle/minimax.py. Part of math_f64.h. */
#ifndef SINTER_KERNELS_CPU_MATH_PAIR_H
#define SINTER_KERNELS_CPU_MATH_PAIR_H
#include "kernels/cpu/fma.h"

typedef struct Pair { /* high + low, |low| <= ulp(high)/2 */
    v_f64 high, low;
} Pair;

INLINE Pair pair_of(v_f64 high, v_f64 low) {
    const Pair pair = {high, low};
    return pair;
}

/* a + b exactly: where |a| >= |b| or a = 0; and of any two. */
INLINE Pair pair_sum(v_f64 a, v_f64 b) {
    const v_f64 high = a + b;
    return pair_of(high, b - (high - a));
}
INLINE Pair pair_two_sum(v_f64 a, v_f64 b) {
    const v_f64 high = a + b, part = high - a;
    return pair_of(high, (a - (high - part)) + (b - part));
}
INLINE Pair pair_add(Pair a, Pair b) {
    const Pair sum = pair_two_sum(a.high, b.high);
    return pair_sum(sum.high, sum.low + (a.low + b.low));
}
INLINE Pair pair_product(Pair a, Pair b) {
    const v_f64 high = a.high * b.high;
    const v_f64 error = vec_fma_f64(a.high, b.high, -high);
    return pair_of(high, error + (a.high * b.low + a.low * b.high));
}
INLINE Pair pair_quotient(Pair a, Pair b) {
    const v_f64 high = a.high / b.high;
    const v_f64 rest = (vec_fma_f64(-high, b.high, a.high) + a.low) - high * b.low;
    return pair_of(high, rest / b.high);
}
/* 0 of 0 */
INLINE Pair pair_sqrt(Pair a) {
    const v_f64 high = __builtin_elementwise_sqrt(a.high);
    const v_f64 rest = (vec_fma_f64(-high, high, a.high) + a.low) / (2.0 * high);
    return pair_of(high, high == 0.0 ? (v_f64)0.0 : rest);
}
INLINE Pair pair_scale(Pair a, v_f64 by) { return pair_of(a.high * by, a.low * by); } /* a power of two */
INLINE v_f64 pair_value(Pair a) { return a.high + a.low; }

/* A whole number below 2^51 as an int. */
INLINE v_i64 whole_f64(v_f64 a) {
    return (v_i64)((v_u64)bits_f64(a + ROUNDER_F64) - (v_u64)bits_f64((v_f64)ROUNDER_F64));
}

/* ((2 atanh(s) - 2 s)/(s z) - 2/3)/z, z = s^2. */
static const double log_pair_terms[] = {0x1.e0533fdb7d1e0p-4, 0x1.df792d194ad57p-4, 0x1.1118d9a1f288ep-3,
                                        0x1.3b13957be162ap-3, 0x1.745d177b6c625p-3, 0x1.c71c71c6e9a43p-3,
                                        0x1.2492492492525p-2, 0x1.999999999999ap-2};

/* log(1 + f) = 2 s + s z (2/3 + z P(z)), s = f / (2 + f), sqrt(1/2) <= 1 + f < sqrt(2). */
INLINE Pair log_fraction(Pair f) {
    Pair below = pair_sum((v_f64)2.0, f.high);
    below.low += f.low;
    const Pair ratio = pair_quotient(f, below), z = pair_product(ratio, ratio);
    const v_f64 p = z.high * poly(z.high, log_pair_terms, COUNT_OF(log_pair_terms));
    Pair c = pair_sum((v_f64)0x1.5555555555555p-1, p);
    c.low += 0x1.5555555555555p-55;
    const Pair u = pair_product(ratio, pair_product(z, c));
    Pair m = pair_sum(2.0 * ratio.high, u.high);
    m.low += u.low + 2.0 * ratio.low;
    return pair_sum(m.high, m.low);
}

/* log(2^e (1 + f)) */
INLINE Pair log_pair(v_f64 e, Pair f) {
    const Pair m = log_fraction(f);
    Pair sum = pair_sum(e * LN2_HIGH, m.high);
    sum.low += m.low + e * LN2_LOW;
    return pair_sum(sum.high, sum.low);
}

/* log(1 + y); y down to -1, which is left out, up to what a double holds. */
INLINE Pair log1p_pair(Pair y) {
    Pair u = pair_two_sum((v_f64)1.0, y.high);
    u.low += y.low;
    const Split_f64 split = split_f64(u.high);
    const v_i64 near = split.exponent == 0.0, far = split.exponent > 1000.0;
    const v_f64 scale = power_of_two(0 - whole_f64(far ? (v_f64)0.0 : split.exponent));
    const Pair f = {near ? y.high : split.f, near ? y.low : far ? (v_f64)0.0 : u.low * scale};
    return log_pair(split.exponent, f);
}

/* (e^r - 1 - r - r^2/2) / r^3 on |r| <= ln(2)/2. */
static const double exp_pair_terms[] = {
    0x1.1f7f8088d39bfp-29, 0x1.af390bfd6fcfap-26, 0x1.27e4d4a5daa08p-22, 0x1.71de0d84ff2a7p-19, 0x1.a01a01a945e75p-16,
    0x1.a01a01a7cecabp-13, 0x1.6c16c16c15da9p-10, 0x1.11111111109a5p-7,  0x1.5555555555556p-5,  0x1.5555555555556p-3};

typedef struct Power { /* e^x = (1 + tail) 2^n, |tail| < 0.42 */
    Pair tail;
    v_i64 n;
} Power;

/* e^(x + low), |x| <= 1100, |low| far below 1. */
INLINE Power exp_pair(v_f64 x, v_f64 low) {
    const v_f64 shifted = vec_fma_f64(x, (v_f64)LOG2_E, (v_f64)ROUNDER_F64), n = shifted - ROUNDER_F64;
    const Pair whole = pair_two_sum(vec_fma_f64(n, (v_f64)-LN2_HIGH, x), -(n * LN2_LOW));
    const Pair r = pair_two_sum(whole.high, whole.low + low);
    const v_f64 square = r.high * r.high, rest = vec_fma_f64(r.high, r.high, -square);
    const v_f64 cube = r.high * square * poly(r.high, exp_pair_terms, COUNT_OF(exp_pair_terms));
    const Pair sum = pair_sum(r.high, 0.5 * square);
    const Power power = {pair_sum(sum.high, sum.low + (0.5 * rest + (cube + r.low * (1.0 + r.high)))),
                         (v_i64)((v_u64)bits_f64(shifted) - (v_u64)bits_f64((v_f64)ROUNDER_F64))};
    return power;
}

/* 1 + tail */
INLINE Pair power_fraction(Power power) {
    const Pair sum = pair_sum((v_f64)1.0, power.tail.high);
    return pair_sum(sum.high, sum.low + power.tail.low);
}

#endif
