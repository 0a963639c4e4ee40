/* samples_view.c: samples of ir/ops/view.def. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_view = {
    .good = LINES("x[4,6] [4,2,3]", "x[0,3] [3,0]", "x[1] []", "x[3,1] [3,1,1]", "x[5] [5]"),
    .bad = BAD({"x[4,6] [5,5]", ST_SHAPE, "[5, 5]"}, {"x[4] [-1,-1]", ST_ARGUMENT, "[-1, -1]"}),
};
/* To elements of another size only dense rows can be viewed: tests/unit/test_forms.c. */
const Samples samples_view_dtype = {
    .good =
        LINES("x[4,8] :x", "f32[4,8] :i32", "i16[3] :bf16", "f16[2,3] :i16", "i64[3] :f64", "f32[0,4] :i32", "x[1] :x"),
    .bad = BAD({"f32[3,3] :f64", ST_SHAPE, "3"}, {"f32[] :i8", ST_SHAPE, "no dim"}),
};
const Samples samples_expand = {
    .good = LINES("x[3,1] [3,4]", "x[3] [2,-1]", "x[1] [0]", "x[] [2,2]", "x[1,1] [1,1]", "x[] [1,1]"),
    .bad = BAD({"x[3] [4]", ST_SHAPE, "4"}, {"x[2,3] [3]", ST_SHAPE, "3"}),
};
const Samples samples_permute = {
    .good = LINES("x[2,3,4] [2,0,1]", "x[3,4] [-1,0]", "x[0,2] [1,0]", "x[1] [0]"),
    .bad = BAD({"x[2,3] [0,0]", ST_ARGUMENT, "dim"}, {"x[2,3] [0]", ST_ARGUMENT, "dim"}),
};
const Samples samples_transpose = {
    .good = LINES("x[2,3,4] 0 2", "x[3,4] -1 0", "x[0,2] 0 1", "x[1] 0 0"),
    .bad = BAD({"x[2,3] 0 2", ST_ARGUMENT, "2"}),
};
const Samples samples_t = {
    .good = LINES("x[3,4]", "x[3]", "x[]", "x[0,2]", "x[1,1]"),
    .bad = BAD({"x[2,3,4]", ST_SHAPE, "3"}),
};
const Samples samples_slice = {
    .good = LINES("x[5,4]", "x[5,4] 0 1 4", "x[5,4] 1 -3 none 2", "x[5] 0 3 2", "x[1] 0 0 1", "x[0] 0 0 1"),
    .bad = BAD({"x[3] 1", ST_ARGUMENT, "1"}, {"x[3] 0 0 2 0", ST_VALUE, "step"}),
};
const Samples samples_select = {
    .good = LINES("x[5,4] 0 2", "x[5,4] 1 -1", "x[1] 0 0", "x[0,3] 1 0"),
    .bad = BAD({"x[3] 0 3", ST_VALUE, "index 3"}, {"x[3] 1 0", ST_ARGUMENT, "1"}),
};
const Samples samples_squeeze = {
    .good = LINES("squeeze: x[2,1,3,1]", "squeeze: x[1]", "squeeze: x[0,1]", "squeeze.dim: x[2,1,3] 1",
                  "squeeze.dim: x[2,1,3] 0", "squeeze.dim: x[0,1] -1", "squeeze.dims: x[2,1,1] [1,2]",
                  "squeeze.dims: x[2,1,1] [0]"),
    .bad = BAD({"squeeze.dim: x[2] 1", ST_ARGUMENT, "1"}),
};
const Samples samples_unsqueeze = {
    .good = LINES("x[2,3] 1", "x[2,3] -1", "x[] 0", "x[0] 0"),
    .bad = BAD({"x[2] 3", ST_ARGUMENT, "3"}),
};
const Samples samples_as_strided = {
    .good = LINES("x[4,5] [2,2] [3,1]", "x[4,6] [2,2] [1,2] 1", "x[1] [1] [1]", "x[4] [0] [1]"),
    .bad = BAD({"x[3] [2,2] [2,2]", ST_VALUE, "20 bytes into a storage of 12 bytes"},
               {"x[3] [2] [1,1]", ST_ARGUMENT, "stride"}),
};
const Samples samples_alias = {.good = LINES("x[4,5]", "x[]", "x[0]", "x[1]")};
const Samples samples_diagonal = {
    .good = LINES("x[4,5]", "x[4,5] 1", "x[3,2,4] -1 0 2", "x[0,2]", "x[1,1]"),
    .bad = BAD({"x[3,3] 0 1 1", ST_ARGUMENT, "dim"}),
};
const Samples samples_unfold = {
    .good = LINES("x[7,2] 0 3 2", "x[5] 0 1 1", "x[2,1] 1 1 1", "x[] 0 0 1", "x[] 0 1 1"),
    .bad = BAD({"x[3] 0 4 1", ST_SHAPE, "4"}, {"x[3] 0 2 0", ST_VALUE, "step"}),
};
const Samples samples_reshape = {
    .good = LINES("x[4,6] [8,3]", "x[4,6] [-1]", "x[0,3] [3,0]", "x[1,1] [1]"),
    .bad = BAD({"x[4,6] [5,-1]", ST_SHAPE, "5"}),
};
const Samples samples_flatten = {
    .good = LINES("x[2,3,4]", "x[2,3,4] 1", "x[2,3,4] 0 -2", "x[]", "x[0,2]", "x[1,1]"),
    .bad = BAD({"x[2,3] 1 0", ST_ARGUMENT, "start_dim"}),
};
const Samples samples_contiguous = {.good = LINES("x[4,5]", "x[]", "x[0,2]", "x[1,1]")};
const Samples samples_to = {
    .good = LINES("to.dtype: x[4,5] :f32", "to.dtype: x[4,5] :f64", "to.dtype: x[4,5] :i64", "to.dtype: x[3] :x",
                  "to.dtype: x[3] :x false true", "to.dtype: x[0] :bool", "to.dtype_layout: x[4,5] dtype=:f64",
                  "to.dtype_layout: x[4,5]", "to.device: x[4,5] 0 :f64", "to.device: x[1] 0 :x",
                  "to.other: x[4,5] f64[2]", "to.other: x[3] x[1] copy=true", "to.other: x[0] i64[3]",
                  "type_as: x[4,5] f64[2]", "type_as: x[3] x[1]", "type_as: x[0] i32[1]"),
};
const Samples samples_narrow = {
    .good = LINES("x[5,4] 0 1 3", "x[5,4] -1 0 4", "x[3] 0 3 0", "x[1] 0 0 1"),
    .bad = BAD({"x[3] 0 1 3", ST_VALUE, "length 3"}),
};
const Samples samples_view_as = {.good = LINES("x[4,6] x[2,2,6]", "x[1] x[]", "x[0,2] x[0]")};
const Samples samples_reshape_as = {.good = LINES("x[4,6] x[8,3]", "x[1] x[]", "x[0,2] x[0]")};
const Samples samples_expand_as = {.good = LINES("x[3,1] x[3,4]", "x[] x[2]", "x[1] x[0]")};
const Samples samples_movedim = {
    .good = LINES("movedim.intlist: x[2,3,4] [0] [2]", "movedim.intlist: x[2,3,4] [0,1] [1,2]",
                  "movedim.intlist: x[0,1] [0] [1]", "movedim.int: x[2,3,4] 0 -1", "movedim.int: x[2,3,4] -1 1",
                  "movedim.int: x[0,1] 0 1"),
    .bad = BAD({"movedim.intlist: x[2,3] [0,1] [0]", ST_ARGUMENT, "destination"},
               {"movedim.int: x[2,3] 0 2", ST_ARGUMENT, "destination"}),
};
const Samples samples_unflatten = {
    .good = LINES("x[6,2] 0 [2,3]", "x[6] -1 [3,-1]", "x[1] 0 [1,1]"),
    .bad = BAD({"x[6] 0 [4,2]", ST_SHAPE, "6"}),
};
const Samples samples_split = {
    .good = LINES("x[5,3] 2", "x[5,3] 3 1", "x[1] 1", "x[0] 1"),
    .bad = BAD({"x[3] -1", ST_VALUE, "split_size"}),
};
const Samples samples_split_with_sizes = {
    .good = LINES("x[5,3] [2,3]", "x[5,3] [1,0,2] 1", "x[1] [1]"),
    .bad = BAD({"x[5] [2,2]", ST_SHAPE, "5"}),
};
const Samples samples_chunk = {
    .good = LINES("x[5,3] 2", "x[5,3] 5 1", "x[1] 1"),
    .bad = BAD({"x[3] 0", ST_VALUE, "chunks"}),
};
const Samples samples_unbind = {
    .good = LINES("x[3,2]", "x[3,2] 1", "x[1]"),
    .bad = BAD({"x[3] 1", ST_ARGUMENT, "1"}),
};
const Samples samples_numpy_T = {
    .good = LINES("x[2,3]", "x[3]", "x[]", "x[2,3,4]", "x[0,2]"),
    .bad = BAD({"none", ST_ARGUMENT, "self"}),
};
const Samples samples_broadcast_tensors = {
    .good = LINES("(x[2,1],x[3])", "(x[2,3],x[],x[3])", "(x[1],x[1])", "(x[0,2],x[1,2])"),
    .bad = BAD({"(x[2],x[3])", ST_SHAPE, "tensor 1"}),
};
const Samples samples_meshgrid = {
    .good = LINES("(x[2],x[3])", "(x[2],x[],x[3])", "(x[4])", "(x[0],x[2])"),
    .bad = BAD({"()", ST_ARGUMENT, "not 0"}, {"(x[2,3])", ST_SHAPE, "[2, 3]"}, {"(f32[2],f64[2])", ST_DTYPE, "f64"}),
};
const Samples samples_meshgrid_indexing = {
    .good = LINES("(x[2],x[3]) 'ij'", "(x[2],x[3],x[4]) 'xy'", "(x[4]) 'xy'", "(x[1],x[2]) 'xy'"),
    .bad = BAD({"(x[2]) 'yx'", ST_ARGUMENT, "yx"}),
};
