/* gradient_cut.h: why no gradient flows from one tensor to another, for sn_gradient_why: while the setting
 * track_tensors is on, each result of an op has the list of places where what it was computed from lost its history.
 *
 *   w (leaf) -> y = w * x (tracked) -> d = detach(y) -> z = d + 1
 *               nothing                cut: detach       z has d's cuts
 *
 * A cut knows the leaves that its argument led to, so that of several only those are told that are about the leaf. */
#ifndef SINTER_RUNTIME_GRADIENT_CUT_H
#define SINTER_RUNTIME_GRADIENT_CUT_H
#include "runtime/core/dispatch.h"
#include "runtime/base/text.h"

/* The autograd kernel has run the call, or will: what its arguments are is looked at before. */
typedef struct CutWatch {
    uint32_t tracked; /* arguments that led to leaves, by parameter; a list is one */
    bool grad_on;
} CutWatch;
CutWatch gradient_cut_before(const OpCall *call);
/* recorded: the op has a node on the tape. */
void gradient_cut_after(const OpCall *call, const CutWatch *before, bool recorded);
/* The program's call that set the thread's grad mode. */
void gradient_cut_mode(const void *site);
/* What a gradient of `from` meets on its way to `to`: one line each. */
void gradient_cut_print(const sn_tensor *from, const sn_tensor *to, Text *text);

#endif
