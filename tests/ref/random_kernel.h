/* random_kernel.h: a kernel of several random nests, each of which has buffers and parameters of its own. */
#ifndef SINTER_TESTS_RANDOM_KERNEL_H
#define SINTER_TESTS_RANDOM_KERNEL_H
#include "tests/ref/random_nest.h"

enum { RANDOM_KERNEL_NESTS = 3 };

typedef struct RandomKernel {
    Kernel kernel;
    int n; /* nests */
    const RandomNest *nest[RANDOM_KERNEL_NESTS];
    int first_buf[RANDOM_KERNEL_NESTS]; /* of each nest, in the kernel */
    int64_t params[RANDOM_KERNEL_NESTS * RANDOM_MAX_PARAMS];
} RandomKernel;

/* The nests of seeds seed..seed+n-1; `independent`: the kernel says that they may run at once. NULL when memory is
 * out. */
RandomKernel *random_kernel(Arena *arena, uint64_t seed, int n, bool independent);

#endif
