/* cuda_window.c: pools on a CUDA device: kernels/cuda/windows.cuh, told what the call says. */
#include "kernels/cuda/planes.h"
#include "runtime/cuda/cuda_native.h"
#include "runtime/device/spatial.h"

static const sn_tensor *tensor_arg(const OpCall *call, int i) { return tensor_of(call->args[i].val); }

/* The strides of one or two dims of planes, then of n spatial ones. */
static CudaPlanes planes_of(const sn_tensor *t, int n) {
    const Meta *const meta = t->base.meta;
    const int lead = meta->rank - n;
    CudaPlanes planes = {.image = lead > 1 ? meta->strides[0] : 0, .channel = lead ? meta->strides[lead - 1] : 0};
    for (int d = 0; d < n; d++) planes.at[SPATIAL_DIMS - n + d] = meta->strides[lead + d];
    return planes;
}

static void reach_along(const OpCall *call, int n, CudaWindows *w) {
    for (int d = 0; d < SPATIAL_DIMS; d++) {
        const int spatial = d - (SPATIAL_DIMS - n);
        const PoolReach r = spatial < 0 ? (PoolReach){1, 1, 0, 1} : pool_reach(call, spatial);
        w->kernel[d] = r.kernel, w->stride[d] = r.stride, w->padding[d] = r.padding, w->dilation[d] = r.dilation;
    }
}

/* The windows of a forward op with n spatial dims. adaptive: they follow from the sizes of `in` and `out`; else the
 * call's lists give them. */
static CudaWindows windows_of(const OpCall *call, const Meta *in, const Meta *out, int n, bool adaptive) {
    const int lead = in->rank - n;
    CudaWindows w = {.images = lead > 1 ? in->sizes[0] : 1,
                     .channels = lead ? in->sizes[lead - 1] : 1,
                     .divisor = pool_divisor(call),
                     .padded = pool_is_padded(call),
                     .adaptive = adaptive};
    spatial_sizes(in, n, w.in);
    spatial_sizes(out, n, w.out);
    if (!adaptive) reach_along(call, n, &w);
    return w;
}

static Status launch(const OpCall *call, CudaHandLaunch *hand) {
    CudaDevice *const device = cuda_hand_device(call);
    hand->dtype = call->outs[0]->base.meta->dtype;
    TRY(cuda_enter(device));
    const Status status = cuda_hand_launch(device, hand);
    cuda_leave(device);
    return status;
}

static void *address(const sn_tensor *t) { return tensor_data(t); }

Status cuda_max_pool(OpCall *call) {
    const sn_tensor *const self = tensor_arg(call, 0), *const out = call->outs[0], *const index = call->outs[1];
    const int n = pool_dims(call, 1);
    CudaWindows w = windows_of(call, self->base.meta, out->base.meta, n, false);
    w.from = planes_of(self, n), w.to = planes_of(out, n), w.index = planes_of(index, n);
    void *x = address(self), *y = address(out), *at = address(index);
    return launch(call, &(CudaHandLaunch){
                            .kernel = HAND_max_pool, .threads = out->base.meta->numel, HAND_VALUES(&x, &y, &at, &w)});
}

/* Whatever is out of range is found before anything is written. */
static Status check_positions(const OpCall *call, CudaWindows *w, void *index, int64_t n) {
    CudaChecked *const checked = cuda_hand_check(call->row, NULL);
    if (!checked) return ST_MEMORY;
    return launch(call, &(CudaHandLaunch){
                            .kernel = HAND_max_pool_check, .threads = n, .checked = checked, HAND_VALUES(&index, w)});
}

Status cuda_max_pool_backward(OpCall *call) {
    const sn_tensor *const grad = tensor_arg(call, 0), *const index = tensor_arg(call, 7), *const out = call->outs[0];
    const int n = pool_dims(call, 2);
    CudaWindows w = windows_of(call, out->base.meta, grad->base.meta, n, false);
    w.from = planes_of(grad, n), w.to = planes_of(out, n), w.index = planes_of(index, n);
    void *from = address(grad), *at = address(index), *to = address(out);
    TRY(check_positions(call, &w, at, index->base.meta->numel));
    const int64_t plane = w.in[0] * w.in[1] * w.in[2];
    return launch(call, &(CudaHandLaunch){.kernel = HAND_max_pool_back,
                                          .blocks = w.images * w.channels * ceil_div(plane, CUDA_POOL_PART),
                                          HAND_VALUES(&from, &at, &to, &w)});
}

static Status mean(OpCall *call, int n, bool adaptive) {
    const sn_tensor *const self = tensor_arg(call, 0), *const out = call->outs[0];
    const DType dtype = out->base.meta->dtype;
    CudaWindows w = windows_of(call, self->base.meta, out->base.meta, n, adaptive);
    w.narrow = adaptive && n == 3 && (dtype == DT_f16 || dtype == DT_bf16);
    w.from = planes_of(self, n), w.to = planes_of(out, n);
    void *x = address(self), *y = address(out);
    return launch(
        call, &(CudaHandLaunch){.kernel = HAND_mean_pool, .threads = out->base.meta->numel, HAND_VALUES(&x, &y, &w)});
}
Status cuda_avg_pool(OpCall *call) { return mean(call, pool_dims(call, 1), false); }
Status cuda_adaptive_avg_pool(OpCall *call) { return mean(call, pool_dims(call, 1), true); }

static Status mean_backward(OpCall *call, int n, bool adaptive) {
    const sn_tensor *const grad = tensor_arg(call, 0), *const out = call->outs[0];
    CudaWindows w = windows_of(call, out->base.meta, grad->base.meta, n, adaptive);
    w.from = planes_of(grad, n), w.to = planes_of(out, n);
    void *from = address(grad), *to = address(out);
    return launch(call, &(CudaHandLaunch){.kernel = HAND_mean_pool_back,
                                          .threads = out->base.meta->numel,
                                          HAND_VALUES(&from, &to, &w)});
}
Status cuda_avg_pool_backward(OpCall *call) { return mean_backward(call, pool_dims(call, 2), false); }
Status cuda_adaptive_avg_pool2d_backward(OpCall *call) { return mean_backward(call, 2, true); }
Status cuda_adaptive_avg_pool3d_backward(OpCall *call) { return mean_backward(call, 3, true); }
