/* probe.c: what this machine can do on one thread, best of several runs: the figures beside every benchmark table. */
#include "kernels/levels.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"

static const ProbeLevel *level(void) {
    static const ProbeLevel *const levels[ISA_COUNT] = {&probe_level_v2, &probe_level_v3, &probe_level_v4};
    return levels[isa_used()];
}

static double seconds(void) { return 1e-9 * (double)clock_ns(); }

double probe_fma_once(void) {
    const ProbeLevel *const probe = level();
    const int64_t rounds = isa_used() == ISA_v2 ? 2000 : 200000;
    const double start = seconds();
    volatile float sink = probe->fma(rounds);
    (void)sink;
    return (double)(rounds * probe->flops_per_round) / (seconds() - start) * 1e-9;
}

double probe_fma_gflops(void) {
    double best = 0;
    for (int run = 0; run < 25; run++) {
        const double now = probe_fma_once();
        if (now > best) best = now;
    }
    return best;
}

double probe_bandwidth_gbs(void) {
    const int64_t n = 8 << 20; /* three arrays of 32 MiB */
    float *const memory = mem_aligned(64, (size_t)n * 3 * sizeof(float));
    if (!memory) return 0;
    memset(memory, 0, (size_t)n * 3 * sizeof(float));
    double best = 1e30;
    for (int run = 0; run < 5; run++) {
        const double start = seconds();
        level()->add(memory, memory + n, memory + 2 * n, n);
        const double took = seconds() - start;
        if (took < best) best = took;
    }
    mem_free(memory);
    return 3.0 * (double)n * sizeof(float) / best * 1e-9;
}

int64_t probe_pass(ProbePass pass, bool past, float *memory, int64_t n) {
    const ProbeLevel *const probe = level();
    const int64_t part = n / (pass + 1) / 64 * 64;
    float *const b = memory + part, *const c = b + part;
    if (pass == PROBE_read) {
        volatile float sink = probe->read(memory, part);
        (void)sink;
    }
    if (pass == PROBE_copy) (past ? probe->copy_past : probe->copy)(memory, b, part);
    if (pass == PROBE_add) (past ? probe->add_past : probe->add)(memory, b, c, part);
    return part * (pass + 1) * (int64_t)sizeof(float);
}
