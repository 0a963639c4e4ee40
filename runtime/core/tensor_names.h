/* tensor_names.h: what texts call a tensor: the name of an entry of a dictionary that holds it. */
#ifndef SINTER_RUNTIME_TENSOR_NAMES_H
#define SINTER_RUNTIME_TENSOR_NAMES_H
#include "runtime/core/tensor.h"

Status tensor_named(const sn_tensor *t, const char *name); /* an entry holds it */
void tensor_unnamed(const sn_tensor *t, const char *name); /* does not any more */
/* The newest such name, cut to `capacity`; false: no entry holds it. */
bool tensor_name(const sn_tensor *t, char *out, size_t capacity);

#endif
