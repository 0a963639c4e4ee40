/* code_cache.h: generated code by structure: equal nests are compiled once per process and shared
 * by all functions. */
#ifndef SINTER_RUNTIME_CODE_CACHE_H
#define SINTER_RUNTIME_CODE_CACHE_H
#include "codegen/shape/machine.h"
#include "runtime/compile/compile.h"

/* The code of a nest, in the shape that `tuned` says (Step.tuned), if it is there, else NULL; it stays until it was
 * given back as often as it was taken. What nobody has is kept for equal nests to come, up to CODE_MOST_UNUSED bytes.
 * Thread-safe, as all of these. */
NestFn *code_acquire(const Nest *nest, const Buf *bufs, uint64_t tuned);
void code_release(NestFn *fn);
enum { CODE_MOST_UNUSED = 2 << 20 };
/* Between them no code goes. */
void code_hold(void);
void code_let_go(void);
typedef struct CodeCounts { /* of the process: mapped pages, with those that nobody has */
    size_t bytes, unused_bytes;
    int modules;
} CodeCounts;
CodeCounts code_counts(void);
/* Decides the shapes of the plan's nests and generates what code is missing, in one module. On failure nothing is added
 * and info says why. */
Status code_generate(Plan *plan, CompileReport *info);
/* The machine that runs, at the level that is used: what shapes are decided for. */
const Machine *code_machine(void);

#endif
