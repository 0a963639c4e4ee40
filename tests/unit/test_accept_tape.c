/* test_accept_tape.c: rows of the acceptance list about the tape, by public headers, named by their number; others are
 * in test_accept_autograd.c, 3.11 in test_engine.c, and what is looked at from inside is in test_autograd.c. */
#include <sinter/sinter.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/suite.h"

#define OK(expr)  ck_assert_msg((expr) == 0, "%s: %s", #expr, sn_error_take()->message)
#define DIMS(...) SN_INTS(__VA_ARGS__)

static sn_tensor *floats(int64_t n, const float *values) {
    sn_tensor *const t = sn_from_data(values, (sn_ints){&n, 1}, SN_F32);
    ck_assert_ptr_nonnull(t);
    return t;
}
#define FLOATS(...) floats(SN_COUNT(float, __VA_ARGS__), (const float[]){__VA_ARGS__})
static sn_tensor *leaf(sn_tensor *t) { return sn_requires_grad_(t, true); }
static sn_tensor *scalar(float value) {
    sn_tensor *const t = sn_from_data(&value, (sn_ints){(const int64_t[]){0}, 0}, SN_F32);
    ck_assert_ptr_nonnull(t);
    return t;
}
static sn_tensor *total(sn_tensor *t) { return sn_sum(t); }
static float at(sn_tensor *t, int64_t i) {
    ck_assert_msg(t != NULL, "no tensor: %s", sn_error_take()->message);
    float values[64];
    OK(sn_read(t, values, (size_t)sn_numel(t) * sizeof(float)));
    return values[i];
}
static void fails(sn_status status, sn_status wanted, const char *text) {
    const sn_error *const error = sn_error_take();
    ck_assert_msg(status == wanted, "status %d: %s", (int)status, error->message);
    ck_assert_msg(strstr(error->message, text) != NULL, "'%s' lacks '%s'", error->message, text);
}

START_TEST(a3_04_product_and_sum) {
    sn_tensor *const a = leaf(scalar(2)), *const b = leaf(scalar(3));
    sn_tensor *const y = sn_add(sn_mul(a, b), a);
    OK(sn_backward(y));
    ck_assert_float_eq(at(sn_grad(a), 0), 4);
    ck_assert_float_eq(at(sn_grad(b), 0), 2);
}
END_TEST

START_TEST(a3_12_second_backward_accumulates) {
    sn_tensor *const x = leaf(FLOATS(1, 2));
    for (int i = 1; i <= 3; i++) {
        OK(sn_backward(total(sn_mul(x, x))));
        ck_assert_float_eq(at(sn_grad(x), 1), (float)(4 * i));
    }
    OK(sn_grad_set(x, NULL));
    ck_assert_ptr_null(sn_grad(x));
    ck_assert_int_eq(sn_check(), SN_OK);
    OK(sn_backward(total(sn_mul(x, x))));
    ck_assert_float_eq(at(sn_grad(x), 0), 2);
}
END_TEST

START_TEST(a3_07_double_backward) { /* d2/dx2 of x^3 is 6x */
    sn_tensor *const x = leaf(FLOATS(2, 5));
    sn_tensor *const cube = total(sn_mul(sn_mul(x, x), x));
    sn_tensor *first, *second, *third;
    OK(sn_gradients(SN_TENSORS(cube), SN_TENSORS(x), (sn_tensors){0}, SN_CREATE_GRAPH, &first));
    ck_assert_float_eq(at(first, 1), 75);
    OK(sn_gradients(SN_TENSORS(total(first)), SN_TENSORS(x), (sn_tensors){0}, SN_CREATE_GRAPH, &second));
    ck_assert_float_eq(at(second, 0), 12);
    ck_assert_float_eq(at(second, 1), 30);
    OK(sn_gradients(SN_TENSORS(total(second)), SN_TENSORS(x), (sn_tensors){0}, 0, &third));
    ck_assert_float_eq(at(third, 1), 6);
    ck_assert_ptr_null(sn_grad(x));
}
END_TEST

START_TEST(a3_13_requires_grad_propagates) {
    sn_tensor *const x = leaf(FLOATS(1, 2)), *const plain = FLOATS(1, 2);
    ck_assert(sn_requires_grad(sn_add(x, plain)));
    ck_assert(!sn_requires_grad(sn_add(plain, plain)));
    ck_assert(!sn_requires_grad(sn_gt(x, plain)));
    sn_tensor *const cut = sn_detach(sn_mul(x, x));
    ck_assert(!sn_requires_grad(cut));
    sn_grad_mode_set(SN_GRAD_OFF);
    ck_assert(!sn_requires_grad(sn_add(x, x)));
    sn_grad_mode_set(SN_GRAD_ON);
    const int64_t n = 1, whole = 3;
    ck_assert_ptr_null(sn_requires_grad_(sn_from_data(&whole, (sn_ints){&n, 1}, SN_I64), true));
    fails(sn_check(), SN_ERR_DTYPE, "sn_requires_grad_: gradients need a float dtype, the tensor is i64");
}
END_TEST

START_TEST(a3_14_inference_tensors_are_not_saved) {
    sn_tensor *const x = leaf(FLOATS(1, 2));
    sn_grad_mode_set(SN_INFERENCE);
    sn_tensor *const made = sn_add_scalar(FLOATS(1, 2), sn_float(1));
    sn_grad_mode_set(SN_GRAD_ON);
    ck_assert_ptr_nonnull(sn_add(x, made)); /* saves nothing */
    ck_assert_ptr_null(sn_mul(x, made));
    fails(sn_check(), SN_ERR_STATE, "Inference tensors cannot be saved for backward");
}
END_TEST

START_TEST(a3_10_a_saved_tensor_may_not_change) {
    sn_tensor *const x = leaf(FLOATS(1, 2)), *const w = FLOATS(3, 4);
    sn_tensor *const y = total(sn_mul(x, w));
    sn_add_scalar_(w, sn_float(1));
    sn_add_scalar_(w, sn_float(1));
    fails(sn_backward(y), SN_ERR_STATE, "saved at version 0, but writes in place took it to version 2");
}
END_TEST

START_TEST(a3_13_a_leaf_may_not_be_overwritten) {
    sn_tensor *const x = leaf(FLOATS(1, 2));
    ck_assert_ptr_null(sn_add_scalar_(x, sn_float(1)));
    fails(sn_check(), SN_ERR_STATE, "a leaf that requires gradients");
    sn_tensor *const view = sn_view(x, SN_INTS(2, 1));
    ck_assert_ptr_null(sn_mul_scalar_(view, sn_float(2)));
    fails(sn_check(), SN_ERR_STATE, "a view of a leaf");
    sn_grad_mode_set(SN_GRAD_OFF);
    ck_assert_ptr_nonnull(sn_add_scalar_(x, sn_float(1)));
    ck_assert_float_eq(at(x, 0), 2);
}
END_TEST

static int hook_calls;
static sn_status double_it(sn_frame *f) {
    hook_calls++;
    return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(*(float *)sn_closure(f))));
}
static sn_status look_at_it(sn_frame *f) {
    hook_calls++;
    return sn_in(f, 0) ? SN_OK : SN_ERR_CALLBACK;
}

START_TEST(a3_15_hooks_see_and_replace_gradients) {
    sn_tensor *const x = leaf(FLOATS(1, 2));
    sn_tensor *const h = sn_mul_scalar(x, sn_float(3));
    float two = 2, five = 5;
    hook_calls = 0;
    ck_assert_int_gt(sn_hook_add(h, double_it, &two), 0);
    const int64_t on_leaf = sn_hook_add(x, double_it, &five), looking = sn_hook_add(x, look_at_it, NULL);
    OK(sn_backward_ex(SN_TENSORS(total(h)), (sn_tensors){0}, SN_RETAIN_GRAPH));
    ck_assert_int_eq(hook_calls, 3);
    ck_assert_float_eq(at(sn_grad(x), 0), 30);
    sn_hook_remove(x, on_leaf), sn_hook_remove(x, looking);
    OK(sn_grad_set(x, NULL));
    OK(sn_backward(total(h)));
    ck_assert_int_eq(hook_calls, 4);
    ck_assert_float_eq(at(sn_grad(x), 0), 6);
    ck_assert_int_eq((int)sn_hook_add(FLOATS(1), look_at_it, NULL), 0);
    fails(sn_check(), SN_ERR_STATE, "requires no gradients");
}
END_TEST

typedef struct Clamp {
    double low, high, scale;
    int freed;
} Clamp;

static sn_status clamp_forward(sn_frame *f) {
    const Clamp *const c = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    ck_assert(!sn_requires_grad(sn_mul(x, x))); /* gradients are off */
    sn_tensor *const y = sn_clamp(x, sn_float(c->low), sn_float(c->high));
    sn_save(f, sn_eq(x, y));
    return sn_out(f, 0, y);
}
static sn_status clamp_backward(sn_frame *f) {
    const Clamp *const c = sn_closure(f);
    ck_assert(sn_needs_grad(f, 0));
    sn_tensor *const g = sn_mul_scalar(sn_grad_of(f, 0), sn_float(c->scale));
    sn_set_grad_of(f, 1, NULL); /* not differentiable */
    return sn_set_grad_of(f, 0, sn_mul(g, sn_saved(f, 0)));
}
static void count_free(void *closure, void *context) {
    (void)context;
    ((Clamp *)closure)->freed++;
}
static const sn_custom clamp = {sizeof clamp, "fused_scale_clamp", clamp_forward, clamp_backward, count_free};

START_TEST(a3_08_custom_function) {
    Clamp c = {-1, 1, 0.5, 0};
    sn_tensor *const x = leaf(FLOATS(-3, 0.25f, 0.5f, 3)), *const unused = FLOATS(1);
    sn_tensor *const in[] = {x, unused}, *y;
    const sn_scope scope = sn_scope_begin();
    OK(sn_custom_call(&clamp, &c, in, 2, &y, 1));
    ck_assert(sn_requires_grad(y));
    OK(sn_backward(total(y)));
    const float want[] = {0, 0.5f, 0.5f, 0};
    for (int i = 0; i < 4; i++) ck_assert_float_eq(at(sn_grad(x), i), want[i]);
    sn_scope_end(scope);
    ck_assert_int_eq(c.freed, 1);
    OK(sn_custom_call(&clamp, &c, (sn_tensor *const[]){unused, NULL}, 2, &y, 1));
    ck_assert(!sn_requires_grad(y));
    ck_assert_int_eq(c.freed, 2);
}
END_TEST

static sn_status wrong_input(sn_frame *f) { return sn_set_grad_of(f, 5, sn_grad_of(f, 0)); }
static sn_status wrong_size(sn_frame *f) { return sn_set_grad_of(f, 0, scalar(1)); }
static sn_status same(sn_frame *f) { return sn_out(f, 0, sn_in(f, 0)); }
static sn_status nothing(sn_frame *f) {
    (void)f;
    return SN_OK;
}
static sn_status pass_on(sn_frame *f) { return sn_set_grad_of(f, 0, sn_grad_of(f, 0)); }

START_TEST(a3_08_custom_functions_are_checked) {
    sn_tensor *const x = leaf(FLOATS(1, 2)), *const in[] = {x}, *y;
    const sn_custom no_output = {sizeof no_output, "no_output", nothing, pass_on, NULL};
    fails(sn_custom_call(&no_output, NULL, in, 1, &y, 1), SN_ERR_CALLBACK, "set no output 0");
    ck_assert_ptr_null(y);
    const sn_custom bad = {sizeof bad, "bad_input", same, wrong_input, NULL};
    OK(sn_custom_call(&bad, NULL, in, 1, &y, 1));
    ck_assert_ptr_ne(y, x);
    fails(sn_backward(total(y)), SN_ERR_ARGUMENT, "no argument 5");
    const sn_custom size = {sizeof size, "bad_size", same, wrong_size, NULL};
    OK(sn_custom_call(&size, NULL, in, 1, &y, 1));
    fails(sn_backward(total(y)), SN_ERR_SHAPE, "the input is f32[2]");
    const sn_custom silent = {sizeof silent, "silent", same, nothing, NULL};
    OK(sn_custom_call(&silent, NULL, in, 1, &y, 1));
    OK(sn_backward(total(y)));
    ck_assert_ptr_null(sn_grad(x)); /* undefined, never zeros */
}
END_TEST

static sn_status square_forward(sn_frame *f) {
    sn_save(f, sn_in(f, 0));
    return sn_out(f, 0, sn_mul(sn_in(f, 0), sn_in(f, 0)));
}
static sn_status square_backward(sn_frame *f) {
    sn_tensor *const slope = sn_mul_scalar(sn_saved(f, 0), sn_float(2));
    return sn_set_grad_of(f, 0, sn_mul(sn_grad_of(f, 0), slope));
}
START_TEST(a3_10_what_a_custom_function_saved_may_not_change) {
    const sn_custom square = {sizeof square, "square", square_forward, square_backward, NULL};
    sn_tensor *const p = leaf(FLOATS(1, 2)), *const x = sn_mul_scalar(p, sn_float(1));
    sn_tensor *y;
    OK(sn_custom_call(&square, NULL, &x, 1, &y, 1));
    sn_add_scalar_(x, sn_float(1));
    fails(sn_backward(total(y)), SN_ERR_STATE,
          "square needs the f32[2] that it saved at version 0, but writes in place took it to "
          "version 1");
    ck_assert_ptr_null(sn_grad(p));
}
END_TEST

START_TEST(a3_06_backward_allocates_no_jacobian) {
    const int64_t n = 1024;
    sn_memory before = {.size = sizeof before}, after = before;
    float *const zeros = calloc((size_t)(n * n), sizeof *zeros);
    sn_tensor *const x = leaf(sn_from_data(zeros, DIMS(n, n), SN_F32)), *const w =
                                                                            sn_from_data(zeros, DIMS(n, n), SN_F32);
    free(zeros);
    sn_memory_get(SN_CPU, &before);
    OK(sn_backward(total(sn_mul(x, w))));
    sn_memory_get(SN_CPU, &after);
    ck_assert_int_le(after.peak - before.current, 6 * n * n * 4);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("accept_tape");
    tcase_add_test(tests, a3_04_product_and_sum);
    tcase_add_test(tests, a3_12_second_backward_accumulates);
    tcase_add_test(tests, a3_07_double_backward);
    tcase_add_test(tests, a3_13_requires_grad_propagates);
    tcase_add_test(tests, a3_14_inference_tensors_are_not_saved);
    tcase_add_test(tests, a3_10_a_saved_tensor_may_not_change);
    tcase_add_test(tests, a3_13_a_leaf_may_not_be_overwritten);
    tcase_add_test(tests, a3_15_hooks_see_and_replace_gradients);
    tcase_add_test(tests, a3_08_custom_function);
    tcase_add_test(tests, a3_08_custom_functions_are_checked);
    tcase_add_test(tests, a3_10_what_a_custom_function_saved_may_not_change);
    tcase_add_test(tests, a3_06_backward_allocates_no_jacobian);
    return suite_run("test_accept_tape", tests);
}
