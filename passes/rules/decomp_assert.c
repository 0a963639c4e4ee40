/* decomp_assert.c: what exported programs say of values: the check is sn::holds, which stays in the graph though nobody
 * reads its result. Numbers and metadata are checked by the meta rules alone. */
#include "passes/rules/decomp.h"
#include "ir/op.h"

DecompFn decomp_none, decomp_assert_async, decomp_functional_assert_async, decomp_functional_assert;
DecompFn decomp_convert_element_type;

Status decomp_none(Builder *b, const OpRow *row, const Arg *args, Val **outs) { return ST_OK; }

/* (self, [assert_msg]) */
static Status holds(Builder *b, const Arg *self, const Arg *message) {
    const char *const usual = "Expected Tensor with single nonzero value, but got zero";
    Val *const truth = E(b, ne_Scalar, *self, I(0));
    return E(b, holds, V(truth), message ? *message : A_STR(usual)) ? ST_OK : error_pending();
}

Status decomp_assert_async(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return holds(b, &args[0], row->n_params > 1 ? &args[1] : NULL);
}

/* (..., dep_token) */
Status decomp_functional_assert(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, clone, args[row->n_params - 1]));
}
Status decomp_functional_assert_async(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    TRY(holds(b, &args[0], &args[1]));
    return decomp_functional_assert(b, row, args, outs);
}

/* (a, dtype) */
Status decomp_convert_element_type(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, _to_copy, args[0], args[1]));
}
