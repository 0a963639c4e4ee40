/* stream.c: see stream.h: streams that are given out, and which one is a thread's. */
#include "runtime/device/stream.h"

#include <pthread.h>

#include "runtime/base/alloc.h"
#include "runtime/core/breaks.h"
#include "runtime/core/tracer.h"
#include "runtime/core/tensor.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sn_stream *all; /* that were ever made for the program */

sn_stream *stream_acquire(const DeviceRow *row) {
    pthread_mutex_lock(&lock);
    sn_stream *stream = all;
    while (stream && (stream->taken || stream->row != row)) stream = stream->next;
    if (!stream && (stream = stream_row(row)->create(row))) {
        stream->next = all;
        all = stream;
    }
    if (stream) stream->taken = true;
    pthread_mutex_unlock(&lock);
    return stream;
}

void stream_release(sn_stream *stream) {
    pthread_mutex_lock(&lock);
    stream->taken = false;
    pthread_mutex_unlock(&lock);
}

/* lists ---------------------------------------------------------------------------------------- */

StreamUse *stream_uses_retain(StreamUse *uses) {
    if (uses) atomic_fetch_add_explicit(&uses->refs, 1, memory_order_relaxed);
    return uses;
}

void stream_uses_release(StreamUse *uses) {
    while (uses && atomic_fetch_sub(&uses->refs, 1) == 1) {
        StreamUse *const next = uses->next;
        mem_free(uses);
        uses = next;
    }
}

/* Takes the reference of next. */
static StreamUse *use_new(sn_stream *stream, StreamUse *next) {
    StreamUse *const use = mem_alloc(sizeof *use);
    if (!use) return stream_uses_release(next), NULL;
    *use = (StreamUse){.list.replace = stream_uses_set, .refs = 1, .stream = stream, .next = next};
    return use;
}

/* The list, where what stands before `mark` has no entry of the row any more; retained. False: memory is out. */
static bool without(StreamUse *uses, StreamUse *mark, const DeviceRow *row, StreamUse **out) {
    *out = NULL;
    if (uses == mark || uses->stream->row == row) {
        *out = stream_uses_retain(uses == mark ? mark : uses->next);
        return true;
    }
    StreamUse *rest;
    if (!without(uses->next, mark, row, &rest)) return false;
    if (rest == uses->next) {
        stream_uses_release(rest);
        *out = stream_uses_retain(uses);
        return true;
    }
    return (*out = use_new(uses->stream, rest)) != NULL;
}

static sn_stream *stream_in(const StreamUse *uses, const DeviceRow *row) {
    while (uses && uses->stream->row != row) uses = uses->next;
    return uses ? uses->stream : NULL;
}

/* Some of its devices go on after a call. */
static bool is_felt(const StreamUse *uses) {
    while (uses && !uses->stream->row->streams) uses = uses->next;
    return uses != NULL;
}

static Status before_change(const sn_state *state, const StreamUse *uses) {
    if (!tracer_recording(state) || !(is_felt(state->streams) || is_felt(uses))) return ST_OK;
    return tracer_effect((TracerEffect){.kind = EFFECT_order, .what = BREAK_REASON(stream_changes)});
}

static void replace_uses(sn_state *state, StreamUse *uses) {
    StreamUse *const before = state->streams;
    state->streams = uses;
    stream_uses_release(before);
}

void stream_uses_set(sn_state *state, StreamUse *uses) {
    stream_uses_retain(uses);
    before_change(state, uses); /* its error stays pending */
    replace_uses(state, uses);
}

Status stream_use(sn_state *state, sn_stream *stream) {
    StreamUse *const mark = state->n_scopes ? state->scopes[state->n_scopes - 1].begun.streams : NULL;
    StreamUse *rest, *uses;
    if (!without(state->streams, mark, stream->row, &rest) || !(uses = use_new(stream, rest))) return ST_MEMORY;
    const Status status = before_change(state, uses);
    if (status == ST_OK)
        replace_uses(state, uses);
    else
        stream_uses_release(uses);
    return status;
}

sn_stream *stream_current(const DeviceRow *row) {
    sn_stream *const used = stream_in_use(row);
    return used ? used : stream_row(row)->own(row);
}

/* one after the other -------------------------------------------------------------------------- */

static Status wait_for(sn_stream *stream, sn_stream *before) {
    const StreamRow *const row = stream_row(stream->row);
    sn_event *const event = row->event_new(stream->row);
    if (!event) return error_pending();
    Status status = row->record(event, before);
    if (status == ST_OK) status = row->wait(stream, event);
    row->event_free(event);
    return status;
}

/* On the row's device. */
static Status follow_stream(const DeviceRow *row, const StreamUse *before, const StreamUse *after) {
    sn_stream *from = stream_in(before, row), *to = stream_in(after, row);
    if (from == to || !row->streams) return ST_OK;
    if (!from) from = row->streams->own(row);
    if (!to) to = row->streams->own(row);
    if (!from || !to) return error_pending();
    return from == to ? ST_OK : wait_for(to, from);
}

Status stream_uses_join(sn_state *state, StreamUse *uses) {
    const StreamUse *const before = state->streams;
    Status status = ST_OK;
    for (const StreamUse *at = before; at && before != uses && status == ST_OK; at = at->next)
        if (stream_in(before, at->stream->row) == at->stream) status = follow_stream(at->stream->row, before, uses);
    for (const StreamUse *at = uses; at && before != uses && status == ST_OK; at = at->next)
        if (stream_in(uses, at->stream->row) == at->stream && !stream_in(before, at->stream->row))
            status = follow_stream(at->stream->row, before, uses);
    stream_uses_set(state, uses);
    return status;
}

Status stream_record_use(sn_tensor *t) {
    const DeviceRow *const row = t->storage ? device_row(t->storage->device) : NULL;
    if (!row || !row->streams || !t->storage->data) return ST_OK;
    sn_stream *const stream = stream_current(row);
    return stream ? row->streams->used(row, t->storage->data, stream) : error_pending();
}
