/* blaslt_types.h: the types of blaslt.def. They stand alone so that the test that compares the rows with NVIDIA's
 * header can put NVIDIA's own in their place. */
#ifndef SINTER_RUNTIME_CUDA_BLASLT_TYPES_H
#define SINTER_RUNTIME_CUDA_BLASLT_TYPES_H
#include "runtime/cuda/driver_types.h"

typedef int BlasltStatus;
typedef int BlasltType;
typedef int BlasltCompute;
typedef int BlasltDescAttribute;
typedef int BlasltLayoutAttribute;
typedef int BlasltPreferenceAttribute;
typedef int BlasltConfigAttribute;
typedef struct BlasltHandleOpaque *BlasltHandle;
typedef struct BlasltDescOpaque *BlasltDesc;
typedef struct BlasltLayoutOpaque *BlasltLayout;
typedef struct BlasltPreferenceOpaque *BlasltPreference;
#include "runtime/cuda/blaslt_structs.h"

#endif
