/* pinned.c: host memory that devices read and write by themselves: see stream.h. The driver takes long to pin memory,
 * so what is freed is cached and given out again for the same device and size (powers of two), when each copy that was
 * begun with it has passed its event: one for each stream, which moves along. */
#include <pthread.h>

#include "runtime/base/alloc.h"
#include "runtime/core/tensor.h"
#include "runtime/device/stream.h"

enum { LEAST_BYTES = 4096 };
static const size_t most_cached = (size_t)256 << 20;

typedef struct PinnedUse {
    sn_stream *stream;
    sn_event *event;
    struct PinnedUse *next;
} PinnedUse;

typedef struct Pinned {
    const DeviceRow *row;
    void *data;
    size_t bytes;
    PinnedUse *uses;
    struct Pinned *next; /* in the cache */
} Pinned;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Pinned *cached; /* newest first */
static size_t cached_bytes;

static size_t pinned_bytes(size_t bytes) {
    size_t capacity = LEAST_BYTES;
    while (capacity < bytes) capacity *= 2;
    return capacity;
}

static bool has_passed(const Pinned *pinned) {
    for (const PinnedUse *use = pinned->uses; use; use = use->next)
        if (!stream_row(use->event->row)->passed(use->event)) return false;
    return true;
}

static void forget_uses(Pinned *pinned) {
    for (PinnedUse *use = pinned->uses, *next; use; use = next) {
        next = use->next;
        stream_row(use->event->row)->event_free(use->event);
        mem_free(use);
    }
    pinned->uses = NULL;
}

static void pinned_drop(Pinned *pinned) {
    forget_uses(pinned);
    stream_row(pinned->row)->host_free(pinned->row, pinned->data);
    mem_free(pinned);
}

/* Out of the list: one of this size for the row, or (row NULL) any; NULL: none that has passed. */
static Pinned *find_cached(const DeviceRow *row, size_t bytes) {
    for (Pinned **at = &cached; *at; at = &(*at)->next) {
        Pinned *const pinned = *at;
        if (row && (pinned->row != row || pinned->bytes != bytes)) continue;
        if (!has_passed(pinned)) continue;
        *at = pinned->next;
        cached_bytes -= pinned->bytes;
        return pinned;
    }
    return NULL;
}

static Pinned *pinned_new(const DeviceRow *row, size_t bytes) {
    Pinned *const pinned = mem_zero(sizeof *pinned);
    if (!pinned) return NULL;
    *pinned = (Pinned){.row = row, .data = stream_row(row)->host_alloc(row, bytes), .bytes = bytes};
    if (pinned->data) return pinned;
    mem_free(pinned);
    return NULL;
}

static Pinned *pinned_alloc(const DeviceRow *row, size_t bytes) {
    pthread_mutex_lock(&lock);
    Pinned *const found = find_cached(row, pinned_bytes(bytes));
    pthread_mutex_unlock(&lock);
    if (!found) return pinned_new(row, pinned_bytes(bytes));
    forget_uses(found);
    return found;
}

/* The storage's last holder is gone. */
static void pinned_release(void *data, void *context) {
    (void)data;
    Pinned *const pinned = context;
    pthread_mutex_lock(&lock);
    pinned->next = cached;
    cached = pinned;
    cached_bytes += pinned->bytes;
    for (Pinned *oldest; cached_bytes > most_cached && (oldest = find_cached(NULL, 0));) pinned_drop(oldest);
    pthread_mutex_unlock(&lock);
}

sn_tensor *pinned_tensor(const Meta *meta, Device device) {
    const DeviceRow *const row = device_row(device);
    if (!row || !row->streams) return tensor_new(meta);
    sn_tensor *const t = tensor_without_data(meta);
    Pinned *const pinned = t ? pinned_alloc(row, meta_bytes(meta)) : NULL;
    if (!pinned) return NULL;
    Storage *const storage = storage_wrap(DEV_host, pinned->data, meta_bytes(meta), pinned_release, pinned);
    if (!storage) return pinned_release(NULL, pinned), NULL;
    tensor_set_storage(t, storage, 0);
    storage_release(storage);
    return t;
}

bool pinned_is(const sn_tensor *t) { return t->storage && t->storage->free == pinned_release; }

static const DeviceRow *row_of(const sn_tensor *t) { return device_row(t->base.meta->device); }

bool pinned_can_copy(const sn_tensor *to, const sn_tensor *from) {
    const sn_tensor *const there = pinned_is(to) ? from : pinned_is(from) ? to : NULL;
    return there && !device_is_host(there->base.meta->device) && row_of(there) && row_of(there)->streams;
}

/* Behind what was begun on the stream until now; the memory may be used by several threads. */
static Status record_use(Pinned *pinned, sn_stream *stream) {
    const StreamRow *const row = stream_row(stream->row);
    PinnedUse *use = pinned->uses;
    while (use && use->stream != stream) use = use->next;
    if (use) return row->record(use->event, stream);
    if (!(use = mem_zero(sizeof *use)) || !(use->event = row->event_new(stream->row))) {
        mem_free(use);
        return ST_MEMORY;
    }
    use->stream = stream;
    use->next = pinned->uses;
    pinned->uses = use;
    return row->record(use->event, stream);
}

Status pinned_copy(sn_tensor *to, const sn_tensor *from, size_t bytes) {
    const bool down = pinned_is(to);
    const DeviceRow *const row = row_of(down ? from : to);
    sn_stream *const stream = stream_current(row);
    if (!stream) return error_pending();
    Pinned *const pinned = (down ? to : from)->storage->context;
    TRY(row->streams->copy_later(stream, tensor_data(to), tensor_data(from), bytes,
                                 down ? SN_COPY_TO_HOST : SN_COPY_FROM_HOST));
    pthread_mutex_lock(&lock);
    const Status status = record_use(pinned, stream);
    pthread_mutex_unlock(&lock);
    if (status != ST_OK) row->streams->synchronize(stream);
    return status;
}
