/* decomp_matmul.c: products of any ranks as mm, bmm, mv, dot and addmm; attention as scores,
 * softmax and values. The op decides the order, never a size: matrices take the chain, 1-D right
 * operands the lanes of L [semantics B2]. */
#include <math.h>

#include "passes/rules/decomp.h"

DecompFn decomp_flash_attention, decomp_flash_attention_backward;
DecompFn decomp_matmul, decomp_linear, decomp_outer, decomp_sdpa, decomp_mm_dtype, decomp_bmm_dtype, decomp_addmm_dtype,
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

/* Whatever symbols they are: eager repeats none that are as many. */
static bool same_heads(Builder *b, int64_t x, int64_t y) {
    return builder_identical(b, x, y) || sym_same(b->env, x, y);
}

/* Key or value heads shared by groups of query heads, repeated. */
static Val *repeat_heads(Builder *b, Val *x, int64_t heads) {
    if (!x) return NULL;
    const Meta *const meta = x->meta;
    const int h = meta->rank - 3;
    if (h < 0 || same_heads(b, meta->sizes[h], heads)) return x;
    int64_t sizes[MAX_RANK];
    for (int d = 0, k = 0; d < meta->rank; d++) {
        sizes[k++] = meta->sizes[d];
        if (d == h) sizes[k++] = sym_div(b->env, heads, meta->sizes[h]);
    }
    Val *const wide = E(b, expand, V(E(b, unsqueeze, V(x), I(h + 1))), A_INTS(sizes, meta->rank + 1));
    for (int d = 0; d < meta->rank; d++) sizes[d] = d == h ? heads : meta->sizes[d];
    return reshaped(b, wide, sizes, meta->rank);
}

/* Later keys are left out: their scores are -infinity, their probabilities exactly 0. */
static Val *masked_scores(Builder *b, Val *scores, const Arg *args) {
    Val *const mask = optional(&args[3]);
    if (!scores) return NULL;
    if (args[5].kind == ARG_bool && args[5].i) {
        const Meta *const meta = scores->meta;
        const int64_t sizes[2] = {meta->sizes[meta->rank - 2], meta->sizes[meta->rank - 1]};
        Val *const kept = E(b, tril, V(E(b, ones, A_INTS(sizes, 2), I(DT_bool), A_NONE, I(meta->device))));
        scores = E(b, where_self, V(kept), V(scores), F(-INFINITY));
    }
    if (!mask) return scores;
    if (mask->meta->dtype == DT_bool) return E(b, where_self, V(mask), V(scores), F(-INFINITY));
    return E(b, add_Tensor, V(scores), V(mask));
}

/* The scale where none is given: 1 / sqrt(width). */
static Arg root_scale(const Builder *b, int64_t width) {
    return SIZED_FLOAT(b, width, 1 / sqrt((double)sym_concrete(b->env, width)));
}

Status decomp_sdpa(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const query = args[0].val;
    const Meta *const q = query->meta;
    const bool grouped = args[7].kind == ARG_bool && args[7].i && q->rank > 2;
    Val *const key = grouped ? repeat_heads(b, args[1].val, q->sizes[q->rank - 3]) : args[1].val;
    Val *const value = grouped ? repeat_heads(b, args[2].val, q->sizes[q->rank - 3]) : args[2].val;
    const int64_t width = q->sizes[q->rank - 1];
    const Arg scale = args[6].kind == ARG_float ? args[6] : root_scale(b, width);
    Val *const scores = E(b, matmul, V(query), V(E(b, transpose_int, V(key), I(-2), I(-1))));
    Val *const scaled = masked_scores(b, E(b, mul_Tensor, V(scores), scale), args);
    Val *p = E(b, _safe_softmax, V(scaled), I(-1));
    if (arg_double(&args[4]) > 0) p = E(b, dropout, V(p), args[4], A_BOOL(true));
    return done1(outs, E(b, matmul, V(p), V(value)));
}

/* Attention with its rows' sums: the parts of scaled_dot_product_attention -------------------- */

typedef struct Attention {
    Builder *b;
    Val *query, *key, *value, *mask;
    Arg scale;
    bool causal;
} Attention;

/* (query, key, value) at `at`, then by name, in the compute type; keys and values have query's heads. */
static Attention attention_of(Builder *b, const OpRow *row, const Arg *args, int at) {
    const Arg *const scale = &args[op_param_find(row, "scale")], *const mask = &args[op_param_find(row, "attn_mask")];
    const Meta *const q = args[at].val->meta;
    Attention a = {.b = b, .query = widened(b, args[at].val)};
    a.key = repeat_heads(b, widened(b, args[at + 1].val), q->sizes[1]);
    a.value = repeat_heads(b, widened(b, args[at + 2].val), q->sizes[1]);
    a.mask = optional(mask);
    a.causal = args[op_param_find(row, "is_causal")].i;
    a.scale = scale->kind == ARG_float ? *scale : root_scale(b, q->sizes[q->rank - 1]);
    return a;
}

/* query key^T scale, masked */
static Val *attention_scores(const Attention *a) {
    Builder *const b = a->b;
    Val *const product = E(b, matmul, V(a->query), V(E(b, transpose_int, V(a->key), I(-2), I(-1))));
    const Arg none = A_NONE, mask = a->mask ? V(a->mask) : none;
    const Arg args[6] = {none, none, none, mask, none, A_BOOL(a->causal)};
    return masked_scores(b, E(b, mul_Tensor, V(product), a->scale), args);
}

/* Rows of which nothing is kept give 0, and -infinity for the logarithm. */
Status decomp_flash_attention(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Attention a = attention_of(b, row, args, 0);
    const DType dtype = args[0].val->meta->dtype;
    Val *const scores = attention_scores(&a);
    const int64_t last = -1;
    Val *const out = E(b, matmul, V(E(b, _safe_softmax, V(scores), I(-1))), V(a.value));
    Val *const sum = E(b, logsumexp, V(scores), A_INTS(&last, 1), A_BOOL(false));
    Val *const placed = in_layout_of(b, row, args, 0, in_dtype(b, out, dtype));
    return decomp_done(outs, 2, (Val *const[]){placed, in_layout_of(b, row, args, 1, sum)});
}

/* Of repeated heads the sum, in dtype and layout of result i; [batch, heads, rows, width] */
static Val *shared_heads(const Attention *a, const OpRow *row, const Arg *args, int i, Val *grad) {
    Builder *const b = a->b;
    const Meta *const of = args[i + 1].val->meta;
    const int64_t group = 2;
    if (grad && !same_heads(b, of->sizes[1], grad->meta->sizes[1])) {
        const int64_t repeats = sym_div(b->env, grad->meta->sizes[1], of->sizes[1]);
        const int64_t sizes[] = {of->sizes[0], of->sizes[1], repeats, of->sizes[2], of->sizes[3]};
        grad = sum_over(b, reshaped(b, grad, sizes, 5), &group, 1, false);
    }
    return in_layout_of(b, row, args, i, in_dtype(b, grad, of->dtype));
}

/* p = exp(scores - logsumexp); dv = p^T g; ds = p (g v^T - sum(g out)) scale; dq = ds k; dk = ds^T q */
Status decomp_flash_attention_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Attention a = attention_of(b, row, args, 1);
    Val *const g = widened(b, args[0].val), *const out = widened(b, args[4].val);
    Val *const scores = attention_scores(&a), *const sum = E(b, unsqueeze, args[5], I(-1));
    Val *const empty = E(b, isinf, V(sum)); /* nothing was kept */
    Val *const p = E(b, where_self, V(empty), F(0), V(E(b, exp, V(E(b, sub_Tensor, V(scores), V(sum))))));
    Val *const turned = E(b, transpose_int, V(p), I(-2), I(-1));
    const int64_t last = -1;
    Val *const whole = sum_over(b, E(b, mul_Tensor, V(g), V(out)), &last, 1, true);
    Val *const dp = E(b, matmul, V(g), V(E(b, transpose_int, V(a.value), I(-2), I(-1))));
    Val *const ds = E(b, mul_Tensor, V(E(b, mul_Tensor, V(p), V(E(b, sub_Tensor, V(dp), V(whole))))), a.scale);
    Val *const dq = E(b, matmul, V(ds), V(a.key));
    Val *const dk = E(b, matmul, V(E(b, transpose_int, V(ds), I(-2), I(-1))), V(a.query));
    Val *const dv = E(b, matmul, V(turned), V(g));
    return decomp_done(outs, 3,
                       (Val *const[]){shared_heads(&a, row, args, 0, dq), shared_heads(&a, row, args, 1, dk),
                                      shared_heads(&a, row, args, 2, dv)});
}
