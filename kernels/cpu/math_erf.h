/* math_erf.h: erf and erfc of f64. Near 0 a polynomial; beyond it e^(-x^2), whose square is exact as a pair, times a
 * function that hardly varies, so that erfc is right to its last denormal. Part of math_f64.h. */
#ifndef SINTER_KERNELS_CPU_MATH_ERF_H
#define SINTER_KERNELS_CPU_MATH_ERF_H
#include "kernels/cpu/math_pair.h"

/* erf(x)/x - 1 in z = x^2 <= 1. */
static const double erf_terms[] = {0x1.0627890b92f43p-34,  -0x1.38ac32d8ed106p-30, 0x1.f7b9a24bdfaf0p-27,
                                   -0x1.5f1f41608c1ffp-23, 0x1.b9df3066e20fep-20,  -0x1.f4d1e4355e24fp-17,
                                   0x1.f9a321e4be396p-14,  -0x1.c02db3db49905p-11, 0x1.565bcd0dbd920p-8,
                                   -0x1.b82ce31284f38p-6,  0x1.ce2f21a042b34p-4,   -0x1.812746b0379e6p-2,
                                   0x1.06eba8214db69p-3};

/* (g(u) - g(0)) / u of g = (1 + 2 x) e^(x^2) erfc(x), u = (x - 3) / (x + 3), 1/2 <= x <= 27.3. */
static const double erfc_terms[] = {
    0x1.7cdf011f096e9p-30, 0x1.0c511e3440cd1p-30, -0x1.72238862e76aep-27, -0x1.c7d0b4bbef1eap-27,
    0x1.8de41b0598624p-25, 0x1.b5278a61a60d1p-24, -0x1.3b23c9c1c5cffp-23, -0x1.4b0a823278137p-21,
    0x1.8326089d3fbc3p-22, 0x1.d2101a5171769p-19, -0x1.89ad8cb6753f3p-21, -0x1.513b70615cffep-16,
    0x1.4c3117cf5997ap-18, 0x1.065a36a5ae25ap-13, -0x1.b91298f71d896p-14, -0x1.98db51041c14ep-11,
    0x1.ef1bdd8b7f4aep-10, 0x1.4b884e43a09aep-9,  -0x1.8574c40c180c6p-6,  0x1.17ca2877f1419p-4,
    -0x1.e88b803a48900p-4, 0x1.098366a5b46b8p-3,  -0x1.85a15c58aa613p-5,  -0x1.15c084bb9e8f3p-3};
#define ERFC_AT_3     0x1.40c522d7e4987p+0 /* g(0) and the rest of it */
#define ERFC_AT_3_LOW 0x1.a19969d5cf11fp-55

/* erfc(x) of 1/2 <= x <= 27.3, still to be scaled by 2^*n. */
INLINE Pair erfc_part(v_f64 x, v_i64 *n) {
    const v_f64 z = x * x, z_low = vec_fma_f64(x, x, -z);
    const Power power = exp_pair(-z, -z_low);
    const Pair u = pair_quotient(pair_two_sum(x, (v_f64)-3.0), pair_two_sum(x, (v_f64)3.0));
    const v_f64 slope = poly(u.high, erfc_terms, COUNT_OF(erfc_terms));
    Pair g = pair_sum((v_f64)ERFC_AT_3, u.high * slope);
    g.low += u.low * slope + ERFC_AT_3_LOW;
    *n = power.n;
    return pair_quotient(pair_product(power_fraction(power), g), pair_two_sum((v_f64)1.0, 2.0 * x));
}
INLINE v_f64 held_between(v_f64 x, double low, double high) {
    const v_f64 least = x > low ? x : (v_f64)low;
    return least < high ? least : (v_f64)high;
}
INLINE v_f64 erf_tail(v_f64 z) { return poly(z, erf_terms, COUNT_OF(erf_terms)); }

INLINE v_f64 vec_erf_f64(v_f64 a) {
    const v_i64 sign = bits_f64(a) & INT64_MIN;
    const v_f64 x = double_of(bits_f64(a) ^ sign);
    v_i64 n;
    const Pair part = erfc_part(held_between(x, 0.5, 6.0), &n); /* erf(6) rounds to 1 */
    const v_f64 near = vec_fma_f64(erf_tail(x * x), x, x);
    const Pair far = pair_sum((v_f64)1.0, -part.high * power_of_two(n));
    const v_f64 y = x < 0.75 ? near : x == x ? far.high + (far.low - part.low * power_of_two(n)) : x;
    return double_of(bits_f64(y) | sign);
}

INLINE v_f64 vec_erfc_f64(v_f64 a) {
    const v_f64 x = vec_abs_f64(a);
    v_i64 n;
    const Pair part = erfc_part(held_between(x, 0.5, 27.3), &n);
    const Pair below = pair_two_sum((v_f64)1.0, -a);
    const v_f64 near = below.high + (below.low - a * erf_tail(a * a));
    const v_i64 seen = n > -200;
    const v_f64 size = power_of_two(seen ? n : (v_i64)0);
    const Pair beyond = pair_sum((v_f64)2.0, seen ? -part.high * size : (v_f64)0.0);
    const v_f64 up = beyond.high + (beyond.low - (seen ? part.low * size : (v_f64)0.0));
    const v_f64 far = a < 0.0 ? up : scale_f64(pair_value(part), n);
    return x < 0.5 ? near : x == x ? far : a;
}

#endif
