/* order.h: the canonical orders of additions L and S as numbers [B2.1, B2.2], written down once. The interpreter, the
 * shapes of LLVM's code, the kernels and CUDA C are spelled from them; no executor has numbers of its own.
 *
 *   L   element i goes to lane i mod LANES_L, each lane takes its elements in ascending order, and the lanes are joined
 *       by a tree, LANES_L_TREE. A chunk of CHUNK_L elements gives one result; the results of chunks are the elements
 *       of the next level, by the same rule
 *   S   one element after another, CHUNK_S of them; the results of these are the elements of the next level
 *
 * What is alone at a level stands as it is: nothing is added to it. */
#ifndef SINTER_IR_ORDER_H
#define SINTER_IR_ORDER_H
#include <stdint.h>

enum {
    LANES_L = 64,
    CHUNK_L_BITS = 10,
    CHUNK_L = 1 << CHUNK_L_BITS,
    CHUNK_S_BITS = 6,
    CHUNK_S = 1 << CHUNK_S_BITS,
    L_LEVELS = 4, /* at most, in which results of chunks of L gather: 2^50 elements */
    S_LEVELS = 7  /* at most, of sums over S: any number of rows that fits memory */
};

/* How far apart the lanes are that meet, step after step: lane k takes in lane k + apart, where 2 * apart divides k. */
#define LANES_L_TREE(STEP) STEP(1) STEP(2) STEP(4) STEP(8) STEP(16) STEP(32)

/* Elements that one result of `level` takes in: CHUNK_L, CHUNK_S to the level's power. */
static inline int64_t order_L_elements(int level) { return INT64_C(1) << (CHUNK_L_BITS * level); }
static inline int64_t order_S_elements(int level) { return INT64_C(1) << (CHUNK_S_BITS * level); }

/* Levels that n elements need, where a result of a level takes in 2^bits of the one below; n < 0: `most`. */
static inline int order_levels(int64_t n, int bits, int most) {
    int levels = 1;
    while (levels < most && (n < 0 || n > INT64_C(1) << (bits * levels))) levels++;
    return levels;
}

#endif
