/* bench.c: `sinter bench`: times rows, or a target of target.h, eagerly and compiled, alternating,
 * and prints medians and minima with the FMA and bandwidth probes of the same run; a product's beside the probe
 * in turn with it. Cold compile
 * times come from fresh processes of the same program, started with --cold and one name. */
#include "frontend/tool/bench.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frontend/tool/sample.h"
#include "kernels/kernels.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/capture/function/explain.h"
#include "runtime/core/disk_cache.h"
#include "runtime/cpu/pool.h"

extern char **environ;

enum { MAX_SAMPLES = 400, MOST_THREADS = 256 };

typedef struct Options {
    bool json, cold;
    double seconds;
    int64_t bytes;               /* of the tensors of a row with streams */
    const char *against, *cache; /* cache: with cold: a folder that has code, or gets it */
    int rounds, threads;
    int n_names;
    char **names;
    const char *device_name; /* as it was given */
    TargetOptions target;    /* inputs and modes of a target; its name is names[0] */
    char **argv;             /* of the command, for the process that times it cold */
    int argc;
} Options;

typedef struct BenchReport {
    double eager_ms, eager_min, compiled_ms, compiled_min, cold_ms, compile_ms, compile_min, ns, ns_min, verify_ns,
        verify_min, call_ns, call_min, fma, fma_best;
    int64_t kernels, product_flops, moved_bytes, saved_bytes, arena_bytes, eager_peak, peak;
    BenchWarm warm;
    BenchNvrtc nvrtc;
    double share, copy_gbs; /* what a copy within the row's device reaches; 0: not asked */
} BenchReport;

static double now_ms(void) { return (double)clock_ns() * 1e-6; }

int bench_by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct Runner { /* one variant of a row's work */
    const Work *work;
    sn_function *fn;
    sn_tensor *const *grads; /* by output, of a backward */
    double samples[MAX_SAMPLES];
    int n, inner;
} Runner;

static int output_count(const Work *w) {
    if (w->n_out) return w->n_out > 0 ? w->n_out : 0;
    return w->kind != WORK_overhead && !(w->kind == WORK_step && w->n_in == 0);
}

/* The gradients of all inputs that require one, from all outputs that carry one. */
static void run_backward(const Runner *r, sn_tensor *const *out) {
    sn_tensor *leaves[WORK_INPUTS], *got[WORK_INPUTS], *roots[WORK_OUTPUTS], *grads[WORK_OUTPUTS];
    int n = 0, n_roots = 0;
    for (int i = 0; i < r->work->n_in; i++)
        if (sn_requires_grad(r->work->in[i])) leaves[n++] = r->work->in[i];
    for (int i = 0; i < output_count(r->work); i++) {
        if (!r->grads[i] || !sn_requires_grad(out[i])) continue;
        roots[n_roots] = out[i];
        grads[n_roots++] = r->grads[i];
    }
    sn_gradients((sn_tensors){roots, n_roots}, (sn_tensors){leaves, n}, (sn_tensors){grads, n_roots}, 0, got);
}

/* Runs the work once, results dropped. */
static void run_once(const Runner *r) {
    const Work *w = r->work;
    sn_scope scope = sn_scope_begin();
    sn_grad_mode_set(w->kind == WORK_forward || w->kind == WORK_call ? SN_GRAD_OFF : SN_GRAD_ON);
    sn_tensor *out[WORK_OUTPUTS] = {NULL};
    sn_call(r->fn, w->in, w->n_in, out, output_count(w));
    if (w->kind == WORK_backward && !sn_check()) run_backward(r, out);
    sn_scope_end(scope);
}

static sn_device device_of_work(const Work *w) { return w->n_in ? sn_device_of(w->in[0]) : SN_CPU; }

/* A device of its own may still be at work when the calls have returned. */
static void wait_for(const Work *w) {
    if (w->n_in) sn_device_synchronize(device_of_work(w));
}

/* What one run has of the device's allocator at most, beyond what is there before it. */
static int64_t peak_bytes(const Runner *r) {
    const sn_device device = device_of_work(r->work);
    sn_memory before = {.size = sizeof before}, after = before;
    sn_memory_reset_peak(device);
    sn_memory_get(device, &before);
    run_once(r);
    sn_memory_get(device, &after);
    return after.peak - before.current;
}

static void sample(Runner *r) {
    if (r->n == MAX_SAMPLES) return;
    const double start = now_ms();
    for (int i = 0; i < r->inner; i++) run_once(r);
    wait_for(r->work);
    r->samples[r->n++] = (now_ms() - start) / r->inner;
}

static void warm_up(Runner *r) {
    for (int i = 0; i < 3; i++) run_once(r);
    wait_for(r->work);
    const double start = now_ms();
    run_once(r);
    wait_for(r->work);
    const double once = now_ms() - start;
    r->inner = once < 2 ? (int)(2 / (once + 1e-6)) + 1 : 1;
}

static Timing timing(Runner *r) {
    if (!r->n) return (Timing){0, 0};
    qsort(r->samples, (size_t)r->n, sizeof *r->samples, bench_by_value);
    return (Timing){r->samples[r->n / 2], r->samples[0]};
}

/* Alternates the variants and, if `fma` is there for its samples, the probe: a noisy moment hits all of them. */
static void measure_runners(Runner *runners, int n, double seconds, double *fma) {
    for (int i = 0; i < n; i++) warm_up(&runners[i]);
    const double stop = now_ms() + seconds * 1e3 * n;
    while (!sn_check() && (runners[0].n < 5 || now_ms() < stop) && runners[0].n < MAX_SAMPLES) {
        if (fma) fma[runners[0].n] = probe_fma_once();
        for (int i = 0; i < n; i++) sample(&runners[i]);
    }
}

static sn_function *compile_work(const Work *w, sn_compile_mode mode, const char *name) {
    const sn_compile_options *const o = SN_COMPILE_OPTIONS(.mode = mode, .dynamic = w->dynamic, .name = name);
    return w->graph ? sn_graph_compile(w->graph, o) : sn_compile(w->body, w->closure, o);
}

/* The output gradients of a backward work: fixed, like the outputs; kept. */
static void output_gradients(const Work *w, sn_tensor **grads) {
    for (int i = 0; i < WORK_OUTPUTS; i++) grads[i] = NULL;
    if (w->kind != WORK_backward) return;
    sn_function *fn = compile_work(w, SN_COMPILE_EAGER, "shape");
    sn_scope scope = sn_scope_begin();
    sn_tensor *out[WORK_OUTPUTS] = {NULL};
    sn_call(fn, w->in, w->n_in, out, output_count(w));
    for (int i = 0; i < output_count(w); i++)
        if (out[i] && sn_requires_grad(out[i]))
            grads[i] = sn_keep(
                sn_to_device(sn_to(sn_randn(sn_sizes(out[i]), SN_F32), sn_dtype_of(out[i])), sn_device_of(out[i])));
    sn_scope_end(scope);
    sn_function_free(fn);
}

static void release_gradients(sn_tensor **grads) {
    for (int i = 0; i < WORK_OUTPUTS; i++) sn_release(grads[i]);
}

static void take_stats(sn_function *fn, BenchReport *report) {
    sn_stats s = {.size = sizeof s};
    sn_function_stats(fn, &s);
    const int64_t ops = s.ops_generated + s.ops_interpreted + s.ops_eager;
    report->kernels = s.kernels;
    report->compile_ms = (double)(s.passes_ns + s.codegen_ns) * 1e-6;
    report->share = ops ? (double)s.ops_generated / (double)ops : 0;
    report->arena_bytes = s.arena_bytes;
    for (int i = 0; fn && i < fn->variants.n; i++) {
        const CompileInfo *const info = &fn->variants.at[i]->info;
        for (int p = 0; p < info->n_plans; p++) {
            report->moved_bytes += plan_moved_bytes(info->plans[p]);
            report->saved_bytes += info->plans[p]->saved_bytes;
        }
    }
}

static void bench_overhead(const Work *w, const Options *o, BenchReport *report) {
    static Runner r;
    r = (Runner){.work = w, .fn = compile_work(w, SN_COMPILE_EAGER, "eager")};
    measure_runners(&r, 1, o->seconds, NULL);
    const Timing t = timing(&r);
    report->ns = t.median * 1e6 / w->ops;
    report->ns_min = t.min * 1e6 / w->ops;
    sn_function_free(r.fn);
}

static void bench_pair(const Work *w, const Options *o, sn_compile_mode first, sn_compile_mode second,
                       BenchReport *report) {
    static Runner r[2];
    sn_tensor *grads[WORK_OUTPUTS];
    output_gradients(w, grads);
    r[0] = (Runner){.work = w, .grads = grads, .fn = compile_work(w, first, "first")};
    r[1] = (Runner){.work = w, .grads = grads, .fn = compile_work(w, second, "compiled")};
    static double fma[MAX_SAMPLES];
    measure_runners(r, 2, o->seconds, report->product_flops ? fma : NULL);
    const Timing a = timing(&r[0]), b = timing(&r[1]);
    report->eager_ms = a.median, report->eager_min = a.min;
    report->compiled_ms = b.median, report->compiled_min = b.min;
    if (report->product_flops) {
        qsort(fma, (size_t)r[0].n, sizeof *fma, bench_by_value);
        report->fma = fma[r[0].n / 2], report->fma_best = fma[r[0].n - 1];
    }
    report->eager_peak = peak_bytes(&r[0]);
    report->peak = peak_bytes(&r[1]);
    take_stats(r[1].fn, report);
    sn_function_free(r[0].fn);
    sn_function_free(r[1].fn);
    release_gradients(grads);
}

static void bench_call(const Work *w, const Options *o, BenchReport *report) {
    bench_pair(w, o, SN_COMPILE_VERIFY, SN_COMPILE_REPLAY, report);
    report->verify_ns = report->eager_ms * 1e6, report->verify_min = report->eager_min * 1e6;
    report->call_ns = report->compiled_ms * 1e6, report->call_min = report->compiled_min * 1e6;
    report->eager_ms = report->eager_min = report->compiled_ms = report->compiled_min = 0;
}

/* Code generation and loading of one kernel: a new constant each time, so that none is had already. */
static void bench_compile(const Work *w, BenchReport *report) {
    enum { TIMES = 50 };
    static Runner r;
    r = (Runner){.work = w};
    double *const constant = w->closure;
    while (r.n < TIMES && !sn_check()) {
        *constant += 0.0625;
        r.fn = compile_work(w, SN_COMPILE_VERIFY, "compile");
        run_once(&r);
        const CompileInfo *const info = r.fn->variants.n ? &r.fn->variants.at[0]->info : NULL;
        r.samples[r.n++] = info ? (double)(info->codegen_ns + info->load_ns) * 1e-6 : 0;
        sn_function_free(r.fn);
    }
    const Timing t = timing(&r);
    report->compile_ms = t.median;
    report->compile_min = t.min;
}

/* First compiled call less one eager call: what `--cold` prints in a fresh process. */
static double cold_ms(const Work *w) {
    sn_tensor *grads[WORK_OUTPUTS];
    output_gradients(w, grads);
    Runner eager = {.work = w, .grads = grads, .fn = compile_work(w, SN_COMPILE_EAGER, "eager")};
    run_once(&eager);
    wait_for(w);
    double start = now_ms();
    run_once(&eager);
    wait_for(w);
    const double once = now_ms() - start;
    Runner cold = {.work = w, .grads = grads, .fn = compile_work(w, SN_COMPILE_VERIFY, "cold")};
    start = now_ms();
    run_once(&cold);
    wait_for(w);
    const double first = now_ms() - start;
    sn_function_free(eager.fn);
    sn_function_free(cold.fn);
    release_gradients(grads);
    return first - once;
}

/* What the first call spent on plan and code, and how many compiles it left on disk. */
static void print_code_ms(const Work *w) {
    sn_tensor *grads[WORK_OUTPUTS];
    output_gradients(w, grads);
    const Runner r = {.work = w, .grads = grads, .fn = compile_work(w, SN_COMPILE_VERIFY, "warm")};
    run_once(&r);
    wait_for(w);
    const CompileInfo *const info = r.fn && r.fn->variants.n ? &r.fn->variants.at[0]->info : NULL;
    if (info)
        printf("%.4f %d\n", (double)(info->passes_ns + info->lower_ns + info->codegen_ns + info->load_ns) * 1e-6,
               (int)disk_count(DISK_stored));
    sn_function_free(r.fn);
    release_gradients(grads);
}

static void time_nvrtc(const Work *w, BenchReport *report) {
    sn_tensor *grads[WORK_OUTPUTS];
    output_gradients(w, grads);
    const Runner r = {.work = w, .grads = grads, .fn = compile_work(w, SN_COMPILE_VERIFY, "nvrtc")};
    run_once(&r);
    const char *const text = sn_dump(r.fn, "cuda");
    if (!sn_check()) report->nvrtc = bench_nvrtc(text);
    sn_function_free(r.fn);
    release_gradients(grads);
}

static sn_device device_of(const Options *o) { return o->target.device_given ? (sn_device)o->target.device : SN_CPU; }

static void work_make(const BenchRow *row, const Options *o, Work *w) {
    int64_t sizes[4];
    const BenchPlace place = {device_of(o), row->dtype};
    *w = (Work){.kind = WORK_forward};
    memcpy(sizes, row->sizes, sizeof sizes);
    if (row->streams) sizes[0] = bench_rows_of(row, o->bytes);
    sn_scope scope = sn_scope_begin();
    row->make(w, sizes);
    if (place.device != SN_CPU || place.dtype) bench_place(w, row->name, &place);
    sn_scope_end(scope);
}

static void work_free(Work *w) {
    for (int i = 0; i < w->n_in; i++) sn_release(w->in[i]);
    if (w->closure_free) w->closure_free(w->closure);
}

static bool ended_well(pid_t child) {
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status);
}

bool bench_spawn(const char *program, char **argv, Text *out) {
    int pipes[2];
    if (pipe(pipes)) return false;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, pipes[0]);
    pid_t child;
    const int failed = posix_spawn(&child, program, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipes[1]);
    char part[4096];
    for (ssize_t n; !failed && (n = read(pipes[0], part, sizeof part)) > 0;) text_put(out, part, (size_t)n);
    close(pipes[0]);
    return !failed && ended_well(child);
}

/* Runs `sinter bench --cold ...` and reads its one number. */
static double spawn_cold(char **argv) {
    Text text = {0};
    const double ms = bench_spawn("/proc/self/exe", argv, &text) ? atof(text_str(&text)) : 0;
    text_free(&text);
    return ms;
}

static void time_work(const Work *w, const Options *o, BenchReport *report) {
    if (w->kind == WORK_overhead)
        bench_overhead(w, o, report);
    else if (w->kind == WORK_call)
        bench_call(w, o, report);
    else if (w->kind == WORK_compile)
        bench_compile(w, report);
    else
        bench_pair(w, o, SN_COMPILE_EAGER, SN_COMPILE_VERIFY, report);
}

static void bench_row(const BenchRow *row, const Options *o, BenchReport *report) {
    Work w;
    if (row->warm) {
        report->warm = bench_warm(row->name, o->target.device_given ? o->device_name : NULL);
        return;
    }
    work_make(row, o, &w);
    if (row->nvrtc) {
        if (!sn_check()) time_nvrtc(&w, report);
        work_free(&w);
        return;
    }
    if (row->product) report->product_flops = 2 * row->sizes[0] * row->sizes[1] * row->sizes[2];
    if (!sn_check()) time_work(&w, o, report);
    work_free(&w);
    if (report->compiled_ms > 0 && row->streams)
        report->copy_gbs = bench_copy_gbs(device_of(o), o->bytes);
    else if (report->compiled_ms > 0 && !o->target.device_given)
        report->cold_ms = spawn_cold((char *[]){"sinter", "bench", "--cold", (char *)row->name, NULL});
}

/* Output -------------------------------------------------------------------------------------- */

static void print_figure(const char *name, double value) {
    if (value > 0) printf(", \"%s\": %.6g", name, value);
}

static void print_json(const char *name, const BenchReport *r, int threads, double fma, double bandwidth) {
    Text row = {0};
    text_json_string(&row, name);
    printf("{\"peer\": \"sinter\", \"row\": %s, \"threads\": %d", text_str(&row), threads);
    text_free(&row);
    print_figure("eager_ns", r->ns), print_figure("eager_ns_min", r->ns_min);
    print_figure("verify_ns", r->verify_ns), print_figure("verify_ns_min", r->verify_min);
    print_figure("call_ns", r->call_ns), print_figure("call_ns_min", r->call_min);
    print_figure("eager_ms", r->eager_ms), print_figure("eager_ms_min", r->eager_min);
    print_figure("compiled_ms", r->compiled_ms), print_figure("compiled_ms_min", r->compiled_min);
    print_figure("warm_ms", r->warm.ms), print_figure("warm_ms_min", r->warm.min_ms);
    print_figure("made_ms", r->warm.cold_ms);
    print_figure("nvrtc_ms", r->nvrtc.ms), print_figure("nvrtc_ms_min", r->nvrtc.min_ms);
    print_figure("cold_ms", r->cold_ms), print_figure("compile_ms", r->compile_ms);
    print_figure("compile_ms_min", r->compile_min);
    print_figure("kernels", (double)r->kernels), print_figure("compiled_share", r->share);
    print_figure("moved_bytes", (double)r->moved_bytes), print_figure("saved_bytes", (double)r->saved_bytes);
    print_figure("arena_bytes", (double)r->arena_bytes);
    if (r->compiled_ms > 0) /* 0 is a figure: tensors of few elements live in blocks of their own */
        printf(", \"peak_bytes\": %lld, \"eager_peak_bytes\": %lld", (long long)r->peak, (long long)r->eager_peak);
    print_figure("copy_gbs", r->copy_gbs);
    print_figure("row_fma_gflops", r->fma), print_figure("row_fma_gflops_best", r->fma_best);
    print_figure("probe_fma_gflops", fma), print_figure("probe_bandwidth_gbs", bandwidth);
    puts("}");
    fflush(stdout);
}

static void print_rate(const BenchReport *r) {
    const double rate = (double)r->moved_bytes / r->compiled_ms * 1e-6;
    printf("  %.0f GB/s, %.0f %% of a copy's %.0f", rate, 100 * rate / r->copy_gbs, r->copy_gbs);
}

static void print_text(const char *name, const BenchReport *r) {
    if (r->ns > 0)
        printf("%-30s %10.1f ns per op (min %.1f)\n", name, r->ns, r->ns_min);
    else if (r->call_ns > 0)
        printf("%-30s replay %.0f ns, verify %.0f ns per call\n", name, r->call_ns, r->verify_ns);
    else if (r->compile_min > 0)
        printf("%-30s loop IR to callable %.3f ms (min %.3f)\n", name, r->compile_ms, r->compile_min);
    else if (r->nvrtc.ms > 0)
        printf("%-30s text to a cubin %.1f ms of processor time (min %.1f), %d programs\n", name, r->nvrtc.ms,
               r->nvrtc.min_ms, r->nvrtc.programs);
    else if (r->warm.ms > 0)
        printf("%-30s plan and code %.3f ms where another process compiled it (min %.3f), %.1f ms by itself\n", name,
               r->warm.ms, r->warm.min_ms, r->warm.cold_ms);
    else {
        printf("%-30s eager %9.4f ms  compiled %9.4f ms (min %.4f)", name, r->eager_ms, r->compiled_ms,
               r->compiled_min);
        if (r->cold_ms) printf("  cold %7.1f ms", r->cold_ms);
        printf("  kernels %lld  %lld bytes moved, %lld saved  peak bytes %lld, eager %lld  share %.2f",
               (long long)r->kernels, (long long)r->moved_bytes, (long long)r->saved_bytes, (long long)r->peak,
               (long long)r->eager_peak, r->share);
        if (r->product_flops)
            printf("  %.0f GFLOP/s, %.0f %% of the probe in turn with it, %.0f %% best of best",
                   (double)r->product_flops / r->compiled_ms * 1e-6,
                   (double)r->product_flops / r->compiled_ms * 1e-4 / r->fma,
                   (double)r->product_flops / r->compiled_min * 1e-4 / r->fma_best);
        if (r->copy_gbs > 0) print_rate(r);
        putchar('\n');
    }
    fflush(stdout);
}

static bool wanted(const Options *o, const BenchRow *row) {
    const char *const name = row->name;
    for (int i = 0; i < o->n_names; i++)
        if (!strncmp(name, o->names[i], strlen(o->names[i]))) return true;
    return o->n_names == 0 && !row->streams == (device_of(o) == SN_CPU);
}

/* Targets ------------------------------------------------------------------------------------- */

static bool is_row(const char *prefix) {
    if (!*prefix) return false;
    for (const BenchRow *row = bench_rows; row->name; row++)
        if (!strncmp(row->name, prefix, strlen(prefix))) return true;
    return false;
}

static bool is_file(const char *name) { return target_is_file(name) && !target_is_plan(name); /* it has no eager */ }

static bool is_sample(const char *name) { return !is_file(name) && !is_row(name) && sample_exists(name); }

static bool is_target(const Options *o) { return o->n_names == 1 && (is_file(o->names[0]) || is_sample(o->names[0])); }

static WorkKind kind_of(const Options *o, const Target *t) {
    if (t->step) return WORK_step;
    return o->target.grad || t->backward ? WORK_backward : WORK_forward;
}

static void target_work(const Options *o, const Target *t, Work *w) {
    *w = (Work){.kind = kind_of(o, t),
                .graph = t->graph,
                .body = t->body,
                .closure = t->closure,
                .dynamic = o->target.compile.dynamic,
                .n_in = t->n_in,
                .n_out = t->n_out ? t->n_out : -1};
    if (t->n_in > WORK_INPUTS || t->n_out > WORK_OUTPUTS)
        error_raise(ST_UNSUPPORTED, "bench times at most %d inputs and %d outputs, not %d and %d", WORK_INPUTS,
                    WORK_OUTPUTS, t->n_in, t->n_out);
    else
        memcpy(w->in, t->in, sizeof *t->in * (size_t)t->n_in);
}

static double target_cold_ms(const Options *o) {
    char *argv[64] = {"sinter", "bench", "--cold"};
    if (o->argc > 60) return 0;
    memcpy(argv + 3, o->argv, sizeof *argv * (size_t)o->argc);
    if (!strcmp(o->names[0], "-")) rewind_stdin();
    return spawn_cold(argv);
}

static int with_target(const Options *o, void (*done)(const Options *o, const Work *w)) {
    TargetOptions options = o->target;
    options.name = o->names[0];
    Target target;
    Work w;
    if (!strcmp(options.name, "-") && keep_stdin() != ST_OK) return report_error(EXIT_environment);
    const bool found =
        is_file(options.name) ? target_open(&options, &target) : target_open_sample(options.name, &target);
    if (!found) return no_such_target(options.name);
    if (!sn_check()) target_work(o, &target, &w);
    if (!sn_check()) done(o, &w);
    const int code = sn_check() ? report_error(target.exit_code) : EXIT_done;
    target_close(&target);
    return code;
}

static void print_cold(const Options *o, const Work *w) {
    (void)o;
    printf("%.4f\n", cold_ms(w));
}

/* Rows and their probes ----------------------------------------------------------------------- */

typedef struct Probes {
    double fma, bandwidth;
    int threads;
} Probes;

static Probes run_probes(const Options *o) {
    const Probes p = {.fma = probe_fma_gflops(), .bandwidth = probe_bandwidth_gbs(), .threads = pool_threads()};
    if (!o->json)
        printf("probes: fma %.1f GFLOP/s, bandwidth %.1f GB/s, %d thread(s), %s\n", p.fma, p.bandwidth, p.threads,
               isa_name(isa_used()));
    return p;
}

static void print_report(const Options *o, const char *name, const BenchReport *report, const Probes *p) {
    if (o->json)
        print_json(name, report, p->threads, p->fma, p->bandwidth);
    else
        print_text(name, report);
}

static void time_target(const Options *o, const Work *w) {
    const Probes probes = run_probes(o);
    BenchReport report = {0};
    const sn_compile_mode mode = o->target.compile.mode == SN_COMPILE_REPLAY ? SN_COMPILE_REPLAY : SN_COMPILE_VERIFY;
    bench_pair(w, o, SN_COMPILE_EAGER, mode, &report);
    if (sn_check()) return;
    report.cold_ms = target_cold_ms(o);
    print_report(o, o->names[0], &report, &probes);
}

/* What is near is a row, or a sample. */
static int unknown_row(const Command *self, const char *name) {
    NearName near = near_begin(name);
    for (const BenchRow *row = bench_rows; row->name; row++) near_offer(&near, row->name);
    samples_offer(&near);
    return usage_error_near(self, "no row, sample, .sn file or library.so:symbol is", name, "", &near);
}

static int run_cold(const Options *o) {
    if (is_target(o)) return with_target(o, print_cold);
    for (const BenchRow *row = bench_rows; row->name; row++) {
        if (!wanted(o, row)) continue;
        Work w;
        work_make(row, o, &w);
        if (o->cache)
            print_code_ms(&w);
        else
            printf("%.4f\n", cold_ms(&w));
        work_free(&w);
        return sn_check() ? report_error(EXIT_wrong) : EXIT_done;
    }
    return EXIT_usage;
}

static int run_rows(const Options *o) {
    const Probes probes = run_probes(o);
    for (const BenchRow *row = bench_rows; row->name; row++) {
        if (!wanted(o, row)) continue;
        BenchReport report = {0};
        bench_row(row, o, &report);
        if (sn_check()) return report_error(EXIT_wrong);
        print_report(o, row->name, &report, &probes);
    }
    return EXIT_done;
}

/* Rows go to a device, too: it is no option of targets alone. */
static bool take_target_option(CommandLine *a, Options *o) {
    const char *const given = o->target.given;
    if (!a->option || !take_target(a, &o->target)) return false;
    if (is_option(a, "device")) o->target.given = given, o->device_name = a->value;
    return true;
}

static bool take_folder(CommandLine *a, Options *o) {
    if (!take_text(a, "cache", &o->cache)) return false;
    if (sn_setting_set("cache_dir", o->cache) != SN_OK) arguments_refuse(a, "no folder:");
    return true;
}

static void take_argument(CommandLine *a, Options *o) {
    double bytes = (double)o->bytes;
    if (!a->option)
        o->names[o->n_names++] = (char *)a->value;
    else if (!(take_flag(a, "json", &o->json) || take_flag(a, "cold", &o->cold) ||
               take_number(a, "seconds", 1e-6, 1e6, &o->seconds) || take_number(a, "bytes", 1, 1e12, &bytes) ||
               take_count(a, "threads", 1, MOST_THREADS, &o->threads) || take_count(a, "rounds", 1, 99, &o->rounds) ||
               take_text(a, "against", &o->against) || take_folder(a, o) || take_target_option(a, o)))
        arguments_refuse(a, "unexpected");
    o->bytes = (int64_t)bytes;
}

/* Options that would have no effect; NULL: none. */
static const char *useless(const Options *o) {
    const TargetOptions *const t = &o->target;
    if (o->against && t->given) return "two builds time rows and samples as they are:";
    if (!is_target(o)) return t->given ? "inputs and modes are for a target, not for rows:" : NULL;
    if (t->vary) return "sizes do not vary here:";
    if (t->compile.mode == SN_COMPILE_EAGER) return "it is timed against eager, not as:";
    return is_sample(o->names[0]) && (t->device_given || t->n_inputs || t->grad || t->outs_given)
               ? "inputs, outputs, gradients and devices are a sample's own:"
               : NULL;
}

/* Wrong usage of names and options together; EXIT_done: none. */
static int check_options(const Command *self, const Options *o) {
    for (int i = 0; i < o->n_names && !is_target(o); i++) {
        if (is_row(o->names[i]) || (o->against && is_sample(o->names[i]))) continue;
        if (!i && sample_exists(o->names[0])) return usage_error(self, "a sample goes alone, not with", o->names[1]);
        return unknown_row(self, o->names[i]);
    }
    if (useless(o)) return usage_error(self, useless(o), o->target.given);
    if (o->against && (!o->n_names || is_file(o->names[0])))
        return usage_error(self, "--against wants rows or samples, not", o->n_names ? o->names[0] : "nothing");
    return EXIT_done;
}

int command_bench(const Command *self, int argc, char **argv) {
    char *given[64], *names[64], threads[16];
    if (argc > COUNT_OF(given)) return usage_error(self, "too many arguments after", argv[63]);
    memcpy(given, argv, sizeof *argv * (size_t)argc);
    Options o = {
        .seconds = 0.5, .bytes = 1000000000, .rounds = 7, .threads = 1, .names = names, .argv = given, .argc = argc};
    sn_setting_set("cache_dir", "off"); /* what is timed cold compiles */
    CommandLine a = arguments_begin(self, argc, argv);
    while (arguments_next(&a)) take_argument(&a, &o);
    if (a.ended) return a.code;
    snprintf(threads, sizeof threads, "%d", o.threads);
    if (sn_setting_set("threads", threads) != SN_OK) return report_error(EXIT_usage);
    const int code = check_options(self, &o);
    if (code != EXIT_done) return code;
    if (o.against) return bench_against(&(Against){o.against, o.seconds, o.rounds, o.json}, o.names, o.n_names);
    if (o.cold) return run_cold(&o);
    return is_target(&o) ? with_target(&o, time_target) : run_rows(&o);
}
