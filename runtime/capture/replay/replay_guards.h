/* replay_guards.h: what a replayed call stands on beside its arguments' metadata [semantics C6, C7, G4].
 *
 * Its tensors are slots: the arguments, in order; then what the body found by itself, by first use: closed-over
 * tensors, bound by identity, and .grad slots, looked up at each call.
 *
 *     body(x):  if (sn_requires_grad(m->w)) x = sn_neg(x);   g = sn_grad(m->w);   sn_sub_(m->w, sn_mul(x, g))
 *     slots:    0 argument x     1 w     2 .grad of slot 1
 *     answers:  requires_grad of slot 1: 0      grad of slot 1: 1
 *
 * Answers are what queries showed to the body (query.def): each is asked again before a replay, and must be the
 * same. */
#ifndef SINTER_RUNTIME_REPLAY_GUARDS_H
#define SINTER_RUNTIME_REPLAY_GUARDS_H
#include "runtime/capture/record/capture.h"
#include "runtime/autograd/query.h"

enum { MAX_SLOTS = 65536 }; /* more would be a damaged file */

/* The only tensor that a slot of a replayed call may have, since it may be closed over too: its number (TF_learnt),
 * since it is not retained, and others may be made at its address; 0: any. */
typedef _Atomic uint32_t GivenTensor;

typedef struct FoundTensor {
    sn_tensor *bound; /* retained; NULL: the .grad of slot `owner`, a smaller one */
    int owner;
} FoundTensor;

typedef struct Answer {
    QueryId query;
    int slot; /* -1: of no tensor */
    int64_t at, answer;
} Answer;

typedef struct ReplayGuards {
    int n_in, n_slots, n_inputs;
    int n_asked, n_answers;
    FoundTensor *found; /* by slot - n_in */
    GivenTensor *given; /* by slot */
    Answer *answers;    /* n_asked to ask again, then those of layout, n_answers in all */
    int *source;        /* by input of the trace: its slot */
    Context context;    /* of the call that was learnt; context.def says what of it must hold again */
    bool bodyless;      /* of a saved plan: an API mode has nothing to see */
} ReplayGuards;

/* Of a call that was this one segment. NULL: there is none; *why (static text), or memory is out. */
ReplayGuards *replay_guards_new(Arena *arena, const Capture *capture, const Trace *trace, const Arg *in, int n_in,
                                Reason *why);
/* Lets go of what is bound. */
void replay_guards_free(ReplayGuards *guards);
/* Do the guards hold in the calling thread, called so? Then `at`, with room for n_slots, are the tensors by slot (NULL:
 * no tensor). If not and `why` is given: what differs. */
bool replay_guards_hold(const ReplayGuards *guards, const Arg *in, int n_in, sn_tensor **at, Text *why);
/* Another call of the same ops shows by another tensor in a slot that the slot is meant, not what was closed over. */
void replay_guards_widen(ReplayGuards *newer, ReplayGuards *older);
/* "argument 1", "closed over 0", ".grad of closed over 0". */
void replay_slot_print(const ReplayGuards *guards, int slot, Text *text);
const char *grad_mode_word(sn_grad_mode mode); /* "on", "off", "inference" */

#endif
