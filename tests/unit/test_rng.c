/* test_rng.c: the generator as a value: taken, put back, forked by a scope; compiled = eager, and what capture makes of
 * it [semantics B6, C3, C4]. */
#include <setjmp.h>

#include "runtime/base/base.h"
#include "tests/unit/contract.h"

static sn_tensor *draw(void) { return sn_rand(SN_INTS(4, 3), SN_F32); }

/* What the generator gave before is given again, and only a place of it decides. */
START_TEST(a_state_put_back_gives_the_same_numbers) {
    sn_seed(5);
    draw();
    const sn_rng rng = sn_rng_get();
    ck_assert_uint_eq(rng.seed, 5);
    ck_assert_uint_eq(rng.sequence, 1);
    sn_tensor *const a = draw(), *const b = draw();
    ck_assert(!same_bits(a, b));
    ck_assert_int_eq(sn_rng_set(rng), SN_OK);
    ck_assert(same_bits(draw(), a) && same_bits(draw(), b));
    ck_assert_uint_eq(sn_rng_get().sequence, 3);
    sn_rng_set((sn_rng){.seed = 5, .sequence = 2});
    ck_assert(same_bits(draw(), b));
}
END_TEST

START_TEST(an_error_leaves_it) {
    sn_seed(5);
    sn_fail(SN_ERR_VALUE, "pending");
    ck_assert_int_eq(sn_rng_set((sn_rng){9, 9}), SN_ERR_VALUE);
    ck_assert_uint_eq(sn_rng_get().seed, 0);
    ck_assert(sn_rng_fork_begin() == SN_SCOPE_NONE);
    sn_error_take();
    ck_assert_uint_eq(sn_rng_get().seed, 5);
    ck_assert_uint_eq(sn_rng_get().sequence, 0);
}
END_TEST

/* Forks -------------------------------------------------------------------------------------------------------- */

static jmp_buf out_of_it;

static sn_status leaves(sn_frame *f) {
    (void)f;
    sn_rng_fork_begin();
    sn_seed(99), draw();
    longjmp(out_of_it, 1);
}

START_TEST(a_fork_ends_with_its_scope) {
    sn_seed(6);
    draw();
    const sn_scope outer = sn_rng_fork_begin(), inner = sn_rng_fork_begin();
    sn_seed(7);
    ck_assert_int_eq(sn_scope_end(inner), SN_OK);
    ck_assert_uint_eq(sn_rng_get().sequence, 1);
    draw(), draw();
    sn_rng_fork_begin();
    sn_seed(8);
    sn_fail(SN_ERR_VALUE, "pending");
    ck_assert_int_eq(sn_scope_end(outer), SN_ERR_VALUE); /* and the one above it, with an error pending */
    sn_error_take();
    ck_assert_uint_eq(sn_rng_get().seed, 6);
    ck_assert_uint_eq(sn_rng_get().sequence, 1);
    sn_function *const fn = sn_compile(leaves, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    const sn_scope around = sn_scope_begin();
    if (!setjmp(out_of_it)) SN_CALL(fn, F32(1, 2));
    ck_assert_int_eq(sn_scope_end(around), SN_OK);
    ck_assert_uint_eq(sn_rng_get().seed, 6);
    ck_assert_uint_eq(sn_rng_get().sequence, 1);
    sn_function_free(fn);
}
END_TEST

/* Compiled ----------------------------------------------------------------------------------------------------- */

static uint64_t set_to; /* by the tests, between calls */

static sn_status sets_first(sn_frame *f) {
    sn_rng_set((sn_rng){.seed = set_to, .sequence = 3 * set_to});
    return sn_out(f, 0, sn_add(sn_in(f, 0), sn_mul(draw(), draw())));
}
/* As a recomputation does: twice the same numbers, then others. */
static sn_status goes_back(sn_frame *f) {
    sn_tensor *const a = draw();
    const sn_rng rng = sn_rng_get();
    sn_tensor *const b = sn_dropout(sn_in(f, 0), 0.5, true);
    sn_rng_set(rng);
    sn_tensor *const c = sn_dropout(sn_in(f, 0), 0.5, true);
    return sn_out(f, 0, sn_add(sn_sub(b, c), sn_add(a, draw())));
}
static sn_status forks(sn_frame *f) {
    sn_tensor *const a = draw();
    const sn_scope fork = sn_rng_fork_begin();
    sn_tensor *const b = sn_scope_return(fork, sn_add(draw(), draw()));
    return sn_out(f, 0, sn_add(sn_in(f, 0), sn_add(sn_mul(a, b), draw())));
}
static sn_status forks_and_stays(sn_frame *f) { /* its scope ends with the body */
    sn_tensor *const a = draw();
    sn_rng_fork_begin();
    return sn_out(f, 0, sn_add(sn_in(f, 0), sn_add(a, draw())));
}
static sn_status jumps(sn_frame *f) {
    sn_tensor *const a = draw();
    sn_rng_set((sn_rng){.seed = set_to, .sequence = 1000 * set_to});
    return sn_out(f, 0, sn_add(sn_in(f, 0), sn_add(a, draw())));
}

static sn_tensor *call_from(sn_function *fn, uint64_t seed, sn_tensor *x, sn_rng *after) {
    sn_seed(seed);
    draw();
    sn_tensor *const y = SN_CALL(fn, x);
    ck_assert_msg(y != NULL, "%s", sn_error_take()->message);
    *after = sn_rng_get();
    return y;
}

static void same_as_eager(sn_body body, const sn_compile_options *options, int compiles, int breaks) {
    const Twin twin = twin_new(body, NULL, NULL, options);
    for (uint64_t i = 0; i < 8; i++) {
        set_to = 1 + i / 2;
        sn_tensor *const x = LEAF(i, 4, 3);
        sn_rng fast, eager;
        ck_assert(same_bits(call_from(twin.fast, i, x, &fast), call_from(twin.eager, i, x, &eager)));
        ck_assert_msg(fast.seed == eager.seed && fast.sequence == eager.sequence, "%d: %d, not %d", (int)i,
                      (int)fast.sequence, (int)eager.sequence);
    }
    ck_assert_int_eq(stats_of(twin.fast).compiles, compiles);
    ck_assert_msg(stats_of(twin.fast).breaks == breaks, "%s", sn_explain(twin.fast));
    twin_free(twin);
}

START_TEST(c4_what_it_is_set_to_compiles_nothing_anew) { same_as_eager(sets_first, NULL, 1, 0); }
END_TEST
START_TEST(c3_a_saved_state_stays_in_the_graph) {
    same_as_eager(goes_back, NULL, 1, 0);
    same_as_eager(forks, NULL, 1, 0);
    same_as_eager(forks_and_stays, NULL, 1, 0);
}
END_TEST
START_TEST(c3_another_state_behind_random_ops_ends_the_segment) { same_as_eager(jumps, NULL, 2, 1); }
END_TEST

START_TEST(c6_a_replayed_body_that_sees_or_sets_it_runs) {
    static const sn_body bodies[] = {sets_first, goes_back, forks, forks_and_stays};
    for (int i = 0; i < 4; i++) same_as_eager(bodies[i], SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY), 1, 0);
    sn_function *const strict =
        sn_compile(goes_back, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY, .full_graph = true));
    ck_assert(!SN_CALL(strict, F32(1, 4, 3)));
    expect_error(SN_ERR_STRICT, "sn_rng_get");
    sn_function_free(strict);
}
END_TEST

/* A segment that fails leaves the generator where eager's failing op does, before and behind what was set. */
typedef enum Order { SET_DRAW_FAIL, FAIL_SET_DRAW, DRAW_FAIL_SET, ORDERS } Order;
static Order order;

static sn_status fails(sn_frame *f) {
    sn_tensor *y = sn_in(f, 0);
    if (order == SET_DRAW_FAIL) sn_rng_set((sn_rng){30, 4});
    if (order != FAIL_SET_DRAW) y = sn_add(y, draw());
    y = sn_index_select(y, 0, sn_in(f, 1));
    if (order != SET_DRAW_FAIL) sn_rng_set((sn_rng){31, 8});
    return sn_out(f, 0, sn_sum(sn_mul(y, sn_rand(SN_INTS(3), SN_F32))));
}

START_TEST(c8_a_failed_segment_leaves_it_as_eager_does) {
    for (order = 0; order < ORDERS; order++) {
        const Twin twin = twin_new(fails, NULL, NULL, NULL);
        for (int64_t i = 0; i < 4; i++) {
            const int64_t index = i == 3 ? 77 : i;
            sn_rng after[2];
            for (int k = 0; k < 2; k++) {
                sn_seed(9), draw();
                sn_tensor *const y =
                    SN_CALL(k ? twin.fast : twin.eager, F32(1, 4, 3), sn_from_data(&index, SN_INTS(1), SN_I64));
                ck_assert((y != NULL) == (index < 4));
                if (!y) expect_error(SN_ERR_VALUE, "index");
                after[k] = sn_rng_get();
            }
            ck_assert_msg(after[0].seed == after[1].seed && after[0].sequence == after[1].sequence,
                          "order %d, index %d: %d %d, not %d %d", (int)order, (int)index, (int)after[1].seed,
                          (int)after[1].sequence, (int)after[0].seed, (int)after[0].sequence);
        }
        twin_free(twin);
    }
}
END_TEST

/* Calls with other ends go before, so that what serves them may have the ends as parameters. */
static sn_status ints_up_to(sn_frame *f) {
    const char *const op = sn_closure(f);
    const bool from = strstr(op, ".from");
    sn_value in[3] = {sn_val(sn_in(f, 0)), from ? sn_int(-3) : sn_in_value(f, 1), sn_in_value(f, 1)}, out;
    int n = 1;
    if (sn_op_call(sn_op_find(op), in, from ? 3 : 2, &out, &n) != SN_OK) return sn_check();
    return sn_out(f, 0, out.tensor);
}

static void expect_ends_checked(const char *op, sn_compile_mode mode) {
    static const int64_t ends[] = {100, 120, 110, 90, 80, 70, 300, 60, 1000, 50, 257};
    sn_function *const fn = sn_compile(ints_up_to, (void *)(uintptr_t)op, SN_COMPILE_OPTIONS(.mode = mode));
    for (int i = 0; i < COUNT_OF(ends); i++) {
        const sn_value in[] = {sn_val(sn_zeros(SN_INTS(4), SN_U8)), sn_int(ends[i])};
        const sn_value signed_in[] = {sn_val(sn_zeros(SN_INTS(4), SN_I8)), sn_int(ends[i])};
        sn_tensor *y = NULL;
        sn_call_values(fn, strstr(op, ".from") ? signed_in : in, 2, &y, 1);
        ck_assert_msg((y != NULL) == (ends[i] <= (strstr(op, ".from") ? 128 : 256)), "%s to %d, mode %d", op,
                      (int)ends[i], (int)mode);
        if (!y) expect_error(SN_ERR_VALUE, "does not hold all");
    }
    sn_function_free(fn);
}

START_TEST(ends_beyond_f16_are_none_of_it) {
    static const int64_t ends[][2] = {{0, 65505}, {0, 65506}, {-65504, 2}, {-65505, 2}, {0, 100000}};
    for (int i = 0; i < COUNT_OF(ends); i++) {
        sn_tensor *const y = sn_randint_like_low(sn_zeros(SN_INTS(5), SN_F16), ends[i][0], ends[i][1]);
        ck_assert_msg((y != NULL) == (i % 2 == 0 && i < 4), "ends %d", i);
        if (!y) expect_error(SN_ERR_VALUE, "f16 does not hold all");
        ck_assert_ptr_nonnull(sn_randint_like_low(sn_zeros(SN_INTS(5), SN_BF16), ends[i][0], ends[i][1]));
    }
}
END_TEST

START_TEST(c4_ends_that_vary_are_checked_in_every_call) {
    static const char *const ops[] = {"aten::random.to", "aten::random_.to", "aten::random.from", "aten::randint_like"};
    for (int i = 0; i < COUNT_OF(ops); i++)
        for (sn_compile_mode mode = SN_COMPILE_VERIFY; mode <= SN_COMPILE_EAGER; mode++)
            expect_ends_checked(ops[i], mode);
}
END_TEST

/* An infinite deviation is one, as in PyTorch; a negative one or NaN is an error. */
static sn_status numbers_about(sn_frame *f) { return sn_out(f, 0, sn_normal_mean_std(sn_in(f, 0), sn_in(f, 1))); }

START_TEST(c8_deviations_are_checked_but_may_be_infinite) {
    static const float stds[][3] = {{1, 0, 2}, {1, INFINITY, 2}, {1, -1, 2}, {NAN, 1, 2}, {1, 2, -INFINITY}, {3, 2, 1}};
    for (sn_compile_mode mode = SN_COMPILE_VERIFY; mode <= SN_COMPILE_EAGER; mode++) {
        sn_function *const fn = sn_compile(numbers_about, NULL, SN_COMPILE_OPTIONS(.mode = mode));
        for (int i = 0; i < 3 * COUNT_OF(stds); i++) {
            const int at = i % COUNT_OF(stds);
            sn_tensor *const in[] = {sn_zeros(SN_INTS(3), SN_F32), sn_from_data(stds[at], SN_INTS(3), SN_F32)};
            float got[3] = {0};
            sn_tensor *y = NULL;
            sn_call(fn, in, 2, &y, 1);
            if (!sn_check()) sn_read(y, got, sizeof got);
            const bool refused = at >= 2 && at <= 4;
            ck_assert_msg((sn_check() != SN_OK) == refused, "deviations %d, mode %d", at, (int)mode);
            if (refused) expect_error(SN_ERR_VALUE, "std must be 0 or more");
            if (!refused) ck_assert_msg(!isinf(got[1]) == (at != 1) && isfinite(got[0]), "deviations %d", at);
        }
        sn_function_free(fn);
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a_state_put_back_gives_the_same_numbers,
        an_error_leaves_it,
        a_fork_ends_with_its_scope,
        c4_what_it_is_set_to_compiles_nothing_anew,
        c3_a_saved_state_stays_in_the_graph,
        c3_another_state_behind_random_ops_ends_the_segment,
        c6_a_replayed_body_that_sees_or_sets_it_runs,
        c8_a_failed_segment_leaves_it_as_eager_does,
        ends_beyond_f16_are_none_of_it,
        c4_ends_that_vary_are_checked_in_every_call,
        c8_deviations_are_checked_but_may_be_infinite,
    };
    return contract_main("test_rng", tests, (int)(sizeof tests / sizeof *tests));
}
