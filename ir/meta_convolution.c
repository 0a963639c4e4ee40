/* meta_convolution.c: convolutions: input [N, C, spatial], weight [O, C / groups, kernel] (transposed: [C, O / groups,
 * kernel]), 1 to 3 spatial dims. A result is channels_last where input or weight is, in one dim where weight is, as in
 * PyTorch (which in three dims asks its backend too). */
#include "ir/meta_rules.h"

MetaFn meta_convolution, meta_convolution_backward, meta_convolution_input, meta_convolution_weight, meta_conv;

enum { MAX_SPATIAL = 3 };
static const int64_t MOST = INT64_C(1) << 31; /* of a stride, padding or dilation: nothing overflows */

typedef struct ConvParams {
    int rank; /* of input and weight */
    bool transposed;
    int64_t groups;
    int64_t stride[MAX_SPATIAL], padding[MAX_SPATIAL], dilation[MAX_SPATIAL], output_padding[MAX_SPATIAL];
} ConvParams;

/* One number stands for all dims. */
static Status spatial_list(const MetaCall *call, const char *name, int64_t least, const ConvParams *g, int64_t *out) {
    const Arg *const list = arg_named(call, name);
    const int dims = g->rank - 2;
    for (int i = 0; i < dims; i++) out[i] = least > 0;
    if (!list || list->kind == ARG_string) return ST_OK;
    if (list->n != dims && list->n != 1)
        return meta_fail(call, ST_SHAPE, "%s needs 1 or %d ints, not %s", name, dims,
                         sizes_text(call, list->ints, list->n).at);
    for (int i = 0; i < dims; i++) {
        out[i] = sym_concrete(call->env, list->ints[list->n == 1 ? 0 : i]);
        if (out[i] < least || out[i] > MOST)
            return meta_fail(call, ST_VALUE, "%s must be from %lld to %lld, not %lld", name, (long long)least,
                             (long long)MOST, (long long)out[i]);
    }
    return ST_OK;
}

static Status read_geometry(const MetaCall *call, int rank, ConvParams *g) {
    const Arg *const transposed = arg_named(call, "transposed");
    const bool by_row = arg_named(call, "output_padding") != NULL; /* as conv_transpose1d has, not conv1d */
    *g = (ConvParams){.rank = rank, .groups = sym_concrete(call->env, arg_named(call, "groups")->i)};
    g->transposed = transposed ? transposed->i != 0 : by_row;
    if (rank < 3 || rank > 2 + MAX_SPATIAL)
        return meta_fail(call, ST_SHAPE, "weight must have 3 to %d dims, not %d", 2 + MAX_SPATIAL, rank);
    if (g->groups < 1) return meta_fail(call, ST_VALUE, "groups must be positive, not %lld", (long long)g->groups);
    TRY(spatial_list(call, "stride", 1, g, g->stride));
    TRY(spatial_list(call, "padding", 0, g, g->padding));
    TRY(spatial_list(call, "dilation", 1, g, g->dilation));
    TRY(spatial_list(call, "output_padding", 0, g, g->output_padding));
    for (int i = 0; g->transposed && i < rank - 2; i++)
        if (g->output_padding[i] >= max_i64(g->stride[i], g->dilation[i]))
            return meta_fail(call, ST_VALUE, "output_padding %lld of dim %d must be less than stride or dilation",
                             (long long)g->output_padding[i], i);
    return ST_OK;
}

/* Channels of input and result as weight has them; how many the result has. */
static Status channels_fit(const MetaCall *call, const ConvParams *g, const int64_t *input, const int64_t *weight,
                           int64_t *out) {
    const int rank = g->rank;
    const int64_t lead = weight[0], inner = sym_mul(call->env, weight[1], g->groups);
    const int64_t wanted = g->transposed ? lead : inner;
    *out = g->transposed ? inner : lead;
    if (sym_less(call->env, lead, g->groups) || !sym_same(call->env, sym_mod(call->env, lead, g->groups), 0))
        return meta_fail(call, ST_SHAPE, "weight %s must have a multiple of %lld groups in dim 0",
                         sizes_text(call, weight, rank).at, (long long)g->groups);
    if (sym_same(call->env, input[1], wanted)) return ST_OK;
    return meta_fail(call, ST_SHAPE, "input %s must have %lld channels for weight %s and groups %lld",
                     sizes_text(call, input, rank).at, (long long)sym_hint(call->env, wanted),
                     sizes_text(call, weight, rank).at, (long long)g->groups);
}

/* The result's size along spatial dim i. */
static Status size_along(const MetaCall *call, const ConvParams *g, int i, int64_t size, int64_t kernel, int64_t *out) {
    SymEnv *const env = call->env;
    const int64_t reach = sym_mul(env, g->dilation[i], sym_sub(env, kernel, 1)), around = 2 * g->padding[i];
    if (sym_less(env, kernel, 1) || sym_less(env, size, 1))
        return meta_fail(call, ST_SHAPE, "input size %lld and kernel size %lld of spatial dim %d must be positive",
                         (long long)sym_hint(env, size), (long long)sym_hint(env, kernel), i);
    if (g->transposed) {
        const int64_t spread = sym_mul(env, sym_sub(env, size, 1), g->stride[i]);
        *out = sym_add(env, sym_sub(env, sym_add(env, spread, reach), around), g->output_padding[i] + 1);
    } else {
        const int64_t capacity = sym_sub(env, sym_sub(env, sym_add(env, size, around), reach), 1);
        *out = sym_less(env, capacity, 0) ? 0 : sym_add(env, sym_div(env, capacity, g->stride[i]), 1);
    }
    if (!sym_less(env, *out, 1)) return ST_OK;
    return meta_fail(
        call, ST_SHAPE,
        "kernel size %lld with dilation %lld and padding %lld does not fit input size %lld of spatial dim %d",
        (long long)sym_hint(env, kernel), (long long)g->dilation[i], (long long)g->padding[i],
        (long long)sym_hint(env, size), i);
}

static Status result_sizes(const MetaCall *call, const ConvParams *g, const int64_t *input, const int64_t *weight,
                           int64_t *out) {
    out[0] = input[0];
    TRY(channels_fit(call, g, input, weight, &out[1]));
    for (int i = 2; i < g->rank; i++) TRY(size_along(call, g, i - 2, input[i], weight[i], &out[i]));
    return check_numel(call, out, g->rank);
}

static Status want_dtype(const MetaCall *call, const ConvParams *g, int a, int b) {
    const Meta *const left = tensor_meta(call, a), *const right = tensor_meta(call, b);
    if (left->dtype != right->dtype)
        return meta_fail(call, ST_DTYPE, "%s is %s, but %s is %s", arg_name(call, a), dtype_name(left->dtype),
                         arg_name(call, b), dtype_name(right->dtype));
    const bool fits = dtype_is_float(left->dtype) || left->dtype == DT_i64 ||
                      (dtype_is_int(left->dtype) && !g->transposed); /* as PyTorch */
    if (!fits)
        return meta_fail(call, ST_DTYPE, "%snot implemented for dtype %s", g->transposed ? "transposed: " : "",
                         dtype_name(left->dtype));
    return same_device(call, left, right);
}

static Status bias_fits(const MetaCall *call, int i, const ConvParams *g, int64_t channels) {
    const Meta *const bias = tensor_meta(call, i);
    if (!bias) return ST_OK;
    TRY(want_dtype(call, g, 0, i));
    if (bias->rank == 1 && sym_same(call->env, bias->sizes[0], channels)) return ST_OK;
    return meta_fail(call, ST_SHAPE, "bias %s must have 1 dim of %lld elements", SIZES(call, bias),
                     (long long)sym_hint(call->env, channels));
}

/* One spatial dim counts as the last of two. */
static bool suggests_last(SymEnv *env, const Meta *meta) {
    if (meta->rank != 3) return meta_suggests_channels_last(env, meta);
    const int64_t *const n = meta->sizes, *const s = meta->strides;
    const int64_t sizes[4] = {n[0], n[1], 1, n[2]}, strides[4] = {s[0], s[1], sym_mul(env, n[2], s[2]), s[2]};
    Meta image = *meta;
    image.rank = 4, image.sizes = sizes, image.strides = strides;
    return meta_suggests_channels_last(env, &image);
}

static bool is_last(const MetaCall *call, const Meta *input, const Meta *weight) {
    return (weight->rank > 3 && suggests_last(call->env, input)) || suggests_last(call->env, weight);
}

static void out_in(MetaCall *call, int i, const Meta *like, const int64_t *sizes, bool last) {
    out_plain(call, i, like->dtype, like->device, sizes, like->rank);
    if (last) out_channels_last(call, &call->out[i]);
}

Status meta_convolution(MetaCall *call) {
    const Meta *const input = tensor_meta(call, 0), *const weight = tensor_meta(call, 1);
    ConvParams g;
    int64_t sizes[2 + MAX_SPATIAL];
    TRY(read_geometry(call, weight->rank, &g));
    if (input->rank != weight->rank)
        return meta_fail(call, ST_SHAPE, "input %s must have as many dims as weight %s", SIZES(call, input),
                         SIZES(call, weight));
    TRY(want_dtype(call, &g, 0, 1));
    TRY(result_sizes(call, &g, input->sizes, weight->sizes, sizes));
    TRY(bias_fits(call, 2, &g, sizes[1]));
    out_in(call, 0, input, sizes, is_last(call, input, weight));
    call->order = ORDER_chain;
    return ST_OK;
}

/* Gradients that output_mask leaves out are empty tensors: a graph has no undefined values. */
Status meta_convolution_backward(MetaCall *call) {
    const Meta *const grad = tensor_meta(call, 0), *const input = tensor_meta(call, 1),
                      *const weight = tensor_meta(call, 2);
    const Arg *const mask = arg_named(call, "output_mask");
    const int64_t none = 0;
    ConvParams g;
    int64_t sizes[2 + MAX_SPATIAL];
    TRY(read_geometry(call, weight->rank, &g));
    if (mask->n != 3) return meta_fail(call, ST_ARGUMENT, "output_mask needs 3 entries");
    if (input->rank != weight->rank)
        return meta_fail(call, ST_SHAPE, "input %s must have as many dims as weight %s", SIZES(call, input),
                         SIZES(call, weight));
    TRY(want_dtype(call, &g, 0, 1));
    TRY(want_dtype(call, &g, 1, 2));
    TRY(result_sizes(call, &g, input->sizes, weight->sizes, sizes));
    if (grad->rank != g.rank || !all_same(call->env, grad->sizes, sizes, g.rank))
        return meta_fail(call, ST_SHAPE, "grad_output %s must have the result's sizes %s", SIZES(call, grad),
                         sizes_text(call, sizes, g.rank).at);
    const bool last = is_last(call, input, weight);
    for (int i = 0; i < 3; i++) {
        if (!mask->ints[i] || i == 2)
            out_plain(call, i, input->dtype, input->device, mask->ints[i] ? &sizes[1] : &none, 1);
        else
            out_in(call, i, i ? weight : input, i ? weight->sizes : input->sizes, last);
    }
    call->order = ORDER_chain;
    return ST_OK;
}

/* sn::convolution_input(grad_output, weight, size, ...) or sn::convolution_weight(grad_output, input, size, ...). */
static Status gradient_part(MetaCall *call, bool of_weight) {
    const Meta *const grad = tensor_meta(call, 0), *const other = tensor_meta(call, 1);
    const Arg *const size = arg_named(call, "size");
    int64_t channels;
    ConvParams g;
    if (other->rank != grad->rank || size->n != grad->rank)
        return meta_fail(call, ST_SHAPE, "grad_output %s, %s %s and size %s must have as many dims", SIZES(call, grad),
                         arg_name(call, 1), SIZES(call, other), sizes_text(call, size->ints, size->n).at);
    TRY(read_geometry(call, grad->rank, &g));
    TRY(want_dtype(call, &g, 0, 1));
    TRY(check_numel(call, size->ints, size->n));
    const int64_t *const input = of_weight ? other->sizes : size->ints, *const weight =
                                                                            of_weight ? size->ints : other->sizes;
    TRY(channels_fit(call, &g, input, weight, &channels));
    if (!sym_same(call->env, channels, grad->sizes[1]) || !sym_same(call->env, input[0], grad->sizes[0]))
        return meta_fail(call, ST_SHAPE, "grad_output %s does not fit input %s and weight %s", SIZES(call, grad),
                         sizes_text(call, input, g.rank).at, sizes_text(call, weight, g.rank).at);
    out_in(call, 0, grad, size->ints, arg_named(call, "channels_last")->i != 0);
    call->order = ORDER_chain;
    return ST_OK;
}

Status meta_convolution_input(MetaCall *call) { return gradient_part(call, false); }
Status meta_convolution_weight(MetaCall *call) { return gradient_part(call, true); }

/* composites ------------------------------------------------------------------------------------------------------ */

/* 'same' keeps the sizes, which a stride would not. */
static Status named_padding(const MetaCall *call, const ConvParams *g, const Arg *padding) {
    const bool same = !strcmp(padding->string, "same");
    if (!same && strcmp(padding->string, "valid"))
        return meta_fail(call, ST_ARGUMENT, "padding must be 'same' or 'valid', not '%s'", padding->string);
    for (int i = 0; same && i < g->rank - 2; i++)
        if (g->stride[i] != 1)
            return meta_fail(call, ST_VALUE, "padding 'same' needs stride 1, not %lld", (long long)g->stride[i]);
    return ST_OK;
}

/* [C, spatial] is a batch of one whose result has no batch dim either. */
Status meta_conv(MetaCall *call) {
    const Meta *const input = tensor_meta(call, 0), *const weight = tensor_meta(call, 1);
    const Arg *const padding = arg_named(call, "padding");
    const int rank = 2 + list_length(call, op_param_find(call->row, "stride"));
    int64_t batched[2 + MAX_SPATIAL] = {1}, strides[2 + MAX_SPATIAL] = {1}, sizes[2 + MAX_SPATIAL];
    ConvParams g;
    if (input->rank != rank && input->rank != rank - 1)
        return meta_fail(call, ST_SHAPE, "input %s must have %d dims (a batch) or %d", SIZES(call, input), rank,
                         rank - 1);
    if (weight->rank != rank)
        return meta_fail(call, ST_SHAPE, "weight %s must have %d dims", SIZES(call, weight), rank);
    const int added = rank - input->rank;
    memcpy(batched + added, input->sizes, sizeof *batched * (size_t)input->rank);
    memcpy(strides + added, input->strides, sizeof *strides * (size_t)input->rank);
    if (added) strides[0] = sym_mul(call->env, batched[1], strides[1]); /* as unsqueeze has it */
    TRY(read_geometry(call, rank, &g));
    TRY(want_dtype(call, &g, 0, 1));
    if (padding->kind == ARG_string) TRY(named_padding(call, &g, padding));
    if (padding->kind == ARG_string && !strcmp(padding->string, "same")) {
        memcpy(sizes, batched, sizeof sizes);
        TRY(channels_fit(call, &g, batched, weight->sizes, &sizes[1]));
    } else {
        TRY(result_sizes(call, &g, batched, weight->sizes, sizes));
    }
    TRY(bias_fits(call, 2, &g, sizes[1]));
    MetaOut *const out = &call->out[0];
    const Meta whole = {.rank = rank, .contiguous = input->contiguous, .sizes = batched, .strides = strides};
    out_plain(call, 0, input->dtype, input->device, sizes, rank);
    if (is_last(call, &whole, weight)) out_channels_last(call, out);
    out->rank = input->rank;
    memmove(out->sizes, out->sizes + added, sizeof *out->sizes * (size_t)out->rank);
    memmove(out->strides, out->strides + added, sizeof *out->strides * (size_t)out->rank);
    return ST_OK;
}
