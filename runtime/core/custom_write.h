/* custom_write.h: a user's op that writes arguments, as an op that does not: what graphs hold of it.
 *
 *   my::add_(Tensor(a!) x, Tensor y, float by) -> Tensor(a!)
 *   my::add_.functional(Tensor x, Tensor y, float by) -> Tensor          its kernel: add_'s, on a copy of x
 *   in a graph:  %0 = my::add_.functional(%x, %y, 0.5); aten::copy_(%x, %0)
 *
 * The functional op's results are those of the op's own that are no argument, then the new values of what it writes. */
#ifndef SINTER_RUNTIME_CUSTOM_WRITE_H
#define SINTER_RUNTIME_CUSTOM_WRITE_H
#include "ir/schema.h"
#include "runtime/core/custom_op.h"

/* By its schema: which arguments it writes, and which results are these. */
void custom_write_find(DynamicOp *op, const Schema *schema);
/* The functional op of one that is PURE and says enough of its results; *out NULL: it has none. */
Status custom_write_functional(const DynamicOp *op, const Schema *schema, DynamicOp **out);
/* What the op returned where the schema says an argument; and what it writes is laid out as before its kernel ran:
 * metas, of custom_write_record. */
Status custom_write_check(const OpCall *call, const DynamicOp *op, const Meta *const *metas);
void custom_write_record(const OpCall *call, const DynamicOp *op, const Meta **metas);
/* The meta rule of an op none of whose results is new: each is an argument. */
Status custom_write_metas(MetaCall *call);
/* Gives those of the call's n results that are arguments. */
void custom_write_set_results(const OpCall *call, const DynamicOp *op, int n);
/* Where nothing has memory the op writes all the same: it counts. */
void custom_write_count(const OpCall *call, const DynamicOp *op);
/* The results that are arguments for a meta body, which need not set them but behind a list: outs gets references.
 * False: it has none, or is no user's op. */
bool custom_write_hold(const OpRow *row, const Arg *args, sn_tensor **outs);

#endif
