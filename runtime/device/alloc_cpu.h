/* alloc_cpu.h: the CPU's caching allocator: size classes, huge pages above 2 MiB, bounded retention. Thread-safe. */
#ifndef SINTER_RUNTIME_ALLOC_CPU_H
#define SINTER_RUNTIME_ALLOC_CPU_H
#include "runtime/core/tensor.h"

void *cpu_alloc(size_t bytes);            /* 64-byte aligned, uninitialised; NULL raises */
void cpu_free(void *block, size_t bytes); /* bytes as given to cpu_alloc */
void cpu_alloc_bound(size_t bytes);       /* how much may be kept; frees what is above */
void cpu_alloc_trim(void);                /* gives all kept memory back */
void cpu_alloc_stats(int64_t *now, int64_t *most, int64_t *held);
void cpu_alloc_peak_begin(void); /* `peak` is from now on that of what is current now */

#endif
