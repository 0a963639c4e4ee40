/* samples_sampler.c: samples of ir/ops/sampler.def. Offsets of bags are 0 here: all indices are in the last one
 * (tests/unit/test_sampler.c has others). */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_im2col = {
    .good = LINES("x[2,3,5,4] [2,3] [1,1] [0,0] [1,1]", "x[2,3,5,4] [2,2] [2,1] [1,2] [2,1]",
                  "x[3,5,4] [1,1] [1,1] [0,0] [1,1]", "x[0,2,3,3] [2,2] [1,1] [0,0] [1,1]", "x[1,2,3,3] 2 1 1 2",
                  "m[1,2,3,3] [2,2] [1,1] [1,1] [1,1]"),
    .batched = LINES("X[4,2,5,4] [2,3] [1,1] [1,0] [1,2]"),
    .bad = BAD({"x[3,3] [2,2] [1,1] [0,0] [1,1]", ST_SHAPE, "3, 3"},
               {"x[1,3,3] [4,2] [1,1] [0,0] [1,1]", ST_SHAPE, "kernel of 4"},
               {"x[1,3,3] [2,2] [0,1] [0,0] [1,1]", ST_ARGUMENT, "dilation"},
               {"x[1,3,3] [2,2] [1,1] [0,0] [1,0]", ST_ARGUMENT, "stride"},
               {"i<4[1,3,3] [2,2] [1,1] [0,0] [1,1]", ST_DTYPE, "i64"}),
};
const Samples samples_col2im = {
    .good = LINES("x[2,12,12] [4,5] [2,2] [1,1] [0,0] [1,1]", "x[2,8,12] [5,4] [2,2] [2,1] [1,2] [2,2]",
                  "x[3,12] [3,4] [1,1] [1,1] [0,0] [1,1]", "x[0,8,4] [3,3] [2,2] [1,1] [0,0] [1,1]",
                  "x[1,8,4] [3,3] 2 1 1 2", "m[1,8,4] [3,3] [2,2] [1,1] [0,0] [1,1]"),
    .batched = LINES("X[4,8,12] [4,5] [2,2] [1,1] [0,0] [1,1]"),
    .bad = BAD({"x[2,11,12] [4,5] [2,2] [1,1] [0,0] [1,1]", ST_SHAPE, "multiple of 4"},
               {"x[2,12,11] [4,5] [2,2] [1,1] [0,0] [1,1]", ST_SHAPE, "12"},
               {"x[2,12,12] [4,0] [2,2] [1,1] [0,0] [1,1]", ST_ARGUMENT, "4, 0"},
               {"i<4[2,12,12] [4,5] [2,2] [1,1] [0,0] [1,1]", ST_DTYPE, "i64"}),
};
const Samples samples_grid_sampler_2d = {
    .good =
        LINES("x[2,3,4,5] u[2,3,2,2] 0 0 false", "x[2,3,4,5] x[2,3,2,2] 0 0 true", "x[2,3,4,5] x[2,3,2,2] 0 1 false",
              "x[2,3,4,5] x[2,3,2,2] 0 2 false", "x[2,3,4,5] x[2,3,2,2] 0 2 true", "x[2,3,4,5] x[2,3,2,2] 1 0 false",
              "x[2,3,4,5] u[2,3,2,2] 1 2 true", "x[2,3,4,5] x[2,3,2,2] 2 0 false", "x[2,3,4,5] u[2,3,2,2] 2 1 true",
              "x[2,3,4,5] x[2,3,2,2] 2 2 false", "x[1,1,1,1] x[1,2,2,2] 0 2 true", "x[0,2,3,3] x[0,2,2,2] 0 0 false",
              "x[2,0,3,3] x[2,2,2,2] 0 0 false", "x[1,2,3,3] x[1,0,2,2] 0 1 false"),
    .batched = LINES("X[4,3,4,5] X[4,3,2,2] 0 0 false", "X[4,3,4,5] X[4,3,2,2] 2 2 true"),
    .bad = BAD({"x[2,3,4] x[2,3,2,2] 0 0 false", ST_SHAPE, "2, 3, 4"},
               {"x[2,3,4,5] x[2,3,2,3] 0 0 false", ST_SHAPE, "3, 2, 3"},
               {"x[2,3,4,5] x[1,3,2,2] 0 0 false", ST_SHAPE, "1, 3, 2, 2"},
               {"x[2,3,0,5] x[2,3,2,2] 0 0 false", ST_SHAPE, "without elements"},
               {"f32[2,3,4,5] f64[2,3,2,2] 0 0 false", ST_DTYPE, "f64"},
               {"x[2,3,4,5] x[2,3,2,2] 3 0 false", ST_ARGUMENT, "interpolation_mode"},
               {"x[2,3,4,5] x[2,3,2,2] 0 3 false", ST_ARGUMENT, "padding_mode"}),
};
const Samples samples_grid_sampler_2d_backward = {
    .good = LINES("x[2,3,3,2] x[2,3,4,5] u[2,3,2,2] 0 0 false [1,1]", "x[2,3,3,2] x[2,3,4,5] x[2,3,2,2] 0 2 true [0,1]",
                  "x[2,3,3,2] x[2,3,4,5] x[2,3,2,2] 1 1 false [1,1]",
                  "f64[2,3,3,2] f64[2,3,4,5] f64[2,3,2,2] 2 2 false [1,1]",
                  "x[2,3,3,2] x[2,3,4,5] x[2,3,2,2] 2 0 true [1,0]"),
    .bad = BAD({"x[2,3,3,3] x[2,3,4,5] x[2,3,2,2] 0 0 false [1,1]", ST_SHAPE, "2, 3, 3, 3"},
               {"x[2,3,3,2] x[2,3,4,5] x[2,3,2,2] 0 0 false [1]", ST_ARGUMENT, "output_mask"}),
};
const Samples samples_grid_sampler_3d = {
    .good = LINES("x[2,3,2,3,4] u[2,2,1,2,3] 0 0 false", "x[2,3,2,3,4] x[2,1,2,2,3] 0 0 true",
                  "x[2,3,2,3,4] x[2,2,2,1,3] 0 1 false", "x[1,2,4,3,2] x[1,2,1,2,3] 0 2 false",
                  "x[1,2,4,3,2] x[1,2,1,2,3] 0 2 true", "x[1,2,4,3,2] x[1,2,1,2,3] 1 0 false",
                  "x[1,2,4,3,2] u[1,2,1,2,3] 1 2 true", "x[1,1,4,3,2] x[1,2,1,2,3] 2 0 false",
                  "x[1,1,2,3,2] x[1,1,1,2,3] 2 1 true", "x[1,1,1,1,1] x[1,1,2,1,3] 0 2 true",
                  "x[0,2,3,2,3] x[0,2,2,1,3] 0 0 false", "x[1,0,3,2,2] x[1,2,1,2,3] 0 1 false"),
    .batched = LINES("X[2,2,3,2,3] X[2,1,2,2,3] 0 0 false", "X[2,2,3,2,2] X[2,1,2,1,3] 1 2 true"),
    .bad = BAD({"x[2,3,4,5] x[2,3,2,2,3] 0 0 false", ST_SHAPE, "[N,C,D,H,W]"},
               {"x[2,3,2,3,4] x[2,2,1,2,2] 0 0 false", ST_SHAPE, "[N,d,h,w,3]"},
               {"x[2,3,2,0,4] x[2,2,1,2,3] 0 0 false", ST_SHAPE, "volumes without elements"},
               {"f32[2,3,2,3,4] f64[2,2,1,2,3] 0 0 false", ST_DTYPE, "f64"},
               {"x[2,3,2,3,4] x[2,2,1,2,3] 3 0 false", ST_ARGUMENT, "tricubic"},
               {"x[2,3,2,3,4] x[2,2,1,2,3] 0 3 false", ST_ARGUMENT, "padding_mode"}),
};
const Samples samples_grid_sampler_3d_backward = {
    .good = LINES("x[2,2,1,2,2] x[2,2,2,3,4] u[2,1,2,2,3] 0 0 false [1,1]",
                  "x[1,2,2,2,1] x[1,2,2,3,4] x[1,2,2,1,3] 0 2 true [0,1]",
                  "x[1,2,2,2,1] x[1,2,2,3,4] x[1,2,2,1,3] 1 1 false [1,1]",
                  "f64[1,1,1,2,1] f64[1,1,2,3,2] f64[1,1,2,1,3] 2 0 false [1,1]"),
    .bad = BAD({"x[2,2,1,2,3] x[2,2,2,3,4] x[2,1,2,2,3] 0 0 false [1,1]", ST_SHAPE, "2, 2, 1, 2, 3"},
               {"x[2,2,1,2,2] x[2,2,2,3,4] x[2,1,2,2,3] 0 0 false [1]", ST_ARGUMENT, "output_mask"}),
};
const Samples samples_grid_sampler = {
    .good = LINES("x[2,3,4,5] u[2,3,2,2] 0 0 false", "x[2,3,4,5] x[2,3,2,2] 2 1 true",
                  "x[1,2,4,3,2] x[1,2,1,2,3] 0 2 false", "x[1,2,4,3,2] x[1,2,1,2,3] 1 1 true"),
    .bad = BAD({"x[2,3,4] x[2,3,2,2] 0 0 false", ST_SHAPE, "[N,C,H,W]"},
               {"x[2,3,4,5,2] x[2,3,2,2] 0 0 false", ST_SHAPE, "[N,C,D,H,W]"}),
};
const Samples samples_embedding_bag = {
    .good = LINES("x[5,4] i<5[7] i<1[3]", "x[5,4] i<5[7] i<1[3] false 1", "w[5,4] i<5[7] i<1[3] true 1",
                  "x[5,4] i<5[7] i<1[3] false 2", "x[5,4] i<5[7] i<1[1] false 0 false x[7]",
                  "x[5,4] i<5[7] i<1[3] false 0 false none true", "x[5,4] i<5[0] i<1[2]", "x[5,4] i<5[0] i<1[0]",
                  "x[5,4] i<5[7] i<1[0]", "_embedding_bag: x[5,4] i<5[7] i<1[3]",
                  "_embedding_bag: x[5,4] i<5[7] i<1[3] false 1", "_embedding_bag: x[5,4] i<5[7] i<1[3] false 2",
                  "_embedding_bag: x[5,4] i<5[7] i<1[2] false 0 false u[7]",
                  "_embedding_bag: x[5,4] i<5[7] i<1[3] false 1 false none false 2",
                  "_embedding_bag: x[5,4] i<5[7] i<1[3] false 2 false none true 2",
                  "_embedding_bag: x[5,4] i<5[7] i<1[3] false 0 false u[7] false 2"),
    .bad = BAD({"x[5] i<5[7] i<1[3]", ST_SHAPE, "weight"}, {"x[5,4] i<5[7,1] i<1[3]", ST_SHAPE, "indices"},
               {"i<3[5,4] i<5[7] i<1[3]", ST_DTYPE, "weight"}, {"x[5,4] x[7] i<1[3]", ST_DTYPE, "indices"},
               {"x[5,4] i<5[7] i<1[3] false 3", ST_ARGUMENT, "mode"},
               {"x[5,4] i<5[7] i<1[3] false 1 false x[7]", ST_ARGUMENT, "per_sample_weights"},
               {"x[5,4] i<5[7] i<1[3] false 0 false x[6]", ST_SHAPE, "per_sample_weights"},
               {"x[5,4] i<5[7] i<1[0] false 0 false none true", ST_SHAPE, "offsets"}),
};
const Samples samples_embedding_bag_padding_idx = {
    .good = LINES("x[5,4] i<5[7] i<1[3] false 0 false none false none",
                  "x[5,4] i<5[7] i<1[3] false 1 false none false -2", "x[5,4] i<5[7] i<1[3] false 2 false none true 1"),
    .bad = BAD({"x[5,4] i<5[7] i<1[3] false 0 false none false 5", ST_ARGUMENT, "padding_idx 5"}),
};
const Samples samples_embedding_bag_dense_backward = {
    .good = LINES(
        "x[3,4] i<5[7] i<3[7] i<9[3] i<5[3,4] 5 false 0 none", "x[3,4] i<5[7] i<3[7] i<9[3] i<5[3,4] 5 false 0 x[7] 2",
        "x[3,4] i<5[7] i<3[7] i<9[3] i<5[3,4] 5 false 1 none 1", "x[3,4] i<5[7] i<3[7] i<9[3] i<5[3,4] 5 false 2 none"),
    .bad = BAD({"x[3,4] i<5[7] i<3[6] i<9[3] i<5[3,4] 5 false 0 none", ST_SHAPE, "offset2bag"},
               {"x[3,4] i<5[7] i<3[7] i<9[2] i<5[3,4] 5 false 1 none", ST_SHAPE, "bag_size"},
               {"x[3,4] i<5[7] i<3[7] i<9[3] i<5[3,3] 5 false 2 none", ST_SHAPE, "maximum_indices"},
               {"x[3,4] i<5[7] i<3[7] i<9[3] i<5[3,4] -1 false 0 none", ST_ARGUMENT, "num_weights"}),
};
const Samples samples_embedding_bag_backward = {
    .good = LINES("x[3,4] i<5[7] i<1[3] i<3[7] i<9[3] i<5[3,4] 5 false 0 false none",
                  "x[3,4] i<5[7] i<1[3] i<3[0] i<9[3] i<5[3,4] 5 false 0 false x[7] 2",
                  "x[3,4] i<5[7] i<1[3] i<3[7] i<9[3] i<5[3,4] 5 false 1 false none",
                  "x[3,4] i<5[7] i<1[3] i<3[7] i<9[3] i<5[3,4] 5 false 2 false none"),
    .bad = BAD({"x[3,4] i<5[7] i<1[3] i<3[7] i<9[3] i<5[3,4] 5 false 0 true none", ST_UNSUPPORTED, "sparse"},
               {"x[3,4] i<5[7] i<1[3] i<3[6] i<9[3] i<5[3,4] 5 false 0 false none", ST_SHAPE, "offset2bag"}),
};
const Samples samples_embedding_bag_weights_backward = {
    .good = LINES("x[3,4] x[5,4] i<5[7] i<1[3] i<3[7] 0", "x[3,4] x[5,4] i<5[7] i<1[3] i<3[0] 0 2"),
    .bad = BAD({"x[3,4] x[5,4] i<5[7] i<1[3] i<3[7] 1", ST_ARGUMENT, "mode 0"},
               {"x[3,4] x[5,3] i<5[7] i<1[3] i<3[7] 0", ST_SHAPE, "5, 3"}),
};
const Samples samples_affine_grid_generator = {
    .good = LINES("x[2,2,3] [2,3,4,5] false", "x[2,2,3] [2,3,4,5] true", "x[1,3,4] [1,2,2,3,4] false",
                  "x[1,2,3] [1,1,1,1] true", "x[0,2,3] [0,1,2,2] false"),
    .bad = BAD({"x[2,2,3] [2,3,4] true", ST_ARGUMENT, "4 or 5"}, {"x[2,2,3] [1,3,4,5] true", ST_SHAPE, "theta"}),
};
const Samples samples_affine_grid_generator_backward = {
    .good = LINES("x[2,4,5,2] [2,3,4,5] false", "x[2,4,5,2] [2,3,4,5] true", "x[1,2,3,4,3] [1,2,2,3,4] false"),
    .bad = BAD({"x[2,4,5,2] [2,3,5,4] true", ST_SHAPE, "grad"}),
};
