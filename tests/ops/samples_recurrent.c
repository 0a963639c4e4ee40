/* samples_recurrent.c: samples of ir/ops/recurrent.def: of one step, which has second derivatives, and of several. */
#include "tests/ops/samples.h"

#define LINES SAMPLE_LINES
#define BAD   SAMPLE_BAD

const Samples samples_lstm = {
    .good = LINES("x[1,2,3] (x[1,2,4],x[1,2,4]) (x[16,3],x[16,4],x[16],x[16]) true 1 0.0 false false false",
                  "x[3,2,3] (x[1,2,2],x[1,2,2]) (x[8,3],x[8,2],x[8],x[8]) true 1 0.0 false false false",
                  "x[2,3,3] (x[2,2,2],x[2,2,2]) (x[8,3],x[8,2],x[8,3],x[8,2]) false 1 0.0 false true true",
                  "x[3,2,3] (x[2,2,2],x[2,2,2]) (x[8,3],x[8,2],x[8,2],x[8,2]) false 2 0.0 false false false",
                  "x[3,2,3] (x[1,2,2],x[1,2,4]) (x[16,3],x[16,2],x[16],x[16],x[2,4]) true 1 0.0 false false false",
                  "x[2,1,3] (x[1,1,2],x[1,1,2]) (x[8,3],x[8,2]) false 1 0.0 true false false"),
    .bad = BAD({"x[3,2] (x[1,2,2],x[1,2,2]) (x[8,3],x[8,2]) false 1 0.0 false false false", ST_SHAPE, "3 dims"},
               {"x[3,2,3] (x[1,2,2]) (x[8,3],x[8,2]) false 1 0.0 false false false", ST_ARGUMENT, "hx has 1"},
               {"x[3,2,3] (x[1,2,2],x[1,2,2]) (x[8,3]) false 1 0.0 false false false", ST_ARGUMENT, "1 params"},
               {"x[3,2,3] (x[1,2,2],x[1,2,2]) (x[8,4],x[8,2]) false 1 0.0 false false false", ST_SHAPE, "w_ih"},
               {"x[3,2,3] (x[1,2,2],x[1,2,2]) (x[8,3],x[8,2]) false 1 2.0 false false false", ST_VALUE, "dropout"},
               {"x[0,2,3] (x[1,2,2],x[1,2,2]) (x[8,3],x[8,2]) false 1 0.0 false false false", ST_SHAPE, "no step"}),
};
const Samples samples_rnn = {
    .good = LINES("gru.input: x[1,2,3] x[1,2,2] (x[6,3],x[6,2],x[6],x[6]) true 1 0.0 false false false",
                  "gru.input: x[3,2,3] x[1,2,2] (x[6,3],x[6,2],x[6],x[6]) true 1 0.0 false false false",
                  "gru.input: x[2,3,3] x[2,2,2] (x[6,3],x[6,2],x[6,3],x[6,2]) false 1 0.0 false true true",
                  "rnn_tanh.input: x[1,2,3] x[1,2,2] (x[2,3],x[2,2],x[2],x[2]) true 1 0.0 false false false",
                  "rnn_tanh.input: x[3,2,3] x[2,2,2] (x[2,3],x[2,2],x[2,2],x[2,2]) false 2 0.0 false false false",
                  "rnn_relu.input: x[1,2,3] x[1,2,2] (x[2,3],x[2,2],x[2],x[2]) true 1 0.0 false false false",
                  "rnn_relu.input: x[3,2,3] x[1,3,2] (x[2,3],x[2,2]) false 1 0.0 false false true"),
    .bad = BAD({"gru.input: x[3,2,3] x[1,2,2] (x[4,3],x[6,2]) false 1 0.0 false false false", ST_SHAPE, "w_ih"},
               {"rnn_tanh.input: x[3,2,3] x[1,3,2] (x[2,3],x[2,2]) false 1 0.0 false false false", ST_SHAPE, "hx"},
               {"rnn_relu.input: i64[3,2,3] x[1,2,2] (x[2,3],x[2,2]) false 1 0.0 false false false", ST_DTYPE, "i64"}),
};
const Samples samples_lstm_cell = {
    .good = LINES("x[2,3] (x[2,2],x[2,2]) x[8,3] x[8,2] x[8] x[8]", "x[1,3] (x[1,2],x[1,2]) x[8,3] x[8,2]"),
    .bad = BAD({"x[2,3] (x[2,2],x[2,3]) x[8,3] x[8,2]", ST_SHAPE, "hx[1]"},
               {"x[2,3] (x[2,2]) x[8,3] x[8,2]", ST_ARGUMENT, "hx"}),
};
const Samples samples_rnn_cell = {
    .good = LINES("gru_cell: x[2,3] x[2,2] x[6,3] x[6,2] x[6] x[6]", "gru_cell: x[1,3] x[1,2] x[6,3] x[6,2]",
                  "rnn_tanh_cell: x[2,3] x[2,2] x[2,3] x[2,2] x[2] x[2]",
                  "rnn_relu_cell: x[2,3] x[2,2] x[2,3] x[2,2] x[2] x[2]"),
    .bad = BAD({"gru_cell: x[2,3] x[2,2] x[6,3] x[6,3]", ST_SHAPE, "w_hh"},
               {"rnn_tanh_cell: x[2,3] x[3,2] x[2,3] x[2,2]", ST_SHAPE, "hx"},
               {"rnn_relu_cell: f32[2,3] f64[2,2] f32[2,3] f32[2,2]", ST_DTYPE, "f64"}),
};
