/* scope.c: scopes own results and texts, and restore modes [semantics O1, C13].
 *
 *   handles  | root's | scope 1's | scope 2's |    one stack; a frame remembers where its part begins
 *   mark     generation << 32 | state id << 20 | depth
 *
 * A tensor is held by one scope at most (scope_place), so leaving a scope early is O(1): its slot is
 * filled with the last handle when it is the innermost scope's, else left empty. */
#include <stdio.h>

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/core/autocast.h"
#include "runtime/core/breaks.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/dispatch.h"
#include "runtime/core/ends.h"
#include "runtime/core/frame.h"
#include "runtime/core/tracer.h"
#include "runtime/core/tensor.h"
#include "runtime/core/tracking.h"
#include "runtime/core/override.h"
#include "runtime/core/profile.h"

enum { DEPTH_BITS = 20, ID_BITS = 12 };

typedef struct TextOwned {
    struct TextOwned *next;
    char *text;
} TextOwned;

static uint32_t floor_of(const sn_state *state) {
    return state->n_scopes ? state->scopes[state->n_scopes - 1].first : 0;
}

static bool grow_scopes(sn_state *state) {
    const uint32_t capacity = state->scopes_capacity ? state->scopes_capacity * 2 : 16;
    Context *const outside = mem_resize(state->outside, capacity * sizeof *outside);
    if (outside) state->outside = outside;
    ScopeFrame *const scopes = outside ? mem_resize(state->scopes, capacity * sizeof *scopes) : NULL;
    if (!scopes) return false;
    state->scopes = scopes;
    state->scopes_capacity = capacity;
    return true;
}

/* What the end of a scope looks at: who watches is no mode. */
static inline void record_modes(Context *begun, const sn_state *state) {
#define MODE(type, name, at_end, replay) begun->name = state->name;
#include "runtime/core/context.def"
}

/* NULL: memory is out. */
static ALWAYS_INLINE ScopeFrame *push_frame(sn_state *state, bool owned) {
    static const ScopeFrame none;
    if (UNLIKELY(state->n_scopes == state->scopes_capacity) && !grow_scopes(state)) return NULL;
    ScopeFrame *const scope = &state->scopes[state->n_scopes];
    const ScopeFrame *const outer = state->n_scopes++ ? scope - 1 : &none;
    scope->nested = outer->nested;
    scope->of_library = outer->of_library;
    scope->first = state->handles.n;
    scope->generation = state->generation++;
    scope->owned = owned;
    scope->of_program = false;
    scope->callback = NULL;
    scope->running = NULL;
    record_modes(&scope->begun, state);
    scope->texts = state->texts;
    scope->forks = scope->ends = false; /* seed and sequence are of what forks */
    return scope;
}

Status scope_push(sn_state *state, bool owned) { return push_frame(state, owned) ? ST_OK : ST_MEMORY; }

static void release_handles(sn_state *state, uint32_t first) {
    while (state->handles.n > first) {
        sn_tensor *const t = state->handles.at[--state->handles.n];
        if (!t) continue;
        tensor_set_scope_place(t, 0);
        tensor_release(t);
    }
}

static void release_texts(sn_state *state, const TextOwned *until) {
    while (state->texts != until) {
        TextOwned *const owned = state->texts;
        state->texts = owned->next;
        mem_free(owned->text);
        mem_free(owned);
    }
}

/* modes, as context.def says -------------------------------------------------------------------- */

static void context_end_modes(sn_state *state, struct UserMode *until) { user_modes_pop_to(state, KEY_mode, until); }
static void context_end_api_modes(sn_state *state, struct UserMode *until) { user_modes_pop_to(state, KEY_api, until); }
static void context_end_saved_hooks(sn_state *state, struct SavedHooks *until) { saved_hooks_pop_to(state, until); }
/* What is pending in a captured body runs on the streams that it was recorded under. */
static COLD void context_end_streams(sn_state *state, struct StreamUse *until) { stream_list_set(state, until); }

#define END_value(name)
#define END_stack(name)                                                                                                \
    if (state->name != before->name) context_end_##name(state, before->name);
#define END_open END_stack

static COLD void end_stacks(sn_state *state, const Context *before) {
#define MODE(type, name, at_end, replay) END_##at_end(name)
#include "runtime/core/context.def"
}

#define DIFFERS_value(name) 0
#define DIFFERS_stack(name) ((uintptr_t)state->name ^ (uintptr_t)before->name)
#define DIFFERS_open(name)  0

static inline bool stacks_differ(const sn_state *state, const Context *before) {
#define MODE(type, name, at_end, replay) DIFFERS_##at_end(name) |
    return
#include "runtime/core/context.def"
        false;
}

#define PUT_BACK_value(name) state->name = before->name;
#define PUT_BACK_stack(name)
#define PUT_BACK_open(name)

static inline void put_values_back(sn_state *state, const Context *before) {
#define MODE(type, name, at_end, replay) PUT_BACK_##at_end(name)
#include "runtime/core/context.def"
}

void scope_enter_modes(sn_state *state, const Context *from) { put_values_back(state, from); }

void scope_region_record(sn_state *state) {
    const uint32_t range = profile_range_region(state);
    state->region = state->casts.region > range ? state->casts.region : range;
}

/* A program's code may run and open scopes: the frame's place is not its own any more. */
static COLD void leave_modes(sn_state *state, Context begun) {
    profile_ranges_end(state, state->n_scopes);
    if (state->n_scopes + 1 < state->casts.region) autocast_region_end(state);
    scope_region_record(state);
    end_stacks(state, &begun);
}

static inline void restore_modes(sn_state *state, const Context *begun) {
    put_values_back(state, begun);
    if (UNLIKELY(stacks_differ(state, begun) || state->n_scopes + 1 < state->region)) leave_modes(state, *begun);
}

#define END_OPEN_value(name)
#define END_OPEN_stack(name)
#define END_OPEN_open(name)                                                                                            \
    if (UNLIKELY(state->name != state->scopes[state->n_scopes - 1].begun.name))                                        \
        context_end_##name(state, state->scopes[state->n_scopes - 1].begun.name);

static inline void end_what_waits(sn_state *state) {
#define MODE(type, name, at_end, replay) END_OPEN_##at_end(name)
#include "runtime/core/context.def"
}

/* It runs no more: the program's code is that outside of it. */
static void callback_end(sn_state *state, ScopeFrame *scope) {
    if (scope->running) atomic_fetch_sub(scope->running, 1);
    scope->running = NULL;
    scope->callback = NULL;
    state->program = state->outside[scope - state->scopes];
    state->callback = state->program.callback;
    state->cookie = state->program.cookie;
    state_settle(state);
}

void scope_keep_generator(sn_state *state) {
    ScopeFrame *const scope = &state->scopes[state->n_scopes - 1];
    scope->forks = true;
    scope->seed = state->seed;
    scope->sequence = state->sequence;
    tracer_effect((TracerEffect){.kind = EFFECT_fork});
}

/* Also where an error is pending. */
static COLD void restore_generator(sn_state *state) {
    state->scopes[state->n_scopes - 1].ends = true;
    const ScopeFrame scope = state->scopes[state->n_scopes - 1];
    tracer_set_generator(scope.seed, scope.sequence, BREAK_REASON(fork_in_body), BREAK_REASON(fork_ends));
    state->seed = scope.seed;
    state->sequence = scope.sequence;
}

/* Where what the innermost scope holds begins. */
typedef struct ScopeHeld {
    uint32_t first;
    const TextOwned *texts;
} ScopeHeld;

/* The innermost scope ends, but for what it holds. */
static inline ScopeHeld end_scope(sn_state *state) {
    if (UNLIKELY(state->scopes[state->n_scopes - 1].forks)) restore_generator(state);
    end_what_waits(state);
    ScopeFrame *const scope = &state->scopes[--state->n_scopes];
    const ScopeHeld held = {scope->first, scope->texts};
    if (UNLIKELY(scope->callback != NULL)) callback_end(state, scope);
    restore_modes(state, &scope->begun);
    return held;
}

void scope_pop(sn_state *state) {
    const ScopeHeld held = end_scope(state);
    release_handles(state, held.first);
    if (UNLIKELY(state->texts != held.texts)) release_texts(state, held.texts);
}

/* callbacks ----------------------------------------------------------------------------------- */

void in_progress_begin(sn_state *state, InProgress *what, void (*left)(InProgress *self)) {
    *what = (InProgress){state->in_progress, state->n_scopes, left};
    state->in_progress = what;
}

void in_progress_end(sn_state *state, InProgress *what) {
    InProgress **link = &state->in_progress;
    while (*link && *link != what) link = &(*link)->outer;
    if (*link) *link = what->outer;
}

/* All that began where at least so many scopes were open. */
static void end_in_progress(sn_state *state, uint32_t n_scopes) {
    while (state->in_progress && state->in_progress->n_scopes >= n_scopes) {
        InProgress *const what = state->in_progress;
        state->in_progress = what->outer;
        what->left(what);
    }
}

void context_note(sn_state *state) {
    state->noted_at = state->n_scopes;
    state->program = state->context;
}

/* A scope of the program's has ended: what it changed in there is as it was before. */
static inline void context_note_end(sn_state *state) {
    if (UNLIKELY(state->program.noted_at > state->n_scopes)) context_note(state);
}

void scope_callback_begin(sn_state *state, const void *cfa, volatile uint64_t *guard) {
    ScopeFrame *const scope = &state->scopes[state->n_scopes - 1];
    scope->callback = cfa;
    scope->of_library = false;
    state->outside[state->n_scopes - 1] = state->program;
    *guard = state->cookie = ++state->callbacks;
    state->callback = guard;
    state_settle(state);
    context_note(state);
}

/* The innermost scope that the program's code may not end: a callback's. */
static inline uint32_t callback_depth(const sn_state *state) {
    uint32_t depth = state->callback == CONTEXT_NO_CALLBACK ? 0 : state->n_scopes;
    while (depth && !state->scopes[depth - 1].callback) depth--;
    return depth;
}

/* The context of code that the library called back, and that has gone: what differs outside ends. */
static void context_return(sn_state *state, const Context *outside) {
    if (state->flows > outside->flows) state->seed = state->flow_seed, state->sequence = state->flow_sequence;
    end_stacks(state, outside);
    tracer_return(state, outside);
    state->breaker = NULL;
    state->context = state->program = *outside;
    state->inside.callback = state->inside.guard = NULL;
    state_settle(state);
    log_function_swap(outside->logged);
}

/* The scopes above `depth`, and those that the library opened on the way to them. */
static void leave_scopes(sn_state *state, uint32_t depth, Context outside) {
    uint32_t base = depth;
    while (base && !state->scopes[base - 1].of_program && !state->scopes[base - 1].callback) base--;
    end_in_progress(state, base);
    while (state->n_scopes > base) end_scope(state);
    context_return(state, &outside);
}

static void leave_callback(sn_state *state, uint32_t depth) { leave_scopes(state, depth, state->outside[depth]); }

COLD void scope_leave_place(sn_state *state) { leave_scopes(state, state->n_scopes, state->program); }

void scope_leave_inside(sn_state *state, uint32_t n) {
    for (uint32_t depth; (depth = callback_depth(state)) > n + 1;) leave_callback(state, depth - 1);
}

COLD void scope_leave_left(sn_state *state) {
    for (uint32_t depth; (depth = callback_depth(state));) {
        if (!callback_is_above(state) && !frame_callback_was_left(state->scopes[depth - 1].callback)) break;
        leave_callback(state, depth - 1);
    }
    tracer_exactly();
}

/* ends ---------------------------------------------------------------------------------------- */

void scope_pop_to(sn_state *state, uint32_t depth) {
    while (state->n_scopes > depth) scope_pop(state);
}

void scope_drop_root(sn_state *state) {
    end_in_progress(state, 0);
    scope_pop_to(state, 0);
    release_handles(state, 0);
    release_texts(state, NULL);
}

static bool grow_handles(sn_state *state) {
    const uint32_t capacity = state->handles.capacity ? state->handles.capacity * 2 : 256;
    sn_tensor **const handles = mem_resize(state->handles.at, capacity * sizeof *handles);
    if (!handles) return false;
    state->handles.at = handles;
    state->handles.capacity = capacity;
    return true;
}

static void warn_root(sn_state *state) {
    if (state->root_warned || state->handles.n < (uint64_t)state->settings[SET_root_scope_warning].number) return;
    state->root_warned = true;
    LOG(memory, WARNING, "%u results are held by the root scope; open a scope (sn_scope_begin) around repeated work",
        state->handles.n);
}

static bool push_handle(sn_state *state, sn_tensor *t) {
    if (UNLIKELY(state->handles.n == state->handles.capacity) && !grow_handles(state)) {
        tensor_release(t);
        return false;
    }
    scope_put(state, t);
    if (UNLIKELY(!state->n_scopes)) warn_root(state);
    return true;
}

bool scope_adopt(sn_state *state, sn_tensor *t) {
    if (UNLIKELY(state->n_scopes && state->scopes[state->n_scopes - 1].owned)) return true;
    return push_handle(state, t);
}

bool scope_disown(sn_state *state, sn_tensor *t) {
    const uint32_t slot = tensor_scope_slot(t); /* of none: beyond all */
    if (slot >= state->handles.n || state->handles.at[slot] != t) return false;
    tensor_set_scope_place(t, 0);
    if (slot >= floor_of(state)) {
        sn_tensor *const last = state->handles.at[--state->handles.n];
        if (last != t) {
            state->handles.at[slot] = last;
            if (last) tensor_set_scope_place(last, slot + 1);
        }
    } else {
        state->handles.at[slot] = NULL;
    }
    return true;
}

/* Handles that the dying scopes hold and that are results move down to where those began; the rest
 * is released. */
void scope_pop_passing(sn_state *state, uint32_t depth, sn_tensor *const *ts, int n) {
    const uint32_t first = state->scopes[depth].first;
    sn_tensor *small[16], **taken = n <= 16 ? small : mem_alloc((size_t)n * sizeof *taken);
    int n_taken = 0;
    for (int i = 0; i < n && taken; i++)
        if (ts[i] && tensor_in_scope(ts[i]) && tensor_scope_slot(ts[i]) >= first && scope_disown(state, ts[i]))
            taken[n_taken++] = ts[i];
    while (state->n_scopes > depth) scope_pop(state);
    for (int i = 0; i < n_taken; i++) scope_adopt(state, taken[i]);
    if (taken != small) mem_free(taken);
}

const char *state_text(sn_state *state, char *malloced) {
    if (!malloced) return "";
    TextOwned *const owned = mem_alloc(sizeof *owned);
    if (!owned) {
        mem_free(malloced);
        return "";
    }
    *owned = (TextOwned){.next = state->texts, .text = malloced};
    state->texts = owned;
    return malloced;
}

/* by marks ------------------------------------------------------------------------------------ */

/* Of the innermost scope. */
static inline sn_scope mark_of(const sn_state *state, const ScopeFrame *scope) {
    const uint64_t id = state->id & ((1u << ID_BITS) - 1);
    return (uint64_t)scope->generation << 32 | id << DEPTH_BITS | state->n_scopes;
}

static ALWAYS_INLINE sn_scope begin_scope(sn_state *state, bool owned, bool library) {
    if (state->n_scopes >= (1u << DEPTH_BITS) - 1) {
        error_raise(ST_STATE, "scopes are nested too deeply: %u are open", state->n_scopes);
        return SN_SCOPE_NONE;
    }
    ScopeFrame *const scope = push_frame(state, owned);
    if (UNLIKELY(!scope)) return SN_SCOPE_NONE;
    scope->of_library |= library;
    scope->of_program = !scope->of_library;
    return mark_of(state, scope);
}

sn_scope scope_begin(sn_state *state, bool owned) { return begin_scope(state, owned, false); }
sn_scope scope_begin_own(void) { return begin_scope(state_get(), false, true); }
sn_scope scope_begin_library(void) {
    const sn_scope mark = scope_begin_own();
    if (mark != SN_SCOPE_NONE) context_enter_scope(state_get(), CONTEXT_library);
    return mark;
}

/* 0 raises, but for a scope that could not begin: its error is pending, or was. */
static COLD uint32_t no_scope(sn_scope mark, const char *what, const char *why) {
    if (mark != SN_SCOPE_NONE) error_raise(ST_STATE, "%s: the scope %s", what, why);
    return 0;
}

/* 1-based depth of a mark's scope that is none of the program's innermost; or no_scope. */
static uint32_t depth_of_outer(sn_state *state, sn_scope mark, const char *what) {
    const uint32_t depth = (uint32_t)(mark & ((1u << DEPTH_BITS) - 1));
    const uint32_t id = (uint32_t)(mark >> DEPTH_BITS) & ((1u << ID_BITS) - 1);
    if (id != (state->id & ((1u << ID_BITS) - 1))) return no_scope(mark, what, "belongs to another thread or sn_state");
    if (!depth || depth > state->n_scopes || state->scopes[depth - 1].generation != (uint32_t)(mark >> 32))
        return no_scope(mark, what, "has ended already");
    if (LIKELY(depth > callback_depth(state))) return depth;
    scope_leave_left(state);
    if (depth <= state->n_scopes && depth > callback_depth(state)) return depth;
    error_raise(ST_STATE,
                depth > state->n_scopes ? "%s: the scope has ended already"
                                        : "%s: the scope was opened outside the running callback",
                what);
    return 0;
}

static inline uint32_t depth_of(sn_state *state, sn_scope mark, const char *what) {
    const ScopeFrame *const innermost = &state->scopes[state->n_scopes - 1];
    if (LIKELY(state->n_scopes && mark == mark_of(state, innermost) && !innermost->callback)) return state->n_scopes;
    return depth_of_outer(state, mark, what);
}

sn_status scope_end(sn_state *state, sn_scope mark) {
    if (UNLIKELY(mark == SN_SCOPE_ROOT) && callback_depth(state)) scope_leave_left(state);
    if (UNLIKELY(mark == SN_SCOPE_ROOT) && !callback_depth(state)) {
        scope_drop_root(state);
    } else {
        const uint32_t depth = depth_of(state, mark, "sn_scope_end");
        if (LIKELY(depth)) scope_pop_to(state, depth - 1);
    }
    context_note_end(state);
    return (sn_status)state->error.status;
}

sn_tensor *scope_return(sn_state *state, sn_scope mark, sn_tensor *t) {
    const uint32_t depth = depth_of(state, mark, "sn_scope_return");
    if (!depth) return mark == SN_SCOPE_NONE ? t : NULL;
    if (t && UNLIKELY(t->flags & TF_error) && tracking_error(t, "sn_scope_return") != ST_OK) t = NULL;
    const uint32_t first = state->scopes[depth - 1].first;
    const bool passes = t && !(tensor_in_scope(t) && tensor_scope_slot(t) < first);
    if (passes && !scope_disown(state, t)) tensor_retain(t);
    scope_pop_to(state, depth - 1);
    context_note_end(state);
    return !passes || scope_adopt(state, t) ? t : NULL;
}
