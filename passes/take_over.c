/* take_over.c: results that take the memory of a value which their kernel reads last.
 *
 *     a = product . b = a * c . d = product of b      b lies where a lay: one of them is alive, not two
 *
 * The kernel reads each element of that value where it writes the result's, and before (nest_allows, as for
 * write-backs in place). The order of the kernels is known, so that "last" is. Values that others see, or that lie in
 * memory of theirs, give nothing and take nothing. */
#include "passes/group_order.h"

/* A line: what is smaller takes one anyhow. */
enum { LEAST_BYTES = 64 };

typedef struct TakeOver {
    Lower *l;
    const Cluster *cluster;
    ValInfo *result;
    int place;  /* of the cluster's group in the order */
    int *taken; /* by home: where a result took it last, plus 1 */
    bool done;
} TakeOver;

static bool has_memory(const Lower *l, const ValInfo *home) {
    return home->val->def && !home->visible && !home->scattered &&
           (home->kind == VAL_native || needs_memory(l, l->cluster[home->val->def->id], home->val));
}

/* After this cluster nobody reads it. */
static bool dies_here(const TakeOver *t, const ValInfo *value) {
    for (int u = 0; u < value->users.n; u++) {
        const Cluster *const user = t->l->cluster[value->users.at[u]];
        if (user != t->cluster && user->group->mark >= t->place) return false;
    }
    return true;
}

static bool lies_alike(const ValInfo *a, const ValInfo *b) {
    const Meta *const x = a->val->base.meta, *const y = b->val->base.meta;
    if (x->dtype != y->dtype || x->device != y->device || !meta_same_sizes(x, y)) return false;
    for (int d = 0; d < x->rank; d++)
        if (!sym_identical(a->strides[d], b->strides[d])) return false;
    return true;
}

static void try_operand(void *context, GVal **slot) {
    TakeOver *const t = context;
    Lower *const l = t->l;
    if (!*slot || t->done) return;
    ValInfo *const value = val_info(l, val_info(l, *slot)->base), *const home = val_info(l, value->home);
    if (!value->val->def || value->visible || value->next_scattered || value->kind == VAL_view) return;
    if (l->cluster[value->val->def->id] == t->cluster || !has_memory(l, home)) return;
    if (t->taken[home->val->id] > t->place || !lies_alike(value, t->result) || !dies_here(t, value)) return;
    t->result->home = home->val;
    t->done = nest_allows(l, t->cluster, t->result->val);
    if (t->done)
        t->taken[home->val->id] = t->place + 1;
    else
        t->result->home = t->result->val;
}

static void take_over(TakeOver *t, GVal *result) {
    const Lower *const l = t->l;
    t->result = val_info(l, result);
    t->done = false;
    if (t->result->visible || t->result->home != result || t->result->scattered) return;
    if (!needs_memory(l, t->cluster, result) || meta_hint_bytes(l->env, result->base.meta) < LEAST_BYTES) return;
    for (int i = 0; i < t->cluster->nodes.n && !t->done; i++) node_each_input(t->cluster->nodes.at[i], try_operand, t);
}

void results_take_over(Lower *l) {
    TakeOver t = {.l = l, .taken = ARENA_ARRAY(l->arena, int, l->graph->n_vals + 1)};
    for (int i = 0; i < l->groups.n; i++) l->groups.at[i]->mark = i;
    for (; t.place < l->groups.n; t.place++) {
        const Group *const group = l->groups.at[t.place];
        t.cluster = group->clusters.at[0];
        if (group->clusters.n != 1 || (t.cluster->kind != VAL_pointwise && t.cluster->kind != VAL_template)) continue;
        for (int i = 0; i < t.cluster->nodes.n; i++) {
            Node *const node = t.cluster->nodes.at[i];
            for (int r = 0; r < node->n_outs; r++) take_over(&t, &node->outs[r]);
        }
    }
}
