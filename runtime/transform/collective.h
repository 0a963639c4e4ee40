/* collective.h: what ranks do together: sums in rank order and copies of each other's tensors [semantics T10]. Plain
 * values without history; collective_call gives one of them a node on the tape. */
#ifndef SINTER_RUNTIME_COLLECTIVE_H
#define SINTER_RUNTIME_COLLECTIVE_H
#include "runtime/transform/ranks.h"

typedef enum CollectiveKind { COLLECTIVE_reduce, COLLECTIVE_gather, COLLECTIVE_scatter } CollectiveKind;

/* n tensors at one meeting, in the same order on all ranks; outs are of the innermost scope. In a captured body it is a
 * break. */
Status collective_run(sn_comm *rank, CollectiveKind kind, sn_tensor *const *tensors, int n, bool mean,
                      sn_tensor **outs);
/* One tensor, differentiable; NULL raised. */
sn_tensor *collective_call(sn_comm *rank, CollectiveKind kind, sn_tensor *t, bool mean);

#endif
