/* decomp_search.c: positions in sorted numbers by halves, medians by sorting, repeated positions by counting where each
 * one ends (ops/search.def). */
#include <math.h>

#include "ir/op_ids.h"
#include "ir/schema.h"
#include "passes/rules/decomp.h"

DecompFn decomp_searchsorted, decomp_bucketize, decomp_median, decomp_nanmedian, decomp_median_dim,
    decomp_nanmedian_dim;
DecompFn decomp_one_hot, decomp_repeat_interleave, decomp_repeat_interleave_self, decomp_repeat_interleave_int;
DecompFn decomp_triangle_indices, decomp_index_reduce;

static Val *flat_of(Builder *b, Val *x) { return x ? reshaped(b, x, (const int64_t[]){-1}, 1) : NULL; }
static Val *positions_up_to(Builder *b, int64_t n, Device device) {
    return E(b, arange, I(n), I(DT_i64), A_NONE, I(device));
}

/* Where what is sought belongs: rows of `size` sorted elements each, one after another, and for each x where its row
 * begins (NULL: there is one row). */
typedef struct Sought {
    Val *rows, *begin;
    int64_t size, n; /* n: how many are sought */
    Arg x;           /* [n], or a number */
    Val *is_nan;     /* of x; NULL: it is of ints */
    bool right;
} Sought;

/* Does the element before position `next` stand before x? NaN stands behind all numbers, and one that is sought behind
 * those that are there. */
static Val *stands_before(Builder *b, const Sought *s, Val *next) {
    Val *at = E(b, clamp_max, V(E(b, sub_Tensor, V(next), I(1))), I(sym_sub(b->env, s->size, 1)));
    if (s->begin) at = E(b, add_Tensor, V(at), V(s->begin));
    Val *const value = E(b, index_select, V(s->rows), I(0), V(at));
    Val *before = s->right ? E(b, le_Tensor, V(value), s->x) : E(b, lt_Tensor, V(value), s->x);
    if (s->is_nan) before = E(b, logical_or, V(before), V(s->is_nan));
    return E(b, logical_and, V(E(b, le_Tensor, V(next), I(s->size))), V(before));
}

/* The largest step, a power of two: half of what there is, or for a size that is not known of the most that are likely,
 * so that one program serves all sizes. 0: there is nothing. */
static int64_t first_step(Builder *b, int64_t size) {
    const int64_t most = (INT64_C(1) << 31) - 1;
    if (sym_is(size) && sym_less(b->env, 0, size) && sym_at_most(b->env, size, most)) return INT64_C(1) << 30;
    const int64_t n = sym_concrete(b->env, size);
    int64_t step = n ? 1 : 0;
    while (step && step <= n / 2) step *= 2;
    return step;
}

/* By halves: log size steps, which are fused into one kernel. */
static Val *found_positions(Builder *b, const Sought *s) {
    if (!s->rows) return NULL;
    Val *lo = E(b, full, A_INTS(&s->n, 1), I(0), I(DT_i64), A_NONE, I(s->rows->meta->device));
    for (int64_t step = first_step(b, s->size); step && lo; step /= 2) {
        Val *const next = E(b, add_Tensor, V(lo), I(step));
        lo = E(b, where_self, V(stands_before(b, s, next)), V(next), V(lo));
    }
    return lo;
}

/* Where the row of each of x's elements begins. */
static Val *row_begins(Builder *b, const Meta *x, int64_t size) {
    const int64_t each = x->sizes[x->rank - 1];
    Val *const row = E(b, div_Tensor_mode, V(positions_up_to(b, x->numel, x->device)), I(each), A_STR("floor"));
    return E(b, mul_Tensor, V(row), I(size));
}

static Val *nan_of(Builder *b, const Arg *x, Device device) {
    if (x->kind == ARG_tensor) return dtype_is_float(x->val->meta->dtype) ? E(b, isnan, *x) : NULL;
    return E(b, isnan, V(E(b, full, A_INTS(NULL, 0), *x, I(DT_f64), A_NONE, I(device))));
}

static Status search(Builder *b, Val *sorted, const Arg *x, bool right, bool narrow, Val **outs) {
    if (!sorted) return error_pending();
    const Meta *const rows = sorted->meta, *const values = x->kind == ARG_tensor ? x->val->meta : NULL;
    Sought s = {.rows = flat_of(b, sorted), .right = right, .n = 1, .x = *x};
    s.size = rows->sizes[rows->rank - 1];
    if (values) {
        const DType common = operands_promoted(op_row(OP_eq_Tensor), (const Arg[]){V(sorted), *x});
        s.n = values->numel, s.rows = in_dtype(b, s.rows, common), s.x = V(flat_of(b, in_dtype(b, x->val, common)));
        if (!s.rows || !s.x.val) return error_pending();
    }
    s.is_nan = nan_of(b, &s.x, rows->device);
    if (values && rows->rank > 1 && !sym_same(b->env, values->numel, 0)) s.begin = row_begins(b, values, s.size);
    Val *const at = in_dtype(b, found_positions(b, &s), narrow ? DT_i32 : DT_i64);
    return done1(outs, at ? reshaped(b, at, values ? values->sizes : NULL, values ? values->rank : 0) : NULL);
}

/* (sorted_sequence, self, out_int32, right, side, sorter) */
Status decomp_searchsorted(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const sorter = optional(&args[5]);
    Val *const sorted = sorter ? E(b, gather, args[0], I(-1), V(sorter)) : args[0].val;
    const bool right = args[3].i || (args[4].kind == ARG_string && !strcmp(args[4].string, "right"));
    return search(b, sorted, &args[1], right, args[2].i, outs);
}

/* (self, boundaries, out_int32, right) */
Status decomp_bucketize(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return search(b, args[1].val, &args[0], args[3].i, args[2].i, outs);
}

/* medians ------------------------------------------------------------------------------------- */

/* Which of n sorted elements is in the middle; NaNs are the last ones, and the first of them is what a median is. */
static Val *middle_of(Builder *b, Val *x, int64_t dim, bool skips) {
    const int64_t n = x->meta->sizes[dim], middle = sym_div(b->env, sym_sub(b->env, n, 1), 2);
    Val *const count = sum_over(b, E(b, logical_not, V(E(b, isnan, V(x)))), &dim, 1, true);
    if (!skips) return E(b, where_self, V(E(b, eq_Tensor, V(count), I(n))), I(middle), V(count));
    Val *const half = E(b, div_Tensor_mode, V(E(b, sub_Tensor, V(count), I(1))), I(2), A_STR("floor"));
    return E(b, clamp_min, V(half), I(0));
}

/* Values and indices, the dim kept. */
static bool medians(Builder *b, Val *x, int64_t dim, bool skips, Val **both) {
    const Arg sorting[] = {V(x), A_BOOL(true), I(dim), A_BOOL(false)};
    if (!x || emit(b, OP_sort_stable, sorting, COUNT_OF(sorting), both) != ST_OK) return false;
    const int64_t middle = sym_div(b->env, sym_sub(b->env, x->meta->sizes[dim], 1), 2);
    const bool has_nans = dtype_is_float(x->meta->dtype) && !sym_same(b->env, x->meta->numel, 0);
    Val *const at = has_nans ? middle_of(b, x, dim, skips) : NULL;
    for (int i = 0; i < 2; i++)
        both[i] = at ? E(b, gather, V(both[i]), I(dim), V(at))
                     : E(b, slice_Tensor, V(both[i]), I(dim), I(middle), I(sym_add(b->env, middle, 1)));
    return both[0] && both[1];
}

static Status median_of_all(Builder *b, const Arg *args, bool skips, Val **outs) {
    Val *const x = flat_of(b, args[0].val), *both[2] = {NULL};
    if (x && sym_same(b->env, x->meta->numel, 0)) {
        Val *const none = E(b, full, A_INTS(NULL, 0), F(NAN), I(DT_f32), A_NONE, I(x->meta->device));
        return done1(outs, in_dtype(b, none, x->meta->dtype));
    }
    return done1(outs, medians(b, x, 0, skips, both) ? E(b, clone, V(reshaped(b, both[0], NULL, 0))) : NULL);
}
Status decomp_median(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return median_of_all(b, args, false, outs);
}
Status decomp_nanmedian(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return median_of_all(b, args, true, outs);
}

/* (self, dim, keepdim) */
static Status medians_along(Builder *b, const Arg *args, bool skips, Val **outs) {
    const Meta *const self = args[0].val->meta;
    const int dim = dim_of(&args[1], self->rank);
    Val *both[2] = {NULL};
    medians(b, self->rank ? args[0].val : flat_of(b, args[0].val), dim, skips, both);
    for (int i = 0; i < 2; i++) {
        if (both[i] && (!self->rank || !args[2].i)) both[i] = E(b, squeeze_dim, V(both[i]), I(dim));
        both[i] = both[i] ? E(b, clone, V(both[i]), I(MF_contiguous)) : NULL;
    }
    return decomp_done(outs, 2, both);
}
Status decomp_median_dim(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return medians_along(b, args, false, outs);
}
Status decomp_nanmedian_dim(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return medians_along(b, args, true, outs);
}

/* repeated positions -------------------------------------------------------------------------- */

/* Of [n] counts, none negative, whose sum is `size`: each position as often as its count says. One is as far as there
 * are counts that end before it or at it. */
static Val *spread_positions(Builder *b, Val *counts, int64_t size) {
    if (!counts) return NULL;
    const Meta *const meta = counts->meta;
    const int64_t room = sym_add(b->env, size, 1);
    Val *const ends = E(b, cumsum, V(counts), I(0)), *const ones = E(b, ones_like, V(counts), I(DT_i64));
    Val *const none = E(b, full, A_INTS(&room, 1), I(0), I(DT_i64), A_NONE, I(meta->device));
    Val *const marks = E(b, index_add, V(none), I(0), V(ends), V(ones));
    return E(b, slice_Tensor, V(E(b, cumsum, V(marks), I(0))), I(0), I(0), I(size));
}

/* An error of the part that reads where the counts do not add up to size, or one is negative. */
static void check_counts(Builder *b, Val *counts, int64_t size) {
    if (!counts) return;
    const int64_t one = 1;
    Val *const sum = E(b, sum, V(counts));
    Val *const least = sym_same(b->env, counts->meta->numel, 0) ? NULL : E(b, amin, V(counts));
    Val *at = E(b, rsub_Tensor, V(sum), I(size));
    if (least) at = E(b, where_self, V(E(b, lt_Tensor, V(least), I(0))), I(-1), V(at));
    Val *const zero = E(b, full, A_INTS(&one, 1), I(0), I(DT_i64), A_NONE, I(counts->meta->device));
    E(b, index_select, V(zero), I(0), V(at));
}

/* Where values decide how many there are: on the host, which waits for them. */
static Val *repeated_positions(Builder *b, Val *counts) {
    const Device device = counts->meta->device;
    Val *const here = E(b, _to_copy, V(counts), I(DT_i64), A_NONE, I(DEV_cpu));
    Val *const at = E(b, repeat_positions, V(here));
    return device == DEV_cpu ? at : E(b, _to_copy, V(at), A_NONE, A_NONE, I(device));
}

static Val *positions_for(Builder *b, Val *counts, const Arg *size) {
    if (!counts) return NULL;
    if (size->kind != ARG_int) return repeated_positions(b, counts);
    check_counts(b, counts, size->i);
    return spread_positions(b, counts, size->i);
}

/* (repeats, output_size) */
Status decomp_repeat_interleave(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, in_dtype(b, positions_for(b, args[0].val, &args[1]), args[0].val->meta->dtype));
}

/* self and the dim that is repeated: all of it as one, where none is given. */
static Val *of_dim(Builder *b, const Arg *self, const Arg *dim, int *at) {
    *at = dim->kind == ARG_int ? dim_of(dim, self->val->meta->rank) : 0;
    return dim->kind == ARG_int && self->val->meta->rank ? self->val : flat_of(b, self->val);
}

/* (self, repeats, dim, output_size) */
Status decomp_repeat_interleave_self(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    int dim;
    Val *const x = of_dim(b, &args[0], &args[2], &dim);
    if (!x) return error_pending();
    Val *const counts = E(b, expand, V(flat_of(b, args[1].val)), A_INTS(&x->meta->sizes[dim], 1));
    return done1(outs, E(b, index_select, V(x), I(dim), V(positions_for(b, counts, &args[3]))));
}

/* (self, repeats, dim, output_size) */
Status decomp_repeat_interleave_int(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    int dim;
    int64_t sizes[MAX_RANK + 1];
    Val *const x = of_dim(b, &args[0], &args[2], &dim);
    if (!x) return error_pending();
    const int rank = x->meta->rank;
    memcpy(sizes, x->meta->sizes, sizeof *sizes * (size_t)rank);
    const int64_t all = sym_mul(b->env, sizes[dim], args[1].i);
    memmove(sizes + dim + 1, sizes + dim, sizeof *sizes * (size_t)(rank - dim));
    sizes[dim + 1] = args[1].i;
    Val *const wide = E(b, expand, V(E(b, unsqueeze, V(x), I(dim + 1))), A_INTS(sizes, rank + 1));
    memcpy(sizes, x->meta->sizes, sizeof *sizes * (size_t)rank);
    sizes[dim] = all;
    return done1(outs, E(b, _unsafe_view, V(E(b, clone, V(wide), I(MF_contiguous))), A_INTS(sizes, rank)));
}

/* (self, num_classes) */
Status decomp_one_hot(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const self = args[0].val->meta;
    int64_t sizes[MAX_RANK], n = args[1].i;
    if (n == -1) {
        Val *const most =
            E(b, add_Tensor, V(E(b, amax, V(flat_of(b, args[0].val)), A_INTS(NULL, 0), A_BOOL(true))), I(1));
        Val *const classes = most ? repeated_positions(b, most) : NULL;
        if (!classes) return error_pending();
        n = classes->meta->numel;
    }
    if (self->rank) memcpy(sizes, self->sizes, sizeof *sizes * (size_t)self->rank);
    sizes[self->rank] = n;
    Val *const none = zeros_of_sizes(b, self, sizes, self->rank + 1);
    return done1(outs, E(b, scatter_value, V(none), I(-1), V(E(b, unsqueeze, args[0], I(-1))), I(1)));
}

/* triangles ----------------------------------------------------------------------------------- */

/* Of each row which column its part begins at, and how many there are. (row, col, offset, options) */
Status decomp_triangle_indices(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const bool upper = row->id == OP_triu_indices;
    const Device device = args[row->device].kind == ARG_int ? (Device)args[row->device].i : DEV_cpu;
    MetaOut out;
    MetaCall call = {.row = row, .args = args, .env = b->env, .out = &out, .n_out = 1};
    TRY(op_meta(&call));
    const int64_t col = args[1].i, n = out.sizes[1];
    Val *both[2];
    if (!n) return done1(outs, E(b, full, A_INTS(out.sizes, 2), I(0), I(out.dtype), A_NONE, I(device)));
    const int64_t offset = max_i64(min_i64(args[2].i, col), -args[0].i); /* beyond these nothing changes */
    Val *const rows = E(b, add_Tensor, V(positions_up_to(b, args[0].i, device)), I(offset + !upper));
    Val *const edge = E(b, clamp, V(rows), I(0), I(col));
    Val *const counts = upper ? E(b, rsub_Tensor, V(edge), I(col)) : edge;
    Val *const before = E(b, sub_Tensor, V(E(b, cumsum, V(counts), I(0))), V(counts));
    both[0] = spread_positions(b, counts, n);
    both[1] = E(b, sub_Tensor, V(positions_up_to(b, n, device)), V(E(b, index_select, V(before), I(0), V(both[0]))));
    if (upper) both[1] = E(b, add_Tensor, V(both[1]), V(E(b, index_select, V(edge), I(0), V(both[0]))));
    return done1(outs, both[0] && both[1] ? in_dtype(b, E(b, stack, A_VALS(both, 2)), out.dtype) : NULL);
}

/* scatter_reduce with the index for every element of its slice; (self, dim, index, source, reduce, include_self) */
Status decomp_index_reduce(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const self = args[0].val->meta;
    const bool has_dims = self->rank;
    const int dim = dim_of(&args[1], self->rank);
    int64_t sizes[MAX_RANK];
    Val *const x = has_dims ? args[0].val : flat_of(b, args[0].val);
    Val *const source = has_dims ? args[3].val : flat_of(b, args[3].val);
    if (!x || !source) return error_pending();
    for (int d = 0; d < source->meta->rank; d++) sizes[d] = d == dim ? -1 : 1;
    Val *const index = reshaped(b, args[2].val, sizes, source->meta->rank);
    Val *const each = E(b, expand, V(index), A_INTS(source->meta->sizes, source->meta->rank));
    Val *const y = E(b, scatter_reduce_two, V(x), I(dim), V(each), V(source), args[4], args[5]);
    return done1(outs, has_dims || !y ? y : reshaped(b, y, NULL, 0));
}
