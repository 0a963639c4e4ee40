/* math_gelu.h: gelu(a) = a Phi(a) of f32 and its slope Phi(a) + a phi(a), Phi and phi of the normal distribution. Near
 * 0 a polynomial; beyond 1 the part in the tail, x (1 - Phi(x)), is e^(-x^2/2) times a function P that hardly varies:
 * it keeps its digits down to the last denormal. Part of math_f32.h; f64's are in math_erf.h. */
#ifndef SINTER_KERNELS_CPU_MATH_GELU_H
#define SINTER_KERNELS_CPU_MATH_GELU_H

typedef struct Gelu_tail {
    v_f32 x, square;     /* |a|, at most 15, where the tail rounds to 0; x^2 */
    v_f32 p;             /* x (1 - Phi(x)) = p e^(-x^2/2), 1 <= x */
    v_f32 tail, shifted; /* e^(-x^2/2) = (1 + tail) 2^(shifted - ROUNDER_F32) */
} Gelu_tail;

INLINE v_f32 gelu_part(v_f32 v) { /* P in v = (x - 4) / (x + 4) */
    v_f32 p = (v_f32)0x1.a672bep-11f;
    p = vec_fma_f32(p, v, (v_f32)-0x1.f47aa8p-11f);
    p = vec_fma_f32(p, v, (v_f32)-0x1.682056p-8f);
    p = vec_fma_f32(p, v, (v_f32)0x1.b11cdap-6f);
    p = vec_fma_f32(p, v, (v_f32)-0x1.024e24p-4f);
    p = vec_fma_f32(p, v, (v_f32)0x1.9adbb0p-4f);
    p = vec_fma_f32(p, v, (v_f32)-0x1.c41d96p-4f);
    p = vec_fma_f32(p, v, (v_f32)0x1.2dda08p-4f);
    return vec_fma_f32(p, v, (v_f32)0x1.82b4bcp-2f);
}

/* x^2 is exact with what its rounding lost, which is added to the remainder of x^2/2 by ln2. */
INLINE Gelu_tail gelu_tail(v_f32 a) {
    const v_f32 size = float_of(bits_f32(a) & INT32_MAX), x = size > 15.0f ? (v_f32)15.0f : size;
    const v_f32 square = x * x, lost = vec_fma_f32(x, x, -square);
    const v_f32 shifted = vec_fma_f32(square, (v_f32)-0x1.715476p-1f, (v_f32)ROUNDER_F32), n = shifted - ROUNDER_F32;
    v_f32 r = vec_fma_f32(n, (v_f32)-0.693359375f, -0.5f * square);
    r = vec_fma_f32(n, (v_f32)2.12194440e-4f, r);
    r = vec_fma_f32(lost, (v_f32)-0.5f, r);
    const v_f32 p = gelu_part((x - 4.0f) / (x + 4.0f));
    const Gelu_tail t = {x, square, p, exp_tail_f32(r), shifted};
    return t;
}
/* p (1 + tail) 2^(n - up) / 2; where that is denormal p is not below 0, and p (1 + tail) < 4 */
INLINE v_f32 gelu_scaled(Gelu_tail t, v_f32 p, float up) {
    return scale_f32(vec_fma_f32(p, t.tail, p), t.shifted - up);
}

/* (Phi(a) - 1/2) / a in z = a^2 <= 1 */
INLINE v_f32 gelu_near(v_f32 z) {
    v_f32 p = (v_f32)-0x1.bf68fep-17f;
    p = vec_fma_f32(p, z, (v_f32)0x1.0bfad6p-13f);
    p = vec_fma_f32(p, z, (v_f32)-0x1.3a4b0cp-10f);
    p = vec_fma_f32(p, z, (v_f32)0x1.46f462p-7f);
    p = vec_fma_f32(p, z, (v_f32)-0x1.1058ccp-4f);
    return vec_fma_f32(p, z, (v_f32)0x1.988454p-2f);
}
INLINE v_f32 vec_gelu_erf_f32(v_f32 a) {
    const Gelu_tail t = gelu_tail(a);
    const v_f32 near = a * vec_fma_f32(gelu_near(t.square), a, (v_f32)0.5f);
    const v_f32 far = (a > 0.0f ? a : (v_f32)-0.0f) - gelu_scaled(t, 4.0f * t.p, 1.0f);
    return t.x < 1.0f ? near : far;
}

/* (Phi(a) - 1/2) / a + phi(a) in z = a^2 <= 1 */
INLINE v_f32 gelu_slope_near(v_f32 z) {
    v_f32 p = (v_f32)-0x1.a33164p-14f;
    p = vec_fma_f32(p, z, (v_f32)0x1.2f225cp-10f);
    p = vec_fma_f32(p, z, (v_f32)-0x1.37a578p-7f);
    p = vec_fma_f32(p, z, (v_f32)0x1.ea458ep-5f);
    p = vec_fma_f32(p, z, (v_f32)-0x1.105878p-2f);
    return vec_fma_f32(p, z, (v_f32)0x1.988454p-1f);
}
/* x phi(x) - (1 - Phi(x)) = e^(-x^2/2) (x^2 / sqrt(2 pi) - P) / x */
INLINE v_f32 vec_gelu_erf_slope_f32(v_f32 a) {
    const Gelu_tail t = gelu_tail(a);
    const v_f32 rest = vec_fma_f32(t.square, (v_f32)0x1.988454p-2f, -t.p) / t.x;
    const v_f32 part = gelu_scaled(t, 0.25f * rest, -3.0f);
    const v_f32 far = (a > 0.0f ? (v_f32)1.0f : (v_f32)-0.0f) + (a > 0.0f ? part : -part);
    return t.x < 1.0f ? vec_fma_f32(gelu_slope_near(t.square), a, (v_f32)0.5f) : far;
}

#endif
