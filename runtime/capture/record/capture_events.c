/* capture_events.c: what a body does at once while ops are pending that may fail [semantics C3, C8].
 *
 *   y = sn_index_select(x, 0, i);   pending
 *   sn_grad_set(w, NULL);           done now, noted behind op 0
 *   return y                        the segment runs; op 0 fails: w has its gradient again
 *
 * In eager nothing after a failed op has an effect. So each event is noted with the number of ops before it; when a
 * segment ends with an error, those behind the op that failed are undone, newest first, and those before it stay.
 * Events that are rare and concern the ops that follow end the segment instead (capture_before_event). */
#include "runtime/autograd/tape.h"
#include "runtime/capture/record/capture.h"

/* The capture whose current segment may still fail; NULL: an event is final. */
static Capture *undecided(void) {
    Capture *const c = state_get()->capture;
    return c && c->trace->ops.n ? c : NULL;
}

static Status note(Capture *c, TraceEvent event) {
    const bool entered = capture_enter(c);
    Trace *const trace = c->trace;
    event.after = trace->ops.n;
    const bool room = VEC_ROOM(c->arena, &trace->events);
    if (room) trace->events.at[trace->events.n++] = event;
    capture_leave(c, entered);
    return room ? ST_OK : ST_MEMORY;
}

Status capture_note_grad(sn_tensor *leaf) {
    Capture *const c = undecided();
    if (!c) return ST_OK;
    sn_tensor *const before = tape_grad(leaf);
    /* A value of the segment is held by it already, and would be made if anybody else held it. */
    const bool own = before && before->placeholder && before->placeholder->trace == c->trace;
    /* Only for the case that memory runs out, none is held: an old gradient goes at once, as in eager [semantics
     * G5]. */
    if (before && !own && !c->trace->fallible && !c->trace->ordered) return ST_OK;
    TRY(note(c, (TraceEvent){.kind = EVENT_grad, .tensor = leaf, .before = before, .borrowed = own}));
    tensor_retain(leaf);
    if (before && !own) tensor_retain(before);
    return ST_OK;
}

Status capture_note_hook(sn_tensor *t, int64_t id) {
    Capture *const c = undecided();
    if (!c) return ST_OK;
    TRY(note(c, (TraceEvent){.kind = EVENT_hook, .tensor = t, .id = id}));
    tensor_retain(t);
    return ST_OK;
}

Status capture_note_seed(void) {
    Capture *const c = undecided();
    const sn_state *const state = state_get();
    return c ? note(c, (TraceEvent){.kind = EVENT_seed, .seed = state->seed, .sequence = state->sequence}) : ST_OK;
}

Status capture_before_event(const char *what) {
    Capture *const c = undecided();
    return c ? capture_flush(c, what, state_get()->site) : ST_OK;
}

static void undo(const TraceEvent *event) {
    sn_state *const state = state_get();
    switch (event->kind) {
    case EVENT_grad:
        tape_grad_replace(event->tensor, event->before);
        break;
    case EVENT_hook:
        tape_hook_remove(event->tensor, event->id);
        break;
    case EVENT_seed:
        state->seed = event->seed;
        state->sequence = event->sequence;
    }
}

void capture_undo_events(const Trace *trace) {
    for (int i = trace->events.n - 1; i >= 0; i--)
        if (trace->events.at[i].after > trace->n_done) undo(&trace->events.at[i]);
}

void capture_forget_events(Trace *trace) {
    for (int i = 0; i < trace->events.n; i++) {
        const TraceEvent *const event = &trace->events.at[i];
        tensor_release(event->tensor);
        if (!event->borrowed) tensor_release(event->before);
    }
    trace->events.n = 0;
}
