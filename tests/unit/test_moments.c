/* test_moments.c: variances of values that differ little beside their mean, where the mean's own rounding is most of
 * what a second pass sums: var, std, var_mean and layer_norm against long double, compiled to eager's bits. And values
 * that do not differ, and ones whose squares overflow. */
#include "tests/unit/contract.h"

static const int64_t dims[] = {0, 2, 3};

static sn_tensor *var_of(sn_tensor *x) { return sn_var_correction(x, (sn_ints){dims, 3}); }
static sn_tensor *std_of(sn_tensor *x) { return sn_std_correction(x, (sn_ints){dims, 3}); }
static sn_tensor *var_with_mean(sn_tensor *x) {
    sn_tensor *mean;
    return sn_var_mean_correction(x, (sn_ints){dims, 3}, &mean);
}
/* How far the normalised values of a channel reach: their own reach over their deviation. Channels first, so that the
 * norm's rows are theirs. */
static sn_tensor *normal_reach(sn_tensor *x) {
    const sn_ints sizes = sn_sizes(x);
    const int64_t channels = sizes.data[1], each = sn_numel(x) / channels;
    sn_tensor *const rows = sn_reshape(sn_transpose(x, 0, 1), SN_INTS(channels, each));
    sn_tensor *const y = sn_layer_norm_ex(rows, SN_INTS(each), NULL, NULL, 0, true);
    return sn_sub(sn_amax_ex(y, SN_INTS(1), false), sn_amin_ex(y, SN_INTS(1), false));
}

typedef enum Kind { VAR, STD, REACH } Kind;
typedef struct Op {
    sn_tensor *(*run)(sn_tensor *x);
    Kind kind;
} Op;
static const Op ops[] = {{var_of, VAR}, {std_of, STD}, {var_with_mean, VAR}, {normal_reach, REACH}};

static sn_status op_body(sn_frame *f) {
    const Op *const op = sn_closure(f);
    return sn_out(f, 0, op->run(sn_in(f, 0)));
}

static sn_tensor *twice(const Op *op, sn_tensor *x) {
    Op fast = *op, eager = *op;
    const Twin twin = twin_new(op_body, &fast, &eager, NULL);
    TWIN_CALL(twin, x);
    sn_tensor *const result = TWIN_CALL(twin, x);
    twin_free(twin);
    return sn_reshape(result, SN_INTS(-1));
}

/* What the op says of one channel of [n, channels, m] values. */
static double exactly(Kind kind, const float *x, int64_t n, int64_t channels, int64_t m, int64_t channel) {
    long double mean = 0, squares = 0, low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < n * m; i++) mean += x[(i / m * channels + channel) * m + i % m];
    mean /= n * m;
    for (int64_t i = 0; i < n * m; i++) {
        const long double away = x[(i / m * channels + channel) * m + i % m] - mean;
        squares += away * away;
        low = fminl(low, away), high = fmaxl(high, away);
    }
    const long double var = squares / (kind == REACH ? n * m : n * m - 1);
    return (double)(kind == VAR ? var : kind == STD ? sqrtl(var) : (high - low) / sqrtl(var));
}

static void check(const Op *op, const int64_t *sizes, double spread) {
    const int64_t n = sizes[0], channels = sizes[1], m = sizes[2] * sizes[3];
    sn_seed(5);
    sn_tensor *const noise = sn_randn((sn_ints){sizes, 4}, SN_F32);
    sn_tensor *const x = sn_add_scalar(sn_mul_scalar(noise, sn_float(spread)), sn_int(1));
    float *const values = malloc((size_t)(n * channels * m) * sizeof *values), got[64];
    ck_assert_int_eq(sn_read(x, values, (size_t)(n * channels * m) * sizeof *values), SN_OK);
    ck_assert_int_eq(sn_read(twice(op, x), got, (size_t)channels * sizeof *got), SN_OK);
    for (int64_t c = 0; c < channels; c++) {
        const double want = exactly(op->kind, values, n, channels, m, c);
        ck_assert_msg(
            (want == 0 && got[c] == 0) || (isnan(want) && isnan(got[c])) || fabs(got[c] - want) <= 2e-6 * want,
            "spread %g, op %d, channel %d: %g, exactly %g", spread, (int)(op - ops), (int)c, (double)got[c], want);
    }
    free(values);
}

START_TEST(small_spread_beside_the_mean) {
    static const int64_t sizes[][4] = {{8, 64, 16, 16}, {2, 64, 1, 1}, {4, 3, 5, 7}};
    static const double spreads[] = {1, 1e-3, 1e-5, 1e-6};
    const sn_scope scope = sn_scope_begin();
    for (int i = 0; i < 3; i++)
        for (int s = 0; s < 4; s++) check(&ops[_i], sizes[i], spreads[s]);
    sn_scope_end(scope);
}
END_TEST

/* The correction may not lead below zero, whose root is no number. */
START_TEST(no_spread) {
    static const double values[] = {0, 1.0 / 3, 0.1, -123456.789, 1e12};
    const sn_scope scope = sn_scope_begin();
    for (int i = 0; i < 5; i++) {
        sn_tensor *const x = sn_full(SN_INTS(5, 3, 11, 13), sn_float(values[i]), SN_F32);
        float got[3];
        ck_assert_int_eq(sn_read(twice(&ops[_i], x), got, sizeof got), SN_OK);
        const double most = fabs(values[i]) * 1e-6; /* of a deviation */
        for (int c = 0; c < 3; c++)
            ck_assert_msg(got[c] >= 0 && got[c] <= fmax(most, most * most), "%g: %g", values[i], (double)got[c]);
    }
    sn_scope_end(scope);
}
END_TEST

/* A variance beyond the range is infinite, its root is not: they are computed in f64. */
START_TEST(squares_that_overflow) {
    float values[6 * 16];
    const sn_scope scope = sn_scope_begin();
    for (int i = 0; i < 6 * 16; i++) values[i] = ((float)(i % 5) - 1) * 1e30f * (1 + (float)i / 100);
    sn_tensor *const x = sn_from_data(values, SN_INTS(6, 2, 8, 1), SN_F32);
    float got[2];
    ck_assert_int_eq(sn_read(twice(&ops[_i], x), got, sizeof got), SN_OK);
    for (int c = 0; c < 2; c++) {
        const double want = exactly(ops[_i].kind, values, 6, 2, 8, c), size = fabs((double)got[c]);
        const bool right = ops[_i].kind == REACH ? got[c] == 0
                           : ops[_i].kind == VAR ? isinf(got[c])
                                                 : fabs(size - want) <= 1e-6 * want;
        ck_assert_msg(right, "%g, not %g", size, want);
    }
    sn_scope_end(scope);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("moments");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, small_spread_beside_the_mean, 0, 4);
    tcase_add_loop_test(tests, no_spread, 0, 3);
    tcase_add_loop_test(tests, squares_that_overflow, 0, 4);
    return suite_run("moments", tests);
}
