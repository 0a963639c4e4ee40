/* frame.c: runs a callback: its own scope, its outputs checked and passed out [semantics O1, O2,
 * O5]. */
#include "runtime/core/frame.h"

#include <unwind.h>

#include "runtime/core/override.h"
#include "runtime/core/tensor.h"
#include "runtime/core/tracer.h"
#include "runtime/core/tracking.h"

/* What the callback owes: a status, no pending error, every output. */
static Status check_result(const sn_frame *frame, sn_status returned) {
    TRY(error_pending());
    if (returned != SN_OK)
        return error_raise(ST_CALLBACK, "%s: the callback returned '%s'", frame->what, status_name((Status)returned));
    for (int i = 0; i < frame->n_out && !frame->outs_optional; i++)
        if (!frame->out[i] && !(i < 64 && frame->none >> i & 1))
            return error_raise(ST_CALLBACK, "%s: the callback set no output %d", frame->what, i);
    return ST_OK;
}

/* Is a frame still there? --------------------------------------------------------------------- */

typedef struct StackUnwind {
    const char *cfa;
    const void *function;
    bool inside, found, passed;
} StackUnwind;

static _Unwind_Reason_Code visit_frame(struct _Unwind_Context *context, void *to) {
    StackUnwind *const unwind = to;
    const char *const end_of_callee = (const char *)_Unwind_GetCFA(context);
    unwind->found |= unwind->inside && end_of_callee == unwind->cfa;
    unwind->passed |= end_of_callee > unwind->cfa;
    unwind->inside = _Unwind_FindEnclosingFunction((void *)_Unwind_GetIP(context)) == unwind->function;
    return unwind->found || unwind->passed ? _URC_NORMAL_STOP : _URC_NO_REASON;
}

bool frame_was_left(const void *cfa, const void *function) {
    StackUnwind unwind = {.cfa = cfa, .function = function};
    if (cfa) _Unwind_Backtrace(visit_frame, &unwind);
    return unwind.passed && !unwind.found;
}

/* Running ------------------------------------------------------------------------------------- */

/* Lower than this frame lie the callback's; what calls from outside of it comes from above the gap, unless it goes
 * deep. */
typedef struct Guard {
    volatile uint64_t cookie;
    volatile char gap[1024];
} Guard;

/* The innermost scope is the callback's. One that an exception or the end of its thread passes through, or silently a
 * longjmp, has its scopes and modes ended by the program's next call (context.h). */
__attribute__((no_sanitize_address)) OWN_FRAME static void run_guarded(sn_state *state, Callback *run, void *argument) {
    Guard guard;
    guard.gap[0] = 0;
    scope_callback_begin(state, __builtin_dwarf_cfa(), &guard.cookie);
    run(argument);
    guard.gap[0] = 1; /* no tail call: the frame stands until here */
}

bool frame_callback_was_left(const void *cfa) { return frame_was_left(cfa, (void *)run_guarded); }

const sn_frame *frame_running(const sn_state *state) {
    for (uint32_t i = state->n_scopes; i > 0; i--) {
        const ScopeFrame *const scope = &state->scopes[i - 1];
        if (scope->callback && !frame_callback_was_left(scope->callback)) return scope->frame;
    }
    return NULL;
}

/* Outputs ------------------------------------------------------------------------------------- */

void frame_drop_outs(sn_frame *frame) {
    for (int i = 0; i < frame->n_out; i++) {
        tensor_release(frame->out[i]);
        frame->out[i] = NULL;
    }
}

static bool is_input(const sn_frame *frame, const sn_tensor *t) {
    for (int i = 0; i < frame->n_in; i++) {
        const Arg *const in = &frame->in[i];
        if (in->kind == ARG_tensor && in->val == &t->base) return true;
        for (int k = 0; in->kind == ARG_tensors && k < in->n; k++)
            if (in->vals[k] == &t->base) return true;
    }
    return false;
}

static bool is_output_before(const sn_frame *frame, int i) {
    for (int k = 0; k < i; k++)
        if (frame->out[k] == frame->out[i]) return true;
    return false;
}

/* Whether output i, now that the callback's scopes have ended, is somebody's without the frame's reference: a scope's;
 * or, where results are the caller's to release, given already or what the caller gave. */
static bool is_held(const sn_frame *frame, int i, const sn_state *state) {
    if (LIKELY(!state->n_scopes || !state->scopes[state->n_scopes - 1].owned)) return tensor_in_scope(frame->out[i]);
    return is_output_before(frame, i) || is_input(frame, frame->out[i]);
}

/* The references that sn_out took pass to the scope outside. The end of the callback's scopes may have failed: that of
 * a fork runs the segment before it. */
static Status adopt_outs(sn_frame *frame, sn_state *state) {
    Status status = error_pending();
    if (UNLIKELY(status != ST_OK)) {
        frame_drop_outs(frame);
        return status;
    }
    for (int i = 0; i < frame->n_out; i++) {
        sn_tensor *const t = frame->out[i];
        if (!t) continue;
        if (is_held(frame, i, state))
            tensor_release(t);
        else if (!scope_adopt(state, t))
            status = ST_MEMORY;
    }
    if (UNLIKELY(status != ST_OK)) memset(frame->out, 0, (size_t)frame->n_out * sizeof *frame->out);
    return status;
}

/* An override that calls its own op, a function that calls itself: each level takes some kilobytes of the stack, whose
 * end nobody can catch. */
enum { MAX_NESTED = 128 };

static Status enter_scope(const char *what, sn_state *state) {
    TRY(scope_push(state, false));
    if (LIKELY(++state->scopes[state->n_scopes - 1].nested <= MAX_NESTED)) return ST_OK;
    scope_pop(state);
    return error_raise(ST_CALLBACK, "%s: %d callbacks run one in the other; does one call itself?", what, MAX_NESTED);
}

/* With scopes and modes as they were for it, also where it left another state in place. What handles are told of their
 * end is the call at `site`, which called back. */
static void leave_scope(sn_state *state, uint32_t depth, const void *site) {
    if (state_current != state) state_use(state);
    if (UNLIKELY(tracking_is_on())) state->site = site;
    scope_pop_to(state, depth);
}

Status callback_run(const char *what, Callback *run, void *argument) {
    sn_state *const state = state_get();
    TRY(enter_scope(what, state));
    const uint32_t depth = state->n_scopes - 1;
    const void *const site = state->site;
    state->scopes[depth].frame = NULL;
    run_guarded(state, run, argument);
    leave_scope(state, depth, site);
    return error_pending();
}

typedef struct ClosureFree {
    sn_free_fn free;
    void *closure;
    bool ran;
} ClosureFree;

static void run_closure_free(void *argument) {
    ClosureFree *const f = argument;
    f->ran = true;
    f->free(f->closure, NULL);
}

void closure_free_run(sn_free_fn free, void *closure) {
    ClosureFree f = {free, closure, false};
    const Status before = error_pending();
    if (!free) return;
    callback_run("closure_free", run_closure_free, &f);
    if (f.ran) return;
    if (before == ST_OK) error_clear();
    free(closure, NULL); /* there is no scope for it */
}

/* A frame's body. What it has set is dropped also where an exception passes. */
typedef struct BodyRun {
    sn_frame *frame;
    sn_body body;
    sn_status returned;
    bool ended;
} BodyRun;

static void drop_outs(BodyRun **run) {
    if (UNLIKELY(!(*run)->ended)) frame_drop_outs((*run)->frame);
}

static void run_frame_body(void *argument) {
    __attribute__((cleanup(drop_outs))) BodyRun *run = argument;
    run->returned = run->body(run->frame);
    run->ended = true;
}

static void begin_body(sn_frame *frame, ScopeFrame *scope) {
    scope->frame = frame;
    if ((scope->running = frame->running)) atomic_fetch_add(scope->running, 1);
}

Status frame_run(sn_frame *frame, sn_body body) {
    TRY(error_pending());
    sn_state *const state = state_get();
    TRY(enter_scope(frame->what, state));
    const uint32_t depth = state->n_scopes - 1;
    Tracer *const paused = tracer_callback_begin(state);
    const void *const site = state->site;
    BodyRun run = {.frame = frame, .body = body};
    begin_body(frame, &state->scopes[depth]);
    run_guarded(state, run_frame_body, &run);
    tracer_callback_end(paused);
    const Status status = check_result(frame, run.returned);
    if (status != ST_OK) frame_drop_outs(frame);
    leave_scope(state, depth, site);
    return status == ST_OK ? adopt_outs(frame, state) : status;
}
