/* decomp_matmul.c: products of any ranks as mm, bmm, mv, dot and addmm. The op decides the order, never a size:
 * matrices take the chain, 1-D right operands the lanes of L [semantics B2]. */
#include "passes/rules/decomp.h"

DecompFn decomp_matmul, decomp_linear, decomp_outer, decomp_mm_dtype, decomp_bmm_dtype, decomp_addmm_dtype,
    decomp_baddbmm_dtype;

/* Leading sizes of x and the last of `last`, for a y that nobody else has. */
static Val *unfolded(Builder *b, Val *y, const Meta *x, int n_leading, const int64_t *last, int n_last) {
    int64_t sizes[MAX_RANK];
    for (int d = 0; d < n_leading; d++) sizes[d] = x->sizes[d];
    for (int d = 0; d < n_last; d++) sizes[n_leading + d] = last[d];
    return y ? E(b, _unsafe_view, V(y), A_INTS(sizes, n_leading + n_last)) : NULL;
}

static Val *as_rows(Builder *b, Val *x) {
    if (x->meta->rank == 2) return x;
    const int64_t sizes[2] = {-1, x->meta->sizes[x->meta->rank - 1]};
    int64_t rows = sym_product(b->env, x->meta->sizes, x->meta->rank - 1);
    return reshaped(b, x, (const int64_t[]){sizes[1] == 0 ? rows : sizes[0], sizes[1]}, 2);
}

/* A bias of rows is added to the finished product, as PyTorch does. */
static Status biased_product(Builder *b, Val *x, Val *w, Val *bias, Val **outs) {
    Val *const y = E(b, matmul, V(x), V(w));
    return done1(outs, bias ? E(b, add_Tensor, V(y), V(bias)) : y);
}

Status decomp_linear(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const x = args[0].val, *const weight = args[1].val, *bias = optional(&args[2]);
    if (weight->meta->rank == 1) return biased_product(b, x, weight, bias, outs);
    Val *const w = E(b, t, V(weight));
    if (x->meta->rank == 1) {
        Val *const y = E(b, mv, V(weight), V(x));
        if (bias && bias->meta->rank == 2) bias = E(b, squeeze_dim, V(bias), I(0));
        return done1(outs, bias ? E(b, add_Tensor, V(y), V(bias)) : y);
    }
    if (x->meta->rank > 2 && bias && bias->meta->rank > 1) return biased_product(b, x, w, bias, outs);
    Val *const rows = as_rows(b, x);
    Val *const y = bias ? E(b, addmm, V(bias), V(rows), V(w)) : E(b, mm, V(rows), V(w));
    if (x->meta->rank == 2) return done1(outs, y);
    return done1(outs, unfolded(b, y, x->meta, x->meta->rank - 1, &weight->meta->sizes[0], 1));
}

/* Expands the leading dims of x to `batch` and merges them. */
static Val *batched(Builder *b, Val *x, const int64_t *batch, int n) {
    int64_t sizes[MAX_RANK];
    const Meta *const meta = x->meta;
    for (int d = 0; d < n; d++) sizes[d] = batch[d];
    sizes[n] = meta->sizes[meta->rank - 2];
    sizes[n + 1] = meta->sizes[meta->rank - 1];
    Val *const wide = E(b, expand, V(x), A_INTS(sizes, n + 2));
    const int64_t flat[3] = {sym_product(b->env, sizes, n), sizes[n], sizes[n + 1]};
    return reshaped(b, wide, flat, 3);
}

static Status batch_sizes(Builder *b, const Meta *x, const Meta *y, int64_t *sizes, int *n) {
    const int nx = x->rank - 2, ny = y->rank - 2;
    *n = nx > ny ? nx : ny;
    for (int d = 0; d < *n; d++) {
        const int dx = d - (*n - nx), dy = d - (*n - ny);
        const int64_t sx = dx < 0 ? 1 : x->sizes[dx], sy = dy < 0 ? 1 : y->sizes[dy];
        if (sx != 1 && sy != 1 && !sym_same(b->env, sx, sy))
            return error_raise(ST_SHAPE, "aten::matmul: batch sizes do not broadcast at dim %d", d);
        sizes[d] = sx == 1 ? sy : sx;
    }
    return ST_OK;
}

static Status batch_product(Builder *b, Val *x, Val *y, Val **outs) {
    int64_t sizes[MAX_RANK];
    int n = 0;
    TRY(batch_sizes(b, x->meta, y->meta, sizes, &n));
    Val *const z = E(b, bmm, V(batched(b, x, sizes, n)), V(batched(b, y, sizes, n)));
    if (!z) return error_pending();
    sizes[n] = z->meta->sizes[1];
    sizes[n + 1] = z->meta->sizes[2];
    return done1(outs, E(b, _unsafe_view, V(z), A_INTS(sizes, n + 2)));
}

Status decomp_matmul(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const x = args[0].val, *const y = args[1].val;
    const int rx = x->meta->rank, ry = y->meta->rank;
    if (rx == 0 || ry == 0) return error_raise(ST_SHAPE, "aten::matmul: both operands need at least 1 dim");
    if (rx == 1 && ry == 1) return done1(outs, E(b, dot, V(x), V(y)));
    if (rx == 2 && ry == 1) return done1(outs, E(b, mv, V(x), V(y)));
    if (rx == 2 && ry == 2) return done1(outs, E(b, mm, V(x), V(y)));
    if (ry == 1) return done1(outs, unfolded(b, E(b, mv, V(as_rows(b, x)), V(y)), x->meta, rx - 1, NULL, 0));
    if (ry == 2 && rx > 2) {
        Val *const z = E(b, mm, V(as_rows(b, x)), V(y));
        return done1(outs, unfolded(b, z, x->meta, rx - 1, &y->meta->sizes[1], 1));
    }
    if (rx > 1) return batch_product(b, x, y, outs);
    Val *z = NULL;
    const Arg wide[] = {V(E(b, unsqueeze, V(x), I(0))), args[1]};
    if (!wide[0].val) return error_pending();
    TRY(decomp_matmul(b, row, wide, &z));
    if (!z) return error_pending();
    return done1(outs, unfolded(b, z, y->meta, ry - 2, &y->meta->sizes[ry - 1], 1));
}

Status decomp_outer(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, mul_Tensor, V(E(b, unsqueeze, args[0], I(1))), args[1]));
}

/* Widened operands give the sums that the narrow op rounds: the same chains, stored in out_dtype. */
static Arg widely(Builder *b, const Arg *operand, const Arg *out_dtype) {
    return V(in_dtype(b, operand->val, (DType)out_dtype->i));
}

Status decomp_mm_dtype(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, mm, widely(b, &args[0], &args[2]), widely(b, &args[1], &args[2])));
}
Status decomp_bmm_dtype(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, bmm, widely(b, &args[0], &args[2]), widely(b, &args[1], &args[2])));
}
Status decomp_addmm_dtype(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, addmm, widely(b, &args[0], &args[3]), widely(b, &args[1], &args[3]),
                         widely(b, &args[2], &args[3]), args[4], args[5]));
}
Status decomp_baddbmm_dtype(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, baddbmm, widely(b, &args[0], &args[3]), widely(b, &args[1], &args[3]),
                         widely(b, &args[2], &args[3]), args[4], args[5]));
}
