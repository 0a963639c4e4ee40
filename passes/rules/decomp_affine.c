/* decomp_affine.c: positions of a grid: products of [position, 1] for each of its places, and a matrix. */
#include "passes/rules/decomp.h"
#include "ir/op.h"

DecompFn decomp_affine_grid_generator, decomp_affine_grid_generator_backward;

/* Positions of n elements from -1 to 1: of their centres, or (align) the first and last at the ends; 0 of one. */
static Val *positions(Builder *b, int64_t n, bool align, DType dtype, Device device) {
    if (sym_at_most(b->env, n, 1)) return E(b, zeros, A_INTS(&n, 1), I(dtype), A_NONE, I(device));
    Val *const ends = E(b, linspace, I(-1), I(1), I(sym_concrete(b->env, n)), I(dtype), A_NONE, I(device));
    if (align) return ends;
    return E(b, div_Tensor, V(E(b, mul_Tensor, V(ends), I(sym_sub(b->env, n, 1)))), I(n));
}

/* [batch, places, dims + 1]: the last dim first, then 1 */
static Val *places(Builder *b, const Meta *like, const Arg *size, bool align) {
    const int dims = size->n - 2;
    int64_t grid[5], apart[5];
    Val *parts[4];
    for (int d = 0; d < dims; d++) grid[d] = size->ints[2 + d];
    grid[dims] = 1;
    for (int k = 0; k < dims; k++) { /* x of the last dim, then y... */
        const int d = dims - 1 - k;
        for (int i = 0; i <= dims; i++) apart[i] = i == d ? grid[d] : 1;
        Val *const line = positions(b, grid[d], align, like->dtype, like->device);
        parts[k] = E(b, expand, V(E(b, view, V(line), A_INTS(apart, dims + 1))), A_INTS(grid, dims + 1));
        if (!parts[k]) return NULL;
    }
    parts[dims] = E(b, ones, A_INTS(grid, dims + 1), I(like->dtype), A_NONE, I(like->device));
    if (!parts[dims]) return NULL;
    Val *const each = E(b, cat, A_VALS(parts, dims + 1), I(-1));
    const int64_t flat[] = {1, sym_product(b->env, grid, dims), dims + 1};
    const int64_t all[] = {size->ints[0], flat[1], flat[2]};
    return E(b, expand, V(E(b, view, V(each), A_INTS(flat, 3))), A_INTS(all, 3));
}

/* (theta, size, align_corners) */
Status decomp_affine_grid_generator(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int dims = args[1].n - 2;
    Val *const grid = places(b, args[0].val->meta, &args[1], args[2].i);
    Val *const turned = E(b, transpose_int, args[0], I(1), I(2));
    int64_t sizes[5] = {args[1].ints[0]};
    for (int d = 0; d < dims; d++) sizes[1 + d] = args[1].ints[2 + d];
    sizes[1 + dims] = dims;
    return done1(outs, E(b, view, V(E(b, bmm, V(grid), V(turned))), A_INTS(sizes, dims + 2)));
}

/* (grad, size, align_corners) */
Status decomp_affine_grid_generator_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int dims = args[1].n - 2;
    Val *const grid = places(b, args[0].val->meta, &args[1], args[2].i);
    if (!grid) return error_pending();
    const int64_t sizes[] = {args[1].ints[0], grid->meta->sizes[1], dims};
    Val *const turned = E(b, transpose_int, V(grid), I(1), I(2));
    Val *const grad = E(b, bmm, V(turned), V(reshaped(b, args[0].val, sizes, 3)));
    return done1(outs, E(b, transpose_int, V(grad), I(1), I(2)));
}
