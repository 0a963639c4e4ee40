/* test_mark_dynamic.c: sizes that the program says will vary (sn_mark_dynamic) end a recompile culprit, within their
 * bounds; and what the reasons of recompiles call things [acceptance 5.17, semantics C5, C15]. */
#include <stdio.h>

#include "tests/unit/contract.h"
#include "tests/unit/explained.h"

static sn_tensor *marked(sn_tensor *t, int64_t dim, int64_t min, int64_t max) {
    ck_assert_int_eq(sn_mark_dynamic(t, dim, min, max), SN_OK);
    return t;
}

static sn_status scales(sn_frame *f) { return sn_out(f, 0, sn_softmax(sn_mul(sn_in(f, 0), sn_in(f, 1)), -1)); }

static Twin twin_of(sn_body body, sn_compile_mode mode) {
    return twin_new(body, NULL, NULL, SN_COMPILE_OPTIONS(.mode = mode));
}

static void call_rows(Twin twin, int64_t rows, int64_t min, int64_t max) {
    const uint64_t seed = (uint64_t)rows;
    TWIN_CALL(twin, marked(F32(seed, rows, 6), 0, min, max), F32(seed + 1, 6));
}

/* One compile where sizes that differ would need a second. */
START_TEST(a5_17_a_marked_size_compiles_once) {
    for (int mode = SN_COMPILE_VERIFY; mode <= SN_COMPILE_REPLAY; mode++) {
        const Twin twin = twin_of(scales, (sn_compile_mode)mode);
        for (int64_t rows = 4; rows < 12; rows++) call_rows(twin, rows, 0, 0);
        TWIN_CALL(twin, F32(3, 20, 6), F32(4, 6)); /* nor does one without a mark need another */
        ck_assert_int_eq(stats_of(twin.fast).compiles, 1);
        ck_assert_int_eq(stats_of(twin.fast).recompiles, 0);
        expect_explained(twin.fast, "symbolic sizes");
        twin_free(twin);
    }
}
END_TEST

START_TEST(a5_17_each_size_outside_of_the_bounds_is_a_case) {
    const Twin twin = twin_of(scales, SN_COMPILE_VERIFY);
    for (int64_t rows = 4; rows <= 8; rows++) call_rows(twin, rows, 4, 8);
    ck_assert_int_eq(stats_of(twin.fast).compiles, 1);
    call_rows(twin, 9, 4, 8);
    expect_explained(twin.fast, "recompile: guard s0 <= 8 (s0: size 0 of argument 0), now 9 and 8\n");
    call_rows(twin, 3, 4, 8);
    expect_explained(twin.fast, "recompile: guard 4 <= s0 (s0: size 0 of argument 0), now 4 and 3\n");
    call_rows(twin, 1, 4, 8); /* 0 and 1 are special in any case */
    expect_explained(twin.fast, "recompile: size 0 of argument 0: at least 2, now 1\n");
    ck_assert_int_eq(stats_of(twin.fast).compiles, 4);
    for (int64_t rows = 3; rows <= 9; rows++) call_rows(twin, rows, 4, 8);
    call_rows(twin, 1, 4, 8);
    ck_assert_int_eq(stats_of(twin.fast).compiles, 4);
    twin_free(twin);
}
END_TEST

/* The first call has one that is special, the second marks a symbol all the same. */
START_TEST(a5_17_a_mark_behind_a_special_size) {
    const Twin twin = twin_of(scales, SN_COMPILE_VERIFY);
    call_rows(twin, 1, 0, 0);
    for (int64_t rows = 2; rows < 7; rows++) call_rows(twin, rows, 0, 0);
    ck_assert_int_eq(stats_of(twin.fast).compiles, 2);
    twin_free(twin);
}
END_TEST

static sn_status folds(sn_frame *f) { /* a number that follows a size */
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_sum_dim(sn_reshape(x, SN_INTS(sn_size(x, 0), 2, 3)), SN_INTS(1), false));
}

START_TEST(a5_17_numbers_follow_marked_sizes) {
    const Twin twin = twin_of(folds, SN_COMPILE_VERIFY);
    for (int64_t rows = 4; rows < 12; rows++) TWIN_CALL(twin, marked(F32(1, rows, 6), 0, 2, 100));
    ck_assert_int_eq(stats_of(twin.fast).compiles, 1);
    twin_free(twin);
}
END_TEST

static sn_status breaks(sn_frame *f) {
    sn_tensor *const y = sn_mul(sn_in(f, 0), sn_in(f, 0));
    sn_graph_break("for the test");
    return sn_out(f, 0, sn_sum_dim(sn_exp(y), SN_INTS(1), false));
}

/* Strides that follow the size are symbols with it. */
START_TEST(a5_17_a_marked_size_of_a_transposed_tensor) {
    const Twin twin = twin_of(breaks, SN_COMPILE_VERIFY);
    for (int64_t rows = 3; rows < 8; rows++) {
        sn_tensor *const x = sn_transpose(F32(1, 4, rows), 0, 1), *const y = sn_transpose(F32(1, 4, rows), 0, 1);
        twin_call(twin, SN_TENSORS(marked(x, 0, 0, 0)), SN_TENSORS(y));
    }
    ck_assert_int_eq(stats_of(twin.fast).recompiles, 0);
    twin_free(twin);
}
END_TEST

START_TEST(a5_17_what_comes_behind_a_break_is_marked_as_well) {
    const Twin twin = twin_of(breaks, SN_COMPILE_VERIFY);
    for (int64_t rows = 4; rows < 9; rows++) TWIN_CALL(twin, marked(F32(1, rows, 6), 0, 0, 0));
    ck_assert_int_eq(stats_of(twin.fast).compiles, 2); /* one each */
    ck_assert_int_eq(stats_of(twin.fast).recompiles, 0);
    twin_free(twin);
}
END_TEST

/* With gradients, of a leaf that is a parameter, too. */
START_TEST(a5_17_a_marked_training_step) {
    const Twin twin = twin_of(scales, SN_COMPILE_VERIFY);
    for (int64_t rows = 4; rows < 9; rows++) {
        sn_tensor *const x = marked(LEAF(1, rows, 6), -2, 0, 0), *const again = marked(LEAF(1, rows, 6), 0, 0, 0);
        sn_tensor *const y = TWIN_CALL(twin, x, F32(2, 6));
        ck_assert_int_eq(sn_backward(sn_sum(y)), SN_OK);
        ck_assert_int_eq(sn_backward(sn_sum(sn_call1(twin.eager, SN_TENSORS(again, F32(2, 6))))), SN_OK);
        ck_assert(same_bits(sn_grad(x), sn_grad(again)));
    }
    ck_assert_int_eq(stats_of(twin.fast).compiles, 1);
    twin_free(twin);
}
END_TEST

START_TEST(a5_17_marks_are_ignored_where_sizes_never_vary) {
    const Twin twin = twin_new(scales, NULL, NULL, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_NEVER));
    for (int64_t rows = 4; rows < 7; rows++) call_rows(twin, rows, 0, 0);
    ck_assert_int_eq(stats_of(twin.fast).compiles, 3);
    twin_free(twin);
}
END_TEST

START_TEST(a5_17_wrong_marks_are_named) {
    sn_tensor *const t = F32(1, 3, 4);
    ck_assert_int_eq(sn_mark_dynamic(t, 2, 0, 0), SN_ERR_SHAPE);
    expect_error(SN_ERR_SHAPE, "sn_mark_dynamic: dim 2 is out of range for a tensor of rank 2");
    ck_assert_int_eq(sn_mark_dynamic(t, 0, 9, 8), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sn_mark_dynamic: sizes from 9 to 8 (0: any)");
    ck_assert_int_eq(sn_mark_dynamic(t, 0, -1, 8), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sn_mark_dynamic: sizes from -1 to 8");
    ck_assert_int_eq(sn_mark_dynamic(NULL, 0, 0, 0), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sn_mark_dynamic");
}
END_TEST

/* Names --------------------------------------------------------------------------------------- */

typedef struct Model {
    sn_tensor *w, *b;
} Model;

static int line_of_product;
static sn_status layer(sn_frame *f) {
    const Model *const m = sn_closure(f);
    line_of_product = __LINE__ + 1;
    sn_tensor *const y = sn_mul(sn_in(f, 0), m->w);
    return sn_out(f, 0, sn_add(y, m->b));
}

/* A dictionary's name, or the line that first uses it. */
START_TEST(a5_17_what_is_closed_over_has_a_name) {
    sn_dict *const d = sn_dict_new();
    Model m = {F32(1, 4), F32(2, 4)};
    ck_assert_int_eq(sn_dict_set(d, "fc1.bias", m.b), SN_OK);
    sn_function *const fn = sn_compile(layer, &m, NULL);
    SN_CALL(fn, F32(3, 4));
    sn_requires_grad_(m.w, true);
    SN_CALL(fn, F32(3, 4));
    char want[128];
    snprintf(want, sizeof want, "of closed over by aten::mul.Tensor at test_mark_dynamic.c:%d: 0, now 1\n",
             line_of_product);
    expect_explained(fn, want);
    sn_requires_grad_(m.b, true);
    SN_CALL(fn, F32(3, 4));
    expect_explained(fn, "recompile: requires_grad of closed over: fc1.bias: 0, now 1\n");
    sn_function_free(fn);
    sn_dict_free(d);
}
END_TEST

typedef struct Host {
    double factor;
    bool keeps;
    sn_tensor *kept;
} Host;

static int line_of_number;
static sn_status numbered(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const y = sn_sin(sn_in(f, 0));
    sn_graph_break("for the test");
    line_of_number = __LINE__ + 1;
    return sn_out(f, 0, sn_mul_scalar(y, sn_float(host->factor)));
}

START_TEST(a5_17_numbers_are_named_by_their_op_and_line) {
    Host host = {.factor = 2.5};
    sn_function *const fn = sn_compile(numbered, &host, NULL);
    SN_CALL(fn, F32(3, 4));
    host.factor = 3.5;
    SN_CALL(fn, F32(3, 4));
    char want[128];
    snprintf(want, sizeof want, "recompile: aten::mul.Tensor at test_mark_dynamic.c:%d, other: 2.5, now 3.5\n",
             line_of_number);
    expect_explained(fn, want);
    sn_function_free(fn);
}
END_TEST

START_TEST(a5_17_shared_memory_is_named_by_who_shares_it) {
    sn_function *const fn = sn_compile(scales, NULL, NULL);
    sn_tensor *const x = F32(3, 6, 6);
    SN_CALL(fn, x, F32(4, 6, 6));
    SN_CALL(fn, x, x);
    SN_CALL(fn, x, sn_alias(x));
    expect_explained(fn, "recompile: argument 1: memory of its own, now the memory of argument 0\n");
    sn_function_free(fn);
}
END_TEST

/* A value that only a later call asks for. */
static int line_of_kept;
static sn_status keeps(sn_frame *f) {
    Host *const host = sn_closure(f);
    line_of_kept = __LINE__ + 1;
    sn_tensor *const y = sn_exp(sn_in(f, 0));
    if (host->keeps) host->kept = sn_retain(y);
    return sn_out(f, 0, sn_sin(y));
}

START_TEST(a5_17_a_result_that_is_needed_now_is_named_by_its_op_and_line) {
    Host host = {0};
    sn_function *const fn = sn_compile(keeps, &host, NULL);
    SN_CALL(fn, F32(3, 4));
    host.keeps = true;
    SN_CALL(fn, F32(3, 4));
    char want[128];
    snprintf(want, sizeof want, "recompile: the result of aten::exp at test_mark_dynamic.c:%d is needed now\n",
             line_of_kept);
    expect_explained(fn, want);
    sn_release(host.kept);
    sn_function_free(fn);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a5_17_a_marked_size_compiles_once,
        a5_17_each_size_outside_of_the_bounds_is_a_case,
        a5_17_a_mark_behind_a_special_size,
        a5_17_numbers_follow_marked_sizes,
        a5_17_a_marked_size_of_a_transposed_tensor,
        a5_17_what_comes_behind_a_break_is_marked_as_well,
        a5_17_a_marked_training_step,
        a5_17_marks_are_ignored_where_sizes_never_vary,
        a5_17_wrong_marks_are_named,
        a5_17_what_is_closed_over_has_a_name,
        a5_17_numbers_are_named_by_their_op_and_line,
        a5_17_shared_memory_is_named_by_who_shares_it,
        a5_17_a_result_that_is_needed_now_is_named_by_its_op_and_line,
    };
    return contract_main("test_mark_dynamic", tests, (int)(sizeof tests / sizeof *tests));
}
