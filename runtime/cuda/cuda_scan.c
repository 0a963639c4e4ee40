/* cuda_scan.c: cumsum and cumprod on a CUDA device: kernels/cuda/scans.cuh. */
#include "runtime/cuda/cuda_lines.h"

enum { CHUNK = 1024 };

static int dtype_for_kernels(DType dtype) {
    static const int of[DT_COUNT] = {
        [DT_bool] = CUDA_bool, [DT_f64] = CUDA_f64, [DT_f32] = CUDA_f32, [DT_f16] = CUDA_f16, [DT_bf16] = CUDA_bf16,
        [DT_i64] = CUDA_i64,   [DT_i32] = CUDA_i32, [DT_i16] = CUDA_i16, [DT_i8] = CUDA_i8,   [DT_u8] = CUDA_u8};
    return of[dtype];
}

static Status scan_elements(CudaDevice *device, DType dtype, CudaScan *s, void *from, void *to, void *results) {
    return cuda_hand_launch(device, &(CudaHandLaunch){.kernel = HAND_scan_elements,
                                                      .dtype = dtype,
                                                      .threads = s->lines * s->chunks,
                                                      HAND_VALUES(&from, &to, &results, s)});
}

static Status scan_by_chunks(CudaDevice *device, DType dtype, CudaScan *s, void *from, void *to) {
    const size_t bytes = (size_t)(s->lines * s->chunks * stype_bytes(dtype_compute(dtype)));
    void *results = device->row.memory.allocate(&device->row.memory, bytes);
    if (!results) return error_pending();
    Status status = cuda_hand_launch(device, &(CudaHandLaunch){.kernel = HAND_scan_chunks,
                                                               .dtype = dtype,
                                                               .threads = s->lines * s->chunks,
                                                               HAND_VALUES(&from, &results, s)});
    if (status == ST_OK)
        status = cuda_hand_launch(
            device, &(CudaHandLaunch){
                        .kernel = HAND_scan_results, .dtype = dtype, .threads = s->lines, HAND_VALUES(&results, s)});
    if (status == ST_OK) status = scan_elements(device, dtype, s, from, to, results);
    device->row.memory.free(&device->row.memory, results, bytes);
    return status;
}

/* (self, dim, dtype) */
static Status scan(const OpCall *call, bool multiplies) {
    CudaDevice *const device = cuda_hand_device(call);
    const sn_tensor *const self = tensor_of(call->args[0].val), *const out = call->outs[0];
    const Meta *const in = self->base.meta, *const meta = out->base.meta;
    const int dim = meta->rank ? (int)dim_wrap(call->args[1].i, meta->rank) : 0;
    CudaScan s = {.n = 1, .lines = 1, .multiplies = multiplies, .dtype = dtype_for_kernels(in->dtype)};
    if (!meta->numel) return ST_OK;
    if (meta->rank) {
        s.n = meta->sizes[dim], s.lines = meta->numel / s.n;
        s.from = in->strides[dim], s.to = meta->strides[dim];
    }
    s.chunks = ceil_div(s.n, CHUNK);
    cuda_line_dims(&s.dims, meta, dim, 2, (CudaStrides[]){in->strides, meta->strides});
    void *const from = tensor_data(self), *const to = tensor_data(out);
    TRY(cuda_enter(device));
    const Status status = s.chunks == 1 ? scan_elements(device, meta->dtype, &s, from, to, NULL)
                                        : scan_by_chunks(device, meta->dtype, &s, from, to);
    cuda_leave(device);
    return status;
}

Status cuda_cumsum(OpCall *call) { return scan(call, false); }
Status cuda_cumprod(OpCall *call) { return scan(call, true); }
