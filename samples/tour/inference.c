/* Inference mode removes it: the key of autograd is not in the set any more, so nothing is noted. no_grad keeps the
 * layer, which then has nothing to do but pass on. */
#include <stdio.h>

#include "tour.h"

static void show(const char *name, sn_grad_mode mode, sn_tensor *w) {
    const sn_grad_mode before = sn_grad_mode_set(mode);
    printf("  %s:\n", name);
    tour_trace_begin();
    sn_tensor *const y = sn_mul(w, w);
    tour_trace_end();
    printf("    the result %s gradients\n", sn_requires_grad(y) ? "requires" : "requires no");
    sn_grad_mode_set(before);
}

void tour_inference(void) {
    sn_tensor *const w = sn_requires_grad_(sn_ones(SN_INTS(3), SN_F32), true);
    show("gradients on", SN_GRAD_ON, w);
    show("no_grad", SN_GRAD_OFF, w);
    show("inference mode", SN_INFERENCE, w);
}
