/* header_plan.h: what of a trace becomes symbols where a graph's header says so. */
#ifndef SINTER_RUNTIME_HEADER_PLAN_H
#define SINTER_RUNTIME_HEADER_PLAN_H
#include "runtime/capture/record/trace_graph.h"

/* Of a trace whose capture has learnt its symbols with a header. */
Status header_plan_make(const Trace *trace, Arena *arena, TraceSymbols *plan);
/* May sizes be thought of as others than the call has? */
bool header_plan_thinks(const Trace *trace);
/* The value that a size or number of a call gives a symbol that it is solved for. */
int64_t header_plan_solved(const SymBinding *binding, const SymEnv *env, int64_t got, const int64_t *symbols);

#endif
