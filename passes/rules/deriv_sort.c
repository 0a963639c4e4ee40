/* deriv_sort.c: derivatives of scans, products and sorts. Those of prod and cumprod divide by nothing: that of an
 * element is made of the products of the others, which are right beside zeros, NaN and what overflows, and may be
 * differentiated again. */
#include "passes/rules/deriv.h"
#include "ir/op_ids.h"

static Arg one_dim(const Arg *dim) { return A_INTS(&dim->i, 1); }

/* Sums of all elements from each to the last of a dim. */
static Val *sums_from(Builder *b, Val *x, const Arg *dim) {
    if (x && !x->meta->rank) return x;
    Val *const turned = E(b, flip, V(x), one_dim(dim));
    return E(b, flip, V(E(b, cumsum, V(turned), *dim)), one_dim(dim));
}

/* (self, dim, *, dtype) */
Status deriv_cumsum(Deriv *d) { return deriv_set(d, 0, sums_from(d->b, grad_of(d), &d->args[1])); }

/* products ------------------------------------------------------------------------------------ */

/* Each element's predecessor along a dim; 1 in front. */
static Val *predecessors(Builder *b, Val *x, int dim) {
    int64_t pad[2 * MAX_RANK] = {0};
    const int pair = x->meta->rank - 1 - dim;
    pad[2 * pair] = 1, pad[2 * pair + 1] = -1;
    return E(b, constant_pad_nd, V(x), A_INTS(pad, 2 * (pair + 1)), I(1));
}

/* Products of all elements before each. */
static Val *products_before(Builder *b, Val *x, int dim) {
    if (x && sym_same(b->env, x->meta->sizes[dim], 0)) return x; /* no elements, which no pad may be cut from */
    Val *const moved = x ? predecessors(b, x, dim) : NULL;
    return moved ? E(b, cumprod, V(moved), I(dim)) : NULL;
}

static Val *turned(Builder *b, Val *x, int64_t dim) { return E(b, flip, V(x), A_INTS(&dim, 1)); }

/* Along dims of x: of each element the product of the others. */
static Val *products_of_others(Builder *b, Val *x, int dim) {
    Val *const after = turned(b, products_before(b, turned(b, x, dim), dim), dim);
    return mul(b, products_before(b, x, dim), after);
}

/* Along one dim, or all of them as one. */
static Val *prod_slope(const Deriv *d, Val *x, const Dims *dims) {
    Builder *const b = d->b;
    const Meta *const full = d->arg_meta[0];
    if (dims->n == 1) return products_of_others(b, x, (int)dims->at[0]);
    const int64_t numel = dims_count(b, dims, full);
    return reshape_to(b, products_of_others(b, reshape_to(b, x, &numel, 1), 0), full->sizes, full->rank);
}

Status deriv_prod(Deriv *d) {
    Builder *const b = d->b;
    const Meta *const full = d->arg_meta[0];
    Val *const g = compute_of(b, grad_of(d));
    if (!g) return error_pending();
    if (!full->rank) return deriv_set(d, 0, g);
    const Arg none = A_NONE;
    const bool along = d->row->id == OP_prod_dim_int; /* (self, dim, keepdim, *, dtype) */
    const Dims dims = dims_of(along ? &d->args[1] : &none, full->rank);
    Val *const slope = prod_slope(d, cast_to(b, saved(d, 0), g->meta->dtype), &dims);
    return deriv_set(d, 0, mul(b, restore_dims(b, g, &dims, full, along && d->args[2].i), slope));
}

/* y[k] = g[k] + x[k+1] y[k+1], from the last to the first: sums of spans twice as long at each step. The span of
 * `reach` elements from k on has the sum y[k] of its g, each times the x between; `links` is the product of the x that
 * join it to the next span. */
static Val *linked_sums(Builder *b, Val *g, Val *x, int dim) {
    const int64_t n = g->meta->sizes[dim];
    if (!sym_less(b->env, 1, n)) return g;
    Val *y = g, *links = slice_of(b, x, dim, 1, sym_sub(b->env, n, 1));
    for (int64_t reach = 1; y && links; reach *= 2) {
        const int64_t joined = sym_sub(b->env, n, reach), rest = sym_sub(b->env, joined, reach);
        Val *const next = mul(b, links, slice_of(b, y, dim, reach, joined));
        Val *const parts[] = {add(b, slice_of(b, y, dim, 0, joined), next), slice_of(b, y, dim, joined, reach)};
        y = parts[0] && parts[1] ? E(b, cat, A_VALS(parts, 2), I(dim)) : NULL;
        if (!sym_less(b->env, 0, rest)) return y;
        links = mul(b, slice_of(b, links, dim, 0, rest), slice_of(b, links, dim, reach, rest));
    }
    return NULL;
}

/* (self, dim, *, dtype) */
Status deriv_cumprod(Deriv *d) {
    Builder *const b = d->b;
    Val *const g = grad_of(d);
    if (!g->meta->rank) return deriv_set(d, 0, g);
    const int dim = (int)dim_wrap(d->args[1].i, g->meta->rank);
    Val *const x = compute_of(b, saved(d, 0)); /* whose dtype may be wider than the result's */
    Val *const sums = x ? linked_sums(b, cast_to(b, g, x->meta->dtype), x, dim) : NULL;
    return deriv_set(d, 0, mul(b, products_before(b, x, dim), sums));
}

/* sorts --------------------------------------------------------------------------------------- */

/* The gradient of a value belongs to the element that the index names: (self, ..., dim, ...) */
static Status put_at(Deriv *d, const Arg *dim) {
    const Arg zeros = V(zeros_of(d->b, d->arg_meta[0]));
    return deriv_set(d, 0, E(d->b, scatter_src, zeros, *dim, V(d->results[1]), V(grad_of(d))));
}
Status deriv_sort(Deriv *d) { return put_at(d, &d->args[2]); }
Status deriv_topk(Deriv *d) { return put_at(d, &d->args[2]); }

/* What chance decides has no slope. */
Status deriv_bernoulli(Deriv *d) {
    if (wants(d, 0)) TRY(deriv_set(d, 0, zeros_of(d->b, d->arg_meta[0])));
    if (d->row->id != OP_bernoulli_Tensor || !wants(d, 1)) return ST_OK;
    return deriv_set(d, 1, zeros_of(d->b, d->arg_meta[1]));
}
Status deriv_chance(Deriv *d) {
    for (int i = 0; i < d->row->n_params; i++)
        if (wants(d, i)) TRY(deriv_set(d, i, zeros_of(d->b, d->arg_meta[i])));
    return ST_OK;
}
