/* prims.h: the scalar primitives of ir/scalar.def on vectors, name_type(...) for every row and type; the edges are
 * part of the meaning and stated there. Transcendentals are in math_f32.h and math_f64.h: exp, exp2, log, tanh,
 * sigmoid and erf of f32 work in f32 (they are hot), the others in f64 with plain products (math_wide.h); f64, where
 * errors would add up, works on sums of two doubles (math_pair.h). fmod is a loop, exact for all quotients.
 * Polynomials are Remez fits (tests/oracle/minimax.py). v2 has no fma instruction: f32 goes through f64 (about 20
 * times slower than v3), f64 through 128-bit integers (100 times). A GPU's compiler reads this text, too, with
 * scalars for vectors (kernels/cuda/scalar.cuh). */
#ifndef SINTER_KERNELS_CPU_PRIMS_H
#define SINTER_KERNELS_CPU_PRIMS_H
#include "kernels/cpu/convert.h"
#include "kernels/cpu/fma.h"
#include "kernels/cpu/math_f32.h"
#include "kernels/cpu/math_f64.h"

#define BINARY(name, T, expression)                                                                                    \
    INLINE v_##T vec_##name##_##T(v_##T a, v_##T b) { return expression; }
#define UNARY(name, T, expression)                                                                                     \
    INLINE v_##T vec_##name##_##T(v_##T a) { return expression; }
#define ARITHMETIC(T) BINARY(add, T, a + b) BINARY(sub, T, a - b) BINARY(mul, T, a *b)
ARITHMETIC(f32)
ARITHMETIC(f64)
/* Ints wrap in unsigned arithmetic: the text is also CUDA C, whose compiler has no -fwrapv and folds a + 1 > a. */
#define WRAPPING(T, U)                                                                                                 \
    BINARY(add, T, (v_##T)((v_##U)a + (v_##U)b))                                                                       \
    BINARY(sub, T, (v_##T)((v_##U)a - (v_##U)b))                                                                       \
    BINARY(mul, T, (v_##T)((v_##U)a * (v_##U)b))                                                                       \
    UNARY(neg, T, (v_##T)((v_##U)0 - (v_##U)a))                                                                        \
    UNARY(abs, T, a < 0 ? vec_neg_##T(a) : a)
WRAPPING(i32, u32)
WRAPPING(i64, u64)
BINARY(div, f32, a / b)
BINARY(div, f64, a / b)

/* Signs are moved as bits, so NaN payloads survive. */
UNARY(neg, f32, float_of(bits_f32(a) ^ INT32_MIN))
UNARY(neg, f64, double_of(bits_f64(a) ^ INT64_MIN))
UNARY(abs, f32, float_of(bits_f32(a) & INT32_MAX))

#define ROUNDING(T)                                                                                                    \
    UNARY(sqrt, T, __builtin_elementwise_sqrt(a))                                                                      \
    UNARY(floor, T, __builtin_elementwise_floor(a))                                                                    \
    UNARY(ceil, T, __builtin_elementwise_ceil(a))                                                                      \
    UNARY(trunc, T, __builtin_elementwise_trunc(a))                                                                    \
    UNARY(rint, T, __builtin_elementwise_roundeven(a))
ROUNDING(f32)
ROUNDING(f64)

/* Equal operands may be zeros of both signs: `and` of the bits gives +0, `or` gives -0. A NaN b is what the first
 * select leaves; a NaN a is put back last. */
#define EXTREME(name, T, wins, join)                                                                                   \
    INLINE v_##T vec_##name##_##T(v_##T a, v_##T b) {                                                                  \
        const v_##T ordered = a wins b ? a : b;                                                                        \
        const v_##T zeros = of_bits_##T(bits_##T(a) join bits_##T(b));                                                 \
        const v_##T number = a == b ? zeros : ordered;                                                                 \
        return a != a ? a : number;                                                                                    \
    }
EXTREME(max, f32, >, &)
EXTREME(max, f64, >, &)
EXTREME(min, f32, <, |)
EXTREME(min, f64, <, |)
BINARY(max, i32, a > b ? a : b)
BINARY(max, i64, a > b ? a : b)
BINARY(min, i32, a < b ? a : b)
BINARY(min, i64, a < b ? a : b)

#define COMPARE(name, T, op)                                                                                           \
    INLINE v_b vec_##name##_##T(v_##T a, v_##T b) { return bool_##T(a op b); }
#define COMPARES(T)                                                                                                    \
    COMPARE(lt, T, <)                                                                                                  \
    COMPARE(le, T, <=) COMPARE(gt, T, >) COMPARE(ge, T, >=) COMPARE(eq, T, ==) COMPARE(ne, T, !=)
COMPARES(f32)
COMPARES(f64)
COMPARES(i32)
COMPARES(i64)
COMPARES(b)

#define BITWISE(T) BINARY(and, T, a &b) BINARY(or, T, a | b) BINARY(xor, T, a ^ b)
BITWISE(i32)
BITWISE(i64)
BITWISE(b)
UNARY(not, i32, ~a)
UNARY(not, i64, ~a)
UNARY(not, b, a ^ (v_b)1)

#define SELECT(T)                                                                                                      \
    INLINE v_##T vec_select_##T(v_b a, v_##T b, v_##T c) { return mask_##T(a) ? b : c; }
SELECT(f32)
SELECT(f64)
SELECT(i32)
SELECT(i64)
SELECT(b)

/* A count outside 0..width-1, negative ones included, shifts everything out. */
#define SHIFTS(T, U, width)                                                                                            \
    INLINE v_##T vec_shl_##T(v_##T a, v_##T b) {                                                                       \
        const m_##T fits = (b >= 0) & (b < (width));                                                                   \
        return fits ? (v_##T)((v_##U)a << (v_##U)(fits ? b : (v_##T)0)) : (v_##T)0;                                    \
    }                                                                                                                  \
    INLINE v_##T vec_shr_##T(v_##T a, v_##T b) { return a >> (((b >= 0) & (b < (width))) ? b : (v_##T)((width)-1)); }
SHIFTS(i32, u32, 32)
SHIFTS(i64, u64, 64)

/* A f64 quotient of 32-bit ints, truncated, is exact; 2^31 of INT_MIN / -1 wraps on the way back from 64 bits. */
INLINE v_i32 vec_idiv_i32(v_i32 a, v_i32 b) {
    const v_i32 zero = b == 0;
    const v_f64 quotient = CONVERT(a, v_f64) / CONVERT(zero ? (v_i32)1 : b, v_f64);
    return zero ? (v_i32)0 : CONVERT(CONVERT(quotient, v_i64), v_i32);
}
INLINE v_i64 vec_idiv_i64(v_i64 a, v_i64 b) {
    v_i64 out;
    for (int i = 0; i < LANES; i++)
        AT(out, i) = AT(b, i) == 0 ? 0 : AT(b, i) == -1 ? (e_i64)(0 - (uint64_t)AT(a, i)) : AT(a, i) / AT(b, i);
    return out;
}
/* By zero the remainder is 0 too, not a. */
BINARY(imod, i32, b == 0 ? (v_i32)0 : vec_sub_i32(a, vec_mul_i32(b, vec_idiv_i32(a, b))))
BINARY(imod, i64, b == 0 ? (v_i64)0 : vec_sub_i64(a, vec_mul_i64(b, vec_idiv_i64(a, b))))

/* Squares until the largest exponent is used up. Negative exponents: 1 for base 1, +-1 for base -1, else 0. */
#define INT_POWER(T)                                                                                                   \
    INLINE v_##T vec_ipow_##T(v_##T a, v_##T b) {                                                                      \
        v_##T result = (v_##T)1, square = a, left = b < 0 ? (v_##T)0 : b;                                              \
        for (; any_##T(left); left >>= 1, square = vec_mul_##T(square, square))                                        \
            result = (left & 1) != 0 ? vec_mul_##T(result, square) : result;                                           \
        const v_##T sign = (b & 1) != 0 ? (v_##T) - 1 : (v_##T)1;                                                      \
        const v_##T inverse = a == 1 ? (v_##T)1 : (a == -1 ? sign : (v_##T)0);                                         \
        return b < 0 ? inverse : result;                                                                               \
    }
INT_POWER(i32)
INT_POWER(i64)

UNARY(round_f16, f32, f32_of_f16(f16_of_f32(a)))
UNARY(round_bf16, f32, f32_of_bf16(bf16_of_f32(a)))
UNARY(wrap_i16, i32, (v_i32)((v_u32)a << 16) >> 16)
UNARY(wrap_i8, i32, (v_i32)((v_u32)a << 24) >> 24)
UNARY(wrap_u8, i32, a & 0xff)

/* Philox4x32-10 (Salmon et al., SC 2011): key = the seed's words, counter = element lo, hi, sequence lo, hi. Words
 * are kept in 64-bit lanes so that a product gives both halves. */
INLINE v_i64 vec_philox_i64(v_i64 a, v_i64 b, v_i64 c) {
    const v_u64 seed = (v_u64)a, sequence = (v_u64)b, element = (v_u64)c;
    const uint64_t low = 0xffffffff;
    v_u64 k0 = seed & low, k1 = seed >> 32;
    v_u64 x0 = element & low, x1 = element >> 32, x2 = sequence & low, x3 = sequence >> 32;
    for (int round = 0; round < 10; round++) {
        const v_u64 p0 = x0 * (uint64_t)0xD2511F53, p1 = x2 * (uint64_t)0xCD9E8D57;
        x0 = (p1 >> 32) ^ x1 ^ k0, x1 = p1 & low;
        x2 = (p0 >> 32) ^ x3 ^ k1, x3 = p0 & low;
        k0 = (k0 + 0x9E3779B9) & low, k1 = (k1 + 0xBB67AE85) & low;
    }
    return (v_i64)(x0 | x1 << 32);
}

#endif
