/* cuda_sort.h: lines in order (kernels/cuda/sorts.cuh), for sorts and for writes at positions. */
#ifndef SINTER_RUNTIME_CUDA_SORT_H
#define SINTER_RUNTIME_CUDA_SORT_H
#include "runtime/cuda/cuda_lines.h"

enum { CUDA_SORT_TILE = 1024 };

/* Fills in slots, parts and room. Raises where a line has more elements than places are counted by. */
Status cuda_sort_plan(const OpRow *row, CudaSort *sort);
size_t cuda_sort_bytes(const CudaSort *sort, DType dtype); /* of workspace */

typedef struct CudaSorted { /* by line, `capacity` apart */
    void *keys;             /* in the dtype's compute type; ints are their own keys */
    void *places;           /* i32 */
} CudaSorted;
/* One run a line, in workspace. Entered. */
Status cuda_sort_lines(CudaDevice *device, DType dtype, void *from, CudaSort *sort, char *workspace, CudaSorted *out);

#endif
