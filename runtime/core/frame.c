/* frame.c: runs a callback: its own scope, its outputs checked and passed out [semantics O1, O2,
 * O5]. */
#include "runtime/core/frame.h"

#include <unwind.h>

#include "runtime/capture/capture.h"
#include "runtime/core/override.h"

/* What the callback owes: a status, no pending error, every output. */
static Status check_result(const sn_frame *frame, sn_status returned) {
    TRY(error_pending());
    if (returned != SN_OK)
        return error_raise(ST_CALLBACK, "%s: the callback returned '%s'", frame->what,
                           status_name((Status)returned));
    for (int i = 0; i < frame->n_out && !frame->outs_optional; i++)
        if (!frame->out[i])
            return error_raise(ST_CALLBACK, "%s: the callback set no output %d", frame->what, i);
    return ST_OK;
}

/* Is a frame still there? --------------------------------------------------------------------- */

typedef struct Walk {
    const char *cfa;
    const void *function;
    bool inside, found, passed;
} Walk;

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *to) {
    Walk *const walk = to;
    const char *const end_of_callee = (const char *)_Unwind_GetCFA(context);
    walk->found |= walk->inside && end_of_callee == walk->cfa;
    walk->passed |= end_of_callee > walk->cfa;
    walk->inside = _Unwind_FindEnclosingFunction((void *)_Unwind_GetIP(context)) == walk->function;
    return walk->found || walk->passed ? _URC_NORMAL_STOP : _URC_NO_REASON;
}

bool frame_was_left(const void *cfa, const void *function) {
    Walk walk = {.cfa = cfa, .function = function};
    if (cfa) _Unwind_Backtrace(visit, &walk);
    return walk.passed && !walk.found;
}

/* Running ------------------------------------------------------------------------------------- */

/* A callback that a C++ exception or the end of its thread passes through: its scopes end here, as the compiler's
 * cleanups do. A longjmp passes silently: segment.c. */
typedef struct Passage {
    sn_state *state;
    uint32_t depth;
    bool returned;
} Passage;

static void close_scopes(const Passage *passage) {
    if (LIKELY(passage->returned)) return;
    passage->state->scopes[passage->depth].callback = NULL;
    scope_pop_to(passage->state, passage->depth);
}

__attribute__((noinline, noclone)) static sn_status run_body(sn_frame *frame, sn_body body,
                                                             sn_state *state) {
    state->scopes[state->n_scopes - 1].callback = __builtin_dwarf_cfa();
    __attribute__((cleanup(close_scopes))) Passage passage = {state, state->n_scopes - 1, false};
    const sn_status status = body(frame);
    passage.returned = true;
    return status;
}

bool frame_callback_was_left(const void *cfa) { return frame_was_left(cfa, (void *)run_body); }

Status frame_run(sn_frame *frame, sn_body body) {
    TRY(error_pending());
    sn_state *const state = state_get();
    TRY(scope_push(state, false));
    const uint32_t depth = state->n_scopes - 1;
    Capture *const left = UNLIKELY(state->held != NULL) ? capture_leave_for_callback(state) : NULL;
    const sn_status returned = run_body(frame, body, state);
    capture_enter_after_callback(left);
    const Status status = check_result(frame, returned);
    if (state_current != state) sn_state_use(state); /* the callback left another one in place */
    if (status != ST_OK && frame->n_out)
        memset(frame->out, 0, (size_t)frame->n_out * sizeof *frame->out);
    scope_pop_passing(state, depth, frame->out, frame->n_out);
    return status;
}
