/* gemm.h: what the chooser (kernels/gemm.c) and the levels (cpu/gemm.c) agree on: how a call is blocked, and where its
 * parts lie in the workspace. None of it enters the bits: an output is one chain over k wherever the blocks end.
 *
 *        n in slabs of packed panels ->            B panel: PANEL_BYTES wide, k rows, in L2
 *      m +-------+-------+                          tile: up to 6 rows x one panel, in registers
 *      | |tile   |       |   rows in blocks of      carry: accumulators of a block of rows x one panel, or one
 *      v |.......|       |   BLOCK_ROWS             slab when k needs several blocks, where C cannot hold them
 *
 * A product with fewer rows than columns and k contiguous in B (a linear layer) is computed transposed, C^T = B^T A^T:
 * then B is read where it lies, and the smaller A is packed. */
#ifndef SINTER_KERNELS_CPU_GEMM_H
#define SINTER_KERNELS_CPU_GEMM_H
#include "kernels/kernels.h"

enum {
    PANEL_BYTES = 256, /* 64 columns of 4 bytes, 32 of 8 */
    TILE_ROWS = 6,
    BLOCK_ROWS = 192,      /* at least; more where L2 holds them */
    BLOCK_K = 1024,        /* k of packed panels that is walked at once: 256 KiB each, a part of L2 */
    THIN_K = 64,           /* the same where B is packed on the way, piece by piece in L1 */
    THIN_ROWS = 24,        /* with at most so many rows, B is not packed whole */
    THIN_ROWS_SPREAD = 96, /* the same for a row-major B that can be walked in place */
    LINE_BYTES = 64,
    SOON_K = 8,         /* k in which a tile asks for one line of the next panel: 32 tiles ask for all of it */
    TURNED_ROWS = 8,    /* at most so many rows read a B of contiguous columns once, by squares in registers */
    TURNED_MOST = 2,    /* squares at once */
    TURNED_AHEAD = 256, /* bytes of a column that are asked for ahead */
    OFFSET_K = 128,     /* k that rows of A in L1 are walked by, where B is read by offsets */
    CHUNK_K = 4096      /* of the canonical order */
};

typedef struct GemmBlocking {
    bool thin;           /* B read in place or packed by THIN_K */
    bool pack_a;         /* A is not of the compute type or its k stride is not 1 */
    bool transposed;     /* C^T = B^T A^T is computed: tiles are transposed back at the end */
    int64_t row;         /* transposed: of C's first row, where the call's columns begin */
    int64_t rows;        /* of a block */
    int64_t panel;       /* columns of a panel */
    int64_t slab_panels; /* panels packed at once */
    int64_t a_ld;        /* elements per packed row of A */
    size_t at_total, at_part, at_transposed, at_a, at_b, bytes; /* workspace offsets and size */
} GemmBlocking;

/* Elements per row of a transposed block; a line more than it needs keeps the rows out of each other's cache sets. */
static inline int64_t transposed_ld(const GemmBlocking *plan) { return round_up(plan->rows, 16) + 16; }

typedef struct GemmLevel {
    void (*run)(const GemmCall *call, const GemmBlocking *plan);
    void (*pack_b)(const GemmCall *call, const GemmBlocking *plan, void *packed);
    void (*offset_product[2])(const OffsetProduct *product); /* f32, f64 */
    void (*transpose)(int bytes, const void *from, int64_t from_ld, void *to, int64_t to_ld, int64_t rows,
                      int64_t columns);
} GemmLevel;

#endif
