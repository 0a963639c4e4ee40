/* gradients.c: see gradients.h. */
#include "runtime/autograd/gradients.h"

#include "runtime/autograd/tape.h"

enum { MAX_TENSORS = 1024 };

/* What becomes a leaf's .grad is a tensor of its own in the leaf's layout, as the engine makes it. */
static Status own_gradient(const sn_tensor *leaf, sn_tensor **outs, int i) {
    const Meta *const meta = tape_grad_meta(leaf);
    if (!meta) return ST_MEMORY;
    if (!outs[i])
        return error_raise(ST_UNSUPPORTED, "a rule gave no gradient where it has given one before: sn_backward must "
                                           "stand outside of the compiled function");
    const bool sole = atomic_load(&outs[i]->refs) == 1 && atomic_load(&outs[i]->storage->refs) == 1;
    bool again = false;
    for (int k = 0; k < i; k++) again |= outs[k]->storage == outs[i]->storage;
    if (sole && !again && outs[i]->base.meta == meta) return ST_OK;
    outs[i] = tape_clone(outs[i], meta);
    return outs[i] ? ST_OK : error_pending();
}

Status gradients_run(const Arg *args, sn_tensor **outs) {
    sn_tensor *roots[MAX_TENSORS], *grads[MAX_TENSORS], *xs[MAX_TENSORS];
    const Arg *const r = &args[0], *const g = &args[1], *const x = &args[2];
    if (r->n > MAX_TENSORS || x->n > MAX_TENSORS) return error_raise(ST_UNSUPPORTED, "sn::gradients: too many tensors");
    for (int i = 0; i < r->n; i++) {
        roots[i] = tensor_of(r->vals[i]);
        grads[i] = i < g->n && g->kind == ARG_tensors ? tensor_of(g->vals[i]) : NULL;
    }
    for (int i = 0; i < x->n; i++) xs[i] = tensor_of(x->vals[i]);
    const TapeRun run = {.roots = roots,
                         .grads = grads,
                         .n_roots = r->n,
                         .xs = xs,
                         .n_xs = x->n,
                         .out = outs,
                         .flags = TAPE_allow_unused};
    TRY(tape_run(&run));
    for (int i = 0; i < x->n; i++) TRY(own_gradient(xs[i], outs, i));
    return ST_OK;
}
