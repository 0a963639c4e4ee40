/* bench_sizes.c: see bench_sizes.h. The picture has sizes on a logarithmic axis; a bar is the 95 % interval. */
#include "frontend/tool/bench_sizes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "frontend/api/svg.h"

int curve_sizes(const char *text, int64_t *sizes) {
    int n = 0;
    for (const char *at = text; n < MOST_SIZES; n++) {
        char *end;
        const long long size = strtoll(at, &end, 10);
        const int shift = *end == 'k' ? 10 : *end == 'M' ? 20 : 0;
        if (at[0] < '1' || at[0] > '9' || size > INT64_C(1) << (40 - shift)) return 0;
        sizes[n] = size << shift;
        end += shift != 0;
        if (!*end) return n + 1;
        if (*end != ',') return 0;
        at = end + 1;
    }
    return 0;
}

/* Of the medians: one bad moment of a busy machine makes an interval many times as wide. */
static double most_of(const SizePoint *points, int n) {
    double most = 1;
    for (int i = 0; i < n; i++) most = points[i].speedup.median > most ? points[i].speedup.median : most;
    return most;
}

void curve_print(const char *name, const SizePoint *points, int n) {
    enum { WIDTH = 50 };
    const double most = most_of(points, n);
    printf("%s: times as fast as eager, by size\n", name);
    for (int i = 0; i < n; i++) {
        const SizePoint *const p = &points[i];
        printf("%10lld |", (long long)p->size);
        const int bar = (int)(p->speedup.median / most * WIDTH + 0.5);
        for (int c = 0; c < WIDTH; c++) putchar(c < bar ? '#' : ' ');
        printf(" %.2f (%.2f to %.2f)  %.4g ms\n", p->speedup.median, p->speedup.low, p->speedup.high, p->compiled_ms);
    }
}

/* The picture --------------------------------------------------------------------------------- */

enum { LEFT = 60, RIGHT = 620, TOP = 40, BOTTOM = 360 };

typedef struct SizeAxes {
    double first, last, most; /* logarithms of sizes; times as fast */
} SizeAxes;

static double x_of(const SizeAxes *axes, int64_t size) {
    const double share =
        axes->last > axes->first ? (log2((double)size) - axes->first) / (axes->last - axes->first) : 0.5;
    return LEFT + share * (RIGHT - LEFT);
}

/* What is above the picture is at its upper edge. */
static double y_of(const SizeAxes *axes, double times) { return BOTTOM - fmin(times / axes->most, 1) * (BOTTOM - TOP); }

static void print_axes(Text *svg, const SizeAxes *axes, const SizePoint *points, int n) {
    for (int i = 0; i <= 4; i++) {
        const double times = axes->most * i / 4, y = y_of(axes, times);
        text_printf(svg, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", LEFT, y, RIGHT, y);
        text_printf(svg, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.2g</text>\n", LEFT - 8, y + 4, times);
    }
    for (int i = 0; i < n; i++)
        text_printf(svg, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%lld</text>\n", x_of(axes, points[i].size),
                    BOTTOM + 20, (long long)points[i].size);
    const double one = y_of(axes, 1);
    text_printf(svg, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#888\" stroke-dasharray=\"4\"/>\n",
                LEFT, one, RIGHT, one);
}

static void print_points(Text *svg, const SizeAxes *axes, const SizePoint *points, int n) {
    text_puts(svg, "<polyline fill=\"none\" stroke=\"#06c\" points=\"");
    for (int i = 0; i < n; i++)
        text_printf(svg, "%s%.1f,%.1f", i ? " " : "", x_of(axes, points[i].size), y_of(axes, points[i].speedup.median));
    text_puts(svg, "\"/>\n");
    for (int i = 0; i < n; i++) {
        const Interval *const s = &points[i].speedup;
        const double x = x_of(axes, points[i].size);
        text_printf(svg, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#06c\"/>\n", x,
                    y_of(axes, s->low), x, y_of(axes, s->high));
        text_printf(svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#06c\"><title>%lld: %.2f</title></circle>\n",
                    x, y_of(axes, s->median), (long long)points[i].size, s->median);
    }
}

Status curve_svg(const char *path, const char *name, const SizePoint *points, int n) {
    SizeAxes axes = {.first = INFINITY, .last = -INFINITY, .most = most_of(points, n) * 1.5};
    for (int i = 0; i < n; i++) {
        axes.first = fmin(axes.first, log2((double)points[i].size));
        axes.last = fmax(axes.last, log2((double)points[i].size));
    }
    Text svg = {0};
    svg_begin(&svg, RIGHT + 40, BOTTOM + 40);
    text_printf(&svg, "<text x=\"%d\" y=\"24\">", LEFT);
    svg_words(&svg, name);
    text_puts(&svg, ": times as fast as eager, by size</text>\n");
    print_axes(&svg, &axes, points, n);
    print_points(&svg, &axes, points, n);
    text_puts(&svg, "</svg>\n");
    return svg_write(path, &svg);
}
