/* samples_view_copy.c: samples of ir/ops/view_copy.def, where those of the view itself name it. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_squeeze_copy = {.good = LINES("x[2,1,3,1]", "x[1]", "x[0,1]", "x[]")};
const Samples samples_squeeze_copy_dim = {
    .good = LINES("x[2,1,3] 1", "x[2,1,3] 0", "x[0,1] -1", "x[1] 0"),
    .bad = BAD({"x[2] 1", ST_ARGUMENT, "1"}),
};
const Samples samples_squeeze_copy_dims = {
    .good = LINES("x[2,1,1] [1,2]", "x[2,1,1] [0]", "x[0,1] [1]", "x[1] [0]"),
    .bad = BAD({"x[2] [1]", ST_ARGUMENT, "1"}),
};
