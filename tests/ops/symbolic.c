/* symbolic.c: see symbolic.h. A row that is not listed must compile whole, and once for all sizes; one that is and does
 * must leave the list. */
#include "tests/ops/symbolic.h"

#include <stdio.h>
#include <string.h>

typedef struct Unlowered {
    const char *row;
    SymbolicMode mode;
    const char *reason;
} Unlowered;

static const Unlowered unlowered[] = {
    {"aten::diff", SYMBOLIC_resized, "as many slices as n says, but none from a size on"},
    {"aten::cumprod", SYMBOLIC_resized, "backward: as many steps as the logarithm of the size"},
    {"aten::conv1d.padding", SYMBOLIC_resized, "an odd sum of pads is an op more"},
    {"aten::conv2d.padding", SYMBOLIC_resized, "an odd sum of pads is an op more"},
    {"aten::_upsample_bilinear2d_aa", SYMBOLIC_resized, "as many elements under the filter as the sizes' quotient"},
    {"aten::_upsample_bilinear2d_aa.vec", SYMBOLIC_resized, "the same"},
    {"aten::_upsample_bicubic2d_aa", SYMBOLIC_resized, "the same"},
    {"aten::_upsample_bicubic2d_aa.vec", SYMBOLIC_resized, "the same"},
    {"aten::_upsample_lanczos2d_aa", SYMBOLIC_resized, "the same"},
    {"aten::_upsample_lanczos2d_aa.vec", SYMBOLIC_resized, "the same"},
    {"aten::embedding_bag.padding_idx", SYMBOLIC_resized, "a row counted from the end, where its part takes an int"},
    {"aten::tensor_split.indices", SYMBOLIC_resized,
     "whether an index is beyond the size is a guard, which slice has too"},
    {"aten::lstm.input", SYMBOLIC_resized, "the scan's body is a text, in which sizes of weights are numbers"},
    {"aten::gru.input", SYMBOLIC_resized, "the same"},
    {"aten::rnn_relu.input", SYMBOLIC_resized, "the same"},
};
enum { UNLOWERED = sizeof unlowered / sizeof *unlowered };

static bool met[UNLOWERED + 1];

bool symbolic_listed(const OpRow *row, SymbolicMode mode) {
    for (int i = 0; i < UNLOWERED; i++)
        if (unlowered[i].mode == mode && !strcmp(unlowered[i].row, row->name)) return met[i] = true;
    return false;
}

int symbolic_stale(const char *only_row, SymbolicMode mode) {
    int n = 0;
    for (int i = 0; i < UNLOWERED; i++) {
        if (unlowered[i].mode != mode || met[i] || (only_row && strcmp(only_row, unlowered[i].row))) continue;
        printf("%s compiles with all sizes symbolic: it leaves the list (%s)\n", unlowered[i].row, unlowered[i].reason);
        n++;
    }
    return n;
}
