/* values.c: what lowering knows of each value of a graph: what it is (view, loop, reduction, product, native), where a
 * view lies in its base, who reads it. All of it is asked of its row's kind and the rule tables. */
#include "ir/alias.h"
#include "passes/template.h"

Val *node_moves(const Node *node) {
    if (!(node->row->flags & OPF_across)) return NULL;
    const Arg *const arg = &node->args[node->args[1].kind == ARG_tensor ? 1 : 0];
    Val *const from = arg->kind == ARG_tensor ? arg->val : NULL; /* eager's programs have numbers, too */
    return from && from->meta->device != node->outs[0].base.meta->device ? from : NULL;
}

static ValKind kind_of(const Lower *l, const Node *node) {
    if (node_moves(node)) return VAL_native;
    if (template_row(node)) return VAL_template;
    if (pieces_known(node)) return VAL_pieces;
    switch (node->row->kind) {
    case KIND_view:
        return VAL_view;
    case KIND_pointwise:
        return VAL_pointwise;
    case KIND_reduction:
        return VAL_reduction;
    case KIND_kernel:
        return VAL_native;
    default:
        break;
    }
    bail(l->graph->bail, BAIL_unsupported, "%s must be decomposed before lowering", node->row->name);
}

/* The strides of view `v` of a tensor whose sizes are of's and whose strides and offset are given. */
static bool view_strides(Lower *l, const GVal *v, const Meta *of, int64_t offset, int64_t *out_offset,
                         int64_t *strides) {
    const Node *const node = v->def;
    Arg *const args = arena_copy(l->arena, node->args, sizeof(Arg) * (size_t)node->n_args);
    Val *const base = ARENA_NEW(l->arena, Val);
    base->meta = of;
    args[v->alias].val = base;
    MetaOut *const outs = ARENA_ARRAY(l->arena, MetaOut, max_i64(node->n_outs, MAX_OUTS));
    MetaCall call = {.row = node->row, .args = args, .env = l->env, .out = outs};
    call.n_out = node->n_outs;
    if (op_meta(&call) != ST_OK) return false;
    *out_offset = sym_add(l->env, offset, outs[v->index].offset);
    for (int d = 0; d < v->base.meta->rank; d++) strides[d] = outs[v->index].strides[d];
    return true;
}

/* Rows that name parts of self's memory by strides and offset. */
static bool speaks_of_memory(const Node *node) { return node->row->flags & OPF_places; }

static bool has_strides(const Meta *meta, const int64_t *strides) {
    for (int d = 0; d < meta->rank; d++)
        if (meta->sizes[d] != 1 && meta->strides[d] != strides[d]) return false;
    return true;
}

void look_at_view(Lower *l, ValInfo *info, GVal *v) {
    const Meta *const meta = v->base.meta;
    info->of = value_memory(v);
    const ValInfo *const of = val_info(l, info->of);
    info->base = of->base;
    const Meta *const of_meta = info->of->base.meta;
    Meta placed = *of_meta;
    placed.strides = of->strides;
    int64_t *const strides = ARENA_ARRAY(l->arena, int64_t, meta->rank + 1);
    if (!view_strides(l, v, &placed, of->offset, &info->offset, strides))
        lower_bail(l, v->def, "its stride rule failed");
    info->strides = strides;
    int64_t *const dense = ARENA_ARRAY(l->arena, int64_t, of_meta->rank + 1);
    int64_t *const relative = ARENA_ARRAY(l->arena, int64_t, meta->rank + 1);
    row_major(l->env, of_meta->sizes, of_meta->rank, dense);
    if (speaks_of_memory(v->def) && !has_strides(of_meta, dense)) return; /* not of elements */
    placed.strides = dense;
    placed.contiguous = true;
    if (view_strides(l, v, &placed, 0, &info->relative_offset, relative)) info->relative = relative;
}

bool keeps_layout(const Lower *l, const GVal *v) { return has_strides(v->base.meta, val_info(l, v)->strides); }

/* What they name is where the graph says only if self was not laid out anew. */
static void check_memory(Lower *l, const Node *node) {
    if (!speaks_of_memory(node)) return;
    if (!keeps_layout(l, gval(node->args[0].val))) lower_bail(l, node, "a part of memory that is laid out anew");
}

static void look_at_value(Lower *l, GVal *v) {
    ValInfo *const info = val_info(l, v);
    const Meta *const meta = v->base.meta;
    *info = (ValInfo){.val = v, .base = v, .home = v, .slot = -1, .strides = meta->strides};
    info->kind = v->def ? kind_of(l, v->def) : VAL_input;
    if (info->kind == VAL_view) {
        look_at_view(l, info, v);
    } else if (v->def && v->def->row->role != ROLE_puts &&
               !meta_is_dense(l->env, meta->sizes, meta->strides, meta->rank)) {
        int64_t *const strides = ARENA_ARRAY(l->arena, int64_t, meta->rank + 1);
        row_major(l->env, meta->sizes, meta->rank, strides);
        info->strides = strides;
    }
}

/* How many arguments, from the first on, give their sizes only: the nest never reads them. Of fresh values all do, of
 * copies and fills the tensor that takes them. */
static int unread_args(const Node *node) {
    return node->row->flags & OPF_fresh ? node->n_args : (node->row->flags & OPF_fills) != 0;
}

typedef struct UseAt {
    Lower *l;
    int node;
} UseAt;

static void add_user(void *context, GVal **slot) {
    const UseAt *const visit = context;
    Lower *const l = visit->l;
    if (!*slot) return;
    ValInfo *const base = val_info(l, val_info(l, *slot)->base);
    VEC_PUSH(l->arena, &base->users, visit->node);
}

static void mark_read(Lower *l, Val *v) {
    if (v) val_info(l, val_info(l, gval(v))->base)->read = true;
}

static void mark_args_read(Lower *l, const Node *node) {
    for (int i = unread_args(node); i < node->n_args; i++) {
        const Arg *const a = &node->args[i];
        if (a->kind == ARG_tensor) mark_read(l, a->val);
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++) mark_read(l, a->vals[k]);
    }
}

/* Is any of its results computed: a kernel's, one with memory, one that what is computed reads? */
static bool is_computed(const Lower *l, const Node *node) {
    if (node->row->kind == KIND_kernel) return true;
    for (int r = 0; r < node->n_outs; r++) {
        const ValInfo *const base = val_info(l, val_info(l, &node->outs[r])->base);
        if (base->visible || base->read) return true;
    }
    return false;
}

bool node_reads(const Lower *l, const Node *node, const GVal *base) {
    for (int i = unread_args(node); i < node->n_args; i++) {
        const Arg *const a = &node->args[i];
        if (a->kind == ARG_tensor && a->val && val_info(l, gval(a->val))->base == base) return true;
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++)
            if (a->vals[k] && val_info(l, gval(a->vals[k]))->base == base) return true;
    }
    return false;
}

/* A check whose result nothing computed reads is still made: its result gets memory. */
static void see_checks(Lower *l) {
    for (Node *node = l->graph->last; node; node = node->prev) {
        bool computed = is_computed(l, node);
        if (!computed && node->row->flags & OPF_check && node->n_outs) {
            val_info(l, val_info(l, &node->outs[0])->base)->visible = true;
            computed = true;
        }
        if (computed && node->row->kind != KIND_view) mark_args_read(l, node);
    }
}

void look_at_graph(Lower *l) {
    Graph *const graph = l->graph;
    l->vals = ARENA_ARRAY(l->arena, ValInfo, graph->n_vals + 1);
    for (int i = 0; i < graph->inputs.n; i++) look_at_value(l, graph->inputs.at[i]);
    for (Node *node = graph->first; node; node = node->next) {
        for (int r = 0; r < node->n_outs; r++) look_at_value(l, &node->outs[r]);
        check_memory(l, node);
        UseAt visit = {l, node->id};
        if (node->row->kind != KIND_view) node_each_input(node, add_user, &visit);
    }
    for (int i = 0; i < graph->outputs.n; i++) {
        const Output *const out = &graph->outputs.at[i];
        if (out->value && out->kind != OUT_none) val_info(l, val_info(l, out->value)->base)->visible = true;
    }
    for (int i = 0; i < graph->writes.n; i++) val_info(l, val_info(l, graph->writes.at[i].value)->base)->visible = true;
    see_checks(l);
}

int again_at(const Cluster *cluster, const Node *node) {
    int i = cluster->again.n - 1;
    while (i >= 0 && cluster->again.at[i] != node) i--;
    return i;
}

bool cluster_has(const Lower *l, const Cluster *cluster, const GVal *base) {
    return base->def && (l->cluster[base->def->id] == cluster || again_at(cluster, base->def) >= 0);
}

bool needs_memory(const Lower *l, const Cluster *cluster, const GVal *base) {
    const ValInfo *const info = val_info(l, base);
    if (info->visible) return true;
    for (int i = 0; i < info->users.n; i++) {
        const Cluster *const user = l->cluster[info->users.at[i]];
        if (user != cluster && again_at(user, base->def) < 0) return true;
    }
    return false;
}

/* No dims: any and all then reduce none, the others all. */
static bool reduces_none(const OpRow *row) { return row->flags & OPF_none_of_none; }

bool reduced_dims(const Node *node, bool *reduced) {
    if (node->args[0].kind != ARG_tensor) return false;
    const Meta *const input = node->args[0].val->meta;
    const int dim = op_param_find(node->row, "dim");
    const Arg *const a = dim >= 0 ? &node->args[dim] : NULL;
    int n = 0;
    memset(reduced, 0, sizeof(bool) * MAX_RANK);
    if (a && a->kind == ARG_ints) n = a->n;
    if (a && a->kind == ARG_ints && !n && reduces_none(node->row)) return true;
    for (int i = 0; i < n; i++) reduced[dim_wrap(a->ints[i], input->rank)] = input->rank > 0;
    if (n) return true;
    if (a && a->kind == ARG_int) {
        reduced[dim_wrap(a->i, input->rank)] = input->rank > 0;
        return true;
    }
    const int kept = dim >= 0 ? 0 : node->outs[0].base.meta->rank; /* mv, dot and whole reductions: the last dims */
    for (int d = kept; d < input->rank; d++) reduced[d] = true;
    return true;
}
