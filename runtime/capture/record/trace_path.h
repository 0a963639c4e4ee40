/* trace_path.h: why a segment has no variant at all. */
#ifndef SINTER_RUNTIME_TRACE_PATH_H
#define SINTER_RUNTIME_TRACE_PATH_H
#include "runtime/capture/record/capture.h"

/* Where the trace leaves the paths that its function took before: "a new path: aten::tanh at model.c:12 after ...". */
void trace_new_path(const Trace *trace, Text *text);

#endif
