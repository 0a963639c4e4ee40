/* cuda_event.c: events of a CUDA device. Where a stream may have a failed check when an event is recorded, the event
 * gets a copy of the stream's word as it is there in the stream's order, and a stream that waits for the event takes
 * it over, unless it has one of its own: what it computes from then on comes from what went wrong [semantics C8].
 *
 *   A | gather (fails)  record: A's word -> the event's |        B | wait  take_over: the event's -> B's word |  ...
 *
 * A stream that waits reads the event's word later than the next record, so each record has a word of its own: a word
 * that was left is used again when the device has been waited for. */
#include "kernels/cuda/prelude.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/cuda/cuda_code.h"
#include "runtime/cuda/cuda_internal.h"

enum { WORDS_AT_ONCE = 256 };

typedef struct CudaEvent {
    sn_event base; /* first */
    CuEvent handle;
    CuAddress word; /* 0: nothing can have gone wrong before it */
    bool told;      /* somebody has had the word's error */
} CudaEvent;

static CudaDevice *device_of(const sn_event *event) { return cuda_device_of(event->row); }

/* words: under the lock of the device's launches ------------------------------------------------ */

static bool words_push(CudaWords *words, CuAddress word) {
    if (words->n == words->capacity) {
        const int capacity = words->capacity ? 2 * words->capacity : WORDS_AT_ONCE;
        CuAddress *const at = mem_resize(words->at, (size_t)capacity * sizeof *at);
        if (!at) return false;
        words->at = at, words->capacity = capacity;
    }
    words->at[words->n++] = word;
    return true;
}

static Status more_words(CudaDevice *device) {
    CuAddress block = 0;
    TRY(cuda_answer(device, "memory for checks", device->driver->MemAlloc(&block, WORDS_AT_ONCE * sizeof(CudaFailed))));
    for (int i = 0; i < WORDS_AT_ONCE; i++)
        if (!words_push(&device->words, block + (CuAddress)i * sizeof(CudaFailed))) return ST_MEMORY;
    return ST_OK;
}

static Status refill_words(CudaDevice *device) {
    if (!device->left_words.n) return more_words(device);
    TRY(cuda_answer(device, "the wait", device->driver->CtxSynchronize()));
    const CudaWords left = device->left_words;
    device->left_words = device->words;
    device->words = left;
    return ST_OK;
}

static Status acquire_word(CudaDevice *device, CuAddress *word) {
    pthread_mutex_lock(&device->launches.lock);
    const Status status = device->words.n ? ST_OK : refill_words(device);
    if (status == ST_OK) *word = device->words.at[--device->words.n];
    pthread_mutex_unlock(&device->launches.lock);
    return status;
}

/* One that there is no room to note stays unused. */
static void leave_word(CudaEvent *event) {
    CudaDevice *const device = device_of(&event->base);
    if (!event->word) return;
    pthread_mutex_lock(&device->launches.lock);
    words_push(&device->left_words, event->word);
    pthread_mutex_unlock(&device->launches.lock);
    event->word = 0;
}

/* carrying ------------------------------------------------------------------------------------ */

static Status find_take_over(CudaDevice *device) {
    if (device->take_over) return ST_OK;
    Text source = {0};
    text_puts(&source, "KERNEL take_over(Failed *mine, const Failed *theirs) {\n"
                       "    if (mine->launch < 0) *mine = *theirs;\n}\n");
    CudaProgram *program;
    Status status = source.at ? cuda_program(device, "take_over", &source, &program) : ST_MEMORY;
    text_free(&source);
    return status == ST_OK ? cuda_program_function(device, program, "take_over", &device->take_over) : status;
}

static Status take_over(CudaStream *stream, CuAddress word) {
    CudaDevice *const device = stream->device;
    void *values[] = {&stream->checks.word, &word};
    TRY(find_take_over(device));
    atomic_fetch_add(&stream->checks.open, 1);
    return cuda_answer(
        device, "a launch",
        device->driver->LaunchKernel(device->take_over, 1, 1, 1, 1, 1, 1, 0, stream->handle, values, NULL));
}

static Status carry_out(CudaEvent *event, CudaStream *stream) {
    CudaDevice *const device = stream->device;
    leave_word(event);
    event->told = false;
    if (!atomic_load(&stream->checks.open)) return ST_OK;
    TRY(acquire_word(device, &event->word));
    return cuda_answer(
        device, "a copy",
        device->driver->MemcpyDtoDAsync(event->word, stream->checks.word, sizeof(CudaFailed), stream->handle));
}

/* the row's ----------------------------------------------------------------------------------- */

sn_event *cuda_event_new(const DeviceRow *row) {
    CudaDevice *const device = cuda_device_of(row);
    CudaEvent *const event = mem_zero(sizeof *event);
    Status status = event ? cuda_enter(device) : ST_MEMORY;
    if (status == ST_OK) {
        status = cuda_answer(device, "an event", device->driver->EventCreate(&event->handle, 0));
        cuda_leave(device);
    }
    if (status != ST_OK) {
        mem_free(event);
        return NULL;
    }
    event->base.row = row;
    return &event->base;
}

void cuda_event_free(sn_event *base) {
    CudaEvent *const event = (CudaEvent *)base;
    CudaDevice *const device = device_of(base);
    if (!device->lost && device->driver->CtxPushCurrent(device->context) == CU_success) {
        leave_word(event);
        device->driver->EventDestroy(event->handle);
        cuda_leave(device);
    }
    mem_free(event);
}

Status cuda_event_record(sn_event *base, sn_stream *on) {
    CudaEvent *const event = (CudaEvent *)base;
    CudaStream *const stream = (CudaStream *)on;
    CudaDevice *const device = stream->device;
    TRY(cuda_enter(device));
    Status status = carry_out(event, stream);
    if (status == ST_OK)
        status = cuda_answer(device, "an event", device->driver->EventRecord(event->handle, stream->handle));
    cuda_leave(device);
    return status;
}

/* A time: what went wrong before it nobody learns from it. */
Status cuda_event_mark(sn_event *base, sn_stream *on) {
    CudaDevice *const device = device_of(base);
    TRY(cuda_enter(device));
    const CuResult result = device->driver->EventRecord(((CudaEvent *)base)->handle, ((CudaStream *)on)->handle);
    const Status status = cuda_answer(device, "an event", result);
    cuda_leave(device);
    return status;
}

static Status wait_entered(CudaStream *stream, CudaEvent *event) {
    CudaDevice *const device = stream->device;
    TRY(cuda_answer(device, "a wait", device->driver->StreamWaitEvent(stream->handle, event->handle, 0)));
    return event->word ? take_over(stream, event->word) : ST_OK;
}

/* A word of another device this one cannot read: it is looked at here and now. */
Status cuda_event_wait(sn_stream *on, sn_event *base) {
    CudaStream *const stream = (CudaStream *)on;
    CudaEvent *const event = (CudaEvent *)base;
    if (base->row->streams != &cuda_streams) return ST_OK; /* what it marks was done at once */
    if (device_of(base) != stream->device && event->word) return cuda_event_synchronize(base);
    TRY(cuda_enter(stream->device));
    const Status status = wait_entered(stream, event);
    cuda_leave(stream->device);
    return status;
}

Status cuda_event_query(sn_event *base, bool *done) {
    CudaDevice *const device = device_of(base);
    TRY(cuda_enter(device));
    const CuResult result = device->driver->EventQuery(((CudaEvent *)base)->handle);
    *done = result == CU_success;
    const Status status = result == CU_not_ready ? ST_OK : cuda_answer(device, "a query", result);
    cuda_leave(device);
    return status;
}

bool cuda_event_passed(sn_event *base) {
    CudaDevice *const device = device_of(base);
    if (device->lost || device->driver->CtxPushCurrent(device->context) != CU_success) return true;
    const CuResult result = device->driver->EventQuery(((CudaEvent *)base)->handle);
    cuda_leave(device);
    return result != CU_not_ready;
}

/* The stream keeps its word, and the event for who waits for it yet: what comes behind is not written either. */
static Status synchronize_entered(CudaDevice *device, CudaEvent *event) {
    CudaFailed failed = {.launch = -1};
    TRY(cuda_answer(device, "the wait", device->driver->EventSynchronize(event->handle)));
    if (!event->word || event->told) return ST_OK;
    TRY(cuda_answer(device, "a copy to the host",
                    device->driver->MemcpyDtoHAsync(&failed, event->word, sizeof failed, device->own.handle)));
    TRY(cuda_wait(&device->own, "the wait"));
    event->told = true;
    return cuda_checks_raise(device, &failed);
}

Status cuda_event_synchronize(sn_event *base) {
    CudaDevice *const device = device_of(base);
    TRY(cuda_enter(device));
    const Status status = synchronize_entered(device, (CudaEvent *)base);
    cuda_leave(device);
    return status;
}

Status cuda_event_elapsed(sn_event *from, sn_event *to, double *ms) {
    CudaDevice *const device = device_of(from);
    float time = 0;
    TRY(cuda_enter(device));
    const CuResult result =
        device->driver->EventElapsedTime(&time, ((CudaEvent *)from)->handle, ((CudaEvent *)to)->handle);
    cuda_leave(device);
    *ms = (double)time;
    if (result == CU_not_ready) return error_raise(ST_STATE, "%s: work has not passed both events", device->name);
    if (result == CU_invalid_handle) return error_raise(ST_STATE, "%s: an event was never recorded", device->name);
    return cuda_answer(device, "an event's time", result);
}
