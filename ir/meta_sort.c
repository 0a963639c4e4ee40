/* meta_sort.c: scans and sorts along a dim, and choices by chance. */
#include "ir/meta_rules.h"

MetaFn meta_unary_float_only;

static Status check_dim(const MetaCall *call) {
    int dim;
    return wrap_dim(call, arg_named(call, "dim")->i, tensor_meta(call, 0)->rank, "dim", &dim);
}

/* Ints and bools give i64, unless a dtype is given or what is written has one. */
Status meta_scan(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    TRY(check_dim(call));
    const DType dtype = dtype_arg(call, "dtype", dtype_is_float(self->dtype) ? self->dtype : DT_i64);
    if (dtype == DT_bool) return meta_fail(call, ST_DTYPE, "dtype must not be bool");
    out_plain(call, 0, dtype, self->device, self->sizes, self->rank);
    return ST_OK;
}

static Status sorted_like(MetaCall *call, bool values, bool indices) {
    const Meta *const self = tensor_meta(call, 0);
    if (op_param_find(call->row, "dim") >= 0) TRY(check_dim(call));
    if (values) out_like(call, 0, self, self->dtype);
    if (indices) out_like(call, values, self, DT_i64);
    return ST_OK;
}
Status meta_sort_stable(MetaCall *call) { return sorted_like(call, true, true); }
Status meta_sort(MetaCall *call) { return sorted_like(call, true, true); }
Status meta_argsort(MetaCall *call) { return sorted_like(call, false, true); }
Status meta_argsort_stable(MetaCall *call) { return sorted_like(call, false, true); }
Status meta_msort(MetaCall *call) { return sorted_like(call, true, false); }

Status meta_topk(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const int64_t k = call->args[1].i;
    int64_t sizes[MAX_RANK];
    int dim;
    TRY(wrap_dim(call, call->args[2].i, self->rank, "dim", &dim));
    const int64_t size = self->rank ? self->sizes[dim] : 1;
    if (sym_less(call->env, k, 0) || sym_less(call->env, size, k))
        return meta_fail(call, ST_ARGUMENT, "k %s is none of 0 to the size of dim %d of self %s",
                         sizes_text(call, &k, 1).at, dim, SIZES(call, self));
    for (int d = 0; d < self->rank; d++) sizes[d] = d == dim ? k : self->sizes[d];
    out_plain(call, 0, self->dtype, self->device, sizes, self->rank);
    out_plain(call, 1, DT_i64, self->device, sizes, self->rank);
    return ST_OK;
}

/* Of a graph alone: values decide how many positions there are (elsewhere op_meta refuses OPF_host). */
Status meta_nonzero(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    int64_t sizes[2] = {0, self->rank};
    TRY(meta_unbacked_size(call, &sizes[0]));
    out_plain(call, 0, DT_i64, self->device, sizes, 2);
    call->out[0].strides[0] = 1; /* dim by dim, as PyTorch's */
    call->out[0].strides[1] = sym_max(call->env, sizes[0], 1);
    return ST_OK;
}

/* How many numbers from 0 on PyTorch takes for those of a dtype (of bf16 it asks nothing). */
static int64_t countable(DType dtype) {
    if (dtype_is_float(dtype)) return dtype == DT_f16 ? 2049 : dtype == DT_f32 ? (1 << 24) + 1 : INT64_C(1) << 53;
    return dtype == DT_i64 ? INT64_MAX : dtype_largest(dtype) + 1;
}

Status meta_randperm(MetaCall *call) {
    const Arg *const device = arg_named(call, "device");
    const int64_t n = call->args[0].i;
    if (sym_less(call->env, n, 0))
        return meta_fail(call, ST_ARGUMENT, "n must not be negative, but is %s", sizes_text(call, &n, 1).at);
    const DType dtype = dtype_arg(call, "dtype", DT_i64);
    if (dtype == DT_bool) return meta_fail(call, ST_DTYPE, "dtype must not be bool");
    TRY(check_numel(call, &n, 1));
    if (!sym_at_most(call->env, n, countable(dtype)))
        return meta_fail(call, ST_VALUE, "%s counts to %lld, but n is %s", dtype_name(dtype),
                         (long long)countable(dtype), sizes_text(call, &n, 1).at);
    out_plain(call, 0, dtype, device->kind == ARG_int ? (Device)device->i : DEV_cpu, &n, 1);
    return ST_OK;
}

/* Each element is its own probability. */
Status meta_bernoulli(MetaCall *call) {
    TRY(meta_unary_float_only(call));
    out_contiguous(call, &call->out[0]);
    return ST_OK;
}

/* A number that is known is a probability. */
Status meta_bernoulli_p(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const Arg *const p = &call->args[1];
    if (p->kind != ARG_runtime && !(arg_double(p) >= 0 && arg_double(p) <= 1))
        return meta_fail(call, ST_VALUE, "p must be from 0 to 1, but is %g", arg_double(p));
    out_plain(call, 0, self->dtype, self->device, self->sizes, self->rank);
    return ST_OK;
}

Status meta_bernoulli_Tensor(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0), *const p = tensor_meta(call, 1);
    int64_t sizes[MAX_RANK];
    int rank = self->rank;
    if (!dtype_is_float(p->dtype))
        return meta_fail(call, ST_DTYPE, "p must be floating point, not %s", dtype_name(p->dtype));
    if (rank) memcpy(sizes, self->sizes, sizeof *sizes * (size_t)rank);
    bool fits = p->rank <= rank && broadcast_into(call->env, sizes, &rank, p->sizes, p->rank);
    for (int d = 0; fits && d < rank; d++) fits = sym_same(call->env, sizes[d], self->sizes[d]);
    if (!fits)
        return meta_fail(call, ST_SHAPE, "p %s does not broadcast to self %s", SIZES(call, p), SIZES(call, self));
    TRY(same_device(call, self, p));
    out_like(call, 0, self, self->dtype);
    return ST_OK;
}
