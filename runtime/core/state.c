/* state.c: thread states: made on first use, found through one thread-local pointer, freed when
 * their thread ends.
 *
 * A thread's own state hangs on a pthread key, whose destructor frees it; `state_current` is the
 * one in use, the own one or what sn_state_use put in its place. */
#include "runtime/core/state.h"

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/base/alloc.h"
#include "runtime/core/autocast.h"
#include "runtime/core/dispatch.h"
#include "runtime/core/tracer.h"
#include "runtime/core/ends.h"
#include "runtime/core/hooks.h"
#include "runtime/core/profile.h"
#include "runtime/core/tensor.h"

HOT_THREAD_LOCAL sn_state *state_current;

static pthread_key_t own_key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static _Atomic uint32_t next_id = 1;
static sn_state emergency = {
    .callback = CONTEXT_NO_CALLBACK,
    .settled = CONTEXT_NO_CALLBACK,
    .program.callback = CONTEXT_NO_CALLBACK}; /* handed out when a state cannot be made; an error is pending then, so
                              nothing runs in it */

/* At the thread's end; it may not ask for the current state, which would make another one. */
static void free_own(void *state) { state_free(state); }

static void make_key(void) { pthread_key_create(&own_key, free_own); }

sn_state *state_new(void) {
    runtime_hooks.runtime_start();
    sn_state *const state = mem_zero(sizeof *state);
    if (!state) return NULL;
    state->id = atomic_fetch_add(&next_id, 1);
    state->generation = 1;
    state->callback = CONTEXT_NO_CALLBACK;
    state_settle(state);
    context_note(state);
    settings_init(state);
    return state;
}

static sn_state *own_state(void) {
    pthread_once(&key_once, make_key);
    sn_state *state = pthread_getspecific(own_key);
    if (!state && (state = state_new())) pthread_setspecific(own_key, state);
    return state;
}

/* An error raised before the thread had a state moves into it. */
static void enter(sn_state *state) {
    state_current = state;
    error_slot_use(&state->error);
}

sn_state *state_make(void) {
    sn_state *const state = own_state();
    if (!state) return &emergency;
    const ErrorSlot early = *error_slot();
    enter(state);
    if (early.status != ST_OK && state->error.status == ST_OK) state->error = early;
    return state;
}

sn_state *state_use(sn_state *state) {
    sn_state *const before = state_get();
    sn_state *const next = state ? state : own_state();
    if (next) enter(next);
    return before;
}

Status state_outside_body(const char *what) {
    if (!tracer_exactly()) return ST_OK;
    return error_raise(ST_STATE, "%s: not inside a compiled function", what);
}

Status state_outside_vmap(const char *what) {
    if (LIKELY(!state_get()->level)) return ST_OK;
    return error_raise(ST_UNSUPPORTED,
                       "%s: not inside of sn_vmap, sn_func_grad and their like, whose tensors stand for others; "
                       "call these in its body",
                       what);
}

Status state_no_callback(const sn_state *state, const char *what) {
    if (state->callback == CONTEXT_NO_CALLBACK) return ST_OK;
    return error_raise(ST_STATE, "%s: not in a callback, which the library has called", what);
}

Status state_outside_callback(const char *what) {
    sn_state *const state = state_get();
    context_arrive(state);
    TRY(state_outside_body(what));
    return state_no_callback(state, what);
}

Status state_traced(const char *what) {
    if (LIKELY(!tracer_refuses(state_get()))) return ST_OK;
    return error_raise(ST_UNSUPPORTED, "%s", what);
}

static void free_lists(sn_state *state) {
    mem_free(state->casts.cached);
    mem_free(state->tape.sites);
    meta_lent_free(state);
    tensor_blocks_trim(state);
    hidden_copies_free(&state->hidden);
    mem_free(state->handles.at);
    mem_free(state->scopes);
    mem_free(state->outside);
    settings_free(state);
}

void state_free(sn_state *state) {
    if (!state || state == &emergency) return;
    sn_state *const before = state_current;
    enter(state); /* what dies below belongs to it */
    autocast_region_end(state);
    scope_drop_root(state);
    profile_state_free(state);
    stream_list_set(state, NULL);
    state_extensions_end(state);
    free_lists(state);
    const bool was_current = before == state || !before;
    state_current = was_current ? NULL : before;
    error_slot_use(was_current ? NULL : &before->error);
    pthread_once(&key_once, make_key);
    if (pthread_getspecific(own_key) == state) pthread_setspecific(own_key, NULL);
    mem_free(state);
}

const void *state_memory_site(void) { return setting_number(SET_memory_sites) ? state_get()->site : NULL; }
