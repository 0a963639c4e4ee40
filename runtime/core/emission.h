/* emission.h: ops that become nodes of a graph at the call. While a thread's state has one, capture's kernel passes it
 * every op: a derivative body goes into a joint graph (autograd/custom_derivative.c), a body of control flow into a
 * graph of its own (capture/flow/body_trace.c). */
#ifndef SINTER_RUNTIME_EMISSION_H
#define SINTER_RUNTIME_EMISSION_H
#include "runtime/core/dispatch.h"

typedef struct Emission Emission;
struct Emission {
    Status (*call)(Emission *self, OpCall *call);
    bool traces;            /* a body that may be traced: what a graph cannot say is ST_UNSUPPORTED */
    bool took;              /* the body took an error (sn_error_take), and goes on as it would not with values */
    struct Capture *around; /* the function's whose call it is part of, and whose symbolic ints it may be given */
};

#endif
