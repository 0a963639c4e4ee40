/* memory_report.c: see memory_report.h. The text may be damaged, so each number is looked at before it is used, and the
 * sums of the blocks are held to the statistics. */
#include "frontend/api/memory_report.h"

#include "runtime/base/error.h"
#include "runtime/base/json.h"
#include "runtime/device/caching.h"

enum { LARGEST = 5, WAITING_STREAMS = 8, HOLDERS = 12 };
static const int64_t MOST = INT64_C(1) << 52;

typedef enum BlockState { STATE_free, STATE_used, STATE_waiting, STATE_unmapped, STATE_COUNT } BlockState;
static const char *const state_names[] = {"free", "used", "waiting", "unmapped"};

typedef struct SnapshotBlock {
    BlockState state;
    int64_t at, bytes, requested; /* at: in the segment */
    const Json *waits_for;
    const char *site; /* NULL: not noted */
} SnapshotBlock;

typedef struct HeldStream {
    const char *name;
    int64_t bytes;
} HeldStream;

typedef struct SnapshotSums {
    int64_t bytes[STATE_COUNT], counts[STATE_COUNT];
    int64_t requested, stuck, n_stuck, n_segments;
    int64_t largest_free;
    SnapshotBlock largest[LARGEST];   /* used or waiting; bytes 0: none */
    HeldStream held[WAITING_STREAMS]; /* of more the last ones are left out */
} SnapshotSums;

static Status damaged(const char *what) { return error_raise(ST_PARSE, "no snapshot of memory: %s", what); }

/* Numbers as a snapshot has them. */
static bool read_count(const Json *object, const char *key, int64_t *out) {
    const Json *const value = json_get(object, key);
    if (!value || value->kind != JSON_number || !value->is_int || value->i < 0 || value->i > MOST) return false;
    *out = value->i;
    return true;
}

static bool read_state(const Json *object, BlockState *out) {
    const char *const name = json_string(json_get(object, "state"));
    for (int i = 0; name && i < STATE_COUNT; i++) {
        if (strcmp(name, state_names[i])) continue;
        *out = (BlockState)i;
        return true;
    }
    return false;
}

static bool are_names(const Json *list) {
    if (!list || list->kind != JSON_list) return false;
    for (int i = 0; i < list->n; i++)
        if (!json_string(&list->items[i])) return false;
    return true;
}

static bool read_block(const Json *object, SnapshotBlock *out) {
    if (!read_state(object, &out->state) || !read_count(object, "bytes", &out->bytes) || !out->bytes) return false;
    if (out->state == STATE_used && !read_count(object, "requested", &out->requested)) return false;
    out->waits_for = json_get(object, "waits_for");
    out->site = json_string(json_get(object, "site"));
    return out->state != STATE_waiting || are_names(out->waits_for);
}

/* sums ---------------------------------------------------------------------------------------- */

static void record_largest(SnapshotSums *sums, const SnapshotBlock *block) {
    int i = LARGEST;
    while (i > 0 && sums->largest[i - 1].bytes < block->bytes) i--;
    if (i == LARGEST) return;
    memmove(&sums->largest[i + 1], &sums->largest[i], (size_t)(LARGEST - 1 - i) * sizeof *block);
    sums->largest[i] = *block;
}

static void add_waiting(SnapshotSums *sums, const SnapshotBlock *block) {
    for (int i = 0; i < block->waits_for->n; i++) {
        const char *const name = block->waits_for->items[i].string;
        int k = 0;
        while (k < WAITING_STREAMS && sums->held[k].name && strcmp(sums->held[k].name, name)) k++;
        if (k == WAITING_STREAMS) return;
        sums->held[k].name = name, sums->held[k].bytes += block->bytes;
    }
}

/* Free bytes that cannot go back: in whole pages, or alone in their segment, they can. */
static int64_t stuck_bytes(const SnapshotBlock *block, int64_t page, bool alone) {
    if (!page) return alone ? 0 : block->bytes;
    const int64_t first = ceil_div(block->at, page), end = (block->at + block->bytes) / page;
    return block->bytes - (end > first ? (end - first) * page : 0);
}

static Status add_snapshot_block(SnapshotSums *sums, const SnapshotBlock *block, int64_t page, bool alone) {
    int64_t *const bytes = &sums->bytes[block->state];
    if (!add_ok(*bytes, block->bytes, bytes) || *bytes > MOST) return damaged("its blocks are too large");
    sums->counts[block->state]++;
    if (block->state == STATE_used) sums->requested += block->requested;
    if (block->state == STATE_used || block->state == STATE_waiting) record_largest(sums, block);
    if (block->state == STATE_waiting) add_waiting(sums, block);
    if (block->state != STATE_free) return ST_OK;
    const int64_t stuck = stuck_bytes(block, page, alone);
    sums->stuck += stuck, sums->n_stuck += stuck > 0;
    sums->largest_free = max_i64(sums->largest_free, block->bytes);
    return ST_OK;
}

static Status add_segment(SnapshotSums *sums, const Json *segment) {
    const Json *const blocks = json_get(segment, "blocks");
    int64_t page, bytes, at = 0;
    if (!read_count(segment, "page", &page) || !read_count(segment, "bytes", &bytes) || !blocks ||
        blocks->kind != JSON_list || !json_string(json_get(segment, "stream")))
        return damaged("a segment lacks its page, bytes, stream or blocks");
    for (int i = 0; i < blocks->n; i++) {
        SnapshotBlock block = {.at = at};
        if (!read_block(&blocks->items[i], &block)) return damaged("a block lacks what blocks in its state have");
        TRY(add_snapshot_block(sums, &block, page, blocks->n == 1));
        at += block.bytes;
    }
    sums->n_segments++;
    return at == bytes ? ST_OK : damaged("a segment's blocks are not as many bytes as it is");
}

/* what the statistics say ------------------------------------------------------------------------- */

static Status check_total(const Json *statistics, const char *name, int64_t bytes, int64_t blocks) {
    const Json *const measure = json_get(statistics, name);
    int64_t said_bytes, said_blocks;
    if (!read_count(json_get(measure, "bytes"), "current", &said_bytes) ||
        !read_count(json_get(measure, "blocks"), "current", &said_blocks))
        return error_raise(ST_PARSE, "no snapshot of memory: its statistics lack '%s'", name);
    if (said_bytes == bytes && said_blocks == blocks) return ST_OK;
    return error_raise(ST_PARSE,
                       "no snapshot of memory: %s: its blocks are %lld with %lld bytes, its statistics say %lld with "
                       "%lld",
                       name, (long long)blocks, (long long)bytes, (long long)said_blocks, (long long)said_bytes);
}

static Status check_totals(const Json *statistics, const SnapshotSums *sums) {
    const int64_t *const bytes = sums->bytes, *const counts = sums->counts;
    TRY(check_total(statistics, "allocated", bytes[STATE_used], counts[STATE_used]));
    TRY(check_total(statistics, "requested", sums->requested, counts[STATE_used]));
    TRY(check_total(statistics, "active", bytes[STATE_used] + bytes[STATE_waiting],
                    counts[STATE_used] + counts[STATE_waiting]));
    TRY(check_total(statistics, "reserved", bytes[STATE_used] + bytes[STATE_waiting] + bytes[STATE_free],
                    sums->n_segments));
    return check_total(statistics, "non_releasable", sums->stuck, sums->n_stuck);
}

/* the text ---------------------------------------------------------------------------------------- */

static void print_state(Text *out, const SnapshotSums *sums, const char *name, BlockState state) {
    text_printf(out, "%s: %lld bytes in %lld block%s\n", name, (long long)sums->bytes[state],
                (long long)sums->counts[state], sums->counts[state] == 1 ? "" : "s");
}

static void print_largest(Text *out, const SnapshotSums *sums) {
    if (sums->largest[0].bytes) text_puts(out, "largest blocks:\n");
    for (int i = 0; i < LARGEST && sums->largest[i].bytes; i++) {
        const SnapshotBlock *const block = &sums->largest[i];
        text_printf(out, "  %lld bytes, %s%s%s\n", (long long)block->bytes, state_names[block->state],
                    block->site ? ", asked for at " : "", block->site ? block->site : "");
    }
}

static void print_fragmented(Text *out, const SnapshotSums *sums) {
    text_printf(out,
                "finding: fragmentation: %lld bytes are free in %lld pieces of segments in use, the largest free block "
                "has %lld; SINTER_ALLOC_CONF=expandable_segments:True or max_split_size_mb:N keeps them together\n",
                (long long)sums->stuck, (long long)sums->n_stuck, (long long)sums->largest_free);
}

static void print_waiting(Text *out, const SnapshotSums *sums) {
    text_printf(out, "finding: streams: %lld bytes in %lld freed blocks wait for work of other streams:",
                (long long)sums->bytes[STATE_waiting], (long long)sums->counts[STATE_waiting]);
    for (int i = 0; i < WAITING_STREAMS && sums->held[i].name; i++)
        text_printf(out, "%s %s (%lld bytes)", i ? "," : "", sums->held[i].name, (long long)sums->held[i].bytes);
    text_puts(out, "\n");
}

/* Without a size that there is to be room for, what there is more of. */
static CachingHint find_cause(const SnapshotSums *sums, int64_t left, int64_t asked) {
    const CachingFacts facts = {.asked = (size_t)asked,
                                .gaps = (size_t)sums->stuck,
                                .waiting = (size_t)sums->bytes[STATE_waiting],
                                .left = (size_t)(left + sums->bytes[STATE_free] - sums->stuck)};
    if (asked) return caching_hint(&facts);
    if (!facts.gaps && !facts.waiting) return HINT_full;
    return facts.gaps >= facts.waiting ? HINT_fragmented : HINT_streams;
}

static void print_cause(Text *out, const SnapshotSums *sums, CachingHint cause) {
    switch (cause) {
    case HINT_fragmented:
        print_fragmented(out, sums);
        break;
    case HINT_streams:
        print_waiting(out, sums);
        break;
    case HINT_full:
        text_puts(out, "finding: neither pieces nor streams keep memory from use\n");
        break;
    }
}

/* as JSON ----------------------------------------------------------------------------------------- */

static void put_state_json(Text *out, const SnapshotSums *sums, const char *key, BlockState state) {
    text_printf(out, ", \"%s\": {\"bytes\": %lld, \"blocks\": %lld}", key, (long long)sums->bytes[state],
                (long long)sums->counts[state]);
}

static void put_largest_json(Text *out, const SnapshotSums *sums) {
    text_puts(out, ", \"largest\": [");
    for (int i = 0; i < LARGEST && sums->largest[i].bytes; i++) {
        const SnapshotBlock *const block = &sums->largest[i];
        text_printf(out, "%s{\"bytes\": %lld, \"state\": \"%s\", \"site\": ", i ? ", " : "", (long long)block->bytes,
                    state_names[block->state]);
        if (block->site)
            text_json_string(out, block->site);
        else
            text_puts(out, "null");
        text_puts(out, "}");
    }
    text_puts(out, "]");
}

static void put_sums_json(Text *out, const SnapshotSums *sums, CachingHint cause) {
    static const char *const causes[] = {
        [HINT_fragmented] = "fragmentation", [HINT_streams] = "streams", [HINT_full] = "none"};
    text_printf(out, ", \"segments\": %lld", (long long)sums->n_segments);
    put_state_json(out, sums, "allocated", STATE_used);
    put_state_json(out, sums, "waiting", STATE_waiting);
    put_state_json(out, sums, "free", STATE_free);
    text_printf(out, ", \"requested_bytes\": %lld, \"stuck\": {\"bytes\": %lld, \"blocks\": %lld}",
                (long long)sums->requested, (long long)sums->stuck, (long long)sums->n_stuck);
    put_largest_json(out, sums);
    text_printf(out, ", \"finding\": \"%s\"", causes[cause]);
}

static Status read_sums(const Json *segments, SnapshotSums *sums) {
    if (!segments || segments->kind != JSON_list) return damaged("it has no segments");
    for (int i = 0; i < segments->n; i++) TRY(add_segment(sums, &segments->items[i]));
    return ST_OK;
}

/* the CPU's ----------------------------------------------------------------------------------------- */

typedef struct SmallSums {
    int64_t bytes, blocks, kept; /* kept: bytes */
} SmallSums;

static Status add_class(SmallSums *sums, const Json *class) {
    int64_t bytes, current, peak, total, kept, in_use, free_bytes;
    if (!read_count(class, "bytes", &bytes) || !read_count(class, "current", &current) ||
        !read_count(class, "peak", &peak) || !read_count(class, "total", &total) || !read_count(class, "kept", &kept))
        return damaged("a size class lacks its numbers");
    if (current > peak || peak > total) return damaged("a size class has more blocks in use than it ever had");
    if (!mul_ok(bytes, current, &in_use) || !mul_ok(bytes, kept, &free_bytes) ||
        !add_ok(sums->bytes, in_use, &sums->bytes) || !add_ok(sums->kept, free_bytes, &sums->kept) ||
        sums->bytes > MOST || sums->kept > MOST)
        return damaged("its size classes are too large");
    sums->blocks += current;
    return ST_OK;
}

static Status print_size_classes(const Json *classes, Text *out) {
    SmallSums sums = {0};
    if (classes->kind != JSON_list) return damaged("its size classes are no list");
    for (int i = 0; i < classes->n; i++) TRY(add_class(&sums, &classes->items[i]));
    text_printf(out, "small blocks: %lld bytes in %lld block%s, %lld bytes kept\n", (long long)sums.bytes,
                (long long)sums.blocks, sums.blocks == 1 ? "" : "s", (long long)sums.kept);
    return ST_OK;
}

static Status print_holder(const Json *holder, bool said, Text *out) {
    const Json *const stack = json_get(holder, "stack");
    int64_t bytes, blocks;
    if (!read_count(holder, "bytes", &bytes) || !read_count(holder, "blocks", &blocks) || !are_names(stack))
        return damaged("who holds memory lacks bytes, blocks or stack");
    if (!said) return ST_OK;
    text_printf(out, "  %lld bytes in %lld block%s: ", (long long)bytes, (long long)blocks, blocks == 1 ? "" : "s");
    for (int i = 0; i < stack->n; i++) text_printf(out, "%s%s", i ? " < " : "", stack->items[i].string);
    text_puts(out, "\n");
    return ST_OK;
}

static Status print_holders(const Json *holders, Text *out) {
    if (holders->kind != JSON_list) return damaged("who holds memory is no list");
    if (holders->n) text_puts(out, "in use, by who asked for it:\n");
    for (int i = 0; i < holders->n; i++) TRY(print_holder(&holders->items[i], i < HOLDERS, out));
    if (holders->n > HOLDERS) text_printf(out, "  and %d places more\n", holders->n - HOLDERS);
    return ST_OK;
}

static Status print_small(const Json *root, Text *out) {
    const Json *const classes = json_get(root, "classes"), *const holders = json_get(root, "held");
    if (classes) TRY(print_size_classes(classes, out));
    return holders ? print_holders(holders, out) : ST_OK;
}

static void print_block_sums(Text *out, const SnapshotSums *sums) {
    print_state(out, sums, "allocated", STATE_used);
    print_state(out, sums, "waiting for streams", STATE_waiting);
    print_state(out, sums, "free", STATE_free);
    print_largest(out, sums);
}

static void print_as_json(Text *out, const Json *root, const SnapshotSums *sums, CachingHint cause) {
    text_puts(out, "{\"device\": ");
    text_json_string(out, json_string(json_get(root, "device")));
    text_printf(out, ", \"device_free\": %lld, \"device_total\": %lld", (long long)json_get(root, "device_free")->i,
                (long long)json_get(root, "device_total")->i);
    put_sums_json(out, sums, cause);
    text_puts(out, "}\n");
}

static Status print_parsed(const Json *root, int64_t asked, bool json, Text *out) {
    SnapshotSums sums = {0};
    int64_t version, left, total;
    const char *const device = json_string(json_get(root, "device"));
    if (!read_count(root, "version", &version) || version != 1) return damaged("it is not of version 1");
    if (!device || !read_count(root, "device_free", &left) || !read_count(root, "device_total", &total))
        return damaged("it has no device");
    TRY(read_sums(json_get(root, "segments"), &sums));
    TRY(check_totals(json_get(root, "statistics"), &sums));
    Text small = {0};
    const Status status = print_small(root, &small);
    if (status == ST_OK && json) print_as_json(out, root, &sums, find_cause(&sums, left, asked));
    if (status == ST_OK && !json) {
        text_printf(out, "%s: %lld segments, %lld of %lld bytes free on the device\n", device,
                    (long long)sums.n_segments, (long long)left, (long long)total);
        print_block_sums(out, &sums);
        text_puts(out, text_str(&small));
        print_cause(out, &sums, find_cause(&sums, left, asked));
    }
    text_free(&small);
    return status;
}

static Status report_snapshot(const char *snapshot, size_t n, int64_t asked, bool json, Text *out) {
    Arena *const arena = arena_new();
    const Json *root;
    if (!arena) return ST_MEMORY;
    Status status = json_parse(arena, snapshot, n, &root);
    if (status == ST_OK) status = print_parsed(root, asked, json, out);
    arena_free(arena);
    return status;
}

Status memory_report(const char *json, size_t n, int64_t asked, Text *out) {
    return report_snapshot(json, n, asked, false, out);
}

Status memory_report_json(const char *json, size_t n, int64_t asked, Text *out) {
    return report_snapshot(json, n, asked, true, out);
}
