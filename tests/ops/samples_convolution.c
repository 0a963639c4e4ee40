/* samples_convolution.c: samples of ir/ops/convolution.def: 1 to 3 dims, strides, padding beyond the kernel, dilation,
 * groups, one channel, kernels of one element, no batch; a batch's row alone against the batch. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_convolution = {
    .good = LINES(
        "x[2,3,5,6] x[4,3,3,2] x[4] [1,1] [0,0] [1,1] false [0,0] 1",
        "x[2,3,7,6] x[4,3,3,2] none [2,3] [1,2] [1,1] false [0,0] 1",
        "x[2,4,6,7] x[6,2,2,3] x[6] [1,2] [3,1] [2,1] false [0,0] 2", "x[2,4,9] x[4,1,3] x[4] [2] [1] [1] false [0] 4",
        "x[1,2,4,3,5] x[2,2,2,1,3] x[2] [1] [1] [1] false [0] 1",
        "x[2,3,4,3] x[3,2,3,2] x[2] [1,1] [0,0] [1,1] true [0,0] 1",
        "x[2,4,3,4] x[4,3,2,3] x[6] [2,3] [1,0] [1,2] true [1,2] 2", "x[2,2,4] x[2,3,3] none [3] [1] [2] true [2] 1",
        "x[1,2,2,3,2] x[2,1,2,2,3] x[1] [2] [1] [1] true [1] 1", "x[0,3,5] x[4,3,3] x[4] [1] [0] [1] false [0] 1",
        "x[1,1,1] x[1,1,1] x[1] [1] [0] [1] false [0] 1", "x[2,3,4,4] x[5,3,1,1] none [1] [0] [1] false [0] 1"),
    .batched = LINES("X[3,5,9,8] x[7,5,3,3] x[7] [1,1] [1,1] [1,1] false [0,0] 1",
                     "X[3,4,5,4] x[4,3,3,3] x[6] [2,2] [1,1] [1,1] true [1,1] 2"),
    .bad = BAD({"x[2,3,5,5] x[4,2,3,3] none [1,1] [0,0] [1,1] false [0,0] 1", ST_SHAPE, "[2, 3, 5, 5]"},
               {"x[2,3,5,5] x[4,3,7,7] none [1,1] [0,0] [1,1] false [0,0] 1", ST_SHAPE, "7"},
               {"x[2,3,5,5] x[4,3,3,3] x[3] [1,1] [0,0] [1,1] false [0,0] 1", ST_SHAPE, "bias [3]"},
               {"x[2,3,5,5] x[4,3,3,3] none [0,1] [0,0] [1,1] false [0,0] 1", ST_VALUE, "stride"},
               {"x[2,3,5,5] x[4,3,3,3] none [1,1] [-1,0] [1,1] false [0,0] 1", ST_VALUE, "padding"},
               {"x[2,3,5,5] x[4,3,3,3] none [1,1] [0,0] [0,1] false [0,0] 1", ST_VALUE, "dilation"},
               {"x[2,3,5,5] x[4,3,3,3] none [1,1,1] [0] [1] false [0] 1", ST_SHAPE, "[1, 1, 1]"},
               {"x[2,4,5,5] x[3,2,3,3] none [1,1] [0,0] [1,1] false [0,0] 2", ST_SHAPE, "2 groups"},
               {"x[2,4,5,5] x[3,2,3,3] none [1,1] [0,0] [1,1] false [0,0] 0", ST_VALUE, "groups"},
               {"x[2,3,5,5] x[3,4,3,3] none [1,1] [0,0] [1,1] true [1,1] 1", ST_VALUE, "output_padding 1"},
               {"x[2,3,5,5] x[4,3,3] none [1] [0] [1] false [0] 1", ST_SHAPE, "[4, 3, 3]"},
               {"x[2,3] x[4,3] none [1] [0] [1] false [0] 1", ST_SHAPE, "2"}),
};
const Samples samples_convolution_backward = {
    .good = LINES("x[2,4,3,5] x[2,3,5,6] x[4,3,3,2] [4] [1,1] [0,0] [1,1] false [0,0] 1 [1,1,1]",
                  "x[2,6,6,4] x[2,4,6,7] x[6,2,4,3] [6] [1,2] [3,1] [2,1] false [0,0] 2 [1,1,1]",
                  "x[2,4,5] x[2,4,9] x[4,1,3] none [2] [1] [1] false [0] 4 [1,1,0]",
                  "x[2,2,6,4] x[2,3,4,3] x[3,2,3,2] [2] [1,1] [0,0] [1,1] true [0,0] 1 [1,1,1]",
                  "x[2,3,14] x[2,2,4] x[2,3,3] none [3] [1] [2] true [2] 1 [1,1,0]",
                  "x[1,2,5,5,5] x[1,2,4,3,5] x[2,2,2,1,3] [2] [1] [1] [1] false [0] 1 [1,0,0]",
                  "x[1,1,1] x[1,1,1] x[1,1,1] [1] [1] [0] [1] false [0] 1 [1,1,1]"),
    .bad =
        BAD({"x[2,4,3,3] x[2,3,5,5] x[4,3,3,2] [4] [1,1] [0,0] [1,1] false [0,0] 1 [1,1,1]", ST_SHAPE, "[2, 4, 3, 4]"}),
};
const Samples samples_conv1d = {
    .good = LINES("x[2,3,9] x[4,3,3] x[4]", "x[3,9] x[4,3,3] none 2 1 2", "x[2,4,9] x[4,2,2] x[4] 1 1 1 2",
                  "x[1,1,1] x[1,1,1]"),
    .batched = LINES("X[3,3,9] x[4,3,3] x[4]"),
    .bad = BAD({"x[2,3,9,9] x[4,3,3]", ST_SHAPE, "[2, 3, 9, 9]"}, {"x[2,3,9] x[4,3,3,3]", ST_SHAPE, "[4, 3, 3, 3]"}),
};
const Samples samples_conv1d_padding = {
    .good =
        LINES("x[2,3,9] x[4,3,4] x[4] 1 'same' 3", "x[3,9] x[4,3,3] none 2 'valid'", "x[1,1,1] x[1,1,1] x[1] 1 'same'"),
    .batched = LINES("X[3,3,9] x[4,3,3] x[4] 1 'same'"),
    .bad = BAD({"x[2,3,9] x[4,3,3] none 2 'same'", ST_VALUE, "stride 1"},
               {"x[2,3,9] x[4,3,3] none 1 'full'", ST_ARGUMENT, "full"}),
};
const Samples samples_conv2d = {
    .good = LINES("x[2,3,6,5] x[4,3,3,2] x[4]", "x[3,6,5] x[4,3,3,2] none [2,1] 1 [1,2]",
                  "x[2,4,5,5] x[4,2,2,2] x[4] 1 1 1 2", "x[1,1,1,1] x[1,1,1,1]"),
    .batched = LINES("X[3,3,6,5] x[4,3,3,3] x[4] 1 1"),
    .bad = BAD({"x[3,9] x[4,3,3,3]", ST_SHAPE, "[3, 9]"}, {"x[2,3,5,5] x[4,3,3]", ST_SHAPE, "[4, 3, 3]"}),
};
const Samples samples_conv2d_padding = {
    .good = LINES("x[2,3,6,5] x[4,3,4,3] x[4] 1 'same' [1,2]", "x[3,6,5] x[4,3,3,2] none 2 'valid'",
                  "x[1,1,1,1] x[1,1,1,1] x[1] 1 'same'"),
    .batched = LINES("X[3,3,6,5] x[4,3,2,3] x[4] 1 'same'"),
    .bad = BAD({"x[2,3,5,5] x[4,3,3,3] none [1,2] 'same'", ST_VALUE, "stride 1"},
               {"x[2,3,5,5] x[4,3,3,3] none 1 'full'", ST_ARGUMENT, "full"}),
};
const Samples samples_conv3d = {
    .good = LINES("x[2,2,3,4,5] x[3,2,2,3,2] x[3]", "x[2,3,4,5] x[3,2,2,3,2] none [2,1,1] 1 [1,1,2]",
                  "x[1,4,3,3,3] x[4,2,2,2,2] x[4] 1 1 1 2", "x[1,1,1,1,1] x[1,1,1,1,1]"),
    .batched = LINES("X[3,2,3,4,4] x[3,2,2,2,2] x[3]"),
    .bad = BAD({"x[3,9] x[4,3,3,3,3]", ST_SHAPE, "[3, 9]"}, {"x[2,3,5,5,5] x[4,3,3]", ST_SHAPE, "[4, 3, 3]"}),
};
const Samples samples_conv3d_padding = {
    .good = LINES("x[1,2,3,4,5] x[3,2,2,3,4] x[3] 1 'same'", "x[2,3,4,5] x[3,2,2,3,2] none 2 'valid'",
                  "x[1,1,1,1,1] x[1,1,1,1,1] x[1] 1 'same'"),
    .batched = LINES("X[3,2,3,4,4] x[3,2,2,2,2] x[3] 1 'same'"),
    .bad = BAD({"x[2,3,5,5,5] x[4,3,3,3,3] none [1,2,1] 'same'", ST_VALUE, "stride 1"},
               {"x[2,3,5,5,5] x[4,3,3,3,3] none 1 'full'", ST_ARGUMENT, "full"}),
};
const Samples samples_conv_transpose1d = {
    .good = LINES("x[2,3,4] x[3,2,3] x[2]", "x[3,4] x[3,2,3] none 2 1 1 1 2", "x[2,4,4] x[4,3,2] x[6] 2 0 0 2",
                  "x[1,1,1] x[1,1,1]"),
    .batched = LINES("X[3,3,4] x[3,2,3] x[2] 2"),
    .bad = BAD({"x[2,3,4] x[3,2,3] none 1 0 1", ST_VALUE, "output_padding"},
               {"x[2,3,4] x[3,2,3] none 1 9", ST_SHAPE, "9"}),
};
const Samples samples_conv_transpose2d = {
    .good = LINES("x[2,3,4,3] x[3,2,3,2] x[2]", "x[3,4,3] x[3,2,3,2] none [2,3] 1 1 1 [2,1]",
                  "x[2,4,2,3] x[4,3,2,2] x[6] 2 0 0 2", "x[1,1,1,1] x[1,1,1,1]"),
    .batched = LINES("X[3,3,4,3] x[3,2,3,3] x[2] 2"),
    .bad = BAD({"x[2,3,4,4] x[3,2,3,3] none 1 0 1", ST_VALUE, "output_padding"},
               {"x[2,3,4,4] x[3,2,3,3] none 1 [9,0]", ST_SHAPE, "9"}),
};
const Samples samples_conv_transpose3d = {
    .good = LINES("x[1,2,2,3,2] x[2,2,2,1,2] x[2]", "x[2,2,3,2] x[2,1,2,1,2] none [2,1,3] 0 [1,0,1]",
                  "x[1,1,1,1,1] x[1,1,1,1,1]"),
    .batched = LINES("X[3,2,2,3,2] x[2,2,2,1,2] x[2] 2"),
    .bad = BAD({"x[1,2,2,3,2] x[2,2,2,1,2] none 1 0 1", ST_VALUE, "output_padding"}),
};
