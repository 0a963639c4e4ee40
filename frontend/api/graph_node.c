/* graph_node.c: the public functions of <sinter/graph.h> for nodes: looked at, put in, replaced, taken out; inputs
 * that stand for a tensor. */
#include <stdio.h>

#include "frontend/api/enter.h"
#include "frontend/api/graph_handle.h"
#include "passes/internal.h"

sn_node *graph_handle(sn_graph *g, Node *node, GVal *input) {
    for (int i = 0; i < g->handles.n; i++)
        if (g->handles.at[i]->node == node && g->handles.at[i]->input == input) return g->handles.at[i];
    return graph_handle_new(g, (sn_node){.node = node, .input = input});
}

sn_node *graph_handle_new(sn_graph *g, sn_node like) {
    sn_node *const made = ARENA_NEW(g->arena, sn_node);
    if (!made) return NULL;
    *made = like;
    made->graph = g;
    const int n = g->handles.n;
    VEC_PUSH(g->arena, &g->handles, made);
    return g->handles.n > n ? made : NULL;
}

static sn_node *handle_of_value(sn_graph *g, GVal *v) {
    return v->def ? graph_handle(g, v->def, NULL) : graph_handle(g, NULL, v);
}

int sn_graph_count(sn_graph *g) {
    int n = g ? g->graph->inputs.n : 0;
    for (const Node *node = g ? g->graph->first : NULL; node; node = node->next) n++;
    return n;
}

sn_node *sn_graph_node(sn_graph *g, int i) {
    if (!g || i < 0 || i >= sn_graph_count(g)) {
        error_raise(ST_ARGUMENT, "sn_graph_node: there is no node %d; the graph has %d", i, sn_graph_count(g));
        return NULL;
    }
    if (i < g->graph->inputs.n) return graph_handle(g, NULL, g->graph->inputs.at[i]);
    Node *node = g->graph->first;
    for (int k = g->graph->inputs.n; k < i; k++) node = node->next;
    return graph_handle(g, node, NULL);
}

static GVal *node_value(const sn_node *n) { return n->node ? &n->node->outs[0] : n->input; }

/* A node of g that is still there: passes and sn_node_erase take nodes away. */
static bool is_in(sn_graph *g, const sn_node *n) {
    if (n->graph != g) return false;
    if (n->input) return n->input->index < g->graph->inputs.n && g->graph->inputs.at[n->input->index] == n->input;
    const Node *at = n->node ? g->graph->last : NULL; /* who builds a graph speaks of the last ones */
    while (at && at != n->node) at = at->prev;
    return at != NULL;
}

Status graph_check_node(sn_graph *g, const sn_node *n, const char *what) {
    if (n && is_in(g, n)) return ST_OK;
    if (n && n->graph == g && !n->node && !n->input)
        return error_raise(ST_ARGUMENT, "%s of graph %s is an int", what, g->graph->name);
    return error_raise(ST_ARGUMENT, n ? "%s is no node of graph %s" : "%s of graph %s is NULL", what, g->graph->name);
}

/* One that stands for a value: an op may have no result. */
static Status check_value(sn_graph *g, const sn_node *n, const char *what) {
    TRY(graph_check_node(g, n, what));
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
    TRY(graph_check_node(g, before, "sn_graph_insert: `before`"));
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

/* In the modes, region and place of the op that it comes before. */
static Node *append_like(Graph *graph, Node *before, const OpRow *row, OpForm form, const Arg *args) {
    if (!before) return graph_append(graph, row, form, args);
    const NewNodes saved = nodes_like(graph, before, before);
    graph->modes &= NODE_no_grad | NODE_inference;
    graph->origin = NULL;
    Node *const node = graph_append(graph, row, form, args);
    nodes_restore(graph, saved);
    return node;
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
    Node *const node = append_like(g->graph, before ? before->node : NULL, row, form, args);
    sn_node *const made = node ? graph_handle(g, node, NULL) : NULL;
    if (node && !made) graph_remove(g->graph, node);
    graph_number(g->graph);
    return made;
}

void graph_remove_node(sn_node *n) {
    graph_remove(n->graph->graph, n->node);
    graph_number(n->graph->graph);
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
        error_raise(ST_ARGUMENT, "sn_node_in: there is no input %d; the node has %d", i, o.n);
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

/* Inputs that stand for tensors --------------------------------------------------------------- */

static KnownInput *known_of(const sn_graph *g, const GVal *input) {
    for (int i = 0; i < g->known.n; i++)
        if (g->known.at[i].input == input) return &g->known.at[i];
    return NULL;
}

sn_tensor *graph_bound(const sn_graph *g, const GVal *input) {
    const KnownInput *const known = known_of(g, input);
    return known && known->bound ? known->tensor : NULL;
}

static void forget_known(sn_graph *g, const GVal *input) {
    KnownInput *const known = known_of(g, input);
    if (!known) return;
    tensor_release(known->tensor);
    *known = g->known.at[--g->known.n];
}

Status graph_know(sn_graph *g, const GVal *input, sn_tensor *t, bool bound) {
    KnownInput *const known = known_of(g, input);
    tensor_retain(t);
    if (!known) {
        VEC_PUSH(g->arena, &g->known, ((KnownInput){input, t, bound}));
        return error_pending();
    }
    tensor_release(known->tensor);
    known->tensor = t, known->bound = bound;
    return ST_OK;
}

/* Behind it the others move up. */
static void remove_input(Graph *graph, const GVal *input) {
    const int at = input->index;
    graph->inputs.n--;
    for (int i = at; i < graph->inputs.n; i++) {
        graph->inputs.at[i] = graph->inputs.at[i + 1];
        graph->inputs.at[i]->index = i;
    }
    for (int i = 0; i < graph->int_inputs.n; i++) graph->int_inputs.at[i].before -= graph->int_inputs.at[i].before > at;
}

static Status check_unused(const sn_node *n) {
    Graph *const graph = n->graph->graph;
    graph_number(graph);
    const int *const uses = graph_use_counts(graph);
    if (!uses) return ST_MEMORY;
    const int n_values = n->node ? n->node->n_outs : 1;
    for (int i = 0; i < n_values; i++)
        if (uses[n->node ? n->node->outs[i].id : n->input->id])
            return error_raise(ST_STATE, "sn_node_erase: result %d of %s is used", i,
                               sn_node_op((sn_node *)(uintptr_t)n));
    return ST_OK;
}

sn_status sn_node_erase(sn_node *n) {
    if (!n) return (sn_status)error_raise(ST_ARGUMENT, "sn_node_erase: the node is NULL");
    Status status = graph_check_node(n->graph, n, "sn_node_erase: the node");
    if (status == ST_OK && !n->node) status = graph_is_own(n->graph, "sn_node_erase");
    if (status == ST_OK) status = check_unused(n);
    if (status != ST_OK) return (sn_status)status;
    Graph *const graph = n->graph->graph;
    if (n->node)
        graph_remove(graph, n->node);
    else
        forget_known(n->graph, n->input), remove_input(graph, n->input);
    graph_number(graph);
    return SN_OK;
}

/* Looked at ----------------------------------------------------------------------------------- */

const char *sn_node_name(sn_node *n) {
    if (!n) return error_raise(ST_ARGUMENT, "sn_node_name: the node is NULL"), "";
    if (n->node && n->node->unbacked && !n->name) {
        const SymEnv *const env = n->graph->graph->env;
        n->name = arena_printf(n->graph->arena, "s%lld", (long long)sym_expr(env, n->node->unbacked)->a);
    }
    return n->input ? n->input->name : n->name ? n->name : "";
}

static const Meta *node_meta(sn_node *n, const char *what) {
    if (!n || check_value(n->graph, n, what) != ST_OK) return NULL;
    return node_value(n)->base.meta;
}

sn_dtype sn_node_dtype(sn_node *n) {
    const Meta *const meta = node_meta(n, "sn_node_dtype: the node");
    return meta ? (sn_dtype)meta->dtype : SN_DTYPE_DEFAULT;
}

int sn_node_rank(sn_node *n) {
    const Meta *const meta = node_meta(n, "sn_node_rank: the node");
    return meta ? meta->rank : -1;
}

static int64_t known_number(const Meta *meta, const int64_t *numbers, int dim, const char *what) {
    if (!meta) return -1;
    if (dim >= 0 && dim < meta->rank) return sym_is(numbers[dim]) ? -1 : numbers[dim];
    error_raise(ST_ARGUMENT, "%s: dim %d is out of range for a value of %d dims", what, dim, meta->rank);
    return -1;
}

int64_t sn_node_size(sn_node *n, int dim) {
    const Meta *const meta = node_meta(n, "sn_node_size: the node");
    return known_number(meta, meta ? meta->sizes : NULL, dim, "sn_node_size");
}

int64_t sn_node_stride(sn_node *n, int dim) {
    const Meta *const meta = node_meta(n, "sn_node_stride: the node");
    return known_number(meta, meta ? meta->strides : NULL, dim, "sn_node_stride");
}

/* A list as it lies in the graph, which lives as long; what only a call knows is no value. */
static Status value_of_arg(const Arg *arg, sn_value *out) {
    bool known = arg->kind != ARG_runtime && (arg->kind != ARG_int || !sym_is(arg->i));
    for (int i = 0; arg->kind == ARG_ints && i < arg->n; i++) known = known && !sym_is(arg->ints[i]);
    if (!known) return error_raise(ST_STATE, "sn_node_arg: only a call knows the value");
    if (arg->kind == ARG_tensor || arg->kind == ARG_tensors)
        *out = sn_val(NULL);
    else
        memcpy(out, arg, sizeof *out);
    return ST_OK;
}

sn_status sn_node_arg(sn_node *n, const char *name, sn_value *out) {
    if (out) *out = sn_none();
    if (!n || !n->node || !name || !out)
        return (sn_status)error_raise(ST_ARGUMENT, "sn_node_arg: NULL argument, or an input");
    const int i = op_param_find(n->node->row, name);
    if (i < 0)
        return (sn_status)error_raise(ST_ARGUMENT, "sn_node_arg: %s has no argument '%s'", n->node->row->name, name);
    return (sn_status)value_of_arg(&n->node->args[i], out);
}

/* Their tensors ------------------------------------------------------------------------------ */

sn_tensor *sn_node_tensor(sn_node *n) {
    if (!n) return error_raise(ST_ARGUMENT, "sn_node_tensor: the node is NULL"), NULL;
    const KnownInput *const known = n->node ? NULL : known_of(n->graph, n->input);
    return known ? known->tensor : NULL;
}

Status graph_bind_known(sn_graph *g) {
    for (int i = 0; i < g->known.n; i++) TRY(tensor_ready(g->known.at[i].tensor, "a tensor that was closed over"));
    for (int i = 0; i < g->known.n; i++) g->known.at[i].bound = true;
    return ST_OK;
}

static Status check_bindable(const sn_node *n, const sn_tensor *t) {
    if (!n || !t) return error_pending() ? error_pending() : error_raise(ST_ARGUMENT, "sn_node_bind: NULL argument");
    TRY(graph_check_node(n->graph, n, "sn_node_bind: the node"));
    if (n->node) return error_raise(ST_ARGUMENT, "sn_node_bind: %s is no input", n->node->row->name);
    const Meta *const want = n->input->base.meta, *const got = t->base.meta;
    if (want->dtype == got->dtype && want->device == got->device && want->rank == got->rank) return ST_OK;
    return error_raise(ST_SHAPE, "sn_node_bind: input %s is a %s of %d dims, the tensor a %s of %d", n->input->name,
                       dtype_name(want->dtype), want->rank, dtype_name(got->dtype), got->rank);
}

sn_status sn_node_bind(sn_node *n, sn_tensor *t) {
    API_ENTER(sn_node_bind);
    Status status = check_bindable(n, t);
    if (status == ST_OK) status = graph_is_own(n->graph, "sn_node_bind");
    if (status == ST_OK) status = tensor_ready(t, "sn_node_bind");
    return (sn_status)(status == ST_OK ? graph_know(n->graph, n->input, t, true) : status);
}

sn_node *sn_graph_bind(sn_graph *g, const char *name, sn_tensor *t) {
    API_ENTER(sn_graph_bind);
    if (!g || !name || !t) {
        if (!error_pending()) error_raise(ST_ARGUMENT, "sn_graph_bind: NULL argument");
        return NULL;
    }
    if (graph_is_own(g, "sn_graph_bind") != ST_OK) return NULL;
    const char *const own = arena_printf(g->arena, "%s", name);
    if (!own || tensor_ready(t, "sn_graph_bind") != ST_OK) return NULL;
    meta_stay(t->base.meta);
    GVal *const input = graph_input(g->graph, own, t->base.meta);
    if (!input || graph_know(g, input, t, true) != ST_OK) return NULL;
    graph_number(g->graph);
    return graph_handle(g, NULL, input);
}
