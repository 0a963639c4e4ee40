/* block.h: a nest as a flat step array, run by runtime/cpu/interp.c with the block kernels.
 *
 * Values live in slots: pointers to blocks of BLOCK_ELEMENTS elements of the value's type. A value is
 *   uniform  constants and parameters: filled once per run;
 *   narrow   varies with the outer dims only, in a nest with inner dims: one element per outer
 *            position of a tile;
 *   wide     varies with everything (all values of a nest without inner dims).
 * A wide step that uses a narrow value gets an expansion of it. Each phase has a head (narrow steps,
 * then expansions), run once per tile of outer positions, and a body (wide steps), run for every
 * block of inner positions.
 *
 * There are two variants of every phase: `keep` for tiles whose inner positions all fit one block,
 * so that wide values stay alive between phases, and `again`, which computes anew what earlier
 * phases computed. The bits are the same.
 *
 * One malloc block: the header, then the arrays, by byte offsets from the header. */
#ifndef SINTER_CODEGEN_BLOCK_H
#define SINTER_CODEGEN_BLOCK_H
#include "codegen/codegen.h"

enum { BLOCK_ELEMENTS = CHUNK_L, BLOCK_FAST_PTRS = 24, BLOCK_FAST_INSTS = 12 };

typedef enum BlockOp {
    BO_const,
    BO_param,
    BO_index,
    BO_load,
    BO_gather,
    BO_prim,
    BO_cast,
    BO_expand,
    BO_reduce,
    BO_store
} BlockOp;

typedef struct BlockInst {
    uint8_t op;           /* BlockOp */
    uint8_t type;         /* SType of the result; reduce, store: of the operand */
    uint8_t from;         /* prim, cast: SType of the operands */
    uint8_t prim;         /* Prim or RedKind */
    bool wide;            /* runs over the wide shape */
    bool alias;           /* load: may point into the buffer */
    int16_t out, a, b, c; /* slots, -1: none */
    int16_t access;       /* load, gather, index, store */
    int16_t number;       /* param: which; reduce: which state; gather: the nest's instruction */
    int16_t direct;       /* prim, cast: the access of a store that this step writes itself when the place
                       allows, -1 */
    union {
        double f;
        int64_t i;
    };
} BlockInst;

typedef struct BlockAccess {
    int16_t buf; /* -1: an index */
    uint8_t dtype, bytes;
    bool wrap_negative;
    int64_t scale, bound; /* gather */
    Affine at;
} BlockAccess;

typedef struct BlockSlot {
    int32_t offset; /* of its block in the scratch memory, bytes */
    uint8_t type;
} BlockSlot;

typedef struct BlockPhase {
    bool reduce, over_outer;
    int32_t head, n_head, body, n_body; /* steps */
} BlockPhase;

/* One step of the fast path: out, a, b, c index the table of pointers. */
typedef struct BlockFast {
    uint8_t op, type, from, prim;
    uint8_t out, a, b, c;
} BlockFast;

/* The fast path: a nest without inner dims, of at most BLOCK_ELEMENTS elements known now, whose places
 * are all contiguous or one element, in compute dtypes, without gathers. Pointers: first the
 * buffers' places, then blocks in this program. Where some size is a parameter, a run finds whether its places are
 * contiguous and its elements at most BLOCK_ELEMENTS. */
typedef struct BlockFastPath {
    int32_t n;     /* elements, or how many at most; 0: there is no fast path */
    bool any_size; /* a run counts them */
    int16_t n_places, n_ptrs, n_steps;
    struct {
        int16_t buf;
        int64_t offset; /* bytes */
    } place[BLOCK_FAST_PTRS];
    int32_t constant[BLOCK_FAST_PTRS]; /* byte offset in the program of a filled block; 0: a block
                                          of scratch memory */
    int16_t param[BLOCK_FAST_PTRS];    /* 1 + the parameter that fills such a block on each run; 0: none */
    uint8_t n_scratch;
    BlockFast step[BLOCK_FAST_INSTS];
} BlockFastPath;

enum { VARIANT_keep, VARIANT_again, VARIANT_COUNT };

struct BlockProgram {
    size_t bytes;
    int32_t n_outer, n_inner, n_s;
    int64_t extent[MAX_LOOP_DIMS];
    bool has_params; /* some int is a parameter */
    int32_t n_phases, n_steps, n_accesses, n_slots, n_reductions, n_init;
    int32_t steps, accesses, slots, phases; /* byte offsets; the first n_init steps fill the uniform values */
    int64_t scratch_bytes;
    BlockFastPath fast;
};

static inline const BlockInst *block_insts(const BlockProgram *p) {
    return (const BlockInst *)((const char *)p + p->steps);
}
static inline const BlockAccess *block_accesses(const BlockProgram *p) {
    return (const BlockAccess *)((const char *)p + p->accesses);
}
static inline const BlockSlot *block_slots(const BlockProgram *p) {
    return (const BlockSlot *)((const char *)p + p->slots);
}
static inline const BlockPhase *block_phases(const BlockProgram *p, int variant) {
    return (const BlockPhase *)((const char *)p + p->phases) + variant * p->n_phases;
}

/* block_fast.c: plans the straight line, fast->n 0 if there is none. Constants are filled by
 * block_fast_constants, each a block of fast->n elements (rounded up to 64 bytes) from `offset` on;
 * it returns the bytes they take, program NULL: only measures. */
void block_fast_plan(const Nest *nest, const Buf *bufs, BlockFastPath *fast);
size_t block_fast_constants(const Nest *nest, BlockFastPath *fast, size_t offset, BlockProgram *program);

#endif
