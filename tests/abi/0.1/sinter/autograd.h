/* autograd.h: gradients, modes, hooks, custom functions. Semantics as PyTorch's autograd; the order in which
   contributions to a gradient are added is fixed (semantics G1): newest op first. Ops on a tensor are recorded while
   it requires gradients, or comes from one that does, and the mode is SN_GRAD_ON. */
#ifndef SINTER_AUTOGRAD_H
#define SINTER_AUTOGRAD_H
#include <sinter/tensor.h>
SN_BEGIN
/* Modes belong to the thread's state; the end of a scope restores the one it began with. Results made in SN_INFERENCE
   can never be saved for a backward. */
typedef enum sn_grad_mode { SN_GRAD_ON, SN_GRAD_OFF, SN_INFERENCE } sn_grad_mode;
/* Returns the previous one. [event] */
sn_grad_mode sn_grad_mode_set(sn_grad_mode mode);
/* A scope without gradients: sn_scope_end(mark), or sn_scope_return, ends both. [event] */
sn_scope sn_no_grad_begin(void);

/* Leaves: tensors that the program made. Floats only; returns t. A result of an op cannot be switched off: sn_detach
   it. [event] */
sn_tensor *sn_requires_grad_(sn_tensor *t, bool on);
/* Also true of results of recorded ops. [meta] */
bool sn_requires_grad(sn_tensor *t);
/* Borrowed; NULL and no error where there is none. In replay the slot is looked up at each call. [meta] */
sn_tensor *sn_grad(sn_tensor *t);
/* Shared, not copied; same sizes and dtype; NULL removes it. [event] */
sn_status sn_grad_set(sn_tensor *t, sn_tensor *grad);

/* flags: SN_RETAIN_GRAPH | SN_CREATE_GRAPH | SN_ALLOW_UNUSED; another bit is an error.
   Adds to .grad of every leaf that root depends on. root has one element, or grads gives each root's gradient (sizes
   and dtype of the root; an entry NULL: 1). What ops saved is freed unless SN_RETAIN_GRAPH or SN_CREATE_GRAPH; the
   latter records the backward itself, for gradients of gradients. Errors: a root without history, a graph that was
   freed, a saved tensor that was written since (SN_ERR_STATE, with both versions). With the setting threads at more
   than one, rules of large nodes in independent branches run at once; bits, errors and the order and thread of all
   callbacks are those of one thread. [op] */
sn_status sn_backward(sn_tensor *root);
enum { SN_RETAIN_GRAPH = 1, SN_CREATE_GRAPH = 2, SN_ALLOW_UNUSED = 4 };
sn_status sn_backward_ex(sn_tensors roots, sn_tensors grads, uint32_t flags);
/* The gradients of xs (leaves or not) into out, xs.n of them; no .grad is touched and only what leads to xs runs. An x
   that no y depends on: an error, or NULL with SN_ALLOW_UNUSED. [op] */
sn_status sn_gradients(sn_tensors ys, sn_tensors xs, sn_tensors grad_ys, uint32_t flags, sn_tensor **out);

/* A hook sees the whole gradient of t before it goes on (input 0) and may replace it (output 0, same sizes and dtype).
   Runs in order of registration; an error ends the backward. Returns an id, 0 on error. [event] */
int64_t sn_hook_add(sn_tensor *t, sn_body hook, void *closure);
/* A hook of a leaf that requires gradients (input 0), run when a backward has added to its .grad, which it may read and
   change; no outputs. Leaves get theirs at the end of the backward, one after the other, in the order in which it first
   came to them. sn_gradients runs none; a backward within a compiled body that comes to such a leaf is a break. Returns
   an id for sn_hook_remove, 0 on error. [event] */
int64_t sn_post_accumulate_hook_add(sn_tensor *leaf, sn_body hook, void *closure);
/* An unknown id: nothing. [event] */
void sn_hook_remove(sn_tensor *t, int64_t id);

/* Custom functions: a forward with a backward of its own. forward runs with gradients off: inputs by sn_in (may be
   absent), outputs by sn_out, what backward needs by sn_save. backward has sn_saved, sn_grad_of and sn_set_grad_of. */
typedef struct sn_custom {
    size_t size;
    const char *name;
    sn_body forward, backward;
    /* Once per call, with the closure: when its tape node dies; where sn_custom_call fails, before it returns. Only a
       function without its size says nothing of it. */
    sn_free_fn closure_free;
} sn_custom;
/* Like sn_call: out has room n_out, all NULL on error. [op] */
sn_status sn_custom_call(const sn_custom *fn, void *closure, sn_tensor *const *in, int n_in, sn_tensor **out,
                         int n_out);
/* In forward only; inputs, outputs or anything else. [neutral] */
sn_status sn_save(sn_frame *f, sn_tensor *t);
/* In the order of sn_save; its version was checked. [neutral] */
sn_tensor *sn_saved(sn_frame *f, int i);
/* In forward and backward. [neutral] */
bool sn_needs_grad(sn_frame *f, int input);
/* The gradient of an output; NULL and no error where it is undefined. [neutral] */
sn_tensor *sn_grad_of(sn_frame *f, int output);
/* Each once, of the input's sizes and dtype; NULL: none. [neutral] */
sn_status sn_set_grad_of(sn_frame *f, int input, sn_tensor *grad);
SN_END
#endif
