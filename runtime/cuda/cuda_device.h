/* cuda_device.h: the rows of cuda:0 and on in the table of devices. A row opens the driver and retains the device's
 * primary context (the one that other CUDA libraries of the process use) at its first use; until then a program pays
 * nothing. */
#ifndef SINTER_RUNTIME_CUDA_DEVICE_H
#define SINTER_RUNTIME_CUDA_DEVICE_H
#include "runtime/base/base.h"

enum { CUDA_MOST_DEVICES = 32 };

/* What a GPU is. */
typedef struct CudaFacts {
    char name[128];
    int64_t bytes;
    int multiprocessors, capability; /* 90: 9.0, for which code is sm_90 */
} CudaFacts;
Status cuda_facts(int ordinal, CudaFacts *out);

void cuda_start(void); /* registers the rows; opens nothing */

#endif
