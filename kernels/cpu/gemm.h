/* gemm.h: what the chooser (kernels/gemm.c) and the levels (cpu/gemm.c) agree on: how a call is blocked, and where its
 * parts lie in the workspace. None of it enters the bits: an output is one chain over k wherever the blocks end.
 *
 *        n in slabs of packed panels ->            B panel: PANEL_BYTES wide, k rows, in L2
 *      m +-------+-------+                          tile: up to 6 rows x one panel, in registers
 *      | |tile   |       |   rows in blocks of      carry: accumulators of a block of rows x one panel, when
 *      v |.......|       |   BLOCK_ROWS             k needs several blocks or C cannot hold them */
#ifndef SINTER_KERNELS_CPU_GEMM_H
#define SINTER_KERNELS_CPU_GEMM_H
#include "kernels/kernels.h"

enum {
    PANEL_BYTES = 256, /* 64 columns of 4 bytes, 32 of 8 */
    TILE_ROWS = 6,
    BLOCK_ROWS = 192,
    BLOCK_K = 1024,        /* k of a packed panel that is walked at once: 256 KiB, a part of L2 */
    THIN_K = 64,           /* the same where B is packed on the way, piece by piece in L1 */
    THIN_ROWS = 24,        /* with at most so many rows, B is not packed whole */
    THIN_ROWS_SPREAD = 96, /* the same for a row-major B that can be walked in place */
    CHUNK_K = 4096         /* of the canonical order */
};

typedef struct GemmPlan {
    bool thin;           /* B read in place or packed by THIN_K */
    bool pack_a;         /* A is not of the compute type or its k stride is not 1 */
    int64_t panel;       /* columns of a panel */
    int64_t slab_panels; /* panels packed at once */
    int64_t a_ld;        /* elements per packed row of A */
    size_t at_total, at_part, at_a, at_b, bytes; /* workspace offsets and size */
} GemmPlan;

typedef struct GemmLevel {
    void (*run)(const GemmCall *call, const GemmPlan *plan);
    void (*pack_b)(const GemmCall *call, const GemmPlan *plan, void *packed);
} GemmLevel;

#endif
