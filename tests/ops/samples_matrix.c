/* samples_matrix.c: samples of ir/ops/matrix.def. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_diag = {
    .good = LINES("x[3]", "x[3] -2", "x[3,4]", "x[3,4] 1", "x[0]", "x[1,1]"),
    .bad = BAD({"x[2,2,2]", ST_SHAPE, "1 or 2"}),
};
const Samples samples_diagflat = {
    .good = LINES("x[3]", "x[2,2] 1", "x[]", "x[0]"),
    .bad = BAD({"x[2] 9223372036854775807", ST_ARGUMENT, "offset"}),
};
const Samples samples_fliplr = {
    .good = LINES("x[2,3]", "x[2,3,4]", "x[0,2]"),
    .bad = BAD({"x[2]", ST_SHAPE, "2 dims"}),
};
const Samples samples_flipud = {
    .good = LINES("x[2,3]", "x[4]", "x[0,2]"),
    .bad = BAD({"x[]", ST_SHAPE, "1 dims"}),
};
const Samples samples_atleast = {
    .good = LINES("x[]", "x[3]", "x[2,3]", "x[2,3,4]", "x[0]"),
    .bad = BAD({"none", ST_ARGUMENT, "self"}),
};
const Samples samples_addbmm = {
    .good = LINES("x[3,4] x[2,3,5] x[2,5,4]", "x[4] x[2,3,5] x[2,5,4] beta=2 alpha=3", "x[] x[1,2,2] x[1,2,2]"),
    .bad = BAD({"x[3,4] x[2,3,5] x[2,4,4]", ST_SHAPE, "batch1"}, {"x[2,4] x[2,3,5] x[2,5,4]", ST_SHAPE, "self"}),
};
const Samples samples_addmv = {
    .good = LINES("x[3] x[3,4] x[4]", "x[1] x[3,4] x[4] beta=2 alpha=3", "x[] x[2,2] x[2]"),
    .bad = BAD({"x[3] x[3,4] x[3]", ST_SHAPE, "vec"}, {"x[2] x[3,4] x[4]", ST_SHAPE, "self"}),
};
const Samples samples_linalg_vecdot = {
    .good = LINES("x[3,4] x[3,4]", "x[3,4] x[4] dim=0", "x[2,3,4] x[3,1] dim=1"),
    .bad = BAD({"x[3,4] x[3]", ST_SHAPE, "[3]"}, {"i64[3] i64[3]", ST_DTYPE, "i64"}),
};
const Samples samples_ldexp = {
    .good = LINES("x[3,4] x[3,4]", "x[3,4] i64[4]", "x[] x[3]"),
    .bad = BAD({"x[3] x[2]", ST_SHAPE, "[2]"}),
};
const Samples samples_index_copy = {
    .good = LINES("x[4,5] 0 i<4[1] x[1,5]", "x[4,5] -1 i<1[1] x[4,1]", "x[] 0 i<1[1] x[1]", "x[4] 0 i<4[0] x[0]"),
    .bad = BAD({"x[4,5] 0 i<4[2] x[3,5]", ST_SHAPE, "source"}, {"x[4] 0 f32[1] x[1]", ST_DTYPE, "index"}),
};
const Samples samples_index_fill_number = {
    .good = LINES("x[4,5] 0 i<4[2] 2", "x[4,5] -1 i<5[3] 1", "x[] 0 i<1[1] 3", "x[4] 0 i<4[0] 1"),
    .bad = BAD({"x[4] 0 f32[1] 1", ST_DTYPE, "index"}, {"x[4] 1 i<1[1] 1", ST_ARGUMENT, "dim"}),
};
const Samples samples_index_fill_tensor = {
    .good = LINES("x[4,5] 0 i<4[2] x[]", "x[4,5] -1 i<5[3] x[]"),
    .bad = BAD({"x[4] 0 i<4[1] x[2]", ST_SHAPE, "value"}),
};
const Samples samples_empty_permuted = {
    .good = LINES("[2,3,4] [2,0,1]", "[0,2] [1,0]", "[3] [0] dtype=:x"),
    .bad = BAD({"[2,3] [0,0]", ST_ARGUMENT, "once"}),
};
