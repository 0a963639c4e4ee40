/* replay.c: see replay.h. Specialized calls are a list, newest first, published under the function's lock. */
#include "runtime/capture/replay/replay.h"

#include "runtime/base/log.h"
#include "runtime/capture/variant/guard.h"
#include "runtime/capture/replay/specialized_call.h"
#include "runtime/capture/replay/replay_guards.h"
#include "runtime/capture/record/function_state.h"
#include "runtime/capture/record/symbols.h"
#include "runtime/capture/record/trace_views.h"
#include "runtime/capture/variant/variant.h"
#include "runtime/core/breaks.h"

enum { MAX_CASES = 64 }; /* that a function learns */

static bool is_verified_now(sn_function *fn) {
    const int every = fn->options.check_every;
    return every > 0 && atomic_fetch_add(&fn->replays, 1) % every == every - 1;
}

/* By the newest one that runs it. */
static inline bool find_in_list(ReplayCall *call, SpecializedMatch *match) {
    SpecializedCall *p = atomic_load_explicit(&call->fn->specialized, memory_order_acquire);
    while (p && !specialized_match(p, call, match)) p = *specialized_next(p);
    return p != NULL;
}

/* What a plan's body did may have followed from the grad mode: what was learnt in it comes first. */
static bool find_match(ReplayCall *call, SpecializedMatch *match) {
    call->of_other_mode = false;
    if (find_in_list(call, match)) return true;
    if (LIKELY(!call->fn->saved)) return false;
    call->of_other_mode = true;
    return find_in_list(call, match);
}

/* Logs in what the call differs from the one that was learnt last. */
static COLD void report_miss(const sn_function *fn, const Arg *in, int n_in) {
    const SpecializedCall *const newest = atomic_load_explicit(&fn->specialized, memory_order_acquire);
    Text why = {0};
    if (!newest) return;
    specialized_print_miss(newest, in, n_in, &why);
    LOG(guards, INFO, "%s: the body runs: %s", fn->name, text_str(&why));
    text_free(&why);
}

static Status describe_match(const SpecializedMatch *match, CallResult *results, bool *ran) {
    *ran = true;
    return call_results_describe(match, results);
}

Status replay_try(sn_function *fn, const Arg *in, int n_in, sn_tensor **out, int n_out, ReplayResults results,
                  bool *ran) {
    if (fn->options.mode != SN_COMPILE_REPLAY) return ST_OK;
    ReplayCall call = {.fn = fn, .in = in, .n_in = n_in, .n_out = n_out};
    MATCH(match);
    Status status = ST_OK;
    const bool found = find_match(&call, &match);
    match.sink = results.sink;
    if (found && UNLIKELY(results.describe != NULL))
        status = describe_match(&match, results.describe, ran);
    else if (found && !is_verified_now(fn))
        status = specialized_launch(&match, out, ran);
    if (UNLIKELY(!found && log_on(LOG_guards, LOG_INFO))) report_miss(fn, in, n_in);
    if (call.arena) function_arena_release(fn, call.arena);
    return status;
}

void replay_count(const sn_function *fn, sn_stats *stats) {
    for (SpecializedCall *p = atomic_load(&fn->specialized); p; p = *specialized_next(p)) specialized_count(p, stats);
}

/* Learning ------------------------------------------------------------------------------------ */

/* The variant that the trace ran as, or that was just compiled for it. */
static Variant *variant_of(const Trace *trace) {
    Variant *v = trace->variant;
    for (v = v ? v : atomic_load(&trace->end->variants); v; v = v->next)
        if (variant_code(v) && variant_fits(v, trace, NULL)) break;
    return v;
}

/* Is a view of an input mutated (t_)? The input's version goes up at the call of the op, which a replay would not
 * do. */
static bool mutates_an_input(const Trace *trace) {
    for (int i = 0; trace->mutates_metadata && i < trace->ops.n; i++) {
        const TraceOp *const op = trace->ops.at[i].op;
        if (op->mutates_metadata && operand_is_input(trace_root(trace, op->first_value))) return true;
    }
    return false;
}

/* A tensor that nobody holds but this call's records was made by the body, from host memory: a replay would find it as
 * the last one left it. */
static bool is_made_inside(const Symbols *s, sn_tensor *t) {
    int32_t own = 1;
    for (int i = 0; i < s->asked.n; i++) own += s->asked.at[i].tensor == t;
    return atomic_load_explicit(&t->refs, memory_order_acquire) == own;
}

static bool is_written(const Trace *trace, int input) {
    for (int i = 0; i < trace->ops.n; i++) {
        const TraceOp *const op = trace->ops.at[i].op;
        const int first = op->form == FORM_out ? op->n_operands - op->row->n_out : 0;
        const int n = op->form == FORM_out ? op->row->n_out : op->form == FORM_inplace;
        for (int k = first; k < first + n; k++) {
            const Operand root =
                op->operands[k] == OPERAND_ABSENT ? OPERAND_ABSENT : trace_root(trace, op->operands[k]);
            if (root != OPERAND_ABSENT && operand_is_input(root) && operand_input(root) == input) return true;
        }
    }
    return false;
}

static bool writes_what_it_made(const Capture *c, const Trace *trace) {
    for (int i = 0; trace->writes && i < trace->inputs.n; i++)
        if (is_made_inside(c->symbols, trace->inputs.at[i].tensor) && is_written(trace, i)) return true;
    return false;
}

static Reason replay_refusal(const Capture *c, const Trace *trace, const Variant *v, int n_out) {
    for (int i = 0; i < c->traces.n; i++)
        if (c->traces.at[i] != trace && c->traces.at[i]->ops.n) return BREAK_REASON(breaks);
    if (c->outside) return c->outside;
    if (!v) return NULL; /* not yet: the next call may do */
    if (trace->from_storage) return trace->from_storage;
    if (trace->gradients) return BREAK_REASON(sets_grad);
    if (mutates_an_input(trace)) return BREAK_REASON(relays_input);
    if (writes_what_it_made(c, trace)) return BREAK_REASON(writes_made);
    for (int i = 0; i < v->n_graph_inputs; i++)
        if (v->graph_inputs[i].base) return BREAK_REASON(shared_writes);
    return NULL;
}

static SpecializedCall *make_specialized(Capture *c, const Trace *trace, Variant *v, const ReplayCall *call,
                                         sn_tensor *const *out, Reason *why) {
    Arena *const arena = arena_new();
    ReplayGuards *const guards = arena ? replay_guards_new(arena, c, trace, call->in, call->n_in, why) : NULL;
    SpecializedCall *const p = guards ? specialized_new(arena, c, trace, v, guards, out, call->n_out, why) : NULL;
    if (p) return p;
    if (guards) replay_guards_free(guards);
    arena_free(arena);
    return NULL;
}

static void publish_specialized(sn_function *fn, SpecializedCall *p) {
    *specialized_next(p) = atomic_load_explicit(&fn->specialized, memory_order_relaxed);
    atomic_store_explicit(&fn->specialized, p, memory_order_release);
}

/* A specialized call that is known already may run the call now: its segment has a new variant, or the call has shown
 * that a slot is meant. Then the call is a cache entry of that one. */
static Reason learn_specialized(ReplayCall *call, Capture *c, const Trace *trace, Variant *v, sn_tensor *const *out) {
    sn_function *const fn = call->fn;
    Reason why = NULL;
    MATCH(match);
    if (call->forward && find_match(call, &match)) return NULL;
    SpecializedCall *const made = make_specialized(c, trace, v, call, out, &why);
    if (!made) return why;
    for (SpecializedCall *p = atomic_load(&fn->specialized); p; p = *specialized_next(p)) specialized_widen(made, p);
    if (!find_match(call, &match)) {
        specialized_adopt_symbols(made, c);
        publish_specialized(fn, made);
        fn->n_replay++;
        return NULL;
    }
    if (match.launch == &match.bound && specialized_cache(&match)) fn->n_replay++;
    specialized_free(made);
    return NULL;
}

static void record_unsaved(sn_function *fn, Reason why) {
    if (!fn->not_saved) fn->not_saved = arena_strdup(fn->arena, reason_text(why));
}

/* What refuses a replay refuses saving, too, but for gradients: a forward can be saved. */
static Reason learn(ReplayCall *call, Capture *c, const Trace *trace, sn_tensor *const *out) {
    sn_function *const fn = call->fn;
    Variant *const v = variant_of(trace);
    Reason why = replay_refusal(c, trace, v, call->n_out);
    if (!why && v && fn->n_replay < MAX_CASES) {
        call->forward = v->training != NULL;
        why = learn_specialized(call, c, trace, v, out);
        call->forward = false;
    }
    if (why) record_unsaved(fn, why);
    if (trace->prints.n) record_unsaved(fn, BREAK_REASON(prints));
    return why || !v || !v->training ? why : BREAK_REASON(gradients_flow);
}

/* Warns that the function has learnt as many calls as it may. */
static void report_full(const sn_function *fn, const Arg *in, int n_in) {
    Text why = {0};
    specialized_print_miss(atomic_load(&fn->specialized), in, n_in, &why);
    LOG(compile, WARNING, "%s: replay mode has learnt %d cases; further ones run in verify: %s", fn->name, MAX_CASES,
        text_str(&why));
    text_free(&why);
}

void replay_learn(sn_function *fn, Capture *c, const Arg *in, int n_in, sn_tensor *const *out, int n_out) {
    const Trace *trace = NULL;
    for (int i = 0; i < c->traces.n && !trace; i++)
        if (c->traces.at[i]->ops.n) trace = c->traces.at[i];
    ReplayCall call = {.fn = fn, .in = in, .n_in = n_in, .n_out = n_out, .arena = c->arena};
    MATCH(match);
    if (state_get()->api_modes) return; /* a call of its own kind: the others are as they were */
    pthread_mutex_lock(&fn->lock);
    const int learnt = fn->n_replay;
    const Reason why = trace        ? learn(&call, c, trace, out)
                       : c->outside ? c->outside
                       : learnt     ? NULL
                                    : BREAK_REASON(no_op);
    if (why && !trace) record_unsaved(fn, why);
    const bool full = !why && trace && learnt == MAX_CASES && !find_match(&call, &match);
    const bool say = (why || full) && !fn->mode_said;
    if (say) fn->mode_said = true;
    pthread_mutex_unlock(&fn->lock);
    if (say && full) report_full(fn, in, n_in);
    if (say && why) LOG(compile, WARNING, "%s: replay mode turned into verify: %s", fn->name, reason_text(why));
}

/* Saved plans -------------------------------------------------------------------------------- */

static Status refuse_call(ReplayCall *call) {
    Text why = {0}, one = {0};
    if (!call->arena && !(call->arena = function_arena_acquire(call->fn))) return ST_MEMORY;
    for (SpecializedCall *p = atomic_load(&call->fn->specialized); p; p = *specialized_next(p)) {
        text_free(&one);
        specialized_print_refusal(p, call, &one);
        if (!why.n || !strstr(text_str(&why), text_str(&one)))
            text_printf(&why, "%s%s", why.n ? "; " : "", text_str(&one));
    }
    text_free(&one);
    const Status status =
        error_raise(ST_ARGUMENT,
                    "plan %s: no case fits this call: %s. A plan has the cases that were compiled when it was saved: "
                    "call the function so before sn_plan_save (with SN_DYNAMIC_ALWAYS sizes are free from the start)",
                    call->fn->name, text_str(&why));
    text_free(&why);
    return status;
}

/* Keeps what was bound for this call, for the next call like it. */
static void keep_cache_entry(sn_function *fn, const SpecializedMatch *match) {
    pthread_mutex_lock(&fn->lock);
    if (fn->n_replay < MAX_CASES && specialized_cache(match)) fn->n_replay++;
    pthread_mutex_unlock(&fn->lock);
}

Status replay_run(sn_function *fn, const Arg *in, int n_in, sn_tensor **out, int n_out, ReplayResults results) {
    ReplayCall call = {.fn = fn, .in = in, .n_in = n_in, .n_out = n_out};
    MATCH(match);
    bool ran;
    Status status;
    if (find_match(&call, &match)) {
        if (match.launch == &match.bound) keep_cache_entry(fn, &match);
        match.sink = results.sink;
        status =
            results.describe ? describe_match(&match, results.describe, &ran) : specialized_launch(&match, out, &ran);
    } else {
        status = error_pending() ? error_pending() : refuse_call(&call);
    }
    if (call.arena) function_arena_release(fn, call.arena);
    return status;
}

void replay_free(sn_function *fn) {
    for (SpecializedCall *p = atomic_load(&fn->specialized), *next; p; p = next) {
        next = *specialized_next(p);
        specialized_free(p);
    }
}
