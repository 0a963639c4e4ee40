/* test_eager.c: ops through the CPU backend: forms, views, overlaps, casts, native kernels, caching
 * [acceptance 1.09, 2.11, 2.12; semantics B3: the control register]. */
#include <math.h>
#include <sinter/ops.h>
#include <stdlib.h>

#include "runtime/base/alloc.h"
#include "runtime/core/dispatch.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/device/execute.h"
#include "runtime/base/fpenv.h"
#include "tests/unit/suite.h"

static sn_tensor *call(const char *name, const sn_value *in, int n) {
    sn_tensor *const t = sn_op_call1(sn_op_find(name), in, n);
    return t;
}
#define CALL(name, ...) call(name, (const sn_value[]){__VA_ARGS__}, COUNT_OF(((const sn_value[]){__VA_ARGS__})))
#define T               sn_val
static sn_value ints(const int64_t *at, int n) { return (sn_value){.kind = SN_KIND_INTS, .n = n, .ints = at}; }

static sn_tensor *f32(const float *data, int64_t rows, int64_t columns) {
    return sn_from_data(data, (sn_ints){(int64_t[]){rows, columns}, 2}, SN_F32);
}

static void expect(sn_tensor *t, const float *wanted, int n) {
    if (!t) ck_abort_msg("%s: %s", sn_error_take()->op, sn_error_take()->message);
    float got[64];
    ck_assert_int_eq(sn_numel(t), n);
    ck_assert_int_eq(sn_read(t, got, (size_t)n * 4), SN_OK);
    for (int i = 0; i < n; i++)
        if (memcmp(&got[i], &wanted[i], 4))
            ck_abort_msg("element %d is %g, not %g", i, (double)got[i], (double)wanted[i]);
}
#define EXPECT(t, ...) expect(t, (const float[]){__VA_ARGS__}, COUNT_OF(((const float[]){__VA_ARGS__})))

static const float one_to_six[] = {1, 2, 3, 4, 5, 6};

START_TEST(pointwise) {
    sn_tensor *const x = f32(one_to_six, 2, 3);
    EXPECT(CALL("aten::add.Tensor", T(x), T(x)), 2, 4, 6, 8, 10, 12);
    EXPECT(CALL("aten::add.Tensor", T(x), T(x), sn_int(3)), 4, 8, 12, 16, 20, 24);
    EXPECT(CALL("aten::mul.Scalar", T(x), sn_float(0.5)), 0.5f, 1, 1.5f, 2, 2.5f, 3);
    EXPECT(CALL("aten::add.Tensor", T(x), T(f32(one_to_six, 1, 3))), 2, 4, 6, 5, 7, 9); /* broadcast */
    EXPECT(CALL("aten::relu", T(CALL("aten::mul.Scalar", T(x), sn_int(-1)))), 0, 0, 0, 0, 0, 0);
}
END_TEST

START_TEST(equal_signatures_share_a_program) {
    sn_tensor *const x = f32(one_to_six, 2, 3), *const y = f32(one_to_six, 2, 3);
    CALL("aten::gelu", T(x));
    const int64_t before = mem_count();
    EXPECT(CALL("aten::add.Tensor", T(CALL("aten::gelu", T(y))),
                T(CALL("aten::mul.Scalar", T(CALL("aten::gelu", T(y))), sn_int(-1)))),
           0, 0, 0, 0, 0, 0);
    (void)before;
    const int64_t warm = mem_count();
    for (int i = 0; i < 10; i++) CALL("aten::gelu", T(y));
    ck_assert_int_lt(mem_count() - warm, 40); /* no graph is built again */
}
END_TEST

START_TEST(in_place_writes_and_counts) {
    sn_tensor *const x = f32(one_to_six, 2, 3);
    const void *const at = sn_data(x, SN_F32);
    const uint32_t version = tensor_version(x);
    ck_assert_ptr_eq(CALL("aten::add_.Tensor", T(x), T(x)), x);
    ck_assert_ptr_eq(sn_data(x, SN_F32), at);
    ck_assert_uint_gt(tensor_version(x), version);
    EXPECT(x, 2, 4, 6, 8, 10, 12);
    sn_tensor *const bytes = sn_from_data((int32_t[]){1, 2}, (sn_ints){(int64_t[]){2}, 1}, SN_I32);
    ck_assert_ptr_null(CALL("aten::mul_.Tensor", T(bytes), sn_float(1.5)));
    ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "a result of f32 doesn't fit a tensor of"));
}
END_TEST

START_TEST(out_forms_resize_and_cast) {
    sn_tensor *const x = f32(one_to_six, 2, 3);
    sn_tensor *const wide = sn_from_data(NULL, (sn_ints){(int64_t[]){0}, 1}, SN_F64);
    sn_tensor *const out = CALL("aten::add.out", T(x), T(x), sn_int(1), T(wide));
    ck_assert_ptr_eq(out, wide);
    ck_assert_int_eq(sn_rank(out), 2);
    ck_assert(((const double *)sn_data(out, SN_F64))[5] == 12.0);
    sn_tensor *const same = f32(one_to_six, 2, 3);
    const void *const at = sn_data(same, SN_F32);
    CALL("aten::mul.out", T(x), T(x), T(same));
    ck_assert_ptr_eq(sn_data(same, SN_F32), at);
    EXPECT(same, 1, 4, 9, 16, 25, 36);
    sn_tensor *const other = sn_alias(x); /* of an operand's memory: yet it is what comes back */
    for (int i = 0; i < 2; i++) ck_assert_ptr_eq(CALL("aten::mul.out", T(x), T(x), T(other)), other);
}
END_TEST

START_TEST(views_share_memory) {
    sn_tensor *const x = f32(one_to_six, 2, 3);
    const int64_t flat[] = {6};
    sn_tensor *const v = CALL("aten::view", T(x), ints(flat, 1));
    ck_assert_int_eq(sn_rank(v), 1);
    ck_assert_ptr_eq(sn_data(v, SN_F32), sn_data(x, SN_F32));
    CALL("aten::add_.Tensor", T(v), sn_float(1));
    EXPECT(x, 2, 3, 4, 5, 6, 7);
    const int64_t wrong[] = {4};
    ck_assert_ptr_null(CALL("aten::view", T(x), ints(wrong, 1)));
    ck_assert_int_eq(sn_error_take()->status, SN_ERR_SHAPE);
}
END_TEST

START_TEST(overlaps) {
    sn_tensor *const base = sn_from_data(one_to_six, (sn_ints){(int64_t[]){1, 1}, 2}, SN_F32);
    const int64_t wide[] = {1, 4};
    sn_tensor *const expanded = CALL("aten::expand", T(base), ints(wide, 2));
    ck_assert_ptr_null(CALL("aten::add_.Tensor", T(expanded), sn_float(1)));
    ck_assert_ptr_nonnull(
        strstr(sn_error_take()->message, "self [1, 4] with strides [1, 0] has several elements at one place"));
    sn_tensor *const none = sn_expand(sn_narrow(base, 0, 0, 0), (sn_ints){(int64_t[]){2, 0, 1}, 3});
    ck_assert_ptr_eq(CALL("aten::add_.Tensor", T(none), sn_float(1)), none); /* nothing to share a place */
    /* a[1..6) += a[0..5): the operand is read as it was */
    sn_tensor *const a = sn_from_data(one_to_six, (sn_ints){(int64_t[]){6}, 1}, SN_F32);
    const Meta *const five = meta_intern_contiguous(DT_f32, DEV_cpu, (int64_t[]){5}, 1);
    sn_tensor *const to = tensor_view(a, five, 1), *const from = tensor_view(a, five, 0);
    ck_assert_ptr_eq(CALL("aten::add_.Tensor", T(to), T(from)), to);
    EXPECT(a, 1, 3, 5, 7, 9, 11);
}
END_TEST

START_TEST(products) {
    sn_tensor *const x = f32(one_to_six, 2, 3), *const y = f32(one_to_six, 3, 2);
    EXPECT(CALL("aten::mm", T(x), T(y)), 22, 28, 49, 64);
    const int8_t small[] = {100, 2, 3, 4};
    sn_tensor *const b = sn_from_data(small, (sn_ints){(int64_t[]){2, 2}, 2}, SN_I8);
    int8_t got[4];
    sn_read(CALL("aten::mm", T(b), T(b)), got, 4); /* wraps */
    ck_assert_int_eq(got[0], (int8_t)(10000 + 6));
    ck_assert_int_eq(got[3], 6 + 16);
    ck_assert_ptr_null(CALL("aten::mm", T(x), T(x)));
    ck_assert_int_eq(sn_error_take()->status, SN_ERR_SHAPE);
}
END_TEST

START_TEST(reductions) {
    sn_tensor *const x = f32(one_to_six, 2, 3);
    const int64_t last[] = {1}, first[] = {0};
    EXPECT(CALL("aten::sum.dim_IntList", T(x), ints(last, 1)), 6, 15);
    EXPECT(CALL("aten::sum.dim_IntList", T(x), ints(first, 1), sn_bool(true)), 5, 7, 9);
    EXPECT(CALL("aten::amax", T(x)), 6);
}
END_TEST

/* Rows that lie densely are reduced by one kernel call each, others by the interpreter. */
START_TEST(dense_and_strided_rows_reduce_alike) {
    static const char *const ops[] = {"aten::sum.dim_IntList", "aten::amax", "aten::amin"};
    for (int64_t n = 1; n <= 1100; n += n < 70 ? 1 : 103) {
        sn_tensor *const x = sn_randn((sn_ints){(int64_t[]){3, n}, 2}, SN_F32);
        sn_tensor *const wide = sn_empty((sn_ints){(int64_t[]){3, n + 2}, 2}, SN_F32);
        sn_tensor *const strided = sn_narrow(wide, 1, 1, n);
        sn_copy_(strided, x);
        for (int i = 0; i < COUNT_OF(ops); i++) {
            sn_tensor *const a = CALL(ops[i], T(x), ints((int64_t[]){1}, 1));
            sn_tensor *const b = CALL(ops[i], T(strided), ints((int64_t[]){1}, 1));
            ck_assert(a && b);
            ck_assert_msg(!memcmp(sn_data(a, SN_F32), sn_data(b, SN_F32), 12), "%s, %lld", ops[i], (long long)n);
        }
        sn_tensor *const all = CALL("aten::sum", T(x)), *const other = CALL("aten::sum", T(strided));
        ck_assert(!memcmp(sn_data(all, SN_F32), sn_data(other, SN_F32), 4));
    }
}
END_TEST

START_TEST(checked_indices_commit_nothing) {
    sn_tensor *const weight = f32(one_to_six, 3, 2);
    sn_tensor *const good = sn_from_data((int64_t[]){2, 0}, (sn_ints){(int64_t[]){2}, 1}, SN_I64);
    EXPECT(CALL("aten::embedding", T(weight), T(good)), 5, 6, 1, 2);
    sn_tensor *const bad = sn_from_data((int64_t[]){2, 3}, (sn_ints){(int64_t[]){2}, 1}, SN_I64);
    ck_assert_ptr_null(CALL("aten::embedding", T(weight), T(bad)));
    const sn_error *const error = sn_error_take();
    ck_assert_int_eq(error->status, SN_ERR_VALUE);
    ck_assert_ptr_nonnull(strstr(error->message, "3"));
    ck_assert_str_eq(error->op, "aten::embedding");
}
END_TEST

START_TEST(scattered_additions_keep_their_order) {
    /* in f32 (1e8 + 1) - 1e8 is 0 and (1e8 - 1e8) + 1 is 1: the order of the index shows [B2] */
    sn_tensor *const zero = sn_from_data((float[]){0, 0}, (sn_ints){(int64_t[]){2}, 1}, SN_F32);
    sn_tensor *const index = sn_from_data((int64_t[]){1, 1, 1}, (sn_ints){(int64_t[]){3}, 1}, SN_I64);
    sn_tensor *const a = sn_from_data((float[]){1e8f, 1, -1e8f}, (sn_ints){(int64_t[]){3}, 1}, SN_F32);
    sn_tensor *const b = sn_from_data((float[]){1e8f, -1e8f, 1}, (sn_ints){(int64_t[]){3}, 1}, SN_F32);
    EXPECT(CALL("aten::scatter_add", T(zero), sn_int(0), T(index), T(a)), 0, 0);
    EXPECT(CALL("aten::scatter_add", T(zero), sn_int(0), T(index), T(b)), 0, 1);
    EXPECT(CALL("aten::index_add", T(zero), sn_int(0), T(index), T(a)), 0, 0);
    EXPECT(CALL("aten::index_add", T(zero), sn_int(0), T(index), T(b)), 0, 1);
}
END_TEST

START_TEST(a_bad_position_writes_nothing) {
    sn_tensor *const x = f32(one_to_six, 2, 3);
    sn_tensor *const index = sn_from_data((int64_t[]){0, 2}, (sn_ints){(int64_t[]){2}, 1}, SN_I64);
    ck_assert_ptr_null(CALL("aten::index_add_", T(x), sn_int(0), T(index), T(f32(one_to_six, 2, 3))));
    const sn_error *const error = sn_error_take();
    ck_assert_int_eq(error->status, SN_ERR_VALUE);
    ck_assert_ptr_nonnull(strstr(error->message, "index 2 is out of range for 2 elements of dim 0"));
    EXPECT(x, 1, 2, 3, 4, 5, 6);
}
END_TEST

/* Pointwise ops and reductions are scalar graphs of the table, which loop IR is made of: no row has a C function for
 * its tensors, by itself or as an entry of the key, and each row of KIND_kernel has one. */
START_TEST(no_pointwise_op_or_reduction_has_a_function_of_its_own) {
    int scalar_graphs = 0;
    ck_assert_int_eq(sn_init(NULL), SN_OK);
    for (int id = 0; id < op_row_count(); id++) {
        const OpRow *const row = op_row_at(id);
        const bool is_graph = row->kind == KIND_pointwise || row->kind == KIND_reduction;
        scalar_graphs += is_graph;
        ck_assert_msg(!is_graph || (!cpu_kernel(row) && !dispatch_own(row, KEY_cpu)), "%s", row->base);
        ck_assert_msg((row->kind == KIND_kernel) == (cpu_kernel(row) != NULL), "%s", row->base);
    }
    ck_assert_int_gt(scalar_graphs, 100);
}
END_TEST

START_TEST(the_control_register_is_ours_inside_and_theirs_after) {
    const float tiny[] = {1e-40f, 1e-40f, 1, 1, 1, 1};
    sn_tensor *const x = f32(tiny, 2, 3);
    const float twice = 1e-40f + 1e-40f;
    const uint32_t before = fp_get();
    fp_set(before | 0x8040); /* flush and denormals-are-zero, as an audio host sets them */
    sn_tensor *const y = CALL("aten::add.Tensor", T(x), T(x));
    const uint32_t after = fp_get();
    fp_set(before);
    ck_assert_uint_eq(after & FP_CONTROL, (before | 0x8040) & FP_CONTROL);
    ck_assert(memcmp(sn_data(y, SN_F32), &twice, 4) == 0);
}
END_TEST

START_TEST(large_operands_are_split_alike) {
    enum { N = 300000 };
    float *const data = malloc(N * sizeof *data), *const got = malloc(N * sizeof *got);
    for (int i = 0; i < N; i++) data[i] = (float)i * 0.25f;
    sn_tensor *const x = sn_from_data(data, (sn_ints){(int64_t[]){N}, 1}, SN_F32);
    sn_setting_set("threads", "1");
    sn_tensor *const serial = CALL("aten::gelu", T(x));
    sn_setting_set("threads", "3");
    sn_tensor *const split = CALL("aten::gelu", T(x));
    ck_assert(memcmp(sn_data(serial, SN_F32), sn_data(split, SN_F32), N * 4) == 0);
    sn_read(CALL("aten::add.Tensor", T(x), T(x)), got, N * 4);
    for (int i = 0; i < N; i++) ck_assert(got[i] == 2 * data[i]);
    free(data), free(got);
}
END_TEST

int main(void) {
    TCase *const tc = tcase_create("eager");
    tcase_add_test(tc, pointwise);
    tcase_add_test(tc, equal_signatures_share_a_program);
    tcase_add_test(tc, in_place_writes_and_counts);
    tcase_add_test(tc, out_forms_resize_and_cast);
    tcase_add_test(tc, views_share_memory);
    tcase_add_test(tc, overlaps);
    tcase_add_test(tc, no_pointwise_op_or_reduction_has_a_function_of_its_own);
    tcase_add_test(tc, products);
    tcase_add_test(tc, reductions);
    tcase_add_test(tc, dense_and_strided_rows_reduce_alike);
    tcase_add_test(tc, checked_indices_commit_nothing);
    tcase_add_test(tc, scattered_additions_keep_their_order);
    tcase_add_test(tc, a_bad_position_writes_nothing);
    tcase_add_test(tc, the_control_register_is_ours_inside_and_theirs_after);
    tcase_add_test(tc, large_operands_are_split_alike);
    return suite_run("eager", tc);
}
