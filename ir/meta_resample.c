/* meta_resample.c: planes in other sizes, distances between rows. */
#include "ir/meta_rules.h"

static Status bad_planes(const MetaCall *call, int n) {
    const Meta *const self = tensor_meta(call, 0);
    bool fits = self->rank == n + 2;
    for (int d = 1; fits && d < self->rank; d++) fits = !sym_same(call->env, self->sizes[d], 0);
    if (fits) return ST_OK;
    return meta_fail(call, ST_SHAPE, "%s must have %d dims, none but the batch of size 0, not sizes %s",
                     arg_name(call, 0), n + 2, SIZES(call, self));
}

/* The ints of a list of a fixed length, all at least 1, but for the batch. */
static Status sizes_given(const MetaCall *call, int arg, int n, bool batch, const int64_t **out) {
    const Arg *const a = &call->args[arg];
    bool fits = a->kind == ARG_ints && a->n == n;
    for (int i = 0; fits && i < n; i++) fits = !sym_less(call->env, a->ints[i], batch && i == 0 ? 0 : 1);
    *out = a->ints;
    if (fits) return ST_OK;
    return meta_fail(call, ST_ARGUMENT, "%s %s must have %d sizes above 0", arg_name(call, arg),
                     a->kind == ARG_ints ? sizes_text(call, a->ints, a->n).at : "", n);
}

static Status resampled(MetaCall *call, const int64_t *sizes, int n) {
    const Meta *const self = tensor_meta(call, 0);
    int64_t all[MAX_RANK];
    memcpy(all, self->sizes, sizeof *all * 2);
    memcpy(all + 2, sizes, sizeof *all * (size_t)n);
    TRY(check_numel(call, all, n + 2));
    out_suggested(call, 0, self, self->dtype, all, n + 2);
    return ST_OK;
}

static Status check_floats(const MetaCall *call, bool bytes_too) {
    const DType dtype = tensor_meta(call, 0)->dtype;
    if (dtype_is_float(dtype) || (bytes_too && dtype == DT_u8)) return ST_OK;
    return meta_fail(call, ST_DTYPE, "%s is %s", arg_name(call, 0), dtype_name(dtype));
}

/* (self, output_size, ...) */
static Status upsample(MetaCall *call, bool bytes_too) {
    const int64_t *sizes;
    const int n = list_length(call, 1);
    TRY(bad_planes(call, n));
    TRY(sizes_given(call, 1, n, false, &sizes));
    TRY(check_floats(call, bytes_too));
    return resampled(call, sizes, n);
}
Status meta_upsample_nearest(MetaCall *call) { return upsample(call, true); }
/* Images of bytes have their own way (passes/rules/decomp_resample.c). */
Status meta_upsample_linear(MetaCall *call) { return upsample(call, list_length(call, 1) == 2); }

/* (grad_output, output_size, input_size, ...) */
static Status upsample_backward(MetaCall *call) {
    const Meta *const grad = tensor_meta(call, 0);
    const int64_t *out, *in;
    const int n = list_length(call, 1);
    TRY(sizes_given(call, 1, n, false, &out));
    TRY(sizes_given(call, 2, n + 2, true, &in));
    TRY(check_floats(call, false));
    if (grad->rank != n + 2 || !all_same(call->env, grad->sizes, in, 2) ||
        !all_same(call->env, grad->sizes + 2, out, n))
        return meta_fail(call, ST_SHAPE, "grad_output %s does not have the sizes %s of the result", SIZES(call, grad),
                         sizes_text(call, out, n).at);
    TRY(check_numel(call, in, n + 2));
    out_suggested(call, 0, grad, grad->dtype, in, n + 2);
    call->order = ORDER_index;
    return ST_OK;
}
Status meta_upsample_nearest_backward(MetaCall *call) { return upsample_backward(call); }
Status meta_upsample_linear_backward(MetaCall *call) { return upsample_backward(call); }

/* size * whole / parts is exact in double below both bounds. */
int64_t meta_resample_size(SymEnv *env, int64_t size, double factor) {
    enum { MOST_WHOLE = 1 << 16, MOST_PARTS = 1 << 16 };
    int64_t parts = 1;
    while (parts < MOST_PARTS && !double_is_i64(factor * (double)parts)) parts *= 2;
    const double whole = factor * (double)parts;
    const bool exact = double_is_i64(whole) && whole > 0 && whole <= MOST_WHOLE;
    if (!sym_is(size) || !exact || !sym_at_most(env, size, INT64_C(1) << 32))
        return double_to_i64((double)sym_concrete(env, size) * factor);
    return sym_div(env, sym_mul(env, size, double_to_i64(whole)), parts);
}

/* (input, output_size, [align_corners,] scale_factors): one of the two. */
static Status upsample_vec(MetaCall *call, bool bytes_too) {
    const Meta *const self = tensor_meta(call, 0);
    const Arg *const given = &call->args[1], *const factors = &call->args[call->row->n_params - 1];
    const int n = self->rank - 2;
    int64_t sizes[MAX_RANK];
    const bool by_size = given->kind == ARG_ints, by_factor = factors->kind == ARG_floats;
    if (by_size == by_factor || n < 1)
        return meta_fail(call, ST_ARGUMENT, "exactly one of output_size and scale_factors must be given");
    if ((by_size ? given->n : factors->n) != n)
        return meta_fail(call, ST_ARGUMENT, "%d numbers for the %d dims of input %s", by_size ? given->n : factors->n,
                         n, SIZES(call, self));
    for (int i = 0; i < n; i++) {
        const int64_t size = self->sizes[2 + i];
        const double wanted = by_size ? 1 : (double)sym_hint(call->env, size) * factors->floats[i];
        if (!(wanted < 1e15)) return meta_fail(call, ST_ARGUMENT, "scale_factors give a size of %g", wanted);
        sizes[i] = by_size ? given->ints[i] : meta_resample_size(call->env, size, factors->floats[i]);
        if (sym_less(call->env, sizes[i], 1))
            return meta_fail(call, ST_ARGUMENT, "the result of input %s has no elements", SIZES(call, self));
    }
    TRY(bad_planes(call, n));
    TRY(check_floats(call, bytes_too));
    return resampled(call, sizes, n);
}
Status meta_upsample_nearest_vec(MetaCall *call) { return upsample_vec(call, true); }
Status meta_upsample_linear_vec(MetaCall *call) { return upsample_vec(call, tensor_meta(call, 0)->rank == 4); }

/* distances ----------------------------------------------------------------------------------- */

static Status norm_fits(const MetaCall *call, int arg) {
    const Arg *const p = &call->args[arg];
    if (arg_double(p) >= 0) return ST_OK;
    return meta_fail(call, ST_ARGUMENT, "p must not be negative, not %g", arg_double(p));
}

static Status wide_floats(const MetaCall *call, int arg) {
    const DType dtype = tensor_meta(call, arg)->dtype;
    if (dtype == DT_f32 || dtype == DT_f64) return ST_OK;
    return meta_fail(call, ST_DTYPE, "%s must be f32 or f64, not %s", arg_name(call, arg), dtype_name(dtype));
}

/* Sizes of the distances: the batches of both, broadcast, then rows of x1 and of x2. */
static Status cdist_sizes(const MetaCall *call, int x1, int64_t *sizes, int *rank) {
    const Meta *const a = tensor_meta(call, x1), *const b = tensor_meta(call, x1 + 1);
    if (a->rank < 2 || b->rank < 2 || !sym_same(call->env, a->sizes[a->rank - 1], b->sizes[b->rank - 1]))
        return meta_fail(call, ST_SHAPE, "x1 %s and x2 %s must be rows of one length", SIZES(call, a), SIZES(call, b));
    TRY(wide_floats(call, x1));
    if (a->dtype != b->dtype)
        return meta_fail(call, ST_DTYPE, "x1 is %s, but x2 is %s", dtype_name(a->dtype), dtype_name(b->dtype));
    TRY(same_device(call, a, b));
    *rank = a->rank - 2;
    if (*rank) memcpy(sizes, a->sizes, sizeof *sizes * (size_t)*rank);
    if (max_i64(a->rank, b->rank) >= MAX_RANK) return meta_fail(call, ST_SHAPE, "%d dims and more", MAX_RANK);
    if (!broadcast_into(call->env, sizes, rank, b->sizes, b->rank - 2))
        return meta_fail(call, ST_SHAPE, "the batches of x1 %s and x2 %s do not broadcast", SIZES(call, a),
                         SIZES(call, b));
    sizes[(*rank)++] = a->sizes[a->rank - 2];
    sizes[(*rank)++] = b->sizes[b->rank - 2];
    return check_numel(call, sizes, *rank);
}

/* (x1, x2, p, compute_mode) */
Status meta_cdist(MetaCall *call) {
    int64_t sizes[MAX_RANK];
    int rank;
    TRY(cdist_sizes(call, 0, sizes, &rank));
    TRY(norm_fits(call, 2));
    const Arg *const mode = &call->args[3];
    if (mode->kind == ARG_int && (mode->i < 0 || mode->i > 2))
        return meta_fail(call, ST_ARGUMENT, "compute_mode must be 0, 1 or 2, not %lld", (long long)mode->i);
    out_plain(call, 0, tensor_meta(call, 0)->dtype, tensor_meta(call, 0)->device, sizes, rank);
    return ST_OK;
}

/* (x1, x2) */
Status meta_euclidean_dist(MetaCall *call) {
    int64_t sizes[MAX_RANK];
    int rank;
    TRY(cdist_sizes(call, 0, sizes, &rank));
    out_plain(call, 0, tensor_meta(call, 0)->dtype, tensor_meta(call, 0)->device, sizes, rank);
    return ST_OK;
}

/* (grad_output, x1, x2, p, cdist) */
Status meta_cdist_backward(MetaCall *call) {
    int64_t sizes[MAX_RANK];
    int rank;
    const Meta *const x1 = tensor_meta(call, 1);
    TRY(cdist_sizes(call, 1, sizes, &rank));
    TRY(norm_fits(call, 3));
    for (int i = 0; i <= 4; i += 4) {
        const Meta *const like = tensor_meta(call, i);
        if (like->rank != rank || !all_same(call->env, like->sizes, sizes, rank))
            return meta_fail(call, ST_SHAPE, "%s %s does not have the sizes %s of the distances", arg_name(call, i),
                             SIZES(call, like), sizes_text(call, sizes, rank).at);
        if (like->dtype != x1->dtype)
            return meta_fail(call, ST_DTYPE, "%s is %s, but x1 is %s", arg_name(call, i), dtype_name(like->dtype),
                             dtype_name(x1->dtype));
    }
    int64_t full[MAX_RANK]; /* x1's rows, in the broadcast batch */
    memcpy(full, sizes, sizeof *full * (size_t)rank);
    full[rank - 1] = x1->sizes[x1->rank - 1];
    out_plain(call, 0, x1->dtype, x1->device, full, rank);
    return check_numel(call, full, rank);
}

static Status pairs_of(const MetaCall *call, int self, int64_t *pairs) {
    const Meta *const rows = tensor_meta(call, self);
    if (rows->rank != 2) return meta_fail(call, ST_SHAPE, "self must have 2 dims, not sizes %s", SIZES(call, rows));
    TRY(wide_floats(call, self));
    const int64_t n = rows->sizes[0];
    if (!sym_is(n) && n >= (int64_t)1 << 31) return meta_fail(call, ST_SHAPE, "too many rows: %lld", (long long)n);
    *pairs = sym_div(call->env, sym_mul(call->env, n, sym_sub(call->env, n, 1)), 2);
    return ST_OK;
}

/* (self, p) */
Status meta_pdist(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    int64_t pairs;
    TRY(pairs_of(call, 0, &pairs));
    TRY(norm_fits(call, 1));
    out_plain(call, 0, self->dtype, self->device, &pairs, 1);
    return check_numel(call, &pairs, 1);
}

/* (grad_output, self, p, pdist) */
Status meta_pdist_backward(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 1);
    int64_t pairs;
    TRY(pairs_of(call, 1, &pairs));
    TRY(norm_fits(call, 2));
    for (int i = 0; i <= 3; i += 3) {
        const Meta *const like = tensor_meta(call, i);
        if (like->rank != 1 || !sym_same(call->env, like->sizes[0], pairs) || like->dtype != self->dtype)
            return meta_fail(call, ST_SHAPE, "%s %s must be a %s for each of %lld pairs", arg_name(call, i),
                             SIZES(call, like), dtype_name(self->dtype), (long long)sym_hint(call->env, pairs));
    }
    out_plain(call, 0, self->dtype, self->device, self->sizes, 2);
    call->order = ORDER_index;
    return ST_OK;
}
