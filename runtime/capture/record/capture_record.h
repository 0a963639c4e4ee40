/* capture_record.h: a call becomes a step of the current segment. */
#ifndef SINTER_RUNTIME_CAPTURE_RECORD_H
#define SINTER_RUNTIME_CAPTURE_RECORD_H
#include "runtime/capture/record/capture.h"

/* `given`: the results' metadata where the caller knows it, else NULL: by rule. symbolic: the arguments before their
 * numbers were made plain. *full: the op is new here, and the function has no room for new paths; NULL: it is recorded
 * in any case. An op that fails, or that there is no room for, is not part of the segment, nor are inputs that only
 * it captured. */
Status capture_record(Capture *capture, const OpCall *call, const Arg *symbolic, const Meta *const *given, bool *full);

#endif
