/* capture_backward.h: a backward inside of a body, recorded as sn::gradients. */
#ifndef SINTER_RUNTIME_CAPTURE_BACKWARD_H
#define SINTER_RUNTIME_CAPTURE_BACKWARD_H
#include "runtime/autograd/tape.h"
#include "runtime/capture/record/capture.h"

/* A segment that runs again does not repeat its captured backward (op number `gradients`): what the
 * backward used up of the history is used up in the new one. */
Status capture_use_up(const Trace *trace, int gradients);
/* Takes a backward over (true: always); what it cannot record runs as a break. */
bool capture_run(Capture *capture, const TapeRun *run, Status *status);

#endif
