/* schedule.c: which nodes share a nest (clusters) and which nests share a kernel (groups), by bytes
 * saved.
 *
 *   1. vertical: in program order each node joins the clusters that produce its operands: pointwise
 *      chains, reductions with their producers and consumers, a product's epilogue. A value that
 *      stays inside is never stored.
 *   2. siblings: clusters that read the same value over the same elements read it once.
 *   3. again: a pointwise value that one other nest alone reads is computed there too (remat.c), so
 *      that it does not matter in which place a chain became too large for one nest.
 *   4. tails: a small nest over the row results of a reduction follows it in the same kernel (the
 *      mean of losses).
 *   5. updates: pointwise clusters whose results nothing in the graph reads share one kernel (an
 *      optimizer's step).
 *   6. heads: scalars that one kernel alone reads are computed first in that kernel (a step's bias
 *      corrections).
 *
 * Whether two clusters fit is decided by writing the nest they would make (nest.c) and looking at
 * it: it must exist, use a bounded number of buffers and compute nothing dear twice. Merging must
 * not close a cycle, of data or of the order of ops with effects, nor move more bytes than it saves (traffic.c). Each
 * merge and each refusal is noted, with its bytes. */
#include "passes/group_order.h"
#include "passes/internal.h"

/* Buffers of a nest (registers hold their addresses), its nodes (trying nests, and compiling them, stays cheap),
 * buffers of a kernel. */
enum { MAX_BUFS = 30, MAX_NODES = 128, MAX_KERNEL_BUFS = 256, MAX_MERGES = 512 };

/* One cluster and one group per node. */
static Cluster *singleton(Lower *l, Node *node) {
    Cluster *const cluster = ARENA_NEW(l->arena, Cluster);
    Group *const group = ARENA_NEW(l->arena, Group);
    const ValKind kind = val_info(l, &node->outs[0])->kind;
    cluster->kind = kind;
    cluster->group = group;
    cluster->outer = cluster->full = node->outs[0].base.meta->numel;
    if (kind == VAL_reduction) cluster->full = node->args[0].val->meta->numel;
    cluster->n_bufs = node->n_args + node->n_outs;
    VEC_PUSH(l->arena, &cluster->nodes, node);
    VEC_PUSH(l->arena, &group->clusters, cluster);
    group->checked = node->row->flags & OPF_may_fail;
    VEC_PUSH(l->arena, &l->groups, group);
    return cluster;
}

static void singletons(Lower *l) {
    l->cluster = ARENA_ARRAY(l->arena, Cluster *, 2 * l->graph->n_nodes + 2);
    l->n_readers = 1;
    for (Node *node = l->graph->first; node; node = node->next)
        if (node->row->kind != KIND_view) l->cluster[node->id] = singleton(l, node);
}

/* Ops with effects run in program order [semantics C12]. */
static void chain_effects(Lower *l) {
    l->next_effect = ARENA_ARRAY(l->arena, const Node *, l->graph->n_nodes + 1);
    const Node *next = NULL;
    for (const Node *node = l->graph->last; node; node = node->prev) {
        if (!(node->row->flags & OPF_ordered)) continue;
        l->next_effect[node->id] = next;
        next = node;
    }
}

void record_merge(Lower *l, const Node *from, const Node *to, int64_t bytes, const char *why) {
    if (l->merges.n >= MAX_MERGES) return;
    const int inputs = l->graph->inputs.n;
    const PlanMerge merge = {from->row, to->row, from->outs[0].id - inputs, to->outs[0].id - inputs, bytes, why};
    VEC_PUSH(l->arena, &l->merges, merge);
}

static void refuse_merge(Lower *l, const Cluster *a, const Cluster *b, const char *why) {
    record_merge(l, a->nodes.at[a->nodes.n - 1], b->nodes.at[0], traffic_saved(l, a, b), why);
}

/* merging ------------------------------------------------------------------------------------- */

static bool is_loop(const Cluster *c) {
    return c->kind == VAL_pointwise || c->kind == VAL_reduction || c->kind == VAL_template;
}

static Cluster *merged(Lower *l, Cluster *a, Cluster *b) {
    Cluster *const both = ARENA_NEW(l->arena, Cluster);
    int i = 0, k = 0;
    if (a->nodes.at[a->nodes.n - 1]->id < b->nodes.at[0]->id) { /* grows a's own array: a is done, or b's are dropped */
        memcpy(&both->nodes, &a->nodes, sizeof both->nodes);
        i = a->nodes.n;
    }
    while (i < a->nodes.n || k < b->nodes.n) {
        const bool first = k == b->nodes.n || (i < a->nodes.n && a->nodes.at[i]->id < b->nodes.at[k]->id);
        Node *const node = first ? a->nodes.at[i++] : b->nodes.at[k++];
        VEC_PUSH(l->arena, &both->nodes, node);
    }
    both->kind = a->kind > b->kind ? a->kind : b->kind; /* pointwise < reduction < template */
    both->group = a->group;
    return both;
}

static void relabel(Lower *l, const Cluster *nodes, Cluster *to) {
    for (int i = 0; i < nodes->nodes.n; i++) l->cluster[nodes->nodes.at[i]->id] = to;
}

const char *try_nest(Lower *l, Cluster *cluster, const Plain *a, const Plain *b) {
    Draft draft = {.l = l, .arena = l->scratch, .tile = -1, .tile_param = -1};
    Kernel kernel = {0};
    NestCost cost = {0};
    l->work.trials++;
    const char *why = draft_cluster(&draft, cluster, &kernel, &cost);
    if (!why) cluster->plain = a ? plain_tried(l, cluster, a, b, &cost) : plain_of(l, cluster, &draft, &cost);
    if (!why && draft.bufs.n > l->most_bufs) why = "too many buffers";
    if (!why && cost.recomputed) why = "a dear value would be computed several times";
    cluster->full = cost.full;
    cluster->outer = cost.outer;
    cluster->n_bufs = draft.bufs.n;
    arena_reset(l->scratch);
    return why;
}

/* What is known of a pointwise cluster; of a single node found out here, once. */
static const Plain *look_at_cluster(Lower *l, Cluster *cluster) {
    if (cluster->kind == VAL_pointwise && cluster->nodes.n == 1 && !cluster->tried) {
        Cluster alone = *cluster;
        try_nest(l, &alone, NULL, NULL);
        cluster->plain = alone.plain;
        cluster->tried = true;
    }
    return cluster->plain;
}

/* Both as one nest; NULL: fine. Where it is obvious no nest is tried. */
static const char *fit(Lower *l, Cluster *both, const Cluster *a, const Plain *plain_a, const Plain *plain_b) {
    both->plain = plain_both(l, both, plain_a, plain_b);
    if (!both->plain) return try_nest(l, both, plain_a && plain_b ? plain_a : NULL, plain_b);
    both->full = a->full;
    both->outer = a->outer;
    both->n_bufs = plain_bufs(both->plain);
    return both->n_bufs > l->most_bufs ? "too many buffers" : NULL;
}

/* A kernel has all of its values on one device; 0-dim ones of another were copied there (devices.c). */
static bool on_one_device(const Group *a, const Group *b) {
    const Node *const x = a->clusters.at[0]->nodes.at[0], *const y = b->clusters.at[0]->nodes.at[0];
    return x->outs[0].base.meta->device == y->outs[0].base.meta->device;
}

/* Of groups of several nests, right before they are joined. */
static bool can_join(Lower *l, Group *a, Group *b) { return on_one_device(a, b) && !groups_close_cycle(l, a, b); }

/* The group of `b` disappears into that of `a`: here both hold one cluster each. */
static void join_groups(Lower *l, Group *a, Group *b) {
    groups_join(l, a, b);
    a->checked |= b->checked;
    b->clusters.n = 0;
}

/* Is c a single element, computed from single elements, that other clusters than `reader` read too? Such a cluster is
 * joined with none of them, so that none of its readers waits for another one. */
static bool is_shared_scalar(const Lower *l, const Cluster *c, const Cluster *reader) {
    if (c->kind != VAL_pointwise || c->full != 1 || reader->full == 1) return false;
    for (int i = 0; i < c->nodes.n; i++)
        for (int r = 0; r < c->nodes.at[i]->n_outs; r++) {
            const ValInfo *const info = val_info(l, &c->nodes.at[i]->outs[r]);
            for (int u = 0; u < info->users.n; u++) {
                const Cluster *const user = l->cluster[info->users.at[u]];
                if (user != c && user != reader) return true;
            }
        }
    return false;
}

/* A nest over it computes nothing, not even one element of something else. */
static bool is_empty(const Lower *l, const Cluster *c) { return !sym_less(l->env, 0, c->full); }

static bool try_merge(Lower *l, Cluster *a, Cluster *b) {
    if (a == b || !is_loop(a) || !is_loop(b)) return false;
    if (a->kind == VAL_template && b->kind == VAL_template) return false;
    if (!on_one_device(a->group, b->group)) return false;
    if (a->nodes.n + b->nodes.n > l->most_nodes) {
        refuse_merge(l, a, b, "too many ops for one nest");
        return false;
    }
    if (groups_close_cycle(l, a->group, b->group)) {
        refuse_merge(l, a, b, "would close a cycle");
        return false;
    }
    const char *const far = far_refuses(l, a->group, b->group);
    if (far) {
        refuse_merge(l, a, b, far);
        return false;
    }
    if (a->full != b->full && is_empty(l, a) != is_empty(l, b)) {
        refuse_merge(l, a, b, "one has no elements");
        return false;
    }
    const int64_t saved = traffic_saved(l, a, b);
    if (saved < 0) {
        refuse_merge(l, a, b, "");
        return false;
    }
    const Plain *const plain_a = look_at_cluster(l, a), *const plain_b = look_at_cluster(l, b);
    Cluster *const both = merged(l, a, b);
    relabel(l, both, both);
    const char *const why = fit(l, both, a, plain_a, plain_b);
    if (why) {
        relabel(l, a, a);
        relabel(l, b, b);
        refuse_merge(l, a, b, why);
        return false;
    }
    record_merge(l, a->nodes.at[a->nodes.n - 1], b->nodes.at[0], saved, NULL);
    both->group->clusters.at[0] = both;
    join_groups(l, a->group, b->group);
    return true;
}

static void fuse_vertical(Lower *l) {
    for (Node *node = l->graph->first; node; node = node->next) {
        if (!l->cluster[node->id]) continue;
        const int *producers;
        const int n = node_feeds(l, node, &producers);
        for (int i = 0; i < n; i++) {
            Cluster *const a = l->cluster[producers[i]], *const b = l->cluster[node->id];
            if (!is_shared_scalar(l, a, b)) try_merge(l, a, b);
        }
    }
}

static bool same_elements(const Cluster *a, const Cluster *b) {
    return is_loop(a) && is_loop(b) && a->full == b->full && a->kind != VAL_template && b->kind != VAL_template;
}

/* Readers of one large value; small ones (a bias, a table) save nothing. */
static void fuse_siblings(Lower *l) {
    for (int v = 0; v < l->graph->n_vals; v++) {
        const ValInfo *const info = &l->vals[v];
        if (!info->val || info->base != info->val) continue;
        for (int u = 1; u < info->users.n; u++) {
            Cluster *const a = l->cluster[info->users.at[u - 1]], *const b = l->cluster[info->users.at[u]];
            const int64_t numel = sym_hint(l->env, info->val->base.meta->numel);
            if (a == b || !same_elements(a, b) || numel * 2 < sym_hint(l->env, a->full)) continue;
            try_merge(l, a, b);
        }
    }
}

/* groups of several nests --------------------------------------------------------------------- */

static void append_group(Lower *l, Group *to, Group *from) {
    groups_join(l, to, from);
    for (int i = 0; i < from->clusters.n; i++) {
        from->clusters.at[i]->group = to;
        VEC_PUSH(l->arena, &to->clusters, from->clusters.at[i]);
    }
    to->checked |= from->checked;
    from->clusters.n = 0;
}

static int group_bufs(const Group *group) {
    int n = 0;
    for (int i = 0; i < group->clusters.n; i++) n += group->clusters.at[i]->n_bufs;
    return n;
}

static bool group_loops(const Group *group) {
    for (int i = 0; i < group->clusters.n; i++)
        if (!cluster_loops(group->clusters.at[i])) return false;
    return group->clusters.n > 0;
}

/* b works on at most one element per row of a reduction in a. */
static bool is_tail(const Lower *l, const Group *a, const Group *b) {
    if (!group_loops(a) || !group_loops(b) || group_bufs(a) + group_bufs(b) > MAX_KERNEL_BUFS) return false;
    const Cluster *const rows = a->clusters.at[0], *const tail = b->clusters.at[0];
    return rows->kind == VAL_reduction && b->clusters.n == 1 &&
           sym_hint(l->env, tail->full) <= sym_hint(l->env, rows->outer);
}

static void fuse_tails(Lower *l) {
    for (Node *node = l->graph->first; node; node = node->next) {
        if (!l->cluster[node->id]) continue;
        const int *producers;
        const int n = node_feeds(l, node, &producers);
        for (int i = 0; i < n; i++) {
            Group *const a = l->cluster[producers[i]]->group, *const b = l->cluster[node->id]->group;
            if (a != b && is_tail(l, a, b) && !far_refuses(l, a, b) && can_join(l, a, b)) append_group(l, a, b);
        }
    }
}

/* Nothing in the graph reads its results. */
static bool is_final(const Lower *l, const Group *group) {
    for (int c = 0; c < group->clusters.n; c++) {
        const Cluster *const cluster = group->clusters.at[c];
        if (cluster->kind != VAL_pointwise) return false;
        for (int i = 0; i < cluster->nodes.n; i++) {
            const Node *const node = cluster->nodes.at[i];
            for (int r = 0; r < node->n_outs; r++) {
                const ValInfo *const info = val_info(l, &node->outs[r]);
                for (int u = 0; u < info->users.n; u++)
                    if (l->cluster[info->users.at[u]]->group != group) return false;
            }
        }
    }
    return group->clusters.n > 0 && !group->checked;
}

static void fuse_updates(Lower *l) {
    Group *into = NULL;
    for (int i = 0; i < l->groups.n; i++) {
        Group *const group = l->groups.at[i];
        if (!is_final(l, group)) continue;
        if (into && group_bufs(into) + group_bufs(group) <= MAX_KERNEL_BUFS && can_join(l, into, group)) {
            append_group(l, into, group);
            into->independent = true;
        } else {
            into = group;
        }
    }
}

/* The only group that reads what a group of scalars computes; NULL: none, or several. */
static Group *reader_of_scalars(const Lower *l, const Group *group) {
    Group *reader = NULL;
    for (int c = 0; c < group->clusters.n; c++) {
        const Cluster *const cluster = group->clusters.at[c];
        if (cluster->kind != VAL_pointwise || cluster->full != 1) return NULL;
        for (int i = 0; i < cluster->nodes.n; i++)
            for (int r = 0; r < cluster->nodes.at[i]->n_outs; r++) {
                const ValInfo *const info = val_info(l, &cluster->nodes.at[i]->outs[r]);
                for (int u = 0; u < info->users.n; u++) {
                    Group *const next = l->cluster[info->users.at[u]]->group;
                    if (next == group) continue;
                    if (reader && reader != next) return NULL;
                    reader = next;
                }
            }
    }
    return group->checked ? NULL : reader;
}

static void prepend_group(Lower *l, Group *to, Group *head) {
    const Group rest = *to;
    to->clusters.at = NULL;
    to->clusters.n = to->clusters.capacity = 0;
    append_group(l, to, head);
    for (int i = 0; i < rest.clusters.n; i++) VEC_PUSH(l->arena, &to->clusters, rest.clusters.at[i]);
    to->independent = false;
}

/* Latest first, so that scalars of scalars follow each other. */
static void fuse_heads(Lower *l) {
    for (int i = l->groups.n - 1; i >= 0; i--) {
        Group *const group = l->groups.at[i];
        Group *const reader = reader_of_scalars(l, group);
        if (!reader || !group_loops(reader)) continue;
        if (group_bufs(group) + group_bufs(reader) > MAX_KERNEL_BUFS) continue;
        if (can_join(l, group, reader)) prepend_group(l, reader, group);
    }
}

static void make_groups(Lower *l) {
    singletons(l);
    chain_effects(l);
    group_order_new(l);
    if (!l->fuse) return;
    fuse_vertical(l);
    fuse_siblings(l);
    rematerialize(l);
    fuse_tails(l);
    fuse_updates(l);
    fuse_heads(l);
}

/* The result that others see: each node's place in the call sequence. */
static void number_kernels(Lower *l) {
    for (int i = 0; i < l->groups.n; i++)
        for (int c = 0; c < l->groups.at[i]->clusters.n; c++) {
            const Cluster *const cluster = l->groups.at[i]->clusters.at[c];
            for (int k = 0; k < cluster->nodes.n; k++) cluster->nodes.at[k]->kernel = i + 1;
        }
}

static void scratch_failed(void *context) {
    const Lower *const l = context;
    bail(l->graph->bail, BAIL_memory, "scheduling");
}

static Lower *lower_new(Graph *graph, const PassOptions *options) {
    Lower *const l = ARENA_NEW(graph->arena, Lower);
    *l = (Lower){.graph = graph, .env = graph->env, .arena = graph->arena};
    l->fuse = !options->unfused;
    l->alone = !options->must_run;
    l->some_alone = l->alone && failpoint("some_alone");
    const bool small = failpoint("small_nests"); /* so that most graphs have several */
    l->most_bufs = small ? 4 : MAX_BUFS;
    l->most_nodes = small ? 6 : MAX_NODES;
    l->fast = options->fast;
    l->plan = ARENA_NEW(graph->arena, Plan);
    l->plan->arena = graph->arena;
    l->plan->env = graph->env;
    return l;
}

bool pass_schedule(Graph *graph, const PassOptions *options) {
    graph_number(graph);
    Lower *const l = lower_new(graph, options);
    look_at_graph(l);
    for (int i = 0; i < graph->inputs.n; i++)
        val_info(l, graph->inputs.at[i])->slot = new_slot(l, SLOT_input, i, graph->inputs.at[i]->base.meta);
    l->scratch = arena_new();
    if (!l->scratch) bail(graph->bail, BAIL_memory, "scheduling");
    if (graph->bail) graph->bail->scratch = l->scratch;
    arena_on_failure(l->scratch, scratch_failed, l);
    make_groups(l);
    order_groups(l);
    arena_free(l->scratch);
    l->scratch = NULL;
    if (graph->bail) graph->bail->scratch = NULL;
    number_kernels(l);
    graph->lowering = l;
    return true;
}
