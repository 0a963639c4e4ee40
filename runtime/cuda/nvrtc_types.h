/* nvrtc_types.h: the types of nvrtc.def. They stand alone so that the test that compares the rows with NVIDIA's header
 * can put NVIDIA's own in their place. */
#ifndef SINTER_RUNTIME_CUDA_NVRTC_TYPES_H
#define SINTER_RUNTIME_CUDA_NVRTC_TYPES_H
#include <stddef.h>

typedef int NvrtcResult;
typedef struct NvrtcProgramOpaque *NvrtcProgram;

#endif
