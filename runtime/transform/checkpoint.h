/* checkpoint.h: regions of a forward whose values a backward computes again [semantics T6]. */
#ifndef SINTER_RUNTIME_CHECKPOINT_H
#define SINTER_RUNTIME_CHECKPOINT_H
#include "runtime/core/frame.h"

typedef struct CheckpointCall {
    sn_body body;
    void *closure;
    sn_free_fn closure_free; /* once: nobody computes it again */
    /* Whether the region keeps what ops of this name give. NULL: none. */
    bool (*keeps)(void *context, const char *op);
    void *context;
    const void *site;
    /* By input: the region made it, in a part of it that ran before. NULL: none. What the second run reads is a copy,
       for others may write that memory once the region is done. */
    const bool *made;
} CheckpointCall;

/* Runs the body at once, out as sn_call has it. Without gradients that is all. */
Status checkpoint_call(const CheckpointCall *call, const Arg *in, int n_in, sn_tensor **out, int n_out);
/* Does host code make this tensor inside a region? */
void checkpoint_made(const sn_tensor *t);
/* Raises where it is, for what a second run would do again. */
Status checkpoint_refuse(const char *what);
/* Is this thread in a region's second run, whose effects have happened? */
bool checkpoint_runs_again(void);
void checkpoint_start(void);

#endif
