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
/* Blocks below HUGE_PAGE bytes by their size; class from 0 to cpu_alloc_classes() - 1. Under SINTER_PLAIN_MALLOC there
 * are none. */
typedef struct CpuClass {
    int64_t bytes;                /* of a block */
    int64_t current, peak, total; /* blocks in use, most so far, all that were given */
    int64_t cached;               /* for the next one that asks */
} CpuClass;
int cpu_alloc_classes(void);
CpuClass cpu_alloc_class(int class);
void cpu_alloc_peak_begin(void); /* `peak` is from now on that of what is current now */

/* alloc_cpu_held.c: who asked for the blocks that are in use, while the setting memory_sites is on. */
extern _Atomic int64_t cpu_held; /* blocks noted */
void cpu_held_record(void *block, size_t bytes);
void cpu_held_forget(void *block);
/* JSON, [{"bytes": 8192, "blocks": 2, "stack": ["train.c:57", "main.c:3"]}, ...]: by stack, most bytes first. */
void cpu_held_print(CachingSiteName *site_name, Text *out);

/* alloc_cpu_report.c: all that is known of the CPU's memory, as a table and as JSON (caching_snapshot.c). */
void cpu_summary(Text *out);
void cpu_snapshot(CachingSiteName *site_name, Text *out);

/* alloc_cpu_large.c: blocks of at least HUGE_PAGE bytes. */
Caching *large_caching(void); /* NULL raises */
void *large_alloc(size_t bytes);
void large_free(void *block, size_t most); /* keeps at most so much */
void large_trim(size_t most);
void large_peak_begin(void);
int64_t large_reserved(void);

#endif
