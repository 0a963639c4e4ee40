/* domains.c: see domains.h. From the last op to the first: what a result is held to, its op asks of what it moves. */
#include "frontend/tool/domains.h"

typedef struct Narrowing {
    Graph *graph;
    const int64_t *symbols;
    ValueDomain *at; /* by value id */
} Narrowing;

/* A domain that would be left empty stays as it is: no value suits both. */
static void narrow(Narrowing *n, const Val *val, ValueDomain to) {
    if (!val) return;
    ValueDomain *const own = &n->at[((const GVal *)val)->id];
    own->unit |= to.unit, own->leaf |= to.leaf, own->bags |= to.bags, own->closed |= to.closed;
    own->written |= to.written, own->untracked |= to.untracked;
    if (!to.counted) return;
    const int64_t least = own->counted && own->least > to.least ? own->least : to.least;
    const int64_t past = own->counted && own->past < to.past ? own->past : to.past;
    if (past <= least) return;
    own->counted = true, own->least = least, own->past = past;
}

static void narrow_all(Narrowing *n, const Arg *arg, ValueDomain to) {
    if (arg->kind == ARG_tensor) narrow(n, arg->val, to);
    for (int i = 0; arg->kind == ARG_tensors && i < arg->n; i++) narrow(n, arg->vals[i], to);
}

/* What is computed of ints that are 0 is mostly a position, if any is. */
static void compute_of_zeros(Narrowing *n, const Node *node) {
    bool asked = false;
    for (int k = 0; k < node->n_outs; k++) asked |= node->outs[k].base.meta && n->at[node->outs[k].id].counted;
    for (int i = 0; asked && i < node->row->n_params; i++)
        if (node->args[i].kind == ARG_tensor && node->args[i].val && dtype_is_int(node->args[i].val->meta->dtype))
            narrow(n, node->args[i].val, (ValueDomain){.counted = true, .past = 1});
}

/* A copy is memory of its own. */
static ValueDomain of_memory(const Node *node, ValueDomain of_result) {
    of_result.written &= node->row->kind == KIND_view;
    return of_result;
}

/* Through ops that move elements: whole views and copies, those of slices from their first argument alone. */
static void pass_on(Narrowing *n, const Node *node) {
    const OpRow *const row = node->row;
    const bool whole = row->flags & (OPF_copy | OPF_maybe_copy | OPF_reshape | OPF_moves) || row->kind == KIND_view;
    if (!whole && !(row->flags & OPF_slices)) return compute_of_zeros(n, node);
    for (int i = 0; i < (whole ? row->n_params : 1); i++)
        for (int k = 0; k < node->n_outs; k++)
            if (node->outs[k].base.meta) narrow_all(n, &node->args[i], of_memory(node, n->at[node->outs[k].id]));
}

static void ask_positions(Narrowing *n, const Node *node, const Arg *checked) {
    const int items = checked->kind == ARG_tensors ? checked->n : 1;
    for (int i = 0; i < items; i++) {
        const int64_t bound = op_check_bound(node->row, node->args, i, n->graph->env);
        const Val *const val = checked->kind == ARG_tensors ? checked->vals[i] : checked->val;
        if (bound != NO_INT)
            narrow(n, val, (ValueDomain){.counted = true, .past = sym_eval(n->graph->env, bound, n->symbols)});
    }
}

static const Arg *tensor_called(const Node *node, const char *name) {
    const int at = op_param_find(node->row, name);
    return at >= 0 && node->args[at].kind == ARG_tensor && node->args[at].val ? &node->args[at] : NULL;
}

/* Where bags begin in the indices that are checked, which bag each of these is in, by the gradients of the bags, and
 * which of them maxima came from. */
static void ask_bags(Narrowing *n, const Node *node, const Arg *indices) {
    const Arg *const offsets = tensor_called(node, "offsets"), *const bags = tensor_called(node, "offset2bag"),
                     *const grad = tensor_called(node, "grad");
    const SymEnv *const env = n->graph->env;
    if (offsets && indices->kind == ARG_tensor) {
        const int64_t count = sym_eval(env, indices->val->meta->numel, n->symbols);
        const int last = op_param_find(node->row, "include_last_offset");
        const bool closed = last >= 0 && node->args[last].i;
        narrow(n, offsets->val, (ValueDomain){.counted = true, .bags = true, .closed = closed, .past = count + 1});
    }
    const Arg *const maxima = tensor_called(node, "maximum_indices");
    const int64_t rows = maxima ? op_check_bound(node->row, node->args, 0, n->graph->env) : NO_INT;
    if (rows != NO_INT) narrow(n, maxima->val, (ValueDomain){.counted = true, .past = sym_eval(env, rows, n->symbols)});
    if (bags && grad && grad->val->meta->rank) {
        const int64_t count = sym_eval(env, grad->val->meta->sizes[0], n->symbols);
        narrow(n, bags->val, (ValueDomain){.counted = true, .past = count});
    }
}

static void ask_domain(Narrowing *n, const Node *node) {
    const OpRow *const row = node->row;
    if (row->role == ROLE_gradients) narrow_all(n, &node->args[2], (ValueDomain){.leaf = true});
    if (!row->check.param) return;
    const Arg *const checked = &node->args[op_param_find(row->alias_of ? row->alias_of : row, row->check.param)];
    if (checked->kind != ARG_tensor && checked->kind != ARG_tensors) return;
    const Arg *const other = row->check.kind == CHECK_unit && row->check.of ? tensor_called(node, row->check.of) : NULL;
    if (other) narrow_all(n, other, (ValueDomain){.unit = true});
    if (row->check.kind == CHECK_unit || row->check.kind == CHECK_weight || row->check.kind == CHECK_deviation)
        /* what is a probability is a weight, too */
        narrow_all(n, checked, (ValueDomain){.unit = true});
    else if (row->check.kind == CHECK_divisor)
        narrow_all(n, checked, (ValueDomain){.counted = true, .least = 1, .past = 5});
    else
        ask_positions(n, node, checked), ask_bags(n, node, checked);
}

static bool is_input_memory(const Val *val) {
    const GVal *v = (const GVal *)val;
    while (v && v->def && v->alias >= 0) v = (const GVal *)v->def->args[v->alias].val;
    return v && !v->def;
}

/* An input takes no history from what is written to it: the next call would go back through it again. */
static bool writes_input(const Node *node) { return node->form == FORM_inplace && is_input_memory(node->args[0].val); }

static bool has_untracked(const Narrowing *n, const Node *node) {
    /* Loops [semantics T3], what only passes make, behind autograd, and gradients that PyTorch has no gradient of. */
    const OpKind kind = node->row->kind;
    const bool refuses = !node->row->derivative && kind != KIND_composite && kind != KIND_view;
    bool any = node->form == FORM_out || (refuses && !(node->row->flags & OPF_nodiff)) || writes_input(node);
    for (int k = 0; k < node->n_outs; k++) any |= node->outs[k].base.meta && n->at[node->outs[k].id].untracked;
    return any;
}

/* What is written, and what autograd refuses; a written form's result is what it writes. */
static void follow_gradients(Narrowing *n, const Node *node) {
    const bool untracked = has_untracked(n, node);
    for (int i = 0; i < node->n_args; i++) {
        const bool own = i < node->row->n_params;
        const bool written = !own || (i == 0 && node->form == FORM_inplace) || param_is_written(&node->row->params[i]);
        narrow_all(n, &node->args[i], (ValueDomain){.written = written, .untracked = untracked});
    }
}

ValueDomain *graph_domains(Graph *graph, Arena *arena, const int64_t *symbols) {
    graph_number(graph);
    Narrowing n = {graph, symbols, ARENA_ARRAY(arena, ValueDomain, graph->n_vals + 1)};
    for (const Node *node = n.at ? graph->last : NULL; node; node = node->prev) {
        pass_on(&n, node);
        ask_domain(&n, node);
        follow_gradients(&n, node);
    }
    return n.at;
}
