/* plan_mappings.h: the stage "shapes": how each nest of a plan runs on a machine, a CPU or a GPU: printed and
 * read back. */
#ifndef SINTER_CODEGEN_CUDA_PLAN_MAPPINGS_H
#define SINTER_CODEGEN_CUDA_PLAN_MAPPINGS_H
#include "codegen/shape/shape.h"
#include "ir/plan.h"

/* The machine, then each kernel as loop IR with the shapes of its nests. */
void mappings_print(const Plan *plan, const Machine *machine, Text *text);
/* Reads that, checks every kernel and shape, and prints it again; with `machine`, in the shapes decided for that one.
 * Raises ST_PARSE, ST_INTERNAL for a shape that does not fit its nest, ST_UNSUPPORTED for a kernel that `machine` does
 * not run. */
Status mappings_reprint(const char *text, const char **end, const Machine *machine, Text *out);

#endif
