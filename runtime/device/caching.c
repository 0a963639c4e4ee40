/* caching.c: allocate and free: see caching.h. */
#include "runtime/device/caching.h"

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/device/caching_internal.h"

Caching *caching_new(const MemorySource *source, void *context, const char *name, const CachingConfig *config) {
    Caching *const caching = mem_zero(sizeof *caching);
    if (!caching) return NULL;
    caching->source = source, caching->context = context, caching->name = name, caching->config = *config;
    if (config->expandable) caching->page = source->page(context);
    pthread_mutex_init(&caching->lock, NULL);
    return caching;
}

void caching_delete(Caching *caching) {
    if (!caching) return;
    events_delete(caching);
    segments_delete(caching);
    for (MemoryPool *pool = caching->pools, *next; pool; pool = next) {
        next = pool->next;
        mem_free(pool);
    }
    map_free(&caching->used);
    pthread_mutex_destroy(&caching->lock);
    mem_free(caching);
}

/* blocks in use ------------------------------------------------------------------------------- */

static uint64_t key_of(uintptr_t at) { return hash_mix(0, at); } /* of different addresses different ones */

static MemoryBlock *block_of_address(const Caching *caching, uintptr_t at) {
    return map_get(&caching->used, key_of(at));
}

static void count_used(Caching *caching, const MemoryBlock *block, CachingMeasure measure, int sign) {
    const size_t bytes = measure == MEASURE_requested ? block->requested : block->bytes;
    caching_count(caching, block->segment->pool->kind, measure, sign * (int64_t)bytes, sign);
}

/* allocate ------------------------------------------------------------------------------------ */

static CachingKind kind_of(size_t bytes) { return bytes <= CACHING_SMALL ? CACHING_small : CACHING_large; }

static size_t rounded_bytes(size_t bytes) {
    return bytes ? (bytes + CACHING_GRAIN - 1) / CACHING_GRAIN * CACHING_GRAIN : CACHING_GRAIN;
}

static bool is_worth_splitting(const Caching *caching, const MemoryBlock *block, size_t bytes) {
    const size_t rest = block->bytes - bytes, max_split = caching->config.max_split;
    if (block->segment->page || block->segment->pool->kind == CACHING_small) return rest >= CACHING_GRAIN;
    return rest > CACHING_SMALL && (!max_split || bytes < max_split);
}

/* A free block of the pool becomes one in use, of about these bytes. False: raised, and it stays. */
static bool use_block(Caching *caching, MemoryBlock *block, size_t bytes) {
    MemoryBlock *rest = NULL;
    block_hide(caching, block);
    if (is_worth_splitting(caching, block, bytes) && !(rest = block_split(block, bytes))) {
        block_show(caching, block);
        return false;
    }
    block->state = MEMORY_used;
    if (rest) block_show(caching, rest);
    return true;
}

static SourceAnswer find_or_grow(Caching *caching, MemoryPool *pool, size_t bytes, bool tight, MemoryBlock **out) {
    *out = pool_find(caching, pool, bytes);
    return *out ? SOURCE_done : segments_grow(caching, pool, bytes, tight, out);
}

/* Where the source has no more, what is kept and not needed goes back first, once. */
static SourceAnswer obtain(Caching *caching, MemoryPool *pool, size_t bytes, MemoryBlock **out) {
    SourceAnswer answer = find_or_grow(caching, pool, bytes, caching->config.tight, out);
    if (answer != SOURCE_full) return answer;
    caching->stats.retries++;
    segments_trim(caching, 0);
    answer = find_or_grow(caching, pool, bytes, caching->config.tight, out);
    return answer == SOURCE_full ? find_or_grow(caching, pool, bytes, true, out) : answer;
}

static SourceAnswer obtain_used(Caching *caching, MemoryPool *pool, size_t bytes, MemoryBlock **out) {
    const SourceAnswer answer = obtain(caching, pool, rounded_bytes(bytes), out);
    return answer != SOURCE_done || use_block(caching, *out, rounded_bytes(bytes)) ? answer : SOURCE_failed;
}

static SourceAnswer obtain_direct(Caching *caching, MemoryPool *pool, size_t bytes, MemoryBlock **out) {
    const SourceAnswer answer = segment_alloc(caching, pool, bytes ? bytes : 1, out);
    if (answer == SOURCE_done) (*out)->state = MEMORY_used;
    return answer;
}

static SourceAnswer obtain_any(Caching *caching, MemoryPool *pool, size_t bytes, MemoryBlock **out) {
    if (bytes > CACHING_MOST) return SOURCE_full;
    return caching->config.direct ? obtain_direct(caching, pool, bytes, out) : obtain_used(caching, pool, bytes, out);
}

/* Back to where it was before anybody had it. */
static void put_back(Caching *caching, MemoryBlock *block) {
    if (caching->config.direct) {
        segment_free(caching, block->segment);
    } else {
        block_join(caching, block);
        block_show(caching, block);
    }
}

static void account(Caching *caching, const MemoryBlock *block, int sign) {
    count_used(caching, block, MEASURE_allocated, sign);
    count_used(caching, block, MEASURE_requested, sign);
}

static uintptr_t allocate_locked(Caching *caching, size_t bytes, StreamId stream) {
    MemoryBlock *block = NULL;
    events_look(caching);
    MemoryPool *const pool = pool_of(caching, stream, kind_of(bytes));
    if (!pool) return 0;
    const SourceAnswer answer = obtain_any(caching, pool, bytes, &block);
    if (answer == SOURCE_full) caching_raise_full(caching, bytes, stream);
    if (answer != SOURCE_done) return 0;
    if (!map_set(&caching->used, key_of(block->at), block)) {
        put_back(caching, block);
        return 0;
    }
    block->requested = bytes, block->site = caching->source->site();
    account(caching, block, +1);
    count_used(caching, block, MEASURE_active, +1);
    return block->at;
}

uintptr_t caching_allocate(Caching *caching, size_t bytes, StreamId stream) {
    pthread_mutex_lock(&caching->lock);
    const uintptr_t at = allocate_locked(caching, bytes, stream);
    pthread_mutex_unlock(&caching->lock);
    return at;
}

/* free ---------------------------------------------------------------------------------------- */

/* Kept by nobody, it goes back when no work can be on it; where the device is lost it stays. */
static void release_direct(Caching *caching, MemoryBlock *block) {
    if (caching->source->wait(caching->context)) segment_free(caching, block->segment);
}

void block_release(Caching *caching, MemoryBlock *block) {
    count_used(caching, block, MEASURE_active, -1);
    if (caching->config.direct)
        release_direct(caching, block);
    else
        put_back(caching, block);
}

static void free_locked(Caching *caching, uintptr_t at) {
    MemoryBlock *const block = block_of_address(caching, at);
    if (!block) return;
    map_set(&caching->used, key_of(at), NULL);
    account(caching, block, -1);
    block->state = MEMORY_waiting;
    events_record(caching, block);
    if (!block->n_events) block_release(caching, block);
}

void caching_free(Caching *caching, uintptr_t at) {
    pthread_mutex_lock(&caching->lock);
    free_locked(caching, at);
    pthread_mutex_unlock(&caching->lock);
}

Status caching_used(Caching *caching, uintptr_t at, StreamId stream) {
    pthread_mutex_lock(&caching->lock);
    MemoryBlock *const block = block_of_address(caching, at);
    const Status status = block ? events_append(caching, block, stream) : ST_OK;
    pthread_mutex_unlock(&caching->lock);
    return status;
}

/* what there is ------------------------------------------------------------------------------- */

void caching_trim(Caching *caching, size_t most) {
    pthread_mutex_lock(&caching->lock);
    segments_trim(caching, most);
    pthread_mutex_unlock(&caching->lock);
}

void caching_stats(Caching *caching, CachingStats *out) {
    pthread_mutex_lock(&caching->lock);
    *out = caching->stats;
    pthread_mutex_unlock(&caching->lock);
}

void caching_left(Caching *caching, size_t *bytes, size_t *total) {
    *bytes = *total = 0;
    caching->source->left(caching->context, bytes, total);
}

static void peaks_begin(CachingStat stats[CACHING_KINDS][MEASURE_COUNT]) {
    for (int kind = 0; kind < CACHING_KINDS; kind++)
        for (int measure = 0; measure < MEASURE_COUNT; measure++)
            stats[kind][measure].peak = stats[kind][measure].current;
}

void caching_peak_begin(Caching *caching) {
    pthread_mutex_lock(&caching->lock);
    peaks_begin(caching->stats.bytes);
    peaks_begin(caching->stats.counts);
    pthread_mutex_unlock(&caching->lock);
}
