/* fake_memory.h: a source of memory for a caching allocator (runtime/device/caching.h) that has numbers for addresses
 * and a clock for each stream: what it gives is written down, so that tests compare it with what was worked out by
 * hand. Ranges never come twice. A stream's work has numbers: its event passes when fake_finish says that far. */
#ifndef SINTER_TESTS_UNIT_FAKE_MEMORY_H
#define SINTER_TESTS_UNIT_FAKE_MEMORY_H
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/device/caching_internal.h"

/* As ck_assert, which writes a line for each that holds: these are many. */
#define HOLDS(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) ck_abort_msg("does not hold: %s", #condition);                                               \
    } while (0)

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum { FAKE_STREAMS = 4, FAKE_RANGES = 4096 };

typedef struct FakeRange {
    uintptr_t at;
    size_t bytes;
} FakeRange;

typedef struct FakeEvent {
    int stream, number;
} FakeEvent;

typedef struct FakeMemory {
    size_t total, used;
    uintptr_t next;
    FakeRange ranges[FAKE_RANGES]; /* with memory, taken or mapped */
    int n_ranges, n_reserved;
    int begun[FAKE_STREAMS], done[FAKE_STREAMS]; /* numbers of the last work */
    int n_events;                                /* that exist */
    int n_takes, n_gives, n_maps, n_unmaps, n_reserves, n_waits;
    size_t last_taken;
    int calls, fail_at; /* the call of that number fails; -1: none */
    bool fails_full;    /* with no memory, else with an error */
    const void *site;   /* of whoever asks for memory */
    bool no_pages;      /* it has no addresses without memory */
    bool lost;          /* from then on nothing can be waited for */
} FakeMemory;

static FakeMemory fake;

/* Streams are the numbers 0 to 3. */
static inline StreamId fake_stream(int number) { return (StreamId)(uintptr_t)(number * 16 + 16); }
static inline int fake_number(StreamId stream) { return (int)((uintptr_t)stream / 16 - 1); }

static inline bool fake_fails(void) { return fake.calls++ == fake.fail_at; }

static inline SourceAnswer fake_failure(void) {
    if (fake.fails_full) return SOURCE_full;
    error_raise(ST_DEVICE, "fake: fails as told");
    return SOURCE_failed;
}

static inline void fake_add(uintptr_t at, size_t bytes) {
    ck_assert_int_lt(fake.n_ranges, FAKE_RANGES);
    fake.ranges[fake.n_ranges++] = (FakeRange){at, bytes};
    fake.used += bytes;
}

static inline void fake_remove(uintptr_t at, size_t bytes) {
    int i = 0;
    while (i < fake.n_ranges && fake.ranges[i].at != at) i++;
    ck_assert_msg(i < fake.n_ranges, "what is given back was never taken");
    ck_assert_uint_eq(fake.ranges[i].bytes, bytes);
    fake.used -= bytes;
    fake.ranges[i] = fake.ranges[--fake.n_ranges];
}

static inline uintptr_t fake_addresses(size_t bytes) {
    const uintptr_t at = fake.next;
    fake.next += bytes + MIB; /* a gap, so that no two are neighbours */
    fake.next = (fake.next + MIB - 1) / MIB * MIB;
    return at;
}

static inline SourceAnswer fake_take(void *context, size_t bytes, uintptr_t *at) {
    (void)context;
    if (fake_fails()) return fake_failure();
    if (bytes > fake.total - fake.used) return SOURCE_full;
    fake.n_takes++, fake.last_taken = bytes;
    fake_add(*at = fake_addresses(bytes), bytes);
    return SOURCE_done;
}

static inline void fake_give(void *context, uintptr_t at, size_t bytes) {
    (void)context;
    fake.n_gives++;
    fake_remove(at, bytes);
}

static inline size_t fake_page(void *context) {
    (void)context;
    return fake.no_pages ? 0 : 2 * MIB;
}

static inline SourceAnswer fake_reserve(void *context, size_t bytes, uintptr_t *at) {
    (void)context;
    if (fake_fails()) return fake_failure();
    fake.n_reserves++, fake.n_reserved++;
    *at = fake_addresses(bytes);
    return SOURCE_done;
}

static inline void fake_unreserve(void *context, uintptr_t at, size_t bytes) {
    (void)context, (void)at, (void)bytes;
    for (int i = 0; i < fake.n_ranges; i++) HOLDS(fake.ranges[i].at < at || fake.ranges[i].at >= at + bytes);
    fake.n_reserved--;
}

static inline SourceAnswer fake_map(void *context, uintptr_t at, size_t bytes) {
    (void)context;
    if (fake_fails()) return fake_failure();
    if (bytes > fake.total - fake.used) return SOURCE_full;
    for (int i = 0; i < fake.n_ranges; i++) HOLDS(fake.ranges[i].at != at);
    fake.n_maps++;
    fake_add(at, bytes);
    return SOURCE_done;
}

static inline void fake_unmap(void *context, uintptr_t at, size_t bytes) {
    (void)context;
    fake.n_unmaps++;
    fake_remove(at, bytes);
}

static inline bool fake_record(void *context, StreamId stream, void **event) {
    (void)context;
    if (fake.lost || fake_fails()) return false;
    FakeEvent *const made = malloc(sizeof *made);
    *made = (FakeEvent){fake_number(stream), fake.begun[fake_number(stream)]};
    *event = made;
    fake.n_events++;
    return true;
}

static inline bool fake_passed(void *context, void *event) {
    (void)context;
    const FakeEvent *const made = event;
    return !fake.lost && fake.done[made->stream] >= made->number;
}

static inline void fake_forget(void *context, void *event) {
    (void)context;
    free(event);
    fake.n_events--;
}

static inline bool fake_wait(void *context) {
    (void)context;
    if (fake.lost) return false;
    fake.n_waits++;
    memcpy(fake.done, fake.begun, sizeof fake.done);
    return true;
}

static inline void fake_left(void *context, size_t *bytes, size_t *total) {
    (void)context;
    *bytes = fake.total - fake.used, *total = fake.total;
}

static inline void fake_stream_name(void *context, StreamId stream, char *buffer, size_t size) {
    (void)context;
    snprintf(buffer, size, "stream %d", fake_number(stream));
}

static inline const void *fake_site(void) { return fake.site; }

static const MemorySource fake_source = {.take = fake_take,
                                         .give = fake_give,
                                         .page = fake_page,
                                         .reserve = fake_reserve,
                                         .unreserve = fake_unreserve,
                                         .map = fake_map,
                                         .unmap = fake_unmap,
                                         .record = fake_record,
                                         .passed = fake_passed,
                                         .forget = fake_forget,
                                         .wait = fake_wait,
                                         .left = fake_left,
                                         .stream_name = fake_stream_name,
                                         .site = fake_site};

/* A device of that much memory, and its allocator. */
static inline Caching *fake_begin(size_t total, CachingConfig config) {
    fake = (FakeMemory){.total = total, .next = 1 << 30, .fail_at = -1};
    Caching *const caching = caching_new(&fake_source, NULL, "fake:0", &config);
    ck_assert_ptr_nonnull(caching);
    return caching;
}

/* Everything goes back. */
static inline void fake_end(Caching *caching) {
    caching_delete(caching);
    ck_assert_int_eq(fake.n_ranges, 0);
    ck_assert_int_eq(fake.n_reserved, 0);
    ck_assert_int_eq(fake.n_events, 0);
}

/* The stream has work that is not done; that it is done. */
static inline void fake_work(int stream) { fake.begun[stream]++; }
static inline void fake_finish(int stream) { fake.done[stream] = fake.begun[stream]; }

/* what is true of an allocator at any time ------------------------------------------------------- */

static inline int count_tree(const MemoryBlock *root, const MemoryBlock *low, const MemoryBlock *high) {
    if (!root) return 0;
    HOLDS(root->state == MEMORY_free);
    if (low) HOLDS(low->bytes < root->bytes || (low->bytes == root->bytes && low->at < root->at));
    if (high) HOLDS(root->bytes < high->bytes || (root->bytes == high->bytes && root->at < high->at));
    return 1 + count_tree(root->left, low, root) + count_tree(root->right, root, high);
}

typedef struct FakeSums {
    int64_t bytes[MEASURE_COUNT], counts[MEASURE_COUNT];
} FakeSums;

static inline void sum_up(FakeSums *sums, CachingMeasure measure, size_t bytes) {
    sums->bytes[measure] += (int64_t)bytes;
    sums->counts[measure]++;
}

static inline void check_block(const MemoryBlock *block, FakeSums *sums) {
    const MemoryBlock *const next = block->next;
    if (next) {
        HOLDS(block->at + block->bytes == next->at);
        HOLDS(next->prev == block);
        const bool is_idle = block->state == MEMORY_free || block->state == MEMORY_unmapped;
        HOLDS(!is_idle || block->state != next->state); /* neighbours that are free are one */
    }
    if (block->state == MEMORY_used) sum_up(sums, MEASURE_allocated, block->bytes);
    if (block->state == MEMORY_used) sum_up(sums, MEASURE_requested, block->requested);
    if (block->state == MEMORY_used || block->state == MEMORY_waiting) sum_up(sums, MEASURE_active, block->bytes);
    if (block->state == MEMORY_free && block_stuck(block)) sum_up(sums, MEASURE_stuck, block_stuck(block));
    if (block->state != MEMORY_unmapped) sums->bytes[MEASURE_reserved] += (int64_t)block->bytes;
}

/* Blocks tile their segments, free neighbours are one, the trees have the free ones, the statistics are their sums. */
static inline void check_whole(const Caching *caching) {
    FakeSums sums = {0};
    int n_free = 0, n_in_trees = 0;
    for (const MemorySegment *segment = caching->segments; segment; segment = segment->next) {
        size_t bytes = 0;
        HOLDS(segment->first->at == segment->at);
        for (const MemoryBlock *block = segment->first; block; block = block->next) {
            check_block(block, &sums);
            bytes += block->bytes;
            n_free += block->state == MEMORY_free;
        }
        HOLDS(bytes == segment->bytes);
        sums.counts[MEASURE_reserved]++;
    }
    for (const MemoryPool *pool = caching->pools; pool; pool = pool->next) n_in_trees += count_tree(pool->root, 0, 0);
    HOLDS(n_free == n_in_trees);
    for (int m = 0; m < MEASURE_COUNT; m++) {
        const CachingStats *const s = &caching->stats;
        HOLDS(s->bytes[CACHING_all][m].current == sums.bytes[m]);
        HOLDS(s->counts[CACHING_all][m].current == sums.counts[m]);
        for (int kind = 0; kind < CACHING_KINDS; kind++) {
            const CachingStat *const stat = &s->bytes[kind][m];
            HOLDS(stat->gained - stat->lost == stat->current);
            HOLDS(stat->peak >= stat->current);
        }
        HOLDS(s->bytes[CACHING_small][m].current + s->bytes[CACHING_large][m].current == sums.bytes[m]);
    }
    HOLDS(sums.bytes[MEASURE_reserved] == (int64_t)fake.used);
}

#endif
