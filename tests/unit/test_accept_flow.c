/* test_accept_flow.c: line 5.06 of the acceptance list: a branch on a value, as host code, as `where` and as `cond`. */
#include "tests/unit/public_check.h"
#include "tests/unit/suite.h"

static sn_status up(sn_frame *f) { return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(2))); }
static sn_status down(sn_frame *f) { return sn_out(f, 0, sn_sub_scalar(sn_in(f, 0), sn_float(1))); }

static sn_status by_item(sn_frame *f) {
    sn_tensor *const x = sn_tanh(sn_in(f, 0));
    if (sn_item(sn_sum(x)) > 0) return sn_out(f, 0, sn_exp(sn_mul_scalar(x, sn_float(2))));
    return sn_out(f, 0, sn_exp(sn_sub_scalar(x, sn_float(1))));
}

static sn_status by_where(sn_frame *f) {
    sn_tensor *const x = sn_tanh(sn_in(f, 0)), *const positive = sn_gt_scalar(sn_sum(x), sn_float(0));
    sn_tensor *const a = sn_mul_scalar(x, sn_float(2)), *const b = sn_sub_scalar(x, sn_float(1));
    return sn_out(f, 0, sn_exp(sn_where(positive, a, b)));
}

static sn_status by_cond(sn_frame *f) {
    sn_tensor *const x = sn_tanh(sn_in(f, 0)), *y = NULL;
    sn_cond(sn_gt_scalar(sn_sum(x), sn_float(0)), up, down, NULL, NULL, SN_TENSORS(x), &y, 1);
    return sn_out(f, 0, sn_exp(y));
}

static sn_stats call_both_ways(sn_body body, sn_compile_mode mode) {
    sn_function *const fast = sn_compile(body, NULL, SN_COMPILE_OPTIONS(.mode = mode));
    sn_function *const eager = sn_compile(by_item, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    for (int i = 0; i < 6; i++) {
        sn_tensor *const x = i & 1 ? range(9) : sn_neg(range(9)); /* a sum above 0, below 0 */
        float want[9], got[9];
        sn_read(SN_CALL(eager, x), want, sizeof want);
        sn_read(SN_CALL(fast, x), got, sizeof got);
        expect_ok();
        ck_assert_mem_eq(want, got, sizeof want);
    }
    sn_stats stats = {.size = sizeof stats};
    sn_function_stats(fast, &stats);
    sn_function_free(fast);
    sn_function_free(eager);
    return stats;
}

START_TEST(a5_06_a_branch_on_an_item_runs_in_segments) {
    const sn_stats stats = call_both_ways(by_item, SN_COMPILE_VERIFY);
    ck_assert_int_eq(stats.breaks, 1);
    ck_assert_int_eq(stats.graphs, 3);    /* before it, and each way behind it */
    ck_assert_int_eq(stats.ops_eager, 2); /* of the other way, when it first came */
}
END_TEST

START_TEST(a5_06_where_and_cond_are_one_graph) {
    static const sn_body forms[] = {by_where, by_cond};
    for (int i = 0; i < 4; i++) {
        const sn_stats stats = call_both_ways(forms[i & 1], i & 2 ? SN_COMPILE_REPLAY : SN_COMPILE_VERIFY);
        ck_assert_int_eq(stats.graphs, 1);
        ck_assert_int_eq(stats.breaks, 0);
        ck_assert_int_eq(stats.ops_eager, 0);
        ck_assert_int_gt(stats.ops_generated, 0);
    }
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("control flow");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a5_06_a_branch_on_an_item_runs_in_segments);
    tcase_add_test(tests, a5_06_where_and_cond_are_one_graph);
    return suite_run("acceptance: control flow", tests);
}
