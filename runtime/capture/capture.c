/* capture.c: the kernel of the capture key: one op becomes a step along the trie and placeholders
 * for its results.
 *
 * An op call is split into structure (matched against the trie) and numbers (kept beside, judged by
 * the variants at the segment's end). Result metadata comes from the edge's cache where operand
 * metadata and numbers were seen before, else from the meta rule: errors in shapes are therefore
 * raised at the call, exactly as in eager. */
#include "runtime/capture/capture.h"

#include <stdio.h>

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/core/custom_op.h"
#include "runtime/cpu/eager.h"
#include "runtime/core/override.h"
#include "runtime/capture/symbols.h"
#include "runtime/autograd/tape.h"

enum {
    USUAL_OPERANDS = 32, /* of one op; more are in the arena */
    USUAL_NUMBERS = 64,
    HELD_CHECK = 32 /* ops between two looks at held bytes */
};

/* storage -> its number and the newest input of it; older ones follow by `same_storage` ------- */

static inline StorageSlot *map_slot(const Capture *c, const Storage *storage) {
    uint32_t i = (uint32_t)hash_mix(0, (uint64_t)(uintptr_t)storage) & (c->map_room - 1);
    while (c->map[i].stamp == c->stamp && c->map[i].storage != storage)
        i = (i + 1) & (c->map_room - 1);
    return &c->map[i];
}

static bool map_grow(Capture *c) {
    const uint32_t room = c->map_room ? c->map_room * 2 : 64, old = c->map_room;
    StorageSlot *const before = c->map, *const fresh = arena_alloc(c->arena, sizeof *fresh * room);
    if (!fresh) return false;
    c->map = fresh;
    c->map_room = room;
    for (uint32_t i = 0; i < old; i++)
        if (before[i].stamp == c->stamp) *map_slot(c, before[i].storage) = before[i];
    return true;
}

static void find_maker(const Capture *c, TraceInput *input) {
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
    while (newest >= 0 && trace->inputs.at[newest].tensor != t)
        newest = trace->inputs.at[newest].same_storage;
    return newest;
}

static Status touch(Capture *c, sn_tensor *t, Operand *out) {
    Trace *const trace = c->trace;
    if ((uint32_t)trace->inputs.n * 2 >= c->map_room && !map_grow(c)) return ST_MEMORY;
    StorageSlot *const slot = map_slot(c, t->storage);
    const bool seen = slot->stamp == c->stamp;
    const int found = seen ? find_input(trace, slot->newest_input, t) : -1;
    if (found >= 0) {
        *out = -1 - found;
        return ST_OK;
    }
    TraceInput *const input = VEC_NEXT(c->arena, &trace->inputs);
    if (!input) return ST_MEMORY;
    if (!seen) *slot = (StorageSlot){t->storage, trace->n_storages++, -1, c->stamp};
    *input = (TraceInput){.tensor = t,
                          .meta = t->base.meta,
                          .storage = t->storage,
                          .storage_number = slot->number,
                          .same_storage = slot->newest_input,
                          .offset = t->offset,
                          .requires_grad = tape_tracks(t),
                          .is_leaf = tape_is_leaf(t),
                          .inference = t->flags & TF_inference};
    tensor_retain(t);
    if (UNLIKELY(c->traces.n > 1)) find_maker(c, input);
    slot->newest_input = trace->inputs.n;
    *out = -1 - trace->inputs.n++;
    return ST_OK;
}

/* Forgets the inputs from the n-th on: the op that touched them is not recorded after all. */
static void untouch(Capture *c, int n) {
    Trace *const trace = c->trace;
    while (trace->inputs.n > n) tensor_release(trace->inputs.at[--trace->inputs.n].tensor);
    trace->n_storages = 0;
    c->stamp++; /* an empty map */
    for (int i = 0; i < n; i++) {
        const TraceInput *const input = &trace->inputs.at[i];
        *map_slot(c, input->storage) =
            (StorageSlot){input->storage, input->storage_number, i, c->stamp};
        if (input->storage_number >= trace->n_storages)
            trace->n_storages = input->storage_number + 1;
    }
}

/* A tensor argument as an operand; one that an earlier segment left unmade is made first. */
static inline Status operand_of(Capture *c, sn_tensor *t, Operand *out) {
    *out = OPERAND_ABSENT;
    if (UNLIKELY(!t)) return ST_OK;
    const struct Placeholder *const p = t->placeholder;
    if (LIKELY(p && p->trace == c->trace)) {
        *out = p->value;
        return ST_OK;
    }
    if (UNLIKELY(p != NULL)) TRY(capture_flush_tensor(t));
    return touch(c, t, out);
}

/* Splitting a call into structure and numbers ------------------------------------------------- */

typedef struct Split {
    int n_operands, n_fixed, n_numbers;
    Operand *operands;
    const Meta **metas; /* of the operands */
    int64_t *numbers;   /* lists, then single ones */
    int64_t fixed[2 * MAX_ARGS];
    Operand usual_operands[USUAL_OPERANDS];
    const Meta *usual_metas[USUAL_OPERANDS];
    int64_t usual_numbers[USUAL_NUMBERS];
} Split;

/* Room for every argument and list element. */
static Status split_begin(Capture *c, const OpCall *call, Split *s) {
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

static Status split_tensor(Capture *c, Split *s, sn_tensor *t) {
    TRY(operand_of(c, t, &s->operands[s->n_operands]));
    s->metas[s->n_operands++] = t ? t->base.meta : NULL;
    return ST_OK;
}

static int64_t kind_word(const Arg *a) { /* kind and n */
    int64_t word;
    memcpy(&word, a, sizeof word);
    return word;
}
static int64_t string_word(const Arg *a) {
    return (int64_t)hash_bytes(1, a->string, strlen(a->string));
}

static Status split_list(Capture *c, Split *s, const Arg *a) {
    for (int i = 0; i < a->n; i++) {
        if (a->kind == ARG_tensors)
            TRY(split_tensor(c, s, tensor_of(a->vals[i])));
        else
            s->numbers[s->n_numbers++] = a->ints[i]; /* floats: their bits */
    }
    return ST_OK;
}

static void put_number(const Capture *c, Split *s, const OpRow *row, const Arg *a) {
    s->numbers[s->n_numbers] = a->i; /* a float: its bits */
    if (row->id == OP_as_strided)    /* its offset, told from the root */
        s->numbers[s->n_numbers] -= strided_origin(c->trace, s->operands[0]);
    s->n_numbers++;
}

static Status split_arg(Capture *c, Split *s, const OpRow *row, int i, const Arg *a) {
    s->fixed[s->n_fixed++] = kind_word(a);
    if (a->kind == ARG_tensor) return split_tensor(c, s, tensor_of(a->val));
    if (a->kind == ARG_ints || a->kind == ARG_floats || a->kind == ARG_tensors)
        return split_list(c, s, a);
    if (trace_arg_is_number(row, i, a))
        put_number(c, s, row, a);
    else if (a->kind == ARG_int || a->kind == ARG_bool)
        s->fixed[s->n_fixed++] = a->i;
    else if (a->kind == ARG_string)
        s->fixed[s->n_fixed++] = string_word(a);
    return ST_OK;
}

static Status split_call(Capture *c, const OpCall *call, Split *s) {
    TRY(split_begin(c, call, s));
    for (int i = 0; i < call->row->n_params; i++)
        TRY(split_arg(c, s, call->row, i, &call->args[i]));
    for (int i = 0; call->form == FORM_out && i < call->row->n_out; i++)
        TRY(split_tensor(c, s, call->out_args[i]));
    return ST_OK;
}

/* The likeliest step: the newest child with its newest metadata ------------------------------- */

/* Walks what split_call would make, in its order, beside what the step has. While all is equal the step has
 * the next place too. */
typedef struct Match {
    const int64_t *fixed, *number;
    const Operand *operand;
    const Meta *const *meta;
} Match;

static inline bool match_tensor(Capture *c, Match *m, sn_tensor *t) {
    Operand operand;
    if (UNLIKELY(operand_of(c, t, &operand) != ST_OK)) return false; /* split_call fails again */
    return operand == *m->operand++ && (t ? t->base.meta : NULL) == *m->meta++;
}

static bool match_list(Capture *c, Match *m, const Arg *a) {
    for (int i = 0; i < a->n; i++)
        if (a->kind == ARG_tensors ? !match_tensor(c, m, tensor_of(a->vals[i]))
                                   : a->ints[i] != *m->number++)
            return false;
    return true;
}

static inline bool match_arg(Capture *c, Match *m, const OpRow *row, int i, const Arg *a) {
    if (*m->fixed++ != kind_word(a)) return false;
    if (LIKELY(a->kind == ARG_tensor)) return match_tensor(c, m, tensor_of(a->val));
    if (a->kind == ARG_ints || a->kind == ARG_floats || a->kind == ARG_tensors)
        return match_list(c, m, a);
    if (trace_arg_is_number(row, i, a)) return a->i == *m->number++;
    if (a->kind == ARG_int || a->kind == ARG_bool) return a->i == *m->fixed++;
    return a->kind != ARG_string || string_word(a) == *m->fixed++;
}

static inline bool match(Capture *c, const OpCall *call, const TraceOp *op,
                         const MetaEntry *entry) {
    if (op->row != call->row || op->form != call->form || call->row->id == OP_as_strided)
        return false; /* as_strided's number is not the argument */
    Match m = {op->fixed, entry->numbers, op->operands, entry->in};
    for (int i = 0, n = call->row->n_params; i < n; i++)
        if (!match_arg(c, &m, call->row, i, &call->args[i])) return false;
    for (int i = 0; call->form == FORM_out && i < call->row->n_out; i++)
        if (!match_tensor(c, &m, call->out_args[i])) return false;
    return true;
}

/* Following the trie -------------------------------------------------------------------------- */

static uint8_t current_modes(const sn_state *state) {
    return state->grad_mode == SN_GRAD_ON    ? 0
           : state->grad_mode == SN_GRAD_OFF ? NODE_no_grad
                                             : NODE_inference;
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

/* *full: the op is new here, and the function has no room for new paths; NULL: it is recorded in any case. */
static TrieNode *follow(Capture *c, const OpCall *call, const Split *s, uint8_t modes, bool *full) {
    const TraceOp op = {.row = call->row,
                        .form = call->form,
                        .modes = modes,
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

/* The meta rule's view of a call: out forms pass what they write behind the arguments. */
static Status call_meta(const OpCall *call, MetaOut *metas, int *n_out) {
    Arg args[MAX_ARGS + MAX_OUTS];
    const int n = call->row->n_params;
    memcpy(args, call->args, sizeof *args * (size_t)n);
    for (int i = 0; call->form == FORM_out && i < call->row->n_out; i++)
        args[n + i] = A_VAL(&call->out_args[i]->base);
    MetaCall meta = {.row = call->row,
                     .form = call->form,
                     .args = args,
                     .out = metas,
                     .n_out = call->row->n_out};
    TRY(op_meta(&meta));
    *n_out = meta.n_out;
    return ST_OK;
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

/* Result metadata: from the edge, or by the meta rule. */
static Status infer(Capture *c, TrieNode *node, const OpCall *call, const Split *s,
                    const Meta **out) {
    const MetaEntry *const seen = trie_metas(node, s->metas, s->numbers);
    if (seen) {
        for (int i = 0; i < node->op.n_outs; i++) out[i] = seen->out[i];
        return ST_OK;
    }
    MetaOut metas[MAX_OUTS];
    int n;
    TRY(call_meta(call, metas, &n));
    for (int i = 0; i < n; i++) {
        out[i] = meta_intern(metas[i].dtype, metas[i].device, metas[i].sizes, metas[i].strides,
                             metas[i].rank, metas[i].wrapped);
        if (!out[i]) return ST_MEMORY;
    }
    pthread_mutex_lock(&c->fn->lock);
    set_outs(node, call->form == FORM_functional ? n : 0);
    trie_metas_add(c->fn->arena, node, s->metas, s->numbers, out);
    pthread_mutex_unlock(&c->fn->lock);
    return ST_OK;
}

static sn_tensor *placeholder_new(Capture *c, const Meta *meta, uint64_t keys, bool inference) {
    sn_tensor *const t = tensor_without_data(meta);
    struct Placeholder *const p = arena_take(c->arena, sizeof *p);
    if (!t || !p) return NULL;
    *p = (struct Placeholder){.capture = c, .trace = c->trace, .value = c->trace->values.n};
    atomic_store_explicit(&t->placeholder, p, memory_order_relaxed);
    t->keys = keys;
    if (inference) t->flags |= TF_inference;
    tensor_retain(t);
    VEC_PUSH(c->arena, &c->trace->values, t);
    return t;
}

/* Whether the op's results will be recorded by the tape: its operands' flags and its modes say so
 * before it has run. */
static bool op_tracks(const Trace *trace, const TraceOp *op) {
    if (op->modes || op->row->flags & OPF_nodiff || op->row->id == OP_gradients) return false;
    for (int i = 0; i < op->n_operands; i++) {
        const Operand o = op->operands[i];
        if (o == OPERAND_ABSENT) continue;
        if (operand_is_input(o) ? trace->inputs.at[operand_input(o)].requires_grad
                                : trace->values.at[o]->placeholder->tracks)
            return true;
    }
    return false;
}

bool capture_requires_grad(sn_tensor *t) {
    Capture *const c = state_get()->capture;
    const struct Placeholder *const other = t->placeholder;
    if (other && other->capture != c) return capture_flush_foreign(t) == ST_OK && tape_tracks(t);
    const bool entered = c && capture_enter(c);
    bool tracks = !(c && c->trace->tracked_writes) || capture_flush_tensor(t) == ST_OK;
    const struct Placeholder *const p = t->placeholder;
    tracks = tracks && (p ? p->tracks : tape_tracks(t));
    if (c) capture_leave(c, entered);
    return tracks;
}

/* Results of a functional op are new placeholders; the other forms return what they write. */
static Status give_results(Capture *c, const OpCall *call, const TraceOp *op,
                           const Meta *const *metas) {
    const bool tracks = op_tracks(c->trace, op);
    if (call->form != FORM_functional) {
        c->trace->writes = true;
        c->trace->tracked_writes |= tracks;
        for (int i = 0; i < call->row->n_out; i++)
            call->outs[i] =
                call->form == FORM_inplace ? tensor_of(call->args[0].val) : call->out_args[i];
        return ST_OK;
    }
    c->trace->views |= op->row->kind == KIND_view;
    const uint64_t keys = KEY_BIT(cpu) | (op->modes & NODE_inference ? 0 : KEY_BIT(autograd));
    for (int i = 0, n = op->n_outs; i < n; i++) {
        sn_tensor *const t = placeholder_new(c, metas[i], keys, op->modes & NODE_inference);
        if (!t) return ST_MEMORY;
        if (UNLIKELY(tracks)) t->placeholder->tracks = dtype_is_float(metas[i]->dtype);
        call->outs[i] = t;
    }
    return ST_OK;
}

static void take_sequence(Capture *c) {
    sn_state *const state = state_get();
    if (c->trace->n_random++ == 0) {
        c->trace->seed = state->seed;
        c->trace->sequence = state->sequence;
    }
    state->sequence++;
}

/* What eager refuses to write is refused at the call, for sizes that a variant was made for too. */
static Status check_written(const Trace *trace, const TraceOp *op, const OpCall *call) {
    const sn_tensor *const t = tensor_of(call->args[0].val);
    if (call->form == FORM_inplace && !t->placeholder && op_tracks(trace, op))
        TRY(tape_check_inplace(t));
    return eager_check_written(call);
}

/* One step along the trie, to `node`. `symbolic`: the arguments before their numbers were made plain. */
static inline Status advance(Capture *c, const OpCall *call, TrieNode *node, const Arg *symbolic,
                             const int64_t *numbers, const Meta *const *metas) {
    Trace *const trace = c->trace;
    TraceStep *const step = VEC_NEXT(c->arena, &trace->ops); /* counted when all went well */
    if (UNLIKELY(!step)) return ST_MEMORY;
    if (UNLIKELY(call->form != FORM_functional)) TRY(check_written(trace, &node->op, call));
    TRY(give_results(c, call, &node->op, metas));
    for (int i = 0, n = node->op.n_numbers; i < n; i++)
        VEC_PUSH(c->arena, &trace->numbers, numbers[i]);
    *step = (TraceStep){&node->op, state_get()->site};
    trace->ops.n++;
    if (UNLIKELY(call->row->flags & OPF_random)) take_sequence(c);
    c->cursor = node;
    return UNLIKELY(c->symbols != NULL) ? symbols_record(c, call, symbolic, &node->op) : ST_OK;
}

/* `given`: the results' metadata where the caller knows it, else NULL: by rule. *full: see follow. */
static Status record_any(Capture *c, const OpCall *call, const Arg *symbolic,
                         const Meta *const *given, bool *full) {
    Split s;
    const int touched = c->trace->inputs.n;
    TRY(split_call(c, call, &s));
    TrieNode *const node = follow(c, call, &s, current_modes(state_get()), full);
    if (!node && full && *full) return untouch(c, touched), ST_OK;
    if (!node) return ST_MEMORY;
    const Meta *inferred[MAX_OUTS];
    if (!given)
        TRY(infer(c, node, call, &s, inferred));
    else
        know_outs(c, node, call->n_outs);
    return advance(c, call, node, symbolic, s.numbers, given ? given : inferred);
}

static inline Status record(Capture *c, const OpCall *call, const Arg *symbolic, bool *full) {
    TrieNode *const likely = trie_newest(c->cursor);
    const MetaEntry *const entry = likely ? trie_newest_metas(likely) : NULL;
    if (LIKELY(entry && !mismatch_forced(c) && likely->op.modes == current_modes(state_get()) &&
               match(c, call, &likely->op, entry)))
        return advance(c, call, likely, symbolic, entry->numbers, entry->out);
    return record_any(c, call, symbolic, NULL, full);
}

/* A user's op needs a meta rule and must be declared pure or ordered [semantics C12]. */
static bool is_capturable(const OpRow *row) {
    const DynamicOp *const custom = op_dynamic(row);
    return custom ? custom->meta && custom->flags & (SN_OP_PURE | SN_OP_ORDERED)
                  : row->meta != NULL;
}

/* Why no call of a row is captured; NULL: calls are. */
static const char *row_refusal(const OpRow *row) {
    if (row->flags & OPF_host) return "a value is needed on the host";
    if (row->flags & OPF_bits) return "a view in another dtype";
    if (row->returns_list) return "an op that returns a list of tensors";
    if (!is_capturable(row)) return "an op without a meta rule, or not declared pure";
    if (op_dynamic(row) && op_dynamic(row)->mutates) return "a user's op that writes an argument";
    return NULL;
}

/* What cannot be captured runs at once, after what is pending; NULL: it can. A row that the trie has an
 * edge of was asked about before. */
static inline const char *refusal(const Capture *c, const OpCall *call, const sn_state *state) {
    const TrieNode *const likely = trie_newest(c->cursor);
    const char *const never = likely && likely->op.row == call->row ? NULL : row_refusal(call->row);
    if (UNLIKELY(never != NULL)) return never;
    if (UNLIKELY(state->modes != NULL)) return "a user mode is active";
    if (UNLIKELY(c->eager_checks && call->row->flags & OPF_check))
        return "an op that checks values, with eager_checks";
    if (override_covers(call->row)) return "the op is overridden";
    if (UNLIKELY(call->keys & KEYS_BACKEND & ~KEY_BIT(cpu)))
        return "a tensor that is not on the CPU";
    return UNLIKELY(call->row->id == OP_as_strided) ? strided_refusal(c->trace, call) : NULL;
}

/* Out tensors of other sizes than the result's are resized, which a segment cannot do. */
static bool resizes(const OpCall *call) {
    MetaOut metas[MAX_OUTS];
    int n;
    if (call_meta(call, metas, &n) != ST_OK) return false;
    for (int i = 0; i < n; i++) {
        const Meta *const now = call->out_args[i]->base.meta;
        if (now->rank != metas[i].rank ||
            memcmp(now->sizes, metas[i].sizes, sizeof(int64_t) * (size_t)now->rank) != 0)
            return true;
    }
    return false;
}

/* Of memory that is older than its results; a user's code may, whatever it says. */
static bool may_write(const OpCall *call) {
    return call->form != FORM_functional || op_dynamic(call->row) || state_get()->modes ||
           override_covers(call->row);
}

static Status make_arguments(Capture *c, const OpCall *call, const char *reason) {
    c->outside = reason;
    if (!c->trace->ops.n) function_note_break(c->fn, reason, state_get()->site);
    TRY(may_write(call) ? capture_settle(reason) : capture_flush(c, reason, state_get()->site));
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const a = &call->args[i];
        if (a->kind == ARG_tensor && a->val) TRY(capture_flush_tensor(tensor_of(a->val)));
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++)
            if (a->vals[k]) TRY(capture_flush_tensor(tensor_of(a->vals[k])));
    }
    for (int i = 0; call->form == FORM_out && i < call->row->n_out; i++)
        TRY(capture_flush_tensor(call->out_args[i]));
    return ST_OK;
}

/* Bytes of inputs that nobody holds any more but this pending work. */
static int64_t held_bytes(const Trace *trace) {
    int64_t bytes = 0;
    for (int i = 0; i < trace->inputs.n; i++) {
        const sn_tensor *const t = trace->inputs.at[i].tensor;
        if (atomic_load_explicit(&t->refs, memory_order_relaxed) == 1)
            bytes += (int64_t)meta_bytes(t->base.meta);
    }
    return bytes;
}

/* Pending work is bounded [semantics C10]; NULL: there is room. */
static inline const char *bound_reached(const Trace *trace, const sn_state *state) {
    if (trace->ops.n >= state->settings[SET_pending_ops].number) return "too many ops are pending";
    if (LIKELY(trace->ops.n % HELD_CHECK != HELD_CHECK - 1)) return NULL;
    return held_bytes(trace) > state->settings[SET_pending_mib].number << 20
               ? "too many bytes are held by pending work only"
               : NULL;
}

/* *outside: it is to run at once, and everything is made for it. */
static Status capture_locked(Capture *c, OpCall *call, const Arg *symbolic, bool *outside) {
    TRY(capture_take_over_error(c));
    const sn_state *const state = state_get();
    const char *reason = refusal(c, call, state);
    if (UNLIKELY(!reason && call->form == FORM_out) && resizes(call))
        reason = "an out tensor is resized";
    *outside = reason != NULL;
    if (UNLIKELY(reason != NULL)) return make_arguments(c, call, reason);
    TRY(error_pending());
    const char *const bound = bound_reached(c->trace, state);
    if (UNLIKELY(bound != NULL)) TRY(capture_flush(c, bound, state->site));
    TRY(record(c, call, symbolic, outside));
    if (LIKELY(!*outside)) return ST_OK;
    function_note_limit(c->fn, NULL);
    return make_arguments(c, call, "the accumulated recompile limit");
}

static Status capture_call(Capture *c, OpCall *call, const Arg *symbolic) {
    bool outside = false;
    const bool entered = capture_enter(c);
    const Status status = capture_locked(c, call, symbolic, &outside);
    capture_leave(c, entered);
    return outside && status == ST_OK ? redispatch_excluding(call, KEY_BIT(capture)) : status;
}

static Status capture_symbolic(Capture *c, OpCall *call) {
    Arg args[MAX_ARGS];
    OpCall plain;
    TRY(symbols_plain_call(c->symbols, call, &plain, args));
    const Status status = capture_call(c, &plain, call->args);
    call->n_outs = plain.n_outs;
    return status;
}

Status capture_op(OpCall *call) {
    sn_state *const state = state_get();
    if (UNLIKELY(state->emission != NULL)) return emission_call(state->emission, call);
    Capture *const c = capture_current();
    if (!c) return redispatch_excluding(call, KEY_BIT(capture));
    return UNLIKELY(c->symbols != NULL) ? capture_symbolic(c, call)
                                        : capture_call(c, call, call->args);
}

Status capture_gradients(Capture *c, const Arg *args, sn_tensor **outs, int n) {
    const Meta **const metas = ARENA_ARRAY(c->arena, const Meta *, n);
    if (!metas) return ST_MEMORY;
    for (int i = 0; i < n; i++)
        if (!(metas[i] = tape_grad_meta(tensor_of(args[2].vals[i])))) return ST_MEMORY;
    const OpCall call = {.row = op_row(OP_gradients), .args = args, .outs = outs, .n_outs = n};
    return record_any(c, &call, args, metas, NULL);
}
