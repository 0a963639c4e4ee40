/* test_helpers.c: small public functions that every program would write for itself: comparing tensors, values of other
 * kinds, a scope without gradients, the peak of memory, names of ops and names that are near. */
#include <stdio.h>

#include "tests/unit/contract.h"

START_TEST(equal_is_torchs_equal) {
    sn_tensor *const x = F32(1, 3, 4), *const same = sn_clone(x);
    ck_assert(sn_equal(x, same) && sn_equal(x, sn_t(sn_t(x))) && sn_equal(sn_t(x), sn_contiguous(sn_t(x))));
    ck_assert(!sn_equal(x, sn_t(x)) && !sn_equal(x, sn_to(x, SN_F64)) && !sn_equal(x, F32(2, 3, 4)));
    const float odd[] = {NAN, 1}, zeros[] = {0.0f, -0.0f};
    sn_tensor *const nan = sn_from_data(odd, SN_INTS(2), SN_F32);
    ck_assert(!sn_equal(nan, nan));
    ck_assert(sn_equal(sn_from_data(zeros, SN_INTS(1), SN_F32), sn_from_data(zeros + 1, SN_INTS(1), SN_F32)));
    const int64_t wide[] = {INT64_MAX, INT64_MAX - 1}; /* one in f64 */
    ck_assert(!sn_equal(sn_from_data(wide, SN_INTS(1), SN_I64), sn_from_data(wide + 1, SN_INTS(1), SN_I64)));
    ck_assert(sn_equal(sn_zeros(SN_INTS(0, 3), SN_F32), sn_zeros(SN_INTS(0, 3), SN_F32)));
    ck_assert_int_eq(sn_check(), SN_OK);
    ck_assert(!sn_equal(x, NULL));
    expect_error(SN_ERR_ARGUMENT, "sn_equal");
}
END_TEST

START_TEST(allclose_has_tolerances) {
    const double a[] = {1, 100, INFINITY, -INFINITY}, b[] = {1.001, 100.1, INFINITY, -INFINITY};
    sn_tensor *const x = sn_from_data(a, SN_INTS(4), SN_F64), *const y = sn_from_data(b, SN_INTS(4), SN_F64);
    ck_assert(sn_allclose(x, y, 1.1e-3, 0) && !sn_allclose(x, y, 1e-4, 0) && sn_allclose(x, y, 0, 0.11));
    ck_assert(!sn_allclose(x, sn_neg(y), 1, 1e9)); /* infinities of other signs */
    ck_assert(!sn_allclose(x, sn_narrow(y, 0, 0, 2), 1, 1));
    const double odd = NAN;
    sn_tensor *const nan = sn_from_data(&odd, SN_INTS(1), SN_F64);
    ck_assert(!sn_allclose(nan, nan, 1, 1));
    const int64_t wide[] = {INT64_MAX, INT64_MAX - 1, INT64_MIN}; /* the first two are one in f64 */
    sn_tensor *const i[] = {sn_from_data(wide, SN_INTS(1), SN_I64), sn_from_data(wide + 1, SN_INTS(1), SN_I64),
                            sn_from_data(wide + 2, SN_INTS(1), SN_I64)};
    ck_assert(!sn_allclose(i[0], i[1], 0, 0) && sn_allclose(i[0], i[1], 0, 1) && sn_allclose(i[0], i[0], 0, 0));
    ck_assert(!sn_allclose(i[0], i[2], 1, 0) && sn_allclose(i[0], i[2], 2, 0));
}
END_TEST

START_TEST(values_of_other_kinds) {
    sn_tensor *const x = F32(1, 1, 2, 3, 4), *const of_list = sn_ones(SN_INTS(2), SN_F32);
    const sn_value format[] = {sn_val(x), sn_int(SN_CHANNELS_LAST)}, gelu[] = {sn_val(x), sn_str("tanh")},
                   sum[] = {sn_val(x), sn_ints_value(SN_INTS(1, 2)), sn_none()},
                   cat[] = {sn_tensors_value(SN_TENSORS(of_list, of_list)), sn_int(0)};
    ck_assert_int_eq(sn_strides(sn_op_call1(sn_op_find("clone"), format, 2)).data[1], 1);
    ck_assert(same_bits(sn_op_call1(sn_op_find("gelu"), gelu, 2), sn_gelu_ex(x, "tanh")));
    ck_assert_int_eq(sn_rank(sn_op_call1(sn_op_find("sum.dim_IntList"), sum, 2)), 2);
    ck_assert_int_eq(sn_size(sn_op_call1(sn_op_find("cat"), cat, 2), 0), 4);
    ck_assert_int_eq(sn_str(NULL).kind, SN_KIND_NONE);
    const sn_value long_list[] = {sn_val(x), sn_ints_value((sn_ints){SN_INTS(1).data, INT64_C(1) << 33})};
    ck_assert_ptr_null(sn_op_call1(sn_op_find("sum.dim_IntList"), long_list, 2));
    expect_error(SN_ERR_ARGUMENT, "dim");
}
END_TEST

static sn_status without_gradients(sn_frame *f) {
    const sn_scope mark = sn_no_grad_begin();
    sn_tensor *const inner = sn_scope_return(mark, sn_mul(sn_in(f, 0), sn_in(f, 0)));
    return sn_out(f, 0, sn_add(inner, sn_in(f, 0)));
}

START_TEST(a_scope_without_gradients) {
    sn_tensor *const x = LEAF(1, 4);
    const sn_scope mark = sn_no_grad_begin();
    ck_assert(!sn_requires_grad(sn_mul(x, x)));
    ck_assert_int_eq(sn_scope_end(mark), SN_OK);
    ck_assert(sn_requires_grad(sn_mul(x, x)));
    sn_function *const fn = sn_compile(without_gradients, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_grad_set(x, NULL);
        sn_backward(sn_sum(SN_CALL(fn, x)));
        ck_assert(sn_equal(sn_grad(x), sn_ones(SN_INTS(4), SN_F32)));
    }
    sn_function_free(fn);
}
END_TEST

START_TEST(the_peak_begins_anew) {
    sn_memory memory = {.size = sizeof memory};
    const sn_scope scope = sn_scope_begin();
    sn_zeros(SN_INTS(1 << 20), SN_F32);
    sn_scope_end(scope);
    sn_memory_get(SN_CPU, &memory);
    ck_assert_int_ge(memory.peak, 4 << 20);
    ck_assert_int_eq(sn_memory_reset_peak(SN_CPU), SN_OK);
    sn_memory_get(SN_CPU, &memory);
    ck_assert_int_eq(memory.peak, memory.current);
    ck_assert_int_eq(sn_memory_reset_peak(SN_CUDA(0)), SN_ERR_DEVICE);
    sn_error_take();
}
END_TEST

static char seen[64];
static sn_status names_its_op(sn_frame *f) {
    snprintf(seen, sizeof seen, "%s", sn_op_name(sn_frame_op(f)));
    return sn_redispatch(f);
}

START_TEST(an_ops_name_in_a_handler) {
    sn_user_mode_push(names_its_op, NULL);
    sn_add_(F32(1, 4), F32(2, 4));
    sn_user_mode_pop();
    ck_assert_str_eq(seen, "aten::add_.Tensor");
    ck_assert_str_eq(sn_op_name(NULL), "");
    expect_error(SN_ERR_ARGUMENT, "sn_op_name");
}
END_TEST

START_TEST(arange_of_a_number) {
    const int64_t ints[] = {0, 1, 2}, odd[] = {1, 3};
    ck_assert(sn_equal(sn_arange(sn_int(3), SN_DTYPE_DEFAULT), sn_from_data(ints, SN_INTS(3), SN_I64)));
    ck_assert(sn_equal(sn_arange_start(sn_int(1), sn_int(3), SN_F32),
                       sn_to(sn_narrow(sn_arange(sn_int(3), SN_I64), 0, 1, 2), SN_F32)));
    ck_assert(sn_equal(sn_arange_step(sn_int(1), sn_int(5), sn_int(2), SN_I64), sn_from_data(odd, SN_INTS(2), SN_I64)));
}
END_TEST

static void near(const char *name, const char *says) {
    ck_assert_ptr_null(sn_op_find(name));
    expect_error(SN_ERR_ARGUMENT, says);
}

START_TEST(near_names) {
    near("add", "'add' is unknown; there is add.Tensor, add.Scalar");
    near("aten::sum.dim_IntLst", "there is sum.dim_IntList");
    near("rellu", "there is relu");
    near("softmx", "there is softmax.int");
    near("add_", "there is add_.Tensor, add_.Scalar");
    ck_assert_ptr_null(sn_op_find("my::nothing_like_it"));
    const sn_error *const error = sn_error_take();
    ck_assert_str_eq(error->message, "sn_op_find: op 'my::nothing_like_it' is unknown");
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        equal_is_torchs_equal, allclose_has_tolerances,  values_of_other_kinds, a_scope_without_gradients,
        the_peak_begins_anew,  an_ops_name_in_a_handler, arange_of_a_number,    near_names};
    return contract_main("test_helpers", tests, (int)(sizeof tests / sizeof *tests));
}
