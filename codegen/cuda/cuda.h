/* cuda.h: loop IR to CUDA C: one program for all kernels of a plan that run on a GPU, as text for NVRTC. Like the CPU's
 * emitter it sees no tensor and no device pointer.
 *
 *   kernel -- cuda_mapping_decide --> CudaMapping -- cuda_print --> text after cuda_prelude
 *
 * A part is what a range of a launch's blocks does: a nest or a task of it (mapping.h). A function of one part takes
 * its arguments one by one; of several, a table of arguments for each kind of part, as parts with equal text are one
 * kind (AdamW over 20 tensors: one text, 20 rows). After the arguments come the number of the launch (int32) and the
 * stream's word of failed checks (Failed * of kernels/cuda/reduce.cuh, an Order behind it). Blocks are numbered in x.
 * Sizes are the call's: nothing but the nest's own numbers is in the text. */
#ifndef SINTER_CODEGEN_CUDA_H
#define SINTER_CODEGEN_CUDA_H
#include "codegen/cuda/mapping.h"
#include "ir/plan.h"

typedef enum KernelArgKind {                 /* 8 bytes each */
                             CUDA_buf,       /* `at` of the kernel's */
                             CUDA_param,     /* likewise; a float's bits */
                             CUDA_count,     /* elements along the outer dims of a part's nest */
                             CUDA_check,     /* of a part */
                             CUDA_workspace, /* a piece of workspace: `at` of the function's */
                             CUDA_range      /* two int32: the first block of a part, and the one behind its last */
} KernelArgKind;

typedef struct KernelArg {
    KernelArgKind kind;
    int part, at;
} KernelArg;

typedef struct CudaWorkspace { /* of a reduction: what it has left at a stage, by task */
    int nest, inst;
    CudaStage stage;
    int bytes; /* each */
} CudaWorkspace;

/* One launch. */
typedef struct CudaFunction {
    const char *name;
    int threads; /* of a block */
    int n_parts, n_args, n_workspaces,
        n_arguments; /* parameter i of the C function: the arguments from arguments[i] up to the next one's */
    const CudaPart *parts;
    const KernelArg *args;
    const CudaWorkspace *workspaces;
    const int *arguments;
} CudaFunction;

typedef struct CudaBound { /* a call's */
    void *const *bufs;     /* of the kernel's, on the device */
    const int64_t *params; /* likewise */
} CudaBound;

typedef struct KernelArgs {
    int64_t n_blocks;        /* 0: nothing is to be done */
    int64_t workspace_bytes; /* that the launch needs */
    int64_t at[KERNEL_MOST_ARGS];
    int64_t counts[KERNEL_MOST_ARGS];     /* by part: elements along the outer dims */
    int32_t ends[KERNEL_MOST_ARGS];       /* the block behind it */
    int64_t workspaces[KERNEL_MOST_ARGS]; /* by workspace: its offset */
} KernelArgs;
void cuda_fill(const Kernel *kernel, const CudaFunction *function, const CudaBound *bound, KernelArgs *out);
/* Where its workspace lies. */
void cuda_fill_workspace(const CudaFunction *function, int64_t address, KernelArgs *out);

typedef struct CudaText {
    int n; /* launches, in order */
    CudaFunction *functions;
} CudaText;

/* Appends the functions of n kernels to the text, which the caller puts after cuda_prelude; code[i] is that of kernel
 * i, in memory of the arena. Each has its mapping. ST_MEMORY. */
Status cuda_print(Arena *arena, const CudaKernel *kernels, int n, CudaText *code, Text *text);

/* The kernel of a template with a nest that goes over the whole result, row-major by the hole's dims; NULL: memory is
 * out. */
const Kernel *cuda_epilogue(Arena *arena, const Plan *plan, const Kernel *kernel);
/* Whether the result that a template leaves is of the operands' dtype, not of the compute type: that of an op which
 * rounds it before anything goes over it. */
bool cuda_narrow_tile(const Plan *plan, const Kernel *kernel);
/* What step `step` of a plan has for a program, mapped to the machine. Raises ST_UNSUPPORTED: no code. */
Status cuda_plan_kernel(Arena *arena, const Plan *plan, const Step *step, const Machine *machine, CudaKernel *out);
/* Whether the caller's memory is written by what a step stores to this buffer. */
bool cuda_stores_input(const Plan *plan, const Step *step, int buf);
/* The text of all kernels of a plan, for people: the stage "cuda". */
void cuda_dump(const Plan *plan, const Machine *machine, Text *text);

#endif
