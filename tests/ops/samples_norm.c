/* samples_norm.c: samples of ir/ops/norm.def: rows above a chunk, dims other than the last, absent weights, every kind
 * of loss reduction, ignored targets. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD
#define SOFTMAX_LINES                                                                                                  \
    "x[4,5] 1 false", "x[4,5] 0 false", "u[40,4000] 1 false", "x[2,3,4] -2 false", "x[2,1100] 1 false",                \
        "x[0,3] 1 false", "x[1,1] 1 false", "x[] 0 false"

const Samples samples_softmax = {
    .good = LINES(SOFTMAX_LINES),
    .batched = LINES("X[4,70] 1 false", "X[3,2,1100] -1 false", "X[3,70,4] 1 false"),
    .bad = BAD({"x[3] 1 false", ST_ARGUMENT, "1"}),
};
const Samples samples_log_softmax = {
    .good = LINES(SOFTMAX_LINES),
    .batched = LINES("X[4,70] 1 false", "X[3,2,1100] -1 false", "X[3,70,4] 1 false"),
    .bad = BAD({"x[3] 1 false", ST_ARGUMENT, "1"}),
};
const Samples samples_softmax_backward = {
    .good = LINES("x[4,5] u[4,5] 1 :x", "x[4,5] u[4,5] 0 :x", "x[2,1100] u[2,1100] 1 :x", "x[0,3] u[0,3] 1 :x",
                  "x[1] u[1] 0 :x"),
    .batched = LINES("X[4,70] U[4,70] 1 :x"),
};
const Samples samples_log_softmax_backward = {
    .good = LINES("x[4,5] u[4,5] 1 :x", "x[4,5] u[4,5] 0 :x", "x[2,1100] u[2,1100] 1 :x", "x[0,3] u[0,3] 1 :x",
                  "x[1] u[1] 0 :x"),
    .batched = LINES("X[4,70] U[4,70] 1 :x"),
};
const Samples samples_softmax_int = {
    .good = LINES("x[4,5] 1", "x[4,5] 0 :f64", "x[0,3] 1", "x[1] 0"),
    .batched = LINES("X[4,70] 1"),
    .bad = BAD({"x[3] 1", ST_ARGUMENT, "1"}, {"i64[3] 0", ST_DTYPE, "i64"}),
};
const Samples samples_log_softmax_int = {
    .good = LINES("x[4,5] 1", "x[4,5] 0 :f64", "x[0,3] 1", "x[1] 0"),
    .batched = LINES("X[4,70] 1"),
    .bad = BAD({"x[3] 1", ST_ARGUMENT, "1"}),
};
const Samples samples_native_layer_norm = {
    .good = LINES("x[4,5] [5] x[5] x[5] 1e-5", "x[4,5] [5] none none 1e-5", "x[2,3,4] [3,4] x[3,4] none 0.1",
                  "x[2,1100] [1100] x[1100] x[1100] 1e-5", "x[0,3] [3] x[3] x[3] 1e-5", "x[1,1] [1] none none 1e-5",
                  "bf16[4,5] [5] none f32[5] 1e-5", "f16[4,5] [5] f32[5] none 1e-5"),
    .batched = LINES("X[4,70] [70] x[70] x[70] 1e-5", "X[3,2,700] [2,700] none none 1e-5"),
    .bad = BAD({"x[4,5] [4] none none 1e-5", ST_SHAPE, "4"}, {"x[4,5] [5] x[4] none 1e-5", ST_SHAPE, "4"},
               {"f32[4,5] [5] none f64[5] 1e-5", ST_DTYPE, "bias has dtype f64"},
               {"bf16[4,5] [5] bf16[5] f32[5] 1e-5", ST_DTYPE, "weight has bf16"}),
};
const Samples samples_native_layer_norm_backward = {
    .good =
        LINES("x[4,5] x[4,5] [5] u[4,1] p[4,1] x[5] x[5] [1,1,1]", "x[4,5] x[4,5] [5] u[4,1] p[4,1] none none [1,0,0]",
              "x[4,5] x[4,5] [5] u[4,1] p[4,1] none none [0,1,1]",
              "x[2,3,4] x[2,3,4] [3,4] u[2,1,1] p[2,1,1] x[3,4] none [1,1,0]",
              "x[1,1] x[1,1] [1] u[1,1] p[1,1] x[1] x[1] [1,1,1]",
              "bf16[4,5] bf16[4,5] [5] f32[4,1] f32[4,1] none f32[5] [1,1,1]"),
    .bad = BAD({"x[4,5] x[4,5] [5] u[3,1] p[4,1] none none [1,0,0]", ST_SHAPE, "mean [3, 1]"},
               {"x[4,5] x[4,5] [5] u[4,1] p[1,1] none none [1,0,0]", ST_SHAPE, "rstd [1, 1]"}),
};
const Samples samples_layer_norm = {
    .good = LINES("x[4,5] [5] x[5] x[5]", "x[4,5] [5]", "x[2,3,4] [3,4] none none 0.1", "x[0,3] [3]"),
    .batched = LINES("X[4,70] [70] x[70] x[70]", "X[4,1100] [1100]"),
    .bad = BAD({"x[4,5] [4]", ST_SHAPE, "4"}),
};
const Samples samples_nll_loss_forward = {
    .good =
        LINES("x[4,5] i<5[4] none 1 -100", "x[4,5] i<5[4] w[5] 2 1", "x[4,5] i<5[4] none 0 2", "x[5] i<5[] none 1 -100",
              "x[1,1] i<1[1] none 2 -100", "x[5] i<5[1] none 0 -100", "x[5] i<5[1] w[5] 1 -100"),
    .bad = BAD({"x[40,5] i<9[40] none 1 -100", ST_VALUE, "5"}, {"x[4,5] i<5[3] none 1 -100", ST_SHAPE, "3"},
               {"x[5] i<5[2] none 1 -100", ST_SHAPE, "target"}),
};
const Samples samples_nll_loss_backward = {
    .good = LINES("w[] x[4,5] i<5[4] none 1 -100 w[]", "x[] x[4,5] i<5[4] w[5] 2 1 w[]",
                  "x[4] x[4,5] i<5[4] none 0 2 w[]", "x[1] x[4,5] i<5[4] none 2 -100 w[1]",
                  "x[1] x[5] i<5[] none 0 -100 w[]", "w[] x[5] i<5[] none 1 -100 w[1]"),
    .bad = BAD({"x[4] x[4,5] i<5[4] none 2 -100 w[]", ST_SHAPE, "grad_output"},
               {"x[1] x[4,5] i<5[4] none 0 -100 w[]", ST_SHAPE, "grad_output"},
               {"x[5] x[5] i<5[] none 0 -100 w[]", ST_SHAPE, "grad_output"},
               {"x[] x[4,5] i<5[4] none 1 -100 w[4]", ST_SHAPE, "total_weight"}),
};
const Samples samples_nll_loss = {
    .good = LINES("x[4,5] i<5[4]", "x[4,5] i<5[4] w[5] 2 1", "x[4,5] i<5[4] none 0 2"),
    .bad = BAD({"x[40,5] i<9[40]", ST_VALUE, "target 5 is out of range for 5 classes"}),
};
const Samples samples_cross_entropy = {
    .good = LINES("x[4,5] i<5[4]", "x[4,5] i<5[4] w[5] 2 1", "x[4,5] p[4,5]", "x[4,5] i<5[4] none 1 -100 0.1",
                  "x[1,1] i<1[1]", "x[5] i<5[1]", "x[5] i<5[1] none 0"),
    .bad = BAD({"x[5] i<5[1] none 1 -100 0.1", ST_SHAPE, "target"}, {"x[40,5] i<9[40]", ST_VALUE, "5"}),
};
const Samples samples_mse_loss = {
    .good = LINES("x[4,5] x[4,5]", "x[4,5] x[4,5] 0", "x[4,5] x[4,5] 2", "x[1] x[1]", "x[4,5] m[4,5]", "m[5] x[4,5] 0"),
    .bad = BAD({"x[4] x[3]", ST_SHAPE, "[3]"}),
};
const Samples samples_native_dropout = {
    .good = LINES("x[4,5] 0.5 true", "x[4,5] 0.0 true", "x[4,5] 1.0 true", "x[4,5] 0.3 false", "x[0] 0.5 true",
                  "x[1] 0.5 true"),
    .bad = BAD({"x[3] 1.5 true", ST_VALUE, "1.5"}, {"i64[3] 0.5 true", ST_DTYPE, "not i64"}),
};
const Samples samples_dropout = {
    .good = LINES("x[4,5] 0.5 true", "x[4,5] 0.3 false", "x[0] 0.5 true", "x[1] 0.5 true"),
    .bad = BAD({"x[3] -0.5 true", ST_VALUE, "-0.5"}, {"i64[3] 0.5 true", ST_DTYPE, "not i64"}),
};
const Samples samples_fused_rms_norm = {
    .good = LINES("x[4,5] [5] x[5] 1e-5", "x[4,5] [5] none none", "x[2,3,4] [3,4] x[3,4] 0.1",
                  "x[2,1100] [1100] x[1100] 1e-5", "x[0,3] [3] x[3] 1e-5", "x[1,1] [1] none 0.1"),
    .batched = LINES("X[4,70] [70] x[70] 1e-5"),
    .bad = BAD({"x[4,5] [4] none none", ST_SHAPE, "4"}, {"x[4,5] [5] x[4] none", ST_SHAPE, "4"}),
};
const Samples samples_rms_norm = {
    .good = LINES("x[4,5] [5] x[5]", "x[4,5] [5]", "x[2,3,4] [3,4] none 0.1", "x[0,3] [3]", "x[1,1] [1] none 0.1"),
    .batched = LINES("X[4,70] [70] x[70]", "X[4,1100] [1100]"),
    .bad = BAD({"x[4,5] [4]", ST_SHAPE, "4"}),
};
const Samples samples_weight_norm = {
    .good = LINES("p[3,4] p[3,1]", "p[3,4,2] p[1,4,1] 1", "p[3,4] p[1,4] 1", "p[3,4] p[] -1", "p[5] p[5]",
                  "p[2,3,4] p[1,1,4] 2", "p[0,3] p[0,1]"),
    .bad = BAD({"p[3,4] p[4,1]", ST_SHAPE, "[4, 1]"}, {"p[3,4] p[3,1] 2", ST_ARGUMENT, "2"},
               {"i64[3] i64[3]", ST_DTYPE, "i64"}),
};
const Samples samples_weight_norm_interface = {
    .good = LINES("p[3,4] p[3,1]", "p[3,4] p[1,4] 1", "p[2,3,4] p[2] 0", "p[2,3,4] p[1,1,4] 2", "p[5] p[5]",
                  "p[0,3] p[0,1]"),
    .bad = BAD({"p[3,4] p[4,1]", ST_SHAPE, "[4, 1]"}, {"p[3,4,2] p[4,1] 1", ST_ARGUMENT, "1"}),
};
const Samples samples_weight_norm_backward = {
    .good = LINES("x[3,4] p[3,4] p[3,1] w[3,1] 0", "x[3,4] p[3,4] p[1,4] w[1,4] 1", "x[5] p[5] p[5] w[5] 0",
                  "x[0,3] p[0,3] p[0,1] w[0,1] 0"),
    .bad = BAD({"x[3,4] p[3,4] p[4,1] w[3,1] 0", ST_SHAPE, "[4, 1]"}, {"x[4] p[3,4] p[3] w[3] 0", ST_SHAPE, "grad_w"}),
};
