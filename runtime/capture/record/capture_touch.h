/* capture_touch.h: the tensors that a segment takes from outside, numbered by first touch. */
#ifndef SINTER_RUNTIME_CAPTURE_TOUCH_H
#define SINTER_RUNTIME_CAPTURE_TOUCH_H
#include "runtime/capture/record/capture.h"

/* t, which is no value of this trace, as an operand: an input. */
Status capture_touch(Capture *capture, sn_tensor *t, Operand *out);
/* Takes back what was touched last, so that `n` inputs are left. */
void capture_untouch(Capture *capture, int n);

#endif
