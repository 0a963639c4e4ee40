/* cuda_view_scatter.c: sn::view_scatter on a CUDA device, as on the CPU (runtime/cpu/cpu_view_scatter.c). */
#include "runtime/cuda/cuda_lines.h"
#include "runtime/device/positions.h"

static Status launch_both(CudaDevice *device, const OpCall *call, const Meta *view) {
    const sn_tensor *const self = tensor_of(call->args[0].val), *const src = tensor_of(call->args[1].val),
                           *const out = call->outs[0];
    const Meta *const base = out->base.meta, *const part = src->base.meta;
    if (tensor_data(out) != tensor_data(self))
        TRY(cuda_move(device, &(CudaStridedMove){.dtype = base->dtype,
                                                 .sizes = base->sizes,
                                                 .rank = base->rank,
                                                 .to = tensor_data(out),
                                                 .from = tensor_data(self),
                                                 .to_strides = base->strides,
                                                 .from_strides = self->base.meta->strides}));
    return cuda_move(device,
                     &(CudaStridedMove){.dtype = base->dtype,
                                        .sizes = part->sizes,
                                        .rank = part->rank,
                                        .to = (char *)tensor_data(out) + call->args[4].i * dtype_bytes(base->dtype),
                                        .from = tensor_data(src),
                                        .to_strides = call->args[3].ints,
                                        .from_strides = part->strides,
                                        .in_order = meta_overlaps(view)});
}

/* (self, src, size, stride, offset) */
Status cuda_view_scatter(OpCall *call) {
    CudaDevice *const device = cuda_hand_device(call);
    const Meta *const part = tensor_of(call->args[1].val)->base.meta;
    TRY(view_scatter_check(call));
    const Meta *const view = meta_intern(part->dtype, part->device, part->sizes, call->args[3].ints, part->rank, false);
    if (!view) return error_pending();
    TRY(cuda_enter(device));
    const Status status = launch_both(device, call, view);
    cuda_leave(device);
    return status;
}
