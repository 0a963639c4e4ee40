/* replay.h: mode `replay`: a call whose guards pass does not run the body at all [semantics C6].
 *
 * A specialized call (specialized_call.h) is learnt from a verified call that was one compiled segment: which call
 * inputs and which closed-over tensors (bound by identity, retained) feed the graph, and which graph outputs are the
 * results. Calls that were learnt are entries of its cache; it runs other sizes and scalars too. */
#ifndef SINTER_RUNTIME_REPLAY_H
#define SINTER_RUNTIME_REPLAY_H
#include "runtime/capture/record/capture.h"
#include "runtime/capture/replay/call_results.h"

/* What a call has for its results; both may be NULL. */
typedef struct ReplayResults {
    ResultSink *sink;     /* memory for them */
    CallResult *describe; /* asked what they would be: then nothing runs */
} ReplayResults;

/* Runs the call by a specialized one if one fits: *ran tells. */
Status replay_try(sn_function *fn, const Arg *in, int n_in, sn_tensor **out, int n_out, ReplayResults results,
                  bool *ran);
/* A call of a saved plan: an error that names the guards where no case fits. */
Status replay_run(sn_function *fn, const Arg *in, int n_in, sn_tensor **out, int n_out, ReplayResults results);
/* After a verified call: learns it, or says once why this function cannot be replayed. */
void replay_learn(sn_function *fn, Capture *capture, const Arg *in, int n_in, sn_tensor *const *out, int n_out);
void replay_count(const sn_function *fn, sn_stats *stats); /* adds the calls that ran no body */
void replay_free(sn_function *fn);

#endif
