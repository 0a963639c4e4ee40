/* observer_histogram.c: the histogram of an observer, as torch.ao.quantization.HistogramObserver has it. When values
 * come from outside of the range, the bins are laid out anew, and what an old one held goes where its middle is.
 *
 * The search takes bins off the ends, from that side where less is lost of the total, in steps of a hundred-thousandth,
 * and stops when the squared error, integrated over the bins as if their values were spread evenly, grows. */
#include <math.h>

#include "frontend/lib/observer.h"
#include "runtime/base/alloc.h"

/* growing ------------------------------------------------------------------------------------- */

static int bin_of(double value, double min, double max, int bins) {
    const double at = max > min ? (value - min) / (max - min) * bins : 0;
    return at >= bins ? bins - 1 : at > 0 ? (int)at : 0;
}

static void rebin(Histogram *h, double *counts, double min, double max) {
    const double width = (h->max - h->min) / h->bins;
    for (int i = 0; i < h->bins; i++) counts[bin_of(h->min + (i + 0.5) * width, min, max, h->bins)] += h->counts[i];
    mem_free(h->counts);
    h->counts = counts;
}

Status histogram_add(Histogram *h, const float *values, int64_t n, double min, double max) {
    const double low = h->counts && h->min < min ? h->min : min, high = h->counts && h->max > max ? h->max : max;
    if (!h->counts || low != h->min || high != h->max) {
        double *const counts = mem_alloc((size_t)h->bins * sizeof *counts);
        if (!counts) return ST_MEMORY;
        for (int i = 0; i < h->bins; i++) counts[i] = 0;
        if (h->counts)
            rebin(h, counts, low, high);
        else
            h->counts = counts;
        h->min = low, h->max = high;
    }
    for (int64_t i = 0; i < n; i++)
        if (isfinite(values[i])) h->counts[bin_of(values[i], low, high, h->bins)]++;
    return ST_OK;
}

/* searching ----------------------------------------------------------------------------------- */

static double cube(double x) { return x * x * x; }
static double level_of(double at, double width, int levels) {
    const double level = floor(at / width);
    return level < 0 ? 0 : level > levels - 1 ? levels - 1 : level;
}

/* The integral of (x - the level's middle)^2 from begin, in one level, to end, in a later one or the same. */
static double error_of_bin(double begin, double end, double width, int levels) {
    const double first = level_of(begin, width, levels), last = level_of(end, width, levels);
    const double whole = 2 * cube(width / 2), half = cube(width / 2);
    const double head = half - cube(begin - (first + 0.5) * width), tail = cube(end - (last + 0.5) * width) + half;
    return (head + (last - first - 1) * whole + tail) / 3;
}

static double error_between(const Histogram *h, int levels, int start, int end) {
    const double bin = (h->max - h->min) / h->bins, width = bin * (end - start + 1) / levels;
    double sum = 0;
    if (width == 0) return 0;
    for (int i = 0; i < h->bins; i++)
        if (h->counts[i] > 0) {
            const double begin = (i - start) * bin;
            sum += h->counts[i] / bin * error_of_bin(begin, begin + bin, width, levels);
        }
    return sum;
}

typedef struct EndSearch {
    const double *sums; /* of counts up to each bin */
    double total, alpha, beta;
    int start, end;
} EndSearch;

/* Moves one of the ends, if at all. */
static void move_end(EndSearch *s) {
    static const double step = 1e-5;
    int left = s->start, right = s->end;
    while (left < s->end && s->sums[left] < (s->alpha + step) * s->total) left++;
    while (right > s->start && s->sums[right] > (s->beta - step) * s->total) right--;
    if (left - s->start > s->end - right)
        s->start = left, s->alpha += step;
    else
        s->end = right, s->beta -= step;
}

static void search_from(EndSearch s, const Histogram *h, int levels, int *start, int *end) {
    double least = INFINITY;
    while (s.alpha < s.beta) {
        move_end(&s);
        if (s.start == *start && s.end == *end) continue;
        const double error = error_between(h, levels, s.start, s.end);
        if (error > least) return;
        least = error;
        *start = s.start, *end = s.end;
    }
}

Status histogram_search(const Histogram *h, int levels, double *min, double *max) {
    const double bin = (h->max - h->min) / h->bins;
    double *const sums = mem_alloc((size_t)h->bins * sizeof *sums), total = 0;
    int start = 0, end = h->bins - 1;
    if (!sums) return ST_MEMORY;
    for (int i = 0; i < h->bins; i++) sums[i] = total += h->counts[i];
    search_from((EndSearch){sums, total, 0, 1, start, end}, h, levels, &start, &end);
    mem_free(sums);
    *min = h->min + bin * start;
    *max = h->min + bin * (end + 1);
    return ST_OK;
}
