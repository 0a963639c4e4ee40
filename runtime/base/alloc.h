/* alloc.h: every heap allocation of the library goes through here, so that tests can make the n-th one fail.
 * All functions raise ST_MEMORY and return NULL when memory is out; sizes are in bytes; free(NULL) is allowed. */
#ifndef SINTER_RUNTIME_BASE_ALLOC_H
#define SINTER_RUNTIME_BASE_ALLOC_H
#include "runtime/base/base.h"

#define HUGE_PAGE ((size_t)2 << 20)

void *mem_alloc(size_t bytes);                     /* uninitialised; 0 bytes gives a valid pointer */
void *mem_zero(size_t bytes);                      /* zeroed */
void *mem_resize(void *block, size_t bytes);       /* the old block stays valid on failure */
void *mem_aligned(size_t alignment, size_t bytes); /* uninitialised; freed by mem_free */
/* For blocks of HUGE_PAGE bytes and more: aligned to it and of huge pages, where the system has them, so that the first
 * touch costs one fault for 2 MiB and not 512. Uninitialised; freed by mem_free. */
void *mem_huge(size_t bytes);
void mem_free(void *block);
char *mem_strdup(const char *text);

/* Tests: let `n` more allocations of this thread succeed, then fail every one; a negative n switches it off. */
void mem_fail_after(int64_t n);
int64_t mem_count(void); /* allocations made by this thread so far */
/* Tests: every allocation of more bytes fails, on all threads, as on a small machine; SIZE_MAX switches it off. */
void mem_fail_above(size_t bytes);

#endif
