/* graph_run.h: a tensor graph run op by op through the dispatcher: what a graph from text does when
 * it is called, and the reference that compiled graphs are compared with. In a body that is recorded its sizes and ints
 * may be expressions (runtime/core/tracer.h). */
#ifndef SINTER_RUNTIME_GRAPH_RUN_H
#define SINTER_RUNTIME_GRAPH_RUN_H
#include "ir/graph.h"
#include "runtime/core/dispatch.h"

/* What a graph is called with: tensors of the metadata that the inputs say, and the values of its int inputs, which may
 * be symbols of the function that is captured. sites: by node id, for errors and breaks (NULL: the caller's). */
typedef struct GraphInputs {
    sn_tensor *const *tensors;
    const int64_t *ints;
    const void *const *sites;
    bool any_strides; /* those of the inputs may be others: each op looks at what it is given */
} GraphInputs;
/* outs: room for graph->outputs.n, scope-owned; NULL where the graph returns None. Writes at the graph's end are done
 * with copy_. */
Status graph_run(Graph *graph, const GraphInputs *inputs, sn_tensor **outs);

/* A run step by step: tensors by value id; symbols and runtime floats have values already. */
typedef struct GraphRun {
    const Graph *graph;
    Arena *arena;
    sn_tensor **values;
    const int64_t *symbols; /* by free symbol */
    SymEnv *env;            /* that these may be expressions of; NULL: they are plain */
    const double *floats;
    const void *const *sites; /* by node id; NULL: the state's stays */
    bool seeded;              /* random ops take their numbers from `sequence` on, as in the graph's launch */
    uint64_t sequence;
    const bool *needed; /* by value id: a node runs where one of its values is; NULL: all run */
} GraphRun;
int64_t graph_run_int(const GraphRun *run, int64_t v);
Arg graph_run_arg(const GraphRun *run, Arg a); /* with tensors and plain numbers */
/* Runs the nodes on the inputs that are in run->values. */
Status graph_run_nodes(const GraphRun *run);

#endif
