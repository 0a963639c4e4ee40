/* plan.h: a program for an executor: a call sequence, where its values live, and all that a call of it needs. Lowering
 * makes it from a graph, which it does not refer to afterwards; its text parses back to a plan that runs.
 *
 * A slot is one piece of memory: an input's storage, a fresh output, a range of its device's arena. Kernels' buffers
 * name slots, native steps and copies name values in them. All ints may be expressions of the plan's SymEnv. Steps run
 * in order, each on its device; all slots written through `write_back` steps come after every checked step
 * [semantics C8]. */
#ifndef SINTER_IR_PLAN_H
#define SINTER_IR_PLAN_H
#include "ir/graph.h"
#include "ir/loop.h"

typedef enum SlotKind { SLOT_input, SLOT_output, SLOT_arena } SlotKind;
typedef struct Slot {
    SlotKind kind;
    int index;        /* input or output number; arena: which of its slots */
    const Meta *meta; /* layout of the value that the slot holds; its device is the slot's */
    int64_t offset;   /* arena: bytes; set by the memory plan */
    int64_t bytes;    /* arena and output */
    int first, last;  /* steps that use it: its lifetime */
} Slot;

/* A tensor in a slot; its strides are those that it has there. Arguments and results of native steps and of copies. */
typedef struct PlanValue {
    Val base; /* first: a PlanValue is a Val */
    int slot;
    int64_t offset; /* elements from the slot's start */
} PlanValue;
static inline PlanValue *plan_value(const Val *v) { return (PlanValue *)v; }

typedef enum StepKind {
    STEP_kernel,
    STEP_native,
    STEP_eager, /* an op that does not lower for these sizes: as eager runs it */
    STEP_copy   /* a value to another device, cast and broadcast as aten::copy_ does */
} StepKind;
typedef struct Step {
    StepKind kind;
    Device device; /* which runs it and has its slots; a copy: which it goes to */
    Kernel *kernel;
    int *bufs;             /* kernel: slot of each buffer (-1: the tile) */
    const OpRow *row;      /* native: the op's kernel on tensors that wrap the slots; eager: the op */
    const char *why;       /* eager: it does not lower */
    Arg *args;             /* native, eager: tensor arguments are PlanValues; copy: args[0] is what is copied */
    PlanValue **outs;      /* native, eager; copy: one */
    int n_outs;            /* native, of a row with a list of results: how many these are */
    int workspace;         /* native: slot of the bytes that its kernel needs beside them, or -1 */
    bool write_back;       /* writes memory that is visible outside */
    int n_ops;             /* graph nodes in it: for shares and names */
    int *ops;              /* their ids, which plan->ops is by */
    const uint64_t *tuned; /* kernel: by nest, what its shape is known by where it is not the decided one; 0: it is */
    const struct NestMapping *
        *shapes; /* kernel: of each nest, on the plan's machine; NULL: not decided [codegen/shape] */
} Step;

typedef struct PlanInput { /* its slot, the one of this index, has the metadata */
    const char *name;
    bool written;
} PlanInput;

typedef struct PlanOutput {
    OutKind kind; /* how the caller's result relates to memory; OUT_new: the output slot of this index */
    int base;     /* input or output index for views and OUT_input */
    int64_t offset;
    const Meta *meta; /* NULL: OUT_none */
} PlanOutput;

typedef struct PlanOp { /* an op of the lowered graph, for errors and explain */
    const OpRow *row;   /* NULL: none of this id is in a step */
    const OpRow *of;    /* that it is a part of by decomposition, or NULL */
    int step;
    const char *says; /* of a check: what is wrong where it fails; or NULL */
} PlanOp;

typedef struct PlanArena { /* the memory of one device for one call */
    Device device;
    int64_t bytes; /* may be symbolic; 64-byte aligned parts */
    int64_t most;  /* of a call by step: bytes of slots that are alive at once, by the hints */
} PlanArena;

/* Two nests that the scheduler made one, or that it could have. */
typedef struct PlanMerge {
    const OpRow *from, *to;
    int from_id, to_id; /* of their values, as the stage prints them */
    int64_t bytes;      /* that one moves less than two, by the hints of sizes; negative: more */
    const char *why;    /* it was not done, "": because of its bytes; NULL: it was done */
} PlanMerge;

typedef struct PlanFront { /* inputs that no call gives: results of code that is not the library's */
    int n_in;              /* that a call gives; those behind them are the results */
    const struct BackendCode *code;
} PlanFront;

typedef struct Plan {
    Arena *arena;
    SymEnv *env; /* symbols with their bounds, and what must hold of them [C5] */
    VEC(PlanInput) inputs;
    const PlanFront *front; /* NULL: calls give all inputs */
    /* Of the program's that took part in making it, a line each ("pass fuse 3"); NULL: none. Part of what its code is
     * known by on disk. */
    const char *extensions;
    bool unversioned; /* one has no version: nothing is stored */
    VEC(PlanOutput) outputs;
    VEC(double) floats;     /* hints of runtime floats */
    int64_t seed, sequence; /* symbols bound to the generator's on every call; 0: no random op [B6] */
    int n_random;           /* sequence numbers that a call takes */
    VEC(Slot) slots;
    VEC(Step) steps;
    VEC(PlanArena) arenas; /* by device; the host's is first */
    /* A call takes memory when a step writes it first, and gives it back behind the last step that reads it: as a whole
     * it would lie idle meanwhile. */
    bool by_step;
    PlanOp *ops; /* by id: kernels' instructions name them as their sources */
    int n_ops;
    /* bytes that unfused execution would move less what this plan moves: for explain */
    int64_t saved_bytes;
    /* Of regions (ir/regions.h): ops that are computed again for a backward, and the bytes of results that nobody
       saves so. */
    int n_again;
    int64_t again_bytes;
    const PlanMerge *merges; /* made and refused, in order */
    int n_merges;
    const struct Machine *machine; /* that the steps' shapes are for; NULL: not decided */
} Plan;

/* "add (%0) with gelu (%1): 1024 bytes saved", "...: too many buffers; 1024 bytes would be saved". */
void plan_merge_print(const PlanMerge *merge, Text *text);

/* How many arguments and results a step has that is no kernel. */
static inline int step_args(const Step *step) { return step->row ? step->row->n_params : 1; }
static inline int step_outs(const Step *step) {
    return !step->row ? 1 : step->row->returns_list ? step->n_outs : step->row->n_out;
}
static inline const char *step_name(const Step *step) {
    return step->kind == STEP_kernel ? step->kernel->name : step->row ? step->row->name : "copy";
}
/* The arena of a device: its place in plan->arenas, where it is added if it is not there. */
int plan_arena(Plan *plan, Device device);
const PlanOp *plan_op(const Plan *plan, int id); /* NULL: none that a step has */
/* How many steps eager runs; *first: one of them, or NULL. */
int plan_eager_steps(const Plan *plan, const Step **first);
/* Whether an op can be such a step: it computes, and what it computes depends on its arguments alone. */
bool op_runs_alone(const OpRow *row);
/* Bytes that the native kernel of an op needs beside its arguments and results, by their sizes; 0: none, or what it
 * takes itself (plan_workspace.c). */
int64_t workspace_bytes(SymEnv *env, const OpRow *row, const Arg *args);

/* What an executor relies on: kernels that verify, buffers and values in slots that exist on the step's device,
 * arguments that native ops take, write-backs after all checks; `packed`: slots of the arena lie in it, and apart where
 * they are alive together. Raises ST_INTERNAL naming the step or slot. */
Status plan_verify(const Plan *plan, bool packed);
/* Whether a plan that verifies stays in the memory of its slots under these values of its symbols: asked of plans that
 * come from texts. Raises ST_INTERNAL naming the step, slot or output. */
Status plan_check_reach(const Plan *plan, const int64_t *symbols);
void plan_print(const Plan *plan, Text *text);        /* the stage "loops": kernels, call sequence, memory, the call */
void plan_print_memory(const Plan *plan, Text *text); /* the stage "memory" alone */
/* Reads the text of the stage "loops"; *end is past it. What comes of it verifies. Raises ST_PARSE naming the line. */
Status plan_parse(Arena *arena, const char *text, const char **end, Plan **out);
/* Reads one text of either stage and prints it again; raises ST_PARSE naming the line. */
Status plan_reprint(const char *text, const char **end, Text *out);

#endif
