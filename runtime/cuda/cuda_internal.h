/* cuda_internal.h: what the files of a CUDA device share.
 *
 *   cuda_device.c  the row: memory, copies, errors      cuda_code.c    programs: compiled, loaded, kept
 *   cuda_checks.c  checks that kernels found failed     cuda_launch.c  a plan's kernels on the device's stream */
#ifndef SINTER_RUNTIME_CUDA_INTERNAL_H
#define SINTER_RUNTIME_CUDA_INTERNAL_H
#include <pthread.h>
#include <stdatomic.h>

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/driver.h"
#include "runtime/device/device.h"

/* What the device writes where a check fails (kernels/cuda/reduce.cuh has it, too): the launch, -1: none. */
typedef struct CudaFailed {
    int32_t launch, inst;
    int64_t index, bound;
} CudaFailed;

/* Which ops a function's checks are of. Launches that may fail hold it until the device was waited for. */
typedef struct CudaChecked {
    _Atomic int refs;
    char kernel[64];
    int n;
    struct {
        int inst;
        const OpRow *row; /* NULL: unknown */
    } at[];
} CudaChecked;

enum { CUDA_OPEN_CHECKS = 1024 }; /* launches that can be told apart; of more of them the last ones */

typedef struct CudaChecks {
    CuAddress word;                            /* a CudaFailed on the device */
    int32_t next;                              /* number of the next launch that may fail */
    int n_open;                                /* of them since the device was waited for, at most CUDA_OPEN_CHECKS */
    const CudaChecked *open[CUDA_OPEN_CHECKS]; /* by number */
} CudaChecks;

typedef struct CudaDevice {
    DeviceRow row; /* first: a row is its device */
    char name[24];
    pthread_mutex_t opening;
    _Atomic bool is_open;
    _Atomic CuResult lost; /* CU_success, or why */
    const Driver *driver;
    CuContext context;
    CuStream stream;
    int arch; /* 90 */
    pthread_mutex_t checking;
    CudaChecks checks; /* under it */
} CudaDevice;

static inline CudaDevice *cuda_device_of(const DeviceRow *row) { return (CudaDevice *)(uintptr_t)row; }

/* Opens the device and makes its context the thread's, until cuda_leave. Raises where the device is absent or lost. */
Status cuda_enter(CudaDevice *device);
void cuda_leave(const CudaDevice *device);
/* The error of a driver's result; `what` was called. */
Status cuda_answer(CudaDevice *device, const char *what, CuResult result);
Status cuda_wait(CudaDevice *device, const char *what); /* entered: for all that runs on the stream */

/* cuda_checks.c; all entered */
Status cuda_checks_open(CudaDevice *device);
/* The number of a launch whose checks are these; it holds them. */
int32_t cuda_checks_add(CudaDevice *device, const CudaChecked *checked);
/* Where launches may have failed: waits for them, and raises the first that has. */
Status cuda_checks_settle(CudaDevice *device);
void cuda_checked_drop(const CudaChecked *checked);

/* cuda_code.c, cuda_launch.c: the row's */
Status cuda_make_code(const DeviceRow *row, Executable *e, const NativeCode *native, void *context);
void cuda_drop_code(void *step);
size_t cuda_code_bytes(const void *step);
Status cuda_launch(struct Launch *launch, int step);

#endif
