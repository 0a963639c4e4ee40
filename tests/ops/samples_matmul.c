/* samples_matmul.c: samples of ir/ops/matmul.def: sizes below, at and above the tiles of the kernels, nothing to add
 * up, one row; rows alone against rows in their batch. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_mm = {
    .good = LINES("x[4,5] x[5,3]", "u[17,40] u[40,33]", "u[150,90] u[90,200]", "x[1,1] x[1,1]", "x[3,0] x[0,2]",
                  "x[0,3] x[3,2]", "x[1,7] x[7,5]"),
    .batched = LINES("X[9,70] x[70,33]", "X[3,5] x[5,1]"),
    .bad = BAD({"x[4,5] x[4,3]", ST_SHAPE, "[4, 5]"}, {"x[4,5] x[5]", ST_SHAPE, "2"}),
};
const Samples samples_bmm = {
    .good = LINES("x[2,4,5] x[2,5,3]", "x[1,1,1] x[1,1,1]", "x[0,2,3] x[0,3,2]", "x[2,3,0] x[2,0,2]"),
    .batched = LINES("X[3,4,70] X[3,70,5]"),
    .bad = BAD({"x[2,4,5] x[3,5,3]", ST_SHAPE, "3"}, {"x[2,4,5] x[2,4,3]", ST_SHAPE, "5"}),
};
const Samples samples_addmm = {
    .good = LINES("x[3] x[4,5] x[5,3]", "x[4,3] x[4,5] x[5,3] beta=2 alpha=3", "x[4,1] x[4,5] x[5,3] beta=0",
                  "x[2] x[3,0] x[0,2]", "x[1] x[1,1] x[1,1]"),
    .batched = LINES("x[33] X[9,70] x[70,33]", "X[9,33] X[9,70] x[70,33] beta=2 alpha=3"),
    .bad = BAD({"x[4] x[4,5] x[5,3]", ST_SHAPE, "4"}, {"x[3] x[4,5] x[4,3]", ST_SHAPE, "[4, 5]"}),
};
const Samples samples_baddbmm = {
    .good = LINES("x[2,4,3] x[2,4,5] x[2,5,3]", "x[3] x[2,4,5] x[2,5,3] beta=2 alpha=3", "x[1] x[1,1,1] x[1,1,1]",
                  "x[2,3,2] x[2,3,0] x[2,0,2]"),
    .batched = LINES("X[3,4,5] X[3,4,70] X[3,70,5]"),
    .bad = BAD({"x[4] x[2,4,5] x[2,5,3]", ST_SHAPE, "4"}),
};
const Samples samples_matmul = {
    .good = LINES("x[4,5] x[5,3]", "x[5] x[5]", "x[4,5] x[5]", "x[5] x[5,3]", "x[2,4,5] x[5,3]", "x[2,1,4,5] x[3,5,2]",
                  "x[2,4,5] x[5]", "x[0,3] x[3]", "x[1] x[1]"),
    .batched = LINES("X[9,70] x[70,33]", "X[9,70] x[70]", "X[3,4,70] x[70,5]", "X[3,4,70] X[3,70,5]"),
    .bad = BAD({"x[4,5] x[4,3]", ST_SHAPE, "4"}, {"x[] x[3]", ST_SHAPE, "1"}),
};
const Samples samples_linear = {
    .good = LINES("x[4,5] x[3,5] x[3]", "x[4,5] x[3,5]", "x[2,4,5] x[3,5] x[3]", "x[5] x[3,5] x[3]", "x[0,5] x[3,5]",
                  "x[1,1] x[1,1] x[1]", "x[4,5] x[5]", "x[5] x[5] x[]", "x[2,4,5] x[5] x[]", "x[2,4,5] x[3,5] x[2,4,3]",
                  "x[2,4,5] x[3,5] x[4,1]", "x[4,5] x[3,5] x[4,3]", "x[5] x[3,5] x[1,3]"),
    .batched = LINES("X[9,70] x[33,70] x[33]", "X[9,70] x[33,70]", "X[3,4,70] x[33,70] x[33]"),
    .bad = BAD({"x[4,5] x[3,4]", ST_SHAPE, "4"}, {"x[4,5] x[3,5] x[4]", ST_SHAPE, "4"},
               {"x[4,5] x[5] x[4]", ST_SHAPE, "bias"}, {"x[2,4,5] x[3,5] x[1,2,4,3]", ST_SHAPE, "bias"},
               {"x[5] x[3,5] x[2,3]", ST_SHAPE, "bias"}, {"x[4,5] x[3,5] x[5,3]", ST_SHAPE, "bias"}),
};
const Samples samples_outer = {
    .good = LINES("x[4] x[5]", "x[0] x[2]", "x[1] x[1]"),
    .batched = LINES("X[4] x[5]"),
    .bad = BAD({"x[4,1] x[5]", ST_SHAPE, "[4, 1]"}),
};
const Samples samples_sdpa = {
    .good = LINES("x[2,4,5] x[2,6,5] x[2,6,3]", "x[2,2,4,5] x[2,2,4,5] x[2,2,4,5] is_causal=true",
                  "x[2,4,5] x[2,6,5] x[2,6,5] m[6]", "x[2,4,5] x[2,6,5] x[2,6,5] x[4,6] scale=0.5",
                  "x[1,1,1] x[1,1,1] x[1,1,1]"),
    .batched = LINES("X[3,4,70] X[3,6,70] X[3,6,5]", "X[3,2,4,9] X[3,2,6,9] X[3,2,6,9]"),
    .bad = BAD({"x[2,4,5] x[2,6,4] x[2,6,5]", ST_SHAPE, "4"},
               {"x[2,4,5] x[2,4,5] x[2,4,5] x[4,4] is_causal=true", ST_ARGUMENT, "is_causal is a mask"}),
};
/* The products with an out_dtype of their own. */
const Samples samples_mm_dtype = {
    .good = LINES("x[4,5] x[5,3] :x", "bf16[4,5] bf16[5,3] :f32", "f16[1,5] f16[5,3] :f32", "x[3,0] x[0,2] :x",
                  "x[1,1] x[1,1] :x"),
    .batched = LINES("X[9,70] x[70,33] :x"),
    .bad = BAD({"x[4,5] x[5,3] :f64", ST_DTYPE, "f64"}, {"x[4,5] x[4,3] :f32", ST_SHAPE, "4"}),
};
const Samples samples_bmm_dtype = {
    .good =
        LINES("x[2,4,5] x[2,5,3] :x", "bf16[2,4,5] bf16[2,5,3] :f32", "x[0,2,3] x[0,3,2] :x", "x[1,1,1] x[1,1,1] :x"),
    .batched = LINES("X[3,4,70] X[3,70,5] :x"),
    .bad = BAD({"x[2,4,5] x[2,5,3] :bf16", ST_DTYPE, "bf16"}),
};
const Samples samples_addmm_dtype = {
    .good = LINES("x[3] x[4,5] x[5,3] :x beta=2", "f32[3] bf16[4,5] bf16[5,3] :f32",
                  "f16[4,3] f16[4,5] f16[5,3] :f32 alpha=2", "x[2] x[3,0] x[0,2] :x", "x[1] x[1,1] x[1,1] :x"),
    .batched = LINES("x[33] X[9,70] x[70,33] :x"),
    .bad = BAD({"f64[3] bf16[4,5] bf16[5,3] :f32", ST_DTYPE, "f64"}, {"x[4] x[4,5] x[5,3] :x", ST_SHAPE, "4"}),
};
const Samples samples_baddbmm_dtype = {
    .good = LINES("x[2,4,3] x[2,4,5] x[2,5,3] :x", "f32[3] bf16[2,4,5] bf16[2,5,3] :f32 beta=2 alpha=3",
                  "x[2,3,2] x[2,3,0] x[2,0,2] :x", "x[1] x[1,1,1] x[1,1,1] :x"),
    .batched = LINES("X[3,4,5] X[3,4,70] X[3,70,5] :x"),
    .bad = BAD({"x[3] x[2,4,5] x[2,5,3] :f64", ST_DTYPE, "f64"}),
};
const Samples samples_flash_attention = {
    .good = LINES("x[2,3,4,5] x[2,3,6,5] x[2,3,6,5]", "x[1,2,4,5] x[1,2,4,5] x[1,2,4,5] 0.0 true",
                  "x[1,1,3,4] x[1,1,2,4] x[1,1,2,4] attn_mask=w[3,2]", "x[1,1,3,4] x[1,1,2,4] x[1,1,2,4] scale=0.7",
                  "x[0,1,2,3] x[0,1,2,3] x[0,1,2,3]", "x[1,1,1,1] x[1,1,1,1] x[1,1,1,1]",
                  "x[1,4,3,5] x[1,2,3,5] x[1,2,3,5] 0.0 true attn_mask=w[3,3]"),
    .bad = BAD({"x[2,3,4] x[2,3,4] x[2,3,4]", ST_SHAPE, "4 dims"}, {"x[1,1,2,3] x[1,1,2,4] x[1,1,2,4]", ST_SHAPE, "4"},
               {"x[1,1,2,3] x[1,1,2,3] x[1,1,2,3] 0.5", ST_UNSUPPORTED, "dropout_p"}),
};
const Samples samples_flash_attention_backward = {
    .good = LINES("x[2,3,4,5] x[2,3,4,5] x[2,3,6,5] x[2,3,6,5] x[2,3,4,5] p[2,3,4] 0.0 false",
                  "x[1,2,4,5] x[1,2,4,5] x[1,2,4,5] x[1,2,4,5] x[1,2,4,5] p[1,2,4] 0.0 true",
                  "x[0,1,2,3] x[0,1,2,3] x[0,1,2,3] x[0,1,2,3] x[0,1,2,3] p[0,1,2] 0.0 false",
                  "x[1,1,1,1] x[1,1,1,1] x[1,1,1,1] x[1,1,1,1] x[1,1,1,1] p[1,1,1] 0.0 false",
                  "x[1,4,3,5] x[1,4,3,5] x[1,2,3,5] x[1,2,3,5] x[1,4,3,5] p[1,4,3] 0.0 true attn_mask=w[3,3]"),
    .bad = BAD(
        {"x[1,1,2,3] x[1,1,2,3] x[1,1,2,3] x[1,1,2,3] x[1,1,2,3] p[1,1,3] 0.0 false", ST_SHAPE, "logsumexp"},
        {"x[1,1,1,1] x[1,1,1,1] x[1,1,1] x[1,1,1,1] x[1,1,1,1] p[1,1,1] 0.0 false", ST_SHAPE, "key must have 4 dims"},
        {"x[1,1,1,1] x[1,1,1,1] x[1,1,1,1] x[1,1,1,1,1] x[1,1,1,1] p[1,1,1] 0.0 false", ST_SHAPE, "value must have"},
        {"x[1,1,2,3] x[1,1,2,3] x[1,1,4,3] x[1,1,5,3] x[1,1,2,3] p[1,1,2] 0.0 false", ST_SHAPE, "value"},
        {"x[1,1,2,3] x[1,3,2,3] x[1,2,4,3] x[1,2,4,3] x[1,3,2,3] p[1,3,2] 0.0 false", ST_SHAPE, "3 != 2"}),
};
const Samples samples_einsum = {
    .good = LINES("'ij,jk->ik' (x[4,5],x[5,3])", "'bij,bjk' (x[2,4,5],x[2,5,3])", "'i,j->ij' (x[4],x[3])",
                  "'ii->i' (x[4,4])", "'ij->ji' (x[4,5])", "'ij->' (x[4,5])", "'ij->j' (x[4,5])",
                  "'ij,ij->i' (x[4,5],x[4,5])", "'...ij,...jk->...ik' (x[2,3,4],x[5,1,4,2])",
                  "'bhqd,bhkd->bhqk' (x[2,3,4,5],x[2,3,6,5])", "'ij,jk,kl->il' (x[2,3],x[3,4],x[4,2])",
                  "'iij,jk->ki' (x[3,3,2],x[2,4])", "'ij,kl->' (x[2,3],x[4,2])", "'i,i->' (x[0],x[0])",
                  "',i->i' (x[],x[3])", "'ij,ik->jk' (x[1,3],x[4,2])"),
    .bad = BAD({"'ij,jk->ik' (x[4,5])", ST_ARGUMENT, "more terms"}, {"'ij' (x[4])", ST_ARGUMENT, "as many dims"},
               {"'ij,jk->iz' (x[4,5],x[5,3])", ST_ARGUMENT, "none of an operand"},
               {"'i1' (x[4,5])", ST_ARGUMENT, "letter"}, {"'ij,jk' (x[4,5],x[4,3])", ST_SHAPE, "another size"},
               {"'ii' (x[4,5])", ST_SHAPE, "twice"}, {"'ij,jk' (f32[4,5],f64[5,3])", ST_DTYPE, "f64"},
               {"'ij->ii' (x[4,5])", ST_ARGUMENT, "twice in the result"}),
};
