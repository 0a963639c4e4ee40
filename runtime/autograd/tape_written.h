/* tape_written.h: histories of what ops write: in place, and by users' ops in their arguments (Tensor(a!)). */
#ifndef SINTER_RUNTIME_TAPE_WRITTEN_H
#define SINTER_RUNTIME_TAPE_WRITTEN_H
#include "runtime/autograd/tape.h"

/* t was written by node, whose result 0 it now is. */
Status tape_attach_written(sn_tensor *t, TapeNode *node);

/* The arguments with a history that a user's op writes. */
typedef struct WrittenArgs {
    int n;
    sn_tensor *tensors[MAX_ARGS];
    uint32_t generations[MAX_ARGS]; /* before */
} WrittenArgs;
/* Before the kernel: what in-place ops may not write it may not either. */
Status tape_written_begin(const OpCall *call, WrittenArgs *written);
/* After it: what no recorded op wrote, and is no result, has a history whose gradient is an error. */
Status tape_written_end(const OpCall *call, const WrittenArgs *written);

#endif
