/* dynamic.h: what of a trace becomes symbols and runtime numbers. */
#ifndef SINTER_RUNTIME_DYNAMIC_H
#define SINTER_RUNTIME_DYNAMIC_H
#include "runtime/capture/record/trace_graph.h"

/* Static for the first trace of an end (or symbolic sizes throughout with SN_DYNAMIC_ALWAYS), else what differs from
 * `older` becomes symbols and runtime numbers. */
Status trace_symbols_make(const sn_function *fn, const Trace *trace, const Variant *older, Arena *arena,
                          TraceSymbols *out);

#endif
