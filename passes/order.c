/* order.c: write-backs in place, and the order of the groups. Ops with effects keep theirs.
 *
 * A written value may be stored straight to the input's memory if every reader of the old contents
 * runs before (or reads just the element that it replaces), nothing else needs the old contents at
 * the end, and no check comes later [C8]. Each of these is an edge between groups; an edge that
 * would close a cycle means: copy at the end instead. */
#include "passes/group_order.h"

typedef struct Ends {
    int *outputs;  /* by base: outputs that are new tensors and views of it */
    int *writes;   /* by base: writes whose value it is, or a view of it */
    int *home;     /* by home: both, of all bases that live there */
    Group *checks; /* after all checked groups: write-backs come after it; NULL: there are none */
} Ends;

static void count_ends(Lower *l, Ends *ends) {
    const int n = l->graph->n_vals;
    ends->outputs = ARENA_ARRAY(l->arena, int, n + 1);
    ends->writes = ARENA_ARRAY(l->arena, int, n + 1);
    ends->home = ARENA_ARRAY(l->arena, int, n + 1);
    for (int i = 0; i < l->graph->outputs.n; i++) {
        const Output *const out = &l->graph->outputs.at[i];
        if (out->value && out->kind == OUT_new) ends->outputs[val_info(l, out->value)->base->id]++;
    }
    for (int i = 0; i < l->graph->writes.n; i++) ends->writes[val_info(l, l->graph->writes.at[i].value)->base->id]++;
    for (int i = 0; i < n; i++)
        if (l->vals[i].val) ends->home[l->vals[i].home->id] += ends->outputs[i] + ends->writes[i];
}

/* Moves a base into memory that is not its own, or back. */
static void set_home(const Ends *ends, ValInfo *base, GVal *home, const int64_t *strides) {
    const int n = ends->outputs[base->val->id] + ends->writes[base->val->id];
    ends->home[base->home->id] -= n;
    ends->home[home->id] += n;
    base->home = home;
    base->strides = strides;
}

static void find_checks(Lower *l, Ends *ends) {
    Group *last = NULL;
    for (Group *group = group_order_first(l); group; group = group->next)
        if (group->checked) last = group;
    if (!last) return;
    ends->checks = ARENA_NEW(l->arena, Group);
    group_order_insert(l, last, ends->checks);
    for (Group *group = group_order_first(l); group != ends->checks; group = group->next)
        if (group->checked) group_follow(l, ends->checks, group);
}

/* Reads and writes of the shared memory within the value's own nest. */
bool nest_allows(Lower *l, const Cluster *cluster, const GVal *value) {
    Draft draft = {.l = l, .arena = l->scratch, .tile = -1, .tile_param = -1};
    Kernel kernel = {0};
    bool allowed = !draft_cluster(&draft, cluster, &kernel, NULL);
    const int buf = allowed ? draft_buf(&draft, value, true) : -1;
    for (int i = 0; allowed && i < kernel.n_nests; i++) allowed = !nest_overwrites(&kernel.nests[i], buf);
    if (allowed && kernel.template) allowed = !template_reads(kernel.template, buf);
    arena_reset(l->scratch);
    return allowed;
}

int writes_in_place(Lower *l, const Cluster *cluster) {
    int n = 0;
    for (int i = 0; i < l->graph->writes.n; i++) {
        const Write *const write = &l->graph->writes.at[i];
        ValInfo *const info = val_info(l, write->value);
        if (info->base != write->value || !write->value->def || l->cluster[write->value->def->id] != cluster) continue;
        const ValInfo before = *info;
        info->home = write->input;
        info->strides = write->input->base.meta->strides;
        n += nest_allows(l, cluster, write->value);
        info->home = before.home, info->strides = before.strides;
    }
    return n;
}

/* May it run after those that read a value of the memory that it writes? */
static bool follows_readers(Lower *l, const ValInfo *value, const Cluster *writer) {
    for (int u = 0; u < value->users.n; u++) {
        const Cluster *const reader = l->cluster[value->users.at[u]];
        if (reader == writer) continue;
        if (reader->group == writer->group || !group_can_follow(l, writer->group, reader->group)) return false;
    }
    return true;
}

/* A write-back: may all checks come before? */
static bool checks_allow(Lower *l, const Ends *ends, Group *writer) {
    return !ends->checks || (!writer->checked && group_can_follow(l, writer, ends->checks));
}

static bool readers_allow(Lower *l, const Ends *ends, const Write *write, const Cluster *writer) {
    const ValInfo *const input = val_info(l, write->input);
    if (!follows_readers(l, input, writer)) return false;
    for (const ValInfo *s = input->scattered; s; s = s->next_scattered)
        if (!follows_readers(l, s, writer)) return false;
    return checks_allow(l, ends, writer->group);
}

static bool may_write_as(const Lower *l, const Write *write) {
    const Meta *const in = write->input->base.meta, *const out = write->value->base.meta;
    if (in->dtype != out->dtype || !meta_same_sizes(in, out)) return false;
    for (int d = 0; d < in->rank; d++)
        if (in->strides[d] == 0 && in->sizes[d] != 1) return false;
    return true;
}

static void follow_readers(Lower *l, const ValInfo *value, Group *writer) {
    for (int u = 0; u < value->users.n; u++) {
        Group *const reader = l->cluster[value->users.at[u]]->group;
        if (reader != writer) group_follow(l, writer, reader);
    }
}

static void add_edges(Lower *l, const Ends *ends, const Write *write, Group *writer) {
    const ValInfo *const input = val_info(l, write->input);
    follow_readers(l, input, writer);
    for (const ValInfo *s = input->scattered; s; s = s->next_scattered) follow_readers(l, s, writer);
    if (ends->checks) group_follow(l, writer, ends->checks);
    writer->write_back = true;
}

static void try_in_place(Lower *l, const Ends *ends, const Write *write) {
    ValInfo *const info = val_info(l, write->value);
    if (info->base != write->value || !write->value->def || info->home != info->val) return;
    const Cluster *const cluster = l->cluster[write->value->def->id];
    if (info->kind == VAL_native || info->kind == VAL_pieces || ends->outputs[write->value->id]) return;
    /* Is what the input's memory holds an output, or written elsewhere at the end? */
    if (!may_write_as(l, write) || ends->home[write->input->id] || !readers_allow(l, ends, write, cluster)) return;
    const int64_t *const own = info->strides;
    set_home(ends, info, write->input, write->input->base.meta->strides);
    if (nest_allows(l, cluster, write->value))
        add_edges(l, ends, write, cluster->group);
    else
        set_home(ends, info, info->val, own);
}

/* A heap of groups by their last node, lowest first. */
typedef struct Ready {
    Group **at;
    int *key;
    int n;
} Ready;

static void swap_ready(Ready *ready, int a, int b) {
    Group *const group = ready->at[a];
    const int key = ready->key[a];
    ready->at[a] = ready->at[b];
    ready->key[a] = ready->key[b];
    ready->at[b] = group;
    ready->key[b] = key;
}

static int64_t stored_bytes(const Lower *l, const Cluster *cluster) {
    int64_t bytes = 0;
    for (int i = 0; i < cluster->nodes.n; i++)
        for (int r = 0; r < cluster->nodes.at[i]->n_outs; r++) {
            const GVal *const out = &cluster->nodes.at[i]->outs[r];
            if (needs_memory(l, cluster, out)) bytes += meta_hint_bytes(l->env, out->base.meta);
        }
    return bytes;
}

/* As a place in the program: where the last node stands. A product with an epilogue that stores no more than it would:
 * where the product stands, whose operands then go as early. */
static int place_in_program(const Lower *l, const Group *group) {
    const Cluster *const first = group->clusters.n ? group->clusters.at[0] : NULL;
    const Node *const product = first && first->kind == VAL_template ? template_node(l, first) : NULL;
    const bool small = product && stored_bytes(l, first) <= meta_hint_bytes(l->env, product->outs[0].base.meta);
    return small ? product->id : group_last_node(group);
}

static void push_ready(const Lower *l, Ready *ready, Group *group) {
    int i = ready->n++;
    ready->at[i] = group;
    ready->key[i] = place_in_program(l, group);
    for (; i > 0 && ready->key[(i - 1) / 2] > ready->key[i]; i = (i - 1) / 2) swap_ready(ready, i, (i - 1) / 2);
}

static Group *pop_ready(Ready *ready) {
    Group *const group = ready->at[0];
    swap_ready(ready, 0, --ready->n);
    for (int i = 0, least = 0;; i = least) {
        for (int child = 2 * i + 1; child <= 2 * i + 2 && child < ready->n; child++)
            if (ready->key[child] < ready->key[least]) least = child;
        if (least == i) return group;
        swap_ready(ready, i, least);
    }
}

/* Running order: data and hazards first, then program order of the last node. */
static void sort_groups(Lower *l) {
    const int n = l->groups.n + 1; /* and the checks */
    Ready ready = {ARENA_ARRAY(l->arena, Group *, n + 1), ARENA_ARRAY(l->arena, int, n + 1), 0};
    for (Group *group = group_order_first(l); group; group = group->next) group->mark = 0;
    for (Group *group = group_order_first(l); group; group = group->next) { /* what waits for it */
        const Groups *const next = group_neighbours(l, group, true);
        for (int i = 0; i < next->n; i++) next->at[i]->mark++;
    }
    for (Group *group = group_order_first(l); group; group = group->next)
        if (!group->mark) push_ready(l, &ready, group);
    l->groups.n = 0;
    while (ready.n) {
        Group *const group = pop_ready(&ready);
        if (group->clusters.n) VEC_PUSH(l->arena, &l->groups, group);
        const Groups *const next = group_neighbours(l, group, true);
        for (int i = 0; i < next->n; i++)
            if (--next->at[i]->mark == 0) push_ready(l, &ready, next->at[i]);
    }
}

/* A scatter that the reinplace pass let write its base: the result lives where the base does. Readers of the base run
 * before; into an input's memory it is a write-back, so all checks come before too. */
static void scatter_in_place(Lower *l, const Ends *ends, const Node *node) {
    const ValInfo *const base = val_info(l, gval(node->args[0].val));
    ValInfo *const out = val_info(l, &node->outs[0]), *const home = val_info(l, base->home);
    const Cluster *const cluster = l->cluster[node->id];
    Group *const group = cluster->group;
    const bool input = home->kind == VAL_input;
    if (base->base != base->val || group->clusters.n != 1) return;
    for (int u = 0; u < base->users.n; u++)
        if (!group_can_follow(l, group, l->cluster[base->users.at[u]]->group)) return;
    if (input && !checks_allow(l, ends, group)) return;
    set_home(ends, out, base->home, base->strides);
    out->next_scattered = home->scattered;
    home->scattered = out;
    follow_readers(l, base, group);
    if (input && ends->checks) group_follow(l, group, ends->checks);
    group->write_back |= input;
}

void order_groups(Lower *l) {
    Ends ends = {0};
    count_ends(l, &ends);
    find_checks(l, &ends);
    for (const Node *node = l->graph->first; node; node = node->next)
        if (node->form == FORM_inplace) scatter_in_place(l, &ends, node);
    for (int i = 0; i < l->graph->writes.n; i++) try_in_place(l, &ends, &l->graph->writes.at[i]);
    sort_groups(l);
    results_take_over(l);
}
