/* cuda_stream.c: see cuda_stream.h. A stream does not wait for CUDA's default one, on which other libraries of the
 * process may work. */
#include "runtime/cuda/cuda_stream.h"

#include "runtime/cuda/cuda_internal.h"

Status cuda_stream_open(CudaStream *stream, CudaDevice *device) {
    const Driver *const driver = device->driver;
    stream->device = device;
    TRY(cuda_answer(device, "its context", driver->CtxPushCurrent(device->context)));
    Status status = cuda_answer(device, "a stream", driver->StreamCreate(&stream->handle, CU_stream_non_blocking));
    if (status == ST_OK) status = cuda_checks_open(stream);
    cuda_leave(device);
    return status;
}

CudaStream *cuda_stream(CudaDevice *device) { return &device->own; }

Status cuda_wait(CudaStream *stream, const char *what) {
    CudaDevice *const device = stream->device;
    return cuda_answer(device, what, device->driver->StreamSynchronize(stream->handle));
}
