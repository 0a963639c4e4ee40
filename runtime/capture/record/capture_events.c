/* capture_events.c: what a body does at once while ops are pending that may fail [semantics C3, C8].
 *
 *   y = sn_index_select(x, 0, i);   pending
 *   sn_grad_set(w, NULL);           done now, noted behind op 0
 *   return y                        the segment runs; op 0 fails: w has its gradient again
 *
 * In eager nothing after a failed op has an effect. So each event is noted with the number of ops before it; when a
 * segment ends with an error, those behind the op that failed are undone, newest first, and those before it stay.
 * Events that are rare and concern the ops that follow end the segment instead (capture_before_event). */
#include "runtime/capture/record/capture_events.h"
#include "runtime/autograd/tape.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/capture_thread.h"
#include "runtime/capture/record/segment.h"

/* Under the lock, if there is one: another thread may end the segment at any time. */
static bool is_undecided(const Capture *c) { return c->trace->ops.n != 0; }

/* The capture whose current segment may still fail, with its lock; NULL, without: an event is final. */
static Capture *enter_undecided(bool *entered) {
    Capture *const c = capture_of(state_get()->tracer);
    if (!c) return NULL;
    *entered = capture_enter(c);
    if (is_undecided(c)) return c;
    capture_leave(c, *entered);
    return NULL;
}

static Status note(Capture *c, TraceEvent event) {
    Trace *const trace = c->trace;
    event.after = trace->ops.n;
    if (!VEC_GROW(c->arena, &trace->events)) return ST_MEMORY;
    trace->events.at[trace->events.n++] = event;
    return ST_OK;
}

static Status record_grad(Capture *c, sn_tensor *leaf) {
    sn_tensor *const before = tape_grad(leaf);
    /* A value of the segment is held by it already, and would be materialized if anybody else held it. */
    const bool own = before && before->placeholder && before->placeholder->trace == c->trace;
    /* Only for the case that memory runs out, none is held: an old gradient goes at once, as in eager [semantics
     * G5]. */
    if (before && !own && !c->trace->fallible && !c->trace->ordered) return ST_OK;
    TRY(note(c, (TraceEvent){.kind = EVENT_grad, .tensor = leaf, .before = before, .borrowed = own}));
    tensor_retain(leaf);
    if (before && !own) tensor_retain(before);
    return ST_OK;
}

Status capture_record_grad(sn_tensor *leaf) {
    bool entered;
    Capture *const c = enter_undecided(&entered);
    if (!c) return ST_OK;
    const Status status = record_grad(c, leaf);
    capture_leave(c, entered);
    return status;
}

Status capture_record_hook(sn_tensor *t, int64_t id) {
    bool entered;
    Capture *const c = enter_undecided(&entered);
    if (!c) return ST_OK;
    const Status status = note(c, (TraceEvent){.kind = EVENT_hook, .tensor = t, .id = id});
    if (status == ST_OK) tensor_retain(t);
    capture_leave(c, entered);
    return status;
}

void capture_record_event(const char *what) {
    Capture *const c = capture_of(state_get()->tracer);
    if (!c) return;
    const bool entered = capture_enter(c);
    capture_record_outside(c, what);
    capture_leave(c, entered);
}

/* By the program, or by the end of a scope, which sets it to what it was when that began. */
Status capture_record_seed(void) {
    bool entered;
    const sn_state *const state = state_get();
    const ScopeFrame *const scope = state->n_scopes ? &state->scopes[state->n_scopes - 1] : NULL;
    Capture *const c = enter_undecided(&entered);
    if (!c) return ST_OK;
    TraceEvent event = {.kind = EVENT_seed, .from = {state->seed, state->sequence}};
    if (scope && scope->ends) event.id = state->n_scopes, event.to = (Generator){scope->seed, scope->sequence};
    const Status status = note(c, event);
    capture_leave(c, entered);
    return status;
}

Status capture_record_words(uint64_t *words) {
    bool entered;
    Capture *const c = enter_undecided(&entered);
    if (!c) return ST_OK;
    TraceEvent event = {.kind = EVENT_words, .words = words};
    memcpy(event.was, words, sizeof event.was);
    const Status status = note(c, event);
    capture_leave(c, entered);
    return status;
}

void capture_forget_words(const uint64_t *words) {
    bool entered;
    Capture *const c = enter_undecided(&entered);
    if (!c) return;
    for (int i = 0; i < c->trace->events.n; i++)
        if (c->trace->events.at[i].words == words) c->trace->events.at[i].words = NULL;
    capture_leave(c, entered);
}

void capture_record_fork(void) {
    bool entered;
    Capture *const c = enter_undecided(&entered);
    if (!c) return;
    note(c, (TraceEvent){.kind = EVENT_fork, .id = state_get()->n_scopes});
    capture_leave(c, entered);
}

Status capture_record_print(Capture *c, const char *label, sn_tensor *value) {
    const bool entered = capture_enter(c);
    Trace *const trace = c->trace;
    const char *const kept = label ? arena_strdup(c->arena, label) : NULL;
    Status status = ST_MEMORY;
    if ((kept || !label) && VEC_GROW(c->arena, &trace->prints))
        status = note(c, (TraceEvent){.kind = EVENT_print, .tensor = value, .label = kept});
    if (status == ST_OK) {
        tensor_retain(value);
        trace->prints.at[trace->prints.n++] = (TracePrint){value->placeholder->value, kept};
    }
    capture_leave(c, entered);
    return status;
}

Status capture_before_event(const char *what) {
    capture_record_event(what);
    bool entered;
    Capture *const c = enter_undecided(&entered);
    if (!c) return ST_OK;
    const Status status = capture_flush(c, what, state_get()->site);
    capture_leave(c, entered);
    return status;
}

static void set_generator(Generator g) {
    state_get()->seed = g.seed;
    state_get()->sequence = g.sequence;
}

/* What eager would not have begun: the end of the scope, if it is still to come, leaves the generator alone. */
static void forget_fork(int id) {
    sn_state *const state = state_get();
    if (id <= (int)state->n_scopes) state->scopes[id - 1].forks = false;
}

static void undo(const TraceEvent *event) {
    switch (event->kind) {
    case EVENT_grad:
        tape_grad_replace(event->tensor, event->before);
        break;
    case EVENT_hook:
        tape_hook_remove(event->tensor, event->id);
        break;
    case EVENT_seed:
        set_generator(event->from);
        break;
    case EVENT_fork:
        forget_fork((int)event->id);
        break;
    case EVENT_words:
        if (event->words) memcpy(event->words, event->was, sizeof event->was);
        break;
    case EVENT_print:
        break; /* of an op that did not run: it is not printed */
    }
}

static int first_random_op(const Trace *trace) {
    int i = 0;
    while (i < trace->ops.n && !(trace->ops.at[i].op->row->flags & OPF_random)) i++;
    return i;
}

/* The end of a scope that had begun before the op that failed: it comes in eager, too. */
static bool is_kept_end(const Trace *trace, int at) {
    const TraceEvent *const end = &trace->events.at[at];
    if (end->kind != EVENT_seed || !end->id) return false;
    while (--at >= 0) {
        const TraceEvent *const fork = &trace->events.at[at];
        if (fork->kind == EVENT_fork && fork->id == end->id) return fork->after <= trace->n_done;
    }
    return true; /* nothing was pending then */
}

bool capture_undo_events(const Trace *trace) {
    const int random = first_random_op(trace);
    bool reseeded = false, ended = false;
    for (int i = trace->events.n - 1; i >= 0; i--) {
        const TraceEvent *const event = &trace->events.at[i];
        if (event->after <= trace->n_done) continue;
        if (!ended && is_kept_end(trace, i)) set_generator(event->to), ended = true; /* whatever came before */
        if (ended && event->kind == EVENT_seed) continue;
        undo(event);
        reseeded |= event->kind == EVENT_seed && event->after <= random;
    }
    return reseeded || ended;
}

void capture_forget_events(Trace *trace) {
    for (int i = 0; i < trace->events.n; i++) {
        const TraceEvent *const event = &trace->events.at[i];
        tensor_release(event->tensor);
        if (!event->borrowed) tensor_release(event->before);
    }
    trace->events.n = 0;
}
