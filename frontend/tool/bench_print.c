/* bench_print.c: the figures of a row as a line of text, a JSON object, a line of CSV, or a row of a Markdown table.
 * JSON and CSV have every figure that was taken, the others those that are compared. */
#include <stdio.h>
#include <unistd.h>

#include "frontend/tool/bench_report.h"
#include "frontend/tool/colour.h"
#include "kernels/kernels.h"

enum { MAX_FIGURES = 64 };

typedef struct Figure {
    char key[32];
    double value;
    bool zero; /* 0 is a figure: tensors of few elements live in blocks of their own */
} Figure;

typedef struct Figures {
    Figure at[MAX_FIGURES];
    int n;
} Figures;

static void add_figure(Figures *all, const char *key, const char *suffix, double value) {
    Figure *const figure = &all->at[all->n++];
    *figure = (Figure){.value = value};
    snprintf(figure->key, sizeof figure->key, "%s%s", key, suffix);
}

static void add_timing(Figures *all, const char *key, const Timing *t, double scale) {
    add_figure(all, key, "", t->median * scale);
    add_figure(all, key, "_min", t->min * scale);
    add_figure(all, key, "_p10", t->p10 * scale);
    add_figure(all, key, "_p90", t->p90 * scale);
    add_figure(all, key, "_p99", t->p99 * scale);
    add_figure(all, key, "_spread", t->spread);
}

static void add_bytes(Figures *all, const char *key, int64_t bytes, bool zero) {
    add_figure(all, key, "", (double)bytes);
    all->at[all->n - 1].zero = zero;
}

/* Always the same ones, in the same order: 0 where it was not taken. */
static Figures figures_of(const BenchReport *r, const BenchProbes *probes) {
    static const Timing none;
    Figures all = {.n = 0};
    add_timing(&all, "eager_ns", &r->op, 1);
    add_timing(&all, "verify_ns", r->is_call ? &r->eager : &none, 1e6);
    add_timing(&all, "call_ns", r->is_call ? &r->compiled : &none, 1e6);
    add_timing(&all, "eager_ms", r->is_call ? &none : &r->eager, 1);
    add_timing(&all, "compiled_ms", r->is_call ? &none : &r->compiled, 1);
    add_figure(&all, "speedup", "", r->speedup.median);
    add_figure(&all, "speedup", "_low", r->speedup.low), add_figure(&all, "speedup", "_high", r->speedup.high);
    add_figure(&all, "samples", "", r->op.n ? r->op.n : r->compiled.n);
    add_figure(&all, "warm_ms", "", r->warm.ms), add_figure(&all, "warm_ms", "_min", r->warm.min_ms);
    add_figure(&all, "made_ms", "", r->warm.cold_ms);
    add_figure(&all, "nvrtc_ms", "", r->nvrtc.ms), add_figure(&all, "nvrtc_ms", "_min", r->nvrtc.min_ms);
    add_figure(&all, "cold_ms", "", r->cold_ms);
    add_figure(&all, "compile_ms", "", r->compile_ms), add_figure(&all, "compile_ms", "_min", r->compile_min);
    add_figure(&all, "kernels", "", (double)r->kernels), add_figure(&all, "compiled_share", "", r->share);
    add_bytes(&all, "moved_bytes", r->moved_bytes, false), add_bytes(&all, "saved_bytes", r->saved_bytes, false);
    add_bytes(&all, "arena_bytes", r->arena_bytes, false);
    add_bytes(&all, "peak_bytes", r->peak, r->compiled.n > 0);
    add_bytes(&all, "eager_peak_bytes", r->eager_peak, r->compiled.n > 0);
    add_figure(&all, "copy_gbs", "", r->copy_gbs);
    add_figure(&all, "row_fma_gflops", "", r->fma), add_figure(&all, "row_fma_gflops", "_best", r->fma_best);
    add_figure(&all, "probe_fma_gflops", "", probes->fma);
    add_figure(&all, "probe_bandwidth_gbs", "", probes->bandwidth);
    return all;
}

static bool was_taken(const Figure *figure) { return figure->value > 0 || figure->zero; }

static void print_figure(Text *text, const Figure *figure) {
    const bool whole = double_is_i64(figure->value);
    text_printf(text, whole ? "%.0f" : "%.6g", figure->value);
}

static void print_json(Text *text, const char *name, const Figures *all, int threads) {
    text_puts(text, "{\"peer\": \"sinter\", \"row\": ");
    text_json_string(text, name);
    text_printf(text, ", \"threads\": %d", threads);
    for (int i = 0; i < all->n; i++) {
        if (!was_taken(&all->at[i])) continue;
        text_printf(text, ", \"%s\": ", all->at[i].key);
        print_figure(text, &all->at[i]);
    }
    text_puts(text, "}\n");
}

/* A name with a comma or a quote is quoted (RFC 4180). */
static void print_csv_name(Text *text, const char *name) {
    if (!strpbrk(name, ",\"\n")) {
        text_puts(text, name);
        return;
    }
    text_puts(text, "\"");
    for (; *name; name++) text_printf(text, *name == '"' ? "\"\"" : "%c", *name);
    text_puts(text, "\"");
}

static void print_csv(Text *text, const char *name, const Figures *all, int threads) {
    print_csv_name(text, name);
    text_printf(text, ",%d", threads);
    for (int i = 0; i < all->n; i++) {
        text_puts(text, ",");
        if (was_taken(&all->at[i])) print_figure(text, &all->at[i]);
    }
    text_puts(text, "\n");
}

/* Text --------------------------------------------------------------------------------------- */

static void print_rate(Text *text, const BenchReport *r) {
    const double rate = (double)r->moved_bytes / r->compiled.median * 1e-6;
    text_printf(text, "  %.0f GB/s, %.0f %% of a copy's %.0f", rate, 100 * rate / r->copy_gbs, r->copy_gbs);
}

static void print_product(Text *text, const BenchReport *r) {
    const double flops = r->flops;
    text_printf(text, "  %.0f GFLOP/s, %.0f %% of the probe in turn with it, %.0f %% best of best",
                flops / r->compiled.median * 1e-6, flops / r->compiled.median * 1e-4 / r->fma,
                flops / r->compiled.min * 1e-4 / r->fma_best);
}

/* A saved plan's calls: nothing is beside them. */
static void print_alone(Text *text, const BenchReport *r) {
    text_printf(text, "%9.4f ms a call (min %.4f, p90 %.4f, spread %.0f %%)  kernels %lld  peak bytes %lld",
                r->compiled.median, r->compiled.min, r->compiled.p90, 100 * r->compiled.spread, (long long)r->kernels,
                (long long)r->peak);
}

static void print_pair(Text *text, const BenchReport *r) {
    text_printf(text, "eager %9.4f ms  compiled %9.4f ms (min %.4f, p90 %.4f, spread %.0f %%)", r->eager.median,
                r->compiled.median, r->compiled.min, r->compiled.p90, 100 * r->compiled.spread);
    text_printf(text, "  %.2f times as fast (%.2f to %.2f)", r->speedup.median, r->speedup.low, r->speedup.high);
    if (r->cold_ms > 0) text_printf(text, "  cold %7.1f ms", r->cold_ms);
    text_printf(text, "  kernels %lld  %lld bytes moved, %lld saved  peak bytes %lld, eager %lld  share %.2f",
                (long long)r->kernels, (long long)r->moved_bytes, (long long)r->saved_bytes, (long long)r->peak,
                (long long)r->eager_peak, r->share);
    if (r->flops) print_product(text, r);
    if (r->copy_gbs > 0) print_rate(text, r);
}

static void print_text(Text *text, const char *name, const BenchReport *r) {
    text_printf(text, "%-30s ", name);
    if (r->op.n && r->is_call)
        text_printf(text, "eager %.1f ns, verify %.1f ns, replay %.1f ns per op", r->op.median, r->eager.median * 1e6,
                    r->compiled.median * 1e6);
    else if (r->op.n)
        text_printf(text, "%10.1f ns per op (min %.1f, p90 %.1f, spread %.0f %%)", r->op.median, r->op.min, r->op.p90,
                    100 * r->op.spread);
    else if (r->is_call)
        text_printf(text, "replay %.0f ns, verify %.0f ns per call", r->compiled.median * 1e6, r->eager.median * 1e6);
    else if (r->compile_min > 0)
        text_printf(text, "loop IR to callable %.3f ms (min %.3f)", r->compile_ms, r->compile_min);
    else if (r->nvrtc.ms > 0)
        text_printf(text, "text to a cubin %.1f ms of processor time (min %.1f), %d programs", r->nvrtc.ms,
                    r->nvrtc.min_ms, r->nvrtc.programs);
    else if (r->warm.ms > 0)
        text_printf(text, "plan and code %.3f ms where another process compiled it (min %.3f), %.1f ms by itself",
                    r->warm.ms, r->warm.min_ms, r->warm.cold_ms);
    else if (!r->eager.n && r->compiled.n)
        print_alone(text, r);
    else
        print_pair(text, r);
    text_puts(text, "\n");
}

/* Markdown ------------------------------------------------------------------------------------ */

static void print_markdown(Text *text, const char *name, const BenchReport *r) {
    text_printf(text, "| %s | ", name);
    if (r->op.n && r->is_call)
        text_printf(text, "%.1f ns an op, %.1f verified | %.1f ns replayed | | %.0f %% | |\n", r->op.median,
                    r->eager.median * 1e6, r->compiled.median * 1e6, 100 * r->compiled.spread);
    else if (r->op.n)
        text_printf(text, "%.1f ns an op | | | %.0f %% | |\n", r->op.median, 100 * r->op.spread);
    else if (r->is_call)
        text_printf(text, "%.0f ns verified | %.0f ns replayed | | %.0f %% | |\n", r->eager.median * 1e6,
                    r->compiled.median * 1e6, 100 * r->compiled.spread);
    else if (!r->compiled.n)
        text_printf(text, "| %.4g ms to compile | | | |\n",
                    r->warm.ms > 0    ? r->warm.ms
                    : r->nvrtc.ms > 0 ? r->nvrtc.ms
                                      : r->compile_ms);
    else if (!r->eager.n)
        text_printf(text, "| %.4g ms | | %.0f %% | %lld |\n", r->compiled.median, 100 * r->compiled.spread,
                    (long long)r->kernels);
    else
        text_printf(text, "%.4g ms | %.4g ms | %.2f (%.2f to %.2f) | %.0f %% | %lld |\n", r->eager.median,
                    r->compiled.median, r->speedup.median, r->speedup.low, r->speedup.high, 100 * r->compiled.spread,
                    (long long)r->kernels);
}

/* Of a run ------------------------------------------------------------------------------------ */

static void print_csv_head(void) {
    static const BenchReport nothing;
    static const BenchProbes none;
    const Figures all = figures_of(&nothing, &none);
    fputs("row,threads", stdout);
    for (int i = 0; i < all.n; i++) printf(",%s", all.at[i].key);
    putchar('\n');
}

void bench_print_head(BenchFormat format, const BenchProbes *p) {
    if (format == FORMAT_csv) print_csv_head();
    if (format == FORMAT_markdown)
        puts("| row | eager | compiled | times as fast (95 %) | spread | kernels |\n|---|---|---|---|---|---|");
    if (format == FORMAT_text)
        printf("%sprobes:%s fma %.1f GFLOP/s, bandwidth %.1f GB/s, %d thread%s, %s\n",
               colour_begin(stdout, COLOUR_heading), colour_end(stdout), p->fma, p->bandwidth, p->threads,
               p->threads == 1 ? "" : "s", isa_name(isa_used()));
}

void bench_print_row(BenchFormat format, const char *name, const BenchReport *report, const BenchProbes *probes) {
    const Figures all = figures_of(report, probes);
    Text text = {0};
    if (format == FORMAT_text) print_text(&text, name, report);
    if (format == FORMAT_json) print_json(&text, name, &all, probes->threads);
    if (format == FORMAT_csv) print_csv(&text, name, &all, probes->threads);
    if (format == FORMAT_markdown) print_markdown(&text, name, report);
    fputs(text_str(&text), stdout);
    fflush(stdout);
    text_free(&text);
}

void bench_progress(int i, int n, const char *name) {
    if (!isatty(STDERR_FILENO)) return;
    if (name)
        fprintf(stderr, "\r\033[K[%d/%d] %s", i, n, name);
    else
        fputs("\r\033[K", stderr);
    fflush(stderr);
}
