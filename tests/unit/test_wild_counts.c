/* test_wild_counts.c: counts and ranks for which there is no room are errors that name them, where the arrays are;
 * sizes beside a 0 may be any; what is asked of many elements ends in time. `fuzz --calls` looks for more. */
#include <stdio.h>

#include "tests/unit/contract.h"

static sn_status call_chunk(sn_tensor *x, int64_t chunks, int64_t dim) {
    static sn_value out[16];
    const sn_value in[] = {sn_val(x), sn_int(chunks), sn_int(dim)};
    int n = 16;
    return sn_op_call(sn_op_find("aten::chunk"), in, 3, out, &n);
}

START_TEST(more_chunks_than_there_is_room_for_are_refused) {
    static const int64_t counts[] = {1025, INT32_MAX, INT64_C(1) << 31, (INT64_C(1) << 32) + 1, INT64_C(1) << 62};
    sn_tensor *const x = sn_zeros(SN_INTS(4, 0), SN_F32);
    for (int i = 0; i < 5; i++) {
        char said[64];
        snprintf(said, sizeof said, "%lld results; at most 1024", (long long)counts[i]);
        ck_assert_int_eq(call_chunk(x, counts[i], 1), SN_ERR_UNSUPPORTED);
        expect_error(SN_ERR_UNSUPPORTED, said);
    }
    ck_assert_int_eq(call_chunk(x, 16, 1), SN_OK);
}
END_TEST

START_TEST(a_dim_of_any_size_beside_a_0_is_not_unbound) {
    static sn_value out[4];
    const sn_value in[] = {sn_val(sn_zeros(SN_INTS(INT64_C(1) << 62, 0), SN_F32)), sn_int(0)};
    int n = 4;
    ck_assert_int_eq(sn_op_call(sn_op_find("aten::unbind.int"), in, 2, out, &n), SN_ERR_UNSUPPORTED);
    expect_error(SN_ERR_UNSUPPORTED, "4611686018427387904 results");
}
END_TEST

static sn_tensor *of_rank_64(void) {
    int64_t sizes[64];
    for (int i = 0; i < 64; i++) sizes[i] = i == 3 || i == 60 ? 2 : 1;
    return sn_reshape(sn_arange(sn_int(4), SN_F32), (sn_ints){sizes, 64});
}

START_TEST(no_view_has_more_than_64_dims) {
    sn_tensor *const x = of_rank_64();
    ck_assert_ptr_null(sn_unfold(x, 3, 1, 1));
    expect_error(SN_ERR_SHAPE, "aten::unfold: more than 64 dims");
    ck_assert_ptr_null(sn_unfold_copy(x, 3, 1, 1));
    expect_error(SN_ERR_SHAPE, "more than 64 dims");
    ck_assert_ptr_null(sn_unsqueeze(x, -1));
    expect_error(SN_ERR_SHAPE, "more than 64 dims");
    ck_assert_int_eq(sn_rank(sn_diagonal(x, 0, 3, 60)), 63);
}
END_TEST

START_TEST(no_list_of_sizes_is_longer_than_64) {
    static int64_t ones[1100];
    for (int i = 0; i < 1100; i++) ones[i] = 1;
    const sn_value in[] = {sn_val(F32(1, 1)), sn_ints_value((sn_ints){ones, 1100}), sn_int(0),
                           sn_val(sn_zeros(SN_INTS(1), SN_I64))};
    sn_value out[2];
    int n = 2;
    ck_assert_int_eq(sn_op_call(sn_op_find("aten::index_select_backward"), in, 4, out, &n), SN_ERR_SHAPE);
    expect_error(SN_ERR_SHAPE, "more than 64 dims");
}
END_TEST

START_TEST(what_has_no_element_has_any_sizes) {
    sn_tensor *const pooled = sn_adaptive_avg_pool2d(F32(1, 1, 4, 3), SN_INTS(INT64_C(1) << 62, 0));
    ck_assert_msg(pooled != NULL, "%s", sn_error_take()->message);
    ck_assert_int_eq(sn_numel(pooled), 0);
    ck_assert(sn_size(pooled, 1) == INT64_C(1) << 62);
    ck_assert_ptr_nonnull(sn_msort(sn_zeros(SN_INTS(0, 3, 0, (INT64_C(1) << 61) + 1), SN_F16)));
}
END_TEST

/* n m pairs would be 4 * 10^10, and as many bytes. */
static sn_status is_in(sn_frame *f) { return sn_out(f, 0, sn_isin(sn_in(f, 0), sn_in(f, 1))); }

START_TEST(isin_of_many_elements_ends_in_time) {
    const int64_t n = 200000;
    sn_tensor *const x = sn_arange(sn_int(n), SN_I64), *const odd =
                                                           sn_add_scalar(sn_mul_scalar(x, sn_int(2)), sn_int(1));
    const Twin twin = twin_new(is_in, NULL, NULL, NULL);
    for (int i = 0; i < 2; i++) TWIN_CALL(twin, sn_flip(x, SN_INTS(0)), odd);
    ck_assert(sn_item(sn_sum(sn_to(sn_isin(x, odd), SN_I64))) == (double)(n / 2));
    twin_free(twin);
}
END_TEST

/* On either side of the number of pairs from which it searches: NaN is in nothing, -0 is 0, an int meets a float. */
START_TEST(isin_finds_by_halves_what_it_finds_in_pairs) {
    const float few[] = {NAN, -0.0f, 3, 2.5f, INFINITY, -INFINITY};
    sn_tensor *const x = sn_reshape(sn_from_data(few, SN_INTS(6), SN_F32), SN_INTS(2, 3));
    sn_tensor *const test =
        sn_cat(SN_TENSORS(sn_from_data(few, SN_INTS(3), SN_F32), sn_full(SN_INTS(300000), sn_float(9), SN_F32),
                          sn_from_data(few + 5, SN_INTS(1), SN_F32), sn_zeros(SN_INTS(1), SN_F32)),
               0);
    const bool want[] = {false, true, true, false, false, true};
    bool got[6];
    ck_assert_int_eq(sn_read(sn_isin(x, test), got, sizeof got), SN_OK);
    for (int i = 0; i < 6; i++) ck_assert_int_eq(got[i], want[i]);
    sn_tensor *const ints = sn_to(test, SN_I64), *const whole = sn_isin(sn_nan_to_num(x), ints);
    ck_assert_int_eq(sn_read(whole, got, sizeof got), SN_OK);
    ck_assert(got[0] && got[1] && got[2] && !got[3]);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        more_chunks_than_there_is_room_for_are_refused,
        a_dim_of_any_size_beside_a_0_is_not_unbound,
        no_view_has_more_than_64_dims,
        no_list_of_sizes_is_longer_than_64,
        what_has_no_element_has_any_sizes,
        isin_of_many_elements_ends_in_time,
        isin_finds_by_halves_what_it_finds_in_pairs,
    };
    return contract_main("test_wild_counts", tests, (int)(sizeof tests / sizeof *tests));
}
