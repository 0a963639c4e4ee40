/* test_corners.c: what single ops do in the corners that the tables of samples don't reach: rows
 * with nothing to attend to, views in place, layouts named by hand. Eagerly and compiled. */
#include "runtime/core/tensor.h"
#include "tests/unit/contract.h"

static sn_status attend(sn_frame *f) {
    sn_tensor *const q = sn_in(f, 0), *const mask = sn_in(f, 1);
    return sn_out(f, 0,
                  sn_scaled_dot_product_attention_ex(q, q, q, mask, 0, false, (sn_value){.kind = SN_KIND_NONE}, false));
}

static bool all_are(sn_tensor *t, double value) { return sn_item(sn_amax(t)) == value && sn_item(sn_amin(t)) == value; }

/* PyTorch's attention gives 0 there (_safe_softmax), its softmax NaN. */
START_TEST(rows_without_keys_attend_to_nothing) {
    const Twin twin = twin_new(attend, NULL, NULL, NULL);
    const bool keep[4][4] = {{1, 1, 0, 1}, {0, 0, 0, 0}, {1, 1, 1, 1}, {0, 0, 0, 1}};
    sn_tensor *const mask = sn_from_data(keep, SN_INTS(4, 4), SN_BOOL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const q = LEAF((uint64_t)i, 4, 8);
        TWIN_CALL(twin, q, mask);
        sn_tensor *const y = SN_CALL(twin.fast, q, mask);
        ck_assert(all_are(sn_select(y, 0, 1), 0));
        ck_assert_int_eq(sn_backward(sn_sum(sn_mul(y, y))), SN_OK);
        ck_assert(sn_item(sn_all(sn_isfinite(sn_grad(q)))) == 1);
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    sn_tensor *const minus = sn_full(SN_INTS(2, 3), sn_float(-INFINITY), SN_F32);
    ck_assert(sn_item(sn_all(sn_isnan(sn_softmax(minus, 1)))) == 1);
    twin_free(twin);
}
END_TEST

/* Windows of an input and of a result, one written through; offset + 1 elements in. */
static sn_status windows(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    const int64_t at = x->offset + 1;
    sn_tensor *const of_x = sn_as_strided(x, SN_INTS(3, 4), SN_INTS(2, 1), at);
    sn_tensor *const y = sn_mul(x, x);
    sn_tensor *const of_y = sn_as_strided(y, SN_INTS(4), SN_INTS(2), 2);
    sn_add_(of_y, sn_select(of_x, 0, 1));
    sn_out(f, 1, y);
    return sn_out(f, 0, sn_add(of_x, of_y));
}

static void check_windows(Twin twin, sn_tensor *x) {
    sn_tensor *want[2], *got[2], *inputs[] = {x};
    ck_assert_int_eq(sn_call(twin.eager, inputs, 1, want, 2), SN_OK);
    ck_assert_int_eq(sn_call(twin.fast, inputs, 1, got, 2), SN_OK);
    ck_assert(same_bits(got[0], want[0]) && same_bits(got[1], want[1]));
}

/* The offset is told from the input's first element: inputs that start elsewhere share the code. */
START_TEST(as_strided_is_captured) {
    const Twin twin = twin_new(windows, NULL, NULL, NULL);
    sn_tensor *const rows = F32(1, 6, 12);
    for (int i = 0; i < 6; i++) check_windows(twin, sn_select(rows, 0, i));
    const sn_stats stats = stats_of(twin.fast);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    ck_assert_int_eq(stats.compiles, 1);
    ck_assert_int_eq(stats.ops_eager, 0);
    twin_free(twin);
}
END_TEST

/* offset * 2 elements into x, wherever x starts. */
static sn_status from_storage(sn_frame *f) {
    return sn_out(f, 0, sn_exp(sn_as_strided(sn_in(f, 0), SN_INTS(4), SN_INTS(1), 14)));
}

/* The same numbers, but x starts elsewhere: in replay mode too. What lies outside of x breaks. */
START_TEST(as_strided_follows_the_storage) {
    const Twin verify = twin_new(from_storage, NULL, NULL, NULL);
    const Twin replay = twin_new(from_storage, NULL, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    sn_tensor *const all = F32(1, 48);
    for (int i = 0; i < 16; i++) {
        sn_tensor *const x = sn_narrow(all, 0, i % 4 * 4, 20);
        TWIN_CALL(verify, x);
        TWIN_CALL(replay, x);
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    const sn_stats before = stats_of(verify.fast);
    ck_assert_int_eq(before.compiles, 2); /* the distance became a runtime value */
    TWIN_CALL(verify, sn_narrow(all, 0, 20, 20));
    ck_assert_int_eq(stats_of(verify.fast).ops_eager, before.ops_eager + 2); /* and exp */
    twin_free(verify);
    twin_free(replay);
}
END_TEST

static sn_status weighted_windows(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const w = sn_as_strided(x, SN_INTS(3, 4), SN_INTS(2, 1), 1);
    return sn_out(f, 0, sn_sum(sn_mul(w, w)));
}

/* Overlapping windows add their gradients up, in one order. */
START_TEST(as_strided_has_its_gradient_compiled) {
    const Twin twin = twin_new(weighted_windows, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const a = LEAF((uint64_t)i, 12), *const b = LEAF((uint64_t)i, 12);
        ck_assert_int_eq(sn_backward(SN_CALL(twin.eager, a)), SN_OK);
        ck_assert_int_eq(sn_backward(SN_CALL(twin.fast, b)), SN_OK);
        ck_assert(same_bits(sn_grad(a), sn_grad(b)));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

/* What was detached, and a view made while gradients were off, give windows without a history. */
static sn_status strided_apart(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const part = sn_narrow(sn_detach(x), 0, 4, 4);
    sn_tensor *const detached = sn_as_strided(part, SN_INTS(4), SN_INTS(2), 1);
    sn_grad_mode_set(SN_GRAD_OFF);
    sn_tensor *const half = sn_narrow(x, 0, 2, 8);
    sn_grad_mode_set(SN_GRAD_ON);
    sn_tensor *const switched = sn_as_strided(half, SN_INTS(4), SN_INTS(1), 3);
    return sn_out(f, 0, sn_sum(sn_mul(sn_exp(sn_add(detached, switched)), sn_in(f, 1))));
}

START_TEST(as_strided_of_what_has_no_history_has_none) {
    const Twin twin = twin_new(strided_apart, NULL, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const x = LEAF(1, 12), *const a = LEAF(2, 4), *const b = LEAF(2, 4);
        ck_assert_int_eq(sn_backward(SN_CALL(twin.eager, x, a)), SN_OK);
        ck_assert_int_eq(sn_backward(SN_CALL(twin.fast, x, b)), SN_OK);
        ck_assert(same_bits(sn_grad(a), sn_grad(b)));
        ck_assert_ptr_null(sn_grad(x));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

/* Steps and pieces larger than any dim: one element, and pieces of one. */
static sn_status huge_numbers(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *parts[4] = {0};
    ck_assert_int_eq(sn_chunk(x, INT64_MAX, 0, parts, 4), 4);
    sn_tensor *const one = sn_slice(x, 0, 1, INT64_MAX, INT64_MAX);
    ck_assert_int_eq(sn_numel(one), 1);
    return sn_out(f, 0, sn_sum(sn_mul(sn_add(parts[3], one), x)));
}

START_TEST(a_step_may_be_larger_than_any_dim) {
    const Twin twin = twin_new(huge_numbers, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const a = LEAF((uint64_t)i, 4), *const b = LEAF((uint64_t)i, 4);
        sn_tensor *const loss = twin_call(twin, SN_TENSORS(b), SN_TENSORS(a));
        ck_assert_int_eq(sn_backward(loss), SN_OK);
        ck_assert_int_eq(sn_backward(SN_CALL(twin.eager, a)), SN_OK);
        ck_assert(same_bits(sn_grad(a), sn_grad(b)));
    }
    TWIN_CALL(twin, F32(1, 4));
    TWIN_CALL(twin, F32(2, 4));
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

/* The number of steps is decided without a constant size. */
static sn_status huge_steps(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const one = sn_slice(x, 0, 1, INT64_MAX, INT64_C(1) << 33);
    return sn_out(f, 0, sn_mul(sn_exp(x), one));
}

START_TEST(a_huge_step_of_a_symbolic_size_compiles_once) {
    const Twin twin = twin_new(huge_steps, NULL, NULL, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_ALWAYS));
    for (int64_t n = 2; n < 12; n++) TWIN_CALL(twin, F32((uint64_t)n, n));
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    ck_assert_int_eq(stats_of(twin.fast).compiles, 1);
    twin_free(twin);
}
END_TEST

/* x is at least and at most a number. */
static sn_status at_least(sn_frame *f) {
    const int64_t *const number = sn_closure(f);
    return sn_out(f, 0, sn_neg(sn_neg(sn_clamp_min(sn_in(f, 0), sn_int(*number)))));
}
static sn_status at_most(sn_frame *f) {
    const int64_t *const number = sn_closure(f);
    return sn_out(f, 0, sn_neg(sn_neg(sn_clamp_max(sn_in(f, 0), sn_int(*number)))));
}
static sn_status between(sn_frame *f) {
    const int64_t *const number = sn_closure(f);
    return sn_out(f, 0, sn_clamp(sn_in(f, 0), sn_int(-*number), sn_int(*number)));
}

static sn_tensor *narrow_ints(sn_dtype dtype) {
    static const int32_t numbers[] = {0, 5, 100, 127};
    return sn_to_copy(sn_from_data(numbers, SN_INTS(4), SN_I32), dtype);
}

/* As in PyTorch, eagerly and compiled: a bound that lies beyond all values has no effect, one that none reaches is an
 * error; neither wraps. */
static void check_bounds(sn_body body, sn_dtype dtype, const int64_t numbers[4], bool good) {
    int64_t number;
    const Twin twin = twin_new(body, &number, &number, NULL);
    for (int i = 0; i < 4; i++) {
        number = numbers[i];
        sn_tensor *const x = narrow_ints(dtype);
        if (good) {
            TWIN_CALL(twin, x);
            ck_assert(same_bits(SN_CALL(twin.fast, x), x));
            continue;
        }
        ck_assert_ptr_null(SN_CALL(twin.eager, x));
        const char *const says = sn_error_take()->message;
        ck_assert_msg(strstr(says, "outside the range of"), "%s", says);
        ck_assert_ptr_null(SN_CALL(twin.fast, x));
        ck_assert_int_eq(sn_error_take()->status, SN_ERR_VALUE);
    }
    twin_free(twin);
}

START_TEST(clamp_by_numbers_outside_of_the_dtype) {
    const int64_t below[] = {-1, -129, -300, INT64_MIN}, above[] = {256, 300, 70000, INT64_MAX};
    check_bounds(at_least, SN_U8, below, true);
    check_bounds(at_most, SN_U8, above, true);
    check_bounds(at_most, SN_U8, below, false);
    check_bounds(at_least, SN_U8, above, false);
    check_bounds(between, SN_I8, above, true);
    check_bounds(between, SN_I32, (const int64_t[]){127, INT64_C(1) << 31, INT64_C(1) << 32, INT64_MAX}, true);
}
END_TEST

/* Both results view what bmm made, which is none: the launch gives that too. The number, a runtime float, lies behind
 * the room for results. */
static sn_status parts_and_a_number(sn_frame *f) {
    const double *const number = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *const y = sn_matmul(x, x);
    sn_mul_scalar_(sn_in(f, 1), sn_float(*number));
    sn_out(f, 1, sn_select(y, 0, 1));
    return sn_out(f, 0, y);
}

START_TEST(a_whole_behind_the_results_has_room) {
    double number;
    for (sn_compile_mode mode = SN_COMPILE_VERIFY; mode <= SN_COMPILE_REPLAY; mode++) {
        const Twin twin = twin_new(parts_and_a_number, &number, &number, SN_COMPILE_OPTIONS(.mode = mode));
        for (int i = 0; i < 6; i++) {
            number = mode == SN_COMPILE_REPLAY ? 0.5 : 0.5 + i;
            sn_tensor *const x = F32((uint64_t)i, 2, 3, 3), *a[] = {x, F32(9, 5)}, *b[] = {x, F32(9, 5)};
            sn_tensor *want[2], *got[2];
            ck_assert_int_eq(sn_call(twin.eager, a, 2, want, 2), SN_OK);
            ck_assert_int_eq(sn_call(twin.fast, b, 2, got, 2), SN_OK);
            ck_assert(same_bits(b[1], a[1]));
            for (int k = 0; k < 2; k++) ck_assert(same_bits(got[k], want[k]));
        }
        ck_assert_msg(last_path() == SN_PATH_COMPILED, "%s", last_reason());
        twin_free(twin);
    }
}
END_TEST

/* A check whose result is read by nothing but the sizes of a copy is made. */
static sn_status overwritten_quotient(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const by = sn_in(f, 1);
    sn_div_mode_(x, by, "trunc");
    sn_copy_out(x, x, by);
    return sn_out(f, 0, by);
}

START_TEST(an_overwritten_quotient_is_checked) {
    const Twin twin = twin_new(overwritten_quotient, NULL, NULL, NULL);
    for (int i = 0; i < 6; i++) {
        sn_tensor *const x = sn_full(SN_INTS(9), sn_int(7), SN_I64), *const by =
                                                                         sn_full((sn_ints){0}, sn_int(i % 3), SN_I64);
        sn_tensor *const got = SN_CALL(twin.fast, x, by);
        ck_assert_int_eq(sn_error_take()->status, i % 3 ? SN_OK : SN_ERR_VALUE);
        ck_assert(i % 3 ? sn_item_int(got) == i % 3 : !got);
    }
    twin_free(twin);
}
END_TEST

/* How many elements a mask selects is known at the call: the graph breaks, says so, and gradients go on. */
static sn_status selected(sn_frame *f) {
    sn_tensor *const x = sn_sin(sn_in(f, 0));
    return sn_out(f, 0, sn_mul_scalar(sn_masked_select(x, sn_in(f, 1)), sn_float(2)));
}

START_TEST(masked_select_breaks_and_says_why) {
    const Twin twin = twin_new(selected, NULL, NULL, NULL);
    const bool keep[2][3] = {{1, 0, 1}, {1, 1, 0}};
    sn_tensor *const mask = sn_from_data(keep, SN_INTS(2, 3), SN_BOOL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const by = i % 2 ? mask : sn_logical_not(sn_select(mask, 0, 1)); /* 4, then twice the last column */
        sn_tensor *const x = LEAF((uint64_t)i, 2, 3);
        TWIN_CALL(twin, x, by);
        sn_tensor *const y = SN_CALL(twin.fast, x, by);
        ck_assert_int_eq(sn_numel(y), i % 2 ? 4 : 2);
        ck_assert_int_eq(sn_backward(sn_sum(y)), SN_OK);
        ck_assert_int_eq((int)sn_item(sn_count_nonzero_dims(sn_grad(x), (sn_ints){0})), i % 2 ? 4 : 2);
    }
    ck_assert_int_ge(stats_of(twin.fast).breaks, 1);
    ck_assert_ptr_nonnull(strstr(sn_explain(twin.fast), "value is needed on the host"));
    twin_free(twin);
}
END_TEST

/* At its corners hardswish has the slope of the side that PyTorch names: 0 at -3, 1 at 3. */
START_TEST(hardswish_has_its_slope_at_the_corners) {
    const float at[] = {-3, 3, -2.9999998f, 2.9999998f};
    sn_tensor *const x = sn_requires_grad_(sn_from_data(at, SN_INTS(4), SN_F32), true);
    ck_assert_int_eq(sn_backward(sn_sum(sn_hardswish(x))), SN_OK);
    float slope[4];
    ck_assert_int_eq(sn_read(sn_grad(x), slope, sizeof slope), SN_OK);
    ck_assert(slope[0] == 0 && slope[1] == 1);
    ck_assert(slope[2] < -0.499f && slope[3] > 1.499f);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {rows_without_keys_attend_to_nothing,    as_strided_is_captured,
                                  as_strided_follows_the_storage,         as_strided_has_its_gradient_compiled,
                                  a_step_may_be_larger_than_any_dim,      a_huge_step_of_a_symbolic_size_compiles_once,
                                  a_whole_behind_the_results_has_room,    an_overwritten_quotient_is_checked,
                                  clamp_by_numbers_outside_of_the_dtype,  masked_select_breaks_and_says_why,
                                  hardswish_has_its_slope_at_the_corners, as_strided_of_what_has_no_history_has_none};
    return contract_main("test_corners", tests, (int)(sizeof tests / sizeof *tests));
}
