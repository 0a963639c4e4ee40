/* context.h: in what state a thread's ops run, and who watches them, as one value [semantics C13].
 *
 * A thread's context is sn_state's `context`, whose fields (context.def) are also fields of the state. Library code may
 * change fields while it runs, in any way that puts them back on all of its returns. A callback of the program's may
 * leave without a return, by longjmp or an exception: then nothing of the library runs, and whatever it had changed
 * stays. So the scope of a callback keeps the context that the program's own code outside had, whole:
 *
 *   program    sn_no_grad_begin, sn_cond(...)          state->program: grad off           <- context_note
 *     library    keys, a tracer, a generator ...    state->context: whatever
 *       callback   a body: jumps to the program        state->outside: grad off
 *   program    its next call: context_arrive           state->context = that, and what was in progress in
 *                                                      between (InProgress) is ended
 *
 * A jump is noticed by the stack: it grows down, so a call from above the callback's frame comes from outside of it. */
#ifndef SINTER_RUNTIME_CONTEXT_H
#define SINTER_RUNTIME_CONTEXT_H
#include <sinter/autograd.h>
#include <sinter/compile.h>

#include "runtime/base/base.h"
#include "runtime/core/keys.h"

typedef struct Tracer Tracer; /* runtime/core/tracer.h */

typedef struct Context {
#define FIELD(type, name) type name;
#include "runtime/core/context.def"
} Context;

/* What a reason changes beside keys. */
typedef enum ContextChange {
    OFF_gradients = 1,      /* grad mode off, also in inference mode */
    OFF_recording = 1 << 1, /* off where it was on; inference mode stays */
    OFF_inference = 1 << 2, /* off in inference mode, on stays on */
    ON_gradients = 1 << 3,
    OFF_autocast = 1 << 4,    /* a region of its own may begin */
    OFF_saved_hooks = 1 << 5, /* who keeps what is saved */
    OFF_levels = 1 << 6,      /* transforms */
    OFF_tracer = 1 << 7,      /* ops run, instead of being recorded; a symbolic tracer stays, but has no ops */
    PAUSE_tracer = 1 << 8     /* the same around a program's code, which may not return: it waits (`paused`) */
} ContextChange;

typedef enum ContextReason {
#define REASON(name, keys, changes) CONTEXT_##name,
#include "runtime/core/context_reasons.def"
} ContextReason;

typedef struct ContextRow {
    uint64_t keys;
    int changes;
} ContextRow;
static const ContextRow context_rows[] = {
#define REASON(name, keys, changes) {keys, changes},
#include "runtime/core/context_reasons.def"
};

/* What context_leave puts back: of the context, what the reason's row changes. */
typedef struct ContextSaved {
    struct sn_state *state;
    ContextReason reason;
    Context context;
} ContextSaved;

#define CONTEXT_NO_CALLBACK ((const volatile uint64_t *)UINTPTR_MAX) /* above every frame */

/* Something that a jump through its code must end, at the head of a struct that is not on the stack: a captured call, a
 * run of the tape, a lock that is held. The newest first. */
typedef struct InProgress {
    struct InProgress *outer;
    uint32_t n_scopes; /* open when it began */
    void (*left)(struct InProgress *self);
} InProgress;
void in_progress_begin(struct sn_state *state, InProgress *what, void (*left)(InProgress *self));
void in_progress_end(struct sn_state *state, InProgress *what); /* it has returned, or `left` is running */

/* The program has changed the context: this is what its code has from now on. */
void context_note(struct sn_state *state);
/* For work of another time or thread: the modes that are values (context.def) are what they were there. For a state
 * that has no modes else, or until the end of the scope. */
void scope_enter_modes(struct sn_state *state, const Context *from);

#endif
