/* meta_pointwise.c: results of elementwise ops: PyTorch's promotion and broadcasting, and the dtypes that it refuses.
 * Most rules are one call of elementwise() with a dtype policy. */
#include "ir/meta_rules.h"

/* alpha must fit the result's category. */
static Status check_alpha(const MetaCall *call, DType common) {
    const int i = op_param_find(call->row, "alpha");
    if (i < 0) return ST_OK;
    const Arg *alpha = &call->args[i];
    if (alpha->kind == ARG_bool && common != DT_bool)
        return meta_fail(call, ST_DTYPE, "a boolean alpha is only for boolean results, not %s", dtype_name(common));
    if (alpha->kind == ARG_float && !dtype_is_float(common))
        return meta_fail(call, ST_DTYPE, "alpha must not be a float for %s", dtype_name(common));
    return ST_OK;
}

/* add, mul, maximum...: the promoted dtype. */
Status meta_binary(MetaCall *call) {
    Elementwise e = {0};
    TRY(elementwise(call, &e));
    TRY(check_alpha(call, e.common));
    return elementwise_out(call, &e, e.common);
}

/* sub, rsub: no booleans. */
Status meta_binary_no_bool(MetaCall *call) {
    Elementwise e = {0};
    TRY(elementwise(call, &e));
    TRY(check_alpha(call, e.common));
    for (int i = 0; i < e.n; i++)
        if (e.in[i]->dtype == DT_bool)
            return meta_fail(call, ST_DTYPE, "%s is a bool tensor; use logical_xor or bitwise_not", arg_name(call, e.arg[i]));
    return elementwise_out(call, &e, e.common);
}

/* The operand's dtype; relu and neg refuse bool. */
Status meta_unary(MetaCall *call) {
    Elementwise e = {0};
    TRY(elementwise(call, &e));
    return elementwise_out(call, &e, e.common);
}

Status meta_unary_no_bool(MetaCall *call) {
    Elementwise e = {0};
    TRY(elementwise(call, &e));
    if (e.common == DT_bool) return meta_fail(call, ST_DTYPE, "%s must not be bool", arg_name(call, 0));
    return elementwise_out(call, &e, e.common);
}

/* exp, sqrt...: ints and bools give the default float. */
Status meta_unary_float(MetaCall *call) {
    Elementwise e = {0};
    TRY(elementwise(call, &e));
    return elementwise_out(call, &e, default_float(e.common));
}

/* gelu, silu: floats only. */
Status meta_unary_float_only(MetaCall *call) {
    Elementwise e = {0};
    TRY(elementwise(call, &e));
    if (!dtype_is_float(e.common))
        return meta_fail(call, ST_DTYPE, "%s must be floating point, not %s", arg_name(call, 0), dtype_name(e.common));
    const int approximate = op_param_find(call->row, "approximate");
    if (approximate >= 0) {
        const char *how = call->args[approximate].string;
        if (strcmp(how, "none") && strcmp(how, "tanh"))
            return meta_fail(call, ST_ARGUMENT, "approximate must be 'none' or 'tanh', not '%s'", how);
    }
    return elementwise_out(call, &e, e.common);
}

/* copy: src in self's dtype, broadcast to self's sizes; strides are preserved from self where dense. */
Status meta_copy(MetaCall *call) {
    Meta number;
    const Meta *self = arg_meta(call, 0, &number);
    Meta number_src;
    const Meta *src = arg_meta(call, 1, &number_src);
    int64_t sizes[MAX_RANK];
    int rank = self->rank;
    memcpy(sizes, self->sizes, sizeof *sizes * (size_t)rank);
    bool fits = src->rank <= rank && broadcast_into(call->env, sizes, &rank, src->sizes, src->rank);
    for (int i = 0; fits && i < rank; i++) fits = sym_same(call->env, sizes[i], self->sizes[i]);
    if (!fits)
        return meta_fail(call, ST_SHAPE, "src %s does not broadcast to self's sizes %s", SIZES(call, src), SIZES(call, self));
    out_like(call, 0, self, self->dtype);
    return ST_OK;
}
