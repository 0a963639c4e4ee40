/* kernel_inputs.h: inputs of the kernel tests: a counter-based generator that every platform shares, and edge
 * values. */
#ifndef SINTER_TESTS_UNIT_KERNEL_INPUTS_H
#define SINTER_TESTS_UNIT_KERNEL_INPUTS_H
#include "ir/loop.h"
#include "kernels/kernels.h"

#include <math.h>

/* splitmix64 of a counter. */
static inline uint64_t random_bits(uint64_t counter) {
    uint64_t x = (counter + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Uniform in [low, high). */
static inline double random_between(uint64_t counter, double low, double high) {
    return low + (high - low) * ((double)(random_bits(counter) >> 11) * 0x1p-53);
}

static const double edge_doubles[] = {0.0,
                                      -0.0,
                                      1.0,
                                      -1.0,
                                      0.5,
                                      -0.5,
                                      1.5,
                                      -1.5,
                                      2.0,
                                      -2.0,
                                      2.5,
                                      -2.5,
                                      3.0,
                                      -3.0,
                                      0x1p-149,
                                      -0x1p-149,
                                      0x1p-126,
                                      -0x1p-126,
                                      0x1.8p-130,
                                      1e-30,
                                      1e30,
                                      -1e30,
                                      0x1.fffffep127,
                                      -0x1.fffffep127,
                                      65504.0,
                                      65519.0,
                                      65520.0,
                                      0x1p-24,
                                      0x1p-25,
                                      0x1.8p-25,
                                      0x1p31,
                                      -0x1p31,
                                      0x1p63,
                                      -0x1p63,
                                      2147483520.0,
                                      0x1p-1074,
                                      0x1p-1022,
                                      1e300,
                                      -1e300,
                                      INFINITY,
                                      -INFINITY,
                                      NAN,
                                      -NAN,
                                      88.7,
                                      -103.9,
                                      709.7,
                                      -745.1,
                                      0x1.fffffffffffffp1023,
                                      3.14159265358979,
                                      1e22};
static const int64_t edge_ints[] = {0,      1,     -1,        2,         -2,        3,         7,       -7,
                                    31,     32,    33,        63,        64,        65,        -31,     -64,
                                    127,    128,   255,       256,       -128,      -129,      32767,   32768,
                                    -32768, 65535, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 1000003, -99};

/* Fills n elements: edges first, then bit patterns of every exponent and moderate values in turn. */
static inline void fill_input(SType type, uint64_t seed, void *out, int n) {
    for (int i = 0; i < n; i++) {
        const uint64_t bits = random_bits(seed * 1000003 + (uint64_t)i);
        const int edges = type <= S_f64 ? COUNT_OF(edge_doubles) : COUNT_OF(edge_ints);
        const int edge = (int)((uint64_t)(seed & 1 ? i : i / edges) % (uint64_t)edges);
        const bool use_edge = i < (seed < 2 ? edges * edges : edges); /* pairs of them in the first two, else each */
        const double moderate = random_between(bits, -20, 20);
        if (type == S_f32) {
            float value;
            memcpy(&value, &bits, 4);
            ((float *)out)[i] = use_edge ? (float)edge_doubles[edge] : i & 1 ? (float)moderate : value;
        } else if (type == S_f64) {
            double value;
            memcpy(&value, &bits, 8);
            ((double *)out)[i] = use_edge ? edge_doubles[edge] : i & 1 ? moderate : value;
        } else if (type == S_i32) {
            ((int32_t *)out)[i] = (int32_t)(use_edge ? (uint64_t)edge_ints[edge] : i & 1 ? bits % 41 - 20 : bits);
        } else if (type == S_i64) {
            ((int64_t *)out)[i] = (int64_t)(use_edge ? (uint64_t)edge_ints[edge] : i & 1 ? bits % 41 - 20 : bits);
        } else {
            ((uint8_t *)out)[i] = bits & 1;
        }
    }
}

/* Equality of B1: all bits, or both NaN. */
static inline bool same_value(SType type, const void *x, const void *y) {
    if (type == S_f32 && isnan(*(const float *)x) && isnan(*(const float *)y)) return true;
    if (type == S_f64 && isnan(*(const double *)x) && isnan(*(const double *)y)) return true;
    return !memcmp(x, y, (size_t)stype_bytes(type));
}

/* The levels this machine can run. */
static inline int levels(void) { return (int)isa_host() + 1; }

#endif
