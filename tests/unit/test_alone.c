/* test_alone.c: an op that does not lower runs by itself, as in eager; what is before and behind it stays compiled, in
 * forward and backward, verified, replayed and from a file, and every text says which op and why. */
#include <stdio.h>

#include "runtime/base/bail.h"
#include "tests/unit/alone.h"

static sn_function *compiled(sn_compile_mode mode, sn_dynamic dynamic) {
    return sn_compile(alone_body, NULL, SN_COMPILE_OPTIONS(.mode = mode, .dynamic = dynamic));
}

static const sn_compile_mode modes[] = {SN_COMPILE_VERIFY, SN_COMPILE_REPLAY};

START_TEST(the_rest_of_its_segment_is_compiled) {
    sn_function *const fn = compiled(modes[_i], SN_DYNAMIC_ALWAYS);
    alone_expect_eager(fn, SN_CPU, false);
    ck_assert_int_eq(alone_steps(fn, "eager"), 1);
    ck_assert_int_eq(alone_steps(fn, "loops"), 2); /* exp; sigmoid and mul */
    ck_assert_int_eq(last_path(), SN_PATH_MIXED);
    ck_assert_str_eq(last_reason(), "aten::add.Tensor runs by itself: an index that is not affine");
    const sn_stats stats = stats_of(fn);
    ck_assert_int_eq(stats.ops_eager, 5); /* one of each call but the first */
    ck_assert_int_gt(stats.ops_generated, 5 * 4);
    ck_assert_int_eq(stats.compiles, 1);
    ck_assert(strstr(sn_explain(fn), "runs by itself, as in eager: an index that is not affine"));
    ck_assert(strstr(sn_dump(fn, "loops"), " by eager (an index that is not affine)"));
    sn_function_free(fn);
}

START_TEST(forward_and_backward) {
    sn_function *const fn = compiled(SN_COMPILE_VERIFY, SN_DYNAMIC_ALWAYS);
    alone_expect_eager(fn, SN_CPU, true);
    ck_assert_int_ge(alone_steps(fn, "eager"), 1);
    ck_assert_int_ge(alone_steps(fn, "loops"), 3);
    ck_assert_int_eq(stats_of(fn).ops_eager, 5);
    sn_function_free(fn);
}

/* Of known sizes every op lowers: a failpoint refuses some. */
START_TEST(with_known_sizes) {
    sn_function *const fn = compiled(modes[_i], SN_DYNAMIC_NEVER);
    failpoint_set("some_alone");
    alone_expect_eager(fn, SN_CPU, _i == 0);
    failpoint_set("");
    ck_assert_int_ge(alone_steps(fn, "eager"), 1);
    ck_assert_int_ge(alone_steps(fn, "loops"), 1);
    ck_assert(strstr(sn_explain(fn), "runs by itself, as in eager: failpoint some_alone"));
    sn_function_free(fn);
}

START_TEST(from_a_file) {
    static const char path[] = "test_alone.plan";
    sn_function *fn = compiled(SN_COMPILE_REPLAY, SN_DYNAMIC_ALWAYS);
    alone_expect_eager(fn, SN_CPU, false);
    ck_assert_msg(sn_plan_save(fn, path, NULL) == SN_OK, "%s", sn_error_take()->message);
    sn_function_free(fn);
    fn = sn_plan_load(path, NULL);
    ck_assert_msg(fn != NULL, "%s", sn_error_take()->message);
    alone_expect_eager(fn, SN_CPU, false);
    ck_assert_int_eq(alone_steps(fn, "eager"), 1);
    sn_function_free(fn);
    remove(path);
}

int main(void) {
    TCase *const tests = tcase_create("alone");
    tcase_add_loop_test(tests, the_rest_of_its_segment_is_compiled, 0, 2);
    tcase_add_test(tests, forward_and_backward);
    tcase_add_loop_test(tests, with_known_sizes, 0, 2);
    tcase_add_test(tests, from_a_file);
    return suite_run("alone", tests);
}
