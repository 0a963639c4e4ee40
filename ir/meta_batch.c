/* meta_batch.c: batch, instance and group norm. Results have input's memory format (contiguous or channels_last);
 * statistics have one element per channel, or per sample and group. */
#include "ir/meta_rules.h"

static const Meta *tensor_named(const MetaCall *call, const char *name) {
    const int i = op_param_find(call->row, name);
    return i < 0 ? NULL : tensor_meta(call, i);
}
static void out_formatted(MetaCall *call, int i, const Meta *input, DType dtype) {
    out_suggested(call, i, input, dtype, input->sizes, input->rank);
}
static void out_empty(MetaCall *call, int i, const Meta *input, DType dtype) {
    const int64_t none = 0;
    out_plain(call, i, dtype, input->device, &none, 1);
}

static Status want_input(const MetaCall *call, const Meta *input, const char *name) {
    if (!dtype_is_float(input->dtype))
        return meta_fail(call, ST_DTYPE, "%s must be floating point, not %s", name, dtype_name(input->dtype));
    if (input->rank >= 2) return ST_OK;
    return meta_fail(call, ST_SHAPE, "%s %s must have at least 2 dims: samples and channels", name, SIZES(call, input));
}

static bool is_half(DType dtype) { return dtype == DT_f16 || dtype == DT_bf16; }

/* A parameter or statistic: one element per channel, in input's dtype; with halves f32, too. */
static Status want_channels(const MetaCall *call, const char *name, const Meta *input, int64_t channels) {
    const Meta *meta = tensor_named(call, name);
    if (!meta) return ST_OK;
    if (meta->dtype != input->dtype && !(is_half(input->dtype) && meta->dtype == DT_f32))
        return meta_fail(call, ST_DTYPE, "%s has dtype %s, input has %s", name, dtype_name(meta->dtype),
                         dtype_name(input->dtype));
    if (meta->rank == 1 && sym_same(call->env, meta->sizes[0], channels)) return same_device(call, input, meta);
    return meta_fail(call, ST_SHAPE, "%s %s must have one element per channel of input %s", name, SIZES(call, meta),
                     SIZES(call, input));
}

/* f32 where halves come with f32 parameters. */
static DType statistics_dtype(const MetaCall *call, const Meta *input) {
    static const char *const names[] = {"weight", "bias", "running_mean", "running_var"};
    for (int i = 0; i < COUNT_OF(names); i++) {
        const Meta *const meta = tensor_named(call, names[i]);
        if (meta && meta->dtype == DT_f32) return DT_f32;
    }
    return input->dtype;
}

/* batch norm ---------------------------------------------------------------------------------- */

static Status batch_args(const MetaCall *call, const Meta *input) {
    static const char *const names[] = {"weight", "bias", "running_mean", "running_var"};
    TRY(want_input(call, input, "input"));
    for (int i = 0; i < COUNT_OF(names); i++) TRY(want_channels(call, names[i], input, input->sizes[1]));
    return ST_OK;
}

/* Without the batch's own statistics there must be running ones. */
static Status want_running(const MetaCall *call, bool training) {
    if (training || (tensor_named(call, "running_mean") && tensor_named(call, "running_var"))) return ST_OK;
    if (op_param_find(call->row, "running_mean") < 0)
        return meta_fail(call, ST_ARGUMENT, "training must be true: there are no running statistics");
    return meta_fail(call, ST_ARGUMENT, "running_mean and running_var must be given outside of training");
}

static bool is_true(const Arg *arg) { return !arg || arg->kind != ARG_bool || arg->i; }

static Order channel_order(const Meta *input) {
    bool reduced[MAX_RANK];
    for (int d = 0; d < input->rank; d++) reduced[d] = d != 1;
    return reduction_order(input, reduced);
}

Status meta_batch_norm_stats(MetaCall *call) {
    const Meta *input = tensor_meta(call, 0);
    TRY(batch_args(call, input));
    out_formatted(call, 0, input, input->dtype);
    for (int i = 1; i < 4; i++)
        out_plain(call, i, is_half(input->dtype) ? DT_f32 : input->dtype, input->device, &input->sizes[1], 1);
    call->order = channel_order(input);
    return ST_OK;
}

Status meta_batch_norm_eval(MetaCall *call) {
    const Meta *input = tensor_meta(call, 0);
    TRY(batch_args(call, input));
    out_formatted(call, 0, input, input->dtype);
    for (int i = 1; i < 3; i++) out_empty(call, i, input, statistics_dtype(call, input));
    return ST_OK;
}

/* Rows that choose; further results are what the running statistics become, or an empty one. */
Status meta_native_batch_norm(MetaCall *call) {
    const Meta *input = tensor_meta(call, 0);
    const bool training = is_true(arg_named(call, "training")) || !tensor_named(call, "running_mean");
    TRY(batch_args(call, input));
    TRY(want_running(call, is_true(arg_named(call, "training"))));
    out_formatted(call, 0, input, input->dtype);
    for (int i = 1; i < 3; i++) {
        const DType kept = statistics_dtype(call, input);
        if (training)
            out_plain(call, i, kept, input->device, &input->sizes[1], 1);
        else
            out_empty(call, i, input, kept);
    }
    if (call->row->n_out == 4) out_empty(call, 3, input, DT_u8);
    for (int i = 3; call->row->n_out == 5 && i < 5; i++) {
        const Meta *const running = tensor_named(call, i == 3 ? "running_mean" : "running_var");
        out_plain(call, i, running->dtype, input->device, &input->sizes[1], 1);
    }
    return ST_OK;
}

Status meta_batch_norm(MetaCall *call) {
    const Meta *input = tensor_meta(call, 0);
    TRY(batch_args(call, input));
    TRY(want_running(call, is_true(arg_named(call, "training"))));
    out_formatted(call, 0, input, input->dtype);
    return ST_OK;
}

Status meta_instance_norm(MetaCall *call) {
    const Meta *input = tensor_meta(call, 0);
    TRY(batch_args(call, input));
    TRY(want_running(call, is_true(arg_named(call, "use_input_stats"))));
    out_plain(call, 0, input->dtype, input->device, input->sizes, input->rank);
    return ST_OK;
}

/* Gradients that output_mask leaves out are empty tensors: a graph has no undefined values. */
static Status gradients_out(MetaCall *call, const Meta *input, int64_t channels) {
    const Arg *const mask = arg_named(call, "output_mask");
    const Meta *const weight = tensor_named(call, "weight");
    if (mask->n != 3) return meta_fail(call, ST_ARGUMENT, "output_mask needs 3 entries, not %d", mask->n);
    const Meta *const grad = tensor_meta(call, 0);
    if (grad->rank != input->rank || !all_same(call->env, grad->sizes, input->sizes, input->rank))
        return meta_fail(call, ST_SHAPE, "grad_out %s and input %s must have the same sizes", SIZES(call, grad),
                         SIZES(call, input));
    for (int i = 0; i < 3; i++) {
        const DType dtype = i && weight ? weight->dtype : input->dtype;
        if (!mask->ints[i])
            out_empty(call, i, input, dtype);
        else if (i)
            out_plain(call, i, dtype, input->device, &channels, 1);
        else
            out_formatted(call, 0, input, input->dtype);
    }
    return ST_OK;
}

Status meta_native_batch_norm_backward(MetaCall *call) {
    const Meta *input = tensor_named(call, "input");
    const bool train = is_true(arg_named(call, "train"));
    TRY(batch_args(call, input));
    if (train && !(tensor_named(call, "save_mean") && tensor_named(call, "save_invstd")))
        return meta_fail(call, ST_ARGUMENT, "save_mean and save_invstd must be given in training");
    if (train) { /* else they are not read: what a forward with running statistics returned, which is empty */
        TRY(want_channels(call, "save_mean", input, input->sizes[1]));
        TRY(want_channels(call, "save_invstd", input, input->sizes[1]));
    }
    TRY(want_running(call, train));
    return gradients_out(call, input, input->sizes[1]);
}

/* group norm ---------------------------------------------------------------------------------- */

/* input [N, C, ...]: HxW elements per channel, C in `group` groups. */
static Status want_groups(const MetaCall *call, const Meta *input, int64_t channels, int64_t groups) {
    TRY(want_input(call, input, "input"));
    if (groups <= 0)
        return meta_fail(call, ST_ARGUMENT, "the number of groups must be positive, not %lld", (long long)groups);
    SymEnv *const env = call->env;
    for (int d = 1; d < input->rank; d++)
        if (sym_same(env, input->sizes[d], 0))
            return meta_fail(call, ST_SHAPE, "input %s must have channels and positions", SIZES(call, input));
    if (!sym_same(env, sym_mul(env, sym_div(env, channels, groups), groups), channels))
        return meta_fail(call, ST_SHAPE, "the channels of input %s can't be cut into %lld equal groups",
                         SIZES(call, input), (long long)groups);
    TRY(want_channels(call, "weight", input, channels));
    return want_channels(call, "bias", input, channels);
}

static Status group_args(const MetaCall *call, const Meta *input) {
    SymEnv *const env = call->env;
    const int64_t n = arg_named(call, "N")->i, c = arg_named(call, "C")->i, positions = arg_named(call, "HxW")->i;
    TRY(want_input(call, input, "input"));
    int64_t count = 1;
    for (int d = 2; d < input->rank; d++) count = sym_mul(env, count, input->sizes[d]);
    if (!sym_same(env, input->sizes[0], n) || !sym_same(env, input->sizes[1], c) || !sym_same(env, count, positions))
        return meta_fail(call, ST_SHAPE, "input %s does not have N %lld, C %lld and HxW %lld", SIZES(call, input),
                         (long long)sym_hint(env, n), (long long)sym_hint(env, c), (long long)sym_hint(env, positions));
    return want_groups(call, input, c, arg_named(call, "group")->i);
}

Status meta_native_group_norm(MetaCall *call) {
    const Meta *input = tensor_meta(call, 0);
    TRY(group_args(call, input));
    const int64_t sizes[] = {input->sizes[0], arg_named(call, "group")->i};
    out_formatted(call, 0, input, input->dtype);
    for (int i = 1; i < 3; i++) out_plain(call, i, statistics_dtype(call, input), input->device, sizes, 2);
    call->order = ORDER_L;
    return ST_OK;
}

Status meta_native_group_norm_backward(MetaCall *call) {
    const Meta *input = tensor_named(call, "input");
    TRY(group_args(call, input));
    const int64_t sizes[] = {input->sizes[0], arg_named(call, "group")->i};
    for (int i = 2; i < 4; i++) {
        const Meta *const meta = tensor_meta(call, i);
        if (meta->rank == 2 && all_same(call->env, meta->sizes, sizes, 2)) continue;
        return meta_fail(call, ST_SHAPE, "%s %s must have one element per sample and group: %s", arg_name(call, i),
                         SIZES(call, meta), sizes_text(call, sizes, 2).at);
    }
    return gradients_out(call, input, input->sizes[1]);
}

Status meta_group_norm(MetaCall *call) {
    const Meta *input = tensor_meta(call, 0);
    TRY(want_input(call, input, "input"));
    TRY(want_groups(call, input, input->sizes[1], call->args[1].i));
    out_formatted(call, 0, input, input->dtype);
    return ST_OK;
}
