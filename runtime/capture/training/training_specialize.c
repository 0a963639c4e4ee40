/* training_specialize.c: the compiled backward of a call [semantics G1]. A specialization has a signature: which output
 * gradients are defined, which partial sums are continued, how both are laid out, and which gradients are wanted. The
 * layouts count since what rules make of a gradient is laid out as that is. The first specialization is the default
 * one, whose backward the partition of the forward gave; those of other signatures are made when they are first needed,
 * from the same saved values, up to a bound. What the rules of a later specialization decide of symbolic sizes are
 * guards of its own, in a copy of the variant's symbols: the variant is in use. A specialization that has no code
 * (beyond the bound, or because compiling failed) expands into eager's nodes, with the same bits. */
#include "runtime/capture/training/training_parts.h"

#include <stdarg.h>
#include <stdio.h>

#include "runtime/base/alloc.h"
#include "runtime/core/background.h"
#include "runtime/core/breaks.h"

enum { MAX_SPECIALIZATIONS = 8 };
_Static_assert(MAX_SPECIALIZATIONS == 8, "row many_keys of runtime/core/breaks.def says 8");

const Meta *training_meta(const SymEnv *env, const Meta *meta, const int64_t *symbols) {
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    for (int d = 0; d < meta->rank; d++) {
        sizes[d] = sym_eval(env, meta->sizes[d], symbols);
        strides[d] = sym_eval(env, meta->strides[d], symbols);
    }
    return meta_intern(meta->dtype, meta->device, sizes, strides, meta->rank, false);
}

/* The layout of a gradient in a signature: static. */
static const Meta *layout_of(const sn_tensor *grad) {
    const Meta *const meta = grad->base.meta;
    return meta_intern(meta->dtype, meta->device, meta->sizes, meta->strides, meta->rank, false);
}

static bool has_layout(const BackwardSpecialization *c, const Meta *want, const int64_t *symbols,
                       const sn_tensor *grad) {
    return training_meta(c->env, want, symbols) == layout_of(grad);
}

static bool guards_hold(const BackwardSpecialization *c, const int64_t *symbols) {
    for (int i = c->first_guard; c->env && i < sym_guard_count(c->env); i++)
        if (!sym_guard_holds(c->env, sym_guard_at(c->env, i), symbols)) return false;
    return true;
}

/* exact: down to the layouts of the gradients and sums. */
static bool signature_fits(const BackwardSpecialization *c, const Training *t, const int64_t *symbols,
                           const TapeBackward *call, bool exact) {
    for (int i = 0; i < t->n_inputs; i++) {
        const bool needs = t->want[i] && call->needs[i];
        if (needs != c->needs[i] || (needs && call->partial && call->partial[i]) != c->partial[i]) return false;
        if (exact && c->partial[i] && !has_layout(c, c->sums[i], symbols, call->partial[i])) return false;
    }
    for (int i = 0; i < t->n_user; i++) {
        const bool defined = t->out_tracked[i] && call->grad_out[i];
        if (defined != c->defined[i]) return false;
        if (exact && defined && !has_layout(c, c->metas[i], symbols, call->grad_out[i])) return false;
    }
    return guards_hold(c, symbols);
}

static const BackwardSpecialization *first_specialization(const Training *t) {
    return atomic_load_explicit(&t->specializations, memory_order_acquire);
}
static const BackwardSpecialization *next_specialization(const BackwardSpecialization *c) {
    return atomic_load_explicit(&c->next, memory_order_acquire);
}

static bool is_refused(const BackwardSpecialization *c) {
    return !atomic_load_explicit(&c->waits, memory_order_acquire) && !c->run;
}

static bool holds_back(void) { return UNLIKELY(state_get()->stance == SN_STANCE_EAGER_ON_RECOMPILE); }

static const BackwardSpecialization *find_specialization(const Training *t, const int64_t *symbols,
                                                         const TapeBackward *call) {
    const BackwardSpecialization *c = first_specialization(t);
    while (c && ((c->held_back && !holds_back()) || !signature_fits(c, t, symbols, call, true)))
        c = next_specialization(c);
    return c;
}

/* Making one ---------------------------------------------------------------------------------- */

static bool alloc_signature(const Training *t, Arena *arena, BackwardSpecialization *c) {
    c->defined = ARENA_ARRAY(arena, bool, t->n_user + 1);
    c->metas = ARENA_ARRAY(arena, const Meta *, t->n_user + 1);
    c->sums = ARENA_ARRAY(arena, const Meta *, t->n_inputs + 1);
    c->needs = ARENA_ARRAY(arena, bool, t->n_inputs + 1);
    c->partial = ARENA_ARRAY(arena, bool, t->n_inputs + 1);
    return c->defined && c->metas && c->sums && c->needs && c->partial;
}

BackwardSpecialization *training_specialization_new(const Training *t, Arena *arena, const TapeBackward *call) {
    BackwardSpecialization *const c = arena ? ARENA_NEW(arena, BackwardSpecialization) : NULL;
    if (!c || !alloc_signature(t, arena, c)) return NULL;
    for (int i = 0; i < t->n_user; i++) {
        c->defined[i] = t->out_tracked[i] && (!call || call->grad_out[i]);
        if (call && c->defined[i]) c->metas[i] = layout_of(call->grad_out[i]);
        meta_stay(c->metas[i]);
    }
    for (int i = 0; i < t->n_inputs; i++) {
        c->needs[i] = t->want[i] && (!call || call->needs[i]);
        c->partial[i] = call && c->needs[i] && call->partial && call->partial[i];
        if (c->partial[i]) c->sums[i] = layout_of(call->partial[i]);
        meta_stay(c->sums[i]);
    }
    return c;
}

Status training_specialization_spec(const Training *t, const BackwardSpecialization *c, Arena *arena, JointSpec *spec) {
    const int n = t->tape.functional->outputs.n; /* the user's, then wholes that some of them view */
    bool *const defined = ARENA_ARRAY(arena, bool, n + 1);
    const Meta **const metas = ARENA_ARRAY(arena, const Meta *, n + 1);
    if (!defined || !metas) return ST_MEMORY;
    memcpy(defined, c->defined, sizeof *defined * (size_t)t->n_user);
    memcpy(metas, c->metas, sizeof *metas * (size_t)t->n_user);
    *spec = (JointSpec){
        .want = c->needs, .grad_defined = defined, .partial = c->partial, .grad_meta = metas, .sum_meta = c->sums};
    return ST_OK;
}

Status training_specialization_planned(const Training *t, BackwardSpecialization *c, const Graph *backward,
                                       const int *saved, int n_saved) {
    int n = c->n_saved = n_saved;
    c->saved = saved;
    c->env = backward->env;
    c->first_guard = sym_guard_count(t->tape.functional->env);
    for (int i = 0; i < t->n_inputs; i++)
        if (c->partial[i]) c->sums[i] = backward->inputs.at[n++]->base.meta;
    for (int i = 0; i < t->n_user; i++)
        if (c->defined[i]) c->metas[i] = backward->inputs.at[n++]->base.meta;
    const int given = backward->front ? backward->front->n_in : backward->inputs.n;
    return given == n ? ST_OK : error_raise(ST_INTERNAL, "a backward graph of %d inputs, not %d", given, n);
}

void training_specialization_add(Training *t, BackwardSpecialization *c) {
    _Atomic(BackwardSpecialization *) *at = &t->specializations;
    while (atomic_load_explicit(at, memory_order_relaxed)) at = &atomic_load_explicit(at, memory_order_relaxed)->next;
    atomic_store_explicit(at, c, memory_order_release);
}

/* For a call ---------------------------------------------------------------------------------- */

typedef struct SpecializeJob {
    const Variant *variant;
    const int64_t *symbols; /* of the call that needs it */
    BackwardSpecialization *made;
    Graph *graph;
    Graph *backward; /* that comes of it */
} SpecializeJob;

/* The dims from the innermost outwards; those of one element stand before others of their stride. */
static void dims_by_stride(const Meta *meta, int *dims) {
    for (int d = meta->rank - 1, n = 0; d >= 0; d--, n++) {
        int at = n;
        for (; at > 0; at--) {
            const int before = dims[at - 1];
            const int64_t apart = meta->strides[before] - meta->strides[d];
            if (apart < 0 || (apart == 0 && meta->sizes[d] != 1)) break;
            dims[at] = before;
        }
        dims[at] = d;
    }
}

/* The layout of symbolic sizes that is `meta` at the hints: where a dim lies as densely as the dims inside of it allow,
 * its stride is the product of their sizes, so that it is dense at all sizes; else it is the number that came. */
static const Meta *symbolic_layout(SymEnv *env, Arena *arena, const Meta *meta, const int64_t *sizes) {
    int64_t strides[MAX_RANK], dense = 1;
    int dims[MAX_RANK];
    dims_by_stride(meta, dims);
    for (int i = 0; i < meta->rank; i++) {
        const int d = dims[i];
        strides[d] = meta->strides[d] == sym_hint(env, dense) ? dense : meta->strides[d];
        if (strides[d]) dense = sym_mul(env, strides[d], sizes[d]);
    }
    return meta_new(arena, env, meta->dtype, meta->device, sizes, strides, meta->rank);
}

/* Before anything may fail: a specialization that gets no code serves all sizes, too. */
static Status lay_out_symbolically(const Training *t, BackwardSpecialization *c, SymEnv *env) {
    const Graph *const functional = t->tape.functional;
    c->env = env;
    c->first_guard = sym_guard_count(functional->env);
    for (int i = 0; i < t->n_user; i++) {
        const GVal *const output = functional->outputs.at[i].value;
        if (c->metas[i]) c->metas[i] = symbolic_layout(env, c->arena, c->metas[i], output->base.meta->sizes);
        if (c->defined[i] && !c->metas[i]) return ST_MEMORY;
    }
    for (int i = 0; i < t->n_inputs; i++) {
        const GVal *const input = functional->inputs.at[i];
        if (c->sums[i]) c->sums[i] = symbolic_layout(env, c->arena, c->sums[i], input->base.meta->sizes);
        if (c->partial[i] && !c->sums[i]) return ST_MEMORY;
    }
    return ST_OK;
}

static Status plan_specialization(void *context) {
    SpecializeJob *const job = context;
    const Training *const t = job->variant->training;
    BackwardSpecialization *const c = job->made;
    int *const kept = ARENA_ARRAY(c->arena, int, t->tape.tape_saved.n + 1);
    const SymEnv *const variant_env = t->tape.functional->env;
    SymEnv *const env = sym_env_copy(variant_env, c->arena, job->symbols);
    if (!kept || !env || error_pending()) return ST_MEMORY;
    if (job->variant->symbols.dynamic) TRY(lay_out_symbolically(t, c, env));
    for (int i = 0; i < t->tape.tape_saved.n; i++) kept[i] = t->tape.tape_saved.at[i].value->id;
    const PassOptions options = compile_pass_options(NULL, &c->info);
    SpecializeSpec spec = {.functional = t->tape.functional,
                           .restore = t->partition->restore,
                           .kept = kept,
                           .env = env,
                           .bail = job->graph->bail,
                           .options = &options};
    TRY(training_specialization_spec(t, c, c->arena, &spec.joint));
    SpecializedBackward *const specialized = specialize_backward(c->arena, &spec);
    if (!specialized) return error_pending() ? error_pending() : ST_UNSUPPORTED;
    TRY(passes_run(specialized->graph, "backward", &options));
    job->backward = specialized->graph;
    return training_specialization_planned(t, c, specialized->graph, specialized->saved, specialized->n_saved);
}

PRINTF_LIKE(2, 3) static void refuse(BackwardSpecialization *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->info.reason, sizeof c->info.reason, format, args);
    va_end(args);
}

void training_specialization_compile(BackwardSpecialization *c, Plan *plan, CompileReport *info) {
    if (failpoint("backward")) {
        refuse(c, "failpoint backward");
        return;
    }
    const BailCode before = info->failure;
    info->part = "backward";
    if (compile_plan(plan, info, &c->run) == ST_OK) return;
    if (info != &c->info) info->failure = before;
    error_clear();
}

typedef struct LaterSpecialization {
    BackgroundJob job;
    Variant *variant; /* retained: the specialization lives as long */
    BackwardSpecialization *made;
    Plan *plan;
} LaterSpecialization;

static void make_later(BackgroundJob *job) {
    const LaterSpecialization *const later = (LaterSpecialization *)job;
    training_specialization_compile(later->made, later->plan, &later->made->info);
    atomic_store_explicit(&later->made->waits, false, memory_order_release);
}

static void drop_later(BackgroundJob *job) {
    variant_free(((LaterSpecialization *)job)->variant);
    mem_free(job);
}

/* The worker makes the code; meanwhile the specialization expands into eager's nodes. False: there is no worker. */
static bool compile_later(Variant *v, BackwardSpecialization *c, Plan *plan) {
    if (!v->code.background || compile_prepare_plan(plan, &c->info) != ST_OK) return false;
    LaterSpecialization *const later = mem_alloc(sizeof *later);
    if (!later) return false;
    *later = (LaterSpecialization){{.owner = v->code.background, .make = make_later, .drop = drop_later}, v, c, plan};
    variant_retain(v);
    atomic_store_explicit(&c->waits, true, memory_order_relaxed); /* nobody sees it yet */
    if (background_run(&later->job)) return true;
    atomic_store_explicit(&c->waits, false, memory_order_relaxed);
    drop_later(&later->job);
    return false;
}

/* A failure leaves the specialization without code, and says why. */
static void make_code(Variant *v, const int64_t *symbols, BackwardSpecialization *c) {
    SpecializeJob job = {.variant = v, .symbols = symbols, .made = c, .graph = graph_new(c->arena, "case")};
    c->info.request = &v->request;
    const bool planned = job.graph && compile_guarded(job.graph, plan_specialization, &job, &c->info) == ST_OK;
    if (planned) {
        Plan *const plan = job.backward->plan;
        c->graph = job.backward;
        variant_report_backward(v, v->training->n_specializations + 1, job.backward);
        if (!compile_later(v, c, plan)) training_specialization_compile(c, plan, &c->info);
    }
    error_clear();
}

static BackwardSpecialization *specialization_new(const Training *t, const int64_t *symbols, const TapeBackward *call) {
    Arena *const arena = arena_new();
    BackwardSpecialization *const c = training_specialization_new(t, arena, call);
    if (c) c->ran = tape_table_ran(t, arena, c, symbols);
    if (c && c->ran) {
        c->arena = arena;
        return c;
    }
    arena_free(arena);
    return NULL;
}

/* What has no code expands, which serves gradients of any layout. What waits for its code may have it before it
 * expands. */
static const BackwardSpecialization *find_without_code(const Training *t, const int64_t *symbols,
                                                       const TapeBackward *call) {
    const BackwardSpecialization *c = first_specialization(t);
    while (c && (!is_refused(c) || (c->held_back && !holds_back()) || !signature_fits(c, t, symbols, call, false)))
        c = next_specialization(c);
    return c;
}

static bool may_compile(const Training *t) { return t->partition && t->n_specializations < MAX_SPECIALIZATIONS; }

/* Another thread's. Code that was made for one gradient's layout serves no other. */
static const BackwardSpecialization *find_again(const Training *t, const int64_t *symbols, const TapeBackward *call) {
    const BackwardSpecialization *const c = find_specialization(t, symbols, call);
    return c || (may_compile(t) && !holds_back()) ? c : find_without_code(t, symbols, call);
}

/* Under the lock. */
static const BackwardSpecialization *make_specialization(Variant *v, Training *t, const int64_t *symbols,
                                                         const TapeBackward *call) {
    const BackwardSpecialization *const again = find_again(t, symbols, call);
    if (again) return again;
    BackwardSpecialization *const c = specialization_new(t, symbols, call);
    if (!c) return NULL;
    if (!t->partition)
        refuse(c, "%s", BREAK_TEXT(history_used));
    else if (t->n_specializations >= MAX_SPECIALIZATIONS)
        refuse(c, "%s", BREAK_TEXT(many_keys));
    else if ((c->held_back = holds_back()))
        refuse(c, "%s", BREAK_TEXT(held_back));
    else
        make_code(v, symbols, c);
    t->n_specializations += !c->held_back;
    training_specialization_add(t, c);
    return c;
}

const BackwardSpecialization *training_specialization(Variant *v, Training *t, const int64_t *symbols,
                                                      const TapeBackward *call) {
    const BackwardSpecialization *c = find_specialization(t, symbols, call);
    if (c) return c;
    pthread_mutex_lock(&t->lock);
    const bool fails = state_get()->stance == SN_STANCE_FAIL_ON_RECOMPILE && may_compile(t);
    if (!fails) c = make_specialization(v, t, symbols, call);
    pthread_mutex_unlock(&t->lock);
    if (fails)
        error_raise(ST_STRICT, "%s: the stance is fail on recompile, and no backward is compiled for these gradients",
                    v->request.function);
    if (!c && !error_pending()) error_raise(ST_MEMORY, "out of memory for a backward");
    return c;
}

/* The specializations behind the first. That one, the default, is part of the graph of the forward and is shown
 * there. */
static const BackwardSpecialization *other_specializations(const Training *t) {
    const BackwardSpecialization *const default_one = t ? first_specialization(t) : NULL;
    return default_one ? next_specialization(default_one) : NULL;
}

const Executable *training_backward(const Variant *v) {
    const BackwardSpecialization *const default_one = v->training ? first_specialization(v->training) : NULL;
    return default_one ? specialization_code(default_one) : NULL;
}

/* Prints a part of a signature: "; wanted: inputs 1, 3" lists the places where `at` is true. */
static void print_places(Text *text, const char *head, const bool *at, int n) {
    const char *between = head;
    for (int i = 0; i < n; i++) {
        if (!at[i]) continue;
        text_printf(text, "%s%d", between, i);
        between = ", ";
    }
}

static void print_signature(const Training *t, const BackwardSpecialization *c, Text *text) {
    print_places(text, "gradients of results ", c->defined, t->n_user);
    print_places(text, "; wanted: inputs ", c->needs, t->n_inputs);
    print_places(text, "; sums go on: inputs ", c->partial, t->n_inputs);
    for (int i = 0; i < t->n_user; i++) {
        if (!c->defined[i] || !c->metas[i]) continue;
        text_printf(text, "; result %d: ", i);
        meta_print(c->env, text, c->metas[i]);
    }
    for (int i = 0; i < t->n_inputs; i++) {
        if (!c->partial[i] || !c->sums[i]) continue;
        text_printf(text, "; sum %d: ", i);
        meta_print(c->env, text, c->sums[i]);
    }
    text_puts(text, "\n");
}

static bool was_called(const BackwardSpecialization *c) {
    return atomic_load_explicit(&c->called, memory_order_relaxed);
}

/* The default one is compiled before any gradient comes; others that came may have left it unused. */
bool training_default_idle(const Training *t) {
    const BackwardSpecialization *const default_one = first_specialization(t);
    bool others = false;
    for (const BackwardSpecialization *c = other_specializations(t); c; c = next_specialization(c))
        others |= was_called(c);
    return default_one && others && !was_called(default_one);
}

void training_dump_signatures(const Training *t, const Dump *dump, GraphNotes notes, Text *text) {
    const bool plans = dump_row(dump->id)->traits & DUMP_plan;
    const char *const mark = dump_mark(dump);
    for (const BackwardSpecialization *c = other_specializations(t); c; c = next_specialization(c)) {
        if (!c->graph || atomic_load_explicit(&c->waits, memory_order_acquire)) continue;
        text_printf(text, "%s backward: ", mark);
        print_signature(t, c, text);
        if (!specialization_code(c))
            text_printf(text, "%s goes by eager's nodes: %s\n", mark, c->info.reason);
        else if (plans)
            compile_dump_plan(c->graph->plan, dump, text);
        else
            graph_print_notes(c->graph, notes, text);
    }
}

int training_signatures(const Variant *v, int *kernels) {
    int n = 0;
    *kernels = 0;
    for (const BackwardSpecialization *c = other_specializations(v->training); c; c = next_specialization(c)) {
        if (!specialization_code(c)) continue;
        n++;
        *kernels += c->info.kernels;
    }
    return n;
}

static bool refused_for(const BackwardSpecialization *c, const char *why) {
    return is_refused(c) && !strcmp(c->info.reason, why);
}

const char *training_signatures_refused(const Variant *v, int at, int *n) {
    const BackwardSpecialization *const first = other_specializations(v->training);
    for (const BackwardSpecialization *c = first; c; c = next_specialization(c)) {
        if (!is_refused(c)) continue;
        bool again = false;
        for (const BackwardSpecialization *before = first; before != c; before = next_specialization(before))
            again |= refused_for(before, c->info.reason);
        if (again || at-- > 0) continue;
        *n = 0;
        for (const BackwardSpecialization *same = c; same; same = next_specialization(same))
            *n += refused_for(same, c->info.reason);
        return c->info.reason;
    }
    return NULL;
}

void training_specializations_free(Training *t) {
    for (BackwardSpecialization *c = atomic_load(&t->specializations); c;) {
        BackwardSpecialization *const next = atomic_load(&c->next);
        executable_free(c->run);
        backend_drop(&c->info);
        arena_free(c->arena);
        c = next;
    }
    pthread_mutex_destroy(&t->lock);
}
