/* graph_header.h: what the header of a graph says of the calls of its function, whose body runs the graph's ops and
 * does nothing else: which sizes are symbols and what these may be, before any call was seen. So a segment is compiled
 * when it is first met, for all sizes that the header allows, and then runs (segment.c); what numbers are of the sizes
 * is learnt in that call (symbols.h), and header_plan.c of variant/ puts the header's symbols in their places. */
#ifndef SINTER_RUNTIME_GRAPH_HEADER_H
#define SINTER_RUNTIME_GRAPH_HEADER_H
#include "ir/graph.h"
#include "runtime/core/tensor.h"

typedef struct HeaderArgument { /* of a call: one is -1 */
    int tensor;                 /* the graph's input of this number, */
    int number;                 /* or its int input */
} HeaderArgument;

typedef struct GraphHeader {
    const Graph *graph; /* whose symbols all have values: graph_check_symbols */
    int n;              /* arguments of a call */
    const HeaderArgument *arguments;
    sn_tensor *const *bound; /* by input of the graph: what calls do not give; NULL: they do */
} GraphHeader;

/* What a size of an argument is by the header: a number, or an expression of its symbols. */
static inline int64_t header_size(const GraphHeader *h, int argument, int dim) {
    return h->graph->inputs.at[h->arguments[argument].tensor]->base.meta->sizes[dim];
}

#endif
