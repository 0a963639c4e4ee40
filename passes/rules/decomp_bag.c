/* decomp_bag.c: what surrounds the kernel of _embedding_bag: its composites and its gradients. Each index' gradient is
 * that of its bag; they are added up by row as those of embedding. */
#include "ir/schema.h"
#include "ir/op_ids.h"
#include "passes/rules/decomp.h"

DecompFn decomp_embedding_bag, decomp_embedding_bag_padding_idx, decomp_embedding_bag_backward;
DecompFn decomp_embedding_bag_dense_backward, decomp_embedding_bag_weights_backward;

static Status with_padding(Builder *b, const Arg *args, Arg padding, Val **outs) {
    const Arg full[] = {args[0], args[1], args[2], args[3], args[4], args[5], args[6], args[7], padding};
    return emit(b, OP__embedding_bag, full, COUNT_OF(full), outs);
}

Status decomp_embedding_bag(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return with_padding(b, args, I(-1), outs);
}
Status decomp_embedding_bag_padding_idx(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    if (args[8].kind == ARG_none) return with_padding(b, args, I(-1), outs);
    const int64_t at = sym_concrete(b->env, args[8].i), rows = sym_concrete(b->env, args[0].val->meta->sizes[0]);
    return with_padding(b, args, I(at < 0 ? at + rows : at), outs);
}

/* The bag of each index: how many bags have begun by then, less one. */
static Val *bags_from(Builder *b, Val *indices, Val *offsets) {
    const int64_t n = indices->meta->sizes[0], capacity = sym_add(b->env, n, 1), count = offsets->meta->sizes[0];
    const Arg device = I(indices->meta->device);
    Val *const none = E(b, full, A_INTS(&capacity, 1), I(0), I(DT_i64), A_NONE, device);
    Val *const one = E(b, full, A_INTS(&count, 1), I(1), I(DT_i64), A_NONE, device);
    Val *const begun = E(b, index_add, V(none), I(0), V(offsets), V(one));
    Val *const all = E(b, sub_Tensor, V(E(b, cumsum, V(begun), I(0))), I(1));
    return E(b, slice_Tensor, V(all), I(0), I(0), I(n));
}

static Val *known_bags(Builder *b, Val *bags, Val *indices, Val *offsets) {
    const bool known = !sym_same(b->env, bags->meta->sizes[0], 0) || sym_same(b->env, indices->meta->sizes[0], 0);
    return known ? bags : bags_from(b, indices, offsets);
}

/* The row of grad of each index' bag; zeros of what lies in none: before the first bag (-1, there is none), or behind a
 * last offset that ends the last one. */
static Val *rows_of_bags(Builder *b, Val *grad, Val *bags) {
    const int64_t around[] = {0, 0, 1, 1};
    Val *const padded = E(b, constant_pad_nd, V(grad), A_INTS(around, 4));
    return E(b, index_select, V(padded), I(0), V(E(b, add_Tensor, V(in_dtype(b, bags, DT_i64)), I(1))));
}

/* (grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, sparse,
 * per_sample_weights, padding_idx) */
Status decomp_embedding_bag_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Arg bags = V(known_bags(b, args[3].val, args[1].val, args[2].val));
    return done1(outs, E(b, _embedding_bag_dense_backward, args[0], args[1], bags, args[4], args[5], args[6], args[7],
                         args[8], args[10], args[11]));
}

/* Each maximum's gradient goes to the row that it came from; empty bags have none. */
static Val *maxima_back(Builder *b, Val *grad, Val *sizes, Val *from, int64_t rows) {
    const int64_t all[] = {rows, grad->meta->sizes[1]};
    Val *const some = E(b, unsqueeze, V(E(b, gt_Scalar, V(sizes), I(0))), I(-1));
    Val *const none = zeros_of_sizes(b, grad->meta, all, 2);
    Val *const added = E(b, where_self, V(some), V(grad), F(0));
    return E(b, scatter_add, V(none), I(0), V(in_dtype(b, from, DT_i64)), V(added));
}

/* (grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights,
 * padding_idx) */
Status decomp_embedding_bag_dense_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *grad = widened(b, args[0].val);
    const DType dtype = args[0].val->meta->dtype;
    if (args[7].i == BAG_max)
        return done1(outs, in_dtype(b, maxima_back(b, grad, args[3].val, args[4].val, args[5].i), dtype));
    Val *const by = widened(b, optional(&args[8]));
    if (args[7].i == BAG_mean)
        grad = E(b, div_Tensor, V(grad), V(E(b, unsqueeze, V(E(b, clamp_min, args[3], I(1))), I(-1))));
    Val *rows = rows_of_bags(b, grad, args[2].val);
    if (by) rows = E(b, mul_Tensor, V(rows), V(E(b, unsqueeze, V(by), I(-1))));
    return done1(outs, in_dtype(b, E(b, embedding_dense_backward, V(rows), args[1], args[5], args[9], args[6]), dtype));
}

/* (grad, weight, indices, offsets, offset2bag, mode, padding_idx): the product of bag and row */
Status decomp_embedding_bag_weights_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const DType dtype = args[0].val->meta->dtype;
    const int64_t last = -1;
    Val *const bags = known_bags(b, args[4].val, args[2].val, args[3].val);
    Val *const grads = rows_of_bags(b, widened(b, args[0].val), bags);
    Val *const rows = E(b, index_select, V(widened(b, args[1].val)), I(0), V(in_dtype(b, args[2].val, DT_i64)));
    Val *sums = sum_over(b, E(b, mul_Tensor, V(grads), V(rows)), &last, 1, false);
    if (args[6].i >= 0) sums = E(b, where_self, V(E(b, eq_Scalar, args[2], args[6])), F(0), V(sums));
    return done1(outs, in_dtype(b, sums, dtype));
}
