/* cuda_lines.c: see cuda_lines.h. */
#include "runtime/cuda/cuda_lines.h"

/* Whether every operand goes on from the last element of dim d's row to the next. */
static bool dims_continue(const CudaDims *dims, int last, int64_t size, int n_operands, const CudaStrides *strides,
                          int d) {
    for (int k = 0; k < n_operands; k++)
        if (dims->stride[k][last] != (strides[k] ? strides[k][d] : 0) * size) return false;
    return true;
}

void cuda_dims(CudaDims *dims, const int64_t *sizes, int rank, int n_operands, const CudaStrides *strides) {
    int n = 0;
    for (int d = 0; d < rank; d++) {
        if (sizes[d] == 1) continue;
        const bool joins = n && dims_continue(dims, n - 1, sizes[d], n_operands, strides, d);
        const int at = joins ? n - 1 : n++;
        dims->size[at] = joins ? dims->size[at] * sizes[d] : sizes[d];
        for (int k = 0; k < n_operands; k++) dims->stride[k][at] = strides[k] ? strides[k][d] : 0;
    }
    dims->n = n;
}

void cuda_line_dims(CudaDims *dims, const Meta *meta, int dim, int n_operands, const CudaStrides *strides) {
    int64_t sizes[MAX_RANK], rest[CUDA_OPERANDS][MAX_RANK];
    CudaStrides of_rest[CUDA_OPERANDS];
    int n = 0;
    for (int d = 0; d < meta->rank; d++) {
        if (d == dim) continue;
        for (int k = 0; k < n_operands; k++) rest[k][n] = strides[k] ? strides[k][d] : 0;
        sizes[n++] = meta->sizes[d];
    }
    for (int k = 0; k < n_operands; k++) of_rest[k] = rest[k];
    cuda_dims(dims, sizes, n, n_operands, of_rest);
}

int64_t cuda_dims_numel(const CudaDims *dims) {
    int64_t n = 1;
    for (int d = 0; d < dims->n; d++) n *= dims->size[d];
    return n;
}

Status cuda_move(CudaDevice *device, const CudaStridedMove *move) {
    CudaDims dims;
    cuda_dims(&dims, move->sizes, move->rank, 2, (const CudaStrides[]){move->to_strides, move->from_strides});
    void *to = move->to, *from = move->from;
    int64_t n = cuda_dims_numel(&dims);
    return cuda_hand_launch(device,
                            &(CudaHandLaunch){.kernel = move->in_order ? HAND_move_in_order : HAND_move_elements,
                                              .dtype = move->dtype,
                                              .threads = move->in_order ? n > 0 : n,
                                              HAND_VALUES(&to, &from, &dims, &n)});
}
