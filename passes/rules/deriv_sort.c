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
