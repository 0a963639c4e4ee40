/* state.h: everything that belongs to a thread: error, scopes, modes, generator, capture; the public sn_state.
 *
 * Reached through one initial-exec thread-local pointer. A thread's own state is made on first use; sn_state_use puts
 * another in its place (fibers, sessions). Nothing else in the library is thread-local. */
#ifndef SINTER_RUNTIME_STATE_H
#define SINTER_RUNTIME_STATE_H
#include <sinter/autograd.h>

#include "runtime/base/error.h"

typedef struct Capture Capture; /* runtime/capture.h: the recording or matching in progress on this thread */

typedef struct ScopeFrame {
    uint32_t first;       /* index of its first handle in the scope stack */
    uint32_t generation;  /* checked against the mark */
    bool owned;           /* sn_scope_begin_owned: results go to the caller */
    sn_grad_mode grad_mode;
    uint64_t include, exclude;
} ScopeFrame;

struct sn_state {
    ErrorSlot error;
    uint64_t include, exclude; /* dispatch keys of this thread */
    sn_grad_mode grad_mode;
    sn_tensor **handles;       /* results of all open scopes, in order */
    uint32_t n_handles, room_handles;
    ScopeFrame *scopes;
    uint32_t n_scopes, room_scopes, generation;
    uint64_t seed, sequence;   /* the default generator: Philox(seed, sequence, element) */
    Capture *capture;          /* NULL: not inside sn_call */
    const void *site;          /* return address of the user's current op call: for graph breaks and errors */
    int last_path;             /* sn_path of the newest sn_call, for sn_last_call */
    const char *last_reason;   /* lives as long as the function called */
    struct EagerCache *eager;  /* one-op programs by signature */
    struct UserMode *modes;    /* stack of user modes, innermost first */
    struct TextOwned *texts;   /* scope-owned strings */
    uint64_t tape_sequence;    /* next sequence number of a tape node [semantics G1] */
};

sn_state *state_get(void); /* the thread's, made on first use; never NULL once made (a failure raises and returns a
                              process-wide emergency state in which everything fails) */
const char *state_text(sn_state *state, char *malloced); /* hands a string to the innermost scope */

#endif
