/* samples_activation.c: samples of ir/ops/activation.def. What is flat or has corners is sampled with numbers other
 * than its defaults, too. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_activation = {
    .good =
        LINES("x[4,5]", "x[3,2,4]", "x[]", "x[0,3]", "x[1]", "celu: x[4,5]", "celu: x[4,5] 0.7", "celu: x[4,5] -1.5",
              "celu: x[0]", "celu: x[1]", "hardshrink: x[4,5]", "hardshrink: x[4,5] 0.25", "hardshrink: x[0]",
              "hardshrink: x[1]", "softshrink: x[4,5]", "softshrink: x[4,5] 0", "softshrink: x[0]", "softshrink: x[1]"),
    .bad = BAD({"softshrink: x[3] -1", ST_VALUE, "lambd"}, {"celu: x[3] 0", ST_VALUE, "alpha"},
               {"hardshrink: i64[3]", ST_DTYPE, "i64"}, {"selu: i64[3]", ST_DTYPE, "i64"}),
};
const Samples samples_activation_backward = {
    .good = LINES("x[4,5] x[4,5]", "x[4,5] x[5]", "x[0] x[1]", "x[1] x[1]", "softplus_backward: x[4,5] x[4,5] 1 20",
                  "softplus_backward: x[4,5] x[5] 2 1.5", "leaky_relu_backward: x[4,5] x[4,5] 0.3 false",
                  "leaky_relu_backward: x[4,5] x[5] 0.1 true", "hardtanh_backward: x[4,5] x[4,5] -0.5 0.25",
                  "log_sigmoid_backward: x[4,5] x[4,5] w[4,5]", "log_sigmoid_backward: x[1] x[1] w[1]",
                  "hardshrink_backward: x[4,5] x[4,5] 0.5", "softshrink_backward: x[4,5] x[5] 0.25"),
    .bad = BAD({"hardswish_backward: x[2,3] x[4]", ST_SHAPE, "[4]"},
               {"hardsigmoid_backward: i64[3] i64[3]", ST_DTYPE, "i64"},
               {"leaky_relu_backward: x[3] x[3] -1 true", ST_VALUE, "negative_slope"}),
};
const Samples samples_elu_backward = {
    .good = LINES("x[4,5] 1 1 1 false x[4,5]", "x[4,5] 0.7 1.5 2 false x[5]", "x[4,5] 0.7 1.5 2 true x[4,5]",
                  "x[0] 1 1 1 false x[1]", "x[1] 1 1 1 false x[1]"),
    .bad = BAD({"x[3] -1 1 1 true x[3]", ST_VALUE, "alpha"}, {"x[2,3] 1 1 1 false x[4]", ST_SHAPE, "[4]"}),
};
const Samples samples_logit = {
    .good = LINES("q[4,5] 0.2", "q[4,5] 0.1", "q[] 0.3", "q[0]", "q[1] 0.2"),
};
const Samples samples_logit_backward = {
    .good = LINES("x[4,5] q[4,5] 0.1", "x[4,5] q[5] 0.2", "x[0] q[1]", "x[1] q[1] 0.2"),
};
const Samples samples_prelu_kernel = {
    .good = LINES("x[4,5] x[4,5]", "x[4,5] p[5]", "x[0] p[1]", "x[1] p[1]"),
    .bad = BAD({"x[2,3] x[4]", ST_SHAPE, "[4]"}, {"i64[3] i64[3]", ST_DTYPE, "i64"}),
};
const Samples samples_prelu_kernel_backward = {
    .good = LINES("x[4,5] x[4,5] x[4,5]", "x[4,5] x[4,5] p[5]", "x[0] x[0] p[1]", "x[1] x[1] p[1]"),
};
const Samples samples_prelu = {
    .good = LINES("x[4,5] p[5]", "x[2,3,4] x[3]", "x[4,5] x[1]", "x[4,5] p[]", "x[3] p[1]", "x[] p[1]", "x[0,3] p[3]",
                  "x[1,1] p[1]"),
    .batched = LINES("X[4,3,5] p[3]"),
    .bad = BAD({"x[2,3] x[4]", ST_SHAPE, "[4]"}, {"x[2,3] f64[3]", ST_DTYPE, "weight"},
               {"x[2,3] x[2,3]", ST_SHAPE, "weight"}),
};
const Samples samples_glu_backward = {
    .good = LINES("x[3,2] x[3,4] 1", "x[2,3] x[4,3] 0", "x[2,1,3] x[2,2,3] -2", "x[0,2] x[0,4] 1", "x[1] x[2] 0"),
    .batched = LINES("X[3,2] X[3,4] 1"),
    .bad = BAD({"x[3] x[3] 0", ST_SHAPE, "even"}, {"x[3,4] x[3,4] 1", ST_SHAPE, "grad_output"}),
};
