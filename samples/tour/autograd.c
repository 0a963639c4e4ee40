/* Autograd is a layer that builds a tape: where an input requires gradients it notes the op, what leads to it and what
 * its backward will read, and redispatches to the device. */
#include <stdio.h>

#include "tour.h"

void tour_autograd(void) {
    sn_tensor *const w = sn_requires_grad_(sn_full(SN_INTS(3), sn_float(2), SN_F32), true);
    tour_trace_begin();
    sn_tensor *const y = sn_mul(w, w);
    tour_trace_end();
    sn_tensor *const loss = sn_sum(y);
    printf("  the tape of sum(w * w):\n%s", sn_grad_text(loss));
    sn_backward(loss);
    printf("  walked backwards it gives w's gradient, 2 w: %g\n", sn_item(sn_select(sn_grad(w), 0, 0)));
}
