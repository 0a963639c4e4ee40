/* schedule.c: which nodes share a nest and which nests share a kernel. */
#include "passes/lower.h"

/* One cluster and one group per node. */
static void singletons(Lower *l) {
    l->cluster = ARENA_ARRAY(l->arena, Cluster *, l->graph->n_nodes + 1);
    for (Node *node = l->graph->first; node; node = node->next) {
        if (node->row->kind == KIND_view) continue;
        Cluster *const cluster = ARENA_NEW(l->arena, Cluster);
        Group *const group = ARENA_NEW(l->arena, Group);
        cluster->kind = val_info(l, &node->outs[0])->kind;
        cluster->group = group;
        VEC_PUSH(l->arena, &cluster->nodes, node);
        VEC_PUSH(l->arena, &group->clusters, cluster);
        VEC_PUSH(l->arena, &l->groups, group);
        group->checked = node->row->flags & OPF_check;
        group->order = node->id;
        l->cluster[node->id] = cluster;
    }
}

void schedule(Lower *l) {
    singletons(l);
}
