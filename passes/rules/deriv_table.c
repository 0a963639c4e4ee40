/* deriv_table.c: the derivative of each row that ir/ops/derivatives.def lists; aliases never reach the tape (their row
 * does). */
#include "passes/rules/deriv.h"
#include "ir/op_ids.h"

static DerivFn *const rules[OP_IDS] = {
#define DERIV(id, rule, saves) [OP_##id] = deriv_##rule,
#include "ir/ops/derivatives.def"
#undef DERIV
};

DerivFn *deriv_made;

DerivFn *deriv_rule(const OpRow *row) {
    if (op_is_made(row)) return row->derivative ? deriv_made : NULL;
    return rules[row->alias_of ? row->alias_of->id : row->id];
}

/* Floats to which gradients come by no result, or by some alone, as in PyTorch; to all others they come by each. */
static const struct {
    OpId row;
    int arg;
    uint32_t results;   /* bits */
    const char *unless; /* a flag that is set: of those that follow, the next row for the argument */
} limited[] = {{OP_native_layer_norm, 2, 1u << 0},
               {OP_native_layer_norm, 3, 1u << 0},
               {OP_native_layer_norm_backward, 1, 1u << 0 | 1u << 1},
               {OP_native_layer_norm_backward, 3, 1u << 0 | 1u << 1},
               {OP_native_layer_norm_backward, 4, 1u << 0 | 1u << 1},
               {OP_native_layer_norm_backward, 5, 1u << 0},
               {OP_native_layer_norm_backward, 6, 0},
               {OP_native_group_norm, 1, 1u << 0},
               {OP_native_group_norm, 2, 1u << 0},
               {OP_batch_norm_stats, 1, 1u << 0},
               {OP_batch_norm_stats, 2, 1u << 0},
               {OP__native_batch_norm_legit_no_training, 0, 1u << 0},
               {OP__native_batch_norm_legit_no_training, 1, 1u << 0},
               {OP__native_batch_norm_legit_no_training, 2, 1u << 0},
               {OP__native_batch_norm_legit_no_training, 3, 0},
               {OP__native_batch_norm_legit_no_training, 4, 0},
               {OP_native_batch_norm_backward, 1, 1u << 1, "train"}, /* else rstd is a constant */
               {OP_native_batch_norm_backward, 1, 1u << 0 | 1u << 1},
               {OP_native_batch_norm_backward, 2, 1u << 0},
               {OP_native_batch_norm_backward, 3, 0},
               {OP_native_batch_norm_backward, 4, 0},
               {OP_native_batch_norm_backward, 5, 0},
               {OP_native_batch_norm_backward, 6, 0},
               {OP_native_dropout_backward, 1, 0},
               {OP_nll_loss_forward, 0, 1u << 0}, /* the other result is the weights' sum */
               {OP_nll_loss_forward, 2, 1u << 0},
               {OP_nll_loss_backward, 3, 0},
               {OP_nll_loss_backward, 6, 0},
               {OP_binary_cross_entropy, 2, 0},
               {OP_log_sigmoid_backward, 2, 0},
               {OP_attention, 0, 1u << 0 | 1u << 2}, /* the other result, the maximum, counts as a constant */
               {OP_attention, 1, 1u << 0 | 1u << 2},
               {OP_attention, 2, 1u << 0},
               {OP_attention, 3, 1u << 0 | 1u << 2},
               {OP_attention_backward, 3, 1u << 0 | 1u << 1},
               {OP_attention_backward, 4, 0},
               {OP_attention_backward, 5, 0},
               {OP_convolution_backward, 1, 1u << 1},
               {OP_convolution_backward, 2, 1u << 0},
               {OP__fake_quantize_per_tensor_affine_cachemask_tensor_qparams, 1, 0},
               {OP_fake_quantize_per_channel_affine_cachemask, 1, 0}};

/* An index without elements may be of floats. */
static bool is_index(const OpRow *row, int arg) {
    const bool positions = row->check.kind == CHECK_index || row->check.kind == CHECK_class;
    return row->check.param && positions && !strcmp(row->check.param, row->params[arg].name);
}

/* Results that are the gradient of an argument, and so none where it is absent. */
static const struct {
    OpId row;
    int result, arg;
} gradients_of[] = {{OP_native_layer_norm_backward, 1, 5}, {OP_native_layer_norm_backward, 2, 6}};

uint32_t deriv_left_out(const OpRow *row, const Arg *args) {
    const int at = row->n_out > 1 ? op_param_find(row, "output_mask") : -1;
    uint32_t results = 0;
    for (int i = 0; at >= 0 && args[at].kind == ARG_ints && i < args[at].n; i++)
        results |= (uint32_t)!args[at].ints[i] << i;
    for (int i = 0; i < COUNT_OF(gradients_of); i++)
        if (gradients_of[i].row == row->id && args[gradients_of[i].arg].kind == ARG_none)
            results |= 1u << gradients_of[i].result;
    return results;
}

static bool is_set(const OpRow *row, const Arg *args, const char *flag) {
    return flag && args[op_param_find(row, flag)].i;
}

bool deriv_reaches(const OpRow *row, const Arg *args, int arg, uint32_t results) {
    results &= ~deriv_left_out(row, args);
    if (!results || is_index(row, arg)) return false;
    for (int i = 0; i < COUNT_OF(limited); i++)
        if (limited[i].row == row->id && limited[i].arg == arg && !is_set(row, args, limited[i].unless))
            return limited[i].results & results;
    return true;
}
