/* math_arc.h: f64's tan, inverse trigonometric functions and lengths: atan, asin, acos, atan2, hypot. Angles are
 * pairs until they are rounded. Part of math_f64.h. */
#ifndef SINTER_KERNELS_CPU_MATH_ARC_H
#define SINTER_KERNELS_CPU_MATH_ARC_H
#include "kernels/cpu/math_pair.h"
#include "kernels/cpu/math_turn.h"

#define TAN_PI_8 0x1.a827999fcef32p-2

/* sin(r) / cos(r), or -cos(r) / sin(r), both as pairs. */
INLINE v_f64 vec_tan_f64(v_f64 a) {
    const Turn_f64 turn = turn_f64(a);
    const v_f64 r = turn.high, low = turn.low, z = r * r, v = z * r, z_rest = vec_fma_f64(r, r, -z);
    const v_f64 s = poly(z, sin_terms, COUNT_OF(sin_terms));
    const Pair sine = pair_sum(r, (low - z * (0.5 * low - v * s)) - v * 0x1.5555555555555p-3);
    const v_f64 c = poly(z, cos_terms, COUNT_OF(cos_terms)), half = 0.5 * z, w = 1.0 - half;
    const Pair cosine = pair_sum(w, ((1.0 - w) - half) + (z * z * c - (r * low + 0.5 * z_rest)));
    const v_i64 odd = (turn.quadrant & 1) != 0;
    const Pair above = {odd ? -cosine.high : sine.high, odd ? -cosine.low : sine.low};
    const Pair below = {odd ? sine.high : cosine.high, odd ? sine.low : cosine.low};
    return a == 0.0 ? a : vec_abs_f64(a) < 0x1p-30 ? a : pair_value(pair_quotient(above, below));
}

/* (atan(t)/t - 1)/z, z = t^2, |t| <= tan(pi/8). */
static const double atan_terms[] = {0x1.e7d7dcd9ca957p-7,  -0x1.0fb14895f95c6p-5, 0x1.6fd4013156a2ap-5,
                                    -0x1.ab37db596cbf1p-5, 0x1.e1672af2cc101p-5,  -0x1.110be5a0ae86ep-4,
                                    0x1.3b1364a99df24p-4,  -0x1.745d144e4f92ap-4, 0x1.c71c71b44f784p-4,
                                    -0x1.249249246f4a8p-3, 0x1.9999999999583p-3,  -0x1.5555555555554p-2};

/* atan(above / below), 0 <= above <= below (0 < below): by pi/4 turned back where the quotient is large. */
INLINE Pair atan_of(v_f64 above, v_f64 below) {
    const v_i64 turned = above > TAN_PI_8 * below;
    const Pair minus = pair_two_sum(above, -below), plus = pair_two_sum(above, below), none = {(v_f64)0.0, (v_f64)0.0};
    const Pair top = {turned ? minus.high : above, turned ? minus.low : none.low};
    const Pair under = {turned ? plus.high : below, turned ? plus.low : none.low};
    const Pair t = pair_quotient(top, under);
    const v_f64 z = t.high * t.high;
    const v_f64 rest = t.high * z * poly(z, atan_terms, COUNT_OF(atan_terms)) + t.low / (1.0 + z);
    const Pair base = {turned ? (v_f64)(0.5 * HALF_PI_1) : none.high, turned ? (v_f64)(0.5 * HALF_PI_2) : none.low};
    const Pair sum = pair_sum(base.high, t.high);
    const Pair angle = {turned ? sum.high : t.high, (turned ? sum.low : none.low) + (rest + base.low)};
    return pair_sum(angle.high, angle.low);
}
INLINE Pair half_pi_minus(Pair angle) {
    const Pair sum = pair_sum((v_f64)HALF_PI_1, -angle.high);
    return pair_of(sum.high, sum.low + (HALF_PI_2 - angle.low));
}

INLINE v_f64 vec_atan_f64(v_f64 a) {
    const v_i64 sign = bits_f64(a) & INT64_MIN;
    const v_f64 x = double_of(bits_f64(a) ^ sign), held = x > 0x1p70 ? (v_f64)0x1p70 : x;
    const v_i64 large = held > 1.0;
    const Pair angle = atan_of(large ? (v_f64)1.0 : held, large ? held : (v_f64)1.0), other = half_pi_minus(angle);
    const v_f64 y = large ? pair_value(other) : pair_value(angle);
    return x < 0x1p-30 ? a : double_of(bits_f64(y) | sign);
}

/* The angle of (x, y). Coordinates are scaled where quotients, or their remainders, would leave the range. */
INLINE v_f64 vec_atan2_f64(v_f64 a, v_f64 b) {
    const v_f64 y = vec_abs_f64(a), x = vec_abs_f64(b), inf = (v_f64)__builtin_inf();
    const v_i64 steep = y > x, left = bits_f64(b) < 0;
    v_f64 high = steep ? y : x, low = steep ? x : y;
    const v_f64 scale = high > 0x1p900 ? (v_f64)0x1p-200 : high < 0x1p-700 ? (v_f64)0x1p300 : (v_f64)1.0;
    low = low == inf ? (v_f64)1.0 : high == inf ? (v_f64)0.0 : low * scale;
    high = high == inf ? (v_f64)1.0 : high == 0.0 ? (v_f64)1.0 : high * scale;
    Pair angle = atan_of(low, high);
    const Pair complement = half_pi_minus(angle);
    angle = pair_of(steep ? complement.high : angle.high, steep ? complement.low : angle.low);
    Pair back = pair_sum((v_f64)(2.0 * HALF_PI_1), -angle.high);
    back.low += 2.0 * HALF_PI_2 - angle.low;
    const v_f64 size = left ? pair_value(back) : pair_value(angle);
    return ((a != a) | (b != b)) ? a + b : double_of(bits_f64(size) | (bits_f64(a) & INT64_MIN));
}

/* (asin(t)/t - 1)/z, z = t^2 <= 1/4. */
static const double asin_terms[] = {
    0x1.138abb5114973p-5, -0x1.ac3dca54d9f71p-6, 0x1.96a21e1fe56b0p-6, 0x1.673731cbd0359p-11, 0x1.47f89606f27eep-7,
    0x1.36c6c4b70b92fp-7, 0x1.7ba38efd789fdp-7,  0x1.c980f617f300cp-7, 0x1.1c4f847b6d8dep-6,  0x1.6e8b9b0243e9cp-6,
    0x1.f1c71ca784522p-6, 0x1.6db6db6d4b18dp-5,  0x1.33333333339f7p-4, 0x1.5555555555553p-3};

/* Of 0 <= x <= 1: asin(x) up to 1/2, beyond it acos(x) / 2 = asin(sqrt((1 - x) / 2)), where 1 - x is exact. */
INLINE Pair asin_part(v_f64 x) {
    const v_i64 large = x > 0.5;
    const v_f64 z = large ? 0.5 * (1.0 - x) : x * x;
    const Pair root = pair_sqrt(pair_of(z, (v_f64)0.0));
    const v_f64 t = large ? root.high : x;
    return pair_of(t, (large ? root.low : (v_f64)0.0) + t * z * poly(z, asin_terms, COUNT_OF(asin_terms)));
}

INLINE v_f64 vec_asin_f64(v_f64 a) {
    const v_i64 sign = bits_f64(a) & INT64_MIN;
    const v_f64 x = double_of(bits_f64(a) ^ sign);
    const Pair part = asin_part(x);
    const v_f64 y = x > 0.5 ? pair_value(half_pi_minus(pair_scale(part, (v_f64)2.0))) : pair_value(part);
    return x < 0x1p-30 ? a : double_of(bits_f64(y) | sign);
}

INLINE v_f64 vec_acos_f64(v_f64 a) {
    const v_f64 x = vec_abs_f64(a);
    const v_i64 minus = a < 0.0;
    const Pair part = asin_part(x), twice = pair_scale(part, (v_f64)2.0);
    const Pair middle = half_pi_minus(pair_of(minus ? -part.high : part.high, minus ? -part.low : part.low));
    Pair back = pair_sum((v_f64)(2.0 * HALF_PI_1), -twice.high);
    back.low += 2.0 * HALF_PI_2 - twice.low;
    const v_f64 end = minus ? pair_value(back) : pair_value(twice);
    return x > 0.5 ? end : pair_value(middle);
}

/* sqrt(x^2 + y^2), scaled by a power of two where squares would leave the range. */
INLINE v_f64 vec_hypot_f64(v_f64 a, v_f64 b) {
    const v_f64 x = vec_abs_f64(a), y = vec_abs_f64(b), inf = (v_f64)__builtin_inf(), high = x > y ? x : y;
    const v_i64 large = high > 0x1p500, small = high < 0x1p-450;
    const v_f64 scale = large ? (v_f64)0x1p-600 : small ? (v_f64)0x1p600 : (v_f64)1.0;
    const v_f64 back = large ? (v_f64)0x1p600 : small ? (v_f64)0x1p-600 : (v_f64)1.0;
    const Pair first = {x * scale, (v_f64)0.0}, second = {y * scale, (v_f64)0.0};
    const Pair root = pair_sqrt(pair_add(pair_product(first, first), pair_product(second, second)));
    const v_f64 length = pair_value(root) * back;
    return ((x == inf) | (y == inf)) ? inf : length;
}

#endif
