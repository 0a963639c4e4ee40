/* kernel.c: one group of clusters becomes one Kernel: its nests over a common list of buffers and
 * parameters, or a template with the cluster's other nodes as the epilogue that runs on each finished
 * tile. */
#include "passes/template.h"

/* buffers and parameters ---------------------------------------------------------------------- */

int draft_param(Draft *draft, int64_t value, bool is_float) {
    for (int i = 0; i < draft->params.n; i++)
        if (draft->params.at[i] == value && draft->is_float.at[i] == is_float && i != draft->tile_param) return i;
    VEC_PUSH(draft->arena, &draft->params, value);
    VEC_PUSH(draft->arena, &draft->is_float, is_float);
    return draft->params.n - 1;
}

int64_t draft_int(Draft *draft, int64_t value) {
    return sym_is(value) ? sym_make(draft_param(draft, value, false)) : value;
}

int draft_buf(Draft *draft, const GVal *base, bool written) {
    GVal *const home = val_info(draft->l, base)->home;
    for (int i = 0; i < draft->bufs.n; i++) {
        Buf *const buf = &draft->bufs.at[i];
        if (draft->homes.at[i] != home) continue;
        if (written ? buf->role == BUF_in : buf->role == BUF_out) buf->role = BUF_inout;
        return i;
    }
    VEC_PUSH(draft->arena, &draft->homes, home);
    VEC_PUSH(draft->arena, &draft->slots, -1);
    VEC_PUSH(draft->arena, &draft->bufs, ((Buf){home->base.meta->dtype, written ? BUF_out : BUF_in}));
    return draft->bufs.n - 1;
}

/* templates ----------------------------------------------------------------------------------- */

Node *template_node(const Lower *l, const Cluster *cluster) {
    for (int i = 0; i < cluster->nodes.n; i++)
        if (l->vals[cluster->nodes.at[i]->outs[0].id].kind == VAL_template) return cluster->nodes.at[i];
    return NULL;
}

/* All of the cluster as one nest; says why not. */
static const char *only_nest(Draft *draft, const Cluster *cluster, Kernel *kernel, NestCost *cost) {
    const char *why = NULL;
    Nest *const nest = nest_build(draft, cluster, &why, cost);
    if (!nest) return why;
    kernel->nests = nest;
    kernel->n_nests = 1;
    return NULL;
}

/* The template over what it reads, which must be in memory, and the other nodes as its epilogue. */
static const char *template_nests(Draft *draft, const Cluster *cluster, Kernel *kernel, NestCost *cost) {
    Node *const node = template_node(draft->l, cluster);
    const TemplateRule *const rule = template_rule(node);
    const bool plain = cluster->nodes.n == 1 && rule->stores(node);
    TemplateUse *const use = kernel->template = ARENA_NEW(draft->arena, TemplateUse);
    *use = template_use(template_row(node));
    for (int i = 0; use->row->operands[i].name && !use->row->operands[i].result; i++)
        if (cluster_has(draft->l, cluster, val_info(draft->l, rule->operand(node, i))->base))
            return "a product's operand must be in memory";
    template_begin(draft, node, !plain, use);
    return plain ? NULL : only_nest(draft, cluster, kernel, cost);
}

/* the kernel ---------------------------------------------------------------------------------- */

/* Every third op that can run by itself does. */
static bool is_refused(const Cluster *cluster) {
    for (int i = 0; i < cluster->nodes.n; i++)
        if (cluster->nodes.at[i]->id % 3 == 0 && op_runs_alone(cluster->nodes.at[i]->row)) return true;
    return false;
}

const char *draft_cluster(Draft *draft, const Cluster *cluster, Kernel *kernel, NestCost *cost) {
    if (UNLIKELY(draft->l->some_alone) && is_refused(cluster)) return "failpoint some_alone";
    if (cluster->kind == VAL_template) return template_nests(draft, cluster, kernel, cost);
    return only_nest(draft, cluster, kernel, cost);
}

static void kernel_name(Lower *l, const Group *group, Kernel *kernel) {
    enum { NAMES = 5 };
    const char *names[NAMES + 1];
    int n = 0;
    for (int c = 0; c < group->clusters.n; c++) {
        const Cluster *const cluster = group->clusters.at[c];
        for (int i = 0; i < cluster->nodes.n && n <= NAMES; i++) {
            const char *const name = cluster->nodes.at[i]->row->base;
            bool named = false;
            for (int k = 0; k < n; k++) named |= !strcmp(names[k], name);
            if (!named) names[n++] = name;
        }
        if (cluster->copy && cluster->nodes.n == 0 && n == 0) names[n++] = "copy";
    }
    const char *name = arena_printf(l->arena, "k%d", l->plan->steps.n);
    for (int k = 0; k < n && k < NAMES; k++) name = arena_printf(l->arena, "%s_%s", name, names[k]);
    if (n > NAMES) name = arena_printf(l->arena, "%s_more", name);
    kernel->name = name;
    for (int i = 0; i < kernel->n_nests; i++) kernel->nests[i].name = arena_printf(l->arena, "%s_n%d", name, i);
}

static void group_ops(Lower *l, const Group *group, Step *step) {
    VEC(int) ops = {0};
    for (int c = 0; c < group->clusters.n; c++)
        for (int i = 0; i < group->clusters.at[c]->nodes.n; i++)
            VEC_PUSH(l->arena, &ops, group->clusters.at[c]->nodes.at[i]->id);
    int n = 0;
    for (int i = 0; i < ops.n; i++) { /* the parts of one cat share its node */
        bool again = false;
        for (int k = 0; k < n; k++) again |= ops.at[k] == ops.at[i];
        if (!again) ops.at[n++] = ops.at[i];
    }
    step->ops = ops.at;
    step->n_ops = n;
}

static void kernel_finish(Draft *draft, Kernel *kernel) {
    kernel->n_bufs = draft->bufs.n;
    kernel->bufs = draft->bufs.at;
    kernel->n_params = draft->params.n;
    kernel->params = draft->params.at;
    kernel->param_is_float = draft->is_float.at;
}

typedef struct ClusterList {
    VEC(Cluster *) clusters;
} ClusterList;

/* A node made of pieces becomes one cluster per piece; false: it can't be. */
static bool expand_pieces(Lower *l, Cluster *cluster, ClusterList *parts) {
    enum { SMALL_ARRAY = 1024 };
    if (cluster->kind != VAL_pieces) {
        VEC_PUSH(l->arena, &parts->clusters, cluster);
        return true;
    }
    Copy *const copies = ARENA_ARRAY(l->arena, Copy, SMALL_ARRAY);
    const int n = pieces_of(l, cluster->nodes.at[0], copies, SMALL_ARRAY);
    if (n < 0) return false;
    for (int i = 0; i < n; i++) {
        Cluster *const part = ARENA_NEW(l->arena, Cluster);
        part->kind = VAL_pointwise;
        part->copy = &copies[i];
        VEC_PUSH(l->arena, &part->nodes, cluster->nodes.at[0]);
        VEC_PUSH(l->arena, &parts->clusters, part);
    }
    return true;
}

const char *lower_group(Lower *l, const Group *group, Step *step) {
    Draft draft = {.l = l, .arena = l->arena, .tile = -1, .tile_param = -1};
    Kernel *const kernel = ARENA_NEW(l->arena, Kernel);
    ClusterList parts = {0};
    VEC(Nest) nests = {0};
    for (int c = 0; c < group->clusters.n; c++)
        if (!expand_pieces(l, group->clusters.at[c], &parts)) return "no loop program for these arguments";
    for (int c = 0; c < parts.clusters.n; c++) {
        const Cluster *const cluster = parts.clusters.at[c];
        Kernel part = *kernel;
        part.n_nests = 0;
        const char *const why = draft_cluster(&draft, cluster, &part, NULL);
        if (why) return why;
        for (int i = 0; i < part.n_nests; i++) VEC_PUSH(l->arena, &nests, part.nests[i]);
        *kernel = part;
    }
    kernel->nests = nests.at;
    kernel->n_nests = nests.n;
    const Cluster *const first = group->clusters.at[0];
    kernel->independent = group->independent || (first->kind == VAL_pieces && pieces_independent(first->nodes.at[0]));
    kernel_finish(&draft, kernel);
    kernel_name(l, group, kernel);
    *step = (Step){.kind = STEP_kernel, .kernel = kernel, .write_back = group->write_back};
    step->bufs = ARENA_ARRAY(l->arena, int, draft.bufs.n + 1);
    for (int i = 0; i < draft.bufs.n; i++)
        step->bufs[i] = draft.homes.at[i] ? val_info(l, draft.homes.at[i])->slot : draft.slots.at[i];
    group_ops(l, group, step);
    return NULL;
}
