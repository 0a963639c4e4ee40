/* peak.c: how much memory training takes at most, eager against compiled [semantics G5]: one call and the backward
 * through its results, after others that compiled it. Bytes are counted as they are asked for (SINTER_PLAIN_MALLOC),
 * by one thread.
 *
 * Compiled it is no more than eager's, and SLOT_BYTES for each slot of the plans, whose places in an arena are whole
 * lines. Two reasons for more are decisions. An epilogue stores its results while the product's packed operands are
 * there, and reads what has been computed before; eager computes these when the packed operands are gone: it saves a
 * pass over the product, so it stays, and costs at most what such kernels store beyond the products themselves, and
 * read beside their operands. And a join of nests that stand near each other is done where one of them then waits for
 * the other, with its operands (passes/far.c: a launch costs more): that may cost a share of 1 / JOINS_SHARE in a few
 * nets, which main.c counts. Behind the backward, which goes through one result of several in every third net, no more
 * is left than eager leaves, but for what the forward has saved less (leaves_more). */
#include "runtime/base/bail.h"
#include "runtime/capture/variant/variant.h"
#include "runtime/device/alloc_cpu.h"
#include "tests/fuzz/compare.h"
#include "tests/fuzz/run.h"

enum { WARM_CALLS = 3, RETURNS = 8, SLOT_BYTES = 64, SMALL_BYTES = 512, JOINS_SHARE = 7 };
enum { RETAINED_EVERY = 8, ALONE_EVERY = 3 }; /* programs */

static bool is_root(const FzRun *run, sn_tensor **out, int i) {
    for (int k = 0; k < i; k++)
        if (out[k] == out[i]) return false;
    return i < run->p->n_returns && out[i] && sn_requires_grad(out[i]);
}

/* How many results it went through, all or the first one alone; twice, if the history is kept the first time. */
static int go_back(const FzRun *run, sn_tensor **out, bool alone, bool twice) {
    sn_tensor *roots[RETURNS], *grads[RETURNS];
    int n = 0;
    for (int i = 0; run->p->outer_backward && i < RETURNS; i++) {
        if (!is_root(run, out, i) || (n && alone)) continue;
        roots[n] = out[i];
        grads[n++] = sn_full_like(out[i], sn_float(0.75));
    }
    if (n && twice) sn_backward_ex((sn_tensors){roots, n}, (sn_tensors){grads, n}, SN_RETAIN_GRAPH);
    if (n) sn_backward_ex((sn_tensors){roots, n}, (sn_tensors){grads, n}, 0);
    return n;
}

typedef struct Peak {
    int64_t bytes;                /* beyond what was there */
    int64_t held;                 /* of these, behind the forward */
    int64_t left;                 /* behind the backward: results, gradients, what steps that it has not run hold */
    int64_t slots, small, beside; /* allow() */
    bool failed, trained;
} Peak;

static int64_t bytes_now(int64_t *most) {
    int64_t now, held;
    cpu_alloc_stats(&now, most, &held);
    return now;
}

static Peak peak_of_call(FzRun *run, uint64_t seed) {
    FzSeen seen = {.failed = false};
    const bool twice = seed % RETAINED_EVERY == 0, alone = seed % ALONE_EVERY == 0;
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
    Peak peak = {.held = bytes_now(&most) - before};
    peak.trained = !sn_check() && (!run->p->outer_backward || go_back(run, out, alone, twice) > 0);
    peak.left = bytes_now(&most) - before;
    peak.bytes = most - before;
    peak.failed = sn_check() != SN_OK;
    if (peak.failed) sn_error_take();
    sn_scope_end(scope);
    fz_seen_free(&seen);
    return peak;
}

static bool is_written(const Kernel *kernel, int buf) {
    return kernel->bufs[buf].role == BUF_out || kernel->bufs[buf].role == BUF_inout;
}

static int64_t product_bytes(const Plan *plan, const Kernel *kernel) {
    int64_t bytes = dtype_bytes(kernel->template->dtype);
    for (const char *letter = kernel->template->row->hole; *letter; letter++) {
        const int64_t size = kernel->template->size[template_size(kernel->template->row, *letter)];
        bytes *= sym_hint(plan->env, sym_is(size) ? kernel->params[sym_id(size)] : size);
    }
    return bytes;
}

/* Bytes of slots that come with a step, and are alive in a later one. */
static int64_t alive_of(const Plan *plan, int number, int later) {
    const Step *const step = &plan->steps.at[number];
    int64_t bytes = 0;
    for (int b = 0; b < step->kernel->n_bufs; b++) {
        const Slot *const slot = step->bufs[b] < 0 ? NULL : &plan->slots.at[step->bufs[b]];
        if (!slot || !is_written(step->kernel, b) || slot->first != number) continue;
        if (slot->kind == SLOT_output || slot->last >= later) bytes += sym_hint(plan->env, slot->bytes);
    }
    return bytes;
}

/* What an epilogue reads has been computed when its product packs. */
static int64_t read_beside(const Plan *plan, const Step *step) {
    int64_t bytes = 0;
    for (int b = 0; step->kind == STEP_kernel && step->kernel->template && b < step->kernel->n_bufs; b++) {
        const Slot *const slot = step->bufs[b] < 0 ? NULL : &plan->slots.at[step->bufs[b]];
        const bool operand = template_reads(step->kernel->template, b);
        if (slot && slot->kind == SLOT_arena && !operand && !is_written(step->kernel, b))
            bytes += sym_hint(plan->env, slot->bytes);
    }
    return bytes;
}

/* While a product packs: what epilogues have stored, its own too, beyond the products, and what its own reads. */
static int64_t beside_product(const Plan *plan, int number) {
    int64_t bytes = read_beside(plan, &plan->steps.at[number]);
    for (int s = 0; s <= number; s++) {
        const Step *const step = &plan->steps.at[s];
        if (step->kind == STEP_kernel && step->kernel->template)
            bytes += max_i64(alive_of(plan, s, number) - product_bytes(plan, step->kernel), 0);
    }
    return bytes;
}

/* Of arenas: eager's tensors of so few bytes lie in their headers' blocks, which are not counted. */
static int64_t small_slots(const Plan *plan, int step) {
    int64_t bytes = 0;
    for (int i = 0; i < plan->slots.n; i++) {
        const Slot *const slot = &plan->slots.at[i];
        const int64_t own = sym_hint(plan->env, slot->bytes);
        if (slot->kind == SLOT_arena && slot->first <= step && step <= slot->last && own <= SMALL_BYTES) bytes += own;
    }
    return bytes;
}

/* What compiled code may take beyond eager's peak: for slots, and for what is there beside a product. */
static void allow(const sn_function *fn, Peak *peak) {
    for (int v = 0; v < fn->variants.n; v++) {
        const CompileReport *const info = &fn->variants.at[v]->info;
        for (int i = 0; i < info->n_plans; i++) {
            const Plan *const plan = info->plans[i];
            for (int s = 0; s < plan->slots.n; s++) peak->slots += plan->slots.at[s].kind == SLOT_arena;
            for (int s = 0; s < plan->steps.n; s++) {
                peak->beside = max_i64(peak->beside, beside_product(plan, s));
                peak->small = max_i64(peak->small, small_slots(plan, s));
            }
        }
    }
}

static Peak peak_of(const FzProgram *p, uint64_t seed, sn_compile_mode mode, sn_dynamic dynamic) {
    const sn_compile_options options = {.size = sizeof options, .mode = mode, .dynamic = dynamic};
    FzRun *const run = fz_run_new(p, &options);
    Peak peak = {.bytes = 0};
    failpoint_set("codegen"); /* the plan is what counts */
    for (int i = 0; i <= WARM_CALLS; i++) peak = peak_of_call(run, seed);
    failpoint_set("");
    allow(run->fn, &peak);
    fz_run_free(run);
    return peak;
}

/* Nets that take values to pieces, those of images and those of half dtypes: in them joins keep more than what they
 * save. In others none may. */
static bool joins_may_keep(const FzProgram *p) {
    static const char *const ops[] = {"aten::cat",   "aten::slice.Tensor", "aten::narrow",     "aten::split.Tensor",
                                      "aten::chunk", "aten::stack",        "aten::convolution"};
    if (p->inputs[0].dtype != SN_F32) return true;
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < COUNT_OF(ops); k++)
            if (p->steps[i].kind == FZ_op && !strcmp(p->steps[i].op, ops[k])) return true;
    return false;
}

/* What steps hold that no backward has run is made again from values that are saved in its place: these stay. So much
 * may be left as the forward has saved less. */
static bool leaves_more(const Peak *compiled, const Peak *eager) {
    return compiled->left > eager->left + max_i64(eager->held - compiled->held, 0);
}

void fz_peak(const FzProgram *p, uint64_t seed, bool symbolic, FzResult *result, Text *story) {
    const sn_dynamic dynamic = symbolic ? SN_DYNAMIC_ALWAYS : SN_DYNAMIC_AUTO;
    const Peak eager = peak_of(p, seed, SN_COMPILE_EAGER, SN_DYNAMIC_AUTO);
    const Peak compiled = peak_of(p, seed, SN_COMPILE_VERIFY, dynamic);
    *result = (FzResult){.errors = eager.failed, .trained = eager.trained && !eager.failed};
    if (!result->trained) return;
    result->eager_peak = eager.bytes, result->peak = compiled.bytes;
    const int64_t most = eager.bytes + SLOT_BYTES * compiled.slots + compiled.small;
    const int64_t joins = joins_may_keep(p) ? eager.bytes / JOINS_SHARE : 0;
    result->above = compiled.bytes > most;
    result->waits = compiled.bytes > most + compiled.beside;
    result->differs =
        compiled.failed || compiled.bytes > most + compiled.beside + joins || leaves_more(&compiled, &eager);
    if (story)
        text_printf(story,
                    "eager %lld bytes, %lld left, compiled %lld in %lld slots, %lld left, %lld beside a product\n",
                    (long long)eager.bytes, (long long)eager.left, (long long)compiled.bytes, (long long)compiled.slots,
                    (long long)compiled.left, (long long)compiled.beside);
}
