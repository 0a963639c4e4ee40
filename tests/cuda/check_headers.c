/* check_headers.c: the rows of runtime/cuda/driver.def, nvrtc.def, blaslt.def and those that only the emulator has
 * (tests/emulator/rows.def) against NVIDIA's headers, while it is compiled: signatures with NVIDIA's own types in the
 * place of ours, numbers of results and constants, and that our types are passed alike. It prints how many rows that
 * were; without headers (CMake looks for cudaTypedefs.h) it is skipped. */
#include <stddef.h>
#include <stdio.h>

#ifdef HAVE_CUDA_HEADERS
#include <cublasLt.h>
#include <cudaTypedefs.h>
#include <nvrtc.h>
#include <stddef.h>
#include <stdint.h>

#define SINTER_RUNTIME_CUDA_DRIVER_TYPES_H /* theirs */
#define SINTER_RUNTIME_CUDA_NVRTC_TYPES_H
#define SINTER_RUNTIME_CUDA_BLASLT_TYPES_H
typedef cublasStatus_t BlasltStatus;
typedef cudaDataType_t BlasltType;
typedef cublasComputeType_t BlasltCompute;
typedef cublasLtMatmulDescAttributes_t BlasltDescAttribute;
typedef cublasLtMatrixLayoutAttribute_t BlasltLayoutAttribute;
typedef cublasLtMatmulPreferenceAttributes_t BlasltPreferenceAttribute;
typedef cublasLtMatmulAlgoConfigAttributes_t BlasltConfigAttribute;
typedef cublasLtHandle_t BlasltHandle;
typedef cublasLtMatmulDesc_t BlasltDesc;
typedef cublasLtMatrixLayout_t BlasltLayout;
typedef cublasLtMatmulPreference_t BlasltPreference;
#define BlasltAlgo      OurAlgo
#define BlasltHeuristic OurHeuristic
#include "runtime/cuda/blaslt_structs.h"
#undef BlasltAlgo
#undef BlasltHeuristic
typedef cublasLtMatmulAlgo_t BlasltAlgo;
typedef cublasLtMatmulHeuristicResult_t BlasltHeuristic;
typedef nvrtcResult NvrtcResult;
typedef nvrtcProgram NvrtcProgram;
typedef CUresult CuResult;
typedef CUdevice CuDevice;
typedef CUdevice_attribute CuAttribute;
typedef CUdeviceptr CuAddress;
typedef CUcontext CuContext;
typedef CUstream CuStream;
typedef CUevent CuEvent;
typedef CUlibrary CuLibrary;
typedef CUkernel CuKernel;
typedef CUfunction CuFunction;
typedef CUmemGenericAllocationHandle CuMemHandle;
typedef CUmemAllocationProp CuMemProperties;
typedef CUmemAccessDesc CuMemAccess;
typedef CUmemAllocationGranularity_flags CuMemGranularity;
typedef CUjit_option CuJitOption;
typedef CUlibraryOption CuLibraryOption;
typedef CUfunction_attribute CuFunctionAttribute;
typedef CUgraph CuGraph;
typedef CUgraphNode CuGraphNode;
typedef CUgraphExec CuGraphExec;
typedef CUstreamCaptureMode CuCaptureMode;
typedef CUstreamCaptureStatus CuCaptureStatus;
#define CuKernelNode  OurKernelNode
#define CuGraphUpdate OurGraphUpdate
#include "runtime/cuda/driver_structs.h"
#undef CuKernelNode
#undef CuGraphUpdate
typedef CUDA_KERNEL_NODE_PARAMS_v2 CuKernelNode;
typedef CUgraphExecUpdateResultInfo CuGraphUpdate;

#define SAME(ours, theirs, name)        _Static_assert(__builtin_types_compatible_p(ours, theirs), name)
#define DRIVER(name, since, parameters) SAME(CuResult(*) parameters, PFN_cu##name##_v##since, "cu" #name);
#include "tests/emulator/rows.def"
#define RESULT(name, theirs, value, fate) _Static_assert((int)theirs == value, #theirs);
#include "runtime/cuda/driver.def"
#define CONSTANT(name, theirs, value) _Static_assert((int)theirs == value, #theirs);
#include "runtime/cuda/driver.def"
#define NVRTC(type, name, parameters) SAME(type(*) parameters, __typeof__(&nvrtc##name), "nvrtc" #name);
#include "runtime/cuda/nvrtc.def"
#define NVRTC_RESULT(name, theirs, value) _Static_assert((int)theirs == value, #theirs);
#include "runtime/cuda/nvrtc.def"

#define BLASLT(type, name, parameters) SAME(type(*) parameters, __typeof__(&cublasLt##name), "cublasLt" #name);
#include "runtime/cuda/blaslt.def"
#define BLASLT_CONSTANT(name, theirs, value) _Static_assert((int)theirs == value, #theirs);
#include "runtime/cuda/blaslt.def"
#define SAME_PART(part, ours, theirs)                                                                                  \
    SAME(__typeof__(((ours *)0)->part), __typeof__(((theirs *)0)->part), #theirs "." #part);                           \
    _Static_assert(offsetof(ours, part) == offsetof(theirs, part), #theirs "." #part)
SAME_PART(data, OurAlgo, BlasltAlgo);
SAME_PART(workspaceSize, OurHeuristic, BlasltHeuristic);
SAME_PART(state, OurHeuristic, BlasltHeuristic);
SAME_PART(wavesCount, OurHeuristic, BlasltHeuristic);
_Static_assert(sizeof(OurHeuristic) == sizeof(BlasltHeuristic) && sizeof(OurAlgo) == sizeof(BlasltAlgo), "all");

#define SAME_FIELD(type, field)                                                                                        \
    _Static_assert(offsetof(Our##type, field) == offsetof(Cu##type, field) &&                                          \
                       sizeof(((Our##type *)0)->field) == sizeof(((Cu##type *)0)->field),                              \
                   #type "." #field)
SAME_FIELD(KernelNode, func);
SAME_FIELD(KernelNode, gridDimX);
SAME_FIELD(KernelNode, gridDimY);
SAME_FIELD(KernelNode, gridDimZ);
SAME_FIELD(KernelNode, blockDimX);
SAME_FIELD(KernelNode, blockDimY);
SAME_FIELD(KernelNode, blockDimZ);
SAME_FIELD(KernelNode, sharedMemBytes);
SAME_FIELD(KernelNode, kernelParams);
SAME_FIELD(KernelNode, extra);
SAME_FIELD(KernelNode, kern);
SAME_FIELD(KernelNode, ctx);
SAME_FIELD(GraphUpdate, result);
SAME_FIELD(GraphUpdate, errorNode);
_Static_assert(sizeof(OurKernelNode) == sizeof(CuKernelNode) && sizeof(OurGraphUpdate) == sizeof(CuGraphUpdate), "all");

/* Enums are ints to a caller, addresses 64 bits. */
_Static_assert(sizeof(CUresult) == sizeof(int) && sizeof(CUdevice_attribute) == sizeof(int), "enums");
_Static_assert(sizeof(CUdeviceptr) == sizeof(unsigned long long) && sizeof(CUdevice) == sizeof(int), "addresses");
_Static_assert(sizeof(CUcontext) == sizeof(void *) && sizeof(CUstream) == sizeof(void *), "handles");
_Static_assert(sizeof(CUmemAllocationProp) == 32 && offsetof(CUmemAllocationProp, location) == 8 &&
                   offsetof(CUmemAllocationProp, allocFlags) == 24 && sizeof(CUmemAccessDesc) == 12 &&
                   offsetof(CUmemAccessDesc, flags) == 8 && sizeof(CUmemGenericAllocationHandle) == 8,
               "structs as driver_types.h has them");
_Static_assert(sizeof(CUdriverProcAddressQueryResult) == sizeof(int), "what cuGetProcAddress answers");
_Static_assert(sizeof(nvrtcResult) == sizeof(int) && sizeof(nvrtcProgram) == sizeof(void *), "of NVRTC");
_Static_assert(sizeof(cublasStatus_t) == sizeof(int) && sizeof(cublasComputeType_t) == sizeof(int) &&
                   sizeof(cudaDataType_t) == sizeof(int) && sizeof(cublasLtMatmulDesc_t) == sizeof(void *),
               "of cuBLASLt");
SAME(CUresult (*)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *),
     PFN_cuGetProcAddress_v12000, "cuGetProcAddress");

int main(void) {
    static const char *const rows[] = {
#define DRIVER(name, since, parameters) "cu" #name,
#include "tests/emulator/rows.def"
#define RESULT(name, theirs, value, fate) #theirs,
#include "runtime/cuda/driver.def"
#define CONSTANT(name, theirs, value) #theirs,
#include "runtime/cuda/driver.def"
#define NVRTC(type, name, parameters) "nvrtc" #name,
#include "runtime/cuda/nvrtc.def"
#define NVRTC_RESULT(name, theirs, value) #theirs,
#include "runtime/cuda/nvrtc.def"
#define BLASLT(type, name, parameters) "cublasLt" #name,
#include "runtime/cuda/blaslt.def"
#define BLASLT_CONSTANT(name, theirs, value) #theirs,
#include "runtime/cuda/blaslt.def"
    };
    printf("%zu rows as in the headers of CUDA %d.%d\n", sizeof rows / sizeof *rows, CUDA_VERSION / 1000,
           CUDA_VERSION % 1000 / 10);
    return 0;
}
#else
int main(void) {
    puts("skipped: no cudaTypedefs.h here (NVIDIA's toolkit has it)");
    return 77;
}
#endif
