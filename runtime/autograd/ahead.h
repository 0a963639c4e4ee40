/* ahead.h: rules of a backward that workers run before their turn [semantics G1]. What a rule gives is delivered when
 * the node's turn comes, by the thread that runs the backward, so that nothing but time depends on workers. */
#ifndef SINTER_RUNTIME_AHEAD_H
#define SINTER_RUNTIME_AHEAD_H
#include "runtime/autograd/tape.h"

typedef struct AheadRun AheadRun; /* of one run of the engine */
typedef struct AheadJob AheadJob; /* one node's rule */

/* Elements from which a node is worth a worker: some 10 us of a pointwise rule. */
enum { AHEAD_ELEMENTS = 1 << 15 };
static inline bool ahead_is_large(const TapeNode *node) {
    return node->n_outs && node->out_meta[0] && node->out_meta[0]->numel >= AHEAD_ELEMENTS;
}

/* For a run that has these nodes still to come, with all that they lead to; NULL: there are no workers, or user code
 * sees each op. Raises nothing. */
AheadRun *ahead_new(TapeNode *const *waiting, int n);
void ahead_free(AheadRun *run); /* its jobs are freed */
bool ahead_has_capacity(const AheadRun *run);
/* May the node's rule run now, while `current` has its turn? All that gives it gradients has run, it is large and built
 * in, and no user code comes before it, which could write what it has saved. */
bool ahead_allowed(AheadRun *run, const TapeNode *node, const TapeNode *current);
/* The node has run, and delivered. */
void ahead_passed(AheadRun *run, const TapeNode *node);

/* For the log: "#7 SinBackward begins on a worker". */
void ahead_say(const TapeNode *node, const char *what);

/* needs: by edge. NULL: memory is out, which raises nothing. grad_out stays as it is until the job is freed. */
AheadJob *ahead_start(AheadRun *run, TapeNode *node, sn_tensor *const *grad_out, const bool *needs, bool retain);
/* No worker has begun it, and none will. */
bool ahead_take_back(AheadJob *job);
/* Waits for it; raises its error. */
Status ahead_finish(AheadJob *job);
/* The contribution of an edge, handed over to the innermost scope; NULL: none. */
sn_tensor *ahead_give(AheadJob *job, int edge);
void ahead_job_free(AheadJob *job); /* waits for it */

#endif
