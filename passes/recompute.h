/* recompute.h: what regions (ir/regions.h) made is computed again for a backward. */
#ifndef SINTER_PASSES_RECOMPUTE_H
#define SINTER_PASSES_RECOMPUTE_H
#include "ir/graph.h"

/* The rules' nodes stand between `last` (NULL: the graph's first one is theirs) and `stop` (NULL: the end). Nodes get
 * new ids behind `last`. */
Status recompute_regions(Graph *graph, Node *last, Node *stop);

#endif
