/* spans.c: see spans.h. */
#include "runtime/base/spans.h"

#include <stdlib.h>

static int compare_spans(const void *a, const void *b) {
    const Span *const x = a, *const y = b;
    return (x->from > y->from) - (x->from < y->from);
}

/* Lists of a program are often in the order in which their memory was given out. */
static bool is_sorted(const Span *spans, int n) {
    int i = 1;
    while (i < n && spans[i - 1].from <= spans[i].from) i++;
    return i >= n;
}

void spans_sort(Span *spans, int n) {
    if (!is_sorted(spans, n)) qsort(spans, (size_t)n, sizeof *spans, compare_spans);
}

int spans_overlap(const Span *spans, int n) {
    uintptr_t reached = 0;
    for (int i = 0; i < n; i++) {
        if (spans[i].from == spans[i].to) continue;
        if (spans[i].from < reached) return i;
        reached = spans[i].to;
    }
    return -1;
}

int spans_find(const Span *spans, int n, uintptr_t from, uintptr_t to) {
    int low = 0, high = n; /* the first that begins at `to` or behind it */
    if (from == to) return -1;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (spans[middle].from < to)
            low = middle + 1;
        else
            high = middle;
    }
    while (low > 0 && spans[low - 1].from == spans[low - 1].to) low--; /* empty ones */
    return low > 0 && spans[low - 1].to > from ? low - 1 : -1;
}
