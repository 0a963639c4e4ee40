/* spans.h: ranges of addresses, sorted by where they begin, so that who shares bytes with whom is found in few steps:
 *
 *   spans_sort(spans, n);
 *   spans_overlap(spans, n)                   two of them share bytes: the second one's place in the list; -1: none do
 *   spans_find(spans, n, from, to)            which of them, which are apart, shares bytes with from..to; -1: none
 */
#ifndef SINTER_RUNTIME_BASE_SPANS_H
#define SINTER_RUNTIME_BASE_SPANS_H
#include "runtime/base/base.h"

typedef struct Span { /* from <= to, which is behind the last byte; an empty one shares nothing */
    uintptr_t from, to;
    int of; /* the caller's */
} Span;

void spans_sort(Span *spans, int n);
int spans_overlap(const Span *spans, int n);
int spans_find(const Span *spans, int n, uintptr_t from, uintptr_t to);

#endif
