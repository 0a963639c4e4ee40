/* cuda_foreign.c: streams of other libraries, which share memory with tensors (DLPack): one of ours waits for one of
 * theirs, or the other way round, by an event that nobody else sees. What they find wrong is theirs, and of ours no
 * check is open when memory is lent. */
#include "runtime/cuda/cuda_internal.h"

static Status one_after(CudaDevice *device, CuStream first, CuStream then) {
    const Driver *const driver = device->driver;
    CuEvent event;
    TRY(cuda_answer(device, "an event", driver->EventCreate(&event, CU_event_no_timing)));
    Status status = cuda_answer(device, "an event", driver->EventRecord(event, first));
    if (status == ST_OK) status = cuda_answer(device, "a wait", driver->StreamWaitEvent(then, event, 0));
    driver->EventDestroy(event);
    return status;
}

Status cuda_lend(sn_stream *base, void *to) {
    CudaStream *const stream = (CudaStream *)base;
    TRY(cuda_enter(stream->device));
    Status status = cuda_checks_read(stream);
    if (status == ST_OK) status = one_after(stream->device, stream->handle, to);
    cuda_leave(stream->device);
    return status;
}

Status cuda_borrow(sn_stream *base, void *from) {
    CudaStream *const stream = (CudaStream *)base;
    TRY(cuda_enter(stream->device));
    const Status status = one_after(stream->device, from, stream->handle);
    cuda_leave(stream->device);
    return status;
}

void cuda_drain(const Memory *memory) {
    CudaDevice *const device = cuda_device_of_memory(memory);
    if (device->lost || device->driver->CtxPushCurrent(device->context) != CU_success) return;
    device->driver->CtxSynchronize();
    cuda_leave(device);
}
