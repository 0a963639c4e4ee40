/* capture_hooks.h: what a lower folder of capture asks of a higher one (its README.md has their order). As in
 * runtime/core/hooks.h these are the only calls that go up, start.c fills the table, no row is ever NULL, and a row has
 * the name of the function that fills it, whose header says what it does. */
#ifndef SINTER_RUNTIME_CAPTURE_HOOKS_H
#define SINTER_RUNTIME_CAPTURE_HOOKS_H
#include "ir/graph.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/trace_graph.h"

typedef struct CaptureHooks {
    /* transform, asked by record: the checkpoints of a segment that runs op by op; told by flow: what a region made
     * without an op of its own */
    Status (*checkpoint_segment)(Trace *trace, int first, const int *last, int *n);
    void (*checkpoint_made)(const sn_tensor *t);
} CaptureHooks;

extern CaptureHooks capture_hooks;

#endif
