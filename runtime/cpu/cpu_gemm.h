/* cpu_gemm.h: a product of matrices on the pool's threads: workspace, packing once, rows split. */
#ifndef SINTER_RUNTIME_CPU_GEMM_H
#define SINTER_RUNTIME_CPU_GEMM_H
#include "kernels/kernels.h"

/* All rows of the call (part_rows, row_begin, row_end, workspace and packed_b are filled in here). */
Status gemm_run(const GemmCall *call);

#endif
