/* test_corner_values.c: what PyTorch gives where dtypes and layouts meet in odd ways: single ops, their values and
 * strides named. Eagerly and compiled. */
#include "tests/unit/contract.h"

/* In 0 and 1: bools 1 1 0 0 and 1 0 1 0; in 2: 1 2 3 4; in 3: 0.5 1 1.5 2. */
typedef sn_tensor *MakeFn(sn_frame *f);

static sn_tensor *bools_add_by_truth(sn_frame *f) { return sn_add_ex(sn_in(f, 0), sn_in(f, 1), sn_int(-1)); }
static sn_tensor *bools_add_in_place(sn_frame *f) { return sn_add_ex_(sn_clone(sn_in(f, 0)), sn_in(f, 1), sn_int(-2)); }
static sn_tensor *bools_to_true(sn_frame *f) { return sn_pow_scalar(sn_in(f, 0), sn_bool(true)); }
static sn_tensor *bools_to_false(sn_frame *f) { return sn_pow_scalar(sn_in(f, 0), sn_bool(false)); }
static sn_tensor *ints_filled(sn_frame *f) { return sn_masked_fill(sn_in(f, 2), sn_in(f, 0), sn_float(-2.7)); }
static sn_tensor *ints_filled_by_tensor(sn_frame *f) {
    return sn_masked_fill_tensor(sn_in(f, 2), sn_in(f, 0), sn_sum(sn_in(f, 3)));
}
static sn_tensor *ints_mod_bools(sn_frame *f) { return sn_fmod(sn_in(f, 2), sn_eq(sn_in(f, 2), sn_in(f, 2))); }
static sn_tensor *bools_mod_ints(sn_frame *f) { return sn_remainder(sn_in(f, 0), sn_in(f, 2)); }
static sn_tensor *floats_mod_true(sn_frame *f) { return sn_fmod_scalar(sn_in(f, 3), sn_bool(true)); }
static sn_tensor *away_from_bools(sn_frame *f) { return sn_mse_loss_ex(sn_in(f, 3), sn_in(f, 0), 0); }

static sn_tensor *truths(sn_frame *f) {
    const int64_t none[1] = {0};
    return sn_any_dims(sn_add_scalar(sn_in(f, 2), sn_int(-2)), (sn_ints){none, 0}, false);
}
static sn_tensor *all_truths(sn_frame *f) {
    const int64_t none[1] = {0};
    return sn_all_dims(sn_add_scalar(sn_in(f, 3), sn_float(-1)), (sn_ints){none, 0}, true);
}

typedef struct Corner {
    MakeFn *make;
    sn_dtype dtype;
    double want[4];
} Corner;
static const Corner corners[] = {
    {bools_add_by_truth, SN_BOOL, {1, 1, 1, 0}},
    {bools_add_in_place, SN_BOOL, {1, 1, 1, 0}},
    {bools_to_true, SN_BOOL, {1, 1, 0, 0}},
    {bools_to_false, SN_BOOL, {1, 1, 1, 1}},
    {ints_filled, SN_I64, {-2, -2, 3, 4}},
    {ints_filled_by_tensor, SN_I64, {5, 5, 3, 4}},
    {ints_mod_bools, SN_I64, {0, 0, 0, 0}},
    {bools_mod_ints, SN_I64, {0, 1, 0, 0}},
    {truths, SN_BOOL, {1, 0, 1, 1}},
    {all_truths, SN_BOOL, {1, 0, 1, 1}},
    {floats_mod_true, SN_F32, {0.5, 0, 0.5, 0}},
    {away_from_bools, SN_F32, {0.25, 0, 2.25, 4}},
};

static sn_status corner_body(sn_frame *f) {
    const Corner *const corner = sn_closure(f);
    return sn_out(f, 0, corner->make(f));
}

START_TEST(values_of_mixed_dtypes) {
    const bool a[] = {1, 1, 0, 0}, b[] = {1, 0, 1, 0};
    const int64_t ints[] = {1, 2, 3, 4};
    const float floats[] = {0.5f, 1, 1.5f, 2};
    for (size_t i = 0; i < sizeof corners / sizeof *corners; i++) {
        Corner corner = corners[i];
        const Twin twin = twin_new(corner_body, &corner, &corner, NULL);
        sn_tensor *const want = sn_to(sn_from_data(corner.want, SN_INTS(4), SN_F64), corner.dtype);
        for (int call = 0; call < 3; call++) {
            sn_tensor *const got =
                TWIN_CALL(twin, sn_from_data(a, SN_INTS(4), SN_BOOL), sn_from_data(b, SN_INTS(4), SN_BOOL),
                          sn_from_data(ints, SN_INTS(4), SN_I64), sn_from_data(floats, SN_INTS(4), SN_F32));
            ck_assert_msg(same_bits(got, want), "corner %d: %s", (int)i, sn_repr(got));
        }
        twin_free(twin);
    }
}
END_TEST

static bool has_strides(sn_tensor *t, sn_ints want) {
    const sn_ints got = sn_strides(t);
    return got.n == want.n && !memcmp(got.data, want.data, (size_t)got.n * sizeof *got.data);
}

static sn_tensor *stacked(sn_tensor *a, sn_tensor *b, int64_t dim) { return sn_stack(SN_TENSORS(a, b), dim); }

/* A stack keeps the format that a cat of its tensors has. */
START_TEST(strides_of_stacks_and_expansions) {
    sn_tensor *const last = sn_permute(F32(1, 2, 4, 5, 3), SN_INTS(0, 3, 1, 2));
    ck_assert(has_strides(stacked(last, last, 0), SN_INTS(120, 60, 1, 15, 3)));
    ck_assert(has_strides(stacked(last, last, 1), SN_INTS(120, 3, 1, 30, 6)));
    ck_assert(has_strides(stacked(last, last, 2), SN_INTS(120, 1, 60, 15, 3)));
    ck_assert(has_strides(stacked(last, last, 4), SN_INTS(120, 40, 10, 2, 1)));
    sn_tensor *const turned = sn_transpose(F32(1, 2, 2, 3), 1, 2);
    ck_assert(has_strides(sn_stack(SN_TENSORS(turned), 3), SN_INTS(6, 2, 1, 1)));
    sn_tensor *const deep = sn_permute(F32(1, 2, 4, 5, 6, 3), SN_INTS(0, 4, 1, 2, 3));
    ck_assert(has_strides(sn_cat(SN_TENSORS(deep, deep), 0), SN_INTS(360, 1, 90, 18, 3)));
    ck_assert(has_strides(sn_cat(SN_TENSORS(last, F32(1, 0)), 0), SN_INTS(60, 20, 5, 1)));
    ck_assert(has_strides(sn_expand(sn_sum(F32(1, 2)), SN_INTS(1, 1)), SN_INTS(0, 0)));
    ck_assert(has_strides(sn_expand(F32(1, 3), SN_INTS(1, 3)), SN_INTS(3, 1)));
}
END_TEST

/* What a bool has no result of, in place too. */
START_TEST(bools_that_are_refused) {
    sn_tensor *const x = sn_ones(SN_INTS(2), SN_BOOL);
    ck_assert(!sn_square_(x));
    expect_error(SN_ERR_DTYPE, "bool");
    ck_assert(!sn_abs(x));
    expect_error(SN_ERR_DTYPE, "bool");
    ck_assert(!sn_argmax(x, 0, false));
    expect_error(SN_ERR_DTYPE, "bool");
    ck_assert(sn_item(sn_sum(sn_square(x))) == 2);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {values_of_mixed_dtypes, strides_of_stacks_and_expansions, bools_that_are_refused};
    return contract_main("test_corner_values", tests, (int)(sizeof tests / sizeof *tests));
}
