/* test_value_checks.c: integer division where a tensor has no elements: its memory is not read, what is divided by zero
 * nowhere raises nothing, and what is divided raises as it does eagerly. */
#include <unistd.h>

#include "tests/unit/contract.h"

/* Three rows without elements, and without memory. */
static sn_tensor *no_columns(void) { return sn_wrap(SN_BLOB(.data = NULL, .sizes = SN_INTS(3, 0), .dtype = SN_I64)); }

static sn_tensor *column(int64_t middle) {
    return sn_from_data((const int64_t[]){2, middle, 5}, SN_INTS(3, 1), SN_I64);
}

static sn_tensor *sum_of_rows(sn_tensor *x) { return sn_sum_dim(x, SN_INTS(1), false); }

/* Of x [3, 0] and y [3, 1]. */
static sn_status by_number(sn_frame *f) {
    return sn_out(f, 0, sum_of_rows(sn_remainder_scalar(sn_in(f, 0), sn_int(3))));
}
static sn_status by_number_floored(sn_frame *f) {
    return sn_out(f, 0, sn_sum(sn_floor_divide_scalar(sn_in(f, 0), sn_int(3))));
}
static sn_status product_by_number(sn_frame *f) {
    return sn_out(f, 0, sn_fmod_scalar(sn_matmul(sn_in(f, 0), sn_transpose(sn_in(f, 0), 0, 1)), sn_int(3)));
}
static sn_status rows_by_number(sn_frame *f) {
    return sn_out(f, 0, sn_remainder_scalar(sum_of_rows(sn_in(f, 0)), sn_int(3)));
}
static sn_status by_column(sn_frame *f) { return sn_out(f, 0, sum_of_rows(sn_remainder(sn_in(f, 0), sn_in(f, 1)))); }
static sn_status by_scalar(sn_frame *f) {
    return sn_out(f, 0, sum_of_rows(sn_remainder(sn_in(f, 0), sn_select(sn_select(sn_in(f, 1), 0, 1), 0, 0))));
}
static sn_status by_scalar_truncated(sn_frame *f) {
    sn_tensor *const by = sn_select(sn_select(sn_in(f, 1), 0, 1), 0, 0);
    return sn_out(f, 0, sum_of_rows(sn_div_mode(sn_in(f, 0), by, "trunc")));
}
static const sn_body divide_nothing[] = {by_number, by_column, by_number_floored, by_scalar, by_scalar_truncated};
static const sn_body divide_rows[] = {product_by_number, rows_by_number};

static void check_backend(sn_body body, const char *backend, int64_t middle) {
    const Twin twin = twin_new(body, NULL, NULL, SN_COMPILE_OPTIONS(.backend = backend));
    for (int i = 0; i < 3; i++) TWIN_CALL(twin, no_columns(), column(middle));
    ck_assert_msg(last_path() != SN_PATH_EAGER, "not compiled: %s", last_reason());
    twin_free(twin);
}

static void check_all(const sn_body *bodies, size_t n, int64_t middle) {
    for (size_t i = 0; i < n; i++) {
        check_backend(bodies[i], "generated", middle);
        check_backend(bodies[i], "unfused", middle);
        check_backend(bodies[i], "interpreter", middle);
    }
}
#define CHECK_ALL(bodies, middle) check_all(bodies, sizeof bodies / sizeof *bodies, middle)

START_TEST(memory_without_elements_is_not_read) {
    CHECK_ALL(divide_nothing, 3);
    CHECK_ALL(divide_rows, 3);
}
END_TEST

START_TEST(nothing_divided_by_zero_raises_nothing) { CHECK_ALL(divide_nothing, 0); }
END_TEST

static sn_status rows_by_column(sn_frame *f) {
    return sn_out(f, 0, sn_remainder(sum_of_rows(sn_in(f, 0)), sn_select(sn_in(f, 1), 1, 0)));
}
static sn_status product_by_column(sn_frame *f) {
    return sn_out(f, 0, sn_remainder(sn_matmul(sn_in(f, 0), sn_transpose(sn_in(f, 0), 0, 1)), sn_in(f, 1)));
}
/* Its sum has no elements of it. */
static sn_status spread(sn_frame *f) {
    return sn_out(f, 0, sum_of_rows(sn_expand(sn_remainder(sn_in(f, 1), sn_in(f, 1)), SN_INTS(3, 0))));
}
static const sn_body divide_by_column[] = {rows_by_column, product_by_column, spread};

static void expect_refused(sn_function *fn, sn_tensor *middle) {
    ck_assert_ptr_null(SN_CALL(fn, no_columns(), middle));
    expect_error(SN_ERR_VALUE, "an integer is divided by zero in other");
}

static void check_refused(sn_body body, const char *backend) {
    const Twin twin = twin_new(body, NULL, NULL, SN_COMPILE_OPTIONS(.backend = backend));
    for (int i = 0; i < 3; i++) TWIN_CALL(twin, no_columns(), column(3));
    ck_assert_msg(last_path() != SN_PATH_EAGER, "not compiled: %s", last_reason());
    expect_refused(twin.eager, column(0));
    expect_refused(twin.fast, column(0));
    twin_free(twin);
}

START_TEST(what_is_divided_by_zero_raises) {
    for (size_t i = 0; i < sizeof divide_by_column / sizeof *divide_by_column; i++) {
        check_refused(divide_by_column[i], "generated");
        check_refused(divide_by_column[i], "interpreter");
    }
}
END_TEST

/* By a zero that the first run does not come to. */
static sn_status counted_by_zero(sn_frame *f) {
    return sn_out(f, 0, sn_remainder_scalar(sn_arange(sn_int(3), SN_I64), sn_int(0)));
}
static sn_status rows_by_zero(sn_frame *f) {
    return sn_out(f, 0, sn_remainder_scalar(sum_of_rows(sn_in(f, 0)), sn_int(0)));
}
static sn_status rows_alone(sn_frame *f) { return sn_out(f, 0, sum_of_rows(sn_in(f, 0))); }

static sn_status either(sn_frame *f) {
    const sn_body by_zero = *(const int *)sn_closure(f) ? counted_by_zero : rows_by_zero;
    sn_tensor *out = NULL, *const taken = sn_gt_scalar(sn_sum(sn_in(f, 1)), sn_int(20));
    if (sn_cond(taken, by_zero, rows_alone, NULL, NULL, SN_TENSORS(sn_in(f, 0)), &out, 1) != SN_OK) return sn_check();
    return sn_out(f, 0, out);
}

START_TEST(a_constant_zero_of_a_branch_raises_where_it_is_taken) {
    for (int which = 0; which < 2; which++) {
        const Twin twin = twin_new(either, &which, &which, NULL);
        for (int i = 0; i < 3; i++) TWIN_CALL(twin, no_columns(), column(3));
        ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
        expect_refused(twin.eager, column(30));
        expect_refused(twin.fast, column(30));
        twin_free(twin);
    }
}
END_TEST

/* A loaded plan has nothing eager behind it, and is refused where an element is read that is not there. */
START_TEST(a_saved_plan_divides_nothing) {
    char path[] = "/tmp/value_checks_XXXXXX";
    close(mkstemp(path));
    for (size_t i = 0; i < sizeof divide_nothing / sizeof *divide_nothing; i++) {
        Twin twin = twin_new(divide_nothing[i], NULL, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
        for (int k = 0; k < 3; k++) TWIN_CALL(twin, no_columns(), column(3));
        ck_assert_msg(sn_plan_save(twin.fast, path, NULL) == SN_OK, "%s", sn_error_take()->message);
        sn_function_free(twin.fast);
        twin.fast = sn_plan_load(path, NULL);
        ck_assert_msg(twin.fast != NULL, "%s", sn_error_take()->message);
        TWIN_CALL(twin, no_columns(), column(3));
        TWIN_CALL(twin, no_columns(), column(0));
        twin_free(twin);
    }
    unlink(path);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {memory_without_elements_is_not_read, nothing_divided_by_zero_raises_nothing,
                                  what_is_divided_by_zero_raises, a_constant_zero_of_a_branch_raises_where_it_is_taken,
                                  a_saved_plan_divides_nothing};
    return contract_main("value_checks", tests, (int)(sizeof tests / sizeof *tests));
}
