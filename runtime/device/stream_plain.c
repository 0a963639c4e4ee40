/* stream_plain.c: streams and events of a device whose work is done when its call returns: see stream.h. */
#include <pthread.h>

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/device/stream.h"

static sn_stream *plain_create(const DeviceRow *row) {
    sn_stream *const stream = mem_zero(sizeof *stream);
    if (stream) stream->row = row;
    return stream;
}

static sn_stream *plain_own(const DeviceRow *row) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static sn_stream *owned; /* by device */
    pthread_mutex_lock(&lock);
    sn_stream *stream = owned;
    while (stream && stream->row != row) stream = stream->next;
    if (!stream && (stream = plain_create(row))) {
        stream->next = owned;
        owned = stream;
    }
    pthread_mutex_unlock(&lock);
    return stream;
}

static Status plain_synchronize(sn_stream *stream) {
    (void)stream;
    return ST_OK;
}

static Status plain_query(sn_stream *stream, bool *done) {
    (void)stream;
    *done = true;
    return ST_OK;
}

static sn_event *plain_event_new(const DeviceRow *row) {
    sn_event *const event = mem_zero(sizeof *event);
    if (event) event->row = row, event->at = -1;
    return event;
}

static void plain_event_free(sn_event *event) { mem_free(event); }

static Status plain_record(sn_event *event, sn_stream *stream) {
    (void)stream;
    event->at = (double)clock_ns() * 1e-6;
    return ST_OK;
}

static Status plain_wait(sn_stream *stream, sn_event *event) {
    (void)stream;
    return event->row->streams ? event->row->streams->event_synchronize(event) : ST_OK;
}

static Status plain_event_query(sn_event *event, bool *done) {
    (void)event;
    *done = true;
    return ST_OK;
}

static bool plain_passed(sn_event *event) {
    (void)event;
    return true;
}

static Status plain_event_synchronize(sn_event *event) {
    (void)event;
    return ST_OK;
}

static Status plain_elapsed(sn_event *from, sn_event *to, double *ms) {
    if (from->at < 0 || to->at < 0) return error_raise(ST_STATE, "the event was never recorded");
    *ms = to->at - from->at;
    return ST_OK;
}

static Status plain_used(const DeviceRow *row, void *block, sn_stream *stream) {
    (void)row, (void)block, (void)stream;
    return ST_OK;
}

const StreamRow stream_plain = {.own = plain_own,
                                .create = plain_create,
                                .synchronize = plain_synchronize,
                                .query = plain_query,
                                .event_new = plain_event_new,
                                .event_free = plain_event_free,
                                .record = plain_record,
                                .mark = plain_record,
                                .wait = plain_wait,
                                .event_query = plain_event_query,
                                .passed = plain_passed,
                                .event_synchronize = plain_event_synchronize,
                                .elapsed = plain_elapsed,
                                .used = plain_used};
