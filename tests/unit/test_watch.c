/* test_watch.c: steps that are watched on the CPU: each is told once, in order, of which function it is and within
 * which step; tests/cuda/test_cuda_watch.c has a device whose work goes on after the call. */
#include <pthread.h>
#include <sinter/dispatch.h>

#include "tests/unit/contract.h"
#include "tests/unit/suite.h"
#include "tests/unit/watched.h"

START_TEST(eager_ops_are_steps) {
    sn_tensor *const x = F32(1, 4, 8), *const none = sn_zeros(SN_INTS(0), SN_F32), *places;
    for (int round = 0; round < 2; round++) { /* their programs are made, then found */
        watched_begin();
        sn_tensor *const product = sn_mm(sn_add(x, x), sn_t(x)); /* a view is no step */
        sn_tensor *const sorted = sn_sort(product, 0, false, &places);
        sn_add_(sorted, sorted);
        sn_add(none, none);
        watch_end();
        ck_assert_int_eq(n_watched, 5);
        watched_is(0, "", "aten::add.Tensor", 0);
        watched_is(1, "", "k0_mm", 0);
        watched_is(2, "", "aten::sort.stable", 0);
        watched_is(3, "", "aten::add.Tensor", 0);
        watched_is(4, "", "aten::add.Tensor", 0);
        for (int i = 0; i < n_watched; i++) ck_assert_int_eq(watched[i].device, DEV_host);
    }
    sn_add(x, x); /* nobody is told */
    ck_assert_int_eq(n_watched, 5);
}
END_TEST

static sn_status two_steps(sn_frame *f) {
    sn_tensor *const y = sn_mm(sn_in(f, 0), sn_in(f, 1));
    return sn_out(f, 0, sn_relu(sn_cumsum(sn_mul(y, y), 0, SN_F32)));
}

/* As many as were launched, by the names of the plan, forward and backward. */
START_TEST(steps_of_functions_are_those_launched) {
    sn_function *const fn = sn_compile(two_steps, NULL, SN_COMPILE_OPTIONS(.name = "two"));
    sn_tensor *const a = sn_requires_grad_(F32(1, 5, 6), true), *const b = F32(2, 6, 7);
    for (int call = 0; call < 2; call++) sn_backward(sn_sum(SN_CALL(fn, a, b)));
    const char *const said = sn_explain(fn);
    watched_begin();
    int64_t before = execute_counts()->launches;
    sn_tensor *const y = SN_CALL(fn, a, b);
    watch_report();
    const int forward = n_watched;
    ck_assert_int_ge(forward, 2);
    ck_assert_int_eq(execute_counts()->launches - before, forward);
    before = execute_counts()->launches;
    sn_backward(sn_sum(y));
    watch_end();
    int backward = 0;
    for (int i = forward; i < n_watched; i++) backward += !strcmp(watched[i].function, "two");
    ck_assert_int_ge(backward, 1);
    ck_assert_int_le(backward, execute_counts()->launches - before);
    for (int i = 0; i < n_watched; i++) ck_assert_int_eq(watched[i].depth, 0);
    for (int i = 0; i < forward; i++) {
        ck_assert_str_eq(watched[i].function, "two");
        ck_assert_msg(strstr(said, watched[i].name) != NULL, "%s is not in %s", watched[i].name, said);
    }
    sn_function_free(fn);
}
END_TEST

/* steps within steps ---------------------------------------------------------------------------- */

static sn_status meta_like(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }
static sn_status exp_of_double(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_exp(sn_add(x, x)));
}
static bool failing;
static sn_status fails(sn_frame *f) {
    sn_tensor *const y = sn_exp(sn_in(f, 0));
    return failing ? SN_ERR_VALUE : sn_out(f, 0, y);
}
static sn_status ends_the_watch(sn_frame *f) {
    sn_tensor *const y = sn_exp(sn_in(f, 0));
    watch_end();
    return sn_out(f, 0, y);
}

static sn_function *of_op(const char *schema, sn_body kernel, sn_body body) {
    const sn_op *const op =
        sn_op_register(SN_OP_DESC(.schema = schema, .flags = SN_OP_PURE, .meta = meta_like, .cpu = kernel));
    ck_assert_msg(op != NULL, "%s", sn_error_take()->message);
    return sn_compile(body, (void *)(uintptr_t)op, SN_COMPILE_OPTIONS(.name = "outer"));
}

static sn_status around(sn_frame *f) {
    const sn_value in = sn_val(sn_cumsum(sn_in(f, 0), 0, SN_F32));
    return sn_out(f, 0, sn_cumsum(sn_op_call1(sn_closure(f), &in, 1), 0, SN_F32));
}

START_TEST(what_a_step_holds_is_told_too) {
    sn_function *const fn = of_op("own::nested(Tensor x) -> Tensor", exp_of_double, around);
    sn_tensor *const x = F32(1, 4, 8);
    for (int call = 0; call < 2; call++) SN_CALL(fn, x);
    watched_begin();
    const int64_t before = execute_counts()->launches;
    SN_CALL(fn, x);
    ck_assert_int_eq(n_watched, 0); /* nobody has waited */
    ck_assert_int_eq(sn_device_synchronize(SN_CPU), SN_OK);
    const int n = n_watched;
    watch_end();
    ck_assert_int_eq(n_watched, n);
    ck_assert_int_gt(n, 4);
    int at = 0, outer = 0;
    while (at < n && strcmp(watched[at].name, "own::nested")) at++;
    watched_is(at, "outer", "own::nested", 0);
    watched_is(at + 1, "", "aten::add.Tensor", 1);
    watched_is(at + 2, "", "aten::exp", 1);
    ck_assert_int_ge(watched[at].ns, watched[at + 1].ns + watched[at + 2].ns);
    for (int i = 0; i < n; i++) outer += watched[i].depth == 0 && !strcmp(watched[i].function, "outer");
    ck_assert_int_eq(outer, 3);
    ck_assert_int_eq(n - 2, execute_counts()->launches - before); /* add and exp are no plans */
    sn_function_free(fn);
}
END_TEST

START_TEST(a_step_that_fails_is_over) {
    sn_function *const fn = of_op("own::fails(Tensor x) -> Tensor", fails, around);
    sn_tensor *const x = F32(1, 4, 8);
    for (int call = 0; call < 2; call++) SN_CALL(fn, x);
    failing = true;
    watched_begin();
    ck_assert_ptr_null(SN_CALL(fn, x));
    expect_error(SN_ERR_CALLBACK, "own::fails");
    sn_exp(x);
    watch_end();
    watched_is(1, "outer", "own::fails", 0);
    watched_is(2, "", "aten::exp", 1);
    for (int i = 3; i < n_watched; i++) ck_assert_int_eq(watched[i].depth, 0); /* eager says what it was, then exp */
    watched_is(n_watched - 1, "", "aten::exp", 0);
    sn_function_free(fn);
}
END_TEST

START_TEST(a_watch_may_end_within_a_step) {
    sn_function *const fn = of_op("own::ends(Tensor x) -> Tensor", ends_the_watch, around);
    sn_tensor *const x = F32(1, 4, 8);
    for (int call = 0; call < 2; call++) SN_CALL(fn, x);
    watched_begin();
    SN_CALL(fn, x);
    for (int i = 0; i < n_watched; i++) ck_assert_str_ne(watched[i].name, "own::ends");
    watched_begin();
    sn_exp(x);
    watch_end();
    ck_assert_int_eq(n_watched, 1);
    watched_is(0, "", "aten::exp", 0);
    sn_function_free(fn);
}
END_TEST

START_TEST(one_watches_at_a_time) {
    watched_begin();
    ck_assert_int_eq(watch_begin(watched_seen, watched), ST_STATE);
    expect_error(SN_ERR_STATE, "somebody watches the steps already");
    watch_end();
    watch_end(); /* nothing is left to end */
    watched_begin();
    watch_end();
    ck_assert_int_eq(n_watched, 0);
}
END_TEST

/* threads --------------------------------------------------------------------------------------- */

enum { THREADS = 4, OPS = 700 };

static void *adding(void *unused) {
    (void)unused;
    sn_tensor *const x = F32(1, 4, 8);
    for (int i = 0; i < OPS; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_add(x, x);
        sn_scope_end(scope);
    }
    return NULL;
}

static int count_of(const char *name) {
    int n = 0;
    for (int i = 0; i < n_watched; i++) n += !strcmp(watched[i].name, name) && !watched[i].depth;
    return n;
}

START_TEST(steps_of_all_threads_are_told) {
    pthread_t threads[THREADS];
    watched_begin();
    for (int i = 0; i < THREADS; i++) ck_assert_int_eq(pthread_create(&threads[i], NULL, adding, NULL), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    watch_end();
    ck_assert_int_eq(count_of("aten::add.Tensor"), THREADS * OPS);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("watch");
    tcase_add_test(tests, eager_ops_are_steps);
    tcase_add_test(tests, steps_of_functions_are_those_launched);
    tcase_add_test(tests, what_a_step_holds_is_told_too);
    tcase_add_test(tests, a_step_that_fails_is_over);
    tcase_add_test(tests, a_watch_may_end_within_a_step);
    tcase_add_test(tests, one_watches_at_a_time);
    tcase_add_test(tests, steps_of_all_threads_are_told);
    return suite_run("watch", tests);
}
