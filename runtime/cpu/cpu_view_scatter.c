/* cpu_view_scatter.c: sn::view_scatter on the CPU: self copied, then src stored at the view. The
 * in-place form, which the reinplace pass proves safe, writes self's memory and copies nothing.
 * Data moves unchanged, so payloads stay [B1]. */
#include "runtime/core/dispatch.h"

OpKernel cpu_view_scatter;

typedef struct Strided {
    const int64_t *sizes, *to, *from;
    int rank, bytes;
} Strided;

static void copy_row(char *to, const char *from, const Strided *s) {
    const int64_t n = s->sizes[s->rank - 1], a = s->to[s->rank - 1] * s->bytes, b = s->from[s->rank - 1] * s->bytes;
    if (a == s->bytes && b == s->bytes) {
        memcpy(to, from, (size_t)(n * s->bytes));
        return;
    }
    for (int64_t i = 0; i < n; i++) memcpy(to + i * a, from + i * b, (size_t)s->bytes);
}

static void copy_dims(char *to, const char *from, const Strided *s, int dim) {
    if (s->rank == 0)
        memcpy(to, from, (size_t)s->bytes);
    else if (dim == s->rank - 1)
        copy_row(to, from, s);
    else
        for (int64_t i = 0; i < s->sizes[dim]; i++)
            copy_dims(to + i * s->to[dim] * s->bytes, from + i * s->from[dim] * s->bytes, s, dim + 1);
}

Status cpu_view_scatter(OpCall *call) {
    const sn_tensor *const self = tensor_of(call->args[0].val), *const src = tensor_of(call->args[1].val);
    const Meta *const base = self->base.meta, *const part = src->base.meta;
    const int bytes = dtype_bytes(base->dtype);
    char *const out = tensor_data(call->outs[0]);
    if (out != tensor_data(self) && base->numel) {
        const Strided whole = {base->sizes, call->outs[0]->base.meta->strides, base->strides, base->rank, bytes};
        copy_dims(out, tensor_data(self), &whole, 0);
    }
    if (!part->numel) return ST_OK;
    const Strided view = {part->sizes, call->args[3].ints, part->strides, part->rank, bytes};
    copy_dims(out + call->args[4].i * bytes, tensor_data(src), &view, 0);
    return ST_OK;
}
