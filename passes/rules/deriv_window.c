/* deriv_window.c: derivatives of pads, pools and columns. All are linear in what they read, given where they read it:
 * the derivative of a backward is the forward, or a read at the indices that it added at. */
#include "passes/rules/deriv.h"
#include "ir/op_ids.h"

typedef struct WindowPair {
    OpId forward, backward;
} WindowPair;

static OpId partner(OpId id) {
    static const WindowPair pairs[] = {{OP_reflection_pad1d, OP_reflection_pad1d_backward},
                                       {OP_reflection_pad2d, OP_reflection_pad2d_backward},
                                       {OP_reflection_pad3d, OP_reflection_pad3d_backward},
                                       {OP_replication_pad1d, OP_replication_pad1d_backward},
                                       {OP_replication_pad2d, OP_replication_pad2d_backward},
                                       {OP_replication_pad3d, OP_replication_pad3d_backward},
                                       {OP_max_pool2d_with_indices, OP_max_pool2d_with_indices_backward},
                                       {OP_max_pool3d_with_indices, OP_max_pool3d_with_indices_backward},
                                       {OP_avg_pool2d, OP_avg_pool2d_backward},
                                       {OP_avg_pool3d, OP_avg_pool3d_backward},
                                       {OP__adaptive_avg_pool2d, OP__adaptive_avg_pool2d_backward},
                                       {OP__adaptive_avg_pool3d, OP__adaptive_avg_pool3d_backward}};
    for (int i = 0; i < COUNT_OF(pairs); i++) {
        if (pairs[i].forward == id) return pairs[i].backward;
        if (pairs[i].backward == id) return pairs[i].forward;
    }
    return id;
}

/* partner(grad, self, the other arguments of the forward op) */
static Val *backward_of(Deriv *d, const Arg *more) {
    Arg args[MAX_ARGS] = {V(grad_of(d))};
    int n = 1;
    for (int i = 0; i < d->row->n_params; i++) args[n++] = d->args[i];
    if (more) args[n++] = *more;
    return emit1(d->b, partner(d->row->id), args, n);
}

/* partner(gradient of the result, arguments of the backward op after self), where it is wanted */
static Val *forward_of(Deriv *d) {
    if (!wants(d, 0)) return NULL;
    Arg args[MAX_ARGS] = {V(grad_of(d))};
    int n = 1;
    for (int i = 2; i < d->row->n_params; i++) args[n++] = d->args[i];
    return emit1(d->b, partner(d->row->id), args, n);
}

/* (grad_output, self, ...): linear in grad_output; self gives its sizes alone, and gets zeros, as in PyTorch. */
static Status set_backward(Deriv *d, Val *grad) {
    if (wants(d, 0)) TRY(deriv_set(d, 0, grad));
    return wants(d, 1) ? deriv_set(d, 1, zeros_of(d->b, d->arg_meta[1])) : ST_OK;
}

/* (self, padding) and (grad_output, self, padding) */
Status deriv_reflection_pad(Deriv *d) { return deriv_set(d, 0, backward_of(d, NULL)); }
Status deriv_replication_pad(Deriv *d) { return deriv_set(d, 0, backward_of(d, NULL)); }
Status deriv_reflection_pad_backward(Deriv *d) { return set_backward(d, forward_of(d)); }
Status deriv_replication_pad_backward(Deriv *d) { return set_backward(d, forward_of(d)); }

/* (self, kernel_size, stride, ...); an empty stride is kernel_size */
Status deriv_avg_pool(Deriv *d) { return deriv_set(d, 0, backward_of(d, NULL)); }
Status deriv_avg_pool_backward(Deriv *d) { return set_backward(d, forward_of(d)); }

Status deriv_adaptive_avg_pool(Deriv *d) {
    return deriv_set(d, 0, emit1(d->b, partner(d->row->id), (const Arg[]){V(grad_of(d)), d->args[0]}, 2));
}
/* (grad_output, self) */
static Val *adaptive_forward(Deriv *d) {
    if (!wants(d, 0)) return NULL;
    const Meta *const grad = d->arg_meta[0];
    const int n = d->row->id == OP__adaptive_avg_pool2d_backward ? 2 : 3;
    const Arg args[] = {V(grad_of(d)), A_INTS(grad->sizes + grad->rank - n, n)};
    return emit1(d->b, partner(d->row->id), args, COUNT_OF(args));
}
Status deriv_adaptive_avg_pool_backward(Deriv *d) { return set_backward(d, adaptive_forward(d)); }

Status deriv_max_pool(Deriv *d) {
    if (!grad_of(d)) return ST_OK;
    return deriv_set(d, 0, backward_of(d, &V(d->results[1])));
}

/* The last n dims as one, row-major. */
static Val *flat_planes(Builder *b, Val *x, int n) {
    if (!x) return NULL;
    int64_t sizes[MAX_RANK];
    const int rank = x->meta->rank - n;
    memcpy(sizes, x->meta->sizes, sizeof *sizes * (size_t)rank);
    sizes[rank] = sym_product(b->env, x->meta->sizes + rank, n);
    return reshape_to(b, E(b, clone, V(x), I(0)), sizes, rank + 1);
}

/* (grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices): read at indices */
static Val *read_at_indices(Deriv *d) {
    if (!wants(d, 0)) return NULL;
    Builder *const b = d->b;
    const int n = d->row->id == OP_max_pool2d_with_indices_backward ? 2 : 3;
    const Meta *const grad = d->arg_meta[0];
    Val *const planes = flat_planes(b, grad_of(d), n), *const at = flat_planes(b, saved(d, 7), n);
    Val *const read = E(b, gather, V(planes), I(-1), V(at));
    return reshape_to(b, read, grad->sizes, grad->rank);
}
Status deriv_max_pool_backward(Deriv *d) { return set_backward(d, read_at_indices(d)); }

/* (self, kernel_size, dilation, padding, stride) and (self, output_size, ...) */
Status deriv_im2col(Deriv *d) {
    const Meta *const self = d->arg_meta[0];
    return deriv_set(d, 0,
                     E(d->b, col2im, V(grad_of(d)), A_INTS(self->sizes + self->rank - 2, 2), d->args[1], d->args[2],
                       d->args[3], d->args[4]));
}
Status deriv_col2im(Deriv *d) {
    return deriv_set(d, 0, E(d->b, im2col, V(grad_of(d)), d->args[2], d->args[3], d->args[4], d->args[5]));
}

/* (self, output_size) */
Status deriv_adaptive_max_pool(Deriv *d) {
    const bool flat = d->row->id == OP_adaptive_max_pool2d;
    const Arg args[] = {V(grad_of(d)), d->args[0], V(d->results[1])};
    return deriv_set(d, 0,
                     emit1(d->b, flat ? OP_adaptive_max_pool2d_backward : OP_adaptive_max_pool3d_backward, args, 3));
}

/* What was added at indices is read there: (grad_output, self, indices) */
Status deriv_adaptive_max_pool_backward(Deriv *d) {
    Builder *const b = d->b;
    const Meta *const grad = d->arg_meta[0];
    const int n = d->row->id == OP_adaptive_max_pool2d_backward ? 2 : 3, first = grad->rank - n;
    int64_t sizes[MAX_RANK];
    if (wants(d, 1)) TRY(deriv_set(d, 1, zeros_of(b, d->arg_meta[1])));
    if (!wants(d, 0)) return ST_OK;
    memcpy(sizes, grad->sizes, sizeof *sizes * (size_t)first);
    sizes[first] = sym_product(b->env, d->arg_meta[1]->sizes + first, n);
    Val *const from = reshape_to(b, grad_of(d), sizes, first + 1);
    sizes[first] = sym_product(b->env, grad->sizes + first, n);
    Val *const at = reshape_to(b, saved(d, 2), sizes, first + 1);
    return deriv_set(d, 0, reshape_to(b, E(b, gather, V(from), I(-1), V(at)), grad->sizes, grad->rank));
}
