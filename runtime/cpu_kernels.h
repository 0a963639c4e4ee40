/* cpu_kernels.h: the native kernels by name. Outputs exist and are written whole through their
 * strides; arguments are normalised, ready and on the CPU. */
#ifndef SINTER_RUNTIME_CPU_KERNELS_H
#define SINTER_RUNTIME_CPU_KERNELS_H
#include "runtime/dispatch.h"

#define CPU_DECLARE_kernel(body) OpKernel cpu_##body;
#define CPU_DECLARE_pointwise(body)
#define CPU_DECLARE_reduction(body)
#define CPU_DECLARE_view(body)
#define CPU_DECLARE_decomposition(body)
#define CPU_DECLARE_composite(body)
#define OP(id, schema, inplace, out, c_name, c_short, kind, meta, body, ...)                       \
    CPU_DECLARE_##kind(body)
#define ALIAS(id, ...)
#include "ir/ops.def"
#undef OP
#undef ALIAS

/* Kernels of rows that are not in the table yet, so that their files compile. */
OpKernel cpu_empty, cpu_cat, cpu_constant_pad_nd, cpu_slice_scatter, cpu_select_scatter, cpu_bmm,
    cpu_addmm, cpu_baddbmm;
OpKernel cpu_scatter, cpu_scatter_value, cpu_scatter_add, cpu_index_add,
    cpu_embedding_dense_backward;

#endif
