/* cuda_disk.h: programs on disk (runtime/core/disk_cache.h): an entry is the code of one program for one
 * architecture. */
#ifndef SINTER_RUNTIME_CUDA_DISK_H
#define SINTER_RUNTIME_CUDA_DISK_H
#include "runtime/core/disk_cache.h"
#include "runtime/cuda/nvrtc.h"

/* Of a program's text after the prelude. arch: 90. False: memory is out, which is not raised. */
bool cuda_disk_signature(int arch, const char *name, const Text *source, DiskSignature *key);
/* Without opening NVRTC: where it is open, only code of its version is taken. The caller frees it. */
bool cuda_disk_load(const DiskSignature *key, CudaCode *out);
void cuda_disk_store(const DiskSignature *key, const CudaCode *code);

#endif
