/* decomp_vector_norm.c: norms of vectors. Squares are summed by fused multiply-adds, all in the compute type. */
#include <math.h>

#include "passes/rules/decomp.h"

DecompFn decomp_vector_norm, decomp_norm;

/* amax and amin name all dims by an empty list. */
static Arg dims_list(const Arg *dims) {
    return dims->kind == ARG_ints || dims->kind == ARG_int ? *dims : A_INTS(NULL, 0);
}

/* (self, ord, dim, keepdim, dtype) */
Status decomp_vector_norm(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const DType dtype = args[4].kind == ARG_int ? (DType)args[4].i : args[0].val->meta->dtype;
    Val *const x = widened(b, in_dtype(b, args[0].val, dtype));
    const double order = arg_double_now(b->env, &args[1]);
    const Arg dims = args[2], keepdim = args[3], list = dims_list(&dims);
    Val *norm;
    if (order == 2) {
        norm = E(b, sqrt, V(E(b, sum_of_squares, V(x), dims, keepdim)));
    } else if (order == 0) {
        norm = in_dtype(b, E(b, sum_dim_IntList, V(E(b, ne_Tensor, V(x), F(0))), dims, keepdim), dtype);
    } else if (isinf(order)) {
        Val *const size = E(b, abs, V(x));
        norm = order > 0 ? E(b, amax, V(size), list, keepdim) : E(b, amin, V(size), list, keepdim);
    } else if (order == 1) {
        norm = E(b, sum_dim_IntList, V(E(b, abs, V(x))), dims, keepdim);
    } else {
        Val *const power = E(b, pow_Tensor_Tensor, V(E(b, abs, V(x))), F(order));
        norm = E(b, pow_Tensor_Tensor, V(E(b, sum_dim_IntList, V(power), dims, keepdim)), F(1 / order));
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
