/* backend.c: the pass `back_end`: somebody else computes the graph's values (PassOptions.computes). What is handed out
 * is a copy of the graph without its ends: pure ops, whose results are the roots of what is returned or written back.
 * What stays has them as further inputs, and is only what the library keeps for itself [semantics T9]: views, copies
 * into results, write-backs, in the order that checks and aliases ask for.
 *
 *     graph(%x, %w)                      handed out: (%x, %w) -> %1        stays: graph(%x, %w, %r0)
 *       %0 = aten::mm(%x, %w)              %0 = aten::mm(%x, %w)             %0 = aten::t(%r0)
 *       %1 = aten::gelu(%0)                %1 = aten::gelu(%0)               write %x = %r0
 *       %2 = aten::t(%1)                   return %1                         return %0
 *       write %x = %1
 *       return %2                                                                                                   */
#include <stdio.h>

#include "passes/copy.h"
#include "runtime/base/error.h"

PassFn pass_back_end;

typedef struct ComputedRoots {
    GVal **at;
    int n;
    bool *known; /* by value id */
} ComputedRoots;

static void add_result(ComputedRoots *roots, const GVal *value) {
    GVal *const root = value ? view_root(value) : NULL;
    if (!root || !root->def || roots->known[root->id]) return;
    roots->known[root->id] = true;
    roots->at[roots->n++] = root;
}

static bool find_roots(const Graph *graph, ComputedRoots *roots) {
    const int n = graph->outputs.n + graph->writes.n;
    *roots = (ComputedRoots){.at = ARENA_ARRAY(graph->arena, GVal *, n + 1),
                             .known = ARENA_ARRAY(graph->arena, bool, graph->n_vals + 1)};
    if (!roots->at || !roots->known) return false;
    for (int i = 0; i < graph->outputs.n; i++) add_result(roots, graph->outputs.at[i].value);
    for (int i = 0; i < graph->writes.n; i++) add_result(roots, graph->writes.at[i].value);
    return true;
}

/* What is no function of the inputs' values, or not to be said to who gets a graph of tensors. */
static Status check_given(const Graph *graph) {
    if (graph->n_random) return error_raise(ST_UNSUPPORTED, "random ops, which a backend is not given");
    if (graph->runtime_floats.n) return error_raise(ST_UNSUPPORTED, "numbers that vary, which a backend is not given");
    for (const Node *node = graph->first; node; node = node->next)
        if (node->row->flags & (OPF_ordered | OPF_host))
            return error_raise(ST_UNSUPPORTED, "%s, which a backend is not given", node->row->name);
    return ST_OK;
}

/* With the ops that check values, also where nobody reads their results. */
static Graph *copy_given(Graph *graph, const ComputedRoots *roots) {
    Graph *const given = graph_beside(graph, graph->arena, graph->name);
    const bool *const skip = ARENA_ARRAY(graph->arena, bool, graph->n_vals + 1);
    GraphCopy copy;
    if (!given || !skip || !copy_init(&copy, given, graph)) return NULL;
    for (int i = 0; i < graph->inputs.n; i++)
        if (!copy_input(&copy, graph->inputs.at[i]->name, graph->inputs.at[i])) return NULL;
    for (int i = 0; i < roots->n; i++) copy_need(&copy, roots->at[i]);
    copy_need_inputs(&copy, graph, skip);
    if (!copy_needed(&copy, graph)) return NULL;
    for (int i = 0; i < roots->n; i++) graph_output(given, copy.map[roots->at[i]->id]);
    graph_number(given);
    return given;
}

static bool put_inputs(Graph *graph, const ComputedRoots *roots) {
    for (int i = 0; i < roots->n; i++) {
        const char *const name = arena_printf(graph->arena, "result%d", i);
        GVal *const input = name ? graph_input(graph, name, roots->at[i]->base.meta) : NULL;
        if (!input) return false;
        graph_replace(graph, roots->at[i], input);
    }
    return true;
}

static void need_value(void *context, GVal **slot) {
    if (*slot) ((bool *)context)[(*slot)->id] = true;
}

/* What no end comes from goes, checks too: they are the other's now. */
static void keep_ends(Graph *graph, bool *needed) {
    for (int i = 0; i < graph->outputs.n; i++) need_value(needed, &graph->outputs.at[i].value);
    for (int i = 0; i < graph->writes.n; i++) need_value(needed, &graph->writes.at[i].value);
    for (Node *node = graph->last; node;) {
        Node *const previous = node->prev;
        bool stays = false;
        for (int i = 0; i < node->n_outs; i++) stays |= needed[node->outs[i].id];
        if (stays)
            node_each_input(node, need_value, needed);
        else
            graph_remove(graph, node);
        node = previous;
    }
}

bool pass_back_end(Graph *graph, const PassOptions *options) {
    if (!options->computes) return false;
    ComputedRoots roots;
    graph_number(graph);
    if (!find_roots(graph, &roots) || !roots.n || check_given(graph) != ST_OK) return false;
    Graph *const given = copy_given(graph, &roots);
    const int n_in = graph->inputs.n;
    const struct BackendCode *const code = given ? options->computes(options->computes_context, given) : NULL;
    PlanFront *const front = code ? ARENA_NEW(graph->arena, PlanFront) : NULL;
    if (!front || !put_inputs(graph, &roots)) return false;
    *front = (PlanFront){.n_in = n_in, .code = code};
    graph->front = front;
    graph_number(graph);
    bool *const needed = ARENA_ARRAY(graph->arena, bool, graph->n_vals + 1);
    if (!needed) return false;
    keep_ends(graph, needed);
    own_outputs_and_views(graph);
    return true;
}
