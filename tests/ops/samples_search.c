/* samples_search.c: samples of ir/ops/search.def. Where values decide how many there are, PyTorch's own samples
 * (`sinter cases`) and unit/test_search.c speak. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

/* What is searched in need not ascend: the steps are the same. */
const Samples samples_searchsorted = {
    .good = LINES("x[7] x[4,5]", "x[7] x[4,5] right=true", "x[4,6] x[4,3] out_int32=true",
                  "x[2,3,4] x[2,3,5] side='right'", "x[1] x[]", "x[0] x[3]", "x[5] x[0]", "i64[6] x[3]", "x[4] f64[]",
                  "x[4,1] x[4,2]", "x[3,4] x[3,2] sorter=i<4[3,4]"),
    .bad = BAD({"x[] x[3]", ST_SHAPE, "sorted_sequence"}, {"x[2,3] x[3,2]", ST_SHAPE, "[3, 2]"},
               {"x[3] x[3] side='up'", ST_ARGUMENT, "up"}, {"x[3] x[3] right=true side='left'", ST_ARGUMENT, "right"},
               {"x[3] x[3] sorter=i<3[2]", ST_SHAPE, "sorter"}, {"m[3] m[3]", ST_DTYPE, "bool"}),
};
const Samples samples_searchsorted_number = {
    .good = LINES("x[7] 0.5", "x[7] 1 right=true", "x[1] -3 out_int32=true", "x[0] 1", "x[9] 0 sorter=i<9[9]"),
    .bad = BAD({"x[2,3] 1", ST_SHAPE, "1 dim"}),
};
const Samples samples_bucketize = {
    .good = LINES("x[4,5] x[7]", "x[3] x[2] right=true", "x[] x[4] out_int32=true", "x[2] x[0]", "x[0,3] x[5]",
                  "x[4] u8[6]"),
    .bad = BAD({"x[3] x[2,2]", ST_SHAPE, "boundaries"}),
};
const Samples samples_number_bucketize = {
    .good = LINES("0.5 x[7]", "1 x[3] right=true", "2 x[1] out_int32=true", "1 x[0]"),
    .bad = BAD({"1 x[2,2]", ST_SHAPE, "boundaries"}),
};
const Samples samples_median = {
    .good = LINES("x[4,5]", "x[7]", "x[]", "x[1]", "x[2,3,4]"),
    .bad = BAD({"m[3]", ST_DTYPE, "bool"}),
};
const Samples samples_median_dim = {
    .good = LINES("x[4,5] 1", "x[4,5] 0 true", "x[2,3,4] -2", "x[] 0", "x[1] 0", "x[0,3] 1", "x[5] 0"),
    .batched = LINES("X[4,5] 1"),
    .bad = BAD({"x[3] 1", ST_ARGUMENT, "1"}, {"x[3,0] 1", ST_SHAPE, "no element"}, {"m[3] 0", ST_DTYPE, "bool"}),
};
const Samples samples_one_hot = {
    .good = LINES("i<5[4] 5", "i<3[2,3] 7", "i<1[] 1", "i<4[0] 4"),
    .batched = LINES("I<5[4,3] 5"),
    .bad = BAD({"x[3] 4", ST_DTYPE, "self"}, {"i<3[2] 0", ST_ARGUMENT, "num_classes"},
               {"i<9[50] 4", ST_VALUE, "4 elements"}, {"i<3[0]", ST_ARGUMENT, "largest"}),
};
const Samples samples_repeat_positions = {
    .good = LINES("i64[0] output_size=0", "i<1[4] output_size=0"),
    .bad =
        BAD({"i<3[2,2]", ST_SHAPE, "repeats"}, {"x[3]", ST_DTYPE, "repeats"},
            {"i<2[9] output_size=-1", ST_ARGUMENT, "output_size"}, {"i<3[40] output_size=3", ST_VALUE, "out of range"},
            {"i<3[40] output_size=900", ST_VALUE, "out of range"}),
};
const Samples samples_repeat_interleave = {
    .good = LINES("x[4,5] i<1[] output_size=0", "x[4,5] i<1[5] 1 output_size=0", "x[0,3] i<4[0] 0 output_size=0"),
    .bad = BAD({"x[3] x[3]", ST_DTYPE, "repeats"}, {"x[3] i<2[2] 0", ST_SHAPE, "repeats"},
               {"x[3] i<2[3] 1", ST_ARGUMENT, "1"}, {"x[40] i<3[40] 0 output_size=3", ST_VALUE, "out of range"}),
};
const Samples samples_repeat_interleave_int = {
    .good = LINES("x[4,5] 2", "x[4,5] 3 1", "x[2,3,4] 2 -2", "x[] 3", "x[] 2 0", "x[0,3] 2 1", "x[3] 0 0", "x[4] 1",
                  "x[3] 2 0 output_size=6"),
    .batched = LINES("X[4,5] 2 1"),
    .bad = BAD({"x[3] -1", ST_ARGUMENT, "repeats"}, {"x[3] 2 1", ST_ARGUMENT, "1"},
               {"x[3] 2 0 output_size=5", ST_ARGUMENT, "output_size"}),
};
const Samples samples_triangle_indices = {
    .good = LINES("4 5", "5 4 1", "3 3 -1", "4 3 -9", "4 3 9", "0 3", "3 0", "1 1", "2 6 3 dtype=:i32",
                  "6 2 -3 dtype=:i32", "3 4 9223372036854775807", "3 4 -9223372036854775808"),
    .bad = BAD({"-1 3", ST_ARGUMENT, "-1"}, {"3 3 dtype=:bool", ST_DTYPE, "bool"}),
};
const Samples samples_index_reduce = {
    .good = LINES("p[4,5] 0 i<4[7] p[7,5] 'prod'", "p[4,5] 1 i<5[3] p[4,3] 'prod' include_self=false",
                  "x[4,5] 0 i<4[7] x[7,5] 'mean'", "x[4,5] 0 i<4[2] x[2,5] 'mean' include_self=false",
                  "x[4,5] 1 i<5[7] x[4,7] 'amax'", "x[2,3,4] -1 i<4[5] x[2,3,5] 'amin' include_self=false",
                  "x[] 0 i<1[1] x[] 'amax'", "x[3] 0 i<3[0] x[0] 'mean'"),
    .bad = BAD({"x[3] 0 i<3[2] x[2] 'sum'", ST_ARGUMENT, "sum"}, {"x[3] 0 i<3[2] x[3] 'mean'", ST_SHAPE, "source"},
               {"x[3] 0 i<9[50] x[50] 'mean'", ST_VALUE, "3 elements"},
               {"f32[3] 0 i<3[2] f64[2] 'mean'", ST_DTYPE, "f64"}),
};
