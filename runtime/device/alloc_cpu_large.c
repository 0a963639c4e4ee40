/* alloc_cpu_large.c: the CPU's large blocks: the policy of all devices (caching.h), over what the system gives, in huge
 * pages. There are no streams, and nothing is waited for. It is made at the first large block and stays. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/core/state.h"
#include "runtime/device/alloc_cpu.h"

static SourceAnswer system_alloc(void *context, size_t bytes, uintptr_t *at) {
    (void)context;
    *at = (uintptr_t)mem_huge(bytes);
    if (*at) return SOURCE_done;
    error_clear(); /* the allocator says it, with what it holds */
    return SOURCE_full;
}

static void system_free(void *context, uintptr_t at, size_t bytes) {
    (void)context, (void)bytes;
    mem_free((void *)at);
}

static bool nothing_to_wait_for(void *context) {
    (void)context;
    return true;
}

static void system_left(void *context, size_t *bytes, size_t *total) {
    (void)context;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *bytes = (size_t)sysconf(_SC_AVPHYS_PAGES) * page, *total = (size_t)sysconf(_SC_PHYS_PAGES) * page;
}

static void the_only_stream(void *context, StreamId stream, char *buffer, size_t size) {
    (void)context, (void)stream;
    snprintf(buffer, size, "cpu");
}

static _Atomic(Caching *) large;

/* Events and pages of addresses are nothing that anybody asks for here. */
static void make_large(void) {
    static const MemorySource source = {.take = system_alloc,
                                        .give = system_free,
                                        .wait = nothing_to_wait_for,
                                        .left = system_left,
                                        .stream_name = the_only_stream,
                                        .site = state_memory_site};
    large = caching_new(&source, NULL, "cpu", &(CachingConfig){.tight = true});
}

Caching *large_caching(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (LIKELY(large != NULL)) return large;
    pthread_mutex_lock(&lock);
    if (!large) make_large();
    pthread_mutex_unlock(&lock);
    return large;
}

void *large_alloc(size_t bytes) {
    Caching *const caching = large_caching();
    return caching ? (void *)caching_allocate(caching, bytes, NULL) : NULL;
}

void large_free(void *block, size_t most) {
    caching_free(large, (uintptr_t)block);
    caching_trim(large, most);
}

void large_trim(size_t most) {
    if (large) caching_trim(large, most);
}

void large_peak_begin(void) {
    if (large) caching_peak_begin(large);
}

int64_t large_reserved(void) {
    CachingStats stats;
    if (!large) return 0;
    caching_stats(large, &stats);
    return stats.bytes[CACHING_all][MEASURE_reserved].current;
}
