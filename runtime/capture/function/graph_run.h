/* graph_run.h: a tensor graph run op by op through the dispatcher: what a graph from text does when
 * it is called, and the reference that compiled graphs are compared with. */
#ifndef SINTER_RUNTIME_GRAPH_RUN_H
#define SINTER_RUNTIME_GRAPH_RUN_H
#include "ir/graph.h"
#include "runtime/core/dispatch.h"

/* inputs: one per graph input, of metadata that fits (symbolic sizes bind to what they meet first);
 * outs: room for graph->outputs.n, scope-owned. Writes at the graph's end are done with copy_. */
Status graph_run(Graph *graph, sn_tensor *const *inputs, int n_inputs, sn_tensor **outs);

/* A run step by step: tensors by value id; symbols and runtime floats have values already. */
typedef struct GraphRun {
    const Graph *graph;
    Arena *arena;
    sn_tensor **values;
    const int64_t *symbols;
    const double *floats;
    bool seeded; /* random ops take their numbers from `sequence` on, as in the graph's launch */
    uint64_t sequence;
} GraphRun;
int64_t graph_run_int(const GraphRun *run, int64_t v);
Arg graph_run_arg(const GraphRun *run, Arg a); /* with tensors and plain numbers */
/* Runs all nodes on the inputs that are in run->values. */
Status graph_run_nodes(const GraphRun *run);

#endif
