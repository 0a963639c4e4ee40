/* capture_facts.h: what is known of a tensor's history while its value is pending. */
#ifndef SINTER_RUNTIME_CAPTURE_FACTS_H
#define SINTER_RUNTIME_CAPTURE_FACTS_H
#include "runtime/capture/record/capture.h"

/* An out form that the tape would have to record is refused by eager, before its sizes are looked at. Behind a pending
 * write that is recorded it is not known yet which tensors have a history (views of what is written too). */
bool capture_out_tracks(const Capture *capture, const OpCall *call, const sn_state *state);

#endif
