/* cuda_gemm_library.h: products of f16 and bf16 by cuBLASLt, on tensor cores; of f32 with the operands rounded to tf32
 * (10 bits of fraction), in numerics fast alone. A product's algorithm is pinned by (n, k, dtypes, how the operands
 * lie, the version), never by m, by what the heuristics choose for one number of rows without splitting k: a row's bits
 * do not depend on how many rows came with it, nor on where they lie. */
#ifndef SINTER_RUNTIME_CUDA_GEMM_LIBRARY_H
#define SINTER_RUNTIME_CUDA_GEMM_LIBRARY_H
#include "runtime/cuda/cuda_gemm_core.h"

/* Whether such products would be the library's, were it there. */
bool cuda_library_serves(DType dtype, bool fast);
/* They are the library's where it has an algorithm; the same for the whole process. */
bool cuda_library_takes(const CudaProduct *product);
/* *done: false where the library has none for these sizes, and nothing was launched. */
Status cuda_library_launch(CudaDevice *device, const CudaProduct *product, bool *done);

#endif
