/* bench_stats.h: what is said of samples of one figure, and of how two variants that were sampled in turn compare. */
#ifndef SINTER_TOOL_BENCH_STATS_H
#define SINTER_TOOL_BENCH_STATS_H
#include "runtime/base/base.h"

typedef struct Timing {
    double median, min, p10, p90, p99;
    double spread; /* the middle half of the samples is so wide, as a share of the median */
    int n;
} Timing;

int bench_by_value(const void *a, const void *b); /* doubles, for qsort */
/* Sorts the samples; all 0 without one. */
Timing timing_of(double *samples, int n);

/* A median, and between which values it is with 95 % confidence whatever the samples' distribution is: by the order of
 * the samples and the binomial distribution alone (Conover, Practical Nonparametric Statistics, 3.2). Of fewer than 6
 * samples the interval is all of them, which is less than 95 %. */
typedef struct Interval {
    double median, low, high;
} Interval;
/* Of a[i] / b[i]: what hits both variants in one turn falls out. */
Interval ratio_of(const double *a, const double *b, int n);

#endif
