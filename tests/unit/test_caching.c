/* test_caching.c: the caching allocator's policy on a device of numbers (fake_memory.h): traces whose addresses and
 * statistics were worked out by hand [acceptance 7.01 to 7.08]. */
#include "tests/unit/fake_memory.h"
#include "tests/unit/suite.h"

static Caching *caching;

static uintptr_t take(size_t bytes, int stream) {
    const uintptr_t at = caching_allocate(caching, bytes, fake_stream(stream));
    ck_assert_msg(at != 0, "%s", error_slot()->message);
    check_whole(caching);
    return at;
}

static void give(uintptr_t at) {
    caching_free(caching, at);
    check_whole(caching);
}

static void use(uintptr_t at, int stream) {
    ck_assert_int_eq(caching_used(caching, at, fake_stream(stream)), ST_OK);
    fake_work(stream);
}

/* The error, which is taken. */
static const char *refused(size_t bytes, int stream) {
    static char says[sizeof(error_slot()->message)];
    ck_assert_uint_eq(caching_allocate(caching, bytes, fake_stream(stream)), 0);
    ck_assert_int_eq(error_pending(), ST_MEMORY);
    snprintf(says, sizeof says, "%s", error_slot()->message);
    error_clear();
    check_whole(caching);
    return says;
}

static const CachingStat *bytes_of(CachingMeasure measure) { return &caching->stats.bytes[CACHING_all][measure]; }
static const CachingStat *counts_of(CachingMeasure measure) { return &caching->stats.counts[CACHING_all][measure]; }

#define EXPECT(measure, n)        ck_assert_int_eq(bytes_of(MEASURE_##measure)->current, (int64_t)(n))
#define EXPECT_BLOCKS(measure, n) ck_assert_int_eq(counts_of(MEASURE_##measure)->current, n)

static void begin(size_t total, CachingConfig config) { caching = fake_begin(total, config); }

static void end(void) { fake_end(caching); }

/* 7.01 ---------------------------------------------------------------------------------------- */

START_TEST(a7_01_rounding_and_segments) {
    begin(1024 * MIB, (CachingConfig){0});
    const uintptr_t a = take(1, 0), b = take(513, 0), none = take(0, 0), full = take(MIB, 0);
    ck_assert_int_eq(fake.n_takes, 1); /* all of a segment of 2 MiB */
    ck_assert_uint_eq(fake.last_taken, 2 * MIB);
    ck_assert_uint_eq(b, a + 512);
    ck_assert_uint_eq(none, a + 1536);
    ck_assert_uint_eq(full, a + 2048);
    EXPECT(allocated, 512 + 1024 + 512 + MIB);
    EXPECT(requested, 1 + 513 + MIB);
    EXPECT(reserved, 2 * MIB);
    EXPECT(stuck, 2 * MIB - MIB - 2048);
    const uintptr_t large = take(MIB + 1, 0);
    ck_assert_uint_eq(fake.last_taken, 20 * MIB);
    ck_assert_uint_eq(take(9 * MIB, 0), large + MIB + 512);
    ck_assert_int_eq(fake.n_takes, 2);
    take(10 * MIB, 0);
    ck_assert_uint_eq(fake.last_taken, 10 * MIB);
    take(10 * MIB + 1, 0);
    ck_assert_uint_eq(fake.last_taken, 12 * MIB);
    ck_assert_int_eq(fake.n_takes, 4);
    ck_assert_int_eq(caching->stats.bytes[CACHING_large][MEASURE_reserved].current, 42 * MIB);
    ck_assert_int_eq(caching->stats.counts[CACHING_small][MEASURE_allocated].current, 4);
    end();
}
END_TEST

START_TEST(a7_01_best_fit) {
    begin(1024 * MIB, (CachingConfig){0});
    /* | 4 used | 2 | 4 used | 3 | 4 used | 3 left | of 20 MiB */
    const uintptr_t hold = take(4 * MIB, 0), two = take(2 * MIB, 0), wall = take(4 * MIB, 0), three = take(3 * MIB, 0);
    const uintptr_t last = take(4 * MIB, 0), after = last + 4 * MIB;
    give(two), give(three);
    ck_assert_uint_eq(take(2 * MIB - 512, 0), two);   /* the smallest that holds it */
    ck_assert_uint_eq(take(2 * MIB + 512, 0), three); /* of two that are as large the lower one; what is left, */
    ck_assert_uint_eq(take(2 * MIB + 512, 0), after); /* less than 1 MiB, stays with it */
    EXPECT(allocated, 12 * MIB + 2 * MIB + 3 * MIB + 3 * MIB);
    ck_assert_int_eq(fake.n_takes, 1);
    give(hold), give(wall);
    ck_assert_uint_eq(take(3 * MIB, 0), hold); /* split: 1 MiB is left, which is a small block of the large pool */
    EXPECT(stuck, 4 * MIB);
    ck_assert_int_eq(fake.n_takes, 1);
    end();
}
END_TEST

START_TEST(a7_01_what_is_split) {
    begin(1024 * MIB, (CachingConfig){0});
    const uintptr_t whole = take(19 * MIB + MIB / 2, 0); /* 0.5 MiB left: not split */
    EXPECT(allocated, 20 * MIB);
    EXPECT_BLOCKS(stuck, 0);
    give(whole);
    ck_assert_uint_eq(take(19 * MIB, 0), whole); /* 1 MiB: neither */
    EXPECT(allocated, 20 * MIB);
    give(whole);
    ck_assert_uint_eq(take(19 * MIB - 512, 0), whole);
    EXPECT(allocated, 19 * MIB - 512);
    EXPECT(stuck, MIB + 512);
    EXPECT_BLOCKS(stuck, 1);
    const uintptr_t small = take(2 * MIB - 512 - 512 * KIB - 512 * KIB, 0); /* small ones from 512 bytes on */
    const uintptr_t rest = take(MIB, 0);
    ck_assert_uint_eq(rest, small + MIB - 512);
    EXPECT(stuck, MIB + 512 + 512);
    end();
}
END_TEST

START_TEST(a7_01_neighbours_become_one) {
    begin(1024 * MIB, (CachingConfig){0});
    uintptr_t at[4];
    for (int i = 0; i < 4; i++) at[i] = take(100 * KIB, 0);
    const size_t tail = 2 * MIB - 400 * KIB;
    EXPECT_BLOCKS(stuck, 1);
    give(at[0]), give(at[2]);
    EXPECT(stuck, 200 * KIB + tail);
    EXPECT_BLOCKS(stuck, 3);
    give(at[1]); /* with both sides */
    EXPECT_BLOCKS(stuck, 2);
    ck_assert_uint_eq(take(300 * KIB, 0), at[0]);
    give(at[3]);
    EXPECT_BLOCKS(stuck, 1);
    give(at[0]); /* all of the segment: nothing is stuck any more */
    EXPECT(stuck, 0);
    EXPECT(allocated, 0);
    EXPECT(reserved, 2 * MIB);
    ck_assert_int_eq(bytes_of(MEASURE_allocated)->peak, 400 * (int64_t)KIB);
    ck_assert_int_eq(bytes_of(MEASURE_allocated)->gained, 700 * (int64_t)KIB);
    ck_assert_int_eq(counts_of(MEASURE_allocated)->lost, 5);
    end();
}
END_TEST

START_TEST(a7_01_a_loop_takes_nothing_new) {
    begin(64 * MIB, (CachingConfig){0});
    for (int step = 0; step < 1000; step++) {
        const uintptr_t x = take(3 * MIB, 0), y = take(5000, 0), z = take(3 * MIB, 0);
        give(x), give(z), give(y);
    }
    ck_assert_int_eq(fake.n_takes, 2);
    ck_assert_int_eq(fake.n_waits, 0);
    end();
}
END_TEST

/* 7.02 ---------------------------------------------------------------------------------------- */

START_TEST(a7_02_streams_have_their_own_blocks) {
    begin(1024 * MIB, (CachingConfig){0});
    const uintptr_t a = take(4 * KIB, 0);
    fake_work(0);
    give(a);                                /* in the order of its own stream's work it is free at once, */
    ck_assert_uint_ne(take(4 * KIB, 1), a); /* for another stream's never */
    fake_finish(0);
    ck_assert_uint_ne(take(4 * KIB, 1), a);
    ck_assert_uint_eq(take(4 * KIB, 0), a);
    ck_assert_int_eq(fake.n_waits, 0);
    end();
}
END_TEST

START_TEST(a7_02_a_block_used_on_other_streams_waits_for_their_events) {
    begin(1024 * MIB, (CachingConfig){0});
    const uintptr_t a = take(4 * KIB, 0), b = take(4 * KIB, 0);
    use(a, 1), use(a, 2), use(a, 1);
    use(b, 0); /* its own, which needs no event */
    give(a), give(b);
    ck_assert_int_eq(fake.n_events, 2);
    EXPECT(allocated, 0);
    EXPECT(active, 4 * KIB);
    ck_assert_uint_eq(take(4 * KIB, 0), b);
    ck_assert_uint_ne(take(4 * KIB, 0), a);
    fake_finish(1);
    ck_assert_uint_ne(take(4 * KIB, 0), a); /* one of two */
    fake_work(2);                           /* what comes later does not count */
    fake.done[2] = 1;
    ck_assert_uint_eq(take(4 * KIB, 0), a);
    ck_assert_int_eq(fake.n_events, 0);
    ck_assert_int_eq(fake.n_waits, 0);
    end();
}
END_TEST

START_TEST(a7_02_a_stream_that_takes_no_event_is_waited_for) {
    begin(1024 * MIB, (CachingConfig){0});
    const uintptr_t a = take(4 * KIB, 0);
    use(a, 1);
    fake.fail_at = fake.calls;
    give(a);
    ck_assert_int_eq(fake.n_waits, 1);
    EXPECT(active, 0);
    ck_assert_uint_eq(take(4 * KIB, 0), a);
    use(a, 1);
    fake.lost = true; /* and where that cannot be, the block is never given out again */
    give(a);
    EXPECT(active, 4 * KIB);
    ck_assert_uint_ne(take(4 * KIB, 0), a);
    ck_assert_int_eq(error_pending(), ST_OK);
    end();
}
END_TEST

/* 7.03 ---------------------------------------------------------------------------------------- */

START_TEST(a7_03_only_wholly_free_segments_go_back) {
    begin(1024 * MIB, (CachingConfig){0});
    const uintptr_t small = take(4 * KIB, 0), large = take(30 * MIB, 0), part = take(4 * MIB, 0), hold = take(MIB, 0);
    take(4 * MIB, 0);
    give(large), give(part), give(small);
    EXPECT(reserved, 2 * MIB + 30 * MIB + 20 * MIB);
    caching_trim(caching, 0); /* the 30 MiB; of 2 MiB `hold` holds a part, of 20 MiB the block of 4 */
    check_whole(caching);
    EXPECT(reserved, 22 * MIB);
    EXPECT(allocated, 5 * MIB);
    EXPECT(stuck, 17 * MIB);
    ck_assert_int_eq(fake.n_gives, 1);
    ck_assert_int_eq(fake.n_waits, 1);
    caching_trim(caching, 0); /* nothing can go: nothing is waited for */
    ck_assert_int_eq(fake.n_waits, 1);
    give(hold);
    caching_trim(caching, 0);
    check_whole(caching);
    EXPECT(reserved, 20 * MIB);
    ck_assert_int_eq(fake.n_gives, 2);
    end();
}
END_TEST

START_TEST(a7_03_a_lost_device_gets_nothing_back) {
    begin(1024 * MIB, (CachingConfig){0});
    give(take(4 * KIB, 0));
    fake.lost = true;
    caching_trim(caching, 0);
    ck_assert_int_eq(fake.n_gives, 0);
    check_whole(caching);
    end();
}
END_TEST

/* 7.04 ---------------------------------------------------------------------------------------- */

START_TEST(a7_04_a_table_of_statistics) {
    begin(1024 * MIB, (CachingConfig){0});
    give(take(3 * MIB, 0));
    const uintptr_t held = take(4 * MIB, 0);
    use(held, 1);
    give(held);
    take(100, 0);
    Text text = {0};
    caching_summary(caching, &text);
    static const char *const lines[] = {
        "memory of fake:0: retries after giving back: 0, out of memory: 0\n",
        "|                         |     current |        peak |       total |       freed |\n",
        "| allocated memory        |     512 B   |    4096 KiB |    7168 KiB |    7168 KiB |\n",
        "|       from large pool   |       0 B   |    4096 KiB |    7168 KiB |    7168 KiB |\n",
        "|       from small pool   |     512 B   |     512 B   |     512 B   |       0 B   |\n",
        "| active memory           |    4096 KiB |    4096 KiB |    7168 KiB |    3072 KiB |\n",
        "| requested memory        |     100 B   |    4096 KiB |    7168 KiB |    7168 KiB |\n",
        "| reserved memory         |      22 MiB |      22 MiB |      22 MiB |       0 B   |\n",
        "| non-releasable memory   |      18 MiB |      18 MiB |      35 MiB |      17 MiB |\n",
        "| allocations             |           1 |           1 |           3 |           2 |\n",
        "| active blocks           |           2 |           2 |           3 |           1 |\n",
        "| reserved segments       |           2 |           2 |           2 |           0 |\n",
        "in use on the device, by anybody: 23068672 of 1073741824 bytes\n",
    };
    for (int i = 0; i < COUNT_OF(lines); i++)
        ck_assert_msg(strstr(text_str(&text), lines[i]) != NULL, "%s lacks\n%s", text_str(&text), lines[i]);
    text_free(&text);
    caching_peak_begin(caching);
    ck_assert_int_eq(bytes_of(MEASURE_allocated)->peak, 512);
    ck_assert_int_eq(bytes_of(MEASURE_active)->peak, 4 * MIB + 512);
    ck_assert_int_eq(bytes_of(MEASURE_allocated)->gained, 7 * MIB + 512);
    end();
}
END_TEST

/* 7.05 ---------------------------------------------------------------------------------------- */

/* 60 of 100 MiB, given back; then 12, then 50. */
static uintptr_t fragment(size_t max_split) {
    begin(100 * MIB, (CachingConfig){.max_split = max_split});
    give(take(60 * MIB, 0));
    take(12 * MIB, 0);
    const uintptr_t at = caching_allocate(caching, 50 * MIB, fake_stream(0));
    check_whole(caching);
    return at;
}

START_TEST(a7_05_fragmentation_and_max_split_size) {
    ck_assert_uint_eq(fragment(0), 0); /* 12 MiB were split off the 60, of which 48 are left */
    ck_assert_ptr_nonnull(strstr(error_slot()->message,
                                 "fake:0 is out of memory: 52428800 bytes asked for, 41943040 of 104857600 free on the "
                                 "device; allocated: 12582912, reserved: 62914560, largest free block: 50331648 bytes; "
                                 "50331648 bytes are free, but in pieces: SINTER_ALLOC_CONF=expandable_segments:True "
                                 "or max_split_size_mb:N keeps them together"));
    error_clear();
    end();
    ck_assert_uint_ne(fragment(20 * MIB), 0); /* blocks of more than 20 MiB are not split */
    EXPECT(allocated, 72 * MIB);
    EXPECT(reserved, 72 * MIB);
    ck_assert_int_eq(caching->stats.retries, 0);
    end();
}
END_TEST

START_TEST(a7_05_blocks_that_are_not_split_serve_their_like) {
    begin(200 * MIB, (CachingConfig){.max_split = 20 * MIB});
    const uintptr_t large = take(60 * MIB, 0);
    give(large);
    ck_assert_uint_ne(take(30 * MIB, 0), large); /* 30 would be lost */
    ck_assert_uint_eq(take(41 * MIB, 0), large); /* less than 20 are */
    EXPECT(allocated, 90 * MIB);
    end();
}
END_TEST

/* 7.06 ---------------------------------------------------------------------------------------- */

START_TEST(a7_06_one_expandable_segment_grows) {
    begin(100 * MIB, (CachingConfig){.expandable = true});
    const uintptr_t a = take(60 * MIB, 0);
    ck_assert_int_eq(fake.n_maps, 3); /* pages of 20 MiB */
    EXPECT(reserved, 60 * MIB);
    ck_assert_uint_eq(take(12 * MIB, 0), a + 60 * MIB);
    ck_assert_int_eq(fake.n_maps, 4);
    give(a);
    ck_assert_uint_eq(take(8 * MIB, 0), a + 72 * MIB); /* the smallest that holds it: the end of the fourth page */
    ck_assert_uint_eq(take(50 * MIB, 0), a);
    EXPECT(reserved, 80 * MIB);
    ck_assert_uint_eq(take(20 * MIB, 0), a + 80 * MIB);
    ck_assert_int_eq(fake.n_reserves, 1);
    ck_assert_int_eq(fake.n_takes, 0);
    EXPECT_BLOCKS(reserved, 1);
    refused(1000, 0); /* the small pool has its own, of pages of 2 MiB, for which there is no room */
    end();
}
END_TEST

START_TEST(a7_06_what_max_split_size_mends_expandable_segments_do) {
    begin(100 * MIB, (CachingConfig){.expandable = true});
    give(take(60 * MIB, 0));
    const uintptr_t small = take(12 * MIB, 0), large = take(50 * MIB, 0); /* side by side: 62 of 80 mapped */
    ck_assert_uint_eq(large, small + 12 * MIB);
    EXPECT(reserved, 80 * MIB);
    EXPECT(stuck, 18 * MIB); /* of the last page */
    give(small);
    EXPECT(stuck, 30 * MIB);
    ck_assert_uint_eq(take(13 * MIB, 0), large + 50 * MIB);
    give(large);
    caching_trim(caching, 0); /* 0 to 62 are free: three whole pages; 13 MiB and what is beside them there stay */
    check_whole(caching);
    EXPECT(reserved, 20 * MIB);
    EXPECT(stuck, 7 * MIB);
    ck_assert_int_eq(fake.n_unmaps, 3);
    ck_assert_uint_eq(take(60 * MIB, 0), small); /* mapped again where they were */
    ck_assert_int_eq(fake.n_reserves, 1);
    end();
}
END_TEST

START_TEST(a7_06_it_goes_back_whole) {
    begin(100 * MIB, (CachingConfig){.expandable = true});
    const uintptr_t a = take(30 * MIB, 0), b = take(1000, 0), c = take(5 * MIB, 1);
    ck_assert_int_eq(fake.n_reserved, 3); /* by stream and pool */
    give(a), give(b), give(c);
    caching_trim(caching, 0);
    check_whole(caching);
    EXPECT(reserved, 0);
    ck_assert_int_eq(fake.n_reserved, 0);
    take(30 * MIB, 0);
    end();
}
END_TEST

START_TEST(a7_06_a_page_that_cannot_be_had) {
    begin(100 * MIB, (CachingConfig){.expandable = true});
    const uintptr_t a = take(10 * MIB, 0);
    fake.fail_at = fake.calls + 2; /* of four pages more the third */
    ck_assert_uint_eq(caching_allocate(caching, 80 * MIB, fake_stream(0)), 0);
    ck_assert_int_eq(error_pending(), ST_DEVICE);
    error_clear();
    check_whole(caching);
    EXPECT(reserved, 60 * MIB); /* those that came are kept */
    ck_assert_uint_eq(take(80 * MIB, 0), a + 10 * MIB);
    EXPECT(reserved, 100 * MIB);
    end();
}
END_TEST

/* 7.07 ---------------------------------------------------------------------------------------- */

START_TEST(a7_07_full_gives_back_what_is_kept_once) {
    begin(100 * MIB, (CachingConfig){0});
    give(take(60 * MIB, 0));
    const uintptr_t other = take(30 * MIB, 1);
    use(other, 2);
    give(other);
    take(95 * MIB, 0);
    ck_assert_int_eq(caching->stats.retries, 1);
    ck_assert_int_eq(fake.n_waits, 1); /* also for the events */
    EXPECT(reserved, 96 * MIB);
    refused(5 * MIB, 0);
    ck_assert_int_eq(caching->stats.failures, 1);
    ck_assert_ptr_nonnull(strstr(refused((size_t)1 << 60, 0), "1152921504606846976 bytes asked for"));
    ck_assert_ptr_nonnull(strstr(refused(SIZE_MAX, 0), "18446744073709551615 bytes asked for"));
    take(4 * MIB, 0); /* no segment of 20 MiB, but one of what is left */
    ck_assert_uint_eq(fake.last_taken, 4 * MIB);
    end();
}
END_TEST

START_TEST(a7_07_full_names_streams_that_hold_memory) {
    begin(100 * MIB, (CachingConfig){0});
    const uintptr_t other = take(40 * MIB, 1);
    take(20 * MIB, 1);
    give(other);
    take(30 * MIB, 1); /* of the 40, which so stay with stream 1 */
    take(10 * MIB, 0);
    const char *const says = refused(40 * MIB, 0);
    ck_assert_msg(strstr(says, "largest free block: 10485760 bytes; 10485760 bytes are kept for work on other streams: "
                               "stream 1") != NULL,
                  "%s", says);
    ck_assert_ptr_null(strstr(refused(90 * MIB, 0), "; 10485760 bytes")); /* they would not help */
    end();
}
END_TEST

START_TEST(a7_07_what_would_help) {
    static const struct {
        CachingFacts facts;
        CachingHint hint;
    } rows[] = {
        {{.asked = 50, .gaps = 60}, HINT_fragmented},
        {{.asked = 50, .gaps = 20, .left = 40}, HINT_fragmented},
        {{.asked = 50, .left = 60}, HINT_full},
        {{.asked = 50, .elsewhere = 30, .waiting = 20}, HINT_streams},
        {{.asked = 50, .gaps = 10, .waiting = 20, .left = 40}, HINT_fragmented},
        {{.asked = 50, .gaps = 5, .waiting = 20, .left = 40}, HINT_streams},
        {{.asked = 50, .gaps = 20, .elsewhere = 30}, HINT_streams},
        {{.asked = 50, .gaps = 30, .elsewhere = 20}, HINT_fragmented},
        {{.asked = 50, .gaps = 20, .elsewhere = 20}, HINT_full},
    };
    for (int i = 0; i < COUNT_OF(rows); i++) ck_assert_msg(caching_hint(&rows[i].facts) == rows[i].hint, "row %d", i);
}
END_TEST

/* nothing kept -------------------------------------------------------------------------------- */

START_TEST(without_a_cache_each_block_is_the_source_s) {
    begin(100 * MIB, (CachingConfig){.direct = true});
    const uintptr_t a = take(100, 0), b = take(3 * MIB + 1, 0);
    EXPECT(allocated, 3 * MIB + 101);
    EXPECT(reserved, 3 * MIB + 101);
    give(a);
    ck_assert_int_eq(fake.n_gives, 1);
    ck_assert_int_eq(fake.n_waits, 1);
    use(b, 1);
    give(b);
    EXPECT(active, 3 * MIB + 1);
    fake_finish(1);
    give(take(0, 0));
    EXPECT(active, 0);
    EXPECT(reserved, 0);
    refused(101 * MIB, 0);
    end();
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("caching");
    tcase_add_test(tests, a7_01_rounding_and_segments);
    tcase_add_test(tests, a7_01_best_fit);
    tcase_add_test(tests, a7_01_what_is_split);
    tcase_add_test(tests, a7_01_neighbours_become_one);
    tcase_add_test(tests, a7_01_a_loop_takes_nothing_new);
    tcase_add_test(tests, a7_02_streams_have_their_own_blocks);
    tcase_add_test(tests, a7_02_a_block_used_on_other_streams_waits_for_their_events);
    tcase_add_test(tests, a7_02_a_stream_that_takes_no_event_is_waited_for);
    tcase_add_test(tests, a7_03_only_wholly_free_segments_go_back);
    tcase_add_test(tests, a7_03_a_lost_device_gets_nothing_back);
    tcase_add_test(tests, a7_04_a_table_of_statistics);
    tcase_add_test(tests, a7_05_fragmentation_and_max_split_size);
    tcase_add_test(tests, a7_05_blocks_that_are_not_split_serve_their_like);
    tcase_add_test(tests, a7_06_one_expandable_segment_grows);
    tcase_add_test(tests, a7_06_what_max_split_size_mends_expandable_segments_do);
    tcase_add_test(tests, a7_06_it_goes_back_whole);
    tcase_add_test(tests, a7_06_a_page_that_cannot_be_had);
    tcase_add_test(tests, a7_07_full_gives_back_what_is_kept_once);
    tcase_add_test(tests, a7_07_full_names_streams_that_hold_memory);
    tcase_add_test(tests, a7_07_what_would_help);
    tcase_add_test(tests, without_a_cache_each_block_is_the_source_s);
    return suite_run("caching", tests);
}
