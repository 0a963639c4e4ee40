/* capture.c: the kernel of the capture key: one op becomes a step along the trie and placeholders
 * for its results.
 *
 * An op call is split into structure (matched against the trie) and numbers (kept beside, judged by
 * the variants at the segment's end). Result metadata comes from the edge's cache where operand
 * metadata and numbers were seen before, else from the meta rule: errors in shapes are therefore
 * raised at the call, exactly as in eager. */
#include "runtime/capture.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/custom_op.h"
#include "runtime/eager.h"
#include "runtime/override.h"
#include "runtime/symbols.h"
#include "runtime/tape.h"

enum {
    MAX_OPERANDS = 256,
    MAX_FIXED = 512,
    MAX_NUMBERS = 512,
    HELD_CHECK = 32 /* ops between two looks at held bytes */
};

/* tensor -> input number, storage -> storage number
 * ------------------------------------------------------------------------------------- */

static uint32_t map_slot(const Capture *c, const void *key) {
    uint32_t i = (uint32_t)hash_mix(0, (uint64_t)(uintptr_t)key) & (c->map_room - 1);
    while (c->map[i].stamp == c->stamp && c->map[i].key != key) i = (i + 1) & (c->map_room - 1);
    return i;
}

static bool map_has(const Capture *c, uint32_t slot) { return c->map[slot].stamp == c->stamp; }

static void map_put(Capture *c, uint32_t slot, const void *key, int32_t number) {
    c->map[slot].key = key;
    c->map[slot].number = number;
    c->map[slot].stamp = c->stamp;
}

static bool map_grow(Capture *c) {
    const uint32_t room = c->map_room ? c->map_room * 2 : 64, old = c->map_room;
    void *const fresh = arena_alloc(c->arena, sizeof *c->map * room);
    if (!fresh) return false;
    const typeof(c->map) before = c->map;
    c->map = fresh;
    c->map_room = room;
    for (uint32_t i = 0; i < old; i++)
        if (before[i].stamp == c->stamp) c->map[map_slot(c, before[i].key)] = before[i];
    return true;
}

static int storage_number(Capture *c, const Storage *storage) {
    const uint32_t slot = map_slot(c, storage);
    if (map_has(c, slot)) return c->map[slot].number;
    map_put(c, slot, storage, c->trace->n_storages);
    return c->trace->n_storages++;
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

static Status touch(Capture *c, sn_tensor *t, Operand *out) {
    Trace *const trace = c->trace;
    if ((uint32_t)trace->inputs.n * 3 >= c->map_room && !map_grow(c)) return ST_MEMORY;
    const uint32_t slot = map_slot(c, t);
    if (map_has(c, slot)) {
        *out = -1 - c->map[slot].number;
        return ST_OK;
    }
    TraceInput *const input = VEC_NEXT(c->arena, &trace->inputs);
    if (!input) return ST_MEMORY;
    *input = (TraceInput){.tensor = t, .meta = t->base.meta, .storage = t->storage};
    input->offset = t->offset;
    input->requires_grad = tape_tracks(t);
    input->is_leaf = tape_is_leaf(t);
    input->inference = t->flags & TF_inference;
    tensor_retain(t);
    if (c->traces.n > 1) find_maker(c, input);
    const int index = trace->inputs.n++;
    map_put(c, slot, t, index);
    input->storage_number = storage_number(c, t->storage);
    *out = -1 - index;
    return ST_OK;
}

/* A tensor argument as an operand; one that an earlier segment left unmade is made first. */
static Status operand_of(Capture *c, sn_tensor *t, Operand *out) {
    if (!t) {
        *out = OPERAND_ABSENT;
        return ST_OK;
    }
    const struct Placeholder *const p = t->placeholder;
    if (p && p->capture == c && p->trace == c->trace) {
        *out = p->value;
        return ST_OK;
    }
    if (p) TRY(capture_flush_tensor(t));
    return touch(c, t, out);
}

/* Splitting a call into structure and numbers
 * --------------------------------------------------------------- */

typedef struct Split {
    Operand operands[MAX_OPERANDS];
    int64_t fixed[MAX_FIXED], numbers[MAX_NUMBERS];
    const Meta *metas[MAX_OPERANDS]; /* of the operands */
    int n_operands, n_fixed, n_numbers;
} Split;

static Status too_large(const OpRow *row) {
    return error_raise(ST_UNSUPPORTED, "%s: too many list elements to capture", row->name);
}

static Status split_tensor(Capture *c, Split *s, const OpRow *row, sn_tensor *t) {
    if (s->n_operands == MAX_OPERANDS) return too_large(row);
    TRY(operand_of(c, t, &s->operands[s->n_operands]));
    s->metas[s->n_operands++] = t ? t->base.meta : NULL;
    return ST_OK;
}

static bool is_structural(ParamType type) {
    return type == PT_bool || type == PT_bool_opt || type == PT_dtype || type == PT_dtype_opt ||
           type == PT_device_opt || type == PT_layout_opt || type == PT_memory_format_opt;
}

static int64_t bits_of(double f) {
    int64_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static void split_number(Split *s, const Arg *a, ParamType type) {
    const int64_t value = a->kind == ARG_float ? bits_of(a->f) : a->i;
    if (is_structural(type) || a->kind == ARG_bool)
        s->fixed[s->n_fixed++] = value;
    else
        s->numbers[s->n_numbers++] = value;
}

static Status split_list(Split *s, const OpRow *row, const Arg *a) {
    if (s->n_numbers + a->n > MAX_NUMBERS) return too_large(row);
    for (int i = 0; i < a->n; i++)
        s->numbers[s->n_numbers++] = a->kind == ARG_ints ? a->ints[i] : bits_of(a->floats[i]);
    return ST_OK;
}

static Status split_arg(Capture *c, Split *s, const OpRow *row, int i, const Arg *a) {
    s->fixed[s->n_fixed++] = (int64_t)a->kind | (int64_t)a->n << 8;
    switch (a->kind) {
    case ARG_tensor:
        return split_tensor(c, s, row, tensor_of(a->val));
    case ARG_tensors:
        for (int k = 0; k < a->n; k++) TRY(split_tensor(c, s, row, tensor_of(a->vals[k])));
        return ST_OK;
    case ARG_int:
    case ARG_float:
    case ARG_bool:
        split_number(s, a, row->params[i].type);
        if (row->id == OP_as_strided) /* its offset, told from the root */
            s->numbers[s->n_numbers - 1] -= strided_origin(c->trace, s->operands[0]);
        return ST_OK;
    case ARG_ints:
    case ARG_floats:
        return split_list(s, row, a);
    case ARG_string:
        s->fixed[s->n_fixed++] = (int64_t)hash_bytes(1, a->string, strlen(a->string));
        return ST_OK;
    default:
        return ST_OK;
    }
}

static Status split_call(Capture *c, const OpCall *call, Split *s) {
    s->n_operands = s->n_fixed = s->n_numbers = 0;
    for (int i = 0; i < call->row->n_params; i++)
        TRY(split_arg(c, s, call->row, i, &call->args[i]));
    if (call->form == FORM_out)
        for (int i = 0; i < call->row->n_out; i++)
            TRY(split_tensor(c, s, call->row, call->out_args[i]));
    return ST_OK;
}

/* The call as it is kept: arguments copied into the call's arena
 * --------------------------------------------- */

static const Arg *keep_args(Arena *arena, const OpCall *call) {
    const int n = call->row->n_params;
    Arg *const args = arena_copy(arena, call->args, sizeof *args * (size_t)n);
    for (int i = 0; args && i < n; i++) {
        const size_t items = (size_t)args[i].n;
        if (args[i].kind == ARG_ints || args[i].kind == ARG_floats)
            args[i].ints = arena_copy(arena, args[i].ints, items * sizeof(int64_t));
        else if (args[i].kind == ARG_tensors)
            args[i].vals = arena_copy(arena, args[i].vals, items * sizeof(Val *));
        else if (args[i].kind == ARG_string)
            args[i].string = arena_strdup(arena, args[i].string);
    }
    return args;
}

static uint8_t current_modes(const sn_state *state) {
    return state->grad_mode == SN_GRAD_ON    ? 0
           : state->grad_mode == SN_GRAD_OFF ? NODE_no_grad
                                             : NODE_inference;
}

static TrieNode *follow(Capture *c, const TraceOp *op) {
    TrieNode *const likely =
        trie_first_if(c->cursor, op); /* most nodes have one child: no hash needed */
    if (LIKELY(likely != NULL)) return likely;
    const uint64_t hash = trie_hash(op);
    TrieNode *child = trie_find(c->cursor, op, hash);
    if (child) return child;
    if (!c->trace->started_ns) c->trace->started_ns = clock_ns();
    pthread_mutex_lock(&c->fn->lock);
    child = trie_find(c->cursor, op, hash); /* another thread may have been first */
    if (!child) child = trie_add(c->fn->arena, c->cursor, op, hash, ++c->fn->n_nodes);
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

/* Result metadata: from the edge, or by the meta rule. */
static Status infer(Capture *c, TrieNode *node, const OpCall *call, const Split *s,
                    const Meta **out, int *n_out) {
    const MetaEntry *const seen = trie_metas(node, s->metas, s->numbers);
    if (seen) {
        *n_out = node->op.n_outs;
        memcpy(out, seen->out, sizeof *out * (size_t)node->op.n_outs);
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
    *n_out = n;
    pthread_mutex_lock(&c->fn->lock);
    const int n_outs = call->form == FORM_functional ? n : 0;
    if (node->op.n_outs != n_outs) node->op.n_outs = n_outs; /* others read it once it is so */
    trie_metas_add(c->fn->arena, node, s->metas, s->numbers, out);
    pthread_mutex_unlock(&c->fn->lock);
    return ST_OK;
}

static sn_tensor *placeholder_new(Capture *c, const Meta *meta, uint64_t keys, bool inference) {
    sn_tensor *const t = tensor_from_storage(NULL, meta, 0);
    struct Placeholder *const p = ARENA_NEW(c->arena, struct Placeholder);
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
static Status give_results(Capture *c, const OpCall *call, TraceOp *op, const Meta *const *metas,
                           int n) {
    const bool tracks = op_tracks(c->trace, op);
    if (call->form != FORM_functional) {
        c->trace->writes = true;
        c->trace->tracked_writes |= tracks;
        for (int i = 0; i < call->row->n_out; i++)
            call->outs[i] =
                call->form == FORM_inplace ? tensor_of(call->args[0].val) : call->out_args[i];
        return ST_OK;
    }
    op->first_value = c->trace->values.n;
    op->n_outs = n;
    const uint64_t keys = KEY_BIT(cpu) | (op->modes & NODE_inference ? 0 : KEY_BIT(autograd));
    for (int i = 0; i < n; i++) {
        call->outs[i] = placeholder_new(c, metas[i], keys, op->modes & NODE_inference);
        if (!call->outs[i]) return ST_MEMORY;
        call->outs[i]->placeholder->tracks = tracks && dtype_is_float(metas[i]->dtype);
    }
    op->outs = c->trace->values.at +
               op->first_value; /* a grown vector leaves this part behind, unchanged */
    return ST_OK;
}

static void take_sequence(Capture *c, const OpRow *row) {
    if (!(row->flags & OPF_random)) return;
    sn_state *const state = state_get();
    if (c->trace->n_random++ == 0) {
        c->trace->seed = state->seed;
        c->trace->sequence = state->sequence;
    }
    state->sequence++;
}

/* What eager refuses to write is refused at the call, for sizes that a variant was made for too. */
static Status check_written(const Trace *trace, const TraceOp *op, const OpCall *call) {
    if (call->form == FORM_functional) return ST_OK;
    const sn_tensor *const t = tensor_of(call->args[0].val);
    if (call->form == FORM_inplace && !t->placeholder && op_tracks(trace, op))
        TRY(tape_check_inplace(t));
    return eager_check_written(call);
}

/* `given`: the results' metadata where the caller knows it (n_given of them), else NULL: by rule.
 * `symbolic`: the arguments before their numbers were made plain. */
static Status record(Capture *c, const OpCall *call, const Arg *symbolic, const Meta *const *given,
                     int n_given) {
    Split s;
    TRY(split_call(c, call, &s));
    Trace *const trace = c->trace;
    TraceOp *const op = VEC_NEXT(c->arena, &trace->ops); /* counted when all went well */
    if (!op) return ST_MEMORY;
    *op = (TraceOp){.row = call->row,
                    .form = call->form,
                    .modes = current_modes(state_get()),
                    .operands = s.operands,
                    .n_operands = s.n_operands,
                    .fixed = s.fixed,
                    .n_fixed = s.n_fixed,
                    .n_numbers = s.n_numbers,
                    .first_number = trace->numbers.n,
                    .site = state_get()->site};
    TrieNode *const node = follow(c, op);
    if (!node) return ST_MEMORY;
    const Meta *inferred[MAX_OUTS];
    int n_metas = n_given;
    if (!given) TRY(infer(c, node, call, &s, inferred, &n_metas));
    TRY(check_written(trace, op, call));
    const Meta *const *const metas = given ? given : inferred;
    op->operands = node->op.operands;
    op->fixed = node->op.fixed;
    op->args = keep_args(c->arena, call);
    if (call->form == FORM_out)
        op->out_args =
            arena_copy(c->arena, call->out_args, sizeof *call->out_args * (size_t)call->row->n_out);
    if (!op->args) return ST_MEMORY;
    TRY(give_results(c, call, op, metas, n_metas));
    for (int i = 0; i < s.n_numbers; i++) VEC_PUSH(c->arena, &trace->numbers, s.numbers[i]);
    trace->ops.n++;
    take_sequence(c, call->row);
    c->cursor = node;
    return c->symbols ? symbols_record(c, call, symbolic, op) : ST_OK;
}

/* A user's op needs a meta rule and must be declared pure or ordered [semantics C12]. */
static bool is_capturable(const OpRow *row) {
    const DynamicOp *const custom = op_dynamic(row);
    return custom ? custom->meta && custom->flags & (SN_OP_PURE | SN_OP_ORDERED)
                  : row->meta != NULL;
}

/* What cannot be captured runs at once, after what is pending; NULL: it can. */
static const char *refusal(const Capture *c, const OpCall *call) {
    if (call->row->flags & OPF_host) return "a value is needed on the host";
    if (call->row->returns_list) return "an op that returns a list of tensors";
    if (!is_capturable(call->row)) return "an op without a meta rule, or not declared pure";
    if (op_dynamic(call->row) && op_dynamic(call->row)->mutates)
        return "a user's op that writes an argument";
    if (state_get()->modes) return "a user mode is active";
    if (c->eager_checks && call->row->flags & OPF_check)
        return "an op that checks values, with eager_checks";
    if (override_covers(call->row)) return "the op is overridden";
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const a = &call->args[i];
        if (a->kind == ARG_tensor && a->val && a->val->meta->device != DEV_cpu)
            return "a tensor that is not on the CPU";
    }
    return call->row->id == OP_as_strided ? strided_refusal(c->trace, call) : NULL;
}

/* Out tensors of other sizes than the result's are resized, which a segment cannot do. */
static bool resizes(const OpCall *call) {
    MetaOut metas[MAX_OUTS];
    int n;
    if (call->form != FORM_out || call_meta(call, metas, &n) != ST_OK) return false;
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
static const char *bound_reached(const Trace *trace) {
    if (trace->ops.n >= setting_number(SET_pending_ops)) return "too many ops are pending";
    if (trace->ops.n % HELD_CHECK != HELD_CHECK - 1) return NULL;
    return held_bytes(trace) > setting_number(SET_pending_mib) << 20
               ? "too many bytes are held by pending work only"
               : NULL;
}

/* *outside: it is to run at once, and everything is made for it. */
static Status capture_locked(Capture *c, OpCall *call, const Arg *symbolic, bool *outside) {
    TRY(capture_take_over_error(c));
    const char *reason = refusal(c, call);
    if (!reason && resizes(call)) reason = "an out tensor is resized";
    *outside = reason != NULL;
    if (reason) return make_arguments(c, call, reason);
    TRY(error_pending());
    const char *const bound = bound_reached(c->trace);
    if (bound) TRY(capture_flush(c, bound, state_get()->site));
    return record(c, call, symbolic, NULL, 0);
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
    for (int i = 0; i < n; i++) metas[i] = args[2].vals[i]->meta;
    const OpCall call = {.row = op_row(OP_gradients), .args = args, .outs = outs, .n_outs = n};
    return record(c, &call, args, metas, n);
}
