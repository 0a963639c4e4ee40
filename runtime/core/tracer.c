/* tracer.c: see tracer.h. */
#include "runtime/core/tracer.h"

#include <pthread.h>

#include "runtime/base/error.h"

static Status traced_op(OpCall *call) {
    Tracer *const t = state_get()->tracer;
    return t ? t->is->op(t, call) : redispatch_excluding(call, KEY_BIT(capture));
}

void tracer_start(void) { dispatch_fallback(KEY_capture, traced_op); }

bool tracer_follows_none(Tracer *self, sn_state *state, OpCall *call, Status *status) {
    (void)self, (void)state, (void)call, (void)status;
    return false;
}

void tracer_begin(sn_state *state, Tracer *tracer) {
    state->tracer = tracer;
    state->include |= KEY_BIT(capture);
}

void tracer_end(sn_state *state) {
    state->tracer = NULL;
    state->include &= ~KEY_BIT(capture);
}

void tracer_return_to(sn_state *state, Tracer *tracer) {
    if (state->paused == tracer) state->paused = tracer->paused;
    state->tracer = tracer;
}

Tracer *tracer_exactly(void) {
    const sn_state *const state = state_get();
    Tracer *const recording = tracer_recording(state);
    if (recording && !recording->is->left(recording, LEFT_perhaps)) return recording;
    while (state->paused && state->paused->is->left(state->paused, LEFT_perhaps)) {} /* each with its eager callee */
    return NULL;
}

void tracer_return(sn_state *state, const Context *outside) {
    Tracer *const held = state->held, *const outer = outside->tracer;
    if (held && held != outside->held) held->is->left(held, LEFT_holding);
    if (outer && !outer->is->symbolic) outer->is->left(outer, LEFT_running);
}

/* values -------------------------------------------------------------------------------------- */

static pthread_mutex_t touching = PTHREAD_MUTEX_INITIALIZER;

void tracer_foreign_begin(void) { pthread_mutex_lock(&touching); }
void tracer_foreign_end(void) { pthread_mutex_unlock(&touching); }

Status tracer_flush_foreign(sn_tensor *t) {
    if (state_get()->held)
        return error_raise(ST_STATE, "a tensor of another thread's call has no value yet, and this "
                                     "one is running a segment");
    TRY(error_pending());
    tracer_foreign_begin();
    const struct Placeholder *const p = t->placeholder;
    const Status status = p ? p->tracer->is->value(p->tracer, t, NULL) : ST_OK;
    tracer_foreign_end();
    return status;
}

Status tracer_make_foreign(sn_tensor *t) {
    const struct Placeholder *const p = t->placeholder;
    const sn_state *const state = state_get();
    if (tracer_refuses(state)) return ST_OK; /* nothing runs: an input of the body, pending or not */
    return p && p->tracer != state->tracer ? tracer_flush_foreign(t) : ST_OK;
}

Status tracer_make(sn_tensor *t, Reason why) {
    Tracer *const recording = tracer_recording(state_get());
    if (recording) return recording->is->value(recording, t, why);
    return t->placeholder ? tracer_flush_foreign(t) : ST_OK;
}

static int64_t asked(Tracer *tracer, TracerQuery query) {
    tracer->is->query(tracer, &query);
    return query.answer;
}

int64_t tracer_storage_offset(sn_tensor *t, const char *what) {
    TracerQuery query = {.asked = ASKED_storage_offset, .tensor = t, .what = what};
    if (tracer_ask(&query)) return query.answer;
    if (t->placeholder && tensor_ready(t, what) != ST_OK) return 0;
    while (tensor_is_batched(t)) t = t->inner;
    return t->offset;
}

bool tracer_is_inference(sn_tensor *t) {
    Tracer *const recording = tracer_recording(state_get());
    const struct Placeholder *const p = t->placeholder;
    if (p && p->tracer == recording) return asked(recording, (TracerQuery){.asked = ASKED_inference, .tensor = t}) != 0;
    return (!p || tracer_flush_foreign(t) == ST_OK) && t->flags & TF_inference;
}

int tracer_references(const sn_tensor *t) {
    const sn_state *const state = state_get();
    const TracerQuery query = {.asked = ASKED_references, .tensor = (sn_tensor *)(uintptr_t)t};
    Tracer *const recording = tracer_recording(state);
    int64_t n = recording ? asked(recording, query) : 0;
    for (Tracer *waits = state->paused; waits; waits = waits->paused) n += asked(waits, query);
    return (int)n;
}

/* numbers ------------------------------------------------------------------------------------- */

static SymEnv *symbols_of_call(void) {
    TracerQuery query = {.asked = ASKED_symbols};
    tracer_tell(&query);
    return query.symbols;
}

SymEnv *tracer_symbols(void) { return tracer_symbolic(state_get()) ? NULL : symbols_of_call(); }
bool tracer_knows(int64_t value) { return sym_belongs(sym_is(value) ? symbols_of_call() : NULL, value); }

/* Of a call that waits for code which runs at once, too: there its numbers are plain. */
static SymEnv *symbols_around(void) {
    TracerQuery query = {.asked = ASKED_symbols};
    if (tracer_of_call()) return symbols_of_call();
    for (Tracer *waits = state_get()->paused; waits && !query.symbols; waits = waits->paused)
        if (waits->learns) waits->is->query(waits, &query);
    return query.symbols;
}

bool tracer_has_value(int64_t value) { return sym_belongs(sym_is(value) ? symbols_around() : NULL, value); }

int64_t tracer_concrete(int64_t value) {
    SymEnv *const env = sym_is(value) ? symbols_around() : NULL;
    return env && sym_belongs(env, value) ? sym_concrete(env, value) : value;
}

int64_t tracer_number(const Arg *arg) {
    TracerQuery query = {.asked = ASKED_number, .arg = arg, .answer = arg->i};
    tracer_tell(&query);
    return query.answer;
}

int64_t tracer_int(const Arg *arg) { return tracer_concrete(tracer_number(arg)); }

int64_t tracer_unbacked(const UnbackedNumber *number, int64_t value) {
    TracerQuery query = {.asked = ASKED_unbacked, .unbacked = number, .answer = value};
    tracer_tell(&query);
    return query.answer;
}

const Meta *tracer_meta(sn_tensor *t) {
    TracerQuery query = {.asked = ASKED_meta, .tensor = t, .meta = t->base.meta};
    tracer_tell(&query);
    return query.meta;
}

Status tracer_leave_graph(const char *function) {
    TRY(error_pending());
    TRY(state_untraced(function));
    return tracer_effect((TracerEffect){.kind = EFFECT_mode, .what = reason_called(function)});
}

Status tracer_set_generator(uint64_t seed, uint64_t sequence, Reason outside, Reason breaks) {
    sn_state *const state = state_get();
    TRY(tracer_effect((TracerEffect){
        .kind = EFFECT_generator, .what = outside, .breaks = breaks, .seed = seed, .sequence = sequence}));
    state->seed = seed;
    state->sequence = sequence;
    return ST_OK;
}
