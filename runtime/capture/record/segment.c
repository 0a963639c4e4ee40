/* segment.c: the end of a segment: find a variant and launch it, or run the pending ops eagerly.
 *
 * What must exist afterwards ("needed"): values that someone holds besides the trace and the open
 * scopes (returned, kept, a leaf's .grad), the value that a break asks for, and every value still in
 * scope where the segment writes memory and more code may follow (it could not be recomputed later),
 * holds an op with effects (which happen once), or where host code may look at anything. Other
 * placeholders are elided. Asking for one later computes it from the segment's inputs [semantics C2]: a variant
 * with that result too is launched in the place of the one that ran, on the tape as well; only where there is none do
 * the ops run eagerly. */
#include "runtime/capture/record/segment.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/capture_backward.h"
#include "runtime/capture/record/capture_events.h"
#include "runtime/capture/record/capture_thread.h"
#include "runtime/capture/record/region_program.h"
#include "runtime/capture/record/symbols.h"
#include "runtime/capture/record/trace_graph.h"
#include "runtime/capture/record/trace_views.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/core/autocast.h"
#include "runtime/core/breaks.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/custom_op.h"
#include "runtime/core/frame.h"
#include "runtime/autograd/gradients.h"
#include "runtime/autograd/tape.h"
#include "runtime/core/profile.h"

Capture *capture_current(void) {
    Capture *const c = capture_of(state_get()->tracer);
    if (LIKELY(!c || !capture_was_left(c))) return c;
    c->fn->class->abandon(c);
    return NULL;
}

static bool end_if_left(Capture *c) {
    if (!capture_was_left(c) && !frame_was_left(c->cfa, c->fn->class->frame_of)) return false;
    c->fn->class->abandon(c);
    return true;
}

void capture_fail_running(Capture *c) {
    c->running = false;
    for (int t = 0; t < c->traces.n; t++)
        for (int v = 0; v < c->traces.at[t]->values.n; v++) {
            sn_tensor *const value = c->traces.at[t]->values.at[v];
            if (value && value->placeholder) value->flags |= TF_error;
        }
}

static bool is_in_progress(const sn_state *state, const Capture *c) {
    const InProgress *at = state->in_progress;
    while (at && at != &c->in_progress) at = at->outer;
    return at != NULL;
}

/* A segment of a call that goes on, whose kernel was left, cannot run again: its values are errors. */
static void fail_if_running(Capture *c) {
    if (!is_in_progress(state_get(), c) || !c->running) return;
    capture_fail_running(c);
    capture_record_outside(c, BREAK_REASON(callback_left));
    capture_begin_trace(c);
}

bool capture_left(Capture *c, TracerLeft how) {
    if (how == LEFT_perhaps) return end_if_left(c);
    if (how == LEFT_holding)
        capture_unlock_left(c);
    else
        fail_if_running(c);
    return true;
}

enum { LIKELY_OPS = 32 };

Trace *capture_begin_trace(Capture *c) {
    Trace *const trace = ARENA_NEW(c->arena, Trace);
    if (!trace) return NULL;
    const int n = c->traces.n;
    VEC_PUSH(c->arena, &c->traces, trace);
    if (c->traces.n == n) return NULL;
    VEC_START(c->arena, &trace->ops, LIKELY_OPS);
    VEC_START(c->arena, &trace->inputs, LIKELY_OPS);
    VEC_START(c->arena, &trace->numbers, LIKELY_OPS);
    VEC_START(c->arena, &trace->values, LIKELY_OPS);
    VEC_START(c->arena, &trace->places, LIKELY_OPS);
    trace->capture = c;
    c->trace = trace;
    c->cursor = c->fn->root;
    c->stamp++;
    return trace;
}

void tensor_bind(sn_tensor *placeholder, sn_tensor *computed) {
    if (UNLIKELY(placeholder->base.meta != computed->base.meta)) {
        meta_retain(computed->base.meta);
        meta_linger(placeholder->base.meta);
        meta_release(placeholder->base.meta);
        placeholder->base.meta = computed->base.meta;
    }
    placeholder->storage = computed->storage;
    if (placeholder->storage) storage_retain(placeholder->storage);
    placeholder->offset = computed->offset;
    /* Its own thread may be looking at these: they are as they were, and then not written. */
    if (placeholder->keys != computed->keys) placeholder->keys = computed->keys;
    if ((computed->flags ^ placeholder->flags) & TF_inference) placeholder->flags ^= TF_inference;
    placeholder->autograd = computed->autograd; /* nodes point at inputs, never at their results */
    computed->autograd = NULL;
    atomic_store_explicit(&placeholder->placeholder, NULL, memory_order_release);
}

static int32_t refs_of(const sn_tensor *t) { return atomic_load_explicit(&t->refs, memory_order_acquire); }

static inline bool is_needed(const Trace *trace, const sn_tensor *t) {
    const Capture *const c = trace->capture;
    const int32_t others = refs_of(t) - 1;
    if (LIKELY(others == 0)) return t == c->wanted; /* only this trace holds it */
    for (int i = 0; i < c->n_results; i++)
        if (c->results[i] == t) return true;
    const bool in_scope = tensor_in_scope(t);
    const bool all = trace->ordered || ((trace->writes || c->materializes_all) && !c->final);
    return t == c->wanted || all || others > in_scope;
}

static uint8_t marks_of(const Trace *trace, const sn_tensor *t) {
    const bool alive = refs_of(t) > 1;
    return (is_needed(trace, t) ? VALUE_needed : 0) | (alive ? VALUE_alive : 0) |
           (alive && !trace->capture->final ? VALUE_waits : 0);
}

/* A segment that runs again cannot go backward again, so what its backward gave is there then. */
static void mark_gradients(Trace *trace) {
    for (int i = 0; i < trace->ops.n; i++) {
        const TraceOp *const op = trace->ops.at[i].op;
        if (op->row->role != ROLE_gradients) continue;
        for (int k = 0; k < op->n_outs; k++) trace->marks[op->first_value + k] |= VALUE_needed;
    }
}

/* Which values of the trace must exist after it ran: held by someone else than the trace and open scopes. */
static Status mark_needed(Trace *trace) {
    if (!trace->marks) trace->marks = arena_alloc(trace->capture->arena, (size_t)trace->values.n);
    if (!trace->marks) return ST_MEMORY;
    for (int v = 0; v < trace->values.n; v++)
        if (trace->values.at[v]) trace->marks[v] |= marks_of(trace, trace->values.at[v]);
    if (trace->gradients && !trace->capture->final) mark_gradients(trace);
    return trace_mark_viewed(trace);
}

/* Eager run ----------------------------------------------------------------------------------- */

static bool all_bound(const TraceOp *op, sn_tensor *const *values) {
    for (int i = 0; i < op->n_outs; i++)
        if (values[i] && values[i]->placeholder) return false;
    return op->n_outs > 0;
}

/* A backward's error names the call, as in eager. */
static Status run_gradients(const Arg *args, const void *site, sn_tensor **outs) {
    const Status status = gradients_run(args, outs);
    if (status != ST_OK) error_set_op("sn_backward"), error_set_site(site);
    return status;
}

static Status run_op_inside(const Trace *trace, const TracedOp *step) {
    const TraceOp *const op = step->op;
    sn_tensor *const *const values = trace->values.at + op->first_value;
    trace_op_enter(op, step->site, trace->sequence + (uint64_t)step->random);
    context_enter_scope(state_get(), CONTEXT_parts); /* casts are ops before it */
    if (all_bound(op, values))
        return op->row->role == ROLE_gradients ? capture_use_up(trace, (int)(step - trace->ops.at)) : ST_OK;
    Arg args[MAX_ARGS];
    sn_tensor *out_args[MAX_OUTS], *few[MAX_OUTS] = {NULL};         /* sn::gradients has many */
    const bool list = op->row->returns_list && op_dynamic(op->row); /* a kernel may give more than its rule said */
    const int capacity = list ? MAX_LIST : op->n_outs;
    sn_tensor **const outs = capacity <= MAX_OUTS ? few : ARENA_ARRAY(trace->capture->arena, sn_tensor *, capacity);
    if (!outs) return ST_MEMORY;
    TRY(trace_args(trace, op, args, out_args));
    int n = op->n_outs;
    if (op->row->role == ROLE_gradients)
        TRY(run_gradients(args, step->site, outs));
    else if (list)
        TRY(dispatch_list(op->row, args, outs, &n));
    else
        TRY(dispatch(op->row, op->form, args, op->form == FORM_out ? out_args : NULL, outs));
    if (op_dynamic(op->row)) TRY(custom_op_check_results(op->row, outs, n, values, op->n_outs));
    for (int i = 0; i < op->n_outs; i++)
        if (values[i]->placeholder) tensor_bind(values[i], outs[i]);
    if (op->mutates_metadata && !trace->variant && !operand_is_input(trace_root(trace, op->first_value)))
        tensor_written(values[0]); /* of an input at the call; of a launch's results by it */
    return ST_OK;
}

/* An op runs in the mode of its own call, not in that of the flush; the scope's end puts that one back. The computed
 * handles go once placeholders have taken their places. */
static Status run_op(const Trace *trace, const TracedOp *step) {
    sn_state *const state = state_get();
    TRY(scope_push(state, false));
    const Status status = run_op_inside(trace, step);
    scope_pop(state);
    return status;
}

static void fail_values(const Trace *trace) {
    for (int v = 0; v < trace->values.n; v++)
        if (trace->values.at[v] && trace->values.at[v]->placeholder) trace->values.at[v]->flags |= TF_error;
}

/* By value: the last op that takes it, or makes it; NULL: memory is out, and all stay. */
static int *last_uses(const Trace *trace) {
    int *const last = arena_alloc(trace->capture->arena, (size_t)(trace->values.n + 1) * sizeof *last);
    for (int i = 0; last && i < trace->ops.n; i++) {
        const TraceOp *const op = trace->ops.at[i].op;
        for (int k = 0; k < op->n_outs; k++) last[op->first_value + k] = i;
        for (int k = 0; k < op->n_operands; k++)
            if (op->operands[k] >= 0) last[op->operands[k]] = i;
    }
    return last;
}

/* The gradient that an undone event would put back. */
static bool is_kept_for_undo(const Trace *trace, const sn_tensor *t) {
    for (int i = 0; i < trace->events.n; i++)
        if (trace->events.at[i].before == t) return true;
    return false;
}

/* No op behind i takes it, and nobody else has it: its memory goes now, as in eager. */
static void drop_used(Trace *trace, const int *last, int v, int i) {
    sn_tensor *const t = trace->values.at[v];
    if (!t || last[v] > i || t->placeholder || refs_of(t) > 1 || trace->marks[v] & VALUE_output) return;
    if (is_kept_for_undo(trace, t)) return;
    trace->values.at[v] = NULL;
    tensor_release(t);
}

static void drop_used_by(Trace *trace, const int *last, int i) {
    const TraceOp *const op = trace->ops.at[i].op;
    for (int k = 0; k < op->n_operands; k++)
        if (op->operands[k] >= 0) drop_used(trace, last, op->operands[k], i);
    for (int k = 0; k < op->n_outs; k++) drop_used(trace, last, op->first_value + k, i);
    if (op->row->role != ROLE_gradients) return;
    for (int v = 0; v < op->first_value; v++) drop_used(trace, last, v, i); /* what the tape held until here */
}

/* The next op, or all of a region; *ran: how many, of those that failed how many before. */
static Status run_next(Trace *trace, const int *last, int *ran) {
    const TracedOp *const step = &trace->ops.at[trace->n_done];
    *ran = 0;
    if (last && step->op->region) TRY(region_program_run(trace, trace->n_done, last, ran));
    if (*ran) return ST_OK;
    TRY(run_op(trace, step));
    *ran = 1;
    return ST_OK;
}

/* The first n ops. last: what each value is used by last, where memory may go on the way; or NULL. */
static Status run_eager(Trace *trace, int n, const int *last) {
    sn_state *const state = state_get();
    const uint64_t sequence = state->sequence, seed = state->seed;
    if (trace->n_random) state->seed = trace->seed; /* not this thread's, where another one asks */
    Status status = ST_OK;
    trace->n_done = 0;
    while (trace->n_done < n) {
        int ran;
        status = run_next(trace, last, &ran);
        if (status != ST_OK) {
            trace->n_done += ran;
            error_set_site(trace->ops.at[min_i64(trace->n_done, n - 1)].site);
            break;
        }
        for (; ran; ran--, trace->n_done++)
            if (last) drop_used_by(trace, last, trace->n_done);
    }
    state->sequence = sequence;
    state->seed = seed;
    if (status != ST_OK) fail_values(trace);
    return status;
}

Status trace_run_eager(Trace *trace) { return run_eager(trace, trace->ops.n, NULL); }

/* Once more, or instead ------------------------------------------------------------------------------ */

/* Writes happen once, and a node that eager's have replaced cannot be replaced again. */
static bool may_run_again(const Trace *trace) {
    return trace->variant && trace->marks && !trace->writes && !trace->gradients &&
           !(trace->node && trace->node->instead);
}

Status trace_run_late(Trace *trace, const sn_tensor *asked) {
    if (trace->ordered) return error_raise(ST_INTERNAL, "a value of a segment with effects was left unmade");
    Status status;
    if (may_run_again(trace)) {
        if (trace->capture->fn->class->run_late(trace, asked, &status)) return status;
        TRY(error_pending());
    }
    if (trace->variant) {
        trace->state = TRACE_eager;
        trace->reason = trace->waits ? BREAK_REASON(waits) : BREAK_REASON(late_value);
    }
    return trace_run_eager(trace);
}

static bool is_elided(const Trace *trace) {
    if (trace->state != TRACE_compiled && trace->state != TRACE_interpreted) return false;
    for (int v = 0; v < trace->values.n; v++) {
        const sn_tensor *const value = trace->values.at[v];
        if (value && value->placeholder && refs_of(value) > 1) return true;
    }
    return false;
}

static bool has_input_in(const Trace *trace, const Storage *storage) {
    for (int i = 0; i < trace->inputs.n; i++)
        if (trace->inputs.at[i].storage == storage) return true;
    return false;
}

Status capture_before_write(Capture *c, const Storage *storage) {
    for (int t = 0; t < c->traces.n - 1; t++) {
        Trace *const trace = c->traces.at[t];
        if (is_elided(trace) && (!storage || has_input_in(trace, storage))) TRY(trace_run_late(trace, NULL));
    }
    return ST_OK;
}

/* What failed has said why, and nothing was written; but effects have happened and may not happen again. What comes
 * before the first of them runs as in eager; that and all that follows has failed. */
static Status run_until_effect(Trace *trace, Status status) {
    ErrorSlot *const slot = error_slot();
    const ErrorSlot kept = *slot;
    int n = 0;
    while (!(trace->ops.at[n].op->row->flags & OPF_ordered)) n++;
    error_clear();
    const Status before = run_eager(trace, n, NULL);
    if (before != ST_OK) return before;
    *slot = kept;
    fail_values(trace);
    return status;
}

/* A variant fitted and could not be run. */
static Status run_instead(Trace *trace, Status status) {
    const bool again = trace->foreign || trace->fallible || trace->ordered;
    if (status != ST_VALUE && status != ST_MEMORY && !again) return status;
    /* A check or a user's kernel failed and nothing was committed: eager says which op [semantics C8]. */
    trace->state = TRACE_eager;
    if (trace->ordered) {
        trace->reason = BREAK_REASON(effect_failed);
        return run_until_effect(trace, status);
    }
    error_clear();
    trace->reason = trace->foreign ? trace->foreign : BREAK_REASON(check_failed);
    return trace_run_eager(trace);
}

/* None of its ops has run, nor will. */
static Status refuse(Trace *trace, Status status) {
    trace->state = TRACE_failed;
    trace->reason = BREAK_REASON(refused);
    fail_values(trace);
    return status;
}

/* Nothing has run, and what is to be compiled is known to a call that learns symbols: the call is made once more. */
static bool asks_again(Capture *c) {
    if (c->symbols || c->traces.n > 1 || atomic_load(&c->outside) || state_get()->api_modes || c->for_graph)
        return false;
    return c->again = true;
}

static Status run_trace(Trace *trace) {
    Capture *const c = trace->capture;
    if (trace->writes) TRY(capture_before_write(c, NULL));
    TRY(mark_needed(trace));
    Status status;
    if (trace->capture->fn->class->run_segment(trace, &status))
        return trace->variant ? status : run_instead(trace, status);
    status = trace->capture->fn->class->admit(trace);
    if (status != ST_OK) return refuse(trace, status);
    if (c->fn->header && !trace->waits) {
        if (asks_again(c)) return refuse(trace, error_raise(ST_INTERNAL, "%s: to be called again", c->fn->name));
        c->fn->class->compile(trace);
        if (c->fn->class->run_segment(trace, &status)) return trace->variant ? status : run_instead(trace, status);
    } else {
        trace->compile = c->fn->options.mode != SN_COMPILE_EAGER;
    }
    if (!trace->reason) trace->reason = trace->waits ? BREAK_REASON(waits) : BREAK_REASON(first_run);
    status = run_eager(trace, trace->ops.n, last_uses(trace));
    trace->state = status == ST_OK ? TRACE_eager : TRACE_failed;
    return status;
}

static bool may_be_asked(const Trace *trace) {
    for (int v = 0; v < trace->values.n; v++)
        if (trace->values.at[v] && trace->values.at[v]->placeholder && refs_of(trace->values.at[v]) > 1) return true;
    return false;
}

void trace_drop_node(Trace *trace) {
    if (trace->node) tape_node_release(trace->node);
    trace->node = NULL;
}

/* Memory that only the records of this call hold goes at once, as in eager; what is elided and may
 * still be asked for keeps its segment's inputs. */
static void drop_dead(Trace *trace) {
    if (may_be_asked(trace)) return;
    trace_drop_node(trace);
    for (int v = 0; v < trace->values.n; v++) {
        sn_tensor *const t = trace->values.at[v];
        if (!t || refs_of(t) > 1) continue;
        atomic_store_explicit(&t->placeholder, NULL, memory_order_relaxed);
        trace->values.at[v] = NULL;
        tensor_release(t);
    }
    for (int i = 0; i < trace->inputs.n; i++) {
        TraceInput *const in = &trace->inputs.at[i];
        sn_tensor *const t = in->tensor;
        if (refs_of(t) > 1 || (in->storage && in->storage->user_owned)) continue; /* it may overlap another one's */
        in->tensor = NULL, in->storage = NULL;
        tensor_release(t);
    }
}

/* Ops behind the one that failed were recorded, but eager would not have called them. */
static void undo(const Trace *trace) {
    /* Before the first random op the generator may have been set, and not be where that one found it. */
    if (capture_undo_events(trace) || !trace->n_random) return;
    const int drawn = trace->n_done < trace->ops.n ? trace->ops.at[trace->n_done].random : trace->random;
    state_get()->sequence = trace->sequence + (uint64_t)drawn;
}

static Status flush(Capture *c, Reason reason, const void *site) {
    Trace *const trace = c->trace;
    if (trace->ops.n == 0) return ST_OK;
    if (reason) capture_count_break(c, reason, site);
    trace->end = c->cursor;
    if (trace->started_ns) {
        trace->ended_ns = clock_ns();
        profile_record_stage("trace", trace->started_ns);
    }
    sn_state *const state = state_get();
    const void *const asks = state->site; /* the ops that run are those of other lines */
    const ContextSaved saved = context_enter(state, CONTEXT_segment);
    c->running = true;
    const Status status = run_trace(trace);
    state->site = asks;
    c->running = false;
    capture_print_events(trace, status != ST_OK);
    if (status != ST_OK) undo(trace);
    capture_forget_events(trace);
    if (!c->final && status == ST_OK) drop_dead(trace);
    context_leave(&saved);
    if (!capture_begin_trace(c)) return ST_MEMORY;
    return status;
}

Status capture_flush(Capture *c, Reason reason, const void *site) {
    const bool entered = capture_enter(c);
    Status status = capture_adopt_error(c);
    if (status == ST_OK) status = flush(c, reason, site);
    capture_leave(c, entered);
    return status;
}

/* Earlier segments: all values that wait, or one. */
static Status run_again(Capture *c, const sn_tensor *asked) {
    sn_state *const state = state_get();
    const void *const asks = state->site;
    const ContextSaved saved = context_enter(state, CONTEXT_segment);
    c->running = true;
    const Status status = asked ? trace_run_late(asked->placeholder->trace, asked) : capture_before_write(c, NULL);
    c->running = false;
    state->site = asks;
    context_leave(&saved);
    return status;
}

Status capture_materialize_all(Reason why) {
    Capture *const c = capture_current();
    if (!c) return ST_OK;
    const bool entered = capture_enter(c);
    c->materializes_all = true;
    Status status = capture_flush(c, why, state_get()->site);
    c->materializes_all = false;
    if (status == ST_OK) status = run_again(c, NULL);
    capture_leave(c, entered);
    return status;
}

void capture_record_break(Capture *c, Reason reason) {
    const bool entered = capture_enter(c);
    capture_record_outside(c, reason);
    if (!c->trace->ops.n) capture_count_break(c, reason, state_get()->site);
    capture_leave(c, entered);
}

static Status flush_own(Capture *c, sn_tensor *t, Reason reason) {
    const struct Placeholder *const p = t->placeholder;
    const bool earlier = p && p->trace != c->trace;
    if (!p && !c->trace->writes) return ST_OK;
    if (earlier && !c->trace->writes) return run_again(c, t);
    c->wanted = t;
    /* A pending write makes what waits of earlier segments, too. */
    const Status status = capture_flush(c, reason, state_get()->site);
    c->wanted = NULL;
    return status == ST_OK && earlier && t->placeholder ? run_again(c, t) : status;
}

void trace_mark_asked(Trace *trace, const sn_tensor *t) {
    for (int v = 0; trace->marks && v < trace->values.n; v++)
        if (trace->values.at[v] == t) trace->marks[v] |= VALUE_needed;
}

/* In the call that records a segment its values are all made; that one was asked for is noted for its code. */
static void record_asked(const Capture *c, const sn_tensor *t) {
    for (int i = 0; i < c->traces.n; i++)
        if (c->traces.at[i]->compile) trace_mark_asked(c->traces.at[i], t);
}

/* A pending write may concern any tensor through an alias; without one only placeholders wait for
 * data. */
Status capture_make(sn_tensor *t, Reason reason) {
    Capture *const c = capture_current();
    const struct Placeholder *const p = t->placeholder;
    if (c) capture_record_outside(c, reason);
    if (p && capture_of(p->tracer) != c) return tracer_flush_foreign(t);
    if (!c) return ST_OK;
    const bool entered = capture_enter(c);
    if (!p) record_asked(c, t);
    Status status = capture_adopt_error(c);
    if (status == ST_OK) status = flush_own(c, t, reason);
    capture_leave(c, entered);
    return status;
}

Status capture_flush_tensor(sn_tensor *t) { return capture_make(t, BREAK_REASON(host_value)); }

Status capture_flush_behind_error(Capture *c, Reason reason, const void *site) {
    ErrorSlot *const slot = error_slot();
    const ErrorSlot kept = *slot;
    error_clear();
    const Status status = capture_flush(c, reason, site);
    if (status == ST_OK) *slot = kept;
    return status;
}

/* A segment counts from one sequence number of one seed: what is set between those that its ops have taken is a place
 * there, and part of its ops' structure. Anything else is for the next segment. */
static bool is_inside(const Trace *trace, uint64_t seed, uint64_t sequence) {
    return seed == trace->seed && sequence - trace->sequence <= (uint64_t)trace->n_random;
}

static Status before_generator(Capture *c, uint64_t seed, uint64_t sequence, Reason breaks) {
    const bool inside = !c->trace->n_random || is_inside(c->trace, seed, sequence);
    if (!inside) TRY(capture_flush_behind_error(c, breaks, state_get()->site));
    TRY(capture_record_seed());
    if (c->trace->n_random) c->trace->random = (int)(sequence - c->trace->sequence);
    return ST_OK;
}

Status capture_before_generator(Capture *c, const TracerEffect *to) {
    capture_record_outside(c, to->what);
    const bool entered = capture_enter(c);
    const Status status = before_generator(c, to->seed, to->sequence, to->breaks);
    capture_leave(c, entered);
    return status;
}

Status capture_shows_generator(Capture *c, const TracerEffect *e) {
    if (symbols_current() && c->fn->options.full_graph)
        return error_raise(ST_STRICT, "%s: sn_rng_get in the body, which replay would not run", c->fn->name);
    capture_record_outside(c, e->what);
    return ST_OK;
}
