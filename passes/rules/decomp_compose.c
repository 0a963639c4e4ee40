/* decomp_compose.c: ops that are others put together. */
#include "ir/schema.h"
#include "passes/rules/decomp.h"

DecompFn decomp_roll, decomp_tile, decomp_rot90, decomp_diag_embed, decomp_count_nonzero, decomp_nansum, decomp_aminmax;
DecompFn decomp_std_mean, decomp_std_mean_default, decomp_std_mean_dim, decomp_glu, decomp_eye;

static Val *row_major(Builder *b, Val *x) {
    return x && !x->meta->contiguous ? E(b, clone, V(x), I(MF_contiguous)) : x;
}

static Val *rolled(Builder *b, Val *x, int64_t shift, int dim) {
    const int64_t size = x ? sym_concrete(b->env, x->meta->sizes[dim]) : 0;
    const int64_t start = size ? ((size - shift % size) % size) : 0;
    if (!start) return x;
    Val *const parts[] = {E(b, slice_Tensor, V(x), I(dim), I(start), I(size)),
                          E(b, slice_Tensor, V(x), I(dim), I(0), I(start))};
    return parts[0] && parts[1] ? E(b, cat, A_VALS(parts, 2), I(dim)) : NULL;
}

Status decomp_roll(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const self = args[0].val->meta;
    const bool whole = !args[2].n;
    const int64_t flat[1] = {-1};
    Val *x = args[0].val;
    if (sym_same(b->env, self->numel, 0) || !self->rank) return done1(outs, E(b, clone, args[0], I(MF_contiguous)));
    if (whole) x = rolled(b, reshaped(b, x, flat, 1), sym_concrete(b->env, args[1].ints[0]), 0);
    for (int i = 0; i < args[2].n; i++)
        x = rolled(b, x, sym_concrete(b->env, args[1].ints[i]), (int)dim_wrap(args[2].ints[i], self->rank));
    if (whole) x = reshaped(b, x, self->sizes, self->rank);
    Val *const copy = row_major(b, x);
    return done1(outs, copy == args[0].val || whole ? E(b, clone, V(copy), I(MF_contiguous)) : copy);
}

Status decomp_tile(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int rank = args[0].val->meta->rank, n = args[1].n, missing = rank > n ? rank - n : 0;
    int64_t repeats[MAX_RANK];
    for (int d = 0; d < n + missing; d++) repeats[d] = d < missing ? 1 : args[1].ints[d - missing];
    return done1(outs, E(b, repeat, args[0], A_INTS(repeats, n + missing)));
}

/* Once: the second dim turned round, then both exchanged; thrice: the first. */
Status decomp_rot90(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int64_t k = (args[1].i % 4 + 4) % 4, *const dims = args[2].ints;
    if (k == 0) return done1(outs, E(b, clone, args[0], I(MF_contiguous)));
    if (k == 2) return done1(outs, row_major(b, E(b, flip, args[0], A_INTS(dims, 2))));
    Val *const turned = E(b, flip, args[0], A_INTS(&dims[k == 1], 1));
    return done1(outs, E(b, clone, V(E(b, transpose_int, V(turned), I(dims[0]), I(dims[1]))), I(MF_contiguous)));
}

/* Element (row, column) where column - row is offset: self, padded to the rows, at its row. */
Status decomp_diag_embed(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const self = args[0].val->meta;
    const int rank = self->rank + 1, first = dim_of(&args[2], rank), second = dim_of(&args[3], rank);
    const int64_t offset = args[1].i, pad[2] = {offset < 0 ? -offset : 0, offset > 0 ? offset : 0};
    const int64_t size = sym_add(b->env, self->sizes[rank - 2], pad[0] + pad[1]);
    Val *const padded = E(b, unsqueeze, V(E(b, constant_pad_nd, args[0], A_INTS(pad, 2))), I(-1));
    Val *const count = E(b, arange, I(size), I(DT_i64), A_NONE, I(self->device));
    Val *const rows = E(b, unsqueeze, V(E(b, add_Tensor, V(count), I(offset))), I(-1));
    Val *const at = E(b, eq_Tensor, V(count), V(rows));
    Val *const placed = E(b, where_self, V(at), V(padded), I(0));
    int64_t order[MAX_RANK];
    for (int d = 0, from = 0; d < rank; d++) order[d] = d == first ? rank - 2 : d == second ? rank - 1 : from++;
    Val *const turned = E(b, permute, V(in_dtype(b, placed, self->dtype)), A_INTS(order, rank));
    return done1(outs, row_major(b, turned));
}

Status decomp_count_nonzero(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Arg dims = args[1].kind == ARG_int ? A_INTS(&args[1].i, 1) : args[1];
    return done1(outs, E(b, sum_dim_IntList, V(E(b, ne_Tensor, args[0], I(0))), dims, A_BOOL(false)));
}

Status decomp_nansum(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const x = args[0].val;
    Val *const numbers = dtype_is_float(x->meta->dtype) ? E(b, where_self, V(E(b, isnan, V(x))), F(0), V(x)) : x;
    return done1(outs, E(b, sum_dim_IntList, V(numbers), args[1], args[2], args[3]));
}

Status decomp_aminmax(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Arg dims = A_INTS(&args[1].i, args[1].kind == ARG_int);
    return decomp_done(outs, 2, (Val *const[]){E(b, amin, args[0], dims, args[2]), E(b, amax, args[0], dims, args[2])});
}

static Status std_and_mean(Builder *b, Arg self, Arg dim, Arg correction, Arg keepdim, Val **outs) {
    Val *const std = E(b, std_correction, self, dim, correction, keepdim);
    return decomp_done(outs, 2, (Val *const[]){std, E(b, mean_dim, self, dim, keepdim)});
}
Status decomp_std_mean(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return std_and_mean(b, args[0], args[1], args[2], args[3], outs);
}
static Arg correction_of(const Arg *unbiased) { return I(unbiased->kind == ARG_bool && !unbiased->i ? 0 : 1); }
Status decomp_std_mean_default(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return std_and_mean(b, args[0], A_NONE, correction_of(&args[1]), A_BOOL(false), outs);
}
Status decomp_std_mean_dim(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return std_and_mean(b, args[0], args[1], correction_of(&args[2]), args[3], outs);
}

Status decomp_glu(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const self = args[0].val->meta;
    const int dim = dim_of(&args[1], self->rank);
    const int64_t half = sym_div(b->env, self->sizes[dim], 2);
    Val *const x = widened(b, args[0].val);
    Val *const value = E(b, slice_Tensor, V(x), I(dim), I(0), I(half));
    Val *const gate = E(b, sigmoid, V(E(b, slice_Tensor, V(x), I(dim), I(half), I(self->sizes[dim]))));
    return done1(outs, row_major(b, in_dtype(b, E(b, mul_Tensor, V(value), V(gate)), self->dtype)));
}

/* (n, options) and (n, m, options) */
Status decomp_eye(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const bool square = row->options == 1;
    const Arg *const dtype = &args[row->options], *const device = &args[row->device];
    Val *const rows = E(b, arange, args[0], I(DT_i64), A_NONE, *device);
    Val *const columns = E(b, arange, args[square ? 0 : 1], I(DT_i64), A_NONE, *device);
    Val *const at = E(b, eq_Tensor, V(columns), V(E(b, unsqueeze, V(rows), I(-1))));
    return done1(outs, in_dtype(b, at, dtype->kind == ARG_int && dtype->i ? (DType)dtype->i : DT_f32));
}
