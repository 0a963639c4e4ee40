/* samples_loss.c: samples of ir/ops/loss.def: every reduction, corners other than their defaults, weights. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_loss = {
    .good = LINES("x[4,5] x[4,5]", "x[4,5] x[5] 0", "x[4,5] x[4,5] 2", "x[0] x[0] 2", "x[1] x[1]", "x[] x[]",
                  "huber_loss: x[4,5] x[4,5]", "huber_loss: x[4,5] x[5] 0 0.7", "huber_loss: x[4,5] x[4,5] 2 1.5",
                  "huber_loss: x[0] x[0] 2", "huber_loss: x[1] x[1]", "smooth_l1_loss: x[4,5] x[4,5]",
                  "smooth_l1_loss: x[4,5] x[5] 0 0.7", "smooth_l1_loss: x[4,5] x[4,5] 2 0",
                  "smooth_l1_loss: x[0] x[0] 2", "smooth_l1_loss: x[1] x[1]"),
    .bad = BAD({"x[2,3] x[4]", ST_SHAPE, "[4]"}, {"x[3] x[3] 4", ST_ARGUMENT, "reduction"},
               {"i64[3] i64[3]", ST_DTYPE, "i64"}, {"huber_loss: x[3] x[3] 1 0", ST_VALUE, "delta"},
               {"smooth_l1_loss: x[3] x[3] 1 -1", ST_VALUE, "beta"}),
};
const Samples samples_loss_backward = {
    .good =
        LINES("mse_loss_backward: x[] x[4,5] x[4,5] 1", "mse_loss_backward: x[4,5] x[4,5] x[5] 0",
              "mse_loss_backward: x[] x[1] x[1] 2", "mse_loss_backward: x[0] x[0] x[0] 0",
              "huber_loss_backward: x[] x[4,5] x[4,5] 1 0.7", "huber_loss_backward: x[4,5] x[4,5] x[5] 0 1.5",
              "huber_loss_backward: x[0] x[0] x[0] 0 1", "huber_loss_backward: x[] x[1] x[1] 1 1",
              "huber_loss_backward: x[4,5] x[4,5] x[4,5] 0 1e39", "smooth_l1_loss_backward: x[] x[4,5] x[4,5] 1 0.7",
              "smooth_l1_loss_backward: x[4,5] x[4,5] x[5] 0 1.5", "smooth_l1_loss_backward: x[] x[4] x[4] 2 0",
              "smooth_l1_loss_backward: x[0] x[0] x[0] 0 1", "smooth_l1_loss_backward: x[] x[1] x[1] 1 1"),
    .bad = BAD({"mse_loss_backward: x[] x[2,3] x[4] 1", ST_SHAPE, "[4]"},
               {"mse_loss_backward: x[] x[3] x[3] 5", ST_ARGUMENT, "reduction"}),
};
const Samples samples_binary_cross_entropy = {
    .good = LINES("q[4,5] q[4,5]", "q[4,5] q[4,5] w[5]", "q[4,5] q[4,5] none 0", "q[4,5] q[4,5] w[4,5] 2",
                  "q[0] q[0] none 2", "q[1] q[1]"),
    .bad = BAD({"q[2,3] q[3]", ST_SHAPE, "[3]"}, {"q[3] q[3] none 4", ST_ARGUMENT, "reduction"},
               {"f32[9] q[9]", ST_VALUE, "element"}, {"q[9] f32[9]", ST_VALUE, "element"}),
};
const Samples samples_binary_cross_entropy_backward = {
    .good = LINES("x[] q[4,5] q[4,5]", "x[] q[4,5] q[4,5] w[5]", "x[4,5] q[4,5] q[4,5] none 0", "x[] q[4] q[4] w[4] 2",
                  "x[0] q[0] q[0] none 0", "x[] q[1] q[1]", "f32[4,5] bf16[4,5] f32[4,5] none 0"),
    .bad = BAD({"x[] q[3] q[3] none 4", ST_ARGUMENT, "reduction"}),
};
const Samples samples_cross_entropy_logits = {
    .good = LINES("x[4,5] p[4,5]", "x[4,5] p[4,5] w[5]", "x[4,5] p[4,5] none w[5] 0", "x[4,5] p[4,5] w[4,5] w[5] 2",
                  "x[0] p[0] none none 2", "x[1] p[1]"),
    .bad = BAD({"x[2,3] p[3]", ST_SHAPE, "[3]"}, {"x[3] p[3] none none 4", ST_ARGUMENT, "reduction"}),
};
