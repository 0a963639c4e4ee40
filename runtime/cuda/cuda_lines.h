/* cuda_lines.h: for native kernels over tensors of any dims: what they are told (kernels/cuda/lines.h), and moves. */
#ifndef SINTER_RUNTIME_CUDA_LINES_H
#define SINTER_RUNTIME_CUDA_LINES_H
#include "kernels/cuda/lines.h"
#include "runtime/cuda/cuda_native.h"

/* One operand: its strides in dims that are walked; NULL: 0 in all. */
typedef const int64_t *CudaStrides;
/* `rank` dims, the ones that all operands walk through as one joined. */
void cuda_dims(CudaDims *dims, const int64_t *sizes, int rank, int n_operands, const CudaStrides *strides);
/* The same without `dim`: where lines along it begin. A tensor without dims is one line. */
void cuda_line_dims(CudaDims *dims, const Meta *meta, int dim, int n_operands, const CudaStrides *strides);
int64_t cuda_dims_numel(const CudaDims *dims);

typedef struct CudaStridedMove {
    DType dtype;
    const int64_t *sizes;
    int rank;
    void *to, *from;
    CudaStrides to_strides, from_strides;
    bool in_order; /* elements of `to` may lie in one place */
} CudaStridedMove;
Status cuda_move(CudaDevice *device, const CudaStridedMove *move); /* entered */

#endif
