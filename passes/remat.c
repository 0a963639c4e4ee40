/* remat.c: values that a second nest computes for itself (rematerialization).
 *
 * Where two clusters cannot be one nest, what one computes for the other is stored and loaded. A pointwise value that
 * one other cluster alone reads need not be, if what it is computed from is in memory anyhow: that cluster computes it
 * again, and reads its operands instead; and if nobody else wants it, the value is that cluster's from then on.
 *
 *     [ y = scale(x) . store y . z = fill(y) . use z ]  [ use z ]   z: no memory, y is read twice
 *
 * An optimizer's step shows it: its chains share scalars, so the scheduler makes one nest of them until it is full, in
 * the middle of a parameter, and a temporary as large as that parameter would be alive between the two.
 *
 * What a cluster computes again it reads the operands of: they have a user more, by a number that stands for the
 * cluster (Cluster.reader) and stays its own whichever nodes move. An epilogue gives what it computes beside a product
 * away like any other nest: what it stores of a chain that has nothing to do with the product is computed twice
 * instead, and is in no memory meanwhile. */
#include <stdlib.h>

#include "passes/lower.h"

enum { MOST_AGAIN = 16 };

/* Values on their way. */
typedef struct Remat {
    Lower *l;
    const bool *overwritten; /* by value id: bases whose memory gets other contents in this graph */
    const Node *const *by_id;
    Cluster *from, *to;
    Node *nodes[MOST_AGAIN];
    int n;
    int64_t kept;              /* bytes of operands that would live until `to` runs */
    int64_t read;              /* bytes of operands that it did not read before */
    bool refused, meets_write; /* it reads what is overwritten, as `to` does */
} Remat;

/* May it have pointwise ops beside others? */
static bool has_chains(const Cluster *c) { return cluster_loops(c) || c->kind == VAL_template; }

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

/* Does the cluster that computes again read the elements of the value, not its sizes alone? */
static bool is_read_in(const Remat *remat, const ValInfo *info) {
    for (int u = 0; u < info->users.n; u++) {
        const int user = info->users.at[u];
        if (remat->l->cluster[user] != remat->to) continue;
        if (user >= remat->l->graph->n_nodes || node_reads(remat->l, remat->by_id[user], info->val)) return true;
    }
    return false;
}

static int64_t bytes_of(const Remat *remat, const GVal *v) { return meta_hint_bytes(remat->l->env, v->base.meta); }

/* An operand: computed again as well, or in memory until then. */
static void look_at_operand(void *context, GVal **slot) {
    Remat *const remat = context;
    const Lower *const l = remat->l;
    if (!*slot) return;
    const ValInfo *const info = val_info(l, val_info(l, *slot)->base);
    const GVal *const base = info->val;
    if (base->def && is_remat(remat, base->def)) return;
    const Cluster *const own = base->def ? l->cluster[base->def->id] : NULL;
    if (own && !needs_memory(l, own, base)) {
        remat->refused |= own != remat->from || remat->n == MOST_AGAIN || !may_repeat(l, base->def);
        if (!remat->refused) remat->nodes[remat->n++] = base->def;
        return;
    }
    const bool read = is_read_in(remat, info);
    remat->refused |= !read && remat->overwritten[base->id];
    remat->meets_write |= remat->overwritten[base->id];
    if (read) return;
    remat->read += bytes_of(remat, base);
    if (base->def && !info->visible) remat->kept += bytes_of(remat, base);
}

/* Nothing as large as the value is kept in its place, and no more is moved than a store and a load of it. */
static bool pays(const Remat *remat, const GVal *value) {
    const int64_t bytes = bytes_of(remat, value);
    if (remat->refused || remat->kept > bytes) return false;
    if (remat->read <= 2 * bytes) return true;
    record_merge(remat->l, value->def, remat->to->nodes.at[0], 2 * bytes - remat->read, "");
    return false;
}

static void add_reader(void *context, GVal **slot) {
    const Remat *const remat = context;
    Lower *const l = remat->l;
    Cluster *const to = remat->to;
    if (!*slot) return;
    ValInfo *const info = val_info(l, val_info(l, *slot)->base);
    if (cluster_has(l, to, info->val)) return;
    if (!to->reader) to->reader = l->graph->n_nodes + l->n_readers++;
    l->cluster[to->reader] = to;
    VEC_PUSH(l->arena, &info->users, to->reader);
}

/* moving -------------------------------------------------------------------------------------- */

/* Not the last one: what is left would run earlier, and what it makes live longer. */
static bool belongs_there(const Remat *remat, const Node *node) {
    if (remat->from->nodes.at[remat->from->nodes.n - 1] == node) return false;
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

static int latest_first(const void *a, const void *b) { return (*(Node *const *)b)->id - (*(Node *const *)a)->id; }

static void compute_there(Remat *remat) {
    qsort(remat->nodes, (size_t)remat->n, sizeof *remat->nodes, latest_first);
    for (int i = 0; i < remat->n; i++) node_each_input(remat->nodes[i], add_reader, remat);
    for (int i = 0; i < remat->n; i++)
        if (belongs_there(remat, remat->nodes[i])) move_node(remat, remat->nodes[i]);
}

static void try_again(Remat *remat) {
    Lower *const l = remat->l;
    const GVal *const value = &remat->nodes[0]->outs[0];
    for (int i = 0; i < remat->n; i++) node_each_input(remat->nodes[i], look_at_operand, remat); /* may add to them */
    if (!pays(remat, value) || remat->to->nodes.n + remat->to->again.n + remat->n > l->most_nodes) return;
    const Cluster to = *remat->to, from = *remat->from;
    const int in_place = remat->meets_write ? writes_in_place(l, remat->to) : 0;
    for (int i = 0; i < remat->n; i++)
        if (!cluster_has(l, remat->to, &remat->nodes[i]->outs[0]))
            VEC_PUSH(l->arena, &remat->to->again, remat->nodes[i]);
    if (cluster_last_stored(l, remat->from) && !try_nest(l, remat->to, NULL, NULL) &&
        !try_nest(l, remat->from, NULL, NULL) && (!remat->meets_write || writes_in_place(l, remat->to) >= in_place)) {
        compute_there(remat);
    } else {
        *remat->to = to;
        *remat->from = from;
    }
}

static const Node *const *nodes_by_id(const Lower *l) {
    const Node **const by_id = ARENA_ARRAY(l->arena, const Node *, l->graph->n_nodes + 1);
    for (const Node *node = l->graph->first; node; node = node->next) by_id[node->id] = node;
    return by_id;
}

/* By value id: its memory may be overwritten while the graph runs. So are inputs that the graph writes, what a scatter
 * replaces in place, and a scatter's result, which the next scatter may replace. */
static const bool *find_overwritten(const Lower *l) {
    bool *const overwritten = ARENA_ARRAY(l->arena, bool, l->graph->n_vals + 1);
    for (int i = 0; i < l->graph->writes.n; i++) overwritten[l->graph->writes.at[i].input->id] = true;
    for (const Node *node = l->graph->first; node; node = node->next)
        if (node->form == FORM_inplace && node->args[0].kind == ARG_tensor)
            overwritten[val_info(l, gval(node->args[0].val))->base->id] = overwritten[node->outs[0].id] = true;
    return overwritten;
}

void rematerialize(Lower *l) {
    const bool *overwritten = NULL; /* found when they are first asked for: most graphs have nothing to move */
    const Node *const *by_id = NULL;
    for (Node *node = l->graph->last; node; node = node->prev) {
        Remat remat = {.l = l, .from = l->cluster[node->id], .nodes = {node}, .n = 1};
        if (!remat.from || !may_repeat(l, node) || !has_chains(remat.from) || remat.from->nodes.n == 1) continue;
        if (!needs_memory(l, remat.from, &node->outs[0])) continue;
        remat.to = only_reader(l, node);
        if (!remat.to || !cluster_loops(remat.to) || remat.to->full != node->outs[0].base.meta->numel) continue;
        if (!by_id) overwritten = find_overwritten(l), by_id = nodes_by_id(l);
        remat.overwritten = overwritten, remat.by_id = by_id;
        try_again(&remat);
    }
}
