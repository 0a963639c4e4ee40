/* state.h: everything that belongs to a thread: error, scopes, modes, generator, capture; the
 * public sn_state.
 *
 * Reached through one initial-exec thread-local pointer. A thread's own state is made on first use;
 * sn_state_use puts another in its place (fibers, sessions). While a state is current, the thread's
 * error slot (base/error.h) is its `error`, so `state->error.status` is the pending error. */
#ifndef SINTER_RUNTIME_STATE_H
#define SINTER_RUNTIME_STATE_H
#include "runtime/base/error.h"
#include "runtime/core/context.h"
#include "runtime/core/hidden_copy.h"
#include "runtime/core/settings.h"

typedef struct ScopeFrame {
    uint32_t first;      /* index of its first handle in the scope stack */
    uint32_t generation; /* checked against the mark */
    bool owned;          /* sn_scope_begin_owned: results go to the caller */
    bool of_program;     /* sn_scope_begin and its like; else the library opened it for itself, or around a callback */
    bool of_library;     /* scope_begin_library, and what the library opens in there by public functions */
    uint16_t nested;     /* callbacks that run here, one in the other */
    /* opened around a callback, whose frame ends here: user code inside may not end it */
    const void *callback;
    const struct sn_frame *frame; /* the callback's */
    _Atomic int *running;         /* a count that this callback is part of until its scope ends; or NULL */
    Context begun;                /* what held when it began: its end puts the modes back */
    bool forks;                   /* it ends with the generator as it began, which was: */
    uint64_t seed, sequence;
    bool ends;               /* that is being done */
    struct TextOwned *texts; /* newest text when it began */
} ScopeFrame;

enum { BLOCK_header, BLOCK_small, BLOCK_medium, BLOCK_large, BLOCK_CLASSES }; /* tensor blocks, runtime/core/tensor.c */

typedef struct StateExtension StateExtension; /* runtime/core/ends.h */

/* Parts of a thread's state, each of the module that uses it. */

typedef struct CastCache {     /* runtime/core/autocast.h */
    uint32_t region;           /* 1 + the scopes that were open where the outermost region began; 0: there is none */
    struct CachedCast *cached; /* of its leaves */
    int n, capacity;
    int64_t made, shared; /* counted since the state was made */
} CastCache;

typedef struct BlocksKept {     /* tensor blocks for reuse, runtime/core/tensor.c */
    void *first[BLOCK_CLASSES]; /* linked through their first word */
    int n[BLOCK_CLASSES];
} BlocksKept;

typedef struct HandlesHeld { /* results of all open scopes, in order: runtime/core/scope.c */
    sn_tensor **at;
    uint32_t n, capacity;
} HandlesHeld;

typedef struct TapeState {     /* runtime/autograd */
    uint64_t sequence;         /* next sequence number of a node [semantics G1] */
    uint32_t n_backwards;      /* into leaves, that run: one, and those that its callbacks run */
    uint32_t failed_backwards; /* how many have failed so far, those of callbacks apart */
    struct TapeBlocks *blocks; /* free ones, runtime/autograd/tape.c; NULL: none yet */
    struct TapeNode *dead;     /* nodes that wait to be freed */
    struct TapeSites *sites;   /* of the calls that anomaly mode saw recorded; NULL: none yet */
} TapeState;

typedef struct ProfileState { /* runtime/core/profile.h */
    struct ProfileLog *log;   /* of its newest profile; NULL: none yet */
    struct OpenRange *ranges; /* innermost first */
} ProfileState;

typedef struct ErrorTaken { /* what sn_error_take handed out last, with its texts */
    sn_error error;
    ErrorSlot slot;
} ErrorTaken;

typedef struct LastCall { /* the newest sn_call, for sn_last_call */
    int path;             /* its sn_path */
    const char *reason;   /* lives as long as the function called */
} LastCall;

/* A public function that keeps its site while it runs. */
typedef struct RunsInside {
    const volatile uint64_t *callback; /* in which one; NULL: none does */
    const volatile uint64_t *guard;    /* a number in its frame, and what it is while that stands */
    uint64_t cookie;
} RunsInside;

struct sn_state {
    ErrorSlot error;
    union { /* what holds now */
        Context context;
        struct {
#define FIELD(type, name) type name;
#include "runtime/core/context.def"
        };
    };
    Context program; /* what the program's code has: the same, but for what the library changes while it runs */
    InProgress *in_progress;
    uint64_t callbacks; /* as they were begun: the numbers in their frames */
    uint32_t region;    /* the larger of casts.region and that of the newest range of a profile */
    CastCache casts;
    HandlesHeld handles;
    ScopeFrame *scopes;
    Context *outside; /* by scope, of a callback's: that of the code that called the library, which called back */
    uint32_t n_scopes, scopes_capacity, generation;
    uint32_t id; /* part of every mark: a mark of another state is noticed */
    bool root_warned;
    BlocksKept blocks;
    uint64_t seed, sequence;           /* the default generator: Philox(seed, sequence, element) */
    uint64_t flow_seed, flow_sequence; /* the generator where the outermost control flow of what runs now began */
    /* return address of the user's current op call: for graph breaks and errors */
    const void *site;
    RunsInside inside;
    /* calls from above this frame have something to look at: the innermost callback's, which they may have left, or 0
     * where a function that keeps its site runs in that one (state_settle) */
    const volatile uint64_t *settled;
    /* what a graph break that comes now is put down to, before its reason; taken by who notes it. NULL: the reason
     * says it */
    const char *breaker;
    LastCall last_call;
    StateExtension *parts;    /* of other modules, which end with the state: two of the next, say */
    struct EagerCache *eager; /* one-op programs by signature */
    struct LentMetas *lent;   /* layouts interned lately, runtime/core/meta_intern.c */
    uint32_t level_ids;       /* as they were begun */
    struct TextOwned *texts;  /* scope-owned strings, newest first */
    TapeState tape;
    HiddenCopies hidden; /* copies that ops made by themselves */
    Setting settings[SET_COUNT];
    ErrorTaken taken;
    ProfileState profile;
};

extern HOT_THREAD_LOCAL sn_state *state_current;
sn_state *state_make(void); /* the slow path of state_get */
/* The thread's state, made on first use. When memory is out: raises, and returns a process-wide
 * emergency state in which nothing can be made. */
static inline sn_state *state_get(void) { return LIKELY(state_current) ? state_current : state_make(); }

/* The user's call, for who notes what asks for memory; NULL: the setting memory_sites is off. */
const void *state_memory_site(void);

/* sn_state_new and its like, wherever they are called. NULL: memory is out. */
sn_state *state_new(void);
sn_state *state_use(sn_state *state);
void state_free(sn_state *state); /* NULL allowed */
/* Hands a string to the innermost scope; NULL gives "". */
const char *state_text(sn_state *state, char *malloced);
/* The mode, and the keys that inference leaves out. */
static inline void state_grad_mode_set(sn_state *state, sn_grad_mode mode) {
    state->grad_mode = mode;
    if (mode == SN_INFERENCE)
        state->exclude |= KEYS_OF_GRADIENTS;
    else
        state->exclude &= ~KEYS_OF_GRADIENTS;
}

/* What begins has its keys also where a callback's context leaves them out. */
static inline void context_keys_begin(sn_state *state, uint64_t keys) { state->exclude &= ~keys; }
/* A key that no mode's value says is on. */
static inline void context_key_set(sn_state *state, uint64_t key, bool on) {
    state->include = on ? state->include | key : state->include & ~key;
    if (on) context_keys_begin(state, key);
}
static inline bool context_key_is_on(const sn_state *state, uint64_t key) {
    return state->include & ~state->exclude & key;
}

/* Raises inside of sn_vmap, sn_func_grad...: for functions whose bodies do not run on handles of levels. */
Status state_outside_vmap(const char *what);
/* Raises where a body is being captured: for functions of capture class `refused` [semantics C3]. */
Status state_outside_body(const char *what);
/* Raises in any callback: what ends the thread's scopes or its state would end those of the library's own, too. */
Status state_outside_callback(const char *what);
Status state_no_callback(const sn_state *state, const char *what);
/* Raises where a body of control flow is traced: what a graph cannot say, for which the body itself then runs. */
Status state_traced(const char *what); /* something watches: a body, or what state_untraced lets pass */
static inline Status state_untraced(const char *what) {
    return LIKELY(!state_get()->tracer) ? ST_OK : state_traced(what);
}

/* scopes -------------------------------------------------------------------------------------- */

/* Internal scopes: cheap, and temporaries inside are released at the end, also inside an owned
 * scope. */
Status scope_push(sn_state *state, bool owned);
/* For a function of the library that is made of public ones, instead of sn_scope_begin: a callback that does not return
 * ends it and the scopes in it, too. sn_scope_end and sn_scope_return end it. */
sn_scope scope_begin_own(void);
sn_scope scope_begin_library(void);         /* in the context CONTEXT_library */
void scope_pop(sn_state *state);            /* the innermost; restores modes, releases its handles and texts */
void scope_region_record(sn_state *state);  /* after a change of what state->region is of */
void scope_keep_generator(sn_state *state); /* the innermost one's end puts back what the generator is now */
/* Those of the program, by marks: sn_scope_begin and its like. */
sn_scope scope_begin(sn_state *state, bool owned);
sn_status scope_end(sn_state *state, sn_scope mark);
sn_tensor *scope_return(sn_state *state, sn_scope mark, sn_tensor *t);
/* So that `depth` are open; the root's results stay. */
void scope_pop_to(sn_state *state, uint32_t depth);
void scope_drop_root(sn_state *state); /* every scope, and what the root one holds */
/* Gives a fresh reference to the innermost scope; an owned one leaves it to the caller. False: out
 * of memory, and the reference was released. */
bool scope_adopt(sn_state *state, sn_tensor *t);
/* The innermost scope is that of a callback, whose runner's frame ends at cfa and begins with *guard. */
void scope_callback_begin(sn_state *state, const void *cfa, volatile uint64_t *guard);
/* The program's next call from outside of callbacks that a jump or an exception has left: their scopes and the
 * library's own below them end, what these hold passes to the program's scope, and the context is what it was there. */
void scope_leave_left(sn_state *state);
/* The same of a public function that keeps its place, out of which a callback without a frame has jumped. */
void scope_leave_place(sn_state *state);
/* The same of callbacks in the one whose scope is the n-th, which an exception is about to leave. */
void scope_leave_inside(sn_state *state, uint32_t n);
/* A sign of that, for every call: it comes from above the callback's frame. A deep call may not show it, but one that
 * finds the frame overwritten does (callback_was_left). */
static ALWAYS_INLINE bool frame_is_above(const void *cfa, const volatile uint64_t *guard) {
    return (const char *)cfa > (const char *)(uintptr_t)guard;
}
static inline bool callback_is_above(const sn_state *state) {
    return UNLIKELY(frame_is_above(__builtin_dwarf_cfa(), state->callback));
}
/* `callback` or `inside` has changed. */
static inline void state_settle(sn_state *state) {
    state->settled = state->inside.callback == state->callback ? NULL : state->callback;
}
__attribute__((no_sanitize_address)) static inline bool callback_was_left(const sn_state *state) {
    return callback_is_above(state) || (state->callback != CONTEXT_NO_CALLBACK && *state->callback != state->cookie);
}
/* Where the program calls the library. */
static inline void context_arrive(sn_state *state) {
    if (callback_is_above(state)) scope_leave_left(state);
}
/* Ends all scopes above `depth` of them; those of ts (NULL allowed) that they hold pass to the
 * scope that is then the innermost. */
void scope_pop_passing(sn_state *state, uint32_t depth, sn_tensor *const *ts, int n);
/* Takes t out of whichever scope of this state holds it; true: the caller now has that reference. */
bool scope_disown(sn_state *state, sn_tensor *t);

#endif
