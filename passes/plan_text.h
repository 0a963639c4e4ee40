/* plan_text.h: the lines of a plan's text, filled from a plan or by the parser, printed by one
 * function. Names point into the arena. */
#ifndef SINTER_PASSES_PLAN_TEXT_H
#define SINTER_PASSES_PLAN_TEXT_H
#include "ir/plan.h"

typedef struct ParamLine {
    enum { PARAM_int, PARAM_float, PARAM_tile } kind;
    int64_t value; /* an expression; float: its index */
} ParamLine;

typedef struct StepLine {
    const char *name; /* of the kernel or the op */
    bool native, write_back;
    VEC(const char *) outs; /* native: slots */
    VEC(const char *) args; /* slots; native: also numbers and lists as text */
    VEC(ParamLine) params;
    int n_ops;
} StepLine;

typedef struct SlotLine {
    const char *name;
    Slot slot;
} SlotLine;

typedef struct PlanLines {
    Arena *arena;
    SymEnv *env;
    bool memory_only;
    VEC(const Kernel *) kernels;
    VEC(StepLine) steps;
    VEC(SlotLine) slots;
    int64_t arena_bytes;
} PlanLines;

void plan_lines_print(const PlanLines *lines, Text *text);

#endif
