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

/* Text graphs can say anything. The end is a double, as in eager's check of as_strided. */
static Status check_inside(const OpCall *call, const sn_tensor *out, const Meta *part) {
    int64_t span;
    const double bytes = dtype_bytes(part->dtype), room = (double)out->storage->bytes;
    const bool fits = meta_span(part->sizes, call->args[3].ints, part->rank, &span) &&
                      ((double)out->offset + (double)call->args[4].i) >= 0 &&
                      ((double)out->offset + (double)call->args[4].i + (double)span) * bytes <= room;
    return fits ? ST_OK : error_raise(ST_VALUE, "%s: the view leaves self's memory", call->row->name);
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
    TRY(check_inside(call, call->outs[0], part));
    const Strided view = {part->sizes, call->args[3].ints, part->strides, part->rank, bytes};
    copy_dims(out + call->args[4].i * bytes, tensor_data(src), &view, 0);
    return ST_OK;
}
