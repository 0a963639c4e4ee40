/* size_make.h: how the two readers of sizes make trees (size_expr.h). NULL: memory is out. */
#ifndef SINTER_IMPORT_SIZE_MAKE_H
#define SINTER_IMPORT_SIZE_MAKE_H
#include "frontend/import/size_expr.h"

const SizeExpr *size_make(Arena *arena, SizeExpr head, const SizeExpr *const *parts); /* parts are copied */
const SizeExpr *size_number(Arena *arena, int64_t value);
const SizeExpr *size_pair(Arena *arena, SizeOp op, const SizeExpr *a, const SizeExpr *b);

#endif
