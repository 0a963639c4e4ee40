/* test_left_free.c: closure_free of custom functions, checkpoints and compiled functions is a callback like any other
 * [semantics C13]: one that leaves by a jump, wherever the node died, leaves the thread whole and the program's stack
 * alone. */
#include <setjmp.h>

#include "tests/unit/contract.h"

static jmp_buf out;
static int armed, freed;

static void leaves(void *closure, void *context) {
    freed++;
    if (!armed) return;
    armed = 0;
    longjmp(out, 1);
}
static sn_status exps(sn_frame *f) { return sn_out(f, 0, sn_exp(sn_in(f, 0))); }
static sn_status same_grad(sn_frame *f) { return sn_set_grad_of(f, 0, sn_grad_of(f, 0)); }
static const sn_custom custom = {
    .size = sizeof custom, .name = "c", .forward = exps, .backward = same_grad, .closure_free = leaves};

static sn_tensor *by_custom(sn_tensor *x) {
    sn_tensor *y = NULL;
    ck_assert_int_eq(sn_custom_call(&custom, NULL, &x, 1, &y, 1), SN_OK);
    return y;
}
static sn_tensor *by_checkpoint(sn_tensor *x) {
    sn_tensor *y = NULL;
    sn_checkpoint(exps, NULL, SN_CHECKPOINT_OPTIONS(.closure_free = leaves), SN_TENSORS(x), &y, 1);
    return y;
}
static sn_tensor *(*const makers[])(sn_tensor *x) = {by_custom, by_checkpoint};

static void dies_with_its_scope(sn_tensor *(*make)(sn_tensor *x), sn_tensor *x) {
    const sn_scope scope = sn_scope_begin();
    make(x);
    armed = 1;
    sn_scope_end(scope);
}
static void dies_in_a_backward(sn_tensor *(*make)(sn_tensor *x), sn_tensor *x) {
    sn_tensor *const y = make(x);
    armed = 1;
    sn_backward(sn_sum(y));
}
static void (*const ends[])(sn_tensor *(*make)(sn_tensor *x), sn_tensor *x) = {dies_with_its_scope, dies_in_a_backward};

/* Nodes that die below are freed, none is written to where it is not. */
static void expect_whole(sn_tensor *x) {
    volatile unsigned char own[4096];
    for (size_t i = 0; i < sizeof own; i++) own[i] = 0x5A;
    const int64_t before = sn_live_nodes(NULL, 0);
    for (int i = 0; i < 5; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const y = sn_neg(sn_exp(x));
        ck_assert(y && sn_requires_grad(y));
        sn_scope_end(scope);
    }
    ck_assert_int_le(sn_live_nodes(NULL, 0), before);
    for (size_t i = 0; i < sizeof own; i++) ck_assert_int_eq(own[i], 0x5A);
}

START_TEST(c13_a_closure_free_leaves_by_a_jump) {
    for (volatile int k = 0; k < 4; k++) {
        sn_tensor *const x = LEAF(1, 8);
        freed = 0;
        if (!setjmp(out)) {
            ends[k / 2](makers[k % 2], x);
            armed = 0;
        }
        ck_assert_int_eq(freed, 1);
        ck_assert_int_eq(sn_check(), SN_OK);
        expect_whole(x);
        sn_tensor *const y = makers[k % 2](x); /* and again, without a jump */
        ck_assert_int_eq(sn_backward(sn_sum(y)), SN_OK);
        ck_assert_ptr_nonnull(sn_grad(x));
    }
}
END_TEST

START_TEST(c13_a_compiled_functions_closure_free_leaves_by_a_jump) {
    sn_tensor *const x = LEAF(1, 8), *y = NULL;
    for (volatile int k = 0; k < 2; k++) {
        sn_function *const fn = sn_compile(exps, NULL, SN_COMPILE_OPTIONS(.closure_free = leaves));
        ck_assert_int_eq(sn_call(fn, &x, 1, &y, 1), SN_OK);
        freed = 0, armed = k == 0;
        if (!setjmp(out)) sn_function_free(fn);
        ck_assert_int_eq(freed, 1);
        ck_assert_int_eq(sn_check(), SN_OK);
        expect_whole(x);
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {c13_a_closure_free_leaves_by_a_jump,
                                  c13_a_compiled_functions_closure_free_leaves_by_a_jump};
    return contract_main("test_left_free", tests, (int)(sizeof tests / sizeof *tests));
}
