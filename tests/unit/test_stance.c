/* Stances: what calls of this thread do where nothing is compiled for them. */
#include <pthread.h>

#include "tests/unit/contract.h"

static int runs;

static sn_status scaled(sn_frame *f) {
    runs++;
    return sn_out(f, 0, sn_add_scalar(sn_mul_scalar(sn_in(f, 0), sn_float(3)), sn_float(1)));
}

static bool has(const char *text, const char *part) { return strstr(text, part) != NULL; }

static sn_function *compiled(sn_compile_mode mode) {
    sn_function *const fn = sn_compile(scaled, NULL, SN_COMPILE_OPTIONS(.mode = mode, .dynamic = SN_DYNAMIC_NEVER));
    for (int i = 0; i < 3; i++) SN_CALL(fn, F32(i, 4, 5));
    ck_assert_int_eq(stats_of(fn).compiles, 1);
    return fn;
}

START_TEST(force_eager_runs_the_body_whatever_is_compiled) {
    sn_function *const fn = compiled(SN_COMPILE_REPLAY);
    sn_tensor *const x = F32(9, 4, 5), *const want = SN_CALL(fn, x);
    runs = 0;
    ck_assert_int_eq(sn_stance_set(SN_STANCE_FORCE_EAGER), SN_STANCE_DEFAULT);
    ck_assert(same_bits(SN_CALL(fn, x), want));
    ck_assert_int_eq(runs, 1);
    ck_assert_int_eq(last_path(), SN_PATH_EAGER);
    ck_assert_str_eq(last_reason(), "the stance is force eager");
    ck_assert(has(sn_explain(fn), "eager as a whole: 1 call: the stance is force eager"));
    ck_assert(has(sn_explain_json(fn), "\"reason\": \"the stance is force eager\", "
                                       "\"code\": \"SB203\", \"ops\": 0, \"calls\": 1"));
    ck_assert_int_eq(sn_stance_set(SN_STANCE_DEFAULT), SN_STANCE_FORCE_EAGER);
    ck_assert(same_bits(SN_CALL(fn, x), want));
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    sn_function_free(fn);
}
END_TEST

/* In both modes what is compiled runs, and what is not runs eagerly, each time, until the stance ends. */
static void expect_held_back(sn_compile_mode mode) {
    sn_function *const fn = compiled(mode);
    sn_stance_set(SN_STANCE_EAGER_ON_RECOMPILE);
    SN_CALL(fn, F32(1, 4, 5));
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const x = F32(1, 6, 5);
        ck_assert(same_bits(SN_CALL(fn, x), sn_add_scalar(sn_mul_scalar(x, sn_float(3)), sn_float(1))));
        ck_assert_int_eq(last_path(), SN_PATH_EAGER);
        ck_assert_str_eq(last_reason(), "nothing that is compiled fits, and the stance is eager on recompile");
    }
    ck_assert_int_eq(stats_of(fn).compiles, 1);
    ck_assert(has(sn_explain(fn), "6 ops: nothing that is compiled fits, and the stance is eager on recompile"));
    ck_assert(has(sn_explain(fn), "argument 0: f32[4,5], now f32[6,5]"));
    sn_stance_set(SN_STANCE_DEFAULT);
    for (int i = 0; i < 2; i++) SN_CALL(fn, F32(1, 6, 5));
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    ck_assert_int_eq(stats_of(fn).compiles, 2);
    sn_function_free(fn);
}

START_TEST(eager_on_recompile_compiles_nothing) {
    expect_held_back(SN_COMPILE_VERIFY);
    expect_held_back(SN_COMPILE_REPLAY);
}
END_TEST

static sn_status writes_then_asks(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_add_scalar_(x, sn_float(1));
    sn_graph_break("a break");
    sn_mul_scalar_(x, sn_float(2));
    return sn_out(f, 0, sn_sum(x));
}

static void expect_refused(sn_function *fn, sn_tensor *x, const char *why) {
    ck_assert_ptr_null(SN_CALL(fn, x));
    expect_error(SN_ERR_STRICT, why);
}

START_TEST(fail_on_recompile_says_what_differs_and_runs_no_op) {
    sn_function *const fn = compiled(SN_COMPILE_VERIFY), *const fresh = sn_compile(writes_then_asks, NULL, NULL);
    sn_tensor *const x = F32(3, 4, 5), *const before = sn_clone(x);
    const sn_scope scope = sn_scope_begin();
    sn_stance_set(SN_STANCE_FAIL_ON_RECOMPILE);
    ck_assert_ptr_nonnull(SN_CALL(fn, x));
    expect_refused(fn, F32(3, 6, 5),
                   "fn: the stance is fail on recompile, and this is not compiled: "
                   "argument 0: f32[4,5], now f32[6,5]");
    expect_refused(fresh, x, "fail on recompile");
    ck_assert(same_bits(x, before));
    ck_assert_int_eq(stats_of(fn).compiles, 1);
    sn_scope_end(scope);
    SN_CALL(fn, F32(3, 6, 5)); /* the scope has restored the stance */
    ck_assert_int_eq(stats_of(fn).compiles, 2);
    sn_function_free(fn);
    sn_function_free(fresh);
}
END_TEST

/* What is compiled of one path does not admit another one; what stood before the refused segment has run. */
START_TEST(fail_on_recompile_stops_at_the_segment_that_is_new) {
    sn_function *const fn = sn_compile(writes_then_asks, NULL, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_NEVER));
    sn_tensor *const x = sn_zeros(SN_INTS(3), SN_F32);
    for (int i = 0; i < 2; i++) SN_CALL(fn, x);
    sn_stance_set(SN_STANCE_FAIL_ON_RECOMPILE);
    ck_assert_ptr_nonnull(SN_CALL(fn, x));
    ck_assert_double_eq(sn_item(sn_sum(x)), 3 * 14);
    expect_refused(fn, sn_zeros(SN_INTS(4), SN_F32), "fail on recompile");
    sn_stance_set(SN_STANCE_DEFAULT);
    sn_function_free(fn);
}
END_TEST

/* What is not to be compiled any more is no recompile. */
START_TEST(fail_on_recompile_lets_limits_be) {
    sn_function *const fn =
        sn_compile(scaled, NULL, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_NEVER, .recompile_limit = 1));
    for (int i = 2; i < 4; i++) SN_CALL(fn, F32(1, i));
    sn_stance_set(SN_STANCE_FAIL_ON_RECOMPILE);
    ck_assert_ptr_nonnull(SN_CALL(fn, F32(1, 7)));
    ck_assert_ptr_nonnull(strstr(last_reason(), "limit"));
    sn_stance_set(SN_STANCE_DEFAULT);
    sn_function_free(fn);
}
END_TEST

static sn_status two_results(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_out(f, 0, sn_sum(sn_sin(x)));
    return sn_out(f, 1, sn_sum(sn_exp(x)));
}

/* The gradient of one result alone: a key that the forward's backward is not of. */
static sn_tensor *gradient_of_second(sn_function *fn, sn_tensor *x) {
    sn_tensor *out[2];
    sn_grad_set(x, NULL);
    sn_call(fn, &x, 1, out, 2);
    return sn_backward(out[1]) == SN_OK ? sn_grad(x) : NULL;
}

START_TEST(backwards_for_new_keys_stand_under_the_stance) {
    sn_function *const fn = sn_compile(two_results, NULL, NULL);
    sn_tensor *const x = LEAF(5, 7), *out[2];
    for (int i = 0; i < 2; i++) sn_call(fn, &x, 1, out, 2);
    sn_stance_set(SN_STANCE_FAIL_ON_RECOMPILE);
    ck_assert_ptr_null(gradient_of_second(fn, x));
    expect_error(SN_ERR_STRICT, "no backward is compiled for these gradients");
    sn_stance_set(SN_STANCE_EAGER_ON_RECOMPILE);
    ck_assert(same_bits(gradient_of_second(fn, x), sn_exp(sn_detach(x))));
    ck_assert(has(sn_explain(fn), "backward runs as eager's nodes for 1 other key: nothing that is compiled fits"));
    sn_stance_set(SN_STANCE_DEFAULT);
    ck_assert(same_bits(gradient_of_second(fn, x), sn_exp(sn_detach(x))));
    ck_assert(has(sn_explain(fn), "backward compiled for 1 other key"));
    sn_stance_set(SN_STANCE_FAIL_ON_RECOMPILE);
    ck_assert_ptr_nonnull(gradient_of_second(fn, x));
    sn_stance_set(SN_STANCE_DEFAULT);
    sn_function_free(fn);
}
END_TEST

static bool forced; /* was the newest call of calls_it */
static sn_status calls_it(sn_frame *f) {
    sn_tensor *const y = sn_call1(sn_closure(f), SN_TENSORS(sn_in(f, 0)));
    forced = has(last_reason(), "the stance is force eager");
    runs++;
    return sn_out(f, 0, sn_exp(y));
}

/* Its second run has the stance of its first, as it has the other modes. */
START_TEST(a_checkpoint_runs_again_under_the_forwards_stance) {
    sn_function *const fn = sn_compile(scaled, NULL, NULL);
    sn_tensor *const x = LEAF(5, 7);
    const sn_stance forwards[] = {SN_STANCE_FORCE_EAGER, SN_STANCE_DEFAULT};
    for (int i = 0; i < 2; i++) {
        sn_tensor *y = NULL;
        sn_stance_set(forwards[i]);
        ck_assert_int_eq(sn_checkpoint(calls_it, fn, NULL, SN_TENSORS(x), &y, 1), SN_OK);
        ck_assert(forced == (i == 0));
        sn_stance_set(forwards[1 - i]);
        runs = 0, forced = i;
        ck_assert_int_eq(sn_backward(sn_sum(y)), SN_OK);
        sn_stance_set(SN_STANCE_DEFAULT);
        ck_assert_int_gt(runs, 0);
        ck_assert(forced == (i == 0));
    }
    sn_function_free(fn);
}
END_TEST

static sn_status sets_a_stance(sn_frame *f) {
    sn_stance_set(SN_STANCE_FORCE_EAGER);
    return sn_out(f, 0, sn_neg(sn_in(f, 0)));
}

static void *own_stance(void *arg) {
    (void)arg;
    return (void *)(intptr_t)sn_stance_set(SN_STANCE_DEFAULT);
}

START_TEST(stances_are_the_threads_and_not_set_inside) {
    pthread_t thread;
    void *seen;
    sn_stance_set(SN_STANCE_FORCE_EAGER);
    ck_assert_int_eq(pthread_create(&thread, NULL, own_stance, NULL), 0);
    pthread_join(thread, &seen);
    ck_assert_int_eq((intptr_t)seen, SN_STANCE_DEFAULT);
    ck_assert_int_eq(sn_stance_set(SN_STANCE_DEFAULT), SN_STANCE_FORCE_EAGER);
    sn_function *const fn = sn_compile(sets_a_stance, NULL, NULL);
    ck_assert_ptr_null(SN_CALL(fn, F32(1, 2)));
    expect_error(SN_ERR_STATE, "sn_stance_set");
    sn_stance_set((sn_stance)17);
    expect_error(SN_ERR_ARGUMENT, "sn_stance_set: there is no stance 17");
    ck_assert_int_eq(sn_stance_set(SN_STANCE_DEFAULT), SN_STANCE_DEFAULT);
    sn_function_free(fn);
}
END_TEST

START_TEST(a_graph_is_captured_in_every_stance) {
    const sn_value in = sn_val(F32(1, 3));
    for (int stance = SN_STANCE_DEFAULT; stance <= SN_STANCE_FAIL_ON_RECOMPILE; stance++) {
        sn_function *const fn = sn_compile(scaled, NULL, NULL);
        sn_stance_set((sn_stance)stance);
        sn_graph *const g = sn_graph_capture(fn, &in, 1);
        sn_stance_set(SN_STANCE_DEFAULT);
        ck_assert_msg(g != NULL, "stance %d: %s", stance, sn_error_take()->message);
        sn_graph_free(g);
        sn_function_free(fn);
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        force_eager_runs_the_body_whatever_is_compiled,
        eager_on_recompile_compiles_nothing,
        fail_on_recompile_says_what_differs_and_runs_no_op,
        fail_on_recompile_stops_at_the_segment_that_is_new,
        fail_on_recompile_lets_limits_be,
        backwards_for_new_keys_stand_under_the_stance,
        a_checkpoint_runs_again_under_the_forwards_stance,
        stances_are_the_threads_and_not_set_inside,
        a_graph_is_captured_in_every_stance,
    };
    return contract_main("stances", tests, sizeof tests / sizeof *tests);
}
