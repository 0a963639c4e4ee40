/* cuda_stream.h: a stream of a CUDA device: an order in which its work runs, and what its kernels have found wrong.
 *
 *   CudaStream *stream = cuda_stream(device);       the calling thread's, of that device
 *   driver->LaunchKernel(..., stream->handle, ...)
 *   TRY(cuda_wait(stream, "a copy"));
 *
 *   cuda_stream.c  the device's streams, and their functions in the table of devices
 *   cuda_event.c   events, which carry what was found wrong from stream to stream
 *   cuda_checks.c  the word of a stream: the first check that failed
 *
 * All functions but cuda_stream are called between cuda_enter and cuda_leave. Streams are never destroyed. */
#ifndef SINTER_RUNTIME_CUDA_STREAM_H
#define SINTER_RUNTIME_CUDA_STREAM_H
#include <pthread.h>
#include <stdatomic.h>

#include "ir/op.h"
#include "runtime/base/base.h"
#include "runtime/cuda/driver_types.h"
#include "runtime/device/stream.h"

typedef struct CudaDevice CudaDevice;

/* What the device writes where a check fails (kernels/cuda/reduce.cuh has it, too): the launch, -1: none. */
typedef struct CudaFailed {
    int32_t launch, inst;
    int64_t index, bound;
} CudaFailed;

/* Behind it, of each stream: how blocks of a launch that wait for others count themselves (likewise there). Launches of
 * a stream follow each other, those of graphs on it as well, and the last block leaves it 0. */
typedef struct CudaOrder {
    int32_t begun, done;
} CudaOrder;

typedef Status CudaSay(const OpRow *row, const CudaFailed *failed); /* raises what it means */

/* Which ops a function's checks are of. Launches that may fail hold it until the device was waited for. */
typedef struct CudaChecked {
    _Atomic int refs;
    char kernel[64];
    CudaSay *say; /* NULL: an index of the row's is out of range */
    int n;
    struct {
        int inst;
        const OpRow *row; /* NULL: unknown */
    } at[];
} CudaChecked;

enum { CUDA_OPEN_CHECKS = 1024 }; /* launches that can be told apart; of more of them the last ones */

typedef struct CudaChecks { /* of a stream */
    CuAddress word;         /* a CudaFailed on the device, a CudaOrder behind it */
    _Atomic int open;       /* launches that may have failed since the stream was waited for, its own and others' */
    pthread_mutex_t reading;
} CudaChecks;

typedef struct CudaLaunches { /* of a device: those that may have failed, by number */
    pthread_mutex_t lock;
    int32_t next;
    const CudaChecked *at[CUDA_OPEN_CHECKS];
    const void *site[CUDA_OPEN_CHECKS]; /* the user's line, with device_asserts */
} CudaLaunches;

typedef struct CudaStream {
    sn_stream base; /* first: a stream is one of the table's */
    CudaDevice *device;
    CuStream handle;
    CudaChecks checks;
    struct CudaStream *next; /* of the device */
} CudaStream;

Status cuda_stream_open(CudaStream *stream, CudaDevice *device);
CudaStream *cuda_stream(CudaDevice *device);
Status cuda_wait(CudaStream *stream, const char *what); /* for all that runs on it */
/* With launch_blocking: waits for what was just launched, and raises what it found wrong. */
Status cuda_launched(CudaStream *stream);
Status cuda_wait_all(CudaDevice *device); /* all streams; raises the first that went wrong */
extern const StreamRow cuda_streams;

/* cuda_event.c */
sn_event *cuda_event_new(const DeviceRow *row);
void cuda_event_free(sn_event *event);
Status cuda_event_record(sn_event *event, sn_stream *stream);
Status cuda_event_mark(sn_event *event, sn_stream *stream);
Status cuda_event_wait(sn_stream *stream, sn_event *event);
Status cuda_event_query(sn_event *event, bool *done);
bool cuda_event_passed(sn_event *event);
Status cuda_event_synchronize(sn_event *event);
Status cuda_event_elapsed(sn_event *from, sn_event *to, double *ms);

/* cuda_foreign.c */
Status cuda_lend(sn_stream *stream, void *to);
Status cuda_borrow(sn_stream *stream, void *from);
void cuda_drain(const Memory *memory);

/* cuda_checks.c */
Status cuda_checks_open(CudaStream *stream);
/* The number of a launch whose checks are these; it holds them. */
int32_t cuda_checks_add(CudaStream *stream, const CudaChecked *checked);
/* The same for a launch of a graph, which runs many times: until it is given back. */
int32_t cuda_checks_keep(const CudaChecked *checked);
void cuda_checks_unkeep(int32_t number);
void cuda_checks_may_fail(CudaStream *stream); /* what was launched has kept ones */
/* Where launches may have failed: waits for them, and raises the first that has. */
Status cuda_checks_read(CudaStream *stream);
/* The error of what a word says; ST_OK: it says nothing. */
Status cuda_checks_raise(CudaDevice *device, const CudaFailed *failed);
void cuda_checked_drop(const CudaChecked *checked);

#endif
