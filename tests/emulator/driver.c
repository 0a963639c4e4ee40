/* driver.c: a CUDA driver without a GPU: the functions of rows.def over host memory, as a library that
 * SINTER_CUDA_DRIVER names; gpu.h has its parts. It is stricter than a driver:
 *
 *   addresses   of a window that nobody may touch; the bytes lie elsewhere, so a host that follows one crashes
 *   blocks      512 bytes apart and full of poison, new and freed ones alike; an access must lie inside of one
 *   code        what libemulated_nvrtc made of CUDA C++, each access to memory looked at before it is made
 *   streams     queues: work runs when something waits for it, on what the memory is then, or by chance (stream.c);
 *               where a block has been freed meanwhile the device is lost, as by an illegal address
 *   contexts    a call needs one, on a stack for each thread; a forked process has none and gets none
 *
 * EMULATED_CUDA="devices=2 mib=64 seed=1 reorder=0 version=13000 lacks=MemAlloc" in the environment; emulator.h has
 * the rest. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/emulator/gpu.h"
#include "tests/emulator/planted.h"

#define PUBLIC __attribute__((visibility("default")))

enum { DEVICES = 8, DEPTH = 16 };

typedef enum DriverFunction {
#define DRIVER(name, since, parameters) FN_##name,
#include "tests/emulator/rows.def"
    FN_COUNT
} DriverFunction;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Gpu gpus[DEVICES];
static pid_t owner; /* the process that has called cuInit */
static _Thread_local Gpu *stack[DEPTH];
static _Thread_local int depth;
EmulatorCounts emulator_counts;
static struct {
    CuResult result;
    int after;
} failing[FN_COUNT];

static char said[800];

long gpu_option(const char *name, long otherwise) {
    const char *const all = getenv("EMULATED_CUDA"), *const at = all ? strstr(all, name) : NULL;
    return at ? strtol(at + strlen(name), NULL, 10) : otherwise;
}
static int n_devices(void) { return (int)gpu_option("devices=", 2); }

void emulator_tell(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(said, sizeof said, format, arguments);
    va_end(arguments);
    emulator_counts.said++;
    fprintf(stderr, "emulated GPU: %s\n", said);
}

/* what every call begins with ------------------------------------------------------------------ */

/* The context is gone after such a result: those of 700 and on, and broken memory or links. */
static bool loses(CuResult result) {
    return result >= CU_illegal_address || result == CU_ecc_uncorrectable || result == CU_nvlink_uncorrectable;
}

static CuResult planned(DriverFunction function) {
    if (!failing[function].result || failing[function].after--) return CU_success;
    const CuResult result = failing[function].result;
    failing[function].result = CU_success;
    if (loses(result) && depth) stack[depth - 1]->lost = result;
    return result;
}

/* What may wait for the device, or change what captured work relies on. */
static bool is_unsafe(DriverFunction function) {
    static const bool rows[FN_COUNT] = {
        [FN_MemAlloc] = true,       [FN_MemFree] = true,     [FN_MemHostAlloc] = true,     [FN_MemFreeHost] = true,
        [FN_CtxSynchronize] = true, [FN_EventQuery] = true,  [FN_EventSynchronize] = true, [FN_LibraryLoadData] = true,
        [FN_LibraryUnload] = true,  [FN_StreamCreate] = true};
    return rows[function];
}

/* Takes the lock; end gives it back. */
static CuResult begin(DriverFunction function) {
    pthread_mutex_lock(&lock);
    emulator_counts.calls++;
    if (owner != getpid()) return CU_not_initialized;
    if (is_unsafe(function) && capture_refuses()) return CU_capture_unsupported;
    return planned(function);
}
static CuResult end(CuResult result) {
    pthread_mutex_unlock(&lock);
    return result;
}

/* The same for calls on a context's device. */
static CuResult begin_on(DriverFunction function, Gpu **gpu) {
    const CuResult result = begin(function);
    if (result != CU_success) return result;
    if (!depth) return CU_invalid_context;
    *gpu = stack[depth - 1];
    streams_stir();
    return (*gpu)->lost;
}

bool gpu_is_host(CuAddress address) {
    for (int i = 0; i < n_devices(); i++)
        if (gpu_place(&gpus[i], address) < gpu_window_size()) return false;
    return address != 0;
}

/* the functions of rows.def --------------------------------------------------------------------- */

#define DRIVER(name, since, parameters) static CuResult emulated_##name parameters;
#include "tests/emulator/rows.def"

static CuResult emulated_Init(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&lock);
    if (owner && owner != getpid()) return end(CU_not_initialized);
    if (!n_devices()) return end(CU_no_device);
    owner = getpid();
    for (int i = 0; i < n_devices(); i++)
        if (!gpus[i].window) gpu_map(&gpus[i]);
    return end(CU_success);
}

static CuResult emulated_DriverGetVersion(int *version) {
    *version = (int)gpu_option("version=", 13000);
    return CU_success;
}

static CuResult emulated_GetErrorName(CuResult result, const char **text) {
    switch (result) {
#define RESULT(name, theirs, value, fate)                                                                              \
    case value:                                                                                                        \
        *text = #theirs;                                                                                               \
        return CU_success;
#include "tests/emulator/rows.def"
    }
    return CU_invalid_value;
}

static CuResult emulated_GetErrorString(CuResult result, const char **text) {
    *text = "as emulated";
    return result < 0 ? CU_invalid_value : CU_success;
}

static CuResult emulated_DeviceGetCount(int *count) {
    const CuResult result = begin(FN_DeviceGetCount);
    *count = n_devices();
    return end(result);
}

static CuResult emulated_DeviceGet(CuDevice *device, int ordinal) {
    const CuResult result = begin(FN_DeviceGet);
    if (result != CU_success) return end(result);
    *device = ordinal;
    return end(ordinal >= 0 && ordinal < n_devices() ? CU_success : CU_invalid_device);
}

static CuResult emulated_DeviceGetName(char *name, int capacity, CuDevice device) {
    snprintf(name, (size_t)capacity, "emulated GPU %d", device);
    return CU_success;
}

static CuResult emulated_DeviceGetAttribute(int *value, CuAttribute attribute, CuDevice device) {
    (void)device;
    *value = attribute == CU_multiprocessors ? 4 : attribute == CU_capability_major ? 8 : 0;
    return CU_success;
}

static CuResult emulated_DeviceTotalMem(size_t *bytes, CuDevice device) {
    (void)device;
    *bytes = gpu_capacity();
    return CU_success;
}

static CuResult emulated_DevicePrimaryCtxRetain(CuContext *context, CuDevice device) {
    const CuResult result = begin(FN_DevicePrimaryCtxRetain);
    if (result != CU_success) return end(result);
    if (device < 0 || device >= n_devices()) return end(CU_invalid_device);
    gpus[device].retained++;
    *context = (CuContext)&gpus[device];
    return end(gpus[device].lost);
}

static CuResult emulated_CtxPushCurrent(CuContext context) {
    const CuResult result = begin(FN_CtxPushCurrent);
    Gpu *const gpu = (Gpu *)context;
    if (result != CU_success) return end(result);
    if (!gpu || gpu < gpus || gpu >= gpus + n_devices() || !gpu->retained || depth == DEPTH)
        return end(CU_invalid_context);
    stack[depth++] = gpu;
    return end(CU_success);
}

static CuResult emulated_CtxPopCurrent(CuContext *context) {
    const CuResult result = begin(FN_CtxPopCurrent);
    if (result != CU_success) return end(result);
    if (!depth) return end(CU_invalid_context);
    *context = (CuContext)stack[--depth];
    return end(CU_success);
}

static CuResult emulated_CtxSynchronize(void) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_CtxSynchronize, &gpu);
    return end(result == CU_success ? streams_drain(gpu) : result);
}

static CuResult emulated_MemAlloc(CuAddress *address, size_t bytes) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_MemAlloc, &gpu);
    if (result != CU_success) return end(result);
    const CuResult given = gpu_allocate(gpu, address, bytes);
    if (given == CU_success) emulator_counts.blocks++, emulator_counts.bytes += (int64_t)bytes;
    return end(given);
}

static CuResult emulated_MemFree(CuAddress address) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_MemFree, &gpu);
    size_t bytes = 0;
    if (result != CU_success || !address) return end(result);
    const CuResult taken = gpu_free(gpu, address, &bytes);
    if (taken == CU_success) emulator_counts.blocks--, emulator_counts.bytes -= (int64_t)bytes;
    return end(taken);
}

static CuResult emulated_MemGetInfo(size_t *unused, size_t *total) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_MemGetInfo, &gpu);
    if (result == CU_success) *unused = gpu_capacity() - gpu->used, *total = gpu_capacity();
    return end(result);
}

/* memory and its addresses apart */

static CuResult emulated_MemGetAllocationGranularity(size_t *bytes, const CuMemProperties *properties,
                                                     CuMemGranularity granularity) {
    const CuResult result = begin(FN_MemGetAllocationGranularity);
    (void)granularity;
    *bytes = GPU_PAGE;
    return end(result != CU_success || properties->type == CU_memory_pinned ? result : CU_invalid_value);
}

static CuResult emulated_MemAddressReserve(CuAddress *address, size_t bytes, size_t alignment, CuAddress fixed,
                                           unsigned long long flags) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_MemAddressReserve, &gpu);
    if (result != CU_success) return end(result);
    return end(alignment || fixed || flags ? CU_invalid_value : mapping_reserve(gpu, address, bytes));
}

static CuResult emulated_MemAddressFree(CuAddress address, size_t bytes) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_MemAddressFree, &gpu);
    return end(result == CU_success ? mapping_unreserve(gpu, address, bytes) : result);
}

/* Of the device that the caller's context is on: no other is asked for. */
static bool is_here(const Gpu *gpu, const CuMemLocation *location) {
    return location->type == CU_location_device && location->id == (int)(gpu - gpus);
}

static CuResult emulated_MemCreate(CuMemHandle *handle, size_t bytes, const CuMemProperties *properties,
                                   unsigned long long flags) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_MemCreate, &gpu);
    if (result != CU_success) return end(result);
    const bool right = properties->type == CU_memory_pinned && is_here(gpu, &properties->location) && !flags;
    return end(right ? mapping_create(gpu, handle, bytes) : CU_invalid_value);
}

static CuResult emulated_MemRelease(CuMemHandle handle) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_MemRelease, &gpu);
    return end(result == CU_success ? mapping_release(gpu, handle) : result);
}

static CuResult emulated_MemMap(CuAddress address, size_t bytes, size_t offset, CuMemHandle handle,
                                unsigned long long flags) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_MemMap, &gpu);
    if (result != CU_success) return end(result);
    return end(offset || flags ? CU_invalid_value : mapping_map(gpu, address, bytes, handle));
}

static CuResult emulated_MemUnmap(CuAddress address, size_t bytes) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_MemUnmap, &gpu);
    return end(result == CU_success ? mapping_unmap(gpu, address, bytes) : result);
}

static CuResult emulated_MemSetAccess(CuAddress address, size_t bytes, const CuMemAccess *access, size_t n) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_MemSetAccess, &gpu);
    if (result != CU_success) return end(result);
    const bool right = n == 1 && is_here(gpu, &access->location) && access->flags == CU_access_read_write;
    return end(right ? mapping_allow(gpu, address, bytes) : CU_invalid_value);
}

static CuResult enqueue(Gpu *gpu, CuStream handle, GpuWork work) {
    GpuStream *const stream = stream_of(gpu, handle);
    return stream ? stream_push(stream, work) : CU_invalid_handle;
}

static CuResult emulated_MemcpyHtoDAsync(CuAddress to, const void *from, size_t bytes, CuStream stream) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_MemcpyHtoDAsync, &gpu);
    const GpuWork work = {.kind = WORK_from_host, .to = to, .from = (CuAddress)(uintptr_t)from, .n = bytes};
    return end(result == CU_success ? enqueue(gpu, stream, work) : result);
}

static CuResult emulated_MemcpyDtoHAsync(void *to, CuAddress from, size_t bytes, CuStream stream) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_MemcpyDtoHAsync, &gpu);
    const GpuWork work = {.kind = WORK_to_host, .to = (CuAddress)(uintptr_t)to, .from = from, .n = bytes};
    return end(result == CU_success ? enqueue(gpu, stream, work) : result);
}

static CuResult emulated_MemcpyDtoDAsync(CuAddress to, CuAddress from, size_t bytes, CuStream stream) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_MemcpyDtoDAsync, &gpu);
    const GpuWork work = {.kind = WORK_within, .to = to, .from = from, .n = bytes};
    return end(result == CU_success ? enqueue(gpu, stream, work) : result);
}

static CuResult emulated_MemsetD8Async(CuAddress to, unsigned char byte, size_t n, CuStream stream) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_MemsetD8Async, &gpu);
    const GpuWork work = {.kind = WORK_fill, .to = to, .byte = byte, .n = n};
    return end(result == CU_success ? enqueue(gpu, stream, work) : result);
}

static CuResult emulated_MemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_MemHostAlloc, &gpu);
    if (result != CU_success) return end(result);
    return end(flags & ~(unsigned)CU_host_portable ? CU_invalid_value : pinned_allocate(memory, bytes));
}

static CuResult emulated_MemFreeHost(void *memory) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_MemFreeHost, &gpu);
    return end(result == CU_success ? pinned_free(memory) : result);
}

/* streams and events */

static CuResult emulated_StreamCreate(CuStream *stream, unsigned flags) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_StreamCreate, &gpu);
    if (result != CU_success) return end(result);
    if (flags > CU_stream_non_blocking) return end(CU_invalid_value);
    *stream = (CuStream)stream_new(gpu);
    return end(*stream ? CU_success : CU_out_of_memory);
}

static CuResult emulated_StreamSynchronize(CuStream handle) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_StreamSynchronize, &gpu);
    if (result != CU_success) return end(result);
    GpuStream *const stream = stream_of(gpu, handle);
    if (stream && planted(PLANTED_synchronize_early)) return end(gpu->lost);
    return end(stream ? stream_drain(stream) : CU_invalid_handle);
}

static CuResult emulated_StreamQuery(CuStream handle) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_StreamQuery, &gpu);
    if (result != CU_success) return end(result);
    GpuStream *const stream = stream_of(gpu, handle);
    return end(stream ? stream_query(stream) : CU_invalid_handle);
}

static CuResult emulated_StreamWaitEvent(CuStream handle, CuEvent event, unsigned flags) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_StreamWaitEvent, &gpu);
    if (result != CU_success) return end(result);
    GpuStream *const stream = stream_of_any(gpu, handle);
    GpuEvent *const known = event_of(event);
    if (!stream || !known) return end(CU_invalid_handle);
    return end(flags ? CU_invalid_value : event_wait(known, stream));
}

static CuResult emulated_EventCreate(CuEvent *event, unsigned flags) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_EventCreate, &gpu);
    if (result != CU_success) return end(result);
    if (flags & ~(unsigned)CU_event_no_timing) return end(CU_invalid_value);
    *event = (CuEvent)event_new(gpu, !(flags & CU_event_no_timing));
    return end(*event ? CU_success : CU_out_of_memory);
}

static CuResult emulated_EventDestroy(CuEvent event) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_EventDestroy, &gpu);
    GpuEvent *const known = event_of(event);
    if (result != CU_success || !known) return end(result == CU_success ? CU_invalid_handle : result);
    event_free(known);
    return end(CU_success);
}

static CuResult emulated_EventRecord(CuEvent event, CuStream handle) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_EventRecord, &gpu);
    if (result != CU_success) return end(result);
    GpuStream *const stream = stream_of_any(gpu, handle);
    GpuEvent *const known = event_of(event);
    return end(stream && known && known->gpu == gpu ? event_record(known, stream) : CU_invalid_handle);
}

static CuResult emulated_EventQuery(CuEvent event) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_EventQuery, &gpu);
    GpuEvent *const known = event_of(event);
    if (result != CU_success) return end(result);
    return end(known ? event_query(known) : CU_invalid_handle);
}

static CuResult emulated_EventSynchronize(CuEvent event) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_EventSynchronize, &gpu);
    GpuEvent *const known = event_of(event);
    if (result != CU_success) return end(result);
    return end(known ? event_synchronize(known) : CU_invalid_handle);
}

static CuResult emulated_EventElapsedTime(float *milliseconds, CuEvent from, CuEvent to) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_EventElapsedTime, &gpu);
    const GpuEvent *const first = event_of(from), *const second = event_of(to);
    if (result != CU_success) return end(result);
    return end(first && second ? event_elapsed(first, second, milliseconds) : CU_invalid_handle);
}

/* code: a library's kernels are the same in all contexts, and so a kernel is its function */

static CuResult emulated_LibraryLoadData(CuLibrary *library, const void *code, CuJitOption *options, void **values,
                                         unsigned n_options, CuLibraryOption *library_options, void **library_values,
                                         unsigned n_library_options) {
    (void)options, (void)values, (void)library_options, (void)library_values;
    const CuResult result = begin(FN_LibraryLoadData);
    if (result != CU_success) return end(result);
    if (!code || n_options || n_library_options) return end(CU_invalid_value);
    return end(code_load(code, (GpuLibrary **)library));
}

static CuResult emulated_LibraryUnload(CuLibrary library) {
    const CuResult result = begin(FN_LibraryUnload);
    GpuLibrary *const loaded = code_library(library);
    if (result != CU_success) return end(result);
    return end(loaded ? code_unload(loaded) : CU_invalid_handle);
}

static CuResult emulated_LibraryGetKernel(CuKernel *kernel, CuLibrary library, const char *name) {
    const CuResult result = begin(FN_LibraryGetKernel);
    GpuLibrary *const loaded = code_library(library);
    if (result != CU_success) return end(result);
    if (!loaded) return end(CU_invalid_handle);
    *kernel = (CuKernel)code_find(loaded, name);
    return end(*kernel ? CU_success : CU_not_found);
}

static CuResult emulated_KernelGetFunction(CuFunction *function, CuKernel kernel) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_KernelGetFunction, &gpu);
    if (result != CU_success) return end(result);
    *function = (CuFunction)code_kernel(kernel);
    return end(*function ? CU_success : CU_invalid_handle);
}

enum { FUNCTION_most_threads = 0, FUNCTION_fixed_shared = 1, FUNCTION_most_dynamic = CU_function_dynamic_shared };

static CuResult emulated_FuncGetAttribute(int *value, CuFunctionAttribute attribute, CuFunction function) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_FuncGetAttribute, &gpu);
    const GpuKernel *const kernel = code_kernel(function);
    if (result != CU_success) return end(result);
    if (!kernel) return end(CU_invalid_handle);
    const int bound = kernel->entry->most_threads;
    *value = attribute == FUNCTION_most_threads   ? (bound ? bound : LAUNCH_THREADS)
             : attribute == FUNCTION_fixed_shared ? kernel->fixed_shared
             : attribute == FUNCTION_most_dynamic ? kernel->most_dynamic
                                                  : 0; /* registers and local memory: none are spilled here */
    return end(CU_success);
}

static CuResult emulated_FuncSetAttribute(CuFunction function, CuFunctionAttribute attribute, int value) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_FuncSetAttribute, &gpu);
    GpuKernel *const kernel = code_kernel(function);
    if (result != CU_success) return end(result);
    if (!kernel) return end(CU_invalid_handle);
    if (attribute != FUNCTION_most_dynamic) return end(CU_success);
    if (value < 0 || value > LAUNCH_SHARED_OPT_IN - kernel->fixed_shared) return end(CU_invalid_value);
    kernel->most_dynamic = value;
    return end(CU_success);
}

static CuResult emulated_LaunchKernel(CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                      CuStream stream, void **arguments, void **extra) {
    Gpu *gpu;
    CuResult result = begin_on(FN_LaunchKernel, &gpu);
    if (result != CU_success) return end(result);
    const GpuLaunch request = {.kernel = code_kernel(function),
                               .grid = {grid_x, grid_y, grid_z},
                               .block = {block_x, block_y, block_z},
                               .dynamic = shared_bytes};
    GpuWork work = {.kind = WORK_kernel};
    if (!request.kernel) return end(CU_invalid_handle);
    if (extra) return end(CU_invalid_value);
    result = launch_new(request, arguments, &work.launch);
    if (result != CU_success) return end(result);
    result = enqueue(gpu, stream, work);
    if (result == CU_invalid_handle) launch_free(work.launch);
    return end(result);
}

/* graphs */

static CuResult emulated_StreamBeginCapture(CuStream handle, CuCaptureMode mode) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_StreamBeginCapture, &gpu);
    GpuStream *const stream = result == CU_success ? stream_of(gpu, handle) : NULL;
    return end(result != CU_success ? result : stream ? capture_begin(stream, gpu, mode) : CU_invalid_handle);
}

static CuResult emulated_StreamEndCapture(CuStream handle, CuGraph *graph) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_StreamEndCapture, &gpu);
    GpuStream *const stream = result == CU_success ? stream_of(gpu, handle) : NULL;
    return end(result != CU_success ? result : stream ? capture_end(stream, graph) : CU_invalid_handle);
}

static CuResult emulated_StreamGetCaptureInfo(CuStream handle, CuCaptureStatus *status, uint64_t *id, CuGraph *graph,
                                              const CuGraphNode **last, size_t *n) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_StreamGetCaptureInfo, &gpu);
    GpuStream *const stream = result == CU_success ? stream_of(gpu, handle) : NULL;
    if (result == CU_success && (id || graph)) return end(CU_invalid_value); /* nobody asks here */
    return end(result != CU_success ? result
               : stream             ? capture_info(*stream_capture(stream), status, last, n)
                                    : CU_invalid_handle);
}

static CuResult emulated_GraphInstantiateWithFlags(CuGraphExec *exec, CuGraph graph, unsigned long long flags) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_GraphInstantiateWithFlags, &gpu);
    return end(result != CU_success ? result : flags ? CU_invalid_value : graph_instantiate(graph, exec));
}

static CuResult emulated_GraphGetNodes(CuGraph graph, CuGraphNode *nodes, size_t *n) {
    const CuResult result = begin(FN_GraphGetNodes);
    return end(result == CU_success ? graph_nodes(graph, nodes, n) : result);
}

static CuResult emulated_GraphExecKernelNodeSetParams(CuGraphExec exec, CuGraphNode node, const CuKernelNode *kernel) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_GraphExecKernelNodeSetParams, &gpu);
    return end(result == CU_success ? graph_set_kernel(exec, node, kernel) : result);
}

static CuResult emulated_GraphExecUpdate(CuGraphExec exec, CuGraph graph, CuGraphUpdate *update) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_GraphExecUpdate, &gpu);
    return end(result == CU_success ? graph_update(exec, graph, update) : result);
}

static CuResult emulated_GraphLaunch(CuGraphExec exec, CuStream handle) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_GraphLaunch, &gpu);
    GpuStream *const stream = result == CU_success ? stream_of(gpu, handle) : NULL;
    return end(result != CU_success ? result : stream ? graph_launch(exec, stream) : CU_invalid_handle);
}

static CuResult emulated_GraphDestroy(CuGraph graph) {
    const CuResult result = begin(FN_GraphDestroy);
    return end(result == CU_success ? graph_destroy(graph) : result);
}

static CuResult emulated_GraphExecDestroy(CuGraphExec exec) {
    const CuResult result = begin(FN_GraphExecDestroy);
    return end(result == CU_success ? graph_exec_destroy(exec) : result);
}

/* what the library exports ---------------------------------------------------------------------- */

static const struct {
    const char *name;
    int since;
    void *function;
} rows[] = {
#define DRIVER(name, since, parameters) {#name, since, (void *)emulated_##name},
#include "tests/emulator/rows.def"
};

static bool is_lacking(const char *name) {
    const char *const all = getenv("EMULATED_CUDA"), *const at = all ? strstr(all, "lacks=") : NULL;
    return at && !strncmp(at + 6, name, strlen(name)) && strchr(" ", at[6 + strlen(name)]);
}

PUBLIC CuResult cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags,
                                    int *status);
PUBLIC CuResult cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags,
                                    int *status) {
    (void)flags;
    *function = NULL;
    *status = 1; /* not found */
    for (int i = 0; i < FN_COUNT; i++) {
        if (strncmp(name, "cu", 2) || strcmp(rows[i].name, name + 2) || is_lacking(name + 2)) continue;
        *status = version < rows[i].since ? 2 : 0; /* found, but not for a version as old */
        if (!*status) *function = rows[i].function;
    }
    return CU_success;
}

PUBLIC EmulatorFail emulator_fail;
PUBLIC void emulator_fail(const char *name, int result, int after) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < FN_COUNT; i++)
        if (!strcmp(rows[i].name, name)) failing[i].result = result, failing[i].after = after;
    pthread_mutex_unlock(&lock);
}

PUBLIC EmulatorCount emulator_count;
PUBLIC void emulator_count(EmulatorCounts *out) {
    pthread_mutex_lock(&lock);
    *out = emulator_counts;
    pthread_mutex_unlock(&lock);
}

PUBLIC EmulatorSaid emulator_said;
PUBLIC const char *emulator_said(void) { return said; }
