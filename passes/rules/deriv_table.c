/* deriv_table.c: the derivative of each row of the op table. Rows without one name `none`; aliases
 * never reach the tape (their row does). */
#include "passes/rules/deriv.h"

/* Never called: deriv_rule answers NULL for it. */
Status deriv_none(Deriv *d) { return error_raise(ST_INTERNAL, "%s has no derivative", d->row->name); }

static DerivFn *const rules[OP_COUNT] = {
#define OP(id, schema, inplace, out, c_name, c_short, kind, meta, body, derivative, ...) [OP_##id] = deriv_##derivative,
#define ALIAS(id, ...)
#include "ir/ops.def"
#undef OP
#undef ALIAS
};

DerivFn *deriv_made;

DerivFn *deriv_rule(const OpRow *row) {
    if (row->id >= OP_COUNT) return row->derivative ? deriv_made : NULL;
    DerivFn *const rule = rules[row->alias_of ? row->alias_of->id : row->id];
    return rule == deriv_none ? NULL : rule;
}

/* Floats that count as constants, as in PyTorch. */
static const struct {
    OpId row;
    int arg;
} constants[] = {{OP_native_layer_norm_backward, 6},
                 {OP_native_dropout_backward, 1},
                 {OP_nll_loss_backward, 3},
                 {OP_nll_loss_backward, 6}};

bool deriv_reaches(const OpRow *row, int arg) {
    for (int i = 0; i < COUNT_OF(constants); i++)
        if (constants[i].row == row->id && constants[i].arg == arg) return false;
    return true;
}
