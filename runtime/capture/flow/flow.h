/* flow.h: control flow as ops [semantics T1, T2, T3]: what the four do, each in a file of its own.
 *
 *   sn_cond  ->  a compiled function's pending ops run  ->  both bodies are traced, on handles  ->  types compared
 *            ->  the taken one runs, with random numbers of the op's own  ->  results of their own, row-major
 *
 * In a compiled function the traced bodies are texts in an op (ir/ops/flow.def), which is recorded and whose kernel
 * does the rest; where that can't be, it ends the segment and runs eagerly. A body in a traced body is such an op,
 * too. */
#ifndef SINTER_RUNTIME_FLOW_H
#define SINTER_RUNTIME_FLOW_H
#include "passes/passes.h"
#include "runtime/capture/flow/body_trace.h"
#include "runtime/core/context_enter.h"

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

/* Around each of them: capture waits, and the generator is one of the op's own [semantics T1]. */
typedef struct FlowRun {
    ContextSaved around; /* what it ran in, of one that capture waits for; else without a state */
    bool counts;         /* of ops that a graph gets, at a transform's level */
    uint64_t seed, sequence, own_seed;
} FlowRun;
Status flow_begin(const FlowCall *call, Reason reason, FlowRun *run);
Status flow_end(const FlowCall *call, const FlowRun *run, Status status);

/* Inside of transforms (flow_level.c) [semantics T4]: the bodies run themselves, on the levels' handles; where a
 * predicate differs from example to example the call is an op, which the levels' kernels know
 * (runtime/transform/level_flow.c). The generator is its own or, of ops that a graph gets, the thread's, which then
 * takes one number; until flow_end, or flow_level_leave, after which it has not begun. */
Status flow_level_begin(const FlowCall *call, const FlowBody *const *bodies, int n_bodies, FlowRun *run);
Status flow_level_leave(const FlowCall *call, const FlowRun *run, Status status);
void flow_count_begin(FlowRun *run); /* the generator as it is, and one more that runs */
void flow_derive_generator(FlowRun *run);
void flow_counts(FlowRun *run);
Status flow_level_end(const FlowCall *call, const FlowRun *run, Status status);
/* A capture waits, until flow_resume. */
Status flow_pause(const FlowCall *call, Reason reason, FlowRun *run);
void flow_resume(const FlowRun *run);
Status flow_level_inputs(const FlowCall *call);
/* Raises where one has no graph, of which an op could be made. */
Status flow_level_graphs(const FlowCall *call, const FlowBody *const *bodies, int n_bodies);
bool flow_tracks(sn_tensor *t);                  /* t, or what it is a handle of */
bool flow_text_draws(const char *text);          /* do a body's ops take random numbers? */
bool flow_is_known(const sn_tensor *pred);       /* it has one value, and has it now */
Status flow_ready(const char *op, sn_tensor *t); /* as tensor_ready, which a handle is, too */

/* As an op of a graph (flow_record.c): reason says why it can't be, NULL: it is one. */
typedef struct FlowRecord {
    const FlowCall *call;
    Reason reason; /* of the call's arena, or static */
} FlowRecord;
/* Whether it may be one: in a body that is captured or traced, or where a node of the tape stands for it. */
bool flow_records(void);
bool flow_captures(void); /* the former alone */
/* Whether what ran on a capture's handles is to be traced anew where it runs eagerly. */
bool flow_traces_again(void);
/* Arguments that may be part of one; bodies that are traced, of arguments with these layouts. */
Status flow_record_inputs(FlowRecord *record);
/* Traced bodies, in the order of the op's operands; one: one node would stand for it. Sets a reason where that, or
 * nothing on the tape, is what eager needs. */
void flow_record_tape(FlowRecord *record, const FlowBody *const *bodies, int n_bodies, bool one);
Status flow_record_body(FlowRecord *record, FlowBody *body, const Meta *const *params);
/* Records it: args of its row, but for the operands at `operands`, which are made here. */
Status flow_record_op(FlowRecord *record, const OpRow *row, Arg *args, int operands, const FlowBody *const *bodies,
                      int n_bodies);
/* A traced body as a text, which lives as long as the body; what a capture records as long as the process. NULL
 * raises. */
const char *flow_text(FlowBody *body);
/* The other way: what it closes over are the tensors at `closed`, of which it takes its share. compiled: with code,
 * where that can be made. */
Status flow_body_read(FlowBody *body, const char *text, bool compiled, Val *const **closed);
/* A text with these numbers in the place of the free symbols of `general`: where that one's code serves, one serves
 * all. */
enum { FLOW_SYMBOLS = 64 };
struct FlowNumbers;
/* flow_args_plain (ir/flow_text.h), remembered. */
Status flow_numbers_put(Arena *arena, const OpRow *row, Arg *args, struct FlowNumbers *numbers);
Status flow_code_share(const char *text, const char *general, const int64_t *values, int n);
bool flow_code_serves(const FlowCode *code); /* no user code sees its ops */
Status flow_code_run(const FlowCode *code, sn_tensor *const *in, sn_tensor **out);
/* The gradients of a body's inputs, the first of which are its arguments. */
typedef struct FlowBack {
    sn_tensor *in[FLOW_OPERANDS], *sums[FLOW_OPERANDS]; /* by input; sums: NULL none yet */
    bool want[FLOW_OPERANDS];
    sn_tensor *grads[FLOW_RESULTS]; /* by result; NULL undefined */
    uint64_t seed, sequence;        /* of its forward's random ops */
    sn_tensor *got[FLOW_OPERANDS];  /* by input: the new sum; NULL: nothing came */
} FlowBack;
/* done false: it cannot be compiled. */
Status flow_code_back(const FlowCode *code, FlowBack *back, bool *done);
typedef struct FlowJointSignature { /* by input, by result */
    uint64_t want, partial, defined;
} FlowJointSignature;
/* By node: the arguments (bits) for which the tape records it, where these inputs have a history; needs comes as 0s. */
Status flow_graph_needs(const Graph *graph, const bool *want, uint32_t *needs);
/* Whether the result of a body is a copy of the graph's output, which is no memory of its own. */
bool flow_output_is_cloned(const Graph *graph, int i);
/* t, or a copy of it with the strides of `want`; NULL raises. */
sn_tensor *flow_laid_out(const Meta *want, sn_tensor *t);

/* On the tape (flow_tape.c): one node stands for a call of which all results of floating dtype require gradients; its
 * backward runs the bodies again. In any other call, and under transforms, each op of the bodies has a node. */
typedef struct FlowMarks {
    bool operand[FLOW_OPERANDS]; /* by operand of the op: it requires a gradient */
    int n_tracked;               /* how many tensors do */
    bool fit;                    /* operands and results: there are not too many for one node */
} FlowMarks;
/* recorded: operands may be values of a capture; else they are a kernel's. */
void flow_marks(const FlowCall *call, const FlowBody *const *bodies, int n_bodies, bool recorded, FlowMarks *marks);
/* By result of a body, whose closed over tensors are the operands from `first` on. */
Status flow_marks_run(const FlowMarks *marks, const FlowBody *body, int first, bool *out);
bool flow_marks_all(const FlowBody *body, const bool *out, int from, int to); /* all of floating dtype */

/* The kernels of the rows; of the forward's with their bodies' code, or op by op. */
typedef Status FlowKernel(OpCall *op, bool compiled);
FlowKernel flow_cond_run, flow_while_run, flow_scan_run;
OpKernel flow_backward_op;
/* Of a backward op: its argument of that name, how many results it has, and what a result is that nothing came to:
 * zeros, row-major; NULL raised. */
static inline const Arg *flow_arg(const OpCall *op, const char *name) {
    return &op->args[op_param_find(op->row, name)];
}
int flow_backward_results(const OpCall *op);
sn_tensor *flow_no_gradient(const sn_tensor *operand);
/* The latter with the bodies' code (flow_joint.c); done false: it has to run op by op. */
Status flow_joint_run(OpCall *op, bool *done);
static inline Status flow_cond_op(OpCall *op) { return flow_cond_run(op, false); }
static inline Status flow_while_op(OpCall *op) { return flow_while_run(op, false); }
static inline Status flow_scan_op(OpCall *op) { return flow_scan_run(op, false); }
bool flow_cond_is_one(OpCall *op), flow_scan_is_one(OpCall *op); /* one node stands for it */
Status flow_launch(OpCall *call);                                /* of a plan's step, with results that are there */
void flow_start(void);
/* Around a kernel's run, whose end is flow_end: the generator. */
Status flow_op_begin(const FlowCall *call, FlowRun *run);
/* The first n operands, as tensors. */
static inline sn_tensor *const *flow_operands(const Arg *operands) { return (sn_tensor *const *)operands->vals; }

/* In the letter: dims of size 1 have the strides of row-major, too. */
bool flow_is_row_major(const Meta *meta);
/* ts as carries: row-major, with memory of their own; they may still be the program's. */
Status flow_carry(sn_tensor **ts, int n);
/* What the first n operands are as carries, each retained; on an error the rest is left as it was. */
Status flow_carry_metas(const FlowCall *call, int n, const Meta **metas);
/* "sn_cond: result 0 is f32[3] of the true branch and i64[3] of the false branch" where types differ. */
Status flow_same_type(const char *op, const char *part, int i, const Meta *a, const char *a_of, const Meta *b,
                      const char *b_of);
/* Whether it can be one, by its layout. */
Status flow_is_predicate(const char *op, const char *what, const Meta *meta);
/* The one bool of a predicate. */
Status flow_decide(const char *op, const char *what, sn_tensor *pred, bool *out);

#endif
