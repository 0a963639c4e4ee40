/* cuda_stream.h: a stream of a CUDA device: an order in which its work runs, and what its kernels have found wrong.
 *
 *   CudaStream *stream = cuda_stream(device);       the calling thread's, of that device
 *   driver->LaunchKernel(..., stream->handle, ...)
 *   TRY(cuda_wait(stream, "a copy"));
 *
 * All functions but cuda_stream_open and cuda_stream are called between cuda_enter and cuda_leave. */
#ifndef SINTER_RUNTIME_CUDA_STREAM_H
#define SINTER_RUNTIME_CUDA_STREAM_H
#include <pthread.h>
#include <stdatomic.h>

#include "ir/op.h"
#include "runtime/base/base.h"
#include "runtime/cuda/driver_types.h"

typedef struct CudaDevice CudaDevice;

/* What the device writes where a check fails (kernels/cuda/reduce.cuh has it, too): the launch, -1: none. */
typedef struct CudaFailed {
    int32_t launch, inst;
    int64_t index, bound;
} CudaFailed;

/* Which ops a function's checks are of. Launches that may fail hold it until their stream was waited for. */
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
    int n_open;                                /* of them since the stream was waited for, at most CUDA_OPEN_CHECKS */
    const CudaChecked *open[CUDA_OPEN_CHECKS]; /* by number */
} CudaChecks;

typedef struct CudaStream {
    CudaDevice *device;
    CuStream handle;
    pthread_mutex_t checking;
    CudaChecks checks; /* under it */
} CudaStream;

Status cuda_stream_open(CudaStream *stream, CudaDevice *device);
CudaStream *cuda_stream(CudaDevice *device);
Status cuda_wait(CudaStream *stream, const char *what); /* for all that runs on it */

/* cuda_checks.c */
Status cuda_checks_open(CudaStream *stream);
/* The number of a launch whose checks are these; it holds them. */
int32_t cuda_checks_add(CudaStream *stream, const CudaChecked *checked);
/* Where launches may have failed: waits for them, and raises the first that has. */
Status cuda_checks_settle(CudaStream *stream);
void cuda_checked_drop(const CudaChecked *checked);

#endif
