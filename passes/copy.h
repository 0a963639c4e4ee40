/* copy.h: parts of a graph in another graph: values map by their dense id, what is needed is marked
 * from the outputs back, then nodes are copied in order. */
#ifndef SINTER_PASSES_COPY_H
#define SINTER_PASSES_COPY_H
#include "passes/internal.h"

typedef struct GraphCopy {
    Graph *to;
    GVal **map;   /* by old value id */
    bool *needed; /* by old value id */
} GraphCopy;

/* An empty graph with the symbols, random numbers and runtime floats of another. */
Graph *graph_beside(const Graph *graph, Arena *arena, const char *name);
bool copy_init(GraphCopy *copy, Graph *to, const Graph *from); /* from is numbered */
void copy_need(GraphCopy *copy, const GVal *value);
/* Marks what the needed values need, from the last node to the first; what is mapped already is
 * there. With `skip` (by value id: what is left out) also what has an effect. */
void copy_need_inputs(GraphCopy *copy, Graph *from, const bool *skip);
bool copy_needed(GraphCopy *copy, const Graph *from);
void copy_output(GraphCopy *copy, const Output *output);
bool copy_input(GraphCopy *copy, const char *name, const GVal *value);

static inline bool is_kept(const Output *output) { return output->kind == OUT_kept; }
/* A backward is the part of a joint graph that makes its gradients, from values that the copy has by then: marks what
 * they need of it. */
void copy_need_gradients(GraphCopy *copy, Graph *joint);
/* Copies that, with the gradients and sums that come in as inputs and the gradients that go out as outputs. */
bool copy_gradients(GraphCopy *copy, const Graph *joint);

#endif
