/* autograd.c: the Autograd key: records a node for each differentiable op call, and the backward of
 * such nodes.
 *
 * The kernel sees every op. Where no argument is tracked it only passes the call on. Otherwise it
 * makes a node first (arguments are saved before an in-place op overwrites them), runs the op on
 * the keys below, and attaches the node to the results. Backward hands the saved values to the
 * row's derivative rule, which emits ops again. */
#include "runtime/autograd/gradient_cut.h"
#include "runtime/autograd/tape.h"
#include "runtime/autograd/tape_written.h"

#include <ctype.h>

#include "ir/saves.h"
#include "runtime/autograd/saved_hooks.h"
#include "runtime/base/alloc.h"
#include "runtime/base/small_array.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/custom_op.h"
#include "runtime/core/frame.h"
#include "runtime/core/tracking.h"

static SaveSpec plans[OP_IDS]; /* what rows save */

static const SaveSpec *plan_of(const OpRow *row, SaveSpec *buffer) {
    if (LIKELY(!op_is_made(row))) return &plans[row->id];
    *buffer = (SaveSpec){0};
    saves_parse(row, buffer);
    return buffer;
}

static inline bool is_due(const SaveItem *item, uint32_t needs) { return !item->when || (item->when & needs); }

bool tape_row_saves(const OpRow *row, int arg, int result, uint32_t needs) {
    SaveSpec buffer;
    const SaveSpec *const plan = plan_of(row->alias_of ? row->alias_of : row, &buffer);
    for (int i = 0; i < plan->n; i++)
        if (plan->items[i].arg == arg && plan->items[i].result == result && is_due(&plan->items[i], needs)) return true;
    return false;
}

bool tape_row_differentiable(const OpRow *row) { return deriv_rule(row->alias_of ? row->alias_of : row) != NULL; }

/* copies of arguments ------------------------------------------------------------------------- */

static inline size_t list_bytes(const Arg *arg) {
    if (LIKELY(arg->kind < ARG_string)) return 0;
    switch ((ArgKind)arg->kind) {
    case ARG_ints:
        return (size_t)arg->n * sizeof(int64_t);
    case ARG_floats:
        return (size_t)arg->n * sizeof(double);
    case ARG_string:
        return round_up((int64_t)strlen(arg->string) + 1, 8);
    case ARG_tensors:
        return (size_t)arg->n * (sizeof(Val *) + sizeof(Val));
    default:
        return 0;
    }
}

size_t tape_args_bytes(const OpRow *row, const Arg *args) {
    size_t bytes = 0;
    for (int i = 0; i < row->n_params; i++) bytes += list_bytes(&args[i]);
    return bytes;
}

/* A list's tensors become bare Vals: metadata for the rule to read, also of those that are not
 * saved. */
static void copy_list(const Arg *arg, Arg *to, char *memory) {
    Val **const vals = (Val **)memory;
    Val *const bare = (Val *)(vals + arg->n);
    for (int k = 0; k < arg->n; k++) {
        if (arg->vals[k]) bare[k] = *arg->vals[k];
        vals[k] = arg->vals[k] ? &bare[k] : NULL;
    }
    to->vals = vals;
}

int64_t tape_offset(const OpCall *call) {
    const Arg *const offset = &call->args[3];
    const sn_tensor *self = tensor_of(call->args[0].val);
    while (UNLIKELY(tensor_is_batched(self))) self = self->inner;
    return offset->kind == ARG_int ? offset->i - self->offset : 0;
}

void tape_args_copy(const OpRow *row, const Arg *args, Arg *to, void *memory) {
    char *at = memory;
    for (int i = 0; i < row->n_params; i++) {
        to[i] = args[i];
        if (args[i].kind == ARG_tensor) to[i].val = NULL;
        const size_t bytes = list_bytes(&args[i]);
        if (!bytes) continue;
        if (args[i].kind == ARG_tensors) {
            copy_list(&args[i], &to[i], at);
        } else {
            memcpy(at, args[i].ints, args[i].kind == ARG_string ? strlen(args[i].string) + 1 : bytes);
            to[i].ints = (const int64_t *)at;
        }
        at += bytes;
    }
}

/* row nodes ----------------------------------------------------------------------------------- */

typedef struct RowNode { /* a node's extra: followed by args, saved and what args point at */
    const OpRow *row;
    int n_saved;
    DType wide; /* the functional form's result, where what is written is another; else DT_default */
    Arg *args;
    TapeSaved *saved;
} RowNode;

static RowNode *row_node(const TapeNode *node) { return tape_node_extra((TapeNode *)node); }

static void row_drop(TapeNode *node) {
    RowNode *const row = row_node(node);
    for (int i = 0; i < row->n_saved; i++) tape_saved_drop(&row->saved[i]);
    row->n_saved = 0;
}

/* native_layer_norm: NativeLayerNormBackward */
void tape_row_name(const OpRow *row, Text *text) {
    bool upper = true;
    for (const char *at = row->base; *at; at++) {
        if (*at != '_') {
            const char letter = (char)(upper ? toupper((unsigned char)*at) : *at);
            text_put(text, &letter, 1);
        }
        upper = *at == '_';
    }
    text_puts(text, "Backward");
}

static void row_name(const TapeNode *node, Text *text) { tape_row_name(row_node(node)->row, text); }

static const TapeSaved *row_saved(const TapeNode *node, int *n) {
    *n = row_node(node)->n_saved;
    return row_node(node)->saved;
}

/* backward of a row node ---------------------------------------------------------------------- */

typedef struct RowCall { /* arrays of one call of a rule */
    Deriv d;
    Arg args[MAX_ARGS];
    bool needs[MAX_ARGS];
    Val *grad_in[MAX_ARGS];
    Val **results, *few[MAX_OUTS];
} RowCall;

/* A saved result again, with its place in the history: a rule's ops on it are recorded under
 * create_graph. */
static Status saved_result(TapeNode *node, const TapeSaved *saved, bool create_graph, Val **out) {
    sn_tensor *t = saved->tensor;
    if (create_graph) {
        t = tensor_view(t, t->base.meta, t->offset);
        if (!t) return ST_MEMORY;
        TRY(tape_attach(t, node, saved->result));
    }
    *out = &t->base;
    return ST_OK;
}

static const TapeEdge *edge_of(const TapeNode *node, const TapeSaved *saved) {
    const RowNode *const row = row_node(node);
    if (saved->item < 0) return &node->edges[saved->arg];
    int items = row->row->n_params;
    for (int i = 0; i < saved->arg; i++)
        if (row->args[i].kind == ARG_tensors) items += row->args[i].n;
    return &node->edges[items + saved->item];
}

/* A saved argument again; its history is that of the call, whatever became of its handle since. */
static Status saved_argument(TapeNode *node, const TapeSaved *saved, bool create_graph, Val **out) {
    sn_tensor *t = saved->tensor;
    const TapeEdge *const edge = create_graph ? edge_of(node, saved) : NULL;
    if (edge && edge->target && !edge->leaf) {
        t = tensor_view(t, t->base.meta, t->offset);
        if (!t) return ST_MEMORY;
        TRY(tape_attach(t, edge->target, edge->output));
    }
    *out = &t->base;
    return ST_OK;
}

/* The sizes that it was saved with: the handle may have been given others in place since. */
static Status written_since(const TapeNode *node, const TapeSaved *saved) {
    const Meta *const then = saved->arg >= 0 && saved->item < 0 ? tape_arg_metas(node)[saved->arg] : NULL;
    Text name = {0};
    row_name(node, &name);
    const Status status = tape_saved_error(then ? then : saved->tensor->base.meta, text_str(&name),
                                           tape_saved_version(saved), saved->version);
    text_free(&name);
    return status;
}

static COLD Status unpack_one(const TapeNode *node, const TapeSaved *saved, TapeSaved *out) {
    __attribute__((cleanup(text_free))) Text name = {0}; /* unpacking may run a program's code */
    row_name(node, &name);
    return saved_hooks_unpack(saved, text_str(&name), out);
}

static Status unpack(TapeNode *node, const TapeBackward *call, RowCall *rc) {
    const RowNode *const row = row_node(node);
    memcpy(rc->args, row->args, (size_t)row->row->n_params * sizeof(Arg));
    memset(rc->results, 0, (size_t)node->n_outs * sizeof(Val *));
    for (int i = 0; i < row->n_saved; i++) {
        const TapeSaved *saved = &row->saved[i];
        TapeSaved unpacked;
        if (UNLIKELY(tape_saved_version(saved) != saved->version)) {
            if (!saved->is_packed) return written_since(node, saved);
            TRY(unpack_one(node, saved, &unpacked));
            saved = &unpacked;
        }
        if (saved->result >= 0)
            TRY(saved_result(node, saved, call->create_graph, &rc->results[saved->result]));
        else if (saved->item < 0)
            TRY(saved_argument(node, saved, call->create_graph, &rc->args[saved->arg].val));
        else
            TRY(saved_argument(node, saved, call->create_graph, &((Val **)rc->args[saved->arg].vals)[saved->item]));
    }
    return ST_OK;
}

/* Which arguments need gradients; a list: any of its tensors. */
static void gather_needs(const RowNode *row, const TapeBackward *call, bool *needs) {
    int items = 0;
    for (int i = 0; i < row->row->n_params; i++) {
        needs[i] = call->needs[i];
        if (row->args[i].kind != ARG_tensors) continue;
        for (int k = 0; k < row->args[i].n; k++) needs[i] |= call->needs[row->row->n_params + items++];
    }
}

/* Comparisons have nodes only where they write in place: what they overwrote gets zeros; so does what is written of
 * integers (cumsum_(x, 0, dtype=i64)). */
static bool overwrites(const RowNode *row) {
    return row->row->flags & OPF_nodiff || (row->wide != DT_default && !dtype_is_float(row->wide));
}

static Status run_rule(const RowNode *row, Deriv *d) {
    DerivFn *const rule = deriv_rule(overwrites(row) ? OP_ROW(overwrite) : row->row);
    if (rule) return rule(d);
    return error_raise(ST_UNSUPPORTED, "%s has no derivative rule", row->row->name);
}

/* An in-place program's gradient is that of its functional form, whose result is cast to what is written [semantics
 * G5]. */
static Status widen(const RowNode *row, TapeBackward *call, Val **wide) {
    *wide = E(eager_builder(), _to_copy, A_VAL(&call->grad_out[0]->base), A_INT(row->wide));
    return *wide ? ST_OK : error_pending();
}

static bool same_place(const TapeEdge *a, const TapeEdge *b) {
    const TapeEdge *const to = tape_edge_now(a), *const other = tape_edge_now(b);
    return to->target == other->target && (to->leaf || to->output == other->output);
}

/* Fills the flow for a node of control flow: its operands are the edges behind those of the parameters. */
static void enter_flow(const TapeNode *node, const TapeBackward *call, DerivFlow *flow) {
    const int first = row_node(node)->row->n_params, n = node->n_edges - first;
    *flow = (DerivFlow){.n_results = node->n_outs};
    for (int k = 0; k < n && k < FLOW_OPERANDS; k++) {
        flow->wanted[k] = call->needs[first + k];
        flow->sums[k] = call->partial[first + k] ? &call->partial[first + k]->base : NULL;
        while (!same_place(&node->edges[first + flow->same[k]], &node->edges[first + k])) flow->same[k]++;
    }
}

static Status row_backward(TapeNode *node, TapeBackward *call) {
    const RowNode *const row = row_node(node);
    RowCall rc;
    DerivFlow flow;
    Val *wide;
    rc.results = SMALL_ARRAY(rc.few, node->n_outs);
    if (!rc.results) return ST_MEMORY;
    SMALL_ARRAY_OWNER results = {rc.few, rc.results};
    TRY(unpack(node, call, &rc));
    context_enter_scope(state_get(), CONTEXT_parts); /* which the engine closes */
    if (call->hidden) context_enter_scope(state_get(), CONTEXT_below_tape);
    memset(rc.grad_in, 0, sizeof rc.grad_in);
    gather_needs(row, call, rc.needs);
    rc.d = (Deriv){.b = eager_builder(),
                   .row = row->row,
                   .args = rc.args,
                   .results = rc.results,
                   .grad_out = (Val *const *)call->grad_out,
                   .needs = rc.needs,
                   .arg_meta = tape_arg_metas(node),
                   .result_meta = node->out_meta,
                   .grad_in = rc.grad_in,
                   .grad_list = (Val **)(call->grad_in + row->row->n_params),
                   .n_results = node->n_outs};
    if (UNLIKELY(node->class->continues)) {
        enter_flow(node, call, &flow);
        rc.d.flow = &flow;
    }
    if (UNLIKELY(row->wide != DT_default && !overwrites(row))) {
        TRY(widen(row, call, &wide));
        rc.d.grad_out = &wide;
    }
    TRY(run_rule(row, &rc.d));
    for (int i = 0; i < row->row->n_params; i++)
        if (call->needs[i]) call->grad_in[i] = (sn_tensor *)rc.grad_in[i];
    return error_pending();
}

static const TapeClass row_class = {.backward = row_backward, .drop = row_drop, .name = row_name, .saved = row_saved};
static const TapeClass flow_class = {
    .backward = row_backward, .drop = row_drop, .name = row_name, .saved = row_saved, .continues = true};

const OpRow *tape_node_row(const TapeNode *node) {
    return node->class == &row_class || node->class == &flow_class ? row_node(node)->row : NULL;
}

/* recording ----------------------------------------------------------------------------------- */

typedef struct Recording {
    OpCall *call;
    TapeNode *node;
    RowNode *row;
    uint32_t needs;           /* bits of arguments */
    const sn_tensor *written; /* in-place: self */
} Recording;

static bool list_tracked(const Arg *arg) {
    for (int k = 0; k < arg->n; k++)
        if (arg->vals[k] && tape_tracks(tensor_of(arg->vals[k]))) return true;
    return false;
}

static inline uint32_t tracked_args(const OpCall *call) {
    uint32_t bits = 0;
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const arg = &call->args[i];
        if (arg->kind == ARG_tensor)
            bits |= arg->val && tape_tracks(tensor_of(arg->val)) ? 1u << i : 0;
        else if (UNLIKELY(arg->kind == ARG_tensors))
            bits |= list_tracked(arg) ? 1u << i : 0;
    }
    return bits;
}

/* How many saved tensors the plan can come to for this call. */
static int saves_capacity(const OpCall *call, const SaveSpec *plan) {
    int n = 0;
    for (int i = 0; i < plan->n; i++) {
        const int arg = plan->items[i].arg;
        n += arg >= 0 && call->args[arg].kind == ARG_tensors ? call->args[arg].n : 1;
    }
    return n;
}

static Status make_node(Recording *r, const SaveSpec *plan) {
    const OpCall *const call = r->call;
    const int n_params = call->row->n_params, n_saved = saves_capacity(call, plan);
    const size_t fixed = sizeof(RowNode) + (size_t)n_params * sizeof(Arg) + (size_t)n_saved * sizeof(TapeSaved);
    const int n_outs = call->row->returns_list ? MAX_LIST : call->row->n_out;
    r->node = tape_node_new(call->row->flags & OPF_flow ? &flow_class : &row_class, n_params + call_list_items(call),
                            n_params, n_outs, fixed + tape_args_bytes(call->row, call->args));
    if (!r->node) return ST_MEMORY;
    RowNode *const row = r->row = tape_node_extra(r->node);
    row->row = call->row;
    row->n_saved = 0;
    row->wide = DT_default;
    row->args = (Arg *)(row + 1);
    row->saved = (TapeSaved *)(row->args + n_params);
    tape_args_copy(call->row, call->args, row->args, row->saved + n_saved);
    if (UNLIKELY(call->row->role == ROLE_storage)) row->args[3] = A_INT(tape_offset(call));
    return ST_OK;
}

static Status set_edges(Recording *r) {
    const OpCall *const call = r->call;
    int item = call->row->n_params;
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const arg = &call->args[i];
        if (arg->kind == ARG_tensor && arg->val) tape_record_meta(r->node, &tape_arg_metas(r->node)[i], arg->val->meta);
        if (r->needs >> i & 1 && arg->kind == ARG_tensor) TRY(tape_node_link(r->node, i, tensor_of(arg->val)));
        for (int k = 0; arg->kind == ARG_tensors && k < arg->n; k++)
            TRY(tape_node_link(r->node, item++, tensor_of(arg->vals[k])));
    }
    return ST_OK;
}

static Status save_value(Recording *r, sn_tensor *t, SaveItem item, int list_item) {
    TapeSaved *const saved = &r->row->saved[r->row->n_saved];
    *saved = (TapeSaved){.arg = item.arg, .result = item.result, .item = (int16_t)list_item};
    TRY(tape_save(saved, t));
    r->row->n_saved++;
    return ST_OK;
}

/* What an in-place op is about to overwrite is saved as a copy: the gradient is that of the
 * functional form [G5]. */
static Status save_argument(Recording *r, Val *val, SaveItem item, int list_item) {
    sn_tensor *t = tensor_of(val);
    if (!t) return ST_OK;
    if (LIKELY(!r->written || t->storage != r->written->storage)) return save_value(r, t, item, list_item);
    sn_state *const state = state_get();
    TRY(scope_push(state, false));
    if (LIKELY(!state->level)) context_enter_scope(state, CONTEXT_below_tape);
    sn_tensor *const copy = tape_clone(t, NULL);
    Status status = copy ? saved_hooks_copied(t, copy) : error_pending();
    if (status == ST_OK) status = save_value(r, copy, item, list_item);
    scope_pop(state);
    return status;
}

static Status save_arguments(Recording *r, const SaveSpec *plan) {
    for (int i = 0; i < plan->n; i++) {
        const SaveItem item = plan->items[i];
        if (item.arg < 0 || !is_due(&item, r->needs)) continue;
        const Arg *const arg = &r->call->args[item.arg];
        if (arg->kind == ARG_tensor) TRY(save_argument(r, arg->val, item, -1));
        for (int k = 0; arg->kind == ARG_tensors && k < arg->n; k++) TRY(save_argument(r, arg->vals[k], item, k));
    }
    return ST_OK;
}

/* A saved result is another handle of its data, without history: else the node would hold itself. */
static Status save_results(Recording *r, const SaveSpec *plan) {
    for (int i = 0; i < plan->n; i++) {
        const SaveItem item = plan->items[i];
        if (item.result < 0 || !is_due(&item, r->needs) || item.result >= r->call->n_outs) continue;
        sn_tensor *const t = r->call->outs[item.result];
        sn_tensor *const alias = t ? tensor_alias(t) : NULL;
        if (!alias) return error_pending();
        TapeSaved *const saved = &r->row->saved[r->row->n_saved++];
        *saved =
            (TapeSaved){.tensor = alias, .version = tensor_version(t), .arg = -1, .item = -1, .result = item.result};
    }
    return ST_OK;
}

static bool differentiable(const OpRow *row) { return !(row->flags & OPF_nodiff); }

/* Does an operand have another float dtype, or does the call ask for one: cumsum_(x, 0, dtype=bf16)? */
static bool mixes_floats(const OpCall *call, DType dtype) {
    for (int i = 1; i < call->row->n_params; i++) {
        const Arg *const a = &call->args[i];
        if (call->row->params[i].type == PT_dtype_opt && a->kind == ARG_int && a->i != dtype) return true;
        const bool tensor = a->kind == ARG_tensor && a->val;
        if (tensor && dtype_is_float(a->val->meta->dtype) && a->val->meta->dtype != dtype) return true;
    }
    return false;
}

static Status record_wide(Recording *r) {
    const DType dtype = r->written->base.meta->dtype;
    if (LIKELY(!mixes_floats(r->call, dtype)) || !differentiable(r->call->row)) return ST_OK;
    OpCall functional = *r->call;
    functional.form = FORM_functional;
    MetaOut result;
    int n = 1;
    const Status status = call_metas(&functional, 0, &result, &n);
    if (status == ST_OK && result.dtype != dtype) r->row->wide = result.dtype;
    if (status == ST_OK || status == ST_MEMORY) return status;
    error_clear(); /* what is wrong the call itself says, by the name of its form */
    return ST_OK;
}

static Status attach_results(Recording *r) {
    r->node->n_outs = r->call->n_outs;
    for (int i = 0; i < r->call->n_outs; i++) {
        sn_tensor *const t = r->call->outs[i];
        if (!t) continue;
        tape_record_meta(r->node, &r->node->out_meta[i], t->base.meta);
        if (!result_has_gradient(t->base.meta)) continue;
        TRY(r->written ? tape_attach_written(t, r->node) : tape_attach(t, r->node, i));
    }
    return ST_OK;
}

/* Notes the generator for a node of control flow: backward runs the bodies again, with the numbers that they now
 * draw. */
static void record_generator(const Recording *r) {
    const OpRow *const row = r->call->row;
    const sn_state *const state = state_get();
    if (LIKELY(!(row->flags & OPF_flow))) return;
    r->row->args[op_param_find(row, "seed")] = A_INT((int64_t)state->seed);
    r->row->args[op_param_find(row, "number")] = A_INT((int64_t)state->sequence);
}

static Status record_into(Recording *r, const SaveSpec *plan) {
    record_generator(r);
    TRY(set_edges(r));
    TRY(save_arguments(r, plan));
    if (r->written) TRY(record_wide(r));
    TRY(redispatch(r->call));
    TRY(attach_results(r));
    TRY(save_results(r, plan));
    r->node->saves = r->row->n_saved > 0;
    sn_state *const state = state_get();
    if (UNLIKELY(state->include & KEY_BIT(anomaly))) tape_site_record(state, r->node);
    if (UNLIKELY(state->saved_hooks != NULL) && !state->level)
        TRY(saved_hooks_pack(state->saved_hooks, r->row->saved, r->row->n_saved, r->node));
    return r->call->row->kind == KIND_view ? tape_view_record(r->call) : ST_OK;
}

Status tape_record(const OpRow *row, const Arg *args, sn_tensor **outs, int n_outs, uint64_t sequence) {
    OpCall call = {.row = row->alias_of ? row->alias_of : row,
                   .form = FORM_functional,
                   .args = args,
                   .outs = outs,
                   .n_outs = n_outs};
    Recording r = {.call = &call, .needs = tracked_args(&call)};
    if (!r.needs) return ST_OK;
    SaveSpec buffer;
    const SaveSpec *const plan = plan_of(call.row, &buffer);
    TRY(make_node(&r, plan));
    r.node->sequence = sequence;
    Status status = set_edges(&r);
    if (status == ST_OK) status = save_arguments(&r, plan);
    if (status == ST_OK) status = attach_results(&r);
    if (status == ST_OK) status = save_results(&r, plan);
    struct SavedHooks *const hooks = state_get()->saved_hooks;
    if (status == ST_OK && hooks) status = saved_hooks_pack(hooks, r.row->saved, r.row->n_saved, r.node);
    r.node->saves = r.row->n_saved > 0;
    tape_node_release(r.node);
    return status;
}

static Status record_op(OpCall *call, uint32_t needs) {
    Recording r = {.call = call, .needs = needs};
    if (call->form == FORM_inplace) {
        r.written = tensor_of(call->args[0].val);
        TRY(tape_check_inplace(r.written));
    } else if (call->form == FORM_out) {
        return error_raise(ST_UNSUPPORTED,
                           "an argument requires gradients, and out forms record none; use the functional form");
    }
    SaveSpec buffer;
    const SaveSpec *const plan = plan_of(call->row, &buffer);
    TRY(make_node(&r, plan));
    const Status status = record_into(&r, plan);
    tape_node_release(r.node);
    return status;
}

/* the kernel ---------------------------------------------------------------------------------- */

static bool writes_tracked(const OpCall *call) {
    for (int i = 0; call->out_args && i < call->row->n_out; i++)
        if (call->out_args[i] && tape_tracks(call->out_args[i])) return true;
    return false;
}

static Status record_user_op(OpCall *call, uint32_t needs) {
    WrittenArgs written;
    TRY(tape_written_begin(call, &written));
    TRY(record_op(call, needs));
    return tape_written_end(call, &written);
}

static Status run_kernel(OpCall *call) {
    const bool on = state_get()->grad_mode == SN_GRAD_ON;
    const uint32_t tracked = on ? tracked_args(call) : 0;
    const uint32_t needs = UNLIKELY(tracked) ? op_recorded(call->row, call->form, 0, tracked) : 0;
    if (UNLIKELY(needs && call->row->flags & OPF_user)) return record_user_op(call, needs);
    if (UNLIKELY(needs)) return record_op(call, needs);
    if (UNLIKELY(on && call->form == FORM_out && writes_tracked(call))) return record_op(call, needs);
    TRY(redispatch(call));
    return UNLIKELY(call->row->kind == KIND_view) ? tape_view_record(call) : ST_OK;
}

/* While tensors are tracked, where histories end is noted. */
static COLD Status run_watched(OpCall *call) {
    const CutWatch before = gradient_cut_before(call);
    TRY(run_kernel(call));
    const uint32_t tracked = before.grad_on ? before.tracked : 0;
    gradient_cut_after(call, &before, tracked && op_recorded(call->row, call->form, 0, tracked));
    return ST_OK;
}

Status tape_kernel(OpCall *call) { return UNLIKELY(tracking_is_on()) ? run_watched(call) : run_kernel(call); }

/* As in PyTorch in every mode: a history does not know of other sizes. */
static Status kernel_resizes(OpCall *call) {
    const bool written = call->form == FORM_inplace;
    if (tape_tracks(tensor_of(call->args[0].val)) && (written || state_get()->grad_mode == SN_GRAD_ON))
        return error_raise(ST_UNSUPPORTED, "%s: a tensor that requires gradients cannot be resized",
                           op_form_name(call->row, call->form));
    return redispatch(call);
}

Status tape_dispatch(const OpRow *row, OpForm form, const Arg *args, sn_tensor **outs) {
    sn_state *const state = state_get();
    if (UNLIKELY(state->level != NULL)) return dispatch(row, form, args, NULL, outs);
    const ContextSaved saved = context_enter(state, CONTEXT_tape);
    const Status status = dispatch(row, form, args, NULL, outs);
    context_leave(&saved);
    return status;
}

static Status copy_into(sn_tensor *to, sn_tensor *from) {
    sn_tensor *written;
    return tape_dispatch(OP_ROW(copy), FORM_inplace, (const Arg[]){V(&to->base), V(&from->base), A_BOOL(false)},
                         &written);
}

static bool has_gaps(const Meta *meta) { return meta_bytes(meta) > (size_t)(meta->numel * dtype_bytes(meta->dtype)); }

/* Of a handle of a level, by an op, which passes through the levels. */
static COLD sn_tensor *clone_handle(sn_tensor *t, const Meta *meta) {
    if (!meta || meta->contiguous) return tensor_of(E(eager_builder(), clone, V(&t->base), A_NONE));
    error_raise(ST_UNSUPPORTED, "a view by strides would be written in place inside of a function's transform");
    return NULL;
}

sn_tensor *tape_clone(sn_tensor *t, const Meta *meta) {
    const Meta *const from = t->base.meta;
    if (UNLIKELY(tensor_is_batched(t))) return clone_handle(t, meta);
    if (!meta) meta = meta_intern_contiguous(from->dtype, from->device, from->sizes, from->rank);
    if (UNLIKELY(tensor_is_fake(t))) return tensor_fake(meta);
    sn_tensor *const copy = !meta ? NULL : has_gaps(meta) ? tensor_new_zero(meta) : tensor_new(meta);
    return copy && copy_into(copy, t) == ST_OK ? copy : NULL;
}

Status tape_fill(sn_tensor *t, double value) {
    const Arg number = A_FLOAT(value);
    sn_tensor *written;
    if (UNLIKELY(tensor_is_batched(t)))
        return dispatch(OP_ROW(fill_Scalar), FORM_inplace, (const Arg[]){V(&t->base), number}, NULL, &written);
    sn_tensor *const scalar = tensor_scalar(&number, t->base.meta->dtype);
    return scalar ? copy_into(t, scalar) : error_pending();
}

void tape_start(void) {
    for (int i = 0; i < op_row_count(); i++) {
        const OpRow *const row = op_row_at(i);
        if (!row->alias_of) saves_parse(row, &plans[row->id]);
        if (row->role == ROLE_resizes) dispatch_register(row, KEY_autograd, kernel_resizes);
    }
    dispatch_fallback(KEY_autograd, tape_kernel);
}
