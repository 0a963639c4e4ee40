/* decomp_smooth.c: one dim of an antialiased resampling: a result is the sum of the elements under a filter (a
 * triangle, Keys' cubic with a = -0.5, or Lanczos' of 3 lobes) as wide as results lie apart, its weights made to add up
 * to 1 (PyTorch's _compute_indices_min_size_weights_aa). How many elements are under it depends on the sizes, which are
 * known here. */
#include <math.h>

#include "ir/op.h"
#include "passes/rules/resample.h"

typedef struct Filter {
    double step, support, inverse; /* elements per result; half its width; what distances are multiplied by */
    int64_t n;                     /* elements under it, at most */
} Filter;

static bool is_cubic(const Resample *r) { return r->kind == RESAMPLE_smooth_cubic; }
static bool is_lanczos(const Resample *r) { return r->kind == RESAMPLE_smooth_lanczos; }

enum { LOBES = 3 };
static const double pi = 3.14159265358979323846;

/* In the precision of weights. */
static double rounded(const Resample *r, double x) { return r->dtype == DT_f64 ? x : (double)(float)x; }

static Filter filter_of(const Resample *r) {
    const double half = is_lanczos(r) ? LOBES : is_cubic(r) ? 2 : 1;
    Filter f = {.step = decomp_resample_step(r)};
    f.support = f.step >= 1 ? rounded(r, half * f.step) : half;
    f.inverse = f.step >= 1 ? rounded(r, 1 / f.step) : 1;
    f.n = (int64_t)ceil(f.support) * 2 + 1;
    return f;
}

static double sinc_at(double x) { return x == 0 ? 1 : sin(pi * x) / (pi * x); }

static double weight_at(const Resample *r, double x) {
    x = fabs(x);
    if (is_lanczos(r)) return x < LOBES ? sinc_at(x) * sinc_at(x / LOBES) : 0;
    if (!is_cubic(r)) return x < 1 ? 1 - x : 0;
    return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

/* The largest weight of all results. */
static double largest_weight(const Resample *r, const Filter *f) {
    double most = 0;
    for (int64_t i = 0; i < r->out; i++) {
        const double center = f->step * ((double)i + 0.5);
        const int64_t first = max_i64((int64_t)(center - f->support + 0.5), 0);
        const int64_t n = min_i64(max_i64(min_i64((int64_t)(center + f->support + 0.5), r->in) - first, 0), f->n);
        double sum = 0, top = 0;
        for (int64_t k = 0; k < n; k++) {
            const double weight = weight_at(r, ((double)(k + first) - center + 0.5) * f->inverse);
            sum += weight, top = fmax(top, weight);
        }
        most = fmax(most, sum != 0 ? top / sum : top);
    }
    return most;
}

/* sin(pi x) / (pi x) */
static Val *sinc_of(Builder *b, Val *x) {
    Val *const angle = E(b, mul_Tensor, V(x), F(pi));
    Val *const wave = E(b, div_Tensor, V(E(b, sin, V(angle))), V(angle));
    return E(b, where_self, V(E(b, eq_Scalar, V(x), F(0))), F(1), V(wave));
}

static Val *lanczos_at(Builder *b, Val *x) {
    Val *const wave = E(b, mul_Tensor, V(sinc_of(b, x)), V(sinc_of(b, E(b, div_Tensor, V(x), F(LOBES)))));
    return E(b, where_self, V(E(b, lt_Scalar, V(x), F(LOBES))), V(wave), F(0));
}

/* The filter at distances x. */
static Val *weights_at(Builder *b, const Resample *r, Val *distance) {
    Val *const x = E(b, abs, V(distance));
    if (is_lanczos(r)) return lanczos_at(b, x);
    Val *const near = E(b, lt_Scalar, V(x), F(1));
    if (!is_cubic(r)) return E(b, where_self, V(near), V(E(b, rsub_Tensor, V(x), F(1))), F(0));
    Val *const square = E(b, mul_Tensor, V(x), V(x));
    Val *const inner_slope = E(b, add_Tensor, V(E(b, mul_Tensor, V(x), F(1.5))), F(-2.5));
    Val *const inner = E(b, add_Tensor, V(E(b, mul_Tensor, V(inner_slope), V(square))), F(1));
    Val *outer = E(b, add_Tensor, V(E(b, mul_Tensor, V(x), F(-0.5))), F(2.5));
    outer = E(b, add_Tensor, V(E(b, mul_Tensor, V(outer), V(x))), F(-4));
    outer = E(b, add_Tensor, V(E(b, mul_Tensor, V(outer), V(x))), F(2));
    Val *const far = E(b, where_self, V(E(b, lt_Scalar, V(x), F(2))), V(outer), F(0));
    return E(b, where_self, V(near), V(inner), V(far));
}

/* By result and place under the filter: the elements read, and how much of each. */
typedef struct Reads {
    Val *index, *weight; /* [out * n] i64, [out, n] */
    int64_t n;
} Reads;

static Val *whole(Builder *b, Val *x) { return E(b, _to_copy, V(E(b, trunc, V(x))), I(DT_i64)); }

static Reads reads_of(Builder *b, const Resample *r, const Filter *filter, Device device) {
    const Filter f = *filter;
    const int64_t flat[] = {sym_mul(b->env, r->out, f.n)}, last = -1;
    Val *const at = E(b, unsqueeze, V(E(b, arange, I(r->out), I(r->dtype), A_NONE, I(device))), I(-1));
    Val *const center = E(b, mul_Tensor, V(E(b, add_Tensor, V(at), F(0.5))), F(f.step));
    Val *const low = E(b, add_Tensor, V(E(b, sub_Tensor, V(center), F(f.support))), F(0.5));
    Val *const high = E(b, add_Tensor, V(E(b, add_Tensor, V(center), F(f.support))), F(0.5));
    Val *const first = E(b, clamp_min, V(whole(b, low)), I(0));
    Val *const end = E(b, clamp_max, V(whole(b, high)), I(r->in));
    Val *const n = E(b, clamp, V(E(b, sub_Tensor, V(end), V(first))), I(0), I(f.n));
    Val *const k = E(b, arange, I(f.n), I(DT_i64), A_NONE, I(device));
    Val *const place = E(b, _to_copy, V(E(b, add_Tensor, V(first), V(k))), I(r->dtype));
    Val *const away = E(b, add_Tensor, V(E(b, sub_Tensor, V(place), V(center))), F(0.5));
    Val *const inside = E(b, lt_Tensor, V(k), V(n));
    Val *const raw = weights_at(b, r, E(b, mul_Tensor, V(away), F(f.inverse)));
    Val *const weight = E(b, where_self, V(inside), V(raw), F(0));
    Val *const sum = sum_over(b, weight, &last, 1, true), *const none = E(b, eq_Scalar, V(sum), F(0));
    Val *const divisor = E(b, where_self, V(none), F(1), V(sum));
    Val *const nearest = E(b, minimum, V(k), V(E(b, sub_Tensor, V(n), I(1))));
    Val *const index = E(b, clamp, V(E(b, add_Tensor, V(first), V(nearest))), I(0), I(sym_sub(b->env, r->in, 1)));
    Val *const weights = in_dtype(b, E(b, div_Tensor, V(weight), V(divisor)), r->dtype);
    return (Reads){index ? reshaped(b, index, flat, 1) : NULL, weights, f.n};
}

/* x's sizes with `dim` as [out, n]. */
static int apart_sizes(const Meta *x, const Resample *r, int64_t n, int64_t *sizes) {
    int rank = 0;
    for (int d = 0; d < x->rank; d++) {
        sizes[rank++] = d == r->dim ? r->out : x->sizes[d];
        if (d == r->dim) sizes[rank++] = n;
    }
    return rank;
}

/* [out, n] with dims of size 1 behind. */
static Val *filter_along(Builder *b, Val *weight, const Resample *r, int64_t n, int rank) {
    return E(b, view, V(weight), A_INTS(((int64_t[MAX_RANK]){r->out, n, 1, 1, 1}), rank - (int)r->dim + 1));
}

static Resample with_known_sizes(Builder *b, const Resample *given) {
    Resample r = *given;
    r.in = sym_concrete(b->env, r.in), r.out = sym_concrete(b->env, r.out);
    return r;
}

Val *decomp_smooth_read(Builder *b, Val *x, const Resample *r, bool bytes) {
    if (!x) return NULL;
    const Resample known = with_known_sizes(b, r);
    const Filter f = filter_of(&known);
    const Reads reads = reads_of(b, r, &f, x->meta->device);
    const int64_t under = r->dim + 1;
    int64_t sizes[MAX_RANK];
    const int rank = apart_sizes(x->meta, r, reads.n, sizes);
    Val *const read = E(b, index_select, V(x), I(r->dim), V(reads.index));
    Val *const each = read ? reshaped(b, read, sizes, rank) : NULL;
    Val *weight = reads.weight;
    const int64_t one = bytes ? decomp_resample_byte_one(largest_weight(&known, &f)) : 1;
    if (bytes) weight = decomp_resample_byte_weight(b, weight, F((double)one));
    Val *const parts = E(b, mul_Tensor, V(filter_along(b, weight, r, reads.n, x->meta->rank)), V(each));
    if (!bytes) return sum_over(b, parts, &under, 1, false);
    Val *const sum = in_dtype(b, sum_over(b, parts, &under, 1, false), DT_i32);
    Val *const rounded = E(b, div_Tensor_mode, V(E(b, add_Tensor, V(sum), I(one / 2))), I(one), A_STR("floor"));
    return E(b, clamp, V(rounded), I(0), I(255));
}

Val *decomp_smooth_add(Builder *b, Val *grad, const Resample *r) {
    if (!grad) return NULL;
    const Resample known = with_known_sizes(b, r);
    const Filter f = filter_of(&known);
    const Reads reads = reads_of(b, r, &f, grad->meta->device);
    int64_t sizes[MAX_RANK];
    memcpy(sizes, grad->meta->sizes, sizeof *sizes * (size_t)grad->meta->rank);
    sizes[r->dim] = sym_mul(b->env, r->out, reads.n);
    Val *const none = zeros_along(b, grad->meta, r->dim, r->in);
    Val *const weight = filter_along(b, reads.weight, r, reads.n, grad->meta->rank);
    Val *const parts = E(b, mul_Tensor, V(weight), V(E(b, unsqueeze, V(grad), I(r->dim + 1))));
    Val *const flat = parts ? reshaped(b, parts, sizes, grad->meta->rank) : NULL;
    return E(b, index_add, V(none), I(r->dim), V(reads.index), V(flat));
}
