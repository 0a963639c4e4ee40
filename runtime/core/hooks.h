/* hooks.h: what a lower layer of the runtime asks of a higher one. These are the only calls that go up; all others go
 * down the list in runtime/README.md, which tests/check_cycles.c holds against the objects. start.c, the one file that
 * knows every layer, fills the table while the library is loaded, so that no row is ever NULL and nobody asks.
 *
 *   tensor_ready (core)  ->  runtime_hooks.capture_make(t, why)  ->  capture/record
 *
 * A row has the name of the function that fills it, whose header says what it does. */
#ifndef SINTER_RUNTIME_HOOKS_H
#define SINTER_RUNTIME_HOOKS_H
#include "runtime/core/dispatch.h"

struct TapeRun;

typedef struct RuntimeHooks {
    /* start: every module's kernels and tables; once per process, before the first state is made */
    void (*runtime_start)(void);

    /* capture: asked where state->capture or a placeholder says that there is one, or seldom */
    Status (*capture_make)(sn_tensor *t, const char *why); /* a placeholder's value is needed [semantics C2] */
    Status (*capture_make_foreign)(sn_tensor *t);          /* the same, of another thread's call only */
    bool (*capture_is_inference)(sn_tensor *t); /* a placeholder's value would be a tensor of inference mode */
    /* *told: the offset in its first tensor's storage that the call gives, from that one's first element on; a capture
     * guards where it begins */
    Status (*capture_tell_place)(const OpCall *call, const Arg *given, Arg *told);
    Status (*capture_settle)(const char *why);      /* host code writes memory that any tensor may depend on */
    Status (*capture_end_segment)(const char *why); /* what comes now has its place behind all pending ops */
    Status (*capture_set_generator)(uint64_t seed, uint64_t sequence, const char *outside, const char *breaks);
    void (*capture_note_fork)(void); /* the end of the innermost scope will put the generator back */
    bool (*capture_follow)(sn_state *state, OpCall *call, Status *status);
    bool (*capture_run)(const struct TapeRun *run, Status *status); /* takes a backward over, or not */
    Status (*flow_launch)(OpCall *call); /* a step of control flow, whose results are there */
    Capture *(*capture_current_exactly)(void);
    Capture *(*capture_suspend)(void);
    void (*capture_resume)(Capture *capture);
    Capture *(*capture_pause)(void);
    void (*capture_unpause)(Capture *capture);
    Capture *(*capture_leave_for_callback)(sn_state *state);
    void (*capture_return)(sn_state *state, const Context *outside); /* a callback was left */
    void (*capture_enter_after_callback)(Capture *capture);
} RuntimeHooks;

extern RuntimeHooks runtime_hooks;

#endif
