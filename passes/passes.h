/* passes.h: graph to graph, graph to plan, and the rule tables of derivatives, decompositions and scalar bodies.
 * A pass is a row in passes.def and one function, true if it changed the graph; failures bail (graph->bail) or, where
 * a graph has none, raise. One runner skips, times, verifies, logs and dumps.
 *
 * A pass names no op: it asks a flag or column of the op's row (ir/op.h). Ops are named by rules (rules/), peepholes
 * (fold.def) and where one is emitted. It asks no setting, so that the same graph and options give the same code: what
 * a caller wants comes with PassOptions. tests/check_forbidden.c holds both. */
#ifndef SINTER_PASSES_PASSES_H
#define SINTER_PASSES_PASSES_H
#include "ir/flow_limits.h"
#include "ir/graph.h"
#include "ir/plan.h"

/* passes -------------------------------------------------------------------------------------- */
typedef struct PassOptions PassOptions;
typedef bool PassFn(Graph *graph, const PassOptions *options);
typedef struct PassRow {
    const char *name, *doc;
    PassFn *run;
    Stage in, out; /* STAGE_COUNT: any; kept */
} PassRow;
typedef struct PipelineRow {
    const char *name, *passes, *doc;
} PipelineRow;
const PassRow *pass_row(int i); /* NULL past the last */
const PipelineRow *pipeline_row(int i);
/* From the graph to its plan: the rows from `schedule` on, which leave the nodes alone. */
static inline bool pass_plans(const PassRow *pass) { return pass->out >= STAGE_scheduled && pass->out < STAGE_COUNT; }

typedef void PassTrace(void *context, const PassRow *pass, Graph *graph, int64_t ns); /* after each pass */
struct PassOptions {
    bool verify;      /* the verifier after every pass (on in tests) */
    bool unfused;     /* schedule: one kernel per node */
    bool fast;        /* schedule: templates may round otherwise than eager (sn_numerics) */
    bool must_run;    /* eager's own programs: nothing stands behind them, so no failpoint */
    const char *skip; /* list of passes not run, or NULL */
    int limit;        /* bisect: run only so many passes; 0: all */
    /* Told of each extension of the program's that changed the graph or computes it: "pass" or "backend", its name,
     * its version or NULL. NULL: nobody asks. */
    void (*took_part)(void *context, const char *kind, const char *name, const char *version);
    void *took_part_context;
    /* backend: gives code that computes the graph, which lives as long as the call; NULL, raised: it has none. NULL:
     * the library makes the code. */
    const struct BackendCode *(*computes)(void *context, Graph *graph);
    void *computes_context;
    bool *ran; /* out, joint: by id of the nodes that it finds, whose rules were applied; NULL: nobody asks */
    PassTrace *trace;
    void *trace_context;
};
enum { MAX_LISTED = 32 };
typedef struct PassList {
    const PassRow *at[MAX_LISTED];
    int n;
} PassList;
/* The passes of a comma list of passes and pipelines ("decompose,cse", "prepare,schedule"), in order; raises
 * ST_ARGUMENT with the valid names for an unknown one. */
Status passes_list(const char *names, PassList *list);
Status passes_run(Graph *graph, const char *names, const PassOptions *options);
/* Those of them up to the first that leaves the stage; of a captured graph, which is at the first one, none. */
Status passes_run_to(Graph *graph, const char *names, Stage stage, const PassOptions *options);

/* Gradients of a graph [semantics G]: what a backward is made for. */
typedef struct JointSpec {
    const bool *want;         /* by input: its gradient is wanted */
    const bool *grad_defined; /* by output: it has a gradient */
    const bool *partial;      /* by input: a partial sum of its gradient is passed in and continued (G1); NULL: none */
    const Meta *const *grad_meta; /* by output: of its gradient; NULL: as the output */
    const Meta *const *sum_meta;  /* by input: of its partial sum; NULL: as the input */
} JointSpec;
/* Appends to a functional graph the sn::gradients node that the pass `joint` expands: one more input per partial sum
 * and per defined gradient; the gradients of wanted inputs are outputs after the forward's, as their rules make them,
 * or OUT_none. */
Status joint_append(Graph *functional, const JointSpec *spec);
/* By node id: which ops' rules that applies; spec NULL: those of the sn::gradients nodes that the graph has. Rules
 * leave out arguments by which results have gradients, so this is found by applying them, to a copy; `env`, a copy too,
 * takes what they decide of sizes. NULL raises. */
const bool *joint_ran(Graph *functional, Arena *arena, SymEnv *env, const JointSpec *spec);
/* Expands composites, as the pass `joint` does first, and numbers the graph: its nodes are then those that the tape
 * records. */
Status joint_expand(Graph *functional);
/* By value id: does it carry a gradient to a wanted input? NULL raises. */
const bool *joint_marks(Graph *forward, const bool *want);
/* Bits of the arguments through which the tape's node of this op passes a gradient on; 0: no node. */
uint32_t joint_needs(const bool *marks, const Node *node);
/* A copy with the same ids that shares only immutable parts. */
Graph *graph_copy(Graph *graph, Arena *arena);

/* What the pass `partition` leaves in graph->parts: a joint graph split by minimum cut over bytes; recompute starts
 * only from saved values. */
typedef struct Partition {
    Graph *forward;  /* outputs: the user's, then the saved values */
    Graph *backward; /* inputs: saved values, then output gradients and partial sums */
    Graph *restore;  /* inputs: saved values; outputs: the joint graph's of OUT_kept */
    int n_saved;
    /* saved value i is forward input saved_inputs[i], or -1: forward output n_user + its rank */
    int *saved_inputs;
} Partition;

/* "why not fused": one line per refused pair, in order; for explain and the fusion log. */
const char *plan_refusals(Plan *plan);

/* The backward of one signature, from the values that a partition saved: what eager's tape holds is made
 * again by `restore`, the rules' ops follow. functional: as joint_expand left it; kept: the ids in it
 * of restore's outputs. NULL, raised, where a rule reads what the tape does not hold. */
typedef struct SpecializedBackward {
    Graph *graph; /* inputs: saved values, present partial sums, defined gradients */
    int n_saved;
    int *saved; /* by input: which saved value */
} SpecializedBackward;
typedef struct SpecializeSpec {
    Graph *functional;
    const Graph *restore;
    const int *kept;
    SymEnv *env; /* functional's or a copy: takes what the backward decides of sizes */
    JointSpec joint;
    Bail *bail; /* the exit of the compile */
    const PassOptions *options;
} SpecializeSpec;
SpecializedBackward *specialize_backward(Arena *arena, const SpecializeSpec *spec);

/* rules --------------------------------------------------------------------------------------- */

/* What a rule of control flow (OPF_flow) also has, by element of its operands. It gives new sums of gradients, not
 * contributions [semantics T3]. */
typedef struct DerivFlow {
    bool wanted[FLOW_OPERANDS];
    Val *sums[FLOW_OPERANDS]; /* so far; NULL: nothing came yet */
    int same[FLOW_OPERANDS];  /* the first element whose gradient goes to the same place */
    int n_results;
} DerivFlow;

/* Derivative of one op call: reads args, results and incoming gradients, sets the gradients of the arguments it is
 * asked for. grad_out[i] NULL: undefined (treated as zero without making one). */
typedef struct Deriv {
    Builder *b;
    const OpRow *row;
    const Arg *args;     /* saved tensors in place; unsaved ones NULL */
    Val *const *results; /* saved results; unsaved NULL */
    Val *const *grad_out;
    /* by argument: a tensor argument whose gradient is wanted (a list: any of them) */
    const bool *needs;
    const Meta *const *arg_meta; /* by argument, also of unsaved tensors (NULL: not a tensor) */
    const Meta *const *result_meta;
    Val **grad_in;         /* by argument; lists: grad_list */
    Val **grad_list;       /* for a Tensor[] argument: one per element */
    const DerivFlow *flow; /* of control flow; else NULL */
    int n_results;         /* of results, grad_out, result_meta */
    bool eager_only;       /* gets: the error is that a graph cannot say what eager's rule does */
} Deriv;
typedef Status DerivFn(Deriv *d);
#define DERIV_all_results UINT32_MAX
DerivFn *deriv_rule(const OpRow *row); /* NULL: not differentiable */
/* false: the rule has no gradient for the argument where these results (bits) and no others have one. args: flags and
 * masks among them are read. */
bool deriv_reaches(const OpRow *row, const Arg *args, int arg, uint32_t results);
/* Results (bits) that have no elements, for their gradient was not asked for or is that of an absent argument: nothing
 * leads back to them. */
uint32_t deriv_left_out(const OpRow *row, const Arg *args);
extern DerivFn *deriv_made; /* of rows made at run time; the runtime sets it */

/* Decomposition of one op call into others, on any builder. */
typedef Status DecompFn(Builder *b, const OpRow *row, const Arg *args, Val **outs);
DecompFn *decomp_rule(const OpRow *row); /* NULL: none */
DecompFn decomp_empty_read;              /* of reads whose result has no elements */

/* The scalar graph of a pointwise op or of a reduction: returns the instruction of the element at the call's position
 * (reductions: their LI_reduce). Results may have any compute type; lowering casts and rounds to out_dtype. */
typedef struct BodyCall {
    LoopBuilder *lb;
    const OpRow *row;
    const Arg *args; /* numbers among them; tensors have meta */
    SType type;      /* compute type of the op; rules/body.h casts operands to it */
    DType out_dtype;
    DType common; /* what its operands are brought to: the promoted dtype */
    int (*element)(struct BodyCall *call,
                   int arg); /* broadcast element of a tensor argument, in its own compute type */
    int (*number)(struct BodyCall *call, int arg,
                  SType type);              /* instruction of a number argument, runtime or constant */
    int (*position)(struct BodyCall *call); /* i64: row-major index of the element, for random numbers and arange */
    int (*random)(struct BodyCall *call, int which); /* i64: 0 the seed, 1 the sequence number of this op */
    /* lowering's; index rules reach elements at other positions through passes/lower.h */
    void *context;
} BodyCall;
typedef int BodyFn(BodyCall *call);
int loop_number(LoopBuilder *lb, SType type, const Arg *number); /* a known one: an int of an int type is exact */
int loop_stored(LoopBuilder *lb, DType dtype, int inst);         /* as a store and a load would leave it */
BodyFn *body_rule(const OpRow *row);

#endif
