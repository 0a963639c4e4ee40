/* cpu_view_scatter.c: sn::view_scatter on the CPU: self copied, then src stored at the view. The
 * in-place form, which the reinplace pass proves safe, writes self's memory and copies nothing.
 * Data moves unchanged, so payloads stay, but for bools, which are stored as 0 or 1 [B1]. */
#include "runtime/core/dispatch.h"
#include "runtime/cpu/cpu_copy.h"

OpKernel cpu_view_scatter;

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
    sn_tensor *const out = call->outs[0];
    if (tensor_data(out) != tensor_data(self) && base->numel) tensor_copy_into(out, self);
    if (!part->numel) return ST_OK;
    TRY(check_inside(call, out, part));
    char *const at = (char *)tensor_data(out) + call->args[4].i * dtype_bytes(base->dtype);
    const StridedSpan to = {at, base->dtype, call->args[3].ints}, from = span_of(src);
    span_copy(&to, &from, part->sizes, part->rank);
    return ST_OK;
}
