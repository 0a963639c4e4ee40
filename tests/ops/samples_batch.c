/* samples_batch.c: samples of ir/ops/batch.def: every rank, channels in the middle and without positions, absent
 * parameters, training with and without running statistics. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_batch_norm_stats = {
    .good = LINES("x[4,3,5] x[3] x[3] 1e-5", "x[4,3] none x[3] 0.1", "x[2,3,4,5] x[3] none 1e-5",
                  "x[1,2,40,30] none none 1e-5", "x[1,1,1] x[1] x[1] 1e-2"),
    .bad = BAD({"x[4] none none 1e-5", ST_SHAPE, "2 dims"}, {"x[4,3] x[4] none 1e-5", ST_SHAPE, "weight [4]"},
               {"i64[4,3] none none 1e-5", ST_DTYPE, "i64"}),
};
const Samples samples_batch_norm_eval = {
    .good = LINES("x[4,3,5] x[3] x[3] w[3] w[3] 0.1 1e-5", "x[4,3] none x[3] w[3] w[3] 0.1 1e-5",
                  "x[2,3,4,5] x[3] none w[3] w[3] 0 0.1", "x[0,3,2] none none w[3] w[3] 0.1 1e-5",
                  "x[1,1] x[1] x[1] w[1] w[1] 0.1 1e-5"),
    .bad = BAD({"x[4,3] none none w[2] w[3] 0.1 1e-5", ST_SHAPE, "running_mean [2]"}),
};
const Samples samples_native_batch_norm_no_stats = {
    .good = LINES("x[4,3,5] x[3] x[3] true 0.1 1e-5", "x[4,3] none none true 0.1 1e-5",
                  "x[2,3,4,5] x[3] none true 0.1 0.1", "x[1,1] x[1] x[1] true 0.5 1e-2"),
    .bad = BAD({"x[4,3] x[2] none true 0.1 1e-5", ST_SHAPE, "weight [2]"},
               {"x[4,3] none none false 0.1 1e-5", ST_ARGUMENT, "training must be true"}),
};
#define RUNNING                                                                                                        \
    "x[4,3,5] x[3] x[3] w[3] w[3] false 0.1 1e-5", "x[4,3] none none w[3] w[3] false 0.1 1e-5",                        \
        "x[2,3,4,5] x[3] none w[3] w[3] false 0.3 0.1", "x[1,1] x[1] x[1] w[1] w[1] false 0.1 1e-5"
#define TRAINED(row)                                                                                                   \
    row ": x[4,3,5] x[3] x[3] w[3] w[3] true 0.1 1e-5", row ": x[4,3] none none w[3] w[3] true 0.25 1e-5",             \
        row ": x[4,3] none none w[3] w[3] false 0.25 1e-5", row ": x[2,3,4,5] x[3] none w[3] w[3] true 0.3 0.1",       \
        row ": x[2,1] x[1] x[1] w[1] w[1] true 0.1 1e-5"
const Samples samples_native_batch_norm = {
    .good = LINES(RUNNING, TRAINED("_native_batch_norm_legit_functional"),
                  "native_batch_norm: x[4,3,5] x[3] x[3] none none true 0.1 1e-5",
                  "native_batch_norm: x[4,3] x[3] x[3] w[3] w[3] false 0.1 1e-5",
                  "native_batch_norm: x[2,1,2] none none none none true 0.1 1e-5"),
    .bad = BAD({"native_batch_norm: x[4,3] none none none w[3] false 0.1 1e-5", ST_ARGUMENT, "running_mean"},
               {"x[4,3] none none w[3] w[2] true 0.1 1e-5", ST_SHAPE, "running_var [2]"}),
};
const Samples samples_batch_norm_with_update = {
    .good = LINES("x[0,3] none none w[3] w[3] 0.1 1e-5"),
    .bad = BAD({"x[4,3] none none w[3] w[2] 0.1 1e-5", ST_SHAPE, "running_var [2]"}),
};
const Samples samples_native_batch_norm_backward = {
    /* in training the derivative of an input is that of its statistics, too, which differences beside given ones don't
     * have: test_norm_second.c */
    .good = LINES("x[4,3,5] w[4,3,5] x[3] none none w[3] w[3] true 1e-5 [1,1,1]",
                  "x[4,3] x[4,3] none w[3] w[3] none none false 1e-5 [1,1,1]",
                  "x[2,3,4,5] w[2,3,4,5] x[3] w[3] w[3] w[3] w[3] true 0.1 [1,1,1]",
                  "x[1,1] w[1,1] x[1] none none w[1] w[1] true 1e-5 [1,1,1]",
                  "x[4,3] x[4,3] w[3] w[3] w[3] f32[0] f32[0] false 1e-5 [1,1,1]",
                  "x[2,3,4] x[2,3,4] x[3] w[3] w[3] none none false 1e-5 [1,0,1]",
                  "x[2,3,4] x[2,3,4] x[3] w[3] w[3] none none false 1e-5 [0,1,0]"),
    .bad = BAD({"x[4,3] x[4,3] none none none none none true 1e-5 [1,1,1]", ST_ARGUMENT, "save_mean"},
               {"x[4,2] x[4,3] none none none u[3] p[3] true 1e-5 [1,1,1]", ST_SHAPE, "grad_out [4, 2]"},
               {"x[4,3] x[4,3] none none none u[3] p[3] true 1e-5 [1,1]", ST_ARGUMENT, "output_mask"}),
};
const Samples samples_batch_norm = {
    .good = LINES("x[4,3,5] x[3] x[3] none none true 0.1 1e-5 true", "x[4,3] none none w[3] w[3] false 0.1 1e-5 true",
                  "x[2,3,4,5] x[3] x[3] w[3] w[3] false 0.1 1e-5 true",
                  "x[1,1] x[1] x[1] w[1] w[1] false 0.1 0.1 false", "x[0,3] none none w[3] w[3] true 0.1 1e-5 true"),
    .batched = LINES("X[4,3,70] x[3] x[3] w[3] w[3] false 0.1 1e-5 true"),
    .bad = BAD({"x[4,3] none none none none false 0.1 1e-5 true", ST_ARGUMENT, "running_mean"}),
};
const Samples samples_instance_norm = {
    .good =
        LINES("x[4,3,5] x[3] x[3] none none true 0.1 1e-5 true", "x[2,3,4,5] none x[3] w[3] w[3] false 0.1 1e-5 true",
              "x[1,3,4,2] none none none none true 0.1 1e-5 false", "x[1,1,2] x[1] x[1] w[1] w[1] false 0.1 0.1 true"),
    .batched = LINES("X[3,2,700] x[2] x[2] none none true 0.1 1e-5 true"),
    .bad = BAD({"x[4,3] none none none none false 0.1 1e-5 true", ST_ARGUMENT, "running_mean"}),
};
const Samples samples_native_group_norm = {
    .good = LINES("x[2,6,4] x[6] x[6] 2 6 4 3 1e-5", "x[2,4,3,2] none none 2 4 6 2 0.1",
                  "x[3,4] x[4] none 3 4 1 2 1e-5", "x[2,4,30,10] x[4] x[4] 2 4 300 1 1e-5",
                  "x[0,4,3] none x[4] 0 4 3 2 1e-5", "x[1,1,2] x[1] x[1] 1 1 2 1 1e-5"),
    .bad = BAD({"x[2,6,4] none none 2 6 4 4 1e-5", ST_SHAPE, "4 equal groups"},
               {"x[2,6,4] none none 2 6 5 3 1e-5", ST_SHAPE, "HxW 5"},
               {"x[2,6,4] x[3] none 2 6 4 3 1e-5", ST_SHAPE, "weight [3]"},
               {"x[2,6,4] none none 2 6 4 0 1e-5", ST_ARGUMENT, "not 0"}),
};
const Samples samples_native_group_norm_backward = {
    .good = LINES("x[2,6,4] x[2,6,4] u[2,3] p[2,3] x[6] 2 6 4 3 [1,1,1]",
                  "x[2,4,3,2] x[2,4,3,2] u[2,2] p[2,2] none 2 4 6 2 [1,1,1]",
                  "x[3,4] x[3,4] u[3,2] p[3,2] x[4] 3 4 1 2 [1,0,0]",
                  "x[1,1,2] x[1,1,2] u[1,1] p[1,1] x[1] 1 1 2 1 [1,1,1]"),
    .bad = BAD({"x[2,6,4] x[2,6,4] u[2,3] p[2,2] x[6] 2 6 4 3 [1,1,1]", ST_SHAPE, "rstd [2, 2]"}),
};
const Samples samples_group_norm = {
    .good =
        LINES("x[2,6,4] 3 x[6] x[6]", "x[2,4,3,2] 2", "x[3,4] 2 x[4] none 0.1", "x[0,4,3] 2", "x[1,1,2] 1 x[1] x[1]"),
    .batched = LINES("X[4,6,70] 3 x[6] x[6]", "X[4,2,1100] 2"),
    .bad = BAD({"x[2,6,4] 4", ST_SHAPE, "4 equal groups"}, {"x[6] 3", ST_SHAPE, "2 dims"},
               {"x[2,0] 1", ST_SHAPE, "[2, 0]"}),
};
