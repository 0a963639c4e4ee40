/* math_f32.h: transcendental functions of f32 vectors. exp, exp2, log, tanh and erf work in f32 with named fma, because
 * they are hot; sin, cos and pow work in f64 with plain products (f64 has bits to spare, and v2 has no fma of doubles).
 * Error bounds stand in ir/scalar.def. No branch depends on anything but the
 * values, and no lane on another's, except that a rare path is skipped when no lane needs it. */
#ifndef SINTER_KERNELS_CPU_MATH_F32_H
#define SINTER_KERNELS_CPU_MATH_F32_H
#include "kernels/cpu/math_wide.h"

/* Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits. */
#define ROUNDER_F32 0x1.8p23f

/* twice / 2 * 2^n, rounded once; n = shifted - ROUNDER_F32, -272 <= n <= 128, twice in [1, 4). Where n <= -126 the
 * product is counted in units of 2^-149: adding -2^24 rounds it to a whole number, which is the bit pattern of the
 * result, so no operation makes a subnormal (processors take 150 cycles for one). NaN passes. */
INLINE v_f32 scale_f32(v_f32 twice, v_f32 shifted) {
    const v_i32 low = shifted <= ROUNDER_F32 - 126.0f;
    const v_u32 factor = ((v_u32)bits_f32(shifted) << 23) + (126u << 23) + (v_u32)(low ? (v_i32)(149 << 23) : (v_i32)0);
    const v_f32 wide = vec_fma_f32(twice, float_of((v_i32)factor), low ? (v_f32)-0x1p24f : (v_f32)0.0f);
    return float_of(low ? CONVERT(wide, v_i32) + (1 << 24) : bits_f32(wide));
}

/* e^r - 1 = r + r^2 P(r) on |r| <= ln(2)/2. */
INLINE v_f32 exp_tail_f32(v_f32 r) {
    v_f32 p = (v_f32)0x1.a17eacp-13f;
    p = vec_fma_f32(p, r, (v_f32)0x1.6d43b8p-10f);
    p = vec_fma_f32(p, r, (v_f32)0x1.1110acp-7f);
    p = vec_fma_f32(p, r, (v_f32)0x1.5554e8p-5f);
    p = vec_fma_f32(p, r, (v_f32)0x1.555556p-3f);
    p = vec_fma_f32(p, r, (v_f32)0x1p-1f);
    return vec_fma_f32(p, r * r, r);
}

/* exp: x = n ln2 + r (Cody and Waite), a polynomial (tests/oracle/minimax.py). */
INLINE v_f32 vec_exp_f32(v_f32 a) {
    v_f32 x = a > 89.0f ? (v_f32)89.0f : a;
    x = x < -105.0f ? (v_f32)-105.0f : x;
    const v_f32 shifted = vec_fma_f32(x, (v_f32)0x1.715476p0f, (v_f32)ROUNDER_F32);
    const v_f32 n = shifted - ROUNDER_F32;
    v_f32 r = vec_fma_f32(n, (v_f32)-0.693359375f, x);
    r = vec_fma_f32(n, (v_f32)2.12194440e-4f, r);
    return scale_f32(vec_fma_f32(exp_tail_f32(r), (v_f32)2.0f, (v_f32)2.0f), shifted);
}

/* exp2: x = n + r exactly, 2^r = 1 + r P(r). */
INLINE v_f32 vec_exp2_f32(v_f32 a) {
    v_f32 x = a > 128.0f ? (v_f32)128.0f : a;
    x = x < -152.0f ? (v_f32)-152.0f : x;
    const v_f32 shifted = x + ROUNDER_F32;
    const v_f32 r = x - (shifted - ROUNDER_F32);
    v_f32 p = (v_f32)1.535336188319500e-4f;
    p = vec_fma_f32(p, r, (v_f32)1.339887440266574e-3f);
    p = vec_fma_f32(p, r, (v_f32)9.618437357674640e-3f);
    p = vec_fma_f32(p, r, (v_f32)5.550332471162809e-2f);
    p = vec_fma_f32(p, r, (v_f32)2.402264791363012e-1f);
    p = vec_fma_f32(p, r, (v_f32)6.931472028550421e-1f);
    return scale_f32(vec_fma_f32(p, r + r, (v_f32)2.0f), shifted);
}

/* log: x = 2^e m with m in [sqrt(1/2), sqrt(2)), polynomial of Cephes' logf in m - 1. */
INLINE v_f32 vec_log_f32(v_f32 a) {
    const v_i32 small = a < 0x1p-126f;
    const v_f32 x = small ? a * 0x1p23f : a;
    const v_i32 bits = (v_i32)((v_u32)bits_f32(x) - 0x3f3504f3u); /* sqrt(1/2) */
    const v_i32 e = (bits >> 23) - (small ? (v_i32)23 : (v_i32)0);
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
    y = a < __builtin_inff() ? y : a; /* inf and NaN */
    y = a == 0.0f ? (v_f32)-__builtin_inff() : y;
    return a < 0.0f ? (v_f32)__builtin_nanf("") : y;
}

/* e^x = (1 + tail) scale, |x| <= 80; scale is a power of two. */
typedef struct Power_f32 {
    v_f32 tail, scale;
} Power_f32;

INLINE Power_f32 power_f32(v_f32 x) {
    const v_f32 shifted = vec_fma_f32(x, (v_f32)0x1.715476p0f, (v_f32)ROUNDER_F32);
    const v_f32 n = shifted - ROUNDER_F32;
    v_f32 r = vec_fma_f32(n, (v_f32)-0.693359375f, x);
    r = vec_fma_f32(n, (v_f32)2.12194440e-4f, r);
    const Power_f32 power = {exp_tail_f32(r), float_of((v_i32)(((v_u32)bits_f32(shifted) << 23) + (127u << 23)))};
    return power;
}

/* tanh: x + x^3 P(x^2) below 0.9, else 1 - 2 / (e^2x + 1). */
INLINE v_f32 vec_tanh_f32(v_f32 a) {
    const v_i32 sign = bits_f32(a) & INT32_MIN;
    const v_f32 x = float_of(bits_f32(a) ^ sign), z = a * a;
    v_f32 p = (v_f32)-0x1.dc059ap-12f;
    p = vec_fma_f32(p, z, (v_f32)0x1.521516p-9f);
    p = vec_fma_f32(p, z, (v_f32)-0x1.0eb9dep-7f);
    p = vec_fma_f32(p, z, (v_f32)0x1.62ebd0p-6f);
    p = vec_fma_f32(p, z, (v_f32)-0x1.b9c9c6p-5f);
    p = vec_fma_f32(p, z, (v_f32)0x1.110f36p-3f);
    p = vec_fma_f32(p, z, (v_f32)-0x1.55554ep-2f);
    const v_f32 near = vec_fma_f32(p * z, x, x);
    const Power_f32 power = power_f32(x > 10.0f ? (v_f32)20.0f : x + x); /* tanh(10) rounds to 1 */
    const v_f32 far = 1.0f - 2.0f / vec_fma_f32(power.tail, power.scale, power.scale + 1.0f);
    return float_of(bits_f32(x < 0.9f ? near : far) | sign);
}

/* sigmoid: e = e^-|x| and d = 1 + e with what rounding them lost; the quotient 1 / d, below 0 e / d, and
 * what it lost of d. Where e is below 2^-87 d is 1, and e itself the result. */
INLINE v_f32 vec_sigmoid_f32(v_f32 a) {
    const v_f32 size = float_of(bits_f32(a) | INT32_MIN), x = size < -105.0f ? (v_f32)-105.0f : size;
    const v_i32 falls = a < 0.0f, far = x < -60.0f;
    const v_f32 shifted = vec_fma_f32(x, (v_f32)0x1.715476p0f, (v_f32)ROUNDER_F32), n = shifted - ROUNDER_F32;
    const v_f32 high = vec_fma_f32(n, (v_f32)-0.693359375f, x), r = vec_fma_f32(n, (v_f32)2.12194440e-4f, high);
    const v_f32 r_low = vec_fma_f32(n, (v_f32)2.12194440e-4f, high - r), tail = exp_tail_f32(r);
    const v_f32 e = 1.0f + tail, e_low = ((1.0f - e) + tail) + r_low;
    const v_f32 scale =
        float_of((v_i32)(((v_u32)bits_f32(far ? (v_f32)(ROUNDER_F32 - 87.0f) : shifted) << 23) + (127u << 23)));
    const v_f32 d = vec_fma_f32(e, scale, (v_f32)1.0f), d_low = vec_fma_f32(e, scale, 1.0f - d) + scale * e_low;
    const v_f32 above = falls ? e : (v_f32)1.0f, above_low = falls ? e_low : (v_f32)0.0f;
    const v_f32 ratio = above / d, rest = vec_fma_f32(-ratio, d, above) + vec_fma_f32(-ratio, d_low, above_low);
    const v_f32 inverse = falls ? vec_fma_f32(-ratio, scale, (v_f32)1.0f) : ratio; /* of d, nearly */
    const v_f32 value = vec_fma_f32(rest, inverse, ratio);
    return scale_f32(value + value, falls ? shifted : (v_f32)ROUNDER_F32);
}

/* erf: two minimax polynomials after N. Juffa, the far one giving 1 - e^P(|x|). */
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
    const Power_f32 power = power_f32(r);
    const v_f32 far = vec_fma_f32(-power.tail, power.scale, 1.0f - power.scale);
    v_f32 q = (v_f32)-5.96761703e-4f;
    q = vec_fma_f32(q, s, (v_f32)4.99119423e-3f);
    q = vec_fma_f32(q, s, (v_f32)-2.67681349e-2f);
    q = vec_fma_f32(q, s, (v_f32)1.12819925e-1f);
    q = vec_fma_f32(q, s, (v_f32)-3.76125336e-1f);
    q = vec_fma_f32(q, s, (v_f32)1.28379166e-1f);
    const v_f32 near = vec_fma_f32(q, t, t);
    return float_of(bits_f32(t > 0.927734375f ? far : near) | sign);
}

/* sin and cos: the angle is taken mod pi/2 in f64 (n * high part is exact below 2^20), polynomials with
 * error 2^-35. Large angles share the f64 reduction. */
typedef struct Turn_f32 {
    v_f64 angle; /* |angle| <= pi/4 and a little */
    v_i64 quadrant;
} Turn_f32;

INLINE Turn_f32 turn_f32(v_f32 a) {
    const v_f64 x = CONVERT(a, v_f64);
    const v_f64 shifted = x * 0x1.45f306dc9c883p-1 + ROUNDER_F64;
    const v_f64 n = shifted - ROUNDER_F64;
    Turn_f32 turn = {x - n * 0x1.921fb544p+0 - n * 0x1.0b4611a626331p-34, bits_f64(shifted)};
    const v_i64 large = !(vec_abs_f64(x) < 0x1p19);
    if (any_i64(large)) {
        v_f64 low;
        reduce_large(&x, 0x1p19, &turn.angle, &low, &turn.quadrant);
    }
    return turn;
}

INLINE v_f64 sine_f32(v_f64 r) {
    const v_f64 z = r * r;
    const v_f64 s = ((0x1.6dbddf4aff6bep-19 * z - 0x1.a013a73e99fb2p-13) * z + 0x1.11110def1cca5p-7) * z;
    return r + r * z * (s - 0x1.555555545e230p-3);
}
INLINE v_f64 cosine_f32(v_f64 r) {
    const v_f64 z = r * r;
    const v_f64 c = (-0x1.25242c7003f0bp-22 * z + 0x1.a015c42d21ae5p-16) * z - 0x1.6c16bf54c5b91p-10;
    return 1.0 - 0.5 * z + z * z * (c * z + 0x1.5555555502d16p-5);
}

/* sin(angle + quadrant * pi/2). */
INLINE v_f32 wave_f32(Turn_f32 turn, int64_t quarter) {
    const v_i64 quadrant = turn.quadrant + quarter;
    const v_f64 size = (quadrant & 1) != 0 ? cosine_f32(turn.angle) : sine_f32(turn.angle);
    return CONVERT((quadrant & 2) != 0 ? -size : size, v_f32);
}

INLINE v_f32 vec_sin_f32(v_f32 a) { return a == 0.0f ? a : wave_f32(turn_f32(a), 0); }
INLINE v_f32 vec_cos_f32(v_f32 a) { return wave_f32(turn_f32(a), 1); }

/* tan = sine / cosine, or -cosine / sine in odd quadrants. */
INLINE v_f32 vec_tan_f32(v_f32 a) {
    const Turn_f32 turn = turn_f32(a);
    const v_f64 sine = sine_f32(turn.angle), cosine = cosine_f32(turn.angle);
    const v_i64 odd = (turn.quadrant & 1) != 0;
    const v_f64 ratio = (odd ? -cosine : sine) / (odd ? sine : cosine);
    return a == 0.0f ? a : CONVERT(ratio, v_f32);
}

/* pow: e^(b log|a|) in f64, whose error is far below a f32 ulp. */
INLINE v_f32 vec_pow_f32(v_f32 a, v_f32 b) {
    const v_f64 x = CONVERT(a, v_f64), y = CONVERT(b, v_f64);
    const Split_f64 split = split_f64(vec_abs_f64(x));
    const v_f64 log = log_split(split);
    v_f64 p = y * log;
    p = p > 200.0 ? (v_f64)200.0 : p;
    p = p < -200.0 ? (v_f64)-200.0 : p;
    const v_f64 shifted = p * 0x1.71547652b82fep+0 + ROUNDER_F64;
    const v_f64 n = shifted - ROUNDER_F64;
    const v_f64 r = p - n * 0x1.62e42feep-1 - n * 0x1.a39ef35793c76p-33;
    const v_f64 power = 1.0 + (r + r * r * poly_plain(r, exp_terms, COUNT_OF(exp_terms)));
    const v_i64 exponent = bits_f64(shifted) - bits_f64((v_f64)ROUNDER_F64);
    return CONVERT(pow_edges(x, y, power * power_of_two(exponent)), v_f32);
}

#include "kernels/cpu/math_gelu.h"

#endif
