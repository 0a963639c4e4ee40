/* regions.h: which regions the nodes of a graph, or the ops of a trace, are in: parts of a forward that a backward
 * computes again [semantics T6]. They lie in each other, and count from 1; an outer one has the smaller number. */
#ifndef SINTER_IR_REGIONS_H
#define SINTER_IR_REGIONS_H
#include "runtime/base/arena.h"

typedef VEC(int) Regions; /* of region r, at r - 1: the one right outside of it; 0: there is none */

static inline int regions_outer(const Regions *regions, int region) { return regions->at[region - 1]; }
/* The outermost one around a region, which may be it; of none: none. */
static inline int regions_top(const Regions *regions, int region) {
    while (region && regions_outer(regions, region)) region = regions_outer(regions, region);
    return region;
}
/* The one right inside of `outer` (0: of all) that a region lies in, or is; 0: it lies elsewhere, or is `outer`. */
static inline int regions_below(const Regions *regions, int region, int outer) {
    while (region && regions_outer(regions, region) != outer) region = regions_outer(regions, region);
    return region;
}
static inline void regions_copy(Arena *arena, Regions *to, const Regions *from) {
    for (int i = 0; i < from->n; i++) VEC_PUSH(arena, to, from->at[i]);
}

#endif
