/* frame.h: a callback's view of its call; the accessors are public (sn_in, sn_out, ...:
 * frontend/api/frame.c).
 *
 * One struct serves compiled functions, kernels and modes of the dispatcher, custom functions,
 * derivatives and hooks: who makes a frame fills the parts that its kind has. frame_run is the only
 * way to call a body (callback_run one that has no frame): it opens a scope of its own around it
 * [semantics O1], restores modes, checks the outputs and passes them to the scope outside. */
#ifndef SINTER_RUNTIME_FRAME_H
#define SINTER_RUNTIME_FRAME_H
#include <sinter/dispatch.h>

#include "runtime/core/dispatch.h"

struct Deriv;      /* passes/passes.h */
struct DynamicOp;  /* custom_op.h */
struct CustomCall; /* runtime/autograd/custom_function.h: saved tensors and gradients of a custom function */

struct sn_frame {
    const char *what; /* for errors: "mlp", "kernel of my::swish"; never NULL */
    void *closure;
    const Arg *in; /* as sn_value; tensors borrowed */
    int n_in;
    /* room n_out; NULL until set; while the body runs the frame holds a reference to each */
    sn_tensor **out;
    int n_out;
    _Atomic int *running;            /* a count of bodies that run, which this one's is part of; NULL: none */
    bool outs_optional;              /* hooks: output 0 need not be set */
    bool takes_none;                 /* a compiled function's: sn_out_none */
    uint64_t none;                   /* outputs that are absent, as bits; of more than 64 outputs, outs_optional */
    bool passed_on;                  /* outputs are there, as of sn_redispatch: they may be replaced */
    OpCall *call;                    /* dispatcher callbacks: what sn_redispatch continues; else NULL */
    const void *site;                /* of that call */
    const struct DynamicOp *meta_of; /* the user's op whose meta rule runs: its numbers may be left to the values */
    struct Deriv *deriv;             /* derivative bodies */
    struct CustomCall *custom;
};

/* Whether the frame of `function` that ended at cfa is active no more. False where the stack cannot be walked so far:
 * code without unwind tables. Some microseconds. */
bool frame_was_left(const void *cfa, const void *function);
bool frame_callback_was_left(const void *cfa); /* of frame_run's own */

Status frame_run(sn_frame *frame, sn_body body);
/* The same of a callback without a frame (a pass, a policy): in a scope of its own, which it may leave by a jump; what
 * it gives is in *argument. */
typedef void Callback(void *argument);
Status callback_run(const char *what, Callback *run, void *argument);
/* The program's closure_free, which may leave by a jump, too; runs also where an error is pending or memory is out. */
void closure_free_run(sn_free_fn free, void *closure);
/* Of the innermost body that runs on this thread; NULL: none does. Some microseconds. */
const sn_frame *frame_running(const sn_state *state);
void frame_drop_outs(sn_frame *frame); /* so that none is set */

#endif
