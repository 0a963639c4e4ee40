/* cuda_launch.c: a kernel of a plan on the calling thread's stream: its nests as one launch, or a few. */
#include "runtime/base/alloc.h"
#include "runtime/cuda/cuda_code.h"
#include "runtime/cuda/cuda_graph.h"
#include "runtime/device/launch_bind.h"

enum { MOST_VALUES = KERNEL_MOST_ARGS + 2 };

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

static Status launch_one(CudaDevice *device, const Kernel *kernel, const CudaStepLaunch *code, const Bound *bound) {
    CudaStream *const stream = cuda_stream(device);
    void *values[MOST_VALUES];
    KernelArgs args;
    int n = 0;
    cuda_fill(kernel, code->text, &(CudaBound){bound->bufs, bound->params}, &args);
    if (!args.n_blocks) return ST_OK;
    const size_t bytes = (size_t)args.workspace_bytes;
    void *const workspace = bytes ? device->row.memory.allocate(&device->row.memory, bytes) : NULL;
    if (bytes && !workspace) return error_pending();
    cuda_fill_workspace(code->text, (int64_t)(intptr_t)workspace, &args);
    for (; n < code->text->n_arguments; n++) values[n] = &args.at[code->text->arguments[n]];
    int32_t number = code->checked ? cuda_checks_add(stream, code->checked) : 0;
    values[n++] = &number, values[n++] = &stream->checks.word;
    const CudaStart start = {code->function, (unsigned)args.n_blocks, (unsigned)code->text->threads, 0, values};
    const Status status = cuda_launch_function(device, &start);
    if (workspace) device->row.memory.free(&device->row.memory, workspace, bytes); /* in the stream's order */
    return status;
}

Status cuda_launch_nests(CudaDevice *device, const Kernel *kernel, const CudaStep *code, const Bound *bound) {
    for (int k = 0; k < code->n; k++) TRY(launch_one(device, kernel, &code->launches[k], bound));
    return ST_OK;
}

static Status launch_all(CudaDevice *device, const Kernel *kernel, const CudaStep *code, Bound *bound) {
    TRY(cuda_enter(device));
    const Status status = kernel->template ? cuda_template_of(kernel)->run(device, kernel, code, bound)
                                           : cuda_launch_nests(device, kernel, code, bound);
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
