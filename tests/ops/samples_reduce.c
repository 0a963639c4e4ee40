/* samples_reduce.c: samples of ir/ops/reduce.def: trailing dims (order L), other dims (S) and both, kept and dropped,
 * negative ones, all of them; more than a chunk of 1,024; nothing to reduce. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_row_dots = {
    .good = LINES("x[3,5] x[3,5]", "x[7] x[7]", "x[2,3,70] x[2,3,70]", "u[2,1100] u[2,1100]", "x[0,4] x[0,4]",
                  "x[3,0] x[3,0]"),
    .batched = LINES("X[4,70] X[4,70]"),
    .bad = BAD({"x[3,5] x[5]", ST_SHAPE, "the same sizes"}, {"x[] x[]", ST_SHAPE, "a dim"},
               {"f32[3,5] f64[3,5]", ST_DTYPE, "f64"}),
};
const Samples samples_reduce = {
    .good =
        LINES("x[4,5]", "x[3,4,5]", "u[1100]", "x[]", "x[1,1]", "sum: x[4,5]", "sum: u[1100]", "sum: x[0,3]",
              "sum: x[]", "sum: x[4,5] dtype=:f64", "mean: x[4,5]", "mean: u[1100]", "mean: x[]", "prod: p[3,5]",
              "prod: x[0]", "amin: x[4,5] [1]", "amin: x[4,5] [0] true", "amin: x[3,4,5] [0,2]", "amin: x[4]",
              "amin: x[] [-1]", "argmax: x[] -1", "logsumexp: x[] [-1]", "logsumexp: x[] []", "amin: x[] [] true",
              "argmax: x[4,5]", "argmax: x[4,5] 1", "argmax: x[4,5] 0 true", "argmin: x[4,5]", "argmin: x[4,5] -1",
              "argmin: x[4,5] 0 true", "dot: x[7] x[7]", "dot: u[1100] u[1100]", "dot: x[0] x[0]", "dot: x[1] x[1]",
              "mv: x[4,5] x[5]", "mv: u[3,1100] u[1100]", "mv: x[4,0] x[0]", "mv: x[1,1] x[1]", "logsumexp: x[4,5] [1]",
              "logsumexp: x[4,5] [0] true", "logsumexp: x[4,5] [0,1]", "var: x[4,5]", "var: x[4,5] false",
              "std: x[4,5]", "std: x[4,5] false", "var_mean: x[4,5]", "var_mean: x[4,5] false"),
    .batched = LINES("mv: X[4,70] x[70]", "amin: X[4,70] [1]", "argmax: X[4,70] 1", "argmin: X[4,70] 1",
                     "logsumexp: X[4,70] [1]"),
    .bad = BAD({"amin: x[0] [0]", ST_SHAPE, "amin"}, {"amin: x[3] [2]", ST_ARGUMENT, "2"},
               {"argmax: x[0]", ST_SHAPE, "argmax"}, {"argmax: x[3] 1", ST_ARGUMENT, "1"},
               {"dot: x[3] x[4]", ST_SHAPE, "4"}, {"dot: x[3,1] x[3]", ST_SHAPE, "1-D"},
               {"mv: x[3,4] x[3]", ST_SHAPE, "3"}, {"logsumexp: x[3] [1]", ST_ARGUMENT, "1"}),
};
const Samples samples_reduce_dims = {
    .good =
        LINES("x[4,5] [1]", "x[4,5] [0]", "x[3,4,5] [0,2] true", "x[4,5] [-1]", "u[2,1100] [1]", "u[70,3] [0]",
              "x[4,5] []", "x[1,5] [0]", "x[3] [0] true", "x[] [-1]", "x[] [0] true", "all.dim: x[] -1",
              "any.dim: x[] -1", "max.dim: x[] -1", "min.dim: x[] 0 true", "prod.dim_int: p[] -1",
              "sum.dim_IntList: x[] [-1]", "all.dims: x[] [-1]", "var.dim: x[] [-1] false",
              "var_mean.correction: x[] [-1] correction=0", "all.dim: x[4,5] 1", "all.dim: x[4,5] 0 true",
              "any.dim: x[4,5] 1", "any.dim: x[4,5] 0 true", "all.dims: x[4,5] [0,1]", "all.dims: x[3,4] none",
              "any.dims: x[4,5] [0,1]", "any.dims: x[3,4] none", "any.dims: x[3,4] []", "all.dims: x[3,4] [] true",
              "any.dims: x[] []", "max.dim: x[4,5] 1", "max.dim: x[4,5] 0 true", "min.dim: x[4,5] 1",
              "min.dim: x[4,5] 0 true", "prod.dim_int: p[4,5] 1", "prod.dim_int: p[4,5] 0 true",
              "sum.dim_IntList: x[4,5] [1]", "sum.dim_IntList: x[4,5] none", "sum.dim_IntList: x[3,4,5] [0,2] true",
              "sum.dim_IntList: u[2,1100] [1]", "sum.dim_IntList: u[70,3] [0]", "sum.dim_IntList: u[300,400] [0]",
              "sum.dim_IntList: x[0,3] [0]", "sum.dim_IntList: x[4,5] [1] dtype=:f64", "var.correction: x[4,5] [1]",
              "var.correction: x[4,5] none correction=0", "var.correction: x[3,4,5] [0,2] correction=2 keepdim=true",
              "var.correction: u[2,1100] [1]", "std.correction: x[4,5] [1]", "std.correction: x[4,5] none correction=0",
              "var_mean.correction: x[4,5] [1]", "var_mean.correction: x[4,5] none correction=0", "var.dim: x[4,5] [1]",
              "var.dim: x[4,5] [0] false true", "std.dim: x[4,5] [1]", "std.dim: x[4,5] [0] false true",
              "var_mean.dim: x[4,5] [1]", "var_mean.dim: x[4,5] [0] false true"),
    .batched = LINES("X[4,70] [1]", "X[3,2,700] [1,2]", "all.dim: X[4,70] 1", "any.dim: X[4,70] 1",
                     "all.dims: X[4,70] [1]", "any.dims: X[4,70] [1]", "max.dim: X[4,70] 1", "min.dim: X[4,70] 1",
                     "prod.dim_int: P[4,70] 1", "var.dim: X[4,70] [1]", "std.dim: X[4,70] [1]",
                     "var_mean.dim: X[4,70] [1]", "sum.dim_IntList: X[4,1500] [1]", "sum.dim_IntList: X[3,70,5] [1]"),
    .bad = BAD({"sum.dim_IntList: x[3] [1]", ST_ARGUMENT, "1"}, {"sum.dim_IntList: x[3,4] [0,0]", ST_ARGUMENT, "dim"},
               {"amax: x[0] [0]", ST_SHAPE, "amax"}, {"max.dim: x[3] 1", ST_ARGUMENT, "1"},
               {"prod.dim_int: x[3] -2", ST_ARGUMENT, "-2"}),
};
const Samples samples_vector_norm = {
    .good = LINES(
        "linalg_vector_norm: x[4,5]", "linalg_vector_norm: x[4,5] 1 [1]", "linalg_vector_norm: x[2,3,4] 3 [0,-1] true",
        "linalg_vector_norm: x[4,5] inf [0]", "linalg_vector_norm: x[4,5] -inf [1]", "linalg_vector_norm: x[4,5] 0 [1]",
        "linalg_vector_norm: p[4,5] 0.5 [1]", "linalg_vector_norm: x[4,5] 1.5 [0]", "linalg_vector_norm: p[4,5] -1 [0]",
        "linalg_vector_norm: x[4,5] 2 [1] dtype=:f64", "linalg_vector_norm: x[]", "linalg_vector_norm: x[1]",
        "linalg_vector_norm: x[0,3] 2 [0]", "norm.Scalar: x[4,5]", "norm.Scalar: x[4,5] 1", "norm.Scalar: x[1]",
        "norm.Scalar: x[0] 1", "norm.ScalarOpt_dim: x[4,5] none [1]", "norm.ScalarOpt_dim: x[4,5] 3 [0,1] true",
        "norm.ScalarOpt_dim: x[0,3] 2 [0]", "norm.ScalarOpt_dim: x[1] 2 [0]",
        "norm.ScalarOpt_dtype: x[4,5] none dtype=:f64", "norm.ScalarOpt_dtype: x[0] 1 dtype=:f64",
        "norm.ScalarOpt_dtype: x[1] 1 dtype=:f64", "norm.ScalarOpt_dim_dtype: x[4,5] 1 [1] false dtype=:f64",
        "norm.ScalarOpt_dim_dtype: x[0,2] 1 [0] false dtype=:f64",
        "norm.ScalarOpt_dim_dtype: x[1] 1 [0] false dtype=:f64"),
    .batched = LINES("linalg_vector_norm: X[4,70] 2 [1]", "linalg_vector_norm: X[4,1100] 3 [1]"),
    .bad = BAD({"linalg_vector_norm: x[3] 2 [1]", ST_ARGUMENT, "1"}, {"linalg_vector_norm: i64[3]", ST_DTYPE, "i64"},
               {"linalg_vector_norm: x[0] inf", ST_SHAPE, "no elements"}),
};
