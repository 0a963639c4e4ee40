/* caching_snapshot.c: a caching allocator as JSON, for `sinter memory` (memory_report.h reads it): statistics,
 * and all segments with all their blocks, oldest first. The sums of the blocks are the statistics' current numbers.
 *
 *   {"version": 1, "device": "cuda:0", "device_free": 41943040, "device_total": 67108864, "retries": 0, "failures": 0,
 *    "statistics": {"allocated": {"bytes": {"current": 512, "peak": 512, "total": 512, "freed": 0}, "blocks": {...}},
 *                   "active": ..., "requested": ..., "reserved": ..., "non_releasable": ...},
 *    "segments": [{"address": 1048576, "bytes": 2097152, "stream": "...", "pool": "small", "page": 0,
 *      "blocks": [{"state": "used", "bytes": 512, "requested": 4, "site": "train.c:57"},
 *                 {"state": "waiting", "bytes": 512, "waits_for": ["..."]}, {"state": "free", "bytes": 2096128}]}]}
 *
 * The CPU's has its small blocks behind them, and, where memory_sites is on, who asked for all that are in use:
 *
 *    "classes": [{"bytes": 8192, "current": 2, "peak": 3, "total": 7, "kept": 1}, ...],
 *    "held": [{"bytes": 16384, "blocks": 2, "stack": ["train.c:57", "main.c:3"]}, ...] */
#include "runtime/device/caching_internal.h"

typedef struct SnapshotWriter {
    Caching *caching;
    CachingSiteName *site_name;
    Text *out;
} SnapshotWriter;

static void print_stat(Text *out, const char *name, const CachingStat *stat) {
    text_printf(out, "\"%s\": {\"current\": %lld, \"peak\": %lld, \"total\": %lld, \"freed\": %lld}", name,
                (long long)stat->current, (long long)stat->peak, (long long)stat->gained, (long long)stat->lost);
}

static void print_statistics(Text *out, const CachingStats *stats) {
    static const char *const names[] = {"allocated", "active", "requested", "reserved", "non_releasable"};
    for (int measure = 0; measure < MEASURE_COUNT; measure++) {
        text_printf(out, "%s\n  \"%s\": {", measure ? "," : "", names[measure]);
        print_stat(out, "bytes", &stats->bytes[CACHING_all][measure]);
        text_puts(out, ", ");
        print_stat(out, "blocks", &stats->counts[CACHING_all][measure]);
        text_puts(out, "}");
    }
}

static void print_stream(const SnapshotWriter *w, StreamId stream) {
    char name[64];
    w->caching->source->stream_name(w->caching->context, stream, name, sizeof name);
    text_json_string(w->out, name);
}

static void print_waits(const SnapshotWriter *w, const MemoryBlock *block) {
    int n = 0;
    text_puts(w->out, ", \"waits_for\": [");
    for (const StreamEvents *events = w->caching->events; events; events = events->next) {
        for (const MemoryUse *use = events->first; use; use = use->next_event) {
            if (use->block != block) continue;
            if (n++) text_puts(w->out, ", ");
            print_stream(w, events->stream);
        }
    }
    text_puts(w->out, "]");
}

static void print_site(const SnapshotWriter *w, const void *site) {
    char name[256];
    w->site_name(site, name, sizeof name);
    text_puts(w->out, ", \"site\": ");
    text_json_string(w->out, name);
}

static void print_block(const SnapshotWriter *w, const MemoryBlock *block) {
    static const char *const states[] = {
        [MEMORY_free] = "free", [MEMORY_used] = "used", [MEMORY_waiting] = "waiting", [MEMORY_unmapped] = "unmapped"};
    text_printf(w->out, "{\"state\": \"%s\", \"bytes\": %zu", states[block->state], block->bytes);
    if (block->state == MEMORY_used) text_printf(w->out, ", \"requested\": %zu", block->requested);
    if (block->state == MEMORY_waiting) print_waits(w, block);
    if (block->site && block->state != MEMORY_free && block->state != MEMORY_unmapped) print_site(w, block->site);
    text_puts(w->out, "}");
}

static void print_segment(const SnapshotWriter *w, const MemorySegment *segment) {
    text_printf(w->out, "\n  {\"address\": %llu, \"bytes\": %zu, \"stream\": ", (unsigned long long)segment->at,
                segment->bytes);
    print_stream(w, segment->pool->stream);
    text_printf(w->out, ", \"pool\": \"%s\", \"page\": %zu,\n   \"blocks\": [",
                segment->pool->kind == CACHING_small ? "small" : "large", segment->page);
    for (const MemoryBlock *block = segment->first; block; block = block->next) {
        if (block != segment->first) text_puts(w->out, ",\n    ");
        print_block(w, block);
    }
    text_puts(w->out, "]}");
}

void caching_snapshot(Caching *caching, CachingSiteName *site_name, CachingMore *more, Text *out) {
    const SnapshotWriter w = {caching, site_name, out};
    size_t left = 0, total = 0;
    pthread_mutex_lock(&caching->lock);
    caching->source->left(caching->context, &left, &total);
    text_puts(out, "{\"version\": 1, \"device\": ");
    text_json_string(out, caching->name);
    text_printf(out,
                ", \"device_free\": %zu, \"device_total\": %zu, \"retries\": %lld, \"failures\": %lld,\n"
                " \"statistics\": {",
                left, total, (long long)caching->stats.retries, (long long)caching->stats.failures);
    print_statistics(out, &caching->stats);
    text_puts(out, "},\n \"segments\": [");
    for (const MemorySegment *segment = caching->segments; segment; segment = segment->next) {
        if (segment != caching->segments) text_puts(out, ",");
        print_segment(&w, segment);
    }
    text_puts(out, "]");
    if (more) more(site_name, out);
    text_puts(out, "}\n");
    pthread_mutex_unlock(&caching->lock);
}
