/* remat.c: values that a second nest computes for itself (rematerialization).
 *
 * Where two clusters cannot be one nest, what one computes for the other is stored and loaded. A pointwise value that
 * one other cluster alone reads need not be, if what it is computed from is in memory anyhow: that cluster computes it
 * again, and reads its operands instead:
 *
 *     [ y = scale(x) . store y . z = fill(y) . use z ]  [ use z ]   z: no memory, y is read twice
 *
 * An optimizer's step shows it: its chains share scalars, so the scheduler makes one nest of them until it is full, in
 * the middle of a parameter, and a temporary as large as that parameter would be alive between the two. */
#include "passes/lower.h"

enum { MOST_AGAIN = 16 };

/* Values on their way. */
typedef struct Remat {
    Lower *l;
    Cluster *from, *to;
    Node *nodes[MOST_AGAIN]; /* latest first */
    int n;
    int n_read; /* values as large as what `to` computes that it did not read before */
    bool kept;  /* what they read would have to be kept for them */
} Remat;

static bool is_remat(const Remat *remat, const Node *node) {
    for (int i = 0; i < remat->n; i++)
        if (remat->nodes[i] == node) return true;
    return false;
}

static bool may_repeat(const Lower *l, const Node *node) {
    return node->n_outs == 1 && val_info(l, &node->outs[0])->kind == VAL_pointwise &&
           !(node->row->flags & (OPF_may_fail | OPF_ordered | OPF_random));
}

/* The one cluster beside its own that reads the value from memory; NULL: none, or several. */
static Cluster *only_reader(const Lower *l, const Node *node) {
    const ValInfo *const info = val_info(l, &node->outs[0]);
    Cluster *reader = NULL;
    for (int u = 0; u < info->users.n; u++) {
        Cluster *const user = l->cluster[info->users.at[u]];
        if (user == l->cluster[node->id] || user == reader) continue;
        if (reader) return NULL;
        reader = user;
    }
    return info->visible ? NULL : reader;
}

static bool is_large(const Remat *remat, const ValInfo *info) {
    SymEnv *const env = remat->l->env;
    return sym_hint(env, info->val->base.meta->numel) * 2 >= sym_hint(env, remat->to->full);
}

static bool is_read_in(const Lower *l, const ValInfo *info, const Cluster *cluster) {
    for (int u = 0; u < info->users.n; u++)
        if (l->cluster[info->users.at[u]] == cluster) return true;
    return false;
}

/* An operand: computed again as well, or in memory. An input that the graph writes would have to be kept as it was. */
static void look_at_operand(void *context, GVal **slot) {
    Remat *const remat = context;
    const Lower *const l = remat->l;
    if (!*slot) return;
    const ValInfo *const info = val_info(l, val_info(l, *slot)->base);
    Node *const def = info->val->def;
    if (def && is_remat(remat, def)) return;
    if (def && l->cluster[def->id] == remat->from && !needs_memory(l, remat->from, info->val)) {
        remat->kept |= remat->n == MOST_AGAIN || !may_repeat(l, def);
        if (!remat->kept) remat->nodes[remat->n++] = def;
        return;
    }
    const bool read_there = is_read_in(l, info, remat->to);
    remat->kept |= !def && !read_there && graph_writes(l->graph, info->val);
    remat->n_read += is_large(remat, info) && !read_there;
}

/* From now on `to` reads the operands. */
static void add_reader(void *context, GVal **slot) {
    const Remat *const remat = context;
    if (!*slot) return;
    ValInfo *const info = val_info(remat->l, val_info(remat->l, *slot)->base);
    if (!cluster_has(remat->l, remat->to, info->val) && !is_read_in(remat->l, info, remat->to))
        VEC_PUSH(remat->l->arena, &info->users, remat->to->nodes.at[0]->id);
}

/* Nobody else reads it: then it is not computed again, but there instead. */
static bool belongs_there(const Remat *remat, const Node *node) {
    const ValInfo *const info = val_info(remat->l, &node->outs[0]);
    for (int u = 0; u < info->users.n; u++)
        if (remat->l->cluster[info->users.at[u]] != remat->to) return false;
    return true;
}

/* Both lists keep program order. */
static void move_node(Remat *remat, Node *node) {
    Cluster *const from = remat->from, *const to = remat->to;
    int kept = 0;
    for (int i = 0; i < from->nodes.n; i++)
        if (from->nodes.at[i] != node) from->nodes.at[kept++] = from->nodes.at[i];
    from->nodes.n = kept;
    VEC_PUSH(remat->l->arena, &to->nodes, node);
    int at = to->nodes.n - 1;
    for (; at > 0 && to->nodes.at[at - 1]->id > node->id; at--) to->nodes.at[at] = to->nodes.at[at - 1];
    to->nodes.at[at] = node;
    kept = 0;
    for (int i = 0; i < to->again.n; i++)
        if (to->again.at[i] != node) to->again.at[kept++] = to->again.at[i];
    to->again.n = kept;
    remat->l->cluster[node->id] = to;
}

static bool stores_any(const Lower *l, const Cluster *cluster) {
    for (int i = 0; i < cluster->nodes.n; i++)
        for (int r = 0; r < cluster->nodes.at[i]->n_outs; r++)
            if (needs_memory(l, cluster, &cluster->nodes.at[i]->outs[r])) return true;
    return false;
}

static void try_again(Remat *remat) {
    Lower *const l = remat->l;
    for (int i = 0; i < remat->n; i++) node_each_input(remat->nodes[i], look_at_operand, remat); /* may add to them */
    if (remat->kept || remat->n_read > 1) return;
    const Cluster before = *remat->to;
    for (int i = 0; i < remat->n; i++)
        if (!cluster_has(l, remat->to, &remat->nodes[i]->outs[0]))
            VEC_PUSH(l->arena, &remat->to->again, remat->nodes[i]);
    if (!stores_any(l, remat->from) || try_nest(l, remat->to, NULL, NULL) || try_nest(l, remat->from, NULL, NULL)) {
        *remat->to = before;
        return;
    }
    for (int i = 0; i < remat->n; i++) node_each_input(remat->nodes[i], add_reader, remat);
    for (int i = 0; i < remat->n; i++)
        if (belongs_there(remat, remat->nodes[i])) move_node(remat, remat->nodes[i]);
}

static bool is_loop_nest(const Cluster *c) { return c->kind == VAL_pointwise || c->kind == VAL_reduction; }

void rematerialize(Lower *l) {
    for (Node *node = l->graph->last; node; node = node->prev) {
        Remat remat = {.l = l, .from = l->cluster[node->id], .nodes = {node}, .n = 1};
        if (!remat.from || !may_repeat(l, node) || !is_loop_nest(remat.from) || remat.from->nodes.n == 1) continue;
        if (!needs_memory(l, remat.from, &node->outs[0])) continue;
        remat.to = only_reader(l, node);
        if (remat.to && is_loop_nest(remat.to) && remat.to->full == node->outs[0].base.meta->numel) try_again(&remat);
    }
}
