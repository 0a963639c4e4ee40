/* level_flow.h: what a level does with control flow that is an op [semantics T4, T5]: a predicate that differs from
 * example to example has no value at the level, so its bodies cannot run op by op there. Where it is one value,
 * sn_cond and its like run their bodies on handles, and no such op comes by. */
#ifndef SINTER_RUNTIME_LEVEL_FLOW_H
#define SINTER_RUNTIME_LEVEL_FLOW_H
#include "runtime/transform/level.h"

/* Examples: one by one, a level further out. */
Status vmap_flow(OpCall *call, const Level *level);
/* Gradients, of a call on handles whose key below is vmap_back: a node of the level's tape for the whole call, whose
 * backward is sn::cond_backward; else op by op. */
Status grad_flow(OpCall *call);
/* Tangents: op by op; where that is out of reach an error. */
Status dual_flow(OpCall *call);

#endif
