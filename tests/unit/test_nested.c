/* test_nested.c: callbacks that call themselves without end: an error that names the op or function, on every thread,
 * and the state works on. */
#include <pthread.h>

#include "tests/unit/contract.h"

static int depth, deepest;

/* A callback's run: counts how deep it is. */
static sn_status count_run(sn_tensor *result, sn_frame *f) {
    depth--;
    return sn_out(f, 0, result);
}

static sn_status adds_again(sn_frame *f) {
    if (++depth > deepest) deepest = depth;
    return count_run(sn_add(sn_in(f, 0), sn_in(f, 1)), f);
}

static sn_tensor *add_without_end(void) {
    sn_tensor *const x = F32(1, 2, 3), *const y = sn_add(x, x);
    return y;
}

static void check_override(sn_key key) {
    sn_override *const o = sn_op_override(sn_op_find("add.Tensor"), key, adds_again, NULL);
    depth = deepest = 0;
    ck_assert_ptr_null(add_without_end());
    const sn_error *const error = sn_error_take();
    ck_assert_int_eq(error->status, SN_ERR_CALLBACK);
    ck_assert_str_eq(error->op, "aten::add.Tensor");
    ck_assert_ptr_nonnull(strstr(error->message, "callbacks run one in the other"));
    ck_assert_int_ge(deepest, 100);
    sn_override_free(o);
    ck_assert_ptr_nonnull(add_without_end());
}

START_TEST(an_override_that_calls_its_op) {
    check_override(SN_KEY_CPU);
    check_override(SN_KEY_AUTOGRAD);
}
END_TEST

static sn_status adds_once(sn_frame *f) { return sn_out(f, 0, sn_add(sn_in(f, 0), sn_in(f, 0))); }

START_TEST(in_a_compiled_function) {
    sn_function *const fn = sn_compile(adds_once, NULL, NULL);
    sn_tensor *const x = F32(1, 4), *out = NULL;
    sn_override *const o = sn_op_override(sn_op_find("add.Tensor"), SN_KEY_CPU, adds_again, NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_ne(sn_call(fn, &x, 1, &out, 1), SN_OK);
        expect_error(SN_ERR_CALLBACK, "one in the other");
    }
    sn_override_free(o);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(sn_call(fn, &x, 1, &out, 1), SN_OK);
    ck_assert(same_bits(out, sn_add(x, x)));
    sn_function_free(fn);
}
END_TEST

static sn_status calls_itself(sn_frame *f) {
    sn_function *const *const self = sn_closure(f);
    sn_tensor *const x = sn_relu(sn_in(f, 0)), *out = NULL;
    sn_call(*self, &x, 1, &out, 1);
    return sn_out(f, 0, out);
}

static void check_function(sn_compile_mode mode) {
    sn_function *self = NULL;
    self = sn_compile(calls_itself, &self, SN_COMPILE_OPTIONS(.mode = mode));
    sn_tensor *const x = F32(1, 4), *out = NULL;
    ck_assert_int_ne(sn_call(self, &x, 1, &out, 1), SN_OK);
    expect_error(SN_ERR_CALLBACK, "fn: 128 callbacks");
    sn_function_free(self);
}

START_TEST(a_function_that_calls_itself) {
    check_function(SN_COMPILE_EAGER);
    check_function(SN_COMPILE_VERIFY);
}
END_TEST

static sn_tensor *of_decomposed(sn_tensor *x) {
    const sn_value in[] = {sn_val(x)};
    return sn_op_call1(sn_op_find("test::endless"), in, 1);
}
static sn_status decomposes_into_itself(sn_frame *f) { return sn_out(f, 0, of_decomposed(sn_in(f, 0))); }

START_TEST(a_decomposition_into_itself) {
    ck_assert_ptr_nonnull(sn_op_register(SN_OP_DESC(.schema = "test::endless(Tensor x) -> Tensor", .flags = SN_OP_PURE,
                                                    .decomposition = decomposes_into_itself)));
    ck_assert_ptr_null(of_decomposed(F32(1, 4)));
    expect_error(SN_ERR_CALLBACK, "test::endless");
}
END_TEST

static sn_status goes_back_again(sn_frame *f) {
    sn_grad_mode_set(SN_GRAD_ON);
    sn_tensor *const x = sn_closure(f), *const sum = sn_sum(sn_mul(x, x));
    return sn_backward(sum);
}

static void check_hook(void) {
    sn_tensor *const x = LEAF(1, 4);
    ck_assert_int_ge(sn_hook_add(x, goes_back_again, x), 0);
    ck_assert_int_ne(sn_backward(sn_sum(sn_mul(x, x))), SN_OK);
    expect_error(SN_ERR_CALLBACK, "one in the other");
}

START_TEST(a_hook_that_goes_back_again) { check_hook(); }
END_TEST

static void *on_a_thread(void *nothing) {
    check_override(SN_KEY_AUTOGRAD);
    check_function(SN_COMPILE_EAGER);
    check_function(SN_COMPILE_VERIFY);
    check_hook();
    ck_assert_int_eq(sn_scope_end(SN_SCOPE_ROOT), SN_OK);
    return nothing;
}

/* 2 MiB are the least that common systems give a thread unasked; sanitizers need more for the same calls. */
#ifdef __SANITIZE_ADDRESS__
enum { STACK_BYTES = 16 << 20 };
#else
enum { STACK_BYTES = 2 << 20 };
#endif

START_TEST(on_a_small_stack) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    ck_assert_int_eq(pthread_create(&thread, &attributes, on_a_thread, NULL), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {an_override_that_calls_its_op, on_a_small_stack,
                                  in_a_compiled_function,        a_function_that_calls_itself,
                                  a_decomposition_into_itself,   a_hook_that_goes_back_again};
    return contract_main("test_nested", tests, (int)(sizeof tests / sizeof *tests));
}
