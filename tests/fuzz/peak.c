/* peak.c: how much memory training takes at most, eager against compiled [semantics G5]: one call and the backward
 * through its results, after others that compiled it. Bytes are counted as they are asked for (SINTER_PLAIN_MALLOC),
 * by one thread. */
#include "runtime/base/bail.h"
#include "runtime/device/alloc_cpu.h"
#include "tests/fuzz/compare.h"
#include "tests/fuzz/run.h"

enum { WARM_CALLS = 3, RETURNS = 8 };

static bool is_root(const FzRun *run, sn_tensor **out, int i) {
    for (int k = 0; k < i; k++)
        if (out[k] == out[i]) return false;
    return i < run->p->n_returns && out[i] && sn_requires_grad(out[i]);
}

/* How many results it went through. */
static int go_back(const FzRun *run, sn_tensor **out) {
    sn_tensor *roots[RETURNS], *grads[RETURNS];
    int n = 0;
    for (int i = 0; run->p->outer_backward && i < RETURNS; i++) {
        if (!is_root(run, out, i)) continue;
        roots[n] = out[i];
        grads[n++] = sn_full_like(out[i], sn_float(0.75));
    }
    if (n) sn_backward_ex((sn_tensors){roots, n}, (sn_tensors){grads, n}, 0);
    return n;
}

typedef struct Peak {
    int64_t bytes; /* beyond what was there */
    bool failed, trained;
} Peak;

static int64_t bytes_now(int64_t *most) {
    int64_t now, held;
    cpu_alloc_stats(&now, most, &held);
    return now;
}

static Peak peak_of_call(FzRun *run, uint64_t seed) {
    FzSeen seen = {.failed = false};
    sn_tensor *in[FZ_INPUTS], *out[RETURNS] = {NULL};
    int n = 0;
    const sn_scope scope = sn_scope_begin();
    run->seen = &seen;
    for (int i = 0; i < run->p->n_inputs; i++) run->inputs[i] = fz_make_input(run, i, &seed);
    for (int i = 0; i < run->p->n_inputs; i++)
        if (!run->p->inputs[i].closed) in[n++] = run->inputs[i];
    if (run->p->region) sn_autocast_set(fz_device, fz_autocast(run->p->region));
    int64_t most;
    cpu_alloc_peak_begin();
    const int64_t before = bytes_now(&most);
    sn_call(run->fn, in, n, out, run->p->n_returns);
    if (run->p->region) sn_autocast_set(fz_device, SN_F32);
    Peak peak = {.trained = !sn_check() && (!run->p->outer_backward || go_back(run, out) > 0)};
    bytes_now(&most);
    peak.bytes = most - before;
    peak.failed = sn_check() != SN_OK;
    if (peak.failed) sn_error_take();
    sn_scope_end(scope);
    fz_seen_free(&seen);
    return peak;
}

static Peak peak_of(const FzProgram *p, uint64_t seed, sn_compile_mode mode, sn_dynamic dynamic) {
    const sn_compile_options options = {.size = sizeof options, .mode = mode, .dynamic = dynamic};
    FzRun *const run = fz_run_new(p, &options);
    Peak peak = {.bytes = 0};
    failpoint_set("codegen"); /* the plan is what counts */
    for (int i = 0; i <= WARM_CALLS; i++) peak = peak_of_call(run, seed);
    failpoint_set("");
    fz_run_free(run);
    return peak;
}

void fz_peak(const FzProgram *p, uint64_t seed, bool symbolic, FzResult *result, Text *story) {
    const sn_dynamic dynamic = symbolic ? SN_DYNAMIC_ALWAYS : SN_DYNAMIC_AUTO;
    const Peak eager = peak_of(p, seed, SN_COMPILE_EAGER, SN_DYNAMIC_AUTO);
    const Peak compiled = peak_of(p, seed, SN_COMPILE_VERIFY, dynamic);
    *result = (FzResult){.errors = eager.failed, .trained = eager.trained && !eager.failed};
    if (!result->trained) return;
    result->eager_peak = eager.bytes, result->peak = compiled.bytes;
    result->differs = compiled.failed || compiled.bytes > eager.bytes + eager.bytes / FZ_PEAK_SHARE;
    if (story)
        text_printf(story, "eager %lld bytes, compiled %lld\n", (long long)eager.bytes, (long long)compiled.bytes);
}
