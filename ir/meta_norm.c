/* meta_norm.c: softmax, norms, losses and dropout. Results are contiguous; statistics keep the reduced dims as 1. */
#include "ir/meta_rules.h"

static Status want_float(const MetaCall *call, int i) {
    const Meta *meta = tensor_meta(call, i);
    if (dtype_is_float(meta->dtype)) return ST_OK;
    return meta_fail(call, ST_DTYPE, "%s must be floating point, not %s", arg_name(call, i), dtype_name(meta->dtype));
}

/* Where there is nothing to compute PyTorch takes any dtype. */
static Status want_float_softmax(const MetaCall *call, DType dtype) {
    const Meta *self = tensor_meta(call, 0);
    if (dtype_is_float(dtype) || sym_identical(self->numel, 0)) return ST_OK;
    return meta_fail(call, ST_DTYPE, "self must be floating point, not %s", dtype_name(dtype));
}

static void out_same(MetaCall *call, int i, const Meta *like, DType dtype) {
    out_plain(call, i, dtype, like->device, like->sizes, like->rank);
}

static Order order_of_dim(const Meta *in, int dim) { return in->rank && dim != in->rank - 1 ? ORDER_S : ORDER_L; }

Status meta_softmax(MetaCall *call) {
    const Meta *self = tensor_meta(call, 0);
    int dim = 0;
    TRY(want_float_softmax(call, self->dtype));
    TRY(wrap_dim(call, call->args[1].i, self->rank, "dim", &dim));
    if (call->args[2].i && self->dtype != DT_f16 && self->dtype != DT_bf16)
        return meta_fail(call, ST_DTYPE, "half_to_float needs f16 or bf16, not %s", dtype_name(self->dtype));
    out_same(call, 0, self, call->args[2].i ? DT_f32 : self->dtype);
    call->order = order_of_dim(self, dim);
    return ST_OK;
}

static Status softmax_in_dtype(MetaCall *call, int *dim) {
    const Meta *self = tensor_meta(call, 0);
    const DType dtype = dtype_arg(call, "dtype", self->dtype);
    TRY(wrap_dim(call, call->args[1].i, self->rank, "dim", dim));
    TRY(want_float_softmax(call, dtype));
    out_same(call, 0, self, dtype);
    return ST_OK;
}

Status meta_softmax_int(MetaCall *call) {
    int dim = 0;
    return softmax_in_dtype(call, &dim);
}

Status meta_safe_softmax(MetaCall *call) {
    int dim = 0;
    TRY(softmax_in_dtype(call, &dim));
    call->order = order_of_dim(tensor_meta(call, 0), dim);
    return ST_OK;
}

static Status same_sizes(const MetaCall *call, int a, int b) {
    const Meta *left = tensor_meta(call, a), *right = tensor_meta(call, b);
    bool same = left->rank == right->rank;
    for (int i = 0; same && i < left->rank; i++) same = sym_same(call->env, left->sizes[i], right->sizes[i]);
    if (same) return ST_OK;
    return meta_fail(call, ST_SHAPE, "%s %s and %s %s must have the same sizes", arg_name(call, a), SIZES(call, left),
                     arg_name(call, b), SIZES(call, right));
}

Status meta_softmax_backward(MetaCall *call) {
    const Meta *grad = tensor_meta(call, 0);
    int dim = 0;
    TRY(same_sizes(call, 0, 1));
    TRY(wrap_dim(call, call->args[2].i, grad->rank, "dim", &dim));
    out_same(call, 0, grad, dtype_arg(call, "input_dtype", grad->dtype));
    call->order = order_of_dim(grad, dim);
    return ST_OK;
}

/* norms --------------------------------------------------------------------------------------- */

static Status ends_with(const MetaCall *call, const Meta *input, const Arg *shape) {
    const int lead = input->rank - shape->n;
    bool fits = lead >= 0 && shape->n > 0;
    for (int i = 0; fits && i < shape->n; i++) fits = sym_same(call->env, input->sizes[lead + i], shape->ints[i]);
    if (fits) return ST_OK;
    return meta_fail(call, ST_SHAPE, "input %s does not end in normalized_shape %s", SIZES(call, input),
                     sizes_text(call, shape->ints, shape->n).at);
}

static Status has_shape(const MetaCall *call, int i, const Arg *shape) {
    const Meta *meta = tensor_meta(call, i);
    if (!meta) return ST_OK;
    bool fits = meta->rank == shape->n;
    for (int k = 0; fits && k < shape->n; k++) fits = sym_same(call->env, meta->sizes[k], shape->ints[k]);
    if (fits) return ST_OK;
    return meta_fail(call, ST_SHAPE, "%s %s must have sizes %s", arg_name(call, i), SIZES(call, meta),
                     sizes_text(call, shape->ints, shape->n).at);
}

static Status norm_args(MetaCall *call, int input, const char *weight, const char *bias) {
    const Arg *shape = arg_named(call, "normalized_shape");
    TRY(want_float(call, input));
    TRY(ends_with(call, tensor_meta(call, input), shape));
    TRY(has_shape(call, op_param_find(call->row, weight), shape));
    const int b = op_param_find(call->row, bias); /* rms_norm has none */
    return b < 0 ? ST_OK : has_shape(call, b, shape);
}

/* The dtype of both parameters, which is input's, or f32 beside halves; input's, where there are none. */
static Status parameter_dtype(const MetaCall *call, const Meta *input, DType *dtype) {
    static const char *const names[] = {"weight", "bias"};
    const Meta *found = NULL;
    for (int i = 0; i < COUNT_OF(names); i++) {
        const int at = op_param_find(call->row, names[i]);
        const Meta *const meta = at < 0 ? NULL : tensor_meta(call, at);
        if (!meta) continue;
        const bool wider = dtype_bytes(input->dtype) == 2 && meta->dtype == DT_f32;
        if (meta->dtype != input->dtype && !wider)
            return meta_fail(call, ST_DTYPE, "%s has dtype %s, input has %s", names[i], dtype_name(meta->dtype),
                             dtype_name(input->dtype));
        if (found && found->dtype != meta->dtype)
            return meta_fail(call, ST_DTYPE, "%s has dtype %s, weight has %s", names[i], dtype_name(meta->dtype),
                             dtype_name(found->dtype));
        found = meta;
    }
    *dtype = (found ? found : input)->dtype;
    return ST_OK;
}

Status meta_layer_norm(MetaCall *call) {
    const Meta *input = tensor_meta(call, 0);
    TRY(norm_args(call, 0, "weight", "bias"));
    out_same(call, 0, input, input->dtype);
    return ST_OK;
}

/* Of the mean and rstd: input's, with 1 where it is normalized. */
static void row_sizes(const Meta *input, int n_normalized, int64_t sizes[MAX_RANK]) {
    for (int i = 0; i < input->rank; i++) sizes[i] = i < input->rank - n_normalized ? input->sizes[i] : 1;
}

Status meta_native_layer_norm(MetaCall *call) {
    const Meta *input = tensor_meta(call, 0);
    int64_t sizes[MAX_RANK];
    DType kept;
    TRY(norm_args(call, 0, "weight", "bias"));
    TRY(parameter_dtype(call, input, &kept));
    row_sizes(input, arg_named(call, "normalized_shape")->n, sizes);
    out_same(call, 0, input, input->dtype);
    for (int i = 1; i < 3; i++) out_plain(call, i, kept, input->device, sizes, input->rank);
    call->order = ORDER_L;
    return ST_OK;
}

static Status want_rows(const MetaCall *call, int i, const Meta *input, int n_normalized) {
    const Meta *const meta = tensor_meta(call, i);
    int64_t sizes[MAX_RANK];
    row_sizes(input, n_normalized, sizes);
    bool fits = meta->rank == input->rank;
    for (int d = 0; fits && d < input->rank; d++) fits = sym_same(call->env, meta->sizes[d], sizes[d]);
    if (fits) return ST_OK;
    return meta_fail(call, ST_SHAPE, "%s %s must have the sizes that the norm gave it: %s", arg_name(call, i),
                     SIZES(call, meta), sizes_text(call, sizes, input->rank).at);
}

/* Gradients that output_mask leaves out are empty tensors: a graph has no undefined values. */
Status meta_native_layer_norm_backward(MetaCall *call) {
    const Meta *input = tensor_meta(call, 1);
    const Arg *shape = arg_named(call, "normalized_shape"), *mask = arg_named(call, "output_mask");
    const int64_t none = 0;
    TRY(same_sizes(call, 0, 1));
    TRY(norm_args(call, 1, "weight", "bias"));
    DType dtype;
    TRY(parameter_dtype(call, input, &dtype));
    for (int i = 3; i < 5; i++) TRY(want_rows(call, i, input, shape->n));
    if (mask->n != 3) return meta_fail(call, ST_ARGUMENT, "output_mask needs 3 entries");
    for (int i = 0; i < 3; i++) { /* no gradient of what is absent */
        const bool absent = i && !tensor_meta(call, op_param_find(call->row, i == 1 ? "weight" : "bias"));
        if (!mask->ints[i] || absent)
            out_plain(call, i, i ? dtype : input->dtype, input->device, &none, 1);
        else if (i)
            out_plain(call, i, dtype, input->device, shape->ints, shape->n);
        else
            out_same(call, 0, input, input->dtype);
    }
    call->order = ORDER_LS;
    return ST_OK;
}

/* One rstd per row, in the compute type. */
Status meta_fused_rms_norm(MetaCall *call) {
    const Meta *const input = tensor_meta(call, 0);
    int64_t sizes[MAX_RANK];
    TRY(norm_args(call, 0, "weight", "bias"));
    row_sizes(input, arg_named(call, "normalized_shape")->n, sizes);
    out_same(call, 0, input, input->dtype);
    out_plain(call, 1, input->dtype == DT_f64 ? DT_f64 : DT_f32, input->device, sizes, input->rank);
    return ST_OK;
}

/* As PyTorch, which leaves its fused form where input is channels_last: there it is products with input. */
Status meta_rms_norm(MetaCall *call) {
    const Meta *const input = tensor_meta(call, 0);
    TRY(meta_layer_norm(call));
    if (meta_suggests_channels_last(call->env, input)) iterated_strides(call, &input, 1);
    return ST_OK;
}

/* losses -------------------------------------------------------------------------------------- */

static Status check_reduction(const MetaCall *call, int64_t *out) {
    *out = arg_named(call, "reduction")->i;
    if (*out >= REDUCTION_none && *out <= REDUCTION_sum) return ST_OK;
    return meta_fail(call, ST_ARGUMENT, "reduction must be 0 (none), 1 (mean) or 2 (sum), not %lld", (long long)*out);
}

Status meta_loss(MetaCall *call) {
    Elementwise e = {0};
    int64_t reduction;
    TRY(elementwise(call, &e));
    TRY(check_reduction(call, &reduction));
    TRY(elementwise_out(call, &e, e.common));
    if (!dtype_is_float(e.common))
        return meta_fail(call, ST_DTYPE, "self must be floating point, not %s", dtype_name(e.common));
    if (reduction != REDUCTION_none) out_plain(call, 0, e.common, e.in[0]->device, NULL, 0);
    return ST_OK;
}

/* [] or [1]. */
static bool has_one_element(const MetaCall *call, const Meta *meta) {
    return !meta->rank || (meta->rank == 1 && sym_same(call->env, meta->sizes[0], 1));
}

/* The target of a self of one row, [C]. */
static bool is_one_target(const MetaCall *call, const Meta *self, const Meta *target) {
    return self->rank == 1 && has_one_element(call, target);
}

/* self [N,C] or [C] with target [N] or [], which may be [1]; weight [C]. */
static Status class_args(const MetaCall *call, int self_arg, int target_arg, int weight_arg) {
    const Meta *self = tensor_meta(call, self_arg), *target = tensor_meta(call, target_arg),
               *weight = tensor_meta(call, weight_arg);
    TRY(want_float(call, self_arg));
    if (target->dtype != DT_i64 && target->dtype != DT_u8)
        return meta_fail(call, ST_DTYPE, "target must be i64, not %s", dtype_name(target->dtype));
    if (self->rank < 1 || self->rank > 2 || (target->rank != self->rank - 1 && !is_one_target(call, self, target)))
        return meta_fail(call, ST_SHAPE, "self %s and target %s don't fit: [N,C] with [N], or [C] with []",
                         SIZES(call, self), SIZES(call, target));
    if (self->rank == 2 && !sym_same(call->env, self->sizes[0], target->sizes[0]))
        return meta_fail(call, ST_SHAPE, "target %s does not match self %s", SIZES(call, target), SIZES(call, self));
    if (weight && (weight->rank != 1 || !sym_same(call->env, weight->sizes[0], self->sizes[self->rank - 1])))
        return meta_fail(call, ST_SHAPE, "weight %s must have one element per class of self %s", SIZES(call, weight),
                         SIZES(call, self));
    return ST_OK;
}

Status meta_nll_loss_forward(MetaCall *call) {
    const Meta *self = tensor_meta(call, 0), *target = tensor_meta(call, 1);
    int64_t reduction;
    TRY(check_reduction(call, &reduction));
    TRY(class_args(call, 0, 1, 2));
    const int rank = reduction == REDUCTION_none ? self->rank - 1 : 0;
    out_plain(call, 0, self->dtype, self->device, target->sizes, rank);
    out_plain(call, 1, self->dtype, self->device, NULL, 0);
    call->order = ORDER_L;
    return ST_OK;
}

static Status want_one(const MetaCall *call, int arg, const char *name) {
    const Meta *const one = tensor_meta(call, arg);
    if (has_one_element(call, one)) return ST_OK;
    return meta_fail(call, ST_SHAPE, "%s must have one element, not the sizes %s", name, SIZES(call, one));
}

/* Of the unreduced loss of [N,C] one element per row, else one. */
static Status want_grad_of_loss(const MetaCall *call, const Meta *self, int64_t reduction) {
    const Meta *const grad = tensor_meta(call, 0);
    if (reduction != REDUCTION_none || self->rank < 2) return want_one(call, 0, "grad_output");
    if (grad->rank == 1 && sym_same(call->env, grad->sizes[0], self->sizes[0])) return ST_OK;
    return meta_fail(call, ST_SHAPE, "grad_output %s must have one element per row of self %s", SIZES(call, grad),
                     SIZES(call, self));
}

Status meta_nll_loss_backward(MetaCall *call) {
    const Meta *self = tensor_meta(call, 1);
    int64_t reduction;
    TRY(check_reduction(call, &reduction));
    TRY(class_args(call, 1, 2, 3));
    TRY(want_grad_of_loss(call, self, reduction));
    TRY(want_one(call, 6, "total_weight"));
    out_same(call, 0, self, self->dtype);
    return ST_OK;
}

/* [N,C,d...] with class indices [N,d...] or probabilities of self's sizes. */
static Status loss_of_classes(MetaCall *call, bool probabilities) {
    const Meta *self = tensor_meta(call, 0), *target = tensor_meta(call, 1);
    int64_t reduction, sizes[MAX_RANK];
    int rank = 0;
    TRY(check_reduction(call, &reduction));
    TRY(want_float(call, 0));
    if (self->rank < 1) return meta_fail(call, ST_SHAPE, "self must have at least 1 dim");
    for (int i = 0; i < self->rank; i++)
        if (i != (self->rank > 1)) sizes[rank++] = self->sizes[i];
    bool fits = probabilities || target->rank == rank || is_one_target(call, self, target);
    for (int i = 0; fits && !probabilities && i < rank; i++) fits = sym_same(call->env, sizes[i], target->sizes[i]);
    if (!fits)
        return meta_fail(call, ST_SHAPE, "target %s does not match self %s", SIZES(call, target), SIZES(call, self));
    const Meta *weight = tensor_meta(call, 2);
    if (weight && (weight->rank != 1 || !sym_same(call->env, weight->sizes[0], self->sizes[self->rank > 1])))
        return meta_fail(call, ST_SHAPE, "weight %s must have one element per class of self %s", SIZES(call, weight),
                         SIZES(call, self));
    out_plain(call, 0, self->dtype, self->device, sizes, reduction == REDUCTION_none ? rank : 0);
    return ST_OK;
}

Status meta_nll_loss(MetaCall *call) { return loss_of_classes(call, false); }

Status meta_cross_entropy(MetaCall *call) {
    const Meta *target = tensor_meta(call, 1);
    const bool probabilities = dtype_is_float(target->dtype);
    const Arg *smoothing = arg_named(call, "label_smoothing");
    if (smoothing->kind == ARG_float && !(smoothing->f >= 0 && smoothing->f <= 1))
        return meta_fail(call, ST_VALUE, "label_smoothing must be between 0 and 1, not %g", smoothing->f);
    if (probabilities) TRY(same_sizes(call, 0, 1));
    if (!probabilities && tensor_meta(call, 0)->rank == 1 && target->rank && smoothing->f > 0)
        return meta_fail(call, ST_SHAPE,
                         "target %s of a self with 1 dim does not go with "
                         "label_smoothing: it must have 0 dims",
                         SIZES(call, target));
    TRY(loss_of_classes(call, probabilities));
    if (!probabilities) return ST_OK;
    MetaOut *const out = &call->out[0]; /* products of all three */
    const Meta *const weight = tensor_meta(call, 2);
    out->dtype = dtype_promote(out->dtype, target->dtype);
    if (weight) out->dtype = dtype_promote(out->dtype, weight->dtype);
    return ST_OK;
}

/* dropout ------------------------------------------------------------------------------------- */

static Status check_p(const MetaCall *call) {
    const Arg *p = arg_named(call, "p");
    if (p->kind != ARG_float || (p->f >= 0 && p->f <= 1)) return ST_OK;
    return meta_fail(call, ST_VALUE, "p must be between 0 and 1, not %g", p->f);
}

/* Training scales what it keeps. */
static Status check_scaled(const MetaCall *call, const Meta *input) {
    if (dtype_is_float(input->dtype)) return ST_OK;
    return meta_fail(call, ST_DTYPE, "input must be floating point in training, not %s", dtype_name(input->dtype));
}

Status meta_dropout(MetaCall *call) {
    const Meta *input = tensor_meta(call, 0);
    TRY(check_p(call));
    out_like(call, 0, input, input->dtype);
    if (call->args[2].i && arg_double(&call->args[1]) != 0) return check_scaled(call, input);
    memcpy(call->out[0].strides, input->strides, sizeof *input->strides * (size_t)input->rank);
    call->out[0].alias = 0; /* input itself */
    return ST_OK;
}

Status meta_native_dropout(MetaCall *call) {
    const Meta *input = tensor_meta(call, 0);
    TRY(check_p(call));
    if (call->args[2].kind == ARG_none || call->args[2].i) TRY(check_scaled(call, input));
    out_like(call, 0, input, input->dtype);
    out_like(call, 1, input, DT_bool);
    return ST_OK;
}

/* weight norm --------------------------------------------------------------------------------- */

static Status floats_of_one_dtype(const MetaCall *call, int first, int n) {
    const DType dtype = tensor_meta(call, first)->dtype;
    for (int i = first; i < first + n; i++)
        if (!dtype_is_float(tensor_meta(call, i)->dtype))
            return meta_fail(call, ST_DTYPE, "%s is %s", arg_name(call, i), dtype_name(tensor_meta(call, i)->dtype));
    if (tensor_meta(call, first + 1)->dtype == dtype)
        return same_device(call, tensor_meta(call, first), tensor_meta(call, first + 1));
    return meta_fail(call, ST_DTYPE, "%s is %s, but %s is %s", arg_name(call, first), dtype_name(dtype),
                     arg_name(call, first + 1), dtype_name(tensor_meta(call, first + 1)->dtype));
}

/* dim is v's first or last, and g has an element for each of its indices. */
static Status norms_fit(const MetaCall *call, int v, int g) {
    const Meta *const value = tensor_meta(call, v), *const norms = tensor_meta(call, g);
    const int64_t dim = arg_named(call, "dim")->i;
    if (!value->rank || (dim != 0 && dim != value->rank - 1))
        return meta_fail(call, ST_ARGUMENT, "dim must be the first or last one of v %s, not %lld", SIZES(call, value),
                         (long long)dim);
    if (sym_same(call->env, norms->numel, value->sizes[dim])) return ST_OK;
    return meta_fail(call, ST_SHAPE, "%s %s must have an element for each index of dim %lld of v %s", arg_name(call, g),
                     SIZES(call, norms), (long long)dim, SIZES(call, value));
}

static DType norms_dtype(DType dtype) { return dtype == DT_f64 ? DT_f64 : DT_f32; }

/* (v, g, dim) */
Status meta_weight_norm_interface(MetaCall *call) {
    const Meta *const v = tensor_meta(call, 0), *const g = tensor_meta(call, 1);
    TRY(floats_of_one_dtype(call, 0, 2));
    TRY(norms_fit(call, 0, 1));
    out_plain(call, 0, v->dtype, v->device, v->sizes, v->rank);
    out_like(call, 1, g, norms_dtype(v->dtype));
    return ST_OK;
}

/* (v, g, dim): the interface where that serves, else v * (g / norm), which broadcasts. */
Status meta_weight_norm(MetaCall *call) {
    const Meta *const v = tensor_meta(call, 0);
    const int64_t dim = call->args[2].i;
    TRY(floats_of_one_dtype(call, 0, 2));
    if (dim < -1 || dim >= v->rank) return meta_fail(call, ST_ARGUMENT, "dim %lld is none of v's", (long long)dim);
    if (v->dtype != DT_f16 && v->rank && (dim == 0 || dim == v->rank - 1)) {
        TRY(norms_fit(call, 0, 1));
        out_plain(call, 0, v->dtype, v->device, v->sizes, v->rank);
        return ST_OK;
    }
    Meta row_major = *v;
    int64_t strides[MAX_RANK];
    out_plain(call, 0, v->dtype, v->device, v->sizes, v->rank);
    memcpy(strides, call->out[0].strides, sizeof strides);
    row_major.strides = strides;
    Elementwise e = {.n = 2, .in = {&row_major, tensor_meta(call, 1)}, .arg = {0, 1}};
    return elementwise_out(call, &e, v->dtype);
}

/* (grad_w, saved_v, saved_g, saved_norms, dim) */
Status meta_weight_norm_backward(MetaCall *call) {
    const Meta *const grad = tensor_meta(call, 0), *const v = tensor_meta(call, 1), *const g = tensor_meta(call, 2);
    TRY(floats_of_one_dtype(call, 1, 2));
    TRY(norms_fit(call, 1, 2));
    TRY(norms_fit(call, 1, 3));
    if (grad->rank != v->rank || !all_same(call->env, grad->sizes, v->sizes, v->rank))
        return meta_fail(call, ST_SHAPE, "grad_w %s must have the sizes of saved_v %s", SIZES(call, grad),
                         SIZES(call, v));
    out_plain(call, 0, v->dtype, v->device, v->sizes, v->rank);
    out_plain(call, 1, g->dtype, g->device, g->sizes, g->rank);
    return ST_OK;
}
