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

/* What autocast does with an op is among the graph's ops; the mode of the call is not asked again, nor that of a
 * backward: the body sets its own for parts of itself. */
static sn_status casting_body(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const w = sn_in(f, 1);
    const sn_dtype caller = sn_autocast_set(SN_CPU, SN_BF16);
    sn_tensor *h = sn_mm(x, w);
    h = sn_exp(sn_mul_scalar(h, sn_float(0.125)));
    sn_tensor *const sum = sn_sum_dim(sn_to(h, SN_BF16), SN_INTS(1), true);
    sn_autocast_set(SN_CPU, SN_F32);
    sn_tensor *const low = sn_exp(sn_to(sn_mm(x, w), SN_BF16)); /* of bf16, as it is */
    sn_tensor *const rest = sn_mm(sn_sigmoid(sn_pow_scalar(low, sn_float(1.5))), sn_to(sn_transpose(w, 0, 1), SN_BF16));
    sn_autocast_set(SN_CPU, caller);
    sn_tensor *const last = sn_log(sn_add_scalar(sn_mul(rest, rest), sn_int(1)));
    return sn_out(f, 0, sn_add(sn_mul(last, sum), sn_softmax(sn_mul(x, x), 0)));
}

/* Results and gradients of one call, made in a region of the caller's. */
static void call_casting(sn_function *fn, sn_dtype region, uint64_t seed, sn_tensor *got[3]) {
    sn_tensor *in[] = {LEAF(seed, 4, 5), LEAF(seed + 7, 5, 4)};
    sn_autocast_set(SN_CPU, region);
    ck_assert_msg(sn_call(fn, in, 2, &got[0], 1) == SN_OK, "%s", sn_error_take()->message);
    sn_backward(sn_sum(sn_mul(got[0], got[0])));
    sn_autocast_set(SN_CPU, SN_F32);
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
    for (int i = 0; i < 2; i++) got[1 + i] = sn_grad(in[i]);
}

START_TEST(under_autocast) {
    static const sn_dtype regions[] = {SN_F32, SN_BF16, SN_F16};
    sn_function *const eager = sn_compile(casting_body, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    for (int way = 0; way < 6; way++) {
        sn_function *const fn = sn_compile(
            casting_body, NULL, SN_COMPILE_OPTIONS(.dynamic = way / 3 ? SN_DYNAMIC_ALWAYS : SN_DYNAMIC_NEVER));
        for (uint64_t call = 0; call < 3; call++) {
            const sn_scope scope = sn_scope_begin();
            sn_tensor *want[3], *got[3];
            call_casting(eager, regions[way % 3], call, want);
            failpoint_set("some_alone");
            call_casting(fn, regions[way % 3], call, got);
            failpoint_set("");
            for (int i = 0; i < 3; i++) ck_assert_msg(same_bits(want[i], got[i]), "way %d, result %d", way, i);
            sn_scope_end(scope);
        }
        ck_assert_int_ge(alone_steps(fn, "eager"), 2);
        sn_function_free(fn);
    }
    sn_function_free(eager);
}

int main(void) {
    TCase *const tests = tcase_create("alone");
    tcase_add_loop_test(tests, the_rest_of_its_segment_is_compiled, 0, 2);
    tcase_add_test(tests, forward_and_backward);
    tcase_add_loop_test(tests, with_known_sizes, 0, 2);
    tcase_add_test(tests, from_a_file);
    tcase_add_test(tests, under_autocast);
    return suite_run("alone", tests);
}
