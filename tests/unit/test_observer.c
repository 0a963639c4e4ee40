/* test_observer.c: observers [acceptance 5.23]: scale and zero point by the formulas of torch.ao.quantization. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "tests/unit/public_check.h"
#include "tests/unit/suite.h"

static sn_tensor *floats(const float *values, int64_t n) { return sn_from_data(values, SN_INTS(n), SN_F32); }

static sn_qparams params_of(sn_observer *o) {
    sn_qparams q;
    ck_assert_int_eq(sn_observer_qparams(o, &q), SN_OK);
    return q;
}

static void expect_params(const sn_observer_options *options, double scale, int64_t zero) {
    static const float first[] = {-1, 0.5f, 2}, second[] = {3, NAN, -0.25f, INFINITY};
    sn_observer *const o = sn_observer_new(options);
    ck_assert_int_eq(sn_observer_observe(o, floats(first, 3)), SN_OK);
    ck_assert_int_eq(sn_observer_observe(o, sn_to(floats(second, 4), SN_F64)), SN_OK);
    const sn_qparams q = params_of(o);
    ck_assert_msg(q.scale == (double)(float)scale && q.zero_point == zero, "%.9g and %d", q.scale, (int)q.zero_point);
    ck_assert_int_eq(q.quant_max - q.quant_min, 255);
    ck_assert_int_eq(q.quant_min, q.dtype == SN_I8 ? -128 : 0);
    sn_observer_free(o);
}

START_TEST(a5_23_ranges_become_scales) {
    expect_params(NULL, 4.0f / 255, 64); /* 1 / (4 / 255) is 63.75 */
    expect_params(SN_OBSERVER_OPTIONS(.dtype = SN_I8), 4.0f / 255, -64);
    expect_params(SN_OBSERVER_OPTIONS(.dtype = SN_I8, .symmetric = true), 3.0f / 127.5f, 0);
    expect_params(SN_OBSERVER_OPTIONS(.symmetric = true), 3.0f / 127.5f, 128);
    /* -1 + 0.01 (-0.25 + 1), 2 + 0.01 (3 - 2) */
    expect_params(SN_OBSERVER_OPTIONS(.kind = SN_OBSERVE_MOVING_AVERAGE), (2.01f + 0.9925f) / 255, 84);
    /* -1 + 0.5 (-0.25 + 1), 2 + 0.5 (3 - 2) */
    expect_params(SN_OBSERVER_OPTIONS(.kind = SN_OBSERVE_MOVING_AVERAGE, .averaging = 0.5), 3.125f / 255, 51);
}
END_TEST

START_TEST(a5_23_zero_is_in_every_range) {
    static const float above[] = {2, 5}, none[] = {0};
    sn_observer *const o = sn_observer_new(NULL), *const p = sn_observer_new(NULL);
    sn_observer_observe(o, floats(above, 2));
    sn_observer_observe(p, floats(none, 1));
    ck_assert(params_of(o).scale == (double)(5.0f / 255) && params_of(o).zero_point == 0);
    ck_assert(params_of(p).scale == FLT_EPSILON && params_of(p).zero_point == 0);
    sn_observer_free(o);
    sn_observer_free(p);
}
END_TEST

/* PyTorch's own test of the class has these numbers: of bins from 2 to 8 that hold 2, 3 and 3 values the last one is
 * left out. */
START_TEST(a5_23_a_histogram_leaves_out_what_costs_least) {
    static const float first[] = {2, 3, 4, 5}, second[] = {5, 6, 7, 8};
    sn_observer *const o = sn_observer_new(SN_OBSERVER_OPTIONS(.kind = SN_OBSERVE_HISTOGRAM, .bins = 3));
    sn_observer_observe(o, floats(first, 4));
    sn_observer_observe(o, floats(second, 4));
    double min, max;
    ck_assert_int_eq(sn_observer_range(o, &min, &max), SN_OK);
    ck_assert(min == 2 && max == 8);
    const sn_qparams q = params_of(o);
    ck_assert_msg(fabs(q.scale - 0.0235294) < 1e-7 && q.zero_point == 0, "%g, %d", q.scale, (int)q.zero_point);
    sn_observer_free(o);
}
END_TEST

enum { N = 4096 };

static double squares_lost(sn_tensor *x, const sn_qparams *q) {
    sn_tensor *const y = sn_fake_quantize_per_tensor_affine(x, q->scale, q->zero_point, q->quant_min, q->quant_max);
    sn_tensor *const d = sn_sub(sn_to(x, SN_F64), sn_to(y, SN_F64));
    return sn_item(sn_sum(sn_mul(d, d)));
}

/* Values about 0 and one far away: by the histogram less is lost than by the whole range. */
START_TEST(a5_23_a_value_far_outside_is_limited) {
    sn_seed(11);
    sn_tensor *const x = sn_cat(SN_TENSORS(sn_randn(SN_INTS(N), SN_F32), sn_full(SN_INTS(1), sn_float(30), SN_F32)), 0);
    sn_observer *const by_range = sn_observer_new(NULL), *const by_histogram = sn_observer_new(
                                                             SN_OBSERVER_OPTIONS(.kind = SN_OBSERVE_HISTOGRAM));
    sn_observer_observe(by_range, x);
    sn_observer_observe(by_histogram, x);
    const sn_qparams range = params_of(by_range), histogram = params_of(by_histogram);
    ck_assert_msg(squares_lost(x, &histogram) < squares_lost(x, &range), "%g of %g lost", squares_lost(x, &histogram),
                  squares_lost(x, &range));
    ck_assert_double_lt(histogram.scale, range.scale);
    sn_observer_free(by_range);
    sn_observer_free(by_histogram);
}
END_TEST

static sn_status observes(sn_frame *f) {
    sn_observer_observe(sn_closure(f), sn_in(f, 0));
    return sn_out(f, 0, sn_relu(sn_in(f, 0)));
}

static sn_status asking_body(sn_frame *f) {
    sn_qparams q;
    if (sn_observer_qparams(sn_closure(f), &q) != SN_OK) return sn_check();
    return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(q.scale)));
}

/* What it has seen is the program's: a body that asks is run in each call. */
START_TEST(a_replayed_body_asks_anew) {
    sn_observer *const o = sn_observer_new(NULL);
    sn_function *const fn = sn_compile(asking_body, o, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    for (int i = 0; i < 4; i++) {
        sn_qparams q;
        sn_observer_observe(o, sn_full(SN_INTS(2), sn_float(i + 1), SN_F32));
        ck_assert_int_eq(sn_observer_qparams(o, &q), SN_OK);
        const float want = (float)q.scale;
        ck_assert_float_eq((float)sn_item(SN_CALL(fn, sn_ones(SN_INTS(1), SN_F32))), want);
    }
    sn_function_free(fn), sn_observer_free(o);
}
END_TEST

START_TEST(wrong_uses_are_named) {
    sn_qparams q;
    sn_observer *const o = sn_observer_new(NULL);
    ck_assert_int_eq(sn_observer_qparams(o, &q), SN_ERR_STATE);
    expect_error(SN_ERR_STATE, "no value yet");
    ck_assert_int_eq(sn_observer_observe(o, sn_zeros(SN_INTS(3), SN_I64)), SN_ERR_DTYPE);
    expect_error(SN_ERR_DTYPE, "i64");
    ck_assert_ptr_null(sn_observer_new(SN_OBSERVER_OPTIONS(.dtype = SN_F32)));
    expect_error(SN_ERR_DTYPE, "f32");
    ck_assert_ptr_null(sn_observer_new(SN_OBSERVER_OPTIONS(.averaging = 2)));
    expect_error(SN_ERR_ARGUMENT, "averaging 2");
    ck_assert_ptr_null(sn_observer_new(SN_OBSERVER_OPTIONS(.bins = -1)));
    expect_error(SN_ERR_ARGUMENT, "bins is -1");
    sn_function *const fn = sn_compile(observes, o, NULL);
    ck_assert_ptr_null(SN_CALL(fn, range(6)));
    expect_error(SN_ERR_STATE, "sn_observer_observe");
    sn_function_free(fn);
    sn_observer_free(o);
    sn_observer_free(NULL);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("observers");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a5_23_ranges_become_scales);
    tcase_add_test(tests, a5_23_zero_is_in_every_range);
    tcase_add_test(tests, a5_23_a_histogram_leaves_out_what_costs_least);
    tcase_add_test(tests, a5_23_a_value_far_outside_is_limited);
    tcase_add_test(tests, a_replayed_body_asks_anew);
    tcase_add_test(tests, wrong_uses_are_named);
    return suite_run("observers", tests);
}
