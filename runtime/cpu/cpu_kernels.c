/* cpu_kernels.c: the table of native kernels: cpu_<body> for every row of KIND_kernel. A row whose kernel nobody wrote
 * does not link. Outputs exist and are written whole through their strides; arguments are normalised, ready and on the
 * CPU. */
#include "runtime/cpu/cpu_device.h"
#include "ir/op_ids.h"

#define DECLARE_kernel(meta, body) OpKernel cpu_##body;
#define DECLARE_pointwise(meta, body)
#define DECLARE_reduction(meta, body)
#define DECLARE_view(meta)
#define DECLARE_decomposition(meta, body)
#define DECLARE_composite(meta, body)
#define DECLARE_number(meta, body)
#define ALIAS(...)
#define OP(id, schema, doc, kind, ...) DECLARE_##kind
#include "ir/ops.def"
#undef OP

#define CPU_kernel(meta, body)         cpu_##body
#define CPU_pointwise(meta, body)      NULL
#define CPU_reduction(meta, body)      NULL
#define CPU_view(meta)                 NULL
#define CPU_decomposition(meta, body)  NULL
#define CPU_composite(meta, body)      NULL
#define CPU_number(meta, body)         NULL
#define OP(id, schema, doc, kind, ...) [OP_##id] = CPU_##kind,
static OpKernel *const kernels[OP_IDS] = {
#include "ir/ops.def"
};
#undef OP
#undef ALIAS

OpKernel *cpu_kernel(const OpRow *row) { return !op_is_made(row) ? kernels[row->id] : NULL; }
