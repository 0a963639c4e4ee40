/* decompose.c: rows of KIND_decomposition and KIND_composite become what their rule emits, to a
 * fixpoint: the traversal goes on at the first node that a rule emitted. The parts keep their op's call
 * site, modes and random index, and name it as their origin.
 *
 * A rule keeps dtype and sizes. Where its last result has other strides than the op's meta rule
 * says (softmax of a transposed tensor is contiguous, a quotient is not), sn::restride gives the
 * result the op's layout, for views of it and for outputs; lowering fuses it. */
#include "passes/internal.h"
#include "runtime/base/error.h"

PassFn pass_decompose;

/* A slice without elements has none that its read could check the position at. */
static bool is_empty_read(const Node *node) {
    return node->row->flags & OPF_slices && sym_identical(node->outs[0].base.meta->numel, 0) &&
           !sym_identical(node->args[op_param_find(node->row, node->row->check.param)].val->meta->numel, 0);
}

static DecompFn *rule_of(const Node *node) { return is_empty_read(node) ? decomp_empty_read : decomp_rule(node->row); }

static Status same_shape(const Graph *graph, const Node *node, int i, const Meta *got) {
    const Meta *const want = node->outs[i].base.meta;
    if (got->dtype == want->dtype && got->rank == want->rank && meta_same_sizes(got, want)) return ST_OK;
    Text text = {0};
    text_printf(&text, "the decomposition of %s gave result %d as ", node->row->name, i);
    meta_print(graph->env, &text, got);
    text_puts(&text, ", its meta rule says ");
    meta_print(graph->env, &text, want);
    const Status status = error_raise(ST_INTERNAL, "%s", text_str(&text));
    text_free(&text);
    return status;
}

static Val *in_layout(Graph *graph, Val *value, const Meta *layout) {
    if (!value || meta_equal(value->meta, layout)) return value;
    return E(&graph->builder, restride, V(value), A_INTS(layout->strides, layout->rank));
}

/* What stands for results that are gone, by value id: uses come later, and are replaced when the traversal gets to
 * them. */
typedef struct GraphExpansion {
    Graph *graph;
    VEC(GVal *) by;
} GraphExpansion;

/* Numbers the results of the nodes from `first` up to `end`. */
static void number_new(GraphExpansion *x, Node *first, const Node *end) {
    for (Node *node = first; node != end; node = node->next)
        for (int i = 0; i < node->n_outs; i++) {
            node->outs[i].id = x->by.n;
            VEC_PUSH(x->graph->arena, &x->by, NULL);
        }
}

static Status put_results(GraphExpansion *x, Node *node, Val **outs) {
    Graph *const graph = x->graph;
    for (int i = 0; i < node->n_outs; i++) {
        if (!outs[i]) continue; /* a result that the rule knows to be unused or undefined */
        TRY(same_shape(graph, node, i, outs[i]->meta));
        Val *const value = in_layout(graph, outs[i], node->outs[i].base.meta);
        if (!value) return error_pending();
        x->by.at[node->outs[i].id] = gval(value);
    }
    return ST_OK;
}

/* One call of op through its decomposition rule, in place of `node`; false (raised) on failure or without a rule. */
static bool decompose_node(GraphExpansion *x, Node *node) {
    Graph *const graph = x->graph;
    const Node *const previous = node->prev;
    DecompFn *const rule = rule_of(node);
    if (!rule) {
        error_raise(ST_UNSUPPORTED, "%s has no decomposition", node->row->name);
        return false;
    }
    Val **const outs = ARENA_ARRAY(graph->arena, Val *, node->n_outs + MAX_OUTS); /* a list may be long */
    if (!outs) return false;
    const NewNodes saved = nodes_like(graph, node, node);
    if (!graph->origin && node->row->kind != KIND_composite)
        graph->origin = node->row; /* the op that eager would name */
    Status status = rule(&graph->builder, node->row, node->args, outs);
    if (status == ST_OK) status = put_results(x, node, outs);
    nodes_restore(graph, saved);
    number_new(x, previous ? previous->next : graph->first, node);
    if (status != ST_OK) {
        error_set_op(node->row->name);
        if (node->where) error_set_where(node->where);
        return false;
    }
    graph_remove(graph, node);
    return true;
}

typedef enum Expanded { EXPAND_writers, EXPAND_composites, EXPAND_all } Expanded;

/* What only its parts say: what they write, or which result shows which element of a list. */
static bool is_known_by_parts(const OpRow *row) {
    bool written = row->flags & OPF_parts_write;
    for (int i = 0; i < row->n_params; i++) written |= param_is_written(&row->params[i]);
    return written || !row->n_out || (row->returns_list && row->params[0].type == PT_tensors);
}

static bool has_parts(const Node *node, Expanded what) {
    const OpKind kind = node->row->kind;
    if (node->row->role == ROLE_gradients) return false;
    if (kind == KIND_composite)
        return what != EXPAND_writers || (node->form == FORM_functional && is_known_by_parts(node->row));
    return what == EXPAND_all && (kind == KIND_decomposition || is_empty_read(node));
}

static bool any_parts(const Graph *graph, Expanded what) {
    for (const Node *node = graph->first; node; node = node->next)
        if (has_parts(node, what)) return true;
    return false;
}

static bool expand(Graph *graph, Expanded what) {
    bool changed = false;
    GraphExpansion x = {.graph = graph};
    if (!any_parts(graph, what)) return false;
    for (int i = 0; i < graph->inputs.n; i++) graph->inputs.at[i]->id = i;
    for (int i = 0; i < graph->inputs.n; i++) VEC_PUSH(graph->arena, &x.by, NULL);
    number_new(&x, graph->first, NULL);
    Node *node = graph->first;
    while (node) {
        replace_uses(graph, node, x.by.at);
        if (!has_parts(node, what)) {
            node = node->next;
            continue;
        }
        Node *const previous = node->prev;
        if (!decompose_node(&x, node)) break;
        changed = true;
        node = previous ? previous->next : graph->first;
    }
    for (; node; node = node->next) replace_uses(graph, node, x.by.at); /* after a failure */
    if (changed) replace_ends(graph, x.by.at);
    return changed;
}

bool decompose_composites(Graph *graph) { return expand(graph, EXPAND_composites); }
bool pass_decompose(Graph *graph, const PassOptions *options) { return expand(graph, EXPAND_all); }

bool decompose_writers(Graph *graph) {
    graph->builder.write = internal_write;
    const bool changed = expand(graph, EXPAND_writers);
    graph->builder.write = NULL;
    return changed;
}
