/* decomp_vector_norm.c: norms of vectors. Squares are summed by fused multiply-adds, in a type that holds them; other
 * powers, too, whose roundings the root multiplies. */
#include <math.h>

#include "passes/rules/decomp.h"

DecompFn decomp_vector_norm, decomp_norm;

/* amax and amin name all dims by an empty list. */
static Arg dims_list(const Arg *dims) {
    return dims->kind == ARG_ints || dims->kind == ARG_int ? *dims : A_INTS(NULL, 0);
}

/* sqrt(sum(x^2)): squares of f16 are added in f32, others in f64, f64's by a power of two. */
static Val *euclidean(Builder *b, Val *x, Arg dims, Arg keepdim) {
    const Scaled s = scaled_f64(b, x, dims);
    return unscaled(b, E(b, sqrt, V(E(b, sum_of_squares, V(s.x), dims, keepdim))), &s);
}
/* sum(|x|^p)^(1/p), powers of numbers near 1: of those that count, the largest, or the smallest where p is below 0 */
static Val *of_order(Builder *b, Val *x, double p, Arg dims, Arg keepdim) {
    const Scaled s = scaled_over(b, x, dims, p < 0);
    Val *const power = E(b, pow_Tensor_Tensor, V(E(b, abs, V(s.x))), F(p));
    return unscaled(b, E(b, pow_Tensor_Tensor, V(E(b, sum_dim_IntList, V(power), dims, keepdim)), F(1 / p)), &s);
}

/* In f32, in which PyTorch has the orders of all norms but those of f64, it is infinite or 0, and it is neither. */
static bool is_lost(DType dtype, double order) {
    const float single = (float)order;
    return dtype != DT_f64 && isfinite(order) && order != 0 && (isinf(single) || single == 0);
}

/* Of one element, or of none. */
static bool of_few(Builder *b, const Val *x, const Val *kept) {
    bool same = true;
    for (int d = 0; d < x->meta->rank && same; d++) same = sym_same(b->env, x->meta->sizes[d], kept->meta->sizes[d]);
    return same || sym_same(b->env, x->meta->numel, 0);
}

/* An infinite order makes the root one of order 0: 1, whatever the sum is. Of order 0 each power is 1, and the root of
 * how many there are infinite, or 0. The norm of one element is its size, as of all orders. */
static Val *of_lost_order(Builder *b, Val *x, double order, Arg dims, Arg keepdim) {
    Val *const size = E(b, abs, V(x)), *const sum = E(b, sum_dim_IntList, V(size), dims, keepdim);
    Val *const kept = E(b, sum_dim_IntList, V(size), dims, A_BOOL(true));
    if (!sum || !kept || of_few(b, x, kept)) return sum;
    return E(b, full_like, V(sum), F(isinf((float)order) ? 1 : order > 0 ? INFINITY : 0));
}

/* (self, ord, dim, keepdim, dtype) */
Status decomp_vector_norm(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const DType dtype = args[4].kind == ARG_int ? (DType)args[4].i : args[0].val->meta->dtype;
    Val *const given = in_dtype(b, args[0].val, dtype), *const x = widened(b, given);
    const double order = arg_double_now(b->env, &args[1]);
    const Arg dims = args[2], keepdim = args[3], list = dims_list(&dims);
    Val *norm;
    if (order == 2) {
        norm = euclidean(b, given, dims, keepdim);
    } else if (order == 0) {
        norm = in_dtype(b, E(b, sum_dim_IntList, V(E(b, ne_Tensor, V(x), F(0))), dims, keepdim), dtype);
    } else if (isinf(order)) {
        Val *const size = E(b, abs, V(x));
        norm = order > 0 ? E(b, amax, V(size), list, keepdim) : E(b, amin, V(size), list, keepdim);
    } else if (is_lost(dtype, order)) {
        norm = of_lost_order(b, x, order, dims, keepdim);
    } else if (order == 1) {
        norm = E(b, sum_dim_IntList, V(E(b, abs, V(x))), dims, keepdim);
    } else {
        norm = of_order(b, squarable(b, given), order, dims, keepdim);
    }
    return done1(outs, in_dtype(b, norm, dtype));
}

/* norm by its overloads: p, then dim, keepdim and dtype where they have them */
Status decomp_norm(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int dim = op_param_find(row, "dim"), keepdim = op_param_find(row, "keepdim"),
              dtype = op_param_find(row, "dtype");
    const Arg p = args[1].kind == ARG_none ? I(2) : args[1];
    return done1(outs, E(b, linalg_vector_norm, args[0], p, dim < 0 ? A_NONE : args[dim],
                         keepdim < 0 ? A_BOOL(false) : args[keepdim], dtype < 0 ? A_NONE : args[dtype]));
}
