/* enter.h: how a public function begins, by its row of frontend/api.def:
 *
 *   sn_op *sn_op_register(const sn_op_desc *desc) {
 *       API_ENTER(sn_op_register);               refused, outside: raises inside a compiled function
 *       if (entered.refused) return NULL;
 *       ...
 *
 * In the function itself, whose return address is in the program. The entry is a constant: where it says `enter`, a
 * look at one word of the state is all that is left (`settled`, state.h).
 *
 * `place`: a function may be made of other public ones (sn_clip_grad_norm). While it runs, these keep its place, but
 * for those that a callback of the program calls: they are the program's. So the thread's state says in which one
 * such a function runs (`inside`), and who finds itself in the same one is `nested`: called by the library. A jump out
 * of a callback that has no frame (a device's copy, a guard's read) may have left it: then a call comes from above the
 * number in its frame, or finds that overwritten, and what it was doing is ended (scope_leave_place). */
#ifndef SINTER_FRONTEND_ENTER_H
#define SINTER_FRONTEND_ENTER_H
#include "runtime/core/state.h"

/* What an entry does. */
enum {
    API_ENDS_LEFT = 1,
    API_TAKES_PLACE = 2,
    API_KEEPS_PLACE = 4,
    API_NOT_IN_BODY = 8,
    API_NOT_IN_CALLBACK = 16,
    API_none = 0,
    API_enter = API_ENDS_LEFT,
    API_here = API_enter | API_TAKES_PLACE,
    API_place = API_here | API_KEEPS_PLACE,
    API_outside = API_place | API_NOT_IN_BODY,
    API_alone = API_enter | API_NOT_IN_CALLBACK,
};

typedef enum ApiEntry {
#define API(function, class, entry) API_OF_##function = API_##entry,
#include "frontend/api.def"
#undef API
} ApiEntry;

typedef struct ApiEntered {
    bool refused;                    /* an error says so */
    bool nested;                     /* another public function calls it */
    sn_state *state;                 /* that keeps the place; else NULL */
    const volatile uint64_t *before; /* what `inside` was */
    const volatile uint64_t *guard, *guard_before;
    uint64_t cookie_before;
} ApiEntered;

/* A call from above state->settled, by its frame: what a jump has left ends. True: it is nested. */
bool api_arrive(sn_state *state, const void *cfa);

static ALWAYS_INLINE void api_keep_place(ApiEntered *entered, sn_state *state, volatile uint64_t *guard) {
    entered->state = state, entered->before = state->inside.callback;
    entered->guard_before = state->inside.guard, entered->cookie_before = state->inside.cookie;
    state->inside.callback = state->callback;
    entered->guard = state->inside.guard = guard;
    *guard = state->inside.cookie = ++state->callbacks;
    state_settle(state);
}

/* Inlined, so that its return address is the function's. */
static ALWAYS_INLINE ApiEntered api_enter(ApiEntry entry, const char *function, volatile uint64_t *guard) {
    ApiEntered entered = {false};
    sn_state *const state = entry & API_TAKES_PLACE ? state_get() : state_current;
    if (entry & API_ENDS_LEFT && LIKELY(state) && UNLIKELY(frame_is_above(__builtin_dwarf_cfa(), state->settled)))
        entered.nested = api_arrive(state, __builtin_dwarf_cfa()); /* who has no state has left nothing */
    if (entry & API_TAKES_PLACE && !entered.nested) state->site = __builtin_return_address(0);
    if (entry & API_KEEPS_PLACE && !entered.nested) api_keep_place(&entered, state, guard);
    if (entry & API_NOT_IN_CALLBACK)
        entered.refused = state_outside_callback(function) != ST_OK;
    else if (entry & API_NOT_IN_BODY)
        entered.refused = state_outside_body(function) != ST_OK;
    return entered;
}

/* What a jump has put back meanwhile stays. */
static ALWAYS_INLINE void api_leave(const ApiEntered *entered) {
    sn_state *const state = entered->state;
    if (!state || state->inside.guard != entered->guard) return;
    state->inside.callback = entered->before;
    state->inside.guard = entered->guard_before, state->inside.cookie = entered->cookie_before;
    state_settle(state);
}

/* The function has changed the context: its caller has it from now on (context.h). The library changes its own as it
 * likes, since a jump ends what that changed. */
static inline void api_changed(const ApiEntered *entered) {
    if (!entered->nested) context_note(state_get());
}

#define API_ENTER(function)                                                                                            \
    volatile uint64_t entered_guard; /* in its frame */                                                                \
    const ApiEntered entered __attribute__((cleanup(api_leave))) =                                                     \
        api_enter(API_OF_##function, #function, &entered_guard)

#endif
