/* gradients.h: sn::gradients, the op that a recorded backward is, run by the engine. */
#ifndef SINTER_RUNTIME_GRADIENTS_H
#define SINTER_RUNTIME_GRADIENTS_H
#include "runtime/core/dispatch.h"

/* sn::gradients(roots, grad_roots, leaves) on computed tensors; outs: by leaf, in the layout of its .grad. */
Status gradients_run(const Arg *args, sn_tensor **outs);

#endif
