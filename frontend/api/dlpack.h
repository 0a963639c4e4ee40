/* dlpack.h: the structs of DLPack 1.x (https://dmlc.github.io/dlpack), as far as tensors on the CPU and on GPUs need
 * them. Layouts are fixed by that standard. */
#ifndef SINTER_FRONTEND_DLPACK_H
#define SINTER_FRONTEND_DLPACK_H
#include <stdint.h>

enum { DLPACK_MAJOR = 1, DLPACK_MINOR = 0 };
enum { DLPACK_CPU = 1, DLPACK_CUDA = 2, DLPACK_CUDA_HOST = 3, DLPACK_CUDA_MANAGED = 13 };
enum { DLPACK_INT = 0, DLPACK_UINT = 1, DLPACK_FLOAT = 2, DLPACK_BFLOAT = 4, DLPACK_BOOL = 6 };
enum { DLPACK_READ_ONLY = 1 };

typedef struct DLDevice {
    int32_t device_type, device_id;
} DLDevice;

typedef struct DLDataType {
    uint8_t code, bits;
    uint16_t lanes;
} DLDataType;

typedef struct DLTensor {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape, *strides; /* elements; strides may be NULL: row-major */
    uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensorVersioned {
    struct {
        uint32_t major, minor;
    } version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self); /* may be NULL */
    uint64_t flags;
    DLTensor dl_tensor;
} DLManagedTensorVersioned;

#endif
