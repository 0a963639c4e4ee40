/* caching_events.c: blocks that other streams than their own have used: see caching.h. When one is freed, each of those
 * streams gets an event behind its work; the block is free when all of them have passed. A stream passes its events in
 * order, so only the oldest of each is asked for. */
#include "runtime/base/alloc.h"
#include "runtime/device/caching_internal.h"

static StreamEvents *events_of(Caching *caching, StreamId stream) {
    StreamEvents *events = caching->events;
    while (events && events->stream != stream) events = events->next;
    return events;
}

static bool is_noted(const MemoryBlock *block, StreamId stream) {
    for (const MemoryUse *use = block->uses; use; use = use->next)
        if (use->stream == stream) return true;
    return block->segment->pool->stream == stream;
}

Status events_append(Caching *caching, MemoryBlock *block, StreamId stream) {
    if (is_noted(block, stream)) return ST_OK;
    if (!events_of(caching, stream)) {
        StreamEvents *const events = mem_zero(sizeof *events);
        if (!events) return ST_MEMORY;
        *events = (StreamEvents){.stream = stream, .next = caching->events};
        caching->events = events;
    }
    MemoryUse *const use = mem_zero(sizeof *use);
    if (!use) return ST_MEMORY;
    *use = (MemoryUse){.stream = stream, .block = block, .next = block->uses};
    block->uses = use;
    return ST_OK;
}

static void push_event(StreamEvents *events, MemoryUse *use) {
    *(events->last ? &events->last->next_event : &events->first) = use;
    events->last = use;
}

static void pop_event(StreamEvents *events) {
    events->first = events->first->next_event;
    if (!events->first) events->last = NULL;
}

/* Without an event only the end of all work tells. If that cannot be waited for, the block waits for good: the device
 * is lost, and nobody will miss it. */
static void mark_stream(Caching *caching, MemoryBlock *block, MemoryUse *use) {
    if (caching->source->record(caching->context, use->stream, &use->event)) {
        push_event(events_of(caching, use->stream), use);
        block->n_events++;
        return;
    }
    if (!caching->source->wait(caching->context)) block->n_events++;
    mem_free(use);
}

void events_record(Caching *caching, MemoryBlock *block) {
    for (MemoryUse *use = block->uses, *next; use; use = next) {
        next = use->next;
        mark_stream(caching, block, use);
    }
    block->uses = NULL;
}

static void end_event(Caching *caching, StreamEvents *events) {
    MemoryUse *const use = events->first;
    MemoryBlock *const block = use->block;
    pop_event(events);
    caching->source->forget(caching->context, use->event);
    mem_free(use);
    if (!--block->n_events) block_release(caching, block);
}

void events_look(Caching *caching) {
    for (StreamEvents *events = caching->events; events; events = events->next)
        while (events->first && caching->source->passed(caching->context, events->first->event))
            end_event(caching, events);
}

static void forget_uses(const MemoryBlock *block) {
    for (MemoryUse *use = block->uses, *next; use; use = next) {
        next = use->next;
        mem_free(use);
    }
}

void events_delete(Caching *caching) {
    for (MemorySegment *segment = caching->segments; segment; segment = segment->next)
        for (const MemoryBlock *block = segment->first; block; block = block->next) forget_uses(block);
    for (StreamEvents *events = caching->events, *next; events; events = next) {
        next = events->next;
        while (events->first) {
            MemoryUse *const use = events->first;
            pop_event(events);
            caching->source->forget(caching->context, use->event);
            mem_free(use);
        }
        mem_free(events);
    }
}
