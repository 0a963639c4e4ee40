/* far.c: which joins the scheduler refuses because of memory.
 *
 * A group runs where its last node stands in the program (order.c). So what joins a group that stands far behind waits
 * for it, and with it all that reads it:
 *
 *     forward 1 . loss 1 . backward 1 . forward 2 . loss 2 . loss 1 + loss 2 . backward 2
 *
 * If loss 1 joined the sum, backward 1 would come after forward 2: both halves' activations at once, twice the memory
 * of running op by op. So would sums of a weight's gradients over layers, each near the one before, that became one
 * kernel behind all of them. A join with at most NEAR_NODES of others between is never refused, and none that keeps no
 * more than FEW_BYTES: a launch costs more. */
#include <stdlib.h>

#include "passes/lower.h"

enum { NEAR_NODES = 12, FEW_BYTES = 1 << 16 };

int group_last_node(const Group *group) {
    int last = -1;
    for (int c = 0; c < group->clusters.n; c++) {
        const Cluster *const cluster = group->clusters.at[c];
        const int id = cluster->nodes.at[cluster->nodes.n - 1]->id;
        if (id > last) last = id;
    }
    return last;
}

typedef struct Wait {
    const Lower *l;
    const Group *low, *high;
    int to;            /* where low then runs: high's place in the program */
    bool read_between; /* by a group that would wait, too */
    int64_t kept;      /* bytes of what low reads and nobody near `to`, less those of what only high reads of it */
} Wait;

static int64_t bytes_of(const Wait *wait, const ValInfo *info) {
    const Meta *const meta = info->val->base.meta;
    return info->visible ? 0 : meta_hint_bytes(wait->l->env, meta);
}

/* Where a user runs. It is the number of a node, or of a cluster (Cluster.reader), which runs where its last node
 * stands. */
static int user_place(const Lower *l, int user) {
    if (user < l->graph->n_nodes) return user;
    const Cluster *const cluster = l->cluster[user];
    return cluster->nodes.at[cluster->nodes.n - 1]->id;
}

/* An operand of low, which would live until `to`; or does so anyway. */
static void look_at_operand(void *context, GVal **slot) {
    Wait *const wait = context;
    if (!*slot) return;
    const ValInfo *const own = val_info(wait->l, *slot), *const info = val_info(wait->l, own->base);
    if (!info->val->def) return; /* an input lives as long as the call */
    const Cluster *const by = wait->l->cluster[info->val->def->id];
    if (by && by->group == wait->low) return;
    for (int u = 0; u < info->users.n; u++)
        if (user_place(wait->l, info->users.at[u]) > wait->to - NEAR_NODES) return;
    wait->kept += bytes_of(wait, info);
}

static void look_at_result(Wait *wait, const ValInfo *info) {
    bool high_only = true, high_reads = false; /* what only low reads is in no memory */
    for (int u = 0; u < info->users.n; u++) {
        const Group *const user = wait->l->cluster[info->users.at[u]]->group;
        high_reads |= user == wait->high;
        if (user == wait->low || user == wait->high) continue;
        high_only = false;
        wait->read_between |= user_place(wait->l, info->users.at[u]) < wait->to;
    }
    if (high_only && high_reads) wait->kept -= bytes_of(wait, info);
}

static void look_at_cluster(Wait *wait, const Cluster *cluster) {
    for (int i = 0; i < cluster->nodes.n; i++) {
        Node *const node = cluster->nodes.at[i];
        node_each_input(node, look_at_operand, wait);
        for (int r = 0; r < node->n_outs; r++) look_at_result(wait, val_info(wait->l, &node->outs[r]));
    }
}

static int group_first_node(const Group *group) {
    int first = group->clusters.at[0]->nodes.at[0]->id;
    for (int c = 1; c < group->clusters.n; c++)
        if (group->clusters.at[c]->nodes.at[0]->id < first) first = group->clusters.at[c]->nodes.at[0]->id;
    return first;
}

/* Whether at most NEAR_NODES of other groups stand between low's first node and where it then runs. */
static bool has_little_between(const Wait *wait) {
    int n = 0;
    for (int id = group_first_node(wait->low); id < wait->to; id++) {
        const Cluster *const cluster = wait->l->cluster[id];
        if (!cluster || cluster->group == wait->low || cluster->group == wait->high) continue;
        if (n++ == NEAR_NODES) return false;
    }
    return true;
}

const char *far_refuses(const Lower *l, const Group *a, const Group *b) {
    const int a_last = group_last_node(a), b_last = group_last_node(b);
    Wait wait = {.l = l, .low = a_last < b_last ? a : b, .high = a_last < b_last ? b : a};
    wait.to = a_last < b_last ? b_last : a_last;
    if (abs(a_last - b_last) <= NEAR_NODES && has_little_between(&wait)) return NULL;
    for (int c = 0; c < wait.low->clusters.n; c++) look_at_cluster(&wait, wait.low->clusters.at[c]);
    if (wait.read_between) return "far apart: what else reads it would wait, and more would be alive at once";
    return wait.kept > FEW_BYTES ? "far apart: what it reads would be kept" : NULL;
}
