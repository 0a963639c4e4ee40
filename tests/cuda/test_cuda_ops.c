/* test_cuda_ops.c: what ops on a CUDA device do beside computing (test_ops cuda compares all of them with the CPU):
 * programs that serve any size, checks that fail while the program goes on, compiled functions, gradients. */
#include <check.h>
#include <sinter/sinter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cuda_code.h"
#include "runtime/device/execute.h"
#include "tests/cuda/emulated_control.h"
#include "tests/unit/public_check.h"
#include "tests/unit/suite.h"

enum { GPU = SN_CUDA(0) };

static sn_tensor *there(sn_tensor *x) { return sn_to_device(x, GPU); }
static sn_tensor *here(sn_tensor *x) { return sn_to_device(x, SN_CPU); }
static sn_tensor *numbers(sn_ints sizes) { return sn_randn(sizes, SN_F32); }
static sn_tensor *places(int64_t a, int64_t b) {
    return there(sn_cat(SN_TENSORS(sn_full(SN_INTS(1), sn_int(a), SN_I64), sn_full(SN_INTS(1), sn_int(b), SN_I64)), 0));
}

static bool same(sn_tensor *a, sn_tensor *b) {
    expect_ok();
    return sn_equal(a, b);
}

START_TEST(a_new_size_compiles_nothing) {
    const sn_scope scope = sn_scope_begin();
    for (int n = 5; n < 12; n++) {
        sn_tensor *const x = numbers(SN_INTS(n, 3 * n)), *const y = numbers(SN_INTS(3 * n));
        const int64_t before = cuda_code_counts().compiled;
        ck_assert(same(here(sn_add(there(x), there(y))), sn_add(x, y)));
        ck_assert(same(here(sn_mean_dim(there(x), SN_INTS(1), false)), sn_mean_dim(x, SN_INTS(1), false)));
        if (n > 5) ck_assert_int_eq(cuda_code_counts().compiled, before);
    }
    sn_scope_end(scope);
}
END_TEST

/* Few long rows are spread otherwise than many short ones: a program for each. */
START_TEST(long_rows_have_a_program_of_their_own) {
    static const int64_t sizes[][2] = {{6, 18}, {7, 20}, {2, 2000}, {3, 2100}, {8, 21}, {2, 70000}, {3, 70001}};
    static const int compiled[] = {2, 0, 2, 0, 0, 0, 0};
    for (int i = 0; i < COUNT_OF(sizes); i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const x = numbers((sn_ints){sizes[i], 2});
        const int64_t before = cuda_code_counts().compiled;
        ck_assert(same(here(sn_sum_dim(there(x), SN_INTS(1), false)), sn_sum_dim(x, SN_INTS(1), false)));
        ck_assert(same(here(sn_log_softmax(there(x), 1)), sn_log_softmax(x, 1)));
        ck_assert_msg(cuda_code_counts().compiled - before == compiled[i], "sizes %d: %d programs", i,
                      (int)(cuda_code_counts().compiled - before));
        sn_scope_end(scope);
    }
}
END_TEST

/* The threads of a row read it before one of them writes it; the blocks that a long row is split over do, too. */
static sn_status written_beside_a_row(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const row = sn_in(f, 1), *const most = sn_max(row);
    sn_div_scalar_(x, sn_float(3.5));
    return sn_out(f, 0, sn_maximum(sn_sub(row, most), x));
}

START_TEST(a_value_is_written_beside_a_row) {
    sn_function *const fn = sn_compile(written_beside_a_row, NULL, NULL);
    const int64_t n = _i ? 5000 : 100;
    for (int i = 0; i < 4; i++) {
        sn_tensor *const x = sn_neg(sn_abs(numbers(SN_INTS(1)))), *const row = numbers(SN_INTS(n));
        sn_tensor *const y = there(x), *const less = sn_div_scalar(x, sn_float(3.5));
        sn_tensor *const got = here(SN_CALL(fn, y, there(row)));
        ck_assert(same(got, sn_maximum(sn_sub(row, sn_max(row)), less)) && same(here(y), less));
    }
    sn_stats stats = {.size = sizeof stats};
    sn_function_stats(fn, &stats);
    ck_assert_int_eq(stats.kernels, 1);
    sn_function_free(fn);
}
END_TEST

/* Each value is needed twice by the next one: whoever walks operands without memory takes 2^40 steps. */
static sn_status doubling(sn_frame *f) {
    sn_tensor *x = sn_in(f, 0);
    for (int i = 0; i < 40; i++) x = sn_sub(x, sn_mul(x, x));
    return sn_out(f, 0, sn_sub(x, sn_max(x)));
}

START_TEST(values_used_twice_are_walked_once) {
    sn_function *const fn = sn_compile(doubling, NULL, NULL), *const eager = sn_compile(
                                                                  doubling, NULL,
                                                                  SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_tensor *const x = sn_sigmoid(numbers(SN_INTS(100)));
    for (int i = 0; i < 2; i++) ck_assert(same(here(SN_CALL(fn, there(x))), SN_CALL(eager, x)));
    sn_stats stats = {.size = sizeof stats};
    sn_function_stats(fn, &stats);
    ck_assert_int_eq(stats.kernels, 1);
    sn_function_free(fn);
    sn_function_free(eager);
}
END_TEST

START_TEST(numbers_of_the_cpu_are_operands) {
    sn_tensor *const x = numbers(SN_INTS(7)), *const two = sn_full(SN_INTS(), sn_float(2.5), SN_F32);
    ck_assert(same(here(sn_mul(there(x), two)), sn_mul(x, two)));
    ck_assert(same(here(sn_sub(two, there(x))), sn_sub(two, x)));
    ck_assert_int_eq(sn_device_of(sn_mul(two, there(x))), GPU);
}
END_TEST

static sn_status twice(sn_frame *f) { return sn_out(f, 0, sn_add(sn_in(f, 0), sn_in(f, 0))); }

START_TEST(an_op_of_the_program_has_its_own_kernels_only) {
    const sn_op *const op = sn_op_register(
        SN_OP_DESC(.schema = "test::twice(Tensor x) -> Tensor", .flags = SN_OP_PURE, .meta = twice, .cpu = twice));
    sn_value in[] = {sn_val(there(numbers(SN_INTS(3))))};
    expect_ok();
    ck_assert_ptr_null(sn_op_call1(op, in, 1));
    expect_error(SN_ERR_UNSUPPORTED, "test::twice: it is not implemented for key cuda");
}
END_TEST

/* test::counted(Tensor x) -> (Tensor, int) */
static sn_status counted(sn_frame *f) {
    sn_out(f, 0, sn_neg(sn_in(f, 0)));
    return sn_out_value(f, 1, sn_int(sn_numel(sn_in(f, 0))));
}
static sn_status counted_meta(sn_frame *f) {
    sn_out(f, 0, sn_empty_like(sn_in(f, 0)));
    return sn_out_value(f, 1, sn_int(sn_numel(sn_in(f, 0))));
}
static sn_status by_count(sn_frame *f) {
    const sn_value in = sn_val(sn_exp(sn_in(f, 0)));
    sn_value out[2];
    int n = 2;
    if (sn_op_call(sn_op_find("test::counted"), &in, 1, out, &n) != SN_OK) return sn_check();
    return sn_out(f, 0, sn_mul_scalar(out[0].tensor, out[1]));
}

START_TEST(a_number_of_the_programs_op_is_the_hosts) {
    sn_op_register(SN_OP_DESC(.schema = "test::counted(Tensor x) -> (Tensor, int)", .flags = SN_OP_PURE,
                              .meta = counted_meta, .cpu = counted, .cuda = counted));
    sn_function *const fn = sn_compile(by_count, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const x = numbers(SN_INTS(3, 2));
        ck_assert(same(here(SN_CALL(fn, there(x))), sn_mul_scalar(sn_neg(sn_exp(x)), sn_int(6))));
    }
    ck_assert_msg(strstr(sn_explain(fn), "a number of a user's op on a device"), "%s", sn_explain(fn));
    sn_function_free(fn);
}
END_TEST

/* The wait raises the first one, what others see is not written, and then all goes on. */
START_TEST(a_failed_check_is_told_at_the_next_wait) {
    sn_tensor *const x = there(numbers(SN_INTS(4, 3))), *const sum = there(sn_zeros(SN_INTS(2, 3), SN_F32));
    sn_tensor *const out = there(sn_zeros(SN_INTS(2, 3), SN_F32));
    sn_tensor *const wrong = places(1, 9), *const another = places(-7, 0);
    sn_tensor *const rows = sn_index_select(x, 0, wrong);
    ck_assert_ptr_nonnull(rows);
    sn_add_(sum, rows);
    sn_exp_out(out, rows);
    sn_index_select(x, 0, another);
    expect_ok();
    ck_assert_int_eq(sn_device_synchronize(GPU), SN_ERR_VALUE);
    expect_error(SN_ERR_VALUE, "aten::index_select: index 9 is out of range for 4 elements");
    ck_assert(same(here(sum), sn_zeros(SN_INTS(2, 3), SN_F32)));
    ck_assert(same(here(out), sn_zeros(SN_INTS(2, 3), SN_F32)));
    sn_add_(sum, sn_index_select(x, 0, places(1, 3)));
    ck_assert(same(here(sum), sn_index_select(here(x), 0, here(places(1, 3)))));
    sn_index_select(x, 0, places(0, 4));
    ck_assert_ptr_null(here(x)); /* a read waits, too */
    expect_error(SN_ERR_VALUE, "index 4 is out of range");
    ck_assert_ptr_nonnull(here(x));
}
END_TEST

static sn_status norm_body(sn_frame *f) {
    sn_tensor *const x = sn_add(sn_gelu(sn_add(sn_in(f, 0), sn_in(f, 1))), sn_in(f, 2));
    return sn_out(f, 0, sn_layer_norm(x, SN_INTS(96), sn_in(f, 3), sn_in(f, 4)));
}

typedef struct NormStep {
    sn_tensor *result, *grads[5];
    int64_t launches;
} NormStep;

static NormStep norm_step(sn_function *fn, sn_tensor *const *given, sn_device device) {
    sn_tensor *in[5];
    NormStep step = {0};
    for (int i = 0; i < 5; i++) in[i] = sn_requires_grad_(sn_detach(sn_to_device(given[i], device)), true);
    execute_counts()->launches = 0;
    step.result = sn_call1(fn, (sn_tensors){in, 5});
    step.launches = execute_counts()->launches;
    ck_assert_int_eq(sn_backward(sn_sum(sn_mul(step.result, step.result))), SN_OK);
    for (int i = 0; i < 5; i++) step.grads[i] = sn_grad(in[i]);
    expect_ok();
    return step;
}

START_TEST(a_compiled_step_has_the_bits_and_the_kernels_of_the_cpu) {
    sn_tensor *const given[5] = {numbers(SN_INTS(20, 96)), numbers(SN_INTS(96)), numbers(SN_INTS(20, 96)),
                                 numbers(SN_INTS(96)), numbers(SN_INTS(96))};
    sn_function *const fn = sn_compile(norm_body, NULL, NULL), *const twin = sn_compile(norm_body, NULL, NULL);
    for (int call = 0; call < 3; call++) {
        const NormStep cpu = norm_step(fn, given, SN_CPU), gpu = norm_step(twin, given, GPU);
        ck_assert(same(here(gpu.result), cpu.result));
        for (int i = 0; i < 5; i++) ck_assert_msg(same(here(gpu.grads[i]), cpu.grads[i]), "gradient %d", i);
        if (call) ck_assert_int_eq(gpu.launches, cpu.launches);
    }
    ck_assert_msg(strstr(sn_explain(twin), "compiled share 1.0000") != NULL, "%s", sn_explain(twin));
    sn_function_free(fn), sn_function_free(twin);
}
END_TEST

/* A value that is pending when it is needed has its device's keys. */
static sn_status select_body(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const mask = sn_gt(sn_exp(x), sn_ones_like(x));
    ck_assert_str_eq(sn_keys(mask), "autograd, cuda");
    sn_tensor *const chosen = sn_masked_select(x, mask);
    return chosen ? sn_out(f, 0, chosen) : sn_check();
}

START_TEST(pending_values_are_on_their_device) {
    sn_function *const fn = sn_compile(select_body, NULL, NULL);
    for (int call = 0; call < 2; call++) {
        sn_tensor *const x = numbers(SN_INTS(5)), *const mask = sn_gt(sn_exp(x), sn_ones_like(x));
        ck_assert(same(here(sn_call1(fn, SN_TENSORS(there(x)))), sn_masked_select(x, mask)));
    }
    sn_function_free(fn);
}
END_TEST

int main(void) {
    if (lacks_compiler()) return skip_without_compiler();
    TCase *const tests = tcase_create("cuda_ops");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, a_new_size_compiles_nothing);
    tcase_add_test(tests, long_rows_have_a_program_of_their_own);
    tcase_add_loop_test(tests, a_value_is_written_beside_a_row, 0, 2);
    tcase_add_test(tests, values_used_twice_are_walked_once);
    tcase_add_test(tests, numbers_of_the_cpu_are_operands);
    tcase_add_test(tests, an_op_of_the_program_has_its_own_kernels_only);
    tcase_add_test(tests, a_number_of_the_programs_op_is_the_hosts);
    tcase_add_test(tests, a_failed_check_is_told_at_the_next_wait);
    tcase_add_test(tests, pending_values_are_on_their_device);
    tcase_add_test(tests, a_compiled_step_has_the_bits_and_the_kernels_of_the_cpu);
    return suite_run("cuda_ops", tests);
}
