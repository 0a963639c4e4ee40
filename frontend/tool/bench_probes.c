/* bench_probes.c: `sinter bench --probes`: what this machine reaches on so many threads, each with memory of its own:
 * fma in registers; reading, copying and adding what lies in L2, in L3 and in memory, bytes read and written. Stores
 * are ordinary ones, or go past the caches where that is faster. The best of several runs. */
#include <stdio.h>
#include <stdlib.h>

#include "frontend/tool/bench_report.h"
#include "kernels/kernels.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/core/pool.h"

enum { RUNS = 7, LEAST_NS = 4000000 };

typedef struct ProbeRun {
    float *memory; /* n floats for each thread */
    int64_t n, rounds;
    ProbePass pass;
    bool past;
} ProbeRun;

static void probe_passes(void *context, int i) {
    const ProbeRun *const run = context;
    for (int64_t round = 0; round < run->rounds; round++)
        probe_pass(run->pass, run->past, run->memory + (int64_t)i * run->n, run->n);
}

static double seconds_of(void (*body)(void *context, int i), void *context) {
    const int64_t start = clock_ns();
    pool_run(pool_threads(), body, context);
    return 1e-9 * (double)(clock_ns() - start);
}

static double best_gbs(ProbeRun run) {
    const int64_t part = run.n / (run.pass + 1) / 64 * 64 * (run.pass + 1);
    double best = 0;
    for (int i = -1; i < RUNS; i++) {
        const double took = seconds_of(probe_passes, &run);
        const double rate = (double)(part * run.rounds * pool_threads()) * sizeof(float) / took * 1e-9;
        if (i < 0) run.rounds = (int64_t)(LEAST_NS * 1e-9 / took) + 1; /* the first one warms up and says how long */
        if (i >= 0 && rate > best) best = rate;
    }
    return best;
}

static void run_fma(void *context, int i) { ((double *)context)[i] = probe_fma_once(); }

static double fma_gflops(void) {
    enum { MOST = 256 };
    static double rates[MOST];
    double best = 0;
    for (int run = 0; run < RUNS * 3; run++) {
        double sum = 0;
        pool_run(pool_threads(), run_fma, rates);
        for (int i = 0; i < pool_threads(); i++) sum += rates[i];
        if (sum > best) best = sum;
    }
    return best;
}

/* Bytes of one thread in a level: half of its L2, its part of half the L3, four times the L3. */
static int64_t bytes_in(int level, int64_t l2, int64_t l3) {
    const int64_t shared = l3 / 2 / pool_threads(), memory = 4 * l3 / pool_threads();
    if (level == 0) return l2 / 2;
    return level == 1 ? (shared > 2 * l2 ? shared : 2 * l2) : memory;
}

/* As the kernel says: of sysconf's the L3 is all of the machine's on some CPUs. */
static int64_t cache_bytes(int index, int64_t otherwise) {
    char path[80];
    long long kib = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
    FILE *const file = fopen(path, "r");
    if (!file) return otherwise;
    const bool found = fscanf(file, "%lldK", &kib) == 1 && kib > 0;
    fclose(file);
    return found ? kib << 10 : otherwise;
}

static void print_rate(bool json, const char *level, ProbePass pass, double rate) {
    static const char *const words[] = {"read", "copy", "add"};
    printf(json ? ", \"%s_%s_gbs\": %.4g" : "  %s %s %.1f GB/s", level, words[pass], rate);
}

int bench_print_probes(bool json) {
    static const char *const levels[] = {"l2", "l3", "memory"};
    const int64_t l2 = cache_bytes(2, 1 << 20), l3 = cache_bytes(3, 32 << 20);
    const int64_t most = bytes_in(2, l2, l3) + bytes_in(1, l2, l3);
    float *const memory = mem_aligned(64, (size_t)(most * pool_threads()));
    if (!memory) return ST_MEMORY;
    memset(memory, 0, (size_t)(most * pool_threads()));
    printf(json ? "{\"peer\": \"probe\", \"threads\": %d, \"fma_gflops\": %.5g, \"l2_bytes\": %lld, \"l3_bytes\": %lld"
                : "%d threads  fma %.1f GFLOP/s  L2 %lld B, L3 %lld B",
           pool_threads(), fma_gflops(), (long long)l2, (long long)l3);
    for (int level = 0; level < 3; level++)
        for (ProbePass pass = PROBE_read; pass <= PROBE_add; pass++) {
            ProbeRun run = {memory, bytes_in(level, l2, l3) / (int64_t)sizeof(float) / 64 * 64, 1, pass, false};
            double rate = best_gbs(run);
            run.past = true;
            const double past = pass == PROBE_read ? 0 : best_gbs(run);
            print_rate(json, levels[level], pass, past > rate ? past : rate);
        }
    puts(json ? "}" : "");
    mem_free(memory);
    return ST_OK;
}
