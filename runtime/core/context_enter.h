/* context_enter.h: code of the library's enters and leaves a context by the reason that it runs for
 * (context_reasons.def).
 *
 *   const ContextSaved saved = context_enter(state, CONTEXT_parts);
 *   ...
 *   context_leave(&saved);                     or as the variable's cleanup
 *
 * or, in a scope that it has opened, context_enter_scope(state, CONTEXT_parts) alone: its end puts modes back, but not
 * who watches, so that a reason that changes the tracer is entered by context_enter. A reason is a constant: what is
 * left of this are the few stores that its row needs. */
#ifndef SINTER_RUNTIME_CONTEXT_ENTER_H
#define SINTER_RUNTIME_CONTEXT_ENTER_H
#include "runtime/core/tracer.h"

enum {
    CHANGES_tracer = OFF_tracer | PAUSE_tracer,
    CHANGES_mode = OFF_gradients | OFF_recording | OFF_inference | ON_gradients
};

static inline void context_keys_back(uint64_t *set, uint64_t before, uint64_t keys) {
    *set = (*set & ~keys) | (before & keys);
}

static ALWAYS_INLINE void context_change_mode(sn_state *state, int changes) {
    const sn_grad_mode mode = state->grad_mode;
    if (changes & ON_gradients)
        state_grad_mode_set(state, SN_GRAD_ON);
    else if (changes & OFF_gradients || (changes & OFF_recording && mode == SN_GRAD_ON) ||
             (changes & OFF_inference && UNLIKELY(mode == SN_INFERENCE)))
        state_grad_mode_set(state, SN_GRAD_OFF);
}

/* A symbolic one stays: its handles have no values for ops that would run. */
static inline void context_stop_tracer(sn_state *state, int changes) {
    Tracer *const recording = tracer_recording(state);
    state->include &= ~KEY_BIT(capture);
    if (LIKELY(!recording)) return;
    state->tracer = NULL;
    if (changes & OFF_tracer) return;
    recording->paused = state->paused;
    state->paused = recording;
}

static inline void context_start_tracer(sn_state *state, const Context *before, int changes) {
    state->tracer = before->tracer;
    context_keys_back(&state->include, before->include, KEY_BIT(capture));
    if (changes & PAUSE_tracer) state->paused = before->paused;
}

static ALWAYS_INLINE void context_change(sn_state *state, ContextReason reason) {
    const ContextRow row = context_rows[reason];
    if (row.changes & CHANGES_tracer) context_stop_tracer(state, row.changes);
    if (row.changes & CHANGES_mode) context_change_mode(state, row.changes);
    if (row.changes & OFF_saved_hooks) state->saved_hooks = NULL;
    if (row.changes & OFF_levels) {
        state->level = NULL;
        state->include &= ~KEY_BIT(vmap);
    }
    if (row.changes & OFF_autocast && UNLIKELY(state->autocast)) {
        state->autocast = 0;
        state->include &= ~KEY_BIT(autocast);
        state->exclude &= ~KEY_BIT(autocast);
    }
    state->exclude |= row.keys;
}

/* Until the end of the innermost scope. */
static ALWAYS_INLINE void context_enter_scope(sn_state *state, ContextReason reason) { context_change(state, reason); }

static ALWAYS_INLINE ContextSaved context_enter(sn_state *state, ContextReason reason) {
    /* the compiler drops what the reason's row does not ask for */
    const ContextSaved saved = {.state = state, .reason = reason, .context = state->context};
    context_change(state, reason);
    return saved;
}

static ALWAYS_INLINE void context_leave(const ContextSaved *saved) {
    sn_state *const state = saved->state;
    const Context *const before = &saved->context;
    const ContextRow row = context_rows[saved->reason];
    if (row.changes & CHANGES_mode) {
        state->grad_mode = before->grad_mode;
        context_keys_back(&state->exclude, before->exclude, KEYS_OF_GRADIENTS);
    }
    if (row.changes & OFF_saved_hooks) state->saved_hooks = before->saved_hooks;
    if (row.changes & OFF_levels) {
        state->level = before->level;
        context_keys_back(&state->include, before->include, KEY_BIT(vmap));
    }
    if (row.changes & OFF_autocast && UNLIKELY(before->autocast)) {
        state->autocast = before->autocast;
        context_keys_back(&state->include, before->include, KEY_BIT(autocast));
        context_keys_back(&state->exclude, before->exclude, KEY_BIT(autocast));
    }
    if (row.changes & CHANGES_tracer) context_start_tracer(state, before, row.changes);
    context_keys_back(&state->exclude, before->exclude, row.keys);
}

#endif
