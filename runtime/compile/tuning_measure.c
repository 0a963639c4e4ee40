/* tuning_measure.c: what tuning knows is measured here: a plan runs as a copy with other shapes on inputs of zeros, of
 * the sizes that it was made for, step by step, each by the clock. One round tries one other shape of every nest. */
#include "codegen/shape/plan_shapes.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/compile/code_cache.h"
#include "runtime/compile/tuning_parts.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/state.h"
#include "runtime/core/tensor.h"

enum { MOST_VARIANTS = 12, MOST_RUNS = 20, ROUND_NS = 50000000 };

/* Less of a difference is noise: the decided shape stays. */
static bool is_faster(int64_t ns, int64_t than) { return ns + ns / 20 < than; }

typedef struct TunedStep {
    int n; /* nests */
    NestMapping *(*variant)[MOST_VARIANTS];
    int *n_variants;
    int64_t decided_ns, best_ns;
    int best; /* variant; -1: the decided shapes */
} TunedStep;

typedef struct Measuring {
    Arena *arena;
    Plan *plan;
    TunedStep *steps;
    sn_tensor **inputs, **outs;
    int64_t *symbols, *ns;
} Measuring;

/* Inputs -------------------------------------------------------------------------------------- */

static sn_tensor *zeros_like(const SymEnv *env, const Meta *meta) {
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    for (int d = 0; d < meta->rank; d++) {
        sizes[d] = sym_hint(env, meta->sizes[d]);
        strides[d] = sym_hint(env, meta->strides[d]);
    }
    const Meta *const plain = meta_intern(meta->dtype, meta->device, sizes, strides, meta->rank, meta->wrapped);
    sn_tensor *const t = plain ? tensor_new(plain) : NULL;
    if (t && t->storage->data) memset(t->storage->data, 0, t->storage->bytes);
    return t;
}

static Status make_inputs(Measuring *m) {
    const Plan *const plan = m->plan;
    const int n_symbols = sym_free_count(plan->env);
    m->inputs = ARENA_ARRAY(m->arena, sn_tensor *, plan->inputs.n + 1);
    m->outs = ARENA_ARRAY(m->arena, sn_tensor *, plan->outputs.n + 1);
    m->symbols = ARENA_ARRAY(m->arena, int64_t, n_symbols + 1);
    m->ns = ARENA_ARRAY(m->arena, int64_t, plan->steps.n + 1);
    if (!m->inputs || !m->outs || !m->symbols || !m->ns) return ST_MEMORY;
    for (int i = 0; i < n_symbols; i++) m->symbols[i] = sym_hint(plan->env, sym_free_at(plan->env, i));
    for (int i = 0; i < plan->inputs.n; i++)
        if (!(m->inputs[i] = zeros_like(plan->env, plan->slots.at[i].meta))) return error_pending();
    return ST_OK;
}

/* Shapes -------------------------------------------------------------------------------------- */

static Status list_variants(Measuring *m) {
    m->steps = ARENA_ARRAY(m->arena, TunedStep, m->plan->steps.n + 1);
    for (int s = 0; m->steps && s < m->plan->steps.n; s++) {
        const Step *const step = &m->plan->steps.at[s];
        if (step->kind != STEP_kernel || !step->kernel->n_nests) continue;
        TunedStep *const tuned = &m->steps[s];
        tuned->n = step->kernel->n_nests;
        tuned->best = -1;
        tuned->variant = arena_alloc(m->arena, sizeof *tuned->variant * (size_t)tuned->n);
        tuned->n_variants = ARENA_ARRAY(m->arena, int, tuned->n);
        if (!tuned->variant || !tuned->n_variants) return ST_MEMORY;
        for (int k = 0; k < tuned->n; k++) {
            const Nest *const nest = &step->kernel->nests[k];
            const NestMapping *const decided = shape_decide(m->arena, nest, step->kernel->bufs, code_machine());
            if (!decided) return ST_MEMORY;
            tuned->n_variants[k] = shape_variants(m->arena, nest, step->kernel->bufs, code_machine(), decided,
                                                  tuned->variant[k], MOST_VARIANTS);
        }
    }
    return m->steps ? ST_OK : ST_MEMORY;
}

static int count_rounds(const Measuring *m) {
    int most = 0;
    for (int s = 0; s < m->plan->steps.n; s++)
        for (int k = 0; k < m->steps[s].n; k++)
            if (m->steps[s].n_variants[k] > most) most = m->steps[s].n_variants[k];
    return most;
}

static bool tries(const TunedStep *tuned, int round) {
    for (int k = 0; round >= 0 && k < tuned->n; k++)
        if (round < tuned->n_variants[k]) return true;
    return false;
}

static Status shape_step(const Measuring *m, int s, int round, Step *step) {
    const TunedStep *const tuned = &m->steps[s];
    const NestMapping **const shapes = ARENA_ARRAY(m->arena, const NestMapping *, tuned->n + 1);
    uint64_t *const ids = ARENA_ARRAY(m->arena, uint64_t, tuned->n + 1);
    if (!shapes || !ids) return ST_MEMORY;
    for (int k = 0; k < tuned->n; k++) {
        const Nest *const nest = &step->kernel->nests[k];
        const bool other = round >= 0 && round < tuned->n_variants[k];
        shapes[k] = other ? tuned->variant[k][round] : shape_decide(m->arena, nest, step->kernel->bufs, code_machine());
        if (!shapes[k]) return ST_MEMORY;
        if (other) ids[k] = tuning_id(nest, shapes[k]);
    }
    step->shapes = shapes;
    step->tuned = ids;
    return ST_OK;
}

/* The plan in other shapes; round -1: those that are decided. */
static Plan *plan_of_round(const Measuring *m, int round) {
    Plan *const plan = ARENA_NEW(m->arena, Plan);
    Step *const steps = arena_copy(m->arena, m->plan->steps.at, sizeof *steps * (size_t)m->plan->steps.n);
    if (!plan || !steps) return NULL;
    *plan = *m->plan;
    plan->steps.at = steps;
    plan->machine = code_machine();
    for (int s = 0; s < plan->steps.n; s++)
        if (m->steps[s].n && shape_step(m, s, round, &steps[s]) != ST_OK) return NULL;
    return plan;
}

/* Rounds -------------------------------------------------------------------------------------- */

static Status run_times(const Measuring *m, Executable *e, int64_t *best) {
    sn_state *const state = state_get();
    const int64_t begin = clock_ns();
    Status status = ST_OK;
    for (int i = 0; status == ST_OK && i < MOST_RUNS && (i < 3 || clock_ns() - begin < ROUND_NS); i++) {
        TRY(scope_push(state, false));
        status = execute_timed(e, m->inputs, m->symbols, m->plan->floats.at, m->outs, m->ns);
        scope_pop(state);
        for (int s = 0; status == ST_OK && s < m->plan->steps.n; s++)
            if (!i || m->ns[s] < best[s]) best[s] = m->ns[s];
    }
    return status;
}

static Status run_round(const Measuring *m, int round, int64_t *best) {
    CompileReport info = {.unversioned = true}; /* most of it is never wanted again: it is not stored */
    Executable *e = NULL;
    Plan *const plan = plan_of_round(m, round);
    if (!plan) return error_pending() ? error_pending() : ST_MEMORY;
    Status status = compile_plan(plan, &info, &e);
    if (status != ST_OK || info.interpreted)
        status = error_raise(ST_UNSUPPORTED, "sn_tune: no code to measure: %s", info.reason);
    if (status == ST_OK) status = run_times(m, e, best);
    executable_free(e);
    return status;
}

static void compare_round(Measuring *m, int round, const int64_t *ns) {
    for (int s = 0; s < m->plan->steps.n; s++) {
        TunedStep *const tuned = &m->steps[s];
        if (round < 0) tuned->decided_ns = tuned->best_ns = ns[s];
        if (!tries(tuned, round) || !is_faster(ns[s], tuned->decided_ns) || ns[s] >= tuned->best_ns) continue;
        tuned->best = round;
        tuned->best_ns = ns[s];
    }
}

/* The decided shape, too: that it was measured, and is the fastest. */
static Status record_one_step(const Measuring *m, int s, int *tried, int *faster) {
    const TunedStep *const tuned = &m->steps[s];
    const Step *const step = &m->plan->steps.at[s];
    for (int k = 0; k < tuned->n; k++) {
        const Nest *const nest = &step->kernel->nests[k];
        const bool other = tuned->best >= 0 && tuned->best < tuned->n_variants[k];
        const NestMapping *const shape =
            other ? tuned->variant[k][tuned->best] : shape_decide(m->arena, nest, step->kernel->bufs, code_machine());
        TRY(shape ? tuning_record(nest, step->kernel->bufs, shape) : ST_MEMORY);
        ++*tried;
        *faster += other;
    }
    return ST_OK;
}

static Status measure_plan(Measuring *m, int *tried, int *faster) {
    TRY(list_variants(m));
    TRY(make_inputs(m));
    int64_t *const best = ARENA_ARRAY(m->arena, int64_t, m->plan->steps.n + 1);
    const int rounds = count_rounds(m);
    if (!best) return ST_MEMORY;
    for (int round = -1; round < rounds; round++) {
        TRY(run_round(m, round, best));
        compare_round(m, round, best);
    }
    for (int s = 0; s < m->plan->steps.n; s++) TRY(record_one_step(m, s, tried, faster));
    return ST_OK;
}

/* Checks of values, native steps and the like may refuse zeros: then there is nothing to say of the plan. */
Status tuning_measure(Plan *plan, int *tried, int *faster) {
    sn_state *const state = state_get();
    Measuring m = {.arena = arena_new(), .plan = plan};
    if (!m.arena) return ST_MEMORY;
    TRY(scope_push(state, false));
    context_enter_scope(state, CONTEXT_library);
    const Status status = measure_plan(&m, tried, faster);
    scope_pop(state);
    arena_free(m.arena);
    return status;
}
