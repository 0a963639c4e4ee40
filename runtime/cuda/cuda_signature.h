/* cuda_signature.h: the parameters of a kernel that a program brings as text, read from that text: what a launch must
 * be given.
 *
 *   extern "C" __global__ void scale(const float *x, float *y, long long n)
 *   -> x: f32, read;   y: f32, written;   n: an int of 8 bytes */
#ifndef SINTER_RUNTIME_CUDA_SIGNATURE_H
#define SINTER_RUNTIME_CUDA_SIGNATURE_H
#include "ir/dtype.h"
#include "runtime/base/error.h"

typedef enum CudaTypeKind { CUDA_void, CUDA_bool, CUDA_int, CUDA_unsigned, CUDA_float } CudaTypeKind;

/* A type of C++ as CUDA has it. */
typedef struct CudaType {
    const char *words;
    CudaTypeKind kind;
    int bytes;
    int dtype; /* that a pointer to it needs; -1: any of as many bytes, of void any at all */
} CudaType;

typedef struct CudaParameter {
    char name[48];
    const CudaType *type;
    bool pointer, written; /* written: by a pointer that is not to const */
} CudaParameter;

enum { CUDA_MOST_PARAMETERS = 64 };

typedef struct CudaSignature {
    int n;
    CudaParameter at[CUDA_MOST_PARAMETERS];
} CudaSignature;

/* Of the kernel `name` in a whole program. Raises ST_ARGUMENT where the text has none, or a parameter that no launch
 * can be given. */
Status cuda_signature(const char *source, const char *name, CudaSignature *out);

#endif
