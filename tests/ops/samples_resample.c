/* samples_resample.c: samples of ir/ops/resample.def: sizes up, down and the same, norms of every kind. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_upsample_nearest1d = {
    .good = LINES("x[2,2,5] [8]", "x[1,2,5] [3]", "x[0,2,5] [8]", "x[1,1,5] [8] 1.7"),
    .batched = LINES("X[2,2,5] [8]"),
    .bad = BAD({"x[2,2] [8]", ST_SHAPE, "self"}, {"x[1,2,5] [0]", ST_ARGUMENT, "output_size"}),
};
const Samples samples_upsample_nearest1d_backward = {
    .good = LINES("x[2,2,8] [8] [2,2,5]", "x[1,2,3] [3] [1,2,5]"),
    .bad = BAD({"x[2,2,5] [8] [2,2,5]", ST_SHAPE, "grad_output"}),
};
const Samples samples_upsample_nearest1d_vec = {
    .good = LINES("x[2,2,5] [8] none"),
    .bad = BAD({"x[2,2,5] none none", ST_ARGUMENT, "exactly one"}),
};
const Samples samples_upsample_nearest2d = {
    .good = LINES("x[2,2,3,4] [5,7]", "x[1,2,3,4] [2,2]", "x[0,2,3,4] [5,7]", "x[1,1,3,4] [5,7] 1.7"),
    .batched = LINES("X[2,2,3,4] [5,7]"),
    .bad = BAD({"x[2,2] [5,7]", ST_SHAPE, "self"}, {"x[1,2,3,4] [0,0]", ST_ARGUMENT, "output_size"}),
};
const Samples samples_upsample_nearest2d_backward = {
    .good = LINES("x[2,2,5,7] [5,7] [2,2,3,4]", "x[1,2,2,2] [2,2] [1,2,3,4]"),
    .bad = BAD({"x[2,2,3,4] [5,7] [2,2,3,4]", ST_SHAPE, "grad_output"}),
};
const Samples samples_upsample_nearest2d_vec = {
    .good = LINES("x[1,2,3,4] [5,7] none"),
    .bad = BAD({"x[2,2,3,4] none none", ST_ARGUMENT, "exactly one"}),
};
const Samples samples_upsample_nearest3d = {
    .good = LINES("x[2,2,2,3,2] [4,2,3]", "x[1,2,2,3,2] [1,5,2]", "x[0,2,2,3,2] [4,2,3]", "x[1,1,2,3,2] [4,2,3] 1.7"),
    .batched = LINES("X[2,2,2,3,2] [4,2,3]"),
    .bad = BAD({"x[2,2] [4,2,3]", ST_SHAPE, "self"}, {"x[1,2,2,3,2] [0,0,0]", ST_ARGUMENT, "output_size"}),
};
const Samples samples_upsample_nearest3d_backward = {
    .good = LINES("x[2,2,4,2,3] [4,2,3] [2,2,2,3,2]", "x[1,2,1,5,2] [1,5,2] [1,2,2,3,2]"),
    .bad = BAD({"x[2,2,2,3,2] [4,2,3] [2,2,2,3,2]", ST_SHAPE, "grad_output"}),
};
const Samples samples_upsample_nearest3d_vec = {
    .good = LINES("x[1,2,2,3,2] [4,2,3] none"),
    .bad = BAD({"x[2,2,2,3,2] none none", ST_ARGUMENT, "exactly one"}),
};
const Samples samples_upsample_linear1d = {
    .good = LINES("x[2,2,5] [8] false", "x[1,2,5] [3] true", "x[0,2,5] [8] false", "x[1,1,5] [8] false 1.7"),
    .batched = LINES("X[2,2,5] [8] true"),
    .bad = BAD({"x[2,2] [8] false", ST_SHAPE, "self"}, {"i64[2,2,5] [8] false", ST_DTYPE, "i64"}),
};
const Samples samples_upsample_linear1d_backward = {
    .good = LINES("x[2,2,8] [8] [2,2,5] false", "x[1,2,3] [3] [1,2,5] true"),
    .bad = BAD({"x[2,2,5] [8] [2,2,5] true", ST_SHAPE, "grad_output"}),
};
const Samples samples_upsample_linear1d_vec = {
    .good = LINES("x[2,2,5] [8] true none"),
    .bad = BAD({"x[2,2,5] none false none", ST_ARGUMENT, "exactly one"}),
};
const Samples samples_upsample_bilinear2d = {
    .good = LINES("x[2,2,3,4] [5,7] false", "x[1,2,3,4] [2,1] true", "x[0,2,3,4] [5,7] false",
                  "x[1,1,3,4] [5,7] false 1.7"),
    .batched = LINES("X[2,2,3,4] [5,7] true"),
    .bad = BAD({"x[2,2] [5,7] false", ST_SHAPE, "self"}, {"i64[2,2,3,4] [5,7] false", ST_DTYPE, "i64"}),
};
const Samples samples_upsample_bilinear2d_backward = {
    .good = LINES("x[2,2,5,7] [5,7] [2,2,3,4] false", "x[1,2,2,1] [2,1] [1,2,3,4] true"),
    .bad = BAD({"x[2,2,3,4] [5,7] [2,2,3,4] true", ST_SHAPE, "grad_output"}),
};
const Samples samples_upsample_bilinear2d_vec = {
    .good = LINES("x[1,2,3,4] [5,7] true none"),
    .bad = BAD({"x[2,2,3,4] none false none", ST_ARGUMENT, "exactly one"}),
};
const Samples samples__upsample_nearest_exact1d = {
    .good = LINES("x[2,2,5] [8]", "x[1,2,5] [3] 0.7", "x[0,2,5] [8]"),
    .bad = BAD({"x[2,2] [8]", ST_SHAPE, "self"}),
};
const Samples samples__upsample_nearest_exact1d_backward = {
    .good = LINES("x[2,2,8] [8] [2,2,5]"),
    .bad = BAD({"x[2,2,5] [8] [2,2,5]", ST_SHAPE, "grad_output"}),
};
const Samples samples__upsample_nearest_exact1d_vec = {
    .good = LINES("x[2,2,5] [8] none"),
    .bad = BAD({"x[2,2,5] none none", ST_ARGUMENT, "exactly one"}),
};
const Samples samples__upsample_nearest_exact2d = {
    .good = LINES("x[2,2,3,4] [5,7]", "x[1,2,3,4] [2,1]", "x[1,2,3,4] [5,3] 1.7 0.8"),
    .bad = BAD({"x[2,2] [5,7]", ST_SHAPE, "self"}),
};
const Samples samples__upsample_nearest_exact2d_backward = {
    .good = LINES("x[2,2,5,7] [5,7] [2,2,3,4]"),
    .bad = BAD({"x[2,2,3,4] [5,7] [2,2,3,4]", ST_SHAPE, "grad_output"}),
};
const Samples samples__upsample_nearest_exact2d_vec = {
    .good = LINES("x[2,2,3,4] [5,7] none"),
    .bad = BAD({"x[2,2,3,4] none none", ST_ARGUMENT, "exactly one"}),
};
const Samples samples__upsample_nearest_exact3d = {
    .good = LINES("x[1,2,2,3,2] [4,2,3]", "x[1,1,2,3,2] [1,1,1]"),
    .bad = BAD({"x[2,2] [4,2,3]", ST_SHAPE, "self"}),
};
const Samples samples__upsample_nearest_exact3d_backward = {
    .good = LINES("x[1,2,4,2,3] [4,2,3] [1,2,2,3,2]"),
    .bad = BAD({"x[1,2,2,3,2] [4,2,3] [1,2,2,3,2]", ST_SHAPE, "grad_output"}),
};
const Samples samples__upsample_nearest_exact3d_vec = {
    .good = LINES("x[1,2,2,3,2] [4,2,3] none"),
    .bad = BAD({"x[1,2,2,3,2] none none", ST_ARGUMENT, "exactly one"}),
};
const Samples samples_upsample_trilinear3d = {
    .good = LINES("x[1,2,2,3,2] [4,2,3] false", "x[1,1,2,3,2] [1,4,3] true"),
    .bad = BAD({"x[2,2] [4,2,3] false", ST_SHAPE, "self"}, {"i64[1,2,2,3,2] [4,2,3] false", ST_DTYPE, "i64"}),
};
const Samples samples_upsample_trilinear3d_backward = {
    .good = LINES("x[1,2,4,2,3] [4,2,3] [1,2,2,3,2] false", "x[1,2,4,2,3] [4,2,3] [1,2,2,3,2] true"),
    .bad = BAD({"x[1,2,2,3,2] [4,2,3] [1,2,2,3,2] true", ST_SHAPE, "grad_output"}),
};
const Samples samples_upsample_trilinear3d_vec = {
    .good = LINES("x[1,2,2,3,2] [4,2,3] true none"),
    .bad = BAD({"x[1,2,2,3,2] none false none", ST_ARGUMENT, "exactly one"}),
};
const Samples samples_upsample_bicubic2d = {
    .good = LINES("x[2,2,3,4] [5,7] false", "x[1,2,3,4] [2,1] true", "x[0,2,3,4] [5,7] false",
                  "x[1,1,3,4] [5,7] false 1.7", "x[1,2,5,6] [3,2] false"),
    .bad = BAD({"x[2,2] [5,7] false", ST_SHAPE, "self"}, {"i64[2,2,3,4] [5,7] false", ST_DTYPE, "i64"}),
};
const Samples samples_upsample_bicubic2d_backward = {
    .good = LINES("x[2,2,5,7] [5,7] [2,2,3,4] false", "x[2,2,5,7] [5,7] [2,2,3,4] true"),
    .bad = BAD({"x[2,2,3,4] [5,7] [2,2,3,4] true", ST_SHAPE, "grad_output"}),
};
const Samples samples_upsample_bicubic2d_vec = {
    .good = LINES("x[2,2,3,4] [5,7] true none"),
    .bad = BAD({"x[2,2,3,4] none false none", ST_ARGUMENT, "exactly one"}),
};
const Samples samples__upsample_bilinear2d_aa = {
    .good = LINES("x[2,2,3,4] [5,7] false", "x[1,2,5,6] [2,3] true", "x[1,1,7,6] [3,2] false 0.5",
                  "x[0,2,3,4] [5,7] false"),
    .bad = BAD({"x[2,2] [5,7] false", ST_SHAPE, "self"}, {"i64[2,2,3,4] [5,7] false", ST_DTYPE, "i64"}),
};
const Samples samples__upsample_bilinear2d_aa_backward = {
    .good = LINES("x[2,2,5,7] [5,7] [2,2,3,4] false", "x[2,2,5,7] [5,7] [2,2,3,4] true"),
    .bad = BAD({"x[2,2,3,4] [5,7] [2,2,3,4] true", ST_SHAPE, "grad_output"}),
};
const Samples samples__upsample_bilinear2d_aa_vec = {
    .good = LINES("x[2,2,3,4] [5,7] true none"),
    .bad = BAD({"x[2,2,3,4] none false none", ST_ARGUMENT, "exactly one"}),
};
const Samples samples__upsample_bicubic2d_aa = {
    .good = LINES("x[2,2,3,4] [5,7] false", "x[1,2,5,6] [2,3] true", "x[1,1,7,6] [3,2] false 0.5"),
    .bad = BAD({"x[2,2] [5,7] false", ST_SHAPE, "self"}, {"i64[2,2,3,4] [5,7] false", ST_DTYPE, "i64"}),
};
const Samples samples__upsample_bicubic2d_aa_backward = {
    .good = LINES("x[2,2,5,7] [5,7] [2,2,3,4] false", "x[2,2,5,7] [5,7] [2,2,3,4] true"),
    .bad = BAD({"x[2,2,3,4] [5,7] [2,2,3,4] true", ST_SHAPE, "grad_output"}),
};
const Samples samples__upsample_bicubic2d_aa_vec = {
    .good = LINES("x[2,2,3,4] [5,7] true none"),
    .bad = BAD({"x[2,2,3,4] none false none", ST_ARGUMENT, "exactly one"}),
};
const Samples samples__upsample_lanczos2d_aa = {
    .good = LINES("x[2,2,3,4] [5,7] false", "x[1,2,5,6] [2,3] true", "x[1,1,7,6] [3,2] false 0.5"),
    .bad = BAD({"x[2,2] [5,7] false", ST_SHAPE, "self"}, {"i64[2,2,3,4] [5,7] false", ST_DTYPE, "i64"}),
};
const Samples samples__upsample_lanczos2d_aa_backward = {
    .good = LINES("x[2,2,5,7] [5,7] [2,2,3,4] false", "x[2,2,5,7] [5,7] [2,2,3,4] true"),
    .bad = BAD({"x[2,2,3,4] [5,7] [2,2,3,4] true", ST_SHAPE, "grad_output"}),
};
const Samples samples__upsample_lanczos2d_aa_vec = {
    .good = LINES("x[2,2,3,4] [5,7] true none"),
    .bad = BAD({"x[2,2,3,4] none false none", ST_ARGUMENT, "exactly one"}),
};
const Samples samples_cdist = {
    .good =
        LINES("x[3,4] x[2,4] 2.0 none", "x[3,4] x[2,4] 1.0 none", "x[2,3,4] x[2,4] 0.0 none", "x[3,4] x[2,4] inf none",
              "x[3,4] x[2,4] 3.0 1", "x[3,4] x[2,4] 0.5 none", "x[0,4] x[2,4] 2.0 none", "x[3,0] x[2,0] 2.0 none"),
    .batched = LINES("X[3,2,4] X[3,3,4] 2.0 none"),
    .bad = BAD({"x[3,4] x[2,5] 2.0 none", ST_SHAPE, "5"}, {"x[3,4] x[2,4] -1.0 none", ST_ARGUMENT, "p"},
               {"x[4] x[2,4] 2.0 none", ST_SHAPE, "x1"}),
};
const Samples samples_euclidean_dist = {
    .good = LINES("x[4,5] x[3,5]", "x[2,1,3,2] x[4,3,2]", "x[0,3] x[2,3]", "x[1,1] x[1,1]"),
    .bad = BAD({"x[4,5] x[3,4]", ST_SHAPE, "[3, 4]"}, {"f32[4,5] f64[3,5]", ST_DTYPE, "f64"}),
};
const Samples samples_cdist_backward = {
    .good = LINES("x[3,2] x[3,4] x[2,4] 2.0 p[3,2]", "x[3,2] x[3,4] x[2,4] 1.0 p[3,2]",
                  "x[2,3,2] x[2,3,4] x[2,4] 3.0 p[2,3,2]"),
    .bad = BAD({"x[3,3] x[3,4] x[2,4] 2.0 p[3,2]", ST_SHAPE, "grad_output"}),
};
const Samples samples_pdist = {
    .good = LINES("x[4,3]", "x[4,3] 1.0", "x[4,3] 0.0", "x[4,3] inf", "x[4,3] 3.0", "x[1,3]", "x[0,3]", "x[3,0]"),
    .bad = BAD({"x[4]", ST_SHAPE, "self"}, {"x[4,3] -1.0", ST_ARGUMENT, "p"}),
};
const Samples samples_pdist_backward = {
    .good = LINES("x[6] x[4,3] 2.0 p[6]", "x[6] x[4,3] 1.0 p[6]", "x[0] x[1,3] 2.0 p[0]"),
    .bad = BAD({"x[5] x[4,3] 2.0 p[6]", ST_SHAPE, "grad_output"}),
};
