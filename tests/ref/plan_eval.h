/* plan_eval.h: a plan computed slowly in double: loop nests by ref_double, matrix products and native ops by plain
 * loops of their own. What lowering makes of an op, without any executor. */
#ifndef SINTER_TESTS_REF_PLAN_EVAL_H
#define SINTER_TESTS_REF_PLAN_EVAL_H
#include "ir/plan.h"
#include "runtime/core/dispatch.h"

typedef struct WideTensor { /* a strided view of memory, read and written as doubles */
    DType dtype;
    int rank;
    const int64_t *sizes, *strides;
    void *data;
} WideTensor;
double wide_get(const WideTensor *t, const int64_t *index);
void wide_set(const WideTensor *t, const int64_t *index, double value);
int64_t wide_numel(const WideTensor *t);
void wide_index(const WideTensor *t, int64_t number, int64_t *index); /* row-major */

/* Plain numbers only (a graph of fixed sizes); symbols: the values of the free ones, or NULL. outs: fresh tensors of
 * the innermost scope, row-major. Raises ST_UNSUPPORTED for a native op that has no reference here. */
Status plan_eval(const Plan *plan, sn_tensor *const *inputs, const int64_t *symbols, sn_tensor **outs);

/* The reference of a native op: operands by parameter (data NULL: absent or no tensor). */
Status conv_eval(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out);
Status native_eval(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out);

#endif
