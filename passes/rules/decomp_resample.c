/* decomp_resample.c: planes in other sizes, dim by dim, the last first: each result reads one element of its dim
 * (nearest) or two neighbours with weights; gradients are added back in the other order of dims [B2.10]. Distances:
 * norms of differences, and what flows back into these. */
#include <math.h>

#include "passes/rules/decomp.h"
#include "ir/op_ids.h"
#include "passes/rules/deriv.h"

DecompFn decomp_upsample_nearest, decomp_upsample_nearest_backward, decomp_upsample_linear;
DecompFn decomp_upsample_linear_backward, decomp_upsample_vec, decomp_cdist, decomp_cdist_backward, decomp_pdist;
DecompFn decomp_pdist_backward, decomp_cdist_of, decomp_euclidean_dist;

/* One dim: `out` positions over `in` elements, both perhaps symbolic; factor 0: none was given. */
typedef struct Resample {
    int64_t dim, in, out;
    double factor;
    bool linear, align;
    DType dtype; /* of positions and weights */
} Resample;

/* What the arguments say of spatial dim i: (output_size, [align_corners,] factors...) from `first` on. */
static Resample resample_of(Builder *b, const OpRow *row, const Arg *args, bool linear, int i, const int64_t *in) {
    const bool backward = op_param_find(row, "input_size") >= 0;
    const int after = backward ? 3 : 2;
    const Arg *const factor = &args[after + linear + i];
    const DType given = args[0].val->meta->dtype;
    const DType dtype = linear && (given == DT_f64 || given == DT_u8) ? DT_f64 : DT_f32;
    return (Resample){.dim = 2 + i,
                      .in = in[i],
                      .out = args[1].ints[i],
                      .factor = arg_is_number(factor) ? arg_double(factor) : 0,
                      .linear = linear,
                      .align = linear && args[after].i,
                      .dtype = dtype};
}

/* Elements of `in` per element of `out`, in the precision that positions have; of known sizes. */
static double known_step(const Resample *r) {
    const bool wide = r->dtype == DT_f64;
    if (r->align) {
        if (r->out <= 1) return 0;
        return wide ? (double)(r->in - 1) / (double)(r->out - 1) : (double)((float)(r->in - 1) / (float)(r->out - 1));
    }
    if (r->factor > 0) return wide ? 1 / r->factor : (double)(float)(1 / r->factor);
    return wide ? (double)r->in / (double)r->out : (double)((float)r->in / (float)r->out);
}

/* The same of any sizes: where these are symbolic, a tensor. */
static Arg step_of(Builder *b, const Resample *r, Device device) {
    SymEnv *const env = b->env;
    const bool fixed = (r->align && sym_at_most(env, r->out, 1)) || (!r->align && r->factor > 0);
    if (fixed || !(sym_is(r->in) || sym_is(r->out))) return F(known_step(r));
    const int64_t in = sym_sub(env, r->in, r->align), out = sym_sub(env, r->out, r->align);
    Val *const over = number_tensor(b, in, r->dtype, device), *const under = number_tensor(b, out, r->dtype, device);
    return V(E(b, div_Tensor, V(over), V(under)));
}

static int64_t last_of(Builder *b, const Resample *r) { return sym_sub(b->env, r->in, 1); }

static Val *sampled_positions(Builder *b, const Resample *r, Device device) {
    return E(b, arange, I(r->out), I(r->dtype), A_NONE, I(device));
}

static Val *index_of(Builder *b, Val *place, const Resample *r) {
    return E(b, clamp_max, V(E(b, _to_copy, V(place), I(DT_i64))), I(last_of(b, r)));
}

static Val *nearest(Builder *b, const Resample *r, Device device) {
    Val *const at = sampled_positions(b, r, device);
    return index_of(b, E(b, floor, V(E(b, mul_Tensor, V(at), step_of(b, r, device)))), r);
}

/* Two neighbours and how much of each. */
typedef struct Neighbours {
    Val *low, *high, *of_low, *of_high;
} Neighbours;

static Neighbours neighbours(Builder *b, const Resample *r, Device device) {
    Val *const at = sampled_positions(b, r, device);
    const Arg step = step_of(b, r, device);
    Val *place = r->align ? E(b, mul_Tensor, V(at), step)
                          : E(b, sub_Tensor, V(E(b, mul_Tensor, V(E(b, add_Tensor, V(at), F(0.5))), step)), F(0.5));
    if (!r->align) place = E(b, clamp_min, V(place), F(0));
    Neighbours w = {.low = index_of(b, place, r)};
    w.high = E(b, clamp_max, V(E(b, add_Tensor, V(w.low), I(1))), I(last_of(b, r)));
    Val *const away = E(b, sub_Tensor, V(place), V(E(b, _to_copy, V(w.low), I(r->dtype))));
    w.of_high = E(b, clamp_max, V(E(b, clamp_min, V(away), F(0))), F(1));
    w.of_low = E(b, rsub_Tensor, V(w.of_high), F(1));
    return w;
}

static Val *along(Builder *b, Val *weights, const Resample *r, int rank) {
    return E(b, view, V(weights), A_INTS(((int64_t[MAX_RANK]){r->out, 1, 1, 1}), rank - r->dim));
}

static Neighbours between(Builder *b, const Resample *r, Device device, int rank) {
    Neighbours w = neighbours(b, r, device);
    w.of_high = along(b, w.of_high, r, rank);
    w.of_low = along(b, w.of_low, r, rank);
    return w;
}

static Val *read_nearest(Builder *b, Val *x, const Resample *r) {
    return x ? E(b, index_select, V(x), I(r->dim), V(nearest(b, r, x->meta->device))) : NULL;
}

static Val *read_between(Builder *b, Val *x, const Resample *r) {
    if (!x) return NULL;
    const Neighbours w = between(b, r, x->meta->device, x->meta->rank);
    Val *const low = E(b, index_select, V(x), I(r->dim), V(w.low));
    Val *const high = E(b, index_select, V(x), I(r->dim), V(w.high));
    return E(b, add_Tensor, V(E(b, mul_Tensor, V(w.of_low), V(low))), V(E(b, mul_Tensor, V(w.of_high), V(high))));
}

/* Images of bytes: weights are ints of as many bits as keep the largest below 2^15, and a result is rounded to a byte
 * after each dim, as PyTorch does it. */
static double largest_weight(const Resample *r) {
    double most = 0;
    const double step = known_step(r);
    for (int64_t i = 0; i < r->out && most < 1; i++) {
        double place = r->align ? step * (double)i : step * ((double)i + 0.5) - 0.5;
        if (place < 0) place = 0;
        const double low = fmin(floor(place), (double)(r->in - 1)), away = fmin(fmax(place - low, 0), 1);
        const double high = low + 1 >= (double)r->in ? 0 : away; /* the last element has no neighbour */
        most = fmax(most, fmax(high, 1 - high));
    }
    return most;
}

/* A weight of 1 as an int, in three ways: i32, half of it, in the precision of weights. Of two weights that add up to 1
 * the larger one is at least a half, so it is 2^15 or, where that is too much for the largest, 2^14. */
typedef struct ByteWeight {
    Arg one, half, wide;
} ByteWeight;

static ByteWeight known_byte_weight(const Resample *r) {
    const int64_t one = largest_weight(r) * 32768 < 32767.5 ? 32768 : 16384;
    return (ByteWeight){I(one), I(one / 2), F((double)one)};
}

/* The same where sizes are symbolic. */
static ByteWeight byte_weight(Builder *b, const Resample *r, const Neighbours *w) {
    if (!sym_is(r->in) && !sym_is(r->out)) return known_byte_weight(r);
    Val *const most = E(b, amax, V(E(b, maximum, V(w->of_low), V(w->of_high))));
    Val *const fits = E(b, lt_Scalar, V(E(b, mul_Tensor, V(most), F(32768))), F(32767.5));
    Val *const more = E(b, _to_copy, V(fits), I(DT_i32));
    Val *const half = E(b, mul_Tensor, V(E(b, add_Tensor, V(more), I(1))), I(8192));
    Val *const one = E(b, mul_Tensor, V(half), I(2));
    return (ByteWeight){V(one), V(half), V(E(b, _to_copy, V(one), I(r->dtype)))};
}

static Val *weight_int(Builder *b, Val *weight, Arg one) {
    Val *const scaled = E(b, mul_Tensor, V(weight), one);
    return E(b, _to_copy, V(E(b, floor, V(E(b, add_Tensor, V(scaled), F(0.5))))), I(DT_i32));
}

/* x: i32 of 0 to 255, as is the result */
static Val *read_bytes(Builder *b, Val *x, const Resample *r) {
    if (!x) return NULL;
    Neighbours w = neighbours(b, r, x->meta->device);
    Val *const alone = E(b, eq_Tensor, V(w.low), V(w.high));
    w.of_high = E(b, where_self, V(alone), F(0), V(w.of_high));
    w.of_low = E(b, where_self, V(alone), F(1), V(w.of_low));
    const ByteWeight weight = byte_weight(b, r, &w);
    w.of_high = weight_int(b, w.of_high, weight.wide);
    w.of_low = weight_int(b, w.of_low, weight.wide);
    Val *const low =
        E(b, mul_Tensor, V(along(b, w.of_low, r, x->meta->rank)), V(E(b, index_select, V(x), I(r->dim), V(w.low))));
    Val *const high =
        E(b, mul_Tensor, V(along(b, w.of_high, r, x->meta->rank)), V(E(b, index_select, V(x), I(r->dim), V(w.high))));
    Val *const sum = E(b, add_Tensor, V(E(b, add_Tensor, V(low), V(high))), weight.half);
    return E(b, clamp, V(E(b, div_Tensor_mode, V(sum), weight.one, A_STR("floor"))), I(0), I(255));
}

static Status resampled(Builder *b, const OpRow *row, const Arg *args, bool linear, Val **outs) {
    const Meta *const self = args[0].val->meta;
    const bool bytes = linear && self->dtype == DT_u8;
    Val *x = bytes ? in_dtype(b, args[0].val, DT_i32) : linear ? widened(b, args[0].val) : args[0].val;
    for (int i = self->rank - 3; i >= 0; i--) {
        const Resample r = resample_of(b, row, args, linear, i, self->sizes + 2);
        x = bytes ? read_bytes(b, x, &r) : linear ? read_between(b, x, &r) : read_nearest(b, x, &r);
    }
    return done1(outs, in_dtype(b, x, self->dtype));
}
Status decomp_upsample_nearest(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return resampled(b, row, args, false, outs);
}
Status decomp_upsample_linear(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return resampled(b, row, args, true, outs);
}

static Val *add_between(Builder *b, Val *grad, const Resample *r) {
    if (!grad) return NULL;
    const Neighbours w = between(b, r, grad->meta->device, grad->meta->rank);
    Val *const none = zeros_along(b, grad->meta, r->dim, r->in);
    Val *const low = E(b, index_add, V(none), I(r->dim), V(w.low), V(E(b, mul_Tensor, V(w.of_low), V(grad))));
    return E(b, index_add, V(low), I(r->dim), V(w.high), V(E(b, mul_Tensor, V(w.of_high), V(grad))));
}

static Val *add_nearest(Builder *b, Val *grad, const Resample *r) {
    if (!grad) return NULL;
    Val *const none = zeros_along(b, grad->meta, r->dim, r->in);
    return E(b, index_add, V(none), I(r->dim), V(nearest(b, r, grad->meta->device)), V(grad));
}

static Status added_back(Builder *b, const OpRow *row, const Arg *args, bool linear, Val **outs) {
    const Meta *const given = args[0].val->meta;
    Val *grad = widened(b, args[0].val);
    for (int i = 0; i < given->rank - 2; i++) {
        const Resample r = resample_of(b, row, args, linear, i, args[2].ints + 2);
        grad = linear ? add_between(b, grad, &r) : add_nearest(b, grad, &r);
    }
    return done1(outs, in_dtype(b, grad, given->dtype));
}
Status decomp_upsample_nearest_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return added_back(b, row, args, false, outs);
}
Status decomp_upsample_linear_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return added_back(b, row, args, true, outs);
}

static OpId by_size(OpId vec) {
    static const OpId pairs[][2] = {{OP_upsample_nearest1d_vec, OP_upsample_nearest1d},
                                    {OP_upsample_nearest2d_vec, OP_upsample_nearest2d},
                                    {OP_upsample_nearest3d_vec, OP_upsample_nearest3d},
                                    {OP_upsample_linear1d_vec, OP_upsample_linear1d},
                                    {OP_upsample_bilinear2d_vec, OP_upsample_bilinear2d}};
    for (int i = 0; i < COUNT_OF(pairs); i++)
        if (pairs[i][0] == vec) return pairs[i][1];
    return vec;
}

/* (input, output_size, [align_corners,] scale_factors) */
Status decomp_upsample_vec(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const self = args[0].val->meta;
    const Arg *const factors = &args[row->n_params - 1];
    const bool linear = row->n_params == 4, by_factor = factors->kind == ARG_floats;
    int64_t sizes[MAX_RANK];
    Arg full[MAX_ARGS] = {args[0], args[1]};
    int n = 2;
    for (int i = 0; by_factor && i < factors->n; i++)
        sizes[i] = double_to_i64((double)sym_concrete(b->env, self->sizes[2 + i]) * factors->floats[i]);
    if (by_factor) full[1] = A_INTS(sizes, factors->n);
    if (linear) full[n++] = args[2];
    for (int i = 0; i < self->rank - 2; i++) full[n++] = by_factor ? F(factors->floats[i]) : A_NONE;
    return done1(outs, emit1(b, by_size(row->id), full, n));
}

static Status other_way(Deriv *d, OpId op, const int64_t *sizes, bool with_input) {
    Arg args[MAX_ARGS] = {V(grad_of(d)), d->args[1]};
    int n = 2;
    if (with_input) args[n++] = A_INTS(sizes, d->arg_meta[0]->rank);
    for (int i = with_input ? 2 : 3; i < d->row->n_params; i++) args[n++] = d->args[i];
    return deriv_set(d, 0, emit1(d->b, op, args, n));
}

static OpId resample_partner(OpId id) {
    static const OpId pairs[][2] = {{OP_upsample_nearest1d, OP_upsample_nearest1d_backward},
                                    {OP_upsample_nearest2d, OP_upsample_nearest2d_backward},
                                    {OP_upsample_nearest3d, OP_upsample_nearest3d_backward},
                                    {OP_upsample_linear1d, OP_upsample_linear1d_backward},
                                    {OP_upsample_bilinear2d, OP_upsample_bilinear2d_backward}};
    for (int i = 0; i < COUNT_OF(pairs); i++)
        for (int k = 0; k < 2; k++)
            if (pairs[i][k] == id) return pairs[i][1 - k];
    return id;
}

/* (self, output_size, ...) and (grad_output, output_size, input_size, ...) */
Status deriv_upsample_nearest(Deriv *d) {
    return other_way(d, resample_partner(d->row->id), d->arg_meta[0]->sizes, true);
}
Status deriv_upsample_linear(Deriv *d) { return deriv_upsample_nearest(d); }
Status deriv_upsample_nearest_backward(Deriv *d) { return other_way(d, resample_partner(d->row->id), NULL, false); }
Status deriv_upsample_linear_backward(Deriv *d) { return deriv_upsample_nearest_backward(d); }

/* distances ----------------------------------------------------------------------------------- */

static const int64_t last_dim = -1;

/* The p-norm over the last dim. */
static Val *norm_of(Builder *b, Val *x, double p) {
    if (!x) return NULL;
    if (p == 0) return sum_over(b, in_dtype(b, E(b, ne_Tensor, V(x), F(0)), x->meta->dtype), &last_dim, 1, false);
    if (p == 2) return E(b, sqrt, V(E(b, sum_of_squares, V(x), A_INTS(&last_dim, 1), A_BOOL(false))));
    Val *const size = E(b, abs, V(x));
    if (p == 1) return sum_over(b, size, &last_dim, 1, false);
    if (isinf(p)) return E(b, amax, V(size), A_INTS(&last_dim, 1), A_BOOL(false));
    Val *const sum = sum_over(b, E(b, pow_Tensor_Scalar, V(size), F(p)), &last_dim, 1, false);
    return E(b, pow_Tensor_Scalar, V(sum), F(1 / p));
}

/* The norm's gradient in x: norm and grad have a last dim of 1. Where the norm is 0 there is none. */
static Val *norm_back(Builder *b, Val *grad, Val *x, double p, Val *norm) {
    if (!grad || !x || !norm) return NULL;
    if (p == 0) return E(b, mul_Tensor, V(in_dtype(b, E(b, eq_Tensor, V(x), V(x)), x->meta->dtype)), F(0));
    Val *const sign = E(b, sign, V(x)), *const size = E(b, abs, V(x));
    if (p == 1) return E(b, mul_Tensor, V(grad), V(sign));
    if (isinf(p)) {
        Val *const part = E(b, mul_Tensor, V(grad), V(sign));
        return E(b, where_self, V(E(b, eq_Tensor, V(size), V(norm))), V(part), F(0));
    }
    Val *const none = E(b, eq_Tensor, V(norm), F(0));
    Val *const divisor = E(b, where_self, V(none), F(1), V(norm));
    if (p == 2) {
        Val *const part = E(b, div_Tensor, V(E(b, mul_Tensor, V(grad), V(x))), V(divisor));
        return E(b, where_self, V(none), F(0), V(part));
    }
    Val *const zero = E(b, eq_Tensor, V(x), F(0)), *const safe = E(b, where_self, V(zero), F(1), V(size));
    Val *const share = E(b, pow_Tensor_Scalar, V(E(b, div_Tensor, V(safe), V(divisor))), F(p - 1));
    Val *const part = E(b, mul_Tensor, V(E(b, mul_Tensor, V(grad), V(sign))), V(share));
    return E(b, where_self, V(E(b, logical_or, V(none), V(zero))), F(0), V(part));
}

static Val *row_differences(Builder *b, Val *x1, Val *x2) {
    return E(b, sub_Tensor, V(E(b, unsqueeze, V(x1), I(-2))), V(E(b, unsqueeze, V(x2), I(-3))));
}

static bool rows_are_empty(Builder *b, const Meta *rows) { return sym_same(b->env, rows->sizes[rows->rank - 1], 0); }

/* (x1, x2, p, compute_mode) */
Status decomp_cdist(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const x1 = args[0].val->meta, *const x2 = args[1].val->meta;
    if (rows_are_empty(b, x1)) {
        int64_t sizes[MAX_RANK];
        const int rank = (int)max_i64(x1->rank, x2->rank);
        for (int d = 0; d < rank; d++) { /* of equal dims, or the one that is not 1 */
            const int d1 = d - (rank - x1->rank), d2 = d - (rank - x2->rank);
            const int64_t n1 = d1 < 0 ? 1 : x1->sizes[d1], n2 = d2 < 0 ? 1 : x2->sizes[d2];
            sizes[d] = d == rank - 2 ? n1 : d == rank - 1 ? x2->sizes[x2->rank - 2] : sym_same(b->env, n1, 1) ? n2 : n1;
        }
        return done1(outs, zeros_of_sizes(b, x1, sizes, rank));
    }
    return done1(outs, norm_of(b, row_differences(b, args[0].val, args[1].val), arg_double(&args[2])));
}
Status decomp_cdist_of(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, emit1(b, OP__cdist_forward, args, row->n_params));
}
Status decomp_euclidean_dist(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, _cdist_forward, args[0], args[1], F(2), A_NONE));
}

static Val *cdist_parts(Builder *b, Val *grad, Val *x1, Val *x2, double p, Val *cdist) {
    Val *const g = E(b, unsqueeze, V(grad), I(-1)), *const norm = E(b, unsqueeze, V(cdist), I(-1));
    return norm_back(b, g, row_differences(b, x1, x2), p, norm);
}

/* (grad_output, x1, x2, p, cdist): in x1, its batch broadcast */
Status decomp_cdist_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int64_t x2_rows = -2;
    Val *const parts = cdist_parts(b, args[0].val, args[1].val, args[2].val, arg_double(&args[3]), args[4].val);
    return done1(outs, sum_over(b, parts, &x2_rows, 1, false));
}

Status deriv_cdist(Deriv *d) {
    Builder *const b = d->b;
    const int64_t x1_rows = -3, x2_rows = -2;
    double p;
    TRY(deriv_number(d, 2, &p));
    Val *const parts = cdist_parts(b, grad_of(d), saved(d, 0), saved(d, 1), p, d->results[0]);
    if (wants(d, 0)) TRY(deriv_set(d, 0, sum_over(b, parts, &x2_rows, 1, false)));
    if (!wants(d, 1)) return ST_OK;
    return deriv_set(d, 1, negate(b, sum_over(b, parts, &x1_rows, 1, false)));
}

/* Which rows pair k = 0, 1... is of: in order of the first, then of the second. first = floor of where the number of
 * pairs before it reaches k. */
typedef struct Pairs {
    Val *first, *second;
} Pairs;

static int64_t pair_count(Builder *b, const Meta *rows) {
    const int64_t n = rows->sizes[0];
    return sym_div(b->env, sym_mul(b->env, n, sym_sub(b->env, n, 1)), 2);
}

/* n - 1/2, and its square: both are exact. */
typedef struct HalfBelow {
    Arg half, square;
} HalfBelow;

static HalfBelow half_below(Builder *b, const Meta *rows) {
    const int64_t n = rows->sizes[0];
    const double half = (double)sym_hint(b->env, n) - 0.5;
    if (!sym_is(n) || b->learns) return (HalfBelow){SIZED_FLOAT(b, half), SIZED_FLOAT(b, half * half)};
    Val *const of_rows = E(b, sub_Tensor, V(number_tensor(b, n, DT_f64, rows->device)), F(0.5));
    return (HalfBelow){V(of_rows), V(E(b, mul_Tensor, V(of_rows), V(of_rows)))};
}

static Pairs row_pairs(Builder *b, const Meta *rows) {
    const int64_t n = rows->sizes[0], count = pair_count(b, rows);
    const HalfBelow below = half_below(b, rows);
    Val *const k = E(b, arange, I(count), I(DT_i64), A_NONE, I(rows->device));
    Val *const wide = in_dtype(b, k, DT_f64);
    Val *const under = E(b, add_Tensor, V(E(b, mul_Tensor, V(wide), F(-2))), below.square);
    Val *const root = E(b, sqrt, V(under));
    Val *const first = in_dtype(b, E(b, floor, V(E(b, rsub_Tensor, V(root), below.half))), DT_i64);
    /* second = k - first * n + first * (first + 1) / 2 + first + 1 */
    Val *const square = E(b, mul_Tensor, V(first), V(E(b, add_Tensor, V(first), I(3))));
    Val *const rest = E(b, sub_Tensor, V(k), V(E(b, mul_Tensor, V(first), I(n))));
    Val *const halved = E(b, div_Tensor_mode, V(square), I(2), A_STR("floor"));
    return (Pairs){first, E(b, add_Tensor, V(E(b, add_Tensor, V(rest), V(halved))), I(1))};
}

static Val *pair_differences(Builder *b, Val *self, const Pairs *pairs) {
    return E(b, sub_Tensor, V(E(b, index_select, V(self), I(0), V(pairs->first))),
             V(E(b, index_select, V(self), I(0), V(pairs->second))));
}

/* (self, p) */
Status decomp_pdist(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const self = args[0].val->meta;
    if (rows_are_empty(b, self)) {
        const int64_t count = pair_count(b, self);
        return done1(outs, zeros_of_sizes(b, self, &count, 1));
    }
    const Pairs pairs = row_pairs(b, self);
    return done1(outs, norm_of(b, pair_differences(b, args[0].val, &pairs), arg_double(&args[1])));
}

static Val *pdist_back(Builder *b, Val *grad, Val *self, double p, Val *pdist) {
    if (!self) return NULL;
    const Pairs pairs = row_pairs(b, self->meta);
    Val *const g = E(b, unsqueeze, V(grad), I(-1)), *const norm = E(b, unsqueeze, V(pdist), I(-1));
    Val *const parts = norm_back(b, g, pair_differences(b, self, &pairs), p, norm);
    Val *const none = zeros_of(b, self->meta);
    Val *const firsts = E(b, index_add, V(none), I(0), V(pairs.first), V(parts));
    return E(b, index_add, V(firsts), I(0), V(pairs.second), V(parts), I(-1));
}

/* (grad_output, self, p, pdist) */
Status decomp_pdist_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, pdist_back(b, args[0].val, args[1].val, arg_double(&args[2]), args[3].val));
}
Status deriv_pdist(Deriv *d) {
    double p;
    TRY(deriv_number(d, 1, &p));
    return deriv_set(d, 0, pdist_back(d->b, grad_of(d), saved(d, 0), p, d->results[0]));
}
