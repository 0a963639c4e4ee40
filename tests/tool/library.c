/* library.c: a user's library, for `sinter run library.so:swiglu`: it sees the public headers and
 * takes the functions of the program that opens it. */
#include <sinter/sinter.h>

__attribute__((visibility("default"))) sn_status swiglu(sn_frame *f);

sn_status swiglu(sn_frame *f) {
    sn_tensor *const gate = sn_silu(sn_in(f, 0));
    return sn_out(f, 0, sn_mul(gate, sn_in(f, 1)));
}
