/* meta_activation.c: activations whose arguments must fit each other. */
#include <math.h>

#include "ir/meta_rules.h"

MetaFn meta_unary_float_only, meta_backward_float, meta_glu;

static const FloatLimit not_negative = {0, INFINITY, .nan = true};

/* A number that is known now: 0 never varies (OPF_branches). */
static bool is_zero(const Arg *number) {
    return (number->kind == ARG_float || number->kind == ARG_int || number->kind == ARG_bool) &&
           arg_double(number) == 0;
}

Status meta_softshrink(MetaCall *call) {
    TRY(meta_unary_float_only(call));
    return number_within(call, 1, (FloatLimit){0, dtype_largest_float(call->out[0].dtype)},
                         "finite in the result's dtype and not negative");
}

Status meta_celu(MetaCall *call) {
    if (is_zero(&call->args[1])) return meta_fail(call, ST_VALUE, "alpha must not be 0");
    return meta_unary_float_only(call);
}

/* From the result only where its sign is the argument's. */
Status meta_leaky_relu_backward(MetaCall *call) {
    if (call->args[3].i)
        TRY(number_within(call, 2, not_negative, "not negative: the result does not tell the argument"));
    return meta_backward_float(call);
}
Status meta_elu_backward(MetaCall *call) {
    if (call->args[4].i)
        TRY(number_within(call, 1, not_negative, "not negative: the result does not tell the argument"));
    return meta_backward_float(call);
}

/* Row-major, as PyTorch makes it for the buffer's sake. */
Status meta_log_sigmoid(MetaCall *call) {
    TRY(meta_unary_float_only(call));
    out_contiguous(call, &call->out[0]);
    return ST_OK;
}

Status meta_log_sigmoid_forward(MetaCall *call) {
    TRY(meta_log_sigmoid(call));
    call->out[1] = call->out[0];
    return ST_OK;
}

Status meta_prelu_kernel_backward(MetaCall *call) {
    TRY(meta_backward_float(call));
    call->out[1] = call->out[0];
    return ST_OK;
}

/* What _prelu_kernel gives of self and a view of the weights with self's dims. */
static Status along_weights(MetaCall *call, const Meta *self, const Meta *weight) {
    Elementwise e = {0};
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    Meta view = *weight;
    elementwise_add(call, &e, 0);
    elementwise_add(call, &e, 1);
    for (int d = 0; d < self->rank; d++) sizes[d] = d == 1 && weight->rank ? weight->sizes[0] : 1;
    view.rank = self->rank, view.sizes = sizes, view.strides = strides;
    if (meta_view_strides(call->env, weight, sizes, self->rank, strides)) e.in[1] = &view;
    return elementwise_out(call, &e, self->dtype);
}

Status meta_prelu(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0), *const weight = tensor_meta(call, 1);
    if (weight->dtype != self->dtype)
        return meta_fail(call, ST_DTYPE, "weight is %s, but self is %s", dtype_name(weight->dtype),
                         dtype_name(self->dtype));
    const bool one = weight->rank <= 1 && sym_same(call->env, weight->numel, 1);
    const int64_t channels = self->rank > 1 ? self->sizes[1] : 1;
    if (!one && (weight->rank != 1 || !self->rank || !sym_same(call->env, weight->sizes[0], channels)))
        return meta_fail(call, ST_SHAPE, "weight %s must be one, or one for each position of dim 1 of self %s",
                         SIZES(call, weight), SIZES(call, self));
    TRY(same_device(call, self, weight));
    if (!dtype_is_float(self->dtype))
        return meta_fail(call, ST_DTYPE, "self must be floating point, not %s", dtype_name(self->dtype));
    return along_weights(call, self, weight);
}

Status meta_glu_backward(MetaCall *call) {
    const Meta *const grad = tensor_meta(call, 0), *const self = tensor_meta(call, 1);
    const Arg *const own = call->args, of_self[] = {own[1], own[2]};
    call->args = of_self;
    const Status status = meta_glu(call);
    call->args = own;
    TRY(status);
    const MetaOut *const half = &call->out[0];
    bool same = grad->rank == half->rank;
    for (int d = 0; same && d < half->rank; d++) same = sym_same(call->env, grad->sizes[d], half->sizes[d]);
    if (!same)
        return meta_fail(call, ST_SHAPE, "grad_output %s must have the sizes of the result, %s", SIZES(call, grad),
                         sizes_text(call, half->sizes, half->rank).at);
    out_plain(call, 0, self->dtype, self->device, self->sizes, self->rank);
    return ST_OK;
}
