/* capture_events.h: what a body does at once while ops are pending (.grad slots, hooks, seeds, rounds): noted, and
 * undone where an op before it fails. */
#ifndef SINTER_RUNTIME_CAPTURE_EVENTS_H
#define SINTER_RUNTIME_CAPTURE_EVENTS_H
#include "runtime/capture/record/capture.h"

/* What a tracer is told of (core/tracer.h). */
Status capture_effect(Capture *capture, const TracerEffect *effect);
/* This thread's call, if it is one, changes what belongs to the program: a break in any case. */
void capture_record_event(Reason what);
/* About to change leaf's .grad or the generator. Undone if an op before fails. */
Status capture_record_grad(sn_tensor *leaf);
Status capture_record_seed(void);
/* Prints what the trace has behind ops that have run: all of it, or behind the first n_done of a failed segment. */
void capture_print_events(const Trace *trace, bool failed);
/* Behind its n_done ops; true: one of them had set the generator before the first random op, and is undone. */
bool capture_undo_events(const Trace *trace);
void capture_forget_events(Trace *trace);

#endif
