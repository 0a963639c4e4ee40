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

/* erfc(x) of 1/2 <= x <= 27.3, x^2 = z + z_low, and e^(-x^2), both still to be scaled by 2^n. */
typedef struct Erfc_part {
    Pair erfc, power;
    v_i64 n;
} Erfc_part;

INLINE Erfc_part erfc_of(Pair x, v_f64 z, v_f64 z_low) {
    const Power power = exp_pair(-z, -z_low);
    const Pair one = {(v_f64)1.0, (v_f64)0.0}, three = {(v_f64)3.0, (v_f64)0.0}, minus = {(v_f64)-3.0, (v_f64)0.0};
    const Pair u = pair_quotient(pair_add(x, minus), pair_add(x, three)), fraction = power_fraction(power);
    const v_f64 slope = poly(u.high, erfc_terms, COUNT_OF(erfc_terms));
    Pair g = pair_sum((v_f64)ERFC_AT_3, u.high * slope);
    g.low += u.low * slope + ERFC_AT_3_LOW;
    const Pair erfc = pair_quotient(pair_product(fraction, g), pair_add(one, pair_scale(x, (v_f64)2.0)));
    const Erfc_part part = {erfc, fraction, power.n};
    return part;
}
INLINE Pair erfc_part(v_f64 x, v_i64 *n) {
    const v_f64 z = x * x;
    const Erfc_part part = erfc_of(pair_of(x, (v_f64)0.0), z, vec_fma_f64(x, x, -z));
    *n = part.n;
    return part.erfc;
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

/* of the normal distribution: phi(0) = 1 / sqrt(2 pi), and sqrt(1/2), each with what its rounding lost */
#define DENSITY       0x1.9884533d43651p-2
#define DENSITY_LOW   -0x1.cbc0d30ebfd15p-56
#define HALF_ROOT     0x1.6a09e667f3bcdp-1
#define HALF_ROOT_LOW -0x1.bdd3413b26456p-55

/* 1 - Phi(x) = erfc / 2 and phi(x) = DENSITY power of 3/4 <= x <= 40, still to be scaled by 2^n */
INLINE Erfc_part normal_part(v_f64 x) {
    const Pair turned = pair_product(pair_of(x, (v_f64)0.0), pair_of((v_f64)HALF_ROOT, (v_f64)HALF_ROOT_LOW));
    const v_f64 square = x * x;
    return erfc_of(turned, 0.5 * square, 0.5 * vec_fma_f64(x, x, -square));
}
/* base - part 2^n: part alone where it is all, or where base hides it */
INLINE v_f64 less_scaled(v_f64 base, Pair part, v_i64 n) {
    const v_i64 seen = n > -200;
    const v_f64 size = seen ? power_of_two(seen ? n : (v_i64)0) : (v_f64)0.0;
    const Pair sum = pair_two_sum(base, -part.high * size);
    return base == 0.0 ? -scale_f64(pair_value(part), n) : sum.high + (sum.low - part.low * size);
}
/* (Phi(a) - 1/2) / a, |a| <= 3/4 */
INLINE v_f64 normal_near(v_f64 a) {
    return vec_fma_f64(erf_tail(0.5 * a * a), (v_f64)(0.5 * HALF_ROOT), (v_f64)(0.5 * HALF_ROOT));
}

INLINE v_f64 vec_gelu_erf_f64(v_f64 a) {
    const v_f64 size = vec_abs_f64(a), x = held_between(size, 0.75, 40.0);
    const Erfc_part part = normal_part(x);
    const Pair tail = pair_product(part.erfc, pair_of(x, (v_f64)0.0)); /* 2 x (1 - Phi(x)) */
    const v_f64 far = less_scaled(a > 40.0 ? (v_f64)40.0 : a > 0.0 ? a : (v_f64)0.0, tail, part.n - 1);
    const v_f64 slope = normal_near(a), share = vec_fma_f64(slope, a, (v_f64)0.5); /* Phi(a), and what it lost */
    const v_f64 near = vec_fma_f64(a, share, a * vec_fma_f64(slope, a, 0.5 - share));
    return size < 0.75 ? near : a > 40.0 ? a : a == a ? far : a;
}
INLINE v_f64 vec_gelu_erf_slope_f64(v_f64 a) {
    const v_f64 size = vec_abs_f64(a), x = held_between(size, 0.75, 40.0);
    const Erfc_part part = normal_part(x);
    const Pair density = pair_product(part.power, pair_of((v_f64)DENSITY, (v_f64)DENSITY_LOW));
    const Pair risen = pair_product(density, pair_of(-x, (v_f64)0.0));
    const Pair rest = pair_add(pair_scale(part.erfc, (v_f64)0.5), risen); /* 1 - Phi(x) - x phi(x) */
    const v_i64 up = a > 0.0;
    const Pair signed_rest = pair_scale(rest, up ? (v_f64)1.0 : (v_f64)-1.0);
    const v_f64 far = less_scaled(up ? (v_f64)1.0 : (v_f64)0.0, signed_rest, part.n);
    const v_f64 held = size < 0.75 ? a : (v_f64)0.0;
    const v_f64 slope = vec_fma_f64(vec_exp_f64(-0.5 * held * held), (v_f64)DENSITY, normal_near(held));
    return size < 0.75 ? vec_fma_f64(slope, held, (v_f64)0.5) : a == a ? far : a;
}

#endif
