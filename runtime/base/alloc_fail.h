/* alloc_fail.h: failing allocations, beside mem_fail_after (alloc.h), for tests alone. */
#ifndef SINTER_RUNTIME_BASE_ALLOC_FAIL_H
#define SINTER_RUNTIME_BASE_ALLOC_FAIL_H
#include "runtime/base/alloc.h"

/* Lets `n` more allocations of this thread succeed, then fails one; a negative n switches it off. */
void mem_fail_once(int64_t n);
/* Whether that one has come. */
bool mem_failed_once(void);

#endif
