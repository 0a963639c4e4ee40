/* test_forms.c: forms of rows that the generic tests of forms cannot judge by the functional row alone: out forms of
 * creation, whose tensor decides dtype and device. Eagerly and compiled. */
#include "tests/unit/contract.h"

/* The forms that write into tensors of several dtypes and sizes. */
static sn_status create_into(sn_frame *f) {
    sn_tensor *const whole = sn_in(f, 0), *const wide = sn_in(f, 1), *const half = sn_in(f, 2);
    sn_out(f, 0, sn_full_out(whole, SN_INTS(2, 3), sn_float(1.75)));
    sn_out(f, 1, sn_arange_out(wide, sn_int(0), sn_float(1.5), sn_float(0.25)));
    return sn_out(f, 2, sn_ones_like_out(half, whole));
}

static void check_created(sn_function *fn) {
    sn_tensor *const whole = sn_zeros(SN_INTS(2, 3), SN_I64),
                     *const wide = sn_zeros(SN_INTS(6), SN_F64),
                     *const half = sn_zeros(SN_INTS(2, 3), SN_BF16);
    sn_tensor *in[] = {whole, wide, half}, *out[3];
    ck_assert_int_eq(sn_call(fn, in, 3, out, 3), SN_OK);
    for (int i = 0; i < 3; i++) ck_assert_ptr_eq(out[i], in[i]);
    ck_assert(same_bits(whole, sn_full(SN_INTS(2, 3), sn_int(1), SN_I64)));
    const double steps[] = {0, 0.25, 0.5, 0.75, 1, 1.25};
    ck_assert(same_bits(wide, sn_from_data(steps, SN_INTS(6), SN_F64)));
    ck_assert(same_bits(half, sn_ones(SN_INTS(2, 3), SN_BF16)));
}

START_TEST(creation_takes_the_dtype_of_what_it_writes) {
    const Twin twin = twin_new(create_into, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        check_created(twin.eager);
        check_created(twin.fast);
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

/* As PyTorch: row-major, though like's own result would be transposed as self is. */
START_TEST(what_like_resizes_is_contiguous) {
    sn_tensor *const out = sn_empty(SN_INTS(0), SN_F32);
    ck_assert_ptr_eq(sn_zeros_like_out(out, sn_t(F32(1, 2, 3))), out);
    ck_assert_int_eq(sn_size(out, 0), 3);
    ck_assert_int_eq(sn_strides(out).data[0], 2);
}
END_TEST

/* Without the options, which stand before memory_format in the functional schema. */
START_TEST(boxed_calls_follow_the_schema_of_the_form) {
    sn_tensor *const out = sn_empty(SN_INTS(1, 2, 2, 2), SN_F64);
    const sn_value channels_last = sn_int(2);
    const sn_value in[] = {{.kind = SN_KIND_INTS, .n = 4, .ints = (const int64_t[]){1, 2, 2, 2}},
                           channels_last,
                           sn_val(out)};
    ck_assert_ptr_eq(sn_op_call1(sn_op_find("aten::empty.out"), in, 3), out);
    const sn_value more[] = {in[0],     sn_int(SN_F64), sn_int(0),
                             sn_int(0), sn_bool(false), sn_val(out)};
    ck_assert_ptr_null(sn_op_call1(sn_op_find("aten::empty.out"), more, 6));
    ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "aten::empty.out: 2 arguments at most"));
}
END_TEST

/* The sums of halves before they are rounded. */
START_TEST(products_may_keep_what_halves_would_round) {
    sn_tensor *const a = sn_to(F32(1, 4, 9), SN_BF16), *const b = sn_to(F32(2, 9, 5), SN_BF16);
    sn_tensor *const wide = sn_mm_dtype(a, b, SN_F32);
    ck_assert(same_bits(wide, sn_mm(sn_to(a, SN_F32), sn_to(b, SN_F32))));
    ck_assert(same_bits(sn_to(wide, SN_BF16), sn_mm(a, b)));
}
END_TEST

static sn_tensor *scatter_reduce(sn_tensor *self, sn_tensor *index, sn_tensor *src,
                                 const char *how) {
    const sn_value in[] = {sn_val(self),
                           sn_int(0),
                           sn_val(index),
                           sn_val(src),
                           {.kind = SN_KIND_STRING, .string = how}};
    return sn_op_call1(sn_op_find("aten::scatter.reduce"), in, 5);
}

static sn_status multiply_in(sn_frame *f) {
    return sn_out(f, 0, scatter_reduce(sn_in(f, 0), sn_in(f, 1), sn_in(f, 2), "multiply"));
}

/* Linear in self; in src it has no derivative, as in PyTorch, and says so. */
START_TEST(scattered_products_and_their_gradients) {
    const Twin twin = twin_new(multiply_in, NULL, NULL, NULL);
    sn_tensor *const index = sn_from_data((const int64_t[]){0, 2, 0}, SN_INTS(3), SN_I64);
    sn_tensor *const src = sn_from_data((const float[]){2, 3, 5}, SN_INTS(3), SN_F32);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const x = sn_requires_grad_(sn_ones(SN_INTS(3), SN_F32), true);
        sn_tensor *const y = SN_CALL(twin.fast, x, index, src);
        ck_assert_int_eq(sn_backward(sn_sum(y)), SN_OK);
        ck_assert(
            same_bits(sn_grad(x), sn_from_data((const float[]){10, 1, 3}, SN_INTS(3), SN_F32)));
        sn_tensor *const s = sn_requires_grad_(sn_clone(src), true);
        ck_assert_int_ne(sn_backward(sn_sum(SN_CALL(twin.fast, x, index, s))), SN_OK);
        ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "derivative of scatter.reduce"));
    }
    twin_free(twin);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        creation_takes_the_dtype_of_what_it_writes, what_like_resizes_is_contiguous,
        boxed_calls_follow_the_schema_of_the_form, products_may_keep_what_halves_would_round,
        scattered_products_and_their_gradients};
    return contract_main("test_forms", tests, (int)(sizeof tests / sizeof *tests));
}
