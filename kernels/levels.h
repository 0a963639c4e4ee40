/* levels.h: what each compiled level of kernels/cpu exports, for the files that choose between them. */
#ifndef SINTER_KERNELS_LEVELS_H
#define SINTER_KERNELS_LEVELS_H
#include "kernels/cpu/gemm.h"

extern const KernelTable kernel_table_v2, kernel_table_v3, kernel_table_v4;
extern const GemmLevel gemm_level_v2, gemm_level_v3, gemm_level_v4;

/* The probes' loops: fma in registers only; a[i] = b[i] + c[i], reading, copying; stores past the
 * caches. */
typedef struct ProbeLevel {
    float (*fma)(int64_t rounds); /* the sum keeps the work alive */
    int64_t flops_per_round;
    void (*add)(float *a, const float *b, const float *c, int64_t n);
    float (*read)(const float *a, int64_t n);
    void (*copy)(float *a, const float *b, int64_t n);
    void (*copy_past)(float *a, const float *b, int64_t n);
    void (*add_past)(float *a, const float *b, const float *c, int64_t n);
} ProbeLevel;
extern const ProbeLevel probe_level_v2, probe_level_v3, probe_level_v4;

/* Of cpu/taps.c, by type: f32, f64. */
typedef struct TapsLevel {
    void (*rows[2])(const TapRows *);
    void (*pixels[2])(const TapPixels *);
    void (*weights[2])(const TapWeights *);
    void (*take_steps[2])(void *to, const void *from, int64_t step, int64_t n);
} TapsLevel;
extern const TapsLevel taps_level_v2, taps_level_v3, taps_level_v4;

/* Of cpu/attention.c, by type: f32, f64. */
typedef struct AttentionLevel {
    void (*softmax[2])(const AttentionRow *);
    void (*slope[2])(const AttentionSlope *);
    void (*add[2])(void *to, const void *from, int64_t n);
    bool (*finite[2])(const void *from, int64_t n);
} AttentionLevel;
extern const AttentionLevel attention_level_v2, attention_level_v3, attention_level_v4;

#endif
