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

/* Floats to which gradients come by no result, or by some alone, as in PyTorch; to all others they come by the
 * first. */
static const struct {
    OpId row;
    int arg;
    uint32_t results; /* bits */
} limited[] = {{OP_native_layer_norm_backward, 6, 0},
               {OP__native_batch_norm_legit_no_training, 3, 0},
               {OP__native_batch_norm_legit_no_training, 4, 0},
               {OP_native_batch_norm_backward, 1, 1u << 0 | 1u << 1},
               {OP_native_batch_norm_backward, 2, 1u << 0},
               {OP_native_batch_norm_backward, 3, 0},
               {OP_native_batch_norm_backward, 4, 0},
               {OP_native_batch_norm_backward, 5, 0},
               {OP_native_batch_norm_backward, 6, 0},
               {OP_native_dropout_backward, 1, 0},
               {OP_nll_loss_backward, 3, 0},
               {OP_nll_loss_backward, 6, 0},
               {OP_binary_cross_entropy, 2, 0},
               {OP_log_sigmoid_backward, 2, 0},
               {OP_convolution_backward, 1, 1u << 1},
               {OP__fake_quantize_per_tensor_affine_cachemask_tensor_qparams, 1, 0},
               {OP_fake_quantize_per_channel_affine_cachemask, 1, 0}};

/* An index without elements may be of floats. */
static bool is_index(const OpRow *row, int arg) {
    const bool positions = row->check.kind == CHECK_index || row->check.kind == CHECK_class;
    return row->check.param && positions && !strcmp(row->check.param, row->params[arg].name);
}

bool deriv_reaches(const OpRow *row, int arg, uint32_t results) {
    if (is_index(row, arg)) return false;
    for (int i = 0; i < COUNT_OF(limited); i++)
        if (limited[i].row == row->id && limited[i].arg == arg) return limited[i].results & results;
    return true;
}
