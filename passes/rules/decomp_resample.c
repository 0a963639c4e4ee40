/* decomp_resample.c: planes in other sizes, dim by dim, the last first: each result reads one element of its dim
 * (nearest), two neighbours with weights, or four (Keys' cubic with a = -0.75); gradients are added back in the other
 * order of dims [B2.10]. Distances: norms of differences, and what flows back into these. */
#include <math.h>

#include "passes/rules/resample.h"
#include "ir/op_ids.h"
#include "passes/rules/deriv.h"

DecompFn decomp_upsample_vec, decomp_cdist, decomp_cdist_backward, decomp_pdist, decomp_pdist_backward;
DecompFn decomp_cdist_of, decomp_euclidean_dist;

static bool interpolates(ResampleKind kind) { return kind >= RESAMPLE_linear; }

Resample decomp_resample_of(const OpRow *row, const Arg *args, ResampleKind kind, int i, const int64_t *in) {
    const bool backward = op_param_find(row, "input_size") >= 0, weighs = interpolates(kind);
    const int after = backward ? 3 : 2;
    const Arg *const factor = &args[after + weighs + i];
    const DType given = args[0].val->meta->dtype;
    const DType dtype = weighs && (given == DT_f64 || given == DT_u8) ? DT_f64 : DT_f32;
    return (Resample){.kind = kind,
                      .dim = 2 + i,
                      .in = in[i],
                      .out = args[1].ints[i],
                      .factor = arg_is_number(factor) ? arg_double(factor) : 0,
                      .align = weighs && args[after].i,
                      .dtype = dtype};
}

double decomp_resample_step(const Resample *r) {
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
    if (fixed || !(sym_is(r->in) || sym_is(r->out))) return F(decomp_resample_step(r));
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
    Val *at = sampled_positions(b, r, device);
    if (r->kind == RESAMPLE_exact) at = E(b, add_Tensor, V(at), F(0.5));
    return index_of(b, E(b, floor, V(E(b, mul_Tensor, V(at), step_of(b, r, device)))), r);
}

/* Neighbours in order, and how much of each. */
enum { MOST_TAPS = 4 };
typedef struct ResampleTaps {
    int n;
    Val *index[MOST_TAPS], *weight[MOST_TAPS];
} ResampleTaps;

/* Where results lie among the elements. */
static Val *places_of(Builder *b, const Resample *r, Device device) {
    Val *const at = sampled_positions(b, r, device);
    const Arg step = step_of(b, r, device);
    return r->align ? E(b, mul_Tensor, V(at), step)
                    : E(b, sub_Tensor, V(E(b, mul_Tensor, V(E(b, add_Tensor, V(at), F(0.5))), step)), F(0.5));
}

static Val *share_of(Builder *b, Val *place, Val *low, const Resample *r) {
    Val *const away = E(b, sub_Tensor, V(place), V(E(b, _to_copy, V(low), I(r->dtype))));
    return E(b, clamp_max, V(E(b, clamp_min, V(away), F(0))), F(1));
}

static ResampleTaps linear_taps(Builder *b, const Resample *r, Device device) {
    Val *place = places_of(b, r, device);
    if (!r->align) place = E(b, clamp_min, V(place), F(0));
    Val *const low = index_of(b, place, r);
    Val *const high = E(b, clamp_max, V(E(b, add_Tensor, V(low), I(1))), I(last_of(b, r)));
    Val *const of_high = share_of(b, place, low, r);
    return (ResampleTaps){2, {low, high}, {E(b, rsub_Tensor, V(of_high), F(1)), of_high}};
}

/* Below a distance of 1 and from there to 2. */
static Val *cubic_inner(Builder *b, Val *x) {
    Val *const slope = E(b, sub_Tensor, V(E(b, mul_Tensor, V(x), F(1.25))), F(2.25));
    return E(b, add_Tensor, V(E(b, mul_Tensor, V(E(b, mul_Tensor, V(slope), V(x))), V(x))), F(1));
}
static Val *cubic_outer(Builder *b, Val *x) {
    Val *y = E(b, add_Tensor, V(E(b, mul_Tensor, V(x), F(-0.75))), F(3.75));
    y = E(b, sub_Tensor, V(E(b, mul_Tensor, V(y), V(x))), F(6));
    return E(b, add_Tensor, V(E(b, mul_Tensor, V(y), V(x))), F(3));
}

static ResampleTaps cubic_taps(Builder *b, const Resample *r, Device device) {
    Val *const place = places_of(b, r, device), *const base = index_of(b, E(b, floor, V(place)), r);
    Val *const t = share_of(b, place, base, r), *const rest = E(b, rsub_Tensor, V(t), F(1));
    ResampleTaps taps = {4};
    for (int k = 0; k < 4; k++)
        taps.index[k] = E(b, clamp, V(E(b, add_Tensor, V(base), I(k - 1))), I(0), I(last_of(b, r)));
    taps.weight[0] = cubic_outer(b, E(b, add_Tensor, V(t), F(1)));
    taps.weight[1] = cubic_inner(b, t);
    taps.weight[2] = cubic_inner(b, rest);
    taps.weight[3] = cubic_outer(b, E(b, add_Tensor, V(rest), F(1)));
    return taps;
}

static ResampleTaps taps_of(Builder *b, const Resample *r, Device device) {
    return r->kind == RESAMPLE_cubic ? cubic_taps(b, r, device) : linear_taps(b, r, device);
}

static Val *along(Builder *b, Val *weights, const Resample *r, int rank) {
    return E(b, view, V(weights), A_INTS(((int64_t[MAX_RANK]){r->out, 1, 1, 1}), rank - r->dim));
}

static Val *weighed(Builder *b, Val *x, const Resample *r, const ResampleTaps *taps, int k) {
    Val *const read = E(b, index_select, V(x), I(r->dim), V(taps->index[k]));
    return E(b, mul_Tensor, V(along(b, taps->weight[k], r, x->meta->rank)), V(read));
}

static Val *sum_of_taps(Builder *b, Val *x, const Resample *r, const ResampleTaps *taps) {
    Val *sum = weighed(b, x, r, taps, 0);
    for (int k = 1; k < taps->n; k++) sum = E(b, add_Tensor, V(sum), V(weighed(b, x, r, taps, k)));
    return sum;
}

static Val *read_nearest(Builder *b, Val *x, const Resample *r) {
    return E(b, index_select, V(x), I(r->dim), V(nearest(b, r, x->meta->device)));
}

static Val *read_between(Builder *b, Val *x, const Resample *r) {
    const ResampleTaps taps = taps_of(b, r, x->meta->device);
    return sum_of_taps(b, x, r, &taps);
}

/* Images of bytes: weights are ints of as many bits as keep the largest below 2^15, and a result is rounded to a byte
 * after each dim, as PyTorch does it. Neighbours that are one element, at the borders, have one weight. */
static double cubic_at(double x) {
    return x < 1 ? (1.25 * x - 2.25) * x * x + 1 : ((-0.75 * x + 3.75) * x - 6) * x + 3;
}

static double largest_at(const Resample *r, int64_t i) {
    const bool cubic = r->kind == RESAMPLE_cubic;
    double weight[MOST_TAPS], most = 0, place = decomp_resample_step(r) * ((double)i + (r->align ? 0 : 0.5));
    if (!r->align) place -= 0.5;
    if (!cubic) place = fmax(place, 0);
    const double base = fmin(floor(place), (double)(r->in - 1)), t = fmin(fmax(place - base, 0), 1);
    const int n = cubic ? 4 : 2;
    int64_t index[MOST_TAPS];
    for (int k = 0; k < n; k++) {
        const double way = cubic ? fabs(t + 1 - k) : k ? 1 - t : t;
        weight[k] = cubic ? cubic_at(way) : 1 - way;
        index[k] = min_i64(max_i64((int64_t)base + k - cubic, 0), r->in - 1);
        for (int j = 0; j < k; j++)
            if (index[j] == index[k]) { /* one element: the first has both weights */
                weight[j] += weight[k], weight[k] = 0;
                break;
            }
    }
    for (int k = 0; k < n; k++) most = fmax(most, weight[k]);
    return most;
}

static double largest_weight(const Resample *r) {
    double most = 0;
    for (int64_t i = 0; i < r->out; i++) most = fmax(most, largest_at(r, i));
    return most;
}

int64_t decomp_resample_byte_one(double most) {
    int bits = 0;
    while (bits < 22 && (int64_t)(0.5 + most * (double)(INT64_C(2) << bits)) < 1 << 15) bits++;
    return INT64_C(1) << bits;
}

/* A weight of 1 as an int, in three ways: i32, half of it, in the precision of weights. The largest weight is at least
 * a half, so it is 2^15 or, where that is too much for the largest, 2^14. */
typedef struct ByteWeight {
    Arg one, half, wide;
} ByteWeight;

static ByteWeight known_byte_weight(const Resample *r) {
    const int64_t one = decomp_resample_byte_one(largest_weight(r));
    return (ByteWeight){I(one), I(one / 2), F((double)one)};
}

/* The same where sizes are symbolic. */
static ByteWeight byte_weight(Builder *b, const Resample *r, const ResampleTaps *taps) {
    if (!sym_is(r->in) && !sym_is(r->out)) return known_byte_weight(r);
    Val *each = taps->weight[0];
    for (int k = 1; k < taps->n; k++) each = E(b, maximum, V(each), V(taps->weight[k]));
    Val *const fits = E(b, lt_Scalar, V(E(b, mul_Tensor, V(E(b, amax, V(each))), F(32768))), F(32767.5));
    Val *const more = E(b, _to_copy, V(fits), I(DT_i32));
    Val *const half = E(b, mul_Tensor, V(E(b, add_Tensor, V(more), I(1))), I(8192));
    Val *const one = E(b, mul_Tensor, V(half), I(2));
    return (ByteWeight){V(one), V(half), V(E(b, _to_copy, V(one), I(r->dtype)))};
}

Val *decomp_resample_byte_weight(Builder *b, Val *weight, Arg one) {
    Val *const scaled = E(b, mul_Tensor, V(weight), one);
    Val *const up = E(b, floor, V(E(b, add_Tensor, V(scaled), F(0.5))));
    Val *const down = E(b, ceil, V(E(b, sub_Tensor, V(scaled), F(0.5))));
    Val *const below = E(b, lt_Scalar, V(scaled), F(0));
    return E(b, _to_copy, V(E(b, where_self, V(below), V(down), V(up))), I(DT_i32));
}

/* Of neighbours that are one element the first has all of their weights. */
static void join_weights(Builder *b, ResampleTaps *taps) {
    for (int k = 1; k < taps->n; k++)
        for (int j = 0; j < k; j++) {
            Val *const same = E(b, eq_Tensor, V(taps->index[j]), V(taps->index[k]));
            Val *const more = E(b, where_self, V(same), V(taps->weight[k]), F(0));
            taps->weight[j] = E(b, add_Tensor, V(taps->weight[j]), V(more));
            taps->weight[k] = E(b, where_self, V(same), F(0), V(taps->weight[k]));
        }
}

/* x: i32 of 0 to 255, as is the result */
static Val *read_bytes(Builder *b, Val *x, const Resample *r) {
    ResampleTaps taps = taps_of(b, r, x->meta->device);
    join_weights(b, &taps);
    const ByteWeight weight = byte_weight(b, r, &taps);
    for (int k = 0; k < taps.n; k++) taps.weight[k] = decomp_resample_byte_weight(b, taps.weight[k], weight.wide);
    Val *const sum = E(b, add_Tensor, V(sum_of_taps(b, x, r, &taps)), weight.half);
    return E(b, clamp, V(E(b, div_Tensor_mode, V(sum), weight.one, A_STR("floor"))), I(0), I(255));
}

static Val *read_dim(Builder *b, Val *x, const Resample *r, bool bytes) {
    if (!x) return NULL;
    if (!interpolates(r->kind)) return read_nearest(b, x, r);
    if (r->kind >= RESAMPLE_smooth_linear) return decomp_smooth_read(b, x, r, bytes);
    return bytes ? read_bytes(b, x, r) : read_between(b, x, r);
}

static Status resampled(Builder *b, const OpRow *row, const Arg *args, ResampleKind kind, Val **outs) {
    const Meta *const self = args[0].val->meta;
    const bool weighs = interpolates(kind), bytes = weighs && self->dtype == DT_u8;
    Val *x = bytes ? in_dtype(b, args[0].val, DT_i32) : weighs ? widened(b, args[0].val) : args[0].val;
    for (int i = self->rank - 3; i >= 0; i--) {
        const Resample r = decomp_resample_of(row, args, kind, i, self->sizes + 2);
        x = read_dim(b, x, &r, bytes);
    }
    return done1(outs, in_dtype(b, x, self->dtype));
}

static Val *add_between(Builder *b, Val *grad, const Resample *r) {
    const ResampleTaps taps = taps_of(b, r, grad->meta->device);
    Val *sum = zeros_along(b, grad->meta, r->dim, r->in);
    for (int k = 0; k < taps.n; k++) {
        Val *const weight = along(b, taps.weight[k], r, grad->meta->rank);
        sum = E(b, index_add, V(sum), I(r->dim), V(taps.index[k]), V(E(b, mul_Tensor, V(weight), V(grad))));
    }
    return sum;
}

static Val *add_nearest(Builder *b, Val *grad, const Resample *r) {
    Val *const none = zeros_along(b, grad->meta, r->dim, r->in);
    return E(b, index_add, V(none), I(r->dim), V(nearest(b, r, grad->meta->device)), V(grad));
}

static Status added_back(Builder *b, const OpRow *row, const Arg *args, ResampleKind kind, Val **outs) {
    const Meta *const given = args[0].val->meta;
    Val *grad = widened(b, args[0].val);
    for (int i = 0; grad && i < given->rank - 2; i++) {
        const Resample r = decomp_resample_of(row, args, kind, i, args[2].ints + 2);
        grad = !interpolates(kind)              ? add_nearest(b, grad, &r)
               : kind >= RESAMPLE_smooth_linear ? decomp_smooth_add(b, grad, &r)
                                                : add_between(b, grad, &r);
    }
    return done1(outs, in_dtype(b, grad, given->dtype));
}

#define RULES_OF(name, kind)                                                                                           \
    DecompFn decomp_upsample_##name, decomp_upsample_##name##_backward;                                                \
    Status decomp_upsample_##name(Builder *b, const OpRow *row, const Arg *args, Val **outs) {                         \
        return resampled(b, row, args, RESAMPLE_##kind, outs);                                                         \
    }                                                                                                                  \
    Status decomp_upsample_##name##_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {              \
        return added_back(b, row, args, RESAMPLE_##kind, outs);                                                        \
    }
RULES_OF(nearest, nearest)
RULES_OF(nearest_exact, exact)
RULES_OF(linear, linear)
RULES_OF(cubic, cubic)
RULES_OF(linear_aa, smooth_linear)
RULES_OF(cubic_aa, smooth_cubic)
RULES_OF(lanczos_aa, smooth_lanczos)

/* By size, by factor, and what flows back. */
typedef struct ResampleRows {
    OpId by_size, vec, backward;
} ResampleRows;
#define ROWS_OF(name)                                                                                                  \
    { OP_##name, OP_##name##_vec, OP_##name##_backward }
static const ResampleRows resample_rows[] = {
    ROWS_OF(upsample_nearest1d),        ROWS_OF(upsample_nearest2d),        ROWS_OF(upsample_nearest3d),
    ROWS_OF(_upsample_nearest_exact1d), ROWS_OF(_upsample_nearest_exact2d), ROWS_OF(_upsample_nearest_exact3d),
    ROWS_OF(upsample_linear1d),         ROWS_OF(upsample_bilinear2d),       ROWS_OF(upsample_trilinear3d),
    ROWS_OF(upsample_bicubic2d),        ROWS_OF(_upsample_bilinear2d_aa),   ROWS_OF(_upsample_bicubic2d_aa),
    ROWS_OF(_upsample_lanczos2d_aa)};

static OpId by_size(OpId vec) {
    for (int i = 0; i < COUNT_OF(resample_rows); i++)
        if (resample_rows[i].vec == vec) return resample_rows[i].by_size;
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
        sizes[i] = meta_resample_size(b->env, self->sizes[2 + i], factors->floats[i]);
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
    for (int i = 0; i < COUNT_OF(resample_rows); i++) {
        if (resample_rows[i].by_size == id) return resample_rows[i].backward;
        if (resample_rows[i].backward == id) return resample_rows[i].by_size;
    }
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
    if (!sym_is(n) || b->learns) return (HalfBelow){SIZED_FLOAT(b, n, half), SIZED_FLOAT(b, n, half * half)};
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
