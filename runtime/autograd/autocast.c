/* autocast.c: the key autocast: casts the tensors of a call by its row's policy (ir/ops/autocast.def), and passes
 * the call on [semantics T8, G6].
 *
 *   linear(x f32, w f32, b f32)  in a region of bf16
 *     autocast   _to_copy(x, bf16), _to_copy(w, bf16), _to_copy(b, bf16): ops like any other
 *     capture    linear of the casts and its parts are recorded
 *     autograd   ... or run, and the tape has the casts
 *
 * Below this key the call's parts see no autocast: a policy is that of the whole op. What writes (in-place and out
 * forms) is passed on as it is. A program's op without a policy passes through: its parts have theirs. */
#include "runtime/autograd/autocast.h"

#include "runtime/autograd/saved_hooks.h"
#include "runtime/autograd/tape.h"
#include "runtime/base/alloc.h"
#include "runtime/core/autocast.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/custom_op.h"
#include "runtime/core/tracer.h"

typedef struct Casting {
    sn_state *state;
    const OpCall *call;
    Key backend;
    DType lower;
    Arg args[MAX_ARGS];
    Val **lists; /* of list arguments; owned */
} Casting;

/* Numbers that stand for tensors take part in promotion as they are. */
static bool is_eligible(const Casting *c, const Val *val) {
    if (!val || val->meta->wrapped || !dtype_is_float(val->meta->dtype) || val->meta->dtype == DT_f64) return false;
    return key_of_device(val->meta->device) >> c->backend & 1;
}

static bool differs(const Casting *c, const Val *val, DType to) {
    return is_eligible(c, val) && val->meta->dtype != to;
}

/* one cast ------------------------------------------------------------------------------------ */

static sn_tensor *cast(sn_tensor *t, DType to) {
    return tensor_of(E(eager_builder(), _to_copy, A_VAL(&t->base), A_INT(to)));
}

static bool is_captured(const sn_state *state) { return state->include & ~state->exclude & KEY_BIT(capture); }

/* A parameter that eager ops use. Each use has a cast of its own in a captured body, where cse merges them; in a region
 * (region.h) that is told what to save, for casts are among the ops that it is told of; and inside of a transform, for
 * what the body is given there are handles of a level, without memory. */
static bool is_cacheable(const Casting *c, const sn_tensor *t, DType to) {
    return !tensor_is_batched(t) && to == c->lower && t->base.meta->dtype == DT_f32 && tape_is_wanted_leaf(t) &&
           !t->autograd->view && !t->placeholder && c->state->grad_mode != SN_INFERENCE && !is_captured(c->state) &&
           !(UNLIKELY(c->state->saved_hooks != NULL) && saved_hooks_choose());
}

/* The cast without history: whoever uses it records one. */
static sn_tensor *cast_to_cache(sn_state *state, sn_tensor *leaf, DType to) {
    const ContextSaved saved = context_enter(state, CONTEXT_kept_cast);
    sn_tensor *const value = cast(leaf, to);
    context_leave(&saved);
    if (!value) return NULL;
    state->casts.made++;
    autocast_cache(state, leaf, value);
    return value;
}

static sn_tensor *shared_cast(Casting *c, sn_tensor *leaf, DType to) {
    sn_state *const state = c->state;
    sn_tensor *const cached = autocast_cached(state, leaf, to);
    sn_tensor *const value = cached ? cached : cast_to_cache(state, leaf, to);
    if (cached) state->casts.shared++;
    const OpRow *const row = OP_ROW(_to_copy);
    if (!value || saved_hooks_shared(row, leaf, value) != ST_OK) return NULL;
    if (state->grad_mode != SN_GRAD_ON) return value;
    sn_tensor *use = tensor_view(value, value->base.meta, value->offset);
    if (!use) return NULL;
    const Arg given[] = {A_VAL(&leaf->base), A_INT(to)};
    Arg args[MAX_ARGS];
    if (op_args_normalize(row, given, COUNT_OF(given), args) != ST_OK) return NULL;
    return tape_record(row, args, &use, 1, state->tape.sequence + 1) == ST_OK ? use : NULL;
}

static Val *cast_one(Casting *c, Val *val, DType to) {
    if (!differs(c, val, to)) return val;
    sn_tensor *const t = tensor_of(val);
    if (is_cacheable(c, t, to)) return (Val *)shared_cast(c, t, to);
    c->state->casts.made += !is_captured(c->state);
    return (Val *)cast(t, to);
}

/* arguments ----------------------------------------------------------------------------------- */

static Status cast_list(Casting *c, Arg *arg, Val **buffer, DType to) {
    for (int k = 0; k < arg->n; k++) {
        buffer[k] = cast_one(c, arg->vals[k], to);
        if (!buffer[k] && arg->vals[k]) return error_pending();
    }
    arg->vals = buffer;
    return ST_OK;
}

static Status cast_args(Casting *c, DType to) {
    const int items = call_list_items(c->call);
    if (items && !(c->lists = mem_alloc((size_t)items * sizeof *c->lists))) return ST_MEMORY;
    Val **buffer = c->lists;
    for (int i = 0; i < c->call->row->n_params; i++) {
        Arg *const arg = &c->args[i];
        if (arg->kind == ARG_tensors) {
            TRY(cast_list(c, arg, buffer, to));
            buffer += arg->n;
        }
        if (arg->kind != ARG_tensor || !arg->val) continue;
        if (!(arg->val = cast_one(c, arg->val, to))) return error_pending();
    }
    return ST_OK;
}

/* Calls visit(c, val, word) for every tensor of the call until one is true. */
static bool any_tensor(const Casting *c, bool (*visit)(const Casting *c, const Val *val, DType to), DType to) {
    for (int i = 0; i < c->call->row->n_params; i++) {
        const Arg *const arg = &c->call->args[i];
        if (arg->kind == ARG_tensor && visit(c, arg->val, to)) return true;
        for (int k = 0; arg->kind == ARG_tensors && k < arg->n; k++)
            if (visit(c, arg->vals[k], to)) return true;
    }
    return false;
}

static DType target(const Casting *c) {
    const CastPolicy policy = c->call->row->autocast;
    if (policy == CAST_promote) return any_tensor(c, differs, c->lower) ? DT_f32 : c->lower;
    return policy == CAST_lower ? c->lower : DT_f32;
}

/* The dtype parameter, where the call names none and its first tensor would be widened. */
static int open_dtype(const Casting *c) {
    const OpRow *const row = c->call->row;
    const Arg *const self = &c->call->args[0];
    if (self->kind != ARG_tensor || !differs(c, self->val, DT_f32)) return -1;
    int i = row->n_params;
    while (--i >= 0 && row->params[i].type != PT_dtype_opt) {}
    return i >= 0 && c->call->args[i].kind == ARG_none ? i : -1;
}

/* calls --------------------------------------------------------------------------------------- */

/* Below this key: the next step of a captured body, or the keys that are left. */
static Status pass_on(sn_state *state, OpCall *call) {
    Status status;
    if (tracer_follow(state, call, &status)) return status;
    return redispatch(call);
}

static Status pass_below(sn_state *state, OpCall *call) {
    __attribute__((cleanup(context_leave), unused)) const ContextSaved saved = context_enter(state, CONTEXT_parts);
    return pass_on(state, call);
}

static Status call_cast(Casting *c, OpCall *call) {
    OpCall inner = *call;
    inner.args = c->args;
    TRY(cast_args(c, target(c)));
    const Status status = pass_on(c->state, &inner);
    call->n_outs = inner.n_outs;
    return status;
}

/* Casts are temporaries of a scope of their own, which also brings the key back. */
static Status run_cast(Casting *c, OpCall *call) {
    sn_state *const state = c->state;
    const uint32_t depth = state->n_scopes;
    TRY(scope_push(state, false));
    context_enter_scope(state, CONTEXT_parts);
    memcpy(c->args, call->args, sizeof *c->args * (size_t)call->row->n_params);
    const Status status = call_cast(c, call);
    for (int i = 0; status != ST_OK && i < call->row->n_out; i++) call->outs[i] = NULL;
    scope_pop_passing(state, depth, call->outs, status == ST_OK ? call->n_outs : 0);
    return status;
}

static Status run_with_dtype(Casting *c, OpCall *call, int param) {
    OpCall inner = *call;
    memcpy(c->args, call->args, sizeof *c->args * (size_t)call->row->n_params);
    c->args[param] = A_INT(DT_f32);
    inner.args = c->args;
    return pass_below(c->state, &inner);
}

static Status run_policy(Casting *c, OpCall *call) {
    if (call->row->autocast == CAST_f32_dtype) {
        const int param = open_dtype(c);
        return param >= 0 ? run_with_dtype(c, call, param) : pass_below(c->state, call);
    }
    return any_tensor(c, differs, target(c)) ? run_cast(c, call) : pass_below(c->state, call);
}

static void casting_end(const Casting *c) { mem_free(c->lists); }

static Status autocast_op(OpCall *call) {
    sn_state *const state = state_get();
    const uint64_t backends = call->keys & KEYS_BACKEND;
    const Key backend = backends ? (Key)(63 - __builtin_clzll(backends)) : KEY_none;
    const DType lower = backend ? autocast_dtype(state->autocast, backend) : DT_default;
    if (lower == DT_default) return redispatch(call);
    if (call->form != FORM_functional) return pass_below(state, call);
    if (call->row->autocast == CAST_none) return op_dynamic(call->row) ? redispatch(call) : pass_below(state, call);
    __attribute__((cleanup(casting_end)))
    Casting c = {.state = state, .call = call, .backend = backend, .lower = lower};
    return run_policy(&c, call);
}

void autocast_start(void) { dispatch_fallback(KEY_autocast, autocast_op); }
