/* capture.c: the kernel of the capture key: one op becomes a step along the trie and placeholders
 * for its results.
 *
 * An op call is split into structure (matched against the trie) and numbers (kept beside, judged by
 * the variants at the segment's end). Result metadata comes from the edge's cache where operand
 * metadata and numbers were seen before, else from the meta rule: errors in shapes are therefore
 * raised at the call, exactly as in eager. */
#include "runtime/capture/record/capture.h"

#include <stdio.h>

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/core/custom_op.h"
#include "runtime/core/emission.h"
#include "runtime/eager/eager.h"
#include "runtime/core/override.h"
#include "runtime/device/device.h"
#include "runtime/capture/record/symbols.h"
#include "runtime/capture/record/function_state.h"
#include "runtime/capture/record/capture_strided.h"
#include "runtime/capture/record/capture_thread.h"
#include "runtime/capture/record/capture_written.h"
#include "runtime/capture/record/region.h"
#include "runtime/capture/record/segment.h"
#include "runtime/capture/record/trace_graph.h"
#include "runtime/capture/record/trace_views.h"
#include "runtime/autograd/tape.h"

enum {
    USUAL_OPERANDS = 32, /* of one op; more are in the arena */
    USUAL_NUMBERS = 64,
    HELD_CHECK = 32 /* ops between two looks at held bytes */
};

/* storage -> its number and the newest input of it; older ones follow by `same_storage` ------- */

static inline StorageSlot *map_slot(const Capture *c, const Storage *storage) {
    uint32_t i = (uint32_t)hash_mix(0, (uint64_t)(uintptr_t)storage) & (c->map_room - 1);
    while (c->map[i].stamp == c->stamp && c->map[i].storage != storage) i = (i + 1) & (c->map_room - 1);
    return &c->map[i];
}

COLD static bool map_grow(Capture *c) {
    const uint32_t room = c->map_room ? c->map_room * 2 : 64, old = c->map_room;
    StorageSlot *const before = c->map, *const fresh = arena_alloc(c->arena, sizeof *fresh * room);
    if (!fresh) return false;
    c->map = fresh;
    c->map_room = room;
    for (uint32_t i = 0; i < old; i++)
        if (before[i].stamp == c->stamp) *map_slot(c, before[i].storage) = before[i];
    return true;
}

COLD static void find_maker(const Capture *c, TraceInput *input) {
    for (int t = 0; t < c->traces.n - 1; t++) {
        const Trace *const trace = c->traces.at[t];
        for (int v = 0; v < trace->values.n; v++)
            if (trace->values.at[v] == input->tensor) { /* NULL: dropped */
                input->maker = c->traces.at[t];
                input->maker_value = v;
                return;
            }
    }
}

static int find_input(const Trace *trace, int newest, const sn_tensor *t) {
    while (newest >= 0 && trace->inputs.at[newest].tensor != t) newest = trace->inputs.at[newest].same_storage;
    return newest;
}

/* Field by field, like trace_own_place. */
static inline void fill_input(TraceInput *input, sn_tensor *t, int storage_number, int same_storage) {
    const bool plain = LIKELY(!t->autograd), tracks = !plain && tape_tracks(t), leaf = plain || tape_is_leaf(t);
    input->tensor = t;
    input->meta = t->base.meta;
    input->storage = t->storage;
    input->offset = t->offset;
    input->storage_number = storage_number;
    input->same_storage = same_storage;
    input->inference = t->flags & TF_inference;
    input->requires_grad = tracks;
    input->is_leaf = leaf;
    input->maker = NULL;
    input->maker_value = 0;
}

static Status touch(Capture *c, sn_tensor *t, Operand *out) {
    Trace *const trace = c->trace;
    const int n = trace->inputs.n;
    if (UNLIKELY((uint32_t)n * 2 >= c->map_room) && !map_grow(c)) return ST_MEMORY;
    StorageSlot *const slot = map_slot(c, t->storage);
    const int older = UNLIKELY(slot->stamp == c->stamp) ? slot->newest_input : -1;
    const int found = older >= 0 ? find_input(trace, older, t) : -1;
    if (found >= 0) {
        *out = -1 - found;
        return ST_OK;
    }
    TraceInput *const input = VEC_NEXT(c->arena, &trace->inputs);
    if (UNLIKELY(!input)) return ST_MEMORY;
    const int number = older >= 0 ? slot->number : trace->n_storages++;
    slot->storage = t->storage;
    slot->number = number;
    slot->newest_input = n;
    slot->stamp = c->stamp;
    fill_input(input, t, number, older);
    trace_note_input(trace, input, n);
    tensor_retain(t);
    if (UNLIKELY(c->traces.n > 1)) find_maker(c, input);
    trace->inputs.n = n + 1;
    *out = -1 - n;
    return ST_OK;
}

/* Takes back what was touched last, so that `n` inputs are left. */
static void untouch(Capture *c, int n) {
    Trace *const trace = c->trace;
    while (trace->inputs.n > n) {
        const TraceInput *const input = &trace->inputs.at[--trace->inputs.n];
        trace_forget_input(trace, trace->inputs.n);
        map_slot(c, input->storage)->newest_input = input->same_storage;
        trace->n_storages -= input->same_storage < 0;
        tensor_release(input->tensor);
    }
}

/* A tensor argument as an operand: a value of this trace, or an input. */
static inline Status operand_of(Capture *c, sn_tensor *t, Operand *out) {
    *out = OPERAND_ABSENT;
    if (UNLIKELY(!t)) return ST_OK;
    const struct Placeholder *const p = t->placeholder;
    if (UNLIKELY(!p)) return touch(c, t, out);
    *out = p->value;
    return ST_OK;
}

/* Splitting a call into structure and numbers ------------------------------------------------- */

typedef struct OpSplit {
    int n_operands, n_fixed, n_numbers;
    Operand *operands;
    const Meta **metas; /* of the operands */
    int64_t *numbers;   /* lists, then single ones */
    int64_t fixed[2 * MAX_ARGS];
    Operand usual_operands[USUAL_OPERANDS];
    const Meta *usual_metas[USUAL_OPERANDS];
    int64_t usual_numbers[USUAL_NUMBERS];
} OpSplit;

/* Room for every argument and list element. */
static Status split_begin(Capture *c, const OpCall *call, OpSplit *s) {
    int n = call->row->n_params + call->row->n_out;
    for (int i = 0; i < call->row->n_params; i++) n += call->args[i].n;
    s->n_operands = s->n_fixed = s->n_numbers = 0;
    s->operands = s->usual_operands, s->metas = s->usual_metas, s->numbers = s->usual_numbers;
    if (n > USUAL_OPERANDS) {
        s->operands = ARENA_ARRAY(c->arena, Operand, n);
        s->metas = ARENA_ARRAY(c->arena, const Meta *, n);
    }
    if (n > USUAL_NUMBERS) s->numbers = ARENA_ARRAY(c->arena, int64_t, n);
    return s->operands && s->metas && s->numbers ? ST_OK : ST_MEMORY;
}

static Status split_tensor(Capture *c, OpSplit *s, sn_tensor *t) {
    TRY(operand_of(c, t, &s->operands[s->n_operands]));
    s->metas[s->n_operands++] = t ? t->base.meta : NULL;
    return ST_OK;
}

static int64_t string_word(const Arg *a) { return (int64_t)hash_bytes(1, a->string, strlen(a->string)); }

static Status split_list(Capture *c, OpSplit *s, const Arg *a) {
    for (int i = 0; i < a->n; i++) {
        if (a->kind == ARG_tensors)
            TRY(split_tensor(c, s, tensor_of(a->vals[i])));
        else
            s->numbers[s->n_numbers++] = a->ints[i]; /* floats: their bits */
    }
    return ST_OK;
}

static Status split_arg(Capture *c, OpSplit *s, const OpRow *row, int i, const Arg *a) {
    s->fixed[s->n_fixed++] = a->head;
    if (a->kind == ARG_tensor) return split_tensor(c, s, tensor_of(a->val));
    if (a->kind == ARG_ints || a->kind == ARG_floats || a->kind == ARG_tensors) return split_list(c, s, a);
    if (trace_arg_is_number(row, i, a))
        s->numbers[s->n_numbers++] = a->i; /* a float: its bits */
    else if (a->kind == ARG_int || a->kind == ARG_bool)
        s->fixed[s->n_fixed++] = a->i;
    else if (a->kind == ARG_string)
        s->fixed[s->n_fixed++] = string_word(a);
    return ST_OK;
}

static Status split_call(Capture *c, const OpCall *call, OpSplit *s) {
    TRY(split_begin(c, call, s));
    for (int i = 0; i < call->row->n_params; i++) TRY(split_arg(c, s, call->row, i, &call->args[i]));
    for (int i = 0; call->form == FORM_out && i < call->row->n_out; i++) TRY(split_tensor(c, s, call->out_args[i]));
    return ST_OK;
}

/* Following the trie -------------------------------------------------------------------------- */

static inline uint8_t current_modes(const sn_state *state) {
    static const uint8_t modes[] = {[SN_GRAD_ON] = 0, [SN_GRAD_OFF] = NODE_no_grad, [SN_INFERENCE] = NODE_inference};
    return modes[state->grad_mode];
}

/* Failpoint "mismatch:3": the op after three of a segment finds no edge, as if it were new there. */
static bool mismatch_forced(const Capture *c) {
    if (LIKELY(!failpoints_set())) return false;
    char point[32];
    snprintf(point, sizeof point, "mismatch:%d", c->cursor->depth);
    return failpoint(point);
}

static TrieNode *known_child(const Capture *c, const TraceOp *op, uint64_t hash) {
    return mismatch_forced(c) ? NULL : trie_find(c->cursor, op, hash);
}

static inline int random_of(const Capture *c, const OpCall *call) {
    return call->row->flags & OPF_random ? c->trace->random : 0;
}

/* *full: the op is new here, and the function has no room for new paths; NULL: it is recorded in any case. */
static TrieNode *follow(Capture *c, const OpCall *call, const OpSplit *s, bool *full) {
    const RegionPlace place = region_place(c, call);
    const TraceOp op = {.row = call->row,
                        .form = call->form,
                        .modes = current_modes(state_get()) | place.modes,
                        .relaid = c->relays,
                        .region = place.region,
                        .random = random_of(c, call),
                        .args = call->args,
                        .operands = s->operands,
                        .n_operands = s->n_operands,
                        .fixed = s->fixed,
                        .n_fixed = s->n_fixed,
                        .n_numbers = s->n_numbers};
    const uint64_t hash = trie_hash(&op);
    TrieNode *child = known_child(c, &op, hash);
    if (child) return child;
    if (full && (*full = function_is_full(c->fn))) return NULL;
    if (!c->trace->started_ns) c->trace->started_ns = clock_ns();
    pthread_mutex_lock(&c->fn->lock);
    child = known_child(c, &op, hash); /* another thread may have been first */
    if (!child) child = trie_add(c->fn->arena, c->cursor, &op, hash, ++c->fn->n_nodes);
    pthread_mutex_unlock(&c->fn->lock);
    return child;
}

/* Under the lock. */
static void set_outs(TrieNode *node, int n) {
    if (node->op.n_outs != n) node->op.n_outs = n; /* others read it once it is so */
}

static void know_outs(Capture *c, TrieNode *node, int n) {
    pthread_mutex_lock(&c->fn->lock);
    set_outs(node, n);
    pthread_mutex_unlock(&c->fn->lock);
}

static void expect_tensor(ExpectedArg *want, const OpSplit *s, int operand) {
    want->operand = s->operands[operand];
    want->meta = s->metas[operand];
}

/* What capture_follow compares the next call with, in the order of split_call; NULL: it shall not. */
static const ExpectedArg *expected_args(Arena *arena, const OpCall *call, const OpSplit *s) {
    const int n = call->row->n_params, n_outs = call->form == FORM_out ? call->row->n_out : 0;
    ExpectedArg *const args = ARENA_ARRAY(arena, ExpectedArg, n + n_outs);
    if (!args) return NULL;
    int operand = 0, number = 0;
    for (int i = 0; i < n; i++) {
        const Arg *const a = &call->args[i];
        const bool tensors = a->kind == ARG_tensors;
        args[i] = (ExpectedArg){.head = a->head, .word = a->i, .first = tensors ? operand : number};
        if (a->kind == ARG_tensor) expect_tensor(&args[i], s, operand++);
        if (a->kind == ARG_string) args[i].word = string_word(a);
        operand += tensors ? a->n : 0;
        number += a->kind == ARG_ints || a->kind == ARG_floats ? a->n : trace_arg_is_number(call->row, i, a);
    }
    for (int i = 0; i < n_outs; i++) expect_tensor(&args[n + i], s, operand + i);
    return args;
}

/* What the meta rule says of results, for fresh ones. */
typedef struct FreshResults {
    const Meta *const *metas;
    const AliasFact *alias; /* NULL: all have memory of their own */
} FreshResults;

typedef struct InferredResults {
    const Meta *metas[MAX_OUTS];
    AliasFact alias[MAX_OUTS];
} InferredResults;

/* The results as the rule gives them. */
static Status infer_anew(const OpCall *call, InferredResults *room, FreshResults *out, int *n) {
    MetaOut metas[MAX_OUTS];
    *n = call->row->returns_list ? MAX_OUTS : call->row->n_out;
    TRY(call_metas(call, 0, metas, n));
    *out = (FreshResults){.metas = room->metas};
    for (int i = 0; i < *n; i++) {
        if (!(room->metas[i] = meta_intern_out(&metas[i]))) return ST_MEMORY;
        room->alias[i] = (AliasFact){metas[i].alias, metas[i].offset};
        if (metas[i].alias >= 0) out->alias = room->alias;
    }
    return ST_OK;
}

/* From the edge, or by the meta rule. */
static Status infer(Capture *c, TrieNode *node, const OpCall *call, const OpSplit *s, InferredResults *room,
                    FreshResults *out) {
    const MetaEntry *const seen = trie_metas(node, s->metas, s->numbers);
    if (seen) {
        *out = (FreshResults){seen->out, seen->alias};
        return ST_OK;
    }
    int n;
    TRY(infer_anew(call, room, out, &n));
    pthread_mutex_lock(&c->fn->lock);
    set_outs(node, call->form == FORM_functional ? n : 0);
    if (trie_metas_room(node)) {
        const ExpectedArg *const args = expected_args(c->fn->arena, call, s);
        metas_stay(s->metas, node->op.n_operands);
        metas_stay(out->metas, node->op.n_outs);
        trie_metas_add(
            c->fn->arena, node,
            &(MetaEntry){.in = s->metas, .numbers = s->numbers, .out = out->metas, .alias = out->alias, .args = args});
    }
    pthread_mutex_unlock(&c->fn->lock);
    return ST_OK;
}

/* A value of the current trace, which holds the second reference. */
/* Room for one more value, and its place: the two grow together. */
static inline bool value_room(Capture *c, Trace *trace) {
    return LIKELY(trace->values.n < trace->values.room) ||
           (VEC_ROOM(c->arena, &trace->places) && VEC_ROOM(c->arena, &trace->values));
}

static ALWAYS_INLINE sn_tensor *placeholder_new(Capture *c, sn_state *state, const Meta *meta, uint8_t modes) {
    Trace *const trace = c->trace;
    struct Placeholder *const p = arena_take(c->arena, sizeof *p);
    if (UNLIKELY(!p || !value_room(c, trace))) return NULL;
    *p = (struct Placeholder){.capture = c, .trace = trace, .value = trace->values.n};
    const bool inference = modes & NODE_inference;
    const uint64_t backend = LIKELY(meta->device == DEV_cpu) ? KEY_BIT(cpu) : key_of_device(meta->device);
    const uint64_t keys = backend | (inference ? 0 : KEY_BIT(autograd));
    sn_tensor *const t = tensor_pending(state, meta, inference, keys, p);
    if (LIKELY(t != NULL)) trace->values.at[trace->values.n++] = t;
    return t;
}

/* Of a pending value: would it require gradients, had it been computed? */
static bool placeholder_tracks(const struct Placeholder *p) {
    return trace_tracked(p->trace, p->value, p->trace->ops.n);
}

static bool placeholder_is_inference(const struct Placeholder *p) { return trace_is_inference(p->trace, p->value); }
static bool made_in_inference(const sn_tensor *t) { return t->flags & TF_inference; }

typedef struct TensorFact {
    bool (*of_pending)(const struct Placeholder *p);
    bool (*of_made)(const sn_tensor *t);
    bool may_be_written; /* a write that tracks may have changed it */
} TensorFact;

static bool ask_fact(sn_tensor *t, const TensorFact *fact) {
    Capture *const c = state_get()->capture;
    const struct Placeholder *const other = t->placeholder;
    if (other && other->capture != c) return capture_flush_foreign(t) == ST_OK && fact->of_made(t);
    const bool entered = c && capture_enter(c);
    const bool written = fact->may_be_written && c && c->trace->tracked_writes;
    bool holds = !written || capture_flush_tensor(t) == ST_OK;
    const struct Placeholder *const p = t->placeholder;
    holds = holds && (p ? fact->of_pending(p) : fact->of_made(t));
    if (c) capture_leave(c, entered);
    return holds;
}

bool capture_requires_grad(sn_tensor *t) {
    while (UNLIKELY(tensor_is_batched(t)) && !tensor_is_wrapped(t)) t = t->inner;
    return ask_fact(t, &(TensorFact){placeholder_tracks, tape_tracks, .may_be_written = true});
}
bool capture_is_inference(sn_tensor *t) {
    return ask_fact(t, &(TensorFact){placeholder_is_inference, made_in_inference});
}

/* What the tape refuses to write is refused at the call, for sizes that a variant was made for too. As in eager that
 * comes before the meta rule, which may refuse the sizes, and the backend's reasons come last. */
static Status check_written(const Trace *trace, const TraceOp *op) {
    const int n = op->form == FORM_out ? op->row->n_out : 1, first = op->form == FORM_out ? op->n_operands - n : 0;
    for (int i = first; i < first + n && op->row->kind != KIND_view && !(op->modes & NODE_inference); i++)
        if (trace_is_inference(trace, op->operands[i])) return dispatch_inference_error(op->row, op->form);
    if (op->form == FORM_out || !trace_needs(trace, op)) return ST_OK;
    return trace_check_inplace(trace, op->operands[0]);
}

static inline Status check_recorded(const Trace *trace, const TraceOp *op) {
    return LIKELY(op->form == FORM_functional) ? ST_OK : check_written(trace, op);
}

/* Results of a functional op are new placeholders. */
static ALWAYS_INLINE Status give_results(Capture *c, sn_state *state, const OpCall *call, const TraceOp *op,
                                         const FreshResults *results, bool recorded) {
    Trace *const trace = c->trace;
    trace->relaid |= op->relaid;
    for (int i = 0, n = op->n_outs; i < n; i++) {
        const Meta *const meta = results->metas[i];
        sn_tensor *const t = placeholder_new(c, state, meta, op->modes);
        if (UNLIKELY(!t)) return ST_MEMORY;
        call->outs[i] = t;
        TracePlace *const place = &trace->places.at[trace->places.n];
        trace_own_place(trace, op, place);
        if (UNLIKELY(results->alias && results->alias[i].arg >= 0)) {
            *place = trace_place(trace, op, &results->alias[i]);
            trace->views = true;
        }
        if (UNLIKELY(recorded) && dtype_is_float(meta->dtype)) place->history.since = trace->ops.n + 1;
        trace->places.n++;
    }
    return ST_OK;
}

/* The other forms return what they write. */
static Status give_written(Capture *c, const OpCall *call, const TraceOp *op, bool recorded) {
    TRY(eager_check_written(call));
    c->trace->writes = true;
    c->trace->tracked_writes |= recorded && !(op->row->flags & OPF_nodiff);
    if (recorded && op->form == FORM_inplace && dtype_is_float(call->args[0].val->meta->dtype))
        trace_note_write(c->trace, op->operands[0]);
    for (int i = 0; i < call->row->n_out; i++) call->outs[i] = call_written(call, i);
    return ST_OK;
}

static void take_sequence(Capture *c) {
    sn_state *const state = state_get();
    Trace *const trace = c->trace;
    if (!trace->n_random) {
        trace->seed = state->seed;
        trace->sequence = state->sequence;
    }
    state->sequence++;
    if (++trace->random > trace->n_random) trace->n_random = trace->random;
}

static void note_flags(Capture *c, const OpRow *row) {
    if (row->flags & OPF_random) take_sequence(c);
    if (row->flags & OPF_ordered)
        c->trace->ordered = true;
    else
        c->trace->fallible |= (row->flags & OPF_may_fail) != 0;
}

/* One step along the trie, to `node`. */
static ALWAYS_INLINE Status advance(Capture *c, sn_state *state, const OpCall *call, TrieNode *node,
                                    const int64_t *numbers, const FreshResults *results) {
    Trace *const trace = c->trace;
    if (UNLIKELY(!VEC_ROOM(c->arena, &trace->ops))) return ST_MEMORY;
    const uint32_t needs = trace_needs(trace, &node->op);
    TRY(LIKELY(call->form == FORM_functional) ? give_results(c, state, call, &node->op, results, needs != 0)
                                              : give_written(c, call, &node->op, needs != 0));
    for (int i = 0, n = node->op.n_numbers; i < n; i++) VEC_PUSH(c->arena, &trace->numbers, numbers[i]);
    trace->ops.at[trace->ops.n++] = (TraceStep){&node->op, state->site, needs, trace->random};
    if (UNLIKELY(call->row->flags & (OPF_random | OPF_may_fail))) note_flags(c, call->row);
    c->cursor = node;
    return ST_OK;
}

typedef Status TensorVisit(Capture *c, sn_tensor *t);

/* Arguments, list elements and out tensors. */
static Status each_tensor(Capture *c, const OpCall *call, TensorVisit *visit) {
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const a = &call->args[i];
        if (a->kind == ARG_tensor && a->val) TRY(visit(c, tensor_of(a->val)));
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++)
            if (a->vals[k]) TRY(visit(c, tensor_of(a->vals[k])));
    }
    for (int i = 0; call->form == FORM_out && i < call->row->n_out; i++) TRY(visit(c, call->out_args[i]));
    return ST_OK;
}

static Status make_pending(Capture *c, sn_tensor *t) {
    (void)c;
    return capture_flush_tensor(t);
}

Status capture_make_earlier(Capture *c, sn_tensor *t) {
    const struct Placeholder *const p = t->placeholder;
    return p && p->trace != c->trace ? capture_flush_tensor(t) : ST_OK;
}

/* Before anything is touched: behind pending writes that ends the segment, whose values are earlier ones then. */
static Status make_earlier(Capture *c, const OpCall *call) {
    const Trace *before;
    do {
        before = c->trace;
        TRY(each_tensor(c, call, capture_make_earlier));
    } while (c->trace != before);
    return ST_OK;
}

/* `given`: the results' metadata where the caller knows it, else NULL: by rule. *full: see follow. */
static Status record_touching(Capture *c, const OpCall *call, const Arg *symbolic, const Meta *const *given,
                              bool *full) {
    OpSplit s;
    TRY(split_call(c, call, &s));
    TrieNode *const node = follow(c, call, &s, full);
    if (!node) return full && *full ? ST_OK : ST_MEMORY;
    TRY(check_recorded(c->trace, &node->op));
    FreshResults results = {.metas = given};
    InferredResults room;
    if (!given)
        TRY(infer(c, node, call, &s, &room, &results));
    else
        know_outs(c, node, call->n_outs);
    TRY(advance(c, state_get(), call, node, s.numbers, &results));
    return c->symbols ? symbols_record(c, call, symbolic, &node->op) : ST_OK;
}

/* An op that fails, or that there is no room for, is not part of the segment; nor is what only it touched. */
static Status record_call(Capture *c, const OpCall *call, const Arg *symbolic, const Meta *const *given, bool *full) {
    if (UNLIKELY(c->traces.n > 1)) TRY(make_earlier(c, call));
    const int touched = c->trace->inputs.n;
    const Status status = record_touching(c, call, symbolic, given, full);
    if (status != ST_OK || (full && *full)) untouch(c, touched);
    return status;
}

/* A user's op needs a meta rule and must be declared pure or ordered [semantics C12]. */
static bool is_capturable(const OpRow *row) {
    const DynamicOp *const custom = op_dynamic(row);
    return custom ? (custom->meta || custom->functional_of || row->expression) &&
                        custom->flags & (SN_OP_PURE | SN_OP_ORDERED)
                  : row->meta != NULL;
}

const char *capture_row_refusal(const OpRow *row) {
    if (row->flags & OPF_resizes) return "memory is resized";
    if (row->flags & OPF_host) return "a value is needed on the host";
    if (row->flags & OPF_bits) return "a view in another dtype";
    if (row->returns_list && !(row->flags & OPF_flow)) return "an op that returns a list of tensors";
    const DynamicOp *const custom = op_dynamic(row);
    if (!is_capturable(row) && !(custom && custom->functional))
        return "an op without a meta rule, or not declared pure";
    if (custom && custom->n_written) return "a user's op that writes an argument";
    if (!row->n_out) return "an op without results"; /* no graph holds one */
    return NULL;
}

/* A row with a device argument runs on that device; its tensors may be on another. */
static bool is_elsewhere(const OpCall *call) {
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const a = &call->args[i];
        if (a->kind == ARG_tensor && a->val && key_of_device(a->val->meta->device) & ~device_compiled()) return true;
    }
    return false;
}

/* Which device it is that no segment has ops of. */
static const char *elsewhere_refusal(const OpCall *call) {
    uint64_t keys = call->keys;
    for (int i = 0; i < call->row->n_params; i++)
        if (call->args[i].kind == ARG_tensor && call->args[i].val) keys |= tensor_of(call->args[i].val)->keys;
    keys &= KEYS_BACKEND & ~device_compiled();
    const DeviceRow *const device = keys ? device_of_key((Key)(63 - __builtin_clzll(keys))) : NULL;
    return device && device->uncompiled ? device->uncompiled : "a tensor on a device without compiled code";
}

/* A device tells a wrong value later: its line is that of the op while that runs by itself. */
static inline bool breaks_for_checks(const Capture *c, const OpCall *call) {
    if (!(call->row->flags & OPF_check)) return false;
    return c->eager_checks || (c->device_asserts && call->keys & KEYS_BACKEND & ~KEY_BIT(cpu));
}

/* By what sees each op as it runs. */
static inline bool is_watched(const sn_state *state) { return state->packer || state->include & KEY_BIT(anomaly); }

/* What cannot be captured runs at once, after what is pending; NULL: it can. A row that the trie has an
 * edge of was asked about before. */
static inline const char *capture_refusal(const Capture *c, const OpCall *call, const sn_state *state) {
    const TrieNode *const likely = trie_newest(c->cursor);
    const char *const never = likely && likely->op.row == call->row ? NULL : capture_row_refusal(call->row);
    if (UNLIKELY(never != NULL)) return never;
    if (UNLIKELY(state->modes != NULL)) return "a user mode is active";
    if (UNLIKELY(is_watched(state))) return "hooks of saved tensors, or anomaly mode, are active";
    if (UNLIKELY(breaks_for_checks(c, call))) return "an op that checks values, with eager_checks or device_asserts";
    if (override_covers(call->row)) return "the op is overridden";
    if (UNLIKELY(call->keys & KEYS_UNCAPTURED)) return "a tensor whose key has no compiled code";
    if (UNLIKELY(call->keys & KEYS_BACKEND & ~device_compiled()) ||
        UNLIKELY(call->row->device >= 0 && is_elsewhere(call)))
        return elsewhere_refusal(call);
    return NULL;
}

static bool tracks(const sn_tensor *t) {
    return t && (t->placeholder ? placeholder_tracks(t->placeholder) : tape_tracks(t));
}

/* An out form that the tape would have to record is refused by eager, before its sizes are looked at. Behind a pending
 * write that is recorded it is not known yet which tensors have a history (views of what is written too). */
static bool out_tracks(const Capture *c, const OpCall *call, const sn_state *state) {
    if (state->grad_mode != SN_GRAD_ON) return false;
    if (c->trace->tracked_writes) return true;
    for (int i = 0; i < call->row->n_out; i++)
        if (tracks(call->out_args[i])) return true;
    for (int i = 0; i < call->row->n_params && !(call->row->flags & OPF_nodiff); i++) {
        const Arg *const a = &call->args[i];
        if (a->kind == ARG_tensor && a->val && tracks(tensor_of(a->val))) return true;
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++)
            if (a->vals[k] && tracks(tensor_of(a->vals[k]))) return true;
    }
    return false;
}

/* Out tensors of other sizes than the result's are resized, which a segment cannot do. */
static bool resizes(const OpCall *call) {
    MetaOut metas[MAX_OUTS];
    int n = call->row->n_out;
    if (call_metas(call, 0, metas, &n) != ST_OK) return false;
    for (int i = 0; i < n; i++) {
        const Meta *const now = call->out_args[i]->base.meta;
        if (now->rank != metas[i].rank || memcmp(now->sizes, metas[i].sizes, sizeof(int64_t) * (size_t)now->rank) != 0)
            return true;
    }
    return false;
}

/* More results than a step of a plan may have: gradients of control flow, by name. */
static bool gives_many(const OpCall *call) {
    const int of = call->row->flags & OPF_flow ? op_param_find(call->row, "of") : -1;
    bool many = false;
    for (int i = 0; of >= 0 && i < call->args[of].n; i++) many |= call->args[of].ints[i] >= MAX_OUTS;
    return many;
}

/* Of memory that is older than its results; a user's code may, whatever it says. */
static bool may_write(const OpCall *call) {
    return call->form != FORM_functional || op_dynamic(call->row) || state_get()->modes || override_covers(call->row) ||
           call->keys & KEYS_BESIDE;
}

/* A read of a value computes nothing. */
static void count_outside(Capture *c, const OpCall *call, const char *reason) {
    if (call->row->flags & OPF_host) return;
    for (int i = 0; i < c->outside_ops.n; i++)
        if (c->outside_ops.at[i].reason == reason) {
            c->outside_ops.at[i].n++;
            return;
        }
    VEC_PUSH(c->arena, &c->outside_ops, ((OutsideOps){reason, 1}));
}

static Status make_arguments(Capture *c, const OpCall *call, const char *reason) {
    capture_breaks_at(call);
    capture_note_break(c, reason);
    count_outside(c, call, reason);
    TRY(may_write(call) ? capture_settle(reason) : capture_flush(c, reason, state_get()->site));
    const Status status = each_tensor(c, call, make_pending);
    capture_breaks(NULL);
    return status == ST_OK ? dispatch_check_inference(call) : status;
}

/* Bytes of inputs that nobody holds any more but this pending work. */
static int64_t held_bytes(const Trace *trace) {
    int64_t bytes = 0;
    for (int i = 0; i < trace->inputs.n; i++) {
        const sn_tensor *const t = trace->inputs.at[i].tensor;
        if (atomic_load_explicit(&t->refs, memory_order_relaxed) == 1) bytes += (int64_t)meta_bytes(t->base.meta);
    }
    return bytes;
}

/* Pending work is bounded [semantics C10]: is it time to look? */
static inline bool bound_is_near(const Trace *trace, const sn_state *state) {
    return trace->ops.n % HELD_CHECK == HELD_CHECK - 1 || trace->ops.n >= state->settings[SET_pending_ops].number;
}

/* A segment that fails runs again from its start, where an op with effects may not: what may fail, or writes, is not
 * beside one [semantics C12]. */
static bool repeats_effects(const Trace *trace, const OpCall *call) {
    if (call->row->flags & OPF_ordered) return trace->fallible || trace->writes;
    return trace->ordered && (call->row->flags & OPF_may_fail || call->form != FORM_functional);
}

/* NULL: there is room. */
static const char *bound_reached(const Trace *trace, const OpCall *call, const sn_state *state) {
    if (UNLIKELY(repeats_effects(trace, call))) return "an op with effects, and one that may fail or writes";
    if (UNLIKELY(call->row->flags & OPF_ordered && trace->prints.n)) return "an op with effects behind sn_debug_print";
    if (LIKELY(!bound_is_near(trace, state))) return NULL;
    if (trace->ops.n >= state->settings[SET_pending_ops].number) return "too many ops are pending";
    return held_bytes(trace) > state->settings[SET_pending_mib].number << 20
               ? "too many bytes are held by pending work only"
               : NULL;
}

static Status end_at_bound(Capture *c, const OpCall *call, const char *bound) {
    if (repeats_effects(c->trace, call)) capture_breaks_at(call);
    const Status status = capture_flush(c, bound, state_get()->site);
    capture_breaks(NULL);
    return status;
}

/* Views whose base was written are brought up to date as in eager. Their new history has its place in the order of
 * nodes [semantics G1]: what is pending comes before it. */
static Status refresh_views(Capture *c, const OpCall *call, const sn_state *state) {
    if (state->grad_mode != SN_GRAD_ON || call->row->flags & OPF_nodiff || !tape_views_are_due(call)) return ST_OK;
    capture_breaks_at(call);
    TRY(capture_flush(c, "a view of what was written since", state->site));
    capture_breaks(NULL);
    Capture *const suspended = capture_suspend();
    const Status status = tape_views_refresh(call);
    capture_resume(suspended);
    return status;
}

/* as_strided becomes a view of its base, below user modes and overrides, which were asked. *outside: it can't. */
static Status record_strided(Capture *c, OpCall *call, const Arg *symbolic, bool *outside) {
    StridedView view;
    const char *const reason = strided_view(c, call, symbolic, &view);
    *outside = reason != NULL;
    if (reason) return make_arguments(c, call, reason);
    Trace *const trace = c->trace;
    TRY(record_call(c, &view.call, view.symbolic, NULL, outside));
    if (!*outside && view.from_storage)
        trace->from_storage = c->relays ? "aten::as_strided_ counts from where the storage begins"
                                        : "aten::as_strided counts from where the storage begins";
    return *outside ? make_arguments(c, call, function_note_limit(c->fn, false)) : ST_OK;
}

/* More exactly, where that is known. */
static const char *written_reason(Capture *c, const OpCall *call, const char *reason) {
    const bool plain = !state_get()->modes && !override_covers(call->row);
    const char *const why = plain ? capture_written_refusal(c, call) : NULL;
    return why ? why : reason;
}

/* *outside: it is to run at once, and everything is made for it. */
static Status capture_locked(Capture *c, OpCall *call, const Arg *symbolic, bool *outside) {
    TRY(capture_take_over_error(c));
    const sn_state *const state = state_get();
    if (UNLIKELY(c->region != NULL)) TRY(region_check(c, call));
    const char *reason = capture_refusal(c, call, state);
    if (UNLIKELY(reason != NULL)) reason = written_reason(c, call, reason);
    if (UNLIKELY(!reason && call->form == FORM_out && out_tracks(c, call, state)))
        reason = "an out form among ops that have gradients";
    if (UNLIKELY(!reason && call->form == FORM_out) && resizes(call)) reason = "an out tensor is resized";
    if (UNLIKELY(!reason && gives_many(call))) reason = "it has more than 8 results";
    *outside = reason != NULL;
    if (UNLIKELY(reason != NULL)) return make_arguments(c, call, reason);
    TRY(error_pending());
    const char *const bound = bound_reached(c->trace, call, state);
    if (UNLIKELY(bound != NULL)) TRY(end_at_bound(c, call, bound));
    TRY(refresh_views(c, call, state));
    if (UNLIKELY(call->row->flags & OPF_storage)) return record_strided(c, call, symbolic, outside);
    TRY(record_call(c, call, symbolic, NULL, outside));
    if (LIKELY(!*outside)) return ST_OK;
    return make_arguments(c, call, function_note_limit(c->fn, false));
}

static Status capture_call(Capture *c, OpCall *call, const Arg *symbolic) {
    bool outside = false;
    const bool entered = capture_enter(c);
    const Status status = capture_locked(c, call, symbolic, &outside);
    if (call->row->returns_list && !outside && status == ST_OK) call->n_outs = c->cursor->op.n_outs;
    capture_leave(c, entered);
    if (!outside || status != ST_OK) return status;
    TRY(redispatch_excluding(call, KEY_BIT(capture)));
    const bool makes = UNLIKELY(c->region != NULL) && call->form == FORM_functional && call->row->kind != KIND_view;
    for (int i = 0; makes && i < call->n_outs; i++) region_made(c, call->outs[i], call);
    return ST_OK;
}

static Status capture_symbolic(Capture *c, OpCall *call) {
    Arg args[MAX_ARGS];
    OpCall plain;
    TRY(symbols_plain_call(c->symbols, call, &plain, args));
    const Status status = capture_call(c, &plain, call->args);
    call->n_outs = plain.n_outs;
    return status;
}

/* The expected step: the newest child with its newest metadata -------------------------------- */

/* Operands are numbered by first touch, so the expected one says where t must be. */
static inline bool match_tensor(Capture *c, Operand want, const Meta *meta, sn_tensor *t) {
    if (UNLIKELY(!t)) return want == OPERAND_ABSENT;
    if (t->base.meta != meta) return false;
    const Trace *const trace = c->trace;
    if (want >= 0) return trace->values.at[want] == t;
    const int input = operand_input(want);
    if (UNLIKELY(tape_view_is_due(t))) return false;
    if (input < trace->inputs.n) return trace->inputs.at[input].tensor == t;
    Operand found;
    return !t->placeholder && !(t->flags & TF_error) && !(t->keys & KEYS_UNCAPTURED) && touch(c, t, &found) == ST_OK &&
           found == want;
}

/* Lists, and what is of one kind only. */
static bool match_items(Capture *c, const TraceOp *op, const MetaEntry *entry, const ExpectedArg *want, const Arg *a) {
    if (!a->val) return !a->n && a->kind != ARG_string;
    if (a->kind == ARG_string) return string_word(a) == want->word;
    for (int i = 0; i < a->n; i++) {
        const int k = want->first + i;
        if (a->kind == ARG_tensors ? !match_tensor(c, op->operands[k], entry->in[k], tensor_of(a->vals[i]))
                                   : a->ints[i] != entry->numbers[k])
            return false;
    }
    return true;
}

static inline bool match(Capture *c, const OpCall *call, const TraceOp *op, const MetaEntry *entry) {
    const ExpectedArg *want = entry->args;
    const Arg *a = call->args;
    for (const Arg *const end = a + call->row->n_params; a < end; a++, want++) {
        if (UNLIKELY(a->head != want->head)) return false;
        const bool fits = LIKELY(a->kind == ARG_tensor) ? match_tensor(c, want->operand, want->meta, tensor_of(a->val))
                          : a->kind >= ARG_int && a->kind <= ARG_bool ? a->i == want->word
                                                                      : match_items(c, op, entry, want, a);
        if (UNLIKELY(!fits)) return false;
    }
    for (int i = 0; call->form == FORM_out && i < call->row->n_out; i++, want++)
        if (!match_tensor(c, want->operand, want->meta, call->out_args[i])) return false;
    return true;
}

/* Whether all is as ever around a call: what the dispatcher and capture_call would ask before they record it. Only what
 * the owner alone writes: no lock is held yet. */
static inline bool is_plain(const Capture *c, const sn_state *state, const OpCall *call) {
    const uint64_t asked = KEY_BIT(capture) | KEYS_OF_CALLS | KEY_BIT(vmap);
    const uint64_t keys = state->include & ((~state->exclude & asked) | KEY_BIT(anomaly)); /* is_watched */
    const uintptr_t special = (uintptr_t)state->emission | (uintptr_t)state->modes | (uintptr_t)state->packer |
                              (uintptr_t)c->symbols | (uintptr_t)c->region;
    return keys == KEY_BIT(capture) && !special && state->error.status == ST_OK && !capture_was_left(c) &&
           !(call->row->flags & OPF_check && (c->eager_checks || c->device_asserts)) && !override_covers(call->row) &&
           !log_on(LOG_dispatch, LOG_INFO) && !failpoints_set();
}

/* The rest of it: what another thread that runs the segment changes, under the lock [semantics C13]. */
static inline bool is_undisturbed(const Capture *c, const sn_state *state) {
    return !c->failed_elsewhere && !bound_is_near(c->trace, state);
}

/* Under the lock, if there is one. */
static ALWAYS_INLINE bool follow_expected(Capture *c, OpCall *call, sn_state *state, Status *status) {
    TrieNode *const node = trie_newest(c->cursor);
    const MetaEntry *const entry = node ? trie_newest_metas(node) : NULL;
    const uint32_t manner = trie_manner(call->form, current_modes(state), c->relays);
    if (UNLIKELY(!entry || !is_undisturbed(c, state) || node->op.row != call->row || node->manner != manner ||
                 (call->row->flags & OPF_random && node->op.random != c->trace->random) || !entry->args ||
                 (call->form == FORM_out && out_tracks(c, call, state))))
        return false;
    const int touched = c->trace->inputs.n;
    if (UNLIKELY(!match(c, call, &node->op, entry))) {
        untouch(c, touched);
        return false;
    }
    *status = check_recorded(c->trace, &node->op);
    if (LIKELY(*status == ST_OK))
        *status = advance(c, state, call, node, entry->numbers, &(FreshResults){entry->out, entry->alias});
    if (UNLIKELY(call->row->returns_list)) call->n_outs = node->op.n_outs;
    if (LIKELY(*status == ST_OK)) return true;
    untouch(c, touched);
    error_set_op(op_form_name(call->row, call->form));
    error_set_site(state->site);
    return true;
}

bool capture_follow(sn_state *state, OpCall *call, Status *status) {
    Capture *const c = state->capture;
    if (UNLIKELY(!is_plain(c, state, call))) return false;
    const bool entered = UNLIKELY(!__libc_single_threaded) && capture_enter(c);
    const bool followed = follow_expected(c, call, state, status);
    if (UNLIKELY(entered)) capture_leave(c, entered);
    return followed;
}

Status capture_op(OpCall *call) {
    sn_state *const state = state_get();
    if (UNLIKELY(state->emission != NULL)) return state->emission->call(state->emission, call);
    Capture *const c = capture_current();
    if (!c) return redispatch_excluding(call, KEY_BIT(capture));
    Status status;
    if (UNLIKELY(op_dynamic(call->row) != NULL) && capture_written(c, call, &status)) return status;
    return UNLIKELY(c->symbols != NULL) ? capture_symbolic(c, call) : capture_call(c, call, call->args);
}

void capture_start(void) {
    dispatch_fallback(KEY_capture, capture_op);
    dispatch_composites(KEY_BIT(capture), symbols_composite);
}

Status capture_gradients(Capture *c, const Arg *args, sn_tensor **outs, int n) {
    const Meta **const metas = ARENA_ARRAY(c->arena, const Meta *, n);
    if (!metas) return ST_MEMORY;
    for (int i = 0; i < n; i++)
        if (!(metas[i] = tape_grad_meta(tensor_of(args[2].vals[i])))) return ST_MEMORY;
    const OpCall call = {.row = op_row(OP_gradients), .args = args, .outs = outs, .n_outs = n};
    return record_call(c, &call, args, metas, NULL);
}
