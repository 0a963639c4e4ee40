/* flow.h: minimum cut of a small directed graph (Dinic), for the partitioner. Vertices are 0..n-1. */
#ifndef SINTER_PASSES_FLOW_H
#define SINTER_PASSES_FLOW_H
#include "runtime/base/arena.h"

typedef struct Flow Flow;
#define FLOW_MANY (INT64_C(1) << 60) /* the capacity of an edge that is never cut */

Flow *flow_new(Arena *arena, int n_vertices);
void flow_edge(Flow *flow, int from, int to, int64_t capacity);
/* True by vertex for the source's side of a minimum cut: the one nearest to the sink. NULL raised. */
const bool *flow_cut(Flow *flow, int source, int sink);

#endif
