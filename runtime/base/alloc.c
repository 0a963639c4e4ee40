/* alloc.c: thin wrappers over malloc with a per-thread countdown for the allocation-failure sweep. */
#include "runtime/base/alloc_fail.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "runtime/base/error.h"

static HOT_THREAD_LOCAL int64_t countdown = -1;
static HOT_THREAD_LOCAL int64_t made;
static HOT_THREAD_LOCAL bool once; /* the countdown's end is one failure, not all that come */
static size_t most = SIZE_MAX;     /* bytes of one allocation; set while no other thread allocates */

void mem_fail_after(int64_t n) {
    countdown = n;
    once = false;
}
void mem_fail_once(int64_t n) {
    countdown = n;
    once = n >= 0;
}
bool mem_failed_once(void) { return countdown < 0; }
int64_t mem_count(void) { return made; }
void mem_fail_above(size_t bytes) { most = bytes; }

static bool refused(size_t bytes) {
    made++;
    if (UNLIKELY(bytes > most)) return true;
    if (LIKELY(countdown < 0)) return false;
    if (countdown == 0) return countdown -= once, true;
    countdown--;
    return false;
}

static void *checked(void *block, size_t bytes) {
    if (UNLIKELY(!block)) error_raise(ST_MEMORY, "out of memory: %zu bytes", bytes);
    return block;
}

void *mem_alloc(size_t bytes) { return checked(refused(bytes) ? NULL : malloc(bytes ? bytes : 1), bytes); }
void *mem_zero(size_t bytes) { return checked(refused(bytes) ? NULL : calloc(1, bytes ? bytes : 1), bytes); }

void *mem_resize(void *block, size_t bytes) {
    return checked(refused(bytes) ? NULL : realloc(block, bytes ? bytes : 1), bytes);
}

void *mem_aligned(size_t alignment, size_t bytes) {
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    return checked(refused(bytes) ? NULL : aligned_alloc(alignment, rounded ? rounded : alignment), bytes);
}

void *mem_huge(size_t bytes) {
    void *const block = mem_aligned(HUGE_PAGE, bytes);
    if (block) madvise(block, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); /* only advice: failure costs speed */
    return block;
}

void mem_free(void *block) { free(block); }

char *mem_strdup(const char *text) {
    const size_t bytes = strlen(text) + 1;
    char *const copy = mem_alloc(bytes);
    if (copy) memcpy(copy, text, bytes);
    return copy;
}
