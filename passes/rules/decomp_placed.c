/* decomp_placed.c: values put into a part of zeros or of another tensor, and elements taken from all of one. */
#include "ir/schema.h"
#include "passes/rules/decomp.h"

DecompFn decomp_select_backward, decomp_slice_backward, decomp_diagonal_scatter, decomp_diagonal_backward, decomp_take;
DecompFn decomp_as_strided_scatter;

static Val *zeros_sized(Builder *b, const Arg *args) { return E(b, new_zeros, args[0], args[1]); }

/* (grad_output, input_sizes, dim, index) */
Status decomp_select_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, select_scatter, V(zeros_sized(b, args)), args[0], args[2], args[3]));
}
/* (grad_output, input_sizes, dim, start, end, step) */
Status decomp_slice_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, slice_scatter, V(zeros_sized(b, args)), args[0], args[2], args[3], args[4], args[5]));
}

/* src in the diagonal of x, whose memory is row-major */
static Val *diagonal_put(Builder *b, Val *x, Val *src, const Arg *offset, const Arg *dims) {
    if (!x || !src) return NULL;
    const Meta *const meta = x->meta;
    const int dim1 = dim_of(&dims[0], meta->rank), dim2 = dim_of(&dims[1], meta->rank);
    int64_t all[MAX_RANK], stride[MAX_RANK], shift = offset->i;
    int n = 0;
    meta_contiguous_strides(b->env, meta->sizes, meta->rank, all);
    for (int d = 0; d < meta->rank; d++)
        if (d != dim1 && d != dim2) stride[n++] = all[d];
    stride[n] = sym_add(b->env, all[dim1], all[dim2]);
    const int64_t at = shift >= 0 ? sym_mul(b->env, shift, all[dim2]) : sym_mul(b->env, -shift, all[dim1]);
    return E(b, view_scatter, V(x), V(src), A_INTS(src->meta->sizes, src->meta->rank), A_INTS(stride, src->meta->rank),
             I(sym_same(b->env, src->meta->numel, 0) ? 0 : at));
}
Status decomp_diagonal_scatter(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const src = in_dtype(b, args[1].val, args[0].val->meta->dtype);
    Val *const plain = E(b, clone, args[0], I(MF_contiguous)); /* its strides, too, where there is one element */
    return done1(outs, in_layout_of(b, row, args, 0, diagonal_put(b, plain, src, &args[2], &args[3])));
}
/* (self, src, size, stride, storage_offset): places are those of the result's own strides. */
Status decomp_as_strided_scatter(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const src = in_dtype(b, args[1].val, args[0].val->meta->dtype);
    Val *const whole = in_layout_of(b, row, args, 0, args[0].val);
    const bool none = src && sym_same(b->env, src->meta->numel, 0);
    const Arg offset = args[4].kind == ARG_int && !none ? args[4] : I(0);
    return done1(outs, E(b, view_scatter, V(whole), V(src), args[2], args[3], offset));
}
/* (grad_output, input_sizes, offset, dim1, dim2) */
Status decomp_diagonal_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, diagonal_put(b, zeros_sized(b, args), args[0].val, &args[2], &args[3]));
}

/* Positions count from the end where they are negative. */
Status decomp_take(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int64_t flat[1] = {-1};
    Val *const x = reshaped(b, args[0].val, flat, 1), *const index = args[1].val;
    if (!x) return error_pending();
    Val *const at = E(b, index_positions, V(index), I(x->meta->sizes[0]), I(0));
    Val *const read = E(b, index_select, V(x), I(0), V(reshaped(b, at, flat, 1)));
    return done1(outs, reshaped(b, read, index->meta->sizes, index->meta->rank));
}
