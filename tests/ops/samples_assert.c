/* samples_assert.c: samples of ir/ops/assert.def. Those of ops without results: unit/test_assert.c. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_functional_assert_async = {
    .good = LINES("w[] 'w' x[2,3]", "w[1,1] 'w' x[]"),
    .bad = BAD({"w[2] 'w' x[2]", ST_SHAPE, "[2]"}),
};
const Samples samples_functional_assert_scalar = {
    .good = LINES("1 'one' x[2,3]", "0.5 'half' x[0]", "true 'true' x[]"),
    .bad = BAD({"0 'it is none' x[2]", ST_VALUE, "it is none"}, {"0.0 'it is none' x[2]", ST_VALUE, "it is none"}),
};
const Samples samples_functional_constrain = {
    .good = LINES("3 none none x[2,3]", "3 0 7 x[]", "4 2 none x[0]", "5 none 5 x[2]"),
    .bad = BAD({"3 4 9 x[2]", ST_VALUE, "from 4 to 9"}, {"10 4 9 x[2]", ST_VALUE, "10"},
               {"3 9 4 x[2]", ST_VALUE, "below min"}),
};
const Samples samples_convert_element_type = {
    .good = LINES("x[2,3] :f64", "x[2,3] :x", "x[4] :bool", "f32[3] :f16", "x[] :i64", "x[0,2] :f32"),
    .bad = BAD({"x[2] 77", ST_ARGUMENT, "dtype"}),
};
const Samples samples_fma = {
    .good = LINES("x[4,5] x[4,5] x[4,5]", "x[4,5] x[5] x[4,1]", "x[3] 2 x[3]", "x[] x[] x[3]", "x[0] x[0] x[0]"),
    .batched = LINES("X[4,5] x[5] X[4,5]"),
    .bad = BAD({"x[2,3] x[4] x[3]", ST_SHAPE, "[4]"}),
};
