/* user_guard.c: see user_guard.h. */
#include "runtime/core/user_guard.h"

#include "runtime/core/tracer.h"

int64_t user_guard_of(const char *name, int64_t (*read)(void *), void *closure) {
    TracerQuery query = {.asked = ASKED_guard, .guard = &(UserGuard){NULL, name, read, closure}};
    return tracer_ask(&query) ? query.answer : 0;
}

int64_t user_guard_read(const UserGuard *guard) {
    const sn_state *const state = state_get();
    const uint32_t handles = state->handles.n, scopes = state->n_scopes;
    const Status before = error_pending();
    const int64_t now = guard->read(guard->closure);
    if (state_get() != state || state->handles.n != handles || state->n_scopes != scopes || error_pending() != before)
        error_raise(ST_STATE, "sn_guard_add: guard '%s' calls Sinter, and it is read in the middle of a call",
                    guard->name);
    return now;
}
