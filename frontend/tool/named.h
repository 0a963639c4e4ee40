/* named.h: inputs and results of a target by name, as safetensors files. A program (.pt2) has its own names, a text
 * graph those of its header ("x", "s1"); the inputs of a plan or a library's function are "0", "1"..., and so are
 * results without names. Numbers are tensors of no dims. */
#ifndef SINTER_TOOL_NAMED_H
#define SINTER_TOOL_NAMED_H
#include "frontend/tool/target.h"

/* Makes the inputs of a target from the file. What the export fixed may be left out. Raises what is missing, too much,
 * or of another dtype or size, with a list of all that is wanted. */
void named_inputs(const char *path, Target *t);
/* Writes the results there; None is left out. */
Status named_save(const char *path, const Target *t, sn_tensor *const *out);

#endif
