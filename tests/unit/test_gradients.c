/* test_gradients.c: every derivative rule against central differences in f64, first and second order [acceptance 3.05].
 * A case is an op with its arguments; "t" arguments are made from fixed pseudo-random numbers. The loss is a fixed
 * weighting of all results, so that no two elements play the same part. A row with a derivative and without a case
 * fails. */
#include <math.h>

#include "runtime/autograd/tape.h"
#include "ir/op_ids.h"
#include "tests/unit/suite.h"

enum { MAX_TENSORS = 6, MAX_ELEMENTS = 128, MAX_CASE_RANK = 5 };

/* (-2, 2); (0.2, 2); (-0.9, 0.9); (1.2, 3); (0.1, 0.9); without gradients: ints, bools, (0.2, 2), the same in f32 */
typedef enum Domain { ANY, POSITIVE, UNIT, ABOVE, SHARE, INDEX, MASK, FIXED, SCALES } Domain;
typedef struct Spec {
    Domain domain;
    int rank;
    int64_t sizes[MAX_CASE_RANK];
    int64_t below; /* INDEX */
} Spec;
typedef struct Case {
    OpId op;
    Arg args[MAX_ARGS];
    Spec tensors[MAX_TENSORS]; /* the tensor arguments, in order */
    int list;                  /* the first so many tensors are a list, argument 0 */
} Case;

#define X ((Arg){.kind = ARG_tensor})
#define DIMS(...)                                                                                                      \
    {                                                                                                                  \
        .kind = ARG_ints, .n = COUNT_OF(((const int64_t[]){__VA_ARGS__})), .ints = (const int64_t[]) { __VA_ARGS__ }   \
    }
#define ARGS(...) .args = {__VA_ARGS__} /* the others are their defaults */
#define S(domain, rank, ...)                                                                                           \
    { domain, rank, {__VA_ARGS__}, 0 }
#define AT(below, rank, ...)                                                                                           \
    { INDEX, rank, {__VA_ARGS__}, below }
#define UNARY(id, domain)                                                                                              \
    {                                                                                                                  \
        OP_##id, ARGS(X), { S(domain, 2, 2, 3) }                                                                       \
    }
#define BINARY(id, domain)                                                                                             \
    {                                                                                                                  \
        OP_##id, ARGS(X, X), { S(domain, 2, 2, 3), S(domain, 1, 3) }                                                   \
    }

static const Case cases[] = {
    UNARY(neg, ANY),
    UNARY(abs, POSITIVE),
    UNARY(exp, ANY),
    UNARY(exp2, ANY),
    UNARY(sinc, ANY),
    UNARY(special_entr, POSITIVE),
    UNARY(expm1, ANY),
    UNARY(log, POSITIVE),
    UNARY(log2, POSITIVE),
    UNARY(log10, POSITIVE),
    UNARY(log1p, POSITIVE),
    UNARY(sqrt, POSITIVE),
    UNARY(rsqrt, POSITIVE),
    UNARY(reciprocal, POSITIVE),
    UNARY(sin, ANY),
    UNARY(cos, ANY),
    UNARY(tan, UNIT),
    UNARY(tanh, ANY),
    UNARY(erf, ANY),
    UNARY(sigmoid, ANY),
    UNARY(relu, ANY),
    UNARY(silu, ANY),
    UNARY(leaky_relu, ANY),
    UNARY(elu, ANY),
    UNARY(softplus, ANY),
    UNARY(hardtanh, ANY),
    UNARY(floor, ANY),
    UNARY(ceil, ANY),
    UNARY(trunc, ANY),
    UNARY(round, ANY),
    UNARY(sign, ANY),
    UNARY(clone, ANY),
    UNARY(alias, ANY),
    UNARY(t, ANY),
    UNARY(zero, ANY),
    UNARY(_to_copy, ANY),
    {OP_gelu, ARGS(X), {S(ANY, 2, 2, 3)}},
    {OP_gelu, ARGS(X, A_STR("tanh")), {S(ANY, 2, 2, 3)}},
    {OP_leaky_relu, ARGS(X, F(0.3)), {S(ANY, 1, 5)}},
    {OP_elu, ARGS(X, F(0.7), F(1.5), F(2)), {S(ANY, 1, 5)}},
    {OP_celu, ARGS(X, F(0.7)), {S(ANY, 1, 5)}},
    {OP_hardshrink, ARGS(X, F(0.5)), {S(ANY, 1, 5)}},
    {OP_softshrink, ARGS(X, F(0.5)), {S(ANY, 1, 5)}},
    {OP_logit, ARGS(X, A_NONE), {S(SHARE, 1, 5)}},
    BINARY(_prelu_kernel, ANY),
    {OP_softplus, ARGS(X, F(2), F(1.5)), {S(ANY, 1, 6)}},
    UNARY(acos, UNIT),
    UNARY(asin, UNIT),
    UNARY(atanh, UNIT),
    UNARY(atan, ANY),
    UNARY(asinh, ANY),
    UNARY(sinh, ANY),
    UNARY(cosh, ANY),
    UNARY(erfc, ANY),
    UNARY(frac, ANY),
    UNARY(hardsigmoid, ANY),
    UNARY(hardswish, ANY),
    UNARY(mish, ANY),
    UNARY(relu6, ANY),
    UNARY(log_sigmoid, ANY),
    UNARY(nan_to_num, ANY),
    {OP_acosh, ARGS(X), {S(ABOVE, 2, 2, 3)}},
    {OP_round_decimals, ARGS(X, I(1)), {S(ANY, 1, 6)}},
    {OP_threshold, ARGS(X, F(0.5), F(2)), {S(ANY, 1, 6)}},
    BINARY(atan2, ANY),
    BINARY(copysign_Tensor, ANY),
    BINARY(fmax, ANY),
    BINARY(fmin, ANY),
    BINARY(hypot, ANY),
    BINARY(logaddexp, ANY),
    BINARY(mul_Tensor, ANY),
    BINARY(div_Tensor, POSITIVE),
    BINARY(maximum, ANY),
    BINARY(minimum, ANY),
    BINARY(clamp_min_Tensor, ANY),
    BINARY(clamp_max_Tensor, ANY),
    BINARY(pow_Tensor_Tensor, POSITIVE),
    BINARY(fmod_Tensor, POSITIVE),
    BINARY(remainder_Tensor, POSITIVE),
    BINARY(xlogy_Tensor, POSITIVE),
    BINARY(sigmoid_backward, ANY),
    BINARY(tanh_backward, ANY),
    BINARY(silu_backward, ANY),
    {OP_threshold_backward, ARGS(X, X, F(0.5)), {S(ANY, 1, 6), S(ANY, 1, 6)}},
    {OP_gelu_backward, ARGS(X, X), {S(ANY, 1, 6), S(ANY, 1, 6)}},
    {OP_gelu_backward, ARGS(X, X, A_STR("tanh")), {S(ANY, 1, 6), S(ANY, 1, 6)}},
    BINARY(hardswish_backward, ANY),
    BINARY(hardsigmoid_backward, ANY),
    BINARY(mish_backward, ANY),
    {OP_softplus_backward, ARGS(X, X, F(2), F(1.5)), {S(ANY, 1, 6), S(ANY, 1, 6)}},
    {OP_leaky_relu_backward, ARGS(X, X, F(0.3), A_BOOL(false)), {S(ANY, 1, 6), S(ANY, 1, 6)}},
    {OP_elu_backward, ARGS(X, F(0.7), F(1.5), F(2), A_BOOL(false), X), {S(ANY, 1, 6), S(ANY, 1, 6)}},
    {OP_elu_backward, ARGS(X, F(0.7), F(1.5), F(2), A_BOOL(true), X), {S(ANY, 1, 6), S(ANY, 1, 6)}},
    {OP_hardtanh_backward, ARGS(X, X, F(-0.5), F(0.3)), {S(ANY, 1, 6), S(ANY, 1, 6)}},
    {OP_log_sigmoid_backward, ARGS(X, X, X), {S(ANY, 1, 6), S(ANY, 1, 6), S(FIXED, 1, 6)}},
    {OP_hardshrink_backward, ARGS(X, X, F(0.5)), {S(ANY, 1, 6), S(ANY, 1, 6)}},
    {OP_softshrink_backward, ARGS(X, X, F(0.5)), {S(ANY, 1, 6), S(ANY, 1, 6)}},
    {OP_logit_backward, ARGS(X, X, F(0.2)), {S(ANY, 1, 6), S(SHARE, 1, 6)}},
    {OP_native_dropout_backward, ARGS(X, X, F(2)), {S(ANY, 1, 6), S(MASK, 1, 6)}},
    /* a grid too fine to be seen; done by none; limited to one number */
    {OP_fake_quantize_per_tensor_affine_cachemask,
     ARGS(X, F(0x1p-40), I(3), I(-35184372088832), I(35184372088832)),
     {S(ANY, 1, 6)}},
    {OP__fake_quantize_per_tensor_affine_cachemask_tensor_qparams,
     ARGS(X, X, X, X, I(-8), I(7)),
     {S(ANY, 1, 6), S(SCALES, 1, 1), AT(3, 1, 1), AT(1, 1, 1)}},
    {OP_fake_quantize_per_channel_affine_cachemask,
     ARGS(X, X, X, I(0), I(100), I(100)),
     {S(ANY, 2, 3, 2), S(SCALES, 1, 3), AT(3, 1, 3)}},
    {OP_add_Tensor, ARGS(X, X, F(2.5)), {S(ANY, 2, 2, 1), S(ANY, 1, 3)}},
    {OP_sub_Tensor, ARGS(X, X, F(2.5)), {S(ANY, 1, 3), S(ANY, 2, 2, 3)}},
    {OP_rsub_Tensor, ARGS(X, X, F(2.5)), {S(ANY, 2, 2, 3), S(ANY, 0, 0)}},
    {OP_div_Tensor_mode, ARGS(X, X, A_STR("floor")), {S(POSITIVE, 1, 3), S(POSITIVE, 1, 3)}},
    {OP_div_Tensor_mode, ARGS(X, X, A_NONE), {S(POSITIVE, 1, 3), S(POSITIVE, 1, 3)}},
    {OP_pow_Tensor_Tensor, ARGS(X, F(3)), {S(ANY, 1, 4)}},
    {OP_pow_Tensor_Tensor, ARGS(X, F(0)), {S(ANY, 1, 4)}},
    {OP_pow_Tensor_Tensor, ARGS(F(2), X), {S(ANY, 1, 4)}},
    {OP_where_self, ARGS(X, X, X), {S(MASK, 2, 2, 3), S(ANY, 1, 3), S(ANY, 0, 0)}},
    {OP_clamp_Tensor, ARGS(X, X, X), {S(ANY, 1, 8), S(UNIT, 1, 8), S(ANY, 1, 8)}},
    {OP_clamp_Tensor, ARGS(X, F(-0.5), F(0.5)), {S(ANY, 1, 8)}},
    {OP_clamp_Tensor, ARGS(X, A_NONE, X), {S(ANY, 1, 8), S(ANY, 0, 0)}},
    {OP_lerp_Tensor, ARGS(X, X, X), {S(ANY, 2, 2, 3), S(ANY, 1, 3), S(ANY, 0, 0)}},
    {OP_lerp_Tensor, ARGS(X, X, F(0.3)), {S(ANY, 1, 3), S(ANY, 1, 3)}},
    {OP_addcmul, ARGS(X, X, X, F(1.5)), {S(ANY, 2, 2, 3), S(ANY, 1, 3), S(ANY, 0, 0)}},
    {OP_addcdiv, ARGS(X, X, X, F(1.5)), {S(ANY, 1, 3), S(ANY, 1, 3), S(POSITIVE, 1, 3)}},
    {OP_masked_fill_Tensor, ARGS(X, X, X), {S(ANY, 2, 2, 3), S(MASK, 1, 3), S(ANY, 0, 0)}},
    {OP_masked_scatter, ARGS(X, X, X), {S(ANY, 2, 2, 3), S(MASK, 1, 3), S(ANY, 1, 7)}},
    {OP_fill_Tensor, ARGS(X, X), {S(ANY, 1, 3), S(ANY, 0, 0)}},
    {OP_copy, ARGS(X, X), {S(ANY, 2, 2, 3), S(ANY, 1, 3)}},
    {OP_tril, ARGS(X, I(1)), {S(ANY, 2, 3, 4)}},
    {OP_triu, ARGS(X, I(-1)), {S(ANY, 2, 3, 4)}},

    {OP_sum, ARGS(X), {S(ANY, 2, 2, 3)}},
    {OP_sum_dim_IntList, ARGS(X, DIMS(0, -1), A_BOOL(true)), {S(ANY, 3, 2, 3, 2)}},
    {OP_sum_dim_IntList, ARGS(X, DIMS(1)), {S(ANY, 3, 2, 3, 2)}},
    {OP_mean, ARGS(X), {S(ANY, 2, 2, 3)}},
    {OP_mean_dim, ARGS(X, DIMS(1), A_BOOL(false)), {S(ANY, 3, 2, 3, 2)}},
    {OP_amax, ARGS(X, DIMS(1)), {S(ANY, 2, 3, 4)}},
    {OP_amin, ARGS(X, DIMS(0), A_BOOL(true)), {S(ANY, 2, 3, 4)}},
    {OP_prod, ARGS(X), {S(ANY, 1, 5)}},
    {OP_prod_dim_int, ARGS(X, I(1), A_BOOL(false)), {S(ANY, 2, 2, 3)}},
    {OP_var_correction, ARGS(X, DIMS(1), I(1)), {S(ANY, 2, 2, 4)}},
    {OP_var_correction, ARGS(X, A_NONE, I(0), A_BOOL(true)), {S(ANY, 2, 2, 4)}},
    {OP_std_correction, ARGS(X, DIMS(1), I(1)), {S(ANY, 2, 2, 4)}},
    {OP_std_correction, ARGS(X, A_NONE, I(0), A_BOOL(true)), {S(ANY, 2, 2, 4)}},
    {OP_max_dim, ARGS(X, I(1)), {S(ANY, 2, 3, 4)}},
    {OP_max_dim, ARGS(X, I(0)), {S(ANY, 0, 0)}},
    {OP_min_dim, ARGS(X, I(-2), A_BOOL(true)), {S(ANY, 2, 3, 4)}},
    {OP_dot, ARGS(X, X), {S(ANY, 1, 5), S(ANY, 1, 5)}},
    {OP_mv, ARGS(X, X), {S(ANY, 2, 3, 4), S(ANY, 1, 4)}},
    {OP_row_dots, ARGS(X, X), {S(ANY, 2, 3, 4), S(ANY, 2, 3, 4)}},

    {OP_view, ARGS(X, DIMS(3, 2)), {S(ANY, 2, 2, 3)}},
    {OP__unsafe_view, ARGS(X, DIMS(6)), {S(ANY, 2, 2, 3)}},
    {OP_expand, ARGS(X, DIMS(2, 3, 4)), {S(ANY, 2, 3, 1)}},
    {OP_permute, ARGS(X, DIMS(2, 0, 1)), {S(ANY, 3, 2, 3, 4)}},
    {OP_transpose_int, ARGS(X, I(0), I(-1)), {S(ANY, 3, 2, 3, 4)}},
    {OP_slice_Tensor, ARGS(X, I(1), I(1), I(6), I(2)), {S(ANY, 2, 2, 6)}},
    {OP_select_int, ARGS(X, I(-1), I(2)), {S(ANY, 2, 2, 3)}},
    {OP_squeeze, ARGS(X), {S(ANY, 3, 2, 1, 3)}},
    {OP_squeeze_dim, ARGS(X, I(1)), {S(ANY, 3, 2, 1, 3)}},
    {OP_squeeze_dims, ARGS(X, DIMS(1)), {S(ANY, 3, 2, 1, 3)}},
    {OP_unsqueeze, ARGS(X, I(1)), {S(ANY, 2, 2, 3)}},
    {OP_as_strided, ARGS(X, DIMS(2, 2), DIMS(1, 2)), {S(ANY, 2, 2, 3)}},
    {OP_diagonal, ARGS(X, I(1), I(0), I(2)), {S(ANY, 3, 3, 2, 4)}},
    {OP_diagonal, ARGS(X, I(-1), I(0), I(1)), {S(ANY, 2, 4, 3)}},
    {OP_unfold, ARGS(X, I(0), I(3), I(2)), {S(ANY, 2, 7, 2)}},
    {OP_flip, ARGS(X, DIMS(0, 1)), {S(ANY, 2, 2, 3)}},
    {OP_upsample_nearest1d, ARGS(X, DIMS(5)), {S(ANY, 3, 1, 2, 3)}},
    {OP_upsample_nearest2d, ARGS(X, DIMS(5, 2)), {S(ANY, 4, 1, 2, 3, 3)}},
    {OP_upsample_nearest3d, ARGS(X, DIMS(3, 2, 4)), {S(ANY, 5, 1, 2, 2, 2, 2)}},
    {OP_upsample_linear1d, ARGS(X, DIMS(5), A_BOOL(false)), {S(ANY, 3, 1, 2, 3)}},
    {OP_upsample_bilinear2d, ARGS(X, DIMS(5, 2), A_BOOL(true)), {S(ANY, 4, 1, 2, 3, 3)}},
    {OP_upsample_nearest1d_backward, ARGS(X, DIMS(5), DIMS(1, 2, 3)), {S(ANY, 3, 1, 2, 5)}},
    {OP_upsample_nearest2d_backward, ARGS(X, DIMS(5, 2), DIMS(1, 2, 3, 3)), {S(ANY, 4, 1, 2, 5, 2)}},
    {OP_upsample_nearest3d_backward, ARGS(X, DIMS(3, 2, 4), DIMS(1, 2, 2, 2, 2)), {S(ANY, 5, 1, 2, 3, 2, 4)}},
    {OP_upsample_linear1d_backward, ARGS(X, DIMS(5), DIMS(1, 2, 3), A_BOOL(true)), {S(ANY, 3, 1, 2, 5)}},
    {OP_upsample_bilinear2d_backward, ARGS(X, DIMS(5, 2), DIMS(1, 2, 3, 3), A_BOOL(false)), {S(ANY, 4, 1, 2, 5, 2)}},
    {OP__cdist_forward, ARGS(X, X, F(2), A_NONE), {S(ANY, 2, 3, 2), S(ANY, 3, 2, 2, 2)}},
    {OP__cdist_forward, ARGS(X, X, F(3), A_NONE), {S(ANY, 2, 3, 2), S(ANY, 2, 2, 2)}},
    {OP__cdist_forward, ARGS(X, X, F(1), A_NONE), {S(ANY, 2, 3, 2), S(ANY, 2, 2, 2)}},
    {OP__pdist_forward, ARGS(X, F(2)), {S(ANY, 2, 4, 2)}},
    {OP__pdist_forward, ARGS(X, F(1.5)), {S(ANY, 2, 4, 2)}},
    {OP_reflection_pad1d, ARGS(X, DIMS(2, 1)), {S(ANY, 2, 2, 4)}},
    {OP_reflection_pad2d, ARGS(X, DIMS(2, 1, 0, -1)), {S(ANY, 3, 2, 3, 4)}},
    {OP_reflection_pad3d, ARGS(X, DIMS(1, 1, 1, 0, 0, 1)), {S(ANY, 4, 1, 2, 2, 3)}},
    {OP_reflection_pad1d_backward, ARGS(X, X, DIMS(2, 1)), {S(ANY, 2, 2, 7), S(FIXED, 2, 2, 4)}},
    {OP_reflection_pad2d_backward, ARGS(X, X, DIMS(2, 1, 0, -1)), {S(ANY, 3, 2, 2, 7), S(FIXED, 3, 2, 3, 4)}},
    {OP_reflection_pad3d_backward,
     ARGS(X, X, DIMS(1, 1, 1, 0, 0, 1)),
     {S(ANY, 4, 1, 3, 3, 5), S(FIXED, 4, 1, 2, 2, 3)}},
    {OP_replication_pad1d, ARGS(X, DIMS(2, 1)), {S(ANY, 2, 2, 4)}},
    {OP_replication_pad2d, ARGS(X, DIMS(2, 1, 0, -1)), {S(ANY, 3, 2, 3, 4)}},
    {OP_replication_pad3d, ARGS(X, DIMS(1, 1, 1, 0, 0, 1)), {S(ANY, 4, 1, 2, 2, 3)}},
    {OP_replication_pad1d_backward, ARGS(X, X, DIMS(2, 1)), {S(ANY, 2, 2, 7), S(FIXED, 2, 2, 4)}},
    {OP_replication_pad2d_backward, ARGS(X, X, DIMS(2, 1, 0, -1)), {S(ANY, 3, 2, 2, 7), S(FIXED, 3, 2, 3, 4)}},
    {OP_replication_pad3d_backward,
     ARGS(X, X, DIMS(1, 1, 1, 0, 0, 1)),
     {S(ANY, 4, 1, 3, 3, 5), S(FIXED, 4, 1, 2, 2, 3)}},
    {OP_max_pool2d_with_indices, ARGS(X, DIMS(2), DIMS(1), DIMS(1)), {S(ANY, 3, 2, 3, 4)}},
    {OP_max_pool3d_with_indices, ARGS(X, DIMS(2), DIMS(1)), {S(ANY, 4, 1, 3, 3, 4)}},
    {OP_max_pool2d_with_indices_backward,
     ARGS(X, X, DIMS(2), DIMS(2), DIMS(0), DIMS(1), A_BOOL(false), X),
     {S(ANY, 3, 2, 2, 2), S(FIXED, 3, 2, 4, 4), AT(16, 3, 2, 2, 2)}},
    {OP_max_pool3d_with_indices_backward,
     ARGS(X, X, DIMS(2), DIMS(2), DIMS(0), DIMS(1), A_BOOL(false), X),
     {S(ANY, 4, 1, 2, 2, 2), S(FIXED, 4, 1, 4, 4, 4), AT(64, 4, 1, 2, 2, 2)}},
    {OP_avg_pool2d, ARGS(X, DIMS(2, 3), DIMS(1), DIMS(1), A_BOOL(true), A_BOOL(false)), {S(ANY, 3, 2, 3, 4)}},
    {OP_avg_pool3d, ARGS(X, DIMS(2), DIMS(1), DIMS(1)), {S(ANY, 4, 1, 2, 3, 3)}},
    {OP_avg_pool2d_backward,
     ARGS(X, X, DIMS(2), DIMS(1), DIMS(1), A_BOOL(false), A_BOOL(false), A_NONE),
     {S(ANY, 3, 2, 4, 4), S(FIXED, 3, 2, 3, 3)}},
    {OP_avg_pool3d_backward,
     ARGS(X, X, DIMS(2), DIMS(2), DIMS(0), A_BOOL(false), A_BOOL(true), A_NONE),
     {S(ANY, 4, 1, 1, 2, 1), S(FIXED, 4, 1, 2, 4, 3)}},
    {OP__adaptive_avg_pool2d, ARGS(X, DIMS(2, 3)), {S(ANY, 3, 2, 3, 4)}},
    {OP__adaptive_avg_pool3d, ARGS(X, DIMS(2, 1, 2)), {S(ANY, 4, 1, 3, 2, 3)}},
    {OP__adaptive_avg_pool2d_backward, ARGS(X, X), {S(ANY, 3, 2, 2, 3), S(FIXED, 3, 2, 3, 4)}},
    {OP__adaptive_avg_pool3d_backward, ARGS(X, X), {S(ANY, 4, 1, 2, 1, 2), S(FIXED, 4, 1, 3, 2, 3)}},
    {OP_median, ARGS(X), {S(ANY, 2, 2, 3)}},
    {OP_nanmedian, ARGS(X), {S(ANY, 2, 3, 3)}},
    {OP_median_dim, ARGS(X, I(1), A_BOOL(true)), {S(ANY, 2, 2, 5)}},
    {OP_nanmedian_dim, ARGS(X, I(0), A_BOOL(false)), {S(ANY, 2, 4, 2)}},
    {OP_real, ARGS(X), {S(ANY, 2, 2, 3)}},
    {OP_resolve_conj, ARGS(X), {S(ANY, 2, 2, 3)}},
    {OP_resolve_neg, ARGS(X), {S(ANY, 2, 2, 3)}},
    {OP_prims_fma, ARGS(X, X, X), {S(ANY, 2, 2, 3), S(ANY, 2, 2, 3), S(ANY, 2, 2, 3)}},
    {OP_adaptive_max_pool2d, ARGS(X, DIMS(2, 3)), {S(ANY, 3, 2, 3, 4)}},
    {OP_adaptive_max_pool3d, ARGS(X, DIMS(2, 1, 2)), {S(ANY, 4, 1, 3, 2, 3)}},
    {OP_adaptive_max_pool2d_backward, ARGS(X, X, X), {S(ANY, 3, 2, 2, 3), S(FIXED, 3, 2, 3, 4), AT(12, 3, 2, 2, 3)}},
    {OP_adaptive_max_pool3d_backward,
     ARGS(X, X, X),
     {S(ANY, 4, 1, 2, 1, 2), S(FIXED, 4, 1, 3, 2, 3), AT(18, 4, 1, 2, 1, 2)}},
    {OP__upsample_nearest_exact1d, ARGS(X, DIMS(5)), {S(ANY, 3, 1, 2, 3)}},
    {OP__upsample_nearest_exact2d, ARGS(X, DIMS(5, 2)), {S(ANY, 4, 1, 2, 3, 3)}},
    {OP__upsample_nearest_exact3d, ARGS(X, DIMS(3, 1, 5)), {S(ANY, 5, 1, 1, 2, 2, 3)}},
    {OP__upsample_nearest_exact1d_backward, ARGS(X, DIMS(5), DIMS(1, 2, 3)), {S(ANY, 3, 1, 2, 5)}},
    {OP__upsample_nearest_exact2d_backward, ARGS(X, DIMS(5, 2), DIMS(1, 2, 3, 3)), {S(ANY, 4, 1, 2, 5, 2)}},
    {OP__upsample_nearest_exact3d_backward, ARGS(X, DIMS(3, 1, 5), DIMS(1, 1, 2, 2, 3)), {S(ANY, 5, 1, 1, 3, 1, 5)}},
    {OP_upsample_trilinear3d, ARGS(X, DIMS(3, 1, 5), A_BOOL(true)), {S(ANY, 5, 1, 1, 2, 2, 3)}},
    {OP_upsample_trilinear3d_backward,
     ARGS(X, DIMS(3, 1, 5), DIMS(1, 1, 2, 2, 3), A_BOOL(false)),
     {S(ANY, 5, 1, 1, 3, 1, 5)}},
    {OP_upsample_bicubic2d, ARGS(X, DIMS(5, 2), A_BOOL(true)), {S(ANY, 4, 1, 2, 3, 3)}},
    {OP_upsample_bicubic2d_backward, ARGS(X, DIMS(5, 2), DIMS(1, 2, 3, 3), A_BOOL(false)), {S(ANY, 4, 1, 2, 5, 2)}},
    {OP__upsample_bilinear2d_aa, ARGS(X, DIMS(5, 2), A_BOOL(false)), {S(ANY, 4, 1, 2, 3, 3)}},
    {OP__upsample_bilinear2d_aa_backward, ARGS(X, DIMS(5, 2), DIMS(1, 2, 3, 3), A_BOOL(true)), {S(ANY, 4, 1, 2, 5, 2)}},
    {OP__upsample_bicubic2d_aa, ARGS(X, DIMS(2, 2), A_BOOL(false)), {S(ANY, 4, 1, 2, 3, 4)}},
    {OP__upsample_bicubic2d_aa_backward, ARGS(X, DIMS(2, 2), DIMS(1, 2, 3, 4), A_BOOL(false)), {S(ANY, 4, 1, 2, 2, 2)}},
    {OP__upsample_lanczos2d_aa, ARGS(X, DIMS(2, 2), A_BOOL(false)), {S(ANY, 4, 1, 2, 3, 4)}},
    {OP__upsample_lanczos2d_aa_backward, ARGS(X, DIMS(2, 2), DIMS(1, 2, 3, 4), A_BOOL(false)), {S(ANY, 4, 1, 2, 2, 2)}},
    {OP_cat, ARGS(X, I(1)), {S(ANY, 2, 2, 3), S(ANY, 2, 2, 1), S(ANY, 2, 2, 2)}, .list = 3},
    {OP_constant_pad_nd, ARGS(X, DIMS(1, -1, 0, 2), F(3)), {S(ANY, 2, 2, 3)}},
    {OP_slice_scatter, ARGS(X, X, I(0), I(1), I(5), I(2)), {S(ANY, 2, 5, 2), S(ANY, 2, 2, 2)}},
    {OP_select_scatter, ARGS(X, X, I(1), I(1)), {S(ANY, 2, 2, 3), S(ANY, 1, 2)}},
    {OP_as_strided_scatter, ARGS(X, X, DIMS(2, 2), DIMS(1, 3), I(2)), {S(ANY, 2, 3, 4), S(ANY, 2, 2, 2)}},
    {OP_diagonal_scatter, ARGS(X, X, I(1), I(0), I(2)), {S(ANY, 3, 3, 2, 4), S(ANY, 2, 2, 3)}},
    {OP_diag_embed, ARGS(X, I(-1), I(0), I(2)), {S(ANY, 2, 3, 2)}},

    {OP_embedding, ARGS(X, X), {S(ANY, 2, 4, 2), AT(4, 2, 2, 3)}},
    {OP_embedding_dense_backward, ARGS(X, X, I(4), I(-1), A_BOOL(false)), {S(ANY, 2, 5, 2), AT(4, 1, 5)}},
    {OP_embedding_dense_backward, ARGS(X, X, I(4), I(1), A_BOOL(false)), {S(ANY, 2, 5, 2), AT(4, 1, 5)}},
    {OP_index_select, ARGS(X, I(1), X), {S(ANY, 2, 2, 4), AT(4, 1, 3)}},
    {OP_gather, ARGS(X, I(1), X), {S(ANY, 2, 2, 4), AT(4, 2, 2, 3)}},
    {OP_index_add, ARGS(X, I(0), X, X, F(1.5)), {S(ANY, 2, 4, 2), AT(4, 1, 3), S(ANY, 2, 3, 2)}},
    {OP_scatter_add, ARGS(X, I(1), X, X), {S(ANY, 2, 2, 4), AT(4, 2, 2, 3), S(ANY, 2, 3, 4)}},
    {OP_scatter_value, ARGS(X, I(1), X, F(2)), {S(ANY, 2, 2, 4), AT(4, 2, 2, 3)}},
    {OP_scatter_src, ARGS(X, I(1), X, X), {S(ANY, 2, 2, 4), AT(4, 2, 2, 1), S(ANY, 2, 2, 3)}},
    {OP_scatter_reduce, ARGS(X, I(1), X, X, A_STR("add")), {S(ANY, 2, 2, 4), AT(4, 2, 2, 3), S(ANY, 2, 3, 4)}},
    {OP_scatter_value_reduce, ARGS(X, I(1), X, F(2), A_STR("add")), {S(ANY, 2, 2, 4), AT(4, 2, 2, 3)}},
    {OP_scatter_value_reduce, ARGS(X, I(1), X, F(2), A_STR("multiply")), {S(ANY, 2, 2, 4), AT(4, 2, 2, 3)}},
    {OP_lift_fresh, ARGS(X), {S(ANY, 2, 2, 4)}},
    {OP_cumsum, ARGS(X, I(1)), {S(ANY, 2, 2, 4)}},
    {OP_cumsum, ARGS(X, I(0)), {S(ANY, 2, 3, 2)}},
    {OP_cumprod, ARGS(X, I(1)), {S(ANY, 2, 2, 4)}},
    {OP_cumprod, ARGS(X, I(-2)), {S(ANY, 2, 3, 2)}},
    {OP_sort_stable, ARGS(X, A_BOOL(true), I(1)), {S(ANY, 2, 2, 4)}},
    {OP_topk, ARGS(X, I(2), I(0)), {S(ANY, 2, 4, 2)}},
    {OP_scatter_reduce_two,
     ARGS(X, I(1), X, X, A_STR("sum"), A_BOOL(true)),
     {S(ANY, 2, 2, 4), AT(4, 2, 2, 3), S(ANY, 2, 3, 4)}},
    {OP_scatter_reduce_two,
     ARGS(X, I(1), X, X, A_STR("sum"), A_BOOL(false)),
     {S(ANY, 2, 2, 4), AT(4, 2, 2, 3), S(ANY, 2, 3, 4)}},
    {OP_scatter_reduce_two,
     ARGS(X, I(1), X, X, A_STR("mean"), A_BOOL(true)),
     {S(ANY, 2, 2, 4), AT(4, 2, 2, 3), S(ANY, 2, 3, 4)}},
    {OP_scatter_reduce_two,
     ARGS(X, I(1), X, X, A_STR("mean"), A_BOOL(false)),
     {S(ANY, 2, 2, 4), AT(4, 2, 2, 3), S(ANY, 2, 3, 4)}},
    {OP_scatter_reduce_two,
     ARGS(X, I(1), X, X, A_STR("prod"), A_BOOL(true)),
     {S(ANY, 2, 2, 4), AT(4, 2, 2, 3), S(ANY, 2, 3, 4)}},
    {OP_scatter_reduce_two,
     ARGS(X, I(1), X, X, A_STR("prod"), A_BOOL(false)),
     {S(ANY, 2, 2, 4), AT(4, 2, 2, 3), S(ANY, 2, 3, 4)}},
    {OP_scatter_reduce_two,
     ARGS(X, I(1), X, X, A_STR("amax"), A_BOOL(true)),
     {S(ANY, 2, 2, 4), AT(4, 2, 2, 3), S(ANY, 2, 3, 4)}},
    {OP_scatter_reduce_two,
     ARGS(X, I(1), X, X, A_STR("amax"), A_BOOL(false)),
     {S(ANY, 2, 2, 4), AT(4, 2, 2, 3), S(ANY, 2, 3, 4)}},
    {OP_scatter_reduce_two,
     ARGS(X, I(1), X, X, A_STR("amin"), A_BOOL(true)),
     {S(ANY, 2, 2, 4), AT(4, 2, 2, 3), S(ANY, 2, 3, 4)}},
    {OP_scatter_reduce_two,
     ARGS(X, I(1), X, X, A_STR("amin"), A_BOOL(false)),
     {S(ANY, 2, 2, 4), AT(4, 2, 2, 3), S(ANY, 2, 3, 4)}},

    {OP_mm, ARGS(X, X), {S(ANY, 2, 2, 3), S(ANY, 2, 3, 4)}},
    {OP_bmm, ARGS(X, X), {S(ANY, 3, 2, 2, 3), S(ANY, 3, 2, 3, 2)}},
    {OP_addmm, ARGS(X, X, X, F(0.5), F(2)), {S(ANY, 1, 4), S(ANY, 2, 2, 3), S(ANY, 2, 3, 4)}},
    {OP_baddbmm, ARGS(X, X, X, F(0.5), F(2)), {S(ANY, 3, 2, 2, 2), S(ANY, 3, 2, 2, 3), S(ANY, 3, 2, 3, 2)}},

    {OP_convolution,
     ARGS(X, X, X, DIMS(2, 1), DIMS(1, 0), DIMS(1, 2), A_BOOL(false), DIMS(0, 0), I(2)),
     {S(ANY, 4, 2, 2, 3, 4), S(ANY, 4, 4, 1, 2, 2), S(ANY, 1, 4)}},
    {OP_convolution,
     ARGS(X, X, A_NONE, DIMS(2), DIMS(1), DIMS(1), A_BOOL(true), DIMS(1), I(1)),
     {S(ANY, 3, 2, 2, 3), S(ANY, 3, 2, 3, 3)}},
    {OP_convolution_backward,
     ARGS(X, X, X, DIMS(4), DIMS(2, 1), DIMS(1, 0), DIMS(1, 2), A_BOOL(false), DIMS(0, 0), I(2), DIMS(1, 1, 1)),
     {S(ANY, 4, 1, 4, 2, 2), S(ANY, 4, 1, 2, 3, 4), S(ANY, 4, 4, 1, 2, 2)}},
    {OP_convolution_backward,
     ARGS(X, X, X, A_NONE, DIMS(2), DIMS(1), DIMS(1), A_BOOL(true), DIMS(1), I(1), DIMS(1, 1, 0)),
     {S(ANY, 3, 2, 3, 6), S(ANY, 3, 2, 2, 3), S(ANY, 3, 2, 3, 3)}},

    {OP_linalg_vector_norm, ARGS(X, F(2), DIMS(1)), {S(ANY, 2, 2, 3)}},
    {OP_linalg_vector_norm, ARGS(X, F(1), A_NONE), {S(ANY, 2, 2, 3)}},
    {OP_linalg_vector_norm, ARGS(X, F(3), DIMS(0), A_BOOL(true)), {S(ANY, 2, 2, 3)}},
    {OP_linalg_vector_norm, ARGS(X, F(1.5), DIMS(1)), {S(POSITIVE, 2, 2, 3)}},
    {OP_linalg_vector_norm, ARGS(X, F(0.5), DIMS(1)), {S(POSITIVE, 2, 2, 3)}},
    {OP_linalg_vector_norm, ARGS(X, F(INFINITY), DIMS(1)), {S(ANY, 2, 2, 3)}},
    {OP_linalg_vector_norm, ARGS(X, F(-INFINITY), DIMS(1)), {S(ANY, 2, 2, 3)}},
    {OP_linalg_vector_norm, ARGS(X, I(0), DIMS(1)), {S(ANY, 2, 2, 3)}},
    {OP_im2col, ARGS(X, DIMS(2, 2), DIMS(1, 1), DIMS(1, 0), DIMS(1, 2)), {S(ANY, 4, 1, 2, 3, 4)}},
    {OP_col2im, ARGS(X, DIMS(3, 4), DIMS(2, 2), DIMS(1, 1), DIMS(1, 0), DIMS(1, 2)), {S(ANY, 3, 1, 4, 8)}},
    {OP_grid_sampler_2d, ARGS(X, X, I(0), I(0), A_BOOL(false)), {S(ANY, 4, 1, 2, 3, 3), S(UNIT, 4, 1, 2, 2, 2)}},
    {OP_grid_sampler_2d, ARGS(X, X, I(2), I(2), A_BOOL(true)), {S(ANY, 4, 1, 2, 3, 3), S(UNIT, 4, 1, 2, 2, 2)}},
    {OP_grid_sampler_3d, ARGS(X, X, I(0), I(0), A_BOOL(false)), {S(ANY, 5, 1, 2, 2, 3, 3), S(UNIT, 5, 1, 2, 1, 1, 3)}},
    {OP_grid_sampler_3d, ARGS(X, X, I(0), I(2), A_BOOL(true)), {S(ANY, 5, 1, 2, 2, 3, 3), S(UNIT, 5, 1, 2, 1, 1, 3)}},
    {OP_grid_sampler_3d, ARGS(X, X, I(2), I(1), A_BOOL(false)), {S(ANY, 5, 1, 2, 2, 3, 3), S(UNIT, 5, 1, 2, 1, 1, 3)}},
    {OP__embedding_bag, ARGS(X, X, X, A_BOOL(false), I(1)), {S(ANY, 2, 5, 3), AT(5, 1, 4), AT(1, 1, 2)}},
    {OP__embedding_bag,
     ARGS(X, X, X, A_BOOL(false), I(0), A_BOOL(false), X),
     {S(ANY, 2, 5, 3), AT(5, 1, 4), AT(1, 1, 2), S(ANY, 1, 4)}},

    {OP__softmax, ARGS(X, I(1), A_BOOL(false)), {S(ANY, 2, 2, 4)}},
    {OP__safe_softmax, ARGS(X, I(1)), {S(ANY, 2, 2, 4)}},
    {OP__log_softmax, ARGS(X, I(0), A_BOOL(false)), {S(ANY, 2, 3, 2)}},
    {OP__softmax_backward_data, ARGS(X, X, I(1), I(DT_f64)), {S(ANY, 2, 2, 4), S(UNIT, 2, 2, 4)}},
    {OP__log_softmax_backward_data, ARGS(X, X, I(1), I(DT_f64)), {S(ANY, 2, 2, 4), S(UNIT, 2, 2, 4)}},
    {OP_native_layer_norm, ARGS(X, DIMS(4), X, X, F(1e-5)), {S(ANY, 2, 2, 4), S(ANY, 1, 4), S(ANY, 1, 4)}},
    {OP_native_layer_norm, ARGS(X, DIMS(2, 3), A_NONE, A_NONE, F(1e-5)), {S(ANY, 3, 2, 2, 3)}},
    {OP__native_batch_norm_legit_no_training,
     ARGS(X, X, X, X, X, F(0.1), F(0.1)),
     {S(ANY, 3, 2, 3, 2), S(ANY, 1, 3), S(ANY, 1, 3), S(FIXED, 1, 3), S(FIXED, 1, 3)}},
    {OP__native_batch_norm_legit_no_training,
     ARGS(X, A_NONE, X, X, X, F(0.1), F(0.1)),
     {S(ANY, 2, 4, 3), S(ANY, 1, 3), S(FIXED, 1, 3), S(FIXED, 1, 3)}},
    {OP_native_group_norm,
     ARGS(X, X, X, I(2), I(4), I(3), I(2), F(1e-2)),
     {S(ANY, 3, 2, 4, 3), S(ANY, 1, 4), S(ANY, 1, 4)}},
    {OP_native_group_norm, ARGS(X, A_NONE, A_NONE, I(2), I(4), I(1), I(2), F(1e-2)), {S(ANY, 2, 2, 4)}},
    {OP_native_batch_norm_backward,
     ARGS(X, X, X, X, X, A_NONE, A_NONE, A_BOOL(false), F(0.1), DIMS(1, 1, 1)),
     {S(ANY, 3, 2, 3, 2), S(ANY, 3, 2, 3, 2), S(ANY, 1, 3), S(FIXED, 1, 3), S(FIXED, 1, 3)}},
    {OP_native_layer_norm_backward,
     ARGS(X, X, DIMS(3), X, X, X, A_NONE, DIMS(1, 1, 0)),
     {S(ANY, 2, 2, 3), S(ANY, 2, 2, 3), S(ANY, 2, 2, 1), S(POSITIVE, 2, 2, 1), S(ANY, 1, 3)}},
    {OP_native_layer_norm_backward,
     ARGS(X, X, DIMS(3), X, X, X, X, DIMS(0, 1, 1)),
     {S(ANY, 2, 2, 3), S(ANY, 2, 2, 3), S(ANY, 2, 2, 1), S(POSITIVE, 2, 2, 1), S(ANY, 1, 3), S(ANY, 1, 3)}},
    {OP_native_layer_norm_backward,
     ARGS(X, X, DIMS(2, 3), X, X, A_NONE, A_NONE, DIMS(1, 0, 0)),
     {S(ANY, 3, 2, 2, 3), S(ANY, 3, 2, 2, 3), S(ANY, 3, 2, 1, 1), S(POSITIVE, 3, 2, 1, 1)}},
    {OP_nll_loss_forward, ARGS(X, X, A_NONE, I(1), I(-100)), {S(ANY, 2, 3, 4), AT(4, 1, 3)}},
    {OP_nll_loss_backward,
     ARGS(X, X, X, A_NONE, I(2), I(-100), X),
     {S(ANY, 0, 0), S(ANY, 2, 3, 4), AT(4, 1, 3), S(FIXED, 0, 0)}},
    {OP_binary_cross_entropy, ARGS(X, X, A_NONE, I(1)), {S(SHARE, 2, 2, 3), S(SHARE, 2, 2, 3)}},
    {OP_huber_loss, ARGS(X, X, I(1), F(0.7)), {S(ANY, 2, 2, 3), S(ANY, 2, 2, 3)}},
    {OP_smooth_l1_loss, ARGS(X, X, I(0), F(0.7)), {S(ANY, 2, 2, 3), S(ANY, 1, 3)}},
    {OP_binary_cross_entropy, ARGS(X, X, X, I(0)), {S(SHARE, 2, 2, 3), S(SHARE, 2, 2, 3), S(FIXED, 1, 3)}},
    {OP_nll_loss_forward, ARGS(X, X, X, I(2), I(1)), {S(ANY, 2, 3, 4), AT(4, 1, 3), S(FIXED, 1, 4)}},
};

/* tensors of a case --------------------------------------------------------------------------- */

static double next_random(uint64_t *seed) { /* [0, 1) */
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*seed >> 11) / 9007199254740992.0;
}

static double draw(Domain domain, uint64_t *seed) {
    const double r = next_random(seed);
    if (domain == POSITIVE || domain >= FIXED) return 0.2 + 1.8 * r;
    if (domain == ABOVE) return 1.2 + 1.8 * r;
    if (domain == SHARE) return 0.1 + 0.8 * r;
    return domain == UNIT ? -0.9 + 1.8 * r : -2 + 4 * r;
}

static sn_tensor *make(const Spec *spec, uint64_t *seed) {
    double floats[MAX_ELEMENTS];
    int64_t ints[MAX_ELEMENTS], n = 1;
    bool bools[MAX_ELEMENTS];
    float scales[MAX_ELEMENTS];
    for (int i = 0; i < spec->rank; i++) n *= spec->sizes[i];
    ck_assert_int_le(n, MAX_ELEMENTS);
    for (int64_t i = 0; i < n; i++) {
        if (spec->domain == INDEX)
            ints[i] = (int64_t)(next_random(seed) * (double)spec->below);
        else if (spec->domain == MASK)
            bools[i] = next_random(seed) < 0.5;
        else
            scales[i] = (float)(floats[i] = draw(spec->domain, seed));
    }
    const sn_ints sizes = {spec->sizes, spec->rank};
    if (spec->domain == INDEX) return sn_from_data(ints, sizes, SN_I64);
    if (spec->domain == MASK) return sn_from_data(bools, sizes, SN_BOOL);
    if (spec->domain == SCALES) return sn_from_data(scales, sizes, SN_F32);
    return sn_requires_grad_(sn_from_data(floats, sizes, SN_F64), spec->domain != FIXED);
}

typedef struct Made {
    sn_tensor *all[MAX_TENSORS], *leaves[MAX_TENSORS];
    int n, n_leaves;
    uint64_t weights; /* seed of the loss' weights */
} Made;

static Made make_all(const Case *c) {
    Made made = {.weights = 99};
    uint64_t seed = 7;
    int wanted = c->list;
    for (int i = c->list ? 1 : 0; i < op_row(c->op)->n_params; i++) wanted += c->args[i].kind == ARG_tensor;
    for (; made.n < wanted; made.n++) {
        sn_tensor *const t = made.all[made.n] = make(&c->tensors[made.n], &seed);
        ck_assert_msg(t != NULL, "%s: %s", op_row(c->op)->name, sn_error_take()->message);
        if (c->tensors[made.n].domain < INDEX) made.leaves[made.n_leaves++] = t;
    }
    return made;
}

/* losses -------------------------------------------------------------------------------------- */

static sn_tensor *op(OpId id, const Arg *args, int n, sn_tensor **outs) {
    Arg full[MAX_ARGS];
    if (op_args_normalize(op_row(id), args, n, full) != ST_OK) return NULL;
    return dispatch(op_row(id), FORM_functional, full, NULL, outs) == ST_OK ? outs[0] : NULL;
}

static sn_tensor *weighted(sn_tensor *t, uint64_t *seed) {
    double weights[MAX_ELEMENTS];
    for (int64_t i = 0; i < sn_numel(t); i++) weights[i] = 0.5 + next_random(seed);
    sn_tensor *const w = sn_from_data(weights, sn_sizes(t), SN_F64), *outs[1];
    sn_tensor *const product = op(OP_mul_Tensor, (const Arg[]){A_VAL(&t->base), A_VAL(&w->base)}, 2, outs);
    return product ? op(OP_sum_dim_IntList, (const Arg[]){A_VAL(&product->base), A_NONE}, 2, outs) : NULL;
}

static sn_tensor *plus(sn_tensor *a, sn_tensor *b) {
    sn_tensor *outs[1];
    return !a ? b : !b ? a : op(OP_add_Tensor, (const Arg[]){A_VAL(&a->base), A_VAL(&b->base)}, 2, outs);
}

/* The weighted sum of the case's first result (others are by-products). */
static sn_tensor *loss_of(const Case *c, const Made *made) {
    Arg args[MAX_ARGS];
    Val *list[MAX_TENSORS];
    sn_tensor *outs[MAX_LIST] = {0};
    memcpy(args, c->args, sizeof args);
    int next = 0;
    for (; next < c->list; next++) list[next] = &made->all[next]->base;
    if (c->list) args[0] = A_VALS(list, c->list);
    for (int i = c->list ? 1 : 0; i < op_row(c->op)->n_params; i++)
        if (args[i].kind == ARG_tensor) args[i] = A_VAL(&made->all[next++]->base);
    sn_tensor *const result = op(c->op, args, op_row(c->op)->n_params, outs);
    uint64_t seed = made->weights;
    return result ? weighted(result, &seed) : NULL;
}

/* A weighted sum of the first gradients: its gradients are second derivatives. */
static sn_tensor *slope_of(const Case *c, const Made *made) {
    sn_tensor *grads[MAX_TENSORS], *sum = NULL, *const loss = loss_of(c, made);
    if (!loss || sn_gradients((sn_tensors){&loss, 1}, (sn_tensors){made->leaves, made->n_leaves}, (sn_tensors){0},
                              SN_CREATE_GRAPH | SN_ALLOW_UNUSED, grads))
        return NULL;
    uint64_t seed = 1234;
    for (int i = 0; i < made->n_leaves; i++)
        if (grads[i]) sum = plus(sum, weighted(grads[i], &seed));
    return sum;
}

typedef sn_tensor *Loss(const Case *c, const Made *made);

static double value_of(Loss *loss, const Case *c, const Made *made) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const t = loss(c, made);
    const double value = t ? sn_item(t) : NAN;
    sn_scope_end(scope);
    return value;
}

static void check_element(Loss *loss, const Case *c, const Made *made, sn_tensor *leaf, sn_tensor *grad, int64_t i) {
    const double step = 1e-5;
    double *const x = tensor_data(leaf), middle = x[i];
    x[i] = middle + step;
    const double above = value_of(loss, c, made);
    x[i] = middle - step;
    const double below = value_of(loss, c, made);
    x[i] = middle;
    double all[MAX_ELEMENTS] = {0};
    if (grad) ck_assert_int_eq(sn_read(grad, all, (size_t)sn_numel(grad) * sizeof *all), SN_OK);
    const double got = all[i], want = (above - below) / (2 * step);
    ck_assert_msg(fabs(got - want) <= 1e-6 + 1e-5 * fabs(want), "%s case %d, %s: element %d is %g, difference %g",
                  op_row(c->op)->name, (int)(c - cases), loss == loss_of ? "gradient" : "second gradient", (int)i, got,
                  want);
}

static void check(Loss *loss, const Case *c, const Made *made) {
    sn_tensor *grads[MAX_TENSORS] = {0}, *const root = loss(c, made);
    ck_assert_msg(root != NULL || sn_check() == SN_OK, "%s case %d: %s", op_row(c->op)->name, (int)(c - cases),
                  sn_error_take()->message);
    if (root && sn_requires_grad(root)) {
        const sn_status status = sn_gradients((sn_tensors){&root, 1}, (sn_tensors){made->leaves, made->n_leaves},
                                              (sn_tensors){0}, SN_ALLOW_UNUSED, grads);
        ck_assert_msg(!status, "%s case %d: %s", op_row(c->op)->name, (int)(c - cases), sn_error_take()->message);
    }
    for (int k = 0; k < made->n_leaves; k++)
        for (int64_t i = 0; root && i < sn_numel(made->leaves[k]); i++)
            check_element(loss, c, made, made->leaves[k], grads[k], i);
}

START_TEST(a3_05_first_order) {
    const Made made = make_all(&cases[_i]);
    check(loss_of, &cases[_i], &made);
    sn_scope_end(SN_SCOPE_ROOT);
}
END_TEST

/* As in PyTorch: there is no second derivative, and it says so. */
static bool has_first_only(OpId id) { return id == OP__embedding_bag; }

START_TEST(a3_05_second_order) {
    const Made made = make_all(&cases[_i]);
    if (has_first_only(cases[_i].op)) {
        sn_tensor *grads[MAX_TENSORS] = {0}, *const slope = slope_of(&cases[_i], &made);
        ck_assert_int_ne(sn_gradients((sn_tensors){&slope, 1}, (sn_tensors){made.leaves, made.n_leaves},
                                      (sn_tensors){0}, SN_ALLOW_UNUSED, grads),
                         SN_OK);
        ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "derivative"));
    } else {
        check(slope_of, &cases[_i], &made);
    }
    sn_scope_end(SN_SCOPE_ROOT);
}
END_TEST

/* Rows whose rule has no case here, with the reason. */
static bool excused(const OpRow *row) { return row->flags & OPF_internal || row->flags & OPF_random; }

START_TEST(every_rule_has_a_case) {
    for (int id = 0; id < op_row_count(); id++) {
        const OpRow *const row = op_row_at(id);
        bool found = row->alias_of || !deriv_rule(row) || excused(row);
        for (int i = 0; i < COUNT_OF(cases); i++) found |= cases[i].op == row->id;
        ck_assert_msg(found, "%s has a derivative and no case", row->name);
    }
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("gradients");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, a3_05_first_order, 0, COUNT_OF(cases));
    tcase_add_loop_test(tests, a3_05_second_order, 0, COUNT_OF(cases));
    tcase_add_test(tests, every_rule_has_a_case);
    return suite_run("gradients", tests);
}
