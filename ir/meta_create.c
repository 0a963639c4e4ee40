/* meta_create.c: fresh tensors and copies: sizes as given, dtype and device from their arguments or from `self`,
 * strides from memory_format (preserve_format by default where there is a self). */
#include <math.h>

#include "ir/meta_rules.h"

static Device device_arg(const MetaCall *call, Device fallback) {
    const int i = call->row->device;
    return i >= 0 && call->args[i].kind == ARG_int ? (Device)call->args[i].i : fallback;
}

static int64_t format_arg(const MetaCall *call, int64_t fallback) {
    const int last = call->row->n_params - 1; /* of every row that has one */
    const bool has_one = !strcmp(call->row->params[last].name, "memory_format");
    return has_one && call->args[last].kind == ARG_int ? call->args[last].i : fallback;
}

/* like NULL: preserve_format means contiguous. */
static Status apply_format(MetaCall *call, int64_t format, const Meta *like) {
    MetaOut *out = &call->out[0];
    if (format == MF_preserve && like) {
        preserved_strides(call->env, like, out->strides);
        return ST_OK;
    }
    const int wanted_rank = format == MF_channels_last ? 4 : format == MF_channels_last_3d ? 5 : out->rank;
    if (out->rank != wanted_rank)
        return meta_fail(call, ST_ARGUMENT, "memory_format %s needs %d dims, not %d", memory_format_name(format),
                         wanted_rank, out->rank);
    if (format == MF_channels_last || format == MF_channels_last_3d)
        out_channels_last(call, out);
    else
        out_contiguous(call, out);
    return ST_OK;
}

static Status sized(MetaCall *call, const Arg *size, DType dtype, Device device) {
    if (size->n > MAX_RANK) return meta_fail(call, ST_SHAPE, "more than %d dims", MAX_RANK);
    TRY(check_numel(call, size->ints, size->n));
    out_set(&call->out[0], dtype, device, size->ints, size->n);
    return ST_OK;
}

/* (self, size, memory_format): self's own strides where it has these sizes and no format is asked for. By the kernel
 * only: op_meta refuses OPF_host. */
Status meta_resize(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const int64_t format = format_arg(call, -1);
    if (format == MF_preserve)
        return meta_fail(call, ST_ARGUMENT, "memory_format %s is no layout", memory_format_name(format));
    TRY(sized(call, &call->args[1], self->dtype, self->device));
    MetaOut *const out = &call->out[0];
    const bool same = out->rank == self->rank && all_same(call->env, out->sizes, self->sizes, self->rank);
    if (same && format < 0) memcpy(out->strides, self->strides, sizeof *out->strides * (size_t)self->rank);
    return same && format < 0 ? ST_OK : apply_format(call, format < 0 ? MF_contiguous : format, NULL);
}

/* empty, zeros, ones: the default dtype is f32. */
Status meta_empty(MetaCall *call) {
    TRY(sized(call, arg_named(call, "size"), dtype_arg(call, "dtype", DT_f32), device_arg(call, DEV_cpu)));
    return apply_format(call, format_arg(call, MF_contiguous), NULL);
}

static Status want_float(const MetaCall *call) {
    if (dtype_is_float(call->out[0].dtype)) return ST_OK;
    return meta_fail(call, ST_DTYPE, "dtype must be floating point, not %s", dtype_name(call->out[0].dtype));
}

Status meta_empty_float(MetaCall *call) {
    TRY(meta_empty(call));
    return want_float(call);
}

static bool is_known(const Arg *list) {
    for (int i = 0; i < list->n; i++)
        if (sym_is(list->ints[i])) return false;
    return true;
}

/* In code a result that is only written to another tensor is a range of bytes, of which nobody else asks this. */
static Status check_span(const MetaCall *call, const Arg *size, const Arg *stride) {
    int64_t span, bytes;
    if (!is_known(size) || !is_known(stride)) return ST_OK;
    if (meta_span(size->ints, stride->ints, size->n, &span) && mul_ok(span, 16, &bytes)) return ST_OK;
    return meta_fail(call, ST_SHAPE, "a tensor of size %s with stride %s does not fit in memory",
                     sizes_text(call, size->ints, size->n).at, sizes_text(call, stride->ints, stride->n).at);
}

static Status copy_strides_argument(MetaCall *call) {
    const Arg *size = arg_named(call, "size"), *stride = arg_named(call, "stride");
    if (size->n != stride->n)
        return meta_fail(call, ST_ARGUMENT, "size has %d dims, but stride has %d", size->n, stride->n);
    for (int i = 0; i < stride->n; i++) {
        if (!sym_is(stride->ints[i]) && stride->ints[i] < 0)
            return meta_fail(call, ST_ARGUMENT, "negative stride %lld", (long long)stride->ints[i]);
        call->out[0].strides[i] = stride->ints[i];
    }
    return check_span(call, size, stride);
}

Status meta_empty_strided(MetaCall *call) {
    TRY(sized(call, arg_named(call, "size"), dtype_arg(call, "dtype", DT_f32), device_arg(call, DEV_cpu)));
    return copy_strides_argument(call);
}

Status meta_new_empty(MetaCall *call) {
    const Meta *self = tensor_meta(call, 0);
    TRY(sized(call, arg_named(call, "size"), dtype_arg(call, "dtype", self->dtype), device_arg(call, self->device)));
    out_contiguous(call, &call->out[0]);
    return ST_OK;
}

Status meta_new_empty_strided(MetaCall *call) {
    TRY(meta_new_empty(call));
    return copy_strides_argument(call);
}

/* full: without a dtype the number decides. */
Status meta_full(MetaCall *call) {
    const DType own = number_dtype(arg_named(call, "fill_value"));
    TRY(sized(call, arg_named(call, "size"), dtype_arg(call, "dtype", own), device_arg(call, DEV_cpu)));
    out_contiguous(call, &call->out[0]);
    return ST_OK;
}

Status meta_scalar_tensor(MetaCall *call) {
    out_plain(call, 0, dtype_arg(call, "dtype", DT_f32), device_arg(call, DEV_cpu), NULL, 0);
    return ST_OK;
}

/* The number of steps from start to before end: exact in ints, by double division else. */
static Status arange_count(const MetaCall *call, const Arg *start, const Arg *end, const Arg *step, int64_t *count) {
    SymEnv *env = call->env;
    if (start->kind == ARG_runtime || end->kind == ARG_runtime || step->kind == ARG_runtime)
        return meta_fail(call, ST_UNSUPPORTED, "bounds must be known");
    if (start->kind != ARG_float && end->kind != ARG_float && step->kind != ARG_float) {
        const int64_t by = sym_is(step->i) ? sym_concrete(env, step->i) : step->i;
        if (!by) return meta_fail(call, ST_VALUE, "step must not be 0");
        int64_t plain;
        if (!sym_is(start->i) && !sym_is(end->i) && __builtin_sub_overflow(end->i, start->i, &plain))
            return meta_fail(call, ST_VALUE, "the count of steps from %lld to %lld overflows", (long long)start->i,
                             (long long)end->i);
        const int64_t span = by > 0 ? sym_sub(env, end->i, start->i) : sym_sub(env, start->i, end->i);
        if (sym_less(env, span, 0))
            return meta_fail(call, ST_VALUE, "start and end don't go with the sign of step %lld", (long long)by);
        const int64_t size = by > 0 ? by : -by;
        *count = size == 1 ? span : sym_div(env, sym_add(env, span, size - 1), size);
        return ST_OK;
    }
    const double first = arg_double_now(env, start), last = arg_double_now(env, end), by = arg_double_now(env, step),
                 steps = (last - first) / by;
    if (!isfinite(by)) return meta_fail(call, ST_VALUE, "step must be finite, not %g", by);
    if (by == 0) return meta_fail(call, ST_VALUE, "step must not be 0");
    if (!isfinite(steps) || steps < 0 || steps > 9e15)
        return meta_fail(call, ST_VALUE, "no sequence from %g to %g by %g", first, last, by);
    *count = (int64_t)ceil(steps);
    return ST_OK;
}

/* What PyTorch adds the steps of a sequence up in. */
static DType counts_in(DType dtype) {
    if (dtype_is_int(dtype)) return DT_i64;
    return dtype == DT_f64 ? DT_f64 : DT_f32;
}

Status meta_arange(MetaCall *call) {
    const int s = op_param_find(call->row, "start"), p = op_param_find(call->row, "step");
    const Arg zero = A_INT(0), one = A_INT(1);
    const Arg *start = s >= 0 ? &call->args[s] : &zero, *step = p >= 0 ? &call->args[p] : &one,
              *end = arg_named(call, "end");
    int64_t count = 0;
    TRY(arange_count(call, start, end, step, &count));
    const bool floats = start->kind == ARG_float || end->kind == ARG_float || step->kind == ARG_float;
    out_plain(call, 0, dtype_arg(call, "dtype", floats ? DT_f32 : DT_i64), device_arg(call, DEV_cpu), &count, 1);
    if (call->out[0].dtype == DT_bool) return meta_fail(call, ST_DTYPE, "dtype must not be bool");
    if (p >= 0) TRY(number_fits(call, p, counts_in(call->out[0].dtype)));
    return check_numel(call, &count, 1);
}

/* steps numbers; floats where no dtype is given. */
Status meta_linspace(MetaCall *call) {
    const int64_t steps = arg_named(call, "steps")->i;
    if (steps < 0) return meta_fail(call, ST_ARGUMENT, "steps must not be negative, but is %lld", (long long)steps);
    out_plain(call, 0, dtype_arg(call, "dtype", DT_f32), device_arg(call, DEV_cpu), &steps, 1);
    if (call->out[0].dtype == DT_bool) return meta_fail(call, ST_DTYPE, "dtype must not be bool");
    return check_numel(call, &steps, 1);
}

/* Sizes and format of self; dtype and device as said, else those of `options`. */
static Status like_self(MetaCall *call, const Meta *self, const Meta *options) {
    out_set(&call->out[0], dtype_arg(call, "dtype", options->dtype), device_arg(call, options->device), self->sizes,
            self->rank);
    return apply_format(call, format_arg(call, MF_preserve), self);
}

/* *_like: everything from self unless said otherwise. */
Status meta_like(MetaCall *call) {
    const Meta *self = tensor_meta(call, 0);
    Meta number;
    if (!self) self = arg_meta(call, 0, &number);
    return like_self(call, self, self);
}

Status meta_like_float(MetaCall *call) {
    TRY(meta_like(call));
    return want_float(call);
}

/* Both ends are numbers of the dtype. */
static Status ints_between(const MetaCall *call) {
    const Arg *const low = arg_named(call, "low"), *const high = arg_named(call, "high");
    const int64_t begin = low ? low->i : 0, end = high->i;
    const DType dtype = call->out[0].dtype;
    if (!sym_less(call->env, begin, end))
        return meta_fail(call, ST_ARGUMENT, "high %s must be above low %s", sizes_text(call, &end, 1).at,
                         sizes_text(call, &begin, 1).at);
    int64_t span;
    if (!sym_is(begin) && !sym_is(end) && __builtin_sub_overflow(end, begin, &span))
        return meta_fail(call, ST_VALUE, "high %lld less low %lld does not fit in 64 bits", (long long)end,
                         (long long)begin);
    const int64_t largest = dtype == DT_bool        ? 1
                            : dtype == DT_f16       ? 65504
                            : dtype_is_float(dtype) ? INT64_MAX
                                                    : dtype_largest(dtype);
    const int64_t least = dtype == DT_f16 ? -largest : dtype == DT_u8 || dtype == DT_bool ? 0 : -largest - 1;
    const bool begins_inside = least == INT64_MIN || sym_at_most(call->env, least, begin);
    if (begins_inside && (largest == INT64_MAX || sym_at_most(call->env, end, largest + 1))) return ST_OK;
    const int64_t last = sym_sub(call->env, end, 1);
    return meta_fail(call, ST_VALUE, "%s does not hold all from %s to %s", dtype_name(dtype),
                     sizes_text(call, &begin, 1).at, sizes_text(call, &last, 1).at);
}

/* (low, high, size, ...) */
Status meta_randint(MetaCall *call) {
    TRY(sized(call, arg_named(call, "size"), dtype_arg(call, "dtype", DT_i64), device_arg(call, DEV_cpu)));
    out_contiguous(call, &call->out[0]);
    return ints_between(call);
}

Status meta_randint_like(MetaCall *call) {
    TRY(meta_like(call));
    return ints_between(call);
}

/* (mean, std, size, ...) */
Status meta_normal_sized(MetaCall *call) {
    TRY(meta_empty_float(call));
    if (arg_double(&call->args[1]) >= 0) return ST_OK;
    return meta_fail(call, ST_VALUE, "std must not be negative, but is %g", arg_double(&call->args[1]));
}

/* clone: broadcast (stride 0) dims become real unless the strides are dense. */
Status meta_clone(MetaCall *call) { return meta_like(call); }
Status meta_to_copy(MetaCall *call) { return meta_like(call); }

/* to: self itself where neither dtype, device nor format changes. */
Status meta_to(MetaCall *call) {
    const Meta *self = tensor_meta(call, 0);
    const int other = op_param_find(call->row, "other");
    TRY(like_self(call, self, other < 0 ? self : tensor_meta(call, other)));
    MetaOut *out = &call->out[0];
    const int copy = op_param_find(call->row, "copy");
    const bool same =
        out->dtype == self->dtype && out->device == self->device && format_arg(call, MF_preserve) == MF_preserve;
    if (!same || (copy >= 0 && call->args[copy].i)) return ST_OK;
    if (self->rank) memcpy(out->strides, self->strides, sizeof *out->strides * (size_t)self->rank);
    out->alias = 0;
    return ST_OK;
}

Status meta_contiguous(MetaCall *call) {
    const Meta *self = tensor_meta(call, 0);
    out_set(&call->out[0], self->dtype, self->device, self->sizes, self->rank);
    const int64_t format = format_arg(call, MF_contiguous);
    if (format == MF_preserve)
        return meta_fail(call, ST_ARGUMENT, "memory_format preserve_format is not for contiguous");
    if (!meta_is_in_format(call->env, self, format)) return apply_format(call, format, NULL);
    if (self->rank) memcpy(call->out[0].strides, self->strides, sizeof *self->strides * (size_t)self->rank);
    call->out[0].alias = 0;
    return ST_OK;
}
