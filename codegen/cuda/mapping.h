/* mapping.h: how a kernel's nests run on a GPU, decided before any text is written: what a thread is, which tasks a
 * nest is cut into, which of them are one launch, and what waits for what.
 *
 *     kernel, machine  -- cuda_mapping_decide (a pure function) -->  CudaMapping  -- cuda_print -->  CUDA C
 *
 * The record is small data, as that of a CPU [codegen/shape/shape.h]: it prints, parses back, and is checked against
 * its kernel (an edited one too). All mappings that cuda_mapping_verify accepts give the same bits; they differ in
 * speed. Three modes, which give the canonical orders exactly [B2]:
 *
 *   map      a thread makes 4 elements along the last outer group, with 16-byte accesses where addresses allow
 *   rows     L dims: 16 threads a row, 4 lanes of order L each
 *   columns  no L dims: a thread an index of the outer dims, one element of S after another
 *
 * Few long rows or columns are split: chunks of L or of S are tasks of their own, whose partial results lie in
 * workspace until a later task joins them in the canonical order:
 *
 *   softmax of 4 rows of 100,000:  chunks of the maximum | join_l | chunks of the sum | join_l | elements
 *   sums of 768 columns of 8,192:  chunks of 64 rows     | join_s
 *   of an outer dim, S and L:      chunks of L           | join_l, for each index of S | join_s
 *
 * What is stored along rows comes by chunks then, too. Values of earlier phases are made again, results of reductions
 * are read where they were left.
 *
 * Tasks of one launch that depend on each other have levels: a block takes its number when it begins, and one of level
 * 1 waits until all of level 0 are done, which have begun before it (block_in_order in kernels/cuda/reduce.cuh). Blocks
 * count themselves at one address: a kernel of very many is several launches instead. */
#ifndef SINTER_CODEGEN_CUDA_MAPPING_H
#define SINTER_CODEGEN_CUDA_MAPPING_H
#include "codegen/shape/shape.h"

enum {
    CUDA_ROW_THREADS = 16,
    CUDA_QUAD = 4,
    CUDA_WARP = 32,
    CUDA_MOST_THREADS = 1024, /* of a block */
    CUDA_MOST_UNROLL = 32,
    CUDA_ARGUMENT_BYTES = 4096,
    KERNEL_MOST_ARGS = CUDA_ARGUMENT_BYTES / 8 - 2 /* with the launch's number and the word of checks */
};

_Static_assert(CUDA_ROW_THREADS *CUDA_QUAD == LANES_L, "the threads of a row have the lanes of order L");

typedef enum CudaMode { CUDA_map, CUDA_rows, CUDA_columns } CudaMode;

typedef struct CudaNestMapping {
    CudaMode mode;
    int launch, threads;                      /* of the kernel's launches; of its blocks: whole warps */
    int n_groups, n_outer_groups, n_s_groups; /* outer groups, then S, then L */
    DimGroup group[MAX_LOOP_DIMS];
} CudaNestMapping;

typedef enum CudaTask {
    CUDA_whole,    /* a whole nest */
    CUDA_chunks,   /* a reduction's chunks: 16 threads one of L, a thread one of S */
    CUDA_join_l,   /* their results, for each index of S: 16 threads */
    CUDA_join_s,   /* results of chunks of S, or of all indices of S: a thread */
    CUDA_once,     /* what is stored by outer index alone: a thread */
    CUDA_elements, /* what is stored along a row, by chunks */
    CUDA_TASKS
} CudaTask;

/* What a range of a launch's blocks does. */
typedef struct CudaPart {
    int nest;  /* of the kernel */
    int level; /* of its launch: it begins when all parts of lower ones are done */
    CudaTask task;
    int phase, n_after; /* not of a whole nest: its phase; maps over outer that follow in it */
    int unroll;         /* elements that an iteration of its innermost loop does; 1 where it has none */
    int check;          /* added to the number of an instruction whose check fails: nests of a kernel are told apart */
    CudaNestMapping mapping; /* of the nest: equal in all its parts */
} CudaPart;

/* Of a kernel: parts in the order of their nests, and of launches. */
typedef struct CudaMapping {
    int n;
    CudaPart *parts;
} CudaMapping;

typedef enum CudaSplit { CUDA_split_few, CUDA_split_none, CUDA_split_all } CudaSplit;
typedef struct CudaKernel {
    const Kernel *kernel;
    const bool *visible; /* by nest: writes memory that others see, does nothing once a check has failed */
    const int64_t *hint; /* values of its parameters by which is chosen; NULL: it has none */
    CudaSplit split;     /* which nests; others than few are for tests */
    const CudaMapping *mapping;
} CudaKernel;

/* The mapping; NULL: memory is out (raised). The kernel is one that kernel_verify and cuda_refusal accept. */
CudaMapping *cuda_mapping_decide(Arena *arena, const CudaKernel *of, const Machine *machine);
/* Why no launch takes a nest of the kernel; NULL: there is code. */
const char *cuda_refusal(const CudaKernel *kernel);
/* Whether it may be spelled; raises ST_INTERNAL saying what does not fit. */
Status cuda_mapping_verify(const CudaMapping *mapping, const Kernel *kernel, const Machine *machine);

/* "shape k0_add_n0 {...}" for each nest. */
void cuda_mapping_print(const CudaMapping *mapping, const Kernel *kernel, Text *text);
/* The mapping of this kernel; the caller verifies it. Raises ST_PARSE. */
Status cuda_mapping_parse(Arena *arena, TextReader *in, const Kernel *kernel, CudaMapping **out);

/* record.c: what follows from the record */
CudaMapping *cuda_mapping_new(Arena *arena, const Kernel *kernel); /* no part yet, room for all; NULL: memory is out */
CudaMode cuda_mode_of(const Nest *nest);                           /* the one that there is for it */
bool cuda_may_split(const Nest *nest);
/* Kernel arguments that a part of the nest takes, at most. */
int cuda_mapping_args(const Kernel *kernel, const Nest *nest, CudaTask task);
/* How many parts are one launch, from number `first` on. */
int cuda_mapping_launch_parts(const CudaMapping *mapping, int first);
/* Whether 16 threads have one task together. */
bool cuda_part_is_shared(const CudaPart *part);
/* Whether it leaves results of its reductions. */
bool cuda_part_has_results(const CudaPart *part, const Nest *nest);
/* Whether it goes through elements one after another: of S, of a list, or four along a row. That the four are unrolled
 * is no decision: they lie in registers. */
bool cuda_part_loops(const CudaPart *part);
/* Whose elements a thread has four of; -1: none, or several dims. */
int cuda_mapping_quad_group(const CudaNestMapping *mapping);
/* A map whose outer dims are one: how many elements it has is an argument, so that maps of any size are one text. */
bool cuda_mapping_is_flat(const CudaNestMapping *mapping);

int64_t cuda_extent_product(const int64_t *extent, int first, int last);
/* Blocks of a part, by the values of its nest's extents; 0: nothing is to be done. */
int64_t cuda_blocks(const CudaPart *part, const Nest *nest, const int64_t *extent);
/* What a reduction leaves at a stage, by task: how many. */
typedef enum CudaStage { CUDA_of_chunks, CUDA_of_l, CUDA_results } CudaStage;
int64_t cuda_workspace_count(const CudaNestMapping *mapping, const Nest *nest, const int64_t *extent, CudaStage stage);

#endif
