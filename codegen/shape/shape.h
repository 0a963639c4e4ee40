/* shape.h: what shape a nest takes on a machine, decided before any code is written: which dims run as one loop, what
 * the lanes are, how many vectors stand side by side, what is kept, fetched ahead or stored past the caches.
 *
 *     nest + machine  -- shape_decide (a pure function) -->  NestMapping  -- an emitter spells it -->  code
 *
 * The record is small data: it prints, parses back, and is checked against its nest (an edited one too). All shapes
 * that shape_verify accepts give the same bits; they differ in speed. What only a call can know is left to it by a
 * condition that the record names (STREAM_when: the bytes stored). Three modes:
 *
 *   columns  no L dims: lanes run along the last outer group; S reductions add row after row [semantics B2]
 *   panels   the same over wide matrices, along the rows of memory, with sums of many columns in the cache
 *   rows     L dims: outer dims are plain loops, lanes run along the merged L sequence, lane = position mod 64 */
#ifndef SINTER_CODEGEN_SHAPE_SHAPE_H
#define SINTER_CODEGEN_SHAPE_SHAPE_H
#include "codegen/shape/machine.h"

enum {
    SHAPE_COPIES = 4,     /* at most, vectors side by side */
    SHARED_VECTORS = 8,   /* at most, that a call of a shared primitive passes, in registers */
    PANEL_REDS = 4,       /* at most, of panels */
    PANEL_COLUMNS = 1024, /* likewise: their sums are on the stack, an array for each reduction and level */
    PANEL_ROWS = 4        /* likewise, added at once */
};

typedef enum ShapeMode { SHAPE_columns, SHAPE_panels, SHAPE_rows } ShapeMode;

/* Consecutive dims that every access walks as one: coefficients are those of dim `coef`. */
typedef struct DimGroup {
    int8_t first, n, coef;
    int64_t extent; /* product, or -1 when it is known at run time only */
} DimGroup;

/* The dims first..last-1 in as few groups as its accesses allow, from the left. Returns how many there are. */
int dims_merge(const Nest *nest, int first, int last, DimGroup *out);

/* All dims of a nest in groups: outer ones first, then S, then L. */
typedef struct DimGroups {
    int n, n_outer, n_s;
    const DimGroup *group;
} DimGroups;
/* "  dims (i0 i1) S (j0) L (j1)", a line; of no dims nothing. */
void dims_print(const DimGroups *dims, const Nest *nest, Text *text);
/* Reads that; the groups go to the caller's array of MAX_LOOP_DIMS. Raises ST_PARSE. */
Status dims_parse(TextReader *in, const Nest *nest, DimGroup *group, DimGroups *out);
/* Whether each dim is in one group that every access walks as one; outer groups before number `merges` hold one dim.
 * Raises ST_INTERNAL. */
Status dims_verify(const DimGroups *dims, const Nest *nest, int merges);

/* How a phase of a row goes along it. */
typedef enum LoopStrategy {
    STRATEGY_none,      /* not along a row */
    STRATEGY_copies,    /* stores: whole vectors, `copies` an iteration, then a masked tail */
    STRATEGY_masked,    /* stores: one body for whole and partial vectors */
    STRATEGY_registers, /* a reduction: the 64 lanes' sums in registers, one copy of the body for each vector of them */
    STRATEGY_memory     /* a reduction: sums in memory, the body once */
} LoopStrategy;

typedef struct PhaseShape {
    LoopStrategy strategy;
    int copies; /* of STRATEGY_copies: 1, 2, 4 */
} PhaseShape;

typedef struct InstShape {
    int16_t kept_in;     /* the phase that fills a buffer with a row's values, for later ones; -1: none */
    int16_t prefetch_in; /* a load: the phase that fetches the next row's; -1: none */
    bool streams;        /* a store: past the caches, where the addresses of the call allow */
    bool shared;         /* a library primitive: one function for all copies, wherever it is used */
} InstShape;

typedef enum StreamWhen { STREAM_never, STREAM_always, STREAM_when } StreamWhen;

typedef struct NestMapping {
    ShapeMode mode;
    int lanes;
    int copies;  /* columns: vectors side by side: 1, 2, 4 */
    bool masked; /* columns: one loop whose last iteration lacks lanes; else whole vectors, then a masked loop */
    int panel_columns, panel_rows; /* panels: columns whose sums are kept at once, rows of memory added at once */
    int index_bits; /* rows whose L dims are no one loop: of the positions that are taken apart, 32 or 64; else 0 */
    int n_groups, n_outer_groups, n_s_groups;
    DimGroup group[MAX_LOOP_DIMS];
    StreamWhen stream;
    int64_t stream_bytes; /* of STREAM_when: the stores that stream write more, by the sizes of the call */
    bool ragged;          /* rows: where they begin between vectors, streaming walks from the vector before */
    bool near;            /* what is fetched ahead goes to the nearest cache */
    int n_phases, n_insts, n_kept;
    PhaseShape *phase;
    InstShape *inst;
    int16_t *kept; /* the instructions with kept_in >= 0, in the order of their buffers */
} NestMapping;

/* The shape; NULL: memory is out (raised). The nest is one that kernel_verify accepts. */
NestMapping *shape_decide(Arena *arena, const Nest *nest, const Buf *bufs, const Machine *machine);
/* Other shapes of the nest than the decided one, which shape_verify accepts: to be measured. How many, at most room. */
int shape_variants(Arena *arena, const Nest *nest, const Buf *bufs, const Machine *machine, const NestMapping *decided,
                   NestMapping **out, int capacity);
/* Whether emitters may spell it; raises ST_INTERNAL saying what does not fit. */
Status shape_verify(const NestMapping *shape, const Nest *nest, const Buf *bufs, const Machine *machine);

/* Elements of the L and the S sequence; -1: known at run time only. */
int64_t shape_L_total(const NestMapping *shape);
int64_t shape_S_total(const NestMapping *shape);
/* Levels of sums of 64 that the phase's reductions over S need; 1: their order is free, or 64 rows are all. */
int shape_S_levels(const NestMapping *shape, const Nest *nest, const Phase *phase);
/* Whether the reduction's bits depend on the order of its elements [semantics B2]. */
bool red_is_ordered(const Nest *nest, const Inst *red);
static inline int shape_L_first(const NestMapping *shape) { return shape->n_outer_groups + shape->n_s_groups; }
static inline bool shape_is_rows(const NestMapping *shape) { return shape->mode == SHAPE_rows; }
/* L dims that are several loops: a lane's position in the row is taken apart into their indices. */
static inline bool shape_splits_rows(const NestMapping *shape) {
    return shape_is_rows(shape) && shape->n_groups - shape_L_first(shape) > 1;
}
/* The innermost outer dim that has a next index, whose rows are fetched ahead; -1: none. */
int shape_next_dim(const Nest *nest);

/* "shape k0_add_n0 {...}", as a stage prints it. */
void shape_print(const NestMapping *shape, const Nest *nest, Text *text);
/* The shape of this nest; the caller verifies it. Raises ST_PARSE. */
Status shape_parse(Arena *arena, TextReader *in, const Nest *nest, NestMapping **out);

#endif
