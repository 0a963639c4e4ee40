/* deriv_reduce.c: derivatives of reductions: the gradient of a result is spread over the elements
 * that made it. */
#include "passes/rules/deriv.h"

Status deriv_sum(Deriv *d) {
    const Meta *const meta = d->arg_meta[0];
    const Dims dims = dims_of(&d->args[1], meta->rank);
    Val *const g = restore_dims(d->b, grad_of(d), &dims, meta, d->args[2].i);
    return deriv_set(d, 0, expand_to(d->b, g, meta->sizes, meta->rank));
}
