/* decomp_attention.c: attention. On the CPU it is one native op [B2.14], where that has what is asked for; else, and on
 * other devices, its parts: scores, softmax and values. */
#include <math.h>

#include "passes/rules/attention.h"

DecompFn decomp_sdpa, decomp_flash_attention, decomp_flash_attention_backward;

/* Whatever symbols they are: eager repeats none that are as many. */
static bool same_heads(Builder *b, int64_t x, int64_t y) {
    return builder_identical(b, x, y) || sym_same(b->env, x, y);
}

Val *decomp_repeat_heads(Builder *b, Val *x, int64_t heads) {
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
static Val *masked_scores(Builder *b, Val *scores, Val *mask, bool causal) {
    if (!scores) return NULL;
    if (causal) {
        const Meta *const meta = scores->meta;
        const int64_t sizes[2] = {meta->sizes[meta->rank - 2], meta->sizes[meta->rank - 1]};
        Val *const kept = E(b, tril, V(E(b, ones, A_INTS(sizes, 2), I(DT_bool), A_NONE, I(meta->device))));
        scores = E(b, where_self, V(kept), V(scores), F(-INFINITY));
    }
    if (!mask) return scores;
    if (mask->meta->dtype == DT_bool) return E(b, where_self, V(mask), V(scores), F(-INFINITY));
    return E(b, add_Tensor, V(scores), V(mask));
}

Arg decomp_root_scale(const Builder *b, int64_t width) {
    return SIZED_FLOAT(b, width, 1 / sqrt((double)sym_concrete(b->env, width)));
}

Val *decomp_scores(Builder *b, Val *query, Val *key, Arg scale, Val *mask, bool causal) {
    Val *const product = E(b, matmul, V(query), V(E(b, transpose_int, V(key), I(-2), I(-1))));
    return masked_scores(b, E(b, mul_Tensor, V(product), scale), mask, causal);
}

/* Of a mask the op takes bools and floats that fit the scores as they are. */
static bool mask_serves(Builder *b, const Val *mask, const Meta *q, const Meta *k) {
    if (!mask) return true;
    const Meta *const m = mask->meta;
    const bool half = dtype_is_half(q->dtype) && m->dtype == DT_f32;
    if (m->rank > q->rank || (m->dtype != DT_bool && m->dtype != q->dtype && !half) || m->device != q->device)
        return false;
    for (int d = 1; d <= m->rank; d++) {
        const int64_t size = m->sizes[m->rank - d], scores = d == 1 ? k->sizes[k->rank - 2] : q->sizes[q->rank - d];
        if (!same_heads(b, size, scores) && !sym_same(b->env, size, 1)) return false;
    }
    return true;
}

/* Whether sn::attention says it: without broadcasting of key and value but for groups of heads. */
static bool native_serves(Builder *b, const Arg *args, const Val *mask, bool grouped) {
    const Meta *const q = args[0].val->meta, *const k = args[1].val->meta, *const v = args[2].val->meta;
    if (!device_is_host(q->device) || !dtype_is_float(q->dtype)) return false;
    for (int d = 0; d < q->rank - 2; d++) {
        const bool heads = grouped && d == q->rank - 3;
        if (!same_heads(b, k->sizes[d], v->sizes[d]) || (!heads && !same_heads(b, q->sizes[d], k->sizes[d])))
            return false;
    }
    return mask_serves(b, mask, q, k);
}

/* Its results: out, max, sum. */
static Status native_attention(Builder *b, const Arg *args, Val *mask, bool causal, Arg scale, Val **outs) {
    const Arg none = A_NONE;
    const Arg of[] = {args[0], args[1], args[2], mask ? V(mask) : none, A_BOOL(causal), scale};
    return emit(b, OP_ID(attention), of, COUNT_OF(of), outs);
}

Status decomp_sdpa(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const query = args[0].val;
    const Meta *const q = query->meta;
    const bool grouped = args[7].kind == ARG_bool && args[7].i && q->rank > 2;
    const bool causal = args[5].kind == ARG_bool && args[5].i;
    Val *const mask = optional(&args[3]), *native[3] = {0};
    const Arg given = args[6].kind == ARG_float ? args[6] : decomp_root_scale(b, q->sizes[q->rank - 1]);
    if (!(arg_double(&args[4]) > 0) && native_serves(b, args, mask, grouped)) {
        TRY(native_attention(b, args, mask, causal, args[6], native));
        return done1(outs, native[0]);
    }
    Val *const key = grouped ? decomp_repeat_heads(b, args[1].val, q->sizes[q->rank - 3]) : args[1].val;
    Val *const value = grouped ? decomp_repeat_heads(b, args[2].val, q->sizes[q->rank - 3]) : args[2].val;
    Val *p = E(b, _safe_softmax, V(decomp_scores(b, query, key, given, mask, causal)), I(-1));
    if (arg_double(&args[4]) > 0) p = E(b, dropout, V(p), args[4], A_BOOL(true));
    return done1(outs, E(b, matmul, V(p), V(value)));
}

/* Attention with its rows' sums: the parts of scaled_dot_product_attention -------------------- */

typedef struct FlashAttention {
    Builder *b;
    Val *query, *key, *value, *mask;
    Arg scale;
    bool causal;
} FlashAttention;

/* (query, key, value) at `at`, then by name, in the compute type; keys and values have query's heads. */
static FlashAttention attention_of(Builder *b, const OpRow *row, const Arg *args, int at) {
    const Arg *const scale = &args[op_param_find(row, "scale")], *const mask = &args[op_param_find(row, "attn_mask")];
    const Meta *const q = args[at].val->meta;
    FlashAttention a = {.b = b, .query = widened(b, args[at].val)};
    a.key = decomp_repeat_heads(b, widened(b, args[at + 1].val), q->sizes[1]);
    a.value = decomp_repeat_heads(b, widened(b, args[at + 2].val), q->sizes[1]);
    a.mask = optional(mask);
    a.causal = args[op_param_find(row, "is_causal")].i;
    a.scale = scale->kind == ARG_float ? *scale : decomp_root_scale(b, q->sizes[q->rank - 1]);
    return a;
}

/* max + log(sum) */
static Status native_flash(Builder *b, const OpRow *row, const Arg *args, Val *mask, Val **outs) {
    const bool causal = args[op_param_find(row, "is_causal")].i != 0;
    Val *native[3] = {0};
    TRY(native_attention(b, args, mask, causal, args[op_param_find(row, "scale")], native));
    Val *const sum = E(b, add_Tensor, V(native[1]), V(E(b, log, V(native[2]))));
    Val *const placed = in_layout_of(b, row, args, 0, native[0]);
    return decomp_done(outs, 2, (Val *const[]){placed, in_layout_of(b, row, args, 1, sum)});
}

/* Rows of which nothing is kept give 0, and -infinity for the logarithm. */
Status decomp_flash_attention(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const mask = optional(&args[op_param_find(row, "attn_mask")]);
    if (native_serves(b, args, mask, true)) return native_flash(b, row, args, mask, outs);
    const FlashAttention a = attention_of(b, row, args, 0);
    const DType dtype = args[0].val->meta->dtype;
    Val *const scores = decomp_scores(b, a.query, a.key, a.scale, a.mask, a.causal);
    const int64_t last = -1;
    Val *const out = E(b, matmul, V(E(b, _safe_softmax, V(scores), I(-1))), V(a.value));
    Val *const sum = E(b, logsumexp, V(scores), A_INTS(&last, 1), A_BOOL(false));
    Val *const placed = in_layout_of(b, row, args, 0, in_dtype(b, out, dtype));
    return decomp_done(outs, 2, (Val *const[]){placed, in_layout_of(b, row, args, 1, sum)});
}

/* Of repeated heads the sum, in dtype and layout of result i; [batch, heads, rows, width] */
static Val *shared_heads(const FlashAttention *a, const OpRow *row, const Arg *args, int i, Val *grad) {
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
    const FlashAttention a = attention_of(b, row, args, 1);
    Val *const g = widened(b, args[0].val), *const out = widened(b, args[4].val);
    Val *const scores = decomp_scores(b, a.query, a.key, a.scale, a.mask, a.causal), *const sum = E(b, unsqueeze,
                                                                                                    args[5], I(-1));
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
