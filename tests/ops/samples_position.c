/* samples_position.c: samples of ir/ops/position.def, with positions that repeat; where the last one written wins they
 * do not: each has its gradient, as in PyTorch, which differences of the result don't show. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_index = {
    .good =
        LINES("x[6,4] (i<6[3])", "x[6,4] (none,i<4[5])", "x[5,4,3] (i<5[2],i<4[2])", "x[5,4,3] (none,i<4[3,2],i<3[2])",
              "x[5,4,3] (i<5[2,1],none,i<3[4])", "x[5,4,3] (i<5[],none,i<3[])", "x[6,4] (i<6[0])", "x[1] (i<1[2,2])",
              "x[5,0] (i<5[3])", "x[3,4] ()", "x[4,3,2] (i<3[2],i<2[1],i<2[2])"),
    .bad = BAD({"x[2,3] (i<9[50])", ST_VALUE, "2 elements"}, {"x[2,3] (none,i<9[50])", ST_VALUE, "3 elements of dim 1"},
               {"x[2] (i<2[1],i<2[1])", ST_SHAPE, "too many"}, {"x[2,3] (i<2[3],i<2[2])", ST_SHAPE, "broadcast"},
               {"x[2] (f32[1])", ST_DTYPE, "f32"}),
};
const Samples samples_index_put = {
    .good = LINES("x[6,4] (i<6[1]) x[1,4]", "x[6,4] (i<6[9]) x[9,4] true", "x[6,4] (none,i<4[5]) x[6,1] true",
                  "x[5,4,3] (i<5[2,1],none,i<3[4]) x[2,4,4] true", "x[5,4,3] (i<5[1,1],none,i<3[]) x[4]",
                  "x[5,4,3] (none,i<4[1],i<3[1]) x[]", "x[6] (i<6[0]) x[0]", "x[1] (i<1[2]) x[2] true", "x[3] () x[3]",
                  "x[3] () x[1] true"),
    .bad = BAD({"x[2,3] (i<9[50]) x[]", ST_VALUE, "2 elements"}, {"x[2,3] (i<2[4]) x[5,3]", ST_SHAPE, "values"}),
};
const Samples samples_scatter_reduce_two = {
    .good = LINES("x[4,5] 1 i<5[4,7] x[4,7] 'sum'", "x[4,5] 0 i<4[7,5] x[9,5] 'sum' false",
                  "p[4,5] 1 i<5[4,7] p[4,7] 'prod'", "p[4,5] 0 i<4[7,5] p[7,5] 'prod' false",
                  "x[4,5] 1 i<5[4,7] x[4,9] 'mean'", "x[4,5] 0 i<4[2,5] x[2,5] 'mean' false",
                  "x[4,5] 1 i<5[4,7] x[4,7] 'amax'", "x[4,5] 0 i<4[7,5] x[7,5] 'amin' false",
                  "x[4,5] 1 i<5[4,2] x[4,2] 'amin'", "x[3] 0 i<3[0] x[2] 'mean'", "x[1] 0 i<1[2] x[2] 'amax' false"),
    .bad =
        BAD({"x[2,3] 1 i<3[2,3] x[2,3] 'add'", ST_ARGUMENT, "add"}, {"x[2,3] 1 i<9[2,30] x[2,30] 'sum'", ST_VALUE, "3"},
            {"x[2,3] 1 i<3[2,3] x[2,2] 'mean'", ST_SHAPE, "src"}),
};
const Samples samples_masked_scatter = {
    .good = LINES("x[4,5] m[4,5] x[20]", "x[4,5] m[4,5] x[4,6]", "x[3,1] m[4] x[3,5]", "x[4] m[3,1] x[12]",
                  "x[] m[] x[1]", "x[0,3] m[3] x[0]", "x[2,3,4] m[3,1] x[24]", "x[5] m[1] x[2,3]"),
    .bad = BAD({"x[3,70] m[3,70] x[2]", ST_VALUE, "mask has 3 ones or more, and source has fewer"},
               {"x[64] m[64] x[0]", ST_VALUE, "mask has 1 ones or more"}, {"x[3] x[3] x[3]", ST_DTYPE, "mask"},
               {"f32[3] m[3] f64[3]", ST_DTYPE, "source is f64"}, {"x[3] m[2] x[3]", ST_SHAPE, "[2]"}),
};
const Samples samples_masked_scatter_backward = {
    .good = LINES("x[4,5] m[4,5] [20]", "x[4,5] m[4,5] [4,6]", "x[3,1] m[4] [13]", "x[] m[] []", "x[0,3] m[3] [2]"),
    .bad = BAD({"x[3,70] m[3,70] [2]", ST_VALUE, "3 elements"}, {"x[3] x[3] [3]", ST_DTYPE, "mask"}),
};
