/* big_graph.h: text graphs of any size, for what must stay linear: passes are timed on them (`make_graph | sinter opt
 * - --times`) and their work is counted.
 *
 *   chain N    N pointwise ops, each on the one before
 *   layers N   N ops: mm, add, relu, mul and again
 *   gpt2 N     a training step of N of GPT-2's layers: forward, loss, gradients, AdamW
 *   heads N    N readers of one value, each with a scalar of its own: wide, not deep
 *
 * All but gpt2 are decomposed and functional as they are. */
#ifndef SINTER_TESTS_REF_BIG_GRAPH_H
#define SINTER_TESTS_REF_BIG_GRAPH_H
#include "runtime/base/text.h"

/* The graph's text; false: there is no such kind. */
bool big_graph(Text *text, const char *kind, int n);

#endif
