/* launch_bind.h: what every device's launch of a kernel needs: its buffers and parameters for this call, and the error
 * of a check that failed in it. */
#ifndef SINTER_RUNTIME_LAUNCH_BIND_H
#define SINTER_RUNTIME_LAUNCH_BIND_H
#include "runtime/device/launch.h"

enum { BOUND_FEW = 256 }; /* buffers that fusion puts into one kernel; a long cat of its own has more */

typedef struct Bound {
    void **bufs;
    int64_t *params; /* of floats the bits; after them room for one that the device adds */
    void *few_bufs[BOUND_FEW];
    int64_t few_params[BOUND_FEW];
} Bound;

bool bound_begin(Bound *bound, const Kernel *kernel); /* room; false: memory is out. Ends by bound_end all the same */
void bound_end(Bound *bound);
void bound_fill(const Launch *launch, const Step *step, Bound *bound);
/* Kernel ints are plain or name a parameter. */
static inline int64_t bound_int(const Bound *bound, int64_t value) {
    return sym_is(value) ? bound->params[sym_id(value)] : value;
}

/* The op that the user called and that this instruction comes from; NULL: unknown. */
typedef struct CheckedOp {
    const OpRow *row; /* NULL: unknown */
    const char *says; /* what is wrong, or NULL */
} CheckedOp;
CheckedOp checked_op(const Plan *plan, const Nest *nest, int inst);
/* The error of its check. row NULL: `kernel` is named. */
Status raise_check(CheckedOp checked, const char *kernel, int64_t index, int64_t bound);

#endif
