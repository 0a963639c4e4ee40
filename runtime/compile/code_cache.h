/* code_cache.h: generated code by structure: equal nests are compiled once per process and shared
 * by all functions. */
#ifndef SINTER_RUNTIME_CODE_CACHE_H
#define SINTER_RUNTIME_CODE_CACHE_H
#include "codegen/shape/machine.h"
#include "runtime/compile/compile.h"

/* The code of a nest if it was generated before, else NULL. Thread-safe. */
NestFn *code_find(const Nest *nest, const Buf *bufs);
/* Decides the shapes of the plan's nests and generates what code is missing, in one module. On failure nothing is added
 * and info says why. */
Status code_generate(Plan *plan, CompileInfo *info);
/* The machine that runs, at the level that is used: what shapes are decided for. */
const Machine *code_machine(void);

#endif
