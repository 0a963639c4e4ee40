/* training_keyed.c: the compiled backward of a call [semantics G1]. A case is keyed on which output
 * gradients are defined and how they are laid out, which partial sums are continued and which
 * gradients are wanted. The usual case was compiled with the forward; others are compiled when they
 * are first needed, up to a bound. What the rules of a later case decide of symbolic sizes are guards
 * of its own, in a copy of the variant's symbols: the variant is in use. A case that has no code
 * (beyond the bound, or because compiling failed) expands into eager's nodes, with the same bits. */
#include "runtime/capture/training/training_parts.h"

#include <stdarg.h>
#include <stdio.h>

#include "runtime/base/alloc.h"

enum { MAX_CASES = 8 };

const Meta *training_meta(const SymEnv *env, const Meta *meta, const int64_t *symbols) {
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    for (int d = 0; d < meta->rank; d++) {
        sizes[d] = sym_eval(env, meta->sizes[d], symbols);
        strides[d] = sym_eval(env, meta->strides[d], symbols);
    }
    return meta_intern(meta->dtype, meta->device, sizes, strides, meta->rank, false);
}

/* The layout of a gradient as a key: static. */
static const Meta *layout_of(const sn_tensor *grad) {
    const Meta *const meta = grad->base.meta;
    return meta_intern(meta->dtype, meta->device, meta->sizes, meta->strides, meta->rank, false);
}

static bool same_layout(const SymEnv *env, const Meta *want, const int64_t *symbols, const sn_tensor *grad) {
    return training_meta(env, want, symbols) == layout_of(grad);
}

static bool guards_hold(const BackwardCase *c, const int64_t *symbols) {
    for (int i = c->first_guard; c->env && i < sym_guard_count(c->env); i++)
        if (!sym_guard_holds(c->env, sym_guard_at(c->env, i), symbols)) return false;
    return true;
}

/* exact: down to the layout of the gradients. */
static bool case_fits(const BackwardCase *c, const Training *t, const int64_t *symbols, const TapeBackward *call,
                      bool exact) {
    for (int i = 0; i < t->n_inputs; i++) {
        const bool needs = t->want[i] && call->needs[i];
        if (needs != c->needs[i] || (needs && call->partial && call->partial[i]) != c->partial[i]) return false;
    }
    for (int i = 0; i < t->n_user; i++) {
        const bool defined = t->out_tracked[i] && call->grad_out[i];
        if (defined != c->defined[i]) return false;
        if (exact && defined && !same_layout(c->env, c->metas[i], symbols, call->grad_out[i])) return false;
    }
    return guards_hold(c, symbols);
}

static const BackwardCase *find_case(const Training *t, const int64_t *symbols, const TapeBackward *call, bool exact) {
    if (case_fits(&t->usual, t, symbols, call, exact)) return &t->usual;
    const BackwardCase *c = atomic_load_explicit(&t->cases, memory_order_acquire);
    while (c && !case_fits(c, t, symbols, call, exact)) c = c->next;
    return c;
}

typedef struct CaseJob {
    const Variant *variant;
    const int64_t *symbols; /* of the call that needs it */
    BackwardCase *made;
    Graph *graph;
    Plan *plan;
} CaseJob;

/* A gradient of symbolic sizes comes in the layout of its output. */
static JointSpec joint_spec(const CaseJob *job) {
    const Training *const t = job->variant->training;
    const BackwardCase *const c = job->made;
    bool *const defined = ARENA_ARRAY(c->arena, bool, t->n_forward + 1);
    const Meta **const metas = ARENA_ARRAY(c->arena, const Meta *, t->n_forward + 1);
    if (defined) memcpy(defined, c->defined, sizeof *defined * (size_t)t->n_user);
    if (metas) memcpy(metas, c->metas, sizeof *metas * (size_t)t->n_user);
    return (JointSpec){.want = c->needs,
                       .grad_defined = defined,
                       .partial = c->partial,
                       .grad_meta = job->variant->dynamic ? NULL : metas};
}

Status training_note_layouts(const Training *t, BackwardCase *c, const Graph *graph) {
    int n = c->n_saved;
    for (int i = 0; i < t->n_inputs; i++)
        if (c->partial[i]) c->sums[i] = graph->inputs.at[n++]->base.meta;
    for (int i = 0; i < t->n_user; i++)
        if (c->defined[i]) c->metas[i] = graph->inputs.at[n++]->base.meta;
    if (graph->inputs.n == n) return ST_OK;
    return error_raise(ST_INTERNAL, "a backward graph of %d inputs, not %d", graph->inputs.n, n);
}

Status training_usual(Training *t, Arena *arena, const SymEnv *env, const bool *ran) {
    BackwardCase *const c = &t->usual;
    *c = (BackwardCase){.defined = t->out_tracked,
                        .needs = t->want,
                        .partial = ARENA_ARRAY(arena, bool, t->n_inputs + 1),
                        .metas = ARENA_ARRAY(arena, const Meta *, t->n_user + 1),
                        .env = env,
                        .first_guard = sym_guard_count(env)};
    if (!c->partial || !c->metas) return ST_MEMORY;
    c->ran = ran ? tape_plan_by_step(&t->tape, arena, ran) : tape_plan_ran(t, arena, c, NULL);
    return c->ran ? ST_OK : error_pending() ? error_pending() : ST_MEMORY;
}

static Status plan_case(void *context) {
    CaseJob *const job = context;
    const Training *const t = job->variant->training;
    BackwardCase *const c = job->made;
    int *const kept = ARENA_ARRAY(c->arena, int, t->tape.held.n + 1);
    const SymEnv *const variant_env = t->tape.functional->env;
    SymEnv *const env = sym_env_copy(variant_env, c->arena, job->symbols);
    if (!kept || !env || error_pending()) return ST_MEMORY;
    for (int i = 0; i < t->tape.held.n; i++) kept[i] = t->tape.held.at[i].value->id;
    const PassOptions options = compile_pass_options(NULL, &c->info);
    const KeyedSpec spec = {.functional = t->tape.functional,
                            .restore = t->partition->restore,
                            .kept = kept,
                            .env = env,
                            .bail = job->graph->bail,
                            .options = &options,
                            .joint = joint_spec(job)};
    if (error_pending()) return ST_MEMORY;
    KeyedBackward *const keyed = keyed_build(c->arena, &spec);
    if (!keyed) return error_pending() ? error_pending() : ST_UNSUPPORTED;
    c->saved = keyed->saved;
    c->n_saved = keyed->n_saved;
    c->first_guard = sym_guard_count(variant_env);
    c->env = env;
    TRY(training_note_layouts(t, c, keyed->graph));
    TRY(passes_run(keyed->graph, "backward", &options));
    job->plan = keyed->graph->plan;
    return ST_OK;
}

PRINTF_LIKE(2, 3) static void refuse(BackwardCase *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->info.reason, sizeof c->info.reason, format, args);
    va_end(args);
}

/* A failure leaves the case without code, and says why. */
static void compile_case(const Variant *v, const int64_t *symbols, BackwardCase *c) {
    if (failpoint("backward")) {
        refuse(c, "failpoint backward");
        return;
    }
    CaseJob job = {.variant = v, .symbols = symbols, .made = c, .graph = graph_new(c->arena, "case")};
    if (job.graph && compile_guarded(job.graph, plan_case, &job, &c->info) == ST_OK)
        compile_plan(job.plan, &c->info, &c->run);
    error_clear();
}

static BackwardCase *case_new(const Training *t, const int64_t *symbols, const TapeBackward *call) {
    Arena *const arena = arena_new();
    BackwardCase *const c = arena ? ARENA_NEW(arena, BackwardCase) : NULL;
    if (!c) {
        arena_free(arena);
        return NULL;
    }
    c->arena = arena;
    c->defined = ARENA_ARRAY(arena, bool, t->n_user + 1);
    c->metas = ARENA_ARRAY(arena, const Meta *, t->n_user + 1);
    c->sums = ARENA_ARRAY(arena, const Meta *, t->n_inputs + 1);
    c->needs = ARENA_ARRAY(arena, bool, t->n_inputs + 1);
    c->partial = ARENA_ARRAY(arena, bool, t->n_inputs + 1);
    for (int i = 0; i < t->n_user; i++) {
        c->defined[i] = t->out_tracked[i] && call->grad_out[i];
        if (c->defined[i]) c->metas[i] = layout_of(call->grad_out[i]);
    }
    for (int i = 0; i < t->n_inputs; i++) {
        c->needs[i] = t->want[i] && call->needs[i];
        c->partial[i] = c->needs[i] && call->partial && call->partial[i];
    }
    c->ran = tape_plan_ran(t, arena, c, symbols);
    if (c->ran) return c;
    arena_free(arena);
    return NULL;
}

/* What has no code expands, which serves gradients of any layout. */
static const BackwardCase *find_without_code(const Training *t, const int64_t *symbols, const TapeBackward *call) {
    const BackwardCase *c = atomic_load_explicit(&t->cases, memory_order_acquire);
    while (c && (c->run || !case_fits(c, t, symbols, call, false))) c = c->next;
    return c;
}

/* Another thread's; with symbols one for each set of gradients, which come in the layout of the outputs: row-major
 * where those name an element twice, so that any gradient can be laid out so. Code that was made for one gradient's
 * layout serves no other: into strides of 0 nothing can be copied. */
static const BackwardCase *find_again(const Variant *v, const Training *t, const int64_t *symbols,
                                      const TapeBackward *call) {
    const BackwardCase *const c = find_case(t, symbols, call, !v->dynamic);
    return c || (t->partition && t->n_cases < MAX_CASES) ? c : find_without_code(t, symbols, call);
}

/* Under the lock. */
static const BackwardCase *make_case(const Variant *v, Training *t, const int64_t *symbols, const TapeBackward *call) {
    const BackwardCase *const again = find_again(v, t, symbols, call);
    if (again) return again;
    BackwardCase *const c = case_new(t, symbols, call);
    if (!c) return NULL;
    if (!t->partition)
        refuse(c, "a backward inside has used up its history");
    else if (t->n_cases < MAX_CASES)
        compile_case(v, symbols, c);
    else
        refuse(c, "a backward is compiled for %d other keys at most", MAX_CASES);
    t->n_cases++;
    c->next = atomic_load_explicit(&t->cases, memory_order_relaxed);
    atomic_store_explicit(&t->cases, c, memory_order_release);
    return c;
}

const BackwardCase *training_case(const Variant *v, Training *t, const int64_t *symbols, const TapeBackward *call) {
    const BackwardCase *c = find_case(t, symbols, call, true);
    if (c) return c;
    pthread_mutex_lock(&t->lock);
    c = make_case(v, t, symbols, call);
    pthread_mutex_unlock(&t->lock);
    if (!c && !error_pending()) error_raise(ST_MEMORY, "out of memory for a backward");
    return c;
}

void training_cases_free(Training *t) {
    for (BackwardCase *c = atomic_load(&t->cases); c;) {
        BackwardCase *const next = c->next;
        executable_free(c->run);
        arena_free(c->arena);
        c = next;
    }
    executable_free(t->usual.run);
    pthread_mutex_destroy(&t->lock);
}
