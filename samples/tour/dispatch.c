/* A key set from inputs and thread modes picks the kernel: the highest key of the set has the first word. A layer, as
 * autograd, does its part and calls the same op below itself, until a device's kernel computes. */
#include <stdio.h>

#include "tour.h"

static sn_status says_hello(sn_frame *f) {
    printf("    %s passes the mode of the program\n", sn_op_name(sn_frame_op(f)));
    return sn_redispatch(f); /* the layers below */
}

void tour_dispatch(void) {
    sn_tensor *const x = sn_ones(SN_INTS(4), SN_F32);
    printf("  an add, of no gradient:\n");
    tour_trace_begin();
    sn_add(x, x);
    printf("  the same in a mode of the program, which is a key as any:\n");
    const sn_scope scope = sn_scope_begin();
    sn_user_mode_push(says_hello, NULL);
    sn_add(x, x);
    sn_scope_end(scope);
    tour_trace_end();
}
