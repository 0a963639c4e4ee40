/* bench_run.h: a row's work run once, with its results kept. */
#ifndef SINTER_TOOL_BENCH_RUN_H
#define SINTER_TOOL_BENCH_RUN_H
#include "frontend/tool/bench.h"

typedef struct BenchResults { /* kept: bench_results_free */
    sn_tensor *out[WORK_OUTPUTS], *dy[WORK_OUTPUTS], *grads[WORK_INPUTS];
    int n_out, n_grads;
} BenchResults;

/* bench_time.c. Errors are pending behind it. */
void bench_run_kept(const Work *w, sn_compile_mode mode, BenchResults *results);
void bench_results_free(BenchResults *results);
void bench_work_free(Work *w); /* bench.c */

#endif
