/* watch.c: see watch.h. Steps that are watched stand in one queue, by when they began, until their events have passed;
 * they and their events are used again for steps of the same device. */
#include "runtime/device/watch.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"

enum { FUNCTION_BYTES = 48, NAME_BYTES = 64, TELL_EVERY = 1024, DEVICES_TIMED = 16 };

struct Watched {
    Watched *next; /* in the queue of those to be told, or in the list of unused ones */
    const DeviceRow *row;
    sn_event *from, *to; /* NULL: the device gave none */
    sn_stream *stream;
    int depth;
    bool timed; /* `from` was recorded before the step, `to` behind it */
    bool is_over;
    bool untold; /* nobody watches any more: it is not told */
    char function[FUNCTION_BYTES], name[NAME_BYTES];
    /* what the profile knows of the step; valid as long as that profile */
    ProfileOrigin place;
};

/* An event of a device, and when it was recorded by the host's clock. */
typedef struct Origin {
    const DeviceRow *row;
    sn_event *event;
    int64_t at;
} Origin;

_Atomic bool watch_on;

/* Taken by the program's threads alone (no backward has workers while somebody watches): who forks has it himself, or
 * nobody, unless the program has threads of its own that call ops meanwhile. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static StepWatcher *told;
static void *told_context;
static Watched *first, *last; /* the queue */
static Watched *spare;
static int n_begun;
static _Atomic bool profiles; /* the watcher is a profile's */
static Origin origins[DEVICES_TIMED];
static int n_origins;

static HOT_THREAD_LOCAL int depth; /* steps that this thread is in */

/* under the lock -------------------------------------------------------------------------------- */

static Watched *acquire_spare(const DeviceRow *row) {
    Watched **at = &spare;
    while (*at && (*at)->row != row) at = &(*at)->next;
    Watched *const w = *at;
    if (w) *at = w->next;
    return w;
}

static void release_spare(Watched *w) {
    w->next = spare;
    spare = w;
}

static void push_watched(Watched *w) {
    w->next = NULL;
    if (last)
        last->next = w;
    else
        first = w;
    last = w;
}

static Watched *pop(void) {
    Watched *const w = first;
    first = w->next;
    if (!first) last = NULL;
    return w;
}

/* What fails in between is the device's, whose next call says it: a step's own outcome stays. */
typedef struct Quiet {
    ErrorSlot unsaid, *said;
} Quiet;

static void quiet_begin(Quiet *quiet) {
    quiet->unsaid.status = ST_OK;
    quiet->said = error_slot_use(&quiet->unsaid);
}

static void quiet_end(const Quiet *quiet) { error_slot_use(quiet->said); }

static int64_t elapsed_ns(const Watched *w) {
    const StreamRow *const streams = stream_row(w->row);
    Quiet quiet;
    double ms = 0;
    if (!w->timed) return -1;
    quiet_begin(&quiet);
    const bool known = streams->event_synchronize(w->to) == ST_OK && streams->elapsed(w->from, w->to, &ms) == ST_OK;
    quiet_end(&quiet);
    return known ? llround(ms * 1e6) : -1;
}

/* When it began, by the host's clock; 0: not known. */
static int64_t began_at(const Watched *w) {
    Quiet quiet;
    double ms = 0;
    for (int i = 0; i < n_origins; i++) {
        if (origins[i].row != w->row) continue;
        quiet_begin(&quiet);
        const bool known = stream_row(w->row)->elapsed(origins[i].event, w->from, &ms) == ST_OK;
        quiet_end(&quiet);
        return known ? origins[i].at + llround(ms * 1e6) : 0;
    }
    return 0;
}

static void notify_step(const Watched *w) {
    StepSeen seen = {w->function, w->name, w->row->memory.device, w->stream, w->depth, elapsed_ns(w), w->place, 0};
    if (profiles && seen.ns >= 0 && !(seen.from = began_at(w))) seen.ns = -1;
    told(told_context, &seen);
}

static bool has_passed(const Watched *w) { return !w->timed || stream_row(w->row)->passed(w->to); }

static void report_all(bool waits) {
    while (first && first->is_over && (waits || has_passed(first))) {
        Watched *const w = pop();
        notify_step(w);
        release_spare(w);
    }
}

/* One that a thread is in goes when that comes back. */
static void leave_all(void) {
    while (first) {
        Watched *const w = pop();
        w->untold = true;
        if (w->is_over) release_spare(w);
    }
}

static void drop_spare(void) {
    while (spare) {
        Watched *const w = spare;
        const StreamRow *const streams = stream_row(w->row);
        spare = w->next;
        if (w->from) streams->event_free(w->from);
        if (w->to) streams->event_free(w->to);
        mem_free(w);
    }
}

/* watching -------------------------------------------------------------------------------------- */

static Status begin_for(StepWatcher *watcher, void *context, bool is_profile) {
    pthread_mutex_lock(&lock);
    const bool free = !told;
    if (free) told = watcher, told_context = context, profiles = is_profile;
    pthread_mutex_unlock(&lock);
    if (!free) return error_raise(ST_STATE, "somebody watches the steps already");
    atomic_store(&watch_on, true);
    return ST_OK;
}

Status watch_begin(StepWatcher *watcher, void *context) { return begin_for(watcher, context, false); }

static void record_seen(void *unused, const StepSeen *seen) {
    (void)unused;
    const ProfileWork work = {
        .place = seen->place, .device = seen->device, .stream = seen->stream, .from = seen->from, .ns = seen->ns};
    profile_record_work(&work);
}

Status watch_profile(void) { return begin_for(record_seen, NULL, true); }

static void drop_origins(void) {
    while (n_origins) {
        const Origin *const origin = &origins[--n_origins];
        stream_row(origin->row)->event_free(origin->event);
    }
}

static void report_locked(bool waits) {
    pthread_mutex_lock(&lock);
    if (told) report_all(waits);
    pthread_mutex_unlock(&lock);
}

void watch_report(void) { report_locked(true); }
void watch_passed(void) { report_locked(false); }

void watch_end(void) {
    atomic_store(&watch_on, false);
    pthread_mutex_lock(&lock);
    if (told) report_all(true);
    leave_all();
    drop_spare();
    drop_origins();
    told = NULL;
    pthread_mutex_unlock(&lock);
}

/* steps ----------------------------------------------------------------------------------------- */

static Watched *watched_new(const DeviceRow *row) {
    const StreamRow *const streams = stream_row(row);
    Watched *const w = mem_zero(sizeof *w);
    if (!w) return NULL;
    w->row = row;
    w->from = streams->event_new(row);
    w->to = w->from ? streams->event_new(row) : NULL;
    return w;
}

static Watched *acquire_watched(const DeviceRow *row) {
    pthread_mutex_lock(&lock);
    if (++n_begun % TELL_EVERY == 0 && told) report_all(false);
    Watched *const w = acquire_spare(row);
    pthread_mutex_unlock(&lock);
    return w ? w : watched_new(row);
}

static void copy_name(char *to, size_t capacity, const char *name) {
    const size_t n = strnlen(name, capacity - 1);
    memcpy(to, name, n);
    to[n] = 0;
}

/* In the queue before its events: what it holds begins later than it. */
static void enter(Watched *w) {
    w->is_over = false;
    pthread_mutex_lock(&lock);
    w->untold = !told;
    if (told) push_watched(w);
    pthread_mutex_unlock(&lock);
}

static bool mark(sn_event *event, const Watched *w) {
    return event && w->stream && stream_row(w->row)->mark(event, w->stream) == ST_OK;
}

/* Once in a profile the device is waited for. Under the lock. */
static void add_origin(const DeviceRow *row) {
    const StreamRow *const streams = stream_row(row);
    sn_event *const event = n_origins < DEVICES_TIMED ? streams->event_new(row) : NULL;
    if (!event) return;
    if (streams->mark(event, stream_current(row)) == ST_OK && streams->event_synchronize(event) == ST_OK)
        origins[n_origins++] = (Origin){row, event, clock_ns()};
    else
        streams->event_free(event);
}

static void know_origin(const DeviceRow *row) {
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < n_origins && origins[i].row != row) i++;
    if (i == n_origins && told) add_origin(row);
    pthread_mutex_unlock(&lock);
}

static void of_profile(Watched *w, const char *function, const char *name, const DeviceRow *row) {
    know_origin(row);
    w->place = profile_origin(name, function);
}

static Watched *begin_watched(const char *function, const char *name, const DeviceRow *row) {
    Quiet quiet;
    quiet_begin(&quiet);
    Watched *const w = acquire_watched(row);
    if (w) {
        copy_name(w->function, sizeof w->function, function ? function : "");
        copy_name(w->name, sizeof w->name, name);
        if (profiles) of_profile(w, function, name, row);
        w->stream = stream_current(row);
        w->depth = depth++;
        enter(w);
        w->timed = w->to && mark(w->from, w);
    }
    quiet_end(&quiet);
    return w;
}

static ProfileSpan begin_span(const char *function, const char *name) {
    return function ? profile_begin_named(PROFILE_step, name, function) : (ProfileSpan){0};
}

StepWatch watch_step_begin(const char *function, const char *name, const DeviceRow *row) {
    StepWatch step = {0};
    if (profile_is_on()) step.span = begin_span(function, name);
    if (!profiles || row->streams) step.watched = begin_watched(function, name, row);
    return step;
}

static void end_watched(Watched *w) {
    Quiet quiet;
    quiet_begin(&quiet);
    w->timed = w->timed && mark(w->to, w);
    quiet_end(&quiet);
    depth--;
    pthread_mutex_lock(&lock);
    w->is_over = true;
    if (w->untold) release_spare(w);
    pthread_mutex_unlock(&lock);
}

void watch_step_end(StepWatch *step) {
    if (step->watched) end_watched(step->watched);
    profile_end(&step->span);
}
