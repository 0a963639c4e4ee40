/* samples_pointwise.c: samples of ir/ops/pointwise.def: shapes that broadcast, dims of 0 and 1, numbers in place of
 * tensors; every activation with arguments other than its defaults. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD
#define BROADCAST                                                                                                      \
    { "x[2,3] x[4]", ST_SHAPE, "[4]" }

const Samples samples_unary = {
    .good = LINES(
        "p[4,5]", "u[3,2,4]", "p[]", "p[0,3]", "p[1,1]", "p[1300]", "elu: x[4,5]", "elu: x[4,5] 0.7 1.5 2", "elu: x[0]",
        "elu: x[1]", "leaky_relu: x[4,5]", "leaky_relu: x[4,5] 0.3", "leaky_relu: x[0]", "leaky_relu: x[1]",
        "softplus: x[4,5]", "softplus: x[4,5] 2 1.5", "softplus: x[0]", "hardtanh: x[4,5]",
        "hardtanh: x[4,5] -0.5 0.25", "hardtanh: x[1]", "abs: x[4,5]", "abs: x[0]", "relu: x[4,5]", "relu: x[1]",
        "sign: x[4,5]", "neg: x[4,5]", "neg: x[0,2]", "floor: x[4,5]", "ceil: x[4,5]", "trunc: x[4,5]", "round: x[4,5]",
        "sigmoid: x[4,5]", "silu: x[4,5]", "tanh: x[4,5]", "isnan: x[4,5]", "isinf: x[4,5]", "isfinite: x[4,5]",
        "logical_not: x[4,5]", "acos: u[4,5]", "acos: u[0]", "acos: u[1]", "asin: u[4,5]", "asin: u[0]", "asin: u[1]",
        "atanh: u[4,5]", "atanh: u[0]", "atanh: u[1]", "atan: x[4,5]", "asinh: x[4,5]", "sinh: x[4,5]", "cosh: x[4,5]",
        "erfc: x[4,5]", "frac: x[4,5]", "hardsigmoid: x[4,5]", "hardswish: x[4,5]", "mish: x[4,5]", "relu6: x[4,5]",
        "log_sigmoid: x[4,5]", "signbit: x[4,5]", "nan_to_num: x[4,5]", "nan_to_num: x[4,5] 1.5 2.0 -3.0"),
};
const Samples samples_round_decimals = {
    .good = LINES("x[4,5] decimals=2", "x[4,5] decimals=0", "x[4,5] decimals=-1", "x[] decimals=1", "x[0] decimals=3",
                  "x[1] decimals=1"),
    .bad = BAD({"i64[3] decimals=1", ST_DTYPE, "i64"}, {"x[3]", ST_ARGUMENT, "decimals"}),
};
const Samples samples_threshold = {
    .good = LINES("x[4,5] 0.5 2", "x[] 0 -1", "x[0] 0 1", "x[1] -1 3"),
    .bad = BAD({"bool[3] 0 1", ST_DTYPE, "bool"}, {"i64[3] inf 1", ST_VALUE, "threshold inf"},
               {"i64[0] 0 nan", ST_VALUE, "value nan"}),
};
const Samples samples_gelu = {
    .good = LINES("x[4,5]", "x[4,5] approximate='tanh'", "x[0]", "x[1,1]", "x[]"),
    .bad = BAD({"x[3] approximate='fast'", ST_ARGUMENT, "approximate"}),
};
const Samples samples_binary = {
    .good = LINES("x[4,5] p[4,5]", "x[4,5] p[5]", "x[3,1] p[1,4]", "x[] p[3]", "x[0,3] p[3]", "x[1,1] p[1]",
                  "x[4,5] p[]", "gelu_backward: x[4,5] x[4,5]", "gelu_backward: x[4,5] x[5] approximate='tanh'",
                  "threshold_backward: x[4,5] x[4,5] 0", "threshold_backward: x[4,5] x[5] 0.5",
                  "native_dropout_backward: x[4,5] m[4,5] 2.0", "native_dropout_backward: x[1] m[1] 0.5",
                  "xlogy.Tensor: p[4,5] p[5]", "xlogy.Tensor: p[0] p[1]", "logical_and: x[4,5] x[5]",
                  "logical_or: x[4,5] x[5]", "logical_xor: x[4,1] x[5]"),
    .bad = BAD({"mul.Tensor: x[2,3] x[4]", ST_SHAPE, "other [4]"}, {"eq.Tensor: x[2,3] x[4]", ST_SHAPE, "other [4]"},
               {"gelu_backward: x[2,3] x[4]", ST_SHAPE, "self [4]"},
               {"gelu_backward: x[3] x[3] approximate='x'", ST_ARGUMENT, "approximate"},
               {"gelu_backward: i64[3] i64[3] approximate='x'", ST_ARGUMENT, "approximate"},
               {"threshold_backward: i64[3] i64[3] inf", ST_VALUE, "threshold inf"},
               {"remainder.Tensor: i64[9] i64[9]", ST_VALUE, "divided by zero"},
               {"fmod.Tensor: i64[9] i64[9]", ST_VALUE, "divided by zero"},
               {"floor_divide: i64[9] i64[9]", ST_VALUE, "divided by zero"}, {"hypot: i64[9] i64[9]", ST_DTYPE, "i64"},
               {"atan2: x[2,3] x[4]", ST_SHAPE, "other [4]"}, {"maximum: x[2,3] x[4]", ST_SHAPE, "other [4]"},
               {"threshold_backward: x[3] x[3]", ST_ARGUMENT, "threshold"}),
};
const Samples samples_binary_alpha = {
    .good = LINES("x[4,5] x[4,5]", "x[4,5] x[5] alpha=2", "x[3,1] x[1,4]", "x[] x[3]", "x[0,3] x[3]", "x[1] x[1]"),
    .bad = BAD(BROADCAST),
};
const Samples samples_bitwise = {
    .good =
        LINES("x[4,5] x[5]", "x[3] x[]", "x[0] x[1]", "bitwise_not: x[4,5]", "bitwise_not: x[0]", "bitwise_not: x[1]",
              "bitwise_left_shift.Tensor: x[4,5] i<4[5]", "bitwise_right_shift.Tensor: x[4,5] i<4[5]"),
    .bad = BAD({"bitwise_and.Tensor: i64[2,3] i64[4]", ST_SHAPE, "[4]"},
               {"bitwise_or.Tensor: f32[3] f32[3]", ST_DTYPE, "f32"}, {"bitwise_not: f32[3]", ST_DTYPE, "f32"}),
};
const Samples samples_div_mode = {
    .good = LINES("x[4,5] p[4,5] rounding_mode='floor'", "x[4,5] p[5] rounding_mode='trunc'",
                  "x[3] p[3] rounding_mode=none", "x[0] p[1] rounding_mode='floor'"),
    .bad = BAD(BROADCAST, {"i64[9] i64[9] rounding_mode='floor'", ST_VALUE, "divided by zero"},
               {"x[3] p[3] rounding_mode='up'", ST_ARGUMENT, "rounding_mode"}),
};
const Samples samples_pow = {
    .good = LINES("p[4,5] u[4,5]", "p[4,5] p[5]", "p[3] p[]", "p[0] p[1]"),
    .bad = BAD(BROADCAST),
};
const Samples samples_clamp = {
    .good = LINES("x[4,5] u[4,5] p[4,5]", "x[4,5] u[5] none", "x[4,5] none p[]", "x[0] u[1] p[1]", "x[1] u[1] none"),
    .bad = BAD({"x[3] none none", ST_ARGUMENT, "min"}, {"u8[3] none -1", ST_VALUE, "max -1"},
               {"i8[3] 128 none", ST_VALUE, "min 128"}),
};
const Samples samples_lerp = {
    .good = LINES("x[4,5] x[4,5] p[4,5]", "x[4,5] x[5] p[]", "x[0] x[1] p[1]", "x[1] x[1] p[1]"),
    .bad = BAD({"x[2,3] x[4] x[3]", ST_SHAPE, "[4]"}),
};
const Samples samples_addcmul = {
    .good = LINES("x[4,5] x[4,5] p[4,5]", "x[4,5] x[5] p[4,1] value=2", "x[0] x[1] p[1]", "x[1] x[1] p[]"),
    .bad = BAD({"x[2,3] x[4] p[3]", ST_SHAPE, "[4]"}),
};
const Samples samples_where = {
    .good = LINES("m[4,5] x[4,5] x[4,5]", "m[4,1] x[5] x[]", "m[0] x[1] x[1]", "m[1] x[1] x[1]"),
    .bad = BAD({"f32[3] x[3] x[3]", ST_DTYPE, "f32"}, {"m[2,3] x[4] x[3]", ST_SHAPE, "[4]"}),
};
const Samples samples_masked_fill = {
    .good = LINES("x[4,5] m[4,5] x[]", "x[4,5] m[5] x[]", "x[0] m[1] x[]", "x[1] m[1] x[]"),
    .bad = BAD({"x[3] x[3] x[]", ST_DTYPE, "mask"}, {"x[3] m[3] x[3]", ST_SHAPE, "value"},
               {"i64[3] m[3] inf", ST_VALUE, "value inf"}),
};
const Samples samples_fill = {
    .good = LINES("x[4,5] x[]", "x[0] x[]", "x[1] x[]"),
    .bad = BAD({"x[3] x[3]", ST_SHAPE, "value"}, {"i64[3] nan", ST_VALUE, "value nan"},
               {"i8[3] 300", ST_VALUE, "value 300"}),
};
const Samples samples_copy = {
    .good = LINES("x[4,5] x[4,5]", "x[4,5] f64[5]", "x[4,5] i64[]", "x[0] x[1]", "x[1] x[1]"),
    .bad = BAD({"x[3] x[2,3]", ST_SHAPE, "[2, 3]"}),
};
const Samples samples_cast = {
    .good = LINES("x[4,5]", "x[4,5] dtype=:f64", "x[4,5] dtype=:bf16", "x[4,5] dtype=:f16", "x[4,5] dtype=:i64",
                  "p[4,5] dtype=:u8", "x[4,5] dtype=:bool", "x[0] dtype=:f32", "x[1] dtype=:i32", "x[] dtype=:f32"),
};
const Samples samples_tril = {
    .good = LINES("x[4,5]", "x[2,4,5] 1", "x[5,4] -2", "x[0,3]", "x[1,1]"),
    .bad = BAD({"x[3]", ST_SHAPE, "2"}),
};
