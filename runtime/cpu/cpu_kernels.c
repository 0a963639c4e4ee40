/* cpu_kernels.c: the table of native kernels: cpu_<body> for every row of KIND_kernel. A row
 * without its kernel does not compile. */
#include "runtime/cpu/cpu_kernels.h"

#define CPU_kernel(body)        cpu_##body
#define CPU_pointwise(body)     NULL
#define CPU_reduction(body)     NULL
#define CPU_view(body)          NULL
#define CPU_decomposition(body) NULL
#define CPU_composite(body)     NULL

static OpKernel *const kernels[OP_COUNT] = {
#define OP(id, schema, inplace, out, c_name, c_short, kind, meta, body, ...) [OP_##id] = CPU_##kind(body),
#define ALIAS(id, ...)
#include "ir/ops.def"
#undef OP
#undef ALIAS
};

OpKernel *cpu_kernel(const OpRow *row) { return row->id < OP_COUNT ? kernels[row->id] : NULL; }
