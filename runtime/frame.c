/* frame.c: runs a callback: its own scope, its outputs checked and passed out [semantics O1, O2,
 * O5]. */
#include "runtime/frame.h"

#include "runtime/override.h"

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

Status frame_run(sn_frame *frame, sn_body body) {
    TRY(error_pending());
    sn_state *const state = state_get();
    TRY(scope_push(state, false));
    const uint32_t depth = state->n_scopes - 1;
    state->scopes[depth].callback = true;
    const Status status = check_result(frame, body(frame));
    if (state_current != state) sn_state_use(state); /* the callback left another one in place */
    if (status != ST_OK && frame->n_out)
        memset(frame->out, 0, (size_t)frame->n_out * sizeof *frame->out);
    scope_pop_passing(state, depth, frame->out, frame->n_out);
    return status;
}
