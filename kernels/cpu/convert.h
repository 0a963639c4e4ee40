/* convert.h: casts between the scalar types of loop IR, and the 16-bit float formats, all with defined edges: float
 * to int saturates and NaN gives 0; to bool is != 0. i8, i16 and u8 exist in memory only: a float becomes an i32
 * first, and its low bits are stored. So 300 to u8 is 44 and -1.5 is 255, as in PyTorch; what does not fit i32
 * saturates before it is cut: 3e9 to i8 is -1, -3e9 is 0 (PyTorch leaves these to the machine: 0 on x86). A cast of a
 * type to itself does not exist. f16 and bf16 are converted by integer code (and exact f32 steps) on every level,
 * never by the CPU's instructions, some of which flush denormals [semantics B3, B4]. */
#ifndef SINTER_KERNELS_CPU_CONVERT_H
#define SINTER_KERNELS_CPU_CONVERT_H
#include "kernels/cpu/vec.h"

/* Out-of-range lanes are made 0 before converting (converting them is undefined), then patched. `limit` is
 * 2^(bits-1), the first value too large; -limit itself converts. */
#define SATURATE(from, to, limit, low, high)                                                                           \
    INLINE v_##to cast_##from##_##to(v_##from a) {                                                                     \
        const m_##from inside = (a >= -(limit)) & (a < (limit));                                                       \
        const v_##to exact = CONVERT(inside ? a : (v_##from)0, v_##to);                                                \
        const v_##to above = CONVERT(a >= (limit), v_##to) ? (v_##to)(high) : exact;                                   \
        return CONVERT(a < -(limit), v_##to) ? (v_##to)(low) : above;                                                  \
    }
SATURATE(f32, i32, 0x1p31f, INT32_MIN, INT32_MAX)
SATURATE(f32, i64, 0x1p63f, INT64_MIN, INT64_MAX)
SATURATE(f64, i32, 0x1p31, INT32_MIN, INT32_MAX)
SATURATE(f64, i64, 0x1p63, INT64_MIN, INT64_MAX)

#define PLAIN_CAST(from, to)                                                                                           \
    INLINE v_##to cast_##from##_##to(v_##from a) { return CONVERT(a, v_##to); }
PLAIN_CAST(f32, f64)
PLAIN_CAST(f64, f32)
PLAIN_CAST(i32, i64)
PLAIN_CAST(i64, i32)
PLAIN_CAST(i32, f32)
PLAIN_CAST(i32, f64)
PLAIN_CAST(i64, f32)
PLAIN_CAST(i64, f64)
PLAIN_CAST(b, f32)
PLAIN_CAST(b, f64)
PLAIN_CAST(b, i32)
PLAIN_CAST(b, i64)

INLINE v_b cast_f32_b(v_f32 a) { return bool_f32(a != 0.0f); }
INLINE v_b cast_f64_b(v_f64 a) { return bool_f64(a != 0.0); }
INLINE v_b cast_i32_b(v_i32 a) { return bool_i32(a != 0); }
INLINE v_b cast_i64_b(v_i64 a) { return bool_i64(a != 0); }

/* bf16 is the upper half of a f32. A NaN keeps its upper payload and becomes quiet. */
INLINE v_f32 f32_of_bf16(v_u16 a) { return float_of((v_i32)(CONVERT(a, v_u32) << 16)); }
INLINE v_u16 bf16_of_f32(v_f32 a) {
    const v_u32 bits = (v_u32)bits_f32(a);
    const v_u32 rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return CONVERT(a != a ? (v_i32)(bits >> 16 | 0x40) : (v_i32)rounded, v_u16);
}

/* f16: sign, 5 bits of exponent (bias 15), 10 of fraction. Subnormals are made normal by an exact f32 subtraction. */
INLINE v_f32 f32_of_f16(v_u16 a) {
    const v_i32 half = CONVERT(a, v_i32);
    const v_i32 sign = (half & 0x8000) << 16, moved = (half & 0x7fff) << 13;
    const v_i32 exponent = moved & 0x0f800000;
    const v_i32 normal = moved + (112 << 23);
    const v_i32 special = moved + (224 << 23);
    const v_i32 tiny = bits_f32(float_of(normal + (1 << 23)) - 0x1p-14f);
    const v_i32 finite = exponent == 0 ? tiny : normal;
    return float_of(sign | (exponent == 0x0f800000 ? special : finite));
}

/* 2^-24 is the step of f16 subnormals and of f32 at 0.5, so adding 0.5 rounds to it. */
INLINE v_u16 f16_of_f32(v_f32 a) {
    const v_i32 bits = bits_f32(a), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    const v_i32 tiny = bits_f32(float_of(size) + 0.5f) - 0x3f000000;
    const v_i32 normal = (size - (112 << 23) + 0xfff + (size >> 13 & 1)) >> 13;
    const v_i32 nan = 0x7e00 | (size >> 13 & 0x3ff);
    const v_i32 finite = size < 0x38800000 ? tiny : normal;
    const v_i32 infinite = size > 0x7f800000 ? nan : (v_i32)0x7c00;
    return CONVERT(sign | (size >= 0x47800000 ? infinite : finite), v_u16);
}

#endif
