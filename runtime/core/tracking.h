/* tracking.h: where tensors were made and who keeps them, while the setting track_tensors is on, for sn_tensor_report.
 *
 * Nothing of it is on the way of a tensor that is not tracked: while the setting is on, the free lists of tensor blocks
 * stay empty, so that each tensor comes from the allocator and goes back to it, where it is noted. */
#ifndef SINTER_RUNTIME_TRACKING_H
#define SINTER_RUNTIME_TRACKING_H
#include "runtime/core/tensor.h"

typedef struct TrackedTensor {
    const sn_tensor *tensor; /* its block; nobody has it while its count is 0 */
    const void *made, *kept; /* calls of the program: that it came from, that kept it last; NULL: unknown, none */
    struct TrackedTensor *next, *before;
} TrackedTensor;

extern _Atomic bool tracking_on;
static inline bool tracking_is_on(void) { return atomic_load_explicit(&tracking_on, memory_order_relaxed); }
/* Tensors that are made from now on by this state, and by those that begin later. Off: all is forgotten. */
void tracking_set(sn_state *state, bool on);
/* By tensor.c. */
void tracking_made(void *block);
void tracking_gone(void *block);
/* Nothing where it is off. */
void tracking_kept(const sn_tensor *t, const void *site);
/* Oldest first, of all threads, under a lock: visit may not make or free a tensor. */
void tracking_each(void (*visit)(void *context, const TrackedTensor *tracked), void *context);

#endif
