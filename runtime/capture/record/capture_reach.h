/* capture_reach.h: the histories that a backward from roots walks, through the first n_ops ops of a trace, as on
 * eager's tape. */
#ifndef SINTER_RUNTIME_CAPTURE_REACH_H
#define SINTER_RUNTIME_CAPTURE_REACH_H
#include "runtime/capture/record/trace.h"

typedef struct Reach Reach;
Reach *reach_new(const Trace *trace, int n_ops); /* NULL: out of memory */
bool reach_root(Reach *reach, Operand root);     /* false: it has no history */
/* From the roots back. False: an op on the way is not differentiable by rule. */
bool reach_back(Reach *reach);
bool reach_has(const Reach *reach, Operand operand);

#endif
