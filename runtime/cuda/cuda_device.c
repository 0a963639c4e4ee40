/* cuda_device.c: see cuda_device.h. Work runs in the order of the calling thread's stream: copies from and to the host
 * wait for it, copies within and fills do not.
 *
 * Every call is made between cuda_enter and cuda_leave: the first makes the device's context the thread's, the other
 * puts back the one that the caller had. A result that means that the context is gone (an illegal address in a kernel,
 * an uncorrectable memory error) makes the device lost: it stays so, each later call says it without asking the driver,
 * and the CPU and other devices go on. */
#include <stdio.h>

#include "runtime/base/error.h"
#include "runtime/core/custom_op.h"
#include "runtime/cuda/cuda_graph.h"
#include "runtime/cuda/cuda_memory.h"
#include "runtime/cuda/cuda_native.h"
#include "runtime/cuda/cuda_user.h"
#include "runtime/eager/eager.h"

static CudaDevice devices[CUDA_MOST_DEVICES];

static int ordinal_of(const CudaDevice *device) { return (int)(device - devices); }

static Status raise_lost(const CudaDevice *device) {
    return error_raise(ST_DEVICE, "%s is lost since %s: what was on it is gone", device->name,
                       driver_text(device->lost, &(DriverText){{0}}));
}

/* Results of calls that have an error of their own are looked at before. */
Status cuda_answer(CudaDevice *device, const char *what, CuResult result) {
    if (LIKELY(result == CU_success)) return ST_OK;
    if (driver_lost(result)) {
        atomic_store(&device->lost, result);
        return raise_lost(device);
    }
    if (result == CU_not_initialized)
        return error_raise(ST_DEVICE, "%s: %s: a process that was forked after CUDA's first use cannot use it",
                           device->name, what);
    return error_raise(ST_DEVICE, "%s: %s failed: %s", device->name, what, driver_text(result, &(DriverText){{0}}));
}

/* opening ------------------------------------------------------------------------------------- */

static Status check_ordinal(const CudaDevice *device, const Driver *driver) {
    if (ordinal_of(device) < driver->devices) return ST_OK;
    return error_raise(ST_DEVICE, "there is no %s: this machine has %d CUDA device%s", device->name, driver->devices,
                       driver->devices == 1 ? "" : "s");
}

static int attribute(const Driver *driver, CuAttribute attribute, CuDevice handle) {
    int value = 0;
    driver->DeviceGetAttribute(&value, attribute, handle);
    return value;
}

static Status open_own(CudaDevice *device) {
    TRY(cuda_answer(device, "its context", device->driver->CtxPushCurrent(device->context)));
    const Status status = cuda_stream_open(&device->own, device);
    cuda_leave(device);
    return status;
}

static Status open_locked(CudaDevice *device) {
    CuDevice handle;
    if (device->is_open) return ST_OK;
    TRY(driver_open(&device->driver));
    TRY(check_ordinal(device, device->driver));
    TRY(cuda_answer(device, "the device", device->driver->DeviceGet(&handle, ordinal_of(device))));
    TRY(cuda_answer(device, "its context", device->driver->DevicePrimaryCtxRetain(&device->context, handle)));
    device->arch = 10 * attribute(device->driver, CU_capability_major, handle) +
                   attribute(device->driver, CU_capability_minor, handle);
    device->multiprocessors = attribute(device->driver, CU_multiprocessors, handle);
    TRY(cuda_memory_open(device));
    TRY(open_own(device));
    atomic_store_explicit(&device->is_open, true, memory_order_release);
    return ST_OK;
}

static Status open_device(CudaDevice *device) {
    if (LIKELY(atomic_load_explicit(&device->is_open, memory_order_acquire))) return ST_OK;
    pthread_mutex_lock(&device->opening);
    const Status status = open_locked(device);
    pthread_mutex_unlock(&device->opening);
    return status;
}

Status cuda_enter(CudaDevice *device) {
    TRY(open_device(device));
    if (UNLIKELY(device->lost)) return raise_lost(device);
    return cuda_answer(device, "its context", device->driver->CtxPushCurrent(device->context));
}

void cuda_leave(const CudaDevice *device) { device->driver->CtxPopCurrent(&(CuContext){0}); }

/* the row ------------------------------------------------------------------------------------- */

static Status copy_entered(CudaDevice *device, void *to, const void *from, size_t bytes, sn_copy_way way) {
    const Driver *const driver = device->driver;
    CudaStream *const stream = cuda_stream(device);
    TRY(cuda_checks_read(stream));
    const CuAddress there = (CuAddress)(uintptr_t)to, here = (CuAddress)(uintptr_t)from;
    if (way == SN_COPY_WITHIN)
        return cuda_answer(device, "a copy", driver->MemcpyDtoDAsync(there, here, bytes, stream->handle));
    if (way == SN_COPY_FROM_HOST)
        TRY(cuda_answer(device, "a copy from the host", driver->MemcpyHtoDAsync(there, from, bytes, stream->handle)));
    else
        TRY(cuda_answer(device, "a copy to the host", driver->MemcpyDtoHAsync(to, here, bytes, stream->handle)));
    return cuda_wait(stream, "a copy");
}

static Status copy(const Memory *memory, void *to, const void *from, size_t bytes, sn_copy_way way) {
    CudaDevice *const device = cuda_device_of_memory(memory);
    TRY(cuda_enter(device));
    const Status status = copy_entered(device, to, from, bytes, way);
    cuda_leave(device);
    return status;
}

static Status fill(const Memory *memory, void *block, int byte, size_t bytes) {
    CudaDevice *const device = cuda_device_of_memory(memory);
    TRY(cuda_enter(device));
    CudaStream *const stream = cuda_stream(device);
    Status status = cuda_checks_read(stream);
    if (status == ST_OK)
        status = cuda_answer(
            device, "a fill",
            device->driver->MemsetD8Async((CuAddress)(uintptr_t)block, (unsigned char)byte, bytes, stream->handle));
    cuda_leave(device);
    return status;
}

static Status synchronize(const DeviceRow *row) {
    CudaDevice *const device = cuda_device_of(row);
    TRY(cuda_enter(device));
    const Status status = cuda_wait_all(device);
    cuda_leave(device);
    return status;
}

static const Memory *other(Device device) {
    return device - DEV_cuda < CUDA_MOST_DEVICES ? &devices[device - DEV_cuda].row.memory : NULL;
}

static int count(void) {
    const char *why;
    const Driver *const driver = driver_find(&why);
    return !driver ? 0 : driver->devices < CUDA_MOST_DEVICES ? driver->devices : CUDA_MOST_DEVICES;
}

/* facts --------------------------------------------------------------------------------------- */

Status cuda_facts(int ordinal, CudaFacts *out) {
    const Driver *driver;
    CuDevice handle;
    size_t bytes = 0;
    TRY(driver_open(&driver));
    TRY(check_ordinal(&devices[ordinal], driver));
    TRY(cuda_answer(&devices[ordinal], "the device", driver->DeviceGet(&handle, ordinal)));
    *out = (CudaFacts){.multiprocessors = attribute(driver, CU_multiprocessors, handle),
                       .capability = 10 * attribute(driver, CU_capability_major, handle) +
                                     attribute(driver, CU_capability_minor, handle)};
    driver->DeviceGetName(out->name, sizeof out->name, handle);
    driver->DeviceTotalMem(&bytes, handle);
    out->bytes = (int64_t)bytes;
    return ST_OK;
}

static Status cuda_properties(const DeviceRow *row, sn_device_properties *out) {
    CudaFacts facts;
    TRY(cuda_facts(row->memory.device - DEV_cuda, &facts));
    memcpy(out->name, facts.name, sizeof out->name);
    out->memory = facts.bytes;
    out->processors = facts.multiprocessors;
    out->major = facts.capability / 10, out->minor = facts.capability % 10;
    return ST_OK;
}

/* A result whose size depends on values has no program: its kernel makes it. */
static bool reads_values(const OpRow *row) { return row->kind == KIND_kernel && row->flags & OPF_host; }

/* A program's op has the kernels that the program gave it. */
static Status run_op(OpCall *call) {
    if (UNLIKELY(reads_values(call->row))) return cuda_native(call->row)(call);
    if (LIKELY(!op_dynamic(call->row) || call->row->expression)) return eager_kernel(call);
    return error_raise(ST_UNSUPPORTED, "%s: it is not implemented for key cuda", op_form_name(call->row, call->form));
}

void cuda_start(void) {
    for (int i = 0; i < CUDA_MOST_DEVICES; i++) {
        CudaDevice *const device = &devices[i];
        snprintf(device->name, sizeof device->name, "cuda:%d", i);
        pthread_mutex_init(&device->opening, NULL);
        pthread_mutex_init(&device->launches.lock, NULL);
        device->row = (DeviceRow){.memory = {.device = DEV_cuda + i,
                                             .other = other,
                                             .allocate = cuda_allocate,
                                             .free = cuda_free,
                                             .copy = copy,
                                             .fill = fill,
                                             .drain = cuda_drain,
                                             .body_begin = cuda_body_begin,
                                             .body_end = cuda_body_end},
                                  .name = device->name,
                                  .key = KEY_cuda,
                                  .count = count,
                                  .properties = cuda_properties,
                                  .caching = cuda_caching,
                                  .synchronize = synchronize,
                                  .streams = &cuda_streams,
                                  .launch = cuda_launch,
                                  .make_code = cuda_make_code,
                                  .drop_code = cuda_drop_code,
                                  .remark = cuda_remark,
                                  .code_bytes = cuda_code_bytes,
                                  .repeat = cuda_repeat,
                                  .native = cuda_native};
    }
    device_register(&devices[0].row);
    dispatch_fallback(KEY_cuda, run_op);
    eager_serve(KEY_cuda);
}
