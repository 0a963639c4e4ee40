/* deriv_position.c: derivatives of reductions into positions, with PyTorch's formulas (scatter_reduce_backward): ties
 * of an extremum share, a product leaves out what is 0. */
#include "passes/rules/deriv.h"

/* (self, dim, index, src, reduce, *, include_self); src cut to the sizes of index: more of it is not read */
typedef struct Reduced {
    Builder *b;
    Arg self, dim, index, src, how, with_self;
    Val *grad, *result;
} Reduced;

static Val *at_index(const Reduced *r, Val *x) { return E(r->b, gather, V(x), r->dim, r->index); }
static Val *added(const Reduced *r, Val *to, Val *x) { return E(r->b, scatter_add, V(to), r->dim, r->index, V(x)); }
static Val *product_with(const Reduced *r, Val *self, Val *src) {
    return E(r->b, scatter_reduce_two, V(self), r->dim, r->index, V(src), r->how, r->with_self);
}
static Val *zero_at(Builder *b, Arg x) { return E(b, eq_Tensor, x, F(0)); }
static Val *one_where(Builder *b, Val *condition, Arg x) { return E(b, where_self, V(condition), F(1), x); }

static bool is_reduced_by(const Reduced *r, const char *word) { return !strcmp(r->how.string, word); }

/* Of each element of self, how many are in its mean. */
static Val *mean_counts(const Reduced *r) {
    Val *const start = E(r->b, full_like, V(r->grad), F(r->with_self.i ? 1 : 0));
    Val *const count = added(r, start, E(r->b, ones_like, r->src));
    return one_where(r->b, zero_at(r->b, V(count)), V(count));
}

/* Of the elements that are the extremum each gets the same. */
static Val *shared(const Reduced *r, Val **self_is, Val **src_is) {
    Builder *const b = r->b;
    const DType dtype = r->result->meta->dtype;
    *self_is = cast_to(b, E(b, eq_Tensor, r->self, V(r->result)), dtype);
    *src_is = cast_to(b, E(b, eq_Tensor, r->src, V(at_index(r, r->result))), dtype);
    return quotient(b, r->grad, added(r, *self_is, *src_is));
}

static Val *self_grad(const Reduced *r) {
    Builder *const b = r->b;
    Val *self_is, *src_is;
    if (is_reduced_by(r, "sum")) return r->grad;
    if (is_reduced_by(r, "mean")) return quotient(b, r->grad, mean_counts(r));
    if (is_reduced_by(r, "prod")) {
        Val *const safe = one_where(b, zero_at(b, r->self), r->self);
        return quotient(b, mul(b, r->grad, product_with(r, safe, r->src.val)), safe);
    }
    Val *const share = shared(r, &self_is, &src_is);
    return mul(b, share, self_is);
}

/* An only 0 gets the product of the others, one of several nothing. */
static Val *product_grad(const Reduced *r) {
    Builder *const b = r->b;
    Val *const zero = zero_at(b, r->src);
    Val *const none = E(b, zeros_like, r->self);
    Val *const zeros = at_index(r, added(r, none, cast_to(b, zero, r->src.val->meta->dtype)));
    Val *const only = E(b, logical_and, V(zero), V(E(b, eq_Tensor, V(zeros), F(1))));
    Val *const others = product_with(r, r->self.val, one_where(b, only, r->src));
    Val *const whole = quotient(b, at_index(r, mul(b, r->grad, r->result)), one_where(b, zero, r->src));
    Val *const grad = E(b, where_self, V(only), V(at_index(r, mul(b, r->grad, others))), V(whole));
    return zero_where(b, E(b, gt_Tensor, V(zeros), F(1)), grad);
}

static Val *src_grad(const Reduced *r) {
    Builder *const b = r->b;
    Val *self_is, *src_is;
    if (is_reduced_by(r, "sum")) return at_index(r, r->grad);
    if (is_reduced_by(r, "mean")) return at_index(r, quotient(b, r->grad, mean_counts(r)));
    if (is_reduced_by(r, "prod")) return product_grad(r);
    Val *const share = shared(r, &self_is, &src_is);
    return mul(b, at_index(r, share), src_is);
}

static Val *cut_to(Builder *b, Val *x, const Meta *sizes) {
    for (int d = 0; x && d < sizes->rank; d++)
        if (!sym_same(b->env, x->meta->sizes[d], sizes->sizes[d])) x = slice_of(b, x, d, 0, sizes->sizes[d]);
    return x;
}

/* Zeros behind what was read. */
static Val *padded_to(Builder *b, Val *x, const Meta *like) {
    int64_t pad[2 * MAX_RANK] = {0};
    bool any = false;
    for (int d = 0; x && d < like->rank; d++) {
        pad[2 * (like->rank - 1 - d) + 1] = sym_sub(b->env, like->sizes[d], x->meta->sizes[d]);
        any |= !sym_same(b->env, like->sizes[d], x->meta->sizes[d]);
    }
    return any ? E(b, constant_pad_nd, V(x), A_INTS(pad, 2 * like->rank)) : x;
}

Status deriv_scatter_reduce_two(Deriv *d) {
    Builder *const b = d->b;
    const Meta *const index = d->arg_meta[2];
    Reduced r = {.b = b,
                 .self = V(compute_of(b, saved(d, 0))),
                 .dim = d->args[1],
                 .index = d->args[2],
                 .src = V(compute_of(b, cut_to(b, saved(d, 3), index))),
                 .how = d->args[4],
                 .with_self = d->args[5],
                 .grad = compute_of(b, grad_of(d)),
                 .result = compute_of(b, d->results[0])};
    if (wants(d, 0)) {
        Val *const grad = self_grad(&r);
        TRY(deriv_set(d, 0, r.with_self.i ? grad : E(b, scatter_value, V(grad), r.dim, r.index, F(0))));
    }
    return wants(d, 3) ? deriv_set(d, 3, padded_to(b, src_grad(&r), d->arg_meta[3])) : ST_OK;
}

/* (self, mask, source) */
Status deriv_masked_scatter(Deriv *d) {
    Builder *const b = d->b;
    Val *const g = grad_of(d);
    if (wants(d, 0)) TRY(deriv_set(d, 0, filled_where(b, d->args[1], g)));
    if (!wants(d, 2)) return ST_OK;
    const Meta *const source = d->arg_meta[2];
    return deriv_set(d, 2, E(b, masked_scatter_backward, V(g), d->args[1], A_INTS(source->sizes, source->rank)));
}
