/* deriv_convolution.c: a convolution is linear in input, in weight and in bias, so every derivative is a convolution
 * or a part of its backward. */
#include "passes/rules/deriv.h"
#include "ir/op_ids.h"

/* Parts of convolution_backward(grad_output, input, weight) with the geometry of `rest`: stride, padding, dilation,
 * transposed, output_padding, groups. */
static Status backward(Builder *b, Val *const *tensors, const Arg *rest, const int64_t *mask, Val **outs) {
    const Arg args[] = {V(tensors[0]), V(tensors[1]), V(tensors[2]), A_NONE,  rest[0],        rest[1],
                        rest[2],       rest[3],       rest[4],       rest[5], A_INTS(mask, 3)};
    return emit(b, OP_convolution_backward, args, COUNT_OF(args), outs);
}

/* (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups) */
Status deriv_convolution(Deriv *d) {
    const int64_t mask[] = {wants(d, 0), wants(d, 1), wants(d, 2)};
    Val *grads[3] = {0};
    TRY(backward(d->b, (Val *[]){grad_of(d), saved(d, 0), saved(d, 1)}, &d->args[3], mask, grads));
    for (int i = 0; i < 3; i++)
        if (mask[i]) TRY(deriv_set(d, i, grads[i]));
    return ST_OK;
}

static Val *plus_gradient(Builder *b, Val *sum, Val *more) { /* either may be absent */
    return !more ? sum : !sum ? more : add(b, sum, more);
}

static Val *convolve_gradient(Builder *b, Val *input, Val *weight, const Arg *rest) {
    return E(b, convolution, V(input), V(weight), A_NONE, rest[0], rest[1], rest[2], rest[3], rest[4], rest[5]);
}

/* One number per channel, for every element of it. */
static Val *over_channels(Builder *b, Val *bias, const Meta *like) {
    int64_t sizes[MAX_RANK];
    for (int i = 0; i < like->rank; i++) sizes[i] = i == 1 ? like->sizes[1] : 1;
    return expand_to(b, reshape_to(b, bias, sizes, like->rank), like->sizes, like->rank);
}

/* (grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask): with
 * gradients u, v, z of the three results, <u, backward to input> + <v, backward to weight> + <z, sum of grad_output>
 * is linear in each of the three tensors. */
Status deriv_convolution_backward(Deriv *d) {
    Builder *const b = d->b;
    const Arg *const rest = &d->args[4];
    Val *const go = saved(d, 0), *const x = saved(d, 1), *const w = saved(d, 2), *at[3], *grads[3] = {0};
    for (int i = 0; i < 3; i++) at[i] = d->args[10].ints[i] ? d->grad_out[i] : NULL; /* what is left out is empty */
    if (wants(d, 0)) {
        Val *sum = at[0] ? convolve_gradient(b, at[0], w, rest) : NULL;
        sum = plus_gradient(b, sum, at[1] ? convolve_gradient(b, x, at[1], rest) : NULL);
        sum = plus_gradient(b, sum, at[2] ? over_channels(b, at[2], d->arg_meta[0]) : NULL);
        if (sum) TRY(deriv_set(d, 0, sum));
    }
    if (wants(d, 1) && at[1]) {
        TRY(backward(b, (Val *[]){go, x, at[1]}, rest, (const int64_t[]){1, 0, 0}, grads));
        TRY(deriv_set(d, 1, grads[0]));
    }
    if (wants(d, 2) && at[0]) {
        TRY(backward(b, (Val *[]){go, at[0], w}, rest, (const int64_t[]){0, 1, 0}, grads));
        TRY(deriv_set(d, 2, grads[1]));
    }
    return error_pending();
}
