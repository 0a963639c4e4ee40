/* repr.h: tensors as text. */
#ifndef SINTER_RUNTIME_REPR_H
#define SINTER_RUNTIME_REPR_H
#include "runtime/base/text.h"
#include "runtime/core/tensor.h"

/* Appends "tensor([1., 2.])". gradient: "requires_grad=True", "grad_fn=<MulBackward0>", or NULL. */
Status tensor_print(sn_tensor *t, const char *gradient, Text *text);

/* A sparse tensor, whose elements are tensors of their own. */
typedef struct ReprField {
    const char *name;
    sn_tensor *tensor;
} ReprField;
typedef struct ReprFields {
    const ReprField *at;
    int n;
    const char *layout; /* "torch.sparse_coo" */
    int64_t entries;
    bool apart; /* what is said of the whole begins a line */
} ReprFields;
Status tensor_print_parts(const sn_tensor *t, const ReprFields *parts, const char *gradient, Text *text);

#endif
