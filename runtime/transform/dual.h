/* dual.h: forward mode [semantics T4]: a level whose handles have tangents. No op has a forward rule of its own:
 *
 *   view, reduction that saves nothing    linear: the op on the tangent
 *   product of two tensors                the op on the tangent of each, with the other one
 *   pointwise, all of the same sizes      its derivative's rule, with the tangent in the gradient's place
 *   else                                  the rule is linear in the gradient u: J'u, and the vjp of that, (J')'t = J t
 *   no rule                               its parts
 *
 * Everything is ops a level further out, so it nests with other levels, tapes outside record it, and a captured graph
 * holds it. */
#ifndef SINTER_RUNTIME_DUAL_H
#define SINTER_RUNTIME_DUAL_H
#include "runtime/transform/level.h"

typedef struct DualSpec {
    const char *what; /* the public function, for errors */
    sn_body body;
    void *closure;
    sn_tensor *const *in, *const *tangents; /* an entry NULL: a constant */
    int n_in;
    int n_outs;          /* that the body sets */
    sn_tensor **outs;    /* the body's, */
    sn_tensor **tangent; /* and theirs: of the first n_tangents, which are floats */
    int n_tangents;
} DualSpec;
Status dual_run(const DualSpec *spec);

/* The tangents of a call's results (NULL: zeros), from those of its tensors: `tangents` by argument, and behind the
 * arguments by items of lists, in order. What the call gave is outs, of which there are n. */
typedef struct DualCall {
    const OpRow *row;
    const Arg *args;            /* what the handles stand for */
    sn_tensor *const *tangents; /* NULL: a constant */
    sn_tensor *const *outs;
    int n;
} DualCall;
Status dual_tangents(const DualCall *call, sn_tensor **out);
bool dual_has_rule(const OpRow *row); /* else its parts have */

#endif
