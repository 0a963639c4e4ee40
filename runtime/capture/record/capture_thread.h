/* capture_thread.h: the lock of a capture: other threads may ask for its values. */
#ifndef SINTER_RUNTIME_CAPTURE_THREAD_H
#define SINTER_RUNTIME_CAPTURE_THREAD_H
#include "runtime/capture/record/capture.h"

/* The lock, for which the owner enters (true: now, so it leaves), and which is not held while user code runs. */
bool capture_enter(Capture *capture);
void capture_leave(Capture *capture, bool entered);
/* Before a callback: true: the lock is given back, and entered again after it. */
bool capture_pause(Capture *capture);
/* The lock of a capture that a callback was left with, and of its asking for another thread's. */
void capture_unlock_left(Capture *capture);
/* Around the end of a call, whose placeholders go. */
void capture_retire_begin(const sn_state *state);
void capture_retire_end(const sn_state *state);
/* The owner's: what went wrong while another thread ran one of its segments. */
Status capture_adopt_error(Capture *capture);
/* For another thread, or outside of the call, under tracer_foreign_begin: t, which may have its value meanwhile. */
Status capture_value_elsewhere(Capture *capture, sn_tensor *t);

#endif
