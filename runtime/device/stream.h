/* stream.h: streams and events of devices whose work goes on after its call: the neutral half of sinter/stream.h.
 *
 *   sn_stream_use -> stream_use -> state->streams: a list, the thread's stream by device; a device that is not in it
 *   runs on its own stream. Scopes put the list back; nodes of the tape keep the one that they were recorded under.
 *
 * Streams live as long as the process: one that is freed is given out again, where its work is in order with what it
 * did before; so nobody counts who still names it. On a device that has none of this (StreamRow NULL: the CPU), work is
 * done when its call returns: there a stream is a name, and an event a time. */
#ifndef SINTER_RUNTIME_STREAM_H
#define SINTER_RUNTIME_STREAM_H
#include <sinter/stream.h>

#include "runtime/core/ends.h"
#include "runtime/core/state.h"
#include "runtime/device/device.h"

struct sn_stream { /* a device's own begin with it */
    const DeviceRow *row;
    sn_stream *next; /* of the device's */
    bool taken;      /* by the program */
};

struct sn_event { /* the same */
    const DeviceRow *row;
    double at; /* where work is done when its call returns: milliseconds; negative: never recorded */
};

/* How a device does it. Raised errors name the device. */
typedef struct StreamRow {
    sn_stream *(*own)(const DeviceRow *row); /* where no other is used; NULL raises */
    sn_stream *(*create)(const DeviceRow *row);
    Status (*synchronize)(sn_stream *stream);
    Status (*query)(sn_stream *stream, bool *done);
    sn_event *(*event_new)(const DeviceRow *row);
    void (*event_free)(sn_event *event);
    Status (*record)(sn_event *event, sn_stream *stream);
    Status (*mark)(sn_event *event, sn_stream *stream); /* the same, of an event that no stream waits for */
    Status (*wait)(sn_stream *stream, sn_event *event); /* the event may be another device's */
    Status (*event_query)(sn_event *event, bool *done);
    bool (*passed)(sn_event *event); /* the same, and raises nothing: a device that is lost uses nothing any more */
    Status (*event_synchronize)(sn_event *event);
    Status (*elapsed)(sn_event *from, sn_event *to, double *ms); /* ST_STATE: not recorded, or not done */
    /* Host memory that the device reads and writes by itself; NULL raises. */
    void *(*host_alloc)(const DeviceRow *row, size_t bytes);
    void (*host_free)(const DeviceRow *row, void *memory);
    Status (*copy_later)(sn_stream *stream, void *to, const void *from, size_t bytes, sn_copy_way way); /* with such */
    /* Work on the stream uses the block as well: it is given out again when that is done. */
    Status (*used)(const DeviceRow *row, void *block, sn_stream *stream);
    /* With a stream of another library, by the handle that the driver has for it: it waits for what this one has, of
     * which no check fails any more; and the other way round. */
    Status (*lend)(sn_stream *stream, void *to);
    Status (*borrow)(sn_stream *stream, void *from);
} StreamRow;

typedef struct StreamUse {
    StreamList list; /* how it takes another's place */
    _Atomic int refs;
    sn_stream *stream;
    struct StreamUse *next;
} StreamUse;

extern const StreamRow stream_plain; /* stream_plain.c: done at once */
static inline const StreamRow *stream_row(const DeviceRow *row) { return row->streams ? row->streams : &stream_plain; }

/* NULL raises. */
sn_stream *stream_acquire(const DeviceRow *row);
void stream_release(sn_stream *stream);
sn_stream *stream_current(const DeviceRow *row); /* the thread's; NULL raises */
/* The stream is its device's until the innermost scope ends. */
Status stream_use(sn_state *state, sn_stream *stream);

/* The thread's stream of the device; NULL: the device's own. */
static inline sn_stream *stream_in_use(const DeviceRow *row) {
    const StreamUse *use = state_current ? state_current->streams : NULL;
    while (UNLIKELY(use != NULL) && use->stream->row != row) use = use->next;
    return UNLIKELY(use != NULL) ? use->stream : NULL;
}

/* The list becomes the state's; it is retained. What is pending in a captured body runs before. */
void stream_uses_set(sn_state *state, StreamUse *uses);
StreamUse *stream_uses_retain(StreamUse *uses); /* NULL is allowed, in both */
void stream_uses_release(StreamUse *uses);
/* The same, and on each device whose stream changes the new one waits for all that the old one has. */
Status stream_uses_join(sn_state *state, StreamUse *uses);
/* The tensor's memory is used on its device's stream of the state. */
Status stream_record_use(sn_tensor *t);

/* pinned.c ------------------------------------------------------------------------------------ */

/* A CPU tensor in memory that copies with that device need not wait for; an ordinary one where none waits. NULL: the
 * error is raised. */
sn_tensor *pinned_tensor(const Meta *meta, Device device);
bool pinned_is(const sn_tensor *t);
/* Whether a copy of their bytes can go on after the call: one is pinned, the other on a device with streams. */
bool pinned_can_copy(const sn_tensor *to, const sn_tensor *from);
/* Begins it on the thread's stream. The pinned memory is not given out again before it is done. */
Status pinned_copy(sn_tensor *to, const sn_tensor *from, size_t bytes);

#endif
