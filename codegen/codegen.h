/* codegen.h: loop IR to code. Never sees a tensor or a device pointer.
 *
 * block/: a nest becomes a flat step array that runtime/cpu/interp.c runs with the block kernels: the eager engine for
 *         pointwise ops and reductions, and the fallback of everything compiled.
 * shape/: what shape a nest takes on a machine: decided before code is written, for every emitter.
 * llvm/:  kernels become object bytes; the module is opened by the runtime on first use and reached through one
 *         versioned table, so that a program that only runs eagerly never loads LLVM [semantics O4]. */
#ifndef SINTER_CODEGEN_CODEGEN_H
#define SINTER_CODEGEN_CODEGEN_H
#include "ir/loop.h"

#define LLVM_MODULE_VERSION 2
#define LLVM_MODULE_SYMBOL  "sinter_llvm_module"

typedef struct CodegenTimes {
    int64_t build_ns, passes_ns, emit_ns;
} CodegenTimes;

typedef struct CodegenResult {
    void *object; /* ELF relocatable bytes, malloc'd by the module, freed by its free_bytes */
    size_t bytes;
    CodegenTimes times;
    char message[512]; /* why not, if the status is not ST_OK */
    int bail;          /* BailCode of the failure */
} CodegenResult;

typedef struct NestMapping NestMapping; /* codegen/shape/shape.h */
typedef struct Machine Machine;

/* Each nest i of the request becomes the exported symbol names[i] with NestFn's signature. */
typedef struct CodegenRequest {
    int n_nests;
    const Nest *const *nests;
    const Buf *const *bufs;           /* of each nest's kernel */
    const NestMapping *const *shapes; /* of each nest, on this machine: from shape_decide, or checked by shape_verify */
    const char *const *names;
    const Machine *machine;              /* its level is an Isa of kernels.h */
    bool (*failpoint)(const char *name); /* the caller's failpoint(), or NULL */
} CodegenRequest;

typedef struct LlvmModuleTable {
    uint32_t version;
    const char *(*llvm_version)(void);
    Status (*compile)(const CodegenRequest *request, CodegenResult *result); /* thread-safe; own context per call */
    /* The text of the optimised module or its assembly, malloc'd; for dumps. NULL on failure. */
    char *(*text)(const CodegenRequest *request, bool assembly);
    void (*free_bytes)(void *bytes);
} LlvmModuleTable;

/* A nest as a step array: position-independent, one malloc block, freed by mem_free. Raises
 * ST_UNSUPPORTED for what it cannot express (nothing that lowering produces). */
typedef struct BlockProgram BlockProgram;
Status block_compile(const Nest *nest, const Buf *bufs, BlockProgram **out);
void block_print(const BlockProgram *program, Text *text);
size_t block_program_bytes(const BlockProgram *program);

#endif
