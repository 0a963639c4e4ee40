/* bench.c: `sinter bench`: times rows eagerly and compiled, alternating, and prints medians and
 * minima with the FMA and bandwidth probes of the same run. Cold compile times come from fresh
 * processes of the same program. */
#include "frontend/tool/bench.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "frontend/tool/tool.h"
#include "kernels/kernels.h"

extern char **environ;

enum { MAX_SAMPLES = 400 };

typedef struct Options {
    bool json, cold;
    double seconds;
    int n_names;
    char **names;
} Options;

typedef struct Report {
    double eager_ms, eager_min, compiled_ms, compiled_min, cold_ms, compile_ms, ns, ns_min,
        verify_ns, call_ns;
    int64_t kernels, gemm_flops;
    double share;
} Report;

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct Runner { /* one variant of a row's work */
    const Work *work;
    sn_function *fn;
    sn_tensor *grad;
    double samples[MAX_SAMPLES];
    int n, inner;
} Runner;

/* Runs the work once, results dropped. */
static void run_once(const Runner *r) {
    const Work *w = r->work;
    sn_scope scope = sn_scope_begin();
    sn_grad_mode_set(w->kind == WORK_forward || w->kind == WORK_call ? SN_GRAD_OFF : SN_GRAD_ON);
    sn_tensor *out = NULL;
    const int n_out = w->kind != WORK_overhead && !(w->kind == WORK_step && w->n_in == 0);
    sn_call(r->fn, w->in, w->n_in, &out, n_out);
    if (w->kind == WORK_backward) {
        sn_tensor *leaves[WORK_INPUTS], *grads[WORK_INPUTS];
        int n = 0;
        for (int i = 0; i < w->n_in; i++)
            if (sn_requires_grad(w->in[i])) leaves[n++] = w->in[i];
        sn_gradients((sn_tensors){&out, 1}, (sn_tensors){leaves, n},
                     (sn_tensors){&r->grad, r->grad ? 1 : 0}, 0, grads);
    }
    sn_scope_end(scope);
}

static void sample(Runner *r) {
    if (r->n == MAX_SAMPLES) return;
    const double start = now_ms();
    for (int i = 0; i < r->inner; i++) run_once(r);
    r->samples[r->n++] = (now_ms() - start) / r->inner;
}

static void warm_up(Runner *r) {
    for (int i = 0; i < 3; i++) run_once(r);
    const double start = now_ms();
    run_once(r);
    const double once = now_ms() - start;
    r->inner = once < 2 ? (int)(2 / (once + 1e-6)) + 1 : 1;
}

static Timing timing(Runner *r) {
    if (!r->n) return (Timing){0, 0};
    qsort(r->samples, (size_t)r->n, sizeof *r->samples, by_value);
    return (Timing){r->samples[r->n / 2], r->samples[0]};
}

/* Alternates the variants, so that a noisy moment hits both. */
static void measure(Runner *runners, int n, double seconds) {
    for (int i = 0; i < n; i++) warm_up(&runners[i]);
    const double stop = now_ms() + seconds * 1e3 * n;
    while (!sn_check() && (runners[0].n < 5 || now_ms() < stop) && runners[0].n < MAX_SAMPLES)
        for (int i = 0; i < n; i++) sample(&runners[i]);
}

static sn_function *compile(const Work *w, sn_compile_mode mode, const char *name) {
    return sn_compile(w->body, w->closure, SN_COMPILE_OPTIONS(.mode = mode, .name = name));
}

/* The output gradient of a backward row: fixed, like the output. */
static sn_tensor *output_gradient(const Work *w) {
    if (w->kind != WORK_backward) return NULL;
    sn_function *fn = compile(w, SN_COMPILE_EAGER, "shape");
    sn_scope scope = sn_scope_begin();
    sn_tensor *out = NULL, *grad = NULL;
    sn_call(fn, w->in, w->n_in, &out, 1);
    if (out) grad = sn_keep(sn_randn(sn_sizes(out), SN_F32));
    sn_scope_end(scope);
    sn_function_free(fn);
    return grad;
}

static void take_stats(sn_function *fn, Report *report) {
    sn_stats s = {.size = sizeof s};
    sn_function_stats(fn, &s);
    const int64_t ops = s.ops_generated + s.ops_interpreted + s.ops_eager;
    report->kernels = s.kernels;
    report->compile_ms = (double)(s.passes_ns + s.codegen_ns) * 1e-6;
    report->share = ops ? (double)s.ops_generated / (double)ops : 0;
}

static void bench_overhead(const Work *w, const Options *o, Report *report) {
    static Runner r;
    r = (Runner){.work = w, .fn = compile(w, SN_COMPILE_EAGER, "eager")};
    measure(&r, 1, o->seconds);
    const Timing t = timing(&r);
    report->ns = t.median * 1e6 / w->ops;
    report->ns_min = t.min * 1e6 / w->ops;
    sn_function_free(r.fn);
}

static void bench_pair(const Work *w, const Options *o, sn_compile_mode first,
                       sn_compile_mode second, Report *report) {
    static Runner r[2];
    sn_tensor *grad = output_gradient(w);
    r[0] = (Runner){.work = w, .grad = grad, .fn = compile(w, first, "first")};
    r[1] = (Runner){.work = w, .grad = grad, .fn = compile(w, second, "compiled")};
    measure(r, 2, o->seconds);
    const Timing a = timing(&r[0]), b = timing(&r[1]);
    report->eager_ms = a.median, report->eager_min = a.min;
    report->compiled_ms = b.median, report->compiled_min = b.min;
    take_stats(r[1].fn, report);
    sn_function_free(r[0].fn);
    sn_function_free(r[1].fn);
    sn_release(grad);
}

static void bench_call(const Work *w, const Options *o, Report *report) {
    bench_pair(w, o, SN_COMPILE_VERIFY, SN_COMPILE_REPLAY, report);
    report->verify_ns = report->eager_ms * 1e6;
    report->call_ns = report->compiled_ms * 1e6;
    report->eager_ms = report->compiled_ms = 0;
}

/* First compiled call less one eager call: what `--cold` prints in a fresh process. */
static double cold_ms(const Work *w) {
    Runner eager = {
        .work = w, .grad = output_gradient(w), .fn = compile(w, SN_COMPILE_EAGER, "eager")};
    run_once(&eager);
    double start = now_ms();
    run_once(&eager);
    const double once = now_ms() - start;
    Runner cold = {.work = w, .grad = eager.grad, .fn = compile(w, SN_COMPILE_VERIFY, "cold")};
    start = now_ms();
    run_once(&cold);
    const double first = now_ms() - start;
    sn_function_free(eager.fn);
    sn_function_free(cold.fn);
    sn_release(eager.grad);
    return first - once;
}

static void work_make(const BenchRow *row, Work *w) {
    *w = (Work){.kind = WORK_forward};
    sn_scope scope = sn_scope_begin();
    row->make(w, row->sizes);
    sn_scope_end(scope);
}

static void work_free(Work *w) {
    for (int i = 0; i < w->n_in; i++) sn_release(w->in[i]);
    if (w->closure_free) w->closure_free(w->closure);
}

/* Runs `sinter bench --cold ROW` and reads its one number. */
static double spawn_cold(const char *row) {
    int pipes[2];
    if (pipe(pipes)) return 0;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, pipes[0]);
    char *const argv[] = {"sinter", "bench", "--cold", (char *)row, NULL};
    pid_t child;
    const int failed = posix_spawn(&child, "/proc/self/exe", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipes[1]);
    char text[64] = {0};
    const ssize_t n = failed ? 0 : read(pipes[0], text, sizeof text - 1);
    close(pipes[0]);
    if (!failed) waitpid(child, NULL, 0);
    return n > 0 ? atof(text) : 0;
}

static void bench_row(const BenchRow *row, const Options *o, Report *report) {
    Work w;
    work_make(row, &w);
    if (w.kind == WORK_overhead)
        bench_overhead(&w, o, report);
    else if (w.kind == WORK_call)
        bench_call(&w, o, report);
    else
        bench_pair(&w, o, SN_COMPILE_EAGER, SN_COMPILE_VERIFY, report);
    if (!strncmp(row->name, "gemm/", 5))
        report->gemm_flops = 2 * row->sizes[0] * row->sizes[1] * row->sizes[2];
    work_free(&w);
    if (report->compiled_ms > 0) report->cold_ms = spawn_cold(row->name);
}

/* Output
 * -------------------------------------------------------------------------------------------------------
 */

static void number(const char *name, double value) {
    if (value > 0) printf(", \"%s\": %.6g", name, value);
}

static void print_json(const BenchRow *row, const Report *r, int threads, double fma,
                       double bandwidth) {
    printf("{\"peer\": \"sinter\", \"row\": \"%s\", \"threads\": %d", row->name, threads);
    number("eager_ns", r->ns), number("eager_ns_min", r->ns_min);
    number("verify_ns", r->verify_ns), number("call_ns", r->call_ns);
    number("eager_ms", r->eager_ms), number("eager_ms_min", r->eager_min);
    number("compiled_ms", r->compiled_ms), number("compiled_ms_min", r->compiled_min);
    number("cold_ms", r->cold_ms), number("compile_ms", r->compile_ms);
    number("kernels", (double)r->kernels), number("compiled_share", r->share);
    number("probe_fma_gflops", fma), number("probe_bandwidth_gbs", bandwidth);
    puts("}");
    fflush(stdout);
}

static void print_text(const BenchRow *row, const Report *r, double fma) {
    if (r->ns > 0)
        printf("%-30s %10.1f ns per op (min %.1f)\n", row->name, r->ns, r->ns_min);
    else if (r->call_ns > 0)
        printf("%-30s replay %.0f ns, verify %.0f ns per call\n", row->name, r->call_ns,
               r->verify_ns);
    else {
        printf("%-30s eager %9.4f ms  compiled %9.4f ms (min %.4f)  cold %7.1f ms  kernels %lld  "
               "share %.2f",
               row->name, r->eager_ms, r->compiled_ms, r->compiled_min, r->cold_ms,
               (long long)r->kernels, r->share);
        if (r->gemm_flops)
            printf("  %.0f GFLOP/s, %.0f %% of the probe",
                   (double)r->gemm_flops / r->compiled_min * 1e-6,
                   (double)r->gemm_flops / r->compiled_min * 1e-4 / fma);
        putchar('\n');
    }
    fflush(stdout);
}

static bool wanted(const Options *o, const char *name) {
    for (int i = 0; i < o->n_names; i++)
        if (!strncmp(name, o->names[i], strlen(o->names[i]))) return true;
    return o->n_names == 0;
}

static int run_cold(const Options *o) {
    for (const BenchRow *row = bench_rows; row->name; row++) {
        if (!wanted(o, row->name)) continue;
        Work w;
        work_make(row, &w);
        printf("%.4f\n", cold_ms(&w));
        work_free(&w);
        return sn_check() ? report_error(EXIT_wrong) : EXIT_done;
    }
    return EXIT_usage;
}

static int run_rows(const Options *o) {
    const double fma = probe_fma_gflops(), bandwidth = probe_bandwidth_gbs();
    const char *const setting = sn_setting_get("threads");
    const int threads = setting && atoi(setting) ? atoi(setting) : 1;
    if (!o->json)
        printf("probes: fma %.1f GFLOP/s, bandwidth %.1f GB/s, %d thread(s), %s\n", fma, bandwidth,
               threads, isa_name(isa_used()));
    int n = 0;
    for (const BenchRow *row = bench_rows; row->name; row++) {
        if (!wanted(o, row->name)) continue;
        Report report = {0};
        bench_row(row, o, &report);
        if (sn_check()) return report_error(EXIT_wrong);
        if (o->json)
            print_json(row, &report, threads, fma, bandwidth);
        else
            print_text(row, &report, fma);
        n++;
    }
    return n ? EXIT_done : EXIT_wrong;
}

int command_bench(const Command *self, int argc, char **argv) {
    Options o = {.seconds = 0.5, .names = argv};
    int threads = 1;
    for (int i = 0; i < argc; i++) {
        const char *value;
        if (!strcmp(argv[i], "--json"))
            o.json = true;
        else if (!strcmp(argv[i], "--cold"))
            o.cold = true;
        else if ((value = option_value(argv[i], "--seconds")))
            o.seconds = atof(value);
        else if ((value = option_value(argv[i], "--threads")))
            threads = atoi(value);
        else if (argv[i][0] == '-')
            return usage_error(self, "unknown option", argv[i]);
        else
            o.names[o.n_names++] = argv[i];
    }
    char text[16];
    snprintf(text, sizeof text, "%d", threads > 0 ? threads : 1);
    sn_setting_set("threads", text);
    return o.cold ? run_cold(&o) : run_rows(&o);
}
