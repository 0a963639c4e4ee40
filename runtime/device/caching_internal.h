/* caching_internal.h: what the files of the caching allocator share: its blocks, pools and segments. Everything under
 * the allocator's lock. */
#ifndef SINTER_RUNTIME_CACHING_INTERNAL_H
#define SINTER_RUNTIME_CACHING_INTERNAL_H
#include <pthread.h>

#include "runtime/base/hash.h"
#include "runtime/device/caching.h"

#define CACHING_GRAIN       ((size_t)512)
#define CACHING_SMALL       ((size_t)1 << 20)  /* most bytes of the small pool */
#define CACHING_SMALL_SIZE  ((size_t)2 << 20)  /* of its segments, and what large ones are a multiple of */
#define CACHING_LARGE_SIZE  ((size_t)20 << 20) /* of the large pool's segments */
#define CACHING_OWN_SEGMENT ((size_t)10 << 20) /* from here on a segment of its own size */
#define CACHING_MOST        ((size_t)1 << 52)  /* no device has as much, and sums of it do not overflow */

/* waiting: freed, for events; unmapped: addresses of an expandable segment without memory */
typedef enum MemoryState { MEMORY_free, MEMORY_used, MEMORY_waiting, MEMORY_unmapped } MemoryState;

/* Work of a stream that is not the block's. event NULL: not freed yet. */
typedef struct MemoryUse {
    StreamId stream;
    struct MemoryBlock *block;
    void *event;
    struct MemoryUse *next;       /* of the block */
    struct MemoryUse *next_event; /* of the stream's recorded ones */
} MemoryUse;

typedef struct MemoryBlock {
    struct MemorySegment *segment;
    uintptr_t at;
    size_t bytes, requested;
    const void *site; /* of who asked for it; NULL: not noted */
    MemoryState state;
    int n_events; /* recorded and not passed */
    MemoryUse *uses;
    struct MemoryBlock *prev, *next;  /* in the segment */
    struct MemoryBlock *left, *right; /* in the pool's tree, if it is free */
} MemoryBlock;

typedef struct MemorySegment {
    struct MemoryPool *pool;
    uintptr_t at;
    size_t bytes;
    size_t page; /* of an expandable one; else 0 */
    MemoryBlock *first;
    struct MemorySegment *prev, *next; /* of the allocator, oldest first */
} MemorySegment;

/* Free blocks of a stream and kind: a treap by size, then address, whose heap order is a hash of the address, so that
 * the same calls make the same tree. */
typedef struct MemoryPool {
    StreamId stream;
    CachingKind kind;
    MemoryBlock *root;
    struct MemoryPool *next;
} MemoryPool;

/* Recorded events of a stream, in its order. */
typedef struct StreamEvents {
    StreamId stream;
    MemoryUse *first, *last;
    struct StreamEvents *next;
} StreamEvents;

struct Caching {
    const MemorySource *source;
    void *context;
    const char *name;
    CachingConfig config;
    size_t page; /* of the source; 0: segments are plain */
    pthread_mutex_t lock;
    Map used; /* blocks in use, by a hash of their address */
    MemoryPool *pools;
    MemorySegment *segments, *last_segment;
    StreamEvents *events;
    CachingStats stats;
};

/* caching_block.c ----------------------------------------------------------------------------- */

MemoryPool *pool_of(Caching *caching, StreamId stream, CachingKind kind); /* NULL raises */
/* The smallest free block of at least these bytes that may serve them; it stays in the pool. NULL: none. */
MemoryBlock *pool_find(const Caching *caching, const MemoryPool *pool, size_t bytes);
/* Between the two a free block is not in its pool and not counted, so that it may change. */
void block_hide(Caching *caching, MemoryBlock *block);
void block_show(Caching *caching, MemoryBlock *block);
MemoryBlock *block_new(MemorySegment *segment, uintptr_t at, size_t bytes, MemoryState state); /* NULL raises */
/* What is behind the first bytes of it, as a block of its own in the same state. NULL raises, nothing has changed. */
MemoryBlock *block_split(MemoryBlock *block, size_t bytes);
void block_absorb_next(MemoryBlock *block);
void block_join(Caching *caching, MemoryBlock *block); /* a hidden one with its neighbours in the pool */
size_t block_stuck(const MemoryBlock *block);          /* bytes of a free block */
void caching_count(Caching *caching, CachingKind kind, CachingMeasure measure, int64_t bytes, int64_t n);

/* caching_segment.c --------------------------------------------------------------------------- */

/* A free block of at least these bytes, in the pool, from the source. tight: of no more than they need */
SourceAnswer segments_grow(Caching *caching, MemoryPool *pool, size_t bytes, bool tight, MemoryBlock **out);
void segments_trim(Caching *caching, size_t most);
void segments_delete(Caching *caching);
/* Of a source's block that is kept by nobody: a segment that is one block. */
SourceAnswer segment_alloc(Caching *caching, MemoryPool *pool, size_t bytes, MemoryBlock **out);
void segment_free(Caching *caching, MemorySegment *segment); /* a plain one, whose one block is not in the pool */

/* caching_events.c ---------------------------------------------------------------------------- */

/* The block has work on the stream; the memory that its event will need is made here, as a free cannot fail. */
Status events_append(Caching *caching, MemoryBlock *block, StreamId stream);
/* Of a block that is freed: marks of the streams that have used it. */
void events_record(Caching *caching, MemoryBlock *block);
void events_look(Caching *caching); /* blocks whose events have passed are free */
void events_delete(Caching *caching);
void block_release(Caching *caching, MemoryBlock *block); /* caching.c: one that nothing uses any more */

/* caching_report.c ---------------------------------------------------------------------------- */

void caching_raise_full(Caching *caching, size_t bytes, StreamId stream);

#endif
