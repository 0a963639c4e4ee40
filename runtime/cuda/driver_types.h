/* driver_types.h: the types of driver.def. They stand alone so that the test that compares the rows with NVIDIA's
 * headers can put NVIDIA's own in their place. */
#ifndef SINTER_RUNTIME_CUDA_DRIVER_TYPES_H
#define SINTER_RUNTIME_CUDA_DRIVER_TYPES_H
#include <stddef.h>
#include <stdint.h>

typedef int CuResult;
typedef int CuDevice; /* an ordinal's handle */
typedef int CuAttribute;
typedef unsigned long long CuAddress; /* of device memory */
typedef struct CuContextOpaque *CuContext;
typedef struct CuStreamOpaque *CuStream;
typedef struct CuEventOpaque *CuEvent;
typedef struct CuLibraryOpaque *CuLibrary; /* a loaded program */
typedef struct CuKernelOpaque *CuKernel;
typedef struct CuFunctionOpaque *CuFunction; /* a kernel in the current context */
typedef unsigned long long CuMemHandle;      /* of memory without an address */
typedef struct CuMemLocation {
    int type, id;
} CuMemLocation;
typedef struct CuMemProperties { /* of memory to be made; what Sinter does not use is 0 */
    int type, handle_types;
    CuMemLocation location;
    void *windows;
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
} CuMemProperties;
typedef struct CuMemAccess {
    CuMemLocation location;
    int flags;
} CuMemAccess;
typedef int CuMemGranularity;
typedef int CuJitOption;
typedef int CuLibraryOption;
typedef int CuFunctionAttribute;
typedef struct CuGraphOpaque *CuGraph; /* work in order; an exec is one that can be launched */
typedef struct CuGraphNodeOpaque *CuGraphNode;
typedef struct CuGraphExecOpaque *CuGraphExec;
typedef int CuCaptureMode;
typedef int CuCaptureStatus;
#include "runtime/cuda/driver_structs.h"

#endif
