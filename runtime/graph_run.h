/* graph_run.h: a tensor graph run op by op through the dispatcher: what a graph from text does when
 * it is called, and the reference that compiled graphs are compared with. */
#ifndef SINTER_RUNTIME_GRAPH_RUN_H
#define SINTER_RUNTIME_GRAPH_RUN_H
#include "ir/graph.h"
#include "runtime/dispatch.h"

/* inputs: one per graph input, of metadata that fits (symbolic sizes bind to what they meet first);
 * outs: room for graph->outputs.n, scope-owned. Writes at the graph's end are done with copy_. */
Status graph_run(Graph *graph, sn_tensor *const *inputs, int n_inputs, sn_tensor **outs);

#endif
