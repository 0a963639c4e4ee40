/* driver_structs.h: structs of the driver's, field by field as NVIDIA's: the test that compares the rows of driver.def
 * with NVIDIA's headers compares these, too, with NVIDIA's types in the fields. */
#ifndef SINTER_RUNTIME_CUDA_DRIVER_STRUCTS_H
#define SINTER_RUNTIME_CUDA_DRIVER_STRUCTS_H

/* A launch in a graph (CUDA_KERNEL_NODE_PARAMS_v2). */
typedef struct CuKernelNode {
    CuFunction func;
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    void **kernelParams, **extra;
    CuKernel kern; /* where func is NULL */
    CuContext ctx;
} CuKernelNode;

/* Why a graph cannot take another one's place (CUgraphExecUpdateResultInfo). */
typedef struct CuGraphUpdate {
    int result;
    CuGraphNode errorNode, errorFromNode;
} CuGraphUpdate;

#endif
