/* decomp_activation.c: activations that are others put together, and gradients with several results. */
#include "passes/rules/decomp.h"

DecompFn decomp_selu, decomp_prelu, decomp_prelu_kernel_backward, decomp_glu_backward, decomp_log_sigmoid_forward;

Status decomp_selu(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, elu, args[0], F(1.6732632423543772848), F(1.0507009873554804935), I(1)));
}

/* The weights along dim 1. */
Status decomp_prelu(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const self = args[0].val->meta, *const given = args[1].val->meta;
    Val *weight = args[1].val;
    int64_t sizes[MAX_RANK];
    for (int d = 0; d < self->rank; d++) sizes[d] = d == 1 && given->rank ? given->sizes[0] : 1;
    if (self->rank != given->rank) weight = reshaped(b, weight, sizes, self->rank);
    return done1(outs, E(b, _prelu_kernel, args[0], V(weight)));
}

Status decomp_prelu_kernel_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const above = E(b, gt_Tensor, args[1], F(0));
    Val *const by_self = E(b, where_self, V(above), args[0], V(E(b, mul_Tensor, args[0], args[2])));
    Val *const by_weight = E(b, where_self, V(above), F(0), V(E(b, mul_Tensor, args[0], args[1])));
    if (!by_self || !by_weight) return error_pending();
    const Meta *const whole = meta_same_sizes(by_self->meta, by_weight->meta) ? NULL : by_self->meta;
    Val *const spread = whole ? E(b, expand, V(by_weight), A_INTS(whole->sizes, whole->rank)) : by_weight;
    Val *const each[2] = {in_layout_of(b, row, args, 0, by_self), in_layout_of(b, row, args, 1, spread)};
    return decomp_done(outs, 2, each);
}

/* value s(gate): s for the value, value s(1 - s) for the gate, where s is that of -|gate|: the same, and 1 - s keeps
 * its digits. One op for the slope has one path of gradients: of two, infinities of both signs would meet. */
Status decomp_glu_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const self = args[1].val->meta;
    const int dim = dim_of(&args[2], self->rank);
    const int64_t half = args[0].val->meta->sizes[dim]; /* no quotient: a whole is twice that */
    Val *const x = widened(b, args[1].val), *const grad = widened(b, args[0].val);
    Val *const value = E(b, slice_Tensor, V(x), I(dim), I(0), I(half));
    Val *const gate = E(b, slice_Tensor, V(x), I(dim), I(half), I(self->sizes[dim]));
    Val *const by_value = E(b, mul_Tensor, V(grad), V(E(b, sigmoid, V(gate))));
    Val *const above = E(b, gt_Tensor, V(gate), F(0));
    Val *const below = E(b, where_self, V(above), V(E(b, neg, V(gate))), V(gate));
    Val *const slope = E(b, sigmoid_backward, V(grad), V(E(b, sigmoid, V(below))));
    Val *const parts[] = {by_value, E(b, mul_Tensor, V(slope), V(value))};
    if (!parts[0] || !parts[1]) return error_pending();
    return done1(outs, in_dtype(b, E(b, cat, A_VALS(parts, 2), I(dim)), self->dtype));
}

Status decomp_log_sigmoid_forward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const buffer = E(b, exp, V(E(b, neg, V(E(b, abs, args[0])))));
    return decomp_done(outs, 2, (Val *const[]){E(b, log_sigmoid, args[0]), made_contiguous(b, buffer)});
}
