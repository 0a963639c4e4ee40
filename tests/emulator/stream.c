/* stream.c: streams, events and pinned host memory of the emulated driver. A stream is a queue. Work runs on the thread
 * that waits for it, as little as the wait needs:
 *
 *   synchronise B:   A | kernel, record e, kernel |   B | wait e, copy |     runs A's kernel and record, then B
 *
 * EMULATED_CUDA="reorder=7" makes a device that runs on its own: at each call, and before each step of a wait, work of
 * any stream whose next thing may run does so by chance, in an order that the seed decides. Either way a program that
 * does not say what waits for what reads memory that was not written yet, or was written again.
 *
 * Copies from pageable memory read it at the call, copies to it are done at the call; pinned memory is read and written
 * when the work runs, and must be there then. An event's time is when its record ran. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/emulator/gpu.h"
#include "tests/emulator/planted.h"

enum { QUEUE = 1 << 12, STREAMS = 256, EVENTS = 1 << 14, PINNED = 1 << 10, PINNED_FRESH = 0xbd };

struct GpuStream {
    Gpu *gpu;
    GpuCapture *capture;
    int first, n; /* a ring */
    GpuWork queue[QUEUE];
};

static GpuStream *streams[STREAMS];
static int n_streams;
static GpuEvent *events[EVENTS];
static int n_places; /* of events, taken or free */
static struct {
    char *at;
    size_t bytes;
} pinned[PINNED];
static int n_pinned;

/* pinned memory ---------------------------------------------------------------------------------- */

static bool is_pinned(CuAddress address, size_t n) {
    for (int i = 0; i < n_pinned; i++) {
        const size_t from = (size_t)(address - (CuAddress)(uintptr_t)pinned[i].at);
        if (from <= pinned[i].bytes && n <= pinned[i].bytes - from) return true;
    }
    return false;
}

CuResult pinned_allocate(void **memory, size_t bytes) {
    if (!bytes) return CU_invalid_value;
    char *const at = n_pinned < PINNED ? aligned_alloc(4096, (bytes + 4095) / 4096 * 4096) : NULL;
    if (!at) return CU_out_of_memory;
    memset(at, PINNED_FRESH, bytes);
    pinned[n_pinned].at = at, pinned[n_pinned++].bytes = bytes;
    emulator_counts.pinned += (int64_t)bytes;
    *memory = at;
    return CU_success;
}

CuResult pinned_free(void *memory) {
    for (int i = 0; i < n_pinned; i++) {
        if (pinned[i].at != memory) continue;
        emulator_counts.pinned -= (int64_t)pinned[i].bytes;
        pinned[i] = pinned[--n_pinned];
        free(memory);
        return CU_success;
    }
    return CU_invalid_value;
}

/* work ------------------------------------------------------------------------------------------- */

static char *bytes_at(Gpu *gpu, CuAddress address) { return gpu->bytes + gpu_place(gpu, address); }
static void *host_at(CuAddress address) { return (void *)(uintptr_t)address; }

static bool host_sound(const GpuWork *w, CuAddress address) {
    if (w->staged || !w->pinned) return gpu_is_host(address);
    if (is_pinned(address, w->n)) return true;
    emulator_tell("a copy of %zu bytes: the pinned memory was freed before it ran", w->n);
    return false;
}

/* What the work reads and writes is there. */
static bool is_sound(Gpu *gpu, const GpuWork *w) {
    if (w->kind >= WORK_kernel) return true;
    const bool to = w->kind == WORK_to_host ? host_sound(w, w->to) : gpu_may_access(gpu, w->to, w->n);
    if (w->kind == WORK_fill) return to;
    return to && (w->kind == WORK_from_host ? host_sound(w, w->from) : gpu_may_access(gpu, w->from, w->n));
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static CuResult run_copy(Gpu *gpu, const GpuWork *w) {
    const void *const from = w->staged                   ? w->staged
                             : w->kind == WORK_from_host ? host_at(w->from)
                                                         : bytes_at(gpu, w->from);
    const size_t n = w->n && planted(PLANTED_copy_short) ? w->n - 1 : w->n;
    memmove(w->kind == WORK_to_host ? host_at(w->to) : bytes_at(gpu, w->to), from, n);
    emulator_counts.copies++;
    return CU_success;
}

static CuResult run_fill(Gpu *gpu, const GpuWork *w) {
    if (!planted(PLANTED_fill_lost)) memset(bytes_at(gpu, w->to), w->byte, w->n);
    emulator_counts.fills++;
    return CU_success;
}

static CuResult run_kernel(Gpu *gpu, const GpuWork *w) {
    const CuResult result = launch_run(gpu, w->launch);
    emulator_counts.launches++;
    return result;
}

static CuResult run_nothing(Gpu *gpu, const GpuWork *w) {
    (void)gpu, (void)w;
    return CU_success;
}

static CuResult run(Gpu *gpu, const GpuWork *w) {
    static CuResult (*const runs[])(Gpu *, const GpuWork *) = {
        [WORK_from_host] = run_copy, [WORK_to_host] = run_copy,   [WORK_within] = run_copy, [WORK_fill] = run_fill,
        [WORK_kernel] = run_kernel,  [WORK_record] = run_nothing, [WORK_wait] = run_nothing};
    return is_sound(gpu, w) ? runs[w->kind](gpu, w) : CU_illegal_address;
}

void record_release(GpuRecord *record) {
    if (record && --record->refs == 0) free(record);
}

static void work_end(GpuWork *w) {
    if (w->kind == WORK_record) w->record->done = true, w->record->at = now();
    if (w->launch) launch_free(w->launch);
    free(w->staged);
    record_release(w->record);
}

/* queues ----------------------------------------------------------------------------------------- */

GpuStream *stream_new(Gpu *gpu) {
    GpuStream *const stream = n_streams < STREAMS ? calloc(1, sizeof *stream) : NULL;
    if (!stream) return NULL;
    stream->gpu = gpu;
    return streams[n_streams++] = stream;
}

GpuCapture **stream_capture(GpuStream *stream) { return &stream->capture; }

GpuStream *stream_of(Gpu *gpu, CuStream handle) {
    for (int i = 0; i < n_streams; i++)
        if ((CuStream)streams[i] == handle) return streams[i]->gpu == gpu ? streams[i] : NULL;
    return NULL;
}

GpuStream *stream_of_any(Gpu *gpu, CuStream handle) {
    if (handle) return stream_of(gpu, handle);
    if (!gpu->usual) gpu->usual = stream_new(gpu);
    return gpu->usual;
}

static GpuWork *head(GpuStream *stream) { return &stream->queue[stream->first]; }

/* On a lost device nothing runs, and nothing waits. */
static CuResult run_next(GpuStream *stream) {
    Gpu *const gpu = stream->gpu;
    GpuWork work = *head(stream);
    stream->first = (stream->first + 1) % QUEUE;
    stream->n--;
    emulator_counts.queued--;
    if (gpu->lost == CU_success) gpu->lost = run(gpu, &work);
    work_end(&work);
    return gpu->lost;
}

/* The stream itself, or the one that it waits for. A record is older than what waits for it, so that this ends. */
static GpuStream *runnable(GpuStream *stream) {
    while (head(stream)->kind == WORK_wait && !head(stream)->record->done) stream = head(stream)->record->stream;
    return stream;
}

static uint64_t by_chance(uint64_t n) {
    static uint64_t state;
    if (!state) state = (uint64_t)gpu_option("reorder=", 0);
    return fiber_random(&state) % n;
}

static bool reorders(void) { return gpu_option("reorder=", 0) != 0; }

static GpuStream *any_stream(void) {
    const int from = n_streams ? (int)by_chance((uint64_t)n_streams) : 0;
    for (int i = 0; i < n_streams; i++) {
        GpuStream *const stream = streams[(from + i) % n_streams];
        if (stream->n) return runnable(stream);
    }
    return NULL;
}

void streams_stir(void) {
    if (!reorders() || by_chance(2)) return;
    for (uint64_t left = by_chance(4); left; left--) {
        GpuStream *const stream = any_stream();
        if (!stream) return;
        run_next(stream);
    }
}

/* For a wait that needs something of this stream, which has work. */
static void step_towards(GpuStream *stream) { run_next(reorders() ? any_stream() : runnable(stream)); }

CuResult stream_drain(GpuStream *stream) {
    if (stream->capture) return capture_spoil(stream->capture);
    while (stream->n) step_towards(stream);
    return stream->gpu->lost;
}

CuResult streams_drain(Gpu *gpu) {
    for (int i = 0; i < n_streams; i++)
        if (streams[i]->gpu == gpu) stream_drain(streams[i]);
    return gpu->lost;
}

/* Who asks again and again gets there. */
CuResult stream_query(GpuStream *stream) {
    if (stream->capture) return capture_spoil(stream->capture);
    if (!stream->n) return stream->gpu->lost;
    step_towards(stream);
    return stream->gpu->lost == CU_success ? CU_not_ready : stream->gpu->lost;
}

static bool stage(GpuWork *work) {
    if (work->kind != WORK_from_host || work->pinned) return true;
    work->staged = malloc(work->n + 1);
    if (work->staged) memcpy(work->staged, host_at(work->from), work->n);
    return work->staged != NULL;
}

CuResult stream_push(GpuStream *stream, GpuWork work) {
    const bool host = work.kind == WORK_from_host || work.kind == WORK_to_host;
    work.pinned = host && is_pinned(work.kind == WORK_from_host ? work.from : work.to, work.n);
    if (!is_sound(stream->gpu, &work)) return CU_invalid_value;
    if (stream->capture)
        return host && !work.pinned ? capture_spoil(stream->capture) : capture_push(stream->capture, &work);
    if (work.kind == WORK_to_host && planted(PLANTED_copy_early)) return run_copy(stream->gpu, &work);
    if (!stage(&work)) return CU_out_of_memory;
    if (stream->n == QUEUE) stream_drain(stream);
    stream->queue[(stream->first + stream->n++) % QUEUE] = work;
    emulator_counts.queued++;
    return work.kind == WORK_to_host && !work.pinned ? stream_drain(stream) : stream->gpu->lost;
}

/* events ----------------------------------------------------------------------------------------- */

GpuEvent *event_new(Gpu *gpu, bool timed) {
    int at = 0;
    while (at < n_places && events[at]) at++;
    GpuEvent *const event = at < EVENTS ? calloc(1, sizeof *event) : NULL;
    if (!event) return NULL;
    if (at == n_places) n_places++;
    event->gpu = gpu, event->timed = timed;
    emulator_counts.events++;
    return events[at] = event;
}

GpuEvent *event_of(CuEvent handle) {
    for (int i = 0; handle && i < n_places; i++)
        if ((CuEvent)events[i] == handle) return events[i];
    return NULL;
}

void event_free(GpuEvent *event) {
    int at = 0;
    while (events[at] != event) at++;
    events[at] = NULL;
    emulator_counts.events--;
    record_release(event->last);
    free(event);
}

CuResult record_push(GpuRecord **last, GpuStream *stream) {
    GpuRecord *const record = calloc(1, sizeof *record);
    if (!record) return CU_out_of_memory;
    *record = (GpuRecord){.refs = 2, .stream = stream};
    record_release(*last);
    *last = record;
    if (planted(PLANTED_record_early)) {
        record->done = true, record->at = now(), record->refs = 1;
        return CU_success;
    }
    return stream_push(stream, (GpuWork){.kind = WORK_record, .record = record});
}

/* What was never recorded is passed at once. */
CuResult record_wait(GpuRecord *last, GpuStream *stream) {
    if (!last || planted(PLANTED_wait_missing)) return CU_success;
    last->refs++;
    return stream_push(stream, (GpuWork){.kind = WORK_wait, .record = last});
}

CuResult event_record(GpuEvent *event, GpuStream *stream) {
    if (stream->capture) return capture_spoil(stream->capture); /* of one stream alone, here */
    return record_push(&event->last, stream);
}

CuResult event_wait(GpuEvent *event, GpuStream *stream) {
    if (stream->capture) return capture_spoil(stream->capture);
    return record_wait(event->last, stream);
}

CuResult event_query(GpuEvent *event) {
    if (!event->last || event->last->done || planted(PLANTED_event_early)) return event->gpu->lost;
    step_towards(event->last->stream);
    return event->gpu->lost == CU_success ? CU_not_ready : event->gpu->lost;
}

CuResult event_synchronize(GpuEvent *event) {
    while (event->last && !event->last->done) step_towards(event->last->stream);
    return event->gpu->lost;
}

CuResult event_elapsed(const GpuEvent *from, const GpuEvent *to, float *milliseconds) {
    if (!from->timed || !to->timed || !from->last || !to->last || from->gpu != to->gpu) return CU_invalid_handle;
    if (!from->last->done || !to->last->done) return CU_not_ready;
    *milliseconds = (float)(to->last->at - from->last->at);
    return CU_success;
}
