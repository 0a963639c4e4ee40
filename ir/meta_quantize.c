/* meta_quantize.c: rounding to a grid of integers and back: floats and ints where they belong, ranges that hold the
 * zero point, one scale or one for each position along a dim. */
#include "ir/meta_rules.h"

static Status want_rounded(const MetaCall *call, const Meta *self) {
    if (dtype_is_float(self->dtype)) return ST_OK;
    return meta_fail(call, ST_DTYPE, "%s must be a float, not %s", arg_name(call, 0), dtype_name(self->dtype));
}

static Status check_range(const MetaCall *call, int64_t least, int64_t largest) {
    const int64_t low = arg_named(call, "quant_min")->i, high = arg_named(call, "quant_max")->i;
    if (low > high)
        return meta_fail(call, ST_VALUE, "quant_min %lld is above quant_max %lld", (long long)low, (long long)high);
    if (low < least || high > largest)
        return meta_fail(call, ST_VALUE, "quant_min %lld to quant_max %lld is beyond dtype's %lld to %lld",
                         (long long)low, (long long)high, (long long)least, (long long)largest);
    const Arg *const zero = arg_named(call, "zero_point");
    if (!zero || zero->kind != ARG_int || (zero->i >= low && zero->i <= high)) return ST_OK;
    return meta_fail(call, ST_VALUE, "zero_point %lld is not in quant_min %lld to quant_max %lld", (long long)zero->i,
                     (long long)low, (long long)high);
}

/* One element, or one for each position along axis. */
static Status check_sizes(const MetaCall *call, int arg, const Meta *self) {
    const Meta *const t = tensor_meta(call, arg);
    const Arg *const axis = arg_named(call, "axis");
    int dim = 0;
    if (!axis) {
        if (sym_same(call->env, t->numel, 1)) return ST_OK;
        return meta_fail(call, ST_SHAPE, "%s must have one element, not sizes %s", arg_name(call, arg), SIZES(call, t));
    }
    if (!self->rank) return meta_fail(call, ST_SHAPE, "%s has no dims, so none for axis", arg_name(call, 0));
    TRY(wrap_dim(call, axis->i, self->rank, "axis", &dim));
    if (t->rank == 1 && sym_same(call->env, t->sizes[0], self->sizes[dim])) return ST_OK;
    return meta_fail(call, ST_SHAPE, "%s must have one element for each position along axis %d of %s, not sizes %s",
                     arg_name(call, arg), dim, SIZES(call, self), SIZES(call, t));
}

static Status check_tensor(const MetaCall *call, int arg, const Meta *self, bool is_scale) {
    const Meta *const t = tensor_meta(call, arg);
    if (!t) return ST_OK;
    if (is_scale ? t->dtype != DT_f32 : !dtype_is_int(t->dtype))
        return meta_fail(call, ST_DTYPE, "%s must be %s, not %s", arg_name(call, arg), is_scale ? "f32" : "an int",
                         dtype_name(t->dtype));
    TRY(same_device(call, self, t));
    return check_sizes(call, arg, self);
}

/* Scale, zero point, and whether they count: tensors, or numbers, about which nothing is to be said here. */
static Status check_tensors(const MetaCall *call, const Meta *self) {
    for (int i = 1; i < call->row->n_params; i++) {
        const ParamType type = call->row->params[i].type;
        if (type == PT_tensor || type == PT_tensor_opt) TRY(check_tensor(call, i, self, i == 1));
    }
    return ST_OK;
}

Status meta_fake_quantize(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    TRY(want_rounded(call, self));
    TRY(check_range(call, INT64_MIN, INT64_MAX));
    TRY(check_tensors(call, self));
    out_like(call, 0, self, self->dtype);
    if (call->row->n_out == 2) out_like(call, 1, self, DT_bool);
    return ST_OK;
}

static Status check_dtype(const MetaCall *call, DType dtype) {
    if (dtype_is_int(dtype) && dtype != DT_i64) return ST_OK;
    return meta_fail(call, ST_DTYPE, "dtype must be u8, i8, i16 or i32, not %s", dtype_name(dtype));
}

Status meta_quantize(MetaCall *call) {
    const Meta *const input = tensor_meta(call, 0);
    const DType dtype = (DType)arg_named(call, "dtype")->i;
    TRY(want_rounded(call, input));
    TRY(check_dtype(call, dtype));
    TRY(check_range(call, dtype_least(dtype), dtype_largest(dtype)));
    TRY(check_tensors(call, input));
    out_like(call, 0, input, dtype);
    return ST_OK;
}

Status meta_dequantize(MetaCall *call) {
    const Meta *const input = tensor_meta(call, 0);
    const DType dtype = (DType)arg_named(call, "dtype")->i, out = dtype_arg(call, "out_dtype", DT_f32);
    TRY(check_dtype(call, dtype));
    if (input->dtype != dtype)
        return meta_fail(call, ST_DTYPE, "input is %s, but dtype %s", dtype_name(input->dtype), dtype_name(dtype));
    if (!dtype_is_float(out)) return meta_fail(call, ST_DTYPE, "out_dtype must be a float, not %s", dtype_name(out));
    TRY(check_range(call, dtype_least(dtype), dtype_largest(dtype)));
    TRY(check_tensors(call, input));
    out_like(call, 0, input, out);
    return ST_OK;
}

Status meta_int_mm(MetaCall *call) {
    const Meta *const a = tensor_meta(call, 0), *const b = tensor_meta(call, 1);
    if (a->rank != 2 || b->rank != 2)
        return meta_fail(call, ST_SHAPE, "self %s and mat2 %s must have 2 dims", SIZES(call, a), SIZES(call, b));
    if ((a->dtype != DT_i8 && a->dtype != DT_u8) || b->dtype != DT_i8)
        return meta_fail(call, ST_DTYPE, "self must be i8 or u8 and mat2 i8, not %s and %s", dtype_name(a->dtype),
                         dtype_name(b->dtype));
    TRY(same_device(call, a, b));
    if (!sym_same(call->env, a->sizes[1], b->sizes[0]))
        return meta_fail(call, ST_SHAPE, "mat2 %s does not match self %s", SIZES(call, b), SIZES(call, a));
    out_plain(call, 0, DT_i32, a->device, (const int64_t[]){a->sizes[0], b->sizes[1]}, 2);
    return ST_OK;
}
