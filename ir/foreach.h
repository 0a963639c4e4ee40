/* foreach.h: ops of lists (ops/foreach.def) as calls of an op of one element each: _foreach_add.ScalarList on two
 * tensors is add.Tensor twice. The name behind "_foreach_" says which op; lists among the arguments give their element,
 * others are the same for all. */
#ifndef SINTER_IR_FOREACH_H
#define SINTER_IR_FOREACH_H
#include "ir/op.h"

bool foreach_is_list(const Param *param); /* of tensors or numbers */
/* How many elements the lists of this call have: those of the first one. */
int foreach_count(const OpRow *row, const Arg *args);
/* The op of element i; `one` gets its arguments, room for MAX_ARGS. */
const OpRow *foreach_each(const OpRow *row, const Arg *args, int i, Arg *one, int *n);
/* addcmul and addcdiv with their factors in a tensor: the element of it that is element i's; else NULL. */
Val *foreach_factors(const OpRow *row, const Arg *args);

#endif
