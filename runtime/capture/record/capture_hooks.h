/* capture_hooks.h: what a lower folder of capture asks of a higher one (its README.md has their order). As in
 * runtime/core/hooks.h these are the only calls that go up, start.c fills the table, no row is ever NULL, and a row has
 * the name of the function that fills it, whose header says what it does. */
#ifndef SINTER_RUNTIME_CAPTURE_HOOKS_H
#define SINTER_RUNTIME_CAPTURE_HOOKS_H
#include "ir/graph.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/trace_graph.h"

struct CompileReport;
struct Executable;
struct TapeNode;
struct Training;

typedef struct CaptureHooks {
    /* variant, asked by record: the compiled run of a segment */
    bool (*variant_run_segment)(Trace *trace, Status *status);
    bool (*variant_run_late)(Trace *trace, const sn_tensor *asked, Status *status);
    Status (*variant_admit)(const Trace *trace);

    /* training, asked by variant: a segment whose results carry gradients */
    Status (*training_wanted)(Variant *variant, const TraceGraph *made, const Trace *trace, bool *wanted);
    Status (*training_compile)(Variant *variant, Graph *graph, const Trace *trace);
    Status (*training_make_code)(Variant *variant, struct CompileReport *info, struct Executable **run);
    Status (*training_settle)(Variant *variant);
    Status (*training_run)(Variant *variant, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                           sn_tensor **outs);
    Status (*training_attach)(Variant *variant, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                              sn_tensor *const *outs);
    Status (*training_take_place)(struct TapeNode *was, const Variant *before, struct TapeNode *node,
                                  const Variant *variant);
    void (*training_free)(struct Training *training);
    /* training, asked by flow: what eager's tape refuses in a body */
    const char *(*training_body_refusal)(Graph *graph, const bool *want, const uint32_t *needs);

    /* transform, asked by record: the checkpoints of a segment that runs op by op; told by flow: what a region made
     * without an op of its own */
    Status (*checkpoint_segment)(Trace *trace, int first, const int *last, int *n);
    void (*checkpoint_made)(const sn_tensor *t);

    /* function, asked by record: a call that was left; and by variant: what is said of a new one */
    const void *(*capture_call_site)(void);
    void (*capture_abandon)(Capture *capture);
    void (*explain_log)(const sn_function *fn, const Variant *variant);
    void (*stage_files_write)(const sn_function *fn, Variant *variant, const char *why, const char *failure);
    /* function, asked by training */
    void (*stage_files_backward)(const Variant *variant, int number, Graph *backward);
} CaptureHooks;

extern CaptureHooks capture_hooks;

#endif
