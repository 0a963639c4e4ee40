/* tracer.h: what watches the calls of a thread, in core's terms. The innermost one is the thread's `tracer`
 * (context.def); its class has the functions that the library calls.
 *
 *   class              made by                          an op becomes                    its results
 *   capture_class      capture/record, for sn_call      a step of a segment, run later   placeholders of the tracer
 *   body_class         capture/flow, for control flow   a node of the body's graph       handles without values
 *   derivative_class   autograd, for a user's rule      a node of a joint graph          handles without values
 *
 * The last two are symbolic: nothing that they watch runs. Calls meet their tracer at the key capture. */
#ifndef SINTER_RUNTIME_TRACER_H
#define SINTER_RUNTIME_TRACER_H
#include "runtime/core/dispatch.h"

struct TapeRun;    /* runtime/autograd/tape.h */
struct RegionCall; /* runtime/autograd/region.h */

/* What the program is about to do beside its ops, or has done, while ops may be pending. */
typedef enum EffectKind {
    EFFECT_outside,   /* what no graph says; it has its place among the ops */
    EFFECT_event,     /* the same, which only ops behind it may see, and which stays: the pending ones run first */
    EFFECT_order,     /* what comes has its place behind all pending ops */
    EFFECT_write,     /* host code writes memory that any tensor may depend on */
    EFFECT_mode,      /* the same, and what follows runs as it is */
    EFFECT_break,     /* the program ends the segment; what: any text, which is copied, breaks where memory is out */
    EFFECT_print,     /* `tensor` is printed as it is now, with `label` (or NULL), when the pending ops have run */
    EFFECT_generator, /* it is set to seed and sequence; breaks: why the segment ends, where it does */
    EFFECT_generator_read, /* host code is about to see it */
    EFFECT_fork,           /* the end of the innermost scope will put the generator back */
    EFFECT_made,           /* `tensor` was made, by no op that is watched */
    EFFECT_once,           /* `what` does something that a region's second run would do again: an error in one */
    /* undone where an op before it fails: */
    EFFECT_grad,      /* the .grad of leaf `tensor` is about to change */
    EFFECT_hook,      /* `tensor` has the new hook `id` */
    EFFECT_words,     /* EFFECT_WORDS `words` that an object of the library keeps are about to change */
    EFFECT_words_gone /* the object is about to be freed */
} EffectKind;
enum { EFFECT_WORDS = 4 };
typedef struct TracerEffect {
    EffectKind kind;
    Reason what, breaks; /* for reports; they stay */
    const char *label;
    sn_tensor *tensor;
    int64_t id;
    uint64_t *words;
    uint64_t seed, sequence;
} TracerEffect;

struct Asked;     /* runtime/autograd/query.h */
struct UserGuard; /* runtime/core/user_guard.h */

/* What is asked of what may be pending, or stand for an expression; of a symbolic tracer: of the one around it. */
typedef enum TracerAsked {
    ASKED_inference,      /* would `tensor` be one of inference mode? */
    ASKED_requires_grad,  /* would `tensor` require gradients? */
    ASKED_references,     /* how many to `tensor` it has itself */
    ASKED_storage_offset, /* where `tensor` begins in its storage, which is guarded; made where that cannot be told */
    ASKED_symbols,        /* the `symbols` that its numbers may be expressions of */
    ASKED_number,         /* what the int `arg` stands for: an expression, or itself */
    ASKED_meta,           /* the `meta` of `tensor`, in expressions */
    ASKED_unbacked,       /* the symbol of the number `answer`, which values alone give: `unbacked` of a graph */
    ASKED_guard,          /* the function's own that is like `guard`, made where it is new, as user_guard_of says */
    /* not asked, but told: what host code was given, so that it is guarded */
    ASKED_shown,       /* the answer `shown` */
    ASKED_shown_float, /* the value of `arg` */
    ASKED_given        /* `arg` itself, which the body may pass on */
} TracerAsked;
/* A number of a graph that only values give: it is the graph's free symbol of this number, and never less than that. */
typedef struct UnbackedNumber {
    const struct Graph *graph;
    int symbol;
    int64_t least;
} UnbackedNumber;
/* Who asks puts in the answer that holds where nobody knows better. */
typedef struct TracerQuery {
    TracerAsked asked;
    sn_tensor *tensor;
    const Arg *arg;
    const struct Asked *shown;
    const struct UserGuard *guard;
    const struct UnbackedNumber *unbacked;
    const char *what; /* for errors */
    int64_t answer;
    SymEnv *symbols;
    const Meta *meta;
} TracerQuery;

/* How it was left by a jump or an exception. */
typedef enum TracerLeft {
    LEFT_perhaps, /* the stack says whether: then it ends, and it is true */
    LEFT_holding, /* in a callback, with its lock, which it gives back */
    LEFT_running  /* in a callback that ran in the middle of its work, if one did: that work has failed */
} TracerLeft;

typedef struct TracerClass {
    /* Before a call's walk through its keys. True: it is the one that the tracer expects and is taken, with *status;
     * false: nothing has happened. */
    bool (*follow)(Tracer *self, sn_state *state, OpCall *call, Status *status);
    Status (*op)(Tracer *self, OpCall *call); /* a call that has come to the key */

    /* Those below a symbolic class does not have: it has no values, and what the program does beside its ops is none of
     * its own. */

    /* Takes a backward over, or not. */
    bool (*backward)(Tracer *self, const struct TapeRun *run, Status *status);
    /* The same of a region: its body runs, and its ops are recorded as the region's. */
    bool (*region)(Tracer *self, const struct RegionCall *call, Status *status);
    /* t is needed, which may be pending [semantics C2]: in code that it watches (why: static text), or (why NULL) under
     * the lock of those who ask for what another thread's or an outer tracer has. */
    Status (*value)(Tracer *self, sn_tensor *t, Reason why);
    Status (*effect)(Tracer *self, const TracerEffect *effect);
    void (*query)(Tracer *self, TracerQuery *query); /* fills in the answer */
    /* A callback of the program's runs in the middle of its work. True: it holds nothing until `resume`. */
    bool (*pause)(Tracer *self);
    void (*resume)(Tracer *self);
    bool (*left)(Tracer *self, TracerLeft how);

    bool symbolic; /* its tensors stand for values that are not there, and nothing runs */
    bool refuses;  /* what no graph can say is ST_UNSUPPORTED there, since the body may run instead */
} TracerClass;

/* Hangs on a tensor whose value its tracer has not given yet. */
struct Placeholder {
    Tracer *tracer;
    struct Trace *trace;  /* that gives it, */
    int value;            /* as its result of this number */
    const Meta *symbolic; /* in replay functions: sizes as expressions of the inputs'; NULL: plain */
};

struct Tracer {
    const TracerClass *is;
    Tracer *paused; /* of one that waits: the one that waited before it */
    Tracer *around; /* of a symbolic one: that of the call which it is a part of, whose symbolic ints it may be given */
    bool learns;    /* what host code is shown is guarded, and numbers may be expressions; else nobody need tell it */
    bool took;      /* its body took an error (sn_error_take), and goes on as it would not with values */
};

/* What records calls that will run, or NULL. */
static inline Tracer *tracer_recording(const sn_state *state) {
    Tracer *const t = state->tracer;
    return t && !t->is->symbolic ? t : NULL;
}
static inline Tracer *tracer_symbolic(const sn_state *state) {
    Tracer *const t = state->tracer;
    return UNLIKELY(t != NULL) && t->is->symbolic ? t : NULL;
}
/* A body is watched whose handles are all that there is. */
static inline bool tracer_refuses(const sn_state *state) {
    return UNLIKELY(state->tracer != NULL) && state->tracer->is->refuses;
}
static inline bool tracer_follow(sn_state *state, OpCall *call, Status *status) {
    Tracer *const t = state->tracer;
    return t && t->is->follow(t, state, call, status);
}
bool tracer_follows_none(Tracer *self, sn_state *state, OpCall *call, Status *status); /* of classes that expect none */

/* The thread's ops are recorded by `tracer` from here on: until tracer_end or, where it began in a context that has no
 * other one (context_enter.h), until that is left. */
void tracer_begin(sn_state *state, Tracer *tracer);
void tracer_end(sn_state *state);
/* One whose call was left is the innermost again, so that it can end: it may have been waiting. */
void tracer_return_to(sn_state *state, Tracer *tracer);

/* What records calls, unless its body was left, which is noticed here; else NULL. A microsecond. */
Tracer *tracer_exactly(void);
/* A callback was left, and `outside` is the context of the code that goes on. */
void tracer_return(sn_state *state, const Context *outside);
/* Around a callback: what tracer_callback_end takes. */
static inline Tracer *tracer_callback_begin(const sn_state *state) {
    Tracer *const held = state->held;
    return UNLIKELY(held != NULL) && held->is->pause(held) ? held : NULL;
}
static inline void tracer_callback_end(Tracer *paused) {
    if (UNLIKELY(paused != NULL)) paused->is->resume(paused);
}

/* The value of t, which may be pending, and all that a pending write may change of it. */
Status tracer_make(sn_tensor *t, Reason why);
/* The same if it is one that the thread's tracer does not give: keys and history come with it. */
Status tracer_make_foreign(sn_tensor *t);
/* What does, under a lock that all who do so share, and for which the end of a tracer with placeholders waits. */
Status tracer_flush_foreign(sn_tensor *t);
void tracer_foreign_begin(void);
void tracer_foreign_end(void);
/* Whom the code that runs now may be a part of: a call, or (NULL) none. */
static inline Tracer *tracer_of_call(void) {
    Tracer *const t = state_get()->tracer;
    return UNLIKELY(t != NULL) && t->is->symbolic ? t->around : t;
}
/* Asks it. False: there is none. */
static inline bool tracer_ask(TracerQuery *query) {
    Tracer *const call = tracer_of_call();
    if (UNLIKELY(call != NULL)) call->is->query(call, query);
    return call != NULL;
}
/* It, if it learns from what host code is shown. */
static inline Tracer *tracer_learning(void) {
    Tracer *const call = tracer_of_call();
    return UNLIKELY(call != NULL) && call->learns ? call : NULL;
}
/* Asks that one of numbers, or tells it what is shown. */
static inline void tracer_tell(TracerQuery *query) {
    Tracer *const learns = tracer_learning();
    if (learns) learns->is->query(learns, query);
}
bool tracer_is_inference(sn_tensor *t);                        /* pending or not */
int64_t tracer_storage_offset(sn_tensor *t, const char *what); /* 0 and the error where t cannot be made */
/* References to t that the calls which are being recorded on this thread hold for themselves. */
int tracer_references(const sn_tensor *t);

/* Numbers of a call may stand for expressions of its inputs (runtime/capture/record/symbols.h). */

/* That they may be of, where this thread records such a call itself; NULL: they are plain. */
SymEnv *tracer_symbols(void);
/* Is the number, which the program gave, plain, or an expression of the call? */
bool tracer_knows(int64_t value);
/* The same of a call that waits for code which runs at once, too. */
bool tracer_has_value(int64_t value);
int64_t tracer_concrete(int64_t value); /* the value, with a guard that it stays this one */
int64_t tracer_number(const Arg *arg);  /* what an int stands for */
int64_t tracer_int(const Arg *arg);     /* tracer_concrete of it */
const Meta *tracer_meta(sn_tensor *t);  /* sizes and strides as expressions */
/* What `value`, or the expression of a size, is from here on: a symbol where the call has such. */
int64_t tracer_unbacked(const UnbackedNumber *number, int64_t value);
/* Host code reads it, if it is one. */
static inline void tracer_show_float(const Arg *arg) {
    tracer_tell(&(TracerQuery){.asked = ASKED_shown_float, .arg = arg});
}
/* To the body, which may pass it on. */
static inline void tracer_give_number(const Arg *arg) { tracer_tell(&(TracerQuery){.asked = ASKED_given, .arg = arg}); }

static inline Status tracer_effect(TracerEffect effect) {
    Tracer *const t = tracer_recording(state_get());
    return UNLIKELY(t != NULL) ? t->is->effect(t, &effect) : ST_OK;
}
/* Host code is about to write memory that any tensor may depend on: what is pending runs first. */
static inline Status tracer_settle(Reason why) {
    return tracer_effect((TracerEffect){.kind = EFFECT_write, .what = why});
}
/* What the program does here belongs to it, and no graph says it: a captured call that does it is not replayed. */
static inline void tracer_outside(Reason what) { tracer_effect((TracerEffect){.kind = EFFECT_outside, .what = what}); }
/* The same of what only ops behind it may see: what is pending runs first. */
static inline Status tracer_event(Reason what) {
    return tracer_effect((TracerEffect){.kind = EFFECT_event, .what = what});
}
/* The program calls `function` (static text), which no graph has: what is pending runs first, and what follows runs as
 * it is. An error in a body of control flow or a derivative. */
Status tracer_leave_graph(const char *function);
/* The words change, or go: EFFECT_words, EFFECT_words_gone. */
static inline Status tracer_words(EffectKind kind, uint64_t *words) {
    return tracer_effect((TracerEffect){.kind = kind, .words = words});
}
/* Sets the state's generator; random ops that are pending keep their numbers. outside: what is said of a call that does
 * it; breaks: of the segment, where it ends for it. */
Status tracer_set_generator(uint64_t seed, uint64_t sequence, Reason outside, Reason breaks);

void tracer_start(void); /* registers the key's kernel */

#endif
