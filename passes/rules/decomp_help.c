/* decomp_help.c: pieces that decompositions share. */
#include <string.h>

#include "ir/schema.h"
#include "passes/rules/decomp.h"

#include <float.h>

Val *in_dtype(Builder *b, Val *x, DType dtype) {
    return !x || x->meta->dtype == dtype ? x : E(b, _to_copy, V(x), I(dtype));
}

Val *widened(Builder *b, Val *x) { return x && dtype_is_half(x->meta->dtype) ? in_dtype(b, x, DT_f32) : x; }

Val *squarable(Builder *b, Val *x) {
    const DType dtype = x ? x->meta->dtype : DT_f64;
    return in_dtype(b, x, dtype == DT_f16 ? DT_f32 : DT_f64);
}

/* amax and amin name all dims by an empty list. Of no elements there is no largest. An infinite one leaves the largest
 * power, 0 the smallest. */
Scaled scaled_over(Builder *b, Val *x, Arg dims, bool least) {
    if (!x || sym_same(b->env, x->meta->numel, 0)) return (Scaled){x, NULL};
    const bool wide = x->meta->dtype == DT_f64, listed = dims.kind == ARG_ints || dims.kind == ARG_int;
    const Arg list = listed ? dims : A_INTS(NULL, 0), size = V(E(b, abs, V(x)));
    Val *const end = least ? E(b, amin, size, list, A_BOOL(true)) : E(b, amax, size, list, A_BOOL(true));
    Val *const power = E(b, clamp, V(E(b, floor, V(E(b, log2, V(end))))), I(wide ? -1074 : -149), I(wide ? 1023 : 127));
    Val *const by = E(b, exp2, V(power));
    return (Scaled){E(b, div_Tensor, V(x), V(by)), by};
}
Scaled scaled_f64(Builder *b, Val *x, Arg dims) {
    return x && x->meta->dtype == DT_f64 ? scaled_over(b, x, dims, false) : (Scaled){squarable(b, x), NULL};
}
Val *unscaled(Builder *b, Val *y, const Scaled *scale) {
    if (!y || !scale->by) return y;
    return E(b, mul_Tensor, V(y), V(reshaped(b, scale->by, y->meta->sizes, y->meta->rank)));
}

Val *sum_over(Builder *b, Val *x, const int64_t *dims, int n, bool keepdim) {
    return E(b, sum_dim_IntList, V(x), n ? A_INTS(dims, n) : A_NONE, A_BOOL(keepdim));
}

Moments moments_over(Builder *b, Val *x, Arg dims, Arg count, Arg keepdim) {
    if (!x) return (Moments){0};
    const double largest = x->meta->dtype == DT_f64 ? DBL_MAX : FLT_MAX;
    Val *const mean = E(b, div_Tensor, V(E(b, sum_dim_IntList, V(x), dims, A_BOOL(true))), count);
    Val *const away = E(b, sub_Tensor, V(x), V(mean));
    Val *const squares = E(b, sum_of_squares, V(away), dims, keepdim);
    Val *const rest = E(b, sum_dim_IntList, V(away), dims, keepdim);
    Val *const excess = E(b, mul_Tensor, V(E(b, div_Tensor, V(rest), count)), V(rest));
    Val *const finite = E(b, clamp_max, V(excess), F(largest)); /* inf - inf would be no number */
    return (Moments){mean, away, E(b, clamp_min, V(E(b, sub_Tensor, V(squares), V(finite))), F(0))};
}

Val *optional(const Arg *a) { return a->kind == ARG_tensor ? a->val : NULL; }

Val *made_contiguous(Builder *b, Val *x) { /* of no elements any strides count as such */
    const bool is_plain = x && x->meta->contiguous && !builder_identical(b, x->meta->numel, 0);
    return !x || is_plain ? x : E(b, clone, V(x), I(MF_contiguous));
}

Val *in_layout_of(Builder *b, const OpRow *row, const Arg *args, int i, Val *x) {
    MetaOut outs[3]; /* on a thread's stack that may be small */
    MetaCall call = {.row = row, .args = args, .env = b->env, .out = outs, .n_out = row->n_out};
    if (row->n_out > COUNT_OF(outs)) error_raise(ST_INTERNAL, "%s: %d results to lay out", row->name, row->n_out);
    if (!x || error_pending() || op_meta(&call) != ST_OK) return NULL;
    bool same = true;
    for (int d = 0; d < x->meta->rank; d++)
        same = same && builder_identical(b, x->meta->strides[d], outs[i].strides[d]);
    return same ? x : E(b, restride, V(x), A_INTS(outs[i].strides, x->meta->rank));
}

int dim_of(const Arg *a, int rank) { return (int)dim_wrap(a->i, rank); }

Status decomp_done(Val **outs, int n, Val *const *values) {
    for (int i = 0; i < n; i++)
        if (!values[i])
            return error_pending() ? error_pending() : error_raise(ST_INTERNAL, "a decomposition lost a value");
    for (int i = 0; i < n; i++) outs[i] = values[i];
    return ST_OK;
}

Val *reshaped(Builder *b, Val *x, const int64_t *sizes, int n) {
    if (!x) return NULL;
    int64_t known = 1, full[MAX_RANK], strides[MAX_RANK];
    int hole = -1;
    if (n > MAX_RANK) {
        error_raise(ST_SHAPE, "reshape: more than %d dims", MAX_RANK);
        return NULL;
    }
    for (int d = 0; d < n; d++) {
        full[d] = sizes[d];
        if (sizes[d] == -1)
            hole = d;
        else
            known = sym_mul(b->env, known, sizes[d]);
    }
    if (hole >= 0 && known != 0) full[hole] = sym_div(b->env, x->meta->numel, known);
    if (meta_view_strides(b->env, x->meta, full, n, strides)) return E(b, view, V(x), A_INTS(sizes, n));
    return E(b, _unsafe_view, V(E(b, clone, V(x), I(0))), A_INTS(sizes, n));
}

Val *number_tensor(Builder *b, int64_t n, DType dtype, Device device) {
    return E(b, full, A_INTS(NULL, 0), I(n), I(dtype), A_NONE, I(device));
}

Val *zeros_of_sizes(Builder *b, const Meta *like, const int64_t *sizes, int n) {
    return E(b, full, A_INTS(sizes, n), F(0), I(like->dtype), A_NONE, I(like->device));
}

Val *zeros_along(Builder *b, const Meta *like, int64_t dim, int64_t size) {
    int64_t sizes[MAX_RANK];
    memcpy(sizes, like->sizes, sizeof *sizes * (size_t)like->rank);
    sizes[dim] = size;
    return zeros_of_sizes(b, like, sizes, like->rank);
}

Val *reduced_loss(Builder *b, Val *each, int64_t reduction) {
    if (!each || reduction == REDUCTION_none) return each;
    return reduction == REDUCTION_mean ? E(b, mean, V(each)) : E(b, sum, V(each));
}
