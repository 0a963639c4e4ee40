/* test_range_ends.c: rows made of elementary functions at both ends of the range: activations, their gradients and the
 * gradients of those have their limits and are no NaN; results that are small stay as small as they are; what is finite
 * is no infinity because a square, a sum or a quotient on the way is one [B9]. */
#include "runtime/base/base.h"
#include "tests/unit/contract.h"

typedef sn_tensor *ActivationFn(sn_tensor *x);
static sn_tensor *gelu_tanh(sn_tensor *x) { return sn_gelu_ex(x, "tanh"); }
static sn_tensor *softplus_far(sn_tensor *x) { return sn_softplus_ex(x, sn_int(1), sn_float(1e30)); }

typedef struct Activation {
    const char *name;
    ActivationFn *make;
    double high, low;             /* value / x (or the value, where that is flat) at the ends */
    double slope_high, slope_low; /* of the gradient there */
    bool flat;
} Activation;
static const Activation activations[] = {
    {"gelu", sn_gelu, 1, 0, 1, 0},
    {"gelu tanh", gelu_tanh, 1, 0, 1, 0},
    {"silu", sn_silu, 1, 0, 1, 0},
    {"mish", sn_mish, 1, 0, 1, 0},
    {"softplus", sn_softplus, 1, 0, 1, 0},
    {"softplus without threshold", softplus_far, 1, 0, 1, 0},
    {"log_sigmoid", sn_log_sigmoid, 0, 1, 0, 1},
    {"elu", sn_elu, 1, 0, 1, 0},
    {"hardswish", sn_hardswish, 1, 0, 1, 0},
    {"sigmoid", sn_sigmoid, 1, 0, 0, 0, true},
    {"tanh", sn_tanh, 1, -1, 0, 0, true},
};

static float item_of(sn_tensor *t) {
    float value = NAN;
    ck_assert_int_eq(sn_read(t, &value, sizeof value), SN_OK);
    return value;
}

static void expect_near(const char *name, const char *what, double x, double got, double want) {
    ck_assert_msg(fabs(got - want) <= 1e-6 * fabs(want), "%s of %s at %g is %.9g, not %.9g", what, name, x, got, want);
}

static void expect_ends(const Activation *a, float x) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const leaf = sn_requires_grad_(sn_from_data(&x, SN_INTS(1), SN_F32), true);
    sn_tensor *const y = a->make(leaf), *slope, *bend;
    const sn_tensors of_y = {&y, 1}, of_x = {&leaf, 1}, none = {0};
    ck_assert_int_eq(sn_gradients(of_y, of_x, none, SN_CREATE_GRAPH, &slope), SN_OK);
    const double end = x > 0 ? a->high : a->low, size = fabs((double)x);
    const double value = (double)item_of(y);
    if (a->flat)
        expect_near(a->name, "the value", (double)x, value, end);
    else
        ck_assert_msg(fabs(value - end * (double)x) <= 1e-6 * size, "%s(%g) is %g", a->name, (double)x, value);
    expect_near(a->name, "the gradient", (double)x, (double)item_of(slope), x > 0 ? a->slope_high : a->slope_low);
    const sn_tensors of_slope = {&slope, 1};
    ck_assert_int_eq(sn_gradients(of_slope, of_x, none, SN_ALLOW_UNUSED, &bend), SN_OK);
    if (bend) expect_near(a->name, "the second gradient", (double)x, (double)item_of(bend), 0);
    sn_scope_end(scope);
}

START_TEST(activations_have_their_limits) {
    static const float sizes[] = {200, 1e4f, 1e10f, 1e18f, 1e20f, 1e30f, 1e38f};
    for (int i = 0; i < COUNT_OF(sizes); i++) {
        expect_ends(&activations[_i], sizes[i]);
        if (strcmp(activations[_i].name, "elu"))
            expect_ends(&activations[_i], -sizes[i]); /* -1, beside x: not this way */
    }
}
END_TEST

static double exact_silu(double x) { return x / (1 + exp(-x)); }
static double exact_mish(double x) { return x * tanh(log1p(exp(x))); }
static double exact_softplus(double x) { return log1p(exp(x)); }
static double exact_log_sigmoid(double x) { return -log1p(exp(-x)); }
static double exact_sigmoid(double x) { return 1 / (1 + exp(-x)); }

typedef struct Small {
    const char *name;
    ActivationFn *make;
    double (*exact)(double);
    double sign; /* of the arguments */
} Small;
static const Small smalls[] = {
    {"silu", sn_silu, exact_silu, -1},
    {"mish", sn_mish, exact_mish, -1},
    {"softplus", sn_softplus, exact_softplus, -1},
    {"log_sigmoid", sn_log_sigmoid, exact_log_sigmoid, 1},
    {"sigmoid", sn_sigmoid, exact_sigmoid, -1},
};

/* Down to the last denormals, of which two may be between. */
START_TEST(small_results_keep_their_size) {
    static const float sizes[] = {5, 20, 60, 80, 86, 88, 89, 95, 100, 103};
    const Small *const row = &smalls[_i];
    for (int i = 0; i < COUNT_OF(sizes); i++) {
        const sn_scope scope = sn_scope_begin();
        const float x = (float)row->sign * sizes[i];
        const double got = (double)item_of(row->make(sn_from_data(&x, SN_INTS(1), SN_F32)));
        const double want = row->exact((double)x), allowed = 1e-6 * fabs(want) + 2 * 0x1p-149 * (1 + fabs((double)x));
        ck_assert_msg(fabs(got - want) <= allowed, "%s(%g) is %g, not %g", row->name, (double)x, got, want);
        sn_scope_end(scope);
    }
}
END_TEST

/* The middle of a row as f64 gives it. */
START_TEST(spreads_of_large_numbers_are_finite) {
    static const float wide[] = {1e20f, -1e20f, 3e20f}, same[] = {1e38f, 1e38f, 1e38f, 1e38f};
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const x = sn_from_data(wide, SN_INTS(3), SN_F32), *const constant =
                                                                     sn_from_data(same, SN_INTS(4), SN_F32);
    expect_near("std", "the value", 1e20, (double)item_of(sn_std(x)), 2e20);
    expect_near("var", "the value", 1e38, (double)item_of(sn_var(constant)), 0);
    expect_near("std", "the value", 1e38, (double)item_of(sn_std(constant)), 0);
    sn_scope_end(scope);
}
END_TEST

START_TEST(quotients_beyond_the_range_round_down_to_infinity) {
    static const float above[] = {1, -1, 1e30f, -1e30f, 7}, below[] = {1e-40f, 1e-40f, 1e-20f, 1e-20f, 2};
    static const float want[] = {HUGE_VALF, -HUGE_VALF, HUGE_VALF, -HUGE_VALF, 3};
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const a = sn_from_data(above, SN_INTS(5), SN_F32), *const b = sn_from_data(below, SN_INTS(5), SN_F32);
    ck_assert(same_bits(sn_div_mode(a, b, "floor"), sn_from_data(want, SN_INTS(5), SN_F32)));
    sn_scope_end(scope);
}
END_TEST

/* Orders that f32 has no number for, in PyTorch's way: as infinity or 0, but in the comparisons with those. */
typedef struct FarOrder {
    double order;
    float of_many, of_half; /* the norms of 0.5, -2, 3 and of 0.5 alone */
} FarOrder;
static const FarOrder far_orders[] = {
    {1e39, 1, 0.5f},         {-1e39, 1, 0.5f},         {1e300, 1, 0.5f},
    {3.4028236e38, 1, 0.5f}, {1e-46, HUGE_VALF, 0.5f}, {-1e-46, 0, 0.5f},
};

static sn_tensor *norm_of(sn_tensor *x, double order) {
    return sn_to(sn_linalg_vector_norm(x, sn_float(order), (sn_ints){0}, false), SN_F32);
}

START_TEST(orders_beyond_f32_are_pytorchs) {
    static const float all[] = {0.5f, -2, 3}, nans[] = {NAN, 1}, zeros[] = {0, 0};
    const FarOrder *const row = &far_orders[_i];
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const x = sn_from_data(all, SN_INTS(3), SN_F32), *const half = sn_slice(x, 0, 0, 1, 1);
    for (int k = 0; k < 3; k++) {
        const sn_dtype dtype = (sn_dtype[]){SN_F32, SN_F16, SN_BF16}[k];
        ck_assert_float_eq(item_of(norm_of(sn_to(x, dtype), row->order)), row->of_many);
        ck_assert_float_eq(item_of(norm_of(sn_to(half, dtype), row->order)), row->of_half);
    }
    ck_assert_float_eq(item_of(norm_of(sn_to(half, SN_F64), row->order)), row->of_half);
    if (row->order > 0) ck_assert_float_eq(item_of(norm_of(sn_slice(x, 0, 0, 0, 1), row->order)), 0);
    if (fabs(row->order) > 3.41e38) {
        ck_assert_float_eq(item_of(norm_of(sn_from_data(nans, SN_INTS(2), SN_F32), row->order)), 1);
        ck_assert_float_eq(item_of(norm_of(sn_from_data(zeros, SN_INTS(2), SN_F32), row->order)), 1);
        ck_assert_float_ne(item_of(norm_of(sn_to(x, SN_F64), row->order)), 1);
    }
    sn_scope_end(scope);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("range_ends");
    tcase_add_loop_test(tests, activations_have_their_limits, 0, COUNT_OF(activations));
    tcase_add_loop_test(tests, small_results_keep_their_size, 0, COUNT_OF(smalls));
    tcase_add_test(tests, spreads_of_large_numbers_are_finite);
    tcase_add_test(tests, quotients_beyond_the_range_round_down_to_infinity);
    tcase_add_loop_test(tests, orders_beyond_f32_are_pytorchs, 0, COUNT_OF(far_orders));
    return suite_run("range_ends", tests);
}
