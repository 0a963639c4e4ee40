/* bench_stats.c: see bench_stats.h. */
#include "frontend/tool/bench_stats.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/base/alloc.h"

int bench_by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Between neighbours where it falls between them. */
static double percentile(const double *sorted, int n, double share) {
    const double at = share * (n - 1);
    const int i = (int)at;
    return i + 1 < n ? sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

Timing timing_of(double *samples, int n) {
    if (!n) return (Timing){0};
    qsort(samples, (size_t)n, sizeof *samples, bench_by_value);
    const double median = percentile(samples, n, 0.5);
    const double half = percentile(samples, n, 0.75) - percentile(samples, n, 0.25);
    return (Timing){.median = median,
                    .min = samples[0],
                    .p10 = percentile(samples, n, 0.1),
                    .p90 = percentile(samples, n, 0.9),
                    .p99 = percentile(samples, n, 0.99),
                    .spread = median > 0 ? half / median : 0,
                    .n = n};
}

/* So many samples at each end may lie beyond the median by chance 2.5 times in 100: the binomial's quantile. */
static int tail_of(int n) {
    double chance = pow(0.5, n), sum = 0;
    int k = 0;
    for (; k < n / 2; k++) {
        sum += chance;
        if (sum > 0.025) break;
        chance *= (double)(n - k) / (k + 1);
    }
    return k;
}

Interval ratio_of(const double *a, const double *b, int n) {
    double *const ratios = mem_alloc(sizeof *ratios * (size_t)(n ? n : 1));
    Interval interval = {0};
    if (ratios && n) {
        for (int i = 0; i < n; i++) ratios[i] = a[i] / b[i];
        qsort(ratios, (size_t)n, sizeof *ratios, bench_by_value);
        const int tail = tail_of(n), low = tail ? tail - 1 : 0;
        interval = (Interval){percentile(ratios, n, 0.5), ratios[low], ratios[n - 1 - low]};
    }
    mem_free(ratios);
    return interval;
}
