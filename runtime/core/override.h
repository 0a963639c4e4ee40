/* override.h: user code in the dispatcher: overrides of single entries, fallbacks of keys, user
 * modes. */
#ifndef SINTER_RUNTIME_OVERRIDE_H
#define SINTER_RUNTIME_OVERRIDE_H
#include "runtime/core/frame.h"

/* row NULL: the key's fallback. NULL on error. */
sn_override *override_new(const OpRow *row, Key key, sn_body body, void *closure);
/* User code may stand in for this row: an override of it, or of a whole key. */
bool override_listed(const OpRow *row);
extern _Atomic int override_count;
static inline bool override_covers(const OpRow *row) {
    if (LIKELY(!atomic_load_explicit(&override_count, memory_order_relaxed))) return false;
    return override_listed(row);
}
void override_free(sn_override *override); /* puts back what was there */
/* What this thread registers now is of this number's plug-in, that is being started; 0: the program's. */
extern _Thread_local int override_batch;
void override_withdraw(int batch); /* frees those of a plug-in */

/* key: KEY_mode, or KEY_api for those that see calls. */
Status user_mode_push(Key key, sn_body handler, void *closure);
Status user_mode_pop(Key key);
void user_modes_pop_to(sn_state *state, Key key, struct UserMode *until); /* until `until` is the innermost */
void override_start(void);

/* The running call's next keys; for a user mode, the modes outside it first. */
Status frame_redispatch(sn_frame *frame);

/* Runs a body as the kernel of a call. */
Status body_kernel(OpCall *call, sn_body body, void *closure);

#endif
