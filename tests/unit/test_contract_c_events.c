/* test_contract_c_events.c: a segment that fails leaves what eager leaves [semantics C8, C12]: of what its body did at
 * once (gradients set, hooks, seeds), that behind the op that failed is undone; writes are made once; effects happen
 * once. */
#include <stdio.h>

#include "tests/unit/contract.h"
#include "tests/unit/suite.h"

typedef struct Program Program;
struct Program {
    const char *name;
    sn_tensor *(*run)(const Program *p, sn_tensor *x, sn_tensor *index);
    sn_tensor *leaf;
    int64_t hook;
    int said, hooked;
};
static Program *now; /* whose kernels and hooks run */

static sn_tensor *pick(const Program *p, sn_tensor *x, sn_tensor *index) {
    return sn_index_select(sn_mul(x, p->leaf), 0, index);
}

static sn_tensor *zeroes_before(const Program *p, sn_tensor *x, sn_tensor *index) {
    sn_tensor *const h = sn_exp(x);
    sn_grad_set(p->leaf, NULL);
    return pick(p, h, index);
}
static sn_tensor *zeroes_after(const Program *p, sn_tensor *x, sn_tensor *index) {
    sn_tensor *const y = pick(p, x, index);
    sn_grad_set(p->leaf, NULL);
    return y;
}
static sn_tensor *sets_a_result(const Program *p, sn_tensor *x, sn_tensor *index) {
    sn_tensor *const y = pick(p, x, index);
    sn_grad_set(p->leaf, sn_exp(p->leaf));
    return y;
}
static sn_tensor *goes_backward(const Program *p, sn_tensor *x, sn_tensor *index) {
    sn_tensor *const y = pick(p, x, index);
    sn_backward(sn_sum(y));
    return sn_detach(y);
}
static sn_tensor *zeroes_and_goes_backward(const Program *p, sn_tensor *x, sn_tensor *index) {
    sn_tensor *const y = pick(p, x, index);
    sn_grad_set(p->leaf, NULL);
    sn_backward(sn_sum(y));
    return sn_detach(y);
}
static sn_tensor *fails_between_backwards(const Program *p, sn_tensor *x, sn_tensor *index) {
    sn_grad_set(p->leaf, NULL);
    sn_backward(sn_sum(sn_mul(sn_exp(x), p->leaf)));
    sn_tensor *const y = pick(p, x, index);
    sn_grad_set(p->leaf, NULL);
    sn_backward(sn_sum(y));
    return sn_detach(y);
}
static sn_tensor *seeds(const Program *p, sn_tensor *x, sn_tensor *index) {
    sn_tensor *const y = pick(p, x, index);
    sn_seed(77);
    return y;
}
static sn_tensor *seeds_and_draws(const Program *p, sn_tensor *x, sn_tensor *index) {
    sn_tensor *const y = pick(p, sn_add(x, sn_rand(SN_INTS(4, 3), SN_F32)), index);
    sn_seed(77);
    return sn_add(y, sn_rand(SN_INTS(1, 3), SN_F32));
}
static sn_status hears(sn_frame *f) {
    (void)f;
    now->hooked++;
    return SN_OK;
}
static sn_tensor *hooks(const Program *p, sn_tensor *x, sn_tensor *index) {
    sn_tensor *const y = pick(p, x, index);
    now->hook = sn_hook_add(p->leaf, hears, NULL);
    return y;
}
static sn_tensor *freezes(const Program *p, sn_tensor *x, sn_tensor *index) {
    sn_tensor *const y = pick(p, x, index);
    sn_requires_grad_(p->leaf, false);
    return y;
}
static sn_tensor *pushes_a_mode(const Program *p, sn_tensor *x, sn_tensor *index) {
    sn_tensor *const y = pick(p, x, index);
    if (sn_user_mode_push(hears, NULL) == SN_OK) now->said += 10, sn_user_mode_pop();
    return y;
}
static sn_tensor *sets_a_setting(const Program *p, sn_tensor *x, sn_tensor *index) {
    sn_tensor *const y = pick(p, x, index);
    if (sn_setting_set("pending_ops", sn_setting_get("pending_ops")) == SN_OK) now->said += 10;
    return y;
}

static sn_status like(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }
static sn_status speaks(sn_frame *f) {
    now->said++;
    return sn_out(f, 0, sn_neg(sn_in(f, 0)));
}
static const sn_op *speaker(void) {
    static const sn_op *op;
    if (!op)
        op = sn_op_register(SN_OP_DESC(.schema = "events::speak(Tensor x) -> Tensor", .flags = SN_OP_ORDERED,
                                       .meta = like, .cpu = speaks));
    return op;
}
static sn_tensor *speak(sn_tensor *x) { return sn_op_call1(speaker(), (sn_value[]){sn_val(x)}, 1); }
static sn_tensor *speaks_before(const Program *p, sn_tensor *x, sn_tensor *index) {
    return pick(p, speak(sn_exp(x)), index);
}
static sn_tensor *speaks_after(const Program *p, sn_tensor *x, sn_tensor *index) { return speak(pick(p, x, index)); }

static Program programs[] = {
#define PROGRAM(name)                                                                                                  \
    { #name, name, NULL, 0, 0, 0 }
    PROGRAM(zeroes_before),
    PROGRAM(zeroes_after),
    PROGRAM(sets_a_result),
    PROGRAM(goes_backward),
    PROGRAM(zeroes_and_goes_backward),
    PROGRAM(fails_between_backwards),
    PROGRAM(seeds),
    PROGRAM(seeds_and_draws),
    PROGRAM(hooks),
    PROGRAM(freezes),
    PROGRAM(pushes_a_mode),
    PROGRAM(sets_a_setting),
    PROGRAM(speaks_before),
    PROGRAM(speaks_after),
};

static sn_status body(sn_frame *f) { return sn_out(f, 0, now->run(now, sn_in(f, 0), sn_in(f, 1))); }

typedef struct After { /* what a call has left */
    sn_tensor *result, *grad, *drawn;
    bool tracks;
    int said, hooked;
} After;

static After call(sn_function *fn, int64_t index) {
    now->leaf = LEAF(3, 4, 3);
    now->said = now->hooked = 0;
    sn_grad_set(now->leaf, F32(8, 4, 3));
    sn_seed(5);
    After after = {
        .result = SN_CALL(fn, F32(2, 4, 3), sn_from_data(&index, SN_INTS(1), SN_I64)),
    };
    if (index > 3)
        expect_error(SN_ERR_VALUE, "index");
    else
        ck_assert_msg(after.result != NULL, "%s", sn_error_take()->message);
    after.said = now->said;
    after.drawn = sn_rand(SN_INTS(4), SN_F32);
    after.grad = sn_grad(now->leaf) ? sn_clone(sn_grad(now->leaf)) : NULL;
    after.tracks = sn_requires_grad(now->leaf);
    sn_requires_grad_(now->leaf, true);
    ck_assert_int_eq(sn_backward(sn_sum(sn_mul(now->leaf, now->leaf))), SN_OK);
    after.hooked = now->hooked;
    return after;
}

START_TEST(a_failed_segment_leaves_what_eager_leaves) {
    now = &programs[_i];
    const Twin twin = twin_new(body, NULL, NULL, NULL);
    for (int i = 0; i < 7; i++) {
        const int64_t index = i == 3 || i == 5 ? 9 : i % 4;
        const After want = call(twin.eager, index), got = call(twin.fast, index);
        ck_assert_msg(same_bits(got.result, want.result), "%s: result", now->name);
        ck_assert_msg(same_bits(got.grad, want.grad), "%s: .grad", now->name);
        ck_assert_msg(same_bits(got.drawn, want.drawn), "%s: generator", now->name);
        ck_assert_msg(got.tracks == want.tracks, "%s: requires_grad", now->name);
        ck_assert_msg(got.said == want.said, "%s: said %d", now->name, got.said);
        ck_assert_msg(got.hooked == want.hooked, "%s: hooked %d", now->name, got.hooked);
    }
    ck_assert_int_le(stats_of(twin.fast).compiles, 3);
    twin_free(twin);
}
END_TEST

/* Kernels of the program that fail, where `at` says so. */
static int calls, fails_at;
static sn_status how;
static sn_status may_fail(sn_frame *f) {
    calls++;
    if (sn_in_int(f, 1) == fails_at) return sn_fail(how, "the kernel says no");
    return sn_out(f, 0, sn_neg(sn_in(f, 0)));
}

static sn_status writes_around(sn_frame *f) {
    const sn_op *const op = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    sn_add_scalar_(x, sn_float(1));
    sn_tensor *const y = sn_op_call1(op, (sn_value[]){sn_val(sn_exp(x)), sn_int(1)}, 2);
    sn_mul_scalar_(x, sn_float(3));
    sn_tensor *const z = sn_op_call1(op, (sn_value[]){sn_val(x), sn_int(2)}, 2);
    return sn_out(f, 0, sn_add(y, z));
}

static void fails_like_eager(const sn_op *op, int *most_calls) {
    static const sn_status ways[] = {SN_ERR_VALUE, SN_ERR_STATE, SN_ERR_MEMORY};
    const Twin twin = twin_new(writes_around, (void *)(uintptr_t)op, (void *)(uintptr_t)op, NULL);
    *most_calls = 0;
    for (int i = 0; i < 18; i++) {
        how = ways[i / 6];
        const int at = i % 3 == 2 ? 1 + i / 3 % 2 : 0;
        sn_tensor *const a = F32(i, 4, 3), *const b = sn_clone(a);
        calls = 0, fails_at = at;
        sn_tensor *const want = SN_CALL(twin.eager, a);
        if (at) expect_error(how, "the kernel says no");
        calls = 0, fails_at = at;
        sn_tensor *const got = SN_CALL(twin.fast, b);
        if (at) expect_error(how, "the kernel says no");
        if (calls > *most_calls) *most_calls = calls;
        ck_assert(same_bits(got, want));
        ck_assert_msg(same_bits(a, b), "call %d: not written as in eager", i);
    }
    ck_assert_int_gt(stats_of(twin.fast).ops_generated + stats_of(twin.fast).ops_interpreted, 0);
    twin_free(twin);
}

START_TEST(a_users_kernel_fails_after_writes) {
    int most;
    fails_like_eager(sn_op_register(SN_OP_DESC(.schema = "events::pure(Tensor x, int at) -> Tensor",
                                               .flags = SN_OP_PURE, .meta = like, .cpu = may_fail)),
                     &most);
}
END_TEST

START_TEST(an_ordered_kernel_that_fails_runs_once) {
    int most;
    fails_like_eager(sn_op_register(SN_OP_DESC(.schema = "events::ordered(Tensor x, int at) -> Tensor",
                                               .flags = SN_OP_ORDERED, .meta = like, .cpu = may_fail)),
                     &most);
    ck_assert_int_eq(most, 2);
}
END_TEST

static sn_status fails_for_negative(sn_frame *f) {
    calls++;
    if (sn_item(sn_sum(sn_in(f, 0))) < 0) return sn_fail(SN_ERR_VALUE, "a negative sum");
    return sn_out(f, 0, sn_neg(sn_in(f, 0)));
}
static sn_status calls_ordered(sn_frame *f) {
    const sn_value in = sn_val(sn_mul(sn_in(f, 0), sn_in(f, 1)));
    return sn_out(f, 0, sn_exp(sn_op_call1(sn_closure(f), &in, 1)));
}

START_TEST(a_replayed_effect_happens_once) {
    const sn_op *const op = sn_op_register(SN_OP_DESC(.schema = "events::positive(Tensor x) -> Tensor",
                                                      .flags = SN_OP_ORDERED, .meta = like, .cpu = fails_for_negative));
    sn_function *const fn =
        sn_compile(calls_ordered, (void *)(uintptr_t)op, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    for (int i = 0; i < 9; i++) {
        sn_tensor *const one = sn_full(SN_INTS(3 + i / 6), sn_float(i % 3 == 2 ? -1 : 1), SN_F32);
        calls = 0;
        sn_tensor *const got = SN_CALL(fn, one, sn_abs(one));
        ck_assert_int_eq(calls, 1);
        ck_assert_int_eq(got != NULL, i % 3 != 2);
        if (!got) expect_error(SN_ERR_VALUE, "a negative sum");
    }
    sn_function_free(fn);
}
END_TEST

/* C12: a meta rule that its kernel does not keep */
static sn_status flattens(sn_frame *f) { return sn_out(f, 0, sn_view(sn_neg(sn_in(f, 0)), SN_INTS(12))); }
static sn_status widens(sn_frame *f) { return sn_out(f, 0, sn_to(sn_neg(sn_in(f, 0)), SN_F64)); }
static sn_status calls_it(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const y = sn_op_call1(sn_closure(f), (sn_value[]){sn_val(sn_exp(x))}, 1);
    return sn_out(f, 0, sn_mul(y, y));
}

static void refuses(const char *schema, sn_body kernel, const char *name, const char *says) {
    const sn_op *const op =
        sn_op_register(SN_OP_DESC(.schema = schema, .flags = SN_OP_PURE, .meta = like, .cpu = kernel));
    sn_function *const fn = sn_compile(calls_it, (void *)(uintptr_t)op, NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_null(SN_CALL(fn, F32(1, 4, 3)));
        const sn_error *const error = sn_error_take();
        ck_assert_str_eq(error->op, name);
        ck_assert_str_eq(error->message, says);
        ck_assert_ptr_nonnull(strstr(error->where, "test_contract_c_events.c"));
    }
    sn_function_free(fn);
}

START_TEST(c12_a_result_that_the_meta_rule_did_not_say) {
    refuses("events::flat(Tensor x) -> Tensor", flattens, "events::flat",
            "events::flat: its kernel returned f32[12] as result 0, where its meta rule said "
            "f32[4,3]");
    refuses("events::wide(Tensor x) -> Tensor", widens, "events::wide",
            "events::wide: its kernel returned f64[4,3] as result 0, where its meta rule said "
            "f32[4,3]");
}
END_TEST

int main(void) {
    TCase *const tcase = tcase_create("events");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, a_failed_segment_leaves_what_eager_leaves, 0, (int)(sizeof programs / sizeof *programs));
    tcase_add_test(tcase, a_users_kernel_fails_after_writes);
    tcase_add_test(tcase, an_ordered_kernel_that_fails_runs_once);
    tcase_add_test(tcase, a_replayed_effect_happens_once);
    tcase_add_test(tcase, c12_a_result_that_the_meta_rule_did_not_say);
    return suite_run("test_contract_c_events", tcase);
}
