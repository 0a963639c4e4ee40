/* samples_random.c: samples of ir/ops/random.def. What is drawn unit/test_random.c measures. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_randint = {
    .good = LINES("10 [4,5]", "1 []", "3 [0,3]", "100 [3] dtype=:f32", "7 [2,3] dtype=:u8"),
    .bad = BAD({"0 [3]", ST_ARGUMENT, "high"}, {"300 [2] dtype=:u8", ST_VALUE, "299"}, {"3 [-1]", ST_SHAPE, "-1"}),
};
const Samples samples_randint_low = {
    .good = LINES("-5 10 [4,5]", "3 4 [2]", "0 2 [3] dtype=:bool", "-128 128 [9] dtype=:i8"),
    .bad = BAD({"3 3 [3]", ST_ARGUMENT, "high"}, {"-1 3 [2] dtype=:u8", ST_VALUE, "-1"}),
};
const Samples samples_randint_like = {
    .good = LINES("x[4,5] 2", "x[] 1", "x[0,3] 2", "f32[4,5] 10", "x[3] 20 dtype=:i64"),
    .bad = BAD({"x[3] 0", ST_ARGUMENT, "high"}),
};
const Samples samples_randint_like_low = {
    .good = LINES("x[4,5] 1 2", "f32[4,5] -3 10", "x[3] 0 2 dtype=:bool", "x[0] 0 2"),
    .bad = BAD({"x[3] 4 2", ST_ARGUMENT, "high"}),
};
const Samples samples_random = {
    .good = LINES("random: x[4,5]", "random: i64[3]", "random.from: f32[4,5] 2 9", "random.from: u8[4] 3 none",
                  "random.to: f64[3] 100", "random.to: x[0] 2"),
    .bad = BAD({"random.to: x[3] 0", ST_ARGUMENT, "high"}, {"random.from: f32[3] 4 4", ST_ARGUMENT, "high"}),
};
const Samples samples_uniform = {
    .good = LINES("x[4,5]", "x[] -1 2", "x[0,3]", "x[1] 3 3"),
    .bad = BAD({"x[3] 2 1", ST_VALUE, "from"}, {"i64[3]", ST_DTYPE, "i64"}),
};
const Samples samples_normal = {
    .good = LINES("normal: x[4,5]", "normal: x[] 2 3", "normal: x[0,3]", "normal: x[1] 3 0",
                  "normal.Tensor_float: x[4,5]", "normal.Tensor_float: x[] 2", "normal.Tensor_float: x[0,3] 0",
                  "normal.float_Tensor: 0.5 q[4,5]", "normal.float_Tensor: 1 q[]", "normal.Tensor_Tensor: x[4,5] q[5]",
                  "normal.Tensor_Tensor: x[1] q[3,1]", "normal.float_float: 1 2 [4,5]", "normal.float_float: 0 0 []",
                  "normal.float_float: 0 1 [0,3] dtype=:f64"),
    .bad =
        BAD({"normal: x[3] 0 -1", ST_VALUE, "std"}, {"normal: i64[3]", ST_DTYPE, "i64"},
            {"normal.Tensor_float: x[3] -1", ST_VALUE, "std"}, {"normal.float_Tensor: 0 x[40]", ST_VALUE, "0 or more"},
            {"normal.Tensor_Tensor: x[3] q[2]", ST_SHAPE, "[2]"}, {"normal.float_float: 0 -1 [3]", ST_VALUE, "std"}),
};
const Samples samples_exponential = {
    .good = LINES("x[4,5]", "x[] 2", "x[0,3] 0.5"),
    .bad = BAD({"x[3] 0", ST_VALUE, "lambd"}, {"i64[3]", ST_DTYPE, "i64"}),
};
const Samples samples_geometric = {
    .good = LINES("x[4,5] 0.5", "i64[3] 0.25", "x[0] 0.1", "x[] 0.9"),
    .bad = BAD({"x[3] 1", ST_VALUE, "p"}, {"m[3] 0.5", ST_DTYPE, "bool"}),
};
const Samples samples_cauchy = {
    .good = LINES("x[4,5]", "x[] 1 2", "x[0,3]"),
    .bad = BAD({"x[3] 0 0", ST_VALUE, "sigma"}),
};
const Samples samples_log_normal = {
    .good = LINES("x[4,5] 0 0.5", "x[] 0.1 0.25", "x[0,3]"),
    .bad = BAD({"x[3] 0 0", ST_VALUE, "std"}),
};
const Samples samples_multinomial = {
    .good = LINES("q[4,5] 3", "q[7] 7", "q[3,4] 1", "q[4,5] 9 true", "q[1] 2 true", "q[2,1] 1", "q[0,3] 2"),
    .bad = BAD({"q[3] 4", ST_ARGUMENT, "num_samples"}, {"q[3] 0", ST_ARGUMENT, "num_samples"},
               {"q[2,2,2] 1", ST_SHAPE, "self"}, {"i64[3] 1", ST_DTYPE, "i64"}, {"x[40] 2", ST_VALUE, "negative"}),
};
