/* samples_index.c: samples of ir/ops/index.def, with positions that repeat. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_embedding = {
    .good =
        LINES("x[6,4] i<6[3]", "x[6,4] i<6[2,3]", "x[6,4] i<6[]", "x[6,4] i<6[0]", "x[1,1] i<1[1]", "x[6,0] i<6[3]"),
    .batched = LINES("x[6,4] I<6[5]"),
    .bad = BAD({"x[2,3] i<9[50]", ST_VALUE, "2 elements"}, {"x[2,0] i<9[50]", ST_VALUE, "2 elements"},
               {"x[3] i<3[2]", ST_SHAPE, "weight"}, {"x[3,2] f32[2]", ST_DTYPE, "f32"}),
};
const Samples samples_index_select = {
    .good = LINES("x[6,4] 0 i<6[3]", "x[6,4] 1 i<4[5]", "x[6,4] -1 i<4[0]", "x[1] 0 i<1[1]", "x[6,0] 0 i<6[3]"),
    .bad = BAD({"x[2,3] 0 i<9[50]", ST_VALUE, "2 elements"}, {"x[2,0] 0 i<9[50]", ST_VALUE, "2 elements"},
               {"x[3] 1 i<3[2]", ST_ARGUMENT, "1"}, {"x[3] 0 i<3[2,2]", ST_SHAPE, "index"}),
};
const Samples samples_gather = {
    .good = LINES("x[4,5] 1 i<5[4,3]", "x[4,5] 0 i<4[2,5]", "x[4,5] 1 i<5[0,2]", "x[1] 0 i<1[1]"),
    .batched = LINES("X[4,5] 1 I<5[4,3]"),
    .bad = BAD({"x[2,3] 1 i<9[2,30]", ST_VALUE, "3 elements"}, {"x[2,3] 2 i<2[2,2]", ST_ARGUMENT, "2"},
               {"x[2,3] 1 i<2[2]", ST_SHAPE, "index"}),
};
const Samples samples_flip = {
    .good = LINES("x[4,5] [0]", "x[2,3,4] [0,-1]", "x[0] [0]", "x[1,1] [0,1]", "x[3] []"),
    .bad = BAD({"x[3] [1]", ST_ARGUMENT, "1"}, {"x[3,2] [0,0]", ST_ARGUMENT, "dim"}),
};
const Samples samples_stack = {
    .good = LINES("(x[2,3],x[2,3])", "(x[2,3],x[2,3],x[2,3]) -1", "(x[0],x[0]) 1", "(x[])", "(x[0],x[0])",
                  "(x[2,3,4],x[2,3,4]) 1", "(x[2,3,2]) 3", "(x[2,3,2,2],x[2,3,2,2]) 2"),
    .bad = BAD({"(x[2],x[3])", ST_SHAPE, "3"}),
};
const Samples samples_repeat = {
    .good = LINES("x[2,3] [2,1]", "x[3] [2,2]", "x[2,3] [1,0]", "x[1] [1]"),
    .bad = BAD({"x[2,3] [2]", ST_SHAPE, "repeats"}, {"x[2] [-1]", ST_SHAPE, "repeats"}),
};
const Samples samples_cat = {
    .good = LINES("(x[2,3],x[4,3])", "(x[2,3],x[2,1],x[2,2]) 1", "(x[2,3],f64[1,3])", "(x[0,3],x[2,3])", "(x[1])",
                  "(x[0],x[3])", "(x[0],x[0]) 5"),
    .bad = BAD({"(x[2,3],x[2,4])", ST_SHAPE, "4"}, {"()", ST_ARGUMENT, "tensors"}, {"(x[2],x[2]) 1", ST_ARGUMENT, "1"}),
};
const Samples samples_constant_pad_nd = {
    .good = LINES("x[3,4] [1,2] 3", "x[3,4] [1,-1,0,2]", "x[2,3] [-1,-1]", "x[0] [1,1] 2", "x[1] [0,0]", "x[] []",
                  "x[2,3] []"),
    .bad = BAD({"x[3] [1]", ST_ARGUMENT, "pad"}, {"x[3] [1,1,1,1]", ST_ARGUMENT, "pad"}, {"x[3] [-2,-2]", ST_SHAPE, ""},
               {"i64[3] [1,1] nan", ST_VALUE, "value nan"}),
};
const Samples samples_slice_scatter = {
    .good = LINES("x[5,3] x[2,3] 0 1 3", "x[5,3] x[5,2] 1 0 3 2", "x[3] x[0] 0 3 3", "x[1] x[1]"),
    .bad = BAD({"x[5] x[3] 0 0 2", ST_SHAPE, "3"}),
};
const Samples samples_select_scatter = {
    .good = LINES("x[5,3] x[3] 0 2", "x[5,3] x[5] 1 -1", "x[1] x[] 0 0"),
    .bad = BAD({"x[5,3] x[2] 0 2", ST_SHAPE, "2"}, {"x[5] x[] 0 5", ST_VALUE, "5"}),
};
const Samples samples_scatter = {
    .good =
        LINES("scatter.src: x[4,5] 1 i<5[4,1] x[4,3]", "scatter.src: x[4,5] 0 i<4[1,5] x[2,5]",
              "scatter.src: x[3] 0 i<3[0] x[2]", "scatter.value: x[4,5] 1 i<5[4,3] 2", "scatter.value: x[1] 0 i<1[1] 1",
              "scatter.reduce: x[4,5] 1 i<5[4,7] x[4,9] 'add'", "scatter.reduce: x[4,5] 0 i<4[7,5] w[7,5] 'multiply'",
              "scatter.reduce: x[1] 0 i<1[0] x[2] 'multiply'", "scatter.value_reduce: x[4,5] 1 i<5[4,7] 3 'add'",
              "scatter.value_reduce: x[4,5] 0 i<4[7,5] 1.25 'multiply'",
              "scatter.value_reduce: x[1] 0 i<1[2] 2 'multiply'", "scatter_add: x[4,5] 1 i<5[4,9] x[4,9]",
              "scatter_add: x[4,5] 0 i<4[3,5] x[3,5]", "scatter_add: x[1] 0 i<1[5] x[5]"),
    .bad = BAD({"scatter_add: x[2,3] 1 i<9[2,30] x[2,30]", ST_VALUE, "3"},
               {"scatter_add: x[2,3] 1 i<3[2,3] x[2,2]", ST_SHAPE, "src"},
               {"scatter.value: x[2,3] 2 i<2[2,2] 1", ST_ARGUMENT, "2"},
               {"scatter.value: i64[3] 0 i<3[2] inf", ST_VALUE, "value inf"},
               {"scatter.src: x[2,3] 1 i<3[2] x[2,3]", ST_SHAPE, "index"},
               {"scatter.reduce: x[2,3] 1 i<3[2,3] x[2,3] 'amax'", ST_ARGUMENT, "amax"},
               {"scatter.reduce: x[2,3] 1 i<9[2,30] x[2,30] 'add'", ST_VALUE, "3"}),
};
const Samples samples_index_select_backward = {
    .good = LINES("x[3,4] [6,4] 0 i<6[3]", "x[6,5] [6,4] 1 i<4[5]", "x[0] [2] 0 i<2[0]", "x[1] [1] 0 i<1[1]"),
    .bad = BAD({"x[30,3] [2,3] 0 i<9[30]", ST_VALUE, "2 elements"}, {"x[3] [3] 1 i<3[3]", ST_ARGUMENT, "1"}),
};
const Samples samples_gather_backward = {
    .good = LINES("x[4,3] x[4,5] 1 i<5[4,3] false", "x[2,5] x[4,5] 0 i<4[2,5] false", "x[0,2] x[4,5] 1 i<5[0,2] false",
                  "x[1] x[1] 0 i<1[1] false"),
    .bad = BAD({"x[2,30] x[2,3] 1 i<9[2,30] false", ST_VALUE, "3 elements"}),
};
const Samples samples_index_add = {
    .good =
        LINES("x[4,5] 0 i<4[6] x[6,5]", "x[4,5] 1 i<5[3] x[4,3] alpha=2", "x[3] 0 i<3[0] x[0]", "x[1] 0 i<1[2] x[2]"),
    .bad = BAD({"x[2,3] 0 i<9[30] x[30,3]", ST_VALUE, "2"}, {"x[2,3] 0 i<2[4] x[3,3]", ST_SHAPE, "3"}),
};
const Samples samples_embedding_dense_backward = {
    .good = LINES("x[5,3] i<4[5] 4 -1 false", "x[2,3,4] i<5[2,3] 5 1 false", "x[0,3] i<4[0] 4 -1 false",
                  "x[1,1] i<1[1] 1 -1 false"),
    .bad = BAD({"x[30,3] i<9[30] 4 -1 false", ST_VALUE, "4"}, {"x[4,3] i<4[5] 4 -1 false", ST_SHAPE, "[4, 3]"}),
};
const Samples samples_embedding_backward = {
    .good = LINES("x[5,3] i<4[5] 4 -1 false false", "x[2,3,4] i<5[2,3] 5 1 false false",
                  "x[0,3] i<4[0] 4 -1 false false", "x[1,1] i<1[1] 1 -1 false false"),
    .bad = BAD({"x[30,3] i<9[30] 4 -1 false false", ST_VALUE, "4"}),
};
const Samples samples_select_backward = {
    .good = LINES("x[5] [4,5] 0 2", "x[4] [4,5] -1 -1", "x[0] [2,0] 0 1", "x[] [1] 0 0"),
    .bad = BAD({"x[5] [4,5] 0 7", ST_VALUE, "7"}, {"x[5] [4,-5] 0 1", ST_SHAPE, "-5"}),
};
const Samples samples_slice_backward = {
    .good = LINES("x[2,5] [4,5] 0 1 3 1", "x[4,3] [4,5] -1 0 9 2", "x[0,2] [3,2] 0 1 1 1", "x[1] [1] 0 0 1 1"),
    .bad = BAD({"x[2,5] [4,5] 0 1 2 1", ST_SHAPE, "[2, 5]"}),
};
const Samples samples_diagonal_scatter = {
    .good =
        LINES("x[4,4] x[4]", "x[3,5] x[3] 1", "x[5,3] x[3] -1", "x[2,3,4] x[3,2] 0 0 2", "x[0,3] x[0]", "x[1,1] x[1]"),
    .bad = BAD({"x[3,3] x[2]", ST_SHAPE, "diagonal"}, {"x[3] x[3]", ST_ARGUMENT, ""}),
};
const Samples samples_as_strided_scatter = {
    .good = LINES("x[4,6] x[2,2] [2,2] [1,2]", "x[4,6] x[2,2] [2,2] [1,2] 20", "x[4,6] i64[2,3] [2,3] [1,3]",
                  "x[4] x[0] [0] [1]", "x[1] x[1] [1] [1]", "x[] x[] [] []", "x[4,6] x[2] [2] [3]"),
    .bad = BAD({"x[3,4] x[3] [2,2] [1,2]", ST_SHAPE, "src [3]"}, {"x[3,4] x[3] [3] [0]", ST_ARGUMENT, "strides [0]"},
               {"x[3,4] x[2,2] [2,2] [1,1]", ST_ARGUMENT, "one place"},
               {"x[3,4] x[2,2] [2,2] [1,20]", ST_VALUE, "leaves self's 12"},
               {"x[3,4] x[2] [2] [1,1]", ST_ARGUMENT, "stride has 2"},
               {"x[3,4] x[2] [2] [1] -1", ST_ARGUMENT, "storage_offset"}, {"x[0] x[1] [1] [1]", ST_VALUE, "self's 0"}),
};
const Samples samples_diagonal_backward = {
    .good =
        LINES("x[4] [4,4] 0 0 1", "x[3] [3,5] 1 0 1", "x[3,2] [2,3,4] 0 0 2", "x[0] [0,3] 0 0 1", "x[1] [1,1] 0 0 1"),
    .bad = BAD({"x[2] [3,3] 0 0 1", ST_SHAPE, "diagonal"}),
};
const Samples samples_take = {
    .good = LINES("x[4,5] i<20[3,2]", "x[6] i<6[9]", "x[] i<1[2]", "x[3] i<3[0]", "x[1] i<1[1]"),
    .bad = BAD({"x[2,3] i<9[50]", ST_VALUE, "6 elements"}, {"x[3] f32[2]", ST_DTYPE, "f32"}),
};
