/* math_modulo.h: the remainder of a division, exact for all quotients: multiples of the divisor times powers of two
 * are taken off until less than a divisor is left. A quotient of few enough bits times the divisor is exact: of f64 by
 * a fused product, of f32 by a plain one in f64. A loop, of one round where the quotient is below 2^26 (f32) or 2^50,
 * of at most 11 or 42 elsewhere. Part of math_f64.h. */
#ifndef SINTER_KERNELS_CPU_MATH_MODULO_H
#define SINTER_KERNELS_CPU_MATH_MODULO_H
#include "kernels/cpu/fma.h"

/* y 2^k, the largest with k >= 0 and 2^bits times it above about x; both are normal. */
INLINE v_f64 modulo_step(v_f64 x, v_f64 y, int64_t bits) {
    const v_i64 k = (bits_f64(x) >> 52) - (bits_f64(y) >> 52) - bits;
    return double_of((v_i64)((v_u64)bits_f64(y) + ((v_u64)(k > 0 ? k : (v_i64)0) << 52)));
}

/* x mod y, x >= 0 finite, y > 0 normal. A quotient that was rounded up to a whole number leaves less than 0. */
INLINE v_f64 modulo_plain(v_f64 x, v_f64 y) {
    for (v_i64 left = x >= y; any_i64(left); left = x >= y) {
        const v_f64 step = modulo_step(left ? x : y, y, 26), quotient = __builtin_elementwise_trunc(x / step);
        const v_f64 rest = x - quotient * step;
        x = left ? (rest < 0.0 ? rest + step : rest) : x;
    }
    return x;
}
INLINE v_f64 modulo_fused(v_f64 x, v_f64 y) {
    for (v_i64 left = x >= y; any_i64(left); left = x >= y) {
        const v_f64 step = modulo_step(left ? x : y, y, 50), quotient = __builtin_elementwise_trunc(x / step);
        const v_f64 rest = vec_fma_f64(-quotient, step, x);
        x = left ? (rest < 0.0 ? rest + step : rest) : x;
    }
    return x;
}

/* With the sign of a; NaN of what is not finite or divided by 0; all of a by an infinity. */
INLINE v_f64 modulo_ends(v_f64 a, v_f64 b, v_f64 rest) {
    const v_f64 x = vec_abs_f64(a), y = vec_abs_f64(b);
    const v_f64 value = double_of(bits_f64(rest) | (bits_f64(a) & INT64_MIN));
    const v_i64 defined = (x < __builtin_inf()) & (y > 0.0);
    return defined ? (y == __builtin_inf() ? a : value) : (v_f64)__builtin_nan("");
}
/* What there is to divide, and by what: 0 by 1 where modulo_ends needs nothing. */
INLINE v_i64 modulo_works(v_f64 a, v_f64 b) {
    const v_f64 y = vec_abs_f64(b);
    return (vec_abs_f64(a) < __builtin_inf()) & (y > 0.0) & (y < __builtin_inf());
}
INLINE v_f64 modulo_dividend(v_f64 a, v_f64 b) { return modulo_works(a, b) ? vec_abs_f64(a) : (v_f64)0.0; }
INLINE v_f64 modulo_divisor(v_f64 a, v_f64 b) { return modulo_works(a, b) ? vec_abs_f64(b) : (v_f64)1.0; }

/* Of f32s in f64, where none of them is denormal. */
INLINE v_f64 wide_fmod(v_f64 a, v_f64 b) {
    return modulo_ends(a, b, modulo_plain(modulo_dividend(a, b), modulo_divisor(a, b)));
}

/* A small divisor is scaled by 2^100, and so is what that leaves; results are multiples of the divisor's last place. */
INLINE v_f64 vec_fmod_f64(v_f64 a, v_f64 b) {
    const v_f64 y = modulo_divisor(a, b);
    const v_i64 small = y < 0x1p-900;
    const v_f64 scaled = small ? y * 0x1p100 : y;
    const v_f64 first = modulo_fused(modulo_dividend(a, b), scaled);
    const v_f64 rest = modulo_fused(small ? first * 0x1p100 : first, scaled);
    return modulo_ends(a, b, small ? rest * 0x1p-100 : rest);
}

#endif
