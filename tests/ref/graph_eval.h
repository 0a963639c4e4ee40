/* graph_eval.h: the meaning of a graph: node by node through the dispatcher, at any stage. What
 * passes produce is compared with this, bit for bit. */
#ifndef SINTER_TESTS_REF_GRAPH_EVAL_H
#define SINTER_TESTS_REF_GRAPH_EVAL_H
#include "ir/graph.h"
#include "runtime/core/dispatch.h"

/* Runs the graph on these inputs (writes change them), with symbols[i] for the i-th free symbol
 * (NULL: none). outs gets one result per output, of the innermost scope; NULL for OUT_none.
 * In-place forms write, sn::gradients walks the tape: inputs that are leaves must require
 * gradients. */
Status graph_eval(Graph *graph, sn_tensor *const *inputs, const int64_t *symbols, sn_tensor **outs);

#endif
