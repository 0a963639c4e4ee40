/* observer.h: what observers (sinter/quant.h) are made of: a histogram that grows with what it is given, and the search
 * for the range that loses least by rounding. */
#ifndef SINTER_FRONTEND_OBSERVER_H
#define SINTER_FRONTEND_OBSERVER_H
#include <sinter/quant.h>

#include "runtime/base/error.h"

typedef struct Histogram {
    double *counts;
    int bins;
    double min, max; /* of all values; the bins divide what is between */
} Histogram;

/* Adds values between min and max. The first call makes the bins. */
Status histogram_add(Histogram *h, const float *values, int64_t n, double min, double max);
/* A part of [h->min, h->max] that `levels` ints are to stand for. */
Status histogram_search(const Histogram *h, int levels, double *min, double *max);

/* sn_observer_observe, wherever it is called. */
Status observer_add(sn_observer *o, sn_tensor *t);

#endif
