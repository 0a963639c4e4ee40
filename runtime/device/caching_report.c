/* caching_report.c: what a caching allocator says of itself: the error of memory that is out, and a table. What would
 * help where memory is out is decided from a few sums (caching_hint), the same for an error and for a snapshot. */
#include <stdio.h>

#include "runtime/base/error.h"
#include "runtime/device/caching_internal.h"

/* out of memory ------------------------------------------------------------------------------- */

CachingHint caching_hint(const CachingFacts *facts) {
    const size_t gaps = facts->gaps, streams = facts->elsewhere + facts->waiting;
    if (gaps && gaps + facts->left >= facts->asked) return HINT_fragmented;
    if (streams && streams + facts->left >= facts->asked) return HINT_streams;
    if (gaps && streams && gaps + streams + facts->left >= facts->asked)
        return gaps >= streams ? HINT_fragmented : HINT_streams;
    return HINT_full;
}

static void add_block(CachingFacts *facts, const MemoryBlock *block, StreamId stream) {
    const bool is_here = block->segment->pool->stream == stream;
    if (block->state == MEMORY_waiting) facts->waiting += block->bytes;
    if (block->state != MEMORY_free) return;
    *(is_here ? &facts->gaps : &facts->elsewhere) += block->bytes;
    if (block->bytes > facts->largest) facts->largest = block->bytes;
}

static CachingFacts gather(const Caching *caching, size_t asked, StreamId stream) {
    const CachingStat *const now = caching->stats.bytes[CACHING_all];
    CachingFacts facts = {.asked = asked,
                          .allocated = (size_t)now[MEASURE_allocated].current,
                          .reserved = (size_t)now[MEASURE_reserved].current};
    for (const MemorySegment *segment = caching->segments; segment; segment = segment->next)
        for (const MemoryBlock *block = segment->first; block; block = block->next) add_block(&facts, block, stream);
    caching->source->left(caching->context, &facts.left, &facts.total);
    return facts;
}

static bool holds_anything(const Caching *caching, StreamId stream) {
    for (const MemorySegment *segment = caching->segments; segment; segment = segment->next)
        for (const MemoryBlock *block = segment->first; block && segment->pool->stream == stream; block = block->next)
            if (block->state == MEMORY_free || block->state == MEMORY_waiting) return true;
    return false;
}

/* The names of other streams that hold free or waiting blocks. */
static void report_streams(const Caching *caching, StreamId stream, Text *out) {
    const char *before = "";
    for (const MemoryPool *pool = caching->pools; pool; pool = pool->next) {
        char name[64];
        bool is_said = pool->stream == stream || !holds_anything(caching, pool->stream);
        for (const MemoryPool *said = caching->pools; said != pool; said = said->next)
            is_said |= said->stream == pool->stream;
        if (is_said) continue;
        caching->source->stream_name(caching->context, pool->stream, name, sizeof name);
        text_printf(out, "%s%s", before, name);
        before = ", ";
    }
}

static void report_hint(const Caching *caching, const CachingFacts *facts, StreamId stream, Text *out) {
    switch (caching_hint(facts)) {
    case HINT_fragmented:
        text_printf(out, "; %zu bytes are free, but in pieces", facts->gaps);
        if (!caching->page)
            text_puts(out, ": SINTER_ALLOC_CONF=expandable_segments:True or max_split_size_mb:N keeps them together");
        break;
    case HINT_streams:
        text_printf(out, "; %zu bytes are kept for work on other streams: ", facts->elsewhere + facts->waiting);
        report_streams(caching, stream, out);
        break;
    case HINT_full:
        break;
    }
}

void caching_raise_full(Caching *caching, size_t bytes, StreamId stream) {
    const CachingFacts facts = gather(caching, bytes, stream);
    Text hint = {0};
    caching->stats.failures++;
    report_hint(caching, &facts, stream, &hint);
    error_raise(ST_MEMORY,
                "%s is out of memory: %zu bytes asked for, %zu of %zu free on the device; allocated: %zu, reserved: "
                "%zu, largest free block: %zu bytes%s",
                caching->name, bytes, facts.left, facts.total, facts.allocated, facts.reserved, facts.largest,
                text_str(&hint));
    text_free(&hint);
}

/* the table ----------------------------------------------------------------------------------- */

static void print_cell(Text *out, int64_t n, bool is_bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    double value = (double)n;
    for (; value >= 10240 && unit < COUNT_OF(units) - 1; unit++) value /= 1024;
    if (is_bytes)
        text_printf(out, " | %7.0f %-3s", value, units[unit]);
    else
        text_printf(out, " | %11lld", (long long)n);
}

static void print_row(Text *out, const char *name, const CachingStat *stat, bool is_bytes) {
    text_printf(out, "| %-23s", name);
    print_cell(out, stat->current, is_bytes);
    print_cell(out, stat->peak, is_bytes);
    print_cell(out, stat->gained, is_bytes);
    print_cell(out, stat->lost, is_bytes);
    text_puts(out, " |\n");
}

static void print_rows(Text *out, CachingStat stats[CACHING_KINDS][MEASURE_COUNT], bool is_bytes) {
    static const char *const bytes[] = {"allocated memory", "active memory", "requested memory", "reserved memory",
                                        "non-releasable memory"};
    static const char *const counts[] = {"allocations", "active blocks", NULL, "reserved segments",
                                         "non-releasable blocks"};
    for (int measure = 0; measure < MEASURE_COUNT; measure++) {
        const char *const name = (is_bytes ? bytes : counts)[measure];
        if (!name) continue;
        print_row(out, name, &stats[CACHING_all][measure], is_bytes);
        print_row(out, "      from large pool", &stats[CACHING_large][measure], is_bytes);
        print_row(out, "      from small pool", &stats[CACHING_small][measure], is_bytes);
    }
}

void caching_summary(Caching *caching, Text *out) {
    CachingStats stats;
    size_t left = 0, total = 0;
    caching_stats(caching, &stats);
    caching->source->left(caching->context, &left, &total);
    text_printf(out, "memory of %s: retries after giving back: %lld, out of memory: %lld\n", caching->name,
                (long long)stats.retries, (long long)stats.failures);
    text_printf(out, "| %-23s | %11s | %11s | %11s | %11s |\n", "", "current", "peak", "total", "freed");
    print_rows(out, stats.bytes, true);
    print_rows(out, stats.counts, false);
    text_printf(out, "in use on the device, by anybody: %zu of %zu bytes\n", total - left, total);
}
