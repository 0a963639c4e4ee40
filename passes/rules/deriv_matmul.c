/* deriv_matmul.c: derivatives of matrix products: of C = A B they are G B^T and A^T G, products
 * again. */
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
