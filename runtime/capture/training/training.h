/* training.h: a segment whose results carry gradients: a forward and a backward executable, split
 * by the partitioner, and one tape node per launch.
 *
 * The backward compiled with it serves the default signature: every differentiable result has a gradient, all
 * are wanted, no partial sums exist. Other signatures get a compiled backward of their own on first need
 * [semantics G1]; create_graph, and what has no code, expands into eager's nodes, made from the saved
 * values [semantics G3]. */
#ifndef SINTER_RUNTIME_TRAINING_H
#define SINTER_RUNTIME_TRAINING_H
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/tape_limits.h"
#include "runtime/capture/variant/variant.h"

typedef struct Training Training;

/* Of FunctionClass: trained where a result of the captured graph carries a gradient to its inputs; plain with a
 * history where that is what a captured backward left. ST_UNSUPPORTED where eager's tape does what a compiled segment
 * cannot. */
Status training_choose_kind(Variant *variant, const TraceGraph *made, const Trace *trace);
extern const VariantKind training_kind, training_history_kind;
/* training_history.c: sets variant->history, for results that carry gradients in a segment that has gone
 * backward. ST_UNSUPPORTED where some of it still holds values. */
Status training_history(Variant *variant, Graph *graph, const TapeNeeds *tape, const Trace *trace);
/* By output of the variant: its node on the tape is the launch's. A stale view's is made from its base's on demand.
 * NULL: memory is out. */
bool *training_tracked(const Variant *variant, const Trace *trace);
/* Of training_kind. Launches the forward and records the node; outs as execute gives them. */
Status training_run(Variant *variant, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                    Storage *const *given, sn_tensor **outs);
Status training_replace(struct TapeNode *was, const Variant *before, struct TapeNode *node, const Variant *variant);
/* Of training_history_kind: and the node of variant->history. */
Status training_run_with_history(Variant *variant, sn_tensor *const *inputs, const int64_t *symbols,
                                 const double *floats, Storage *const *given, sn_tensor **outs);
/* Prints a stage of the two graphs that run: forward, backward, fused and those of plans; false: not one of them. */
bool training_dump(const Variant *variant, const Dump *dump, Text *text);
void training_print_joint(const Variant *variant, Text *text); /* the graph that was split into the two */
/* Those of the forward and the default backward; how many. */
int training_plans(const Variant *variant, Plan *plans[MAX_PLANS]);
/* The default backward, NULL: there is none. */
const Executable *training_backward(const Variant *v);
/* For how many signatures beside the default one a backward was compiled, and its kernels. */
int training_signatures(const Variant *variant, int *kernels);
/* Why the backward of n further signatures runs as eager's nodes: the at-th reason, NULL past the last. */
const char *training_signatures_refused(const Variant *variant, int at, int *n);
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

#endif
