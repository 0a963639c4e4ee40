/* meta_internal.c: meta rules of the rows that only graphs use (ops/internal.def). */
#include "ir/meta_rules.h"

MetaFn meta_gradients, meta_restride, meta_zeros_strided, meta_view_of, meta_view_scatter;

/* A layout by numbers is one that memory can have. */
static Status check_layout(const MetaCall *call, const Arg *sizes, const Arg *strides) {
    int64_t span;
    bool plain = true;
    if (sizes->n > MAX_RANK) return meta_fail(call, ST_SHAPE, "%d dims; at most %d", sizes->n, MAX_RANK);
    TRY(check_numel(call, sizes->ints, sizes->n));
    for (int i = 0; i < sizes->n; i++) {
        plain = plain && !sym_is(sizes->ints[i]) && !sym_is(strides->ints[i]);
        if (!sym_is(strides->ints[i]) && strides->ints[i] < 0)
            return meta_fail(call, ST_ARGUMENT, "stride %lld of dim %d is negative", (long long)strides->ints[i], i);
    }
    if (plain && (!meta_span(sizes->ints, strides->ints, sizes->n, &span) || !mul_ok(span, 8, &span)))
        return meta_fail(call, ST_SHAPE, "no memory is as long as these sizes and strides");
    return ST_OK;
}

/* As the tape lays out what becomes .grad: like the leaf where that is dense, else row-major. */
Status meta_gradients(MetaCall *call) {
    const Arg *const roots = &call->args[0], *const grads = &call->args[1], *const leaves = &call->args[2];
    if (roots->n != grads->n) return meta_fail(call, ST_ARGUMENT, "%d roots with %d gradients", roots->n, grads->n);
    for (int i = 0; i < leaves->n; i++) {
        const Meta *const leaf = leaves->vals[i]->meta;
        MetaOut *const out = out_list(call, i);
        if (!out) continue;
        out_plain(call, i, leaf->dtype, leaf->device, leaf->sizes, leaf->rank);
        if (meta_decide_contiguous(call->env, leaf) || /* one without elements, whatever its strides */
            dense_non_overlapping(call->env, leaf->sizes, leaf->strides, leaf->rank))
            memcpy(out->strides, leaf->strides, sizeof *leaf->strides * (size_t)leaf->rank);
    }
    call->n_out = leaves->n;
    return ST_OK;
}

Status meta_restride(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const Arg *const strides = &call->args[1];
    if (strides->n != self->rank)
        return meta_fail(call, ST_SHAPE, "%d strides for a tensor of sizes %s", strides->n, SIZES(call, self));
    const Arg sizes = A_INTS(self->sizes, self->rank);
    TRY(check_layout(call, &sizes, strides));
    MetaOut *const out = &call->out[0];
    out_set(out, dtype_arg(call, "dtype", self->dtype), self->device, self->sizes, self->rank);
    memcpy(out->strides, strides->ints, sizeof(int64_t) * (size_t)self->rank);
    return ST_OK;
}

Status meta_zeros_strided(MetaCall *call) {
    const Arg *const sizes = &call->args[0], *const strides = &call->args[1];
    if (sizes->n != strides->n) return meta_fail(call, ST_SHAPE, "%d sizes with %d strides", sizes->n, strides->n);
    TRY(check_layout(call, sizes, strides));
    MetaOut *const out = &call->out[0];
    const Arg *const device = &call->args[3];
    out_set(out, (DType)call->args[2].i, device->kind == ARG_int ? (Device)device->i : DEV_cpu, sizes->ints, sizes->n);
    memcpy(out->strides, strides->ints, sizeof(int64_t) * (size_t)strides->n);
    return ST_OK;
}

Status meta_view_of(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const Arg *const sizes = &call->args[1], *const strides = &call->args[2];
    if (sizes->n != strides->n) return meta_fail(call, ST_SHAPE, "%d sizes with %d strides", sizes->n, strides->n);
    TRY(check_layout(call, sizes, strides));
    MetaOut *const out = &call->out[0];
    out_set(out, self->dtype, self->device, sizes->ints, sizes->n);
    memcpy(out->strides, strides->ints, sizeof(int64_t) * (size_t)strides->n);
    out->alias = 0;
    out->offset = call->args[3].i;
    return ST_OK;
}

Status meta_view_scatter(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0), *const src = tensor_meta(call, 1);
    const Arg *const sizes = &call->args[2];
    if (sizes->n != src->rank || call->args[3].n != src->rank)
        return meta_fail(call, ST_SHAPE, "a view of rank %d for a source of sizes %s", sizes->n, SIZES(call, src));
    for (int i = 0; i < src->rank; i++)
        if (!sym_same(call->env, sizes->ints[i], src->sizes[i]))
            return meta_fail(call, ST_SHAPE, "a view of other sizes than the source's %s", SIZES(call, src));
    TRY(check_layout(call, sizes, &call->args[3]));
    if (sym_same(call->env, self->numel, 0) &&
        !sym_same(call->env, src->numel, 0)) /* no kernel runs for such a result */
        return meta_fail(call, ST_VALUE, "src %s is written into self %s, which has no elements", SIZES(call, src),
                         SIZES(call, self));
    if (self->dtype != src->dtype)
        return meta_fail(call, ST_DTYPE, "%s written into %s", dtype_name(src->dtype), dtype_name(self->dtype));
    MetaOut *const out = &call->out[0];
    out_set(out, self->dtype, self->device, self->sizes, self->rank);
    memcpy(out->strides, self->strides, sizeof(int64_t) * (size_t)self->rank);
    return ST_OK;
}
