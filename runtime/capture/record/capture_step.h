/* capture_step.h: one step along the trie, to a node that was found or added (capture_record.h), or to the expected one
 * (capture_follow). */
#ifndef SINTER_RUNTIME_CAPTURE_STEP_H
#define SINTER_RUNTIME_CAPTURE_STEP_H
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/trace_graph.h"
#include "runtime/core/state.h"

/* What the meta rule says of results, for fresh ones. */
typedef struct FreshResults {
    const Meta *const *metas;
    const AliasFact *alias; /* NULL: all have memory of their own */
} FreshResults;

static inline uint8_t capture_modes(const sn_state *state) {
    static const uint8_t modes[] = {[SN_GRAD_ON] = 0, [SN_GRAD_OFF] = NODE_no_grad, [SN_INFERENCE] = NODE_inference};
    return modes[state->grad_mode];
}

/* What the tape refuses to write is refused at the call, for sizes that a variant was made for too. As in eager that
 * comes before the meta rule, which may refuse the sizes, and the backend's reasons come last. */
Status capture_check_written(const Trace *trace, const TraceOp *op);

static inline Status capture_check_recorded(const Trace *trace, const TraceOp *op) {
    return LIKELY(op->form == FORM_functional) ? ST_OK : capture_check_written(trace, op);
}

/* numbers: the node's n_numbers, as the call has them. */
Status capture_step(Capture *capture, sn_state *state, const OpCall *call, TrieNode *node, const int64_t *numbers,
                    const FreshResults *results);

/* A call in a body, before the traversal of its keys. True: it is the one that the trie expects, the walk would have
 * ended at the capture key, and the step is taken; *status is its outcome. False: nothing has happened. */
bool capture_follow(Tracer *self, sn_state *state, OpCall *call, Status *status);

#endif
