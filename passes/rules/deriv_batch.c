/* deriv_batch.c: derivatives of batch and group norm, in plain ops, so that any number of further derivatives follow:
 * those go through mean, rstd and variance, too. */
#include "passes/rules/deriv.h"

typedef struct BatchNormGrad { /* as they lie beside each other; weight NULL: ones */
    Builder *b;
    Val *away, *xhat, *rstd, *weight;
    Dims under; /* one mean */
    int64_t count;
} BatchNormGrad;

/* v less its mean and its part along xhat. */
static Val *project(const BatchNormGrad *n, Val *v) {
    Builder *const b = n->b;
    Val *const along = mul(b, n->xhat, mean_of(b, mul(b, v, n->xhat), &n->under));
    return sub(b, sub(b, v, mean_of(b, v, &n->under)), along);
}

static Val *plus_gradient(Builder *b, Val *sum, Val *more) { return !more ? sum : !sum ? more : add(b, sum, more); }

/* Of the output (rstd project(g weight)), mean (1 / n), rstd (-rstd^2 xhat / n) and variance (2 (x - mean) / n); any
 * may be absent. */
static Val *of_input(const BatchNormGrad *n, Val *g, Val *mean, Val *rstd, Val *var) {
    Builder *const b = n->b;
    const Meta *const x = n->away ? n->away->meta : NULL;
    if (!x) return NULL;
    Val *sum = g ? mul(b, n->rstd, project(n, n->weight ? mul(b, g, n->weight) : g)) : NULL;
    if (mean) sum = plus_gradient(b, sum, expand_to(b, E(b, div_Tensor, V(mean), I(n->count)), x->sizes, x->rank));
    if (rstd) {
        Val *const slope = negate(b, mul(b, rstd, square_of(b, n->rstd)));
        sum = plus_gradient(b, sum, mul(b, n->xhat, E(b, div_Tensor, V(slope), I(n->count))));
    }
    if (var) sum = plus_gradient(b, sum, mul(b, n->away, E(b, div_Tensor, V(mul_n(b, var, 2)), I(n->count))));
    return sum;
}

/* batch norm ---------------------------------------------------------------------------------- */

/* [C] as [C, 1, 1...] */
static Val *per_channel(Builder *b, Val *v, int rank) {
    if (!v) return NULL;
    int64_t sizes[MAX_RANK] = {v->meta->sizes[0]};
    for (int d = 1; d < rank - 1; d++) sizes[d] = 1;
    return reshape_to(b, v, sizes, rank - 1);
}

static Dims beside_channels(int rank) {
    Dims dims = {0};
    for (int d = 0; d < rank; d++)
        if (d != 1) dims.at[dims.n++] = d, dims.has[d] = true;
    return dims;
}

/* (input, weight, bias, eps) -> (output, mean, rstd, var) */
Status deriv_batch_norm_stats(Deriv *d) {
    Builder *const b = d->b;
    const int rank = d->arg_meta[0]->rank;
    BatchNormGrad n = {.b = b, .under = beside_channels(rank)};
    n.count = dims_count(b, &n.under, d->arg_meta[0]);
    n.rstd = per_channel(b, compute_of(b, d->results[2]), rank);
    n.away = sub(b, compute_of(b, saved(d, 0)), per_channel(b, compute_of(b, d->results[1]), rank));
    n.xhat = mul(b, n.away, n.rstd);
    n.weight = per_channel(b, compute_of(b, saved(d, 1)), rank);
    Val *g[4];
    for (int i = 0; i < 4; i++) g[i] = compute_of(b, d->grad_out[i]);
    for (int i = 1; i < 4; i++) g[i] = per_channel(b, g[i], rank);
    if (wants(d, 0)) TRY(deriv_set(d, 0, of_input(&n, g[0], g[1], g[2], g[3])));
    if (g[0] && wants(d, 1)) TRY(deriv_set(d, 1, sum_dims(b, mul(b, g[0], n.xhat), n.under.at, n.under.n, false)));
    return g[0] && wants(d, 2) ? deriv_set(d, 2, sum_dims(b, g[0], n.under.at, n.under.n, false)) : ST_OK;
}

/* (input, weight, bias, running_mean, running_var, momentum, eps): the statistics are constants. */
Status deriv_batch_norm_eval(Deriv *d) {
    if (!grad_of(d)) return ST_OK;
    double eps;
    TRY(deriv_number(d, 6, &eps));
    Builder *const b = d->b;
    const int rank = d->arg_meta[0]->rank;
    const Dims under = beside_channels(rank);
    Val *const g = compute_of(b, grad_of(d)), *const weight = per_channel(b, compute_of(b, saved(d, 1)), rank);
    Val *const var = add_n(b, compute_of(b, saved(d, 4)), eps);
    Val *const rstd = per_channel(b, E(b, rsqrt, V(var)), rank);
    if (wants(d, 0)) TRY(deriv_set(d, 0, mul(b, weight ? mul(b, g, weight) : g, rstd)));
    if (wants(d, 1)) {
        Val *const mean = per_channel(b, compute_of(b, saved(d, 3)), rank);
        Val *const xhat = mul(b, sub(b, compute_of(b, saved(d, 0)), mean), rstd);
        TRY(deriv_set(d, 1, sum_dims(b, mul(b, g, xhat), under.at, under.n, false)));
    }
    return wants(d, 2) ? deriv_set(d, 2, sum_dims(b, g, under.at, under.n, false)) : ST_OK;
}

/* Gradients u, v, z of rstd weight project(go), sum(go xhat), sum(go). Of a batch's own statistics, which are functions
 * of the input, the whole derivative goes to the input, as in PyTorch (batchnorm_double_backward); running ones are
 * constants, and nothing is projected. */
typedef struct BatchNormSecond {
    BatchNormGrad n;
    bool own;
    Val *go, *u, *v, *z;
} BatchNormSecond;

static Val *projected(const BatchNormSecond *s, Val *x) { return s->own ? project(&s->n, x) : x; }
static Val *times_weight(const BatchNormSecond *s, Val *x) { return s->n.weight ? mul(s->n.b, x, s->n.weight) : x; }

/* (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask) */
static Status batch_second_of(Deriv *d, BatchNormSecond *s) {
    Builder *const b = d->b;
    const int rank = d->arg_meta[1]->rank;
    const bool own = d->args[7].i;
    double eps;
    TRY(deriv_number(d, 8, &eps));
    *s = (BatchNormSecond){.n = {.b = b, .under = beside_channels(rank)}, .own = own};
    const uint32_t left_out = deriv_left_out(d->row, d->args);
    Val *at[3];
    for (int i = 0; i < 3; i++) at[i] = left_out >> i & 1 ? NULL : compute_of(b, d->grad_out[i]);
    s->go = compute_of(b, saved(d, 0));
    s->u = at[0], s->v = per_channel(b, at[1], rank), s->z = per_channel(b, at[2], rank);
    Val *const spread = compute_of(b, saved(d, own ? 6 : 4));
    s->n.rstd = per_channel(b, own ? spread : E(b, rsqrt, V(add_n(b, spread, eps))), rank);
    s->n.away = sub(b, compute_of(b, saved(d, 1)), per_channel(b, compute_of(b, saved(d, own ? 5 : 3)), rank));
    s->n.xhat = mul(b, s->n.away, s->n.rstd);
    s->n.weight = per_channel(b, compute_of(b, saved(d, 2)), rank);
    return error_pending();
}

static Val *second_of_grad_out(const BatchNormSecond *s, const Meta *like) {
    Builder *const b = s->n.b;
    Val *const along = s->u ? times_weight(s, mul(b, s->n.rstd, projected(s, s->u))) : NULL;
    Val *const sum = plus_gradient(b, along, s->v ? mul(b, s->n.xhat, s->v) : NULL);
    return plus_gradient(b, sum, s->z ? expand_to(b, s->z, like->sizes, like->rank) : NULL);
}

/* Through xhat, and of the factor rstd beside project: -rstd^2 xhat / n of its gradient. */
static Val *second_of_input(const BatchNormSecond *s) {
    const BatchNormGrad *const n = &s->n;
    Builder *const b = n->b;
    Val *slope = s->v ? mul(b, s->v, s->go) : NULL;
    if (!s->own) return slope ? mul(b, n->rstd, slope) : NULL;
    if (!s->u) return slope ? mul(b, n->rstd, project(n, slope)) : NULL;
    Val *const go_along = mean_of(b, mul(b, s->go, n->xhat), &n->under);
    Val *const u_along = mean_of(b, mul(b, s->u, n->xhat), &n->under);
    Val *const both = add(b, mul(b, s->u, go_along), mul(b, s->go, u_along));
    slope = plus_gradient(b, slope, negate(b, times_weight(s, mul(b, n->rstd, both))));
    Val *const factor = mean_of(b, mul(b, s->u, project(n, s->go)), &n->under);
    Val *const beside = times_weight(s, mul(b, square_of(b, n->rstd), factor));
    return sub(b, mul(b, n->rstd, project(n, slope)), mul(b, n->xhat, beside));
}

static Val *second_of_weight(const BatchNormSecond *s) {
    Builder *const b = s->n.b;
    if (!s->u) return NULL;
    Val *const each = mul(b, s->go, mul(b, s->n.rstd, projected(s, s->u)));
    return sum_dims(b, each, s->n.under.at, s->n.under.n, false);
}

/* None where the results whose gradients there are, or that output_mask left, do not depend on it. */
static Status set_second(Deriv *d, int arg, Val *grad) {
    return grad || error_pending() ? deriv_set(d, arg, grad) : ST_OK;
}

Status deriv_native_batch_norm_backward(Deriv *d) {
    BatchNormSecond s;
    TRY(batch_second_of(d, &s));
    if (wants(d, 0)) TRY(set_second(d, 0, second_of_grad_out(&s, d->arg_meta[0])));
    if (wants(d, 1)) TRY(set_second(d, 1, second_of_input(&s)));
    return wants(d, 2) ? set_second(d, 2, second_of_weight(&s)) : ST_OK;
}

/* group norm ---------------------------------------------------------------------------------- */

typedef struct GroupedSizes { /* [N, G, C/G, ...] */
    int64_t sizes[MAX_RANK + 1];
    int rank;
} GroupedSizes;

/* [N, G] as [N, G, 1, 1...]; [C] as [G, C/G, 1...] */
static Val *statistics_grouped(Builder *b, const GroupedSizes *g, Val *v) {
    int64_t sizes[MAX_RANK] = {g->sizes[0], g->sizes[1]};
    for (int d = 2; d < g->rank; d++) sizes[d] = 1;
    return reshape_to(b, v, sizes, g->rank);
}
static Val *channels_grouped(Builder *b, const GroupedSizes *g, Val *v) {
    int64_t sizes[MAX_RANK] = {g->sizes[1], g->sizes[2]};
    for (int d = 2; d < g->rank - 1; d++) sizes[d] = 1;
    return reshape_to(b, v, sizes, g->rank - 1);
}

/* Over samples and positions: [C] */
static Val *over_positions(Builder *b, const GroupedSizes *g, Val *v) {
    const int64_t channels = sym_mul(b->env, g->sizes[1], g->sizes[2]);
    int64_t dims[MAX_RANK] = {0};
    for (int d = 3; d < g->rank; d++) dims[d - 2] = d;
    return reshape_to(b, sum_dims(b, v, dims, g->rank - 2, false), &channels, 1);
}

/* (input, weight, bias, N, C, HxW, group, eps) -> (output, mean, rstd) */
Status deriv_group_norm(Deriv *d) {
    Builder *const b = d->b;
    const Meta *const x = d->arg_meta[0];
    GroupedSizes at = {.sizes = {x->sizes[0], d->args[6].i, sym_div(b->env, x->sizes[1], d->args[6].i)},
                       .rank = x->rank + 1};
    for (int i = 3; i < at.rank; i++) at.sizes[i] = x->sizes[i - 1];
    BatchNormGrad n = {.b = b, .count = 1};
    for (int i = 2; i < at.rank; i++) {
        n.under.at[n.under.n++] = i, n.under.has[i] = true;
        n.count = sym_mul(b->env, n.count, at.sizes[i]);
    }
    n.rstd = statistics_grouped(b, &at, compute_of(b, d->results[2]));
    Val *const mean = statistics_grouped(b, &at, compute_of(b, d->results[1]));
    n.away = sub(b, reshape_to(b, compute_of(b, saved(d, 0)), at.sizes, at.rank), mean);
    n.xhat = mul(b, n.away, n.rstd);
    n.weight = channels_grouped(b, &at, compute_of(b, saved(d, 1)));
    Val *const g = reshape_to(b, compute_of(b, grad_of(d)), at.sizes, at.rank);
    Val *const of_mean = statistics_grouped(b, &at, compute_of(b, d->grad_out[1]));
    Val *const of_rstd = statistics_grouped(b, &at, compute_of(b, d->grad_out[2]));
    if (wants(d, 0)) TRY(deriv_set(d, 0, reshape_to(b, of_input(&n, g, of_mean, of_rstd, NULL), x->sizes, x->rank)));
    if (g && wants(d, 1)) TRY(deriv_set(d, 1, over_positions(b, &at, mul(b, g, n.xhat))));
    return g && wants(d, 2) ? deriv_set(d, 2, over_positions(b, &at, g)) : ST_OK;
}
