/* cuda_launch.c: a kernel of a plan on the calling thread's stream: its nests in order, a launch each. */
#include "runtime/base/alloc.h"
#include "runtime/cuda/cuda_code.h"
#include "runtime/cuda/cuda_graph.h"
#include "runtime/device/launch_bind.h"

enum { MOST_VALUES = CUDA_ARGUMENT_BYTES / 8 };

Status cuda_launch_now(CudaDevice *device, const CudaStart *start) {
    CudaStream *const stream = cuda_stream(device);
    TRY(cuda_answer(device, "a launch",
                    device->driver->LaunchKernel(start->function, start->blocks, 1, 1, start->threads, 1, 1,
                                                 start->shared_bytes, stream->handle, start->values, NULL)));
    return cuda_launched(stream);
}

Status cuda_launch_function(CudaDevice *device, const CudaStart *start) {
    return UNLIKELY(cuda_recording != NULL) ? cuda_recorded_launch(device, start) : cuda_launch_now(device, start);
}

Status cuda_launch_nest(CudaDevice *device, const Nest *nest, const CudaStepNest *code, const Bound *bound) {
    int64_t extent[MAX_LOOP_DIMS];
    void *values[MOST_VALUES];
    CudaStream *const stream = cuda_stream(device);
    int n = 0;
    for (int d = 0; d < nest->n_outer; d++) extent[d] = bound_int(bound, nest->extent[d]);
    const int64_t threads = cuda_threads(&code->shape, nest, extent);
    if (!threads) return ST_OK;
    for (int i = 0; i < code->n_bufs; i++) values[n++] = &bound->bufs[code->bufs[i]];
    for (int i = 0; i < code->n_params; i++) values[n++] = &bound->params[code->params[i]];
    int32_t number = code->checked ? cuda_checks_add(stream, code->checked) : 0;
    values[n++] = &number, values[n++] = &stream->checks.word;
    const CudaStart start = {code->function, (unsigned)ceil_div(threads, CUDA_THREADS), CUDA_THREADS, 0, values};
    return cuda_launch_function(device, &start);
}

static Status launch_all(CudaDevice *device, const Kernel *kernel, const CudaStep *code, Bound *bound) {
    TRY(cuda_enter(device));
    Status status = kernel->template ? cuda_template_of(kernel)->run(device, kernel, code, bound) : ST_OK;
    for (int k = 0; !kernel->template && k < code->n && status == ST_OK; k++)
        status = cuda_launch_nest(device, &kernel->nests[k], &code->nests[k], bound);
    cuda_leave(device);
    return status;
}

Status cuda_launch(Launch *launch, int at) {
    const Step *const step = &launch->e->plan->steps.at[at];
    Bound bound;
    Status status = ST_MEMORY;
    if (bound_begin(&bound, step->kernel)) {
        bound_fill(launch, step, &bound);
        status = launch_all(cuda_device_of(launch->e->rows[at]), step->kernel, launch->e->codes[at], &bound);
    }
    bound_end(&bound);
    return status;
}
