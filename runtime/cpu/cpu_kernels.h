/* cpu_kernels.h: the native kernels by name. Outputs exist and are written whole through their
 * strides; arguments are normalised, ready and on the CPU. */
#ifndef SINTER_RUNTIME_CPU_KERNELS_H
#define SINTER_RUNTIME_CPU_KERNELS_H
#include "runtime/core/dispatch.h"

#define CPU_DECLARE_kernel(body) OpKernel cpu_##body;
#define CPU_DECLARE_pointwise(body)
#define CPU_DECLARE_reduction(body)
#define CPU_DECLARE_view(body)
#define CPU_DECLARE_decomposition(body)
#define CPU_DECLARE_composite(body)
#define OP(id, schema, inplace, out, c_name, c_short, kind, meta, body, ...) CPU_DECLARE_##kind(body)
#define ALIAS(id, ...)
#include "ir/ops.def"
#undef OP
#undef ALIAS

#endif
