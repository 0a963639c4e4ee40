/* cuda_memory.c: the driver as the source of a device's caching allocator. Segments are cuMemAlloc's; expandable ones
 * reserve addresses and map pages there, each of one allocation of its own, which goes when it is unmapped.
 *
 * Each function makes the device's context the thread's by itself: most allocations call none of them. Those that may
 * raise nothing say so by their result; what a lost device or a forked process gets is no memory back and no event. */
#include "runtime/cuda/cuda_memory.h"

#include <stdio.h>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/core/state.h"
#include "runtime/cuda/cuda_graph.h"

/* As check_headers.c finds NVIDIA's. */
_Static_assert(sizeof(CuMemProperties) == 32 && offsetof(CuMemProperties, location) == 8 &&
                   offsetof(CuMemProperties, compression) == 24 && sizeof(CuMemAccess) == 12 &&
                   offsetof(CuMemAccess, flags) == 8 && sizeof(CuMemHandle) == 8,
               "structs of the driver");

static bool enter_quietly(CudaDevice *device) {
    return !device->lost && device->driver->CtxPushCurrent(device->context) == CU_success;
}

/* The end of a call between the two: notes what it says of the device. */
static bool leave_with(CudaDevice *device, CuResult result) {
    if (driver_lost(result)) atomic_store(&device->lost, result);
    cuda_leave(device);
    return result == CU_success;
}

static SourceAnswer answer_of(CudaDevice *device, const char *what, CuResult result) {
    if (result == CU_success) return SOURCE_done;
    if (result == CU_out_of_memory) return SOURCE_full;
    cuda_answer(device, what, result);
    return SOURCE_failed;
}

/* segments ------------------------------------------------------------------------------------ */

static SourceAnswer driver_alloc(void *context, size_t bytes, uintptr_t *at) {
    CudaDevice *const device = context;
    CuAddress address = 0;
    if (cuda_enter(device) != ST_OK) return SOURCE_failed;
    const SourceAnswer answer = answer_of(device, "an allocation", device->driver->MemAlloc(&address, bytes));
    cuda_leave(device);
    *at = (uintptr_t)address;
    return answer;
}

static void driver_free(void *context, uintptr_t at, size_t bytes) {
    CudaDevice *const device = context;
    (void)bytes;
    if (enter_quietly(device)) leave_with(device, device->driver->MemFree(at));
}

/* expandable ones ----------------------------------------------------------------------------- */

static CuMemLocation location_of(const CudaDevice *device) {
    return (CuMemLocation){.type = CU_location_device, .id = device->row.memory.device - DEV_cuda};
}

static CuMemProperties properties_of(const CudaDevice *device) {
    return (CuMemProperties){.type = CU_memory_pinned, .location = location_of(device)};
}

static size_t page_bytes(void *context) {
    CudaDevice *const device = context;
    const CuMemProperties properties = properties_of(device);
    size_t bytes = 0;
    if (!enter_quietly(device)) return 0;
    const CuResult result = device->driver->MemGetAllocationGranularity(&bytes, &properties, CU_granularity_minimum);
    return leave_with(device, result) ? bytes : 0;
}

static SourceAnswer address_reserve(void *context, size_t bytes, uintptr_t *at) {
    CudaDevice *const device = context;
    CuAddress address = 0;
    if (cuda_enter(device) != ST_OK) return SOURCE_failed;
    const CuResult result = device->driver->MemAddressReserve(&address, bytes, 0, 0, 0);
    const SourceAnswer answer = answer_of(device, "a range of addresses", result);
    cuda_leave(device);
    *at = (uintptr_t)address;
    return answer;
}

static void address_unreserve(void *context, uintptr_t at, size_t bytes) {
    CudaDevice *const device = context;
    if (enter_quietly(device)) leave_with(device, device->driver->MemAddressFree(at, bytes));
}

/* The handle is given up at once: the memory lives as long as it is mapped. */
static CuResult map_handle(const CudaDevice *device, CuMemHandle handle, CuAddress at, size_t bytes) {
    const CuMemAccess access = {.location = location_of(device), .flags = CU_access_read_write};
    const Driver *const driver = device->driver;
    CuResult result = driver->MemMap(at, bytes, 0, handle, 0);
    driver->MemRelease(handle);
    if (result != CU_success) return result;
    result = driver->MemSetAccess(at, bytes, &access, 1);
    if (result != CU_success) driver->MemUnmap(at, bytes);
    return result;
}

static SourceAnswer page_map(void *context, uintptr_t at, size_t bytes) {
    CudaDevice *const device = context;
    const CuMemProperties properties = properties_of(device);
    CuMemHandle handle = 0;
    if (cuda_enter(device) != ST_OK) return SOURCE_failed;
    CuResult result = device->driver->MemCreate(&handle, bytes, &properties, 0);
    if (result == CU_success) result = map_handle(device, handle, at, bytes);
    const SourceAnswer answer = answer_of(device, "a page of memory", result);
    cuda_leave(device);
    return answer;
}

static void page_unmap(void *context, uintptr_t at, size_t bytes) {
    CudaDevice *const device = context;
    if (enter_quietly(device)) leave_with(device, device->driver->MemUnmap(at, bytes));
}

/* events -------------------------------------------------------------------------------------- */

static CuResult acquire_event(CudaDevice *device, CuEvent *event) {
    if (!device->n_idle_events) return device->driver->EventCreate(event, CU_event_no_timing);
    *event = device->idle_events[--device->n_idle_events];
    return CU_success;
}

static bool stream_record(void *context, StreamId key, void **event) {
    CudaDevice *const device = context;
    const CudaStream *const stream = key;
    CuEvent made = NULL;
    if (!enter_quietly(device)) return false;
    CuResult result = acquire_event(device, &made);
    if (result != CU_success) return leave_with(device, result);
    result = device->driver->EventRecord(made, stream->handle);
    if (result != CU_success) device->driver->EventDestroy(made);
    *event = made;
    return leave_with(device, result);
}

static bool event_passed(void *context, void *event) {
    CudaDevice *const device = context;
    return enter_quietly(device) && leave_with(device, device->driver->EventQuery(event));
}

static void event_forget(void *context, void *event) {
    CudaDevice *const device = context;
    if (device->n_idle_events < CUDA_IDLE_EVENTS)
        device->idle_events[device->n_idle_events++] = event;
    else if (enter_quietly(device))
        leave_with(device, device->driver->EventDestroy(event));
}

static bool device_wait(void *context) {
    CudaDevice *const device = context;
    return enter_quietly(device) && leave_with(device, device->driver->CtxSynchronize());
}

/* what there is ------------------------------------------------------------------------------- */

static void memory_left(void *context, size_t *bytes, size_t *total) {
    CudaDevice *const device = context;
    if (enter_quietly(device)) leave_with(device, device->driver->MemGetInfo(bytes, total));
}

/* The device's own is the first that was made. */
static int stream_number(CudaDevice *device, const CudaStream *stream) {
    int number = 0;
    pthread_mutex_lock(&device->launches.lock);
    for (const CudaStream *older = stream->next; older; older = older->next) number++;
    pthread_mutex_unlock(&device->launches.lock);
    return number;
}

static void stream_name(void *context, StreamId key, char *buffer, size_t size) {
    CudaDevice *const device = context;
    const int number = stream_number(device, key);
    if (number)
        snprintf(buffer, size, "stream %d of %s", number, device->name);
    else
        snprintf(buffer, size, "%s's own stream", device->name);
}

static CachingConfig config_of_settings(void) {
    CachingConfig config = {.direct = setting_initial(SET_plain_malloc)};
    Text why = {0};
    if (!caching_config_read(setting_text(state_get(), SET_alloc_conf), &config, &why))
        LOG(general, WARNING, "SINTER_ALLOC_CONF: %s; nothing of it is used", text_str(&why));
    text_free(&why);
    return config;
}

Status cuda_memory_open(CudaDevice *device) {
    static const MemorySource source = {.take = driver_alloc,
                                        .give = driver_free,
                                        .page = page_bytes,
                                        .reserve = address_reserve,
                                        .unreserve = address_unreserve,
                                        .map = page_map,
                                        .unmap = page_unmap,
                                        .record = stream_record,
                                        .passed = event_passed,
                                        .forget = event_forget,
                                        .wait = device_wait,
                                        .left = memory_left,
                                        .stream_name = stream_name,
                                        .site = state_memory_site};
    const CachingConfig config = config_of_settings();
    if (!device->memory) device->memory = caching_new(&source, device, device->name, &config);
    return device->memory ? ST_OK : ST_MEMORY;
}

void *cuda_allocate(const Memory *memory, size_t bytes) {
    CudaDevice *const device = cuda_device_of_memory(memory);
    void *recorded;
    if (UNLIKELY(cuda_recording != NULL) && cuda_recorded_block(device, bytes, &recorded)) return recorded;
    if (cuda_enter(device) != ST_OK) return NULL;
    const uintptr_t at = caching_allocate(device->memory, bytes, cuda_stream(device));
    cuda_leave(device);
    return (void *)at;
}

void cuda_free(const Memory *memory, void *block, size_t bytes) {
    (void)bytes;
    if (UNLIKELY(cuda_recording != NULL) && cuda_recorded_owns(cuda_device_of_memory(memory), block)) return;
    caching_free(cuda_device_of_memory(memory)->memory, (uintptr_t)block);
}

Caching *cuda_caching(const DeviceRow *row) {
    CudaDevice *const device = cuda_device_of(row);
    if (cuda_enter(device) != ST_OK) return NULL;
    cuda_leave(device);
    return device->memory;
}
