/* plan.h: what lowering hands to the runtime: the call sequence of a compiled graph and where its values live.
 *
 * A slot is one piece of memory: a graph input's storage, a fresh output, a range of the arena. Kernels' buffers and
 * native steps name slots. All ints may be expressions of the plan's SymEnv. Steps run in order; all slots written
 * through `write_back` steps come after every checked step [semantics C8]. */
#ifndef SINTER_IR_PLAN_H
#define SINTER_IR_PLAN_H
#include "ir/graph.h"
#include "ir/loop.h"

typedef enum SlotKind { SLOT_input, SLOT_output, SLOT_arena } SlotKind;
typedef struct Slot {
    SlotKind kind;
    int index;        /* input or output number */
    const Meta *meta; /* layout of the value that the slot holds */
    int64_t offset;   /* arena: bytes; set by the memory plan */
    int64_t bytes;    /* arena and output */
    int first, last;  /* steps that use it: its lifetime */
} Slot;

typedef enum StepKind { STEP_kernel, STEP_native } StepKind;
typedef struct Step {
    StepKind kind;
    Kernel *kernel;
    int *bufs;        /* kernel: slot of each buffer (-1: the tile) */
    const OpRow *row; /* native: the op's CPU kernel on tensors that wrap the slots */
    Arg *args;        /* native: tensor arguments are GVal *, found in slot_of */
    GVal **outs;      /* native */
    bool write_back;  /* writes memory that is visible outside */
    int n_ops;        /* graph nodes in it: for shares and names */
    int *ops;         /* their ids in the graph given to lowering */
    const struct NestShape *
        *shapes; /* kernel: of each nest, on the plan's machine; NULL: not decided [codegen/shape] */
} Step;

/* How a value of the lowered graph lies in a slot (views share their base's). */
typedef struct Place {
    int slot;               /* -1: not materialised */
    int64_t offset;         /* elements from the slot's start */
    const int64_t *strides; /* elements */
} Place;

typedef struct Plan {
    Arena *arena;
    Graph *graph; /* the lowered graph */
    Device
        device; /* which runs every step and has all slots: the host's, until there are steps that copy between two */
    VEC(Slot) slots;
    VEC(Step) steps;
    Place *places;       /* by value id */
    int64_t arena_bytes; /* may be symbolic; 64-byte aligned parts */
    /* bytes that unfused execution would move less what this plan moves: for explain */
    int64_t saved_bytes;
    const char **refusals; /* "why not fused", one line each */
    int n_refusals;
    const struct Machine *machine; /* that the steps' shapes are for; NULL: not decided */
} Plan;

/* What an executor relies on: kernels that verify, buffers and values in slots that exist, write-backs after all
 * checks; `packed`: slots of the arena that are alive together do not overlap. Raises ST_INTERNAL naming the step or
 * slot. */
Status plan_verify(const Plan *plan, bool packed);
void plan_print(Plan *plan, Text *text);              /* the stage "loops": kernels, call sequence, memory */
void plan_print_memory(const Plan *plan, Text *text); /* the stage "memory" alone */
/* Reads one text of either stage and prints it again; raises ST_PARSE naming the line. */
Status plan_reprint(const char *text, const char **end, Text *out);

#endif
