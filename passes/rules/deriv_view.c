/* deriv_view.c: derivatives of views and of ops that only move data. */
#include "passes/rules/deriv.h"

/* view, reshape, squeeze, unsqueeze, flatten: the same elements in the same order. */
Status deriv_reshape_back(Deriv *d) {
    const Meta *const meta = d->arg_meta[0];
    return deriv_set(d, 0, reshape_to(d->b, grad_of(d), meta->sizes, meta->rank));
}

Status deriv_expand(Deriv *d) { return deriv_set(d, 0, grad_of(d)); }
