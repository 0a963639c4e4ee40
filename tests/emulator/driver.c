/* driver.c: a CUDA driver without a GPU: the functions of runtime/cuda/driver.def over host memory, as a library that
 * SINTER_CUDA_DRIVER names. It is stricter than a driver:
 *
 *   addresses   of a window that nobody may touch; the bytes lie elsewhere, so a host that follows one crashes
 *   blocks      512 bytes apart and full of poison, new and freed ones alike; an access must lie inside of one
 *   streams     queues: a copy or fill runs when something waits for its stream, on what the memory is then; where a
 *               block has been freed meanwhile the device is lost, as by an illegal address
 *   contexts    a call needs one, on a stack for each thread; a forked process has none and gets none
 *
 * EMULATED_CUDA="devices=2 mib=64 version=13000 lacks=MemAlloc" in the environment; emulator.h has the rest. */
#define _GNU_SOURCE
#include "tests/emulator/emulator.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/cuda/driver.h"

#define PUBLIC __attribute__((visibility("default")))

enum { DEVICES = 8, BLOCKS = 1 << 14, GRAIN = 512, QUEUE = 1 << 12, STREAMS = 64, DEPTH = 16 };
enum { FRESH = 0xa5, FREED = 0xdf };

typedef enum DriverFunction {
#define DRIVER(name, since, parameters) FN_##name,
#include "runtime/cuda/driver.def"
    FN_COUNT
} DriverFunction;

typedef struct GpuBlock {
    size_t at, bytes; /* in the window */
} GpuBlock;

typedef struct Gpu {
    char *window, *bytes; /* addresses, and what lies behind them */
    GpuBlock blocks[BLOCKS];
    int n_blocks;
    size_t next; /* where the next block is looked for: freed places come again late */
    size_t used;
    CuResult lost;
    int retained;
} Gpu;

typedef enum GpuWorkKind { WORK_from_host, WORK_to_host, WORK_within, WORK_fill } GpuWorkKind;
typedef struct GpuWork {
    GpuWorkKind kind;
    CuAddress to, from;
    unsigned char byte;
    size_t n;
} GpuWork;

typedef struct GpuStream {
    Gpu *gpu;
    GpuWork queue[QUEUE];
    int n;
} GpuStream;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Gpu gpus[DEVICES];
static GpuStream streams[STREAMS];
static int n_streams;
static pid_t owner; /* the process that has called cuInit */
static _Thread_local Gpu *stack[DEPTH];
static _Thread_local int depth;
static EmulatorCounts counts;
static struct {
    CuResult result;
    int after;
} failing[FN_COUNT];

static long option(const char *name, long otherwise) {
    const char *const all = getenv("EMULATED_CUDA"), *const at = all ? strstr(all, name) : NULL;
    return at ? strtol(at + strlen(name), NULL, 10) : otherwise;
}
static int n_devices(void) { return (int)option("devices=", 2); }
static size_t capacity(void) { return (size_t)option("mib=", 64) << 20; }
static size_t window_size(void) { return 2 * capacity(); } /* the gaps between blocks need room */

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

/* Takes the lock; end gives it back. */
static CuResult begin(DriverFunction function) {
    pthread_mutex_lock(&lock);
    counts.calls++;
    if (owner != getpid()) return CU_not_initialized;
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
    return (*gpu)->lost;
}

/* blocks --------------------------------------------------------------------------------------- */

static size_t place_of(const Gpu *gpu, CuAddress address) {
    return (size_t)(address - (CuAddress)(uintptr_t)gpu->window);
}

static GpuBlock *block_at(Gpu *gpu, CuAddress address, size_t n) {
    const size_t at = place_of(gpu, address);
    for (int i = 0; i < gpu->n_blocks; i++) {
        GpuBlock *const b = &gpu->blocks[i];
        if (at >= b->at && at - b->at <= b->bytes && n <= b->bytes - (at - b->at)) return b;
    }
    return NULL;
}

static bool is_free(const Gpu *gpu, size_t at, size_t room) {
    if (at + room > window_size()) return false;
    for (int i = 0; i < gpu->n_blocks; i++) {
        const GpuBlock *const b = &gpu->blocks[i];
        if (at < b->at + b->bytes + GRAIN && b->at < at + room + GRAIN) return false;
    }
    return true;
}

static bool find_place(Gpu *gpu, size_t room, size_t *at) {
    for (int round = 0; round < 2; round++) {
        for (*at = round ? 0 : gpu->next; *at + room <= window_size(); *at += GRAIN)
            if (is_free(gpu, *at, room)) return true;
    }
    return false;
}

static CuResult allocate(Gpu *gpu, CuAddress *address, size_t bytes) {
    size_t at;
    if (!bytes) return CU_invalid_value;
    if (gpu->n_blocks == BLOCKS || bytes > capacity() - gpu->used || !find_place(gpu, bytes, &at))
        return CU_out_of_memory;
    gpu->blocks[gpu->n_blocks++] = (GpuBlock){at, bytes};
    gpu->next = (at + bytes + 2 * GRAIN - 1) / GRAIN * GRAIN;
    gpu->used += bytes;
    counts.blocks++, counts.bytes += (int64_t)bytes;
    memset(gpu->bytes + at, FRESH, bytes);
    *address = (CuAddress)(uintptr_t)gpu->window + at;
    return CU_success;
}

static CuResult give_back(Gpu *gpu, CuAddress address) {
    if (!address) return CU_success;
    GpuBlock *const b = block_at(gpu, address, 0);
    if (!b || b->at != place_of(gpu, address)) return CU_invalid_value;
    memset(gpu->bytes + b->at, FREED, b->bytes);
    gpu->used -= b->bytes;
    counts.blocks--, counts.bytes -= (int64_t)b->bytes;
    *b = gpu->blocks[--gpu->n_blocks];
    return CU_success;
}

/* streams -------------------------------------------------------------------------------------- */

static char *bytes_at(Gpu *gpu, CuAddress address) { return gpu->bytes + place_of(gpu, address); }
static void *host_at(CuAddress address) { return (void *)(uintptr_t)address; }

static bool is_host(CuAddress address) {
    for (int i = 0; i < n_devices(); i++)
        if (place_of(&gpus[i], address) < window_size()) return false;
    return address != 0;
}

/* What the work reads and writes is there. */
static bool is_sound(Gpu *gpu, const GpuWork *w) {
    const bool to = w->kind == WORK_to_host ? is_host(w->to) : block_at(gpu, w->to, w->n) != NULL;
    if (w->kind == WORK_fill) return to;
    return to && (w->kind == WORK_from_host ? is_host(w->from) : block_at(gpu, w->from, w->n) != NULL);
}

static void run(Gpu *gpu, const GpuWork *w) {
    if (w->kind == WORK_fill) {
        memset(bytes_at(gpu, w->to), w->byte, w->n);
        counts.fills++;
        return;
    }
    memmove(w->kind == WORK_to_host ? host_at(w->to) : bytes_at(gpu, w->to),
            w->kind == WORK_from_host ? host_at(w->from) : bytes_at(gpu, w->from), w->n);
    counts.copies++;
}

static CuResult drain(GpuStream *stream) {
    Gpu *const gpu = stream->gpu;
    for (int i = 0; i < stream->n && gpu->lost == CU_success; i++) {
        if (is_sound(gpu, &stream->queue[i]))
            run(gpu, &stream->queue[i]);
        else
            gpu->lost = CU_illegal_address;
    }
    counts.queued -= stream->n;
    stream->n = 0;
    return gpu->lost;
}

static GpuStream *stream_of(const Gpu *gpu, CuStream handle) {
    GpuStream *const stream = (GpuStream *)handle;
    const bool known = stream >= streams && stream < streams + n_streams;
    return known && stream->gpu == gpu ? stream : NULL;
}

static CuResult enqueue(Gpu *gpu, CuStream handle, GpuWork work) {
    GpuStream *const stream = stream_of(gpu, handle);
    if (!stream) return CU_invalid_handle;
    if (!is_sound(gpu, &work)) return CU_invalid_value;
    if (stream->n == QUEUE) drain(stream);
    stream->queue[stream->n++] = work;
    counts.queued++;
    return gpu->lost;
}

/* the functions of driver.def ------------------------------------------------------------------- */

#define DRIVER(name, since, parameters) static CuResult emulated_##name parameters;
#include "runtime/cuda/driver.def"

static CuResult emulated_Init(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&lock);
    if (owner && owner != getpid()) return end(CU_not_initialized);
    if (!n_devices()) return end(CU_no_device);
    owner = getpid();
    for (int i = 0; i < n_devices(); i++) {
        if (gpus[i].window) continue;
        const int flags_ = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        gpus[i].window = mmap(NULL, window_size(), PROT_NONE, flags_, -1, 0);
        gpus[i].bytes = mmap(NULL, window_size(), PROT_READ | PROT_WRITE, flags_, -1, 0);
    }
    return end(CU_success);
}

static CuResult emulated_DriverGetVersion(int *version) {
    *version = (int)option("version=", 13000);
    return CU_success;
}

static CuResult emulated_GetErrorName(CuResult result, const char **text) {
    switch (result) {
#define RESULT(name, theirs, value, fate)                                                                              \
    case value:                                                                                                        \
        *text = #theirs;                                                                                               \
        return CU_success;
#include "runtime/cuda/driver.def"
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

static CuResult emulated_DeviceGetName(char *name, int room, CuDevice device) {
    snprintf(name, (size_t)room, "emulated GPU %d", device);
    return CU_success;
}

static CuResult emulated_DeviceGetAttribute(int *value, CuAttribute attribute, CuDevice device) {
    (void)device;
    *value = attribute == CU_multiprocessors ? 4 : attribute == CU_capability_major ? 8 : 0;
    return CU_success;
}

static CuResult emulated_DeviceTotalMem(size_t *bytes, CuDevice device) {
    (void)device;
    *bytes = capacity();
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

static CuResult emulated_MemAlloc(CuAddress *address, size_t bytes) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_MemAlloc, &gpu);
    return end(result == CU_success ? allocate(gpu, address, bytes) : result);
}

static CuResult emulated_MemFree(CuAddress address) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_MemFree, &gpu);
    return end(result == CU_success ? give_back(gpu, address) : result);
}

static CuResult emulated_MemGetInfo(size_t *unused, size_t *total) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_MemGetInfo, &gpu);
    if (result == CU_success) *unused = capacity() - gpu->used, *total = capacity();
    return end(result);
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

static CuResult emulated_StreamCreate(CuStream *stream, unsigned flags) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_StreamCreate, &gpu);
    if (result != CU_success) return end(result);
    if (n_streams == STREAMS || flags > CU_stream_non_blocking) return end(CU_invalid_value);
    streams[n_streams].gpu = gpu;
    *stream = (CuStream)&streams[n_streams++];
    return end(CU_success);
}

static CuResult emulated_StreamSynchronize(CuStream handle) {
    Gpu *gpu;
    const CuResult result = begin_on(FN_StreamSynchronize, &gpu);
    if (result != CU_success) return end(result);
    GpuStream *const stream = stream_of(gpu, handle);
    return end(stream ? drain(stream) : CU_invalid_handle);
}

/* what the library exports ---------------------------------------------------------------------- */

static const struct {
    const char *name;
    int since;
    void *function;
} rows[] = {
#define DRIVER(name, since, parameters) {#name, since, (void *)emulated_##name},
#include "runtime/cuda/driver.def"
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
    *out = counts;
    pthread_mutex_unlock(&lock);
}
