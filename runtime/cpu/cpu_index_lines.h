/* cpu_index_lines.h: elements that go to positions given by data, line by line: what a block kernel would be called for
 * once an element. Each element's order is that of its caller (cpu_index.c) [B2.7]. */
#ifndef SINTER_RUNTIME_CPU_INDEX_LINES_H
#define SINTER_RUNTIME_CPU_INDEX_LINES_H
#include "ir/dtype.h"

/* to[i * to_step + target[i] * target_step] = or += from[i * from_step], all in elements. */
typedef struct IndexLine {
    void *to;
    const void *from;
    const int64_t *target;
    int64_t n, to_step, target_step, from_step;
} IndexLine;

typedef void IndexLineFn(IndexLine line);
/* For elements of so many bytes that are moved; of a compute type that are added. NULL: there is none. */
IndexLineFn *cpu_index_lines_move(int bytes);
IndexLineFn *cpu_index_lines_add(SType type);

#endif
