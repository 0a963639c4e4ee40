/* math_exp.h: f64 functions made of e^x: expm1, sinh, cosh, tanh, sigmoid. e^x is a pair until the result is rounded,
 * so that differences from 1 and quotients keep their digits. Part of math_f64.h. */
#ifndef SINTER_KERNELS_CPU_MATH_EXP_H
#define SINTER_KERNELS_CPU_MATH_EXP_H
#include "kernels/cpu/math_pair.h"

INLINE v_f64 limited_f64(v_f64 a, double low, double high) {
    const v_f64 x = a > high ? (v_f64)high : a;
    return x < low ? (v_f64)low : x;
}

/* 2^n ((1 - 2^-n) + tail) = e^x - 1 as a pair, still to be scaled by 2^n; n >= -60. */
INLINE Pair below_power(Power power) {
    const v_i64 small = power.n < 1000;
    const v_f64 one = power_of_two(0 - (small ? power.n : (v_i64)0));
    return pair_add(pair_two_sum((v_f64)1.0, small ? -one : (v_f64)0.0), power.tail);
}

INLINE v_f64 vec_expm1_f64(v_f64 a) {
    const Power power = exp_pair(limited_f64(a, -40.0, 720.0), (v_f64)0.0);
    return a == 0.0 ? a : scale_f64(pair_value(below_power(power)), power.n);
}

/* sinh(x) = x + x^3 P(x^2) on |x| <= 1. */
static const double sinh_terms[] = {0x1.b5baee3f12a07p-41, 0x1.61171e3ccc71bp-33, 0x1.ae646f95a0851p-26,
                                    0x1.71de3a3b6bef8p-19, 0x1.a01a01a036c5dp-13, 0x1.1111111111020p-7,
                                    0x1.5555555555556p-3};

/* (e^x + sign e^-x) / 2 for x >= 0: the second is left out where the first hides it. */
INLINE v_f64 half_sum(v_f64 x, double sign) {
    const Power power = exp_pair(x > 720.0 ? (v_f64)720.0 : x, (v_f64)0.0);
    const Pair up = power_fraction(power), down = pair_quotient(pair_of((v_f64)sign, (v_f64)0.0), up);
    const v_i64 both = power.n < 200;
    const v_f64 square = power_of_two(0 - 2 * (both ? power.n : (v_i64)0));
    const Pair rest = pair_scale(down, both ? square : (v_f64)0.0);
    return scale_f64(pair_value(pair_add(up, rest)), power.n - 1);
}

INLINE v_f64 vec_cosh_f64(v_f64 a) { return half_sum(vec_abs_f64(a), 1.0); }

INLINE v_f64 vec_sinh_f64(v_f64 a) {
    const v_i64 sign = bits_f64(a) & INT64_MIN;
    const v_f64 x = double_of(bits_f64(a) ^ sign), z = x * x;
    const v_f64 near = vec_fma_f64(z * poly(z, sinh_terms, COUNT_OF(sinh_terms)), x, x);
    return double_of(bits_f64(x < 1.0 ? near : half_sum(x, -1.0)) | sign);
}

/* (e^2x - 1) / (e^2x + 1) */
INLINE v_f64 vec_tanh_f64(v_f64 a) {
    const v_i64 sign = bits_f64(a) & INT64_MIN;
    const v_f64 x = double_of(bits_f64(a) ^ sign);
    const Power power = exp_pair(x > 22.0 ? (v_f64)44.0 : x + x, (v_f64)0.0); /* tanh(22) rounds to 1 */
    const v_f64 one = power_of_two(0 - power.n);
    const Pair above = pair_add(pair_two_sum((v_f64)1.0, one), power.tail);
    const v_f64 y = pair_value(pair_quotient(below_power(power), above));
    return x < 0x1p-30 ? a : double_of(bits_f64(y) | sign); /* x - x^3 / 3 */
}

/* 1 / (1 + e^-|x|), and e^-|x| of that below 0. */
INLINE v_f64 vec_sigmoid_f64(v_f64 a) {
    const v_f64 x = -vec_abs_f64(a);
    const Power power = exp_pair(x < -750.0 ? (v_f64)-750.0 : x, (v_f64)0.0);
    const v_i64 falls = a<0.0, seen = power.n> - 200;
    const Pair up = power_fraction(power);
    const v_f64 size = power_of_two(seen ? power.n : (v_i64)0);
    const Pair below = pair_add(pair_of((v_f64)1.0, (v_f64)0.0), pair_scale(up, seen ? size : (v_f64)0.0));
    const Pair above = {falls ? up.high : (v_f64)1.0, falls ? up.low : (v_f64)0.0};
    return scale_f64(pair_value(pair_quotient(above, below)), falls ? power.n : (v_i64)0);
}

#endif
