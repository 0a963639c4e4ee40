/* caching_segment.c: a caching allocator's segments: see caching_internal.h.
 *
 * A plain one is a call of the source and goes back whole. An expandable one is a range of addresses that could hold
 * all of the device's memory; its blocks are, in order of address, used, free or unmapped:
 *
 *   | used | free | used |   free   | unmapped ...            |     grows where free and unmapped blocks side by side
 *   page     page     page     page                                 are enough, by the pages that it lacks there
 *
 * Unmapped blocks begin and end at pages, and neither they nor free ones lie side by side with their like. */
#include "runtime/base/alloc.h"
#include "runtime/device/caching_internal.h"

static void segment_link(Caching *caching, MemorySegment *segment) {
    segment->prev = caching->last_segment;
    *(segment->prev ? &segment->prev->next : &caching->segments) = segment;
    caching->last_segment = segment;
}

static void segment_unlink(Caching *caching, MemorySegment *segment) {
    *(segment->prev ? &segment->prev->next : &caching->segments) = segment->next;
    *(segment->next ? &segment->next->prev : &caching->last_segment) = segment->prev;
}

static void segment_forget(MemorySegment *segment) {
    for (MemoryBlock *block = segment->first, *next; block; block = next) {
        next = block->next;
        mem_free(block);
    }
    mem_free(segment);
}

/* A segment of one block, which has no addresses yet. NULL raises. */
static MemorySegment *segment_new(MemoryPool *pool, size_t bytes, size_t page, MemoryState state) {
    MemorySegment *const segment = mem_zero(sizeof *segment);
    if (!segment) return NULL;
    *segment = (MemorySegment){.pool = pool, .bytes = bytes, .page = page};
    segment->first = block_new(segment, 0, bytes, state);
    if (segment->first) return segment;
    mem_free(segment);
    return NULL;
}

typedef SourceAnswer TakeAddresses(void *context, size_t bytes, uintptr_t *at);

static SourceAnswer segment_open(Caching *caching, TakeAddresses *take, MemorySegment *segment) {
    if (!segment) return SOURCE_failed;
    const SourceAnswer answer = take(caching->context, segment->bytes, &segment->at);
    if (answer != SOURCE_done) {
        segment_forget(segment);
        return answer;
    }
    segment->first->at = segment->at;
    segment_link(caching, segment);
    const bool mapped = !segment->page;
    caching_count(caching, segment->pool->kind, MEASURE_reserved, mapped ? (int64_t)segment->bytes : 0, 1);
    return SOURCE_done;
}

/* plain ones ---------------------------------------------------------------------------------- */

SourceAnswer segment_alloc(Caching *caching, MemoryPool *pool, size_t bytes, MemoryBlock **out) {
    MemorySegment *const segment = segment_new(pool, bytes, 0, MEMORY_free);
    const SourceAnswer answer = segment_open(caching, caching->source->take, segment);
    if (answer == SOURCE_done) *out = segment->first;
    return answer;
}

void segment_free(Caching *caching, MemorySegment *segment) {
    caching->source->give(caching->context, segment->at, segment->bytes);
    caching_count(caching, segment->pool->kind, MEASURE_reserved, -(int64_t)segment->bytes, -1);
    segment_unlink(caching, segment);
    segment_forget(segment);
}

static size_t segment_bytes(size_t bytes, bool tight) {
    if (bytes <= CACHING_SMALL) return CACHING_SMALL_SIZE;
    if (bytes < CACHING_OWN_SEGMENT && !tight) return CACHING_LARGE_SIZE;
    return (bytes + CACHING_SMALL_SIZE - 1) / CACHING_SMALL_SIZE * CACHING_SMALL_SIZE;
}

/* expandable ones ----------------------------------------------------------------------------- */

static size_t round_to(size_t bytes, size_t page) { return (bytes + page - 1) / page * page; }

static bool is_open_block(const MemoryBlock *block) {
    return block->state == MEMORY_free || block->state == MEMORY_unmapped;
}

/* The first of blocks side by side that can become one of as many bytes. */
static MemoryBlock *find_run(const MemorySegment *segment, size_t bytes) {
    MemoryBlock *first = NULL;
    size_t sum = 0;
    for (MemoryBlock *block = segment->first; block; block = block->next) {
        if (!is_open_block(block)) {
            first = NULL, sum = 0;
            continue;
        }
        if (!first) first = block;
        sum += block->bytes;
        if (sum >= bytes) return first;
    }
    return NULL;
}

/* The first page of an unmapped block becomes free, one with its free neighbours. */
static SourceAnswer map_page(Caching *caching, MemoryBlock *block) {
    const size_t page = block->segment->page;
    if (block->bytes > page && !block_split(block, page)) return SOURCE_failed;
    const SourceAnswer answer = caching->source->map(caching->context, block->at, page);
    if (answer != SOURCE_done) {
        if (block->next && block->next->state == MEMORY_unmapped) block_absorb_next(block);
        return answer;
    }
    caching_count(caching, block->segment->pool->kind, MEASURE_reserved, (int64_t)page, 0);
    block_join(caching, block);
    block_show(caching, block);
    return SOURCE_done;
}

/* Addresses for all memory that there is, and some for what cannot be moved together. */
static SourceAnswer reserve_range(Caching *caching, MemoryPool *pool, size_t bytes) {
    size_t left = 0, total = 0, page = round_to(CACHING_LARGE_SIZE, caching->page);
    caching->source->left(caching->context, &left, &total);
    if (bytes > total) return SOURCE_full;
    if (pool->kind == CACHING_small) page = round_to(CACHING_SMALL_SIZE, caching->page);
    MemorySegment *const segment = segment_new(pool, round_to(total + total / 8, page), page, MEMORY_unmapped);
    return segment_open(caching, caching->source->reserve, segment);
}

static MemoryBlock *find_run_of(const Caching *caching, const MemoryPool *pool, size_t bytes) {
    for (const MemorySegment *segment = caching->segments; segment; segment = segment->next) {
        MemoryBlock *const first = segment->pool == pool && segment->page ? find_run(segment, bytes) : NULL;
        if (first) return first;
    }
    return NULL;
}

static SourceAnswer expand_segment(Caching *caching, MemoryPool *pool, size_t bytes, MemoryBlock **out) {
    MemoryBlock *block = find_run_of(caching, pool, bytes);
    if (!block) {
        const SourceAnswer answer = reserve_range(caching, pool, bytes);
        if (answer != SOURCE_done) return answer;
        block = caching->last_segment->first;
    }
    while (block->state != MEMORY_free || block->bytes < bytes) {
        if (block->state == MEMORY_free) block = block->next;
        const SourceAnswer answer = map_page(caching, block);
        if (answer != SOURCE_done) return answer;
    }
    *out = block;
    return SOURCE_done;
}

static void join_unmapped(MemoryBlock *block) {
    if (block->next && block->next->state == MEMORY_unmapped) block_absorb_next(block);
    if (block->prev && block->prev->state == MEMORY_unmapped) block_absorb_next(block->prev);
}

static void unmap_pages(Caching *caching, MemoryBlock *block) {
    const size_t page = block->segment->page;
    for (size_t at = 0; at < block->bytes; at += page) caching->source->unmap(caching->context, block->at + at, page);
    caching_count(caching, block->segment->pool->kind, MEASURE_reserved, -(int64_t)block->bytes, 0);
    block->state = MEMORY_unmapped;
    join_unmapped(block);
}

/* The bytes from..end of a hidden block as a block of their own. NULL raises, and nothing has changed. */
static MemoryBlock *cut_out(MemoryBlock *block, size_t from, size_t end) {
    const bool has_tail = end < block->bytes;
    if (has_tail && !block_split(block, end)) return NULL;
    MemoryBlock *const middle = from ? block_split(block, from) : block;
    if (!middle && has_tail) block_absorb_next(block);
    return middle;
}

/* The whole pages of a free block go back; what is before and behind them stays. */
static void shrink_block(Caching *caching, MemoryBlock *block) {
    const MemorySegment *const segment = block->segment;
    const size_t pages = block->bytes - block_stuck(block), bytes = block->bytes;
    const size_t from = round_to(block->at - segment->at, segment->page) - (block->at - segment->at);
    if (!pages) return;
    block_hide(caching, block);
    MemoryBlock *const middle = cut_out(block, from, from + pages);
    if (!middle || from) block_show(caching, block);
    if (!middle) return;
    if (from + pages < bytes) block_show(caching, middle->next);
    unmap_pages(caching, middle);
}

static MemoryBlock *next_mapped(const MemoryBlock *block) {
    MemoryBlock *const next = block->next;
    return next && next->state == MEMORY_unmapped ? next->next : next;
}

static void shrink_segment(Caching *caching, MemorySegment *segment) {
    for (MemoryBlock *block = segment->first, *next; block; block = next) {
        next = next_mapped(block); /* the unmapped one between may become one with this */
        if (block->state == MEMORY_free) shrink_block(caching, block);
    }
    if (segment->first->state != MEMORY_unmapped || segment->first->next) return;
    caching->source->unreserve(caching->context, segment->at, segment->bytes);
    caching_count(caching, segment->pool->kind, MEASURE_reserved, 0, -1);
    segment_unlink(caching, segment);
    segment_forget(segment);
}

/* both ---------------------------------------------------------------------------------------- */

SourceAnswer segments_grow(Caching *caching, MemoryPool *pool, size_t bytes, bool tight, MemoryBlock **out) {
    if (caching->page) return expand_segment(caching, pool, bytes, out);
    const SourceAnswer answer = segment_alloc(caching, pool, segment_bytes(bytes, tight), out);
    if (answer == SOURCE_done) block_show(caching, *out);
    return answer;
}

static void trim_segment(Caching *caching, MemorySegment *segment) {
    if (segment->page) {
        shrink_segment(caching, segment);
    } else if (segment->first->state == MEMORY_free && !segment->first->next) {
        block_hide(caching, segment->first);
        segment_free(caching, segment);
    }
}

static bool has_events(const Caching *caching) {
    for (const StreamEvents *events = caching->events; events; events = events->next)
        if (events->first) return true;
    return false;
}

static size_t idle_bytes(const Caching *caching) {
    const CachingStat *const now = caching->stats.bytes[CACHING_all];
    return (size_t)(now[MEASURE_reserved].current - now[MEASURE_active].current - now[MEASURE_stuck].current);
}

/* Work on freed blocks may be going on, so the device is waited for, if anything can go back. */
void segments_trim(Caching *caching, size_t most) {
    if (idle_bytes(caching) <= most && !has_events(caching)) return;
    if (!caching->source->wait(caching->context)) return;
    events_look(caching);
    for (MemorySegment *segment = caching->segments, *next; segment; segment = next) {
        if (most && idle_bytes(caching) <= most) return;
        next = segment->next;
        trim_segment(caching, segment);
    }
}

static void unmap_mapped(const Caching *caching, const MemorySegment *segment) {
    const MemoryBlock *block = segment->first;
    for (uintptr_t at = segment->at; at < segment->at + segment->bytes; at += segment->page) {
        while (at >= block->at + block->bytes) block = block->next;
        if (block->state != MEMORY_unmapped) caching->source->unmap(caching->context, at, segment->page);
    }
    caching->source->unreserve(caching->context, segment->at, segment->bytes);
}

void segments_delete(Caching *caching) {
    for (MemorySegment *segment = caching->segments, *next; segment; segment = next) {
        next = segment->next;
        if (segment->page)
            unmap_mapped(caching, segment);
        else
            caching->source->give(caching->context, segment->at, segment->bytes);
        segment_forget(segment);
    }
}
