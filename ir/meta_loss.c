/* meta_loss.c: losses that are a function per element, reduced, and their gradients. */
#include "ir/meta_rules.h"

MetaFn meta_loss;

static Status check_reduction(const MetaCall *call) {
    const int64_t how = arg_named(call, "reduction")->i;
    if (how >= REDUCTION_none && how <= REDUCTION_sum) return ST_OK;
    return meta_fail(call, ST_ARGUMENT, "reduction must be 0 (none), 1 (mean) or 2 (sum), not %lld", (long long)how);
}

static Status at_least(const MetaCall *call, const char *name, double least, bool above) {
    const double value = arg_double(arg_named(call, name));
    if (above ? value > least : value >= least) return ST_OK;
    return meta_fail(call, ST_VALUE, "%s must be %s 0, but is %g", name, above ? "above" : "at least", value);
}

Status meta_huber_loss(MetaCall *call) {
    TRY(at_least(call, "delta", 0, true));
    return meta_loss(call);
}
Status meta_smooth_l1_loss(MetaCall *call) {
    TRY(at_least(call, "beta", 0, false));
    return meta_loss(call);
}

/* All tensors that are given, of floats. */
static Status floats_of(MetaCall *call, Elementwise *e, DType *dtype) {
    for (int i = 0; i < call->row->n_params; i++) {
        const ParamType type = call->row->params[i].type;
        if ((type == PT_tensor || type == PT_tensor_opt) && arg_given(call, i)) elementwise_add(call, e, i);
    }
    TRY(check_reduction(call));
    *dtype = promoted(e);
    if (dtype_is_float(*dtype)) return ST_OK;
    return meta_fail(call, ST_DTYPE, "self must be floating point, not %s", dtype_name(*dtype));
}

Status meta_loss_backward(MetaCall *call) {
    Elementwise e = {0};
    DType dtype;
    TRY(floats_of(call, &e, &dtype));
    return elementwise_out(call, &e, dtype);
}

/* The gradient takes self's dtype, whatever the other operands are. */
static Status pair_gradient(MetaCall *call) {
    TRY(meta_loss_backward(call));
    const DType self = tensor_meta(call, 1)->dtype;
    call->out[0].dtype = self;
    if (dtype_is_float(self)) return ST_OK;
    return meta_fail(call, ST_DTYPE, "self must be floating point, not %s", dtype_name(self));
}

/* Row-major, as PyTorch makes room for it (zeros_like(self)). */
Status meta_pair_backward(MetaCall *call) {
    TRY(pair_gradient(call));
    out_contiguous(call, &call->out[0]);
    return ST_OK;
}

/* Of self's layout, as PyTorch makes room for it (empty_like(self)). */
Status meta_cross_entropy_backward(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 1);
    TRY(pair_gradient(call));
    const MetaOut *const out = &call->out[0];
    const bool whole = out->rank == self->rank && all_same(call->env, out->sizes, self->sizes, self->rank);
    if (whole) out_like(call, 0, self, call->out[0].dtype);
    return ST_OK;
}

/* One value, or as many as there are elements. */
static Status reduced_loss(MetaCall *call) {
    TRY(meta_loss_backward(call));
    const MetaOut out = call->out[0];
    if (arg_named(call, "reduction")->i != REDUCTION_none) out_plain(call, 0, out.dtype, out.device, NULL, 0);
    return ST_OK;
}

static Status loss_of_pairs(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0), *const target = tensor_meta(call, 1);
    if (self->rank != target->rank || !all_same(call->env, self->sizes, target->sizes, self->rank))
        return meta_fail(call, ST_SHAPE, "target %s must have the sizes of self %s", SIZES(call, target),
                         SIZES(call, self));
    TRY(reduced_loss(call));
    const bool floats = dtype_is_float(self->dtype) && dtype_is_float(target->dtype); /* a weight widens nothing */
    if (floats) call->out[0].dtype = dtype_promote(self->dtype, target->dtype);
    return ST_OK;
}
Status meta_binary_cross_entropy(MetaCall *call) { return loss_of_pairs(call); }
Status meta_cross_entropy_logits(MetaCall *call) { return loss_of_pairs(call); }
