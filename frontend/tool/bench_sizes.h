/* bench_sizes.h: how many times as fast a graph is compiled, by the size that its symbols have: as bars of text, and as
 * an SVG picture of its own. */
#ifndef SINTER_TOOL_BENCH_SIZES_H
#define SINTER_TOOL_BENCH_SIZES_H
#include "frontend/tool/bench_stats.h"

enum { MOST_SIZES = 32 };

typedef struct SizePoint {
    int64_t size;
    Interval speedup;
    double compiled_ms;
} SizePoint;

/* "8,4k,1M": k and M are 1024 and its square. The count; 0: wrong. */
int curve_sizes(const char *text, int64_t *sizes);
void curve_print(const char *name, const SizePoint *points, int n);
/* Raises ST_IO. */
Status curve_svg(const char *path, const char *name, const SizePoint *points, int n);

#endif
