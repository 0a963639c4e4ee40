/* cuda_memory.h: a CUDA device's memory: a caching allocator (runtime/device/caching.h) whose source is the driver and
 * whose streams are CudaStreams. */
#ifndef SINTER_RUNTIME_CUDA_MEMORY_H
#define SINTER_RUNTIME_CUDA_MEMORY_H
#include "runtime/cuda/cuda_internal.h"

Status cuda_memory_open(CudaDevice *device);
/* The row's. A block belongs to the calling thread's stream: freed, it is reused in that stream's order, with no wait.
 * NULL raises. */
void *cuda_allocate(const Memory *memory, size_t bytes);
void cuda_free(const Memory *memory, void *block, size_t bytes);
Caching *cuda_caching(const DeviceRow *row); /* opens the device; NULL raises */

#endif
