/* samples_create.c: samples of ir/ops/create.def and internal.def. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_create = {
    .good =
        LINES("[3,4] dtype=:x", "[3]", "[0,2] dtype=:x", "[]", "full: [3,4] 2", "full: [3] 1.5 dtype=:x",
              "full: [0] true", "scalar_tensor: 2.5", "scalar_tensor: 3 dtype=:x", "arange: 5", "arange: 2.5 dtype=:x",
              "arange: 0", "arange.start: 1 6", "arange.start: -1.5 2 dtype=:x", "arange.start_step: 1 9 3",
              "arange.start_step: 5 0 -2 dtype=:x", "arange.start_step: 0 1 0.25", "rand: [3,4] dtype=:x", "rand: [0]",
              "randn: [3,4] dtype=:x", "randn: [1100]", "rand.generator: [3,4] none :x", "rand.generator: [0]",
              "randn.generator: [3,4] none :x", "randn.generator: [0]", "empty_strided: [3,4] [1,3] dtype=:x",
              "empty_strided: [0] [1]", "new_empty: x[2] [3,4]", "new_empty: x[2] [3] dtype=:f64",
              "new_empty_strided: x[2] [3,4] [1,3]", "new_full: x[2] [3,4] 2", "new_full: x[2] [3] 1.5 dtype=:f64",
              "new_ones: x[2] [3,4]", "new_ones: x[2] [0]", "new_zeros: x[2] [3,4]", "new_zeros: x[2] [3] dtype=:bool"),
    .bad = BAD({"zeros: [-1]", ST_SHAPE, "-1"}, {"full: [-2] 1", ST_SHAPE, "-2"},
               {"arange.start_step: 0 5 0", ST_VALUE, "step"}, {"arange.start_step: 0 5 -1", ST_VALUE, "step"},
               {"rand: [2] dtype=:i64", ST_DTYPE, "i64"},
               {"new_empty_strided: x[2] [3,4] [9223372036854775807,9223372036854775807]", ST_SHAPE, "stride"},
               {"empty_strided: [3,4] [4611686018427387903,1]", ST_SHAPE, "stride"},
               {"full: [2] nan dtype=:i32", ST_VALUE, "fill_value nan"},
               {"full: [0] -inf dtype=:i64", ST_VALUE, "fill_value -inf"},
               {"full: [2] 300 dtype=:u8", ST_VALUE, "fill_value 300"},
               {"scalar_tensor: 3e9 dtype=:i32", ST_VALUE, "s 3e+09"},
               {"new_full: i32[2] [2] inf", ST_VALUE, "fill_value inf"}, {"arange: 3 dtype=:bool", ST_DTYPE, "bool"},
               {"arange.start_step: 0 5 inf", ST_VALUE, "step"}),
};
const Samples samples_like = {
    .good = LINES("x[4,5]", "x[4,5] dtype=:f64", "x[0]", "x[1]", "full_like: x[4,5] 2",
                  "full_like: x[4,5] 1.5 dtype=:f32", "full_like: x[0] 1"),
    .bad = BAD({"full_like: i64[2] nan", ST_VALUE, "fill_value nan"}),
};
/* sn::gradients is no call that eager makes: the joint pass expands it (tests/golden/passes). */
const Samples samples_none = {
    .good = LINES("overwrite: x[3,4] x[3,4]", "overwrite: x[0] x[0]", "restride: x[3,4] [1,3]",
                  "restride: x[3,4] [4,1] :f64", "restride: x[0] [1]", "zeros_strided: [3,4] [1,3] dtype=:x",
                  "zeros_strided: [0] [1] dtype=:f32", "view_of: x[3,4] [2,2] [4,1] 1", "view_of: x[1] [1] [1] 0",
                  "view_scatter: x[3,4] x[2,2] [2,2] [4,1] 1", "view_scatter: x[1] x[1] [1] [1] 0"),
    .bad = BAD({"view_scatter: x[3,0] x[2,2] [2,2] [4,1] 1", ST_VALUE, "which has no elements"}),
};
const Samples samples_linspace = {
    .good = LINES("0 1 5", "-2.5 3 8", "3 3 1", "5 -5 0", "0 10 6 dtype=:i64", "0.5 2 4 dtype=:f64", "9.5 0 6 dtype=:x",
                  "logspace: 0 5 6 2.0 dtype=:x", "logspace: 0 1 5", "logspace: -1 2 4 2.0",
                  "logspace: 0 3 4 2.0 dtype=:i64", "logspace: 1 1 1", "logspace: 1 2 0"),
    .bad = BAD({"0 1 -1", ST_ARGUMENT, "steps"}, {"0 1 3 dtype=:bool", ST_DTYPE, "bool"},
               {"0 1e10 3 dtype=:i32", ST_VALUE, "end 1e+10"}, {"nan 1 3 dtype=:i64", ST_VALUE, "start nan"},
               {"logspace: -0.7 1 3 dtype=:u8", ST_VALUE, "start -0.7"}, {"0 256 3 dtype=:u8", ST_VALUE, "end 256"}),
};
