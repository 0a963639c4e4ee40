/* scope.c: scopes and thread states (sinter/base.h), thin over runtime/core. */
#include <sinter/base.h>

#include "frontend/api/enter.h"
#include "runtime/core/tracer.h"

__attribute__((no_sanitize_address)) static bool is_nested(const sn_state *state, const void *cfa) {
    return state->inside.callback == state->callback && !frame_is_above(cfa, state->inside.guard) &&
           *state->inside.guard == state->inside.cookie;
}

bool api_arrive(sn_state *state, const void *cfa) {
    if (frame_is_above(cfa, state->callback)) scope_leave_left(state);
    const bool nested = is_nested(state, cfa);
    if (!nested && state->inside.callback == state->callback) scope_leave_place(state);
    return nested;
}

sn_scope sn_scope_begin(void) {
    API_ENTER(sn_scope_begin);
    return scope_begin(state_get(), false);
}

sn_scope sn_scope_begin_owned(void) {
    API_ENTER(sn_scope_begin_owned);
    return scope_begin(state_get(), true);
}

sn_status sn_scope_end(sn_scope mark) {
    API_ENTER(sn_scope_end); /* what it holds ends here */
    return scope_end(state_get(), mark);
}

sn_tensor *sn_scope_return(sn_scope mark, sn_tensor *t) {
    API_ENTER(sn_scope_return);
    return scope_return(state_get(), mark, t);
}

sn_state *sn_state_new(void) { return state_new(); }

sn_state *sn_state_use(sn_state *state) {
    API_ENTER(sn_state_use);
    return entered.refused ? NULL : state_use(state);
}

void sn_state_free(sn_state *state) {
    API_ENTER(sn_state_free);
    if (state && tracer_recording(state))
        error_raise(ST_STATE, "sn_state_free: a compiled function runs in this state");
    else if (!state || state_no_callback(state, "sn_state_free") == ST_OK)
        state_free(state);
}
