/* cpu_join.c: native kernels that put tensors together: cat, padding, replaced slices; and fresh
 * memory. They move bits, or cast as a copy does. Lowering writes most of them as loops; these run
 * where it does not. */
#include "runtime/cpu_copy.h"
#include "runtime/cpu_kernels.h"

static const sn_tensor *tensor_arg(const OpCall *call, int i) {
    return tensor_of(call->args[i].val);
}
static int wrap(int64_t dim, int rank) { return (int)(dim < 0 ? dim + (rank ? rank : 1) : dim); }

/* The elements are not set. */
Status cpu_empty(OpCall *call) {
    (void)call;
    return ST_OK;
}

Status cpu_cat(OpCall *call) {
    const sn_tensor *const out = call->outs[0];
    const Meta *const meta = out->base.meta;
    const int dim = wrap(call->args[1].i, meta->rank);
    Span to = span_of(out);
    for (int i = 0; i < call->args[0].n; i++) {
        const sn_tensor *const part = tensor_of(call->args[0].vals[i]);
        if (part->base.meta->rank != meta->rank) continue; /* PyTorch skips empty 1-D tensors */
        const Span from = span_of(part);
        span_copy(&to, &from, part->base.meta->sizes, meta->rank);
        to.at += part->base.meta->sizes[dim] * meta->strides[dim] * dtype_bytes(meta->dtype);
    }
    return ST_OK;
}

Status cpu_constant_pad_nd(OpCall *call) {
    const sn_tensor *const out = call->outs[0], *const self = tensor_arg(call, 0);
    const Meta *const meta = out->base.meta;
    const int bytes = dtype_bytes(meta->dtype);
    Span to = span_of(out), from = span_of(self);
    int64_t sizes[MAX_RANK];
    span_fill(&to, &call->args[2], meta->sizes, meta->rank);
    for (int d = 0; d < meta->rank; d++) sizes[d] = self->base.meta->sizes[d];
    for (int i = 0; 2 * i < call->args[1].n; i++) { /* pairs from the last dim on */
        const int d = meta->rank - 1 - i;
        const int64_t before = call->args[1].ints[2 * i], after = call->args[1].ints[2 * i + 1];
        if (before >= 0)
            to.at += before * meta->strides[d] * bytes;
        else
            from.at -= before * self->base.meta->strides[d] * bytes;
        sizes[d] += min_i64(before, 0) + min_i64(after, 0);
    }
    for (int d = 0; d < meta->rank; d++)
        if (sizes[d] <= 0) return ST_OK;
    span_copy(&to, &from, sizes, meta->rank);
    return ST_OK;
}

static int64_t clamp_end(int64_t at, int64_t size) {
    if (at < 0) at += size;
    return at < 0 ? 0 : min_i64(at, size);
}

static int64_t int_or(const Arg *arg, int64_t fallback) {
    return arg->kind == ARG_none || arg->i == NO_INT ? fallback : arg->i;
}

Status cpu_slice_scatter(OpCall *call) {
    const sn_tensor *const out = call->outs[0], *const src = tensor_arg(call, 1);
    const Meta *const meta = out->base.meta;
    const int dim = wrap(call->args[2].i, meta->rank);
    const int64_t start = clamp_end(int_or(&call->args[3], 0), meta->sizes[dim]),
                  step = call->args[5].i;
    tensor_copy_into(out, tensor_arg(call, 0));
    int64_t strides[MAX_RANK];
    for (int d = 0; d < meta->rank; d++) strides[d] = meta->strides[d] * (d == dim ? step : 1);
    const Span to = {(char *)tensor_data(out) +
                         start * meta->strides[dim] * dtype_bytes(meta->dtype),
                     meta->dtype, strides};
    const Span from = span_of(src);
    span_copy(&to, &from, src->base.meta->sizes, meta->rank);
    return ST_OK;
}

Status cpu_select_scatter(OpCall *call) {
    const sn_tensor *const out = call->outs[0], *const src = tensor_arg(call, 1);
    const Meta *const meta = out->base.meta;
    const int dim = wrap(call->args[2].i, meta->rank);
    const int64_t index =
        call->args[3].i < 0 ? call->args[3].i + meta->sizes[dim] : call->args[3].i;
    tensor_copy_into(out, tensor_arg(call, 0));
    int64_t strides[MAX_RANK];
    for (int d = 0; d + 1 < meta->rank; d++) strides[d] = meta->strides[d < dim ? d : d + 1];
    const Span to = {(char *)tensor_data(out) +
                         index * meta->strides[dim] * dtype_bytes(meta->dtype),
                     meta->dtype, strides};
    const Span from = span_of(src);
    span_copy(&to, &from, src->base.meta->sizes, meta->rank - 1);
    return ST_OK;
}
