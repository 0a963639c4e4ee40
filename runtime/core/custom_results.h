/* custom_results.h: what a user's op gives, by its schema: tensors, a list of them, numbers. Results stand one by one,
 * a list's tensors in its place:
 *
 *   my::parts(Tensor x) -> (Tensor, Tensor[], int)        results 0; 1, 2, 3 of a list of three; 4
 *
 * To dispatch, tape and graphs a number is a tensor of rank 0 on the CPU, i64, f64 or bool, wrapped as the numbers are
 * that stand for tensors: it has no gradient. The boxed call reads it. */
#ifndef SINTER_RUNTIME_CUSTOM_RESULTS_H
#define SINTER_RUNTIME_CUSTOM_RESULTS_H
#include "ir/schema.h"
#include "runtime/core/custom_op.h"

/* By its schema; raises what of it no op can give. */
Status custom_results_find(DynamicOp *op, const Schema *schema, const char *name);
/* Which kind result i of n is: PT_tensor, or that of a number. */
ParamType custom_result_type(const DynamicOp *op, int i, int n);
/* The same of any row: a number of a user's op? */
bool custom_result_is_number(const OpRow *row, int i, int n);
static inline bool custom_gives_numbers(const DynamicOp *op) { return op->numbers != 0; }

/* What sn_out_value has for a result: ARG_int, ARG_float or ARG_bool. NULL raises. */
sn_tensor *custom_number(const Arg *number);
/* How many results a body has set from the first on; raises what the schema does not have: another count, a tensor
 * where a number is, a number where a tensor is, one of another kind. An int becomes the float that it stands for.
 * none: numbers that a meta rule has left to the values (bits), which become tensors without them. */
Status custom_results_check(const DynamicOp *op, sn_tensor **outs, uint64_t none, int capacity, int *n);
/* The number that result i is; false: it is none that is known now. */
bool custom_number_read(const sn_tensor *t, Arg *out);
/* Of two calls of a kind: the meta rule's and the kernel's. Raises a number that differs. */
Status custom_numbers_agree(const OpRow *row, int i, const sn_tensor *made, const Arg *said);
/* The numbers that the meta rule says, which follow from the arguments without their values: by result, ARG_none where
 * none is said; nothing where the op has no such rule. What it is told of sizes and numbers is guarded. */
Status custom_numbers_said(const DynamicOp *op, const Arg *args, Arg *said, int n);

#endif
