/* sink.c: what a backward computes again stands where it is first read.
 *
 *     %2 = gelu(%saved_2)                    %2 = gelu(%saved_2)
 *     %1 = gelu(%saved_1)                    rules of layer 2, which read %2
 *     rules of layer 2, which read %2   ->   %1 = gelu(%saved_1)
 *     rules of layer 1, which read %1        rules of layer 1, which read %1
 *
 * Of a backward graph (values that a forward saved, a bar, gradients) the nodes that need no incoming gradient could
 * all run first, and then all that they make is alive at once. The others are those of eager's engine, and keep its
 * order [semantics G1]: each comes right behind what it reads and nobody before it did. That is as late as can be, so
 * no more is alive than eager's tape holds at that point. Kernels run where their last node stands (order.c), so this
 * order is the one that counts. What checks values for a region that runs again has checked them in the forward: it
 * moves, too. */
#include <stdlib.h>

#include "passes/internal.h"

PassFn pass_sink;

typedef struct Sink {
    Graph *graph;
    bool *sinks; /* by node id: it stands where it is first read */
    bool *wanted;
    VEC(Node *) list; /* what the next node of the engine's reads */
} Sink;

/* Values that a forward saved stand before the bar, and no results of one. */
static bool is_backward(const Graph *graph) { return graph->n_forward_inputs && !graph->n_forward_outputs; }

static bool may_move(const Node *node) {
    if (node->again) return node->form == FORM_functional && !(node->row->flags & (OPF_host | OPF_ordered));
    return node_is_pure(node);
}

typedef struct NeedsGradient {
    const bool *table;
    bool any;
} NeedsGradient;

static void look_at_need(void *context, GVal **slot) {
    NeedsGradient *const needs = context;
    needs->any |= *slot && needs->table[(*slot)->id];
}

static bool find_sinking(Sink *s) {
    Graph *const graph = s->graph;
    bool *const needs_gradient = ARENA_ARRAY(graph->arena, bool, graph->n_vals + 1);
    s->sinks = ARENA_ARRAY(graph->arena, bool, graph->n_nodes + 1);
    s->wanted = ARENA_ARRAY(graph->arena, bool, graph->n_nodes + 1);
    if (!needs_gradient || !s->sinks || !s->wanted) return false;
    for (int i = graph->n_forward_inputs; i < graph->inputs.n; i++) needs_gradient[graph->inputs.at[i]->id] = true;
    for (Node *node = graph->first; node; node = node->next) {
        NeedsGradient needs = {needs_gradient, false};
        node_each_input(node, look_at_need, &needs);
        for (int i = 0; i < node->n_outs; i++) needs_gradient[node->outs[i].id] = needs.any;
        s->sinks[node->id] = !needs.any && may_move(node);
    }
    return true;
}

static void want(void *context, GVal **slot) {
    Sink *const s = context;
    Node *const def = *slot ? (*slot)->def : NULL;
    if (!def || !s->sinks[def->id] || s->wanted[def->id]) return;
    s->wanted[def->id] = true;
    VEC_PUSH(s->graph->arena, &s->list, def);
}

static int by_id(const void *a, const void *b) { return (*(Node *const *)a)->id - (*(Node *const *)b)->id; }

static void link_last(Graph *graph, Node *node) {
    node->prev = graph->last;
    node->next = NULL;
    *(graph->last ? &graph->last->next : &graph->first) = node;
    graph->last = node;
}

/* Behind what is there, in program order: what the list needs, and has not been placed. */
static void place_list(Sink *s) {
    for (int i = 0; i < s->list.n; i++) node_each_input(s->list.at[i], want, s);
    if (s->list.n > 1) qsort(s->list.at, (size_t)s->list.n, sizeof *s->list.at, by_id);
    for (int i = 0; i < s->list.n; i++) link_last(s->graph, s->list.at[i]);
    s->list.n = 0;
}

static void place_all(Sink *s) {
    Graph *const graph = s->graph;
    Node *node = graph->first;
    graph->first = graph->last = NULL;
    VEC(Node *) unread = {0};
    for (Node *next; node; node = next) {
        next = node->next;
        if (s->sinks[node->id]) {
            VEC_PUSH(graph->arena, &unread, node);
            continue;
        }
        node_each_input(node, want, s);
        place_list(s);
        link_last(graph, node);
    }
    for (int i = 0; i < unread.n; i++)
        if (!s->wanted[unread.at[i]->id]) link_last(graph, unread.at[i]); /* results, and what only those read */
}

static bool in_order(const Graph *graph) {
    int last = -1;
    for (const Node *node = graph->first; node; node = node->next) {
        if (node->id < last) return false;
        last = node->id;
    }
    return true;
}

bool pass_sink(Graph *graph, const PassOptions *options) {
    (void)options;
    if (!is_backward(graph)) return false;
    graph_number(graph);
    Sink sink = {.graph = graph};
    if (!find_sinking(&sink)) return false;
    place_all(&sink);
    return !in_order(graph);
}
