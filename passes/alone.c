/* alone.c: what has no loop program runs by itself, so that the rest of its graph stays compiled.
 *
 * Sizes may be symbolic such that an index is no affine expression of a nest's variables: the writer of nests gives up
 * (nest.c), and a scheduler that tries nests joins such an op with no other. When its kernel is to be written at last,
 * what does not lower is taken apart, group -> clusters -> nodes, until an op alone does not; that one becomes a step
 * which eager runs (STEP_eager), with the reason. Its operands and results are in memory as a native op's are. Eager
 * makes a program of the op for the sizes of the call, of which there always is one: its own programs are never taken
 * apart (Lower.alone), else it would ask itself.
 *
 *     [ relu . flip ] [ sum ]   flip does not lower:   relu | flip by eager | sum */
#include "passes/lower.h"

/* Does a part of a group that writes back do so? */
static bool writes_input(const Lower *l, const Cluster *cluster) {
    bool writes = cluster->copy && cluster->copy->write;
    for (int i = 0; i < cluster->nodes.n; i++)
        for (int r = 0; r < cluster->nodes.at[i]->n_outs; r++)
            writes |= val_info(l, val_info(l, &cluster->nodes.at[i]->outs[r])->home)->kind == VAL_input;
    return writes;
}

static void lower_part(Lower *l, const Group *of, Cluster *cluster) {
    Group *const part = ARENA_NEW(l->arena, Group);
    part->checked = of->checked;
    part->write_back = of->write_back && writes_input(l, cluster);
    cluster->group = part;
    VEC_PUSH(l->arena, &part->clusters, cluster);
    lower_to_step(l, part);
}

/* What stayed inside of the nest is read by another step from now on. */
static void release_slots(Lower *l, const Node *node) {
    for (int r = 0; r < node->n_outs; r++) {
        ValInfo *const home = val_info(l, val_info(l, &node->outs[r])->home);
        if (home->slot < 0) home->slot = new_slot(l, SLOT_arena, -1, home->val->base.meta);
    }
}

static Cluster *cluster_of_one(Lower *l, Node *node) {
    Cluster *const one = ARENA_NEW(l->arena, Cluster);
    one->kind = val_info(l, &node->outs[0])->kind;
    VEC_PUSH(l->arena, &one->nodes, node);
    l->cluster[node->id] = one;
    release_slots(l, node);
    return one;
}

static void lower_nodes(Lower *l, const Group *group, const Cluster *cluster) {
    for (int i = 0; i < cluster->nodes.n; i++) cluster_of_one(l, cluster->nodes.at[i]);
    for (int i = 0; i < cluster->nodes.n; i++) lower_part(l, group, l->cluster[cluster->nodes.at[i]->id]);
}

void lower_alone(Lower *l, const Group *group, const char *why) {
    Cluster *const cluster = group->clusters.at[0];
    Node *const node = cluster->nodes.n ? cluster->nodes.at[0] : NULL;
    if (!l->alone || !node || cluster->again.n) lower_bail(l, node, why);
    if (group->clusters.n > 1) {
        for (int c = 0; c < group->clusters.n; c++) lower_part(l, group, group->clusters.at[c]);
    } else if (cluster->nodes.n > 1) {
        lower_nodes(l, group, cluster);
    } else {
        if (!op_runs_alone(node->row)) lower_bail(l, node, why);
        release_slots(l, node);
        Step step;
        call_step(l, node, STEP_eager, &step);
        step.write_back = group->write_back;
        step.why = why;
        VEC_PUSH(l->arena, &l->plan->steps, step);
    }
}
