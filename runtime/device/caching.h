/* caching.h: the policy of a caching allocator, over a source of memory that it knows by a table of functions: a GPU's
 * driver, the system for the CPU's large blocks, or a test's numbers (tests/unit/fake_memory.h). It follows PyTorch's:
 *
 *   rounding   to 512 bytes; at most 1 MiB is small and comes from segments of 2 MiB, what is larger from segments of
 *              20 MiB, 10 MiB and more from one of their own size, in steps of 2 MiB
 *   reuse      the smallest free block of the same stream and pool that is large enough, split where what is left is
 *              worth it; neighbours that are free are one block
 *   streams    a block belongs to the stream it was asked for: freed, it is given out there at once, in the order of
 *              that stream's work. One that was used on others (caching_used) waits for events of theirs first
 *   full       what is kept goes back to the source, once; then it is an error that says what would help
 *   expandable segments, by choice: addresses for all memory, mapped by pages where they are needed, so that a pool's
 *              free memory is in one piece
 *
 *   segment    memory of one call of the source: the blocks in it, in order of address
 *   stuck      free bytes that cannot go back to the source, as their segment is in use ("non-releasable")
 *   pool       the free blocks of a stream and kind
 *
 *   caching.c  allocate, free    caching_events.c    streams' events   caching_report.c    texts
 *   caching_block.c  a pool's blocks   caching_segment.c   segments, growing, giving back
 *   caching_snapshot.c  as JSON        caching_config.c    SINTER_ALLOC_CONF
 *
 * Thread-safe: one lock for each allocator, under which the source is called. */
#ifndef SINTER_RUNTIME_CACHING_H
#define SINTER_RUNTIME_CACHING_H
#include "runtime/base/text.h"

typedef const void *StreamId; /* a stream; NULL is one, too */

/* full: memory is out, nothing is raised; failed: the error is raised */
typedef enum SourceAnswer { SOURCE_done, SOURCE_full, SOURCE_failed } SourceAnswer;

typedef struct MemorySource {
    SourceAnswer (*take)(void *context, size_t bytes, uintptr_t *at); /* aligned to 512 bytes */
    void (*give)(void *context, uintptr_t at, size_t bytes);          /* as taken */
    /* Addresses without memory, and memory for them, a page at a time. */
    size_t (*page)(void *context); /* what pages are a multiple of; 0: it cannot do so, and nothing is expandable */
    SourceAnswer (*reserve)(void *context, size_t bytes, uintptr_t *at);
    void (*unreserve)(void *context, uintptr_t at, size_t bytes);
    SourceAnswer (*map)(void *context, uintptr_t at, size_t bytes);
    void (*unmap)(void *context, uintptr_t at, size_t bytes); /* as mapped */
    /* Marks of a stream's work up to now. These raise nothing. */
    bool (*record)(void *context, StreamId stream, void **event);
    bool (*passed)(void *context, void *event);
    void (*forget)(void *context, void *event);
    /* For all work on the device. False: nobody can say when it ends (the device is lost). Raises nothing. */
    bool (*wait)(void *context);
    void (*left)(void *context, size_t *bytes, size_t *total); /* for anybody on the device */
    void (*stream_name)(void *context, StreamId stream, char *buffer, size_t size);
    const void *(*site)(void); /* the user's call that asks for memory; NULL: it is not noted */
} MemorySource;

typedef struct CachingConfig {
    bool direct;      /* nothing is kept or rounded: each block is a segment, which goes back after a wait */
    bool expandable;  /* new segments are */
    bool tight;       /* a segment is no larger than the block that it is taken for, in steps of 2 MiB */
    size_t max_split; /* free blocks of more bytes are not split, and not kept for smaller ones; 0: no bound */
} CachingConfig;

/* Of the text of SINTER_ALLOC_CONF; false: `why` says what is wrong with it, and nothing has changed. */
bool caching_config_read(const char *text, CachingConfig *config, Text *why);

typedef struct CachingStat {
    int64_t current, peak, gained, lost; /* gained, lost: in all */
} CachingStat;

/* requested: what callers asked for; allocated: what they have; active: with what waits for events; reserved: of the
 * source; stuck: see above. */
#define CACHING_MEASURES(ROW) ROW(allocated) ROW(active) ROW(requested) ROW(reserved) ROW(stuck)
typedef enum CachingMeasure {
#define ROW(name) MEASURE_##name,
    CACHING_MEASURES(ROW)
#undef ROW
        MEASURE_COUNT
} CachingMeasure;
typedef enum CachingKind { CACHING_small, CACHING_large, CACHING_all, CACHING_KINDS } CachingKind;

typedef struct CachingStats {
    CachingStat bytes[CACHING_KINDS][MEASURE_COUNT];
    CachingStat counts[CACHING_KINDS][MEASURE_COUNT]; /* blocks; of reserved: segments */
    int64_t retries, failures;                        /* allocations that gave back what was kept; that were refused */
} CachingStats;

/* What is known where memory is out, in bytes. */
typedef struct CachingFacts {
    size_t asked, allocated, reserved;
    size_t largest;         /* free block */
    size_t gaps, elsewhere; /* in free blocks of the asking stream, of others */
    size_t waiting;         /* freed, used on other streams, which have not passed their events */
    size_t left, total;     /* of the device */
} CachingFacts;
/* What keeps them from being enough: free memory in pieces; other streams; nothing that is kept. */
typedef enum CachingHint { HINT_full, HINT_fragmented, HINT_streams } CachingHint;
CachingHint caching_hint(const CachingFacts *facts);

typedef struct Caching Caching;

/* name: of the device, for texts; it and the source outlive the allocator. NULL raises. */
Caching *caching_new(const MemorySource *source, void *context, const char *name, const CachingConfig *config);
void caching_delete(Caching *caching); /* gives everything back, blocks in use as well; NULL is allowed */

/* 512-byte aligned, uninitialised, for work on the stream. 0 and ST_MEMORY or the source's error: there is none. */
uintptr_t caching_allocate(Caching *caching, size_t bytes, StreamId stream);
void caching_free(Caching *caching, uintptr_t at); /* of caching_allocate, with no wait; raises nothing */
/* The block has work on that stream as well, which its reuse must wait for. */
Status caching_used(Caching *caching, uintptr_t at, StreamId stream);
/* Gives back what is free and not stuck, oldest segments first, until no more than `most` bytes of that are left;
 * waits for the device if there is any. */
void caching_trim(Caching *caching, size_t most);
void caching_stats(Caching *caching, CachingStats *out);
void caching_peak_begin(Caching *caching);                         /* peaks are those of what is current now */
void caching_left(Caching *caching, size_t *bytes, size_t *total); /* of the device, for anybody */
/* All of it as JSON (caching_snapshot.c). site_name: "train.c:57" */
typedef void CachingSiteName(const void *site, char *out, size_t capacity);
/* more: members behind the others (", \"name\": ..."); NULL: none. */
typedef void CachingMore(CachingSiteName *site_name, Text *out);
void caching_snapshot(Caching *caching, CachingSiteName *site_name, CachingMore *more, Text *out);
/* A table: the measures' bytes and counts, of each pool; now, most, in all. */
void caching_summary(Caching *caching, Text *out);

#endif
