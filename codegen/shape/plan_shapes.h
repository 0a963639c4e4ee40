/* plan_shapes.h: the shapes of a whole plan: decided into it, printed, read back (the stage "shapes" of a
 * CPU; codegen/cuda/plan_mappings.h has it for any machine). */
#ifndef SINTER_CODEGEN_SHAPE_PLAN_SHAPES_H
#define SINTER_CODEGEN_SHAPE_PLAN_SHAPES_H
#include "codegen/shape/shape.h"
#include "ir/plan.h"

/* Every nest of the plan gets its shape on `machine`, which outlives the plan. Raises ST_MEMORY. */
Status plan_shape(Plan *plan, const Machine *machine);
/* The shape of a step's nest: what the plan carries, if that is for this machine, else decided in `arena`. NULL: memory
 * is out. */
const NestMapping *plan_shape_of(const Plan *plan, const Step *step, int nest, const Machine *machine, Arena *arena);

/* Each kernel of the plan as loop IR with the shapes of its nests. */
void shapes_print(const Plan *plan, const Machine *machine, Text *text);
/* The shapes of a kernel's nests, which are read and checked. Raises ST_PARSE, or ST_INTERNAL for one that does not fit
 * its nest. */
Status shapes_parse(Arena *arena, TextReader *in, const Kernel *kernel, const Machine *machine, NestMapping ***out);
/* NULL: memory is out. */
NestMapping **shapes_decide(Arena *arena, const Kernel *kernel, const Machine *machine);

#endif
