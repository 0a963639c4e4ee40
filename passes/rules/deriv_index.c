/* deriv_index.c: derivatives of reads and writes at positions: a read's gradient is added at the
 * positions (in ascending order of position, [semantics B2]), a write's is read from them. */
#include "passes/rules/deriv.h"
#include "ir/op_ids.h"

/* (weight, indices, padding_idx, scale_grad_by_freq, sparse) */
Status deriv_embedding(Deriv *d) {
    const Arg rows = I(d->arg_meta[0]->sizes[0]);
    return deriv_set(d, 0, E(d->b, embedding_dense_backward, V(grad_of(d)), d->args[1], rows, d->args[2], d->args[3]));
}
/* (grad_output, indices, num_weights, padding_idx, scale_grad_by_freq): rows that were not added
 * get none. */
Status deriv_embedding_dense_backward(Deriv *d) {
    Builder *const b = d->b;
    if (d->args[4].i) return error_raise(ST_UNSUPPORTED, "second derivative of embedding with scale_grad_by_freq");
    Val *const rows = E(b, embedding, V(grad_of(d)), d->args[1]);
    if (sym_less(b->env, d->args[3].i, 0)) return deriv_set(d, 0, rows);
    Val *const padding = E(b, unsqueeze, V(E(b, eq_Tensor, d->args[1], d->args[3])), I(-1));
    return deriv_set(d, 0, zero_where(b, padding, rows));
}

/* (self, dim, index) */
Status deriv_index_select(Deriv *d) {
    const Arg zeros = V(zeros_of(d->b, d->arg_meta[0]));
    return deriv_set(d, 0, E(d->b, index_add, zeros, d->args[1], d->args[2], V(grad_of(d))));
}
Status deriv_gather(Deriv *d) {
    const Arg zeros = V(zeros_of(d->b, d->arg_meta[0]));
    return deriv_set(d, 0, E(d->b, scatter_add, zeros, d->args[1], d->args[2], V(grad_of(d))));
}

/* (self, dim, index, source, *, alpha) */
Status deriv_index_add(Deriv *d) {
    Builder *const b = d->b;
    Val *const g = grad_of(d);
    if (wants(d, 0)) TRY(deriv_set(d, 0, g));
    if (!wants(d, 3)) return ST_OK;
    return deriv_set(d, 3, scaled(b, E(b, index_select, V(g), d->args[1], d->args[2]), &d->args[4]));
}

/* The part of src that index names: src may be larger. */
static Status source(Deriv *d) {
    Builder *const b = d->b;
    Val *const read = E(b, gather, V(grad_of(d)), d->args[1], d->args[2]);
    const Meta *const src = d->arg_meta[3];
    if (!read || meta_same_sizes(read->meta, src)) return deriv_set(d, 3, read);
    Val *grad = read;
    for (int i = src->rank - 1; i >= 0; i--) {
        int64_t pad[2 * MAX_RANK] = {0};
        const int last = src->rank - 1 - i;
        pad[2 * last + 1] = sym_sub(b->env, src->sizes[i], read->meta->sizes[i]);
        grad = E(b, constant_pad_nd, V(grad), A_INTS(pad, 2 * (last + 1)));
    }
    return deriv_set(d, 3, grad);
}

/* (self, dim, index, src) */
Status deriv_scatter_add(Deriv *d) {
    if (wants(d, 0)) TRY(deriv_set(d, 0, grad_of(d)));
    return wants(d, 3) ? source(d) : ST_OK;
}
Status deriv_scatter_value(Deriv *d) {
    return wants(d, 0) ? deriv_set(d, 0, E(d->b, scatter_value, V(grad_of(d)), d->args[1], d->args[2], F(0))) : ST_OK;
}
Status deriv_scatter_src(Deriv *d) {
    TRY(deriv_scatter_value(d));
    return wants(d, 3) ? source(d) : ST_OK;
}

static bool multiplies(const Deriv *d) { return !strcmp(d->args[4].string, "multiply"); }

/* (self, dim, index, src or value, *, reduce): a product is linear in self. */
Status deriv_scatter_value_reduce(Deriv *d) {
    if (!wants(d, 0)) return ST_OK;
    Val *const g = grad_of(d);
    if (!multiplies(d)) return deriv_set(d, 0, g);
    const Arg args[] = {V(g), d->args[1], d->args[2], d->args[3], d->args[4]};
    return deriv_set(d, 0, emit1(d->b, d->row->id, args, COUNT_OF(args)));
}
Status deriv_scatter_reduce(Deriv *d) {
    TRY(deriv_scatter_value_reduce(d));
    if (!wants(d, 3)) return ST_OK;
    if (!multiplies(d)) return source(d);
    return error_raise(ST_UNSUPPORTED, "the derivative of scatter.reduce 'multiply' in src");
}

/* The second derivative is that of the ops which the backward is made of. */
Status deriv_grid_sampler(Deriv *d) {
    const OpId backward = d->arg_meta[0]->rank == 5 ? OP_grid_sampler_3d_backward : OP_grid_sampler_2d_backward;
    const int64_t mask[] = {wants(d, 0), wants(d, 1)};
    const Arg args[] = {V(grad_of(d)), d->args[0], d->args[1], d->args[2], d->args[3], d->args[4], A_INTS(mask, 2)};
    Val *outs[2];
    TRY(emit(d->b, backward, args, COUNT_OF(args), outs));
    if (wants(d, 0)) TRY(deriv_set(d, 0, outs[0]));
    return wants(d, 1) ? deriv_set(d, 1, outs[1]) : ST_OK;
}

/* (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx) */
Status deriv_embedding_bag(Deriv *d) {
    Builder *const b = d->b;
    const Arg *const a = d->args, grad = V(grad_of(d)), rows = I(d->arg_meta[0]->sizes[0]);
    const Arg bags = V(d->results[1]);
    if (!grad.val) return ST_OK;
    if (wants(d, 0)) {
        const Arg args[] = {grad, a[1], a[2], bags, V(d->results[2]), V(d->results[3]), rows, a[3],
                            a[4], a[5], a[6], a[8]};
        TRY(deriv_set(d, 0, emit1(b, OP__embedding_bag_backward, args, COUNT_OF(args))));
    }
    if (!wants(d, 6)) return ST_OK;
    return deriv_set(d, 6, E(b, _embedding_bag_per_sample_weights_backward, grad, a[0], a[1], a[2], bags, a[4], a[8]));
}
