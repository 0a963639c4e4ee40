/* engine_workers.h: rules of a backward that workers run before their turn [semantics G1]. What a rule gives is
 * delivered when the node's turn comes, by the thread that runs the backward, so that nothing but time depends on
 * workers. */
#ifndef SINTER_RUNTIME_ENGINE_WORKERS_H
#define SINTER_RUNTIME_ENGINE_WORKERS_H
#include "runtime/autograd/tape.h"

typedef struct EngineWorkers EngineWorkers; /* of one run of the engine */
typedef struct WorkerJob WorkerJob;         /* one node's rule */

/* Elements from which a node is worth a worker: some 10 us of a pointwise rule. */
enum { WORKER_ELEMENTS = 1 << 15 };
static inline bool worker_is_worth(const TapeNode *node) {
    return node->n_outs && node->out_meta[0] && node->out_meta[0]->numel >= WORKER_ELEMENTS;
}

/* For a run that has these nodes still to come, with all that they lead to; NULL: there are no workers, or user code
 * sees each op. Raises nothing. */
EngineWorkers *engine_workers_new(TapeNode *const *waiting, int n);
void engine_workers_free(EngineWorkers *run); /* its jobs are freed */
bool engine_workers_have_capacity(const EngineWorkers *run);
/* May the node's rule run now, while `current` has its turn? All that gives it gradients has run, it is large and built
 * in, and no user code comes before it, which could write what it has saved. */
bool engine_workers_allow(EngineWorkers *run, const TapeNode *node, const TapeNode *current);
/* The node has run, and delivered. */
void engine_workers_passed(EngineWorkers *run, const TapeNode *node);

/* For the log: "#7 SinBackward begins on a worker". */
void engine_workers_log(const TapeNode *node, const char *what);

/* needs: by edge. NULL: memory is out, which raises nothing. grad_out stays as it is until the job is freed. */
WorkerJob *worker_start(EngineWorkers *run, TapeNode *node, sn_tensor *const *grad_out, const bool *needs, bool retain);
/* No worker has begun it, and none will. */
bool worker_cancel(WorkerJob *job);
/* Waits for it; raises its error. */
Status worker_finish(WorkerJob *job);
/* The contribution of an edge, handed over to the innermost scope; NULL: none. */
sn_tensor *worker_result(WorkerJob *job, int edge);
void worker_job_free(WorkerJob *job); /* waits for it */

#endif
