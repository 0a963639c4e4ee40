/* body_trace.h: a body of control flow as a graph [semantics T2]: it runs once on handles without data, and what it
 * calls becomes nodes.
 *
 *   handle of carry 0   ->  body: sn_mul(c, w)   ->  dispatch: key capture  ->  %0 = aten::mul.Tensor(%x0, %closed0)
 *
 * A value asked for, a host effect that the program would miss, an op that no graph holds: then there is no graph, and
 * the body itself runs each time. A write to what comes from outside is an error. */
#ifndef SINTER_RUNTIME_BODY_TRACE_H
#define SINTER_RUNTIME_BODY_TRACE_H
#include "ir/graph.h"
#include "runtime/base/hash.h"
#include "runtime/core/frame.h"
#include "runtime/core/tracer.h"

typedef struct FlowCode FlowCode; /* flow_code.c */
typedef struct FlowBody {
    const char *op, *what; /* for errors: "sn_cond", "the true branch" */
    sn_body run;
    void *closure;
    int n_in, n_out;
    bool itself; /* it runs itself, also where there is a graph: at a transform's level, on its handles */
    /* After body_trace: */
    Arena *arena;
    Graph *graph;            /* NULL: it could not be traced */
    Reason reason;           /* why, in words */
    VEC(sn_tensor *) closed; /* what it closes over, retained: the graph's inputs behind the first n_in */
    VEC(const void *) sites; /* of the graph's nodes */
    const FlowCode *code;    /* of the graph, in a launch; or NULL */
    FlowCode *held;          /* whose text or graph it uses; or NULL */
} FlowBody;

/* Of arguments with these layouts. An error of the body's own, or of memory, is one of the call. */
Status body_trace(FlowBody *body, const Meta *const *params);
void body_trace_free(FlowBody *body);
void flow_code_leave(FlowBody *body); /* it holds no code any more */

/* Runs it: the graph op by op, or the body. Results are scope-owned and row-major, and share no memory with anything.
 * What the ops leave behind goes with their end. */
Status flow_body_run(const FlowBody *body, sn_tensor *const *in, sn_tensor **out);

/* Whether result i requires gradients where these arguments do, by the graph. */
bool flow_body_tracks(const FlowBody *body, sn_tensor *const *in, int i);
/* The same of all results: in by argument, which are followed by what it closes over; out by result. */
Status flow_body_marks(const FlowBody *body, const bool *in, bool *out);

#endif
