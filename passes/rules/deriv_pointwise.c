/* deriv_pointwise.c: derivatives of pointwise ops of several tensors. A number may stand in a
 * tensor's place: then it is never asked for a gradient, and it is passed on as it is. */
#include "passes/rules/deriv.h"

Status deriv_add(Deriv *d) {
    Val *const g = grad_of(d);
    if (wants(d, 0)) TRY(deriv_set(d, 0, g));
    if (wants(d, 1)) TRY(deriv_set(d, 1, scaled(d->b, g, &d->args[2])));
    return ST_OK;
}

Status deriv_mul(Deriv *d) {
    const Arg g = V(grad_of(d));
    if (wants(d, 0)) TRY(deriv_set(d, 0, E(d->b, mul_Tensor, g, d->args[1])));
    if (wants(d, 1)) TRY(deriv_set(d, 1, E(d->b, mul_Tensor, g, d->args[0])));
    return ST_OK;
}

/* self is overwritten: what it held gets no gradient. */
Status deriv_copy(Deriv *d) { return wants(d, 1) ? deriv_set(d, 1, grad_of(d)) : ST_OK; }

Status deriv_exp(Deriv *d) { return deriv_set(d, 0, mul(d->b, grad_of(d), d->results[0])); }
