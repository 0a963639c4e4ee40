/* math_f32.h: transcendental functions of f32 vectors. exp, exp2, log, tanh and erf work in f32 with named fma, because
 * they are hot; sin, cos and pow work in f64 with plain products (f64 has bits to spare, and v2 has no fma of doubles).
 * Error bounds are against the exact value, found by the tests' sweeps. No branch depends on anything but the
 * values, and no lane on another's, except that a rare path is skipped when no lane needs it. */
#ifndef SINTER_KERNELS_CPU_MATH_F32_H
#define SINTER_KERNELS_CPU_MATH_F32_H
#include "kernels/cpu/fma.h"

/* x * 2^n for -252 <= n <= 254 in two exact steps and one rounding at most. */
INLINE v_f32 scale_f32(v_f32 x, v_i32 n) {
    const v_i32 half = n >> 1;
    return x * float_of((half + 127) << 23) * float_of((n - half + 127) << 23);
}

/* Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits. */
#define ROUNDER_F32 0x1.8p23f

/* e^r - 1 = r + r^2 P(r) on |r| <= ln(2)/2. */
INLINE v_f32 exp_tail_f32(v_f32 r) {
    v_f32 p = (v_f32)1.9875691500e-4f;
    p = vec_fma_f32(p, r, (v_f32)1.3981999507e-3f);
    p = vec_fma_f32(p, r, (v_f32)8.3334519073e-3f);
    p = vec_fma_f32(p, r, (v_f32)4.1665795894e-2f);
    p = vec_fma_f32(p, r, (v_f32)1.6666665459e-1f);
    p = vec_fma_f32(p, r, (v_f32)5.0000001201e-1f);
    return vec_fma_f32(p, r * r, r);
}

/* exp, at most 1 ulp: x = n ln2 + r (Cody and Waite), polynomial of Cephes' expf. */
INLINE v_f32 vec_exp_f32(v_f32 a) {
    v_f32 x = a > 90.0f ? (v_f32)90.0f : a;
    x = x < -105.0f ? (v_f32)-105.0f : x;
    const v_f32 shifted = vec_fma_f32(x, (v_f32)0x1.715476p0f, (v_f32)ROUNDER_F32);
    const v_f32 n = shifted - ROUNDER_F32;
    const v_i32 power = bits_f32(shifted) - bits_f32((v_f32)ROUNDER_F32);
    v_f32 r = vec_fma_f32(n, (v_f32)-0.693359375f, x);
    r = vec_fma_f32(n, (v_f32)2.12194440e-4f, r);
    return scale_f32(exp_tail_f32(r) + 1.0f, power);
}

/* exp2, at most 1 ulp: x = n + r exactly, 2^r = 1 + r P(r). */
INLINE v_f32 vec_exp2_f32(v_f32 a) {
    v_f32 x = a > 130.0f ? (v_f32)130.0f : a;
    x = x < -152.0f ? (v_f32)-152.0f : x;
    const v_f32 shifted = x + ROUNDER_F32;
    const v_f32 r = x - (shifted - ROUNDER_F32);
    const v_i32 power = bits_f32(shifted) - bits_f32((v_f32)ROUNDER_F32);
    v_f32 p = (v_f32)1.535336188319500e-4f;
    p = vec_fma_f32(p, r, (v_f32)1.339887440266574e-3f);
    p = vec_fma_f32(p, r, (v_f32)9.618437357674640e-3f);
    p = vec_fma_f32(p, r, (v_f32)5.550332471162809e-2f);
    p = vec_fma_f32(p, r, (v_f32)2.402264791363012e-1f);
    p = vec_fma_f32(p, r, (v_f32)6.931472028550421e-1f);
    return scale_f32(vec_fma_f32(p, r, (v_f32)1.0f), power);
}

/* log, at most 1 ulp: x = 2^e m with m in [sqrt(1/2), sqrt(2)), polynomial of Cephes' logf in m - 1. */
INLINE v_f32 vec_log_f32(v_f32 a) {
    const v_i32 small = a < 0x1p-126f;
    const v_f32 x = small ? a * 0x1p23f : a;
    const v_i32 bits = bits_f32(x) - 0x3f3504f3; /* sqrt(1/2) */
    const v_i32 e = (bits >> 23) - (small & 23);
    const v_f32 f = float_of((bits & 0x7fffff) + 0x3f3504f3) - 1.0f, power = CONVERT(e, v_f32);
    v_f32 p = (v_f32)7.0376836292e-2f;
    p = vec_fma_f32(p, f, (v_f32)-1.1514610310e-1f);
    p = vec_fma_f32(p, f, (v_f32)1.1676998740e-1f);
    p = vec_fma_f32(p, f, (v_f32)-1.2420140846e-1f);
    p = vec_fma_f32(p, f, (v_f32)1.4249322787e-1f);
    p = vec_fma_f32(p, f, (v_f32)-1.6668057665e-1f);
    p = vec_fma_f32(p, f, (v_f32)2.0000714765e-1f);
    p = vec_fma_f32(p, f, (v_f32)-2.4999993993e-1f);
    p = vec_fma_f32(p, f, (v_f32)3.3333331174e-1f);
    const v_f32 square = f * f;
    v_f32 y = vec_fma_f32(power, (v_f32)-2.12194440e-4f, p * (square * f));
    y = vec_fma_f32((v_f32)-0.5f, square, y) + f;
    y = vec_fma_f32(power, (v_f32)0.693359375f, y);
    y = a < __builtin_inff() ? y : a;           /* inf and NaN */
    y = a == 0.0f ? (v_f32)-__builtin_inff() : y;
    return a < 0.0f ? (v_f32)__builtin_nanf("") : y;
}

/* tanh, at most 2 ulp: odd polynomial below 0.625 (Cephes), else 1 - 2 / (e^2x + 1). */
INLINE v_f32 vec_tanh_f32(v_f32 a) {
    const v_i32 sign = bits_f32(a) & INT32_MIN;
    const v_f32 x = float_of(bits_f32(a) ^ sign), z = a * a;
    v_f32 p = (v_f32)-5.70498872745e-3f;
    p = vec_fma_f32(p, z, (v_f32)2.06390887954e-2f);
    p = vec_fma_f32(p, z, (v_f32)-5.37397155531e-2f);
    p = vec_fma_f32(p, z, (v_f32)1.33314422036e-1f);
    p = vec_fma_f32(p, z, (v_f32)-3.33332819422e-1f);
    const v_f32 near = vec_fma_f32(p * z, x, x);
    const v_f32 far = 1.0f - 2.0f / (vec_exp_f32(x + x) + 1.0f);
    return float_of(bits_f32(x < 0.625f ? near : far) | sign);
}

/* erf, at most 1 ulp: two minimax polynomials after N. Juffa, the far one giving 1 - e^P(|x|). */
INLINE v_f32 vec_erf_f32(v_f32 a) {
    const v_i32 sign = bits_f32(a) & INT32_MIN;
    const v_f32 whole = float_of(bits_f32(a) ^ sign);
    const v_f32 t = whole > 4.0f ? (v_f32)4.0f : whole, s = t * t; /* erf(4) rounds to 1 */
    v_f32 r = vec_fma_f32((v_f32)-1.72853470e-5f, t, (v_f32)3.83197126e-4f);
    const v_f32 u = vec_fma_f32((v_f32)-3.88396438e-3f, t, (v_f32)2.42546219e-2f);
    r = vec_fma_f32(r, s, u);
    r = vec_fma_f32(r, t, (v_f32)-1.06777877e-1f);
    r = vec_fma_f32(r, t, (v_f32)-6.34846687e-1f);
    r = vec_fma_f32(r, t, (v_f32)-1.28717512e-1f);
    r = vec_fma_f32(r, t, -t);
    const v_f32 far = 1.0f - vec_exp_f32(r);
    v_f32 q = (v_f32)-5.96761703e-4f;
    q = vec_fma_f32(q, s, (v_f32)4.99119423e-3f);
    q = vec_fma_f32(q, s, (v_f32)-2.67681349e-2f);
    q = vec_fma_f32(q, s, (v_f32)1.12819925e-1f);
    q = vec_fma_f32(q, s, (v_f32)-3.76125336e-1f);
    q = vec_fma_f32(q, s, (v_f32)1.28379166e-1f);
    const v_f32 near = vec_fma_f32(q, t, t);
    return float_of(bits_f32(t > 0.927734375f ? far : near) | sign);
}

#endif
