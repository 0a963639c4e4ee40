/* native_window.h: references of pools and attention, for native_eval.c. */
#ifndef SINTER_TESTS_REF_NATIVE_WINDOW_H
#define SINTER_TESTS_REF_NATIVE_WINDOW_H
#include "runtime/base/error.h"
#include "tests/ref/plan_eval.h"

Status eval_pool(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out);
Status eval_pool_backward(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out);
Status attention_eval(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out);
Status attention_backward_eval(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out);

#endif
