/* replay.c: see replay.h. Entries are a list, newest first, published under the function's lock and
 * never changed but for their count of hits. */
#include "runtime/capture/replay/replay.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/capture/variant/guard.h"
#include "runtime/capture/replay/replay_program.h"
#include "runtime/capture/replay/world.h"
#include "runtime/capture/record/symbols.h"
#include "runtime/capture/record/trace_views.h"
#include "runtime/capture/variant/variant_views.h"
#include "runtime/capture/variant/variant.h"
#include "runtime/autograd/tape.h"

enum { MAX_ENTRIES = 64, MAX_SYMBOLS = 512, MAX_TENSORS = 512 };

typedef struct SlotKey { /* of one slot of the call's world */
    const Meta *meta;    /* NULL: a scalar or absent */
    bool requires_grad, inference;
    bool any;     /* a scalar that the body has not read */
    int64_t bits; /* scalars */
    int32_t kind;
} SlotKey;

/* Two relations, both by the first of the earlier slots: a graph input stands for one tensor, and code that writes for
 * one layout of tensors in each memory. */
typedef struct EntryAlias {
    int tensor;     /* the same one */
    int storage;    /* where memory is written: of the same storage */
    int64_t offset; /* in elements, from that one */
} EntryAlias;

typedef struct ReplayEntry {
    struct ReplayEntry *next;
    Arena *arena; /* its own */
    Variant *variant;
    World *world;
    int n_out, n_ops;
    _Atomic int64_t hits;
    SlotKey *keys; /* by slot of the world, like alias */
    EntryAlias *alias;
    bool all_distinct; /* each slot is its own */
    bool ordered;      /* has effects, which a second run would repeat */
    int *source;       /* by graph input: its slot */
    int *result;       /* by call output: graph output, or -1: absent */
    int64_t *symbols;
    double *floats;
    const int64_t *numbers; /* of the trace */
} ReplayEntry;

static SlotKey key_of_tensor(const sn_tensor *t) {
    return (SlotKey){.kind = ARG_tensor,
                     .meta = t->base.meta,
                     .requires_grad = tape_tracks(t),
                     .inference = t->flags & TF_inference};
}

static SlotKey key_of(const Arg *a) {
    if (a->kind == ARG_tensor && a->val) return key_of_tensor(tensor_of(a->val));
    const bool empty = a->kind == ARG_tensor || a->kind == ARG_none || a->kind == ARG_default;
    return (SlotKey){.kind = a->kind, .bits = empty ? 0 : a->i};
}

static bool same_tensor(const SlotKey *want, const sn_tensor *t) {
    return t->base.meta == want->meta && !(t->flags & TF_inference) == !want->inference &&
           (t->autograd ? tape_tracks(t) : false) == want->requires_grad;
}

static bool same_scalar(const SlotKey *want, const Arg *a) {
    return want->kind == a->kind && !want->meta && (want->any || key_of(a).bits == want->bits);
}

static bool key_fits(const ReplayEntry *e, const Arg *in, sn_tensor *const *at, int slot) {
    const SlotKey *const want = &e->keys[slot];
    return at[slot] ? same_tensor(want, at[slot]) : slot < e->world->n_in && same_scalar(want, &in[slot]);
}

static bool keys_fit(const ReplayEntry *e, const Arg *in, sn_tensor *const *at) {
    for (int i = 0; i < e->world->n_slots; i++)
        if (!key_fits(e, in, at, i)) return false;
    return true;
}

/* The alias guard. */
static EntryAlias alias_of(const ReplayEntry *e, sn_tensor *const *at, int i) {
    const sn_tensor *const t = at[i];
    EntryAlias alias = {.tensor = i, .storage = i};
    for (int k = 0; t && k < i; k++) {
        const sn_tensor *const other = at[k];
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
static bool surely_distinct(const ReplayEntry *e, sn_tensor *const *at) {
    uint64_t seen[16] = {0};
    for (int i = 0; i < e->world->n_slots; i++) {
        const sn_tensor *const t = at[i];
        if (!t) continue;
        const uintptr_t where = e->variant->writes ? (uintptr_t)t->storage : (uintptr_t)t;
        const uint64_t hash = (uint64_t)where * UINT64_C(0x9e3779b97f4a7c15) >> 54;
        if (seen[hash >> 6] >> (hash & 63) & 1) return false;
        seen[hash >> 6] |= UINT64_C(1) << (hash & 63);
    }
    return true;
}

static bool aliases_fit(const ReplayEntry *e, sn_tensor *const *at) {
    if (e->all_distinct && surely_distinct(e, at)) return true;
    for (int i = 0; i < e->world->n_slots; i++) {
        const EntryAlias want = e->alias[i], now = alias_of(e, at, i);
        if (want.tensor != now.tensor || want.storage != now.storage || want.offset != now.offset) return false;
    }
    return true;
}

/* Where memory is written, no two storages may name the same bytes. */
static bool memory_fits(const ReplayEntry *e, sn_tensor *const *at) {
    const int n = e->variant->writes ? e->world->n_slots : 0;
    for (int i = 0; i < n; i++) {
        if (!at[i] || !at[i]->storage || !at[i]->storage->user_owned) continue;
        for (int k = 0; k < n; k++)
            if (at[k] && storages_overlap(at[i]->storage, at[k]->storage)) return false;
    }
    return true;
}

/* at: see world_fits. */
static bool entry_fits(const ReplayEntry *e, const Arg *in, int n_in, int n_out, sn_tensor **at) {
    return e->n_out == n_out && world_fits(e->world, in, n_in, at, NULL) && keys_fit(e, in, at) && aliases_fit(e, at) &&
           memory_fits(e, at) && e->variant->epoch == atomic_load_explicit(&dispatch_epoch, memory_order_relaxed);
}

static Status launch(const ReplayEntry *e, sn_tensor *const *at, sn_tensor **out) {
    Variant *const v = e->variant;
    sn_tensor *inputs[MAX_TENSORS], *outs[MAX_TENSORS];
    int64_t symbols[MAX_SYMBOLS];
    for (int i = 0; i < v->n_graph_inputs; i++) inputs[i] = at[e->source[i]];
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

static Status run_entry(ReplayEntry *e, sn_tensor *const *at, sn_tensor **out, bool *ran) {
    const Status status = launch(e, at, out);
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
    sn_tensor *at[MAX_SLOTS];
    ReplayEntry *e = atomic_load_explicit(&fn->replay, memory_order_acquire);
    while (e && !entry_fits(e, in, n_in, n_out, at)) e = e->next;
    if (e) return is_verified_now(fn) ? ST_OK : run_entry(e, at, out, ran);
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

/* A tensor that nobody holds but this call's records was made by the body, from host memory: a replay would find it as
 * the last one left it. */
static bool is_made_inside(const Symbols *s, sn_tensor *t) {
    int32_t own = 1;
    for (int i = 0; i < s->asked.n; i++) own += s->asked.at[i].tensor == t;
    return atomic_load_explicit(&t->refs, memory_order_acquire) == own;
}

static bool is_written(const Trace *trace, int input) {
    for (int i = 0; i < trace->ops.n; i++) {
        const TraceOp *const op = trace->ops.at[i].op;
        const int first = op->form == FORM_out ? op->n_operands - op->row->n_out : 0;
        const int n = op->form == FORM_out ? op->row->n_out : op->form == FORM_inplace;
        for (int k = first; k < first + n; k++) {
            const Operand root =
                op->operands[k] == OPERAND_ABSENT ? OPERAND_ABSENT : trace_root(trace, op->operands[k]);
            if (root != OPERAND_ABSENT && operand_is_input(root) && operand_input(root) == input) return true;
        }
    }
    return false;
}

static bool writes_what_it_made(const Capture *c, const Trace *trace) {
    for (int i = 0; trace->writes && i < trace->inputs.n; i++)
        if (is_made_inside(c->symbols, trace->inputs.at[i].tensor) && is_written(trace, i)) return true;
    return false;
}

static const char *replay_refusal(const Capture *c, const Trace *trace, const Variant *v, int n_out) {
    for (int i = 0; i < c->traces.n; i++)
        if (c->traces.at[i] != trace && c->traces.at[i]->ops.n) return "the graph breaks";
    if (c->outside) return c->outside;
    if (!v) return NULL; /* not yet: the next call may do */
    if (trace->from_storage) return "as_strided counts from the storage's start";
    if (trace->gradients) return "sn_backward sets .grad, which replay would not";
    if (relays_an_input(trace)) return "a view of an input changes its layout in place";
    if (writes_what_it_made(c, trace)) return "it writes a tensor that its body makes of host memory";
    if (v->training) return "gradients flow out of it";
    if (v->n_graph_inputs > MAX_TENSORS || v->n_outputs > MAX_TENSORS || n_out > MAX_TENSORS) return "too many tensors";
    for (int i = 0; i < v->n_graph_inputs; i++)
        if (v->graph_inputs[i].base) return "written inputs share memory";
    return NULL;
}

static int result_index(const Variant *v, const Trace *trace, const sn_tensor *t) {
    for (int i = 0; t && i < v->n_outputs; i++)
        if (trace->values.at[v->outputs[i]] == t) return i;
    return -1;
}

static ReplayEntry *entry_new(Arena *arena, Variant *v, World *world, int n_out) {
    ReplayEntry *const e = ARENA_NEW(arena, ReplayEntry);
    if (!e) return NULL;
    e->arena = arena;
    e->variant = v;
    e->world = world;
    e->n_out = n_out;
    e->keys = ARENA_ARRAY(arena, SlotKey, world->n_slots);
    e->source = ARENA_ARRAY(arena, int, v->n_graph_inputs);
    e->alias = ARENA_ARRAY(arena, EntryAlias, world->n_slots);
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

/* Its tensors as they are now, before anybody else sees it. */
static void map_slots(const sn_function *fn, ReplayEntry *e, const Symbols *symbols, const Arg *in,
                      sn_tensor *const *at) {
    const World *const w = e->world;
    for (int i = 0; i < w->n_slots; i++) {
        e->keys[i] = at[i] ? key_of_tensor(at[i]) : key_of(&in[i]);
        if (i < w->n_in) e->keys[i].any = (in[i].kind == ARG_int || in[i].kind == ARG_float) && !symbols->read[i];
    }
    e->all_distinct = true;
    for (int i = 0; i < w->n_slots; i++) {
        e->alias[i] = alias_of(e, at, i);
        e->all_distinct &= e->alias[i].tensor == i && e->alias[i].storage == i;
    }
    for (int i = 0; i < e->variant->n_graph_inputs; i++) e->source[i] = w->source[e->variant->graph_inputs[i].touched];
    for (ReplayEntry *o = atomic_load_explicit(&fn->replay, memory_order_relaxed); o; o = o->next)
        if (o->variant->end == e->variant->end) world_meet(e->world, o->world);
}

static void publish_entry(sn_function *fn, ReplayEntry *e) {
    e->next = atomic_load_explicit(&fn->replay, memory_order_relaxed);
    atomic_store_explicit(&fn->replay, e, memory_order_release);
    fn->n_replay++;
}

/* Beside the newest entry. A program that is known already got a variant that it could not find before. */
static void learn_program(sn_function *fn, Capture *c, const Trace *trace, const Arg *in, sn_tensor *const *out,
                          int n_out) {
    World *const world = atomic_load_explicit(&fn->replay, memory_order_relaxed)->world;
    ReplayProgram *const p = fn->n_programs < MAX_ENTRIES ? program_new(c, trace, world, in, out, n_out) : NULL;
    if (!p) return;
    *program_next(p) = atomic_load_explicit(&fn->programs, memory_order_relaxed);
    atomic_store_explicit(&fn->programs, p, memory_order_release);
    fn->n_programs++;
}

/* Values that outlive the call are results, one each; false: others are kept too. */
static bool keeps_results_only(const ReplayEntry *e, const Trace *trace) {
    int results = 0;
    for (int i = 0; i < e->n_out; i++) results += e->result[i] >= 0;
    for (int k = 0; k < trace->values.n; k++) results -= trace->marks[k] & VALUE_needed;
    return results >= 0;
}

/* *why stays NULL where memory is out. */
static ReplayEntry *make_entry(Arena *arena, const Capture *c, const Trace *trace, World *world, const Arg *in,
                               sn_tensor *const *out, int n_out, const char **why) {
    Variant *const v = variant_of(trace);
    ReplayEntry *const e = entry_new(arena, v, world, n_out);
    if (!e) return NULL;
    e->n_ops = trace->ops.n;
    e->ordered = trace->ordered;
    if (!map_results(e, trace, out)) *why = "it returns an input";
    if (!*why && !keeps_results_only(e, trace)) *why = "tensors are kept beside the results";
    sn_tensor *at[MAX_SLOTS];
    if (!*why && !world_fits(world, in, world->n_in, at, NULL)) *why = "its body changes what it asked of a tensor";
    if (*why) return NULL;
    variant_bind(v, trace, e->symbols);
    variant_bind_floats(v, trace, e->floats);
    e->numbers =
        v->n_views ? arena_copy(arena, trace->numbers.at, sizeof *e->numbers * (size_t)trace->numbers.n) : NULL;
    if (v->n_views && !e->numbers) return NULL;
    map_slots(c->fn, e, c->symbols, in, at);
    return e;
}

static const char *learn(sn_function *fn, Capture *c, const Trace *trace, const Arg *in, int n_in,
                         sn_tensor *const *out, int n_out) {
    Variant *const v = variant_of(trace);
    const char *why = replay_refusal(c, trace, v, n_out);
    if (why || !v || fn->n_replay >= MAX_ENTRIES) return why;
    Arena *const arena = arena_new();
    World *const world = arena ? world_new(arena, c, trace, in, n_in, &why) : NULL;
    ReplayEntry *const e = world ? make_entry(arena, c, trace, world, in, out, n_out, &why) : NULL;
    if (e) {
        publish_entry(fn, e);
        return NULL;
    }
    if (world) world_free(world);
    arena_free(arena);
    return why;
}

static bool is_program_known(sn_function *fn, const Arg *in, int n_in, int n_out) {
    const ReplayProgram *p = atomic_load(&fn->programs);
    while (p && !program_fits(fn, p, in, n_in, n_out)) p = *program_next((ReplayProgram *)p);
    return p != NULL;
}

/* A call that is verified now and then, and could have been replayed. */
static bool is_entry_known(const sn_function *fn, const Arg *in, int n_in, int n_out) {
    sn_tensor *at[MAX_SLOTS];
    const ReplayEntry *e = atomic_load(&fn->replay);
    while (e && !entry_fits(e, in, n_in, n_out, at)) e = e->next;
    return e != NULL;
}

/* Why an entry does not fit a call -------------------------------------------------------------- */

static void print_key(const SlotKey *key, Text *text) {
    if (key->meta) {
        meta_print(NULL, text, key->meta);
        if (key->requires_grad) text_puts(text, " requires_grad");
        if (key->inference) text_puts(text, " inference");
    } else if (key->kind == ARG_float) {
        double value;
        memcpy(&value, &key->bits, sizeof value);
        text_printf(text, "%g", value);
    } else if (key->kind == ARG_int || key->kind == ARG_bool) {
        text_printf(text, "%lld", (long long)key->bits);
    } else {
        text_puts(text, "absent");
    }
}

/* The first guard that fails, with both values. */
static void print_miss(const ReplayEntry *e, const Arg *in, int n_in, Text *text) {
    const World *const w = e->world;
    sn_tensor *at[MAX_SLOTS];
    if (n_in != w->n_in) {
        text_printf(text, "%d arguments, now %d", w->n_in, n_in);
        return;
    }
    for (int i = 0; i < n_in; i++) at[i] = in[i].kind == ARG_tensor && in[i].val ? tensor_of(in[i].val) : NULL;
    int i = 0;
    while (i < n_in && key_fits(e, in, at, i)) i++;
    if (i == n_in && !world_fits(w, in, n_in, at, text)) return;
    while (i < w->n_slots && key_fits(e, in, at, i)) i++;
    if (i == w->n_slots) {
        text_puts(text, "which tensors are the same, share memory or overlap");
        return;
    }
    const SlotKey now = at[i] ? key_of_tensor(at[i]) : key_of(&in[i]);
    world_slot_print(w, i, text);
    text_puts(text, ": ");
    print_key(&e->keys[i], text);
    text_puts(text, ", now ");
    print_key(&now, text);
}

/* There is no room for another case. */
static void say_full(const sn_function *fn, const Arg *in, int n_in) {
    Text why = {0};
    print_miss(atomic_load(&fn->replay), in, n_in, &why);
    LOG(compile, WARNING, "%s: replay mode has learnt %d cases; further ones run in verify: %s", fn->name, MAX_ENTRIES,
        text_str(&why));
    text_free(&why);
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
                            : learnt     ? NULL
                                         : "its body calls no op";
    if (fn->n_replay > learnt && !program_known) learn_program(fn, c, trace, in, out, n_out);
    const bool full = !why && trace && learnt == MAX_ENTRIES && !program_known && !is_entry_known(fn, in, n_in, n_out);
    const bool say = (why || full) && !fn->mode_said;
    if (say) fn->mode_said = true;
    pthread_mutex_unlock(&fn->lock);
    if (say && full) say_full(fn, in, n_in);
    if (say && why) LOG(compile, WARNING, "%s: replay mode turned into verify: %s", fn->name, why);
}

void replay_free(sn_function *fn) {
    for (ReplayEntry *e = atomic_load(&fn->replay), *next; e; e = next) {
        next = e->next;
        world_free(e->world);
        arena_free(e->arena);
    }
    for (ReplayProgram *p = atomic_load(&fn->programs), *next; p; p = next) {
        next = *program_next(p);
        program_free(p);
    }
}
