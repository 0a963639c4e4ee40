/* test_cuda_memory.c: the memory of CUDA devices: what is reused, kept, given back and told [acceptance 7.01 to 7.08,
 * 7.16]. Runs on the emulated driver, and unchanged on a GPU: what counts the driver's blocks is left out there. The
 * policy's own tests are unit.test_caching: these look at what the driver makes of it. */
#include <check.h>
#include <sinter/sinter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/memory_report.h"
#include "tests/cuda/emulated_control.h"
#include "tests/unit/public_check.h"
#include "tests/unit/suite.h"

enum { GPU = SN_CUDA(0), MIB = 1 << 20 };

/* 4 bytes an element. */
static sn_tensor *take(int64_t bytes) {
    const sn_value none = {.kind = SN_KIND_NONE};
    sn_tensor *const t = sn_empty_ex(SN_INTS(bytes / 4), SN_F32, none, sn_int(GPU), none, none);
    expect_ok();
    return t;
}

static sn_memory memory(void) {
    sn_memory memory = {.size = sizeof memory};
    ck_assert_int_eq(sn_memory_get(GPU, &memory), SN_OK);
    return memory;
}

/* Settings are read once, and each test has a process. */
static void configure(const char *text) { setenv("SINTER_ALLOC_CONF", text, 1); }

/* What is freed is used again in the stream's order: the driver is asked for nothing, and no free waits. */
START_TEST(a7_01_ops_in_a_loop_allocate_nothing) {
    sn_tensor *const x = sn_to_device(range(50), GPU);
    EmulatorCounts before = {0};
    sn_memory memory_before = {0};
    for (int i = 0; i < 60; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *y = x;
        for (int k = 0; k < 5; k++) y = sn_neg(y);
        if (i < 10) ck_assert(sn_item(sn_to_device(sn_select(y, 0, 0), SN_CPU)) == 2.5);
        sn_scope_end(scope);
        if (i == 10) before = emulated(), memory_before = memory();
    }
    ck_assert_int_eq(memory().reserved, memory_before.reserved);
    ck_assert_int_eq(memory().current, memory_before.current);
    if (!is_emulated()) return;
    ck_assert_int_eq(emulated().blocks, before.blocks);
    ck_assert_int_eq(emulated().bytes, before.bytes);
    expect_ok();
}
END_TEST

static sn_tensor *full(int64_t n, double value) {
    const sn_value none = {.kind = SN_KIND_NONE};
    return sn_full_ex(SN_INTS(n), sn_float(value), SN_F32, none, sn_int(GPU), none);
}

/* The stream waits for what the other has. */
static void follow(sn_stream *stream, sn_stream *before) {
    sn_event *const event = sn_event_new(GPU);
    ck_assert_int_eq(sn_event_record(event, before), SN_OK);
    ck_assert_int_eq(sn_stream_wait(stream, event), SN_OK);
    sn_event_free(event);
}

/* x is freed while another stream has yet to read it: its memory is given out again when that is done. */
START_TEST(a7_02_a_block_used_on_another_stream_waits_for_it) {
    sn_stream *const own = sn_stream_own(GPU), *const side = sn_stream_new(GPU);
    sn_tensor *const x = sn_keep(full(5000, 3));
    const void *const at = sn_data_raw(x);
    follow(side, own);
    const sn_scope scope = sn_scope_begin();
    ck_assert_int_eq(sn_stream_use(side), SN_OK);
    sn_tensor *const y = sn_keep(sn_neg(x));
    sn_scope_end(scope);
    ck_assert_int_eq(sn_record_stream(x, side), SN_OK);
    sn_release(x);
    if (is_emulated()) { /* where nothing runs before it is waited for */
        ck_assert_int_eq(memory().bytes[SN_MEMORY_ACTIVE].current - memory().current, 20480);
        ck_assert_ptr_nonnull(strstr(sn_memory_snapshot(GPU), "\"waits_for\": [\"stream 1 of cuda:0\"]"));
        ck_assert_ptr_ne(sn_data_raw(full(5000, 7)), at);
    }
    ck_assert_int_eq(sn_stream_synchronize(side), SN_OK);
    ck_assert_ptr_eq(sn_data_raw(full(5000, 7)), at);
    ck_assert(sn_item(sn_select(y, 0, 4999)) == -3);
    ck_assert_int_eq(memory().bytes[SN_MEMORY_ACTIVE].current, memory().current);
    sn_release(y);
    sn_stream_free(side);
    expect_ok();
}
END_TEST

/* Work by chance, in another order each time: what is read is what was there. */
START_TEST(a7_02_streams_in_any_order) {
    char how[32];
    snprintf(how, sizeof how, "reorder=%d", _i + 1);
    setenv("EMULATED_CUDA", how, 1);
    sn_stream *const own = sn_stream_own(GPU), *const side = sn_stream_new(GPU);
    for (int i = 0; i < 20; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const x = sn_keep(full(500, i));
        follow(side, own);
        const sn_scope inner = sn_scope_begin();
        ck_assert_int_eq(sn_stream_use(side), SN_OK);
        sn_tensor *const y = sn_keep(sn_neg(sn_neg(sn_neg(x))));
        sn_scope_end(inner);
        ck_assert_int_eq(sn_record_stream(x, side), SN_OK);
        sn_release(x);
        for (int k = 0; k < 4; k++) full(500, 1000 + k);
        follow(own, side);
        ck_assert(sn_item(sn_sum(y)) == -500.0 * i);
        sn_record_stream(y, own);
        sn_release(y);
        sn_scope_end(scope);
    }
    ck_assert_int_eq(sn_device_synchronize(GPU), SN_OK);
    sn_stream_free(side);
    expect_ok();
}
END_TEST

START_TEST(a7_03_empty_cache_gives_back_whole_segments) {
    sn_tensor *const held = take(4000);
    const sn_memory before = memory();
    const sn_scope scope = sn_scope_begin();
    take(12 * MIB); /* a segment of its own */
    take(4000);     /* beside `held` */
    sn_scope_end(scope);
    ck_assert_int_eq(memory().reserved, before.reserved + 12 * MIB);
    ck_assert_int_eq(memory().current, before.current);
    ck_assert_int_eq(memory().bytes[SN_MEMORY_NON_RELEASABLE].current, before.reserved - before.current);
    ck_assert_int_eq(sn_memory_trim(GPU), SN_OK);
    ck_assert_int_eq(memory().reserved, before.reserved);
    ck_assert_int_eq(sn_numel(held), 1000);
    expect_ok();
}
END_TEST

START_TEST(a7_04_the_table_and_the_numbers) {
    take(3 * MIB), take(100);
    const sn_memory now = memory();
    ck_assert_int_eq(now.current, 3 * MIB + 512);
    ck_assert_int_eq(now.bytes[SN_MEMORY_ALLOCATED].current, now.current);
    ck_assert_int_eq(now.bytes[SN_MEMORY_REQUESTED].current, 3 * MIB + 100);
    ck_assert_int_eq(now.bytes[SN_MEMORY_RESERVED].current, 22 * MIB);
    ck_assert_int_eq(now.blocks[SN_MEMORY_RESERVED].current, 2);
    ck_assert_int_eq(now.bytes[SN_MEMORY_NON_RELEASABLE].current, 19 * MIB - 512);
    ck_assert_int_le(now.device_free + 22 * MIB, now.device_total);
    const char *const table = sn_memory_summary(GPU);
    static const char *const lines[] = {
        "memory of cuda:0: retries after giving back: 0, out of memory: 0\n",
        "| allocated memory        |    3072 KiB |    3072 KiB |    3072 KiB |       0 B   |\n",
        "| reserved memory         |      22 MiB |      22 MiB |      22 MiB |       0 B   |\n",
        "| reserved segments       |           2 |           2 |           2 |           0 |\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        ck_assert_msg(strstr(table, lines[i]) != NULL, "%s lacks\n%s", table, lines[i]);
    sn_memory older = {.size = offsetof(sn_memory, bytes), .retries = 77}; /* of a program made before there was more */
    ck_assert_int_eq(sn_memory_get(GPU, &older), SN_OK);
    ck_assert_int_eq(older.current, 3 * MIB + 512);
    ck_assert_int_eq(older.retries, 77);
    ck_assert_str_eq(sn_memory_summary(SN_META), "");
    expect_error(SN_ERR_DEVICE, "sn_memory_summary: nothing is known of meta");
    ck_assert_str_eq(sn_memory_snapshot(SN_META), "");
    expect_error(SN_ERR_DEVICE, "sn_memory_snapshot: nothing is known of meta");
}
END_TEST

/* 60 of 64 MiB fragment by 30, 12 and 20; the emulated device has 64. */
static sn_tensor *fragment(void) {
    const sn_scope scope = sn_scope_begin();
    take(40 * MIB);
    sn_scope_end(scope);
    take(12 * MIB);
    const sn_value none = {.kind = SN_KIND_NONE};
    return sn_empty_ex(SN_INTS(30 * MIB / 4), SN_F32, none, sn_int(GPU), none, none);
}

START_TEST(a7_05_fragmentation_with_and_without_max_split_size) {
    if (!is_emulated()) return;
    if (_i) configure("max_split_size_mb:32");
    sn_tensor *const last = fragment();
    if (_i) {
        expect_ok();
        ck_assert_ptr_nonnull(last);
    } else {
        expect_error(SN_ERR_MEMORY, "29360128 bytes are free, but in pieces: "
                                    "SINTER_ALLOC_CONF=expandable_segments:True or max_split_size_mb:N");
    }
}
END_TEST

START_TEST(a7_06_expandable_segments_are_mapped_and_unmapped) {
    if (!is_emulated()) return;
    configure("expandable_segments:True");
    sn_device_synchronize(GPU);
    const EmulatorCounts before = emulated();
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const x = sn_to_device(range(100), GPU);
    sn_tensor *const wide = sn_add(sn_expand(sn_reshape(x, SN_INTS(100, 1)), SN_INTS(100, 60000)), take(4 * 60000));
    ck_assert_int_eq(sn_device_synchronize(GPU), SN_OK); /* written over the pages' borders */
    ck_assert_int_eq(sn_numel(wide), 6000000);           /* 24 MB: two pages of 20 MiB */
    ck_assert_int_eq(emulated().blocks - before.blocks, 3);
    ck_assert_int_eq(emulated().bytes - before.bytes, 42 * MIB);
    ck_assert_int_eq(memory().reserved, 42 * MIB);
    ck_assert_int_eq(memory().blocks[SN_MEMORY_RESERVED].current, 2); /* ranges of addresses: the pools' */
    sn_tensor *const moved = sn_to_device(wide, SN_CPU);              /* read over them */
    ck_assert_int_eq(sn_device_of(moved), SN_CPU);
    sn_scope_end(scope);
    ck_assert_int_eq(sn_memory_trim(GPU), SN_OK);
    ck_assert_int_eq(emulated().blocks, before.blocks);
    ck_assert_int_eq(emulated().bytes, before.bytes);
    ck_assert_int_eq(memory().reserved, 0);
    expect_ok();
}
END_TEST

START_TEST(a7_08_a_snapshot_with_the_lines_that_asked) {
    ck_assert_int_eq(sn_setting_set("memory_sites", "1"), SN_OK);
    take(3 * MIB);
    const int line = __LINE__ + 1;
    sn_tensor *const copy = sn_to_device(range(7), GPU);
    const char *const json = sn_memory_snapshot(GPU);
    char place[64];
    snprintf(place, sizeof place, "test_cuda_memory.c:%d\"", line);
    ck_assert_msg(strstr(json, place) != NULL, "%s lacks %s", json, place);
    Text says = {0};
    ck_assert_msg(memory_report(json, strlen(json), 0, &says) == ST_OK, "%s", sn_error_take()->message);
    ck_assert_ptr_nonnull(strstr(text_str(&says), "allocated: 3146240 bytes in 2 blocks\n"));
    ck_assert_ptr_nonnull(strstr(text_str(&says), "largest blocks:\n  3145728 bytes, used, asked for at "));
    text_free(&says);
    ck_assert_int_eq(sn_numel(copy), 7);
    expect_ok();
}
END_TEST

static char logged[2048];
static void note_line(void *context, int level, const char *topic, const char *text) {
    (void)topic, (void)level, (void)context;
    strncat(logged, text, sizeof logged - strlen(logged) - 1);
}

START_TEST(a7_16_alloc_conf) {
    static const char *const texts[] = {"expandable_segments:True,max_split_size_mb:64", "expandable_segments:Maybe"};
    configure(texts[_i]);
    sn_logging_set(note_line, NULL, NULL);
    take(4 * MIB);
    if (_i) {
        ck_assert_msg(strstr(logged, "SINTER_ALLOC_CONF: 'expandable_segments:Maybe': expandable_segments is True or "
                                     "False; nothing of it is used"),
                      "%s", logged);
    } else {
        ck_assert_msg(!strstr(logged, "ALLOC_CONF"), "%s", logged);
    }
    ck_assert_ptr_eq(strstr(sn_memory_snapshot(GPU), "\"page\": 20971520") ? texts[0] : texts[1], texts[_i]);
    ck_assert_int_eq(sn_setting_set("alloc_conf", ""), SN_ERR_UNSUPPORTED);
    expect_error(SN_ERR_UNSUPPORTED, "setting alloc_conf is read once, from the environment: SINTER_ALLOC_CONF");
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("cuda_memory");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a7_01_ops_in_a_loop_allocate_nothing);
    tcase_add_test(tests, a7_02_a_block_used_on_another_stream_waits_for_it);
    tcase_add_loop_test(tests, a7_02_streams_in_any_order, 0, 6);
    tcase_add_test(tests, a7_03_empty_cache_gives_back_whole_segments);
    tcase_add_test(tests, a7_04_the_table_and_the_numbers);
    tcase_add_loop_test(tests, a7_05_fragmentation_with_and_without_max_split_size, 0, 2);
    tcase_add_test(tests, a7_06_expandable_segments_are_mapped_and_unmapped);
    tcase_add_test(tests, a7_08_a_snapshot_with_the_lines_that_asked);
    tcase_add_loop_test(tests, a7_16_alloc_conf, 0, 2);
    return suite_run("cuda_memory", tests);
}
