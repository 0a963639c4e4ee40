/* alloc_cpu.h: the CPU's caching allocator: size classes, the policy of all devices from 2 MiB on, bounded retention.
 * Thread-safe. */
#ifndef SINTER_RUNTIME_ALLOC_CPU_H
#define SINTER_RUNTIME_ALLOC_CPU_H
#include "runtime/core/tensor.h"
#include "runtime/device/caching.h"

void *cpu_alloc(size_t bytes);            /* 64-byte aligned, uninitialised; NULL raises */
void cpu_free(void *block, size_t bytes); /* bytes as given to cpu_alloc */
void cpu_alloc_bound(size_t bytes);       /* how much may be kept; frees what is above */
void cpu_alloc_trim(void);                /* gives all kept memory back */
void cpu_alloc_stats(int64_t *now, int64_t *most, int64_t *held);
void cpu_alloc_peak_begin(void); /* `peak` is from now on that of what is current now */

/* alloc_cpu_large.c: blocks of at least HUGE_PAGE bytes. */
Caching *large_caching(void); /* NULL raises */
void *large_alloc(size_t bytes);
void large_free(void *block, size_t most); /* keeps at most so much */
void large_trim(size_t most);
void large_peak_begin(void);
int64_t large_reserved(void);

#endif
