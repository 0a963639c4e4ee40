/* decomp_matrix.c: small ops put together of others (ops/matrix.def). */
#include <math.h>

#include "ir/op_ids.h"
#include "ir/schema.h"
#include "passes/rules/decomp.h"

DecompFn decomp_diag, decomp_diagflat, decomp_linalg_diagonal, decomp_fliplr, decomp_flipud, decomp_atleast;
DecompFn decomp_addbmm, decomp_addmv, decomp_linalg_vecdot, decomp_ldexp, decomp_isposinf, decomp_isneginf;
DecompFn decomp_deg2rad, decomp_conj, decomp_index_copy, decomp_index_fill;

Status decomp_diag(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    if (args[0].val->meta->rank == 1) return done1(outs, E(b, diag_embed, args[0], args[1]));
    return done1(outs, E(b, diagonal_copy, args[0], args[1]));
}

Status decomp_diagflat(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int64_t flat = -1;
    return done1(outs, E(b, diag_embed, V(reshaped(b, args[0].val, &flat, 1)), args[1]));
}

Status decomp_linalg_diagonal(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, emit1(b, OP_diagonal, args, 4));
}

Status decomp_fliplr(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, flip, args[0], A_INTS(&(int64_t){1}, 1)));
}
Status decomp_flipud(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, flip, args[0], A_INTS(&(int64_t){0}, 1)));
}

/* The last digit of the name says how many; of three the last one comes behind. */
Status decomp_atleast(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int least = row->base[strlen("atleast_")] - '0', rank = args[0].val->meta->rank;
    Val *x = args[0].val;
    if (rank >= least) return done1(outs, E(b, alias, V(x)));
    for (int n = rank; n < least; n++) x = E(b, unsqueeze, V(x), I(n < 2 ? 0 : -1));
    return done1(outs, x);
}

/* beta * self + alpha * product; of ints the numbers count without their fraction, as in PyTorch, and a self that is
 * taken 0 times is not read. */
static Arg number_for(DType dtype, const Arg *number) {
    return number->kind == ARG_float && !dtype_is_float(dtype) ? I(double_to_i64(number->f)) : *number;
}

static Val *with_addend(Builder *b, const Arg *args, Val *product) {
    const Meta *const self = args[0].val->meta;
    const Arg beta = number_for(self->dtype, &args[3]), alpha = number_for(self->dtype, &args[4]);
    Val *const scaled = E(b, mul_Tensor, V(product), alpha);
    const bool unread = arg_is_number(&beta) && arg_double(&beta) == 0;
    Val *const wide = widened(b, args[0].val);
    Val *const addend = unread ? E(b, zero, V(wide)) : E(b, mul_Tensor, V(wide), beta);
    return in_dtype(b, E(b, add_Tensor, V(addend), V(scaled)), self->dtype);
}

Status decomp_addbmm(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int64_t batch = 0;
    Val *const each = E(b, bmm, V(widened(b, args[1].val)), V(widened(b, args[2].val)));
    Val *const sum = in_dtype(b, sum_over(b, each, &batch, 1, false), each ? each->meta->dtype : DT_f32);
    return done1(outs, in_layout_of(b, row, args, 0, with_addend(b, args, sum)));
}

Status decomp_addmv(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const product = E(b, mv, V(widened(b, args[1].val)), V(widened(b, args[2].val)));
    return done1(outs, in_layout_of(b, row, args, 0, with_addend(b, args, product)));
}

/* (x, y, dim) */
Status decomp_linalg_vecdot(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const product = E(b, mul_Tensor, V(widened(b, args[0].val)), V(widened(b, args[1].val)));
    Val *const sum = product && product->meta->rank ? sum_over(b, product, &args[2].i, 1, false) : product;
    return done1(outs, in_layout_of(b, row, args, 0, in_dtype(b, sum, args[0].val->meta->dtype)));
}

static Val *times_two_to(Builder *b, Val *x, Val *n) {
    return E(b, mul_Tensor, V(x), V(E(b, exp2, V(in_dtype(b, n, DT_f64)))));
}

/* x * 2^n of f64 and n of i64, rounded once: no power is out of range on the way, and none but the last makes a result
 * subnormal (the bounds are scalbn's of musl). */
static Val *scaled_by_power(Builder *b, Val *x, Val *n) {
    for (int i = 0; i < 2; i++) {
        Val *const low = E(b, where_self, V(E(b, lt_Scalar, V(n), I(-1022))), I(-969), I(0));
        Val *const part = E(b, where_self, V(E(b, gt_Scalar, V(n), I(1023))), I(1023), V(low));
        x = times_two_to(b, x, part), n = E(b, sub_Tensor, V(n), V(part));
    }
    return times_two_to(b, x, E(b, clamp, V(n), I(-1022), I(1023)));
}

/* By a whole number of halves and f32: f64 holds what any of them can give, or more than its largest. */
static Status exact_ldexp(Builder *b, const OpRow *row, const Arg *args, DType dtype, Val **outs) {
    Val *const n = E(b, clamp, V(in_dtype(b, args[1].val, DT_i64)), I(-3000), I(3000));
    Val *const x = in_dtype(b, in_dtype(b, args[0].val, dtype), DT_f64);
    Val *const product =
        dtype == DT_f64 ? scaled_by_power(b, x, n) : times_two_to(b, x, E(b, clamp, V(n), I(-600), I(600)));
    return done1(outs, in_layout_of(b, row, args, 0, in_dtype(b, product, dtype)));
}

Status decomp_ldexp(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const DType common = operands_promoted(row, args), dtype = dtype_is_float(common) ? common : DT_f32;
    if (!dtype_is_float(args[1].val->meta->dtype)) return exact_ldexp(b, row, args, dtype, outs);
    const DType wide = dtype_is_half(dtype) ? DT_f32 : dtype;
    Val *const power = E(b, pow_Scalar, F(2), V(in_dtype(b, args[1].val, wide)));
    Val *const product = E(b, mul_Tensor, V(in_dtype(b, args[0].val, wide)), V(power));
    return done1(outs, in_layout_of(b, row, args, 0, in_dtype(b, product, dtype)));
}

Status decomp_isposinf(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, in_layout_of(b, row, args, 0, E(b, eq_Tensor, args[0], F(INFINITY))));
}
Status decomp_isneginf(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, in_layout_of(b, row, args, 0, E(b, eq_Tensor, args[0], F(-INFINITY))));
}
Status decomp_deg2rad(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, in_layout_of(b, row, args, 0, E(b, mul_Tensor, args[0], F(0.017453292519943295))));
}
Status decomp_conj(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, alias, args[0]));
}

/* Positions of one dim for each element of these sizes. */
static Val *spread_positions(Builder *b, Val *index, const int64_t *sizes, int rank, int dim) {
    int64_t own[MAX_RANK];
    for (int d = 0; d < rank; d++) own[d] = d == dim ? index->meta->numel : 1;
    Val *const placed = reshaped(b, index, own, rank);
    return E(b, expand, V(placed), A_INTS(sizes, rank));
}

/* self without dims as one with a dim. */
static Val *with_dims(Builder *b, Val *x) { return x->meta->rank ? x : E(b, unsqueeze, V(x), I(0)); }
static Status as_self(Builder *b, const OpRow *row, const Arg *args, Val *y, Val **outs) {
    if (y && !args[0].val->meta->rank) y = E(b, squeeze_dim, V(y), I(0));
    return done1(outs, in_layout_of(b, row, args, 0, y));
}

/* (self, dim, index, source) */
Status decomp_index_copy(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const self = with_dims(b, args[0].val), *const source = with_dims(b, args[3].val);
    if (!self || !source) return error_pending();
    const int dim = dim_of(&args[1], self->meta->rank);
    Val *const at = spread_positions(b, args[2].val, source->meta->sizes, source->meta->rank, dim);
    return as_self(b, row, args, E(b, scatter_src, V(self), I(dim), V(at), V(source)), outs);
}

/* (self, dim, index, value): positions count from the end where negative. A position that is named twice has the value
 * once, and so has its gradient. */
Status decomp_index_fill(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const self = with_dims(b, args[0].val), *const index = args[2].val;
    if (!self) return error_pending();
    const int dim = dim_of(&args[1], self->meta->rank), rank = self->meta->rank;
    int64_t sizes[MAX_RANK];
    for (int d = 0; d < rank; d++) sizes[d] = d == dim ? index->meta->numel : self->meta->sizes[d];
    Val *const below = E(b, lt_Scalar, V(index), I(0));
    Val *const end = E(b, add_Tensor, V(index), I(self->meta->sizes[dim]));
    Val *const at = E(b, where_self, V(below), V(end), V(index));
    Val *const all = at ? spread_positions(b, at, sizes, rank, dim) : NULL;
    Val *const none = E(b, zeros, A_INTS(self->meta->sizes, rank), I(DT_bool), A_NONE, I(self->meta->device));
    Val *const there = E(b, scatter_value, V(none), I(dim), V(all), A_BOOL(true));
    const bool number = args[3].kind != ARG_tensor;
    const Arg value = number ? args[3] : V(in_dtype(b, args[3].val, self->meta->dtype));
    Val *const filled =
        number ? E(b, masked_fill_Scalar, V(self), V(there), value) : E(b, where_self, V(there), value, V(self));
    return as_self(b, row, args, in_dtype(b, filled, self->meta->dtype), outs);
}
