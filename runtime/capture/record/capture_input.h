/* capture_input.h: the tensors that a segment takes from outside, numbered by first use. */
#ifndef SINTER_RUNTIME_CAPTURE_INPUT_H
#define SINTER_RUNTIME_CAPTURE_INPUT_H
#include "runtime/capture/record/capture.h"

/* t, which is no value of this trace, as an operand: an input. */
Status capture_input(Capture *capture, sn_tensor *t, Operand *out);
/* Takes back what was captured last, so that `n` inputs are left. */
void capture_drop_inputs(Capture *capture, int n);

#endif
