/* capture_backward.c: sn_backward inside a compiled function becomes one node, sn::gradients(roots,
 * grads, leaves), and the accumulation into .grad slots ordinary ops: a slot that is empty takes
 * the result itself, a full one is read, added to and written, as the engine does it in eager
 * [semantics G4]. */
#include "runtime/capture.h"

#include "runtime/tape.h"

enum { MAX_LEAVES = 1024 };

Status gradients_run(const Arg *args, sn_tensor **outs) {
    sn_tensor *roots[MAX_LEAVES], *grads[MAX_LEAVES], *xs[MAX_LEAVES];
    const Arg *const r = &args[0], *const g = &args[1], *const x = &args[2];
    if (r->n > MAX_LEAVES || x->n > MAX_LEAVES)
        return error_raise(ST_UNSUPPORTED, "sn::gradients: too many tensors");
    for (int i = 0; i < r->n; i++) {
        roots[i] = tensor_of(r->vals[i]);
        grads[i] = i < g->n && g->kind == ARG_tensors ? tensor_of(g->vals[i]) : NULL;
    }
    for (int i = 0; i < x->n; i++) xs[i] = tensor_of(x->vals[i]);
    const TapeRun run = {.roots = roots,
                         .grads = grads,
                         .n_roots = r->n,
                         .xs = xs,
                         .n_xs = x->n,
                         .out = outs,
                         .flags = TAPE_allow_unused};
    return tape_run(&run);
}

/* Leaves that the roots reach through the pending ops, in the order of the trace's inputs. False:
 * the history goes on outside of the segment, or an op on the way is not differentiable by rule. */
static bool pending_leaves(const Trace *trace, const TapeRun *run, sn_tensor **leaves, int *n) {
    Arena *const arena = trace->capture->arena;
    bool *const reached = ARENA_ARRAY(arena, bool, trace->values.n + 1);
    bool *const touched = ARENA_ARRAY(arena, bool, trace->inputs.n + 1);
    if (!reached || !touched) return false;
    for (int i = 0; i < run->n_roots; i++) {
        const struct Placeholder *const p = run->roots[i]->placeholder;
        if (!p || p->trace != trace) return false;
        reached[p->value] = true;
    }
    for (int o = trace->ops.n - 1; o >= 0; o--) {
        const TraceOp *const op = &trace->ops.at[o];
        bool any = op->form != FORM_functional;
        for (int i = 0; i < op->n_outs; i++) any |= reached[op->first_value + i];
        if (!any || op->modes || op->row->flags & OPF_nodiff || op->row->id == OP_detach) continue;
        for (int i = 0; i < op->n_operands; i++) {
            if (op->operands[i] == OPERAND_ABSENT) continue;
            if (operand_is_input(op->operands[i]))
                touched[operand_input(op->operands[i])] = true;
            else
                reached[op->operands[i]] = true;
        }
    }
    for (int i = 0; i < trace->inputs.n; i++) {
        const TraceInput *const in = &trace->inputs.at[i];
        if (!touched[i] || !in->requires_grad) continue;
        if (!in->is_leaf || in->tensor->autograd->hooks || *n == MAX_LEAVES) return false;
        leaves[(*n)++] = in->tensor;
    }
    return *n > 0;
}

static Status accumulate(sn_tensor *leaf, sn_tensor *grad) {
    sn_tensor *const old = tape_grad(leaf);
    if (!old) return tape_grad_set(leaf, grad);
    const Arg args[] = {A_VAL(&old->base), A_VAL(&grad->base), A_INT(1)};
    sn_tensor *sum;
    return dispatch(op_row(OP_add_Tensor), FORM_inplace, args, NULL, &sum);
}

static Status record(Capture *c, const TapeRun *run, sn_tensor **leaves, int n) {
    Val **const roots = ARENA_ARRAY(c->arena, Val *, run->n_roots),
                **const grads = ARENA_ARRAY(c->arena, Val *, run->n_roots);
    Val **const xs = ARENA_ARRAY(c->arena, Val *, n);
    sn_tensor **const outs = ARENA_ARRAY(c->arena, sn_tensor *, n);
    if (!roots || !grads || !xs || !outs) return ST_MEMORY;
    sn_state *const state = state_get();
    const sn_grad_mode mode = state->grad_mode;
    state->grad_mode = SN_GRAD_OFF;
    for (int i = 0; i < run->n_roots; i++) {
        roots[i] = &run->roots[i]->base;
        grads[i] = run->grads && run->grads[i] ? &run->grads[i]->base
                                               : E(eager_builder(), ones_like, V(roots[i]));
    }
    state->grad_mode = mode;
    if (error_pending()) return error_pending();
    for (int i = 0; i < n; i++) xs[i] = &leaves[i]->base;
    const Arg args[] = {A_VALS(roots, run->n_roots),
                        A_VALS(grads, run->n_roots),
                        A_VALS(xs, n),
                        A_VALS(NULL, 0),
                        A_INTS(NULL, 0),
                        A_BOOL(false)};
    c->trace->gradients = true;
    TRY(capture_gradients(c, args, outs, n));
    state->grad_mode = SN_GRAD_OFF;
    Status status = ST_OK;
    for (int i = 0; i < n && status == ST_OK; i++) status = accumulate(leaves[i], outs[i]);
    state->grad_mode = mode;
    return status;
}

/* tape_capture_run: takes a backward over while this thread captures; what it cannot record runs as
 * a break. */
static bool capture_run(const TapeRun *run, Status *status) {
    Capture *const c = state_get()->capture;
    if (!c) return false;
    sn_tensor *leaves[MAX_LEAVES];
    int n = 0;
    if (!run->xs && !(run->flags & TAPE_create) && pending_leaves(c->trace, run, leaves, &n)) {
        *status = record(c, run, leaves, n);
        return true;
    }
    *status = capture_flush(c, "a backward that reaches outside of the segment", state_get()->site);
    for (int i = 0; i < run->n_roots && *status == ST_OK; i++)
        *status = capture_flush_tensor(run->roots[i]);
    for (int i = 0; i < run->n_xs && *status == ST_OK; i++)
        *status = capture_flush_tensor(run->xs[i]);
    if (*status != ST_OK) return true;
    Capture *const suspended = capture_suspend();
    *status = tape_run(run);
    capture_resume(suspended);
    return true;
}

void capture_start(void) {
    dispatch_fallback(KEY_capture, capture_op);
    tensor_flush_hook = capture_flush_tensor;
    tensor_settle_hook = capture_settle;
    tape_capture_run = capture_run;
}
