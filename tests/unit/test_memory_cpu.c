/* test_memory_cpu.c: large blocks of the CPU come from the policy that all devices have: what is counted, the snapshot,
 * what is kept, where memory is out; and on a device of numbers what only the CPU asks of the policy. */
#include <sinter/sinter.h>

#include "runtime/core/settings.h"
#include "runtime/device/alloc_cpu.h"
#include "tests/unit/contract.h"
#include "tests/unit/fake_memory.h"

/* Nothing is kept under sanitizers and with SINTER_PLAIN_MALLOC: then nothing is known of single blocks. */
static bool keeps_nothing(void) {
#ifdef SINTER_PLAIN_MALLOC
    return true;
#else
    return setting_initial(SET_plain_malloc);
#endif
}

static sn_memory memory_now(void) {
    sn_memory memory = {.size = sizeof memory};
    ck_assert_int_eq(sn_memory_get(SN_CPU, &memory), SN_OK);
    return memory;
}

static sn_tensor *mib(int64_t n) { return sn_zeros(SN_INTS(n << 20), SN_U8); }

START_TEST(large_blocks_are_counted_small_ones_are_in_the_sum) {
    if (keeps_nothing()) return;
    sn_memory_trim(SN_CPU);
    const sn_memory before = memory_now();
    const sn_scope scope = sn_scope_begin();
    mib(30), mib(4), sn_zeros(SN_INTS(1000), SN_U8);
    const sn_memory held = memory_now();
    sn_scope_end(scope);
    const sn_memory after = memory_now();
    ck_assert_int_eq(held.current - before.current, (34 << 20) + 1024);
    ck_assert_int_eq(held.bytes[SN_MEMORY_ALLOCATED].current - before.bytes[SN_MEMORY_ALLOCATED].current, 34 << 20);
    ck_assert_int_eq(held.bytes[SN_MEMORY_RESERVED].current - before.bytes[SN_MEMORY_RESERVED].current, 34 << 20);
    ck_assert_int_eq(held.blocks[SN_MEMORY_ALLOCATED].current - before.blocks[SN_MEMORY_ALLOCATED].current, 2);
    ck_assert_int_eq(after.current, before.current);
    ck_assert_int_eq(after.bytes[SN_MEMORY_RESERVED].current - before.bytes[SN_MEMORY_RESERVED].current, 34 << 20);
    ck_assert_int_gt(after.device_total, after.device_free);
    sn_memory_trim(SN_CPU);
    ck_assert_int_eq(memory_now().reserved, before.reserved);
}
END_TEST

/* One free block of 30 MiB serves what is smaller, side by side, and is one again. */
START_TEST(a_free_block_is_split_and_joined) {
    if (keeps_nothing()) return;
    sn_memory_trim(SN_CPU);
    sn_release(sn_keep(mib(30)));
    const int64_t reserved = memory_now().bytes[SN_MEMORY_RESERVED].current;
    for (int i = 0; i < 3; i++) {
        const sn_scope scope = sn_scope_begin();
        char *const a = sn_data_mut(mib(10), SN_U8), *const b = sn_data_mut(mib(8), SN_U8);
        ck_assert_ptr_eq(b, a + (10 << 20));
        ck_assert_int_eq(memory_now().bytes[SN_MEMORY_NON_RELEASABLE].current, 12 << 20);
        sn_scope_end(scope);
        ck_assert_int_eq(memory_now().bytes[SN_MEMORY_RESERVED].current, reserved);
        ck_assert_int_eq(memory_now().bytes[SN_MEMORY_NON_RELEASABLE].current, 0);
    }
    sn_memory_trim(SN_CPU);
}
END_TEST

START_TEST(the_snapshot_has_the_blocks_and_who_asked) {
    if (keeps_nothing()) return;
    ck_assert_int_eq(sn_setting_set("memory_sites", "1"), SN_OK);
    const sn_scope scope = sn_scope_begin();
    mib(5);
    const char *const json = sn_memory_snapshot(SN_CPU);
    ck_assert_msg(strstr(json, "\"requested\": 5242880") && strstr(json, "test_memory_cpu.c:"), "%s", json);
    ck_assert_ptr_nonnull(strstr(sn_memory_summary(SN_CPU), "reserved segments"));
    sn_scope_end(scope);
    sn_setting_set("memory_sites", "0");
}
END_TEST

START_TEST(memory_that_is_out_says_what_is_held) {
    if (keeps_nothing()) return;
    sn_memory_trim(SN_CPU);
    const sn_scope scope = sn_scope_begin();
    mib(4);
    ck_assert_ptr_null(sn_empty(SN_INTS(INT64_C(1) << 50), SN_U8)); /* more than there are addresses for */
    expect_error(SN_ERR_MEMORY, "cpu is out of memory: 1125899906842624 bytes asked for");
    ck_assert_ptr_nonnull(mib(4));
    sn_scope_end(scope);
}
END_TEST

/* On a device of numbers ---------------------------------------------------------------------- */

START_TEST(tight_segments_are_as_large_as_their_block) {
    Caching *const caching = fake_begin(1024 * MIB, (CachingConfig){.tight = true});
    const uintptr_t a = caching_allocate(caching, 3 * MIB, NULL), b = caching_allocate(caching, 5 * MIB + 1, NULL);
    ck_assert_int_eq(fake.n_takes, 2);
    ck_assert_uint_eq(fake.last_taken, 6 * MIB);
    ck_assert_int_eq(caching->stats.bytes[CACHING_all][MEASURE_reserved].current, 10 * MIB);
    caching_free(caching, a), caching_free(caching, b);
    check_whole(caching);
    ck_assert_uint_eq(caching_allocate(caching, 4 * MIB, NULL), a); /* all of its segment */
    ck_assert_int_eq(fake.n_takes, 2);
    check_whole(caching);
    fake_end(caching);
}
END_TEST

/* The oldest go first, and no more than need be. */
START_TEST(a_trim_may_leave_some) {
    Caching *const caching = fake_begin(1024 * MIB, (CachingConfig){.tight = true});
    uintptr_t at[4];
    for (int i = 0; i < 4; i++) at[i] = caching_allocate(caching, 10 * MIB, NULL);
    for (int i = 0; i < 3; i++) caching_free(caching, at[i]);
    caching_trim(caching, 30 * MIB);
    ck_assert_int_eq(fake.n_gives, 0);
    caching_trim(caching, 19 * MIB);
    check_whole(caching);
    ck_assert_int_eq(fake.n_gives, 2);
    ck_assert_uint_eq(caching_allocate(caching, 10 * MIB, NULL), at[2]);
    check_whole(caching);
    fake_end(caching);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("memory_cpu");
    tcase_add_test(tests, large_blocks_are_counted_small_ones_are_in_the_sum);
    tcase_add_test(tests, a_free_block_is_split_and_joined);
    tcase_add_test(tests, the_snapshot_has_the_blocks_and_who_asked);
    tcase_add_test(tests, memory_that_is_out_says_what_is_held);
    tcase_add_test(tests, tight_segments_are_as_large_as_their_block);
    tcase_add_test(tests, a_trim_may_leave_some);
    return suite_run("memory_cpu", tests);
}
