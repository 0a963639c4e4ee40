/* cuda_checks.c: values that a kernel finds wrong (an index out of range) are told when its stream is next waited for:
 * a word of the stream has the first, and kernels that write what others see do nothing from then on [semantics C8].
 * The wait that finds it raises it and clears the word. Launches are numbered on their device, as a word goes from
 * stream to stream (cuda_event.c). */
#include "runtime/base/alloc.h"
#include "runtime/cuda/cuda_internal.h"
#include "runtime/device/launch_bind.h"

static Status clear_word(CudaStream *stream) {
    const Driver *const driver = stream->device->driver;
    return cuda_answer(stream->device, "a fill",
                       driver->MemsetD8Async(stream->checks.word, 0xff, sizeof(CudaFailed), stream->handle));
}

Status cuda_checks_open(CudaStream *stream) {
    pthread_mutex_init(&stream->checks.settling, NULL);
    TRY(cuda_answer(stream->device, "memory for checks",
                    stream->device->driver->MemAlloc(&stream->checks.word, sizeof(CudaFailed))));
    return clear_word(stream);
}

void cuda_checked_drop(const CudaChecked *checked) {
    CudaChecked *const mine = (CudaChecked *)(uintptr_t)checked;
    if (mine && atomic_fetch_sub(&mine->refs, 1) == 1) mem_free(mine);
}

int32_t cuda_checks_add(CudaStream *stream, const CudaChecked *checked) {
    CudaLaunches *const launches = &stream->device->launches;
    atomic_fetch_add(&((CudaChecked *)(uintptr_t)checked)->refs, 1);
    atomic_fetch_add(&stream->checks.open, 1);
    pthread_mutex_lock(&launches->lock);
    const int32_t number = launches->next;
    launches->next = number == INT32_MAX ? 0 : number + 1;
    const CudaChecked **const at = &launches->at[number % CUDA_OPEN_CHECKS], *const before = *at;
    *at = checked;
    pthread_mutex_unlock(&launches->lock);
    cuda_checked_drop(before);
    return number;
}

static Status raise_locked(const CudaLaunches *launches, const CudaFailed *failed) {
    const CudaChecked *const checked = launches->at[failed->launch % CUDA_OPEN_CHECKS];
    const OpRow *row = NULL;
    for (int i = 0; checked && i < checked->n; i++)
        if (checked->at[i].inst == failed->inst) row = checked->at[i].row;
    return raise_check(row, checked ? checked->kernel : "a kernel", failed->index, failed->bound);
}

Status cuda_checks_raise(CudaDevice *device, const CudaFailed *failed) {
    if (failed->launch < 0) return ST_OK;
    pthread_mutex_lock(&device->launches.lock);
    const Status status = raise_locked(&device->launches, failed);
    pthread_mutex_unlock(&device->launches.lock);
    return status;
}

/* Launches that come meanwhile stay open. */
static Status settle_locked(CudaStream *stream, CudaFailed *failed) {
    const Driver *const driver = stream->device->driver;
    const int open = atomic_load(&stream->checks.open);
    if (!open) return ST_OK;
    TRY(cuda_answer(stream->device, "a copy to the host",
                    driver->MemcpyDtoHAsync(failed, stream->checks.word, sizeof *failed, stream->handle)));
    TRY(cuda_wait(stream, "the wait"));
    if (failed->launch >= 0) TRY(clear_word(stream));
    atomic_fetch_sub(&stream->checks.open, open);
    return ST_OK;
}

Status cuda_checks_settle(CudaStream *stream) {
    CudaFailed failed = {.launch = -1};
    if (LIKELY(!atomic_load(&stream->checks.open))) return ST_OK;
    pthread_mutex_lock(&stream->checks.settling);
    const Status status = settle_locked(stream, &failed);
    pthread_mutex_unlock(&stream->checks.settling);
    return status == ST_OK ? cuda_checks_raise(stream->device, &failed) : status;
}
