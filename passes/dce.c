/* dce.c: dead code elimination, one traversal from the last node to the first: a node stays if a result
 * is used, if it has an effect (an in-place or out form, an answer on the host), or if it checks
 * values: eager raises an index error also where nobody reads the result [semantics C8]. A removed
 * random op keeps its sequence number: n_random stays [B6]. */
#include "passes/internal.h"

PassFn pass_dce;

static void count_down(void *context, GVal **slot) {
    if (*slot) ((int *)context)[(*slot)->id]--;
}

static bool is_used(const Node *node, const int *uses) {
    for (int i = 0; i < node->n_outs; i++)
        if (uses[node->outs[i].id]) return true;
    return false;
}

bool pass_dce(Graph *graph, const PassOptions *options) {
    graph_number(graph);
    int *const uses = graph_use_counts(graph);
    bool changed = false;
    for (Node *node = graph->last; node;) {
        Node *const previous = node->prev;
        if (node_is_pure(node) && !is_used(node, uses)) {
            node_each_input(node, count_down, uses);
            graph_remove(graph, node);
            changed = true;
        }
        node = previous;
    }
    return changed;
}
