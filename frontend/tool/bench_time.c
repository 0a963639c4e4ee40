/* bench_time.c: times a row's work: eagerly and compiled in turn, so that a noisy moment of the machine hits both; an
 * eager loop's ops; calls; compiling; and what the first call costs. */
#include <stdio.h>
#include <stdlib.h>

#include "frontend/tool/bench_report.h"
#include "frontend/tool/bench_run.h"
#include "kernels/kernels.h"
#include "runtime/base/clock.h"
#include "runtime/capture/function/explain.h"
#include "runtime/core/disk_cache.h"

enum { MAX_SAMPLES = 1000, LEAST_SAMPLES = 6 };

static double now_ms(void) { return (double)clock_ns() * 1e-6; }

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

/* The gradients of all inputs that require one, from all outputs that carry one; how many. Where no input does, those
 * of what the function closes over: none is given. */
static int run_backward(const Runner *r, sn_tensor *const *out, sn_tensor **got) {
    sn_tensor *leaves[WORK_INPUTS], *roots[WORK_OUTPUTS], *grads[WORK_OUTPUTS];
    int n = 0, n_roots = 0;
    for (int i = 0; i < r->work->n_in; i++)
        if (sn_requires_grad(r->work->in[i])) leaves[n++] = r->work->in[i];
    for (int i = 0; i < output_count(r->work); i++) {
        if (!r->grads[i] || !sn_requires_grad(out[i])) continue;
        roots[n_roots] = out[i];
        grads[n_roots++] = r->grads[i];
    }
    const sn_tensors from = {roots, n_roots}, seeds = {grads, n_roots};
    if (n || !n_roots)
        sn_gradients(from, (sn_tensors){leaves, n}, seeds, 0, got);
    else
        sn_backward_ex(from, seeds, 0);
    return n;
}

static sn_grad_mode mode_of(const Work *w) {
    if (w->mode != SN_GRAD_ON) return w->mode;
    return w->kind == WORK_forward || w->kind == WORK_call ? SN_GRAD_OFF : SN_GRAD_ON;
}

/* Most have no numbers; they are timed as a program calls them. */
static void call_work(const Work *w, sn_function *fn, sn_tensor **out) {
    if (w->numbers.n)
        call_with_numbers(fn, w->in, w->n_in, &w->numbers, out, output_count(w));
    else
        sn_call(fn, (sn_tensor *const *)w->in, w->n_in, out, output_count(w));
}

/* Runs the work once, results dropped. */
static void run_once(const Runner *r) {
    const Work *w = r->work;
    sn_scope scope = sn_scope_begin();
    sn_grad_mode_set(mode_of(w));
    sn_tensor *out[WORK_OUTPUTS] = {NULL}, *got[WORK_INPUTS];
    call_work(w, r->fn, out);
    if (w->kind == WORK_backward && !sn_check()) run_backward(r, out, got);
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

static void warm_up(Runner *r, int times) {
    for (int i = 0; i < times; i++) run_once(r);
    wait_for(r->work);
    const double start = now_ms();
    run_once(r);
    wait_for(r->work);
    const double once = now_ms() - start;
    r->inner = once < 2 ? (int)(2 / (once + 1e-6)) + 1 : 1;
}

static bool is_enough(const Runner *r, const BenchHow *how, double stop) {
    if (sn_check() || r->n == MAX_SAMPLES) return true;
    return how->repeats ? r->n >= how->repeats : r->n >= LEAST_SAMPLES && now_ms() >= stop;
}

/* Alternates the variants and, if `fma` is there for its samples, the probe. */
static void measure_runners(Runner *runners, int n, const BenchHow *how, double *fma) {
    for (int i = 0; i < n; i++) warm_up(&runners[i], how->warmup);
    const double stop = now_ms() + how->seconds * 1e3 * n;
    while (!is_enough(&runners[0], how, stop)) {
        if (fma) fma[runners[0].n] = probe_fma_once();
        for (int i = 0; i < n; i++) sample(&runners[i]);
    }
}

static sn_function *compile_work(const Work *w, sn_compile_mode mode, const char *name) {
    const sn_compile_options *const o = SN_COMPILE_OPTIONS(.mode = mode, .dynamic = w->dynamic, .name = name);
    if (w->program) return sn_program_compile(w->program, o);
    if (w->plan) return sn_plan_load(w->plan, NULL);
    return w->graph ? sn_graph_compile(w->graph, o) : sn_compile(w->body, w->closure, o);
}

/* The output gradients of a backward work: fixed, like the outputs; kept. */
static void output_gradients(const Work *w, sn_tensor **grads) {
    for (int i = 0; i < WORK_OUTPUTS; i++) grads[i] = NULL;
    if (w->kind != WORK_backward) return;
    sn_function *fn = compile_work(w, SN_COMPILE_EAGER, "shape");
    sn_scope scope = sn_scope_begin();
    sn_tensor *out[WORK_OUTPUTS] = {NULL};
    call_work(w, fn, out);
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

void bench_run_kept(const Work *w, sn_compile_mode mode, BenchResults *results) {
    output_gradients(w, results->dy);
    const Runner r = {.work = w, .grads = results->dy, .fn = compile_work(w, mode, "kept")};
    sn_scope scope = sn_scope_begin();
    sn_grad_mode_set(mode_of(w));
    call_work(w, r.fn, results->out);
    results->n_out = output_count(w);
    if (w->kind == WORK_backward && !sn_check()) results->n_grads = run_backward(&r, results->out, results->grads);
    for (int i = 0; i < results->n_out; i++) sn_keep(results->out[i]);
    for (int i = 0; i < results->n_grads; i++) sn_keep(results->grads[i]);
    sn_scope_end(scope);
    sn_function_free(r.fn);
}

void bench_results_free(BenchResults *results) {
    release_gradients(results->dy);
    for (int i = 0; i < results->n_out; i++) sn_release(results->out[i]);
    for (int i = 0; i < results->n_grads; i++) sn_release(results->grads[i]);
}

static void read_stats(sn_function *fn, BenchReport *report) {
    sn_stats s = {.size = sizeof s};
    sn_function_stats(fn, &s);
    const int64_t ops = s.ops_generated + s.ops_interpreted + s.ops_eager;
    report->kernels = s.kernels;
    report->compile_ms = (double)(s.passes_ns + s.codegen_ns) * 1e-6;
    report->share = ops ? (double)s.ops_generated / (double)ops : 0;
    report->arena_bytes = s.arena_bytes;
    for (int i = 0; fn && i < fn->variants.n; i++) {
        const CompileReport *const info = &fn->variants.at[i]->info;
        for (int p = 0; p < info->n_plans; p++) {
            report->moved_bytes += plan_moved_bytes(info->plans[p]);
            report->saved_bytes += info->plans[p]->saved_bytes;
        }
    }
}

static void bench_overhead(const Work *w, const BenchHow *how, BenchReport *report) {
    static Runner r;
    r = (Runner){.work = w, .fn = compile_work(w, SN_COMPILE_EAGER, "eager")};
    measure_runners(&r, 1, how, NULL);
    for (int i = 0; i < r.n; i++) r.samples[i] *= 1e6 / w->ops;
    report->op = timing_of(r.samples, r.n);
    sn_function_free(r.fn);
}

static void probe_once(double *fma, int n, BenchReport *report) {
    qsort(fma, (size_t)n, sizeof *fma, bench_by_value);
    report->fma = fma[n / 2], report->fma_best = fma[n - 1];
}

void bench_pair(const Work *w, const BenchHow *how, sn_compile_mode first, sn_compile_mode second,
                BenchReport *report) {
    static Runner r[2];
    static double fma[MAX_SAMPLES];
    sn_tensor *grads[WORK_OUTPUTS];
    output_gradients(w, grads);
    r[0] = (Runner){.work = w, .grads = grads, .fn = compile_work(w, first, "first")};
    r[1] = (Runner){.work = w, .grads = grads, .fn = compile_work(w, second, "compiled")};
    measure_runners(r, 2, how, report->flops ? fma : NULL);
    report->speedup = ratio_of(r[0].samples, r[1].samples, r[1].n);
    report->eager = timing_of(r[0].samples, r[0].n);
    report->compiled = timing_of(r[1].samples, r[1].n);
    if (report->flops && r[0].n) probe_once(fma, r[0].n, report);
    report->eager_peak = peak_bytes(&r[0]);
    report->peak = peak_bytes(&r[1]);
    read_stats(r[1].fn, report);
    sn_function_free(r[0].fn);
    sn_function_free(r[1].fn);
    release_gradients(grads);
}

void bench_plan(const Work *w, const BenchHow *how, BenchReport *report) {
    static Runner r;
    r = (Runner){.work = w, .fn = compile_work(w, SN_COMPILE_REPLAY, "plan")};
    measure_runners(&r, 1, how, NULL);
    report->compiled = timing_of(r.samples, r.n);
    report->peak = peak_bytes(&r);
    read_stats(r.fn, report);
    sn_function_free(r.fn);
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
        const CompileReport *const info = r.fn->variants.n ? &r.fn->variants.at[0]->info : NULL;
        r.samples[r.n++] = info ? (double)(info->codegen_ns + info->load_ns) * 1e-6 : 0;
        sn_function_free(r.fn);
    }
    const Timing t = timing_of(r.samples, r.n);
    report->compile_ms = t.median;
    report->compile_min = t.min;
}

/* First compiled call less one eager call: what `--cold` prints in a fresh process. */
double bench_cold_ms(const Work *w) {
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
void bench_print_code_ms(const Work *w) {
    sn_tensor *grads[WORK_OUTPUTS];
    output_gradients(w, grads);
    const Runner r = {.work = w, .grads = grads, .fn = compile_work(w, SN_COMPILE_VERIFY, "warm")};
    run_once(&r);
    wait_for(w);
    const CompileReport *const info = r.fn && r.fn->variants.n ? &r.fn->variants.at[0]->info : NULL;
    if (info)
        printf("%.4f %d\n", (double)(info->passes_ns + info->lower_ns + info->codegen_ns + info->load_ns) * 1e-6,
               (int)disk_count(DISK_stored));
    sn_function_free(r.fn);
    release_gradients(grads);
}

void bench_time_nvrtc(const Work *w, BenchReport *report) {
    sn_tensor *grads[WORK_OUTPUTS];
    output_gradients(w, grads);
    const Runner r = {.work = w, .grads = grads, .fn = compile_work(w, SN_COMPILE_VERIFY, "nvrtc")};
    run_once(&r);
    const char *const text = sn_dump(r.fn, "cuda");
    if (!sn_check()) report->nvrtc = bench_nvrtc(text);
    sn_function_free(r.fn);
    release_gradients(grads);
}

static void per_op(Timing *t, int ops) { t->median /= ops, t->min /= ops, t->p10 /= ops, t->p90 /= ops, t->p99 /= ops; }

/* A whole forward of so many ops: ns per op eagerly, verified and replayed. */
static void bench_ops(const Work *w, const BenchHow *how, BenchReport *report) {
    per_op(&report->eager, w->ops);
    per_op(&report->compiled, w->ops);
    bench_overhead(w, how, report);
}

void bench_work(const Work *w, const BenchHow *how, BenchReport *report) {
    report->is_call = w->kind == WORK_call;
    if (w->kind == WORK_overhead)
        bench_overhead(w, how, report);
    else if (w->kind == WORK_call)
        bench_pair(w, how, SN_COMPILE_VERIFY, SN_COMPILE_REPLAY, report);
    else if (w->kind == WORK_compile)
        bench_compile(w, report);
    else
        bench_pair(w, how, SN_COMPILE_EAGER, SN_COMPILE_VERIFY, report);
    if (w->kind == WORK_call && w->ops) bench_ops(w, how, report);
}
