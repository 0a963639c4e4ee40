/* capture.c: the kernel of the capture key: one op becomes a step along the trie and placeholders
 * for its results.
 *
 * An op call is split into structure (matched against the trie) and numbers (kept beside, judged by
 * the variants at the segment's end): capture_split.h. It is recorded (capture_record.h, capture_step.h), or it runs at
 * once, for a reason (capture_refusal.h), after what is pending (capture_arguments.h). */
#include "runtime/capture/record/capture.h"

#include "runtime/autograd/tape.h"
#include "runtime/core/breaks.h"
#include "runtime/core/tracer.h"
#include "runtime/capture/record/capture_arguments.h"
#include "runtime/capture/record/capture_bound.h"
#include "runtime/capture/record/capture_record.h"
#include "runtime/capture/record/capture_refusal.h"
#include "runtime/capture/record/capture_strided.h"
#include "runtime/capture/record/capture_thread.h"
#include "runtime/capture/record/capture_written.h"
#include "runtime/capture/record/captured_region.h"
#include "runtime/capture/record/function_state.h"
#include "runtime/capture/record/segment.h"
#include "runtime/capture/record/symbols.h"
#include "runtime/capture/record/trace_graph.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/custom_op.h"

/* Views whose base was written are brought up to date as in eager. Their new history has its place in the order of
 * nodes [semantics G1]: what is pending comes before it. */
static Status refresh_views(Capture *c, const OpCall *call, const sn_state *state) {
    if (state->grad_mode != SN_GRAD_ON || call->row->flags & OPF_nodiff || !tape_views_are_due(call)) return ST_OK;
    capture_breaks_at(call);
    TRY(capture_flush(c, BREAK_REASON(old_view), state->site));
    capture_breaks(NULL);
    const ContextSaved saved = context_enter(state_get(), CONTEXT_unrecorded);
    const Status status = tape_views_refresh(call);
    context_leave(&saved);
    return status;
}

/* as_strided becomes a view of its base, below user modes and overrides, which were asked. *outside: it can't. */
static Status record_strided(Capture *c, OpCall *call, const Arg *symbolic, bool *outside) {
    StridedView view;
    const Reason reason = strided_view(c, call, symbolic, &view);
    *outside = reason != NULL;
    if (reason) return capture_make_arguments(c, call, reason);
    Trace *const trace = c->trace;
    TRY(capture_record(c, &view.call, view.symbolic, NULL, outside));
    if (!*outside && view.from_storage)
        trace->from_storage = c->mutates_metadata ? BREAK_REASON(from_storage_in_place) : BREAK_REASON(from_storage);
    return *outside ? capture_make_arguments(c, call, function_record_limit(c->fn, false)) : ST_OK;
}

/* *outside: it is to run at once, and everything is materialized for it. */
static Status capture_locked(Capture *c, OpCall *call, const Arg *symbolic, bool *outside) {
    TRY(capture_adopt_error(c));
    const sn_state *const state = state_get();
    if (UNLIKELY(c->region != NULL)) TRY(captured_region_check(c, call));
    const Reason reason = capture_refusal(c, call);
    *outside = reason != NULL;
    if (UNLIKELY(reason != NULL)) return capture_make_arguments(c, call, reason);
    TRY(error_pending());
    const Reason bound = capture_bound_reached(c->trace, call, state);
    if (UNLIKELY(bound != NULL)) TRY(capture_end_at_bound(c, call, bound));
    TRY(refresh_views(c, call, state));
    if (UNLIKELY(call->row->role == ROLE_storage)) return record_strided(c, call, symbolic, outside);
    TRY(capture_record(c, call, symbolic, NULL, outside));
    if (LIKELY(!*outside)) return ST_OK;
    return capture_make_arguments(c, call, function_record_limit(c->fn, false));
}

static Status capture_call(Capture *c, OpCall *call, const Arg *symbolic) {
    bool outside = false;
    const bool entered = capture_enter(c);
    const Status status = capture_locked(c, call, symbolic, &outside);
    if (call->row->returns_list && !outside && status == ST_OK) call->n_outs = c->cursor->op.n_outs;
    capture_leave(c, entered);
    if (!outside || status != ST_OK) return status;
    TRY(redispatch_excluding(call, KEY_BIT(capture)));
    if (c->symbols) TRY(symbols_record_outside(c->symbols, call, symbolic));
    const bool makes = UNLIKELY(c->region != NULL) && call->form == FORM_functional && call->row->kind != KIND_view;
    for (int i = 0; makes && i < call->n_outs; i++) captured_region_made(c, call->outs[i], call);
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

Status capture_op(OpCall *call) {
    Capture *const c = capture_current();
    if (!c) return redispatch_excluding(call, KEY_BIT(capture));
    Status status;
    if (UNLIKELY(op_dynamic(call->row) != NULL) && capture_written(c, call, &status)) return status;
    return UNLIKELY(c->symbols != NULL) ? capture_symbolic(c, call) : capture_call(c, call, call->args);
}

void capture_start(void) { dispatch_composites(KEY_BIT(capture), symbols_composite); }

Status capture_gradients(Capture *c, const Arg *args, sn_tensor **outs, int n) {
    const Meta **const metas = ARENA_ARRAY(c->arena, const Meta *, n);
    if (!metas) return ST_MEMORY;
    for (int i = 0; i < n; i++)
        if (!(metas[i] = tape_grad_meta(tensor_of(args[2].vals[i])))) return ST_MEMORY;
    const OpCall call = {.row = OP_ROW(gradients), .args = args, .outs = outs, .n_outs = n};
    return capture_record(c, &call, args, metas, NULL);
}
