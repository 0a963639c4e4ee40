/* samples_parts.c: samples of ir/ops/parts.def. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_mT = {
    .good = LINES("x[2,3]", "x[2,3,4]", "x[0,2]", "x[1,1]"),
    .bad = BAD({"x[3]", ST_SHAPE, "2 dims"}),
};
const Samples samples_ravel = {.good = LINES("x[4,5]", "x[]", "x[0,3]", "x[1]")};
const Samples samples_take_along_dim = {
    .good = LINES("x[4,5] i<5[4,3] 1", "x[4,5] i<4[2,1] 0", "x[1,5] i<5[3,2] -1", "x[4,5] i<20[7]", "x[3] i<3[3] 0"),
    .bad = BAD({"x[4,5] i<3[4] 1", ST_SHAPE, "dims"}, {"x[4,5] x[4,5] 1", ST_DTYPE, "indices"},
               {"x[4,5] i<4[3,2] 1", ST_SHAPE, "broadcast"}, {"x[2,3] i<9[2,50] 1", ST_VALUE, "3 elements"}),
};
const Samples samples_trapezoid = {
    .good = LINES("x[4,5] x[5]", "x[4,5] x[4,5] dim=0", "x[4,5] x[4] dim=0", "x[2,3,4] x[3] dim=1", "x[5] x[5]",
                  "x[1] x[1]"),
    .bad = BAD({"x[4,5] x[3]", ST_SHAPE, "x [3]"}, {"m[3] x[3]", ST_DTYPE, "y"}),
};
const Samples samples_trapezoid_dx = {
    .good = LINES("x[4,5]", "x[4,5] dx=0.5 dim=0", "x[2,3,4] dim=1", "x[5]", "x[1]"),
    .bad = BAD({"x[]", ST_SHAPE, "no dims"}, {"m[3]", ST_DTYPE, "y"}),
};
const Samples samples_sum_to_size = {
    .good =
        LINES("x[4,5] [1,5]", "x[4,5] [5]", "x[2,3,4] [3,1]", "x[4,5] [4,5]", "x[4,5] []", "x[] []", "x[0,3] [1,3]"),
    .bad = BAD({"x[4,5] [4]", ST_SHAPE, "[4]"}, {"x[3] [2,3]", ST_SHAPE, "[2, 3]"}),
};
const Samples samples_nanmean = {
    .good = LINES("x[4,5]", "x[4,5] [1]", "x[2,3,4] [0,-1] true", "x[]", "x[1]"),
    .bad = BAD({"i64[3]", ST_DTYPE, "i64"}, {"x[3] [1]", ST_ARGUMENT, "1"}),
};
const Samples samples_vstack = {
    .good = LINES("(x[3],x[3])", "(x[2,3],x[3],x[1,3])", "(x[],x[])", "(x[2,3,4],x[1,3,4])"),
    .bad = BAD({"(x[3],x[2])", ST_SHAPE, "tensor 1"}),
};
const Samples samples_tensor_split_sections = {
    .good = LINES("x[5,3] 2", "x[5,3] 3 1", "x[2] 5", "x[1] 1"),
    .bad = BAD({"x[5] 0", ST_ARGUMENT, "sections"}, {"x[] 1", ST_SHAPE, "0-dim"}),
};
const Samples samples_tensor_split_indices = {
    .good = LINES("x[5,3] [2]", "x[5,3] [1,-1] 0", "x[5,3] [2,9,1] -1", "x[4] []"),
    .bad = BAD({"x[5] [1] 1", ST_ARGUMENT, "1"}),
};
