/* math_f64.h: transcendental functions of f64 vectors, and what math_f32.h shares with them: argument reduction of
 * large angles, the split of a number into 2^e m, the edges of pow. Polynomials are minimax fits (Remez, 60 digits) of
 * the functions named beside them. Error bounds stand in ir/scalar.def. */
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
#define LN2_HIGH     0x1.62e42feep-1 /* 32 bits: n * LN2_HIGH is exact */
#define LN2_LOW      0x1.a39ef35793c76p-33
#define LOG2_E       0x1.71547652b82fep+0
#define LOG10_2_HIGH 0x1.3441350ap-2 /* 32 bits */
#define LOG10_2_LOW  -0x1.0c0219dc1da99p-39
#define LOG10_E      0x1.bcb7b1526e50ep-2
#define LOG10_E_LOW  0x1.95355baaafad3p-57

/* exp: the remainder's low half is added to the tail. */
INLINE v_f64 vec_exp_f64(v_f64 a) {
    v_f64 x = a > 710.0 ? (v_f64)710.0 : a;
    x = x < -750.0 ? (v_f64)-750.0 : x;
    const v_f64 shifted = vec_fma_f64(x, (v_f64)LOG2_E, (v_f64)ROUNDER_F64);
    const v_f64 n = shifted - ROUNDER_F64;
    const v_f64 high = vec_fma_f64(n, (v_f64)-LN2_HIGH, x), r = vec_fma_f64(n, (v_f64)-LN2_LOW, high);
    const v_f64 low = vec_fma_f64(n, (v_f64)-LN2_LOW, high - r);
    const v_f64 tail = r + vec_fma_f64(r * r, poly(r, exp_terms, COUNT_OF(exp_terms)), low);
    return scale_f64(1.0 + tail, bits_f64(shifted) - bits_f64((v_f64)ROUNDER_F64));
}

/* (2^r - 1) / r on |r| <= 1/2. */
static const double exp2_terms[] = {0x1.c4c8e41ffd8ffp-36, 0x1.e9ec3e20a98f5p-32, 0x1.e4cef687a85e4p-28,
                                    0x1.b524ebc0203b7p-24, 0x1.62c022494e350p-20, 0x1.ffcbfc6dad99bp-17,
                                    0x1.430912f86a0cep-13, 0x1.5d87fe78a3f8bp-10, 0x1.3b2ab6fba4e7dp-7,
                                    0x1.c6b08d704a0c6p-5,  0x1.ebfbdff82c58fp-3,  0x1.62e42fefa39efp-1};

/* exp2: a = n + r exactly. */
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

/* log. */
INLINE v_f64 vec_log_f64(v_f64 a) {
    v_f64 y = log_split(split_f64(a));
    y = a < __builtin_inf() ? y : a; /* inf and NaN */
    y = a == 0.0 ? (v_f64)-__builtin_inf() : y;
    return a < 0.0 ? (v_f64)__builtin_nan("") : y;
}

#include "kernels/cpu/math_turn.h"

#include "kernels/cpu/math_pair.h"
#include "kernels/cpu/math_arc.h"
#include "kernels/cpu/math_erf.h"
#include "kernels/cpu/math_exp.h"
#include "kernels/cpu/math_log.h"
#include "kernels/cpu/math_modulo.h"
#include "kernels/cpu/math_pow.h"

#endif
