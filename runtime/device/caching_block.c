/* caching_block.c: blocks and the pools of free ones: see caching_internal.h. A pool's tree is a treap: insertion
 * splits the subtree that it lands on, removal joins the two below. Freeing a block allocates nothing, so it
 * cannot fail. */
#include "runtime/base/alloc.h"
#include "runtime/device/caching_internal.h"

/* statistics ---------------------------------------------------------------------------------- */

static void stat_add(CachingStat *stat, int64_t n) {
    stat->current += n;
    *(n > 0 ? &stat->gained : &stat->lost) += n > 0 ? n : -n;
    if (stat->current > stat->peak) stat->peak = stat->current;
}

void caching_count(Caching *caching, CachingKind kind, CachingMeasure measure, int64_t bytes, int64_t n) {
    CachingStats *const stats = &caching->stats;
    stat_add(&stats->bytes[kind][measure], bytes);
    stat_add(&stats->counts[kind][measure], n);
    stat_add(&stats->bytes[CACHING_all][measure], bytes);
    stat_add(&stats->counts[CACHING_all][measure], n);
}

/* Bytes in the whole pages of an expandable segment that it covers. */
static size_t whole_pages(const MemoryBlock *block) {
    const size_t page = block->segment->page, from = block->at - block->segment->at, to = from + block->bytes;
    const size_t first = (from + page - 1) / page, end = to / page;
    return end > first ? (end - first) * page : 0;
}

size_t block_stuck(const MemoryBlock *block) {
    if (block->segment->page) return block->bytes - whole_pages(block);
    return block->prev || block->next ? block->bytes : 0;
}

static void count_stuck(Caching *caching, const MemoryBlock *block, int sign) {
    const int64_t bytes = (int64_t)block_stuck(block);
    if (bytes) caching_count(caching, block->segment->pool->kind, MEASURE_stuck, sign * bytes, sign);
}

/* the tree ------------------------------------------------------------------------------------ */

static uint64_t heap_order(const MemoryBlock *block) { return hash_mix(0x9e37, block->at); }

static bool is_before(const MemoryBlock *block, size_t bytes, uintptr_t at) {
    return block->bytes != bytes ? block->bytes < bytes : block->at < at;
}

static void tree_split(MemoryBlock *root, const MemoryBlock *at, MemoryBlock **before, MemoryBlock **after) {
    if (!root) {
        *before = *after = NULL;
    } else if (is_before(root, at->bytes, at->at)) {
        *before = root;
        tree_split(root->right, at, &root->right, after);
    } else {
        *after = root;
        tree_split(root->left, at, before, &root->left);
    }
}

static MemoryBlock *tree_join(MemoryBlock *before, MemoryBlock *after) {
    if (!before || !after) return before ? before : after;
    if (heap_order(before) > heap_order(after)) {
        before->right = tree_join(before->right, after);
        return before;
    }
    after->left = tree_join(before, after->left);
    return after;
}

static void tree_insert(MemoryBlock **root, MemoryBlock *block) {
    while (*root && heap_order(*root) >= heap_order(block))
        root = is_before(*root, block->bytes, block->at) ? &(*root)->right : &(*root)->left;
    tree_split(*root, block, &block->left, &block->right);
    *root = block;
}

static void tree_remove(MemoryBlock **root, MemoryBlock *block) {
    while (*root != block) root = is_before(*root, block->bytes, block->at) ? &(*root)->right : &(*root)->left;
    *root = tree_join(block->left, block->right);
    block->left = block->right = NULL;
}

/* The first that is not before these. */
static MemoryBlock *tree_from(MemoryBlock *root, size_t bytes, uintptr_t at) {
    MemoryBlock *best = NULL;
    while (root) {
        if (is_before(root, bytes, at)) {
            root = root->right;
        } else {
            best = root;
            root = root->left;
        }
    }
    return best;
}

/* pools --------------------------------------------------------------------------------------- */

MemoryPool *pool_of(Caching *caching, StreamId stream, CachingKind kind) {
    for (MemoryPool *pool = caching->pools; pool; pool = pool->next)
        if (pool->stream == stream && pool->kind == kind) return pool;
    MemoryPool *const pool = mem_zero(sizeof *pool);
    if (!pool) return NULL;
    *pool = (MemoryPool){.stream = stream, .kind = kind, .next = caching->pools};
    return caching->pools = pool;
}

/* What a block of an expandable segment could become: the last one has the unmapped addresses before it. */
static size_t expandable_bytes(const MemoryBlock *block) {
    const bool can = block->next && block->next->state == MEMORY_unmapped;
    return block->bytes + (can ? block->next->bytes : 0);
}

/* Of expandable segments the block that is worst at growing serves, so that the one at the end grows last. */
static MemoryBlock *prefer_unexpandable(const MemoryPool *pool, MemoryBlock *block) {
    while (block->segment->page) {
        MemoryBlock *const next = tree_from(pool->root, block->bytes, block->at + 1);
        if (!next || !next->segment->page || expandable_bytes(next) >= expandable_bytes(block)) break;
        block = next;
    }
    return block;
}

MemoryBlock *pool_find(const Caching *caching, const MemoryPool *pool, size_t bytes) {
    MemoryBlock *const block = tree_from(pool->root, bytes, 0);
    const size_t max_split = caching->config.max_split;
    if (!block) return NULL;
    if (!max_split || block->segment->page) return prefer_unexpandable(pool, block);
    if (bytes < max_split) return block->bytes < max_split ? block : NULL;
    return block->bytes < bytes + CACHING_LARGE_SIZE ? block : NULL;
}

void block_hide(Caching *caching, MemoryBlock *block) {
    tree_remove(&block->segment->pool->root, block);
    count_stuck(caching, block, -1);
}

void block_show(Caching *caching, MemoryBlock *block) {
    block->state = MEMORY_free;
    block->left = block->right = NULL;
    tree_insert(&block->segment->pool->root, block);
    count_stuck(caching, block, +1);
}

/* blocks -------------------------------------------------------------------------------------- */

MemoryBlock *block_new(MemorySegment *segment, uintptr_t at, size_t bytes, MemoryState state) {
    MemoryBlock *const block = mem_zero(sizeof *block);
    if (block) *block = (MemoryBlock){.segment = segment, .at = at, .bytes = bytes, .state = state};
    return block;
}

MemoryBlock *block_split(MemoryBlock *block, size_t bytes) {
    MemoryBlock *const rest = block_new(block->segment, block->at + bytes, block->bytes - bytes, block->state);
    if (!rest) return NULL;
    rest->prev = block, rest->next = block->next;
    if (rest->next) rest->next->prev = rest;
    block->next = rest;
    block->bytes = bytes;
    return rest;
}

void block_absorb_next(MemoryBlock *block) {
    MemoryBlock *const next = block->next;
    block->bytes += next->bytes;
    block->next = next->next;
    if (block->next) block->next->prev = block;
    mem_free(next);
}

/* The caller's block stays, so it may be told afterwards. */
void block_join(Caching *caching, MemoryBlock *block) {
    MemoryBlock *const prev = block->prev, *const next = block->next;
    if (next && next->state == MEMORY_free) {
        block_hide(caching, next);
        block_absorb_next(block);
    }
    if (!prev || prev->state != MEMORY_free) return;
    block_hide(caching, prev);
    block->at = prev->at, block->bytes += prev->bytes, block->prev = prev->prev;
    *(prev->prev ? &prev->prev->next : &block->segment->first) = block;
    mem_free(prev);
}
