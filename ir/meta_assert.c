/* meta_assert.c: what exported programs say of values, numbers and metadata. A number of sizes is decided, which
 * guards; one that only values give, as the graph runs, is decided then, when the rule has the number. */
#include "ir/device.h"
#include "ir/meta_rules.h"

/* (self, [assert_msg]): the value is checked where it is there, by sn::holds. */
Status meta_assert_async(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    if (sym_same(call->env, self->numel, 1)) return ST_OK;
    return meta_fail(call, ST_SHAPE, "self must be one element, not %s", SIZES(call, self));
}

/* A float that only the call knows: no guard is made of one. */
static Status known_number(const MetaCall *call) {
    if (call->args[0].kind != ARG_runtime) return ST_OK;
    return meta_fail(call, ST_UNSUPPORTED, "%s is a float that each call gives: it is not checked", arg_name(call, 0));
}

static bool is_zero(const MetaCall *call, const Arg *number) {
    return number->kind == ARG_float ? number->f == 0 : sym_same(call->env, number->i, 0);
}

static bool is_open(const MetaCall *call) {
    return call->env && call->args[0].kind == ARG_int && sym_is_open(call->env, call->args[0].i);
}

/* (self, assert_msg) */
Status meta_assert_scalar(MetaCall *call) {
    TRY(known_number(call));
    if (is_open(call)) return ST_OK;
    if (!is_zero(call, &call->args[0])) return ST_OK;
    return meta_fail(call, ST_VALUE, "%s", call->args[1].string);
}

/* A float counts without its fraction, as in PyTorch. */
static int64_t whole_number(const Arg *number) {
    return number->kind == ARG_float ? double_to_i64(number->f) : number->i;
}

/* (size, min, max); of a size min is 0 at least, and max above 2, since a size of 0 or 1 would be another program. */
Status meta_sym_constrain_range(MetaCall *call) {
    const bool of_size = strstr(call->row->base, "_for_size") != NULL;
    const Arg *const least = arg_named(call, "min"), *const most = arg_named(call, "max");
    const int64_t size = whole_number(&call->args[0]);
    const int64_t min = least->kind == ARG_int ? least->i : of_size ? 0 : INT64_MIN;
    const int64_t max = most->kind == ARG_int ? most->i : INT64_MAX;
    TRY(known_number(call));
    if (of_size && max <= 2)
        return meta_fail(call, ST_VALUE, "max of a size must be greater than 2, not %lld", (long long)max);
    if (max < min) return meta_fail(call, ST_VALUE, "max %lld is below min %lld", (long long)max, (long long)min);
    if (is_open(call)) return ST_OK;
    const bool below = min != INT64_MIN && sym_less(call->env, size, min);
    if (!below && (max == INT64_MAX || sym_at_most(call->env, size, max))) return ST_OK;
    return meta_fail(call, ST_VALUE, "%lld is not from %lld to %lld", (long long)sym_hint(call->env, size),
                     (long long)min, (long long)max);
}

/* The same with dep_token, whose copy is the result. */
Status meta_functional_assert(MetaCall *call) {
    const Meta *const token = tensor_meta(call, call->row->n_params - 1);
    const bool scalar = call->row->n_params == 3 && call->row->params[0].type == PT_scalar;
    TRY(call->row->params[0].type == PT_tensor ? meta_assert_async(call)
        : scalar                               ? meta_assert_scalar(call)
                                               : meta_sym_constrain_range(call));
    out_like(call, 0, token, token->dtype);
    return ST_OK;
}

static Status same_list(const MetaCall *call, const char *what, const int64_t *have, int rank) {
    const Arg *const want = arg_named(call, what);
    if (want->kind != ARG_ints) return ST_OK;
    if (want->n == rank && all_same(call->env, have, want->ints, rank)) return ST_OK;
    return meta_fail(call, ST_SHAPE, "%s of a must be %s, not %s", what, sizes_text(call, want->ints, want->n).at,
                     sizes_text(call, have, rank).at);
}

Status meta_assert_tensor_metadata(MetaCall *call) {
    const Meta *const a = tensor_meta(call, 0);
    const Arg *const dtype = arg_named(call, "dtype"), *const device = arg_named(call, "device");
    const Arg *const layout = arg_named(call, "layout");
    TRY(same_list(call, "size", a->sizes, a->rank));
    TRY(same_list(call, "stride", a->strides, a->rank));
    if (dtype->kind == ARG_int && dtype->i != a->dtype)
        return meta_fail(call, ST_DTYPE, "dtype of a must be %s, not %s", dtype_name((DType)dtype->i),
                         dtype_name(a->dtype));
    if (device->kind == ARG_int && device->i != a->device)
        return meta_fail(call, ST_DEVICE, "device of a must be %s, not %s",
                         device_text((Device)device->i, &(DeviceText){0}), device_text(a->device, &(DeviceText){0}));
    if (layout->kind != ARG_int || layout->i == 0) return ST_OK;
    return meta_fail(call, ST_ARGUMENT, "layout of a must be %lld, but it is strided", (long long)layout->i);
}

/* (a, dtype) */
Status meta_convert_element_type(MetaCall *call) {
    const Meta *const a = tensor_meta(call, 0);
    out_like(call, 0, a, (DType)call->args[1].i);
    return ST_OK;
}
