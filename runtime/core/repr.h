/* repr.h: tensors as text. */
#ifndef SINTER_RUNTIME_REPR_H
#define SINTER_RUNTIME_REPR_H
#include "runtime/base/text.h"
#include "runtime/core/tensor.h"

/* Appends "tensor([1., 2.])". gradient: "requires_grad=True", "grad_fn=<MulBackward0>", or NULL. */
Status tensor_print(sn_tensor *t, const char *gradient, Text *text);

#endif
