/* samples_sort.c: samples of ir/ops/sort.def. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_scan = {
    .good = LINES("u[4,5] 1", "u[4,5] 0", "u[2,3,4] -2", "u[] 0", "u[0,3] 0", "u[1] -1", "u[3,0] 1",
                  "u[5] 0 dtype=:f64", "f64[2,1100] 1"),
    .batched = LINES("X[4,5] 1"),
    .bad = BAD({"x[3] 1", ST_ARGUMENT, "1"}, {"x[3] 0 dtype=:bool", ST_DTYPE, "bool"}),
};
const Samples samples_sort = {
    .good = LINES("x[4,5]", "x[4,5] 0", "x[4,5] -1 true", "x[2,3,4] 1 true", "x[]", "x[0,3] 0", "x[3,0]", "x[1]"),
    .batched = LINES("X[4,5]"),
    .bad = BAD({"x[3] 1", ST_ARGUMENT, "1"}),
};
const Samples samples_sort_stable = {
    .good = LINES("x[4,5] true", "x[4,5] true 0", "i<3[4,5] true 0 true", "x[2,3,4] true 1 true", "x[] true",
                  "x[0,3] true 0", "x[1] true"),
    .batched = LINES("X[4,5] true"),
    .bad = BAD({"x[3] true 1", ST_ARGUMENT, "1"}),
};
const Samples samples_topk = {
    .good = LINES("x[4,5] 3", "x[4,5] 2 0", "x[4,5] 5 -1 false", "x[2,3,4] 1 1 true false", "x[] 1", "x[0,3] 2",
                  "x[1] 1", "x[4] 0", "i<2[9] 4 0 false"),
    .batched = LINES("X[4,5] 3"),
    .bad = BAD({"x[3] 4", ST_ARGUMENT, "4"}, {"x[3] -1", ST_ARGUMENT, "-1"}, {"x[3] 1 1", ST_ARGUMENT, "1"}),
};
const Samples samples_randperm = {
    .good = LINES("0", "1", "7", "40 dtype=:i32"),
    .bad = BAD({"-1", ST_ARGUMENT, "-1"}, {"3 dtype=:bool", ST_DTYPE, "bool"}),
};
const Samples samples_bernoulli = {
    .good =
        LINES("bernoulli: q[4,5]", "bernoulli: q[]", "bernoulli: q[0,3]", "bernoulli: q[1]", "bernoulli.p: x[4,5] 0.5",
              "bernoulli.p: x[] 1", "bernoulli.p: x[0] 0", "bernoulli.float: x[4,5] 0.25", "bernoulli.float: x[1]",
              "bernoulli.Tensor: x[4,5] q[5]", "bernoulli.Tensor: x[2,3] q[2,3]", "bernoulli.Tensor: x[] q[]",
              "bernoulli.Tensor: x[0,3] q[3]", "bernoulli.Tensor: x[1] q[1]"),
    .bad = BAD({"bernoulli: i64[3]", ST_DTYPE, "i64"}, {"bernoulli.p: x[3] 1.5", ST_VALUE, "1.5"},
               {"bernoulli.float: x[3] -1", ST_VALUE, "-1"}, {"bernoulli.Tensor: x[3] f32[4]", ST_SHAPE, "4"},
               {"bernoulli.Tensor: x[3] i64[3]", ST_DTYPE, "i64"}, {"bernoulli: f32[9]", ST_VALUE, "element"},
               {"bernoulli.Tensor: x[9] f32[9]", ST_VALUE, "element"}),
};
