/* library.c: a user's library, for `sinter run library.so:swiglu` and `sinter opt --library`: it sees the public
 * headers and takes the functions of the program that opens it. */
#include <sinter/sinter.h>

__attribute__((visibility("default"))) sn_status swiglu(sn_frame *f);

__attribute__((visibility("default"))) sn_status twice_in_place(sn_frame *f);

sn_status twice_in_place(sn_frame *f) {
    sn_add_(sn_in(f, 0), sn_in(f, 0));
    return sn_check();
}

sn_status swiglu(sn_frame *f) {
    sn_tensor *const gate = sn_silu(sn_in(f, 0));
    return sn_out(f, 0, sn_mul(gate, sn_in(f, 1)));
}

static sn_status same_layout(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }
static sn_status triple(sn_frame *f) { return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(3))); }

__attribute__((constructor)) static void register_ops(void) {
    sn_op_register(SN_OP_DESC(.schema = "my::triple(Tensor x) -> Tensor", .flags = SN_OP_PURE, .meta = same_layout,
                              .cpu = triple));
}
