/* decomp_compose.c: ops that are others put together. */
#include "ir/schema.h"
#include "ir/op_ids.h"
#include "passes/rules/decomp.h"

DecompFn decomp_roll, decomp_tile, decomp_rot90, decomp_diag_embed, decomp_count_nonzero, decomp_nansum, decomp_aminmax;
DecompFn decomp_pixel_shuffle, decomp_pixel_unshuffle, decomp_channel_shuffle, decomp_diff, decomp_isclose,
    decomp_trace;
DecompFn decomp_float_power, decomp_isin;
DecompFn decomp_dist, decomp_cosine_similarity;
DecompFn decomp_std_mean, decomp_std_mean_default, decomp_std_mean_dim, decomp_glu, decomp_eye;

static Val *rolled(Builder *b, Val *x, int64_t shift, int dim) {
    if (!x) return NULL;
    const int64_t size = x->meta->sizes[dim], start = sym_mod(b->env, sym_sub(b->env, size, shift), size);
    if (sym_same(b->env, start, 0)) return E(b, clone, V(x), I(MF_contiguous));
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
    if (whole) x = rolled(b, reshaped(b, x, flat, 1), args[1].ints[0], 0);
    for (int i = 0; i < args[2].n; i++) x = rolled(b, x, args[1].ints[i], (int)dim_wrap(args[2].ints[i], self->rank));
    if (whole) x = reshaped(b, x, self->sizes, self->rank);
    return done1(outs, whole ? E(b, clone, V(x), I(MF_contiguous)) : in_layout_of(b, row, args, 0, x));
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
    if (k == 2) return done1(outs, E(b, flip, args[0], A_INTS(dims, 2)));
    Val *const flipped = E(b, flip, args[0], A_INTS(&dims[k == 1], 1));
    Val *const turned = E(b, transpose_int, V(flipped), I(dims[0]), I(dims[1]));
    return done1(outs, turned ? E(b, restride, V(turned), A_INTS(turned->meta->strides, turned->meta->rank)) : NULL);
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
    return done1(outs, made_contiguous(b, turned));
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
    Val *const product = in_dtype(b, E(b, mul_Tensor, V(value), V(gate)), self->dtype);
    return done1(outs, in_layout_of(b, row, args, 0, product));
}

/* (n, options) and (n, m, options) */
Status decomp_eye(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const bool square = row->options == 1;
    const Arg *const dtype = &args[row->options], *const device = &args[row->device];
    Val *const rows = E(b, arange, args[0], I(DT_i64), A_NONE, *device);
    Val *const columns = E(b, arange, args[square ? 0 : 1], I(DT_i64), A_NONE, *device);
    Val *const at = E(b, eq_Tensor, V(columns), V(E(b, unsqueeze, V(rows), I(-1))));
    Val *const ones = in_dtype(b, at, dtype->kind == ARG_int && dtype->i ? (DType)dtype->i : DT_f32);
    return done1(outs, in_layout_of(b, row, args, 0, ones));
}

/* x as [before, ...middle, ] is permuted and takes its final sizes. */
static Val *turned(Builder *b, Val *x, const int64_t *parts, const int64_t *order, int n, const Meta *self,
                   const int64_t *last) {
    int64_t sizes[MAX_RANK];
    Val *const apart = E(b, permute, V(reshaped(b, x, parts, n)), A_INTS(order, n));
    memcpy(sizes, self->sizes, sizeof *sizes * (size_t)self->rank);
    for (int k = 0; k < 3; k++) sizes[self->rank - 3 + k] = last[k];
    return E(b, _unsafe_view, V(E(b, clone, V(apart), I(MF_contiguous))), A_INTS(sizes, self->rank));
}

/* [n, C r r, H, W] -> [n, C, r, r, H, W] -> [n, C, H, r, W, r] */
Status decomp_pixel_shuffle(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const self = args[0].val->meta;
    const int64_t r = args[1].i, *const at = &self->sizes[self->rank - 3], c = sym_div(b->env, at[0], r * r);
    const int64_t parts[6] = {sym_product(b->env, self->sizes, self->rank - 3), c, r, r, at[1], at[2]};
    const int64_t last[3] = {c, sym_mul(b->env, at[1], r), sym_mul(b->env, at[2], r)};
    Val *const y = turned(b, args[0].val, parts, (const int64_t[]){0, 1, 4, 2, 5, 3}, 6, self, last);
    return done1(outs, in_layout_of(b, row, args, 0, y));
}

/* [n, C, H r, W r] -> [n, C, H, r, W, r] -> [n, C, r, r, H, W] */
Status decomp_pixel_unshuffle(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const self = args[0].val->meta;
    const int64_t r = args[1].i, *const at = &self->sizes[self->rank - 3];
    const int64_t h = sym_div(b->env, at[1], r), w = sym_div(b->env, at[2], r);
    const int64_t parts[6] = {sym_product(b->env, self->sizes, self->rank - 3), at[0], h, r, w, r};
    const int64_t last[3] = {sym_mul(b->env, at[0], r * r), h, w};
    Val *const y = turned(b, args[0].val, parts, (const int64_t[]){0, 1, 3, 5, 2, 4}, 6, self, last);
    return done1(outs, in_layout_of(b, row, args, 0, y));
}

/* [n, groups, C / groups, rest] with the two exchanged */
Status decomp_channel_shuffle(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const self = args[0].val->meta;
    const int64_t groups = args[1].i, each = sym_div(b->env, self->sizes[1], groups);
    const int64_t parts[4] = {self->sizes[0], groups, each, sym_product(b->env, &self->sizes[2], self->rank - 2)};
    Val *const apart = E(b, transpose_int, V(reshaped(b, args[0].val, parts, 4)), I(1), I(2));
    Val *const copy = E(b, clone, V(apart), I(MF_contiguous));
    return done1(outs, in_layout_of(b, row, args, 0, E(b, _unsafe_view, V(copy), A_INTS(self->sizes, self->rank))));
}

/* Neighbours along dim: the later ones less the earlier ones. */
static Val *difference(Builder *b, Val *x, int dim) {
    if (!x) return NULL;
    const int64_t size = x->meta->sizes[dim];
    Val *const late = E(b, slice_Tensor, V(x), I(dim), I(1), I(size));
    Val *const early = E(b, slice_Tensor, V(x), I(dim), I(0), I(sym_sub(b->env, size, 1)));
    return x->meta->dtype == DT_bool ? E(b, logical_xor, V(late), V(early)) : E(b, sub_Tensor, V(late), V(early));
}

Status decomp_diff(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *x = args[0].val, *parts[3];
    const int dim = dim_of(&args[2], x->meta->rank);
    const int64_t n = args[1].i;
    int count = 0;
    if (!n) return done1(outs, E(b, clone, V(x)));
    if (optional(&args[3])) parts[count++] = args[3].val;
    parts[count++] = x;
    if (optional(&args[4])) parts[count++] = args[4].val;
    if (count > 1) x = E(b, cat, A_VALS(parts, count), I(dim));
    if (x && sym_less(b->env, x->meta->sizes[dim], n)) { /* none, which depend on x all the same */
        Val *const none = E(b, clone, V(E(b, slice_Tensor, V(x), I(dim), I(0), I(0))));
        return done1(outs, in_layout_of(b, row, args, 0, none));
    }
    for (int64_t k = 0; k < n; k++) x = difference(b, x, dim);
    return done1(outs, in_layout_of(b, row, args, 0, x));
}

/* (self, other, rtol, atol, equal_nan), as PyTorch: ints are compared as floats where there is a tolerance. */
Status decomp_isclose(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *self = args[0].val, *other = args[1].val;
    const bool floats = dtype_is_float(self->meta->dtype);
    Val *close = E(b, eq_Tensor, V(self), V(other));
    if (floats && args[4].i)
        close = E(b, logical_or, V(close), V(E(b, logical_and, V(E(b, isnan, V(self))), V(E(b, isnan, V(other))))));
    if (arg_double(&args[2]) == 0 && arg_double(&args[3]) == 0) return done1(outs, close);
    if (self->meta->dtype == DT_bool) self = in_dtype(b, self, DT_f32);
    if (!floats) other = in_dtype(b, other, DT_f32);
    Val *const share = E(b, abs, V(E(b, mul_Tensor, V(other), args[2])));
    Val *const allowed = E(b, add_Tensor, V(share), args[3]);
    Val *const actual = E(b, abs, V(E(b, sub_Tensor, V(self), V(other))));
    Val *const near = E(b, logical_and, V(E(b, isfinite, V(actual))), V(E(b, le_Tensor, V(actual), V(allowed))));
    return done1(outs, E(b, logical_or, V(close), V(near)));
}

static Arg as_f64(Builder *b, const Arg *arg) {
    return arg->kind == ARG_tensor ? V(in_dtype(b, arg->val, DT_f64)) : *arg;
}
Status decomp_float_power(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Arg self = as_f64(b, &args[0]), exponent = as_f64(b, &args[1]);
    return done1(outs, E(b, pow_Tensor_Tensor, self, exponent));
}

/* isin compares each pair while there are at most so many: n m steps, fused into one kernel. */
enum { MOST_PAIRS = 1 << 20 };

/* Where sorted[lo - 1] is the last that is not above x: by halves, so that n elements among m take (n + m) log m steps,
 * and memory for n positions. NaN is behind all numbers and equal to none. */
static Val *last_not_above(Builder *b, Val *sorted, int64_t m, Val *x) {
    Val *lo = E(b, zeros_like, V(x), I(DT_i64));
    int64_t step = 1;
    while (step <= m / 2) step *= 2;
    for (; step && lo; step /= 2) {
        Val *const next = E(b, add_Tensor, V(lo), I(step));
        Val *const at = E(b, clamp_max, V(E(b, sub_Tensor, V(next), I(1))), I(m - 1));
        Val *const value = E(b, index_select, V(sorted), I(0), V(at));
        Val *const fits = E(b, logical_and, V(E(b, le_Tensor, V(next), I(m))), V(E(b, le_Tensor, V(value), V(x))));
        lo = E(b, where_self, V(fits), V(next), V(lo));
    }
    return lo;
}

static Val *isin_sorted(Builder *b, Val *elements, Val *test) {
    const int64_t flat = -1, m = sym_concrete(b->env, test->meta->numel);
    const DType common = dtype_promote(elements->meta->dtype, test->meta->dtype);
    Val *const x = reshaped(b, in_dtype(b, elements, common), &flat, 1), *sorted[2];
    const Arg args[] = {V(reshaped(b, in_dtype(b, test, common), &flat, 1)), A_BOOL(true), I(-1), A_BOOL(false)};
    if (!x || !args[0].val || emit(b, OP_sort_stable, args, COUNT_OF(args), sorted) != ST_OK) return NULL;
    Val *const lo = last_not_above(b, sorted[0], m, x);
    Val *const at = E(b, clamp_min, V(E(b, sub_Tensor, V(lo), I(1))), I(0));
    Val *const found = E(b, eq_Tensor, V(E(b, index_select, V(sorted[0]), I(0), V(at))), V(x));
    return found ? reshaped(b, found, elements->meta->sizes, elements->meta->rank) : NULL;
}

static bool are_few(Builder *b, const Meta *elements, const Meta *test) {
    return !sym_less(b->env, MOST_PAIRS, sym_mul(b->env, elements->numel, test->numel));
}

static Val *isin_each(Builder *b, const Arg *elements, Val *test) {
    const int64_t flat = -1;
    Val *const column = E(b, unsqueeze, *elements, I(-1)), *const row = reshaped(b, test, &flat, 1);
    return E(b, any_dim, V(E(b, eq_Tensor, V(column), V(row))), I(-1));
}

/* (elements, test_elements, assume_unique, invert); either may be a number */
Status decomp_isin(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const bool one = args[0].kind != ARG_tensor || args[1].kind != ARG_tensor;
    Val *found;
    if (args[1].kind != ARG_tensor)
        found = E(b, eq_Tensor, args[0], args[1]);
    else if (one)
        found = E(b, any, V(E(b, eq_Tensor, args[1], args[0])));
    else if (are_few(b, args[0].val->meta, args[1].val->meta))
        found = isin_each(b, &args[0], args[1].val);
    else
        found = isin_sorted(b, args[0].val, args[1].val);
    if (args[3].i) found = E(b, logical_not, V(found));
    return done1(outs, in_layout_of(b, row, args, 0, found));
}

Status decomp_trace(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, sum, V(E(b, diagonal, args[0]))));
}
Status decomp_dist(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, linalg_vector_norm, V(E(b, sub_Tensor, args[0], args[1])), args[2]));
}

/* x divided by its norm along dim, at least eps. */
static Val *of_length_one(Builder *b, Val *x, const Arg *dim, const Arg *eps) {
    Val *const norm = E(b, linalg_vector_norm, V(x), I(2), A_INTS(&dim->i, 1), A_BOOL(true));
    return E(b, div_Tensor, V(x), V(E(b, clamp_min, V(norm), *eps)));
}
Status decomp_cosine_similarity(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *x[2];
    const DType a = args[0].val->meta->dtype, c = args[1].val->meta->dtype;
    const Meta *wide = args[0].val->meta->rank >= args[1].val->meta->rank ? args[0].val->meta : args[1].val->meta;
    const int64_t dim = dim_of(&args[2], wide->rank);
    int64_t sizes[MAX_RANK];
    memcpy(sizes, wide->sizes, sizeof *sizes * (size_t)wide->rank);
    for (int i = 0; i < 2; i++) { /* both in the sizes that they broadcast to */
        const Meta *const meta = args[i].val->meta;
        for (int d = 0; d < meta->rank; d++) {
            int64_t *const at = &sizes[wide->rank - meta->rank + d];
            if (sym_same(b->env, *at, 1)) *at = meta->sizes[d];
        }
    }
    for (int i = 0; i < 2; i++) {
        Val *const same = in_dtype(b, args[i].val, dtype_promote(a, c));
        x[i] = of_length_one(b, E(b, expand, V(same), A_INTS(sizes, wide->rank)), &I(dim), &args[3]);
    }
    return done1(outs, E(b, sum_dim_IntList, V(E(b, mul_Tensor, V(x[0]), V(x[1]))), A_INTS(&dim, 1), A_BOOL(false)));
}
