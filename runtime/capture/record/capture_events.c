/* capture_events.c: what a body does at once while ops are pending that may fail [semantics C3, C8].
 *
 *   y = sn_index_select(x, 0, i);   pending
 *   sn_grad_set(w, NULL);           done now, noted behind op 0
 *   return y                        the segment runs; op 0 fails: w has its gradient again
 *
 * In eager nothing after a failed op has an effect. So each event is noted with the number of ops before it; when a
 * segment ends with an error, those behind the op that failed are undone, newest first, and those before it stay.
 * Events that are rare and concern the ops that follow end the segment instead (EFFECT_event). */
#include "runtime/capture/record/capture_events.h"
#include "runtime/autograd/tape.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/capture_thread.h"
#include "runtime/capture/record/captured_region.h"
#include "runtime/capture/record/segment.h"
#include "runtime/core/debug_print.h"

/* Under the lock, if there is one: another thread may end the segment at any time. */
static bool is_undecided(const Capture *c) { return c->trace->ops.n != 0; }

/* The current segment may still fail: with the lock. False, without: an event is final. */
static bool enter_undecided(Capture *c, bool *entered) {
    if (!c) return false;
    *entered = capture_enter(c);
    if (is_undecided(c)) return true;
    capture_leave(c, *entered);
    return false;
}

static Status record_event(Capture *c, TraceEvent event) {
    Trace *const trace = c->trace;
    event.after = trace->ops.n;
    if (!VEC_GROW(c->arena, &trace->events)) return ST_MEMORY;
    trace->events.at[trace->events.n++] = event;
    return ST_OK;
}

/* One that is final is not noted. */
static Status note_undecided(Capture *c, TraceEvent event) {
    bool entered;
    if (!enter_undecided(c, &entered)) return ST_OK;
    const Status status = record_event(c, event);
    if (status == ST_OK && event.tensor) tensor_retain(event.tensor);
    capture_leave(c, entered);
    return status;
}

static Status record_grad(Capture *c, sn_tensor *leaf) {
    sn_tensor *const before = tape_grad(leaf);
    /* A value of the segment is held by it already, and would be materialized if anybody else held it. */
    const bool own = before && before->placeholder && before->placeholder->trace == c->trace;
    /* Only for the case that memory runs out, none is held: an old gradient goes at once, as in eager [semantics
     * G5]. */
    if (before && !own && !c->trace->fallible && !c->trace->ordered) return ST_OK;
    TRY(record_event(c, (TraceEvent){.kind = EVENT_grad, .tensor = leaf, .before = before, .borrowed = own}));
    tensor_retain(leaf);
    if (before && !own) tensor_retain(before);
    return ST_OK;
}

Status capture_record_grad(sn_tensor *leaf) {
    bool entered;
    Capture *const c = capture_of(state_get()->tracer);
    if (!enter_undecided(c, &entered)) return ST_OK;
    const Status status = record_grad(c, leaf);
    capture_leave(c, entered);
    return status;
}

void capture_record_event(Reason what) {
    Capture *const c = capture_of(state_get()->tracer);
    if (!c) return;
    const bool entered = capture_enter(c);
    capture_record_outside(c, what);
    capture_leave(c, entered);
}

/* By the program, or by the end of a scope, which sets it to what it was when that began. */
Status capture_record_seed(void) {
    const sn_state *const state = state_get();
    const ScopeFrame *const scope = state->n_scopes ? &state->scopes[state->n_scopes - 1] : NULL;
    TraceEvent event = {.kind = EVENT_seed, .from = {state->seed, state->sequence}};
    if (scope && scope->ends) event.id = state->n_scopes, event.to = (Generator){scope->seed, scope->sequence};
    return note_undecided(capture_of(state->tracer), event);
}

/* What a tracer is told of --------------------------------------------------------------------- */

typedef Status CaptureEffect(Capture *c, const TracerEffect *e);

static Status effect_outside(Capture *c, const TracerEffect *e) {
    (void)c;
    capture_record_event(e->what);
    return ST_OK;
}

static Status effect_event(Capture *c, const TracerEffect *e) {
    bool entered;
    capture_record_event(e->what);
    if (!enter_undecided(c, &entered)) return ST_OK;
    const Status status = capture_flush(c, e->what, state_get()->site);
    capture_leave(c, entered);
    return status;
}

static Status effect_order(Capture *c, const TracerEffect *e) { return capture_flush(c, e->what, state_get()->site); }

static Status effect_write(Capture *c, const TracerEffect *e) {
    (void)c;
    return capture_materialize_all(e->what);
}

static Status effect_mode(Capture *c, const TracerEffect *e) {
    capture_record_break(c, e->what);
    return capture_materialize_all(e->what);
}

static Status effect_break(Capture *c, const TracerEffect *e) {
    const char *const text = arena_strdup(c->arena, reason_text(e->what));
    return capture_flush(c, text ? reason_from(text) : e->breaks, state_get()->site);
}

static Status effect_grad(Capture *c, const TracerEffect *e) {
    (void)c;
    return capture_record_grad(e->tensor);
}

static Status effect_fork(Capture *c, const TracerEffect *e) {
    (void)e;
    note_undecided(c, (TraceEvent){.kind = EVENT_fork, .id = state_get()->n_scopes});
    return ST_OK;
}

static Status effect_made(Capture *c, const TracerEffect *e) {
    captured_region_made(c, e->tensor, NULL);
    return ST_OK;
}

static Status effect_once(Capture *c, const TracerEffect *e) {
    return captured_region_current(c) ? region_refusal(reason_text(e->what)) : ST_OK;
}

static Status effect_hook(Capture *c, const TracerEffect *e) {
    return note_undecided(c, (TraceEvent){.kind = EVENT_hook, .tensor = e->tensor, .id = e->id});
}

static Status effect_words(Capture *c, const TracerEffect *e) {
    TraceEvent event = {.kind = EVENT_words, .words = e->words};
    memcpy(event.was, e->words, sizeof event.was);
    return note_undecided(c, event);
}

static Status effect_words_gone(Capture *c, const TracerEffect *e) {
    bool entered;
    if (!enter_undecided(c, &entered)) return ST_OK;
    for (int i = 0; i < c->trace->events.n; i++)
        if (c->trace->events.at[i].words == e->words) c->trace->events.at[i].words = NULL;
    capture_leave(c, entered);
    return ST_OK;
}

/* It is printed when the segment has run, for it is nothing that could be undone. */
static Status record_print(Capture *c, const char *label, sn_tensor *value) {
    const bool entered = capture_enter(c);
    Trace *const trace = c->trace;
    const char *const kept = label ? arena_strdup(c->arena, label) : NULL;
    Status status = ST_MEMORY;
    if ((kept || !label) && VEC_GROW(c->arena, &trace->prints))
        status = record_event(c, (TraceEvent){.kind = EVENT_print, .tensor = value, .label = kept});
    if (status == ST_OK) {
        tensor_retain(value);
        trace->prints.at[trace->prints.n++] = (TracePrint){value->placeholder->value, kept};
    }
    capture_leave(c, entered);
    return status;
}

/* The value as it is now. NULL raises. */
static sn_tensor *copy_now(sn_tensor *t) {
    const Arg args[] = {A_VAL(&t->base), A_NONE};
    sn_tensor *copy = NULL;
    return dispatch(OP_ROW(clone), FORM_functional, args, NULL, &copy) == ST_OK ? copy : NULL;
}

static Status effect_print(Capture *c, const TracerEffect *e) {
    sn_tensor *const copy = copy_now(e->tensor);
    if (!copy) return error_pending();
    if (copy->placeholder) return record_print(c, e->label, copy);
    debug_print_line(e->label, copy); /* it could not be recorded, and all before it has run */
    return ST_OK;
}

Status capture_effect(Capture *c, const TracerEffect *e) {
    static CaptureEffect *const effects[] = {
        [EFFECT_outside] = effect_outside,
        [EFFECT_event] = effect_event,
        [EFFECT_order] = effect_order,
        [EFFECT_write] = effect_write,
        [EFFECT_mode] = effect_mode,
        [EFFECT_break] = effect_break,
        [EFFECT_print] = effect_print,
        [EFFECT_generator] = capture_before_generator,
        [EFFECT_generator_read] = capture_shows_generator,
        [EFFECT_fork] = effect_fork,
        [EFFECT_made] = effect_made,
        [EFFECT_once] = effect_once,
        [EFFECT_grad] = effect_grad,
        [EFFECT_hook] = effect_hook,
        [EFFECT_words] = effect_words,
        [EFFECT_words_gone] = effect_words_gone,
    };
    return effects[e->kind](c, e);
}

/* The segment's end ---------------------------------------------------------------------------- */

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

void capture_print_events(const Trace *trace, bool failed) {
    for (int i = 0; i < trace->events.n; i++) {
        const TraceEvent *const event = &trace->events.at[i];
        if (event->kind == EVENT_print && (!failed || event->after <= trace->n_done))
            debug_print_line(event->label, event->tensor);
    }
}

void capture_forget_events(Trace *trace) {
    for (int i = 0; i < trace->events.n; i++) {
        const TraceEvent *const event = &trace->events.at[i];
        tensor_release(event->tensor);
        if (!event->borrowed) tensor_release(event->before);
    }
    trace->events.n = 0;
}
