/* decomp_sampler.c: planes and volumes read between their elements, at positions given by data. A position reads 1, 2
 * or 4 elements of each dim (taps), each with an index, a weight and whether it lies inside; a row of taps is joined
 * along x first, then the rows along y, then along z, in ascending order [B2.12]. What lies outside is left out by a
 * choice, not by a weight of 0, so that nothing infinite enters.
 *
 * grid is [-1, 1] over each dim; with align_corners over the centres of its first and last elements, else over their
 * edges. */
#include <math.h>

#include "passes/rules/decomp.h"

DecompFn decomp_grid_sampler, decomp_grid_sampler_nd, decomp_grid_sampler_nd_backward;

enum { BILINEAR, NEAREST, BICUBIC };
enum { PAD_zeros, PAD_border, PAD_reflection };
enum { MAX_TAPS = 4, MAX_DIMS = 3, MAX_PLACES = MAX_TAPS * MAX_TAPS * MAX_TAPS };

static const double cubic = -0.75; /* PyTorch's A */

typedef struct Tap {
    Val *index, *inside; /* i64 within the dim; NULL: always */
    Val *weight, *slope; /* NULL: 1; by position, where gradients are wanted */
} Tap;

typedef struct Sampler {
    Builder *b;
    int64_t mode, padding;
    bool align, slopes;
} Sampler;

/* One dim: [N, 1, P] each. */
typedef struct DimTaps {
    int n;
    Tap at[MAX_TAPS];
    Val *scale; /* of slopes: by grid */
} DimTaps;

static Val *scaled_by(Builder *b, Val *x, double n) { return E(b, mul_Tensor, V(x), F(n)); }
static Val *plus(Builder *b, Val *x, double n) { return E(b, add_Tensor, V(x), F(n)); }
static Val *filled_like(Builder *b, Val *x, double n) { return E(b, full_like, V(x), F(n)); }
static Val *either(Builder *b, Val *x, Val *y) { return x && y ? E(b, logical_or, V(x), V(y)) : x ? x : y; }
static Val *both(Builder *b, Val *x, Val *y) { return x && y ? E(b, logical_and, V(x), V(y)) : x ? x : y; }

/* Half of what lies between the edges, as a number or, of symbolic sizes, a tensor of no dims like x. */
static Arg elements_per_unit(const Sampler *s, const Val *x, int64_t size) {
    Builder *const b = s->b;
    const int64_t n = sym_sub(b->env, size, s->align);
    if (!sym_is(n) || b->learns) return SIZED_FLOAT(b, n, (double)sym_hint(b->env, n) / 2);
    return V(E(b, mul_Tensor, V(number_tensor(b, n, x->meta->dtype, x->meta->device)), F(0.5)));
}

static Val *filled_with(Builder *b, Val *x, Arg n) {
    return n.kind == ARG_tensor ? E(b, expand, n, A_INTS(x->meta->sizes, x->meta->rank)) : E(b, full_like, V(x), n);
}

static Val *unnormalised(const Sampler *s, Val *grid, int64_t size) {
    Val *const x = E(s->b, mul_Tensor, V(plus(s->b, grid, 1)), elements_per_unit(s, grid, size));
    return s->align ? x : plus(s->b, x, -0.5);
}

/* Into [0, size - 1]; NaN is 0. *slope is 0 where it is held, and stays as it is elsewhere. */
static Val *clipped(const Sampler *s, Val *x, int64_t size, Val **slope) {
    Builder *const b = s->b;
    const Arg last = I(sym_sub(b->env, size, 1));
    if (slope) {
        Val *const held = either(b, E(b, le_Scalar, V(x), F(0)), E(b, ge_Scalar, V(x), last));
        *slope = E(b, where_self, V(held), F(0), V(*slope));
    }
    Val *const from_0 = E(b, where_self, V(E(b, ge_Scalar, V(x), F(0))), V(x), F(0));
    return E(b, clamp_max, V(from_0), last);
}

/* Mirrored at the first and last element (align_corners), or at their outer edges, as often as it takes. */
static Val *reflected(const Sampler *s, Val *x, int64_t size, Val **slope) {
    Builder *const b = s->b;
    const int64_t span = sym_sub(b->env, size, s->align);
    const Arg twice = I(sym_mul(b->env, 2, span));
    const double low = s->align ? 0 : -0.5;
    if (sym_same(b->env, span, 0)) {
        if (slope) *slope = filled_like(b, x, 0);
        return filled_like(b, x, 0);
    }
    Val *const from_low = low != 0 ? plus(b, x, -low) : x, *const away = E(b, abs, V(from_low));
    Val *const flips = E(b, trunc, V(E(b, div_Tensor, V(away), twice)));
    Val *const rest = E(b, sub_Tensor, V(away), V(E(b, mul_Tensor, V(flips), twice)));
    Val *const back = E(b, rsub_Tensor, V(rest), twice);
    Val *const flipped = E(b, gt_Tensor, V(rest), V(back));
    if (slope) {
        Val *const turned = E(b, ne_Tensor, V(flipped), V(E(b, lt_Scalar, V(from_low), F(0))));
        *slope = E(b, where_self, V(turned), V(E(b, neg, V(*slope))), V(*slope));
    }
    Val *const inside = E(b, where_self, V(flipped), V(back), V(rest));
    return low != 0 ? plus(b, inside, low) : inside;
}

/* Far outside where it is none, so that no weight is NaN: in second derivatives weights meet what was left out. */
static Val *finite_place(Builder *b, Val *x) {
    return E(b, where_self, V(E(b, lt_Scalar, V(E(b, abs, V(x))), F(INFINITY))), V(x), F(-2 * MAX_TAPS));
}

static Val *padded_place(const Sampler *s, Val *x, int64_t size, Val **slope) {
    if (s->padding == PAD_zeros) return x;
    if (s->padding == PAD_reflection) x = reflected(s, x, size, slope);
    return x ? clipped(s, x, size, slope) : NULL;
}

/* A tap at a whole position, which may lie outside. */
static Tap tap_at(const Sampler *s, Val *place, int64_t size) {
    Builder *const b = s->b;
    const Arg last = I(sym_sub(b->env, size, 1));
    Tap tap = {0};
    if (s->padding == PAD_zeros || s->mode == BILINEAR)
        tap.inside = both(b, E(b, ge_Scalar, V(place), F(0)), E(b, le_Scalar, V(place), last));
    Val *const whole = E(b, _to_copy, V(E(b, clamp, V(place), F(0), last)), I(DT_i64));
    tap.index = E(b, clamp, V(whole), I(0), last); /* f32 may round size - 1 up */
    return tap;
}

static DimTaps nearest_taps(const Sampler *s, Val *x, int64_t size) {
    DimTaps t = {.n = 1};
    t.at[0] = tap_at(s, E(s->b, round, V(x)), size);
    if (s->slopes) t.at[0].slope = filled_like(s->b, x, 0);
    return t;
}

static DimTaps linear_taps(const Sampler *s, Val *x, int64_t size) {
    Builder *const b = s->b;
    Val *const low = E(b, floor, V(x)), *const away = E(b, sub_Tensor, V(x), V(low));
    DimTaps t = {.n = 2};
    for (int i = 0; i < 2; i++) {
        t.at[i] = tap_at(s, i ? plus(b, low, 1) : low, size);
        t.at[i].weight = i ? away : E(b, rsub_Tensor, V(away), F(1));
        if (s->slopes) t.at[i].slope = filled_like(b, x, i ? 1 : -1);
    }
    return t;
}

/* Keys' cubic at a distance of 0 to 1, and of 1 to 2. */
static Val *cubic_near(Builder *b, Val *t) { /* ((A + 2) t - (A + 3)) t t + 1 */
    Val *const inner = plus(b, scaled_by(b, t, cubic + 2), -(cubic + 3));
    return plus(b, E(b, mul_Tensor, V(E(b, mul_Tensor, V(inner), V(t))), V(t)), 1);
}
static Val *cubic_far(Builder *b, Val *t) { /* ((A t - 5 A) t + 8 A) t - 4 A */
    Val *const one = plus(b, scaled_by(b, t, cubic), -5 * cubic);
    Val *const two = plus(b, E(b, mul_Tensor, V(one), V(t)), 8 * cubic);
    return plus(b, E(b, mul_Tensor, V(two), V(t)), -4 * cubic);
}
static Val *near_slope(Builder *b, Val *t) { /* (3 (A + 2) t - 2 (A + 3)) t */
    return E(b, mul_Tensor, V(plus(b, scaled_by(b, t, 3 * (cubic + 2)), -2 * (cubic + 3))), V(t));
}
static Val *far_slope(Builder *b, Val *t) { /* (3 A t - 10 A) t + 8 A */
    return plus(b, E(b, mul_Tensor, V(plus(b, scaled_by(b, t, 3 * cubic), -10 * cubic)), V(t)), 8 * cubic);
}

/* The elements before and after, and one more on each side, each padded by itself. */
static DimTaps cubic_taps(const Sampler *s, Val *x, int64_t size) {
    Builder *const b = s->b;
    Val *const low = E(b, floor, V(x)), *const away = E(b, sub_Tensor, V(x), V(low));
    DimTaps t = {.n = 4};
    for (int i = 0; i < 4; i++) {
        Val *const place = padded_place(s, i == 1 ? low : plus(b, low, i - 1), size, NULL);
        Val *const distance = i == 1 ? away : i ? E(b, rsub_Tensor, V(away), F(i - 1)) : plus(b, away, 1);
        const bool far = i == 0 || i == 3;
        t.at[i] = tap_at(s, place, size);
        t.at[i].weight = far ? cubic_far(b, distance) : cubic_near(b, distance);
        if (!s->slopes) continue;
        Val *const slope = far ? far_slope(b, distance) : near_slope(b, distance);
        t.at[i].slope = i < 2 ? slope : E(b, neg, V(slope)); /* the distance shrinks as the position grows */
    }
    return t;
}

static DimTaps taps_of(const Sampler *s, Val *grid, int64_t size) {
    if (!grid) return (DimTaps){0};
    Val *slope = s->slopes ? filled_with(s->b, grid, elements_per_unit(s, grid, size)) : NULL;
    Val *x = unnormalised(s, grid, size);
    if (s->padding == PAD_zeros) x = x ? finite_place(s->b, x) : NULL;
    if (s->mode != BICUBIC) x = x ? padded_place(s, x, size, s->slopes ? &slope : NULL) : NULL;
    if (!x) return (DimTaps){0};
    DimTaps t = s->mode == BILINEAR  ? linear_taps(s, x, size)
                : s->mode == NEAREST ? nearest_taps(s, x, size)
                                     : cubic_taps(s, x, size);
    t.scale = slope;
    return t;
}

/* Planes or volumes as rows of elements, and where they are read; dims as input has them: z before y before x. */
typedef struct Reading {
    Builder *b;
    Val *planes; /* [N, C, elements] */
    int64_t batch, channels, count;
    const int64_t *sizes; /* of the dims */
    int dims;
    DimTaps taps[MAX_DIMS];
} Reading;

/* grid [N, ..., dims]: one coordinate as [N, 1, count] */
static Val *coordinate(Builder *b, Val *grid, int64_t which, const Reading *r) {
    const int64_t sizes[] = {r->batch, 1, r->count};
    return reshaped(b, E(b, select_int, V(grid), I(-1), I(which)), sizes, 3);
}

static int64_t sizes_product(Builder *b, const int64_t *sizes, int n) {
    int64_t all = sizes[0];
    for (int i = 1; i < n; i++) all = sym_mul(b->env, all, sizes[i]);
    return all;
}

static bool reading_begin(Reading *r, Sampler *s, Val *input, Val *grid) {
    Builder *const b = s->b;
    const int64_t *const sizes = input->meta->sizes;
    const int dims = input->meta->rank - 2;
    const int64_t flat[] = {sizes[0], sizes[1], sizes_product(b, sizes + 2, dims)};
    *r = (Reading){.b = b, .batch = sizes[0], .channels = sizes[1], .sizes = sizes + 2, .dims = dims};
    r->count = sizes_product(b, grid->meta->sizes + 1, dims);
    r->planes = reshaped(b, widened(b, input), flat, 3);
    Val *const wide = widened(b, grid);
    for (int d = dims - 1; d >= 0; d--) {
        r->taps[d] = taps_of(s, coordinate(b, wide, dims - 1 - d, r), r->sizes[d]);
        if (!r->taps[d].n) return false;
    }
    return r->planes;
}

/* A tap of each dim up to one, by the product of their weights, NULL: 1. */
typedef struct TapPath {
    Val *index, *inside, *weight;
} TapPath;

static Val *tap_product(Builder *b, Val *x, Val *y) { return x && y ? E(b, mul_Tensor, V(x), V(y)) : x ? x : y; }

static TapPath along(const Reading *r, const TapPath *path, int d, const Tap *tap) {
    Builder *const b = r->b;
    Val *const rows = d ? E(b, mul_Tensor, V(path->index), I(r->sizes[d])) : NULL;
    return (TapPath){d ? E(b, add_Tensor, V(rows), V(tap->index)) : tap->index, both(b, path->inside, tap->inside),
                     NULL};
}

static Val *tap_place(const Reading *r, const TapPath *path) {
    const int64_t sizes[] = {r->batch, r->channels, r->count};
    return E(r->b, expand, V(path->index), A_INTS(sizes, 3));
}

/* weight * value, nothing outside; a NULL weight is 1. */
static Val *part(Builder *b, Val *weight, Val *value, Val *inside) {
    Val *const product = weight ? E(b, mul_Tensor, V(weight), V(value)) : value;
    return inside ? E(b, where_self, V(inside), V(product), F(0)) : product;
}

/* The sum over all taps of the dims from d on; along dim `slopes` by slopes instead of weights. */
static Val *taps_sum(const Reading *r, int slopes, int d, const TapPath *before) {
    Builder *const b = r->b;
    const DimTaps *const taps = &r->taps[d];
    const bool last = d == r->dims - 1;
    Val *sum = NULL;
    for (int i = 0; i < taps->n; i++) {
        const Tap *const tap = &taps->at[i];
        const TapPath path = along(r, before, d, tap);
        Val *const value =
            last ? E(b, gather, V(r->planes), I(2), V(tap_place(r, &path))) : taps_sum(r, slopes, d + 1, &path);
        Val *const next = part(b, d == slopes ? tap->slope : tap->weight, value, last ? path.inside : tap->inside);
        sum = sum ? E(b, add_Tensor, V(sum), V(next)) : next;
    }
    return sum;
}

static Val *all_taps(const Reading *r, int slopes) { return taps_sum(r, slopes, 0, &(TapPath){0}); }

/* (input, grid, interpolation_mode, padding_mode, align_corners) */
Status decomp_grid_sampler_nd(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const input = args[0].val->meta, *const grid = args[1].val->meta;
    int64_t sizes[2 + MAX_DIMS] = {input->sizes[0], input->sizes[1]};
    for (int d = 2; d < input->rank; d++) sizes[d] = grid->sizes[d - 1];
    Sampler s = {b, args[2].i, args[3].i, args[4].i != 0, false};
    Reading r;
    if (!reading_begin(&r, &s, args[0].val, args[1].val)) return decomp_done(outs, 1, (Val *const[]){NULL});
    return done1(outs, reshaped(b, in_dtype(b, all_taps(&r, -1), input->dtype), sizes, input->rank));
}

Status decomp_grid_sampler(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, args[0].val->meta->rank == 5
                           ? E(b, grid_sampler_3d, args[0], args[1], args[2], args[3], args[4])
                           : E(b, grid_sampler_2d, args[0], args[1], args[2], args[3], args[4]));
}

/* What the taps add to their elements, in ascending order. */
typedef struct TapParts {
    Val *grad, *places[MAX_PLACES], *parts[MAX_PLACES];
    int n;
} TapParts;

static bool collect_parts(const Reading *r, TapParts *all, int d, const TapPath *before) {
    const DimTaps *const taps = &r->taps[d];
    for (int i = 0; i < taps->n; i++) {
        TapPath path = along(r, before, d, &taps->at[i]);
        path.weight = tap_product(r->b, before->weight, taps->at[i].weight);
        if (d < r->dims - 1) {
            if (!collect_parts(r, all, d + 1, &path)) return false;
            continue;
        }
        all->places[all->n] = tap_place(r, &path);
        all->parts[all->n] = part(r->b, path.weight, all->grad, path.inside);
        if (!all->places[all->n] || !all->parts[all->n]) return false;
        all->n++;
    }
    return true;
}

/* What each tap adds to its element, all taps of the first, then of the second... */
static Val *input_gradient(const Reading *r, Val *grad, const Meta *input) {
    Builder *const b = r->b;
    TapParts all = {.grad = grad};
    if (!collect_parts(r, &all, 0, &(TapPath){0})) return NULL;
    Val *const at = all.n > 1 ? E(b, cat, A_VALS(all.places, all.n), I(2)) : all.places[0];
    Val *const added = all.n > 1 ? E(b, cat, A_VALS(all.parts, all.n), I(2)) : all.parts[0];
    Val *const none = zeros_of_sizes(b, r->planes->meta, r->planes->meta->sizes, 3);
    Val *const sums = E(b, scatter_add, V(none), I(2), V(at), V(added));
    return reshaped(b, in_dtype(b, sums, input->dtype), input->sizes, input->rank);
}

/* [N, 1, count]: summed over the channels. */
static Val *grid_gradient(const Reading *r, Val *grad, int d) {
    const int64_t channels = 1;
    Val *const slopes = all_taps(r, d);
    Val *const sum = sum_over(r->b, E(r->b, mul_Tensor, V(grad), V(slopes)), &channels, 1, true);
    return E(r->b, mul_Tensor, V(sum), V(r->taps[d].scale));
}

static Val *grid_gradients(const Reading *r, Val *grad, const Meta *grid) {
    Builder *const b = r->b;
    Val *parts[MAX_DIMS];
    for (int i = 0; i < r->dims; i++) {
        parts[i] = E(b, unsqueeze, V(grid_gradient(r, grad, r->dims - 1 - i)), I(-1));
        if (!parts[i]) return NULL;
    }
    return reshaped(b, in_dtype(b, E(b, cat, A_VALS(parts, r->dims), I(-1)), grid->dtype), grid->sizes, grid->rank);
}

/* (grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask) */
Status decomp_grid_sampler_nd_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const input = args[1].val, *const grid = args[2].val;
    const int64_t none = 0;
    Sampler s = {b, args[3].i, args[4].i, args[5].i != 0, true};
    Reading r;
    if (!reading_begin(&r, &s, input, grid)) return decomp_done(outs, 1, (Val *const[]){NULL});
    const int64_t sizes[] = {r.batch, r.channels, r.count};
    Val *const grad = reshaped(b, widened(b, args[0].val), sizes, 3);
    Val *const to_input =
        args[6].ints[0] ? input_gradient(&r, grad, input->meta) : zeros_of_sizes(b, input->meta, &none, 1);
    return decomp_done(outs, 2, (Val *const[]){to_input, grid_gradients(&r, grad, grid->meta)});
}
