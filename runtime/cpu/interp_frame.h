/* interp_frame.h: what the parts of the interpreter share: one run's resolved dims and places.
 *
 * The dims of the nest form two groups, outer and inner, each flattened row-major; dims that all
 * places walk evenly are merged first. A block covers the product of two spans of flattened
 * positions, a slow one and a fast one: maps            nothing x outer rows (order L)  outer x
 * inner: whole rows, or a piece of one columns (S)     inner x outer: some rows of S, all columns
 * of the tile */
#ifndef SINTER_RUNTIME_INTERP_FRAME_H
#define SINTER_RUNTIME_INTERP_FRAME_H
#include "codegen/block/block.h"
#include "kernels/kernels.h"
#include "runtime/cpu/interp.h"

enum { GROUP_outer, GROUP_inner, GROUP_none };

typedef struct Kernels { /* the kernel table, resolved once per instruction set */
    BlockFn *prim[PRIM_COUNT][S_COUNT];
    BlockFn *cast[S_COUNT][S_COUNT];
    LoadFn *load[DT_COUNT];
    StoreFn *store[DT_COUNT];
    ReduceFn *reduce[RED_COUNT][S_COUNT];
    BlockFn *accumulate[RED_COUNT][S_COUNT];
} Kernels;

typedef struct GroupDims {
    int n;
    int64_t extent[MAX_LOOP_DIMS];
    int64_t total;
} GroupDims;

typedef struct AccessAddress { /* one access of this run */
    char *base;                /* NULL: an index */
    int64_t offset;            /* elements */
    int64_t stride[2][MAX_LOOP_DIMS];
    bool flat[2]; /* the whole group is walked with one stride */
    int64_t flat_stride[2];
    int bytes;
    DType dtype;
} AccessAddress;

typedef struct GroupSpan {
    int group;
    int64_t start, n;
} GroupSpan;

typedef struct Shape {
    GroupSpan slow, fast;
    int64_t n;
} Shape;

typedef struct Reduction {
    RedKind kind;
    SType type;
    char *partial; /* L: L_LEVELS blocks of chunk results */
    char *sums;    /* S: S_LEVELS blocks of columns */
    int n_partial[L_LEVELS + 1], n_rows[S_LEVELS + 1];
    char *best; /* argmax: the value and its position, by outer position of the tile */
    int64_t *position;
    bool started;
    int64_t seen; /* argmax: inner positions so far */
} Reduction;

typedef struct InterpFrame {
    const BlockProgram *program;
    const int64_t *params;
    const Kernels *kernels;
    const BlockInst *steps;
    GroupDims group[2];
    int64_t n_l;  /* elements of the L dims */
    bool columns; /* the layout of order S alone */
    AccessAddress *places;
    void **slot;
    char **home; /* by slot: its own block */
    Reduction *reductions;
    int64_t *offsets; /* a block of gathered places */
    char *raw;        /* a block of gathered bytes */
    Shape narrow, wide;
    bool keep;     /* the tile's inner positions fit one block */
    bool row_ends; /* chunked rows: this block ends a row */
    NestError *error;
} InterpFrame;

/* interp_move.c */
void frame_load(InterpFrame *f, const BlockInst *step, const Shape *shape);
bool frame_gather(InterpFrame *f, const BlockInst *step, const Shape *shape); /* false: an index missed */
void frame_index(InterpFrame *f, const BlockInst *step, const Shape *shape);
void frame_store(InterpFrame *f, const BlockInst *step, const Shape *shape);
void *frame_contiguous(InterpFrame *f, int access, const Shape *shape); /* NULL: not one contiguous run */
/* interp_reduce.c */
void reduction_begin(InterpFrame *f, Reduction *r);
void reduction_step(InterpFrame *f, const BlockInst *step);
void reduction_end(InterpFrame *f, const BlockInst *step);

static inline DType dtype_of(SType type) {
    static const DType dtypes[S_COUNT] = {DT_f32, DT_f64, DT_i32, DT_i64, DT_bool};
    return dtypes[type];
}

#endif
