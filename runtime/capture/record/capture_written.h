/* capture_written.h: a user's op that writes arguments, in a body: what is recorded is its functional op, and copies of
 * what that gives into the arguments (runtime/core/custom_write.h). */
#ifndef SINTER_RUNTIME_CAPTURE_WRITTEN_H
#define SINTER_RUNTIME_CAPTURE_WRITTEN_H
#include "runtime/capture/record/capture.h"

/* False: the op is recorded, or runs at once, as any other. True: it was called so; *status is the outcome. */
bool capture_written(Capture *capture, OpCall *call, Status *status);
/* Why the call of such an op runs at once; NULL: it does not, or it is of another op. The capture is entered. */
Reason capture_written_refusal(Capture *capture, const OpCall *call);

#endif
