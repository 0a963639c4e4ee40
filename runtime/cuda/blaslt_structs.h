/* blaslt_structs.h: structures of cublasLt.h, as wide as theirs. Apart, so that the test that compares them with
 * NVIDIA's header can read them beside it. */
#ifndef SINTER_RUNTIME_CUDA_BLASLT_STRUCTS_H
#define SINTER_RUNTIME_CUDA_BLASLT_STRUCTS_H
#include <stddef.h>
#include <stdint.h>

typedef struct BlasltAlgo { /* for one version of the library, which alone knows what it says */
    uint64_t data[8];
} BlasltAlgo;

typedef struct BlasltHeuristic {
    BlasltAlgo algo;
    size_t workspaceSize;
    BlasltStatus state;
    float wavesCount;
    int reserved[4];
} BlasltHeuristic;

#endif
