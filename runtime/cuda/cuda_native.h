/* cuda_native.h: kernels written by hand (kernels/cuda), for rows of KIND_kernel. A text is compiled once for each
 * dtype it is used with, in any sizes and strides. A body, cuda_<name>, fills a kernel's arguments and launches it. */
#ifndef SINTER_RUNTIME_CUDA_NATIVE_H
#define SINTER_RUNTIME_CUDA_NATIVE_H
#include "runtime/core/dispatch.h"
#include "runtime/cuda/cuda_internal.h"

typedef enum CudaHandKernel {
#define CUDA_HAND(text, kernel) HAND_##kernel,
#include "runtime/cuda/cuda_native.def"
    HAND_COUNT
} CudaHandKernel;

enum { CUDA_HAND_ARGUMENTS = 12, CUDA_HAND_THREADS = 128, CUDA_HAND_BLOCK = 256 };

/* A launch: `values` point at the arguments, but the last ones: the number of the launch, where it checks values, and
 * the stream's word. */
typedef struct CudaHandLaunch {
    CudaHandKernel kernel;
    DType dtype;
    int64_t blocks;       /* of CUDA_HAND_BLOCK threads; or 0: */
    int64_t threads;      /* in blocks of CUDA_HAND_THREADS */
    CudaChecked *checked; /* what may fail, given up here */
    int n;
    void *values[CUDA_HAND_ARGUMENTS];
} CudaHandLaunch;
#define HAND_VALUES(...) .n = (int)(sizeof((void *[]){__VA_ARGS__}) / sizeof(void *)), .values = {__VA_ARGS__}
Status cuda_hand_launch(CudaDevice *device, const CudaHandLaunch *launch); /* entered */

/* Of a row's own index check; `say`, if not NULL, raises the error instead. NULL raises. */
CudaChecked *cuda_hand_check(const OpRow *row, CudaSay *say);
CudaDevice *cuda_hand_device(const OpCall *call);

OpKernel *cuda_native(const OpRow *row); /* NULL: there is none */

#endif
