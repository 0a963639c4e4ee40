/* deriv_table.c: the derivative of each row that ir/ops/derivatives.def lists; aliases never reach the tape (their row
 * does). */
#include "passes/rules/deriv.h"

static DerivFn *const rules[OP_COUNT] = {
#define DERIV(id, rule, saves) [OP_##id] = deriv_##rule,
#include "ir/ops/derivatives.def"
#undef DERIV
};

DerivFn *deriv_made;

DerivFn *deriv_rule(const OpRow *row) {
    if (row->id >= OP_COUNT) return row->derivative ? deriv_made : NULL;
    return rules[row->alias_of ? row->alias_of->id : row->id];
}

/* Floats that count as constants, as in PyTorch. */
static const struct {
    OpId row;
    int arg;
} constants[] = {{OP_native_layer_norm_backward, 6},
                 {OP__native_batch_norm_legit_no_training, 3},
                 {OP__native_batch_norm_legit_no_training, 4},
                 {OP_native_dropout_backward, 1},
                 {OP_nll_loss_backward, 3},
                 {OP_nll_loss_backward, 6}};

bool deriv_reaches(const OpRow *row, int arg) {
    for (int i = 0; i < COUNT_OF(constants); i++)
        if (constants[i].row == row->id && constants[i].arg == arg) return false;
    return true;
}
