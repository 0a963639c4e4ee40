/* test_bench_stats.c: what the benchmark says of samples, by numbers that tables of statistics have. */
#include "frontend/tool/bench_stats.h"
#include "tests/unit/suite.h"

enum { MOST = 101 };

/* 1 to n, in an order that is not sorted. */
static void mixed(double *samples, int n) {
    for (int i = 0; i < n; i++) samples[i] = 1 + i * 37 % n;
}

START_TEST(percentiles_lie_between_neighbours) {
    double samples[MOST];
    mixed(samples, MOST);
    const Timing t = timing_of(samples, MOST);
    ck_assert_double_eq(t.median, 51);
    ck_assert_double_eq(t.min, 1);
    ck_assert_double_eq(t.p10, 11);
    ck_assert_double_eq(t.p90, 91);
    ck_assert_double_eq(t.p99, 100);
    ck_assert_double_eq(t.spread, 50.0 / 51);
    const Timing two = timing_of((double[]){3, 1}, 2);
    ck_assert_double_eq(two.median, 2);
    ck_assert_double_eq_tol(two.p90, 2.8, 1e-12);
    ck_assert_double_eq(timing_of((double[]){7}, 1).p99, 7);
    ck_assert_int_eq(timing_of(NULL, 0).n, 0);
}
END_TEST

/* Ranks of the 95 % interval of a median, as printed for the sign test: from rank k of n, to rank n + 1 - k. */
static const struct {
    int n, rank;
} ranks[] = {{6, 1}, {8, 1}, {9, 2}, {10, 2}, {12, 3}, {15, 4}, {20, 6}, {25, 8}, {30, 10}, {50, 18}, {100, 40}};

START_TEST(a_medians_interval_is_that_of_its_ranks) {
    double samples[MOST], ones[MOST];
    const int n = ranks[_i].n;
    for (int i = 0; i < n; i++) samples[i] = n - i, ones[i] = 1;
    const Interval interval = ratio_of(samples, ones, n);
    ck_assert_double_eq(interval.low, ranks[_i].rank);
    ck_assert_double_eq(interval.high, n + 1 - ranks[_i].rank);
    ck_assert_double_eq(interval.median, (n + 1) / 2.0);
}
END_TEST

START_TEST(of_few_samples_it_is_all_of_them) {
    const Interval interval = ratio_of((double[]){2, 8, 4}, (double[]){1, 2, 1}, 3);
    ck_assert_double_eq(interval.low, 2);
    ck_assert_double_eq(interval.high, 4);
    ck_assert_double_eq(interval.median, 4);
    ck_assert_double_eq(ratio_of(NULL, NULL, 0).median, 0);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("bench stats");
    tcase_add_test(tests, percentiles_lie_between_neighbours);
    tcase_add_loop_test(tests, a_medians_interval_is_that_of_its_ranks, 0, COUNT_OF(ranks));
    tcase_add_test(tests, of_few_samples_it_is_all_of_them);
    return suite_run("test_bench_stats", tests);
}
