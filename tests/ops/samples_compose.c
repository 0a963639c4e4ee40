/* samples_compose.c: samples of ir/ops/compose.def. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_roll = {
    .good = LINES("x[4,5] [2]", "x[4,5] [1] [0]", "x[4,5] [-2,7] [0,-1]", "x[0,3] [1] [1]", "x[] [1]", "x[1] [3] [0]",
                  "x[2,3,4] [0] [1]"),
    .bad = BAD({"x[3] [1,2] [0]", ST_ARGUMENT, "2 shifts"}, {"x[3] [1] [1]", ST_ARGUMENT, "1"}),
};
const Samples samples_tile = {
    .good = LINES("x[2,3] [2]", "x[3] [2,2]", "x[2,3] [1,0]", "x[1] [1]", "x[] [2]", "x[0,2] [2]"),
    .bad = BAD({"x[2] [-1]", ST_SHAPE, "repeats"}),
};
const Samples samples_rot90 = {
    .good = LINES("x[3,4]", "x[3,4] 2", "x[3,4] -1", "x[2,3,4] 5 [0,-1]", "x[2,3] 4", "x[0,3]", "x[1,1]"),
    .bad = BAD({"x[3]", ST_ARGUMENT, "dims"}, {"x[3,4] 1 [0,0]", ST_ARGUMENT, "twice"}),
};
const Samples samples_diag_embed = {
    .good = LINES("x[3]", "x[2,3]", "x[2,3] 1", "x[2,3] -2 0 2", "x[2,3] 0 1 0", "x[0]", "x[1] 1"),
    .bad = BAD({"x[]", ST_SHAPE, "self"}, {"x[3] 0 1 1", ST_ARGUMENT, "dim1"}),
};
const Samples samples_count_dims = {
    .good = LINES("x[4,5] [0]", "x[4,5] [0,-1]", "x[2,3] []", "x[0,3] [0]", "x[1] [0]"),
    .bad = BAD({"x[3] [1]", ST_ARGUMENT, "1"}),
};
const Samples samples_glu = {
    .good = LINES("x[3,4]", "x[4,3] 0", "x[2,2,3] -2", "x[0,4]", "x[2]"),
    .batched = LINES("X[3,4]"),
    .bad = BAD({"x[3]", ST_SHAPE, "even"}, {"x[]", ST_SHAPE, "dim"}),
};
const Samples samples_eye = {
    .good = LINES("0", "1", "4", "3 dtype=:i64"),
    .bad = BAD({"-1", ST_ARGUMENT, "n"}),
};
const Samples samples_eye_m = {
    .good = LINES("0 3", "2 4", "4 2", "3 3 dtype=:bool"),
    .bad = BAD({"1 -2", ST_ARGUMENT, "m"}),
};
/* Of one element there is no deviation, and no slope. */
const Samples samples_std_mean = {
    .good = LINES("std_mean.correction: x[4,5] [1]", "std_mean.correction: x[2,3,4] [0,-1] correction=0 keepdim=true",
                  "std_mean.correction: x[4,5]", "std_mean: x[4,5]", "std_mean: x[2,3] false",
                  "std_mean.dim: x[4,5] [1]", "std_mean.dim: x[4,5] [0] false true"),
    .bad = BAD({"std_mean.dim: x[3] [1]", ST_ARGUMENT, "1"}, {"std_mean: i64[3]", ST_DTYPE, "i64"}),
};
const Samples samples_pixel_shuffle = {
    .good = LINES("x[1,8,2,3] 2", "x[9,1,2] 3", "x[2,3,4,2,1] 2", "x[1,2,3] 1", "x[0,4,1,1] 2"),
    .batched = LINES("X[3,4,2,3] 2"),
    .bad = BAD({"x[3,2] 2", ST_SHAPE, "3 dims"}, {"x[3,2,2] 2", ST_SHAPE, "multiple of 4"},
               {"x[4,2,2] 0", ST_ARGUMENT, "upscale_factor"}),
};
const Samples samples_pixel_unshuffle = {
    .good = LINES("x[1,2,4,6] 2", "x[1,3,6] 3", "x[2,3,4,2,4] 2", "x[1,2,3] 1", "x[0,1,2,2] 2"),
    .batched = LINES("X[3,2,4,2] 2"),
    .bad = BAD({"x[3,2] 2", ST_SHAPE, "3 dims"}, {"x[3,2,3] 2", ST_SHAPE, "multiple of 2"},
               {"x[4,2,2] -1", ST_ARGUMENT, "downscale_factor"}),
};
const Samples samples_channel_shuffle = {
    .good = LINES("x[1,8,2,3] 2", "x[2,6,3] 3", "x[2,3,4] 1", "x[0,4,1] 2", "x[1,1,1] 1"),
    .batched = LINES("X[3,4,2] 2"),
    .bad = BAD({"x[3,2] 2", ST_SHAPE, "3 dims"}, {"x[3,5,2] 2", ST_SHAPE, "multiple of 2"},
               {"x[4,2,2] 0", ST_ARGUMENT, "groups"}),
};
const Samples samples_diff = {
    .good = LINES("x[4,5]", "x[4,5] 2 0", "x[5] 1 0 x[2] x[1]", "x[4,5] 1 -1 none x[4,1]", "x[3] 5", "x[0]", "x[1]",
                  "x[4] 0"),
    .bad = BAD({"x[]", ST_SHAPE, "dim"}, {"x[3] -1", ST_ARGUMENT, "n"}, {"x[3] 1 1", ST_ARGUMENT, "1"},
               {"x[3] 1 0 x[2,2]", ST_SHAPE, "prepend"}),
};
const Samples samples_isclose = {
    .good = LINES("x[4,5] x[4,5]", "x[4,5] x[5] 0.5 0.1", "x[4] x[4] 0 0", "x[3] x[3] 0.1 0.1 true", "x[0] x[0]",
                  "x[1] x[1]"),
    .bad =
        BAD({"x[2,3] x[4]", ST_SHAPE, "[4]"}, {"f32[3] f64[3]", ST_DTYPE, "f64"}, {"x[3] x[3] -1", ST_VALUE, "rtol"}),
};
const Samples samples_heaviside = {
    .good = LINES("x[4,5] x[4,5]", "x[4,5] x[5]", "x[5] x[4,1]", "x[] x[3]", "x[0] x[0]"),
    .batched = LINES("X[4,5] x[5]"),
    .bad = BAD({"x[2,3] x[4]", ST_SHAPE, "[4]"}, {"f32[3] f64[3]", ST_DTYPE, "f64"}),
};
const Samples samples_float_power = {
    .good = LINES("p[4,5] x[4,5]", "p[4,5] x[5]", "p[3] f64[3]", "p[] x[3]", "x[0] x[0]"),
    .bad = BAD({"x[2,3] x[4]", ST_SHAPE, "[4]"}),
};
const Samples samples_float_power_of_number = {
    .good = LINES("x[4] 2", "p[2,3] 0.5", "x[3] -1", "x[] 3", "x[0] 2", "x[3] 0"),
    .bad = BAD({"x[3] none", ST_ARGUMENT, "exponent"}),
};
const Samples samples_number_float_power = {
    .good = LINES("2 x[4,5]", "0.5 x[3]", "3 x[]", "2 x[0]"),
    .bad = BAD({"2 none", ST_ARGUMENT, "exponent"}),
};
const Samples samples_isin = {
    .good = LINES("f32[4,5] f32[3]", "f32[4,5] f32[2,1] true", "i64[6] i64[4] false true", "f32[3] f32[0]",
                  "f32[0] f32[3]", "i32[2,3] f32[2]", "f32[] f32[2,2]"),
    .bad = BAD({"m[3] m[2]", ST_DTYPE, "bool"}),
};
const Samples samples_isin_number = {
    .good = LINES("i64[6] 2", "f32[2,3] 1 false true", "i32[] 1.5", "f32[0] 1"),
    .bad = BAD({"m[3] 1", ST_DTYPE, "elements"}),
};
const Samples samples_number_isin = {
    .good = LINES("1 i64[6]", "0.5 f32[2,3] false true", "1 f32[]", "1 f32[0]"),
    .bad = BAD({"1 m[2]", ST_DTYPE, "test_elements"}),
};
const Samples samples_trace = {
    .good = LINES("x[4,4]", "x[3,5]", "x[5,3]", "x[1,1]", "x[0,0]", "x[2,0]"),
    .bad = BAD({"x[3]", ST_SHAPE, "matrix"}),
};
const Samples samples_dist = {
    .good = LINES("x[4,5] x[4,5]", "x[4,5] x[5] 1", "x[4] x[4] 3", "x[] x[]", "x[1] x[1]"),
    .bad = BAD({"x[2,3] x[4]", ST_SHAPE, "[4]"}, {"i64[3] i64[3]", ST_DTYPE, "i64"}),
};
const Samples samples_cosine_similarity = {
    .good = LINES("x[4,5] x[4,5]", "x[4,5] x[4,5] 0", "x[2,3,4] x[4] -1", "x[5] x[3,5] 1", "x[0,3] x[0,3]",
                  "x[1,2] x[1,2]"),
    .batched = LINES("X[3,5] X[3,5] 1"),
    .bad =
        BAD({"x[2,3] x[4]", ST_SHAPE, "[4]"}, {"i64[3,2] i64[3,2]", ST_DTYPE, "i64"}, {"x[3] x[3]", ST_ARGUMENT, "1"}),
};
