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

/* Ops that have no meaning for bools. */
static Status refuse_bool(const MetaCall *call, DType common) {
    if (common != DT_bool) return ST_OK;
    return meta_fail(call, ST_DTYPE, "%s must not be bool", arg_name(call, 0));
}

/* The usual shape of a rule: where `check` (NULL: anything goes) accepts the promoted dtype, the result has the one
 * that `result` makes of it. */
typedef Status DTypeCheck(const MetaCall *call, DType common);
typedef DType DTypeResult(DType common);
static Status by_dtype(MetaCall *call, DTypeCheck *check, DTypeResult *result) {
    Elementwise e = {0};
    TRY(elementwise(call, &e));
    if (check) TRY(check(call, e.common));
    return elementwise_out(call, &e, result(e.common));
}

static DType same(DType common) { return common; }
static DType always_bool(DType common) { return DT_bool; }
static DType int_of_bool(DType common) { return common == DT_bool ? DT_i64 : common; }

static Status keep_dtype(MetaCall *call, DTypeCheck *check) { return by_dtype(call, check, same); }

/* add, mul, maximum...: the promoted dtype. */
Status meta_binary(MetaCall *call) { return keep_dtype(call, check_alpha); }

/* sub, rsub: no booleans. */
static Status difference(MetaCall *call, bool reversed) {
    Elementwise e = {0};
    elementwise_add(call, &e, reversed);
    elementwise_add(call, &e, !reversed);
    e.common = promoted(&e);
    TRY(check_alpha(call, e.common));
    for (int i = 0; i < e.n; i++)
        if (e.in[i]->dtype == DT_bool)
            return meta_fail(call, ST_DTYPE, "%s is a bool tensor; use logical_xor or bitwise_not",
                             arg_name(call, e.arg[i]));
    return elementwise_out(call, &e, e.common);
}
Status meta_binary_no_bool(MetaCall *call) { return difference(call, false); }
Status meta_rsub(MetaCall *call) { return difference(call, true); }

/* fmod, remainder: bools beside other dtypes promote. */
Status meta_modulo(MetaCall *call) { return keep_dtype(call, refuse_bool); }

/* The operand's dtype; relu and neg refuse bool. */
Status meta_unary(MetaCall *call) { return keep_dtype(call, NULL); }
Status meta_unary_no_bool(MetaCall *call) { return keep_dtype(call, refuse_bool); }

/* What is put where self is not above is one of the results. */
Status meta_threshold(MetaCall *call) {
    TRY(keep_dtype(call, refuse_bool));
    return number_fits(call, 2, call->out[0].dtype);
}

/* exp, sqrt...: ints and bools give the default float. */
Status meta_unary_float(MetaCall *call) { return by_dtype(call, NULL, default_float); }

static Status check_approximate(const MetaCall *call) {
    const int approximate = op_param_find(call->row, "approximate");
    const char *const how = approximate < 0 ? "none" : call->args[approximate].string;
    if (!strcmp(how, "none") || !strcmp(how, "tanh")) return ST_OK;
    return meta_fail(call, ST_ARGUMENT, "approximate must be 'none' or 'tanh', not '%s'", how);
}

/* gelu, silu: floats only. */
static Status check_activation(const MetaCall *call, DType common) {
    if (!dtype_is_float(common))
        return meta_fail(call, ST_DTYPE, "%s must be floating point, not %s", arg_name(call, 0), dtype_name(common));
    return check_approximate(call);
}
Status meta_unary_float_only(MetaCall *call) { return keep_dtype(call, check_activation); }

/* A dim that is stepped along and was not looked at yet, of the least stride; -1: none is left. */
static int least_stride(SymEnv *env, const Meta *self, const bool *seen) {
    int best = -1;
    for (int d = 0; d < self->rank; d++)
        if (!seen[d] && (best < 0 || sym_less(env, self->strides[d], self->strides[best]))) best = d;
    return best;
}

/* Strides that a copy can have as they are, though there are gaps: each steps over all that smaller ones reach. */
static bool keeps_strides(SymEnv *env, const Meta *self) {
    bool seen[MAX_RANK];
    int64_t reach = 0;
    if (sym_same(env, self->numel, 0)) return false; /* as any result of its sizes */
    for (int d = 0; d < self->rank; d++) {
        if (sym_less(env, self->strides[d], 0)) return false;
        seen[d] = sym_same(env, self->sizes[d], 1);
    }
    for (int d; (d = least_stride(env, self, seen)) >= 0; seen[d] = true) {
        if (!sym_less(env, reach, self->strides[d])) return false;
        reach = sym_add(env, reach, sym_mul(env, self->strides[d], sym_sub(env, self->sizes[d], 1)));
    }
    return true;
}

/* copy: src in self's dtype, broadcast to self's sizes, in self's strides (clone_preserve_strides of PyTorch's
 * functional copy). */
Status meta_copy(MetaCall *call) {
    Meta number;
    const Meta *self = arg_meta(call, 0, &number);
    Meta number_src;
    const Meta *src = arg_meta(call, 1, &number_src);
    int64_t sizes[MAX_RANK];
    int rank = self->rank;
    for (int i = 0; i < rank; i++) sizes[i] = self->sizes[i];
    bool fits = src->rank <= rank && broadcast_into(call->env, sizes, &rank, src->sizes, src->rank);
    for (int i = 0; fits && i < rank; i++) fits = sym_same(call->env, sizes[i], self->sizes[i]);
    if (!fits)
        return meta_fail(call, ST_SHAPE, "src %s does not broadcast to self's sizes %s", SIZES(call, src),
                         SIZES(call, self));
    if (keeps_strides(call->env, self)) {
        out_set(&call->out[0], self->dtype, self->device, self->sizes, self->rank);
        for (int d = 0; d < self->rank; d++) call->out[0].strides[d] = self->strides[d]; /* a number has none */
    } else {
        out_like(call, 0, self, self->dtype);
    }
    return ST_OK;
}

/* div, atan2: likewise. */
Status meta_binary_float(MetaCall *call) { return meta_unary_float(call); }

/* div with rounding keeps ints; without it is div. */
Status meta_div_mode(MetaCall *call) {
    Elementwise e = {0};
    TRY(elementwise(call, &e));
    const Arg *mode = &call->args[op_param_find(call->row, "rounding_mode")];
    if (mode->kind == ARG_none) return elementwise_out(call, &e, default_float(e.common));
    if (strcmp(mode->string, "trunc") && strcmp(mode->string, "floor"))
        return meta_fail(call, ST_ARGUMENT, "rounding_mode must be None, 'trunc' or 'floor', not '%s'", mode->string);
    TRY(refuse_bool(call, e.common));
    return elementwise_out(call, &e, e.common);
}

/* Comparisons: bool, whatever is compared. */
Status meta_compare(MetaCall *call) { return by_dtype(call, NULL, always_bool); }

Status meta_logical(MetaCall *call) { return meta_compare(call); }
Status meta_test(MetaCall *call) { return meta_compare(call); }

static Status need_ints_or_bools(const MetaCall *call, DType common) {
    if (!dtype_is_float(common)) return ST_OK;
    return meta_fail(call, ST_DTYPE, "needs ints or bools, not %s", dtype_name(common));
}
Status meta_bitwise(MetaCall *call) { return keep_dtype(call, need_ints_or_bools); }

static Status need_ints(const MetaCall *call, DType common) {
    if (dtype_category(common) == CAT_int) return ST_OK;
    return meta_fail(call, ST_DTYPE, "needs ints, not %s", dtype_name(common));
}
Status meta_shift(MetaCall *call) { return keep_dtype(call, need_ints); }

/* square is a power of 2, which makes an int of a bool. */
Status meta_square(MetaCall *call) { return by_dtype(call, NULL, int_of_bool); }

/* Ints to a negative power have no int result; a number there is known now, elements are the user's matter. */
static Status check_exponent(const MetaCall *call, DType common) {
    const Arg *exponent = &call->args[1];
    if (exponent->kind != ARG_bool || call->args[0].kind != ARG_tensor)
        TRY(refuse_bool(call, common)); /* of bools only a number: themselves or all true */
    const bool plain = exponent->kind == ARG_int && !sym_is(exponent->i);
    if (plain && exponent->i < 0 && !dtype_is_float(common))
        return meta_fail(call, ST_VALUE, "ints can't be raised to the negative power %lld", (long long)exponent->i);
    return ST_OK;
}
Status meta_pow(MetaCall *call) { return keep_dtype(call, check_exponent); }

/* where: the dtype is that of the two choices. */
Status meta_where(MetaCall *call) {
    Elementwise e = {0}, choices = {0};
    TRY(elementwise(call, &e));
    if (e.in[0]->dtype != DT_bool && e.in[0]->dtype != DT_u8)
        return meta_fail(call, ST_DTYPE, "condition must be bool, not %s", dtype_name(e.in[0]->dtype));
    elementwise_add(call, &choices, 1);
    elementwise_add(call, &choices, 2);
    return elementwise_out(call, &e, promoted(&choices));
}

Status meta_clamp_min(MetaCall *call) { return keep_dtype(call, NULL); }
Status meta_clamp_max(MetaCall *call) { return keep_dtype(call, NULL); }

/* clamp: at least one limit; absent ones take no part. */
Status meta_clamp(MetaCall *call) {
    Elementwise e = {0};
    elementwise_add(call, &e, 0);
    for (int i = 1; i <= 2; i++)
        if (arg_given(call, i)) elementwise_add(call, &e, i);
    if (e.n == 1) return meta_fail(call, ST_ARGUMENT, "at least one of min and max must be given");
    TRY(refuse_bool(call, promoted(&e)));
    return elementwise_out(call, &e, promoted(&e));
}

/* lerp and the like: all tensors have one dtype. */
static Status one_dtype(MetaCall *call, Elementwise *e) {
    TRY(elementwise(call, e));
    for (int i = 1; i < e->n; i++)
        if (e->in[i]->dtype != e->in[0]->dtype && !e->in[i]->wrapped)
            return meta_fail(call, ST_DTYPE, "%s is %s, but %s is %s", arg_name(call, e->arg[i]),
                             dtype_name(e->in[i]->dtype), arg_name(call, e->arg[0]), dtype_name(e->in[0]->dtype));
    return ST_OK;
}

Status meta_lerp(MetaCall *call) {
    Elementwise e = {0};
    TRY(one_dtype(call, &e));
    if (!dtype_is_float(e.in[0]->dtype))
        return meta_fail(call, ST_DTYPE, "self must be floating point, not %s", dtype_name(e.in[0]->dtype));
    return elementwise_out(call, &e, e.in[0]->dtype);
}

Status meta_heaviside(MetaCall *call) {
    Elementwise e = {0};
    TRY(one_dtype(call, &e));
    TRY(number_fits(call, 1, e.in[0]->dtype));
    return elementwise_out(call, &e, e.in[0]->dtype);
}

/* value must fit the result's category, which is not bool. */
static Status check_value(const MetaCall *call, DType common) {
    const Arg *value = &call->args[op_param_find(call->row, "value")];
    if (value->kind == ARG_float && !dtype_is_float(common))
        return meta_fail(call, ST_DTYPE, "value must not be a float for %s", dtype_name(common));
    return refuse_bool(call, common);
}
Status meta_addcmul(MetaCall *call) { return keep_dtype(call, check_value); }

Status meta_addcdiv(MetaCall *call) {
    Elementwise e = {0};
    TRY(elementwise(call, &e));
    if (!dtype_is_float(e.in[1]->dtype) && !dtype_is_float(e.in[2]->dtype))
        return meta_fail(call, ST_DTYPE, "tensor1 and tensor2 are %s and %s; one must be a float (div divides ints)",
                         dtype_name(e.in[1]->dtype), dtype_name(e.in[2]->dtype));
    return elementwise_out(call, &e, e.common);
}

/* *_backward: grad_output and what was saved, alike. */
Status meta_backward(MetaCall *call) { return keep_dtype(call, refuse_bool); }

static Status need_floats(const MetaCall *call, DType common) {
    TRY(check_approximate(call));
    if (dtype_is_float(common)) return ST_OK;
    return meta_fail(call, ST_DTYPE, "needs floating point operands, not %s", dtype_name(common));
}
Status meta_backward_float(MetaCall *call) { return keep_dtype(call, need_floats); }

/* scale is a number: ints and bools become floats. */
Status meta_dropout_backward(MetaCall *call) {
    Elementwise e = {0};
    TRY(elementwise(call, &e));
    return elementwise_out(call, &e, default_float(e.in[0]->dtype));
}

/* value is one number or a 0-dim tensor and takes self's dtype; row-major, as PyTorch's copy to be filled. */
Status meta_masked_fill(MetaCall *call) {
    Elementwise e = {0};
    Meta number;
    elementwise_add(call, &e, 0);
    elementwise_add(call, &e, 1);
    const Meta *value = arg_meta(call, 2, &number);
    if (e.in[1]->dtype != DT_bool)
        return meta_fail(call, ST_DTYPE, "mask must be bool, not %s", dtype_name(e.in[1]->dtype));
    if (value->rank) return meta_fail(call, ST_SHAPE, "value must have 0 dims, not sizes %s", SIZES(call, value));
    TRY(elementwise_out(call, &e, e.in[0]->dtype));
    out_contiguous(call, &call->out[0]);
    return ST_OK;
}

/* fill: self's layout; value is one number or a 0-dim tensor. */
Status meta_fill(MetaCall *call) {
    Meta number, number_value;
    const Meta *self = arg_meta(call, 0, &number), *value = arg_meta(call, 1, &number_value);
    if (value->rank) return meta_fail(call, ST_SHAPE, "value must have 0 dims, not sizes %s", SIZES(call, value));
    out_like(call, 0, self, self->dtype);
    return ST_OK;
}

Status meta_tril(MetaCall *call) {
    const Meta *self = tensor_meta(call, 0);
    if (!self || self->rank < 2) return meta_fail(call, ST_SHAPE, "self must have at least 2 dims");
    out_like(call, 0, self, self->dtype);
    out_contiguous(call, &call->out[0]);
    return ST_OK;
}
