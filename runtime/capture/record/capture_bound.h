/* capture_bound.h: pending work is bounded [semantics C10]. */
#ifndef SINTER_RUNTIME_CAPTURE_BOUND_H
#define SINTER_RUNTIME_CAPTURE_BOUND_H
#include "runtime/capture/record/capture.h"
#include "runtime/core/state.h"

enum { HELD_CHECK = 32 /* ops between two looks at held bytes */ };

/* Is it time to look? */
static inline bool capture_bound_is_near(const Trace *trace, const sn_state *state) {
    return trace->ops.n % HELD_CHECK == HELD_CHECK - 1 || trace->ops.n >= state->settings[SET_pending_ops].number;
}

/* Why the segment ends before the call; NULL: there is room. */
Reason capture_bound_reached(const Trace *trace, const OpCall *call, const sn_state *state);
Status capture_end_at_bound(Capture *capture, const OpCall *call, Reason bound);

#endif
