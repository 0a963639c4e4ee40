/* cuda_checks.c: values that a kernel finds wrong (an index out of range) are told when its stream is next waited for:
 * a word of the stream has the first, and kernels that write what others see do nothing from then on [semantics C8].
 * The wait that finds it raises it and clears the word. Launches are numbered on their device, as a word goes from
 * stream to stream (cuda_event.c). */
#include "runtime/base/alloc.h"
#include "runtime/core/settings.h"
#include "runtime/core/state.h"
#include "runtime/cuda/cuda_graph.h"
#include "runtime/cuda/cuda_internal.h"
#include "runtime/device/launch_bind.h"

static Status clear_word(CudaStream *stream) {
    const Driver *const driver = stream->device->driver;
    return cuda_answer(stream->device, "a fill",
                       driver->MemsetD8Async(stream->checks.word, 0xff, sizeof(CudaFailed), stream->handle));
}

Status cuda_checks_open(CudaStream *stream) {
    pthread_mutex_init(&stream->checks.reading, NULL);
    CudaDevice *const device = stream->device;
    TRY(cuda_answer(device, "memory for checks",
                    device->driver->MemAlloc(&stream->checks.word, sizeof(CudaFailed) + sizeof(CudaOrder))));
    const CuAddress order = stream->checks.word + sizeof(CudaFailed);
    TRY(cuda_answer(device, "a fill", device->driver->MemsetD8Async(order, 0, sizeof(CudaOrder), stream->handle)));
    return clear_word(stream);
}

void cuda_checked_drop(const CudaChecked *checked) {
    CudaChecked *const mine = (CudaChecked *)(uintptr_t)checked;
    if (mine && atomic_fetch_sub(&mine->refs, 1) == 1) mem_free(mine);
}

static void hold_checked(const CudaChecked *checked) {
    atomic_fetch_add(&((CudaChecked *)(uintptr_t)checked)->refs, 1);
}

/* kept ones: launches of graphs, in one table for all streams -------------------------------------- */

enum { FIRST_KEPT = 1 << 30 };

static struct {
    pthread_mutex_t lock;
    const CudaChecked **at; /* by number; NULL: free */
    int n, capacity;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool grow_kept(void) {
    const int capacity = 2 * kept.capacity + 64;
    const CudaChecked **const grown = mem_resize(kept.at, (size_t)capacity * sizeof *grown);
    if (grown) kept.at = grown, kept.capacity = capacity;
    return grown != NULL;
}

/* Where memory is out the error names no op. */
int32_t cuda_checks_keep(const CudaChecked *checked) {
    int at = 0;
    pthread_mutex_lock(&kept.lock);
    while (at < kept.n && kept.at[at]) at++;
    if (at == kept.n && (kept.n < kept.capacity || grow_kept())) kept.at[kept.n++] = NULL;
    if (at < kept.n) hold_checked(kept.at[at] = checked);
    pthread_mutex_unlock(&kept.lock);
    return FIRST_KEPT + at;
}

void cuda_checks_unkeep(int32_t number) {
    pthread_mutex_lock(&kept.lock);
    const int at = number - FIRST_KEPT;
    const CudaChecked *const was = at < kept.n ? kept.at[at] : NULL;
    if (was) kept.at[at] = NULL;
    pthread_mutex_unlock(&kept.lock);
    cuda_checked_drop(was);
}

/* Held for the caller. */
static const CudaChecked *checked_of(int32_t number) {
    pthread_mutex_lock(&kept.lock);
    const int at = number - FIRST_KEPT;
    const CudaChecked *const found = at < kept.n ? kept.at[at] : NULL;
    if (found) hold_checked(found);
    pthread_mutex_unlock(&kept.lock);
    return found;
}

void cuda_checks_may_fail(CudaStream *stream) { atomic_fetch_add(&stream->checks.open, 1); }

/* of a stream ------------------------------------------------------------------------------------ */

int32_t cuda_checks_add(CudaStream *stream, const CudaChecked *checked) {
    CudaLaunches *const launches = &stream->device->launches;
    int32_t recorded;
    if (UNLIKELY(cuda_recording != NULL) && cuda_recorded_check(checked, &recorded)) return recorded;
    hold_checked(checked);
    atomic_fetch_add(&stream->checks.open, 1);
    pthread_mutex_lock(&launches->lock);
    const int32_t number = launches->next;
    launches->next = number == FIRST_KEPT - 1 ? 0 : number + 1;
    const CudaChecked **const at = &launches->at[number % CUDA_OPEN_CHECKS], *const before = *at;
    *at = checked;
    launches->site[number % CUDA_OPEN_CHECKS] = setting_number(SET_device_asserts) ? state_get()->site : NULL;
    pthread_mutex_unlock(&launches->lock);
    cuda_checked_drop(before);
    return number;
}

static Status raise_of(const CudaChecked *checked, const CudaFailed *failed) {
    const OpRow *row = NULL;
    for (int i = 0; checked && i < checked->n; i++)
        if (checked->at[i].inst == failed->inst) row = checked->at[i].row;
    if (checked && checked->say) return checked->say(checked->at[0].row, failed);
    return raise_check((CheckedOp){row, NULL}, checked ? checked->kernel : "a kernel", failed->index, failed->bound);
}

static Status raise_kept(const CudaFailed *failed) {
    const CudaChecked *const held = checked_of(failed->launch);
    const Status status = raise_of(held, failed);
    cuda_checked_drop(held);
    return status;
}

Status cuda_checks_raise(CudaDevice *device, const CudaFailed *failed) {
    if (failed->launch < 0) return ST_OK;
    if (failed->launch >= FIRST_KEPT) return raise_kept(failed);
    pthread_mutex_lock(&device->launches.lock);
    const Status status = raise_of(device->launches.at[failed->launch % CUDA_OPEN_CHECKS], failed);
    error_set_site(device->launches.site[failed->launch % CUDA_OPEN_CHECKS]);
    pthread_mutex_unlock(&device->launches.lock);
    return status;
}

/* Launches that come meanwhile stay open. */
static Status read_locked(CudaStream *stream, CudaFailed *failed) {
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

Status cuda_checks_read(CudaStream *stream) {
    CudaFailed failed = {.launch = -1};
    if (LIKELY(!atomic_load(&stream->checks.open))) return ST_OK;
    pthread_mutex_lock(&stream->checks.reading);
    const Status status = read_locked(stream, &failed);
    pthread_mutex_unlock(&stream->checks.reading);
    return status == ST_OK ? cuda_checks_raise(stream->device, &failed) : status;
}
