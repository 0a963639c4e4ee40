/* decomp_convolution.c: conv1d to conv3d and their transposed forms as convolution; its backward as one kernel per
 * gradient. */
#include "passes/rules/decomp.h"

DecompFn decomp_conv, decomp_conv_padding, decomp_conv_transpose, decomp_convolution_backward;

enum { MAX_SPATIAL = 3 };

/* What convolution takes of these composites; one int stands for all dims. */
typedef struct Lists {
    int dims;
    int64_t stride[MAX_SPATIAL], padding[MAX_SPATIAL], dilation[MAX_SPATIAL], output_padding[MAX_SPATIAL];
} Lists;

static void spatial_list(const Arg *list, int dims, int64_t *out) {
    for (int i = 0; i < dims; i++) out[i] = list->ints[list->n == 1 ? 0 : i];
}

/* A batch of one where the batch dim is missing. */
static Status convolve_values(Builder *b, Val *x, const Arg *args, const Lists *l, const Arg *transposed_groups,
                              Val **outs) {
    const int rank = args[1].val->meta->rank;
    if (!x) return error_pending();
    const bool batched = x->meta->rank == rank;
    Val *const input = batched ? x : E(b, unsqueeze, V(x), I(0));
    Val *const y =
        E(b, convolution, V(input), args[1], args[2], A_INTS(l->stride, l->dims), A_INTS(l->padding, l->dims),
          A_INTS(l->dilation, l->dims), transposed_groups[0], A_INTS(l->output_padding, l->dims), transposed_groups[1]);
    return done1(outs, batched ? y : E(b, squeeze_dim, V(y), I(0)));
}

/* (input, weight, bias, stride, padding, dilation, groups) */
Status decomp_conv(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Lists l = {.dims = args[1].val->meta->rank - 2};
    spatial_list(&args[3], l.dims, l.stride);
    spatial_list(&args[4], l.dims, l.padding);
    spatial_list(&args[5], l.dims, l.dilation);
    return convolve_values(b, args[0].val, args, &l, (const Arg[]){A_BOOL(false), args[6]}, outs);
}

/* (input, weight, bias, stride, padding: 'same' or 'valid', dilation, groups): where 'same' needs one more element at
 * the end than at the beginning, input is padded by it first. */
Status decomp_conv_padding(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const weight = args[1].val->meta;
    Lists l = {.dims = weight->rank - 2};
    int64_t more[2 * MAX_SPATIAL] = {0};
    bool uneven = false;
    spatial_list(&args[3], l.dims, l.stride);
    spatial_list(&args[5], l.dims, l.dilation);
    for (int i = 0; i < l.dims && !strcmp(args[4].string, "same"); i++) {
        const int64_t total = sym_mul(b->env, l.dilation[i], sym_sub(b->env, weight->sizes[2 + i], 1));
        const bool odd = sym_same(b->env, sym_mod(b->env, total, 2), 1);
        l.padding[i] = sym_div(b->env, total, 2);
        more[2 * (l.dims - 1 - i) + 1] = odd;
        uneven = uneven || odd;
    }
    Val *const x = uneven ? E(b, constant_pad_nd, args[0], A_INTS(more, 2 * l.dims), I(0)) : args[0].val;
    return convolve_values(b, x, args, &l, (const Arg[]){A_BOOL(false), args[6]}, outs);
}

/* (input, weight, bias, stride, padding, output_padding, groups, dilation) */
Status decomp_conv_transpose(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Lists l = {.dims = args[1].val->meta->rank - 2};
    spatial_list(&args[3], l.dims, l.stride);
    spatial_list(&args[4], l.dims, l.padding);
    spatial_list(&args[5], l.dims, l.output_padding);
    spatial_list(&args[7], l.dims, l.dilation);
    return convolve_values(b, args[0].val, args, &l, (const Arg[]){A_BOOL(true), args[6]}, outs);
}

/* A gradient that nobody wants. */
static Val *no_statistics(Builder *b, DType dtype, Device device) {
    const int64_t none = 0;
    return E(b, zeros, A_INTS(&none, 1), I(dtype), A_NONE, I(device));
}

/* (grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask) */
Status decomp_convolution_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const grad = args[0].val->meta, *const input = args[1].val->meta, *const weight = args[2].val->meta;
    const int64_t *const mask = args[10].ints;
    const Arg last = A_BOOL(meta_suggests_channels_last(b->env, input) || meta_suggests_channels_last(b->env, weight));
    int64_t dims[2 + MAX_SPATIAL] = {0};
    Val *values[3];
    for (int i = 2; i < grad->rank; i++) dims[i - 1] = i;
    values[0] = !mask[0] ? no_statistics(b, input->dtype, input->device)
                         : E(b, convolution_input, args[0], args[2], A_INTS(input->sizes, input->rank), args[4],
                             args[5], args[6], args[7], args[9], last);
    values[1] = !mask[1] ? no_statistics(b, input->dtype, input->device)
                         : E(b, convolution_weight, args[0], args[1], A_INTS(weight->sizes, weight->rank), args[4],
                             args[5], args[6], args[7], args[9], last);
    values[2] = !mask[2] ? no_statistics(b, input->dtype, input->device)
                         : in_dtype(b, sum_over(b, args[0].val, dims, grad->rank - 1, false), input->dtype);
    return decomp_done(outs, 3, values);
}
