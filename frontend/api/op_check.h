/* op_check.h: tests of an op against what it says of itself (sn_op_check): rules in order, each for every sample, until
 * one fails. What the rules share: calls on copies, comparison of bits. */
#ifndef SINTER_FRONTEND_OP_CHECK_H
#define SINTER_FRONTEND_OP_CHECK_H
#include <sinter/device.h>
#include <sinter/ops.h>
#include <sinter/plugin.h>

#include "runtime/core/custom_op.h"

typedef struct OpCheck {
    const sn_op *op;
    const OpRow *row;
    const DynamicOp *own; /* NULL: of the table */
    const sn_value *in;   /* the sample */
    int n;
    const char *rule; /* that runs */
    int sample;
    bool failed;  /* what is pending says which rule */
    bool repeats; /* a second call gives the same bits: those of other calls are compared */
} OpCheck;

/* Arguments and results of one call. */
typedef struct CheckedCall {
    sn_value in[MAX_ARGS];
    sn_tensor *out[MAX_OUTS];
    int n_out;
} CheckedCall;

Status op_check(OpCheck *check, const sn_op_sample *samples, int n);
/* "my::op: derivative (sample 0): ...", behind which stands the error that was pending, if one was. */
Status op_check_fail(OpCheck *c, const char *format, ...) PRINTF_LIKE(2, 3);

bool op_check_writes_arg(const OpCheck *c, int arg); /* as the schema says */
bool op_check_writes_any(const OpCheck *c);
/* Of the sample's i-th value, or NULL. */
sn_tensor *op_check_tensor(const OpCheck *c, int i);
const char *op_check_name(const OpCheck *c, int i);
/* Copies of the sample's tensors, without history, in `dtype` where they are floats (SN_DTYPE_DEFAULT: as they are). */
Status op_check_copies(const OpCheck *c, sn_dtype dtype, CheckedCall *call);
Status op_check_call(const OpCheck *c, CheckedCall *call);
bool op_check_same_bits(sn_tensor *a, sn_tensor *b);
/* Calls on `plain`, and compares with what the call `again` gave and wrote; how: "... has other bits HOW". */
Status op_check_compare(OpCheck *c, CheckedCall *plain, CheckedCall *again, const char *how);
/* Differentiable by what it says: it has a derivative or is its parts. */
bool op_check_differentiable(const OpCheck *c);
bool op_check_is_float(sn_tensor *t);
bool op_check_is_number(const OpCheck *c, int result, int n); /* of n results */

/* rules with files of their own */
Status op_check_layouts(OpCheck *c);                                            /* op_check_layouts.c */
Status op_check_derivative(OpCheck *c), op_check_second_derivative(OpCheck *c); /* op_check_grad.c */
Status op_check_compiled(OpCheck *c), op_check_batched(OpCheck *c),
    op_check_autocast(OpCheck *c); /* op_check_layers.c */

#endif
