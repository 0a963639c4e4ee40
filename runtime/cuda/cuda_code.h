/* cuda_code.h: what a CUDA device runs a step by: a function of its plan's program for each nest. */
#ifndef SINTER_RUNTIME_CUDA_CODE_H
#define SINTER_RUNTIME_CUDA_CODE_H
#include "codegen/cuda/cuda.h"
#include "runtime/cuda/cuda_internal.h"
#include "runtime/device/launch.h"

typedef struct CudaProgram CudaProgram;

typedef struct CudaStepNest {
    CuFunction function;
    CudaShape shape;
    int n_bufs, n_params;
    int *bufs, *params;         /* of the kernel's, the function's arguments in order */
    const CudaChecked *checked; /* NULL: nothing in it can fail */
} CudaStepNest;

typedef struct CudaStep {
    CudaProgram *program;
    int n;
    CudaStepNest nests[];
} CudaStep;

typedef struct CudaCodeCounts { /* of the process */
    int64_t compiled, reused;   /* programs, ever */
    int programs;               /* loaded now */
} CudaCodeCounts;
CudaCodeCounts cuda_code_counts(void);

#endif
