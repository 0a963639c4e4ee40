/* flow.h: control flow as ops [semantics T1, T2, T3]: what the four do, each in a file of its own.
 *
 *   sn_cond  ->  a compiled function's pending ops run  ->  both bodies are traced, on handles  ->  types compared
 *            ->  the taken one runs, with random numbers of the op's own  ->  results of their own, row-major
 *
 * In a compiled function an op of control flow ends the segment and runs eagerly. */
#ifndef SINTER_RUNTIME_FLOW_H
#define SINTER_RUNTIME_FLOW_H
#include "runtime/capture/flow/body_trace.h"

/* The arguments that all have; `in` is not NULL where there are any, nor is `out`. */
typedef struct FlowCall {
    const char *op;
    sn_tensor *const *in;
    int n_in;
    sn_tensor **out; /* NULL on error */
    int n_out;
} FlowCall;

typedef struct FlowBodies { /* a closure of each */
    sn_body first, second;
    void *first_closure, *second_closure;
} FlowBodies;

Status flow_cond(const FlowCall *call, sn_tensor *pred, const FlowBodies *branches);
/* max_iterations 0: no bound. */
Status flow_while(const FlowCall *call, const FlowBodies *loop, int64_t max_iterations);
typedef struct FlowScan {
    sn_body body;
    void *closure;
    int n_carry; /* of the inputs, the first ones; the others are scanned along dim */
    int64_t dim;
    bool reverse;
    const char *what; /* the body, for errors */
} FlowScan;
Status flow_scan(const FlowCall *call, const FlowScan *scan); /* n_carry 0: a map */

/* Around each of them: capture pauses, and the generator is one of the op's own [semantics T1]. */
typedef struct FlowRun {
    Capture *paused;
    uint64_t seed, sequence, own_seed;
} FlowRun;
Status flow_begin(const FlowCall *call, FlowRun *run);
Status flow_end(const FlowCall *call, const FlowRun *run, Status status);

/* ts as carries: row-major, with memory of their own; they may still be the program's. */
Status flow_carry(sn_tensor **ts, int n);
/* "sn_cond: result 0 is f32[3] of the true branch and i64[3] of the false branch" where types differ. */
Status flow_same_type(const char *op, const char *part, int i, const Meta *a, const char *a_of, const Meta *b,
                      const char *b_of);
/* The one bool of a predicate. */
Status flow_decide(const char *op, const char *what, sn_tensor *pred, bool *out);

#endif
