/* cuda.h: loop IR to CUDA C: one program for all kernels of a plan that run on a GPU, as text for NVRTC. Like the CPU's
 * emitter it sees no tensor and no device pointer.
 *
 *   kernel -> parts, which one launch or few have -- cuda_print --> text after cuda_prelude
 *
 * A part is what a range of a launch's blocks does: a nest, whose shape (cuda_shape, a pure function) says what a
 * thread is. A function of one part takes its words one by one; of several, a table of words for each kind of part, as
 * parts with equal text are one kind (AdamW over 20 tensors: one text, 20 rows). After the words come the number of the
 * launch (int32) and the stream's word of failed checks (Failed * of kernels/cuda/reduce.cuh, an Order behind it). A
 * block has CUDA_THREADS threads, blocks are numbered in x. Sizes are the call's: nothing but the nest's own numbers is
 * in the text.
 *
 * Parts that depend on each other have levels: a block takes its number when it begins, and one of level 1 waits until
 * all of level 0 are done, which have begun before it (block_in_order in kernels/cuda/reduce.cuh). Blocks count
 * themselves at one address: a kernel of very many is several launches instead.
 *
 * Three mappings, which give the canonical orders exactly [kernels/orders.md]:
 *   map      a thread makes 4 elements along the last outer group, with 16-byte accesses where addresses allow
 *   rows     L dims: 16 threads a row, 4 lanes of order L each
 *   columns  no L dims: a thread an index of the outer dims, one element of S after another
 *
 * Few long rows or columns are split: chunks of 1,024 elements of L, of 64 of S, are tasks of their own, whose partial
 * results lie in workspace (spaces) until a later part joins them in the canonical order. Bits do not depend on it. */
#ifndef SINTER_CODEGEN_CUDA_H
#define SINTER_CODEGEN_CUDA_H
#include "codegen/shape/shape.h"
#include "ir/plan.h"

enum {
    CUDA_THREADS = 128,
    CUDA_ROW_THREADS = 16,
    CUDA_QUAD = 4,
    CUDA_ARGUMENT_BYTES = 4096,
    CUDA_MOST_WORDS = CUDA_ARGUMENT_BYTES / 8 - 2, /* with the launch's number and the word of checks */
    CUDA_ORDERED_BLOCKS = 1 << 15,                 /* that count themselves */
    CUDA_FEW_THREADS = 1 << 16                     /* a nest of rows or columns that has no more is split */
};

typedef enum CudaMode { CUDA_map, CUDA_rows, CUDA_columns } CudaMode;

typedef struct CudaShape {
    CudaMode mode;
    int n_groups, n_outer_groups, n_s_groups; /* outer groups, then S, then L */
    DimGroup group[MAX_LOOP_DIMS];
} CudaShape;
void cuda_shape(const Nest *nest, CudaShape *shape);
/* A map whose outer dims are one: how many elements it has is a word, so that maps of any size are one text. */
bool cuda_is_flat(const CudaShape *shape);

typedef enum CudaTask {
    CUDA_all,      /* a whole nest */
    CUDA_chunks,   /* a reduction's chunks: 16 threads one of L, a thread one of S */
    CUDA_join_l,   /* their results, for each index of S: 16 threads */
    CUDA_join_s,   /* results of chunks of S, or of all indices of S: a thread */
    CUDA_once,     /* what is stored by outer index alone: a thread */
    CUDA_elements, /* what is stored along a row, by chunks */
} CudaTask;

typedef struct CudaPart {
    int nest;  /* of the kernel */
    int level; /* it begins when all parts of lower ones are done */
    CudaTask task;
    int phase, n_after; /* not of a whole nest: its phase; maps over outer that follow in it */
    bool last;          /* of a reduction: it leaves results */
    int check;          /* added to the number of an instruction whose check fails, so that nests are told apart */
    CudaShape shape;
} CudaPart;
/* Blocks of a part, by the values of its nest's extents; 0: nothing is to be done. */
int64_t cuda_blocks(const CudaPart *part, const Nest *nest, const int64_t *extent);

typedef enum CudaWordKind {             /* 8 bytes each */
                            CUDA_buf,   /* `at` of the kernel's */
                            CUDA_param, /* likewise; a float's bits */
                            CUDA_count, /* elements along the outer dims of a part's nest */
                            CUDA_check, /* of a part */
                            CUDA_space, /* a piece of workspace: `at` of the function's */
                            CUDA_range  /* two int32: the first block of a part, and the one behind its last */
} CudaWordKind;

typedef struct CudaWord {
    CudaWordKind kind;
    int part, at;
} CudaWord;

typedef enum CudaStage { CUDA_of_chunks, CUDA_of_l, CUDA_results } CudaStage;
typedef struct CudaSpace { /* of a reduction: what it has left at a stage, by task */
    int nest, inst;
    CudaStage stage;
    int bytes; /* each */
} CudaSpace;
int64_t cuda_space_count(const CudaShape *shape, const Nest *nest, const int64_t *extent, CudaStage stage);

/* One launch. */
typedef struct CudaFunction {
    const char *name;
    int n_parts, n_words, n_spaces, n_arguments; /* argument i: the words from argument[i] up to the next one's */
    const CudaPart *parts;
    const CudaWord *words;
    const CudaSpace *spaces;
    const int *arguments;
} CudaFunction;

typedef struct CudaBound { /* a call's */
    void *const *bufs;     /* of the kernel's, on the device */
    const int64_t *params; /* likewise */
} CudaBound;

typedef struct CudaGiven {
    int64_t n_blocks;    /* 0: nothing is to be done */
    int64_t space_bytes; /* of workspace that the launch needs */
    int64_t at[CUDA_MOST_WORDS];
    int64_t counts[CUDA_MOST_WORDS]; /* by part: elements along the outer dims */
    int32_t ends[CUDA_MOST_WORDS];   /* the block behind it */
    int64_t spaces[CUDA_MOST_WORDS]; /* by space: its offset */
} CudaGiven;
void cuda_fill(const Kernel *kernel, const CudaFunction *function, const CudaBound *bound, CudaGiven *out);
/* Where its workspace lies. */
void cuda_fill_space(const CudaFunction *function, int64_t address, CudaGiven *out);

typedef enum CudaSplit { CUDA_split_few, CUDA_split_none, CUDA_split_all } CudaSplit;
typedef struct CudaKernel {
    const Kernel *kernel;
    const bool *visible; /* by nest: writes memory that others see, does nothing once a check has failed */
    const int64_t *hint; /* values of its parameters by which is chosen; NULL: it has none */
    CudaSplit split;     /* which nests; others than few are for tests */
} CudaKernel;

typedef struct CudaText {
    int n; /* launches, in order */
    CudaFunction *functions;
} CudaText;

/* Why there is no code for it; NULL: there is. */
const char *cuda_refusal(const CudaKernel *kernel);
/* Appends the functions of n kernels to the text, which the caller puts after cuda_prelude; code[i] is that of kernel
 * i, in memory of the arena. ST_MEMORY; none is one that cuda_refusal names. */
Status cuda_print(Arena *arena, const CudaKernel *kernels, int n, CudaText *code, Text *text);

/* The kernel of a template with a nest that goes over the whole result, row-major by the hole's dims; NULL: memory is
 * out. */
const Kernel *cuda_epilogue(Arena *arena, const Plan *plan, const Kernel *kernel);
/* Whether the result that a template leaves is of the operands' dtype, not of the compute type: that of an op which
 * rounds it before anything goes over it. */
bool cuda_narrow_tile(const Plan *plan, const Kernel *kernel);
/* What step `step` of a plan has for a program. Raises ST_UNSUPPORTED: no code. */
Status cuda_plan_kernel(Arena *arena, const Plan *plan, const Step *step, CudaKernel *out);
/* Whether the caller's memory is written by what a step stores to this buffer. */
bool cuda_stores_input(const Plan *plan, const Step *step, int buf);
/* The text of all kernels of a plan, for people: the stage "cuda". */
void cuda_dump(const Plan *plan, Text *text);

#endif
