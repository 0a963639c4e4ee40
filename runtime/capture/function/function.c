/* function.c: compiled functions and their calls. A call runs the body under the capture key, ends
 * the last segment once the body's scope is closed (so that only what survives it is an output
 * [semantics C2]), and then compiles the segments that ran eagerly. */
#include "runtime/capture/function/function.h"

#include <stdio.h>

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/autograd/dynamic_mark.h"
#include "runtime/capture/function/captured_graph.h"
#include "runtime/capture/function/explain.h"
#include "runtime/capture/function/stage_files.h"
#include "runtime/capture/record/capture.h"
#include "runtime/core/background.h"
#include "runtime/core/breaks.h"
#include "runtime/core/frame.h"
#include "runtime/capture/replay/replay.h"
#include "runtime/capture/record/symbols.h"
#include "runtime/capture/record/capture_events.h"
#include "runtime/capture/record/capture_thread.h"
#include "runtime/capture/record/segment.h"
#include "runtime/core/site.h"
#include "runtime/capture/record/trace_views.h"
#include "runtime/capture/training/training.h"
#include "runtime/capture/variant/guard.h"
#include "runtime/capture/variant/variant.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/profile.h"

static const FunctionClass function_class; /* below */

/* Making and freeing -------------------------------------------------------------------------- */

static void init_recursive(pthread_mutex_t *mutex) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

sn_function *function_new(sn_body body, void *closure, const sn_compile_options *options) {
    Arena *const arena = arena_new();
    sn_function *const fn = mem_zero(sizeof *fn);
    if (!arena || !fn) goto fail;
    fn->class = &function_class;
    fn->n_results = -1;
    fn->body = body;
    fn->closure = closure;
    if (options) fn->options = *options;
    if (fn->options.background) fn->background = background_owner();
    fn->name = mem_strdup(fn->options.name && *fn->options.name ? fn->options.name : "fn");
    fn->arena = arena;
    fn->root = trie_root(arena);
    if (!fn->name || !fn->root) goto fail;
    fn->stats.size = sizeof fn->stats;
    pthread_mutex_init(&fn->lock, NULL);
    init_recursive(&fn->compiling);
    function_report_begin(fn);
    return fn;
fail:
    if (fn) mem_free(fn->name);
    mem_free(fn);
    arena_free(arena);
    return NULL;
}

void function_free(sn_function *fn) {
    if (!fn) return;
    const sn_free_fn closure_free = fn->options.closure_free;
    void *const closure = fn->closure;
    if (fn->background) background_withdraw(fn->background);
    function_report(fn);
    replay_free(fn);
    for (int i = 0; i < fn->variants.n; i++) variant_free(fn->variants.at[i]);
    for (int i = 0; i < fn->breaks.n; i++) mem_free(fn->breaks.at[i].reason);
    for (int i = 0; i < fn->recompiles.n; i++) mem_free(fn->recompiles.at[i].text);
    pthread_mutex_destroy(&fn->lock);
    pthread_mutex_destroy(&fn->compiling);
    mem_free(fn->name);
    arena_free(fn->arena);
    if (fn->call_arena) arena_free(fn->call_arena);
    mem_free(fn);
    closure_free_run(closure_free, closure); /* last: it may leave by a jump */
}

/* A call -------------------------------------------------------------------------------------- */

static Status run_body(sn_function *fn, const Arg *in, int n_in, sn_tensor **out, int n_out, Capture *capture) {
    sn_frame frame = {.what = fn->name,
                      .closure = fn->closure,
                      .in = in,
                      .n_in = n_in,
                      .out = out,
                      .n_out = n_out,
                      .running = &fn->running,
                      .takes_none = true,
                      .outs_optional = capture && capture->for_graph};
    return frame_run(&frame, fn->body);
}

static Reason reason_of(const Trace *trace) { return trace->reason ? trace->reason : BREAK_REASON(error_ended); }

static void count_fallback(sn_function *fn, Reason reason, int64_t ops, int64_t calls) {
    for (int i = 0; i < fn->fallbacks.n; i++) {
        FallbackRow *const row = &fn->fallbacks.at[i];
        if (strcmp(row->reason, reason_text(reason)) != 0) continue;
        row->ops += ops, row->calls += calls;
        return;
    }
    char *const copy = arena_strdup(fn->arena, reason_text(reason));
    if (copy) VEC_PUSH(fn->arena, &fn->fallbacks, ((FallbackRow){copy, ops, calls}));
}

static bool ran_plan(const Trace *trace) { return trace->state == TRACE_compiled || trace->state == TRACE_interpreted; }

static bool has_alone(const Trace *trace) { return ran_plan(trace) && trace->variant && trace->variant->info.alone; }

/* Ops that eager ran in the middle of a compiled sequence. */
static int64_t count_alone(sn_function *fn, const Trace *trace) {
    if (!has_alone(trace)) return 0;
    const int64_t n = min_i64(trace->variant->info.alone, trace->ops.n); /* parts of one op may be several */
    count_fallback(fn, reason_from(trace->variant->info.alone_why), n, 0);
    fn->stats.ops_eager += n;
    return n;
}

static void count_trace(sn_function *fn, const Trace *trace) {
    if (fn->stats.calls <= 1 && !fn->header) return; /* the first call is left out [semantics C14] */
    const bool waits = trace->state == TRACE_eager && trace->waits;
    const int64_t ops = trace->ops.n - count_alone(fn, trace);
    if (trace->state != TRACE_compiled && !waits) count_fallback(fn, reason_of(trace), ops, 0);
    if (waits)
        fn->stats.ops_waiting += ops;
    else if (trace->state == TRACE_compiled)
        fn->stats.ops_generated += ops;
    else if (trace->state == TRACE_interpreted)
        fn->stats.ops_interpreted += ops;
    else
        fn->stats.ops_eager += ops;
}

static void count_outside(sn_function *fn, const OutsideOps *ops) {
    if (fn->stats.calls <= 1 && !fn->header) return;
    fn->stats.ops_eager += ops->n;
    count_fallback(fn, ops->reason, ops->n, 0);
}

/* Why it was not compiled code that ran, as exactly as is known. */
static Reason why_not(const Trace *trace) {
    const bool tried = trace->compile || reason_of(trace) == BREAK_REASON(failed); /* now, or before it was run */
    const bool failed = tried && trace->state == TRACE_eager && trace->end->failures;
    return failed && trace->end->failure ? reason_from(trace->end->failure) : reason_of(trace);
}

typedef struct Ran { /* a call, so far */
    int kinds, path;
    const char *reason; /* of the first part that was not compiled */
} Ran;

static void add_part(Ran *ran, int path, Reason reason) {
    ran->path = ran->kinds++ && ran->path != path ? SN_PATH_MIXED : path;
    if (path != SN_PATH_COMPILED && !*ran->reason) ran->reason = reason_text(reason);
}

static void report(sn_function *fn, const Capture *c) {
    Ran ran = {.path = SN_PATH_COMPILED, .reason = ""};
    const bool locked = lock_shared(&fn->lock);
    fn->stats.calls++;
    for (int i = 0; i < c->traces.n; i++) {
        const Trace *const trace = c->traces.at[i];
        if (!trace->ops.n) continue;
        count_trace(fn, trace);
        const int now = trace->state == TRACE_compiled      ? SN_PATH_COMPILED
                        : trace->state == TRACE_interpreted ? SN_PATH_INTERPRETED
                                                            : SN_PATH_EAGER;
        add_part(&ran, now, why_not(trace));
        if (has_alone(trace)) add_part(&ran, SN_PATH_EAGER, reason_from(trace->variant->info.alone_why));
    }
    for (int i = 0; i < c->outside_ops.n; i++) {
        count_outside(fn, &c->outside_ops.at[i]);
        add_part(&ran, SN_PATH_EAGER, c->outside_ops.at[i].reason);
    }
    unlock_shared(&fn->lock, locked);
    sn_state *const state = state_get();
    state->last_call.path = ran.path;
    state->last_call.reason = ran.reason;
}

static bool is_pending(const Trace *trace) { return trace->compile && trace->state == TRACE_eager; }

/* What the call returns was not known to be a result when an earlier segment ran. */
static void mark_results(Trace *trace) {
    const Capture *const c = trace->capture;
    for (int i = 0; i < c->n_results; i++)
        if (c->results[i]) trace_mark_asked(trace, c->results[i]);
}

static void compile_pending(sn_function *fn, Capture *c) {
    const bool first = atomic_load_explicit(&fn->n_compiled, memory_order_relaxed) == 0;
    for (int i = 0; i < c->traces.n; i++) { /* what later segments used is an output of its maker */
        const Trace *const trace = c->traces.at[i];
        for (int k = 0; k < trace->inputs.n; k++) {
            const TraceInput *const in = &trace->inputs.at[k];
            if (in->maker && in->maker->marks) in->maker->marks[in->maker_value] |= VALUE_needed;
        }
    }
    for (int i = 0; i < c->traces.n; i++) {
        if (!is_pending(c->traces.at[i])) continue;
        mark_results(c->traces.at[i]);
        if (trace_mark_viewed(c->traces.at[i]) != ST_OK) return;
        CompileLock *const lock = compile_lock(fn);
        variant_compile(fn, c->traces.at[i], first);
        compile_unlock(fn, lock);
    }
}

static bool has_variant(const Trace *trace) {
    const Variant *v = atomic_load_explicit(&trace->end->variants, memory_order_acquire);
    while (v && !variant_fits(v, trace, NULL)) v = v->next;
    return v != NULL;
}

/* For all sizes that the header allows; where rules decided what this call is not, for this one. */
static void compile_now(Trace *trace) {
    sn_function *const fn = trace->capture->fn;
    CompileLock *const lock = compile_lock(fn);
    variant_compile(fn, trace, trace->capture->first);
    trace->as_it_is = !trace->end->failures && !trace->reason && !has_variant(trace);
    if (trace->as_it_is) variant_compile(fn, trace, false);
    compile_unlock(fn, lock);
}

static void release_values(Capture *c) {
    for (int i = 0; i < c->traces.n; i++) {
        Trace *const trace = c->traces.at[i];
        capture_forget_events(trace);
        trace_drop_node(trace);
        for (int v = 0; v < trace->values.n; v++) {
            sn_tensor *const t = trace->values.at[v];
            if (!t) continue;
            atomic_store_explicit(&t->placeholder, NULL,
                                  memory_order_relaxed); /* elided and held by nobody who may ask: the arena goes */
            tensor_release(t);
        }
        for (int k = 0; k < trace->inputs.n && !c->for_graph; k++) tensor_release(trace->inputs.at[k].tensor);
    }
}

static void release_inputs(const Capture *c) {
    for (int i = 0; i < c->traces.n; i++)
        for (int k = 0; k < c->traces.at[i]->inputs.n; k++) tensor_release(c->traces.at[i]->inputs.at[k].tensor);
}

/* Nobody else is looking at its placeholders, nor will. */
static void release_all(Capture *c) {
    capture_retire_begin(state_get());
    release_values(c);
    capture_retire_end(state_get());
    pthread_mutex_destroy(&c->lock);
}

static void init_capture(Capture *c, sn_function *fn, Arena *arena) {
    *c = (Capture){.tracer = {.is = &capture_class},
                   .fn = fn,
                   .arena = arena,
                   .owner = state_get(),
                   .eager_checks = fn->options.eager_checks,
                   .device_asserts = setting_number(SET_device_asserts)};
    pthread_mutex_init(&c->lock, NULL);
}

static bool has_marks(const Arg *in, int n_in) {
    for (int i = 0; i < n_in; i++)
        if (in[i].kind == ARG_tensor && in[i].val && dynamic_mark_any(tensor_of(in[i].val))) return true;
    return false;
}

/* How numbers follow from the call's inputs is learnt of a replay function, and with the first call of one whose sizes
 * are symbols from then on. An API mode's handler sees numbers; nothing is learnt of such a call. */
static Status learn_symbols(const sn_function *fn, Capture *c) {
    const bool replay = fn->options.mode == SN_COMPILE_REPLAY;
    const bool first = atomic_load_explicit(&fn->n_compiled, memory_order_relaxed) == 0;
    const bool sizes = first && (fn->options.dynamic == SN_DYNAMIC_ALWAYS || has_marks(c->in, c->n_in));
    const bool header = fn->header && (first || c->again);
    c->again = false;
    if (state_get()->api_modes || !(replay || sizes || header)) return ST_OK;
    c->symbols = symbols_new(c->in, c->n_in, !replay && !header, fn->header);
    c->tracer.learns = replay || header;
    return c->symbols ? ST_OK : ST_MEMORY;
}

static Status run_captured(sn_function *fn, Capture *c, const Arg *in, int n_in, sn_tensor **out, int n_out) {
    sn_state *const state = state_get();
    const char *const composite = state->composite; /* a user's code that calls this may be a part of one */
    if (!capture_begin_trace(c)) return ST_MEMORY;
    state->composite = NULL;
    c->in = in;
    c->n_in = n_in;
    c->first = atomic_load_explicit(&fn->n_compiled, memory_order_relaxed) == 0;
    TRY(learn_symbols(fn, c));
    tracer_begin(state, &c->tracer);
    Status status = run_body(fn, c->symbols ? c->symbols->in : in, n_in, out, n_out, c);
    c->final = true;
    atomic_fetch_add(&fn->running, 1); /* as its body did until now: what follows runs kernels */
    c->results = out;
    c->n_results = n_out;
    if (status != ST_OK)
        capture_flush_behind_error(c, NULL, NULL);
    else
        status = capture_flush(c, NULL, NULL);
    /* Values of earlier segments that are kept beyond the call are materialized now. */
    if (status == ST_OK) status = capture_materialize_all(NULL);
    tracer_end(state);
    if (status == ST_OK) compile_pending(fn, c);
    /* A graph that is asked for is no call: nobody's results are to be found again. */
    const bool teaches = fn->options.mode == SN_COMPILE_REPLAY && !c->for_graph;
    if (status == ST_OK && teaches) replay_learn(fn, c, in, n_in, out, n_out);
    if (!c->again) report(fn, c);
    release_all(c);
    state->composite = composite;
    symbols_free(c->symbols);
    atomic_fetch_sub(&fn->running, 1);
    return status;
}

/* Of a graph whose segment has no variant for the call: with what a compile is to know. */
static Status run_captured_again(sn_function *fn, Capture *c, const Arg *in, int n_in, sn_tensor **out, int n_out) {
    const Capture before = *c;
    error_clear();
    for (int i = 0; i < n_out; i++) out[i] = NULL;
    init_capture(c, fn, before.arena);
    c->in_progress = before.in_progress;
    c->frame = before.frame;
    c->cookie = before.cookie;
    c->cookie_value = before.cookie_value;
    c->cfa = before.cfa;
    c->again = true;
    return run_captured(fn, c, in, n_in, out, n_out);
}

static void abandon_call(Capture *c);

/* The body's frames go by an exception, or those of a segment with a user's kernel: what was pending runs now. */
static void close_call(Capture *const *open) {
    if (LIKELY(!*open)) return;
    if (!(*open)->final) scope_leave_inside(state_get(), (*open)->in_progress.n_scopes);
    abandon_call(*open);
}

static void call_left(InProgress *call) { abandon_call((Capture *)((char *)call - offsetof(Capture, in_progress))); }

/* Its frame holds a gap that no call from outside of the body reaches below unless it goes deep: whoever looks from
 * above the gap's end sees that the body was left (segment.c). */
__attribute__((no_sanitize_address)) OWN_FRAME static Status call_captured(sn_function *fn, const Arg *in, int n_in,
                                                                           sn_tensor **out, int n_out) {
    Arena *const arena = function_arena_acquire(fn);
    if (!arena) return ST_MEMORY;
    Capture *const capture = ARENA_NEW(arena, Capture); /* outlives a body that jumps out */
    static _Atomic uint64_t calls = UINT64_C(0x5117e45117e4);
    __attribute__((cleanup(close_call))) Capture *open = NULL;
    volatile char gap[1024];
    gap[0] = 0;
    volatile uint64_t cookie = atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    Status status = ST_MEMORY;
    if (capture) {
        init_capture(capture, fn, arena);
        capture->frame = (const void *)&gap[0];
        capture->cookie = &cookie;
        capture->cookie_value = cookie;
        capture->cfa = __builtin_dwarf_cfa();
        in_progress_begin(state_get(), &capture->in_progress, call_left);
        open = capture;
        const uint64_t sequence = state_get()->sequence;
        status = run_captured(fn, capture, in, n_in, out, n_out);
        if (UNLIKELY(capture->again)) {
            state_get()->sequence = sequence;
            status = run_captured_again(fn, capture, in, n_in, out, n_out);
        }
        open = NULL;
        in_progress_end(state_get(), &capture->in_progress);
    }
    function_arena_release(fn, arena);
    return status;
}

static void abandon_call(Capture *c) {
    sn_function *const fn = c->fn;
    LOG(general, WARNING, "%s: its body did not return (a jump or an exception); what was pending runs now", fn->name);
    c->frame = NULL;
    c->n_in = 0; /* its caller may be gone */
    sn_state *const state = state_get();
    in_progress_end(state, &c->in_progress);
    if (state->held == &c->tracer) capture_unlock_left(c);
    state->composite = NULL;
    tracer_return_to(state, &c->tracer); /* also where a kernel of a running segment was left */
    if (c->running) {
        capture_fail_running(c);
    } else {
        capture_flush_behind_error(c, NULL, NULL);
        capture_materialize_all(NULL);
    }
    tracer_end(state);
    report(fn, c);
    release_all(c);
    symbols_free(c->symbols);
    if (c->final) atomic_fetch_sub(&fn->running, 1);
    function_arena_release(fn, c->arena);
}

static const FunctionClass function_class = {
    .run_segment = variant_run_segment,
    .run_late = variant_run_late,
    .admit = variant_admit,
    .compile = compile_now,
    .choose_kind = training_choose_kind,
    .abandon = abandon_call,
    .frame_of = (const void *)call_captured,
    .watchers = (const VariantWatcher *const[]){&stage_files_watcher, &explain_watcher, NULL}};

/* The one segment that this call was, and nothing beside it. */
static Status only_trace(const sn_function *fn, const Capture *c, const Trace **only) {
    int n = 0;
    if (c->outside)
        return error_raise(ST_UNSUPPORTED, "%s: the call is more than a graph: %s", fn->name, reason_text(c->outside));
    for (int i = 0; i < c->traces.n; i++)
        if (c->traces.at[i]->ops.n) *only = c->traces.at[i], n++;
    if (n != 1) return error_raise(ST_UNSUPPORTED, "%s: the call has %d graphs, not one", fn->name, n);
    return c->n_breaks ? error_raise(ST_UNSUPPORTED, "%s: the call breaks", fn->name) : ST_OK;
}

static Status graph_of(const sn_function *fn, const Trace *trace, const Variant **out) {
    *out = trace->variant ? trace->variant : atomic_load_explicit(&trace->end->variants, memory_order_acquire);
    if (*out) return ST_OK;
    const FailureRow *const failure = fn->failures.n ? &fn->failures.at[fn->failures.n - 1] : NULL;
    return error_raise(failure ? failure_status(failure, ST_UNSUPPORTED) : ST_UNSUPPORTED, "%s: no graph: %s", fn->name,
                       failure ? failure->text : reason_text(trace->reason));
}

static Status capture_graph(sn_function *fn, bool step, CapturedCall call, Arena *made, Graph **graph,
                            sn_tensor ***closed) {
    sn_tensor *outs[MAX_LIST] = {0};
    TRY(error_pending());
    if (fn->saved) return error_raise(ST_UNSUPPORTED, "%s: no graph: it is a plan of a file", fn->name);
    if (fn->options.mode == SN_COMPILE_EAGER)
        return error_raise(ST_UNSUPPORTED, "%s: no graph: its mode is SN_COMPILE_EAGER", fn->name);
    if (tracer_recording(state_get()))
        return error_raise(ST_STATE, "%s: captured inside a compiled function", fn->name);
    if (tracer_symbolic(state_get()))
        return error_raise(ST_UNSUPPORTED, "%s: no graph: it is asked for in a body that becomes a part of one",
                           fn->name);
    Arena *const arena = function_arena_acquire(fn);
    if (!arena) return ST_MEMORY;
    Capture capture;
    init_capture(&capture, fn, arena);
    capture.for_graph = true;
    capture.of_step = step;
    call.out = outs, call.n_out = MAX_LIST;
    const Variant *variant;
    Status status = run_captured(fn, &capture, call.in, call.n_in, outs, MAX_LIST);
    if (status == ST_OK) status = only_trace(fn, &capture, &call.trace);
    if (status == ST_OK) status = graph_of(fn, call.trace, &variant);
    if (status == ST_OK) status = captured_graph(&call, variant, made, graph, closed);
    release_inputs(&capture);
    function_arena_release(fn, arena);
    return status;
}

Status function_capture(sn_function *fn, const Arg *in, int n_in, Arena *made, Graph **graph, sn_tensor ***closed) {
    return capture_graph(fn, false, (CapturedCall){.in = in, .n_in = n_in}, made, graph, closed);
}

Status function_capture_step(sn_function *fn, const Arg *in, int n_in, Arena *made, Graph **graph,
                             sn_tensor ***closed) {
    return capture_graph(fn, true, (CapturedCall){.in = in, .n_in = n_in}, made, graph, closed);
}

static Status check_strict(sn_function *fn) {
    if (!fn->options.full_graph) return ST_OK;
    const bool locked = lock_shared(&fn->lock);
    const BreakRow row = fn->breaks.n ? fn->breaks.at[0] : (BreakRow){0};
    const FailureRow *const failure = fn->failures.n ? &fn->failures.at[0] : NULL;
    unlock_shared(&fn->lock, locked);
    if (row.count) {
        char where[256];
        site_name(row.site, where, sizeof where);
        return error_raise(ST_STRICT, "%s: full_graph, but the graph breaks at %s: %s", fn->name, where, row.reason);
    }
    if (failure)
        return error_raise(failure_status(failure, ST_STRICT), "%s: full_graph, but nothing was compiled: %s", fn->name,
                           failure->text);
    return ST_OK;
}

/* A callee that is to run as it is: capture pauses, once everything that it may look at is materialized. */
static Status call_paused(sn_function *fn, const Arg *in, int n_in, sn_tensor **out, int n_out) {
    const Reason why = BREAK_REASON(eager_callee);
    capture_breaks(fn->name);
    capture_record_break(capture_of(state_get()->tracer), why);
    TRY(capture_materialize_all(why));
    capture_breaks(NULL);
    const ContextSaved saved = context_enter(state_get(), CONTEXT_eager);
    const Status status = run_body(fn, in, n_in, out, n_out, NULL);
    context_leave(&saved);
    return status;
}

/* Inside another compiled function [semantics C11]: the ops become the caller's; what the callee demands of its
 * ops, eager checks and an unbroken graph, holds for them. */
static Status call_inlined(sn_function *fn, const Arg *in, int n_in, sn_tensor **out, int n_out) {
    Capture *const c = capture_of(state_get()->tracer);
    if (fn->options.mode == SN_COMPILE_EAGER) return call_paused(fn, in, n_in, out, n_out);
    const bool eager_checks = c->eager_checks;
    const int breaks = c->n_breaks;
    c->eager_checks |= fn->options.eager_checks;
    const Status status = run_body(fn, in, n_in, out, n_out, c);
    c->eager_checks = eager_checks;
    TRY(status);
    if (!fn->options.full_graph || c->n_breaks == breaks) return ST_OK;
    char where[256];
    site_name(c->break_site, where, sizeof where);
    return error_raise(ST_STRICT, "%s: full_graph, but its graph breaks inside %s at %s: %s", fn->name, c->fn->name,
                       where, c->break_reason ? c->break_reason : "");
}

static void report_eager(sn_function *fn, sn_state *state, Reason reason) {
    const bool locked = lock_shared(&fn->lock);
    fn->stats.calls++;
    count_fallback(fn, reason, 0, 1);
    unlock_shared(&fn->lock, locked);
    state->last_call.path = SN_PATH_EAGER;
    state->last_call.reason = reason_text(reason);
}

/* Only the body's ops know what to do with it. */
static bool any_uncaptured(const Arg *in, int n_in) {
    if (LIKELY(!atomic_load_explicit(&tensor_keys_added, memory_order_relaxed))) return false;
    for (int i = 0; i < n_in; i++)
        if (in[i].kind == ARG_tensor && in[i].val && tensor_of(in[i].val)->keys & KEYS_UNCAPTURED) return true;
    return false;
}

static Status refuse_uncaptured(const sn_function *fn) {
    return error_raise(ST_UNSUPPORTED,
                       "%s: it is not implemented for tensors with a key of their own: a saved plan has no body to run",
                       fn->name);
}

/* Why the body runs op by op; NULL: it is captured. */
static inline Reason eager_reason(const sn_function *fn, const sn_state *state) {
    if (UNLIKELY(state->level != NULL)) return BREAK_REASON(transformed); /* its ops are the level's */
    if (fn->options.mode == SN_COMPILE_EAGER || !setting_number(SET_compile)) return BREAK_REASON(switched_off);
    if (UNLIKELY(state->stance == SN_STANCE_FORCE_EAGER)) return BREAK_REASON(forced);
    if (UNLIKELY(state->saved_hooks != NULL)) return BREAK_REASON(packed);
    if (LIKELY(!(state->include & (KEY_BIT(fake) | KEY_BIT(anomaly))))) return NULL;
    return state->include & KEY_BIT(fake) ? BREAK_REASON(fake) : BREAK_REASON(anomaly);
}

/* Part of a body that goes into a graph. */
static COLD Status call_emitted(sn_function *fn, const Arg *in, int n_in, sn_tensor **out, int n_out) {
    if (fn->options.mode == SN_COMPILE_EAGER) TRY(state_untraced(BREAK_TEXT(eager_callee)));
    return run_body(fn, in, n_in, out, n_out, NULL);
}

static Status call_saved(sn_function *fn, const Arg *in, int n_in, sn_tensor **out, int n_out, ReplayResults results) {
    const bool refused = any_uncaptured(in, n_in) || state_get()->include & KEY_BIT(fake);
    return refused ? refuse_uncaptured(fn) : replay_run(fn, in, n_in, out, n_out, results);
}

static ALWAYS_INLINE Status call_compiled(sn_function *fn, const Arg *in, int n_in, sn_tensor **out, int n_out,
                                          ReplayResults results) {
    bool ran = false;
    Status status = ST_OK;
    if (!any_uncaptured(in, n_in)) status = replay_try(fn, in, n_in, out, n_out, results, &ran);
    if (!ran) status = call_captured(fn, in, n_in, out, n_out);
    return status == ST_OK ? check_strict(fn) : status;
}

static ALWAYS_INLINE Status call_by_state(sn_function *fn, const Arg *in, int n_in, sn_tensor **out, int n_out,
                                          ReplayResults results) {
    sn_state *const state = state_get();
    if (tracer_symbolic(state)) return call_emitted(fn, in, n_in, out, n_out);
    if (UNLIKELY(capture_current() != NULL)) return call_inlined(fn, in, n_in, out, n_out);
    if (fn->saved) return call_saved(fn, in, n_in, out, n_out, results);
    const Reason reason = eager_reason(fn, state);
    if (!reason) return call_compiled(fn, in, n_in, out, n_out, results);
    const Status status = run_body(fn, in, n_in, out, n_out, NULL);
    report_eager(fn, state, reason);
    return status;
}

/* Log lines know whose they are, and a profile has a span; one that another body calls is that one's. */
static COLD Status call_seen(sn_function *fn, const Arg *in, int n_in, sn_tensor **out, int n_out,
                             ReplayResults results) {
    __attribute__((cleanup(profile_end))) ProfileSpan span = {0};
    const char *const outer = log_function_swap(fn->name);
    state_get()->logged = fn->name;
    if (profile_is_on() && !capture_current() && !tracer_symbolic(state_get()))
        span = profile_begin_named(PROFILE_call, fn->name, NULL);
    const Status status = call_by_state(fn, in, n_in, out, n_out, results);
    state_get()->logged = outer;
    log_function_swap(outer);
    return status;
}

Status function_call(sn_function *fn, const Arg *in, int n_in, sn_tensor **out, int n_out) {
    return function_call_into(fn, in, n_in, out, n_out, NULL);
}

Status function_call_into(sn_function *fn, const Arg *in, int n_in, sn_tensor **out, int n_out, ResultSink *sink) {
    const ReplayResults results = {.sink = sink};
    for (int i = 0; i < n_out; i++) out[i] = NULL;
    if (error_pending()) return error_pending();
    if (!fn) return error_raise(ST_ARGUMENT, "sn_call: the function is NULL");
    const bool is_seen = UNLIKELY(log_functions_chosen) || profile_is_on();
    const Status status =
        is_seen ? call_seen(fn, in, n_in, out, n_out, results) : call_by_state(fn, in, n_in, out, n_out, results);
    for (int i = 0; status != ST_OK && i < n_out; i++) out[i] = NULL;
    return status;
}

Status function_describe(sn_function *fn, const Arg *in, int n_in, CallResult *results, int n_out, bool *known) {
    const ReplayResults asked = {.describe = results};
    *known = false;
    TRY(error_pending());
    if (fn->saved) {
        *known = true;
        return call_saved(fn, in, n_in, NULL, n_out, asked);
    }
    if (eager_reason(fn, state_get()) || any_uncaptured(in, n_in)) return ST_OK;
    return replay_try(fn, in, n_in, NULL, n_out, asked, known);
}
