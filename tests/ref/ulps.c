/* ulps.c: see ulps.h. */
#include "tests/ref/ulps.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

static double near_sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static long double wide_sigmoid(long double x) { return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x)); }
#define SQRT1_2 0.70710678118654752440084436210485L
#define DENSITY 0.39894228040143267793994605993438L
/* Of x below -4 by Laplace's continued fraction of (1 - Phi) / phi, in which nothing cancels. */
static long double tail_ratio(long double x) {
    long double t = x;
    for (int k = 200; k > 0; k--) t = x + k / t;
    return 1 / t;
}
static long double normal_density(long double x) { return expl(-x * x / 2) * DENSITY; }
static long double wide_gelu(long double x) {
    if (isinf(x)) return x > 0 ? x : -0.0L;
    return x < -4 ? x * normal_density(x) * tail_ratio(-x) : x / 2 * erfcl(-x * SQRT1_2);
}
static long double wide_gelu_slope(long double x) {
    if (isinf(x)) return x > 0 ? 1 : -0.0L;
    if (x < -4) return normal_density(x) * (tail_ratio(-x) + x);
    return erfcl(-x * SQRT1_2) / 2 + x * normal_density(x);
}
static double near_gelu(double x) { return isinf(x) ? fmax(x, -0.0) : x / 2 * erfc(-x * (double)SQRT1_2); }
static double near_gelu_slope(double x) {
    const double square = fmin(x * x, 1e4);
    if (x < -20) return -0.0;
    return erfc(-x * (double)SQRT1_2) / 2 + fmin(x, 1e4) * exp(-square / 2) * (double)DENSITY;
}
/* glibc's powl(-inf, -2^63) is inf. */
static long double wide_pow(long double a, long double b) {
    return isinf(a) ? (long double)pow((double)a, (double)b) : powl(a, b);
}

/* The C library's steps through quotients bit by bit in f64, by 63 bits in long double; both are exact. */
static double near_fmod(double a, double b) { return (double)fmodl((long double)a, (long double)b); }

#define ROW(name, trend)                                                                                               \
    { #name, PRIM_##name, name, name##l, TREND_##trend }
const UlpsRow ulps_rows[] = {
    ROW(exp, rises),
    ROW(exp2, none),
    ROW(expm1, rises),
    ROW(log, rises),
    ROW(log2, rises),
    ROW(log10, rises),
    ROW(log1p, rises),
    ROW(sin, none),
    ROW(cos, none),
    ROW(tan, none),
    ROW(asin, rises),
    ROW(acos, falls),
    ROW(atan, rises),
    ROW(sinh, rises),
    ROW(cosh, none),
    ROW(tanh, rises),
    ROW(asinh, rises),
    ROW(acosh, rises),
    ROW(atanh, rises),
    ROW(erf, rises),
    ROW(erfc, falls),
    ROW(sqrt, rises),
    {"sigmoid", PRIM_sigmoid, near_sigmoid, wide_sigmoid, TREND_rises},
    {"gelu_erf", PRIM_gelu_erf, near_gelu, wide_gelu, TREND_none},
    {"gelu_erf_slope", PRIM_gelu_erf_slope, near_gelu_slope, wide_gelu_slope, TREND_none, -0.75179152},
};
#undef ROW
int ulps_row_count(void) { return COUNT_OF(ulps_rows); }

const UlpsPair ulps_pairs[] = {
    {"pow", PRIM_pow, pow, wide_pow},
    {"atan2", PRIM_atan2, atan2, atan2l},
    {"hypot", PRIM_hypot, hypot, hypotl},
    {"fmod", PRIM_fmod, near_fmod, fmodl},
};
int ulps_pair_count(void) { return COUNT_OF(ulps_pairs); }

double ulps_between(SType type, double got, long double want) {
    const bool narrow = type == S_f32;
    const int digits = narrow ? 24 : 53, least = narrow ? -149 : -1074, most = narrow ? 128 : 1024;
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : 1e30;
    if (isinf(got) && (signbit(got) != 0) != (signbit(want) != 0)) return 1e30;
    const long double beyond = ldexpl(1, most); /* the next number, if there were one: infinity stands for it */
    const long double exact = fabsl(want) > beyond ? copysignl(beyond, want) : want;
    const long double given = isinf(got) ? copysignl(beyond, got) : got;
    int exponent = least + digits;
    if (exact != 0) frexpl(exact, &exponent);
    const int lowest = exponent - digits > least ? exponent - digits : least;
    const int place = lowest > most - digits ? most - digits : lowest;
    return (double)ldexpl(fabsl(given - exact), -place);
}

static uint64_t mixed(uint64_t x) { /* splitmix64 (Steele, Lea, Flood 2014) */
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static double of_bits(SType type, uint64_t bits) {
    const uint32_t low = (uint32_t)bits;
    float single;
    double value;
    memcpy(&single, &low, 4);
    memcpy(&value, &bits, 8);
    return type == S_f32 ? (double)single : value;
}

double ulps_input(SType type, uint64_t i, uint64_t every) {
    if (type == S_f32) return of_bits(type, i * every);
    const uint64_t bits = mixed(i >> 1), exponent = i & 2 ? 1023 - 40 + mixed(bits) % 52 : bits >> 52 & 0x7ff;
    return of_bits(type, ((bits & ~(0x7ffull << 52)) | exponent << 52) + (i & 1)); /* in pairs of neighbours */
}

static void set_element(SType type, void *at, int i, double value) {
    if (type == S_f32)
        ((float *)at)[i] = (float)value;
    else
        ((double *)at)[i] = value;
}
static double element(SType type, const void *at, int i) {
    return type == S_f32 ? (double)((const float *)at)[i] : ((const double *)at)[i];
}

static void add_error(UlpsWorst *worst, double ulps, double a, double b) {
    worst->n++;
    if (ulps > worst->ulps) worst->ulps = ulps, worst->at = a, worst->at_second = b;
}

/* ulps_between where both are normal numbers, of f32 against f64: the difference is exact, and so is its scaling. */
static bool near_normal(double got, double want, double *ulps) {
    uint64_t bits, scale;
    memcpy(&bits, &want, 8);
    const uint64_t exponent = bits >> 52 & 0x7ff;
    if (exponent < 1023 - 126 || exponent > 1023 + 126 || !(fabs(got) <= FLT_MAX)) return false;
    scale = (2 * 1023 + 23 - exponent) << 52;
    double unit;
    memcpy(&unit, &scale, 8);
    *ulps = fabs(got - want) * unit;
    return true;
}

/* Zeros of results have the sign of the reference's. */
static double error_of(SType type, double got, long double want) {
    double ulps;
    if (type == S_f32 && near_normal(got, (double)want, &ulps)) return ulps;
    const bool other_zero = got == 0 && want == 0 && (signbit(got) != 0) != (signbit(want) != 0);
    return other_zero ? 1e30 : ulps_between(type, got, want);
}

static double error_at(const UlpsRow *row, SType type, double x, double got, long double want) {
    if (row->root != 0 && fabs(x - row->root) < 0.5)
        return (double)ldexpl(fabsl((long double)got - want), type == S_f32 ? 26 : 55);
    return error_of(type, got, want);
}

static void follow_trend(const UlpsRow *row, const double x[2], const double y[2], UlpsWorst *worst) {
    if (row->trend == TREND_none || !(y[0] == y[0]) || !(y[1] == y[1]) || x[0] == x[1]) return;
    const bool up = (x[1] > x[0]) == (row->trend == TREND_rises);
    if (up ? y[1] >= y[0] : y[1] <= y[0]) return;
    worst->wrong_way++;
    worst->wrong_at = x[1];
}

void ulps_sweep(const UlpsRow *row, SType type, uint64_t first, int64_t n, uint64_t every, UlpsWorst *worst) {
    _Alignas(64) double in[BLOCK], out[BLOCK];
    BlockFn *const fn = kernel_table()->prim(row->prim, type);
    double x[2] = {NAN, NAN}, y[2] = {NAN, NAN};
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int count = (int)min_i64(n - at, BLOCK);
        for (int i = 0; i < count; i++) set_element(type, in, i, ulps_input(type, first + (uint64_t)(at + i), every));
        fn(out, in, NULL, NULL, count);
        for (int i = 0; i < count; i++) {
            x[0] = x[1], y[0] = y[1];
            x[1] = element(type, in, i), y[1] = element(type, out, i);
            const long double want = type == S_f32 ? (long double)row->near(x[1]) : row->wide(x[1]);
            add_error(worst, error_at(row, type, x[1], y[1], want), x[1], 0);
            if (type == S_f32 || (first + (uint64_t)(at + i)) & 1) follow_trend(row, x, y, worst);
        }
    }
}

/* Moderate exponents in half of the pairs; in each eighth the second is a small whole number. */
static double second_input(SType type, uint64_t i) {
    if (i % 8 == 3) return (double)(mixed(i) % 33) - 16;
    return type == S_f32 ? ulps_input(type, mixed(i ^ 0x5555), 1) : ulps_input(type, i * 2 + 0x123456789, 1);
}

void ulps_sweep_pairs(const UlpsPair *row, SType type, uint64_t first, int64_t n, UlpsWorst *worst) {
    _Alignas(64) double a[BLOCK], b[BLOCK], out[BLOCK];
    BlockFn *const fn = kernel_table()->prim(row->prim, type);
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int count = (int)min_i64(n - at, BLOCK);
        for (int i = 0; i < count; i++) {
            const uint64_t k = first + (uint64_t)(at + i), bits = mixed(k);
            const double near_one = of_bits(type, type == S_f32 ? (bits & 0x83ffffff) | 0x3c000000 : 0);
            set_element(type, a, i, k & 1 && type == S_f32 ? near_one : ulps_input(type, type == S_f32 ? bits : k, 1));
            set_element(type, b, i, second_input(type, k));
        }
        fn(out, a, b, NULL, count);
        for (int i = 0; i < count; i++) {
            const double x = element(type, a, i), y = element(type, b, i);
            const long double want = type == S_f32 ? (long double)row->near(x, y) : row->wide(x, y);
            add_error(worst, error_of(type, element(type, out, i), want), x, y);
        }
    }
}

/* x to `digits` bits, ties to even, with the least power of two. */
static double to_half(double x, int digits, int least, double largest) {
    int exponent;
    if (!isfinite(x) || x == 0) return x;
    frexp(x, &exponent);
    const int place = exponent - digits > least ? exponent - digits : least;
    const double rounded = ldexp(nearbyint(ldexp(x, -place)), place);
    return fabs(rounded) > largest ? copysign(INFINITY, x) : rounded;
}

int ulps_wrong_halves(const UlpsRow *row, DType dtype) {
    _Alignas(64) float in[BLOCK], out[BLOCK];
    uint16_t halves[BLOCK], results[BLOCK];
    int wrong = 0;
    for (int base = 0; base < 65536; base += BLOCK) {
        for (int i = 0; i < BLOCK; i++) halves[i] = (uint16_t)(base + i);
        kernel_table()->load(dtype)(in, halves, 1, BLOCK);
        kernel_table()->prim(row->prim, S_f32)(out, in, NULL, NULL, BLOCK);
        kernel_table()->store(dtype)(results, 1, out, BLOCK);
        kernel_table()->load(dtype)(out, results, 1, BLOCK);
        for (int i = 0; i < BLOCK; i++) {
            const double exact = row->near((double)in[i]);
            const double want = dtype == DT_f16 ? to_half(exact, 11, -24, 65504) : to_half(exact, 8, -133, 0x1.fep127);
            if (isnan(want) ? !isnan(out[i]) : (double)out[i] != want) wrong++;
        }
    }
    return wrong;
}
