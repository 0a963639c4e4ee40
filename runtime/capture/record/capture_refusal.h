/* capture_refusal.h: why a call is not recorded. */
#ifndef SINTER_RUNTIME_CAPTURE_REFUSAL_H
#define SINTER_RUNTIME_CAPTURE_REFUSAL_H
#include "runtime/capture/record/capture.h"
#include "runtime/core/state.h"

/* What cannot be captured runs at once, after what is pending; NULL: it can. */
Reason capture_refusal(Capture *capture, const OpCall *call);
/* By what sees each op as it runs. */
static inline bool capture_is_watched(const sn_state *state) {
    return state->saved_hooks || state->include & KEY_BIT(anomaly);
}

#endif
