/* tape_limits.h: what eager's tape would do of a graph that compiled code cannot: such a segment, or body of control
 * flow, runs eagerly. */
#ifndef SINTER_RUNTIME_TAPE_LIMITS_H
#define SINTER_RUNTIME_TAPE_LIMITS_H
#include "runtime/capture/record/trace_graph.h"

/* Which ops of a captured graph eager's tape records, as the trace says (TracedOp.needs). */
typedef struct TapeNeeds {
    const bool *want;      /* by graph input: it has a history */
    const uint32_t *needs; /* by node id: the arguments (bits) for which it is recorded; 0: it is not */
} TapeNeeds;
/* Why it must run eagerly, or NULL. trace, inputs: of a segment; NULL: a body of control flow, which writes no
 * input. */
Reason tape_limits_refusal(Graph *graph, const TapeNeeds *tape, const Trace *trace, const GraphInput *inputs);

#endif
