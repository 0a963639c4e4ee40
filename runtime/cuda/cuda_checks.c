/* cuda_checks.c: values that a kernel finds wrong (an index out of range) are told when its stream is next waited for:
 * a word of the stream has the first, and kernels that write what others see do nothing from then on [semantics C8].
 * The wait that finds it raises it and clears the word. */
#include "runtime/base/alloc.h"
#include "runtime/cuda/cuda_internal.h"
#include "runtime/device/launch_bind.h"

Status cuda_checks_open(CudaStream *stream) {
    const Driver *const driver = stream->device->driver;
    CuAddress word = 0;
    pthread_mutex_init(&stream->checking, NULL);
    TRY(cuda_answer(stream->device, "memory for checks", driver->MemAlloc(&word, sizeof(CudaFailed))));
    stream->checks.word = word;
    return cuda_answer(stream->device, "a fill", driver->MemsetD8Async(word, 0xff, sizeof(CudaFailed), stream->handle));
}

void cuda_checked_drop(const CudaChecked *checked) {
    CudaChecked *const mine = (CudaChecked *)(uintptr_t)checked;
    if (mine && atomic_fetch_sub(&mine->refs, 1) == 1) mem_free(mine);
}

int32_t cuda_checks_add(CudaStream *stream, const CudaChecked *checked) {
    CudaChecks *const checks = &stream->checks;
    atomic_fetch_add(&((CudaChecked *)(uintptr_t)checked)->refs, 1);
    pthread_mutex_lock(&stream->checking);
    const int32_t number = checks->next;
    checks->next = number == INT32_MAX ? 0 : number + 1;
    const CudaChecked **const at = &checks->open[number % CUDA_OPEN_CHECKS], *const before = *at;
    *at = checked;
    if (checks->n_open < CUDA_OPEN_CHECKS) checks->n_open++;
    pthread_mutex_unlock(&stream->checking);
    cuda_checked_drop(before);
    return number;
}

static void forget_open(CudaChecks *checks) {
    for (int i = 0; i < CUDA_OPEN_CHECKS; i++) {
        cuda_checked_drop(checks->open[i]);
        checks->open[i] = NULL;
    }
    checks->n_open = 0;
}

static Status raise_failed(const CudaChecks *checks, const CudaFailed *failed) {
    const CudaChecked *const checked = checks->open[failed->launch % CUDA_OPEN_CHECKS];
    const OpRow *row = NULL;
    for (int i = 0; checked && i < checked->n; i++)
        if (checked->at[i].inst == failed->inst) row = checked->at[i].row;
    return raise_check(row, checked ? checked->kernel : "a kernel", failed->index, failed->bound);
}

static Status settle_locked(CudaStream *stream) {
    const Driver *const driver = stream->device->driver;
    CudaFailed failed;
    TRY(cuda_answer(stream->device, "a copy to the host",
                    driver->MemcpyDtoHAsync(&failed, stream->checks.word, sizeof failed, stream->handle)));
    TRY(cuda_wait(stream, "the wait"));
    Status status = ST_OK;
    if (failed.launch >= 0) {
        status = raise_failed(&stream->checks, &failed);
        TRY(cuda_answer(stream->device, "a fill",
                        driver->MemsetD8Async(stream->checks.word, 0xff, sizeof failed, stream->handle)));
    }
    forget_open(&stream->checks);
    return status;
}

Status cuda_checks_settle(CudaStream *stream) {
    pthread_mutex_lock(&stream->checking);
    const Status status = stream->checks.n_open ? settle_locked(stream) : ST_OK;
    pthread_mutex_unlock(&stream->checking);
    return status;
}
