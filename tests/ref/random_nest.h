/* random_nest.h: random valid kernels of one nest, with memory to run them on, from a seed: all
 * primitives, dtypes and reductions; maps, orders L, S and both; contiguous, permuted, strided,
 * negative and broadcast places; gathers (some of which miss), parameters, in-place buffers, dims
 * of 0 and 1. The same seed gives the same kernel and the same bytes. */
#ifndef SINTER_TESTS_RANDOM_NEST_H
#define SINTER_TESTS_RANDOM_NEST_H
#include "ir/loop.h"

enum { RANDOM_MAX_BUFS = 12, RANDOM_MAX_PARAMS = 4 };

typedef struct RandomNest {
    Kernel kernel; /* one nest */
    uint64_t seed;
    int64_t params[RANDOM_MAX_PARAMS];
    int64_t elements[RANDOM_MAX_BUFS], origin[RANDOM_MAX_BUFS]; /* the pointer passed is at element `origin` */
    int64_t index_bound[RANDOM_MAX_BUFS];                       /* i64 buffers used as indices: values lie in [-bound,
                                             bound); 0: any */
    bool may_miss;                                              /* some index may lie outside */
} RandomNest;

/* NULL when memory is out. */
RandomNest *random_nest(Arena *arena, uint64_t seed);
/* Fresh memory with the nest's contents: pointers to pass (by buffer); blocks[i] is where buffer
 * i's block begins. */
void **random_memory(Arena *arena, const RandomNest *nest, char **blocks);
/* The first element where two memories differ in a stored buffer (NaN equals NaN): false, with
 * where; else true. */
bool random_same(const RandomNest *nest, char *const *a, char *const *b, int *buf, int64_t *element);

#endif
