/* order.c: write-backs in place, and the order of the groups. Ops with effects keep theirs.
 *
 * A written value may be stored straight to the input's memory if every reader of the old contents
 * runs before (or reads just the element that it replaces), nothing else needs the old contents at
 * the end, and no check comes later [C8]. Each of these is an edge between groups; an edge that
 * would close a cycle means: copy at the end instead. */
#include "passes/lower.h"

static bool waits_for(Lower *l, Group *group, const Group *other, int mark) {
    if (group == other) return true;
    group->mark = mark;
    for (int i = 0; i < group->after.n; i++) {
        Group *const before = l->groups.at[group->after.at[i]];
        if (before->mark != mark && waits_for(l, before, other, mark)) return true;
    }
    return false;
}

/* `group` must come after `before`; false: impossible. */
static bool can_follow(Lower *l, const Group *group, Group *before) {
    return group == before || !waits_for(l, before, group, ++l->mark);
}

static void data_edges(Lower *l) {
    for (int v = 0; v < l->graph->n_vals; v++) {
        const ValInfo *const info = &l->vals[v];
        if (!info->val || info->base != info->val || !info->val->def) continue;
        const Group *const def = l->cluster[info->val->def->id]->group;
        for (int u = 0; u < info->users.n; u++) {
            Group *const user = l->cluster[info->users.at[u]]->group;
            if (user != def && (user->after.n == 0 || user->after.at[user->after.n - 1] != def->id))
                VEC_PUSH(l->arena, &user->after, def->id);
        }
    }
}

static void effect_edges(Lower *l) {
    for (const Node *node = l->graph->first; node; node = node->next) {
        const Node *const next = l->next_effect[node->id];
        if (next) VEC_PUSH(l->arena, &l->cluster[next->id]->group->after, l->cluster[node->id]->group->id);
    }
}

static const GVal *home_of(const Lower *l, const GVal *value) { return val_info(l, val_info(l, value)->base)->home; }

/* What the input's memory holds is an output, or is written elsewhere at the end. */
static bool read_at_end(const Lower *l, const GVal *input) {
    for (int i = 0; i < l->graph->outputs.n; i++) {
        const Output *const out = &l->graph->outputs.at[i];
        if (out->value && out->kind == OUT_new && home_of(l, out->value) == input) return true;
    }
    for (int i = 0; i < l->graph->writes.n; i++)
        if (home_of(l, l->graph->writes.at[i].value) == input) return true;
    return false;
}

static bool new_output(const Lower *l, const GVal *base) {
    for (int i = 0; i < l->graph->outputs.n; i++) {
        const Output *const out = &l->graph->outputs.at[i];
        if (out->value && out->kind == OUT_new && val_info(l, out->value)->base == base) return true;
    }
    return false;
}

/* Reads and writes of the shared memory within the value's own nest. */
static bool nest_allows(Lower *l, const Cluster *cluster, const GVal *value) {
    Draft draft = {.l = l, .arena = l->scratch, .tile = -1, .tile_param = -1};
    Kernel kernel = {0};
    bool allowed = !draft_cluster(&draft, cluster, &kernel, NULL);
    const int buf = allowed ? draft_buf(&draft, value, true) : -1;
    for (int i = 0; allowed && i < kernel.n_nests; i++) allowed = !nest_overwrites(&kernel.nests[i], buf);
    if (allowed && kernel.gemm) allowed = kernel.gemm->a != buf && kernel.gemm->b != buf;
    arena_reset(l->scratch);
    return allowed;
}

/* May it run after those that read a value of the memory that it writes? */
static bool follows_readers(Lower *l, const ValInfo *value, const Cluster *writer) {
    for (int u = 0; u < value->users.n; u++) {
        const Cluster *const reader = l->cluster[value->users.at[u]];
        if (reader == writer) continue;
        if (reader->group == writer->group || !can_follow(l, writer->group, reader->group)) return false;
    }
    return true;
}

static bool readers_allow(Lower *l, const Write *write, const Cluster *writer) {
    if (!follows_readers(l, val_info(l, write->input), writer)) return false;
    for (int i = 0; i < l->scattered.n; i++)
        if (l->scattered.at[i]->home == write->input && !follows_readers(l, l->scattered.at[i], writer)) return false;
    for (int i = 0; i < l->groups.n; i++) {
        Group *const group = l->groups.at[i];
        if (group->checked && (group == writer->group || !can_follow(l, writer->group, group))) return false;
    }
    return true;
}

static bool same_layout(const Lower *l, const Write *write) {
    const Meta *const in = write->input->base.meta, *const out = write->value->base.meta;
    if (in->dtype != out->dtype || !meta_same_sizes(in, out)) return false;
    for (int d = 0; d < in->rank; d++)
        if (in->strides[d] == 0 && in->sizes[d] != 1) return false;
    return true;
}

static void follow_readers(Lower *l, const ValInfo *value, Group *writer) {
    for (int u = 0; u < value->users.n; u++) {
        const Group *const reader = l->cluster[value->users.at[u]]->group;
        if (reader != writer) VEC_PUSH(l->arena, &writer->after, reader->id);
    }
}

static void add_edges(Lower *l, const Write *write, Group *writer) {
    follow_readers(l, val_info(l, write->input), writer);
    for (int i = 0; i < l->scattered.n; i++)
        if (l->scattered.at[i]->home == write->input) follow_readers(l, l->scattered.at[i], writer);
    for (int i = 0; i < l->groups.n; i++)
        if (l->groups.at[i]->checked) VEC_PUSH(l->arena, &writer->after, i);
    writer->write_back = true;
}

static void try_in_place(Lower *l, const Write *write) {
    ValInfo *const info = val_info(l, write->value);
    if (info->base != write->value || !write->value->def || info->home != info->val) return;
    const Cluster *const cluster = l->cluster[write->value->def->id];
    if (info->kind == VAL_native || info->kind == VAL_pieces || new_output(l, write->value)) return;
    if (!same_layout(l, write) || read_at_end(l, write->input) || !readers_allow(l, write, cluster)) return;
    const int64_t *const own = info->strides;
    info->home = write->input;
    info->strides = write->input->base.meta->strides;
    if (!nest_allows(l, cluster, write->value)) {
        info->home = info->val;
        info->strides = own;
        return;
    }
    add_edges(l, write, cluster->group);
}

static int last_node(const Group *group) {
    int last = -1;
    for (int c = 0; c < group->clusters.n; c++) {
        const Cluster *const cluster = group->clusters.at[c];
        const int id = cluster->nodes.at[cluster->nodes.n - 1]->id;
        if (id > last) last = id;
    }
    return last;
}

static bool ready(const Lower *l, const Group *group, const bool *done) {
    for (int i = 0; i < group->after.n; i++)
        if (!done[group->after.at[i]]) return false;
    return true;
}

/* Running order: data and hazards first, then program order of the last node. */
static void sort_groups(Lower *l) {
    const int n = l->groups.n;
    bool *const done = ARENA_ARRAY(l->arena, bool, n + 1);
    Group **const sorted = ARENA_ARRAY(l->arena, Group *, n + 1);
    int n_sorted = 0;
    for (;;) {
        int best = -1;
        for (int i = 0; i < n; i++) {
            const Group *const group = l->groups.at[i];
            if (done[i] || (group->clusters.n && !ready(l, group, done))) continue;
            if (group->clusters.n == 0)
                done[i] = true;
            else if (best < 0 || last_node(group) < last_node(l->groups.at[best]))
                best = i;
        }
        if (best < 0) break;
        done[best] = true;
        sorted[n_sorted++] = l->groups.at[best];
    }
    l->groups.at = sorted;
    l->groups.n = l->groups.room = n_sorted;
}

static bool all_before(Lower *l, const Group *group, const ValInfo *base, bool checks) {
    for (int u = 0; u < base->users.n; u++) {
        Group *const reader = l->cluster[base->users.at[u]]->group;
        if (!can_follow(l, group, reader)) return false;
    }
    for (int i = 0; checks && i < l->groups.n; i++) {
        Group *const other = l->groups.at[i];
        if (other->checked && (other == group || !can_follow(l, group, other))) return false;
    }
    return true;
}

/* A scatter that the reinplace pass let write its base: the result lives where the base does. Readers of the base run
 * before; into an input's memory it is a write-back, so all checks come before too. */
static void scatter_in_place(Lower *l, const Node *node) {
    const ValInfo *const base = val_info(l, gval(node->args[0].val));
    ValInfo *const out = val_info(l, &node->outs[0]);
    Group *const group = l->cluster[node->id]->group;
    const bool input = val_info(l, base->home)->kind == VAL_input;
    if (base->base != base->val || group->clusters.n != 1 || !all_before(l, group, base, input)) return;
    out->home = base->home;
    out->strides = base->strides;
    VEC_PUSH(l->arena, &l->scattered, out);
    follow_readers(l, base, group);
    for (int i = 0; input && i < l->groups.n; i++)
        if (l->groups.at[i]->checked) VEC_PUSH(l->arena, &group->after, i);
    group->write_back |= input;
}

void order_groups(Lower *l) {
    data_edges(l);
    effect_edges(l);
    for (const Node *node = l->graph->first; node; node = node->next)
        if (node->form == FORM_inplace) scatter_in_place(l, node);
    for (int i = 0; i < l->graph->writes.n; i++) try_in_place(l, &l->graph->writes.at[i]);
    sort_groups(l);
}
