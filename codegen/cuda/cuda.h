/* cuda.h: loop IR to CUDA C: one program for all kernels of a plan that run on a GPU, as text for NVRTC. Like the CPU's
 * emitter it sees no tensor and no device pointer.
 *
 *   nest -- cuda_shape (a pure function) --> CudaShape: what a thread is -- cuda_print --> text after cuda_prelude
 *
 * Each nest becomes one function; equal ones are written once. Its parameters, in this order: the pointers of the
 * buffers that it touches (`bufs`), the kernel's parameters that it reads, as int64 (`params`; a float's bits), the
 * number of the launch (int32), the stream's word of failed checks (Failed * of kernels/cuda/reduce.cuh). A block has
 * CUDA_THREADS threads, blocks are numbered in x; cuda_threads says how many threads are needed in all. Sizes are the
 * call's: nothing but the nest's own numbers is in the text.
 *
 * Three mappings, which give the canonical orders exactly [kernels/README.md: Orders]:
 *   map      a thread makes 4 elements along the last outer group, with 16-byte accesses where addresses allow
 *   rows     L dims: 16 threads a row, 4 lanes of order L each
 *   columns  no L dims: a thread an index of the outer dims, one element of S after another */
#ifndef SINTER_CODEGEN_CUDA_H
#define SINTER_CODEGEN_CUDA_H
#include "codegen/shape/shape.h"
#include "ir/plan.h"

enum { CUDA_THREADS = 128, CUDA_ROW_THREADS = 16, CUDA_QUAD = 4, CUDA_ARGUMENT_BYTES = 4096 };

typedef enum CudaMode { CUDA_map, CUDA_rows, CUDA_columns } CudaMode;

typedef struct CudaShape {
    CudaMode mode;
    int n_groups, n_outer_groups, n_s_groups; /* outer groups, then S, then L */
    DimGroup group[MAX_LOOP_DIMS];
} CudaShape;
void cuda_shape(const Nest *nest, CudaShape *shape);
/* Threads that a launch needs, by the values of the nest's extents; 0: nothing is to be done. */
int64_t cuda_threads(const CudaShape *shape, const Nest *nest, const int64_t *extent);

typedef struct CudaNest {
    const Kernel *kernel;
    const Nest *nest;
    bool visible; /* writes memory that others see: does nothing once a check has failed */
} CudaNest;

typedef struct CudaFunction {
    const char *name;
    CudaShape shape;
    int n_bufs, n_params;
    const int *bufs, *params; /* of the kernel's, those that the nest uses, ascending */
    bool checks;              /* it has gathers, which may fail */
} CudaFunction;

/* Why there is no code for it; NULL: there is. */
const char *cuda_refusal(const CudaNest *nest);
/* Appends the functions of n nests to the text, which the caller puts after cuda_prelude; functions[i] is that of nest
 * i, in memory of the arena. ST_MEMORY; no nest is one that cuda_refusal names. */
Status cuda_print(Arena *arena, const CudaNest *nests, int n, CudaFunction *functions, Text *text);

/* The kernel of a template with a nest that goes over the whole result, row-major by the hole's dims; NULL: memory is
 * out. */
const Kernel *cuda_epilogue(Arena *arena, const Plan *plan, const Kernel *kernel);
/* Whether the result that a template leaves is of the operands' dtype, not of the compute type: that of an op which
 * rounds it before anything goes over it. */
bool cuda_narrow_tile(const Plan *plan, const Kernel *kernel);
/* The nests of a plan's kernels, in the order of its steps; of those steps where mine[step], NULL: of all. Raises
 * ST_UNSUPPORTED: one has no code. */
Status cuda_plan_nests(Arena *arena, const Plan *plan, const bool *mine, const CudaNest **nests, int *n);
/* Whether the caller's memory is written by what a step stores to this buffer. */
bool cuda_stores_input(const Plan *plan, const Step *step, int buf);
/* The text of all kernels of a plan, for people: the stage "cuda". */
void cuda_dump(const Plan *plan, Text *text);

#endif
