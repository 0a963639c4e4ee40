/* replay_program.c: see replay_program.h. A program never changes but for its count of hits; it lives in the arena of
 * its symbols. */
#include "runtime/capture/replay/replay_program.h"

#include "runtime/capture/variant/guard.h"
#include "runtime/capture/record/symbols.h"
#include "runtime/capture/record/function_state.h"
#include "runtime/capture/record/trace_views.h"
#include "runtime/capture/variant/variant_views.h"
#include "runtime/capture/variant/variant.h"
#include "runtime/autograd/tape.h"

enum { MAX_SYMBOLS = 512 };

struct ReplayProgram {
    ReplayProgram *next;
    Symbols *symbols; /* expressions, guards, the inputs as they may vary */
    TrieNode *end;
    const World *world; /* of the entry that was made beside it; its source: by trace input */
    int n_out, n_ops, n_random;
    bool writes, free_scalars, ordered; /* ordered: has effects, which a second run would repeat */
    int *twin;                          /* by slot: the first one that is the same tensor */
    const Meta **metas;                 /* by slot, of what the body found: it is as it was */
    int n_numbers, n_values;
    struct NumberSource *numbers;
    uint8_t *marks;          /* by trace value */
    int *result;             /* by call output: trace value, or -1: absent */
    _Atomic int64_t hits[2]; /* as generated code, by the interpreter */
};

ReplayProgram **program_next(ReplayProgram *program) { return &program->next; }

void program_count(const ReplayProgram *p, sn_stats *stats) {
    const int64_t generated = atomic_load(&p->hits[0]), interpreted = atomic_load(&p->hits[1]);
    stats->calls += generated + interpreted;
    stats->ops_generated += generated * p->n_ops;
    stats->ops_interpreted += interpreted * p->n_ops;
}

/* Does a call fit? ---------------------------------------------------------------------------- */

static bool size_fits(const SymEnv *env, int64_t want, int64_t got) {
    return sym_is(want) ? got >= sym_expr(env, want)->b : got == want;
}

static bool tensor_fits(const Symbols *s, const Meta *want, const sn_tensor *t) {
    if (!t || !want) return !t && !want;
    const Meta *const got = t->base.meta;
    if (want->dtype != got->dtype || want->device != got->device || want->rank != got->rank ||
        want->wrapped != got->wrapped || want->contiguous != got->contiguous)
        return false;
    for (int d = 0; d < want->rank; d++) {
        if (!size_fits(s->env, want->sizes[d], got->sizes[d])) return false;
        if (!want->contiguous && !size_fits(s->env, want->strides[d], got->strides[d])) return false;
    }
    return true;
}

static const sn_tensor *tensor_at(const Arg *in, int i) {
    return in[i].kind == ARG_tensor && in[i].val ? tensor_of(in[i].val) : NULL;
}

static bool is_unread(const Symbols *s, int i) {
    return (s->in[i].kind == ARG_int || s->in[i].kind == ARG_float) && !s->read[i];
}

static bool input_fits(const Symbols *s, const Arg *in, int i) {
    const Arg *const want = &s->in[i];
    if (want->kind != in[i].kind) return false;
    if (is_unread(s, i)) return true;
    switch (want->kind) {
    case ARG_tensor:
        return tensor_fits(s, s->metas[i], tensor_at(in, i));
    case ARG_int:
        return size_fits(s->env, s->ints[i], in[i].i);
    case ARG_float:
        return !s->pinned[i] || want->i == in[i].i; /* by bits */
    case ARG_bool:
        return want->i == in[i].i;
    default:
        return want->kind == ARG_none || want->kind == ARG_default;
    }
}

static int twin_of(sn_tensor *const *at, int i) {
    for (int k = 0; at[i] && k < i; k++)
        if (at[k] == at[i]) return k;
    return i;
}

/* Strides may be free, but what they make overlap must not be written: the body says which op would. */
static bool overlaps(const sn_tensor *t) { return t && !t->base.meta->contiguous && meta_overlaps(t->base.meta); }

/* at: see world_fits. */
static bool inputs_fit(const ReplayProgram *p, const Arg *in, int n_in, int n_out, sn_tensor **at) {
    const World *const w = p->world;
    if (p->n_out != n_out || !world_fits(w, in, n_in, at, NULL)) return false;
    for (int i = 0; i < w->n_slots; i++) {
        const bool fits = i < n_in ? input_fits(p->symbols, in, i) : at[i]->base.meta == p->metas[i];
        if (!fits || twin_of(at, i) != p->twin[i] || (i < n_in && p->writes && overlaps(at[i]))) return false;
    }
    return true;
}

static void bind_symbols(const ReplayProgram *p, const Arg *in, int64_t *values) {
    for (int i = 0; i < p->symbols->frees.n; i++) {
        const SymSource *const source = &p->symbols->frees.at[i];
        const Arg *const arg = &in[source->input];
        values[i] = source->kind == SOURCE_scalar ? arg->i
                    : source->kind == SOURCE_size ? arg->val->meta->sizes[source->dim]
                                                  : arg->val->meta->strides[source->dim];
    }
}

static bool guards_hold(const ReplayProgram *p, const int64_t *values) {
    const SymEnv *const env = p->symbols->env;
    for (int i = 0; i < sym_guard_count(env); i++)
        if (!sym_guard_holds(env, sym_guard_at(env, i), values)) return false;
    return true;
}

/* The trace that the body would make ---------------------------------------------------------- */

static int storage_number(Trace *trace, int input) {
    for (int k = 0; k < input; k++)
        if (trace->inputs.at[k].storage == trace->inputs.at[input].storage) return trace->inputs.at[k].storage_number;
    return trace->n_storages++;
}

static void set_input(Trace *trace, int i, sn_tensor *t) {
    trace->inputs.at[i] = (TraceInput){.tensor = t,
                                       .meta = t->base.meta,
                                       .storage = t->storage,
                                       .offset = t->offset,
                                       .requires_grad = tape_tracks(t),
                                       .is_leaf = tape_is_leaf(t),
                                       .inference = t->flags & TF_inference};
    trace->inputs.at[i].storage_number = storage_number(trace, i);
}

static int64_t number_now(const ReplayProgram *p, int k, const Arg *in, const int64_t *values) {
    const struct NumberSource *const source = &p->numbers[k];
    if (source->input >= 0) return in[source->input].i; /* a float, by bits */
    return sym_eval(p->symbols->env, source->value, values);
}

/* False: memory is out, which is raised, or a tensor has no data. */
static bool make_trace(const ReplayProgram *p, Arena *arena, const Arg *in, sn_tensor *const *at, const int64_t *values,
                       Trace *trace) {
    const int n_inputs = p->world->n_inputs;
    *trace = (Trace){.end = p->end,
                     .marks = p->marks,
                     .n_random = p->n_random,
                     .sequence = state_get()->sequence,
                     .writes = p->writes};
    trace->inputs.at = ARENA_ARRAY(arena, TraceInput, n_inputs);
    trace->numbers.at = ARENA_ARRAY(arena, int64_t, p->n_numbers);
    if (!trace->inputs.at || !trace->numbers.at) return false;
    for (int i = 0; i < n_inputs; i++) {
        sn_tensor *const t = at[p->world->source[i]];
        if (!t->storage) return false;
        set_input(trace, i, t);
    }
    for (int k = 0; k < p->n_numbers; k++) trace->numbers.at[k] = number_now(p, k, in, values);
    trace->inputs.n = n_inputs;
    trace->numbers.n = p->n_numbers;
    return true;
}

/* Host code may have looked into a value that it passed on (sn_in_value): where scalars are free, a number that has
 * been seen to vary is known only if it comes from the inputs. */
static bool numbers_known(const ReplayProgram *p, const Variant *v) {
    if (!p->free_scalars) return true;
    for (int k = 0; v->number_rules && k < v->n_numbers; k++) {
        const struct NumberSource *const source = &p->numbers[k];
        if (v->number_rules[k] == NUMBER_runtime_float && source->input < 0) return false;
        if (v->number_rules[k] == NUMBER_runtime_int && !sym_is(source->value)) return false;
    }
    return true;
}

static bool has_base(const Variant *v) {
    for (int i = 0; i < v->n_graph_inputs; i++)
        if (v->graph_inputs[i].base) return true;
    return false;
}

static Variant *find_variant(const ReplayProgram *p, const Trace *trace) {
    Variant *v = atomic_load_explicit(&p->end->variants, memory_order_acquire);
    while (v && (!v->run || v->training || has_base(v) || !numbers_known(p, v) || !variant_fits(v, trace, NULL)))
        v = v->next;
    return v;
}

static Variant *prepare_trace(const ReplayProgram *p, Arena *arena, const Arg *in, sn_tensor *const *at, Trace *trace) {
    int64_t values[MAX_SYMBOLS];
    bind_symbols(p, in, values);
    if (!guards_hold(p, values) || !make_trace(p, arena, in, at, values, trace)) return NULL;
    return find_variant(p, trace);
}

bool program_fits(sn_function *fn, const ReplayProgram *p, const Arg *in, int n_in, int n_out) {
    sn_tensor *at[MAX_SLOTS];
    if (!inputs_fit(p, in, n_in, n_out, at)) return false;
    Arena *const arena = function_arena_take(fn);
    if (!arena) return false;
    Trace trace;
    const bool fits = prepare_trace(p, arena, in, at, &trace) != NULL;
    function_arena_give(fn, arena);
    return fits;
}

/* Launch -------------------------------------------------------------------------------------- */

static Status launch(const ReplayProgram *p, Variant *v, Arena *arena, const Trace *trace, sn_tensor **out) {
    sn_tensor **const inputs = ARENA_ARRAY(arena, sn_tensor *, v->n_graph_inputs);
    sn_tensor **const outs = ARENA_ARRAY(arena, sn_tensor *, v->n_outputs);
    double *const floats = ARENA_ARRAY(arena, double, v->n_runtime_floats);
    if (!inputs || !outs || !floats) return ST_MEMORY;
    int64_t symbols[MAX_SYMBOLS];
    variant_bind(v, trace, symbols);
    variant_bind_floats(v, trace, floats);
    for (int i = 0; i < v->n_graph_inputs; i++) inputs[i] = trace->inputs.at[v->graph_inputs[i].touched].tensor;
    TRY(variant_execute(v, inputs, symbols, floats, outs));
    TRY(variant_note_views(v, trace->numbers.at, inputs, outs));
    state_get()->sequence += (uint64_t)p->n_random;
    for (int i = 0; i < p->n_out; i++) out[i] = p->result[i] < 0 ? NULL : outs[variant_output_of(v, p->result[i])];
    return ST_OK;
}

static Status run_program(ReplayProgram *p, Arena *arena, const Arg *in, sn_tensor *const *at, sn_tensor **out,
                          bool *ran) {
    Trace trace;
    Variant *const v = prepare_trace(p, arena, in, at, &trace);
    if (!v) return ST_OK;
    const Status status = launch(p, v, arena, &trace, out);
    *ran = status != ST_VALUE || p->ordered; /* a failed check: the body says which op */
    if (!*ran) error_clear();
    if (status != ST_OK) return *ran ? status : ST_OK;
    sn_state *const state = state_get();
    state->last_path = v->info.interpreted ? SN_PATH_INTERPRETED : SN_PATH_COMPILED;
    state->last_reason = v->info.interpreted ? v->info.reason : "";
    atomic_fetch_add_explicit(&p->hits[v->info.interpreted], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&v->hits, 1, memory_order_relaxed);
    return ST_OK;
}

Status program_try(sn_function *fn, ReplayProgram *p, const Arg *in, int n_in, sn_tensor **out, int n_out, bool *ran) {
    sn_tensor *at[MAX_SLOTS];
    if (!inputs_fit(p, in, n_in, n_out, at)) return ST_OK;
    Arena *const arena = function_arena_take(fn);
    if (!arena) return ST_MEMORY;
    const Status status = run_program(p, arena, in, at, out, ran);
    function_arena_give(fn, arena);
    return status;
}

/* Making one ---------------------------------------------------------------------------------- */

static void bind_slots(ReplayProgram *p, const Arg *in) {
    sn_tensor *at[MAX_SLOTS];
    world_fits(p->world, in, p->world->n_in, at, NULL);
    for (int i = 0; i < p->world->n_slots; i++) {
        p->twin[i] = twin_of(at, i);
        p->metas[i] = at[i] ? at[i]->base.meta : NULL;
    }
}

static bool find_results(ReplayProgram *p, const Trace *trace, sn_tensor *const *out) {
    for (int i = 0; i < p->n_out; i++) {
        p->result[i] = -1;
        for (int v = 0; out[i] && v < trace->values.n; v++)
            if (trace->values.at[v] == out[i]) p->result[i] = v;
        if (out[i] && p->result[i] < 0) return false;
    }
    return true;
}

static bool mentions(const SymEnv *env, int64_t value, int64_t symbol) {
    if (value == symbol || !sym_is(value)) return value == symbol;
    const SymExpr *const e = sym_expr(env, value);
    return e->op != SYM_free && (mentions(env, e->a, symbol) || mentions(env, e->b, symbol));
}

static bool is_passed_on(const ReplayProgram *p, int input) {
    const Symbols *const s = p->symbols;
    for (int k = 0; k < p->n_numbers; k++)
        if (p->numbers[k].input == input ||
            (sym_is(s->ints[input]) && mentions(s->env, p->numbers[k].value, s->ints[input])))
            return true;
    return false;
}

/* A scalar that the body read and gave to no op is not known to be without effect. */
static void settle_scalars(ReplayProgram *p) {
    Symbols *const s = p->symbols;
    for (int i = 0; i < s->n_in; i++) {
        const int kind = s->in[i].kind;
        if ((kind != ARG_int && kind != ARG_float) || is_unread(s, i)) continue;
        const bool passed_on = is_passed_on(p, i);
        if (!passed_on) s->pinned[i] = true;
        if (!passed_on && kind == ARG_int) s->ints[i] = s->in[i].i;
        p->free_scalars |= kind == ARG_int ? sym_is(s->ints[i]) : !s->pinned[i];
    }
}

static ReplayProgram *program_allocate(Symbols *s, const Trace *trace, const World *world, int n_out) {
    ReplayProgram *const p = ARENA_NEW(s->arena, ReplayProgram);
    if (!p) return NULL;
    p->symbols = s;
    p->world = world;
    p->n_out = n_out;
    p->n_numbers = trace->numbers.n;
    p->n_values = trace->values.n;
    p->twin = ARENA_ARRAY(s->arena, int, world->n_slots);
    p->metas = ARENA_ARRAY(s->arena, const Meta *, world->n_slots);
    p->numbers = arena_copy(s->arena, trace->sources.at, sizeof *p->numbers * (size_t)trace->sources.n);
    p->marks = arena_copy(s->arena, trace->marks, (size_t)p->n_values);
    p->result = ARENA_ARRAY(s->arena, int, n_out);
    return p->twin && p->metas && p->numbers && p->marks && p->result ? p : NULL;
}

ReplayProgram *program_new(Capture *c, const Trace *trace, const World *world, const Arg *in, sn_tensor *const *out,
                           int n_out) {
    Symbols *const s = c->symbols;
    if (!s || s->lost || s->frees.n > MAX_SYMBOLS || trace->sources.n != trace->numbers.n) return NULL;
    ReplayProgram *const p = program_allocate(s, trace, world, n_out);
    if (!p || !find_results(p, trace, out)) return NULL;
    p->end = trace->end;
    p->n_ops = trace->ops.n;
    p->ordered = trace->ordered;
    p->n_random = trace->n_random;
    p->writes = trace->writes;
    bind_slots(p, in);
    settle_scalars(p);
    symbols_forget_asked(s);
    c->symbols = NULL;
    return p;
}

void program_free(ReplayProgram *p) { symbols_free(p->symbols); }
