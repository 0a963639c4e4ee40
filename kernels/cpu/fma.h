/* fma.h: a * b + c with one rounding. x86-64-v3 and v4 have the instruction; v2 gets exact code of our own, slow and
 * right [design 5]: f32 through f64 rounded to odd, f64 in 128-bit integers. */
#ifndef SINTER_KERNELS_CPU_FMA_H
#define SINTER_KERNELS_CPU_FMA_H
#include "kernels/cpu/vec.h"

typedef unsigned __int128 u128;

/* The product of two f32 is exact in f64. The sum is rounded to odd (its last bit set when inexact): rounding that to
 * f32 equals rounding the exact value, because f64 has more than two extra bits (Boldo, Melquiond 2008). */
INLINE v_f32 soft_fma_f32(v_f32 a, v_f32 b, v_f32 c) {
    const v_f64 p = CONVERT(a, v_f64) * CONVERT(b, v_f64), addend = CONVERT(c, v_f64);
    const v_f64 sum = p + addend;
    const v_f64 back = sum - p;
    const v_f64 error = (p - (sum - back)) + (addend - back); /* sum + error is exact */
    const v_i64 bits = bits_f64(sum);
    const v_i64 inexact = (error < 0.0) | (error > 0.0); /* false where sum is inf or NaN */
    const v_i64 away = ((error > 0.0) == (sum > 0.0));   /* -1: the exact value has the larger magnitude */
    const v_i64 odd = (bits & 1) != 0 ? bits : (away ? bits + 1 : bits - 1);
    return CONVERT(double_of(inexact ? odd : bits), v_f32);
}

typedef struct Unpacked { /* mantissa * 2^exponent, 2^52 <= mantissa < 2^53 */
    uint64_t mantissa;
    int64_t exponent;
} Unpacked;

INLINE Unpacked unpack_f64(uint64_t bits) {
    const int64_t field = (int64_t)(bits >> 52 & 0x7ff);
    const uint64_t fraction = bits & ((1ull << 52) - 1);
    if (field) return (Unpacked){fraction | 1ull << 52, field - 1075};
    const int shift = __builtin_clzll(fraction) - 11;
    return (Unpacked){fraction << shift, -1074 - shift};
}

INLINE u128 shift_right_jam(u128 value, int64_t shift) {
    if (shift <= 0) return value;
    if (shift >= 127) return value != 0;
    return value >> shift | ((value & (((u128)1 << shift) - 1)) != 0);
}

/* value * 2^exponent, 0 < value < 2^127, rounded to nearest even. */
INLINE uint64_t pack_f64(u128 value, int64_t exponent) {
    const uint64_t high = (uint64_t)(value >> 64), low = (uint64_t)value;
    const int64_t top = high ? 127 - __builtin_clzll(high) : 63 - __builtin_clzll(low);
    const int64_t scale = top + exponent; /* value is in [2^scale, 2^(scale+1)) */
    if (scale > 1023) return 0x7ffull << 52;
    const int64_t last = scale - 52 < -1074 ? -1074 : scale - 52; /* weight of the result's last bit */
    const int64_t shift = last - exponent;
    uint64_t mantissa;
    if (shift <= 0) {
        mantissa = (uint64_t)(value << -shift);
    } else if (shift > 127) {
        return 0;
    } else {
        const u128 rest = value & (((u128)1 << shift) - 1), half = (u128)1 << (shift - 1);
        mantissa = (uint64_t)(value >> shift);
        mantissa += rest > half || (rest == half && (mantissa & 1));
    }
    if (scale - 52 < -1074) return mantissa;
    return ((uint64_t)(scale + 1023) << 52) + (mantissa - (1ull << 52));
}

INLINE double soft_fma_one(double a, double b, double c) {
    uint64_t x, y, z;
    memcpy(&x, &a, 8), memcpy(&y, &b, 8), memcpy(&z, &c, 8);
    const uint64_t inf = 0x7ffull << 52, sign = 1ull << 63;
    if ((x & inf) == inf || (y & inf) == inf) return a * b + c;
    if ((z & inf) == inf) return c;
    if (!(x & ~sign) || !(y & ~sign)) return a * b + c;
    if (!(z & ~sign)) return a * b; /* one rounding already; keeps the sign of an underflow */
    const Unpacked ua = unpack_f64(x), ub = unpack_f64(y), uc = unpack_f64(z);
    u128 product = (u128)ua.mantissa * ub.mantissa << 20, addend = (u128)uc.mantissa << 73;
    const int64_t at_product = ua.exponent + ub.exponent - 20, at_addend = uc.exponent - 73;
    const int64_t at = at_product > at_addend ? at_product : at_addend;
    product = shift_right_jam(product, at - at_product);
    addend = shift_right_jam(addend, at - at_addend);
    const uint64_t product_sign = (x ^ y) & sign, addend_sign = z & sign;
    uint64_t bits;
    if (product_sign == addend_sign)
        bits = pack_f64(product + addend, at) | product_sign;
    else if (product > addend)
        bits = pack_f64(product - addend, at) | product_sign;
    else if (product < addend)
        bits = pack_f64(addend - product, at) | addend_sign;
    else
        bits = 0;
    double result;
    memcpy(&result, &bits, 8);
    return result;
}

OUTLINE void soft_fma_f64(v_f64 *out, const v_f64 *a, const v_f64 *b, const v_f64 *c) {
    for (int i = 0; i < LANES; i++) (*out)[i] = soft_fma_one((*a)[i], (*b)[i], (*c)[i]);
}

#if HAVE_FMA
INLINE v_f32 vec_fma_f32(v_f32 a, v_f32 b, v_f32 c) { return __builtin_elementwise_fma(a, b, c); }
INLINE v_f64 vec_fma_f64(v_f64 a, v_f64 b, v_f64 c) { return __builtin_elementwise_fma(a, b, c); }
#else
OUTLINE void careful_fma_f32(v_f32 *out, const v_f32 *a, const v_f32 *b, const v_f32 *c) {
    *out = soft_fma_f32(*a, *b, *c);
}

/* Rounding twice is harmless unless the first result lies exactly between two f32, or f32 is subnormal there. */
INLINE v_f32 vec_fma_f32(v_f32 a, v_f32 b, v_f32 c) {
    const v_f64 sum = CONVERT(a, v_f64) * CONVERT(b, v_f64) + CONVERT(c, v_f64);
    const v_i64 bits = bits_f64(sum), size = bits & INT64_MAX;
    const v_i64 between = (bits & 0x1fffffff) == 0x10000000;
    const v_i64 tiny = (size < (0x382ll << 52)) & (size != 0);
    v_f32 out = CONVERT(sum, v_f32);
    if (any_i64(between | tiny)) careful_fma_f32(&out, &a, &b, &c);
    return out;
}
INLINE v_f64 vec_fma_f64(v_f64 a, v_f64 b, v_f64 c) {
    v_f64 out;
    soft_fma_f64(&out, &a, &b, &c);
    return out;
}
#endif

#endif
