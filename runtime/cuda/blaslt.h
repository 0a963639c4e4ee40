/* blaslt.h: cuBLASLt, NVIDIA's library of products, opened at the first product that asks for it and never linked.
 * blaslt.def has one row per function; library.h says where it is looked for (SINTER_CUDA_BLASLT=path: that file alone,
 * none: as if there were none).
 *
 *   const char *why;
 *   const Blaslt *lt = blaslt_find(&why);
 *   if (lt) lt->Matmul(...);
 *
 * Whether there is one is decided once for the process, so that all its products of a dtype are computed alike. */
#ifndef SINTER_RUNTIME_CUDA_BLASLT_H
#define SINTER_RUNTIME_CUDA_BLASLT_H
#include "runtime/base/base.h"
#include "runtime/cuda/blaslt_types.h"

enum {
#define BLASLT_CONSTANT(name, theirs, value) LT_##name = value,
#include "runtime/cuda/blaslt.def"
};

typedef struct Blaslt {
#define BLASLT(type, name, parameters) type(*name) parameters;
#include "runtime/cuda/blaslt.def"
    int version;    /* 130002: 13.0.2 */
    char path[512]; /* the file that it came from */
} Blaslt;

/* Opens it once. NULL, and *why: what is missing and where to get it; raises nothing. */
const Blaslt *blaslt_find(const char **why);

#endif
