/* cuda_internal.h: what the files of a CUDA device share.
 *
 *   cuda_device.c  the row: memory, copies, errors      cuda_code.c    programs: compiled, loaded, kept
 *   cuda_stream.c  a device's streams                   cuda_launch.c  a plan's kernels on the thread's stream
 *   cuda_checks.c  checks that kernels found failed     cuda_memory.c  its allocator's source
 *   cuda_graph.c   a plan's kernels as one launch */
#ifndef SINTER_RUNTIME_CUDA_INTERNAL_H
#define SINTER_RUNTIME_CUDA_INTERNAL_H
#include <pthread.h>
#include <stdatomic.h>

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/cuda_stream.h"
#include "runtime/cuda/driver.h"
#include "runtime/device/caching.h"
#include "runtime/device/device.h"

enum { CUDA_IDLE_EVENTS = 64 };

typedef struct CudaWords { /* for events: failed checks, on the device */
    CuAddress *at;
    int n, capacity;
} CudaWords;

struct CudaDevice {
    DeviceRow row; /* first: a row is its device */
    char name[24];
    pthread_mutex_t opening;
    _Atomic bool is_open;
    _Atomic CuResult lost; /* CU_success, or why */
    const Driver *driver;
    CuContext context;
    int arch; /* 90 */
    int multiprocessors;
    CudaStream own;      /* what runs where no other stream was asked for */
    CudaStream recorded; /* what is captured (cuda_graph.c); opened at the first capture */
    Caching *memory;
    CuEvent idle_events[CUDA_IDLE_EVENTS]; /* of the allocator, for its next records; under its lock */
    int n_idle_events;
    CudaLaunches launches;
    /* under the lock of launches: */
    CudaStream *streams;         /* all, the newest first */
    CudaWords words, left_words; /* unused ones; those that work may still read */
    CuFunction take_over;        /* NULL: no stream has waited for a word yet */
};

static inline CudaDevice *cuda_device_of(const DeviceRow *row) { return (CudaDevice *)(uintptr_t)row; }
static inline CudaDevice *cuda_device_of_memory(const Memory *memory) {
    return cuda_device_of(device_of_memory(memory));
}

/* Opens the device and makes its context the thread's, until cuda_leave. Raises where the device is absent or lost. */
Status cuda_enter(CudaDevice *device);
void cuda_leave(const CudaDevice *device);
/* The error of a driver's result; `what` was called. */
Status cuda_answer(CudaDevice *device, const char *what, CuResult result);

/* A launch on the thread's stream; all of Sinter's own go through it. */
typedef struct CudaStart {
    CuFunction function;
    unsigned blocks, threads, shared_bytes;
    void **values; /* of its arguments */
} CudaStart;
Status cuda_launch_function(CudaDevice *device, const CudaStart *start);
Status cuda_launch_now(CudaDevice *device, const CudaStart *start); /* whether or not the thread records a graph */

/* cuda_code.c, cuda_launch.c: the row's */
Status cuda_make_code(const DeviceRow *row, Executable *e, const NativeCode *native, void *context);
void cuda_drop_code(void *step);
size_t cuda_code_bytes(const void *step);
Status cuda_launch(struct Launch *launch, int step);
bool cuda_remark(const Kernel *kernel, Text *text); /* cuda_template.c */

#endif
