/* samples_host.c: samples of ir/ops/host.def: numbers have no bad lines here, as no dispatched call gives one. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_sym_size = {.good = LINES("x[4,5] 1", "x[4,5] -2")};
const Samples samples_sym_numel = {.good = LINES("x[4,5]", "x[]")};
const Samples samples_item = {.good = LINES("x[]", "x[1,1]", "m[1]")};
const Samples samples_resize = {
    .good = LINES("x[4,5] [3,2]", "x[2] [3,4]", "x[] [2]", "x[2,3,4,5] [2,3,4,5] memory_format=2"),
    .bad = BAD({"x[3] [2] memory_format=1", ST_ARGUMENT, "memory_format"}, {"x[3] [-2]", ST_SHAPE, "-2"},
               {"x[3] [2] memory_format=2", ST_ARGUMENT, "4 dims"}),
};
