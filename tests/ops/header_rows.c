/* header_rows.c: see header_rows.h. A row that is listed and has no such case must leave the list. */
#include "tests/ops/header_rows.h"
#include "ir/op_ids.h"

#include <stdio.h>
#include <string.h>

typedef struct HeaderRow {
    const char *row;
    HeaderFault fault;
    const char *reason;
} HeaderRow;

static const HeaderRow listed[] = {
    {"aten::view.dtype", HEADER_eager, "a view in another dtype breaks the graph: it runs between segments"},
    {"aten::roll", HEADER_compiles, "a shift by a whole size is a copy"},
    {"aten::pixel_unshuffle", HEADER_compiles, "one part of a dim is a view, more are a copy"},
    {"aten::diff", HEADER_compiles, "as many slices as n says, but none from a size on"},
    {"sn::view_scatter", HEADER_compiles, "its place in memory is numbers"},
    {"aten::tensor_split.sections", HEADER_compiles, "parts without elements"},
    {"aten::tensor_split.indices", HEADER_compiles, "an index beyond a size"},
    {"aten::rnn_relu.input", HEADER_compiles, "the scan's body is a text, in which sizes of weights are numbers"},
    {"aten::_upsample_bilinear2d_aa", HEADER_compiles, "as many elements under the filter as the sizes' quotient"},
    {"aten::_upsample_bilinear2d_aa_backward", HEADER_compiles, "the same"},
    {"aten::_upsample_bilinear2d_aa.vec", HEADER_compiles, "the same"},
    {"aten::_upsample_bicubic2d_aa", HEADER_compiles, "the same"},
    {"aten::_upsample_bicubic2d_aa_backward", HEADER_compiles, "the same"},
    {"aten::_upsample_bicubic2d_aa.vec", HEADER_compiles, "the same"},
    {"aten::_upsample_lanczos2d_aa", HEADER_compiles, "the same"},
    {"aten::_upsample_lanczos2d_aa_backward", HEADER_compiles, "the same"},
    {"aten::_upsample_lanczos2d_aa.vec", HEADER_compiles, "the same"},
    {"aten::conv1d.padding", HEADER_compiles, "an odd sum of pads, of a kernel whose size varies, is an op more"},
    {"aten::conv2d.padding", HEADER_compiles, "the same"},
    {"aten::conv3d.padding", HEADER_compiles, "the same"},
    {"aten::embedding_bag.padding_idx", HEADER_compiles, "a row counted from the end, where its part takes an int"},
    {"aten::affine_grid_generator", HEADER_compiles, "linspace takes its steps as an int"},
    {"aten::affine_grid_generator_backward", HEADER_compiles, "the same"},
    {"aten::where", HEADER_refused, "the sizes of its results depend on values"},
    {"aten::narrow.Tensor", HEADER_refused, "it reads where to begin"},
    {"aten::randint_like.Tensor", HEADER_refused, "it reads its bound"},
    {"aten::resize", HEADER_refused, "it changes its argument's memory"},
    {"sn::index_positions", HEADER_fixed, "it has no samples: the sizes of its results depend on values"},
    {"sn::repeat_positions", HEADER_fixed, "it has no samples: the sizes of its results depend on values"},
    {"aten::masked_select", HEADER_fixed, "the size of its result depends on values"},
    {"aten::tril_indices", HEADER_fixed, "its sizes are ints of the schema, and no SymInts"},
    {"aten::triu_indices", HEADER_fixed, "its sizes are ints of the schema, and no SymInts"},
    {"aten::arange", HEADER_fixed, "its size follows from numbers that are no SymInts"},
    {"aten::arange.start", HEADER_fixed, "its size follows from numbers that are no SymInts"},
    {"aten::arange.start_step", HEADER_fixed, "its size follows from numbers that are no SymInts"},
    {"aten::linspace", HEADER_fixed, "its size follows from numbers that are no SymInts"},
    {"aten::logspace", HEADER_fixed, "its size follows from numbers that are no SymInts"},
    {"aten::scalar_tensor", HEADER_fixed, "of no dims"},
    {"sn::weights", HEADER_fixed, "of no dims"},
    {"sn::in_unit", HEADER_fixed, "of no dims"},
    {"sn::holds", HEADER_fixed, "of no dims"},
    {"sn::gradients", HEADER_fixed, "tests/unit/test_graph_text.c has its graphs"},
    {"sn::cond", HEADER_fixed, "tests/unit/test_graph_flow.c has its graphs"},
    {"sn::while_loop", HEADER_fixed, "tests/unit/test_graph_flow.c has its graphs"},
    {"sn::scan", HEADER_fixed, "tests/unit/test_graph_flow.c has its graphs"},
    {"sn::cond_backward", HEADER_fixed, "tests/unit/test_graph_flow.c has its graphs"},
    {"sn::scan_backward", HEADER_fixed, "tests/unit/test_graph_flow.c has its graphs"},
    {"aten::empty.memory_format", HEADER_fixed, "its elements are not set"},
    {"aten::empty_strided", HEADER_fixed, "its elements are not set"},
    {"aten::empty_like", HEADER_fixed, "its elements are not set"},
    {"aten::new_empty", HEADER_fixed, "its elements are not set"},
    {"aten::new_empty_strided", HEADER_fixed, "its elements are not set"},
    {"aten::empty_permuted", HEADER_fixed, "its elements are not set"},
    {"aten::reflection_pad3d_backward", HEADER_fixed, "no size of the samples may differ alone"},
    {"aten::replication_pad3d_backward", HEADER_fixed, "no size of the samples may differ alone"},
    {"aten::max_pool3d_with_indices_backward", HEADER_fixed, "no size of the samples may differ alone"},
    {"aten::avg_pool3d_backward", HEADER_fixed, "no size of the samples may differ alone"},
    {"sn::attention", HEADER_fixed, "it has no samples: tests/unit/test_attention.c"},
    {"sn::attention_backward", HEADER_fixed, "it has no samples: tests/unit/test_attention.c"},
    {"sn::convolution_input", HEADER_fixed, "the same"},
    {"sn::convolution_weight", HEADER_fixed, "the same"},
    {"aten::_assert_async", HEADER_fixed, "it has no result"},
    {"aten::_assert_async.msg", HEADER_fixed, "it has no result"},
    {"aten::_assert_scalar", HEADER_fixed, "it has no result"},
    {"aten::_assert_tensor_metadata", HEADER_fixed, "it has no result"},
    {"aten::sym_constrain_range", HEADER_fixed, "it has no result"},
    {"aten::sym_constrain_range_for_size", HEADER_fixed, "it has no result"},
    {"aten::lstm.data", HEADER_fixed, "it has no samples: tests/unit/test_packed.c"},
    {"aten::gru.data", HEADER_fixed, "it has no samples: tests/unit/test_packed.c"},
    {"aten::rnn_tanh.data", HEADER_fixed, "it has no samples: tests/unit/test_packed.c"},
    {"aten::rnn_relu.data", HEADER_fixed, "it has no samples: tests/unit/test_packed.c"},
    {"aten::_fused_adam_", HEADER_fixed, "it has no samples: tests/unit/test_foreach.c"},
    {"aten::_fused_adam_.tensor_lr", HEADER_fixed, "it has no samples: tests/unit/test_foreach.c"},
    {"aten::_fused_adamw_", HEADER_fixed, "it has no samples: tests/unit/test_foreach.c"},
    {"aten::_fused_adamw_.tensor_lr", HEADER_fixed, "it has no samples: tests/unit/test_foreach.c"},
    {"aten::_fused_sgd_", HEADER_fixed, "it has no samples: tests/unit/test_foreach.c"},
    {"aten::_fused_adagrad_", HEADER_fixed, "it has no samples: tests/unit/test_foreach.c"},
    {"aten::_fused_sgd_.tensor_lr", HEADER_fixed, "it has no samples: tests/unit/test_foreach.c"},
    {"aten::_fused_adagrad_.tensor_lr", HEADER_fixed, "it has no samples: tests/unit/test_foreach.c"},
};
enum { LISTED = sizeof listed / sizeof *listed };

static bool met[LISTED], has_symbols[OP_IDS];

static int find(const OpRow *row, HeaderFault fault) {
    for (int i = 0; i < LISTED; i++)
        if (listed[i].fault == fault && !strcmp(listed[i].row, row->name)) return i;
    return -1;
}

bool header_listed(const OpRow *row, HeaderFault fault) {
    const int at = find(row, fault);
    return at >= 0 && (met[at] = true);
}

void header_met(const OpRow *row) { has_symbols[row->id] = true; }

static int fixed_rows(const char *only_row) {
    int n = 0;
    for (int i = 0; i < op_row_count(); i++) {
        const OpRow *const row = op_row_at(i);
        if ((only_row && strcmp(only_row, row->name)) || has_symbols[row->id] || header_listed(row, HEADER_fixed) ||
            row->kind == KIND_number) /* of which the host has the result */
            continue;
        printf("%s: no sample has a size or number that may differ\n", row->name);
        n++;
    }
    return n;
}

int header_stale(const char *only_row) {
    int n = fixed_rows(only_row);
    for (int i = 0; i < LISTED; i++) {
        if (met[i] || (only_row && strcmp(only_row, listed[i].row))) continue;
        printf("%s leaves the list of what a header's symbols do not serve (%s)\n", listed[i].row, listed[i].reason);
        n++;
    }
    return n;
}
