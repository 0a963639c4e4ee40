/* decomp_weight_norm.c: weights as a direction and a norm: w = v g / |v| [Salimans and Kingma, 2016, section 2]. */
#include "passes/rules/decomp.h"
#include "ir/op_ids.h"

DecompFn decomp_weight_norm, decomp_weight_norm_interface, decomp_weight_norm_backward;

/* The dims of a norm for each index of dim; -1: all. */
static int other_dims(const Meta *v, int64_t dim, int64_t *dims) {
    int n = 0;
    for (int d = 0; d < v->rank; d++)
        if (d != dim) dims[n++] = d;
    return n;
}

/* With dims of size 1; over no dims at all each element's own. */
static Val *norms(Builder *b, Val *v, int64_t dim) {
    int64_t dims[MAX_RANK];
    const int n = other_dims(v->meta, dim, dims);
    if (!n && dim >= 0) return E(b, abs, V(v));
    return E(b, linalg_vector_norm, V(v), I(2), A_INTS(dims, n), A_BOOL(true));
}

/* An element for each index of dim, as a tensor that broadcasts with v. */
static Val *norm_along(Builder *b, Val *x, const Meta *v, int64_t dim) {
    int64_t sizes[MAX_RANK];
    for (int d = 0; d < v->rank; d++) sizes[d] = d == dim ? v->sizes[d] : 1;
    return x ? reshaped(b, x, sizes, v->rank) : NULL;
}

static Val *in_sizes_of(Builder *b, Val *x, const Meta *like) {
    return x ? reshaped(b, x, like->sizes, like->rank) : NULL;
}

/* (v, g, dim) */
Status decomp_weight_norm_interface(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const meta = args[0].val->meta, *const g = args[1].val->meta;
    const int64_t dim = args[2].i;
    Val *const v = widened(b, args[0].val);
    if (!v) return error_pending();
    Val *const norm = norms(b, v, dim);
    Val *const scale = E(b, div_Tensor, V(norm_along(b, widened(b, args[1].val), meta, dim)), V(norm));
    Val *const scaled = in_dtype(b, E(b, mul_Tensor, V(v), V(scale)), meta->dtype);
    Val *const told = in_sizes_of(b, E(b, detach, V(norm)), g);
    Val *const kept = E(b, clone, V(told));
    return decomp_done(outs, 2,
                       (Val *const[]){in_layout_of(b, row, args, 0, scaled), in_layout_of(b, row, args, 1, kept)});
}

/* (v, g, dim) */
Status decomp_weight_norm(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const meta = args[0].val->meta;
    const int64_t dim = args[2].i;
    if (meta->dtype != DT_f16 && meta->rank && (dim == 0 || dim == meta->rank - 1)) {
        Val *parts[2];
        TRY(emit(b, OP__weight_norm_interface, args, 3, parts));
        return done1(outs, parts[0]);
    }
    Val *const v = made_contiguous(b, args[0].val), *const g = made_contiguous(b, args[1].val);
    if (!v || !g) return error_pending();
    Val *const scaled = E(b, mul_Tensor, V(v), V(E(b, div_Tensor, V(g), V(norms(b, v, dim)))));
    return done1(outs, in_layout_of(b, row, args, 0, scaled));
}

/* (grad_w, saved_v, saved_g, saved_norms, dim): s = sum of grad_w v; of v g / norm (grad_w - v s / norm^2), of g
 * s / norm */
Status decomp_weight_norm_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const meta = args[1].val->meta, *const g = args[2].val->meta;
    const int64_t dim = args[4].i;
    int64_t dims[MAX_RANK];
    const int n = other_dims(meta, dim, dims);
    Val *const grad = widened(b, args[0].val), *const v = widened(b, args[1].val);
    Val *const norm = norm_along(b, widened(b, args[3].val), meta, dim), *const products =
                                                                             E(b, mul_Tensor, V(grad), V(v));
    Val *const sum = n ? sum_over(b, products, dims, n, true) : products;
    Val *const scale = E(b, div_Tensor, V(norm_along(b, widened(b, args[2].val), meta, dim)), V(norm));
    Val *const share = E(b, div_Tensor, V(sum), V(E(b, mul_Tensor, V(norm), V(norm))));
    Val *const away = E(b, sub_Tensor, V(grad), V(E(b, mul_Tensor, V(v), V(share))));
    Val *const to_v = in_dtype(b, E(b, mul_Tensor, V(scale), V(away)), meta->dtype);
    Val *const to_g = in_dtype(b, in_sizes_of(b, E(b, div_Tensor, V(sum), V(norm)), g), g->dtype);
    return decomp_done(outs, 2,
                       (Val *const[]){in_layout_of(b, row, args, 0, to_v), in_layout_of(b, row, args, 1, to_g)});
}
