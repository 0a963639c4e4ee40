/* samples_quantize.c: samples of ir/ops/quantize.def. A straight-through gradient is none that differences show but
 * where the grid is too fine to be seen, nothing is rounded, or all is limited: samples of the differentiable rows
 * whose self is x are such ones. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_fake_quantize = {
    .good = LINES("x[4,5] 9.094947017729282e-13 3 -35184372088832 35184372088832", "f32[4,5] 0.1 -3 -128 127",
                  "f32[2,3,4] 0.125 0 0 15", "f16[3,1] 0.3 100 0 255", "bf16[5] 0.25 0 -8 7", "x[0] 0.5 0 -8 7",
                  "x[] 0.000001 100 100 100"),
    .bad = BAD({"i<5[3] 0.5 0 -8 7", ST_DTYPE, "i64"}, {"x[3] 0.5 0 8 7", ST_VALUE, "quant_min 8"},
               {"x[3] 0.5 9 -8 7", ST_VALUE, "zero_point 9"}),
};
const Samples samples_fake_quantize_qparams = {
    .good = LINES("f32[4,5] f32[1] i32[1] -128 127", "f32[4,5] f32[] i32[] 0 255", "f32[2,3] f32[1,1] i32[1] -8 7",
                  "x[0] f32[1] i32[1] -8 7", "x[3] f32[1] i32[1] 100 100"),
    .bad = BAD({"f32[3] f32[2] i32[1] -8 7", ST_SHAPE, "scale"}, {"f32[3] f64[1] i32[1] -8 7", ST_DTYPE, "f64"},
               {"f32[3] f32[1] f32[1] -8 7", ST_DTYPE, "zero_point"}, {"f32[3] f32[1] i32[1] 8 7", ST_VALUE, "7"}),
};
const Samples samples_fake_quantize_enabled = {
    .good = LINES("f32[4,5] f32[1] i32[1] i<2[1] -128 127", "x[4,5] f32[1] i32[1] i<1[1] -128 127",
                  "f32[2,3] f32[] i32[] i<2[] -8 7", "x[0] f32[1] i32[1] i<1[1] -8 7"),
    .bad = BAD({"f32[3] f32[1] i32[1] i<2[2] -8 7", ST_SHAPE, "fake_quant_enabled"}),
};
const Samples samples_fake_quantize_channel = {
    .good =
        LINES("f32[4,5] f32[4] i32[4] 0 -128 127", "f32[2,3,4] f32[3] i32[3] 1 0 255", "f32[4,5] f32[5] i32[5] -1 -8 7",
              "x[4,5] f32[5] i32[5] 1 100 100", "x[0,3] f32[3] i32[3] 1 -8 7", "x[1] f32[1] i32[1] 0 100 100"),
    .bad = BAD({"f32[4,5] f32[4] i32[4] 1 -8 7", ST_SHAPE, "axis 1"},
               {"f32[4] f32[4] i32[4] 2 -8 7", ST_ARGUMENT, "axis 2"},
               {"f32[4] f32[4] i32[3] 0 -8 7", ST_SHAPE, "zero_point"}),
};
const Samples samples_quantize = {
    .good = LINES("x[4,5] 0.1 -3 -128 127 :i8", "x[4,5] 0.125 100 0 255 :u8", "x[2,3,4] 0.01 0 -100 100 :i16",
                  "x[3] 0.001 0 -30000 30000 :i32", "x[0] 0.5 0 -8 7 :i8", "x[] 0.5 0 -8 7 :i8"),
    .bad = BAD({"x[3] 0.5 0 -8 7 :f32", ST_DTYPE, "f32"}, {"x[3] 0.5 0 -129 7 :i8", ST_VALUE, "-129"},
               {"x[3] 0.5 0 0 256 :u8", ST_VALUE, "256"}, {"x[3] 0.5 8 -8 7 :i8", ST_VALUE, "zero_point 8"}),
};
const Samples samples_quantize_qparams = {
    .good = LINES("x[4,5] f32[1] i32[1] -128 127 :i8", "x[4,5] f32[] i<3[] 0 255 :u8", "x[0] f32[1] i32[1] -8 7 :i8"),
    .bad = BAD({"x[3] f32[3] i32[1] -8 7 :i8", ST_SHAPE, "scale"}),
};
const Samples samples_quantize_channel = {
    .good = LINES("x[4,5] f32[4] i32[4] 0 -128 127 :i8", "x[2,3,4] f32[3] i<3[3] 1 0 255 :u8",
                  "x[0,3] f32[3] i32[3] -1 -8 7 :i8", "x[1] f32[1] i32[1] 0 -8 7 :i8"),
    .bad = BAD({"x[4,5] f32[4] i32[4] 1 -8 7 :i8", ST_SHAPE, "axis 1"},
               {"x[] f32[1] i32[1] 0 -8 7 :i8", ST_SHAPE, "axis"}),
};
const Samples samples_dequantize = {
    .good = LINES("i8[4,5] 0.1 -3 -128 127 :i8", "u8[4,5] 0.125 100 0 255 :u8 out_dtype=:f64",
                  "i16[2,3] 0.5 7 -8 7 :i16 out_dtype=:bf16", "i32[3] 0.5 0 0 7 :i32", "i8[0] 0.5 0 -8 7 :i8",
                  "i8[] 0.5 0 -8 7 :i8"),
    .bad = BAD({"i8[3] 0.5 0 -8 7 :u8", ST_DTYPE, "u8"}, {"i8[3] 0.5 0 -8 7 :i8 out_dtype=:i32", ST_DTYPE, "i32"},
               {"f32[3] 0.5 0 -8 7 :f32", ST_DTYPE, "f32"}),
};
const Samples samples_dequantize_qparams = {
    .good =
        LINES("i8[4,5] f32[1] i32[1] -128 127 :i8", "u8[4,5] f32[] i<3[] 0 255 :u8", "i8[0] f32[1] i32[1] -8 7 :i8"),
    .bad = BAD({"i8[3] f32[3] i32[1] -8 7 :i8", ST_SHAPE, "scale"}),
};
const Samples samples_dequantize_channel = {
    .good = LINES("i8[4,5] f32[4] i32[4] 0 -128 127 :i8", "u8[2,3,4] f32[3] none 1 0 255 :u8",
                  "i8[0,3] f32[3] i32[3] -1 -8 7 :i8", "i8[1] f32[1] none 0 -8 7 :i8"),
    .bad = BAD({"i8[4,5] f32[4] none 1 -8 7 :i8", ST_SHAPE, "axis 1"}),
};
const Samples samples_int_mm = {
    .good = LINES("i8[4,5] i8[5,3]", "u8[17,40] i8[40,33]", "i8[150,90] i8[90,200]", "i8[1,1] i8[1,1]",
                  "i8[3,0] i8[0,2]", "i8[0,3] i8[3,2]"),
    .bad = BAD({"i8[4,5] i8[4,3]", ST_SHAPE, "[4, 3]"}, {"i8[4] i8[4,3]", ST_SHAPE, "[4]"},
               {"i8[4,5] u8[5,3]", ST_DTYPE, "u8"}, {"i32[4,5] i8[5,3]", ST_DTYPE, "i32"}),
};
