/* capture_arguments.h: the arguments of a call are made where it does not wait for them. */
#ifndef SINTER_RUNTIME_CAPTURE_ARGUMENTS_H
#define SINTER_RUNTIME_CAPTURE_ARGUMENTS_H
#include "runtime/capture/record/capture.h"

/* Before any input is captured: behind pending writes that ends the segment, whose values are earlier ones then. */
Status capture_make_earlier_arguments(Capture *capture, const OpCall *call);
/* The call runs at once, for a reason: what is pending comes first, and all that the call reads is made. */
Status capture_make_arguments(Capture *capture, const OpCall *call, Reason reason);

#endif
