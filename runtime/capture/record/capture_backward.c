/* capture_backward.c: sn_backward inside a compiled function becomes one node, sn::gradients(roots,
 * grads, leaves), and the accumulation into .grad slots ordinary ops: a slot that is empty takes
 * the result itself, a full one is read, added to and written, as the engine does it in eager
 * [semantics G4]. */
#include "runtime/capture/record/capture_backward.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/capture_events.h"
#include "runtime/capture/record/capture_reach.h"
#include "runtime/capture/record/capture_thread.h"
#include "runtime/capture/record/segment.h"

#include "runtime/autograd/tape.h"
#include "runtime/core/autocast.h"
#include "runtime/core/breaks.h"
#include "runtime/core/context_enter.h"

enum { MAX_LEAVES = 1024 };

/* Does root i have a gradient to start with? */
static bool starts(const TapeRun *run, int i) {
    const Meta *const root = run->roots[i]->base.meta;
    const sn_tensor *const grad = run->grads ? run->grads[i] : NULL;
    return grad ? meta_same_sizes(grad->base.meta, root) && grad->base.meta->dtype == root->dtype : root->numel == 1;
}

/* Leaves that the roots reach through the pending ops, in the order of the trace's inputs. False:
 * the history goes on outside of the segment, or an op on the way is not differentiable by rule. */
static bool pending_leaves(const Trace *trace, const TapeRun *run, sn_tensor **leaves, int *n) {
    Reach *const r = reach_new(trace, trace->ops.n);
    if (!r) return false;
    for (int i = 0; i < run->n_roots; i++) {
        const struct Placeholder *const p = run->roots[i]->placeholder;
        if (!p || p->trace != trace) return false;
        if (!starts(run, i) || !reach_root(r, p->value)) return false; /* errors of the tape's */
    }
    if (!reach_back(r)) return false;
    for (int i = 0; i < trace->inputs.n; i++) {
        const TraceInput *const in = &trace->inputs.at[i];
        if (!reach_has(r, -1 - i) || !in->requires_grad) continue;
        if (!in->is_leaf || in->tensor->autograd->hooks || *n == MAX_LEAVES) return false;
        leaves[(*n)++] = in->tensor;
    }
    return *n > 0;
}

Status capture_use_up(const Trace *trace, int gradients) {
    const TraceOp *const backward = trace->ops.at[gradients].op;
    Arena *const arena = trace->capture->arena;
    sn_tensor **const reached = ARENA_ARRAY(arena, sn_tensor *, backward->first_value + 1);
    Reach *const r = reach_new(trace, gradients);
    int n = 0;
    if (!reached || !r) return ST_MEMORY;
    for (int i = 0; i < backward->args[0].n; i++) reach_root(r, backward->operands[i]);
    reach_back(r);
    for (int v = 0; v < backward->first_value; v++)
        if (trace->values.at[v] && reach_has(r, v)) reached[n++] = trace->values.at[v];
    return tape_use_up(reached, n);
}

static Status accumulate(sn_tensor *leaf, sn_tensor *grad) {
    sn_tensor *const old = tape_grad(leaf);
    if (!old) {
        TRY(capture_record_grad(leaf));
        return tape_grad_set(leaf, grad);
    }
    const Arg args[] = {A_VAL(&old->base), A_VAL(&grad->base), A_INT(1)};
    sn_tensor *sum;
    return dispatch(OP_ROW(add_Tensor), FORM_inplace, args, NULL, &sum);
}

static Status accumulate_all(sn_tensor *const *leaves, sn_tensor *const *grads, int n) {
    const ContextSaved saved = context_enter(state_get(), CONTEXT_library);
    Status status = ST_OK;
    for (int i = 0; i < n && status == ST_OK; i++) status = accumulate(leaves[i], grads[i]);
    context_leave(&saved);
    return status;
}

static Status collect_roots(const TapeRun *run, Val **roots, Val **grads) {
    const ContextSaved saved = context_enter(state_get(), CONTEXT_library);
    for (int i = 0; i < run->n_roots; i++) {
        roots[i] = &run->roots[i]->base;
        grads[i] = run->grads && run->grads[i] ? &run->grads[i]->base : E(eager_builder(), ones_like, V(roots[i]));
    }
    context_leave(&saved);
    return error_pending();
}

static Status record_run(Capture *c, const TapeRun *run, sn_tensor **leaves, int n) {
    Val **const roots = ARENA_ARRAY(c->arena, Val *, run->n_roots),
                **const grads = ARENA_ARRAY(c->arena, Val *, run->n_roots);
    Val **const xs = ARENA_ARRAY(c->arena, Val *, n);
    sn_tensor **const outs = ARENA_ARRAY(c->arena, sn_tensor *, n);
    if (!roots || !grads || !xs || !outs) return ST_MEMORY;
    TRY(collect_roots(run, roots, grads));
    for (int i = 0; i < n; i++) xs[i] = &leaves[i]->base;
    const Arg args[] = {A_VALS(roots, run->n_roots),
                        A_VALS(grads, run->n_roots),
                        A_VALS(xs, n),
                        A_VALS(NULL, 0),
                        A_INTS(NULL, 0),
                        A_BOOL(false)};
    TRY(capture_gradients(c, args, outs, n));
    c->trace->gradients = true;
    return accumulate_all(leaves, outs, n);
}

/* The engine adds to gradients in place. */
static Status before_accumulation(Capture *c, const TapeRun *run) {
    sn_tensor *leaves[MAX_LEAVES];
    if (run->xs) return ST_OK;
    const int n = tape_leaves(run->roots, run->n_roots, leaves, MAX_LEAVES);
    if (n > MAX_LEAVES) return capture_before_write(c, NULL);
    for (int i = 0; i < n; i++) {
        const sn_tensor *const grad = tape_grad(leaves[i]);
        if (grad) TRY(capture_before_write(c, grad->storage));
    }
    return ST_OK;
}

/* What the caller gives may be an earlier segment's value; to make it may end the roots' segment. */
static Status make_grads(Capture *c, const TapeRun *run) {
    for (int i = 0; run->grads && i < run->n_roots; i++)
        if (run->grads[i]) TRY(capture_make_earlier(c, run->grads[i]));
    return ST_OK;
}

static Status make_all(sn_tensor *const *ts, int n) {
    for (int i = 0; ts && i < n; i++)
        if (ts[i]) TRY(capture_flush_tensor(ts[i]));
    return ST_OK;
}

static bool record_pending(Capture *c, const TapeRun *run, Status *status) {
    sn_tensor *leaves[MAX_LEAVES];
    int n = 0;
    *status = make_grads(c, run);
    if (*status != ST_OK) return true;
    if (run->xs || run->flags & (TAPE_create | TAPE_retain) || !pending_leaves(c->trace, run, leaves, &n)) return false;
    *status = record_run(c, run, leaves, n);
    return true;
}

/* Why it is a break. The results of sn_gradients are what eager's rules happen to make, layout and memory included; a
 * captured backward only knows .grad's. */
static Reason break_reason(const TapeRun *run) {
    if (run->flags & TAPE_create) return BREAK_REASON(backward_creates);
    if (run->flags & TAPE_retain) return BREAK_REASON(backward_retains);
    return run->xs ? BREAK_REASON(gradients_returned) : BREAK_REASON(backward_reaches);
}

bool capture_run(Capture *c, const TapeRun *run, Status *status) {
    const bool entered = capture_enter(c);
    const bool recorded = record_pending(c, run, status);
    capture_leave(c, entered);
    if (recorded) return true;
    capture_breaks(run->xs ? "sn_gradients" : "sn_backward");
    capture_record_break(c, break_reason(run));
    *status = capture_flush(c, break_reason(run), state_get()->site);
    capture_breaks(NULL);
    if (*status == ST_OK) *status = make_all(run->roots, run->n_roots);
    if (*status == ST_OK) *status = make_all(run->xs, run->n_xs);
    if (*status == ST_OK) *status = make_all(run->grads, run->n_roots);
    if (*status != ST_OK) return true;
    const ContextSaved saved = context_enter(state_get(), CONTEXT_unrecorded);
    *status = before_accumulation(c, run);
    if (*status == ST_OK) *status = tape_run(run);
    context_leave(&saved);
    return true;
}
