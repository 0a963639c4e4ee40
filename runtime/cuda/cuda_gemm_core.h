/* cuda_gemm_core.h: products by cores of our own (kernels/cuda/gemm.cuh): a program for each dtype, tile and way that
 * the operands lie, compiled at the first product that needs it and kept. All have the same bits, so which one runs is
 * decided by a call's sizes, strides and addresses. */
#ifndef SINTER_RUNTIME_CUDA_GEMM_CORE_H
#define SINTER_RUNTIME_CUDA_GEMM_CORE_H
#include "kernels/cuda/prelude.h"
#include "runtime/cuda/cuda_code.h"

typedef enum CoreTile {
    CORE_large,
    CORE_medium,
    CORE_small,
    CORE_medium_long, /* of a compute type of 8 bytes */
    CORE_small_long,
    CORE_TILES
} CoreTile;
/* kernels/cuda/gemm.cuh's Lies */
typedef enum CoreLies { LIES_along_k, LIES_along_x, LIES_anyhow, CORE_LIES } CoreLies;

typedef struct CudaCore {
    DType dtype;
    CoreTile tile;
    CoreLies left, right;
} CudaCore;

/* C = A B of each batch. */
typedef struct CudaProduct {
    DType dtype;  /* of A and B */
    bool wide;    /* C is of the compute type, not of `dtype` */
    bool visible; /* others see C: it is not written after a failed check */
    bool fast;    /* f32 may be summed in any order: the bits of a core are not asked for */
    int64_t batches;
    const void *a, *b;
    void *c;
    CudaGemm g;
} CudaProduct;

/* Chooses the kernel. Exchanges the operands (C^T = B^T A^T) where A becomes the smaller one by that. */
CudaCore cuda_core_choose(CudaProduct *product, int multiprocessors);
/* "product_f32_128x128_kx" */
typedef struct CoreName {
    char buffer[40];
} CoreName;
const char *cuda_core_name(const CudaCore *core, CoreName *name);
/* The text after the prelude. */
void cuda_core_print(Text *text, const CudaCore *core);

Status cuda_core_launch(CudaDevice *device, const CudaProduct *product);

#endif
