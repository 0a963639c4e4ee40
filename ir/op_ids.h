/* op_ids.h: OP_add_Tensor and the others, for code that names ops: rules, and what emits them. Generated from the rows
 * (op_ids.cmake); an op that comes or goes rebuilds what includes this file, and no more. */
#ifndef SINTER_IR_OP_IDS_H
#define SINTER_IR_OP_IDS_H
#include "ir/op.h"

enum {
#define ID(id, number) OP_##id = (number),
#include "ir/op_ids.def"
#undef ID
};

#endif
