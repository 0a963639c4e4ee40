/* param.c: parameters and their builders (sinter/nn.h): leaves of a dictionary under the names and with the
 * initial values that PyTorch's modules have, and what a module of several ops computes with them. */
#include <math.h>
#include <sinter/ops.h>

#include "frontend/api/enter.h"
#include "frontend/api/dict.h"
#include "ir/builder.h"
#include "runtime/autograd/tape.h"
#include "runtime/base/text.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/dispatch.h"

sn_tensor *sn_param(sn_dict *d, const char *name, sn_tensor *init) {
    API_ENTER(sn_param);
    if (tensor_valid(init, "sn_param") != ST_OK) return NULL;
    if (!tape_is_leaf(init) || tape_view_base(init)) init = sn_detach(init);
    if (!sn_requires_grad_(init, true)) return NULL;
    return dict_set(d, name, init) == ST_OK ? init : NULL;
}

/* "name.part"; NULL where init is. */
static sn_tensor *named_param(sn_dict *d, const char *name, const char *part, sn_tensor *init) {
    if (!init) return NULL;
    Text full = {0};
    text_printf(&full, "%s.%s", name, part);
    sn_tensor *const t = sn_param(d, text_str(&full), init);
    text_free(&full);
    return t;
}

/* Uniform in [-bound, bound), as a new leaf. */
static sn_tensor *uniform(sn_ints size, double bound) {
    const sn_scope scope = scope_begin_library();
    sn_tensor *const unit = sn_rand(size, SN_F32);
    return sn_scope_return(scope, sn_sub_scalar(sn_mul_scalar(unit, sn_float(2 * bound)), sn_float(bound)));
}

/* A builder's: initial values are no calls of the program's. */
static sn_scope begin_builder(void) {
    const sn_scope scope = scope_begin_own();
    if (scope != SN_SCOPE_NONE) context_enter_scope(state_get(), CONTEXT_parts);
    return scope;
}

/* What every builder asks of its arguments; sizes of at least 1. */
static Status builder_args(const char *builder, const sn_dict *d, const char *name, sn_ints sizes) {
    TRY(error_pending());
    if (!d || !name) return error_raise(ST_ARGUMENT, "%s: the %s is NULL", builder, d ? "name" : "dictionary");
    for (int64_t i = 0; i < sizes.n; i++)
        if (sizes.data[i] < 1)
            return error_raise(ST_ARGUMENT, "%s: '%s' has a size of %lld: it must be at least 1", builder, name,
                               (long long)sizes.data[i]);
    return ST_OK;
}

sn_status sn_param_linear(sn_dict *d, const char *name, int64_t in, int64_t out, sn_tensor **weight, sn_tensor **bias) {
    API_ENTER(sn_param_linear);
    if (weight) *weight = NULL;
    if (bias) *bias = NULL;
    const Status bad = builder_args("sn_param_linear", d, name, SN_INTS(in, out));
    if (bad != ST_OK) return (sn_status)bad;
    const double bound = 1 / sqrt((double)in);
    const sn_scope scope = begin_builder();
    sn_tensor *const w = named_param(d, name, "weight", uniform(SN_INTS(out, in), bound));
    sn_tensor *const b = w && bias ? named_param(d, name, "bias", uniform(SN_INTS(out), bound)) : NULL;
    sn_scope_end(scope);
    const sn_status status = sn_check();
    if (status != SN_OK) return status;
    if (weight) *weight = w;
    if (bias) *bias = b;
    return SN_OK;
}

sn_tensor *sn_param_embedding(sn_dict *d, const char *name, int64_t rows, int64_t width) {
    API_ENTER(sn_param_embedding);
    if (builder_args("sn_param_embedding", d, name, SN_INTS(rows, width)) != ST_OK) return NULL;
    const sn_scope scope = begin_builder();
    sn_tensor *const weight = named_param(d, name, "weight", sn_randn(SN_INTS(rows, width), SN_F32));
    return sn_scope_end(scope) == SN_OK ? weight : NULL;
}

sn_status sn_param_layer_norm(sn_dict *d, const char *name, int64_t width, sn_tensor **weight, sn_tensor **bias) {
    API_ENTER(sn_param_layer_norm);
    if (weight) *weight = NULL;
    if (bias) *bias = NULL;
    const Status bad = builder_args("sn_param_layer_norm", d, name, SN_INTS(width));
    if (bad != ST_OK) return (sn_status)bad;
    const sn_scope scope = begin_builder();
    sn_tensor *const w = named_param(d, name, "weight", sn_ones(SN_INTS(width), SN_F32));
    sn_tensor *const b = w && bias ? named_param(d, name, "bias", sn_zeros(SN_INTS(width), SN_F32)) : NULL;
    const sn_status status = sn_scope_end(scope);
    if (status != SN_OK) return status;
    if (weight) *weight = w;
    if (bias) *bias = b;
    return SN_OK;
}

/* attention ----------------------------------------------------------------------------------- */

/* in_proj_weight is Xavier's, of a matrix [3 width, width]; biases are 0. */
static void attention_params(sn_dict *d, const char *name, int64_t width, bool bias, sn_attention *a) {
    const double bound = sqrt(6.0 / (double)(width + 3 * width));
    a->in_weight = named_param(d, name, "in_proj_weight", uniform(SN_INTS(3 * width, width), bound));
    if (bias) a->in_bias = named_param(d, name, "in_proj_bias", sn_zeros(SN_INTS(3 * width), SN_F32));
    a->out_weight = named_param(d, name, "out_proj.weight", uniform(SN_INTS(width, width), 1 / sqrt((double)width)));
    if (bias) a->out_bias = named_param(d, name, "out_proj.bias", sn_zeros(SN_INTS(width), SN_F32));
}

sn_status sn_param_attention(sn_dict *d, const char *name, int64_t width, int64_t heads, bool bias, sn_attention *out) {
    API_ENTER(sn_param_attention);
    const Status bad = builder_args("sn_param_attention", d, name, SN_INTS(width, heads));
    if (bad != ST_OK) return (sn_status)bad;
    if (!out) return (sn_status)error_raise(ST_ARGUMENT, "sn_param_attention: out is NULL");
    if (width % heads)
        return (sn_status)error_raise(ST_ARGUMENT,
                                      "sn_param_attention: '%s': a width of %lld is no multiple of %lld heads", name,
                                      (long long)width, (long long)heads);
    sn_attention made = {.size = sizeof made, .heads = heads};
    const sn_scope scope = begin_builder();
    attention_params(d, name, width, bias, &made);
    const sn_status status = sn_scope_end(scope);
    if (status == SN_OK) *out = made;
    return status;
}

/* Part 0, 1 or 2 (query, key, value) of [B, T, 3, heads, head] as [B, heads, T, head]. */
static Val *heads_of(Builder *b, Val *parts, int64_t which) {
    return E(b, transpose_int, V(E(b, select_int, V(parts), I(2), I(which))), I(1), I(2));
}

static Val *attend(Builder *b, Val *parts, bool causal) {
    Val *const query = heads_of(b, parts, 0), *const key = heads_of(b, parts, 1), *const value = heads_of(b, parts, 2);
    return E(b, scaled_dot_product_attention, V(query), V(key), V(value), A_NONE, F(0), A_BOOL(causal));
}

static Val *linear_of(Builder *b, Val *x, sn_tensor *weight, sn_tensor *bias) {
    return E(b, linear, V(x), V((Val *)weight), bias ? V((Val *)bias) : A_NONE);
}

static Status attention_args(const sn_attention *a, sn_tensor *x) {
    TRY(error_pending());
    if (!a) return error_raise(ST_ARGUMENT, "sn_self_attention: the attention is NULL");
    TRY(tensor_valid(x, "sn_self_attention"));
    const Meta *const meta = x->base.meta;
    if (a->heads < 1)
        return error_raise(ST_ARGUMENT, "sn_self_attention: the attention says %lld heads: it must be at least 1",
                           (long long)a->heads);
    if (meta->rank != 3)
        return error_raise(ST_SHAPE, "sn_self_attention: x has %d dims, and must have 3: [batch, time, width]",
                           meta->rank);
    if (meta->sizes[2] % a->heads)
        return error_raise(ST_SHAPE, "sn_self_attention: a width of %lld is no multiple of %lld heads",
                           (long long)meta->sizes[2], (long long)a->heads);
    return ST_OK;
}

sn_tensor *sn_self_attention(const sn_attention *a, sn_tensor *x, bool causal) {
    API_ENTER(sn_self_attention);
    if (attention_args(a, x) != ST_OK) return NULL;
    Builder *const b = eager_builder();
    const sn_sym batch = sn_sym_size(x, 0), time = sn_sym_size(x, 1);
    const int64_t sizes[] = {sn_sym_arg(batch), sn_sym_arg(time), 3, a->heads, sn_size(x, 2) / a->heads};
    Val *const all = linear_of(b, &x->base, a->in_weight, a->in_bias);
    Val *const seen = attend(b, E(b, view, V(all), A_INTS(sizes, 5)), causal);
    Val *const joined = E(b, flatten_using_ints, V(E(b, transpose_int, V(seen), I(1), I(2))), I(2), I(3));
    return (sn_tensor *)linear_of(b, joined, a->out_weight, a->out_bias);
}
