/* probe.c: loops that show what the core can do, printed beside benchmarks: independent fma chains in registers, enough
 * to hide their latency (12 leaves room in 16 registers, 24 in 32), and passes over memory. */
#include "kernels/cpu/math_f64.h"
#include "kernels/levels.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b)  PASTE_(a, b)

enum { CHAINS = LANES == 16 ? 24 : 12 };

static float fma_rounds(int64_t rounds) {
    v_f32 acc[CHAINS];
    const v_f32 factor = (v_f32)0.999f, term = (v_f32)0.001f;
    UNROLL for (int i = 0; i < CHAINS; i++) acc[i] = (v_f32)(float)i;
    for (int64_t round = 0; round < rounds; round++)
        UNROLL for (int i = 0; i < CHAINS; i++) acc[i] = vec_fma_f32(acc[i], factor, term);
    v_f32 sum = acc[0];
    for (int i = 1; i < CHAINS; i++) sum += acc[i];
    return sum[0];
}

static void probe_add(float *a, const float *b, const float *c, int64_t n) {
    for (int64_t i = 0; i + LANES <= n; i += LANES) put_f32(a, i, get_f32(b, i) + get_f32(c, i));
}

/* Sums of their own, so that no load waits for an addition. */
static float probe_read(const float *a, int64_t n) {
    enum { SUMS = 8 };
    v_f32 sum[SUMS] = {0};
    for (int64_t i = 0; i + SUMS * LANES <= n; i += SUMS * LANES)
        UNROLL for (int k = 0; k < SUMS; k++) sum[k] += get_f32(a, i + k * LANES);
    for (int k = 1; k < SUMS; k++) sum[0] += sum[k];
    return sum[0][0];
}

static void probe_copy(float *a, const float *b, int64_t n) {
    for (int64_t i = 0; i + LANES <= n; i += LANES) put_f32(a, i, get_f32(b, i));
}

/* Past the caches: a is aligned to whole vectors. */
static void copy_past(float *a, const float *b, int64_t n) {
    for (int64_t i = 0; i + LANES <= n; i += LANES) __builtin_nontemporal_store(get_f32(b, i), (v_f32 *)(a + i));
}
static void add_past(float *a, const float *b, const float *c, int64_t n) {
    for (int64_t i = 0; i + LANES <= n; i += LANES)
        __builtin_nontemporal_store(get_f32(b, i) + get_f32(c, i), (v_f32 *)(a + i));
}

extern const ProbeLevel PASTE(probe_level_, KERNEL_LEVEL);
const ProbeLevel PASTE(probe_level_, KERNEL_LEVEL) = {fma_rounds, 2 * CHAINS *LANES, probe_add, probe_read,
                                                      probe_copy, copy_past,         add_past};
