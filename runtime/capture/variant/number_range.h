/* number_range.h: which numbers of an op may share code: what dynamic.c and header_plan.c ask of a parameter. */
#ifndef SINTER_RUNTIME_NUMBER_RANGE_H
#define SINTER_RUNTIME_NUMBER_RANGE_H
#include "runtime/capture/record/trace_graph.h"

/* Of a list of sizes 0 and 1 are cases of their own, as sizes are, and a negative one says something else (-1: as it
 * is); a position counts from the front or from the end; other numbers are just values. */
typedef enum NumberRange { RANGE_size, RANGE_position, RANGE_value } NumberRange;

static inline NumberRange range_of_param(const Param *param) {
    const bool single = param->type == PT_int || param->type == PT_int_opt;
    return !param->symbolic ? RANGE_value : single ? RANGE_position : RANGE_size;
}

/* Numbers of native ops are fixed here too: which kernel a product or a norm is depends on them. */
static inline bool number_may_vary(const TraceOp *op, const Param *param) {
    return (param->symbolic || op->row->kind == KIND_pointwise) && op_number_may_vary(op->row, param);
}

/* A rule branches on it: some values are computed in a way of their own. */
static inline bool number_is_guarded(const TraceOp *op, const Param *param) {
    return op->row->flags & OPF_branches && !param->symbolic;
}

#endif
