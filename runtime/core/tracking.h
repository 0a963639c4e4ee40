/* tracking.h: where tensors were made and who keeps them, while the setting track_tensors is on, for sn_tensor_report;
 * and under check_handles where handles ended, for errors of those that are used afterwards.
 *
 * Such a handle stays as it ended, an error tensor (TF_error) without anything, and its block is not used again until
 * so many bytes (ENDED_BYTES) of others have ended behind it.
 *
 * Nothing of it is on the way of a tensor that is not tracked: while the setting is on, the free lists of tensor blocks
 * stay empty, so that each tensor comes from the allocator and goes back to it, where it is noted. */
#ifndef SINTER_RUNTIME_TRACKING_H
#define SINTER_RUNTIME_TRACKING_H
#include "runtime/core/tensor.h"
#include "ir/op.h"

/* Where what a tensor was computed from lost its history (runtime/autograd/gradient_cut.h). */
typedef enum CutReason {
    CUT_detached,
    CUT_no_grad,
    CUT_inference,
    CUT_dtype,
    CUT_not_differentiable,
    CUT_of_inference
} CutReason;
enum { CUTS = 8, CUT_LEAVES = 16 };
typedef struct GradientCut {
    CutReason reason;
    const OpRow *row;
    OpForm form;
    DType dtype;                  /* of the result */
    const void *site, *mode_site; /* calls of the program: of the op, that set the grad mode */
    uint64_t leaves[CUT_LEAVES];  /* numbers of tracked tensors */
    int n_leaves;
    bool more_leaves; /* than are listed */
} GradientCut;
typedef struct GradientCuts {
    int n;
    GradientCut at[CUTS];
} GradientCuts;

typedef struct TrackedTensor {
    const sn_tensor *tensor; /* its block; nobody has it while its count is 0 */
    const void *made, *kept; /* calls of the program: that it came from, that kept it last; NULL: unknown, none */
    const void *ended;       /* in which it ended; NULL: unknown */
    bool has_ended, is_out;  /* is_out: nobody uses its block, which is in the list of those that are freed later */
    size_t bytes;            /* of the block */
    uint64_t number;         /* of all that were tracked, from 1 */
    GradientCuts *cuts;      /* owned; NULL: none */
    struct TrackedTensor *next_out;
    struct TrackedTensor *next, *before;
} TrackedTensor;

extern _Atomic bool tracking_on;
static inline bool tracking_is_on(void) { return atomic_load_explicit(&tracking_on, memory_order_relaxed); }
/* Tensors that are made from now on by this state, and by those that begin later. Off: all is forgotten. */
void tracking_set(sn_state *state, bool on);
void tracking_check(sn_state *state, bool on); /* setting check_handles */
/* By tensor.c. False: no memory for it, with the error pending; then the tensor is not made. */
bool tracking_made(void *block, size_t bytes);
/* True: the block has gone to the handles that ended, and is freed later. */
bool tracking_gone(void *block);
void tracking_ended(void *block); /* its handle; the block is still in use */
/* Raises where t's handle has ended, with the places of its birth and its end. t: an error tensor. */
Status tracking_error(const sn_tensor *t, const char *what);
/* Nothing where it is off. */
void tracking_kept(const sn_tensor *t, const void *site);
/* 0: it is not tracked. */
uint64_t tracking_number(const sn_tensor *t);
void tracking_set_cuts(const sn_tensor *t, const GradientCuts *cuts);
/* False: t is not tracked. */
bool tracking_cuts(const sn_tensor *t, GradientCuts *out);
/* Oldest first, of all threads, under a lock: visit may not make or free a tensor. */
void tracking_each(void (*visit)(void *context, const TrackedTensor *tracked), void *context);

#endif
