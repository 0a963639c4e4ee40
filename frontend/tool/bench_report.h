/* bench_report.h: the figures of one row, and how they are written. */
#ifndef SINTER_TOOL_BENCH_REPORT_H
#define SINTER_TOOL_BENCH_REPORT_H
#include "frontend/tool/bench.h"

typedef struct BenchReport {
    Timing eager, compiled; /* ms; of a call verify and replay */
    Timing op;              /* ns of an op of an eager loop */
    Interval speedup;       /* eager / compiled */
    double cold_ms, compile_ms, compile_min, fma, fma_best, flops;
    int64_t kernels, moved_bytes, saved_bytes, arena_bytes, eager_peak, peak;
    BenchWarm warm;
    BenchNvrtc nvrtc;
    bool is_call;           /* verify and replay, not eager and compiled */
    double share, copy_gbs; /* what a copy within the row's device reaches; 0: not asked */
} BenchReport;

typedef enum BenchFormat { FORMAT_text, FORMAT_json, FORMAT_csv, FORMAT_markdown } BenchFormat; /* as in commands.def */

/* Of the same run. */
typedef struct BenchProbes {
    double fma, bandwidth;
    int threads;
} BenchProbes;

/* bench_time.c: takes the figures of a row's work; errors are pending behind it. */
void bench_work(const Work *w, const BenchHow *how, BenchReport *report);
void bench_pair(const Work *w, const BenchHow *how, sn_compile_mode first, sn_compile_mode second, BenchReport *report);
void bench_plan(const Work *w, const BenchHow *how, BenchReport *report); /* the calls of a saved plan, alone */
void bench_time_nvrtc(const Work *w, BenchReport *report);
double bench_cold_ms(const Work *w);     /* the first compiled call less one eager call */
void bench_print_code_ms(const Work *w); /* what it spent on plan and code, and how many compiles it left on disk */

int bench_print_probes(bool json); /* bench_probes.c: of all levels of memory, on the threads of the pool. A Status */
/* bench_digest.c. make: of the row its work. save: a file for what went in and came out, or NULL. A Status */
int bench_print_digest(const BenchRow *row, void (*make)(const BenchRow *row, Work *w), const char *save);

/* What stands above the rows. */
void bench_print_head(BenchFormat format, const BenchProbes *probes);
void bench_print_row(BenchFormat format, const char *name, const BenchReport *report, const BenchProbes *probes);

/* On a terminal, to stderr: "[3/57] optim/adamw", in the place of the last one; name NULL: it goes. */
void bench_progress(int i, int n, const char *name);

#endif
