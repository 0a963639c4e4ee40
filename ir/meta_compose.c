/* meta_compose.c: ops that are others put together, by the rules of those. */
#include <math.h>

#include "ir/meta_rules.h"

MetaFn meta_repeat, meta_flip, meta_amax, meta_empty, meta_cat;

/* The rule of another op with arguments of its own. */
static Status rule_with(MetaCall *call, MetaFn *rule, const Arg *args) {
    const Arg *const own = call->args;
    call->args = args;
    const Status status = rule(call);
    call->args = own;
    return status;
}

/* Of a cat of two slices: channels_last where both suggest it. */
static void rolled_strides(MetaCall *call, const Meta *from, int64_t shift, int dim) {
    const int64_t size = from->sizes[dim];
    const int64_t start = sym_mod(call->env, sym_sub(call->env, size, sym_concrete(call->env, shift)), size);
    int64_t sizes[MAX_RANK];
    bool last = from->rank == 4 || from->rank == 5;
    memcpy(sizes, from->sizes, sizeof *sizes * (size_t)from->rank);
    for (int i = 0; last && i < 2; i++) {
        sizes[dim] = i ? start : sym_sub(call->env, size, start);
        Meta part = *from;
        part.sizes = sizes;
        part.contiguous = meta_is_contiguous(call->env, sizes, part.strides, part.rank);
        last = meta_suggests_channels_last(call->env, &part);
    }
    if (last)
        out_channels_last(call, &call->out[0]);
    else
        out_contiguous(call, &call->out[0]);
}

Status meta_roll(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const Arg *const shifts = &call->args[1], *const dims = &call->args[2];
    int dim;
    if (shifts->n != (dims->n ? dims->n : 1))
        return meta_fail(call, ST_ARGUMENT, "%d shifts for %d dims", shifts->n, dims->n);
    if (!self->rank && dims->n) return meta_fail(call, ST_ARGUMENT, "dims must be empty: self has none");
    out_plain(call, 0, self->dtype, self->device, self->sizes, self->rank);
    Meta from = *self;
    for (int i = 0; i < dims->n; i++) {
        TRY(wrap_dim(call, dims->ints[i], self->rank, "dims", &dim));
        if (self->rank && !sym_same(call->env, self->numel, 0)) rolled_strides(call, &from, shifts->ints[i], dim);
        from.strides = call->out[0].strides, from.contiguous = false;
    }
    return ST_OK;
}

/* Missing repeats are 1, at the front. */
Status meta_tile(MetaCall *call) {
    const int rank = tensor_meta(call, 0)->rank, n = call->args[1].n, missing = rank > n ? rank - n : 0;
    int64_t repeats[MAX_RANK];
    if (n + missing > MAX_RANK) return meta_fail(call, ST_SHAPE, "more than %d dims", MAX_RANK);
    for (int d = 0; d < n + missing; d++) repeats[d] = d < missing ? 1 : call->args[1].ints[d - missing];
    const Arg args[] = {call->args[0], A_INTS(repeats, n + missing)};
    return rule_with(call, meta_repeat, args);
}

Status meta_rot90(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const Arg *const given = &call->args[2];
    const int64_t k = (call->args[1].i % 4 + 4) % 4;
    int first, second;
    if (given->n != 2 || self->rank < 2)
        return meta_fail(call, ST_ARGUMENT, "dims must be 2 of self's at least 2 dims, not %d of %d", given->n,
                         self->rank);
    TRY(wrap_dim(call, given->ints[0], self->rank, "dims", &first));
    TRY(wrap_dim(call, given->ints[1], self->rank, "dims", &second));
    if (first == second) return meta_fail(call, ST_ARGUMENT, "dim %d appears twice in dims", first);
    MetaOut *const out = &call->out[0];
    out_like(call, 0, self, self->dtype);
    if (!k) out_contiguous(call, out);
    if (k % 2) { /* a flip, transposed */
        const int64_t size = out->sizes[first], stride = out->strides[first];
        out->sizes[first] = out->sizes[second], out->sizes[second] = size;
        out->strides[first] = out->strides[second], out->strides[second] = stride;
    }
    return ST_OK;
}

Status meta_diag_embed(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const int64_t offset = call->args[1].i;
    int first, second;
    if (!self->rank) return meta_fail(call, ST_SHAPE, "self must have a dim at least");
    if (self->rank == MAX_RANK) return meta_fail(call, ST_SHAPE, "more than %d dims", MAX_RANK);
    TRY(wrap_dim(call, call->args[2].i, self->rank + 1, "dim1", &first));
    TRY(wrap_dim(call, call->args[3].i, self->rank + 1, "dim2", &second));
    if (first == second) return meta_fail(call, ST_ARGUMENT, "dim1 and dim2 are both %d", first);
    if (offset > INT32_MAX || offset < -INT32_MAX)
        return meta_fail(call, ST_ARGUMENT, "offset %lld is too large", (long long)offset);
    const int64_t size = sym_add(call->env, self->sizes[self->rank - 1], offset < 0 ? -offset : offset);
    int64_t sizes[MAX_RANK];
    for (int d = 0, from = 0; d <= self->rank; d++) sizes[d] = d == first || d == second ? size : self->sizes[from++];
    out_plain(call, 0, self->dtype, self->device, sizes, self->rank + 1);
    return check_numel(call, sizes, self->rank + 1);
}

Status meta_count_nonzero(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const Arg *const given = &call->args[1];
    const Arg dims = given->kind == ARG_int ? A_INTS(&given->i, 1) : *given;
    bool reduced[MAX_RANK];
    TRY(wrap_dims(call, &dims, self->rank, reduced));
    reduced_out(call, 0, self, reduced, false, DT_i64);
    return ST_OK;
}

Status meta_aminmax(MetaCall *call) {
    TRY(meta_amax(call));
    call->out[1] = call->out[0];
    return ST_OK;
}

/* What an op of two values gives that are both parts of self: one's sizes, its dtype. */
static Status joined_parts(MetaCall *call, const Meta *self, const int64_t *sizes) {
    Meta part = *self;
    part.sizes = sizes;
    part.contiguous = meta_is_contiguous(call->env, sizes, part.strides, part.rank);
    Elementwise e = {.n = 2, .in = {&part, &part}};
    return elementwise_out(call, &e, self->dtype);
}

Status meta_glu(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    int64_t sizes[MAX_RANK];
    int dim;
    if (!self->rank) return meta_fail(call, ST_SHAPE, "self must have a dim at least");
    if (!dtype_is_float(self->dtype))
        return meta_fail(call, ST_DTYPE, "self must be floating point, not %s", dtype_name(self->dtype));
    TRY(wrap_dim(call, call->args[1].i, self->rank, "dim", &dim));
    memcpy(sizes, self->sizes, sizeof *sizes * (size_t)self->rank);
    sizes[dim] = sym_div(call->env, self->sizes[dim], 2);
    if (!sym_same(call->env, sym_mul(call->env, sizes[dim], 2), self->sizes[dim]))
        return meta_fail(call, ST_SHAPE, "dim %d of self %s must be even", dim, SIZES(call, self));
    return joined_parts(call, self, sizes);
}

/* (n, options) and (n, m, options) */
Status meta_eye(MetaCall *call) {
    const bool square = call->row->options == 1;
    const int64_t sizes[2] = {call->args[0].i, call->args[square ? 0 : 1].i};
    const Arg *const device = &call->args[call->row->device];
    for (int i = 0; i < 2; i++)
        if (sym_less(call->env, sizes[i], 0))
            return meta_fail(call, ST_ARGUMENT, "%s must not be negative, but is %s", i ? "m" : "n",
                             sizes_text(call, &sizes[i], 1).at);
    TRY(check_numel(call, sizes, 2));
    out_plain(call, 0, dtype_arg(call, "dtype", DT_f32), device->kind == ARG_int ? (Device)device->i : DEV_cpu, sizes,
              2);
    return ST_OK;
}

/* [..., C, H, W] and the number of rows and columns of a square. */
static Status square_args(const MetaCall *call, const char *name, int64_t *factor) {
    const Meta *const self = tensor_meta(call, 0);
    *factor = call->args[1].i;
    if (self->rank < 3)
        return meta_fail(call, ST_SHAPE, "self must have at least 3 dims, not sizes %s", SIZES(call, self));
    if (*factor > 0 && *factor <= INT32_MAX) return ST_OK;
    return meta_fail(call, ST_ARGUMENT, "%s must be above 0, but is %lld", name, (long long)*factor);
}

/* size / by, which must leave nothing */
static Status divided_size(const MetaCall *call, int d, int64_t by, int64_t *out) {
    const Meta *const self = tensor_meta(call, 0);
    *out = sym_div(call->env, self->sizes[d], by);
    if (sym_same(call->env, sym_mul(call->env, *out, by), self->sizes[d])) return ST_OK;
    return meta_fail(call, ST_SHAPE, "dim %d of self %s must be a multiple of %lld", d, SIZES(call, self),
                     (long long)by);
}

Status meta_pixel_shuffle(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const int last = self->rank - 1;
    int64_t sizes[MAX_RANK], r;
    TRY(square_args(call, "upscale_factor", &r));
    memcpy(sizes, self->sizes, sizeof *sizes * (size_t)self->rank);
    TRY(divided_size(call, last - 2, r * r, &sizes[last - 2]));
    for (int d = last - 1; d <= last; d++) sizes[d] = sym_mul(call->env, self->sizes[d], r);
    out_suggested(call, 0, self, self->dtype, sizes, self->rank);
    return ST_OK;
}

Status meta_pixel_unshuffle(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const int last = self->rank - 1;
    int64_t sizes[MAX_RANK], r;
    TRY(square_args(call, "downscale_factor", &r));
    memcpy(sizes, self->sizes, sizeof *sizes * (size_t)self->rank);
    sizes[last - 2] = sym_mul(call->env, self->sizes[last - 2], r * r);
    for (int d = last - 1; d <= last; d++) TRY(divided_size(call, d, r, &sizes[d]));
    out_suggested(call, 0, self, self->dtype, sizes, self->rank);
    return ST_OK;
}

Status meta_channel_shuffle(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const int64_t groups = call->args[1].i;
    if (self->rank < 3)
        return meta_fail(call, ST_SHAPE, "self must have at least 3 dims, not sizes %s", SIZES(call, self));
    if (sym_less(call->env, groups, 1)) return meta_fail(call, ST_ARGUMENT, "groups must be above 0");
    int64_t each;
    TRY(divided_size(call, 1, groups, &each));
    out_suggested(call, 0, self, self->dtype, self->sizes, self->rank);
    return ST_OK;
}

/* Sizes along dim of what is put before and after self, added up; dtypes joined as cat does. */
static Status joined_size(const MetaCall *call, int dim, int64_t *size, DType *dtype) {
    const Meta *const self = tensor_meta(call, 0);
    *size = self->sizes[dim], *dtype = self->dtype;
    for (int i = 3; i <= 4; i++) {
        const Meta *const more = arg_given(call, i) ? tensor_meta(call, i) : NULL;
        if (!more) continue;
        if (more->rank != self->rank)
            return meta_fail(call, ST_SHAPE, "%s %s must have the dims of self %s", arg_name(call, i),
                             SIZES(call, more), SIZES(call, self));
        for (int d = 0; d < self->rank; d++)
            if (d != dim && !sym_same(call->env, more->sizes[d], self->sizes[d]))
                return meta_fail(call, ST_SHAPE, "%s %s does not fit self %s", arg_name(call, i), SIZES(call, more),
                                 SIZES(call, self));
        *size = sym_add(call->env, *size, more->sizes[dim]);
        *dtype = dtype_promote(*dtype, more->dtype);
    }
    return ST_OK;
}

/* Strides as the cat, if there is one, and each difference of two parts give them. */
static Status repeated_differences(MetaCall *call, int dim, DType dtype, int64_t *sizes) {
    const Meta *const self = tensor_meta(call, 0);
    const int64_t n = call->args[1].i, size = sizes[dim];
    Val *parts[3];
    int count = 0;
    out_like(call, 0, self, dtype);
    if (!n) return ST_OK;
    if (sym_less(call->env, size, n)) {
        sizes[dim] = 0;
        out_plain(call, 0, dtype, self->device, sizes, self->rank);
        return ST_OK;
    }
    if (arg_given(call, 3)) parts[count++] = call->args[3].val;
    parts[count++] = call->args[0].val;
    if (arg_given(call, 4)) parts[count++] = call->args[4].val;
    Meta from = *self;
    if (count > 1) {
        const Arg args[] = {A_VALS(parts, count), A_INT(dim)};
        TRY(rule_with(call, meta_cat, args));
        from.sizes = sizes, from.strides = call->out[0].strides;
    }
    for (int64_t k = 1; k <= n; k++) {
        const MetaOut last = call->out[0];
        from.strides = k == 1 && count == 1 ? self->strides : last.strides;
        from.dtype = dtype;
        sizes[dim] = sym_sub(call->env, size, k);
        TRY(joined_parts(call, &from, sizes));
    }
    return ST_OK;
}

Status meta_diff(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const int64_t n = call->args[1].i;
    int64_t sizes[MAX_RANK], size;
    DType dtype;
    int dim;
    if (!self->rank) return meta_fail(call, ST_SHAPE, "self must have a dim at least");
    if (n < 0) return meta_fail(call, ST_ARGUMENT, "n must not be negative, but is %lld", (long long)n);
    TRY(wrap_dim(call, call->args[2].i, self->rank, "dim", &dim));
    TRY(joined_size(call, dim, &size, &dtype));
    if (!n) size = self->sizes[dim], dtype = self->dtype;
    memcpy(sizes, self->sizes, sizeof *sizes * (size_t)self->rank);
    sizes[dim] = size;
    return repeated_differences(call, dim, dtype, sizes);
}

Status meta_isclose(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0), *const other = tensor_meta(call, 1);
    if (self->dtype != other->dtype)
        return meta_fail(call, ST_DTYPE, "self is %s, but other is %s", dtype_name(self->dtype),
                         dtype_name(other->dtype));
    for (int i = 2; i <= 3; i++)
        if (!(arg_double(&call->args[i]) >= 0))
            return meta_fail(call, ST_VALUE, "%s must not be negative, but is %g", arg_name(call, i),
                             arg_double(&call->args[i]));
    Elementwise e = {0};
    TRY(elementwise(call, &e));
    return elementwise_out(call, &e, DT_bool);
}

/* That of the copies in f64. */
Status meta_float_power(MetaCall *call) {
    Elementwise e = {0};
    Meta wide[2];
    int64_t strides[2][MAX_RANK];
    for (int i = 0; i < 2; i++) {
        elementwise_add(call, &e, i);
        if (e.in[i]->dtype == DT_f64 || e.in[i]->wrapped) continue;
        wide[i] = *e.in[i];
        preserved_strides(call->env, e.in[i], strides[i]);
        wide[i].strides = strides[i];
        wide[i].contiguous = meta_is_contiguous(call->env, wide[i].sizes, strides[i], wide[i].rank);
        e.in[i] = &wide[i];
    }
    return elementwise_out(call, &e, DT_f64);
}

Status meta_isin(MetaCall *call) {
    Meta numbers[2];
    const Meta *const elements = arg_meta(call, 0, &numbers[0]), *const test = arg_meta(call, 1, &numbers[1]);
    for (int i = 0; i < 2; i++)
        if (arg_meta(call, i, &numbers[i])->dtype == DT_bool)
            return meta_fail(call, ST_DTYPE, "%s is bool; it needs ints or floats", arg_name(call, i));
    if (!elements->wrapped && !test->wrapped) TRY(same_device(call, elements, test));
    out_plain(call, 0, DT_bool, elements->wrapped ? test->device : elements->device, elements->sizes, elements->rank);
    return ST_OK;
}

Status meta_trace(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    if (self->rank != 2) return meta_fail(call, ST_SHAPE, "self must be a matrix, not of sizes %s", SIZES(call, self));
    out_plain(call, 0, dtype_is_float(self->dtype) ? self->dtype : DT_i64, self->device, NULL, 0);
    return ST_OK;
}

Status meta_dist(MetaCall *call) {
    Elementwise e = {0};
    for (int i = 0; i < 2; i++) elementwise_add(call, &e, i);
    TRY(elementwise_out(call, &e, promoted(&e)));
    if (!dtype_is_float(promoted(&e)))
        return meta_fail(call, ST_DTYPE, "self must be floating point, not %s", dtype_name(promoted(&e)));
    out_plain(call, 0, promoted(&e), e.in[0]->device, NULL, 0);
    return ST_OK;
}

Status meta_cosine_similarity(MetaCall *call) {
    Elementwise e = {0};
    int64_t sizes[MAX_RANK];
    int dim, n = 0;
    TRY(elementwise(call, &e));
    if (!dtype_is_float(e.common))
        return meta_fail(call, ST_DTYPE, "x1 must be floating point, not %s", dtype_name(e.common));
    TRY(elementwise_out(call, &e, e.common));
    const MetaOut all = call->out[0];
    TRY(wrap_dim(call, call->args[2].i, all.rank, "dim", &dim));
    for (int d = 0; d < all.rank; d++)
        if (d != dim) sizes[n++] = all.sizes[d];
    out_plain(call, 0, e.common, all.device, sizes, n);
    return number_within(call, 3, (FloatLimit){0, INFINITY}, "not negative");
}
