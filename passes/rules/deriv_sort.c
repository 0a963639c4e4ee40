/* deriv_sort.c: derivatives of scans and sorts. */
#include "passes/rules/deriv.h"

static Arg one_dim(const Arg *dim) { return A_INTS(&dim->i, 1); }

/* Sums of all elements from each to the last of a dim. */
static Val *sums_from(Builder *b, Val *x, const Arg *dim) {
    if (x && !x->meta->rank) return x;
    Val *const turned = E(b, flip, V(x), one_dim(dim));
    return E(b, flip, V(E(b, cumsum, V(turned), *dim)), one_dim(dim));
}

/* (self, dim, *, dtype) */
Status deriv_cumsum(Deriv *d) { return deriv_set(d, 0, sums_from(d->b, grad_of(d), &d->args[1])); }

/* Before the first 0 of a line: the sum of grad * result from there, over self. At the first 0: the sum of grad * the
 * products without it. Behind it nothing. */
Status deriv_cumprod(Deriv *d) {
    Builder *const b = d->b;
    const Arg *const dim = &d->args[1];
    Val *const g = compute_of(b, grad_of(d));
    if (!g) return error_pending();
    if (!g->meta->rank) return deriv_set(d, 0, g);
    Val *const x = cast_to(b, saved(d, 0), g->meta->dtype);
    Val *const zero = E(b, eq_Tensor, V(x), F(0));
    Val *const zeros = E(b, cumsum, V(zero), *dim);
    Val *const before = E(b, eq_Tensor, V(zeros), I(0));
    Val *const first = E(b, logical_and, V(zero), V(E(b, eq_Tensor, V(zeros), I(1))));
    Val *const safe = E(b, where_self, V(zero), F(1), V(x));
    Val *const products = E(b, cumprod, V(x), *dim);
    Val *const ahead = quotient(b, sums_from(b, keep_where(b, before, mul(b, g, products)), dim), safe);
    Val *const without = E(b, cumprod, V(E(b, where_self, V(first), F(1), V(x))), *dim);
    Val *const at_first = sums_from(b, zero_where(b, before, mul(b, g, without)), dim);
    return deriv_set(d, 0, E(b, where_self, V(before), V(ahead), V(keep_where(b, first, at_first))));
}

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
