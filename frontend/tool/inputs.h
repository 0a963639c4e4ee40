/* inputs.h: the inputs that a target is called with: tensors with the dtypes, sizes and strides of their types, whose
 * values the graph's ops take (domains.h), with as much memory around them as its views by numbers name; and numbers.
 * Floats are normal, ints 0 to 3, bools by sign, where no op says otherwise. */
#ifndef SINTER_TOOL_INPUTS_H
#define SINTER_TOOL_INPUTS_H
#include "frontend/tool/target.h"

/* Makes the inputs of the graph, or those of --input, and keeps them in t. Errors are left pending. */
void inputs_make(const TargetOptions *o, Target *t);
/* A kept copy without history that lies in a copy of the same memory, in another dtype or its own; it requires
 * gradients where the input does and the dtype has them. */
sn_tensor *input_copy(sn_tensor *t, sn_dtype dtype);

#endif
