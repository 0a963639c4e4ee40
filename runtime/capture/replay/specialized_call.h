/* specialized_call.h: a captured call as a function of its inputs [semantics C6].
 *
 * A specialized call says how to do a call again for other inputs: the tensors that it stands on (replay_guards.h),
 * which sizes are free and where every number of the trace comes from (runtime/capture/record/symbols.h), what must
 * hold. Replaying one is what the body would do, without the body: the trace is put together from the inputs, any
 * variant whose guards hold is bound to it and launched.
 *
 * Its entries are an inline cache of that: the key of a call (call_signature.h) with the launch that was bound for it.
 * A call that has the key of an entry needs no guards and no trace. Where nothing is known to be free it has entries
 * only.
 *
 *     call   x: f32[s0,768], w closed over      any s0 >= 2: guards, trace, variant, bound launch
 *     entries     x: f32[8,768]    ->  bound launch
 *               x: f32[16,768]   ->  bound launch */
#ifndef SINTER_RUNTIME_SPECIALIZED_CALL_H
#define SINTER_RUNTIME_SPECIALIZED_CALL_H
#include "runtime/base/alloc.h"
#include "runtime/capture/replay/call_signature.h"

typedef struct SpecializedCall SpecializedCall;

typedef struct BoundLaunch {
    Variant *variant;
    const int *source;      /* by graph input: its slot */
    const int *result;      /* by call output: graph output, -1: absent, or of a slot; then by print */
    int64_t *symbols;       /* but for seed and sequence, which are those of the launch */
    double *floats;         /* runtime numbers */
    const int64_t *numbers; /* of the trace; NULL: no result is a view */
} BoundLaunch;

typedef struct ReplayCall {
    sn_function *fn;
    const Arg *in;
    int n_in, n_out;
    Arena *arena; /* where a launch is bound; NULL: taken from fn then, and the caller gives it back */
    bool forward; /* of a call whose results carry gradients: it is never replayed, but saved */
    /* Of a saved plan: those that were learnt in other grad modes than now; the others are asked first. */
    bool of_other_mode;
} ReplayCall;

enum { FEW_SLOTS = 64 };

typedef struct SpecializedMatch {
    SpecializedCall *specialized;
    struct ResultSink *sink;   /* memory for results (call_results.h), or NULL */
    const BoundLaunch *launch; /* of an entry, or `bound` */
    BoundLaunch bound;
    sn_tensor **at; /* by slot */
    CallSignature *key;
    int capacity; /* of both */
    void *block;  /* that they lie in where FEW_SLOTS are too few */
    sn_tensor *few_at[FEW_SLOTS];
    union {
        CallSignature few_key;
        char few_bytes[sizeof(CallSignature) + FEW_SLOTS * sizeof(SlotSignature)];
    };
} SpecializedMatch;

/* Large, and not cleared: MATCH(match); is one with room for FEW_SLOTS, which goes at the end of its scope. */
static inline void match_begin(SpecializedMatch *match) {
    match->launch = NULL;
    match->sink = NULL;
    match->at = match->few_at;
    match->key = &match->few_key;
    match->capacity = FEW_SLOTS;
    match->block = NULL;
}
static inline void match_end(SpecializedMatch *match) {
    if (UNLIKELY(match->block != NULL)) mem_free(match->block);
}
#define MATCH(name)                                                                                                    \
    __attribute__((cleanup(match_end))) SpecializedMatch name;                                                         \
    match_begin(&name)
bool specialized_match_grow(SpecializedMatch *match, int n_slots); /* false: memory is out, which is raised */
static inline bool match_has_room(SpecializedMatch *match, int n_slots) {
    return LIKELY(n_slots <= match->capacity) || specialized_match_grow(match, n_slots);
}

/* Of a call that was this one segment and ran as `variant`, with its guards; a cache entry for it included. Everything
 * lies in `arena`, which it owns from then on, as it does the guards. NULL: there is none; *why (static text), or
 * memory is out. */
SpecializedCall *specialized_new(Arena *arena, const Capture *capture, const Trace *trace, Variant *variant,
                                 ReplayGuards *guards, sn_tensor *const *out, int n_out, Reason *why);
/* What is free follows from the capture's symbols, which it takes over if they can serve. */
void specialized_adopt_symbols(SpecializedCall *specialized, Capture *capture);
void specialized_free(SpecializedCall *specialized);
bool specialized_prints(const SpecializedCall *specialized); /* sn_debug_print is in the body */

/* Does it run this call? Then how. */
bool specialized_match(SpecializedCall *specialized, ReplayCall *call, SpecializedMatch *match);
/* Launches what was matched: *ran tells, false: a check failed, and the body is to say of which op. */
Status specialized_launch(const SpecializedMatch *match, sn_tensor **out, bool *ran);
/* Keeps a launch that was bound for a call, for the next one with this key. Under the function's lock; false: memory is
 * out. */
bool specialized_cache(const SpecializedMatch *match);
/* A newer call of the same ops shows which slots of both are meant (replay_guards_widen). */
void specialized_widen(SpecializedCall *newer, SpecializedCall *older);

SpecializedCall **specialized_next(SpecializedCall *specialized); /* the link of a list */
void specialized_count(const SpecializedCall *specialized, sn_stats *stats);
/* Why a saved plan's specialized call does not run the call (specialized_match: false), naming the guard of every case.
 * call->arena is set. */
void specialized_print_refusal(const SpecializedCall *specialized, ReplayCall *call, Text *why);
/* In what a call differs from the newest cache entry. */
void specialized_print_miss(const SpecializedCall *specialized, const Arg *in, int n_in, Text *text);

#endif
