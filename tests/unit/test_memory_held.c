/* test_memory_held.c: what is known of the CPU's memory: blocks by size class, who asked for what is in use, peaks that
 * begin anew; what a backward keeps by op; copies that ops made, by line. */
#include <sinter/inspect.h>
#include <sinter/memory.h>
#include <stdio.h>

#include "frontend/api/memory_report.h"
#include "runtime/base/alloc.h"
#include "runtime/base/json.h"
#include "runtime/device/alloc_cpu.h"
#include "tests/unit/contract.h"
#include "tests/unit/mutated_text.h"
#include "tests/unit/suite.h"

enum { SMALL = 3000 }; /* floats: 12,000 bytes, in blocks of 12,288 */
static const int64_t BLOCK_BYTES = 12288;

static CpuClass class_of_bytes(int64_t bytes) {
    for (int i = 0; i < cpu_alloc_classes(); i++)
        if (cpu_alloc_class(i).bytes == bytes) return cpu_alloc_class(i);
    ck_abort_msg("no class of %d bytes", (int)bytes);
    return (CpuClass){0};
}

/* Blocks that live until the scope ends. */
static void take_blocks(int n) {
    for (int i = 0; i < n; i++) ck_assert_ptr_nonnull(sn_zeros(SN_INTS(SMALL), SN_F32));
}

/* Under sanitizers and with SINTER_PLAIN_MALLOC there are no classes: each block is the system's. */
static bool has_classes(void) {
    const int64_t before = class_of_bytes(BLOCK_BYTES).total;
    cpu_free(cpu_alloc((size_t)BLOCK_BYTES), (size_t)BLOCK_BYTES);
    return class_of_bytes(BLOCK_BYTES).total > before;
}

START_TEST(a7_04_the_summary_counts_blocks_by_size) {
    if (!has_classes()) return;
    const CpuClass before = class_of_bytes(BLOCK_BYTES);
    sn_scope scope = sn_scope_begin();
    take_blocks(5);
    sn_scope_end(scope);
    scope = sn_scope_begin();
    take_blocks(3);
    const CpuClass now = class_of_bytes(BLOCK_BYTES);
    ck_assert_int_eq(now.current - before.current, 3);
    ck_assert_int_eq(now.total - before.total, 8);
    ck_assert_int_eq(now.peak, before.current + 5);
    ck_assert_int_eq(now.cached, max_i64(before.cached, 5) - 3);
    char row[80];
    snprintf(row, sizeof row, "| %12d | %11d | %11d | %11d | %11d |\n", (int)BLOCK_BYTES, (int)now.current,
             (int)now.peak, (int)now.total, (int)now.cached);
    ck_assert_msg(strstr(sn_memory_summary(SN_CPU), row) != NULL, "no %s in %s", row, sn_memory_summary(SN_CPU));
    ck_assert_int_eq(sn_memory_reset_peak(SN_CPU), SN_OK);
    ck_assert_int_eq(class_of_bytes(BLOCK_BYTES).peak, now.current);
    sn_scope_end(scope);
    ck_assert_int_eq(sn_memory_trim(SN_CPU), SN_OK);
    ck_assert_int_eq(class_of_bytes(BLOCK_BYTES).cached, 0);
}
END_TEST

/* snapshots ------------------------------------------------------------------------------------- */

static const Json *snapshot_json(Arena *arena) {
    const Json *root;
    const char *const text = sn_memory_snapshot(SN_CPU);
    ck_assert_msg(json_parse(arena, text, strlen(text), &root) == ST_OK, "%s", text);
    return root;
}

static const Json *holder_of(const Json *root, int64_t bytes) {
    const Json *const held = json_get(root, "held");
    for (int i = 0; i < held->n; i++)
        if (json_get(&held->items[i], "bytes")->i == bytes) return &held->items[i];
    return NULL;
}

START_TEST(a7_08_a_snapshot_says_who_holds_the_cpus_memory) {
    if (!has_classes()) return;
    Arena *const arena = arena_new();
    ck_assert_int_eq(json_get(snapshot_json(arena), "held")->n, 0);
    sn_setting_set("memory_sites", "1");
    const sn_scope scope = sn_scope_begin();
    take_blocks(4);
    sn_zeros(SN_INTS(1 << 20), SN_F32);
    const Json *const root = snapshot_json(arena), *const four = holder_of(root, 4 * BLOCK_BYTES);
    ck_assert_ptr_nonnull(four);
    ck_assert_int_eq(json_get(four, "blocks")->i, 4);
    const Json *const stack = json_get(four, "stack");
    ck_assert_int_ge(stack->n, 2);
    ck_assert_ptr_nonnull(strstr(stack->items[0].string, "test_memory_held"));
    ck_assert_ptr_nonnull(holder_of(root, 4 << 20));
    Text says = {0};
    const char *const text = sn_memory_snapshot(SN_CPU);
    ck_assert_msg(memory_report(text, strlen(text), 0, &says) == ST_OK, "%s", sn_error_take()->message);
    ck_assert_msg(strstr(text_str(&says), "49152 bytes in 4 blocks: ") != NULL, "%s", text_str(&says));
    ck_assert_ptr_nonnull(strstr(text_str(&says), "small blocks: "));
    text_free(&says);
    sn_scope_end(scope);
    ck_assert_ptr_null(holder_of(snapshot_json(arena), 4 * BLOCK_BYTES));
    sn_setting_set("memory_sites", "0");
    arena_free(arena);
}
END_TEST

START_TEST(a_block_that_cannot_be_noted_is_there_all_the_same) {
    sn_setting_set("memory_sites", "1");
    void *const first = cpu_alloc((size_t)BLOCK_BYTES);
    cpu_free(first, (size_t)BLOCK_BYTES);
    const int64_t before = cpu_held;
    if (!has_classes()) return; /* no block is kept */
    mem_fail_after(0);
    void *const block = cpu_alloc((size_t)BLOCK_BYTES);
    mem_fail_after(-1);
    ck_assert_ptr_nonnull(block);
    ck_assert_int_eq(cpu_held, before);
    ck_assert_int_eq(sn_check(), SN_OK);
    cpu_free(block, (size_t)BLOCK_BYTES);
}
END_TEST

START_TEST(changed_snapshots_are_refused_or_whole) {
    sn_setting_set("memory_sites", "1");
    const sn_scope scope = sn_scope_begin();
    take_blocks(3);
    sn_zeros(SN_INTS(1 << 20), SN_F32);
    const char *const text = sn_memory_snapshot(SN_CPU);
    int n_refused = 0;
    for (int i = 0; i < 10000; i++) {
        Text changed = {0}, says = {0};
        random_state = (uint64_t)i * 977 + 3;
        change(text, &changed);
        n_refused += memory_report(text_str(&changed), changed.n, 0, &says) != ST_OK;
        ck_assert_int_eq(error_pending() == ST_OK, says.n > 0);
        error_clear();
        text_free(&changed), text_free(&says);
    }
    ck_assert_int_gt(n_refused, 1000);
    ck_assert_int_lt(n_refused, 10000);
    sn_scope_end(scope);
}
END_TEST

START_TEST(what_is_no_class_and_no_holder) {
    static const char *const heads = "{\"version\": 1, \"device\": \"cpu\", \"device_free\": 1, \"device_total\": 1, "
                                     "\"segments\": [], \"statistics\": {";
    static const char *const names[] = {"allocated", "requested", "active", "reserved", "non_releasable"};
    static const struct {
        const char *more, *why;
    } rows[] = {{"\"classes\": 3", "its size classes are no list"},
                {"\"classes\": [{\"bytes\": 64}]", "a size class lacks its numbers"},
                {"\"classes\": [{\"bytes\": 64, \"current\": 2, \"peak\": 1, \"total\": 3, \"kept\": 0}]",
                 "a size class has more blocks in use than it ever had"},
                {"\"classes\": [{\"bytes\": 4503599627370496, \"current\": 2, \"peak\": 2, \"total\": 3, \"kept\": 0}]",
                 "its size classes are too large"},
                {"\"held\": {}", "who holds memory is no list"},
                {"\"held\": [{\"bytes\": 1, \"blocks\": 1, \"stack\": [1]}]", "who holds memory lacks"}};
    for (int i = 0; i < COUNT_OF(rows); i++) {
        Text text = {0}, says = {0};
        text_puts(&text, heads);
        for (int k = 0; k < COUNT_OF(names); k++)
            text_printf(&text, "%s\"%s\": {\"bytes\": {\"current\": 0}, \"blocks\": {\"current\": 0}}", k ? ", " : "",
                        names[k]);
        text_printf(&text, "}, %s}", rows[i].more);
        ck_assert_int_eq(memory_report(text_str(&text), text.n, 0, &says), ST_PARSE);
        ck_assert_msg(strstr(error_slot()->message, rows[i].why) != NULL, "%s", error_slot()->message);
        error_clear();
        text_free(&text), text_free(&says);
    }
}
END_TEST

/* what a backward keeps ------------------------------------------------------------------------- */

static int64_t saved_of(const char *text, const char *op) {
    long long bytes = -1;
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        long long own, shared, values, nodes;
        char name[64];
        if (sscanf(line, "%lld %lld %lld %lld %63s", &own, &shared, &values, &nodes, name) == 5 && !strcmp(name, op))
            bytes = own + shared;
    }
    return bytes;
}

START_TEST(a3_02_saved_bytes_are_summed_by_op) {
    sn_tensor *const x = LEAF(1, 64, 32), *const w = LEAF(2, 16, 32);
    sn_tensor *const h = sn_gelu(sn_linear(x, w, NULL)), *const y = sn_exp(h);
    const char *const text = sn_saved_text(y);
    ck_assert_msg(saved_of(text, "ExpBackward") == 64 * 16 * 4, "%s", text); /* its result */
    ck_assert_msg(saved_of(text, "GeluBackward") >= 64 * 16 * 4, "%s", text);
    ck_assert_msg(strstr(text, " nodes, 8192 of them of leaves\n") != NULL, "%s", text); /* x; of w a view */
    ck_assert_int_eq(sn_backward(sn_sum(y)), SN_OK);
    ck_assert_str_eq(sn_saved_text(y), "0 bytes in 0 nodes, 0 of them of leaves\n");
}
END_TEST

START_TEST(a3_16_what_is_alive_is_summed_as_well) {
    sn_tensor *const x = LEAF(1, 64, 32);
    sn_tensor *const y = sn_exp(x), *const z = sn_mul(y, x);
    ck_assert_ptr_nonnull(z);
    const char *const text = sn_saved_text(NULL);
    ck_assert_msg(saved_of(text, "MulBackward") == 2 * 64 * 32 * 4, "%s", text); /* both, one of exp's as well */
    ck_assert_msg(
        strncmp(strrchr(text, '\n') - strlen("16384 bytes in 2 nodes, 8192 of them of leaves"), "16384 bytes", 11) == 0,
        "%s", text);
}
END_TEST

/* copies ---------------------------------------------------------------------------------------- */

START_TEST(a1_12_copies_are_listed_with_their_lines) {
    sn_tensor *const x = F32(1, 3, 4);
    ck_assert_str_eq(sn_hidden_copies_text(), "");
    for (int i = 0; i < 2; i++) sn_reshape(sn_t(x), SN_INTS(12));
    sn_reshape(sn_t(x), SN_INTS(12));
    const char *const text = sn_hidden_copies_text();
    const char *const second = strchr(text, '\n');
    ck_assert_msg(!strncmp(text, "aten::reshape at ", 17) && strstr(text, ": 2 copies, 96 bytes\n"), "%s", text);
    ck_assert_msg(second && strstr(second, ": 1 copy, 48 bytes\n"), "%s", text);
    sn_copy_count sum;
    ck_assert_int_eq(sn_hidden_copies(&sum, 1), 1);
    ck_assert_int_eq(sum.copies, 3);
    sn_hidden_copies_reset();
    ck_assert_str_eq(sn_hidden_copies_text(), "");
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("memory_held");
    tcase_add_test(tests, a7_04_the_summary_counts_blocks_by_size);
    tcase_add_test(tests, a7_08_a_snapshot_says_who_holds_the_cpus_memory);
    tcase_add_test(tests, a_block_that_cannot_be_noted_is_there_all_the_same);
    tcase_add_test(tests, changed_snapshots_are_refused_or_whole);
    tcase_add_test(tests, what_is_no_class_and_no_holder);
    tcase_add_test(tests, a3_02_saved_bytes_are_summed_by_op);
    tcase_add_test(tests, a3_16_what_is_alive_is_summed_as_well);
    tcase_add_test(tests, a1_12_copies_are_listed_with_their_lines);
    return suite_run("memory_held", tests);
}
