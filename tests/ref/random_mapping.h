/* random_mapping.h: other mappings of a kernel to a GPU than the decided one, from a seed: every part of the record may
 * change, as far as cuda_mapping_verify lets it. All of them give the same bits. */
#ifndef SINTER_TESTS_RANDOM_MAPPING_H
#define SINTER_TESTS_RANDOM_MAPPING_H
#include "codegen/cuda/mapping.h"

/* NULL when memory is out. */
CudaMapping *random_mapping(Arena *arena, const CudaKernel *of, const Machine *machine, uint64_t seed);

#endif
