/* custom_function.h: what the public functions of custom functions' bodies
 * (frontend/api/autograd.c) stand on. */
#ifndef SINTER_RUNTIME_CUSTOM_FUNCTION_H
#define SINTER_RUNTIME_CUSTOM_FUNCTION_H
#include "runtime/core/frame.h"
#include "runtime/autograd/tape.h"

typedef struct CustomCall { /* a frame's `custom`: one run of forward or backward */
    bool backward, tracked;
    int n_inputs, n_outputs, n_values;
    TapeNode *node;
    sn_tensor *const *inputs; /* forward */
    TapeBackward *call;       /* backward */
    sn_tensor **values;       /* backward: what forward saved */
} CustomCall;

Status custom_function_call(const sn_custom *fn, void *closure, sn_tensor *const *in, int n_in, sn_tensor **out,
                            int n_out);
Status custom_save(sn_frame *f, sn_tensor *t);
sn_tensor *custom_saved_at(sn_frame *f, int i);
bool custom_needs_grad(sn_frame *f, int input);
sn_tensor *custom_grad_of(sn_frame *f, int output);
Status custom_set_grad_of(sn_frame *f, int input, sn_tensor *grad);

#endif
