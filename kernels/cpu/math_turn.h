/* math_turn.h: sin and cos of f64, and the reduction of large angles that f32 uses too (Payne and Hanek 1983): the bits
 * of 2/pi that matter for x = m 2^e are multiplied by m in integers, which gives x / (pi/2) mod 4 to 128 bits after
 * the point for any x. Part of math_f64.h. */
#ifndef SINTER_KERNELS_CPU_MATH_TURN_H
#define SINTER_KERNELS_CPU_MATH_TURN_H
#include "kernels/cpu/fma.h"

#define HALF_PI_1 0x1.921fb54442d18p+0
#define HALF_PI_2 0x1.1a62633145c07p-54
#define HALF_PI_3 -0x1.f1976b7ed8fbcp-110

/* 64 zero bits, then 2/pi. */
static const uint64_t two_over_pi[] = {0,
                                       0xa2f9836e4e441529,
                                       0xfc2757d1f534ddc0,
                                       0xdb6295993c439041,
                                       0xfe5163abdebbc561,
                                       0xb7246e3a424dd2e0,
                                       0x06492eea09d1921c,
                                       0xfe1deb1cb129a73e,
                                       0xe88235f52ebb4484,
                                       0xe99c7026b45f7e41,
                                       0x3991d639835339f4,
                                       0x9c845f8bbdf9283b,
                                       0x1ff897ffde05980f,
                                       0xef2f118b5a0a6d1f,
                                       0x6d367ecf27cb09b7,
                                       0x4f463f669e5fea2d,
                                       0x7527bac7ebe5f17b,
                                       0x3d0739f78a5292ea,
                                       0x6bfb5fb11f8d5d08,
                                       0x56033046fc7b6bab,
                                       0xf0cfbc209af4361d};

INLINE double fma_one(double a, double b, double c) {
#if HAVE_FMA
    return __builtin_fma(a, b, c);
#else
    return soft_fma_one(a, b, c);
#endif
}

typedef struct Turn {
    double high, low;
    int64_t quadrant;
} Turn;

/* A fraction of 192 bits below 1/2 (words high to low), times pi/2, as the sum of two doubles. */
INLINE Turn turn_of_fraction(uint64_t f2, uint64_t f1, uint64_t f0) {
    int64_t exponent = 1023;
    if (f2 == 0) f2 = f1, f1 = f0, f0 = 0, exponent -= 64;
    const Turn zero = {0, 0, 0};
    if (f2 == 0) return zero; /* no double is that near to a multiple of pi/2 */
    const int lead = __builtin_clzll(f2);
    u128 top = (u128)f2 << 64 | f1;
    if (lead) top = top << lead | f0 >> (64 - lead);
    const uint64_t bits = (uint64_t)(exponent - lead) << 52;
    double scale;
    memcpy(&scale, &bits, 8);
    const double high = (double)(int64_t)(top >> 75) * 0x1p-53 * scale;
    const double low = (double)(int64_t)((uint64_t)(top >> 22) & ((1ull << 53) - 1)) * 0x1p-106 * scale;
    const double r = high * HALF_PI_1;
    const Turn turn = {r, fma_one(high, HALF_PI_1, -r) + (high * HALF_PI_2 + low * HALF_PI_1), 0};
    return turn;
}

/* x finite, |x| >= 2^19. The window of 192 bits starts at the bit of 2/pi that weighs 2 after multiplying by 2^e; bits
 * above it give multiples of 4. */
INLINE Turn turn_one(double x) {
    uint64_t bits;
    memcpy(&bits, &x, 8);
    const uint64_t m = (bits & ((1ull << 52) - 1)) | 1ull << 52;
    const int64_t start = (int64_t)(bits >> 52 & 0x7ff) - 1075 + 62;
    const uint64_t *const word = two_over_pi + (start >> 6);
    const int shift = (int)(start & 63);
    uint64_t w[3];
    for (int i = 0; i < 3; i++) w[i] = shift ? word[i] << shift | word[i + 1] >> (64 - shift) : word[i];
    const u128 p0 = (u128)m * w[2], p1 = (u128)m * w[1] + (uint64_t)(p0 >> 64);
    const uint64_t r0 = (uint64_t)p0, r1 = (uint64_t)p1, r2 = m * w[0] + (uint64_t)(p1 >> 64);
    uint64_t f2 = r2 << 2 | r1 >> 62, f1 = r1 << 2 | r0 >> 62, f0 = r0 << 2;
    const bool up = f2 >> 63; /* nearer to the next quadrant: negate */
    if (up) {
        f0 = -f0, f1 = ~f1 + (f0 == 0), f2 = ~f2 + (f0 == 0 && f1 == 0);
    }
    Turn turn = turn_of_fraction(f2, f1, f0);
    turn.quadrant = (int64_t)(r2 >> 62) + up;
    if (up != (bool)(bits >> 63)) turn.high = -turn.high, turn.low = -turn.low;
    if (bits >> 63) turn.quadrant = -turn.quadrant;
    return turn;
}

/* Replaces the results of lanes with |x| >= limit; NaN for inf and NaN. */
OUTLINE void reduce_large(const v_f64 *x, double limit, v_f64 *high, v_f64 *low, v_i64 *quadrant) {
    for (int i = 0; i < LANES; i++) {
        const double value = AT(*x, i);
        if (value < limit && value > -limit) continue;
        const bool finite = value - value == 0.0;
        const Turn none = {__builtin_nan(""), 0, 0}, turn = finite ? turn_one(value) : none;
        AT(*high, i) = turn.high, AT(*low, i) = turn.low, AT(*quadrant, i) = turn.quadrant;
    }
}

typedef struct Turn_f64 {
    v_f64 high, low; /* their sum is the angle, |high| <= pi/4 and a little */
    v_i64 quadrant;
} Turn_f64;

/* Cody and Waite with pi/2 in three doubles: x - n HALF_PI_1 is exact, the rest is carried in two doubles. */
INLINE Turn_f64 turn_f64(v_f64 x) {
    const v_f64 shifted = vec_fma_f64(x, (v_f64)0x1.45f306dc9c883p-1, (v_f64)ROUNDER_F64);
    const v_f64 n = shifted - ROUNDER_F64;
    const v_f64 r = vec_fma_f64(n, (v_f64)-HALF_PI_1, x);
    const v_f64 w = n * HALF_PI_2, w_low = vec_fma_f64(n, (v_f64)HALF_PI_2, -w);
    const v_f64 difference = r - w, back = difference - r;
    const v_f64 error = (r - (difference - back)) - (w + back);
    const v_f64 rest = error - w_low - n * HALF_PI_3;
    const v_f64 high = difference + rest;
    Turn_f64 turn = {high, rest - (high - difference), bits_f64(shifted)};
    const v_i64 large = !(double_of(bits_f64(x) & INT64_MAX) < 0x1p30);
    if (any_i64(large)) reduce_large(&x, 0x1p30, &turn.high, &turn.low, &turn.quadrant);
    return turn;
}

/* (sin(r)/r - 1)/z without its first term, and (cos(r) - 1 + z/2)/z^2, in z = r^2. */
static const double sin_terms[] = {0x1.5e0adc398c393p-33, -0x1.ae600a5d2fb9bp-26, 0x1.71de3795f2442p-19,
                                   -0x1.a01a019e833cfp-13, 0x1.1111111110bb1p-7};
static const double cos_terms[] = {-0x1.907d6377646c8p-37, 0x1.1eeb689319b53p-29,  -0x1.27e4fa178a844p-22,
                                   0x1.a01a019f4e75ep-16,  -0x1.6c16c16c16966p-10, 0x1.5555555555555p-5};

/* sin(angle + quadrant * pi/2), with the low part's first-order terms (fdlibm's k_sin.c and k_cos.c). */
INLINE v_f64 wave_f64(Turn_f64 turn, int64_t quarter) {
    const v_f64 r = turn.high, low = turn.low, z = r * r, v = z * r;
    const v_i64 quadrant = turn.quadrant + quarter;
    const v_f64 s = poly(z, sin_terms, COUNT_OF(sin_terms));
    const v_f64 sine = r - ((z * (0.5 * low - v * s) - low) + v * 0x1.5555555555555p-3);
    const v_f64 c = poly(z, cos_terms, COUNT_OF(cos_terms)), half = 0.5 * z, w = 1.0 - half;
    const v_f64 cosine = w + (((1.0 - w) - half) + (z * z * c - r * low));
    const v_f64 size = (quadrant & 1) != 0 ? cosine : sine;
    return (quadrant & 2) != 0 ? -size : size;
}

/* sin and cos, of every angle. */
INLINE v_f64 vec_sin_f64(v_f64 a) { return a == 0.0 ? a : wave_f64(turn_f64(a), 0); }
INLINE v_f64 vec_cos_f64(v_f64 a) { return wave_f64(turn_f64(a), 1); }

#endif
