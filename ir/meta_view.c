/* meta_view.c: the stride rules of views: results that share an argument's storage. A rule that cannot express its
 * result by strides says so and names contiguous() or reshape(). */
#include "ir/meta_rules.h"

static void view_out(MetaCall *call, const Meta *in, const int64_t *sizes, const int64_t *strides, int rank,
                     int64_t offset) {
    MetaOut *out = &call->out[0];
    out_set(out, in->dtype, in->device, sizes, rank);
    if (rank) memmove(out->strides, strides, sizeof *strides * (size_t)rank);
    out->alias = 0;
    out->offset = offset;
}

/* -1 becomes what the other sizes leave; products must agree. */
static Status infer_size(const MetaCall *call, const Meta *in, const Arg *size, int64_t *sizes) {
    int unknown = -1;
    int64_t known = 1;
    SymEnv *env = call->env;
    for (int i = 0; i < size->n; i++) {
        sizes[i] = size->ints[i];
        if (sym_identical(sizes[i], -1)) {
            if (unknown >= 0)
                return meta_fail(call, ST_ARGUMENT, "only one size can be -1: %s",
                                 sizes_text(call, size->ints, size->n).at);
            unknown = i;
        } else if (!sym_is(sizes[i]) && sizes[i] < 0) {
            return meta_fail(call, ST_ARGUMENT, "size %lld is negative", (long long)sizes[i]);
        } else {
            known = sym_mul(env, known, sizes[i]);
        }
    }
    bool fits;
    if (unknown < 0) {
        fits = sym_same(env, known, in->numel);
    } else {
        if (sym_same(env, known, 0))
            return meta_fail(call, ST_ARGUMENT, "-1 can't be inferred: %s holds no elements",
                             sizes_text(call, size->ints, size->n).at);
        fits = sym_same(env, sym_mod(env, in->numel, known), 0);
        if (fits) sizes[unknown] = sym_div(env, in->numel, known);
    }
    if (fits) return ST_OK;
    return meta_fail(call, ST_SHAPE, "sizes %s are invalid for self %s", sizes_text(call, size->ints, size->n).at,
                     SIZES(call, in));
}

/* Old dims that lie like one are walked from the last; new dims must tile each such run (ATen computeStride). */
bool meta_view_strides(SymEnv *env, const Meta *in, const int64_t *sizes, int rank, int64_t *strides) {
    if (sym_same(env, in->numel, 0)) {
        meta_contiguous_strides(env, sizes, rank, strides);
        return true;
    }
    if (meta_decide_contiguous(env, in) || !in->rank) {
        meta_contiguous_strides(env, sizes, rank, strides);
        return true;
    }
    int at = rank - 1;
    int64_t base = in->strides[in->rank - 1], run = 1, filled = 1;
    for (int i = in->rank - 1; i >= 0; i--) {
        run = sym_mul(env, run, in->sizes[i]);
        const bool ends = i == 0 || (!sym_identical(in->strides[i - 1], sym_mul(env, run, base)) &&
                                     !sym_same(env, in->sizes[i - 1], 1) &&
                                     !sym_same(env, in->strides[i - 1], sym_mul(env, run, base)));
        if (!ends) continue;
        while (at >= 0 && (sym_less(env, filled, run) || sym_same(env, sizes[at], 1))) {
            strides[at] = sym_mul(env, filled, base);
            filled = sym_mul(env, filled, sizes[at]);
            at--;
        }
        if (!sym_same(env, filled, run)) return false;
        if (i > 0) base = in->strides[i - 1], run = 1, filled = 1;
    }
    return at == -1;
}

Status meta_view(MetaCall *call) {
    const Meta *in = tensor_meta(call, 0);
    const Arg *size = &call->args[1];
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    if (size->n > MAX_RANK) return meta_fail(call, ST_ARGUMENT, "more than %d dims", MAX_RANK);
    TRY(infer_size(call, in, size, sizes));
    if (!meta_view_strides(call->env, in, sizes, size->n, strides))
        return meta_fail(call, ST_SHAPE,
                         "sizes %s are not a view of self %s with its strides; use reshape(), or "
                         "contiguous() first",
                         sizes_text(call, sizes, size->n).at, SIZES(call, in));
    view_out(call, in, sizes, strides, size->n, 0);
    return ST_OK;
}

Status meta_expand(MetaCall *call) {
    const Meta *in = tensor_meta(call, 0);
    const Arg *size = &call->args[1];
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    const int lead = size->n - in->rank;
    if (lead < 0 || size->n > MAX_RANK)
        return meta_fail(call, ST_SHAPE, "sizes %s have fewer dims than self %s",
                         sizes_text(call, size->ints, size->n).at, SIZES(call, in));
    for (int i = size->n - 1; i >= 0; i--) {
        int64_t want = size->ints[i];
        const int64_t own = i >= lead ? in->sizes[i - lead] : 1;
        strides[i] = i >= lead       ? in->strides[i - lead]
                     : in->rank == 0 ? 0
                                     : sym_mul(call->env, sizes[i + 1], strides[i + 1]);
        if (sym_identical(want, -1)) {
            if (i < lead) return meta_fail(call, ST_SHAPE, "-1 is not allowed for the new dim %d", i);
            want = own;
        }
        if (!sym_is(want) && want < 0) return meta_fail(call, ST_SHAPE, "size %lld is negative", (long long)want);
        if (meta_beside_one(call->env, own, want) || !sym_same(call->env, own, want)) {
            if (!sym_same(call->env, own, 1))
                return meta_fail(call, ST_SHAPE, "self %s does not expand to %s at dim %d", SIZES(call, in),
                                 sizes_text(call, size->ints, size->n).at, i);
            strides[i] = 0;
        }
        sizes[i] = want;
    }
    view_out(call, in, sizes, strides, size->n, 0);
    return check_numel(call, sizes, size->n);
}

/* reshape and its kind: a view where the strides allow it, else a fresh contiguous copy. */
static Status reshaped(MetaCall *call, const Meta *in, const Arg *size) {
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    if (size->n > MAX_RANK) return meta_fail(call, ST_ARGUMENT, "more than %d dims", MAX_RANK);
    TRY(infer_size(call, in, size, sizes));
    if (meta_view_strides(call->env, in, sizes, size->n, strides))
        view_out(call, in, sizes, strides, size->n, 0);
    else
        out_plain(call, 0, in->dtype, in->device, sizes, size->n);
    return ST_OK;
}

Status meta_reshape(MetaCall *call) { return reshaped(call, tensor_meta(call, 0), &call->args[1]); }

Status meta_reshape_as(MetaCall *call) {
    const Meta *other = tensor_meta(call, 1);
    const Arg size = A_INTS(other->sizes, other->rank);
    return reshaped(call, tensor_meta(call, 0), &size);
}

/* The same rule with another tensor's sizes in place of the size argument. */
static Status with_sizes_of_other(MetaCall *call, MetaFn *rule) {
    const Meta *other = tensor_meta(call, 1);
    const Arg args[2] = {call->args[0], A_INTS(other->sizes, other->rank)};
    const Arg *given = call->args;
    call->args = args;
    const Status status = rule(call);
    call->args = given;
    return status;
}

Status meta_view_as(MetaCall *call) { return with_sizes_of_other(call, meta_view); }
Status meta_expand_as(MetaCall *call) { return with_sizes_of_other(call, meta_expand); }

Status meta_flatten(MetaCall *call) {
    const Meta *in = tensor_meta(call, 0);
    int first = 0, last = 0, n = 0;
    int64_t sizes[MAX_RANK], merged = 1;
    TRY(wrap_dim(call, call->args[1].i, in->rank, "start_dim", &first));
    TRY(wrap_dim(call, call->args[2].i, in->rank, "end_dim", &last));
    if (first > last) return meta_fail(call, ST_ARGUMENT, "start_dim %d comes after end_dim %d", first, last);
    if (!in->rank || first == last) {
        const Arg same = in->rank ? A_INTS(in->sizes, in->rank) : A_INTS(&merged, 1);
        if (!in->rank) return reshaped(call, in, &same);
        view_out(call, in, in->sizes, in->strides, in->rank, 0);
        return ST_OK;
    }
    for (int dim = 0; dim < in->rank; dim++) {
        if (dim < first || dim > last)
            sizes[n++] = in->sizes[dim];
        else
            merged = sym_mul(call->env, merged, in->sizes[dim]);
        if (dim == last) sizes[n++] = merged;
    }
    const Arg size = A_INTS(sizes, n);
    return reshaped(call, in, &size);
}

Status meta_unflatten(MetaCall *call) {
    const Meta *in = tensor_meta(call, 0);
    const Arg *parts = &call->args[2];
    int at = 0, n = 0;
    int64_t sizes[2 * MAX_RANK], inner[MAX_RANK];
    TRY(wrap_dim(call, call->args[1].i, in->rank, "dim", &at));
    if (!in->rank || in->rank + parts->n - 1 > MAX_RANK || !parts->n)
        return meta_fail(call, ST_ARGUMENT, "no such split of a dim");
    const Meta one = {.rank = 1, .sizes = &in->sizes[at], .numel = in->sizes[at]};
    TRY(infer_size(call, &one, parts, inner));
    for (int dim = 0; dim < in->rank; dim++) {
        if (dim != at) sizes[n++] = in->sizes[dim];
        for (int i = 0; dim == at && i < parts->n; i++) sizes[n++] = inner[i];
    }
    const Arg size = A_INTS(sizes, n), args[2] = {call->args[0], size};
    const Arg *given = call->args;
    call->args = args;
    const Status status = meta_view(call);
    call->args = given;
    return status;
}

/* Rows of elements of another size: the last dim, which must be dense, grows or shrinks by their ratio. */
static Status view_resized(MetaCall *call, const Meta *self, int from, int to) {
    MetaOut *out = &call->out[0];
    const int last = self->rank - 1, ratio = from > to ? from / to : to / from;
    if (!self->rank) return meta_fail(call, ST_SHAPE, "self has no dim whose size could change");
    if (self->strides[last] != 1)
        return meta_fail(call, ST_SHAPE, "self's last stride must be 1, not %lld", (long long)self->strides[last]);
    if (from < to && self->sizes[last] % ratio)
        return meta_fail(call, ST_SHAPE, "self's last size %lld is no multiple of %d", (long long)self->sizes[last],
                         ratio);
    for (int i = 0; i < last; i++) {
        if (from < to && self->strides[i] % ratio)
            return meta_fail(call, ST_SHAPE, "self's stride %lld of dim %d is no multiple of %d",
                             (long long)self->strides[i], i, ratio);
        out->strides[i] = from > to ? self->strides[i] * ratio : self->strides[i] / ratio;
    }
    out->sizes[last] = from > to ? self->sizes[last] * ratio : self->sizes[last] / ratio;
    out->strides[last] = 1;
    return ST_OK;
}

/* Plain sizes only: no graph holds such a view. */
Status meta_view_dtype(MetaCall *call) {
    const Meta *self = tensor_meta(call, 0);
    const DType dtype = (DType)call->args[1].i;
    const int from = dtype_bytes(self->dtype), to = dtype_bytes(dtype);
    MetaOut *out = &call->out[0];
    out_set(out, dtype, self->device, self->sizes, self->rank);
    if (self->rank) memcpy(out->strides, self->strides, sizeof *self->strides * (size_t)self->rank);
    out->alias = 0;
    out->offset = 0;
    return from == to ? ST_OK : view_resized(call, self, from, to);
}
