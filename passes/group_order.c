/* group_order.c: an order in which the groups can run, kept while groups are joined and hazards are added.
 *
 * The groups stand in a list; `tag` grows along it, so two are compared without walking, and every edge (a value
 * that the other reads, an effect that comes later, a hazard) leads from a smaller tag to a larger one. Whether
 * `low` reaches `high` by way of a third group is then asked only of the groups between them, from both ends in
 * turn: the side that runs out first says no, a group that both sides come to says yes.
 *
 *      low . . x . y . . high        x: reached from low; y: reaches high
 *
 * To join them, all that low reaches moves behind high, or all that reaches high moves before low: whichever side
 * the search knows whole. So a join costs what the smaller side costs (Katriel and Bodlaender, "Online topological
 * ordering", 2006), and what is far apart is seen to be connected by a tree over the nodes, in which every node
 * hangs from its latest operand. A search that still finds no end stops at MOST_VISITS and counts as a yes. */
#include "passes/group_order.h"

#include <limits.h>
#include <stdlib.h>

enum { MOST_VISITS = 4096 };
static const int64_t TAG_GAP = INT64_C(1) << 32;

/* One end of a search. */
typedef struct Front {
    Groups found; /* without the end itself; marked */
    int n_seen;   /* of `found`, whose neighbours were looked at */
    int mark;
    bool forward;
} Front;

struct GroupOrder {
    Group *first, *last;
    int *first_feed, *feeds;  /* by node: the nodes that compute its operands */
    const Node **prev_effect; /* by node id */
    int *tree_at, *tree_size; /* by node: preorder number and size of its subtree */
    Front ahead, behind;      /* of the last search */
    const Front *whole;       /* that of the two which ran out */
    Group *low, *high;        /* its ends */
    Groups near;              /* neighbours of a group, being looked at */
    int mark;
};

/* operands ------------------------------------------------------------------------------------ */

typedef struct FeedVisit {
    Lower *l;
    VEC(int) all;
} FeedVisit;

static void add_feed(void *context, GVal **slot) {
    FeedVisit *const visit = context;
    const Node *const def = *slot ? val_info(visit->l, *slot)->base->def : NULL;
    if (def) VEC_PUSH(visit->l->arena, &visit->all, def->id);
}

static int later_id(const void *a, const void *b) { return *(const int *)b - *(const int *)a; }

/* Latest first, each once. */
static int sorted_feeds(int *ids, int n) {
    if (n > 1) qsort(ids, (size_t)n, sizeof *ids, later_id);
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (kept == 0 || ids[kept - 1] != ids[i]) ids[kept++] = ids[i];
    return kept;
}

static void find_feeds(Lower *l, GroupOrder *order) {
    FeedVisit visit = {.l = l};
    order->first_feed = ARENA_ARRAY(l->arena, int, l->graph->n_nodes + 2);
    for (Node *node = l->graph->first; node; node = node->next) {
        const int first = order->first_feed[node->id] = visit.all.n;
        if (l->cluster[node->id]) node_each_input(node, add_feed, &visit);
        if (visit.all.n > first) visit.all.n = first + sorted_feeds(visit.all.at + first, visit.all.n - first);
        order->first_feed[node->id + 1] = visit.all.n;
    }
    order->feeds = visit.all.at;
}

int node_feeds(const Lower *l, const Node *node, const int **feeds) {
    const int first = l->order->first_feed[node->id];
    *feeds = l->order->feeds + first;
    return l->order->first_feed[node->id + 1] - first;
}

static void find_effects(Lower *l, GroupOrder *order) {
    order->prev_effect = ARENA_ARRAY(l->arena, const Node *, l->graph->n_nodes + 1);
    for (const Node *node = l->graph->first; node; node = node->next)
        if (l->next_effect[node->id]) order->prev_effect[l->next_effect[node->id]->id] = node;
}

/* The tree: preorder numbers without recursion, since parents come before their children. */
static void find_tree(Lower *l, GroupOrder *order) {
    const int n = l->graph->n_nodes;
    int *const parent = ARENA_ARRAY(l->arena, int, n + 1), *const next = ARENA_ARRAY(l->arena, int, n + 1);
    order->tree_at = ARENA_ARRAY(l->arena, int, n + 1);
    order->tree_size = ARENA_ARRAY(l->arena, int, n + 1);
    for (int i = 0; i < n; i++) {
        parent[i] = order->first_feed[i] < order->first_feed[i + 1] ? order->feeds[order->first_feed[i]] : -1;
        order->tree_size[i] = 1;
    }
    for (int i = n - 1; i >= 0; i--)
        if (parent[i] >= 0) order->tree_size[parent[i]] += order->tree_size[i];
    for (int i = 0, root = 0; i < n; i++) {
        int *const at = parent[i] >= 0 ? &next[parent[i]] : &root;
        order->tree_at[i] = *at;
        *at += order->tree_size[i];
        next[i] = order->tree_at[i] + 1;
    }
}

/* the list ------------------------------------------------------------------------------------ */

static void unlink_group(GroupOrder *order, Group *group) {
    *(group->prev ? &group->prev->next : &order->first) = group->next;
    *(group->next ? &group->next->prev : &order->last) = group->prev;
    group->prev = group->next = NULL;
}

static void renumber(Lower *l) {
    int64_t tag = 0;
    for (Group *group = l->order->first; group; group = group->next) {
        group->tag = tag += TAG_GAP;
        l->work.visits++;
    }
}

static void insert_after(Lower *l, Group *at, Group *group) {
    GroupOrder *const order = l->order;
    if (at && at->next && at->next->tag - at->tag < 2) renumber(l);
    group->prev = at;
    group->next = at ? at->next : order->first;
    *(group->prev ? &group->prev->next : &order->first) = group;
    *(group->next ? &group->next->prev : &order->last) = group;
    const int64_t below = at ? at->tag : group->next ? group->next->tag - 2 * TAG_GAP : 0;
    group->tag = group->next ? below + (group->next->tag - below) / 2 : below + TAG_GAP;
}

static void move_after(Lower *l, Group *at, Group *group) {
    if (at == group) return;
    unlink_group(l->order, group);
    insert_after(l, at, group);
}

void group_order_new(Lower *l) {
    GroupOrder *const order = l->order = ARENA_NEW(l->arena, GroupOrder);
    find_feeds(l, order);
    find_effects(l, order);
    find_tree(l, order);
    for (int i = 0; i < l->groups.n; i++) insert_after(l, order->last, l->groups.at[i]);
}

void group_order_insert(Lower *l, Group *at, Group *group) { insert_after(l, at, group); }
Group *group_order_first(const Lower *l) { return l->order->first; }

/* searching ----------------------------------------------------------------------------------- */

static void add_near(Lower *l, const Group *group, int node) {
    Group *const other = l->cluster[node]->group;
    if (other != group) VEC_PUSH(l->arena, &l->order->near, other);
}

static void near_by_node(Lower *l, const Group *group, const Node *node, bool forward) {
    const Node *const effect = (forward ? l->next_effect : l->order->prev_effect)[node->id];
    if (effect) add_near(l, group, effect->id);
    if (!forward) {
        const int *feeds;
        const int n = node_feeds(l, node, &feeds);
        for (int i = 0; i < n; i++) add_near(l, group, feeds[i]);
        return;
    }
    for (int r = 0; r < node->n_outs; r++) {
        const ValInfo *const info = val_info(l, &node->outs[r]);
        for (int u = 0; u < info->users.n; u++) add_near(l, group, info->users.at[u]);
    }
}

const Groups *group_neighbours(Lower *l, const Group *group, bool forward) {
    Groups *const near = &l->order->near;
    near->n = 0;
    for (int c = 0; c < group->clusters.n; c++)
        for (int i = 0; i < group->clusters.at[c]->nodes.n; i++)
            near_by_node(l, group, group->clusters.at[c]->nodes.at[i], forward);
    const Groups *const hazards = forward ? &group->before : &group->after;
    for (int i = 0; i < hazards->n; i++) VEC_PUSH(l->arena, near, hazards->at[i]);
    return near;
}

/* Looks at one more group of the front, or at its end; true: the two ends are connected. */
static bool advance(Lower *l, Front *front, const Front *other, Group *group, bool direct) {
    const GroupOrder *const order = l->order;
    const Group *const own = front->forward ? order->low : order->high;
    const Group *const end = front->forward ? order->high : order->low;
    const Groups *const near = group_neighbours(l, group, front->forward);
    l->work.visits++;
    for (int i = 0; i < near->n; i++) {
        Group *const next = near->at[i];
        if (next == end && (direct || group != own)) return true;
        const bool between = order->low->tag < next->tag && next->tag < order->high->tag;
        if (!between || next->mark == front->mark) continue;
        if (next->mark == other->mark) return true;
        next->mark = front->mark;
        VEC_PUSH(l->arena, &front->found, next);
    }
    return false;
}

static int n_nodes(const Group *group) {
    int n = 0;
    for (int c = 0; c < group->clusters.n; c++) n += group->clusters.at[c]->nodes.n;
    return n;
}

/* Does low reach high in the tree, by way of a third group? Where that shows at a glance. */
static bool tree_connects(const Lower *l, const Group *low, const Group *high) {
    const GroupOrder *const order = l->order;
    int from = -1; /* the latest operand of high from outside */
    for (int c = 0; c < high->clusters.n; c++)
        for (int i = 0; i < high->clusters.at[c]->nodes.n; i++) {
            const int *feeds;
            const int n = node_feeds(l, high->clusters.at[c]->nodes.at[i], &feeds);
            for (int f = 0; f < n; f++) {
                if (l->cluster[feeds[f]]->group == high) continue;
                if (feeds[f] > from) from = feeds[f];
                break;
            }
        }
    if (from < 0 || l->cluster[from]->group == low) return false;
    for (int c = 0; c < low->clusters.n; c++)
        for (int i = 0; i < low->clusters.at[c]->nodes.n; i++) {
            const int id = low->clusters.at[c]->nodes.at[i]->id, inside = order->tree_at[from] - order->tree_at[id];
            if (inside >= 0 && inside < order->tree_size[id]) return true;
        }
    return false;
}

/* Is there a way from low to high; `direct`: also one without a third group? */
static bool connected(Lower *l, Group *low, Group *high, bool direct, int most_visits) {
    GroupOrder *const order = l->order;
    order->low = low;
    order->high = high;
    order->mark += 2;
    order->ahead = (Front){.found = order->ahead.found, .mark = order->mark - 1, .forward = true};
    order->behind = (Front){.found = order->behind.found, .mark = order->mark};
    order->ahead.found.n = order->behind.found.n = 0;
    Front *const small = n_nodes(low) < n_nodes(high) ? &order->ahead : &order->behind;
    Front *const large = small == &order->ahead ? &order->behind : &order->ahead;
    Group *const small_end = small->forward ? low : high, *const large_end = small->forward ? high : low;
    if (advance(l, small, large, small_end, direct)) return true;
    order->whole = small;
    if (small->found.n == 0) return false;
    if (tree_connects(l, low, high)) return true;
    if (advance(l, large, small, large_end, direct)) return true;
    for (int visits = 0; visits < most_visits; visits++) {
        const int ahead = order->ahead.found.n - order->ahead.n_seen;
        const int behind = order->behind.found.n - order->behind.n_seen;
        Front *const front = ahead < behind ? &order->ahead : &order->behind;
        order->whole = front; /* if it has nothing left to look at */
        if (ahead == 0 || behind == 0) return false;
        if (advance(l, front, front == &order->ahead ? &order->behind : &order->ahead, front->found.at[front->n_seen++],
                    direct))
            return true;
    }
    return true;
}

bool groups_close_cycle(Lower *l, Group *a, Group *b) {
    return a->tag < b->tag ? connected(l, a, b, false, MOST_VISITS) : connected(l, b, a, false, MOST_VISITS);
}

/* changing ------------------------------------------------------------------------------------ */

static int by_tag(const void *a, const void *b) {
    const Group *const x = *(Group *const *)a, *const y = *(Group *const *)b;
    return (x->tag > y->tag) - (x->tag < y->tag);
}

/* low and high become one: `into`. The last search asked for these two, and said no. */
void groups_join(Lower *l, Group *into, Group *gone) {
    GroupOrder *const order = l->order;
    const Front *const whole = order->whole;
    Group *const stays = whole->forward ? order->high : order->low;
    const Groups found = whole->found;
    if (found.n > 1) qsort(found.at, (size_t)found.n, sizeof(Group *), by_tag);
    if (into != stays) move_after(l, stays, into);
    unlink_group(order, gone);
    Group *at = into;
    for (int i = 0; i < found.n; i++) {
        move_after(l, whole->forward ? at : into->prev, found.at[i]);
        at = found.at[i];
    }
}

bool group_can_follow(Lower *l, Group *group, Group *before) {
    return group == before || before->tag < group->tag || !connected(l, group, before, true, MOST_VISITS);
}

void group_follow(Lower *l, Group *group, Group *before) {
    if (before->tag > group->tag) {
        connected(l, group, before, true, INT_MAX);
        const Front *const whole = l->order->whole;
        const Groups found = whole->found;
        if (found.n > 1) qsort(found.at, (size_t)found.n, sizeof(Group *), by_tag);
        if (whole->forward) move_after(l, before, group);
        Group *at = whole->forward ? group : group->prev;
        for (int i = 0; i < found.n; i++) {
            move_after(l, at, found.at[i]);
            at = found.at[i];
        }
        if (!whole->forward) move_after(l, group->prev, before);
    }
    VEC_PUSH(l->arena, &group->after, before);
    VEC_PUSH(l->arena, &before->before, group);
}
