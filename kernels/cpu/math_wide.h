/* math_wide.h: functions of f32 that are computed in f64 with plain products and sums (v2 has no fma of doubles) and
 * rounded once, so that they are monotone, right where results are denormal, and exact where the
 * result is a f32. Polynomials of f64's errors below 2^-32: tests/oracle/minimax.py. Part of math_f32.h. */
#ifndef SINTER_KERNELS_CPU_MATH_WIDE_H
#define SINTER_KERNELS_CPU_MATH_WIDE_H
#include "kernels/cpu/math_f64.h"

#define WIDE_UNARY(name, value)                                                                                        \
    INLINE v_f32 vec_##name##_f32(v_f32 a) {                                                                           \
        const v_f64 x = CONVERT(a, v_f64);                                                                             \
        return CONVERT(value, v_f32);                                                                                  \
    }
#define WIDE_BINARY(name, value)                                                                                       \
    INLINE v_f32 vec_##name##_f32(v_f32 a, v_f32 b) {                                                                  \
        const v_f64 x = CONVERT(a, v_f64), y = CONVERT(b, v_f64);                                                      \
        return CONVERT(value, v_f32);                                                                                  \
    }

/* logarithms: (2 atanh(s) - 2 s) / (s z), z = s^2 */
static const double log_short[] = {0x1.911557d232ed6p-3, 0x1.c62b1858cb7e9p-3, 0x1.249411e3c7a28p-2,
                                   0x1.999996a960411p-2, 0x1.555555561e397p-1};

INLINE v_f64 wide_log_fraction(v_f64 f) {
    const v_f64 s = f / (2.0 + f), z = s * s;
    return f - s * (f - z * poly_plain(z, log_short, COUNT_OF(log_short)));
}
INLINE v_f64 wide_log_to(v_f64 x, double unit, double scale) {
    const Split_f64 split = split_f64(x);
    return log_ends(x, split.exponent * unit + scale * wide_log_fraction(split.f));
}
INLINE v_f64 wide_log1p(v_f64 x) {
    const Split_f64 split = split_f64(1.0 + x);
    const v_f64 f = split.exponent == 0.0 ? x : split.f;
    return log_ends(1.0 + x, split.exponent * 0x1.62e42fefa39efp-1 + wide_log_fraction(f));
}
WIDE_UNARY(log2, wide_log_to(x, 1.0, LOG2_E))
WIDE_UNARY(log10, wide_log_to(x, 0x1.34413509f79ffp-2, LOG10_E))
WIDE_UNARY(log1p, x == 0.0 ? x : wide_log1p(x))

INLINE v_f64 with_sign(v_f64 size, v_f64 of) { return double_of(bits_f64(size) | (bits_f64(of) & INT64_MIN)); }

INLINE v_f64 wide_asinh(v_f64 x) { /* x >= 0 */
    const v_f64 square = x * x;
    const v_f64 y = wide_log1p(x + square / (1.0 + __builtin_elementwise_sqrt(1.0 + square)));
    return x < __builtin_inf() ? y : x;
}
INLINE v_f64 wide_acosh(v_f64 x) {
    const v_f64 t = x - 1.0, y = wide_log1p(t + __builtin_elementwise_sqrt((t + 2.0) * t));
    return x < 1.0 ? (v_f64)__builtin_nan("") : y;
}
INLINE v_f64 wide_atanh(v_f64 x) { /* x >= 0; of 1 it is inf, beyond it NaN */
    const v_f64 y = 0.5 * wide_log1p((x + x) / (1.0 - x));
    return x > 1.0 ? (v_f64)__builtin_nan("") : y;
}
WIDE_UNARY(asinh, with_sign(wide_asinh(vec_abs_f64(x)), x))
WIDE_UNARY(acosh, wide_acosh(x))
WIDE_UNARY(atanh, with_sign(wide_atanh(vec_abs_f64(x)), x))

/* exponentials: (e^r - 1 - r) / r^2 on |r| <= ln(2)/2 */
static const double exp_short[] = {0x1.a17eaca7ad323p-13, 0x1.6d43b7af943fap-10, 0x1.1110ab11707d8p-7,
                                   0x1.5554e899e5f11p-5,  0x1.5555557459f9dp-3,  0x1.0000000ba3306p-1};

typedef struct Wide_power { /* e^x = scale + more */
    v_f64 scale, more;
} Wide_power;

INLINE Wide_power wide_power(v_f64 a) {
    const v_f64 x = limited_f64(a, -110.0, 110.0), shifted = x * LOG2_E + ROUNDER_F64, n = shifted - ROUNDER_F64;
    const v_f64 r = x - n * LN2_HIGH - n * LN2_LOW;
    const v_f64 scale = power_of_two((v_i64)((v_u64)bits_f64(shifted) - (v_u64)bits_f64((v_f64)ROUNDER_F64)));
    const Wide_power power = {scale, scale * (r + r * r * poly_plain(r, exp_short, COUNT_OF(exp_short)))};
    return power;
}
INLINE v_f64 wide_expm1(v_f64 x) {
    const Wide_power power = wide_power(x);
    return power.more + (power.scale - 1.0);
}
INLINE v_f64 wide_sinh(v_f64 x) { /* x >= 0 */
    const v_f64 e = wide_expm1(x);
    return 0.5 * (e + e / (e + 1.0));
}
INLINE v_f64 wide_cosh(v_f64 x) {
    const Wide_power power = wide_power(x);
    const v_f64 e = power.scale + power.more;
    return 0.5 * (e + 1.0 / e);
}
WIDE_UNARY(expm1, x == 0.0 ? x : wide_expm1(x))
WIDE_UNARY(sinh, with_sign(wide_sinh(vec_abs_f64(x)), x))
WIDE_UNARY(cosh, wide_cosh(vec_abs_f64(x)))

/* (1 + 2 x) e^(x^2) erfc(x) in (x - 2) / (x + 2), 0 <= x <= 10.1, beyond which erfc rounds to 0. */
static const double erfc_short[] = {
    0x1.29753c8c25715p-16, 0x1.e7e4d6f3e008ap-14, 0x1.5f287b83412d0p-13, -0x1.d2b63c2f93b01p-12, -0x1.78042234f3a4dp-10,
    0x1.4d7f8d5b3f433p-10, 0x1.1da21b53cc543p-7,  -0x1.0747d424832d5p-7, -0x1.bc2a1f7cb612dp-5,  0x1.4ffa287925507p-3,
    -0x1.5407c2fff7a2cp-3, -0x1.7bf5eca0cafa3p-4, 0x1.46e80e2384921p+0};
INLINE v_f64 wide_erfc(v_f64 a) {
    const v_f64 size = vec_abs_f64(a), x = size > 10.2 ? (v_f64)10.2 : size, over = 2.0 + x;
    const v_f64 p = poly_plain((x - 2.0) / over, erfc_short, COUNT_OF(erfc_short));
    const Wide_power power = wide_power(-(x * x));
    const v_f64 tail = (power.scale + power.more) * p / (1.0 + 2.0 * x);
    return a < 0.0 ? 2.0 - tail : tail;
}
WIDE_UNARY(erfc, wide_erfc(x))

/* angles: (atan(t)/t - 1)/z, |t| <= tan(pi/8), and (asin(t)/t - 1)/z, |t| <= 1/2, in z = t^2 */
static const double atan_short[] = {-0x1.36ec906a35962p-5, 0x1.1e6f2496a377ap-4,  -0x1.70871d071a848p-4,
                                    0x1.c6d26ce6dba39p-4,  -0x1.2490c6c99e813p-3, 0x1.999992161440fp-3,
                                    -0x1.5555554efd4d4p-2};
static const double asin_short[] = {0x1.0dfd89f23f663p-5, 0x1.fb052974b9ad3p-10, 0x1.528fe857b2ba5p-6,
                                    0x1.663011e125536p-6, 0x1.f283d75585730p-6,  0x1.6db24bc6afd85p-5,
                                    0x1.333340c5f47f5p-4, 0x1.555555479133bp-3};

/* atan(low / high), 0 <= low <= high, 0 < high */
INLINE v_f64 wide_atan_of(v_f64 low, v_f64 high) {
    const v_i64 turned = low > TAN_PI_8 * high;
    const v_f64 t = (turned ? low - high : low) / (turned ? low + high : high), z = t * t;
    const v_f64 angle = t + t * z * poly_plain(z, atan_short, COUNT_OF(atan_short));
    return turned ? 0.5 * HALF_PI_1 + angle : angle;
}
INLINE v_f64 wide_atan(v_f64 x) { /* x >= 0 */
    const v_f64 held = x > 0x1p200 ? (v_f64)0x1p200 : x;
    const v_i64 large = held > 1.0;
    const v_f64 angle = wide_atan_of(large ? (v_f64)1.0 : held, large ? held : (v_f64)1.0);
    return x == x ? (large ? HALF_PI_1 - angle : angle) : x;
}
INLINE v_f64 wide_atan2(v_f64 a, v_f64 b) {
    const v_f64 y = vec_abs_f64(a), x = vec_abs_f64(b), inf = (v_f64)__builtin_inf();
    const v_i64 steep = y > x;
    v_f64 high = steep ? y : x, low = steep ? x : y;
    low = low == inf ? (v_f64)1.0 : high == inf ? (v_f64)0.0 : low;
    high = ((high == inf) | (high == 0.0)) ? (v_f64)1.0 : high;
    v_f64 angle = wide_atan_of(low, high);
    angle = steep ? HALF_PI_1 - angle : angle;
    angle = bits_f64(b) < 0 ? 2.0 * HALF_PI_1 - angle : angle;
    return ((a != a) | (b != b)) ? a + b : with_sign(angle, a);
}
WIDE_UNARY(atan, with_sign(wide_atan(vec_abs_f64(x)), x))
WIDE_BINARY(atan2, wide_atan2(x, y))

/* Of 0 <= x <= 1: asin(x) up to 1/2, beyond it acos(x) / 2; NaN elsewhere. */
INLINE v_f64 wide_asin_part(v_f64 x) {
    const v_f64 z = x > 0.5 ? 0.5 * (1.0 - x) : x * x, t = x > 0.5 ? __builtin_elementwise_sqrt(z) : x;
    return t + t * z * poly_plain(z, asin_short, COUNT_OF(asin_short));
}
INLINE v_f64 wide_asin(v_f64 x) { /* x >= 0 */
    const v_f64 part = wide_asin_part(x);
    return x > 0.5 ? HALF_PI_1 - 2.0 * part : part;
}
INLINE v_f64 wide_acos(v_f64 a) {
    const v_f64 x = vec_abs_f64(a), part = wide_asin_part(x), twice = 2.0 * part;
    const v_f64 end = a < 0.0 ? 2.0 * HALF_PI_1 - twice : twice;
    return x > 0.5 ? end : HALF_PI_1 - (a < 0.0 ? -part : part);
}
WIDE_UNARY(asin, with_sign(wide_asin(vec_abs_f64(x)), x))
WIDE_UNARY(acos, wide_acos(x))

/* lengths, remainders */
INLINE v_f64 wide_hypot(v_f64 x, v_f64 y) {
    const v_f64 inf = (v_f64)__builtin_inf(), length = __builtin_elementwise_sqrt(x * x + y * y);
    return ((vec_abs_f64(x) == inf) | (vec_abs_f64(y) == inf)) ? inf : length;
}
WIDE_BINARY(hypot, wide_hypot(x, y))
WIDE_BINARY(fmod, wide_fmod(x, y))

#endif
