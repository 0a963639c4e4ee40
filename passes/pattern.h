/* pattern.h: places in a graph that compute what a small graph does, and another one put there.
 *
 *   pattern      graph p(%x: f32[s0,s1], %w: f32[s1,s2]) { %0 = aten::mm(%x, %w)  %1 = aten::relu(%0)  return %1 }
 *   graph        %4 = aten::mm(%a, %b)   %5 = aten::relu(%4)          found: x = %a, w = %b, %0 = %4, %1 = %5
 *
 * A pattern's inputs stand for any value of their dtype and rank; of their sizes numbers are meant, and a symbol is
 * the same number wherever it stands, in numbers of ops, too. Strides are meant where they are not row-major. Results
 * that the pattern does not return are used by nothing else. */
#ifndef SINTER_PASSES_PATTERN_H
#define SINTER_PASSES_PATTERN_H
#include "passes/passes.h"

typedef struct Pattern {
    Graph *graph;    /* whose nodes all lead to the last one */
    const int *uses; /* by its value id */
} Pattern;

/* What was found: tables by the pattern's ids, in its arena. */
typedef struct Match {
    const Pattern *pattern;
    GVal **values; /* inputs and results */
    Node **nodes;
    int64_t *symbols; /* by free symbol, as values of the graph's */
    bool *bound;
} Match;

/* Raises ST_ARGUMENT, in the name of `what`, for a graph that is no pattern. The graph is the caller's. */
Status pattern_of(Graph *graph, const char *what, Pattern *out);
/* Whether the graph, which is numbered, has the pattern's last op at `last`. uses: of the graph (graph_use_counts).
 * Raises where memory is out. */
bool pattern_matches(const Pattern *pattern, Graph *graph, const int *uses, Node *last, Match *out);
/* The same inputs, in kind, and as many results. Raises ST_ARGUMENT. */
Status pattern_check_replacement(const Pattern *pattern, const Graph *replacement, const char *what);
/* Puts the ops of `replacement` where the match's last one stands, and takes those of the match out. The graph has to
 * be numbered again. Raises ST_SHAPE where a result is not what the match gave; then the graph is as it was. */
Status pattern_replace(const Match *match, Graph *graph, Graph *replacement, const char *what);

#endif
