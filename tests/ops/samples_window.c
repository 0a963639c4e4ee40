/* samples_window.c: samples of ir/ops/window.def: pads that cut, windows at the border, those that miss it, and
 * planes of a few elements. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_reflection_pad1d = {
    .good = LINES("x[2,3,5] [2,1]", "x[3,5] [0,4]", "x[2,4] [-1,3]", "x[1,3] [2,-4]", "x[0,2,3] [1,1]", "x[2,1] [0,0]"),
    .batched = LINES("X[3,2,5] [2,1]"),
    .bad =
        BAD({"x[2,3] [3,0]", ST_SHAPE, "3"}, {"x[3] [1,1]", ST_SHAPE, "self"}, {"x[2,3] [1]", ST_ARGUMENT, "padding"},
            {"x[2,0] [0,0]", ST_SHAPE, "self"}, {"x[2,3] [-2,-1]", ST_SHAPE, "3"}),
};
const Samples samples_reflection_pad2d = {
    .good = LINES("x[2,3,3,4] [1,2,2,0]", "x[2,3,4] [3,0,1,1]", "x[1,3,4] [-1,2,1,-2]", "x[0,2,3,3] [1,1,1,1]"),
    .batched = LINES("X[3,2,3,4] [1,2,2,0]"),
    .bad = BAD({"x[2,3,3] [3,0,0,0]", ST_SHAPE, "3"}),
};
const Samples samples_reflection_pad3d = {
    .good = LINES("x[1,2,3,2,3] [1,2,1,0,1,2]", "x[2,2,2,3] [0,1,1,1,1,0]"),
    .bad = BAD({"x[2,2,2,2] [0,0,0,0,2,0]", ST_SHAPE, "2"}),
};
const Samples samples_replication_pad1d = {
    .good = LINES("x[2,3,5] [2,1]", "x[3,2] [0,7]", "x[2,4] [-1,3]", "x[1,3] [6,-4]", "x[1,3] [-4,3]", "x[0,2,3] [1,1]",
                  "x[2,1] [0,0]"),
    .batched = LINES("X[3,2,5] [2,1]"),
    .bad = BAD({"x[3] [1,1]", ST_SHAPE, "self"}, {"x[2,3] [1,1,1,1]", ST_ARGUMENT, "padding"},
               {"x[2,3] [-2,-1]", ST_SHAPE, "3"}, {"x[2,3] [9223372036854775807,1]", ST_SHAPE, "memory"}),
};
const Samples samples_replication_pad2d = {
    .good = LINES("x[2,3,3,4] [1,2,2,0]", "x[2,3,4] [4,0,1,1]", "x[1,3,4] [-1,2,1,-2]", "x[0,2,3,3] [1,1,1,1]"),
    .batched = LINES("X[3,2,3,4] [1,2,2,0]"),
    .bad = BAD({"x[2,3] [1,1,1,1]", ST_SHAPE, "self"}),
};
const Samples samples_replication_pad3d = {
    .good = LINES("x[1,2,3,2,3] [1,2,1,0,3,2]", "x[2,2,2,3] [0,1,1,1,1,0]"),
    .bad = BAD({"x[2,2] [0,0,0,0,2,0]", ST_SHAPE, "self"}),
};
const Samples samples_reflection_pad1d_backward = {
    .good = LINES("x[2,3,8] x[2,3,5] [2,1]", "x[2,6] x[2,4] [-1,3]", "x[1,1] x[1,3] [2,-4]", "x[0,2,5] x[0,2,3] [1,1]"),
    .batched = LINES("X[3,2,8] X[3,2,5] [2,1]"),
    .bad = BAD({"x[2,3] x[2,3] [1,0]", ST_SHAPE, "grad_output"}),
};
const Samples samples_reflection_pad2d_backward = {
    .good = LINES("x[2,3,5,7] x[2,3,3,4] [1,2,2,0]", "x[2,5,7] x[2,3,4] [3,0,1,1]", "x[1,2,5] x[1,3,4] [-1,2,1,-2]"),
    .bad = BAD({"x[2,3,3] x[2,3,3] [1,0,0,0]", ST_SHAPE, "grad_output"}),
};
const Samples samples_reflection_pad3d_backward = {
    .good = LINES("x[1,2,6,3,6] x[1,2,3,2,3] [1,2,1,0,1,2]"),
    .bad = BAD({"x[2,2,2,2] x[2,2,2,2] [0,0,0,0,1,0]", ST_SHAPE, "grad_output"}),
};
const Samples samples_replication_pad1d_backward = {
    .good = LINES("x[2,3,8] x[2,3,5] [2,1]", "x[2,6] x[2,4] [-1,3]", "x[1,1] x[1,3] [2,-4]", "x[0,2,5] x[0,2,3] [1,1]"),
    .batched = LINES("X[3,2,8] X[3,2,5] [2,1]"),
    .bad = BAD({"x[2,3] x[2,3] [1,0]", ST_SHAPE, "grad_output"}),
};
const Samples samples_replication_pad2d_backward = {
    .good = LINES("x[2,3,5,7] x[2,3,3,4] [1,2,2,0]", "x[2,5,7] x[2,3,4] [3,0,1,1]", "x[1,2,5] x[1,3,4] [-1,2,1,-2]"),
    .bad = BAD({"x[2,3,3] x[2,3,3] [1,0,0,0]", ST_SHAPE, "grad_output"}),
};
const Samples samples_replication_pad3d_backward = {
    .good = LINES("x[1,2,6,3,6] x[1,2,3,2,3] [1,2,1,0,1,2]"),
    .bad = BAD({"x[2,2,2,2] x[2,2,2,2] [0,0,0,0,1,0]", ST_SHAPE, "grad_output"}),
};
const Samples samples_max_pool1d = {
    .good = LINES("x[2,3,7] [3]", "x[3,7] [3] [2] [1] [2] true", "x[2,6] [2] [1]", "x[0,2,4] [2]", "x[1,1] [1]"),
    .batched = LINES("X[3,2,7] [3]"),
    .bad = BAD({"x[7] [3]", ST_SHAPE, "self"}, {"x[2,3] [5]", ST_SHAPE, "5"}, {"x[2,7] [3] [0]", ST_ARGUMENT, "stride"},
               {"x[2,7] [3] [1] [2]", ST_ARGUMENT, "padding"}),
};
const Samples samples_max_pool2d = {
    .good = LINES("x[2,3,5,6] [2,3]", "x[3,5,6] [3] [2] [1]", "x[2,5,7] [3,2] [2] [1,0] [2,1] true",
                  "x[1,2,4,4] [2] [1] [0] [2]", "x[0,2,4,4] [2]", "x[1,1,1] [1]"),
    .batched = LINES("X[3,2,5,6] [2,3] [1]"),
    .bad = BAD({"x[5,5] [2]", ST_SHAPE, "self"}, {"x[2,3,3] [4]", ST_SHAPE, "4"},
               {"x[2,3,3] [0]", ST_ARGUMENT, "kernel_size"}, {"x[2,3,3] [2,2,2]", ST_ARGUMENT, "kernel_size"},
               {"x[2,3,3] [2] [1] [2]", ST_ARGUMENT, "padding"}, {"x[2,0,3] [1]", ST_SHAPE, "self"}),
};
const Samples samples_max_pool3d = {
    .good = LINES("x[1,2,4,3,4] [2]", "x[2,4,4,4] [2,3,1] [1,2,1] [1,1,0] [1] true"),
    .batched = LINES("X[2,1,4,3,4] [2]"),
    .bad = BAD({"x[2,3,3] [2]", ST_SHAPE, "self"}),
};
const Samples samples_max_pool2d_backward = {
    .good = LINES("x[2,3,2,2] x[2,3,5,6] [2,3] [] [0] [1] false i<30[2,3,2,2]",
                  "x[3,4,5] x[3,4,5] [3] [1] [1] [1] false i<20[3,4,5]",
                  "x[0,2,2,2] x[0,2,4,4] [2] [2] [0] [1] false i<4[0,2,2,2]"),
    .batched = LINES("X[3,2,2,2] X[3,2,4,4] [2] [2] [0] [1] false I<16[3,2,2,2]"),
    .bad = BAD({"x[3,2,2] x[3,4,5] [2] [2] [0] [1] false i<99[3,2,2]", ST_VALUE, "20 elements"},
               {"x[3,2,3] x[3,4,5] [2] [2] [0] [1] false i<9[3,2,2]", ST_SHAPE, "grad_output"},
               {"x[3,2,2] x[3,4,5] [2] [2] [0] [1] false i<9[3,2,3]", ST_SHAPE, "indices"}),
};
const Samples samples_max_pool3d_backward = {
    .good = LINES("x[1,2,2,1,2] x[1,2,4,3,4] [2] [] [0] [1] false i<48[1,2,2,1,2]"),
    .bad = BAD({"x[2,2,1,2] x[2,4,3,4] [2] [] [0] [1] false i<4000[2,2,1,2]", ST_VALUE, "48 elements"}),
};
const Samples samples_avg_pool1d = {
    .good = LINES("x[2,3,7] [3]", "x[3,7] [3] [2] [1] true false", "x[2,6] [2] [1]", "x[0,2,4] [2]", "x[1,1] [1]"),
    .batched = LINES("X[3,2,7] [3]"),
    .bad = BAD({"x[7] [3]", ST_SHAPE, "self"}, {"x[2,3] [5]", ST_SHAPE, "5"}),
};
const Samples samples_avg_pool2d = {
    .good = LINES("x[2,3,5,6] [2,3]", "x[3,5,6] [3] [2] [1]", "x[2,5,7] [3,2] [2] [1,0] true false",
                  "x[2,5,7] [3,2] [2] [1,0] true true", "x[1,2,4,4] [2] [1] [0] false true 3", "x[0,2,4,4] [2]",
                  "x[1,1,1] [1]"),
    .batched = LINES("X[3,2,5,6] [2,3] [1]"),
    .bad =
        BAD({"x[5,5] [2]", ST_SHAPE, "self"}, {"x[2,3,3] [4]", ST_SHAPE, "4"},
            {"x[2,3,3] [2] [] [0] false true 0", ST_ARGUMENT, "divisor_override"}, {"i32[2,3,3] [2]", ST_DTYPE, "i32"}),
};
const Samples samples_avg_pool3d = {
    .good = LINES("x[1,2,4,3,4] [2]", "x[2,4,4,4] [2,3,1] [1,2,1] [1,1,0] true false"),
    .batched = LINES("X[2,1,4,3,4] [2]"),
    .bad = BAD({"x[2,3,3] [2]", ST_SHAPE, "self"}),
};
const Samples samples_avg_pool2d_backward = {
    .good = LINES("x[2,3,2,2] x[2,3,5,6] [2,3] [] [0] false true none",
                  "x[3,4,5] x[3,4,5] [3] [1] [1] false false none", "x[2,3,4] x[2,5,6] [3] [2] [1] true true 4"),
    .batched = LINES("X[3,2,2,2] X[3,2,4,4] [2] [2] [0] false true none"),
    .bad = BAD({"x[3,2,3] x[3,4,5] [2] [2] [0] false true none", ST_SHAPE, "grad_output"}),
};
const Samples samples_avg_pool3d_backward = {
    .good = LINES("x[1,2,2,1,2] x[1,2,4,3,4] [2] [] [0] false true none"),
    .bad = BAD({"x[2,3,3] x[2,3,3] [2] [] [0] false true none", ST_SHAPE, "self"}),
};
const Samples samples_adaptive_avg_pool1d = {
    .good = LINES("x[2,3,7] [3]", "x[3,5] [7]", "x[3,5] [0]", "x[0,3,5] [2]", "x[1,1] [1]", "x[2,0,5] [2]"),
    .batched = LINES("X[3,2,7] [3]"),
    .bad = BAD({"x[7] [3]", ST_SHAPE, "self"}, {"x[2,7] [-1]", ST_ARGUMENT, "-1"}),
};
const Samples samples_adaptive_avg_pool2d = {
    .good = LINES("x[2,3,7,5] [3,2]", "x[3,5,4] [7,1]", "x[2,2,3,3] [1,1]", "x[3,5,4] [0,2]", "x[0,3,5,4] [2,2]",
                  "x[1,1,1] [1,1]", "x[2,0,3,3] [2,2]"),
    .batched = LINES("X[3,2,7,5] [3,2]"),
    .bad = BAD({"x[7,7] [3,3]", ST_SHAPE, "self"}, {"x[2,7,7] [3]", ST_ARGUMENT, "output_size"},
               {"i64[2,7,7] [3,3]", ST_DTYPE, "i64"}),
};
const Samples samples_adaptive_avg_pool3d = {
    .good = LINES("x[1,2,4,3,5] [2,2,3]", "x[2,2,3,2] [3,1,1]"),
    .bad = BAD({"x[7,7] [3,3,3]", ST_SHAPE, "self"}),
};
const Samples samples_adaptive_avg_pool2d_backward = {
    .good = LINES("x[2,3,3,2] x[2,3,7,5]", "x[3,7,1] x[3,5,4]", "x[1,1,1] x[1,1,1]"),
    .batched = LINES("X[3,2,3,2] X[3,2,7,5]"),
    .bad = BAD({"x[2,3,3] x[3,3,3]", ST_SHAPE, "grad_output"}),
};
const Samples samples_adaptive_avg_pool3d_backward = {
    .good = LINES("x[1,2,2,2,3] x[1,2,4,3,5]"),
    .bad = BAD({"x[2,3,3] x[3,3,3]", ST_SHAPE, "self"}),
};
const Samples samples_adaptive_max_pool1d = {
    .good = LINES("x[2,3,7] [3]", "x[3,5] [7]", "x[3,5] [1]", "x[0,3,5] [2]", "x[1,1] [1]"),
    .batched = LINES("X[3,2,7] [3]"),
    .bad = BAD({"x[7] [3]", ST_SHAPE, "self"}, {"x[2,7] [-1]", ST_ARGUMENT, "-1"}, {"x[2,0,5] [2]", ST_SHAPE, "self"}),
};
const Samples samples_adaptive_max_pool2d = {
    .good = LINES("x[2,3,7,5] [3,2]", "x[3,5,4] [7,1]", "x[2,2,3,3] [1,1]", "x[0,3,5,4] [2,2]", "x[1,1,1] [1,1]",
                  "x[3,5,4] [0,2]"),
    .batched = LINES("X[3,2,7,5] [3,2]"),
    .bad = BAD({"x[7,7] [3,3]", ST_SHAPE, "self"}, {"x[2,7,7] [3,3,3]", ST_ARGUMENT, "output_size"},
               {"i64[2,7,7] [3,3]", ST_DTYPE, "i64"}),
};
const Samples samples_adaptive_max_pool3d = {
    .good = LINES("x[1,2,4,3,5] [2,2,3]", "x[2,2,3,2] [3,1,1]"),
    .batched = LINES("X[2,1,4,3,2] [2,2,1]"),
    .bad = BAD({"x[2,3,3] [1,1,1]", ST_SHAPE, "self"}),
};
const Samples samples_adaptive_max_pool2d_backward = {
    .good =
        LINES("x[2,3,2,2] x[2,3,5,4] i<20[2,3,2,2]", "x[3,4,1] x[3,2,3] i<6[3,4,1]", "x[1,1,1] x[1,1,1] i<1[1,1,1]"),
    .batched = LINES("X[3,2,2,2] X[3,2,4,4] I<16[3,2,2,2]"),
    .bad =
        BAD({"x[3,2,2] x[3,4,5] i<99[3,2,2]", ST_VALUE, "20 elements"},
            {"x[3,2,2] x[2,4,5] i<9[3,2,2]", ST_SHAPE, "grad_output"},
            {"x[3,2,2] x[3,4,5] i<9[3,2,3]", ST_SHAPE, "indices"}, {"x[3,2,2] x[3,4,5] x[3,2,2]", ST_DTYPE, "indices"}),
};
const Samples samples_adaptive_max_pool3d_backward = {
    .good = LINES("x[1,2,2,1,2] x[1,2,4,3,4] i<48[1,2,2,1,2]"),
    .bad = BAD({"x[2,2,1,2] x[2,4,3,4] i<4000[2,2,1,2]", ST_VALUE, "48 elements"}),
};
const Samples samples_pad = {
    .good = LINES("x[3,4] [1,2]", "x[3,4] [1,-2,0,1] 'constant' 1.5", "x[2,3,4] [1,2] 'reflect'",
                  "x[1,2,3,4] [1,2,1,0] 'replicate'", "x[1,2,4] [2,3] 'circular'", "x[1,2,3,4] [1,-1,2,1] 'circular'",
                  "x[1,2,3,4] [1,2,1,0] 'reflect' 0.0", "x[0,2,4] [1,1] 'circular'"),
    .bad = BAD({"x[3,4] [1,2] 'zeros'", ST_ARGUMENT, "zeros"}, {"x[1,3,4] [1,2] 'reflect' 1.0", ST_ARGUMENT, "value"},
               {"x[1,2,3,4] [1,2] 'reflect'", ST_ARGUMENT, "4 dims"}, {"x[2,3] [4,0] 'circular'", ST_SHAPE, "once"}),
};
const Samples samples__pad_enum = {
    .good = LINES("x[3,4] [1,2] 3", "x[2,3,4] [1,2] 0", "x[1,2,3,4] [1,2,1,0] 1", "x[1,2,4] [2,3] 2"),
    .bad = BAD({"x[3,4] [1,2] 4", ST_ARGUMENT, "4"}),
};
const Samples samples__pad_circular = {
    .good = LINES("x[1,2,4] [2,3]", "x[2,3,4] [0,1]", "x[1,1,5] [2,-1]", "x[2,3] [1,1,1,1]"),
    .bad = BAD({"x[2,3] [4,0]", ST_SHAPE, "once"}, {"x[2,3] [1]", ST_ARGUMENT, "pairs"}),
};
