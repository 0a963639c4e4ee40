/* ref_eval.h: slow, plain evaluators of loop IR, written independently of the executors.
 *
 * ref_exact computes in the compute types, one element at a time, following the canonical orders
 * literally; scalar primitives and conversions are the kernel table's, called with n = 1. Executors
 * must agree with it bit for bit. ref_double computes floats in double with libm and ints in int64,
 * sums from left to right: a reference with a tolerance; its stores round to the buffer's dtype. */
#ifndef SINTER_TESTS_REF_EVAL_H
#define SINTER_TESTS_REF_EVAL_H
#include "ir/loop.h"

void ref_exact(const Nest *nest, const Buf *bufs, void *const *memory, const int64_t *params, const int64_t *lo,
               const int64_t *hi, NestError *error);
void ref_double(const Nest *nest, const Buf *bufs, void *const *memory, const int64_t *params, const int64_t *lo,
                const int64_t *hi, NestError *error);

#endif
