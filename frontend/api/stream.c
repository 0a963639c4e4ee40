/* stream.c: streams, events and pinned memory (sinter/stream.h). */
#include <math.h>
#include <sinter/ops.h>
#include <sinter/stream.h>

#include "frontend/api/enter.h"
#include "frontend/api/ops_call.h"
#include "runtime/autograd/query.h"
#include "runtime/device/stream.h"

/* NULL raises. */
static const DeviceRow *row_for(sn_device device, const char *what) {
    state_get(); /* the first call of a program: now there is a table */
    if (error_pending() != ST_OK) return NULL;
    const DeviceRow *const row = device_exists(device) ? device_row(device) : NULL;
    if (!device_exists(device))
        error_raise(ST_ARGUMENT, "%s: %d is no device", what, (int)device);
    else if (!row)
        error_raise(ST_DEVICE, "%s: %s has no memory here", what, DEVICE_TEXT(device));
    return row;
}

static Status object_given(const void *object, const char *what, const char *name) {
    TRY(error_pending());
    return object ? ST_OK : error_raise(ST_ARGUMENT, "%s: the %s is NULL", what, name);
}

/* What was recorded in a body comes before. */
static Status flushed(const void *object, const char *what, const char *name) {
    TRY(object_given(object, what, name));
    return tensor_materialize_all(reason_called(what));
}

/* streams -------------------------------------------------------------------------------------- */

sn_stream *sn_stream_new(sn_device device) {
    const DeviceRow *const row = row_for(device, "sn_stream_new");
    return row ? stream_acquire(row) : NULL;
}

void sn_stream_free(sn_stream *stream) {
    if (stream) stream_release(stream);
}

sn_stream *sn_stream_own(sn_device device) {
    const DeviceRow *const row = row_for(device, "sn_stream_own");
    return row ? stream_row(row)->own(row) : NULL;
}

sn_stream *sn_stream_current(sn_device device) {
    API_ENTER(sn_stream_current);
    const DeviceRow *const row = row_for(device, "sn_stream_current");
    return row && tensor_materialize_all(REASON_CALLED(sn_stream_current)) == ST_OK ? stream_current(row) : NULL;
}

sn_device sn_stream_device(const sn_stream *stream) {
    return object_given(stream, "sn_stream_device", "stream") == ST_OK ? stream->row->memory.device : -1;
}

sn_status sn_stream_use(sn_stream *stream) {
    API_ENTER(sn_stream_use);
    sn_state *const state = state_get();
    if (object_given(stream, "sn_stream_use", "stream") != ST_OK) return sn_check();
    const Status status = stream_use(state, stream);
    api_changed(&entered);
    return (sn_status)status;
}

sn_status sn_stream_synchronize(sn_stream *stream) {
    API_ENTER(sn_stream_synchronize);
    if (flushed(stream, "sn_stream_synchronize", "stream") != ST_OK) return sn_check();
    return (sn_status)stream_row(stream->row)->synchronize(stream);
}

bool sn_stream_query(sn_stream *stream) {
    API_ENTER(sn_stream_query);
    bool done = false;
    if (flushed(stream, "sn_stream_query", "stream") != ST_OK) return false;
    return stream_row(stream->row)->query(stream, &done) == ST_OK && done;
}

/* events --------------------------------------------------------------------------------------- */

sn_event *sn_event_new(sn_device device) {
    const DeviceRow *const row = row_for(device, "sn_event_new");
    return row ? stream_row(row)->event_new(row) : NULL;
}

void sn_event_free(sn_event *event) {
    if (event) stream_row(event->row)->event_free(event);
}

static Status same_device(const DeviceRow *a, const DeviceRow *b, const char *what, const char *first,
                          const char *second) {
    if (a == b) return ST_OK;
    return error_raise(ST_DEVICE, "%s: the %s is of %s, the %s of %s", what, first, a->name, second, b->name);
}

sn_status sn_event_record(sn_event *event, sn_stream *stream) {
    API_ENTER(sn_event_record);
    if (object_given(event, "sn_event_record", "event") != ST_OK ||
        flushed(stream, "sn_event_record", "stream") != ST_OK ||
        same_device(event->row, stream->row, "sn_event_record", "event", "stream") != ST_OK)
        return sn_check();
    return (sn_status)stream_row(event->row)->record(event, stream);
}

sn_status sn_stream_wait(sn_stream *stream, sn_event *event) {
    API_ENTER(sn_stream_wait);
    if (object_given(event, "sn_stream_wait", "event") != ST_OK || flushed(stream, "sn_stream_wait", "stream") != ST_OK)
        return sn_check();
    return (sn_status)stream_row(stream->row)->wait(stream, event);
}

bool sn_event_query(sn_event *event) {
    API_ENTER(sn_event_query);
    bool done = false;
    if (flushed(event, "sn_event_query", "event") != ST_OK) return false;
    return stream_row(event->row)->event_query(event, &done) == ST_OK && done;
}

sn_status sn_event_synchronize(sn_event *event) {
    API_ENTER(sn_event_synchronize);
    if (flushed(event, "sn_event_synchronize", "event") != ST_OK) return sn_check();
    return (sn_status)stream_row(event->row)->event_synchronize(event);
}

double sn_event_elapsed(sn_event *from, sn_event *to) {
    API_ENTER(sn_event_elapsed);
    double ms = NAN;
    if (object_given(from, "sn_event_elapsed", "first event") != ST_OK ||
        flushed(to, "sn_event_elapsed", "second event") != ST_OK ||
        same_device(from->row, to->row, "sn_event_elapsed", "first event", "second event") != ST_OK)
        return NAN;
    return stream_row(from->row)->elapsed(from, to, &ms) == ST_OK ? ms : NAN;
}

/* pinned memory -------------------------------------------------------------------------------- */

static Status check_host(const sn_tensor *x, const char *what) {
    if (device_is_host(x->base.meta->device)) return ST_OK;
    return error_raise(ST_DEVICE, "%s: the tensor is on %s: only the CPU's memory is pinned", what,
                       DEVICE_TEXT(x->base.meta->device));
}

/* Row-major: pinned memory is for copies of bytes as they lie. */
sn_tensor *sn_pin(sn_tensor *x, sn_device device) {
    API_ENTER(sn_pin);
    const DeviceRow *const row = row_for(device, "sn_pin");
    if (!row || tensor_ready(x, "sn_pin") != ST_OK || check_host(x, "sn_pin") != ST_OK) return NULL;
    if (!row->streams || pinned_is(x)) return x;
    const Meta *const meta = x->base.meta;
    const Meta *const plain = meta_intern_contiguous(meta->dtype, DEV_host, meta->sizes, meta->rank);
    sn_tensor *const pinned = plain ? pinned_tensor(plain, device) : NULL;
    return pinned ? sn_copy_(pinned, sn_detach(x)) : NULL;
}

bool sn_is_pinned(sn_tensor *x) {
    API_ENTER(sn_is_pinned);
    return tensor_ready(x, "sn_is_pinned") == ST_OK && pinned_is(x);
}

sn_tensor *sn_to_device_async(sn_tensor *x, sn_device device) {
    API_ENTER(sn_to_device_async);
    if (tensor_valid(x, "sn_to_device_async") != ST_OK || !row_for(device, "sn_to_device_async")) return NULL;
    if (query_ask(QUERY_device, x, 0) == device) return x;
    const Arg args[] = {A_VAL(&x->base), A_NONE, A_NONE, A_INT(device), A_NONE, A_BOOL(true), A_NONE};
    return ops_call1(OP_ID(_to_copy), FORM_functional, args, true, NULL);
}

sn_status sn_record_stream(sn_tensor *x, sn_stream *stream) {
    API_ENTER(sn_record_stream);
    if (flushed(stream, "sn_record_stream", "stream") != ST_OK || tensor_ready(x, "sn_record_stream") != ST_OK)
        return sn_check();
    const DeviceRow *const row = x->storage ? device_row(x->storage->device) : NULL;
    if (!row || row != stream->row)
        return (sn_status)error_raise(ST_DEVICE, "sn_record_stream: the tensor is on %s, the stream of %s",
                                      DEVICE_TEXT(x->base.meta->device), stream->row->name);
    return (sn_status)stream_row(row)->used(row, x->storage->data, stream);
}
