/* capture_thread.c: a placeholder that another thread touches [semantics C13].
 *
 * A capture belongs to the thread that runs the body. Its lock is held while an op is recorded or a segment runs, never
 * while user code does, so that a body may wait for a thread that asks for a pending value: that thread runs the
 * pending ops in the owner's place, all eagerly, and goes on with a tensor like any other; the owner finds its segment
 * ended.
 *
 *   owner    [record] body [record] body ........ waits ........ body [record]
 *   other                                [touch: lock, run, bind, unlock]
 *
 * Order of locks: that of tracer_foreign_begin, one capture's, then a function's. A thread that holds a capture's lock
 * asks for no other one: the dispatcher makes foreign arguments before a key runs, and what user code asks for from
 * within a running segment is an error. A call ends under the first, for placeholders live in its arena. */
#include "runtime/capture/record/capture_thread.h"
#include "runtime/core/breaks.h"
#include "runtime/core/tracer.h"

#include <pthread.h>

#include "runtime/base/error.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/function_state.h"
#include "runtime/capture/record/segment.h"
#include "runtime/core/context_enter.h"

/* While the process has one thread nobody else can ask; user code cannot start one while this holds. */
bool capture_enter(Capture *c) {
    sn_state *const state = state_get();
    if (state->held == &c->tracer) return false;
    const bool alone = __libc_single_threaded;
    if (!alone) pthread_mutex_lock(&c->lock);
    c->lock_taken = !alone;
    state->held = &c->tracer;
    return true;
}

void capture_leave(Capture *c, bool entered) {
    if (!entered) return;
    state_get()->held = NULL;
    if (c->lock_taken) pthread_mutex_unlock(&c->lock);
}

void capture_unlock_left(Capture *c) {
    sn_state *const state = state_get();
    const bool is_foreign = c->owner != state;
    capture_leave(c, true);
    if (is_foreign) tracer_foreign_end();
}

bool capture_pause(Capture *c) {
    if (c->owner != state_get() || !c->running) return false;
    capture_leave(c, true);
    return true;
}

void capture_retire_begin(const sn_state *state) {
    if (!state->held) tracer_foreign_begin();
}

void capture_retire_end(const sn_state *state) {
    if (!state->held) tracer_foreign_end();
}

/* What failed in the owner's place is the owner's error too. */
static void notify_owner(Capture *c) {
    c->failed_elsewhere = ARENA_NEW(c->arena, ErrorSlot);
    if (c->failed_elsewhere) *c->failed_elsewhere = *error_slot();
}

Status capture_adopt_error(Capture *c) {
    if (LIKELY(!c->failed_elsewhere)) return ST_OK;
    if (error_pending() == ST_OK) *error_slot() = *c->failed_elsewhere;
    c->failed_elsewhere = NULL;
    return error_pending();
}

/* All values, since which ones the owner needs is not for this thread to look at. */
static Status run_for_owner(Capture *c, Trace *trace) {
    const bool current = trace == c->trace;
    if (current) {
        capture_count_break(c, BREAK_REASON(other_thread_asks), state_get()->site);
        trace->end = c->cursor;
        trace->reason = BREAK_REASON(other_thread_asked);
        if (trace->writes) TRY(capture_before_write(c, NULL));
    }
    const Status status = trace_run_eager(trace);
    if (!current) return status;
    trace->state = status == ST_OK ? TRACE_eager : TRACE_failed;
    if (status != ST_OK) notify_owner(c);
    return capture_begin_trace(c) ? status : ST_MEMORY;
}

static Status flush_locked(Capture *c, sn_tensor *t) {
    const struct Placeholder *const p = t->placeholder;
    if (!p) return ST_OK; /* made while this thread waited */
    /* It failed meanwhile: its ops do not run again. */
    TRY(tensor_valid(t, "a value of another thread's call"));
    if (c->running) return error_raise(ST_STATE, "a tensor whose value its own thread is computing right now");
    sn_state *const state = state_get();
    const ContextSaved saved = context_enter(state, CONTEXT_segment);
    state->held = &c->tracer;
    capture_record_outside(c, BREAK_REASON(other_thread_asked));
    const Status status = run_for_owner(c, p->trace);
    state->held = NULL;
    context_leave(&saved);
    return status;
}

Status capture_value_elsewhere(Capture *c, sn_tensor *t) {
    pthread_mutex_lock(&c->lock);
    c->lock_taken = true;
    const Status status = flush_locked(c, t);
    pthread_mutex_unlock(&c->lock);
    return status;
}
