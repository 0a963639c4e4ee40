/* cuda_stream.c: see cuda_stream.h. A stream does not wait for CUDA's default one, on which other libraries of the
 * process may work. */
#include "runtime/cuda/cuda_stream.h"

#include "runtime/base/alloc.h"
#include "runtime/core/settings.h"
#include "runtime/cuda/cuda_graph.h"
#include "runtime/cuda/cuda_internal.h"

Status cuda_stream_open(CudaStream *stream, CudaDevice *device) {
    const Driver *const driver = device->driver;
    stream->base.row = &device->row;
    stream->device = device;
    TRY(cuda_answer(device, "a stream", driver->StreamCreate(&stream->handle, CU_stream_non_blocking)));
    TRY(cuda_checks_open(stream));
    pthread_mutex_lock(&device->launches.lock);
    stream->next = device->streams;
    device->streams = stream;
    pthread_mutex_unlock(&device->launches.lock);
    return ST_OK;
}

CudaStream *cuda_stream(CudaDevice *device) {
    CudaStream *const recorded = UNLIKELY(cuda_recording != NULL) ? cuda_recorded_stream(device) : NULL;
    if (UNLIKELY(recorded != NULL)) return recorded;
    sn_stream *const used = stream_in_use(&device->row);
    return UNLIKELY(used != NULL) ? (CudaStream *)used : &device->own;
}

Status cuda_wait(CudaStream *stream, const char *what) {
    CudaDevice *const device = stream->device;
    return cuda_answer(device, what, device->driver->StreamSynchronize(stream->handle));
}

Status cuda_launched(CudaStream *stream) {
    if (LIKELY(!setting_number(SET_launch_blocking)) || cuda_recording)
        return ST_OK; /* a recorded stream runs nothing */
    TRY(cuda_checks_read(stream));
    return cuda_wait(stream, "a kernel");
}

/* What is wrong on one of them does not keep the others from being waited for. */
Status cuda_wait_all(CudaDevice *device) {
    pthread_mutex_lock(&device->launches.lock);
    CudaStream *const streams = device->streams;
    pthread_mutex_unlock(&device->launches.lock);
    Status status = ST_OK;
    for (CudaStream *stream = streams; stream; stream = stream->next) {
        Status one = cuda_checks_read(stream);
        if (one == ST_OK) one = cuda_wait(stream, "the wait");
        if (status == ST_OK) status = one;
    }
    return status;
}

/* the row's ------------------------------------------------------------------------------------- */

static sn_stream *own_stream(const DeviceRow *row) {
    CudaDevice *const device = cuda_device_of(row);
    if (cuda_enter(device) != ST_OK) return NULL;
    cuda_leave(device);
    return &device->own.base;
}

static sn_stream *new_stream(const DeviceRow *row) {
    CudaDevice *const device = cuda_device_of(row);
    CudaStream *const stream = mem_zero(sizeof *stream);
    Status status = stream ? cuda_enter(device) : ST_MEMORY;
    if (status == ST_OK) {
        status = cuda_stream_open(stream, device);
        cuda_leave(device);
    }
    if (status == ST_OK) return &stream->base;
    mem_free(stream);
    return NULL;
}

static Status synchronize_stream(sn_stream *base) {
    CudaStream *const stream = (CudaStream *)base;
    TRY(cuda_enter(stream->device));
    Status status = cuda_checks_read(stream);
    if (status == ST_OK) status = cuda_wait(stream, "the wait");
    cuda_leave(stream->device);
    return status;
}

static Status query_stream(sn_stream *base, bool *done) {
    CudaStream *const stream = (CudaStream *)base;
    CudaDevice *const device = stream->device;
    TRY(cuda_enter(device));
    const CuResult result = device->driver->StreamQuery(stream->handle);
    *done = result == CU_success;
    const Status status = result == CU_not_ready ? ST_OK : cuda_answer(device, "a query", result);
    cuda_leave(device);
    return status;
}

static void *host_alloc(const DeviceRow *row, size_t bytes) {
    CudaDevice *const device = cuda_device_of(row);
    void *memory = NULL;
    if (cuda_enter(device) != ST_OK) return NULL;
    const CuResult result = device->driver->MemHostAlloc(&memory, bytes, CU_host_portable);
    if (result == CU_out_of_memory)
        error_raise(ST_MEMORY, "%s: no memory can be pinned: %zu bytes asked for", device->name, bytes);
    else
        cuda_answer(device, "pinned memory", result);
    cuda_leave(device);
    return result == CU_success ? memory : NULL;
}

/* Nobody can be told. */
static void host_free(const DeviceRow *row, void *memory) {
    CudaDevice *const device = cuda_device_of(row);
    if (device->lost || device->driver->CtxPushCurrent(device->context) != CU_success) return;
    device->driver->MemFreeHost(memory);
    cuda_leave(device);
}

static Status copy_later(sn_stream *base, void *to, const void *from, size_t bytes, sn_copy_way way) {
    CudaStream *const stream = (CudaStream *)base;
    CudaDevice *const device = stream->device;
    const Driver *const driver = device->driver;
    TRY(cuda_enter(device));
    const CuResult result = way == SN_COPY_FROM_HOST
                                ? driver->MemcpyHtoDAsync((CuAddress)(uintptr_t)to, from, bytes, stream->handle)
                                : driver->MemcpyDtoHAsync(to, (CuAddress)(uintptr_t)from, bytes, stream->handle);
    const Status status = cuda_answer(device, "a copy", result);
    cuda_leave(device);
    return status;
}

static Status record_used(const DeviceRow *row, void *block, sn_stream *stream) {
    return caching_used(cuda_device_of(row)->memory, (uintptr_t)block, stream);
}

const StreamRow cuda_streams = {.own = own_stream,
                                .create = new_stream,
                                .synchronize = synchronize_stream,
                                .query = query_stream,
                                .event_new = cuda_event_new,
                                .event_free = cuda_event_free,
                                .record = cuda_event_record,
                                .mark = cuda_event_mark,
                                .wait = cuda_event_wait,
                                .event_query = cuda_event_query,
                                .passed = cuda_event_passed,
                                .event_synchronize = cuda_event_synchronize,
                                .elapsed = cuda_event_elapsed,
                                .host_alloc = host_alloc,
                                .host_free = host_free,
                                .copy_later = copy_later,
                                .used = record_used,
                                .lend = cuda_lend,
                                .borrow = cuda_borrow};
