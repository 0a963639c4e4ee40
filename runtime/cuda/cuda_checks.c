/* cuda_checks.c: values that a kernel finds wrong (an index out of range) are told when the device is next waited for:
 * a word of the stream has the first, and kernels that write what others see do nothing from then on [semantics C8].
 * The wait that finds it raises it and clears the word. */
#include "runtime/base/alloc.h"
#include "runtime/cuda/cuda_internal.h"
#include "runtime/device/launch_bind.h"

Status cuda_checks_open(CudaDevice *device) {
    const Driver *const driver = device->driver;
    CuAddress word = 0;
    TRY(cuda_answer(device, "memory for checks", driver->MemAlloc(&word, sizeof(CudaFailed))));
    device->checks.word = word;
    return cuda_answer(device, "a fill", driver->MemsetD8Async(word, 0xff, sizeof(CudaFailed), device->stream));
}

void cuda_checked_drop(const CudaChecked *checked) {
    CudaChecked *const mine = (CudaChecked *)(uintptr_t)checked;
    if (mine && atomic_fetch_sub(&mine->refs, 1) == 1) mem_free(mine);
}

int32_t cuda_checks_add(CudaDevice *device, const CudaChecked *checked) {
    CudaChecks *const checks = &device->checks;
    atomic_fetch_add(&((CudaChecked *)(uintptr_t)checked)->refs, 1);
    pthread_mutex_lock(&device->checking);
    const int32_t number = checks->next;
    checks->next = number == INT32_MAX ? 0 : number + 1;
    const CudaChecked **const at = &checks->open[number % CUDA_OPEN_CHECKS], *const before = *at;
    *at = checked;
    if (checks->n_open < CUDA_OPEN_CHECKS) checks->n_open++;
    pthread_mutex_unlock(&device->checking);
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

static Status settle_locked(CudaDevice *device) {
    const Driver *const driver = device->driver;
    CudaFailed failed;
    TRY(cuda_answer(device, "a copy to the host",
                    driver->MemcpyDtoHAsync(&failed, device->checks.word, sizeof failed, device->stream)));
    TRY(cuda_wait(device, "the wait"));
    Status status = ST_OK;
    if (failed.launch >= 0) {
        status = raise_failed(&device->checks, &failed);
        TRY(cuda_answer(device, "a fill",
                        driver->MemsetD8Async(device->checks.word, 0xff, sizeof failed, device->stream)));
    }
    forget_open(&device->checks);
    return status;
}

Status cuda_checks_settle(CudaDevice *device) {
    pthread_mutex_lock(&device->checking);
    const Status status = device->checks.n_open ? settle_locked(device) : ST_OK;
    pthread_mutex_unlock(&device->checking);
    return status;
}
