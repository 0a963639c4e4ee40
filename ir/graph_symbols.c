/* graph_symbols.c: where the symbols of a graph get their values: from the inputs' sizes that are one symbol alone,
 * from ints, and the random ones from the generator. A graph that mentions another one can't be called. */
#include "ir/graph.h"
#include "runtime/base/error.h"

typedef struct Binding {
    const Graph *graph;
    bool *bound; /* by free symbol */
    int missing; /* a symbol that was asked for and is not bound; -1: none */
} Binding;

static void mark_bound(Binding *b, int64_t v) {
    if (sym_is(v) && sym_expr(b->graph->env, v)->op == SYM_free) b->bound[sym_expr(b->graph->env, v)->a] = true;
}

static void ask(Binding *b, int64_t v) {
    if (!sym_is(v) || b->missing >= 0) return;
    const SymExpr *const e = sym_expr(b->graph->env, v);
    if (e->op == SYM_free) {
        if (!b->bound[e->a]) b->missing = (int)e->a;
        return;
    }
    ask(b, e->a);
    ask(b, e->b);
}

static void ask_list(Binding *b, const int64_t *list, int n) {
    for (int i = 0; i < n; i++) ask(b, list[i]);
}

static void ask_meta(Binding *b, const Meta *meta) {
    ask_list(b, meta->sizes, meta->rank);
    ask_list(b, meta->strides, meta->rank);
}

static void ask_node(Binding *b, const Node *node) {
    for (int i = 0; i < node->n_args; i++) {
        const Arg *const arg = &node->args[i];
        if (arg->kind == ARG_int) ask(b, arg->i);
        if (arg->kind == ARG_ints) ask_list(b, arg->ints, arg->n);
    }
    for (int i = 0; i < node->n_outs; i++) ask_meta(b, node->outs[i].base.meta);
}

static void mark_all_bound(Binding *b) {
    const Graph *const graph = b->graph;
    mark_bound(b, graph->seed);
    mark_bound(b, graph->sequence);
    for (int i = 0; i < graph->int_inputs.n; i++) mark_bound(b, graph->int_inputs.at[i].symbol);
    for (int i = 0; i < graph->inputs.n; i++) {
        const Meta *const meta = graph->inputs.at[i]->base.meta;
        for (int d = 0; d < meta->rank; d++) mark_bound(b, meta->sizes[d]);
    }
}

/* The first symbol that has no value, -1: there is none; *who mentions it. */
static int first_missing(Graph *graph, const char **who, Status *status) {
    Binding b = {graph, ARENA_ARRAY(graph->arena, bool, sym_free_count(graph->env) + 1), -1};
    *status = b.bound ? ST_OK : ST_MEMORY;
    if (!b.bound) return -1;
    mark_all_bound(&b);
    for (int i = 0; i < graph->inputs.n && b.missing < 0; i++) {
        *who = graph->inputs.at[i]->name;
        ask_meta(&b, graph->inputs.at[i]->base.meta);
    }
    for (const Node *node = graph->first; node && b.missing < 0; node = node->next) {
        *who = op_form_name(node->row, node->form);
        ask_node(&b, node);
    }
    return b.missing;
}

Status graph_check_symbols(Graph *graph) {
    const char *who;
    Status status;
    const int missing = first_missing(graph, &who, &status);
    if (missing < 0) return status;
    return error_raise(ST_ARGUMENT, "graph %s: %s has s%d, which is no input's size by itself and no int input",
                       graph->name, who, missing);
}

Status graph_assign_symbols(Graph *graph) {
    const char *who;
    Status status;
    for (int missing; (missing = first_missing(graph, &who, &status)) >= 0;)
        graph_int_input(graph, sym_free_at(graph->env, missing));
    return status;
}
