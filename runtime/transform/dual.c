/* dual.c: a level of tangents: what an op does there, and a run of a body. A handle's tangent lies where a leaf's .grad
 * does. In place is the functional form, written into the tensor and its tangent. */
#include "runtime/transform/dual.h"

#include "runtime/autograd/tape.h"
#include "runtime/base/alloc.h"
#include "runtime/transform/level_flow.h"

static sn_tensor *tangent_of(const Level *level, const Val *val) {
    return level_inner(level, val) ? tape_grad((const sn_tensor *)val) : NULL;
}

static Status set_tangent(sn_tensor *t, sn_tensor *tangent) {
    if (!tangent) return ST_OK;
    if (!tape_meta(t)) return ST_MEMORY;
    tape_grad_replace(t, tangent);
    return ST_OK;
}

/* an op --------------------------------------------------------------------------------------- */

typedef struct DualOp {
    OpCall *call;
    const Level *level;
    LevelArgs a;          /* what the handles stand for */
    sn_tensor **tangents; /* by argument and item */
    sn_tensor *outs[MAX_LIST], *tangent[MAX_LIST];
    int n;
} DualOp;

static void op_end(DualOp *op) {
    level_args_end(&op->a);
    mem_free(op->tangents);
}

/* Whether there are any. */
static Status collect_tangents(DualOp *op, bool *any) {
    const OpCall *const call = op->call;
    int item = call->row->n_params;
    op->tangents = mem_zero(sizeof *op->tangents * (size_t)(item + call_list_items(call) + 1));
    if (!op->tangents) return ST_MEMORY;
    *any = false;
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const arg = &call->args[i];
        if (arg->kind == ARG_tensor && arg->val) op->tangents[i] = tangent_of(op->level, arg->val);
        *any |= op->tangents[i] != NULL;
        for (int k = 0; arg->kind == ARG_tensors && k < arg->n; k++, item++) {
            if (arg->vals[k]) op->tangents[item] = tangent_of(op->level, arg->vals[k]);
            *any |= op->tangents[item] != NULL;
        }
    }
    return ST_OK;
}

static const sn_tensor *bottom_of(const sn_tensor *t) {
    while (tensor_is_batched(t)) t = t->inner;
    return t;
}

/* What is not computed yet may be a view. */
static bool may_share(const sn_tensor *a, const sn_tensor *b) {
    const sn_tensor *const x = bottom_of(a), *const y = bottom_of(b);
    return a == b || !x->storage || !y->storage || x->storage == y->storage;
}

static bool same_layout(const Meta *a, const Meta *b) {
    for (int d = 0; d < a->rank; d++)
        if (a->strides[d] != b->strides[d]) return false;
    return true;
}

/* The tangent in memory of its own, laid out as x, so that views of one are views of the other. No gradient of it goes
 * to x, not even zeros: in a graph there are more such copies than in eager, which would turn a -0. */
static sn_tensor *laid_out(sn_tensor *x, sn_tensor *tangent) {
    Builder *const b = eager_builder();
    return tensor_of(E(b, copy, V(E(b, detach, V(&x->base))), V(&tangent->base), A_BOOL(0)));
}

/* A tangent has memory of its own, as its tensor has: what is written in place is no other's. */
static Status unshare(DualOp *op) {
    const int n = op->call->row->n_params + call_list_items(op->call);
    for (int k = 0; k < op->n && op->call->row->kind != KIND_view; k++) {
        bool shared = op->tangent[k] && !same_layout(op->outs[k]->base.meta, op->tangent[k]->base.meta);
        for (int i = 0; i < n && op->tangent[k]; i++)
            shared |= op->tangents[i] && may_share(op->tangents[i], op->tangent[k]);
        if (!shared) continue;
        if (!(op->tangent[k] = laid_out(op->outs[k], op->tangent[k]))) return error_pending();
    }
    return ST_OK;
}

/* Results and tangents, a level further out; both pass to the caller's scope. */
static Status run_functional(DualOp *op) {
    sn_state *const state = state_get();
    const OpRow *const row = op->call->row;
    const uint32_t depth = state->n_scopes;
    sn_tensor *passing[2 * MAX_OUTS];
    TRY(level_args_map(&op->a, op->call, op->level, level_unwrap));
    TRY(scope_push(state, false));
    level_leave(state, op->level);
    op->n = row->n_out;
    Status status = row->returns_list ? dispatch_list(row, op->a.args, op->outs, &op->n)
                                      : dispatch(row, FORM_functional, op->a.args, NULL, op->outs);
    if (status == ST_OK)
        status = dual_tangents(&(DualCall){row, op->a.args, op->tangents, op->outs, op->n}, op->tangent);
    if (status == ST_OK) status = unshare(op);
    sn_tensor **const all = 2 * op->n <= 2 * MAX_OUTS ? passing : mem_alloc(sizeof *all * 2 * (size_t)op->n);
    if (!all) status = ST_MEMORY;
    for (int k = 0; k < op->n && status == ST_OK; k++) all[k] = op->outs[k], all[op->n + k] = op->tangent[k];
    scope_pop_passing(state, depth, all, status == ST_OK ? 2 * op->n : 0);
    if (all != passing) mem_free(all);
    return status;
}

static Status set_dual_results(DualOp *op) {
    TRY(level_wrap_results(op->call, op->level, op->outs, op->n));
    for (int k = 0; k < op->n; k++)
        if (op->call->outs[k]) TRY(set_tangent(op->call->outs[k], op->tangent[k]));
    return ST_OK;
}

/* `to` at this level's outside. */
static Status copy_outside(const Level *level, sn_tensor *to, sn_tensor *from) {
    sn_state *const state = state_get();
    sn_tensor *written;
    TRY(scope_push(state, false));
    level_leave(state, level);
    const Arg args[] = {A_VAL(&to->base), A_VAL(&from->base), A_BOOL(0)};
    const Status status = dispatch(OP_ROW(copy), FORM_inplace, args, NULL, &written);
    scope_pop(state);
    return status;
}

/* It has views, or is one: their tangents lie in the same memory. */
static bool has_views(const sn_tensor *t) { return atomic_load(&t->storage->refs) > 1; }

static Status zero_tangent(const Level *level, sn_tensor *t) {
    sn_state *const state = state_get();
    sn_tensor *const tangent = tape_grad(t), *written;
    if (!tangent) return ST_OK;
    if (!has_views(t)) return tape_grad_replace(t, NULL), ST_OK;
    TRY(scope_push(state, false));
    level_leave(state, level);
    const Arg args[] = {A_VAL(&tangent->base), A_FLOAT(0)};
    const Status status = dispatch(OP_ROW(fill_Scalar), FORM_inplace, args, NULL, &written);
    scope_pop(state);
    return status;
}

/* Another tangent. Where there was none, views, or what it is a view of, would have to have one, too. */
static Status new_tangent(DualOp *op, sn_tensor *self) {
    const sn_tensor *const out = op->outs[0];
    if (has_views(self))
        return error_raise(
            ST_UNSUPPORTED,
            "%s: inside of sn_func_jvp a tensor that has views, or is one, and no tangent yet, would get "
            "one in place; the functional form gives it",
            op_form_name(op->call->row, op->call->form));
    if (self->base.meta->dtype == out->base.meta->dtype) return set_tangent(self, op->tangent[0]);
    sn_state *const state = state_get();
    TRY(scope_push(state, false));
    level_leave(state, op->level);
    sn_tensor *const cast =
        tensor_of(E(eager_builder(), _to_copy, V(&op->tangent[0]->base), A_INT(self->base.meta->dtype)));
    const Status status = cast ? set_tangent(self, cast) : error_pending();
    scope_pop(state);
    return status;
}

static Status write_self(DualOp *op) {
    sn_tensor *const self = tensor_of(op->call->args[0].val), *const tangent = tape_grad(self);
    TRY(run_functional(op));
    TRY(copy_outside(op->level, self->inner, op->outs[0]));
    if (!op->tangent[0])
        TRY(zero_tangent(op->level, self));
    else if (tangent && has_views(self))
        TRY(copy_outside(op->level, tangent, op->tangent[0]));
    else
        TRY(new_tangent(op, self));
    tensor_written(self);
    op->call->outs[0] = self;
    op->call->n_outs = 1;
    return ST_OK;
}

/* Values alone: no tensor of the call has a tangent, or none comes out. */
static Status run_values(DualOp *op) {
    OpCall *const call = op->call;
    TRY(level_run_inner(call, op->level, op->outs, &op->n));
    TRY(level_wrap_results(call, op->level, op->outs, op->n));
    if (call->form == FORM_functional) return ST_OK;
    for (int i = 0; i < level_n_written(call); i++) TRY(zero_tangent(op->level, call_written(call, i)));
    return ST_OK;
}

static Status refuse_out(const OpCall *call) {
    return error_raise(ST_UNSUPPORTED,
                       "%s: an argument has a tangent, and this form gives none; use the functional form",
                       op_form_name(call->row, call->form));
}

static Status call_dual(DualOp *op) {
    OpCall *const call = op->call;
    bool any = false;
    TRY(collect_tangents(op, &any));
    const bool nodiff = call->row->flags & OPF_nodiff;
    if (!any || nodiff) return run_values(op);
    if (call->row->flags & OPF_flow) return dual_flow(call);
    if (call->form == FORM_out || (call->form == FORM_inplace && call->row->role == ROLE_resizes))
        return refuse_out(call);
    if (!dual_has_rule(call->row)) return composite_expand(call, call->args, NULL, NULL);
    if (call->form == FORM_inplace) return write_self(op);
    TRY(run_functional(op));
    return set_dual_results(op);
}

Status dual_op(OpCall *call, const Level *level) {
    sn_state *const state = state_get();
    const uint32_t depth = state->n_scopes;
    if (call->form == FORM_inplace && call->row->kind == KIND_view)
        return error_raise(ST_UNSUPPORTED, "%s: not inside of sn_func_jvp; the functional form gives a view",
                           op_form_name(call->row, call->form));
    TRY(level_check_targets(call, level));
    DualOp *const op = mem_zero(sizeof *op);
    if (!op) return ST_MEMORY;
    op->call = call;
    op->level = level;
    Status status = scope_push(state, false);
    if (status == ST_OK) {
        status = call_dual(op);
        scope_pop_passing(state, depth, call->outs, status == ST_OK ? call->n_outs : 0);
    }
    op_end(op);
    mem_free(op);
    return status;
}

/* a run of a body ----------------------------------------------------------------------------- */

static Status check_tangent(const DualSpec *spec, int i) {
    const sn_tensor *const x = spec->in[i], *const t = spec->tangents[i];
    if (!x) return error_raise(ST_ARGUMENT, "%s: input %d, which has a tangent, is NULL", spec->what, i);
    const Meta *const a = x->base.meta, *const b = t->base.meta;
    if (!dtype_is_float(a->dtype))
        return error_raise(ST_DTYPE, "%s: input %d is %s; only floats have tangents", spec->what, i,
                           dtype_name(a->dtype));
    if (meta_same_sizes(a, b) && a->dtype == b->dtype) return ST_OK;
    Text text = {0};
    meta_print(NULL, &text, b);
    text_puts(&text, ", the input ");
    meta_print(NULL, &text, a);
    const Status status = error_raise(ST_SHAPE, "%s: the tangent of input %d is %s", spec->what, i, text_str(&text));
    text_free(&text);
    return status;
}

static Status wrap_inputs(const DualSpec *spec, const Level *level, Arg *in) {
    for (int i = 0; i < spec->n_in; i++) {
        in[i] = arg_tensor_opt(spec->in[i]);
        if (!spec->tangents[i]) continue;
        TRY(check_tangent(spec, i));
        sn_tensor *const handle = level_input(level, spec->in[i]);
        if (!handle) return ST_MEMORY;
        sn_tensor *t = spec->tangents[i];
        if (!same_layout(spec->in[i]->base.meta, t->base.meta) && !(t = laid_out(spec->in[i], t)))
            return error_pending();
        TRY(set_tangent(handle, t));
        in[i] = A_VAL(&handle->base);
    }
    return ST_OK;
}

static Status unwrap_output(const DualSpec *spec, const Level *level, int i) {
    sn_tensor *const y = spec->outs[i], *const value = level_outside(level, y);
    spec->outs[i] = value;
    TRY(level_adopt(value));
    if (i >= spec->n_tangents) return ST_OK;
    if (!dtype_is_float(value->base.meta->dtype))
        return error_raise(ST_DTYPE, "%s: output %d is %s; only floats have tangents", spec->what, i,
                           dtype_name(value->base.meta->dtype));
    sn_tensor *tangent = tangent_of(level, &y->base);
    if (!tangent)
        tangent = tensor_of(E(eager_builder(), zeros_like, V(&value->base), A_NONE, A_NONE, A_NONE, A_NONE, A_NONE));
    if (!tangent) return error_pending();
    spec->tangent[i] = tangent;
    return level_adopt(tangent);
}

static Status run_dual(const DualSpec *spec, Arg *in) {
    sn_state *const state = state_get();
    Level level = level_new(state, LEVEL_dual);
    sn_frame frame = {.what = spec->what,
                      .closure = spec->closure,
                      .in = in,
                      .n_in = spec->n_in,
                      .out = spec->outs,
                      .n_out = spec->n_outs};
    TRY(wrap_inputs(spec, &level, in));
    TRY(level_run(state, &level, &frame, spec->body));
    for (int i = 0; i < spec->n_outs; i++) TRY(unwrap_output(spec, &level, i));
    return ST_OK;
}

Status dual_run(const DualSpec *spec) {
    sn_state *const state = state_get();
    const uint32_t depth = state->n_scopes;
    const int n = spec->n_outs + spec->n_tangents;
    Arg *const in = mem_zero(sizeof *in * (size_t)(spec->n_in + 1));
    sn_tensor **const results = mem_zero(sizeof *results * (size_t)(n + 1));
    Status status = in && results ? scope_push(state, false) : ST_MEMORY;
    if (status == ST_OK) {
        status = run_dual(spec, in);
        memcpy(results, spec->outs, sizeof *results * (size_t)spec->n_outs);
        memcpy(results + spec->n_outs, spec->tangent, sizeof *results * (size_t)spec->n_tangents);
        scope_pop_passing(state, depth, results, status == ST_OK ? n : 0);
    }
    mem_free(results);
    mem_free(in);
    return status;
}
