/* deriv_norm.c: derivatives of softmax, layer_norm and losses. */
#include "ir/schema.h"
#include "ir/op_ids.h"
#include "passes/rules/deriv.h"

/* softmax ------------------------------------------------------------------------------------- */

static Status by_backward(Deriv *d, OpId op) {
    const Arg args[] = {V(grad_of(d)), V(d->results[0]), d->args[1], I(d->arg_meta[0]->dtype)};
    return deriv_set(d, 0, emit1(d->b, op, args, COUNT_OF(args)));
}
Status deriv_softmax(Deriv *d) { return by_backward(d, OP__softmax_backward_data); }
Status deriv_log_softmax(Deriv *d) { return by_backward(d, OP__log_softmax_backward_data); }

typedef struct Second { /* of (grad_output, output, dim, input_dtype): h is the gradient of the
                           result */
    Builder *b;
    Val *h, *g, *y;
    int64_t dim;
} Second;
static Second second(const Deriv *d) {
    Builder *const b = d->b;
    const int rank = d->arg_meta[0]->rank;
    return (Second){b, compute_of(b, grad_of(d)), compute_of(b, saved(d, 0)), compute_of(b, saved(d, 1)),
                    dim_wrap(d->args[2].i, rank)};
}
static Val *total(const Second *s, Val *x) { return x && x->meta->rank ? sum_dims(s->b, x, &s->dim, 1, true) : x; }

/* y (g - sum(y g)) */
Status deriv_softmax_backward(Deriv *d) {
    const Second s = second(d);
    Builder *const b = s.b;
    Val *const hy = total(&s, mul(b, s.h, s.y));
    if (wants(d, 0)) TRY(deriv_set(d, 0, E(b, contiguous, V(mul(b, s.y, sub(b, s.h, hy))))));
    if (!wants(d, 1)) return ST_OK;
    Val *const gy = total(&s, mul(b, s.g, s.y));
    return deriv_set(d, 1, sub(b, mul(b, s.h, sub(b, s.g, gy)), mul(b, s.g, hy)));
}

/* g - exp(y) sum(g) */
Status deriv_log_softmax_backward(Deriv *d) {
    const Second s = second(d);
    Builder *const b = s.b;
    Val *const e = E(b, exp, V(s.y));
    Val *const he = mul(b, s.h, e);
    if (wants(d, 0)) TRY(deriv_set(d, 0, E(b, contiguous, V(sub(b, s.h, total(&s, he))))));
    return wants(d, 1) ? deriv_set(d, 1, negate(b, mul(b, he, total(&s, s.g)))) : ST_OK;
}

/* layer_norm ---------------------------------------------------------------------------------- */

typedef struct LayerNormGrad { /* (input, normalized_shape, weight, bias, eps) -> (output, mean, rstd) */
    Builder *b;
    Val *xhat, *rstd, *weight; /* weight NULL: ones */
    Dims inner;                /* the normalized dims */
    int outer;                 /* how many dims are before them */
} LayerNormGrad;

/* v less its mean and its part along xhat, over the normalized dims. */
static Val *project(const LayerNormGrad *n, Val *v) {
    Builder *const b = n->b;
    Val *const along = mul(b, n->xhat, mean_of(b, mul(b, v, n->xhat), &n->inner));
    return sub(b, sub(b, v, mean_of(b, v, &n->inner)), along);
}

static LayerNormGrad norm_of(Deriv *d) {
    Builder *const b = d->b;
    const Meta *const meta = d->arg_meta[0];
    LayerNormGrad n = {.b = b, .outer = meta->rank - d->args[1].n};
    for (int i = n.outer; i < meta->rank; i++) n.inner.at[n.inner.n++] = i, n.inner.has[i] = true;
    Val *const x = compute_of(b, saved(d, 0)), *const mean = compute_of(b, d->results[1]);
    n.rstd = compute_of(b, d->results[2]);
    n.xhat = mul(b, sub(b, x, mean), n.rstd);
    n.weight = compute_of(b, saved(d, 2));
    return n;
}

/* Sum over the rows, in the shape of weight. */
static Val *over_rows(const LayerNormGrad *n, Val *x) {
    int64_t dims[MAX_RANK];
    for (int i = 0; i < n->outer; i++) dims[i] = i;
    return sum_dims(n->b, x, dims, n->outer, false);
}

/* Of the output, and of mean (1 / n) and rstd (-rstd^2 xhat / n), which further derivatives go through. */
static Val *input_gradient(Deriv *d, const LayerNormGrad *n) {
    Builder *const b = d->b;
    Val *const g = compute_of(b, grad_of(d)), *sum = NULL;
    if (g) sum = mul(b, n->rstd, project(n, n->weight ? mul(b, g, n->weight) : g));
    const Arg count = I(dims_count(b, &n->inner, d->arg_meta[0]));
    if (d->grad_out[1]) {
        Val *const share = E(b, div_Tensor, V(compute_of(b, d->grad_out[1])), count);
        Val *const all = expand_to(b, share, d->arg_meta[0]->sizes, d->arg_meta[0]->rank);
        sum = sum ? add(b, sum, all) : all;
    }
    if (d->grad_out[2]) {
        Val *const slope = mul(b, compute_of(b, d->grad_out[2]), square_of(b, n->rstd));
        Val *const part = mul(b, n->xhat, E(b, div_Tensor, V(negate(b, slope)), count));
        sum = sum ? add(b, sum, part) : part;
    }
    return sum;
}

/* Plain ops, so that any number of further derivatives follow. */
Status deriv_native_layer_norm(Deriv *d) {
    Builder *const b = d->b;
    const LayerNormGrad n = norm_of(d);
    Val *const g = compute_of(b, grad_of(d));
    if (wants(d, 0)) TRY(deriv_set(d, 0, input_gradient(d, &n)));
    if (g && wants(d, 2)) TRY(deriv_set(d, 2, over_rows(&n, mul(b, g, n.xhat))));
    return g && wants(d, 3) ? deriv_set(d, 3, over_rows(&n, g)) : ST_OK;
}

/* The same of (grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask). */
static LayerNormGrad norm_of_backward(Deriv *d) {
    Builder *const b = d->b;
    const int rank = d->arg_meta[1]->rank;
    LayerNormGrad n = {.b = b, .outer = rank - d->args[2].n};
    for (int i = n.outer; i < rank; i++) n.inner.at[n.inner.n++] = i, n.inner.has[i] = true;
    n.rstd = compute_of(b, saved(d, 4));
    n.weight = compute_of(b, saved(d, 5));
    n.xhat = mul(b, sub(b, compute_of(b, saved(d, 1)), compute_of(b, saved(d, 3))), n.rstd);
    return n;
}

static Val *plus_gradient(Builder *b, Val *sum, Val *more) { /* either may be absent */
    return !more ? sum : !sum ? more : add(b, sum, more);
}

/* Gradients u, v, z of the results rstd project(g), sum(go xhat), sum(go), where g = go weight. */
typedef struct NormSecond {
    Val *go, *g, *u, *v, *z;
} NormSecond;

static NormSecond norm_second(Deriv *d, const LayerNormGrad *n) {
    Builder *const b = d->b;
    const uint32_t left_out = deriv_left_out(d->row, d->args);
    Val *at[3];
    for (int i = 0; i < 3; i++) at[i] = left_out >> i & 1 ? NULL : compute_of(b, d->grad_out[i]);
    Val *const go = compute_of(b, saved(d, 0));
    return (NormSecond){go, n->weight ? mul(b, go, n->weight) : go, at[0], at[1], at[2]};
}

/* project is its own transpose. */
static Val *of_grad_out(const LayerNormGrad *n, const NormSecond *s, const Meta *like) {
    Builder *const b = n->b;
    Val *along = s->u ? project(n, mul(b, s->u, n->rstd)) : NULL;
    if (along && n->weight) along = mul(b, along, n->weight);
    Val *const sum = plus_gradient(b, along, s->v ? mul(b, n->xhat, s->v) : NULL);
    return plus_gradient(b, sum, s->z ? expand_to(b, s->z, like->sizes, like->rank) : NULL);
}

static Val *of_xhat(const LayerNormGrad *n, const NormSecond *s) {
    Builder *const b = n->b;
    Val *sum = s->v ? mul(b, s->go, s->v) : NULL;
    if (!s->u) return sum;
    Val *const q = mul(b, s->u, n->rstd);
    Val *const g_along = mean_of(b, mul(b, s->g, n->xhat), &n->inner);
    Val *const q_along = mean_of(b, mul(b, q, n->xhat), &n->inner);
    return plus_gradient(b, sum, negate(b, add(b, mul(b, q, g_along), mul(b, s->g, q_along))));
}

Status deriv_native_layer_norm_backward(Deriv *d) {
    Builder *const b = d->b;
    const LayerNormGrad n = norm_of_backward(d);
    const NormSecond s = norm_second(d, &n);
    if (wants(d, 0)) {
        Val *const of_go = of_grad_out(&n, &s, d->arg_meta[0]);
        if (of_go) TRY(deriv_set(d, 0, of_go));
    }
    if (s.u && wants(d, 5)) TRY(deriv_set(d, 5, mul(b, s.go, project(&n, mul(b, s.u, n.rstd)))));
    Val *const slope = wants(d, 1) || wants(d, 3) || wants(d, 4) ? of_xhat(&n, &s) : NULL;
    if (!slope) return error_pending();
    Val *const shift = mul(b, slope, n.rstd);
    if (wants(d, 1)) TRY(deriv_set(d, 1, shift));
    if (wants(d, 3)) TRY(deriv_set(d, 3, negate(b, shift)));
    if (!wants(d, 4)) return ST_OK;
    Val *const away = sub(b, compute_of(b, saved(d, 1)), compute_of(b, saved(d, 3)));
    Val *const direct = s.u ? mul(b, s.u, project(&n, s.g)) : NULL;
    return deriv_set(d, 4, plus_gradient(b, mul(b, slope, away), direct));
}

/* nll_loss ------------------------------------------------------------------------------------ */

/* (self, target, weight, reduction, ignore_index) -> (output, total_weight) */
Status deriv_nll_loss(Deriv *d) {
    if (!grad_of(d)) return ST_OK;
    if (wants(d, 2)) return error_raise(ST_UNSUPPORTED, "%s has no derivative for weight", d->row->name);
    const Arg *const a = d->args;
    return deriv_set(d, 0, E(d->b, nll_loss_backward, V(grad_of(d)), a[0], a[1], a[2], a[3], a[4], V(d->results[1])));
}

/* (grad_output, self, target, weight, reduction, ignore_index, total_weight): linear in
 * grad_output, as forward is in self */
Status deriv_nll_loss_backward(Deriv *d) {
    const Arg *const a = d->args;
    if (wants(d, 1)) TRY(deriv_set(d, 1, zeros_of(d->b, d->arg_meta[1])));
    if (!wants(d, 0)) return ST_OK;
    return deriv_set(d, 0, E(d->b, nll_loss_forward, V(grad_of(d)), a[2], a[3], a[4], a[5]));
}

/* losses with corners ------------------------------------------------------------------------- */

/* (self, target, reduction, corner): a difference that is infinite or NaN has the slope of its side; by target the two
 * change places. */
static Status cornered(Deriv *d, OpId backward) {
    for (int i = 0; i < 2; i++) {
        if (!wants(d, i)) continue;
        const Arg args[] = {V(grad_of(d)), d->args[i], d->args[1 - i], d->args[2], d->args[3]};
        Val *slope = NULL;
        TRY(emit(d->b, backward, args, 5, &slope));
        TRY(deriv_set(d, i, slope));
    }
    return ST_OK;
}
Status deriv_huber_loss(Deriv *d) { return cornered(d, OP_huber_loss_backward); }
Status deriv_smooth_l1_loss(Deriv *d) { return cornered(d, OP_smooth_l1_loss_backward); }

/* binary_cross_entropy ------------------------------------------------------------------------ */

/* (self, target, weight, reduction); by target: log(1 - self) - log(self), unlimited, as PyTorch has it */
Status deriv_binary_cross_entropy(Deriv *d) {
    Builder *const b = d->b;
    const Arg self = d->args[0], target = d->args[1], weight = d->args[2], how = d->args[3];
    Val *const g = grad_of(d);
    if (wants(d, 0)) TRY(deriv_set(d, 0, E(b, binary_cross_entropy_backward, V(g), self, target, weight, how)));
    if (!wants(d, 1)) return ST_OK;
    Val *const x = compute_of(b, saved(d, 0));
    Val *const slope = sub(b, E(b, log1p, V(negate(b, x))), E(b, log, V(x)));
    Val *each = mul(b, slope, how.i == REDUCTION_mean ? E(b, div_Tensor, V(g), I(d->arg_meta[0]->numel)) : g);
    if (saved(d, 2)) each = mul(b, each, saved(d, 2));
    return deriv_set(d, 1, each);
}
