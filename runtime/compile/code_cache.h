/* code_cache.h: generated code by structure: equal nests are compiled once per process and shared
 * by all functions. */
#ifndef SINTER_RUNTIME_CODE_CACHE_H
#define SINTER_RUNTIME_CODE_CACHE_H
#include "runtime/compile/compile.h"

/* The code of a nest if it was generated before, else NULL. Thread-safe. */
NestFn *code_find(const Nest *nest, const Buf *bufs);
/* Generates what is missing among the plan's nests, in one module. On failure nothing is added and
 * info says why. */
Status code_generate(const Plan *plan, CompileInfo *info);
/* What a nest may store before its stores go past the caches. */
int64_t code_stream_bytes(void);

#endif
