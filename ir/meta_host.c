/* meta_host.c: rows whose result is a number for host code (ops/host.def). Graphs hold those that only values give, as
 * a symbol: "s1 = aten::item(%0)". They have no result, run between two segments, and stand in no compiled graph. */
#include "ir/meta_rules.h"

Status meta_host(MetaCall *call) {
    return meta_fail(call, ST_UNSUPPORTED,
                     "it gives host code a number, which graphs don't have; write the expression");
}

/* Any int, unless the symbol's bounds say less; of what is not one element the sizes say it. */
Status meta_item(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    int64_t symbol;
    if (dtype_is_float(self->dtype) || self->dtype == DT_bool)
        return meta_fail(call, ST_DTYPE,
                         "a graph has ints alone as numbers, and self is %s: where ops take a tensor give them self",
                         dtype_name(self->dtype));
    for (int d = 0; d < self->rank; d++)
        if (!sym_same(call->env, self->sizes[d], 1))
            return meta_fail(call, ST_SHAPE, "self has sizes %s, not one element", SIZES(call, self));
    TRY(meta_unbacked(call, SYM_LEAST, &symbol));
    call->n_out = 0;
    return ST_OK;
}
