/* relayout.h: in-place forms of views: the handle changes (relayout.c), and what a capture makes of it
 * (capture_relayout.c). */
#ifndef SINTER_RUNTIME_RELAYOUT_H
#define SINTER_RUNTIME_RELAYOUT_H
#include "runtime/capture/record/capture.h"

void relayout_start(void);
/* self is about to change its layout in place. *recorded: it is a result of the current segment and
 * the view that it becomes is to be recorded; else self is made, and the view is not to be captured. */
Status capture_relayout(const OpRow *row, sn_tensor *self, bool *recorded);
/* Around the recording of that view: whether it counts as a write (that of detach_ doesn't). */
void capture_relays(bool on);
/* self and old have exchanged what they stand for. */
void capture_exchanged(sn_tensor *self, sn_tensor *old);
/* self is now such a view: the version of the input that it shows goes up at the call [semantics C3]. */
void capture_relaid(sn_tensor *self);

#endif
