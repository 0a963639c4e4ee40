/* math_f64.h: transcendental functions of f64 vectors, and what math_f32.h shares with them: argument reduction of
 * large angles, the split of a number into 2^e m, the edges of pow. Polynomials are minimax fits (Remez, 60 digits) of
 * the functions named beside them. Error bounds are against the exact value, found by the tests' sweeps. */
#ifndef SINTER_KERNELS_CPU_MATH_F64_H
#define SINTER_KERNELS_CPU_MATH_F64_H
#include "kernels/cpu/fma.h"

/* Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits. */
#define ROUNDER_F64 0x1.8p52

INLINE v_f64 vec_abs_f64(v_f64 a) { return double_of(bits_f64(a) & INT64_MAX); }

/* Horner's rule, highest term first; by fma, or by products and sums where f64 only carries a f32 result. */
INLINE v_f64 poly(v_f64 x, const double *terms, int n) {
    v_f64 p = (v_f64)terms[0];
    UNROLL for (int i = 1; i < n; i++) p = vec_fma_f64(p, x, (v_f64)terms[i]);
    return p;
}
INLINE v_f64 poly_plain(v_f64 x, const double *terms, int n) {
    v_f64 p = (v_f64)terms[0];
    UNROLL for (int i = 1; i < n; i++) p = p * x + terms[i];
    return p;
}

/* 2^n for -1023 < n < 1024; of other n some number. */
INLINE v_f64 power_of_two(v_i64 n) { return double_of((v_i64)((v_u64)(n + 1023) << 52)); }

/* x * 2^n for -2044 <= n <= 2046 in two steps, of which the first is exact. */
INLINE v_f64 scale_f64(v_f64 x, v_i64 n) {
    const v_i64 half = n >> 1;
    return x * power_of_two(half) * power_of_two(n - half);
}

/* (e^r - 1 - r) / r^2 on |r| <= ln(2)/2. */
static const double exp_terms[] = {
    0x1.af634376dccecp-26, 0x1.2891978353304p-22, 0x1.71ddf6a6df6e0p-19, 0x1.a019b8fdbd75ep-16, 0x1.a01a01b010cbap-13,
    0x1.6c16c1788fe15p-10, 0x1.111111110f7fap-7,  0x1.5555555553d58p-5,  0x1.5555555555558p-3,  0x1.0000000000001p-1};
#define LN2_HIGH 0x1.62e42feep-1 /* 32 bits: n * LN2_HIGH is exact */
#define LN2_LOW  0x1.a39ef35793c76p-33
#define LOG2_E   0x1.71547652b82fep+0

/* e^(x + low), |x| clamped to where the result is 0 or inf; low is a correction of x. */
INLINE v_f64 exp_sum(v_f64 a, v_f64 low) {
    v_f64 x = a > 710.0 ? (v_f64)710.0 : a;
    x = x < -750.0 ? (v_f64)-750.0 : x;
    const v_f64 shifted = vec_fma_f64(x, (v_f64)LOG2_E, (v_f64)ROUNDER_F64);
    const v_f64 n = shifted - ROUNDER_F64;
    const v_f64 r = vec_fma_f64(n, (v_f64)-LN2_HIGH, x) + vec_fma_f64(n, (v_f64)-LN2_LOW, low);
    const v_f64 tail = vec_fma_f64(r * r, poly(r, exp_terms, COUNT_OF(exp_terms)), r);
    return scale_f64(1.0 + tail, bits_f64(shifted) - bits_f64((v_f64)ROUNDER_F64));
}

/* exp, at most 1.25 ulp. */
INLINE v_f64 vec_exp_f64(v_f64 a) { return exp_sum(a, (v_f64)0.0); }

/* (2^r - 1) / r on |r| <= 1/2. */
static const double exp2_terms[] = {0x1.c4c8e41ffd8ffp-36, 0x1.e9ec3e20a98f5p-32, 0x1.e4cef687a85e4p-28,
                                    0x1.b524ebc0203b7p-24, 0x1.62c022494e350p-20, 0x1.ffcbfc6dad99bp-17,
                                    0x1.430912f86a0cep-13, 0x1.5d87fe78a3f8bp-10, 0x1.3b2ab6fba4e7dp-7,
                                    0x1.c6b08d704a0c6p-5,  0x1.ebfbdff82c58fp-3,  0x1.62e42fefa39efp-1};

/* exp2, at most 1 ulp: a = n + r exactly. */
INLINE v_f64 vec_exp2_f64(v_f64 a) {
    v_f64 x = a > 1030.0 ? (v_f64)1030.0 : a;
    x = x < -1080.0 ? (v_f64)-1080.0 : x;
    const v_f64 shifted = x + ROUNDER_F64;
    const v_f64 r = x - (shifted - ROUNDER_F64);
    const v_f64 power = vec_fma_f64(poly(r, exp2_terms, COUNT_OF(exp2_terms)), r, (v_f64)1.0);
    return scale_f64(power, bits_f64(shifted) - bits_f64((v_f64)ROUNDER_F64));
}

/* a = 2^exponent (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), for a > 0; subnormals included. */
typedef struct Split_f64 {
    v_f64 exponent, f;
} Split_f64;

INLINE Split_f64 split_f64(v_f64 a) {
    const v_i64 small = a < 0x1p-1022;
    const v_f64 x = small ? a * 0x1p52 : a;
    const v_i64 root = (v_i64)0x3fe6a09e667f3bcd; /* sqrt(1/2) */
    const v_i64 bits = (v_i64)((v_u64)bits_f64(x) - (v_u64)root);
    const v_i64 e = (bits >> 52) - (small ? (v_i64)52 : (v_i64)0);
    const Split_f64 split = {CONVERT(CONVERT(e, v_i32), v_f64), double_of((bits & ((1ll << 52) - 1)) + root) - 1.0};
    return split;
}

/* (2 atanh(s) - 2 s) / (s z), z = s^2, for s up to (sqrt(2) - 1) / (sqrt(2) + 1). */
static const double log_terms[] = {0x1.2b6d4f7aba4abp-3, 0x1.39fc9fb0e5d14p-3, 0x1.7462c2a5f0932p-3,
                                   0x1.c71c62b254fe1p-3, 0x1.2492492e1b649p-2, 0x1.999999999514fp-2,
                                   0x1.5555555555558p-1};

/* log(1 + f) + e ln2 as fdlibm's e_log.c does: s = f / (2 + f), f - (f^2/2 - s (f^2/2 + R)). */
INLINE v_f64 log_split(Split_f64 split) {
    const v_f64 f = split.f, e = split.exponent, s = f / (2.0 + f), z = s * s;
    const v_f64 r = z * poly_plain(z, log_terms, COUNT_OF(log_terms)), half = 0.5 * f * f;
    return e * LN2_HIGH - ((half - (s * (half + r) + e * LN2_LOW)) - f);
}

/* log, at most 1 ulp. */
INLINE v_f64 vec_log_f64(v_f64 a) {
    v_f64 y = log_split(split_f64(a));
    y = a < __builtin_inf() ? y : a; /* inf and NaN */
    y = a == 0.0 ? (v_f64)-__builtin_inf() : y;
    return a < 0.0 ? (v_f64)__builtin_nan("") : y;
}

/* tanh, at most 1.5 ulp: Cephes' rational function below 0.625, else 1 - 2 / (e^2x + 1). */
INLINE v_f64 vec_tanh_f64(v_f64 a) {
    const v_i64 sign = bits_f64(a) & INT64_MIN;
    const v_f64 x = double_of(bits_f64(a) ^ sign), z = x * x;
    v_f64 p = -9.64399179425052238628e-1 * z - 9.92877231001918586564e1;
    p = p * z - 1.61468768441708447952e3;
    v_f64 q = (z + 1.12811678491632931402e2) * z + 2.23548839060100448583e3;
    q = q * z + 4.84406305325125486048e3;
    const v_f64 near = x + x * (z * p / q);
    const v_f64 far = 1.0 - 2.0 / (vec_exp_f64(x + x) + 1.0);
    return double_of(bits_f64(x < 0.625 ? near : far) | sign);
}

/* erf(x)/x - 1 in z = x^2 <= 1, and erfc(x) e^(x^2) in (x - 4)/(x + 4) for 1 <= x <= 6. */
static const double erf_terms[] = {0x1.0627890b92f43p-34,  -0x1.38ac32d8ed106p-30, 0x1.f7b9a24bdfaf0p-27,
                                   -0x1.5f1f41608c1ffp-23, 0x1.b9df3066e20fep-20,  -0x1.f4d1e4355e24fp-17,
                                   0x1.f9a321e4be396p-14,  -0x1.c02db3db49905p-11, 0x1.565bcd0dbd920p-8,
                                   -0x1.b82ce31284f38p-6,  0x1.ce2f21a042b34p-4,   -0x1.812746b0379e6p-2,
                                   0x1.06eba8214db69p-3};
static const double erfc_terms[] = {-0x1.ba12585ae1d83p-25, -0x1.110ae4be116e0p-21, -0x1.335a160701cb5p-21,
                                    0x1.83f15c86f93d6p-19,  -0x1.fe7635801d104p-20, -0x1.7a4f9d9f756e3p-16,
                                    0x1.4b493e74a51fap-14,  -0x1.6d1aa9f6a5670p-16, -0x1.a2f8fffcdba53p-11,
                                    0x1.0a17eb75f1069p-8,   -0x1.a4ded4125847dp-7,  0x1.0066e1049fadap-5,
                                    -0x1.027d5744b7a34p-4,  0x1.be502c36582dbp-4,   -0x1.506666f69e51ep-3,
                                    0x1.bff01a5f90863p-3,   -0x1.094922737431ap-2,  0x1.18932bf08e154p-3};

/* erf, at most 1.5 ulp. */
INLINE v_f64 vec_erf_f64(v_f64 a) {
    const v_i64 sign = bits_f64(a) & INT64_MIN;
    const v_f64 whole = double_of(bits_f64(a) ^ sign);
    const v_f64 t = whole > 6.0 ? (v_f64)6.0 : whole, z = t * t; /* erf(6) rounds to 1 */
    const v_f64 near = vec_fma_f64(poly(z, erf_terms, COUNT_OF(erf_terms)), t, t);
    const v_f64 tail = poly((t - 4.0) / (t + 4.0), erfc_terms, COUNT_OF(erfc_terms));
    const v_f64 far = 1.0 - vec_exp_f64(-z) * tail;
    return double_of(bits_f64(t < 1.0 ? near : t == t ? far : t) | sign);
}

#include "kernels/cpu/math_turn.h"
#include "kernels/cpu/math_pow.h"

#endif
