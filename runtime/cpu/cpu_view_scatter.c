/* cpu_view_scatter.c: sn::view_scatter on the CPU: self copied, then src stored at the view. The
 * in-place form, which the reinplace pass proves safe, writes self's memory and copies nothing.
 * Data moves unchanged, so payloads stay, but for bools, which are stored as 0 or 1 [B1]. */
#include "runtime/core/dispatch.h"
#include "runtime/cpu/cpu_copy.h"
#include "runtime/device/positions.h"

OpKernel cpu_view_scatter;

Status cpu_view_scatter(OpCall *call) {
    const sn_tensor *const self = tensor_of(call->args[0].val), *const src = tensor_of(call->args[1].val);
    const Meta *const base = self->base.meta, *const part = src->base.meta;
    sn_tensor *const out = call->outs[0];
    if (tensor_data(out) != tensor_data(self) && base->numel) tensor_copy_into(out, self);
    if (!part->numel) return ST_OK;
    TRY(view_scatter_check(call));
    char *const at = (char *)tensor_data(out) + call->args[4].i * dtype_bytes(base->dtype);
    const StridedSpan to = {at, base->dtype, call->args[3].ints}, from = span_of(src);
    span_copy(&to, &from, part->sizes, part->rank);
    return ST_OK;
}
