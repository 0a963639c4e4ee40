/* decomp_parts.c: rules of ir/ops/parts.def. */
#include <math.h>

#include "ir/op_ids.h"
#include "ir/schema.h"
#include "passes/rules/decomp.h"

DecompFn decomp_mT, decomp_ravel, decomp_take_along_dim, decomp_trapezoid, decomp_sum_to_size, decomp_nanmean;
DecompFn decomp_sinc, decomp_special_entr, decomp_special_ndtr, decomp_rad2deg, decomp_vstack;
DecompFn decomp_tensor_split_sections, decomp_tensor_split_indices, decomp_split_with_sizes_copy, decomp_unbind_copy;

Status decomp_mT(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, transpose_int, args[0], I(-2), I(-1)));
}

static Val *raveled(Builder *b, Val *x) { return x ? reshaped(b, x, &x->meta->numel, 1) : NULL; }

Status decomp_ravel(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, raveled(b, E(b, contiguous, args[0])));
}

/* Counted from the end where negative. */
static Val *wrapped_positions(Builder *b, Val *at, int64_t size) {
    return E(b, where_self, V(E(b, lt_Tensor, V(at), I(0))), V(E(b, add_Tensor, V(at), I(size))), V(at));
}

/* (self, indices, dim) */
Status decomp_take_along_dim(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const self = args[0].val->meta, *const indices = args[1].val->meta;
    int64_t own[MAX_RANK], given[MAX_RANK];
    if (args[2].kind != ARG_int)
        return done1(outs, E(b, gather, V(raveled(b, args[0].val)), I(0),
                             V(wrapped_positions(b, raveled(b, args[1].val), self->numel))));
    const int dim = dim_of(&args[2], self->rank);
    for (int d = 0; d < self->rank; d++) {
        const bool one = sym_same(b->env, self->sizes[d], 1);
        own[d] = d != dim && one ? indices->sizes[d] : self->sizes[d];
        given[d] = d == dim ? indices->sizes[d] : own[d];
    }
    Val *const x = E(b, expand, args[0], A_INTS(own, self->rank));
    Val *const at = E(b, expand, args[1], A_INTS(given, self->rank));
    return done1(outs, E(b, gather, V(x), I(dim), V(wrapped_positions(b, at, self->sizes[dim]))));
}

/* Along dim from one place to before another, counted from the end where negative. */
static Val *cut_of(Builder *b, Val *x, int dim, Arg from, Arg to) { return E(b, slice_Tensor, V(x), I(dim), from, to); }

/* (y, x, *, dim) and (y, *, dx, dim): sum of (y[1:] + y[:-1]) steps / 2 */
Status decomp_trapezoid(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const y = args[0].val->meta;
    const bool has_x = row->id == OP_trapezoid_x;
    const int dim = dim_of(&args[2], y->rank);
    /* of ints, the areas beside places are ints, which wrap, as in PyTorch */
    Val *const line = has_x || dtype_is_float(y->dtype) ? args[0].val : in_dtype(b, args[0].val, DT_f32);
    Val *const both = E(b, add_Tensor, V(cut_of(b, line, dim, I(1), A_NONE)), V(cut_of(b, line, dim, A_NONE, I(-1))));
    Val *steps = NULL;
    if (has_x) {
        const int along = args[1].val->meta->rank == y->rank ? dim : 0;
        steps = E(b, sub_Tensor, V(cut_of(b, args[1].val, along, I(1), A_NONE)),
                  V(cut_of(b, args[1].val, along, A_NONE, I(-1))));
        for (int d = dim + 1; steps && args[1].val->meta->rank != y->rank && d < y->rank; d++)
            steps = E(b, unsqueeze, V(steps), I(-1));
    }
    Val *const areas = has_x ? E(b, mul_Tensor, V(both), V(steps)) : both;
    const int64_t dims[1] = {dim};
    Val *const sum = areas ? sum_over(b, areas, dims, 1, false) : NULL;
    Val *const half = E(b, div_Tensor, V(sum), F(2));
    return done1(outs, has_x ? half : E(b, mul_Tensor, V(half), args[1]));
}

/* (self, size) */
Status decomp_sum_to_size(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const self = args[0].val->meta;
    const int lead = self->rank - args[1].n;
    int64_t dims[MAX_RANK];
    int n = 0;
    for (int d = 0; d < self->rank; d++)
        if (d < lead || !sym_same(b->env, args[1].ints[d - lead], self->sizes[d])) dims[n++] = d;
    if (!n && self->rank) return done1(outs, args[0].val);
    if (!n) return done1(outs, E(b, sum, args[0]));
    Val *const sum = sum_over(b, args[0].val, dims, n, true);
    return done1(outs, sum && lead ? reshaped(b, sum, args[1].ints, args[1].n) : sum);
}

/* (self, dim, keepdim, *, dtype) */
Status decomp_nanmean(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const there = E(b, logical_not, V(E(b, isnan, args[0])));
    Val *const count = E(b, sum_dim_IntList, V(there), args[1], args[2]);
    return done1(outs, E(b, div_Tensor, V(E(b, nansum, args[0], args[1], args[2], args[3])), V(count)));
}

static Val *as_float(Builder *b, Val *x) {
    return widened(b, in_dtype(b, x, dtype_is_float(x->meta->dtype) ? x->meta->dtype : DT_f32));
}
static Status rounded_once(Builder *b, const OpRow *row, const Arg *args, Val *y, Val **outs) {
    const DType dtype = args[0].val->meta->dtype;
    return done1(outs, in_layout_of(b, row, args, 0, in_dtype(b, y, dtype_is_float(dtype) ? dtype : DT_f32)));
}
static Val *scaled_by(Builder *b, Val *x, double factor) { return E(b, mul_Tensor, V(x), F(factor)); }

Status decomp_sinc(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const x = scaled_by(b, as_float(b, args[0].val), 3.14159265358979323846);
    const Arg zero = V(E(b, eq_Tensor, V(x), I(0))), other = V(E(b, where_self, zero, F(1), V(x)));
    Val *const quotient = E(b, div_Tensor, V(E(b, sin, other)), other);
    return rounded_once(b, row, args, E(b, where_self, zero, F(1), V(quotient)), outs);
}

/* xlogy is 0 at 0; below 0 there is none. */
Status decomp_special_entr(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const x = as_float(b, args[0].val), *const y = E(b, xlogy_Tensor, V(E(b, neg, V(x))), V(x));
    return rounded_once(b, row, args, E(b, where_self, V(E(b, lt_Tensor, V(x), I(0))), F(-INFINITY), V(y)), outs);
}

Status decomp_special_ndtr(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const x = as_float(b, args[0].val);
    return rounded_once(b, row, args, scaled_by(b, E(b, erfc, V(scaled_by(b, x, -0.70710678118654752440))), 0.5), outs);
}

Status decomp_rad2deg(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return rounded_once(b, row, args, scaled_by(b, as_float(b, args[0].val), 57.295779513082320876798), outs);
}

Status decomp_vstack(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Arena *const arena = arena_new();
    const int n = args[0].n;
    Val **const rows = arena ? arena_alloc(arena, (size_t)n * sizeof *rows) : NULL;
    bool fine = rows;
    for (int i = 0; fine && i < n; i++) {
        rows[i] = args[0].vals[i];
        while (rows[i] && rows[i]->meta->rank < 2) rows[i] = E(b, unsqueeze, V(rows[i]), I(0));
        fine = rows[i];
    }
    const Status status = fine              ? done1(outs, E(b, cat, A_VALS(rows, n), I(0)))
                          : error_pending() ? error_pending()
                                            : ST_MEMORY;
    arena_free(arena);
    return status;
}

/* (self, indices, dim) */
Status decomp_tensor_split_indices(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int dim = dim_of(&args[2], args[0].val->meta->rank), n = args[1].n;
    for (int i = 0; i <= n; i++) {
        outs[i] = cut_of(b, args[0].val, dim, i ? I(args[1].ints[i - 1]) : A_NONE, i < n ? I(args[1].ints[i]) : A_NONE);
        if (!outs[i]) return error_pending();
    }
    return ST_OK;
}

/* (self, sections, dim) */
Status decomp_tensor_split_sections(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int dim = dim_of(&args[2], args[0].val->meta->rank);
    const int64_t n = sym_concrete(b->env, args[1].i), size = args[0].val->meta->sizes[dim];
    const int64_t each = sym_div(b->env, size, n), longer = sym_mod(b->env, size, n);
    for (int64_t i = 0, start = 0; i < n; i++) {
        const int64_t end = sym_add(b->env, sym_mul(b->env, each, i + 1), sym_min(b->env, longer, i + 1));
        outs[i] = cut_of(b, args[0].val, dim, I(start), I(end));
        if (!outs[i]) return error_pending();
        start = end;
    }
    return ST_OK;
}

static Status copied(Builder *b, OpId op, const Arg *args, int n, int n_outs, Val **outs) {
    TRY(emit(b, op, args, n, outs));
    for (int i = 0; i < n_outs; i++)
        if (!(outs[i] = E(b, clone, V(outs[i]), I(MF_contiguous)))) return error_pending();
    return ST_OK;
}
Status decomp_split_with_sizes_copy(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return copied(b, OP_split_with_sizes, args, 3, args[1].n, outs);
}
Status decomp_unbind_copy(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const self = args[0].val->meta;
    return copied(b, OP_unbind_int, args, 2, (int)sym_concrete(b->env, self->sizes[dim_of(&args[1], self->rank)]),
                  outs);
}
