/* plan_shapes.h: the shapes of a whole plan: decided into it, printed as the stage "shapes", read back. */
#ifndef SINTER_CODEGEN_SHAPE_PLAN_SHAPES_H
#define SINTER_CODEGEN_SHAPE_PLAN_SHAPES_H
#include "codegen/shape/shape.h"
#include "ir/plan.h"

/* Every nest of the plan gets its shape on `machine`, which outlives the plan. Raises ST_MEMORY. */
Status plan_shape(Plan *plan, const Machine *machine);
/* The shape of a step's nest: what the plan carries, if that is for this machine, else decided in `arena`. NULL: memory
 * is out. */
const NestShape *plan_shape_of(const Plan *plan, const Step *step, int nest, const Machine *machine, Arena *arena);

/* The machine, then each kernel as loop IR with the shapes of its nests. */
void shapes_print(const Plan *plan, const Machine *machine, Text *text);
/* Reads that, checks every kernel and shape, and prints it again; with `machine`, in the shapes decided for that one.
 * Raises ST_PARSE, or ST_INTERNAL for a shape that does not fit its nest. */
Status shapes_reprint(const char *text, const char **end, const Machine *machine, Text *out);

#endif
