/* test_chance.c: what is drawn has the distribution that the row says: means and shares of 20,000 numbers, each within
 * five of its own deviations; compiled code draws eager's bits. */
#include <math.h>

#include "tests/unit/contract.h"

enum { DRAWN = 20000 };

static sn_tensor *many(void) { return sn_empty(SN_INTS(DRAWN), SN_F32); }

static double mean_of(sn_tensor *t) {
    double value = NAN;
    ck_assert_int_eq(sn_read(sn_mean(sn_to(t, SN_F64)), &value, sizeof value), SN_OK);
    return value;
}
/* How many of them are so. */
static double share(sn_tensor *which) { return mean_of(which); }

#define ABOUT(got, want, deviation) ck_assert_double_eq_tol(got, want, 5 * (deviation) / sqrt(DRAWN))

START_TEST(each_has_its_distribution) {
    const sn_scope scope = sn_scope_begin();
    sn_seed(5);
    ABOUT(mean_of(sn_uniform(many(), -1, 3)), 1, 4 / sqrt(12));
    sn_tensor *const normal = sn_normal(many(), 2, 3);
    ABOUT(mean_of(normal), 2, 3);
    ABOUT(mean_of(sn_square(sn_sub(normal, sn_full(SN_INTS(1), sn_float(2), SN_F32)))), 9, 9 * sqrt(2));
    ABOUT(mean_of(sn_exponential(many(), 4)), 0.25, 0.25);
    ABOUT(mean_of(sn_geometric(many(), 0.25)), 4, sqrt(12));
    ABOUT(share(sn_gt_scalar(sn_cauchy(many(), 1, 2), sn_float(3))), 0.25, 0.45);
    ABOUT(mean_of(sn_log(sn_log_normal(many(), 0.5, 2))), 0.5, 2);
    ABOUT(mean_of(sn_randint_low(-3, 5, SN_INTS(DRAWN))), 0.5, sqrt(63 / 12.0));
    ck_assert_int_eq(sn_check(), SN_OK);
    sn_scope_end(scope);
}
END_TEST

/* Of weights 1, 0, 3: the second is never drawn; at most once: the first comes first in one of four. */
START_TEST(multinomial_goes_by_weights) {
    const sn_scope scope = sn_scope_begin();
    const float weights[3] = {1, 0, 3};
    sn_seed(7);
    sn_tensor *const w = sn_from_data(weights, SN_INTS(3), SN_F32);
    sn_tensor *const again = sn_multinomial(w, DRAWN, true);
    ABOUT(share(sn_eq_scalar(again, sn_int(0))), 0.25, 0.45);
    ABOUT(share(sn_eq_scalar(again, sn_int(1))), 0, 1e-6);
    sn_tensor *const rows = sn_expand(w, SN_INTS(DRAWN, 3));
    sn_tensor *const once = sn_multinomial(rows, 2, false), *const first = sn_select(once, 1, 0);
    ABOUT(share(sn_eq_scalar(first, sn_int(0))), 0.25, 0.45);
    ABOUT(share(sn_eq_scalar(once, sn_int(1))), 0, 1e-6);
    ABOUT(mean_of(sn_sum_dim(once, SN_INTS(1), false)), 2, 1e-6); /* 0 and 2, in any order */
    ck_assert_int_eq(sn_check(), SN_OK);
    ck_assert_ptr_null(sn_multinomial(sn_zeros(SN_INTS(3), SN_F32), 1, false));
    expect_error(SN_ERR_VALUE, "not all 0");
    sn_scope_end(scope);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {each_has_its_distribution, multinomial_goes_by_weights};
    return contract_main("test_chance", tests, (int)(sizeof tests / sizeof *tests));
}
