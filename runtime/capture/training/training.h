/* training.h: a segment whose results carry gradients: a forward and a backward executable, split
 * by the partitioner, and one tape node per launch.
 *
 * The backward compiled with it serves the usual key: every differentiable result has a gradient, all
 * are wanted, no partial sums exist. Other keys get a compiled backward of their own on first need
 * [semantics G1]; create_graph, and what has no code, expands into eager's nodes, made from the saved
 * values [semantics G3]. */
#ifndef SINTER_RUNTIME_TRAINING_H
#define SINTER_RUNTIME_TRAINING_H
#include "runtime/capture/record/capture.h"
#include "runtime/capture/variant/variant.h"

typedef struct Training Training;

/* Does a result of the captured graph carry a gradient to its inputs? ST_UNSUPPORTED where eager's
 * tape does what a compiled segment cannot. Sets variant->history. */
Status training_wanted(Variant *variant, const TraceGraph *made, const Trace *trace, bool *wanted);
/* Which ops of a captured graph eager's tape records, as the trace says (TraceStep.needs). */
typedef struct TapeNeeds {
    const bool *want;      /* by graph input: it has a history */
    const uint32_t *needs; /* by node id: the arguments (bits) for which it is recorded; 0: it is not */
} TapeNeeds;
/* training_limits.c: why the segment must run eagerly, or NULL. */
const char *training_refusal(Graph *graph, const TapeNeeds *tape, const Trace *trace, const GraphInput *inputs);
/* The same of a body of control flow, which writes no input; want and needs as in TapeNeeds. */
const char *training_body_refusal(Graph *graph, const bool *want, const uint32_t *needs);
/* training_history.c: sets variant->history, for results that carry gradients in a segment that has gone
 * backward. ST_UNSUPPORTED where some of it still holds values. */
Status training_history(Variant *variant, Graph *graph, const TapeNeeds *tape, const Trace *trace);
/* By output of the variant: its node on the tape is the launch's. A stale view's is made from its base's on demand.
 * NULL: memory is out. */
bool *training_tracked(const Variant *variant, const Trace *trace);
/* Sets variant->training: the plans of both. */
Status training_compile(Variant *variant, Graph *graph, const Trace *trace);
/* Their code: *run is the forward's; adds to info. Once. */
Status training_make_code(Variant *variant, CompileReport *info, Executable **run);
Status training_settle(Variant *variant); /* compile_settle for both */
/* Launches the forward and records the node; outs as execute gives them. */
Status training_run(Variant *variant, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                    sn_tensor **outs);
/* Puts the node of a second launch of the same ops, with more results, in the place of the first one's: edges to the
 * first one's results lead to it, and what was used up or written since the first launch is so for the second. */
Status training_take_place(struct TapeNode *was, const Variant *before, struct TapeNode *node, const Variant *variant);
/* The node of a launch of variant->history; outs: its results. */
Status training_attach(Variant *variant, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                       sn_tensor *const *outs);
/* Prints a stage of the two graphs that run: forward, backward, fused and those of plans; false: not one of them. */
bool training_dump(const Variant *variant, const Dump *dump, Text *text);
void training_print_joint(const Variant *variant, Text *text); /* the graph that was split into the two */
/* Those of the usual forward and backward; how many. */
int training_plans(const Variant *variant, Plan *plans[MAX_PLANS]);
/* The usual backward, NULL: there is none. */
const Executable *training_backward(const Variant *v);
/* For how many keys beside the usual one a backward was compiled, and its kernels. */
int training_keys(const Variant *variant, int *kernels);
/* Why the backward of n further keys runs as eager's nodes: the at-th reason, NULL past the last. */
const char *training_keys_refused(const Variant *variant, int at, int *n);
/* How many tensors a launch saves for its backward; NULL: 0. */
int training_saved(const Training *training);
/* What forward keeps for backward, by number; false past the last. */
typedef struct SavedValue {
    const char *name; /* of the input it is, or NULL */
    const OpRow *op;  /* that made it, or NULL */
    const Meta *meta;
    const SymEnv *env;
} SavedValue;
bool training_saved_at(const Variant *variant, int i, SavedValue *out);
void training_free(Training *training);

#endif
