/* decomp_norm.c: softmax, layer_norm, variance, dropout and their backward, in the canonical sums [B2.8]: mean = sum /
 * n, variance in two passes with fused squares (moments_over), softmax = exp(x - max) / sum. */
#include <math.h>

#include <float.h>

#include "passes/rules/decomp.h"
#include "ir/op_ids.h"

DecompFn decomp_fused_rms_norm, decomp_rms_norm;
DecompFn decomp_softmax, decomp_safe_softmax, decomp_log_softmax, decomp_softmax_backward, decomp_log_softmax_backward;
DecompFn decomp_native_layer_norm, decomp_native_layer_norm_backward, decomp_native_dropout, decomp_var, decomp_std;

static DType softmax_dtype(const Arg *args) { /* half_to_float */
    return args[2].kind == ARG_bool && args[2].i ? DT_f32 : args[0].val->meta->dtype;
}

static Val *max_over(Builder *b, Val *x, int64_t dim) { return E(b, amax, V(x), A_INTS(&dim, 1), A_BOOL(true)); }

/* exp(x - max) / sum */
static Val *exponentials(Builder *b, Val *x, Val *max, int64_t dim) {
    Val *const e = E(b, exp, V(E(b, sub_Tensor, V(x), V(max))));
    return E(b, div_Tensor, V(e), V(sum_over(b, e, &dim, 1, true)));
}

Status decomp_softmax(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const DType dtype = softmax_dtype(args);
    const int64_t dim = dim_of(&args[1], args[0].val->meta->rank);
    if (args[0].val->meta->numel == 0) return done1(outs, E(b, _to_copy, args[0], I(dtype)));
    Val *const x = widened(b, args[0].val);
    Val *const y = exponentials(b, x, max_over(b, x, dim), dim);
    return done1(outs, in_dtype(b, y, dtype));
}

/* A row without anything to attend to is 0, where softmax is NaN. */
Status decomp_safe_softmax(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const DType dtype = args[2].kind == ARG_int ? (DType)args[2].i : args[0].val->meta->dtype;
    const int64_t dim = dim_of(&args[1], args[0].val->meta->rank);
    Val *const given = in_dtype(b, args[0].val, dtype);
    if (args[0].val->meta->numel == 0) return done1(outs, E(b, clone, V(given)));
    Val *const x = widened(b, given), *const max = max_over(b, x, dim);
    Val *const nothing = E(b, eq_Tensor, V(max), F(-INFINITY));
    Val *const y = E(b, where_self, V(nothing), F(0), V(exponentials(b, x, max, dim)));
    return done1(outs, in_dtype(b, y, dtype));
}

/* As a store and a load of the dtype leave it. */
static Val *stored_as(Builder *b, Val *x, DType dtype) { return widened(b, in_dtype(b, x, dtype)); }

/* (x - max) - log(sum). As PyTorch has it, a row of the last dim keeps its sum and the logarithm in
 * the result's dtype; those of other dims stay in f32. */
Status decomp_log_softmax(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const DType dtype = softmax_dtype(args);
    const int rank = args[0].val->meta->rank;
    const int64_t dim = dim_of(&args[1], rank);
    if (args[0].val->meta->numel == 0) return done1(outs, E(b, _to_copy, args[0], I(dtype)));
    Val *const x = widened(b, args[0].val);
    if (!x) return error_pending();
    const DType kept = rank == 0 || dim == rank - 1 ? dtype : x->meta->dtype;
    Val *const below = E(b, sub_Tensor, V(x), V(max_over(b, x, dim)));
    Val *const sum = stored_as(b, sum_over(b, E(b, exp, V(below)), &dim, 1, true), kept);
    Val *const log = stored_as(b, E(b, log, V(sum)), kept);
    return done1(outs, in_dtype(b, E(b, sub_Tensor, V(below), V(log)), dtype));
}

/* output (grad - sum(grad output)) */
Status decomp_softmax_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const grad = widened(b, args[0].val), *const y = widened(b, args[1].val);
    const int64_t dim = dim_of(&args[2], args[1].val->meta->rank);
    Val *const sum = sum_over(b, E(b, mul_Tensor, V(grad), V(y)), &dim, 1, true);
    Val *const x = E(b, mul_Tensor, V(E(b, sub_Tensor, V(grad), V(sum))), V(y));
    return done1(outs, in_dtype(b, x, (DType)args[3].i));
}

/* grad - exp(output) sum(grad) */
Status decomp_log_softmax_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const grad = widened(b, args[0].val), *const y = widened(b, args[1].val);
    const int64_t dim = dim_of(&args[2], args[1].val->meta->rank);
    Val *const sum = sum_over(b, grad, &dim, 1, true);
    Val *const part = E(b, mul_Tensor, V(E(b, exp, V(y))), V(sum));
    return done1(outs, in_dtype(b, E(b, sub_Tensor, V(grad), V(part)), (DType)args[3].i));
}

/* layer_norm ---------------------------------------------------------------------------------- */

typedef struct NormDims {
    int64_t inner[MAX_RANK], outer[MAX_RANK]; /* the normalised dims, and those before */
    int n_inner, n_outer;
    int64_t count;
} NormDims;

static NormDims norm_dims(Builder *b, const Meta *x, const Arg *shape) {
    NormDims dims = {.n_inner = shape->n, .n_outer = x->rank - shape->n, .count = 1};
    for (int d = 0; d < x->rank; d++) {
        if (d < dims.n_outer)
            dims.outer[d] = d;
        else
            dims.inner[d - dims.n_outer] = d;
    }
    for (int i = 0; i < shape->n; i++) dims.count = sym_mul(b->env, dims.count, shape->ints[i]);
    return dims;
}

/* The dtype of mean and rstd: the input's, or f32 where half inputs come with f32 parameters. */
static DType statistics_dtype(const Arg *args) {
    const DType dtype = args[0].val->meta->dtype;
    for (int i = 2; i <= 3; i++)
        if (args[i].kind == ARG_tensor && args[i].val && args[i].val->meta->dtype == DT_f32) return DT_f32;
    return dtype;
}

Status decomp_native_layer_norm(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const x = widened(b, args[0].val);
    if (!x) return error_pending();
    Val *const weight = optional(&args[2]), *const bias = optional(&args[3]);
    const NormDims dims = norm_dims(b, x->meta, &args[1]);
    const Arg inner = dims.n_inner ? A_INTS(dims.inner, dims.n_inner) : A_NONE;
    const Moments m = moments_over(b, x, inner, I(dims.count), A_BOOL(true));
    Val *const var = E(b, div_Tensor, V(m.squares), I(dims.count));
    Val *const rstd = E(b, rsqrt, V(E(b, add_Tensor, V(var), real_number(&args[4]))));
    Val *y = E(b, mul_Tensor, V(m.away), V(rstd));
    if (weight) y = E(b, mul_Tensor, V(y), V(widened(b, weight)));
    if (bias) y = E(b, add_Tensor, V(y), V(widened(b, bias)));
    const DType kept = statistics_dtype(args);
    Val *const values[] = {in_dtype(b, y, args[0].val->meta->dtype), in_dtype(b, m.mean, kept),
                           in_dtype(b, rstd, kept)};
    return decomp_done(outs, 3, values);
}

static bool masked_in(const Arg *mask, int i) { return mask->kind != ARG_ints || mask->ints[i] != 0; }

/* With h = (x - mean) rstd and g = grad weight: dx = rstd (g - (sum(g) + h sum(g h)) / n), dweight
 * = sum over rows of grad h, dbias = sum over rows of grad. */
/* A gradient that nobody wants. */
static Val *no_statistics(Builder *b, DType dtype, Device device) {
    const int64_t none = 0;
    return E(b, zeros, A_INTS(&none, 1), I(dtype), A_NONE, I(device));
}

Status decomp_native_layer_norm_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const grad = widened(b, args[0].val), *const x = widened(b, args[1].val);
    Val *const rstd = widened(b, args[4].val), *const weight = optional(&args[5]), *const bias = optional(&args[6]);
    if (!grad || !x || !rstd) return error_pending();
    const NormDims dims = norm_dims(b, x->meta, &args[2]);
    const Arg *const mask = &args[7];
    Val *const h = E(b, mul_Tensor, V(E(b, sub_Tensor, V(x), V(widened(b, args[3].val)))), V(rstd));
    if (masked_in(mask, 0)) {
        Val *const g = weight ? E(b, mul_Tensor, V(grad), V(widened(b, weight))) : grad;
        Val *const s1 = sum_over(b, g, dims.inner, dims.n_inner, true);
        Val *const s2 = sum_over(b, E(b, mul_Tensor, V(g), V(h)), dims.inner, dims.n_inner, true);
        Val *const along = E(b, add_Tensor, V(s1), V(E(b, mul_Tensor, V(h), V(s2))));
        Val *const rest = E(b, sub_Tensor, V(g), V(E(b, div_Tensor, V(along), I(dims.count))));
        outs[0] = in_dtype(b, E(b, mul_Tensor, V(rest), V(rstd)), args[1].val->meta->dtype);
    }
    if (masked_in(mask, 1) && weight) {
        Val *const parts = E(b, mul_Tensor, V(grad), V(h));
        Val *const sum = dims.n_outer ? sum_over(b, parts, dims.outer, dims.n_outer, false) : parts;
        outs[1] = in_dtype(b, sum, weight->meta->dtype);
    }
    if (masked_in(mask, 2) && bias) {
        Val *const sum = dims.n_outer ? sum_over(b, grad, dims.outer, dims.n_outer, false) : E(b, clone, V(grad));
        outs[2] = in_dtype(b, sum, bias->meta->dtype);
    }
    const DType dtype = (weight ? weight : bias ? bias : args[1].val)->meta->dtype;
    for (int i = 0; i < 3; i++)
        if (!outs[i]) outs[i] = no_statistics(b, i ? dtype : args[1].val->meta->dtype, args[1].val->meta->device);
    return error_pending();
}

/* variance, dropout --------------------------------------------------------------------------- */

/* max(n - correction, 0) */
static Arg var_divisor(Builder *b, const Meta *x, const Arg *dims, const Arg *correction) {
    int64_t n = dims->kind == ARG_ints && dims->n ? 1 : x->numel;
    for (int i = 0; dims->kind == ARG_ints && i < dims->n && x->rank; i++)
        n = sym_mul(b->env, n, x->sizes[dim_wrap(dims->ints[i], x->rank)]);
    if (correction->kind == ARG_float && double_is_i64(correction->f))
        return I(sym_max(b->env, sym_sub(b->env, n, double_to_i64(correction->f)), 0));
    if (correction->kind == ARG_float) {
        const double left = (double)sym_concrete(b->env, n) - correction->f;
        return F(left > 0 ? left : 0);
    }
    return I(sym_max(b->env, sym_sub(b->env, n, correction->kind == ARG_none ? 1 : correction->i), 0));
}

/* By a power of two where squares may overflow. */
static Val *variance_of(Builder *b, const Arg *args, Scaled *scale) {
    const Arg one = I(0), dims = args[1].kind == ARG_ints && args[1].n ? args[1] : A_NONE;
    *scale = scaled_f64(b, args[0].val, dims);
    Val *const x = scale->x;
    if (!x) return NULL;
    const Moments m = moments_over(b, x, dims, var_divisor(b, x->meta, &dims, &one), args[3]);
    return E(b, div_Tensor, V(m.squares), var_divisor(b, x->meta, &dims, &args[2]));
}
Status decomp_var(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Scaled scale;
    Val *const var = variance_of(b, args, &scale), *const once = unscaled(b, var, &scale);
    return done1(outs, in_dtype(b, unscaled(b, once, &scale), args[0].val->meta->dtype));
}
Status decomp_std(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Scaled scale;
    Val *const var = variance_of(b, args, &scale);
    return done1(outs, in_dtype(b, unscaled(b, E(b, sqrt, V(var)), &scale), args[0].val->meta->dtype));
}

typedef struct Kept { /* dropout's numbers */
    Arg share, scale; /* of elements that stay; what they are multiplied by */
} Kept;

/* A probability that is a parameter is subtracted and divided by in f64, as a constant is, then rounded to the dtype
 * that it meets: f32 for the uniform numbers, what x times a float has. */
static Kept kept_of(Builder *b, const Arg *p, Val *x) {
    if (p->kind != ARG_runtime) {
        const double share = 1 - arg_double(p);
        return (Kept){F(share), F(share == 0 ? 0 : 1 / share)};
    }
    const int64_t none = 0;
    Val *const one = E(b, ones, A_INTS(&none, 0), I(DT_f64), A_NONE, I(x->meta->device));
    Val *const share = E(b, sub_Tensor, V(one), *p), *const scale = E(b, div_Tensor, V(one), V(share));
    const DType scaled = dtype_is_float(x->meta->dtype) ? x->meta->dtype : DT_f32;
    return (Kept){V(in_dtype(b, share, DT_f32)), V(in_dtype(b, scale, scaled))};
}

/* mask = uniform < 1 - p; input mask / (1 - p). Without training: the input and a mask of ones. */
Status decomp_native_dropout(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const input = args[0].val;
    if (args[2].kind != ARG_none && args[2].i == 0) {
        Val *const ones = E(b, ones_like, V(input), I(DT_bool));
        return decomp_done(outs, 2, (Val *const[]){E(b, clone, V(input)), ones});
    }
    const Kept k = kept_of(b, &args[1], widened(b, input));
    Val *const uniform = E(b, rand_like, V(input), I(DT_f32));
    Val *const mask = E(b, lt_Tensor, V(uniform), k.share);
    Val *const kept = E(b, mul_Tensor, V(widened(b, input)), V(mask));
    Val *const y = E(b, mul_Tensor, V(kept), k.scale);
    return decomp_done(outs, 2, (Val *const[]){in_dtype(b, y, input->meta->dtype), mask});
}

/* rms_norm ------------------------------------------------------------------------------------ */

/* (input, normalized_shape, weight, eps): in the compute type, rounded once */
static Status rms_norm_parts(Builder *b, const Arg *args, Val **outs) {
    const Meta *const input = args[0].val->meta;
    Val *const x = widened(b, args[0].val), *const weight = widened(b, optional(&args[2]));
    if (!x) return error_pending();
    const NormDims dims = norm_dims(b, input, &args[1]);
    const Arg eps = args[3].kind != ARG_none ? args[3] : F(input->dtype == DT_f64 ? DBL_EPSILON : FLT_EPSILON);
    Val *const square = E(b, mean_dim, V(E(b, mul_Tensor, V(x), V(x))), A_INTS(dims.inner, dims.n_inner), A_BOOL(true));
    Val *const rstd = E(b, rsqrt, V(E(b, add_Tensor, V(square), eps)));
    Val *y = E(b, mul_Tensor, V(x), V(rstd));
    if (weight) y = E(b, mul_Tensor, V(y), V(weight));
    return decomp_done(outs, 2, (Val *const[]){in_dtype(b, y, input->dtype), made_contiguous(b, rstd)});
}

Status decomp_fused_rms_norm(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    TRY(rms_norm_parts(b, args, outs));
    outs[0] = in_layout_of(b, row, args, 0, outs[0]);
    return error_pending();
}

/* _fused_rms_norm takes a shape of numbers: of one with symbols it is the same parts. */
Status decomp_rms_norm(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *both[2] = {0};
    bool open = false;
    for (int i = 0; i < args[1].n; i++) open |= sym_is(args[1].ints[i]);
    TRY(open ? rms_norm_parts(b, args, both) : emit(b, OP__fused_rms_norm, args, 4, both));
    return done1(outs, in_layout_of(b, row, args, 0, both[0]));
}
