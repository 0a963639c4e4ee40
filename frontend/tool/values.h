/* values.h: the values of a graph's inputs beside its text: `sinter dump TARGET --values=FILE` writes both, and a text
 * that begins so is run with them, also one of a training step, whose parameters are inputs that require gradients:
 *
 *     # values step.safetensors            in the text's folder; tensors by the names of inputs
 *     # requires_grad closed0, closed1
 *     # random 7 4                         seed and sequence of the generator before the call
 *     # result 0: f32[] 8f3b01c2a4d5e6f7   type and digest of what the target itself gave from there, eagerly
 *     graph train(%x0: f32[64,64], ...     */
#ifndef SINTER_TOOL_VALUES_H
#define SINTER_TOOL_VALUES_H
#include "frontend/tool/target.h"
#include "runtime/base/text.h"

/* Captures the target's graph by a call, saves what its inputs are then at `path`, calls it once more eagerly from
 * there, and prints the text. Errors are left pending. */
Status values_dump(const TargetOptions *o, Target *t, const char *path, Text *text);
/* Where the text, of a file at text_path, begins with "# values": its inputs, which are made already, get those values
 * and flags, and the generator its numbers. Otherwise nothing. */
Status values_read(Target *t, const char *text, const char *text_path);
/* FNV-1a over the elements in row-major order: results of two runs are compared by it. */
uint64_t values_digest(sn_tensor *t);

#endif
