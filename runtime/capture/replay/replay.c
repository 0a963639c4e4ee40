/* replay.c: see replay.h. Entries are a list, newest first, published under the function's lock and
 * never changed but for their count of hits. */
#include "runtime/capture/replay/replay.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/capture/variant/guard.h"
#include "runtime/capture/replay/replay_program.h"
#include "runtime/autograd/tape.h"

enum { MAX_ENTRIES = 64, MAX_SYMBOLS = 512, MAX_TENSORS = 512 };

typedef struct InputKey { /* of one call input or bound tensor */
    const Meta *meta;     /* NULL: a scalar or absent */
    bool requires_grad, inference;
    int64_t bits; /* scalars */
    int32_t kind;
} InputKey;

/* Two relations, both by the first of the earlier slots: a graph input stands for one tensor, and code that writes for
 * one layout of tensors in each memory. */
typedef struct Alias {
    int tensor;     /* the same one */
    int storage;    /* where memory is written: of the same storage */
    int64_t offset; /* in elements, from that one */
} Alias;

typedef struct ReplayEntry {
    struct ReplayEntry *next;
    Variant *variant;
    int n_in, n_bound, n_out, n_ops;
    _Atomic int64_t hits;
    sn_grad_mode grad_mode;
    uint64_t include, exclude;
    Alias *alias;      /* by slot: call input, then bound tensor */
    bool all_distinct; /* each slot is its own */
    bool ordered;      /* has effects, which a second run would repeat */
    InputKey *in, *bound_keys;
    GivenTensor *given; /* by call input */
    sn_tensor **bound;  /* retained */
    int *source;        /* by graph input: call input, or n_in + bound */
    int *result;        /* by call output: graph output, or -1: absent */
    int64_t *symbols;
    double *floats;
    const int64_t *numbers; /* of the trace */
} ReplayEntry;

static InputKey key_of(const Arg *a) {
    InputKey key = {.kind = a->kind};
    if (a->kind != ARG_tensor) {
        key.bits = a->kind == ARG_none || a->kind == ARG_default ? 0 : a->i;
        return key;
    }
    if (a->val) {
        key.meta = a->val->meta;
        key.requires_grad = tape_tracks(tensor_of(a->val));
        key.inference = tensor_of(a->val)->flags & TF_inference;
    }
    return key;
}

static bool same_key(const InputKey *want, const Arg *a) {
    if (want->kind != a->kind) return false;
    if (a->kind == ARG_tensor && a->val) {
        const sn_tensor *const t = tensor_of(a->val);
        return t->base.meta == want->meta && !(t->flags & TF_inference) == !want->inference &&
               (!t->autograd || tape_tracks(t) == want->requires_grad);
    }
    return key_of(a).bits == want->bits && !want->meta;
}

static const sn_tensor *slot_tensor(const ReplayEntry *e, const Arg *in, int i) {
    if (i >= e->n_in) return e->bound[i - e->n_in];
    return in[i].kind == ARG_tensor && in[i].val ? tensor_of(in[i].val) : NULL;
}

/* The alias guard. */
static Alias alias_of(const ReplayEntry *e, const Arg *in, int i) {
    const sn_tensor *const t = slot_tensor(e, in, i);
    Alias alias = {.tensor = i, .storage = i};
    for (int k = 0; t && k < i; k++) {
        const sn_tensor *const other = slot_tensor(e, in, k);
        if (!other) continue;
        if (alias.storage == i && e->variant->writes && other->storage == t->storage) {
            alias.storage = k;
            alias.offset = t->offset - other->offset;
        }
        if (other != t) continue;
        alias.tensor = k;
        break;
    }
    return alias;
}

/* Whether no two are the same, for sure: they hash to different bits. Spares comparing all pairs. */
static bool surely_distinct(const ReplayEntry *e, const Arg *in) {
    uint64_t seen[16] = {0};
    for (int i = 0; i < e->n_in + e->n_bound; i++) {
        const sn_tensor *const t = slot_tensor(e, in, i);
        if (!t) continue;
        const uintptr_t at = e->variant->writes ? (uintptr_t)t->storage : (uintptr_t)t;
        const uint64_t hash = (uint64_t)at * UINT64_C(0x9e3779b97f4a7c15) >> 54;
        if (seen[hash >> 6] >> (hash & 63) & 1) return false;
        seen[hash >> 6] |= UINT64_C(1) << (hash & 63);
    }
    return true;
}

static bool aliases_fit(const ReplayEntry *e, const Arg *in) {
    if (e->all_distinct && surely_distinct(e, in)) return true;
    for (int i = 0; i < e->n_in + e->n_bound; i++) {
        const Alias want = e->alias[i], now = alias_of(e, in, i);
        if (want.tensor != now.tensor || want.storage != now.storage || want.offset != now.offset) return false;
    }
    return true;
}

/* Where memory is written, no two storages may name the same bytes. */
static bool memory_fits(const ReplayEntry *e, const Arg *in) {
    for (int i = 0; e->variant->writes && i < e->n_in + e->n_bound; i++) {
        const sn_tensor *const t = slot_tensor(e, in, i);
        if (!t || !t->storage || !t->storage->user_owned) continue;
        for (int k = 0; k < e->n_in + e->n_bound; k++) {
            const sn_tensor *const other = slot_tensor(e, in, k);
            if (other && storages_overlap(t->storage, other->storage)) return false;
        }
    }
    return true;
}

static bool same_state(const ReplayEntry *e, const sn_state *state) {
    return state->grad_mode == e->grad_mode && state->include == e->include && state->exclude == e->exclude &&
           !state->modes;
}

static bool fits(const ReplayEntry *e, const Arg *in, int n_in, int n_out) {
    if (e->n_in != n_in || e->n_out != n_out || !same_state(e, state_get())) return false;
    for (int i = 0; i < n_in; i++)
        if (!same_key(&e->in[i], &in[i]) || !given_fits(&e->given[i], slot_tensor(e, in, i))) return false;
    for (int i = 0; i < e->n_bound; i++)
        if (!same_key(&e->bound_keys[i], &A_VAL(&e->bound[i]->base))) return false;
    return aliases_fit(e, in) && memory_fits(e, in) &&
           e->variant->epoch == atomic_load_explicit(&dispatch_epoch, memory_order_relaxed);
}

static sn_tensor *source_of(const ReplayEntry *e, const Arg *in, int graph_input) {
    const int source = e->source[graph_input];
    return source < e->n_in ? tensor_of(in[source].val) : e->bound[source - e->n_in];
}

static Status launch(const ReplayEntry *e, const Arg *in, sn_tensor **out) {
    Variant *const v = e->variant;
    sn_tensor *inputs[MAX_TENSORS], *outs[MAX_TENSORS];
    int64_t symbols[MAX_SYMBOLS];
    for (int i = 0; i < v->n_graph_inputs; i++) inputs[i] = source_of(e, in, i);
    memcpy(symbols, e->symbols, sizeof *symbols * (size_t)v->n_bindings);
    sn_state *const state = state_get();
    for (int i = 0; v->n_random && i < v->n_bindings; i++) {
        if (v->bindings[i].kind == BIND_seed) symbols[i] = (int64_t)state->seed;
        if (v->bindings[i].kind == BIND_sequence) symbols[i] = (int64_t)state->sequence;
    }
    TRY(variant_execute(v, inputs, symbols, e->floats, outs));
    TRY(variant_note_views(v, e->numbers, inputs, outs));
    state->sequence += (uint64_t)v->n_random;
    for (int i = 0; i < e->n_out; i++) out[i] = e->result[i] < 0 ? NULL : outs[e->result[i]];
    return ST_OK;
}

static bool is_verified_now(sn_function *fn) {
    const int every = fn->options.check_every;
    return every > 0 && atomic_fetch_add(&fn->replays, 1) % every == every - 1;
}

static Status run_entry(ReplayEntry *e, const Arg *in, sn_tensor **out, bool *ran) {
    const Status status = launch(e, in, out);
    *ran = status != ST_VALUE || e->ordered; /* a failed check: the body says which op */
    if (!*ran) error_clear();
    if (status != ST_OK) return *ran ? status : ST_OK;
    sn_state *const state = state_get();
    state->last_path = e->variant->info.interpreted ? SN_PATH_INTERPRETED : SN_PATH_COMPILED;
    state->last_reason = e->variant->info.interpreted ? e->variant->info.reason : "";
    atomic_fetch_add_explicit(&e->hits, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&e->variant->hits, 1, memory_order_relaxed);
    return ST_OK;
}

/* The entry of this very case, else the newest program that can run it. */
Status replay_try(sn_function *fn, const Arg *in, int n_in, sn_tensor **out, int n_out, bool *ran) {
    if (fn->options.mode != SN_COMPILE_REPLAY) return ST_OK;
    ReplayEntry *e = atomic_load_explicit(&fn->replay, memory_order_acquire);
    while (e && !fits(e, in, n_in, n_out)) e = e->next;
    if (e) return is_verified_now(fn) ? ST_OK : run_entry(e, in, out, ran);
    ReplayProgram *p = atomic_load_explicit(&fn->programs, memory_order_acquire);
    if (p && fn->options.check_every > 0) {
        while (p && !program_fits(fn, p, in, n_in, n_out)) p = *program_next(p);
        if (!p || is_verified_now(fn)) return ST_OK;
    }
    Status status = ST_OK;
    for (; p && !*ran && status == ST_OK; p = *program_next(p)) status = program_try(fn, p, in, n_in, out, n_out, ran);
    return status;
}

void replay_count(const sn_function *fn, sn_stats *stats) {
    for (ReplayEntry *e = atomic_load(&fn->replay); e; e = e->next) {
        const int64_t hits = atomic_load(&e->hits);
        stats->calls += hits;
        if (e->variant->info.interpreted)
            stats->ops_interpreted += hits * e->n_ops;
        else
            stats->ops_generated += hits * e->n_ops;
    }
    for (ReplayProgram *p = atomic_load(&fn->programs); p; p = *program_next(p)) program_count(p, stats);
}

/* Learning ------------------------------------------------------------------------------------ */

/* The variant that the trace ran as, or that was just compiled for it. */
static Variant *variant_of(const Trace *trace) {
    Variant *v = trace->variant;
    for (v = v ? v : atomic_load(&trace->end->variants); v; v = v->next)
        if (v->run && variant_fits(v, trace, NULL)) break;
    return v;
}

/* Its version goes up at the call of the op. */
static bool relays_an_input(const Trace *trace) {
    for (int i = 0; trace->relaid && i < trace->ops.n; i++) {
        const TraceOp *const op = trace->ops.at[i].op;
        if (op->relaid && operand_is_input(trace_root(trace, op->first_value))) return true;
    }
    return false;
}

static const char *refusal(const Capture *c, const Trace *trace, const Variant *v, int n_out) {
    for (int i = 0; i < c->traces.n; i++)
        if (c->traces.at[i] != trace && c->traces.at[i]->ops.n) return "the graph breaks";
    if (c->outside) return c->outside;
    if (!v) return NULL; /* not yet: the next call may do */
    if (strided_counts_from_an_input(trace)) return "as_strided counts from the storage's start";
    if (trace->gradients) return "sn_backward sets .grad, which replay would not";
    if (relays_an_input(trace)) return "a view of an input changes its layout in place";
    if (v->training) return "gradients flow out of it";
    if (v->n_graph_inputs > MAX_TENSORS || v->n_outputs > MAX_TENSORS || n_out > MAX_TENSORS) return "too many tensors";
    for (int i = 0; i < v->n_graph_inputs; i++)
        if (v->graph_inputs[i].base) return "written inputs share memory";
    return NULL;
}

static int find_in(const Arg *in, int n_in, const sn_tensor *t) {
    for (int i = 0; i < n_in; i++)
        if (in[i].kind == ARG_tensor && in[i].val == &t->base) return i;
    return -1;
}

static int result_index(const Variant *v, const Trace *trace, const sn_tensor *t) {
    for (int i = 0; t && i < v->n_outputs; i++)
        if (trace->values.at[v->outputs[i]] == t) return i;
    return -1;
}

static ReplayEntry *entry_new(Arena *arena, const Variant *v, int n_in, int n_out) {
    ReplayEntry *const e = ARENA_NEW(arena, ReplayEntry);
    if (!e) return NULL;
    e->n_in = n_in;
    e->n_out = n_out;
    e->in = ARENA_ARRAY(arena, InputKey, n_in);
    e->bound_keys = ARENA_ARRAY(arena, InputKey, v->n_graph_inputs);
    e->bound = ARENA_ARRAY(arena, sn_tensor *, v->n_graph_inputs);
    e->source = ARENA_ARRAY(arena, int, v->n_graph_inputs);
    e->given = ARENA_ARRAY(arena, GivenTensor, n_in);
    e->alias = ARENA_ARRAY(arena, Alias, n_in + v->n_graph_inputs);
    e->result = ARENA_ARRAY(arena, int, n_out);
    e->symbols = ARENA_ARRAY(arena, int64_t, v->n_bindings);
    e->floats = ARENA_ARRAY(arena, double, v->n_runtime_floats);
    return e->floats ? e : NULL;
}

/* False: a result is neither a graph output nor absent (an input returned as it is). */
static bool map_results(ReplayEntry *e, const Trace *trace, sn_tensor *const *out) {
    for (int i = 0; i < e->n_out; i++) {
        e->result[i] = result_index(e->variant, trace, out[i]);
        if (out[i] && e->result[i] < 0) return false;
    }
    return true;
}

static void map_inputs(ReplayEntry *e, const Trace *trace, const Arg *in) {
    const Variant *const v = e->variant;
    for (int i = 0; i < v->n_graph_inputs; i++) {
        sn_tensor *const t = trace->inputs.at[v->graph_inputs[i].touched].tensor;
        const int found = find_in(in, e->n_in, t);
        e->source[i] = found >= 0 ? found : e->n_in + e->n_bound;
        if (found >= 0) continue;
        e->bound_keys[e->n_bound] = key_of(&A_VAL(&t->base));
        e->bound[e->n_bound++] = tensor_retained(t);
    }
}

static const sn_tensor *given_of(const ReplayEntry *e, int slot) {
    return atomic_load_explicit(&e->given[slot], memory_order_relaxed);
}

/* Two calls of the same ops: what they use there is the input, whatever it is, if it was another tensor each time. */
static bool agree(const ReplayEntry *a, const ReplayEntry *b, int graph_input) {
    const int slot = a->source[graph_input];
    return a->n_in == b->n_in && a->variant->end == b->variant->end && b->source[graph_input] == slot &&
           given_of(a, slot) != given_of(b, slot);
}

/* A tensor that a call gives may be closed over too, and the body may mean that one at any call. So an entry is for
 * this tensor only, until another call shows more. */
static void map_given(const sn_function *fn, ReplayEntry *e, const Arg *in) {
    for (int i = 0; i < e->variant->n_graph_inputs; i++) {
        const int slot = e->source[i];
        if (slot >= e->n_in) continue;
        atomic_init(&e->given[slot], slot_tensor(e, in, slot));
        bool any = false;
        ReplayEntry *o = atomic_load_explicit(&fn->replay, memory_order_relaxed);
        for (; o; o = o->next) {
            if (!agree(e, o, i)) continue;
            any = true;
            atomic_store_explicit(&o->given[slot], NULL, memory_order_relaxed);
        }
        if (any) atomic_store_explicit(&e->given[slot], NULL, memory_order_relaxed);
    }
}

static void publish(sn_function *fn, ReplayEntry *e) {
    e->next = atomic_load_explicit(&fn->replay, memory_order_relaxed);
    atomic_store_explicit(&fn->replay, e, memory_order_release);
    fn->n_replay++;
}

/* Beside the newest entry. A program that is known already got a variant that it could not find before. */
static void learn_program(sn_function *fn, Capture *c, const Trace *trace, const Arg *in, int n_in,
                          sn_tensor *const *out, int n_out) {
    ReplayProgram *const p = fn->n_programs < MAX_ENTRIES ? program_new(c, trace, in, n_in, out, n_out) : NULL;
    if (!p) return;
    program_give(p, atomic_load_explicit(&fn->replay, memory_order_relaxed)->given);
    *program_next(p) = atomic_load_explicit(&fn->programs, memory_order_relaxed);
    atomic_store_explicit(&fn->programs, p, memory_order_release);
    fn->n_programs++;
}

static const char *learn(sn_function *fn, Capture *c, const Trace *trace, const Arg *in, int n_in,
                         sn_tensor *const *out, int n_out) {
    Variant *const v = variant_of(trace);
    const char *const why = refusal(c, trace, v, n_out);
    if (why || !v || fn->n_replay >= MAX_ENTRIES) return why;
    ReplayEntry *const e = entry_new(fn->arena, v, n_in, n_out);
    if (!e) return NULL;
    e->variant = v;
    e->n_ops = trace->ops.n;
    e->ordered = trace->ordered;
    if (!map_results(e, trace, out)) return "it returns an input";
    int results = 0;
    for (int i = 0; i < n_out; i++) results += e->result[i] >= 0;
    for (int k = 0; k < trace->values.n; k++) results -= trace->marks[k] & VALUE_needed;
    if (results < 0) return "tensors are kept beside the results";
    map_inputs(e, trace, in);
    map_given(fn, e, in);
    for (int i = 0; i < n_in; i++) e->in[i] = key_of(&in[i]);
    e->all_distinct = true;
    for (int i = 0; i < n_in + e->n_bound; i++) {
        e->alias[i] = alias_of(e, in, i);
        e->all_distinct &= e->alias[i].tensor == i && e->alias[i].storage == i;
    }
    e->grad_mode = state_get()->grad_mode;
    e->include = state_get()->include;
    e->exclude = state_get()->exclude;
    variant_bind(v, trace, e->symbols);
    variant_bind_floats(v, trace, e->floats);
    e->numbers =
        v->n_views ? arena_copy(fn->arena, trace->numbers.at, sizeof *e->numbers * (size_t)trace->numbers.n) : NULL;
    if (v->n_views && !e->numbers) return NULL;
    publish(fn, e);
    return NULL;
}

static bool is_program_known(sn_function *fn, const Arg *in, int n_in, int n_out) {
    const ReplayProgram *p = atomic_load(&fn->programs);
    while (p && !program_fits(fn, p, in, n_in, n_out)) p = *program_next((ReplayProgram *)p);
    return p != NULL;
}

void replay_learn(sn_function *fn, Capture *c, const Arg *in, int n_in, sn_tensor *const *out, int n_out) {
    const Trace *trace = NULL;
    for (int i = 0; i < c->traces.n && !trace; i++)
        if (c->traces.at[i]->ops.n) trace = c->traces.at[i];
    const bool program_known = is_program_known(fn, in, n_in, n_out);
    pthread_mutex_lock(&fn->lock);
    const int learnt = fn->n_replay;
    const char *const why = trace        ? learn(fn, c, trace, in, n_in, out, n_out)
                            : c->outside ? c->outside
                                         : "its body calls no op";
    if (fn->n_replay > learnt && !program_known) learn_program(fn, c, trace, in, n_in, out, n_out);
    const bool say = why && !fn->mode_said;
    if (say) fn->mode_said = true;
    pthread_mutex_unlock(&fn->lock);
    if (say) LOG(compile, WARNING, "%s: replay mode turned into verify: %s", fn->name, why);
}

void replay_free(sn_function *fn) {
    for (ReplayEntry *e = atomic_load(&fn->replay); e; e = e->next)
        for (int i = 0; i < e->n_bound; i++) tensor_release(e->bound[i]);
    for (ReplayProgram *p = atomic_load(&fn->programs), *next; p; p = next) {
        next = *program_next(p);
        program_free(p);
    }
}
