/* float_limit.c: see float_limit.h. */
#include "ir/float_limit.h"

#include <math.h>

static const FloatLimit no_limit = {-INFINITY, INFINITY, true, true};

bool float_limit_holds(const FloatLimit *limit, double value) {
    if (isnan(value)) return limit->nan;
    return (value >= limit->least && value <= limit->most) || (limit->infinite && isinf(value));
}

void float_limits_add(FloatLimits *limits, int64_t i, FloatLimit limit) {
    while (limits->by.n <= i && VEC_GROW(limits->arena, &limits->by)) limits->by.at[limits->by.n++] = no_limit;
    if (i >= limits->by.n) return; /* out of memory, which is pending */
    FloatLimit *const known = &limits->by.at[i];
    if (limit.least > known->least) known->least = limit.least;
    if (limit.most < known->most) known->most = limit.most;
    known->infinite &= limit.infinite;
    known->nan &= limit.nan;
}

const FloatLimit *float_limits_find(const FloatLimits *limits, int64_t i) {
    if (i >= limits->by.n) return NULL;
    const FloatLimit *const limit = &limits->by.at[i];
    return limit->infinite && limit->nan && limit->least == -INFINITY && limit->most == INFINITY ? NULL : limit;
}
