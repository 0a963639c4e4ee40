/* deriv_matmul.c: derivatives of matrix products: of C = A B they are G B^T and A^T G, products
 * again. Of sn::attention and its backward: the first is a native op, too, that recomputes probabilities; a mask's
 * gradient and the second derivative are written in parts. */
#include "passes/rules/attention.h"
#include "passes/rules/deriv.h"

/* The last two dims exchanged. */
static Val *transposed(Builder *b, Val *x) { return x ? swap_dims(b, x, x->meta->rank - 2, x->meta->rank - 1) : NULL; }

static Val *matrix_product(Builder *b, Val *x, Val *y) {
    if (!x || !y) return NULL;
    return x->meta->rank == 2 ? E(b, mm, V(x), V(y)) : E(b, bmm, V(x), V(y));
}

/* A matrix whose columns lie one after another: so does its gradient, as in PyTorch (mm_mat1_grad). */
static bool has_columns(Builder *b, const Meta *x) {
    return x->rank == 2 && sym_same(b->env, x->strides[0], 1) && sym_same(b->env, x->strides[1], x->sizes[0]);
}

/* x y, or as the transposed product of y^T and x^T: the same sums, laid out in columns. */
static Val *product_like(Builder *b, Val *x, Val *y, const Meta *like, const Arg *alpha) {
    const Arg one = I(1), *const by = alpha ? alpha : &one;
    if (!has_columns(b, like)) return scaled(b, matrix_product(b, x, y), by);
    return scaled(b, transposed(b, matrix_product(b, transposed(b, y), transposed(b, x))), by);
}

/* Gradients of args[at] and args[at + 1], the factors; alpha NULL: 1. */
static Status factors(Deriv *d, int at, const Arg *alpha) {
    Builder *const b = d->b;
    Val *const g = grad_of(d);
    if (wants(d, at))
        TRY(deriv_set(d, at, product_like(b, g, transposed(b, saved(d, at + 1)), d->arg_meta[at], alpha)));
    if (!wants(d, at + 1)) return ST_OK;
    return deriv_set(d, at + 1, product_like(b, transposed(b, saved(d, at)), g, d->arg_meta[at + 1], alpha));
}

Status deriv_mm(Deriv *d) { return factors(d, 0, NULL); }
Status deriv_bmm(Deriv *d) { return factors(d, 0, NULL); }

/* beta self + alpha mat1 mat2 */
Status deriv_addmm(Deriv *d) {
    if (wants(d, 0)) TRY(deriv_set(d, 0, scaled(d->b, grad_of(d), &d->args[3])));
    return factors(d, 1, &d->args[4]);
}
Status deriv_baddbmm(Deriv *d) { return deriv_addmm(d); }

/* attention ------------------------------------------------------------------------------------ */

/* The parts in the compute type, keys and values with query's heads. */
typedef struct AttentionParts {
    Builder *b;
    Val *query, *key, *value, *p;
    Arg scale;
    int64_t repeats; /* queries' heads for one of key's */
} AttentionParts;

static Val *product(Builder *b, Val *x, Val *y) { return E(b, matmul, V(x), V(y)); }
static Val *row_sums(Builder *b, Val *x) {
    const int64_t last = -1;
    return sum_over(b, x, &last, 1, true);
}

/* at: of query among the arguments; attn_mask, is_causal, scale are the last ones. */
static AttentionParts parts_of(const Deriv *d, int at) {
    Builder *const b = d->b;
    const int last = d->row->n_params - 1;
    const Meta *const q = d->arg_meta[at];
    const int64_t heads = q->rank > 2 ? q->sizes[q->rank - 3] : 1;
    AttentionParts a = {.b = b, .query = compute_of(b, saved(d, at))};
    a.key = decomp_repeat_heads(b, compute_of(b, saved(d, at + 1)), heads);
    a.value = decomp_repeat_heads(b, compute_of(b, saved(d, at + 2)), heads);
    a.scale = d->args[last].kind == ARG_float ? d->args[last] : decomp_root_scale(b, q->sizes[q->rank - 1]);
    Val *const scores = decomp_scores(b, a.query, a.key, a.scale, saved(d, last - 2), d->args[last - 1].i != 0);
    a.p = E(b, _safe_softmax, V(scores), I(-1));
    return a;
}

/* p (dp - sum(p dp)) */
static Val *slopes_of(const AttentionParts *a, Val *dp) {
    return mul(a->b, sub(a->b, dp, row_sums(a->b, mul(a->b, dp, a->p))), a->p);
}

/* Of repeated heads the sum. */
static Status set_shared(Deriv *d, int arg, Val *grad) {
    Builder *const b = d->b;
    const Meta *const of = d->arg_meta[arg];
    const int h = of->rank - 3;
    if (!grad) return error_pending();
    if (h < 0 || sym_same(b->env, of->sizes[h], grad->meta->sizes[h])) return deriv_set(d, arg, grad);
    int64_t sizes[MAX_RANK];
    for (int i = 0, k = 0; i < of->rank; i++) {
        sizes[k++] = of->sizes[i];
        if (i == h) sizes[k++] = sym_div(b->env, grad->meta->sizes[h], of->sizes[h]);
    }
    const int64_t group = h + 1;
    return deriv_set(d, arg, sum_over(b, reshaped(b, grad, sizes, of->rank + 1), &group, 1, false));
}

/* max and sum are read together, as max + log(sum): so max counts as a constant, and the gradient of sum leads to the
 * scores by exp(score - max) = p sum. */
static Status add_sums_gradient(Deriv *d, const AttentionParts *a, Val **slopes) {
    Builder *const b = d->b;
    Val *const by = mul(b, d->grad_out[2], d->results[2]);
    Val *const more = mul(b, E(b, unsqueeze, V(by), I(-1)), a->p);
    *slopes = *slopes ? add(b, *slopes, more) : more;
    return *slopes ? ST_OK : error_pending();
}

static Status by_parts(Deriv *d, bool query_and_key) {
    Builder *const b = d->b;
    const AttentionParts a = parts_of(d, 0);
    Val *const g = compute_of(b, d->grad_out[0]);
    Val *slopes = g ? slopes_of(&a, product(b, g, transposed(b, a.value))) : NULL;
    if (d->grad_out[2]) TRY(add_sums_gradient(d, &a, &slopes));
    if (wants(d, 3)) TRY(deriv_set(d, 3, slopes));
    if (!query_and_key) return error_pending();
    Val *const scaled_slopes = E(b, mul_Tensor, V(slopes), a.scale);
    if (wants(d, 0)) TRY(deriv_set(d, 0, product(b, scaled_slopes, a.key)));
    if (wants(d, 1)) TRY(set_shared(d, 1, product(b, transposed(b, scaled_slopes), a.query)));
    return wants(d, 2) && g ? set_shared(d, 2, product(b, transposed(b, a.p), g)) : error_pending();
}

/* (query, key, value, attn_mask, is_causal, scale) -> (output, max, sum) */
Status deriv_attention(Deriv *d) {
    const bool sums = d->grad_out[2] != NULL;
    if (!d->grad_out[0] && !sums) return ST_OK;
    if (wants(d, 3) || sums) TRY(by_parts(d, sums));
    if (sums || !(wants(d, 0) || wants(d, 1) || wants(d, 2))) return error_pending();
    Val *grads[3] = {0};
    const Arg args[] = {V(d->grad_out[0]), d->args[0], d->args[1], d->args[2], V(d->results[1]),
                        V(d->results[2]),  d->args[3], d->args[4], d->args[5]};
    TRY(emit(d->b, OP_ID(attention_backward), args, COUNT_OF(args), grads));
    for (int i = 0; i < 3; i++)
        if (wants(d, i)) TRY(deriv_set(d, i, grads[i]));
    return ST_OK;
}

static Val *either_plus(Builder *b, Val *x, Val *y) {
    return !x ? y : !y ? x : add(b, x, y);
} /* either may be absent */

/* (grad_out, query, key, value, max, sum, attn_mask, is_causal, scale), with gradients u, v, w of the gradients of
 * query, key and value: <u, dq> + <v, dk> + <w, dv> = <ds, m> + <p, g w^T> with m = (u key^T + query v^T) scale and
 * ds = p (dp - sum(p dp)). */
Status deriv_attention_backward(Deriv *d) {
    Builder *const b = d->b;
    const AttentionParts a = parts_of(d, 1);
    const int64_t heads = a.query ? a.query->meta->rank > 2 ? a.query->meta->sizes[a.query->meta->rank - 3] : 1 : 1;
    Val *const g = compute_of(b, saved(d, 0)), *const u = compute_of(b, d->grad_out[0]);
    Val *const v = decomp_repeat_heads(b, compute_of(b, d->grad_out[1]), heads);
    Val *const w = decomp_repeat_heads(b, compute_of(b, d->grad_out[2]), heads);
    Val *const dp = product(b, g, transposed(b, a.value)), *const slopes = slopes_of(&a, dp);
    Val *m = either_plus(b, u ? product(b, u, transposed(b, a.key)) : NULL,
                         v ? product(b, a.query, transposed(b, v)) : NULL);
    if (m) m = E(b, mul_Tensor, V(m), a.scale);
    Val *const to_dp = m ? slopes_of(&a, m) : NULL; /* p (m - sum(p m)) */
    Val *to_p = w ? product(b, g, transposed(b, w)) : NULL;
    if (m) {
        Val *const away = sub(b, m, row_sums(b, mul(b, m, a.p)));
        to_p = either_plus(b, to_p, sub(b, mul(b, dp, away), mul(b, m, row_sums(b, mul(b, dp, a.p)))));
    }
    if (!to_p) return error_pending();
    Val *const to_scores = E(b, mul_Tensor, V(slopes_of(&a, to_p)), a.scale);
    Val *const ds = E(b, mul_Tensor, V(slopes), a.scale);
    if (wants(d, 0))
        TRY(deriv_set(d, 0, either_plus(b, to_dp ? product(b, to_dp, a.value) : NULL, w ? product(b, a.p, w) : NULL)));
    if (wants(d, 1)) TRY(deriv_set(d, 1, either_plus(b, product(b, to_scores, a.key), v ? product(b, ds, v) : NULL)));
    if (wants(d, 2))
        TRY(set_shared(d, 2,
                       either_plus(b, product(b, transposed(b, to_scores), a.query),
                                   u ? product(b, transposed(b, ds), u) : NULL)));
    if (wants(d, 3) && to_dp) TRY(set_shared(d, 3, product(b, transposed(b, to_dp), g)));
    return wants(d, 6) ? deriv_set(d, 6, slopes_of(&a, to_p)) : error_pending();
}
