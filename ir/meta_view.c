/* meta_view.c: the stride rules of views: results that share an argument's storage. A rule that cannot express its
 * result by strides says so and names contiguous() or reshape(). */
#include "ir/meta_rules.h"

static void view_out(MetaCall *call, const Meta *in, const int64_t *sizes, const int64_t *strides, int rank, int64_t offset) {
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
            if (unknown >= 0) return meta_fail(call, ST_ARGUMENT, "only one size can be -1: %s", sizes_text(call, size->ints, size->n).at);
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
            return meta_fail(call, ST_ARGUMENT, "-1 can't be inferred: %s holds no elements", sizes_text(call, size->ints, size->n).at);
        fits = sym_same(env, sym_mod(env, in->numel, known), 0);
        if (fits) sizes[unknown] = sym_div(env, in->numel, known);
    }
    if (fits) return ST_OK;
    return meta_fail(call, ST_SHAPE, "sizes %s are invalid for self %s", sizes_text(call, size->ints, size->n).at, SIZES(call, in));
}

/* Old dims that lie like one are walked from the last; new dims must tile each such run (ATen computeStride). */
static bool view_strides(SymEnv *env, const Meta *in, const int64_t *sizes, int rank, int64_t *strides) {
    if (sym_same(env, in->numel, 0)) {
        meta_contiguous_strides(env, sizes, rank, strides);
        return true;
    }
    if (in->contiguous || !in->rank) {
        meta_contiguous_strides(env, sizes, rank, strides);
        return true;
    }
    int at = rank - 1;
    int64_t base = in->strides[in->rank - 1], run = 1, filled = 1;
    for (int i = in->rank - 1; i >= 0; i--) {
        run = sym_mul(env, run, in->sizes[i]);
        const bool ends = i == 0 || (!sym_same(env, in->sizes[i - 1], 1) &&
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
    if (!view_strides(call->env, in, sizes, size->n, strides))
        return meta_fail(call, ST_SHAPE,
                         "sizes %s are not a view of self %s with its strides; use reshape(), or contiguous() first",
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
        return meta_fail(call, ST_SHAPE, "sizes %s have fewer dims than self %s", sizes_text(call, size->ints, size->n).at, SIZES(call, in));
    for (int i = size->n - 1; i >= 0; i--) {
        int64_t want = size->ints[i];
        const int64_t own = i >= lead ? in->sizes[i - lead] : 1;
        strides[i] = i >= lead ? in->strides[i - lead] : i + 1 < size->n ? sym_mul(call->env, sizes[i + 1], strides[i + 1]) : 1;
        if (sym_identical(want, -1)) {
            if (i < lead) return meta_fail(call, ST_SHAPE, "-1 is not allowed for the new dim %d", i);
            want = own;
        }
        if (!sym_is(want) && want < 0) return meta_fail(call, ST_SHAPE, "size %lld is negative", (long long)want);
        if (!sym_same(call->env, own, want)) {
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
