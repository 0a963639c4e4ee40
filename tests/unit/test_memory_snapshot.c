/* test_memory_snapshot.c: a caching allocator as JSON, and what `sinter memory` says of it [acceptance 7.07, 7.08];
 * with something in the text changed at random it is refused, or another snapshot that is whole. */
#include "frontend/api/memory_report.h"
#include "runtime/base/json.h"
#include "tests/unit/fake_memory.h"
#include "tests/unit/mutated_text.h"
#include "tests/unit/suite.h"

static void name_site(const void *site, char *out, size_t capacity) {
    snprintf(out, capacity, "train.c:%d", (int)(uintptr_t)site);
}

static uintptr_t take_at(Caching *caching, size_t bytes, int stream, int line) {
    fake.site = (const void *)(uintptr_t)line;
    return caching_allocate(caching, bytes, fake_stream(stream));
}

/* 20 MiB: 4 in use, 3 free, 4 in use, 9 free; 2 MiB: 1000 bytes in use; 30 MiB of stream 1 wait for 2 and 0. */
static Caching *example(CachingConfig config) {
    Caching *const caching = fake_begin(100 * MIB, config);
    take_at(caching, 4 * MIB, 0, 57);
    const uintptr_t gap = take_at(caching, 3 * MIB, 0, 58);
    take_at(caching, 4 * MIB, 0, 59);
    take_at(caching, 1000, 0, 60);
    caching_free(caching, gap);
    return caching;
}

static void hold(Caching *caching, size_t bytes) {
    const uintptr_t held = take_at(caching, bytes, 1, 61);
    caching_used(caching, held, fake_stream(2)), caching_used(caching, held, fake_stream(0));
    fake_work(2), fake_work(0);
    caching_free(caching, held);
}

static Text snapshot_of(Caching *caching) {
    Text text = {0};
    caching_snapshot(caching, name_site, NULL, &text);
    return text;
}

static int64_t number(const Json *object, const char *a, const char *b, const char *c) {
    const Json *const value = json_get(json_get(json_get(object, a), b), c);
    ck_assert_msg(value && value->is_int, "%s %s %s", a, b, c);
    return value->i;
}

START_TEST(a7_08_a_snapshot_reproduces_the_totals) {
    Caching *const caching = example((CachingConfig){.expandable = _i});
    hold(caching, 30 * MIB);
    Text text = snapshot_of(caching);
    Arena *const arena = arena_new();
    const Json *root;
    ck_assert_int_eq(json_parse(arena, text_str(&text), text.n, &root), ST_OK);
    int64_t used = 0, waiting = 0, free_bytes = 0, n_used = 0;
    const Json *const segments = json_get(root, "segments");
    for (int i = 0; i < segments->n; i++) {
        const Json *const blocks = json_get(&segments->items[i], "blocks");
        for (int k = 0; k < blocks->n; k++) {
            const char *const state = json_string(json_get(&blocks->items[k], "state"));
            const int64_t bytes = json_get(&blocks->items[k], "bytes")->i;
            if (!strcmp(state, "used")) used += bytes, n_used++;
            if (!strcmp(state, "waiting")) waiting += bytes;
            if (!strcmp(state, "free")) free_bytes += bytes;
        }
    }
    CachingStats stats;
    caching_stats(caching, &stats);
    ck_assert_int_eq(used, 8 * MIB + 1024);
    ck_assert_int_eq(used, stats.bytes[CACHING_all][MEASURE_allocated].current);
    const Json *const statistics = json_get(root, "statistics");
    ck_assert_int_eq(number(statistics, "allocated", "bytes", "current"), used);
    ck_assert_int_eq(number(statistics, "allocated", "blocks", "current"), n_used);
    ck_assert_int_eq(number(statistics, "active", "bytes", "current"), used + waiting);
    ck_assert_int_eq(number(statistics, "reserved", "bytes", "current"), used + waiting + free_bytes);
    ck_assert_int_eq(number(statistics, "allocated", "bytes", "peak"), 41 * MIB + 1024 - 3 * MIB);
    arena_free(arena);
    text_free(&text);
    fake_end(caching);
}
END_TEST

static void expect_report(Caching *caching, int64_t asked, const char *const *lines) {
    Text json = snapshot_of(caching), says = {0};
    ck_assert_msg(memory_report(text_str(&json), json.n, asked, &says) == ST_OK, "%s", error_slot()->message);
    for (int i = 0; lines[i]; i++)
        ck_assert_msg(strstr(text_str(&says), lines[i]) != NULL, "%s lacks\n%s", text_str(&says), lines[i]);
    text_free(&json), text_free(&says);
}

#define LINES(...) ((const char *const[]){__VA_ARGS__, NULL})

START_TEST(a7_07_a_report_names_fragmentation) {
    Caching *const caching = example((CachingConfig){0});
    expect_report(caching, 0,
                  LINES("fake:0: 2 segments, 81788928 of 104857600 bytes free on the device\n",
                        "allocated: 8389632 bytes in 3 blocks\n", "waiting for streams: 0 bytes in 0 blocks\n",
                        "free: 14679040 bytes in 3 blocks\n",
                        "largest blocks:\n  4194304 bytes, used, asked for at train.c:57\n"
                        "  4194304 bytes, used, asked for at train.c:59\n  1024 bytes, used, asked for at train.c:60\n",
                        "finding: fragmentation: 14679040 bytes are free in 3 pieces of segments in use, the largest "
                        "free block has 9437184;"));
    expect_report(caching, 95 * MIB, LINES("finding: neither pieces nor streams"));
    expect_report(caching, 90 * MIB, LINES("finding: fragmentation: "));
    fake_end(caching);
}
END_TEST

START_TEST(a7_07_a_report_names_the_streams_that_hold_blocks) {
    Caching *const caching = example((CachingConfig){0});
    hold(caching, 30 * MIB);
    expect_report(caching, 0,
                  LINES("waiting for streams: 31457280 bytes in 1 block\n",
                        "  31457280 bytes, waiting, asked for at train.c:61\n",
                        "finding: streams: 31457280 bytes in 1 freed blocks wait for work of other streams: ",
                        "stream 2 (31457280 bytes)", "stream 0 (31457280 bytes)"));
    expect_report(caching, 75 * MIB, LINES("finding: streams: "));
    expect_report(caching, 60 * MIB, LINES("finding: fragmentation: "));
    fake_end(caching);
}
END_TEST

static const char *refused(const char *json) {
    Text says = {0};
    error_clear();
    ck_assert_int_eq(memory_report(json, strlen(json), 0, &says), ST_PARSE);
    text_free(&says);
    return error_slot()->message;
}

START_TEST(what_is_no_snapshot) {
    ck_assert_ptr_nonnull(strstr(refused(""), "JSON, byte 0"));
    ck_assert_ptr_nonnull(strstr(refused("[]"), "it is not of version 1"));
    ck_assert_ptr_nonnull(strstr(refused("{\"version\": 2}"), "it is not of version 1"));
    ck_assert_ptr_nonnull(strstr(refused("{\"version\": 1, \"device\": \"x\"}"), "it has no device"));
    ck_assert_ptr_nonnull(strstr(
        refused("{\"version\": 1, \"device\": \"x\", \"device_free\": 1, \"device_total\": 1}"), "it has no segments"));
    Caching *const caching = example((CachingConfig){0});
    Text json = snapshot_of(caching);
    char *const place = strstr(json.at, "\"current\": 8389632"); /* another total */
    place[strlen("\"current\": ")] = '9';
    ck_assert_ptr_nonnull(strstr(refused(json.at), "allocated: its blocks are 3 with 8389632 bytes, its statistics say "
                                                   "3 with 9389632"));
    error_clear();
    text_free(&json);
    fake_end(caching);
}
END_TEST

START_TEST(changed_texts_are_refused_or_whole) {
    Caching *const caching = example((CachingConfig){.expandable = _i});
    hold(caching, 2 * MIB);
    Text json = snapshot_of(caching);
    int n_refused = 0;
    for (int i = 0; i < 3000; i++) {
        Text changed = {0}, says = {0};
        random_state = (uint64_t)i * 977 + 3;
        change(text_str(&json), &changed);
        n_refused += memory_report(text_str(&changed), changed.n, i % 3 ? 0 : 40 << 20, &says) != ST_OK;
        HOLDS((error_pending() == ST_OK) == (says.n > 0));
        error_clear();
        text_free(&changed), text_free(&says);
    }
    ck_assert_int_gt(n_refused, 1000);
    text_free(&json);
    fake_end(caching);
}
END_TEST

START_TEST(a7_16_what_alloc_conf_may_say) {
    static const struct {
        const char *text, *why; /* NULL: it is read */
        CachingConfig config;
    } rows[] = {
        {"", NULL, {0}},
        {"expandable_segments:True", NULL, {.expandable = true}},
        {"expandable_segments:False,max_split_size_mb:64", NULL, {.max_split = 64 << 20}},
        {"max_split_size_mb:21,expandable_segments:True", NULL, {.max_split = 21 << 20, .expandable = true}},
        {"expandable_segments:yes", "'expandable_segments:yes': expandable_segments is True or False", {0}},
        {"expandable_segments", "'expandable_segments': expandable_segments is True or False", {0}},
        {"max_split_size_mb:20", "max_split_size_mb is a number above 20", {0}},
        {"max_split_size_mb:-1", "max_split_size_mb is a number above 20", {0}},
        {"max_split_size_mb:99999999999999", "max_split_size_mb is a number above 20", {0}},
        {"expandable_segments:True,roundup:4",
         "'roundup' is no key; keys: expandable_segments (True or False), "
         "max_split_size_mb (a number above 20)",
         {0}},
        {"expandable_segments:True,", "it ends in a comma", {0}},
    };
    for (int i = 0; i < COUNT_OF(rows); i++) {
        CachingConfig config = {0};
        Text why = {0};
        ck_assert_int_eq(caching_config_read(rows[i].text, &config, &why), !rows[i].why);
        ck_assert_msg(!rows[i].why || strstr(text_str(&why), rows[i].why), "%s: %s", rows[i].text, text_str(&why));
        ck_assert_int_eq(config.expandable, rows[i].config.expandable);
        ck_assert_uint_eq(config.max_split, rows[i].config.max_split);
        text_free(&why);
    }
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("memory_snapshot");
    tcase_add_loop_test(tests, a7_08_a_snapshot_reproduces_the_totals, 0, 2);
    tcase_add_test(tests, a7_07_a_report_names_fragmentation);
    tcase_add_test(tests, a7_07_a_report_names_the_streams_that_hold_blocks);
    tcase_add_test(tests, what_is_no_snapshot);
    tcase_add_loop_test(tests, changed_texts_are_refused_or_whole, 0, 2);
    tcase_add_test(tests, a7_16_what_alloc_conf_may_say);
    return suite_run("memory_snapshot", tests);
}
