/* api_graph.c: the public functions of <sinter/graph.h>: graphs as objects and text.
 *
 * sn_node is a handle: an input or an op node; handles are made once per graph and found again by
 * identity. */
#include <sinter/graph.h>
#include <stdio.h>

#include "frontend/ops_call.h"
#include "frontend/options.h"
#include "passes/passes.h"
#include "runtime/base/alloc.h"
#include "runtime/core/frame.h"
#include "runtime/capture/function/function.h"
#include "runtime/capture/record/graph_run.h"
#include "runtime/capture/record/site.h"

struct sn_node {
    sn_graph *graph;
    Node *node;  /* NULL: an input */
    GVal *input; /* NULL: an op */
};

struct sn_graph {
    Arena *arena;
    Graph *graph;
    VEC(sn_node *) handles;
    /* compiled: */
    const void *const *sites; /* by node id */
    bool returns_none;        /* some output is None */
};

static sn_graph *wrap_graph(Arena *arena, Graph *graph) {
    sn_graph *const g = ARENA_NEW(arena, sn_graph);
    if (!g) return NULL;
    g->arena = arena;
    g->graph = graph;
    graph_number(graph);
    return g;
}

sn_graph *sn_graph_parse(const char *text, size_t length) {
    if (error_pending()) return NULL;
    if (!text) {
        error_raise(ST_ARGUMENT, "sn_graph_parse: text is NULL");
        return NULL;
    }
    Arena *const arena = arena_new();
    Graph *graph;
    if (arena && graph_parse(arena, text, length, &graph) == ST_OK) {
        sn_graph *const g = wrap_graph(arena, graph);
        if (g) return g;
    }
    arena_free(arena);
    return NULL;
}

void sn_graph_free(sn_graph *g) {
    if (g) arena_free(g->arena);
}

sn_graph *sn_graph_capture(sn_function *fn, const sn_value *in, int n_in) {
    if (!fn) {
        error_raise(ST_ARGUMENT, "sn_graph_capture: the function is NULL");
        return NULL;
    }
    if (n_in < 0 || (n_in && !in)) {
        error_raise(ST_ARGUMENT, "sn_graph_capture: the list of %d inputs is %s", n_in, n_in < 0 ? "none" : "NULL");
        return NULL;
    }
    Arena *const arena = arena_new();
    if (!arena) return NULL;
    Graph *graph;
    const sn_scope scope = sn_scope_begin();
    const Status status = function_capture(fn, (const Arg *)(const void *)in, n_in, arena, &graph);
    sn_scope_end(scope);
    sn_graph *const g = status == ST_OK ? wrap_graph(arena, graph) : NULL;
    if (!g) arena_free(arena);
    return g;
}

/* A compiled graph is a compiled function whose body runs the graph's ops. -------------------- */

typedef struct GraphCall {
    sn_tensor **tensors, **outs;
    int64_t *ints;
} GraphCall;

/* The call's arguments: tensors and ints in the order of the header. */
static Status take_inputs(sn_frame *f, const Graph *graph, const GraphCall *call) {
    const int n = graph->inputs.n + graph->int_inputs.n;
    if (sn_in_count(f) != n)
        return error_raise(ST_ARGUMENT, "graph %s: %d inputs wanted, %d given", graph->name, n, sn_in_count(f));
    for (int i = 0, k = 0; i + k < n;) {
        if (k < graph->int_inputs.n && graph->int_inputs.at[k].before == i) {
            call->ints[k] = sn_sym_arg(sn_in_sym(f, i + k));
            k++;
        } else {
            if (!(call->tensors[i] = sn_in(f, i + k))) return error_pending();
            i++;
        }
    }
    return error_pending();
}

static Status run_graph(sn_frame *f, sn_graph *g, const GraphCall *call) {
    TRY(take_inputs(f, g->graph, call));
    const GraphInputs inputs = {call->tensors, call->ints, g->sites};
    TRY(graph_run(g->graph, &inputs, call->outs));
    for (int i = 0; i < g->graph->outputs.n; i++)
        if (call->outs[i]) sn_out(f, i, call->outs[i]);
    return error_pending();
}

static sn_status body_of_graph(sn_frame *f) {
    sn_graph *const g = sn_closure(f);
    Arena *const arena = arena_new();
    const GraphCall call = {arena ? ARENA_ARRAY(arena, sn_tensor *, g->graph->inputs.n + 1) : NULL,
                            arena ? ARENA_ARRAY(arena, sn_tensor *, g->graph->outputs.n + 1) : NULL,
                            arena ? ARENA_ARRAY(arena, int64_t, g->graph->int_inputs.n + 1) : NULL};
    f->outs_optional |= g->returns_none;
    const Status status = call.tensors && call.outs && call.ints ? run_graph(f, g, &call) : ST_MEMORY;
    arena_free(arena);
    return (sn_status)status;
}

/* Where an error or a break in the graph is said to be: what the text says, or its line. */
static Status name_sites(sn_graph *g) {
    char place[300];
    const void **const sites = ARENA_ARRAY(g->arena, const void *, g->graph->n_nodes + 1);
    if (!sites) return ST_MEMORY;
    for (const Node *node = g->graph->first; node; node = node->next) {
        snprintf(place, sizeof place, node->where ? "%s" : "%s:%d", node->where ? node->where : g->graph->name,
                 node->line);
        sites[node->id] = site_of_text(place);
    }
    g->sites = sites;
    return ST_OK;
}

/* The copy was printed and read again: its lines are those of the text that the user wrote. */
static void take_lines(Graph *copy, const Graph *from) {
    const Node *old = from->first;
    for (Node *node = copy->first; node && old; node = node->next, old = old->next) node->line = old->line;
}

/* What can be said before any call. */
static Status prepare_graph(sn_graph *g, const Graph *from) {
    take_lines(g->graph, from);
    TRY(graph_verify(g->graph, STAGE_capture));
    TRY(graph_check_symbols(g->graph));
    for (int i = 0; i < g->graph->outputs.n; i++) g->returns_none |= !g->graph->outputs.at[i].value;
    return name_sites(g);
}

static void free_closure(void *closure, void *context) {
    (void)context;
    sn_graph_free(closure);
}

sn_function *sn_graph_compile(sn_graph *g, const sn_compile_options *options) {
    if (!g) {
        error_raise(ST_ARGUMENT, "sn_graph_compile: the graph is NULL");
        return NULL;
    }
    sn_compile_options mine = {0};
    if (options_take(&mine, sizeof mine, options, "sn_graph_compile") != ST_OK) return NULL;
    Text text = {0};
    graph_print(g->graph, &text);
    sn_graph *const copy = sn_graph_parse(text_str(&text), text.n);
    text_free(&text);
    if (!copy) return NULL;
    if (prepare_graph(copy, g->graph) != ST_OK) {
        sn_graph_free(copy);
        return NULL;
    }
    mine.size = sizeof mine;
    mine.closure_free = free_closure;
    if (!mine.name) mine.name = copy->graph->name;
    sn_function *const fn = sn_compile(body_of_graph, copy, &mine);
    if (!fn) sn_graph_free(copy);
    return fn;
}

const char *sn_graph_text(sn_graph *g) {
    if (!g) return error_raise(ST_ARGUMENT, "sn_graph_text: the graph is NULL"), "";
    Text text = {0};
    graph_print(g->graph, &text);
    return text.at ? state_text(state_get(), text.at) : "";
}

sn_status sn_graph_check(sn_graph *g) {
    if (!g) return (sn_status)error_raise(ST_ARGUMENT, "sn_graph_check: the graph is NULL");
    const Status status = graph_verify(g->graph, STAGE_capture);
    return (sn_status)(status == ST_OK ? graph_check_symbols(g->graph) : status);
}

typedef struct GraphPasses {
    Graph *graph;
    const char *names;
} GraphPasses;

static Status run_graph_passes(void *context) {
    const GraphPasses *const run = context;
    PassList list;
    TRY(passes_list(run->names, &list)); /* an unknown name is the caller's error, no pass that gave up */
    return passes_run(run->graph, run->names, NULL);
}

sn_status sn_graph_run(sn_graph *g, const char *passes) {
    if (!g || !passes) return (sn_status)error_raise(ST_ARGUMENT, "sn_graph_run: NULL argument");
    Bail exit;
    GraphPasses run = {g->graph, passes};
    Status status = compile_exit(g->graph, run_graph_passes, &run, &exit);
    if (exit.code != BAIL_none) status = error_raise(status, "sn_graph_run: %s", exit.message);
    graph_number(g->graph);
    return (sn_status)status;
}

/* Nodes --------------------------------------------------------------------------------------- */

static sn_node *handle(sn_graph *g, Node *node, GVal *input) {
    for (int i = 0; i < g->handles.n; i++)
        if (g->handles.at[i]->node == node && g->handles.at[i]->input == input) return g->handles.at[i];
    sn_node *const made = ARENA_NEW(g->arena, sn_node);
    if (!made) return NULL;
    *made = (sn_node){.graph = g, .node = node, .input = input};
    VEC_PUSH(g->arena, &g->handles, made);
    return made;
}

static sn_node *handle_of_value(sn_graph *g, GVal *v) { return v->def ? handle(g, v->def, NULL) : handle(g, NULL, v); }

int sn_graph_count(sn_graph *g) {
    int n = g ? g->graph->inputs.n : 0;
    for (const Node *node = g ? g->graph->first : NULL; node; node = node->next) n++;
    return n;
}

sn_node *sn_graph_node(sn_graph *g, int i) {
    if (!g || i < 0 || i >= sn_graph_count(g)) {
        error_raise(ST_ARGUMENT, "sn_graph_node: node %d of %d", i, sn_graph_count(g));
        return NULL;
    }
    if (i < g->graph->inputs.n) return handle(g, NULL, g->graph->inputs.at[i]);
    Node *node = g->graph->first;
    for (int k = g->graph->inputs.n; k < i; k++) node = node->next;
    return handle(g, node, NULL);
}

static GVal *node_value(const sn_node *n) { return n->node ? &n->node->outs[0] : n->input; }

/* A node of g that is still there: passes and sn_node_erase take nodes away. */
static bool is_in(sn_graph *g, const sn_node *n) {
    if (n->graph != g) return false;
    if (!n->node) return true;
    const Node *at = g->graph->first;
    while (at && at != n->node) at = at->next;
    return at != NULL;
}

static Status check_node(sn_graph *g, const sn_node *n, const char *what) {
    if (n && is_in(g, n)) return ST_OK;
    return error_raise(ST_ARGUMENT, n ? "%s is no node of graph %s" : "%s of graph %s is NULL", what, g->graph->name);
}

/* One that stands for a value: an op may have no result. */
static Status check_value(sn_graph *g, const sn_node *n, const char *what) {
    TRY(check_node(g, n, what));
    return !n->node || n->node->n_outs
               ? ST_OK
               : error_raise(ST_ARGUMENT, "%s, %s, has no result", what, op_form_name(n->node->row, n->node->form));
}

/* Inputs come first. */
static bool comes_before(const Node *node, const Node *other) {
    for (const Node *at = node; at; at = at->next)
        if (at->next == other) return true;
    return !node;
}

static Status check_place(sn_graph *g, const sn_node *before) {
    if (!before) return ST_OK;
    TRY(check_node(g, before, "sn_graph_insert: `before`"));
    return before->node ? ST_OK : error_raise(ST_ARGUMENT, "sn_graph_insert: `before` is an input");
}

static Status check_nodes(sn_graph *g, const sn_node *before, sn_node *const *in, int n_in) {
    if (n_in && !in) return error_raise(ST_ARGUMENT, "sn_graph_insert: the list of %d nodes is NULL", n_in);
    for (int i = 0; i < n_in; i++) {
        char what[48];
        snprintf(what, sizeof what, "sn_graph_insert: argument %d", i);
        TRY(check_value(g, in[i], what));
        if (before && !comes_before(in[i]->node, before->node))
            return error_raise(ST_ARGUMENT, "%s, %s, does not come before `before`", what, sn_node_op(in[i]));
    }
    return ST_OK;
}

/* Tensors of a graph are its nodes; other kinds are checked with the op's parameters. */
static Status check_rest(const sn_value *rest, int n_rest, int first) {
    if (n_rest && !rest) return error_raise(ST_ARGUMENT, "sn_graph_insert: the list of %d values is NULL", n_rest);
    for (int i = 0; i < n_rest; i++)
        if ((rest[i].kind == SN_KIND_TENSOR && rest[i].tensor) || rest[i].kind == SN_KIND_TENSORS)
            return error_raise(ST_ARGUMENT, "sn_graph_insert: argument %d is a tensor, not a node", first + i);
    return ST_OK;
}

sn_node *sn_graph_insert(sn_graph *g, sn_node *before, const char *op, sn_node *const *in, int n_in,
                         const sn_value *rest, int n_rest) {
    OpForm form;
    const OpRow *const row = g && op ? op_find(op, strlen(op), &form) : NULL;
    if (!row || n_in < 0 || n_rest < 0 || n_in + n_rest > MAX_ARGS) {
        error_raise(ST_ARGUMENT, "sn_graph_insert: op '%s' is unknown or has too many arguments", op ? op : "NULL");
        return NULL;
    }
    if (row->flags & OPF_internal) {
        error_raise(ST_ARGUMENT, "sn_graph_insert: %s is made by captures and passes alone", row->name);
        return NULL;
    }
    if (form == FORM_out) {
        error_raise(ST_ARGUMENT, "sn_graph_insert: %s is an out form; insert the functional one",
                    op_form_name(row, form));
        return NULL;
    }
    if (check_place(g, before) != ST_OK || check_nodes(g, before, in, n_in) != ST_OK ||
        check_rest(rest, n_rest, n_in) != ST_OK)
        return NULL;
    Arg given[MAX_ARGS], args[MAX_ARGS + MAX_OUTS];
    for (int i = 0; i < n_in; i++) given[i] = A_VAL(&node_value(in[i])->base);
    for (int i = 0; i < n_rest; i++) memcpy(&given[n_in + i], &rest[i], sizeof *rest);
    if (ops_values(row, form, given, n_in + n_rest) != ST_OK ||
        op_args_normalize(row, given, n_in + n_rest, args) != ST_OK)
        return NULL;
    g->graph->insert_at = before ? before->node : NULL;
    Node *const node = graph_append(g->graph, row, form, args);
    g->graph->insert_at = NULL;
    graph_number(g->graph);
    return node ? handle(g, node, NULL) : NULL;
}

const char *sn_node_op(sn_node *n) {
    if (!n) return error_raise(ST_ARGUMENT, "sn_node_op: the node is NULL"), "";
    return n->node ? op_form_name(n->node->row, n->node->form) : "input";
}

typedef struct Operands {
    GVal *at[256];
    int n;
} Operands;

static void collect(void *context, GVal **slot) {
    Operands *const o = context;
    if (o->n < COUNT_OF(o->at)) o->at[o->n++] = *slot;
}

int sn_node_in_count(sn_node *n) {
    Operands o = {.n = 0};
    if (n && n->node) node_each_input(n->node, collect, &o);
    return o.n;
}

sn_node *sn_node_in(sn_node *n, int i) {
    Operands o = {.n = 0};
    if (n && n->node) node_each_input(n->node, collect, &o);
    if (i < 0 || i >= o.n) {
        error_raise(ST_ARGUMENT, "sn_node_in: input %d of %d", i, o.n);
        return NULL;
    }
    return handle_of_value(n->graph, o.at[i]);
}

typedef struct Search {
    const GVal *value;
    bool found;
} Search;

static void look_at_slot(void *context, GVal **slot) {
    Search *const search = context;
    search->found |= *slot == search->value;
}

/* What uses n must come after `by`. */
static Status check_uses(const sn_node *n, sn_node *by) {
    Search search = {.value = node_value(n)};
    if (!by->node) return ST_OK;
    for (Node *at = n->graph->graph->first; at; at = at == by->node ? NULL : at->next) {
        node_each_input(at, look_at_slot, &search);
        if (search.found)
            return error_raise(ST_ARGUMENT,
                               "sn_node_replace: %s uses the node and does not come after its "
                               "replacement %s",
                               op_form_name(at->row, at->form), sn_node_op(by));
    }
    return ST_OK;
}

sn_status sn_node_replace(sn_node *n, sn_node *by) {
    if (!n || !by) return (sn_status)error_raise(ST_ARGUMENT, "sn_node_replace: NULL argument");
    Status status = check_value(n->graph, n, "sn_node_replace: the node");
    if (status == ST_OK) status = check_value(n->graph, by, "sn_node_replace: the replacement");
    if (status == ST_OK) status = check_uses(n, by);
    if (status != ST_OK) return (sn_status)status;
    graph_replace(n->graph->graph, node_value(n), node_value(by));
    return SN_OK;
}

sn_status sn_node_erase(sn_node *n) {
    if (!n || !n->node) return (sn_status)error_raise(ST_ARGUMENT, "sn_node_erase: not an op node");
    const Status status = check_node(n->graph, n, "sn_node_erase: the node");
    if (status != ST_OK) return (sn_status)status;
    Graph *const graph = n->graph->graph;
    graph_number(graph);
    const int *const uses = graph_use_counts(graph);
    for (int i = 0; i < n->node->n_outs; i++)
        if (uses[n->node->outs[i].id])
            return (sn_status)error_raise(ST_STATE, "sn_node_erase: result %d of %s is used", i, sn_node_op(n));
    graph_remove(graph, n->node);
    graph_number(graph);
    return SN_OK;
}
