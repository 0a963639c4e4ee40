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
/* Marks what the needed values need, from the last node to the first. A value that `map` has is not looked behind.
 * skip: by value id, what is left out; with it, ops with effects are needed too. NULL: neither. */
void copy_need_inputs(GraphCopy *copy, Graph *from, const bool *skip);
bool copy_needed(GraphCopy *copy, const Graph *from);
void copy_output(GraphCopy *copy, const Output *output);
bool copy_input(GraphCopy *copy, const char *name, const GVal *value);

static inline bool is_kept(const Output *output) { return output->kind == OUT_kept; }
/* The backward of a joint graph, in two steps: marks what its gradients need beside the values that `map` has; then
 * copies that. Incoming gradients and sums become inputs, the gradients made become outputs. */
void copy_need_gradients(GraphCopy *copy, Graph *joint);
bool copy_gradients(GraphCopy *copy, const Graph *joint);

#endif
