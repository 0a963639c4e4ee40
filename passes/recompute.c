/* recompute.c: what regions (ir/regions.h) made is computed again for a backward [semantics T6].
 *
 *     %1 = exp(%x) region=1             %1 = exp(%x) region=1
 *     %2 = mul(%1, %y) region=1         %2 = mul(%1, %y) region=1
 *     ...                               ...
 *     rule of mul reads %1        ->    %7 = exp(%x) again=1
 *                                       rule of mul reads %7
 *
 * Of a region the rules read what its ops made and nobody outside of it does: those ops are copied to where the first
 * rule reads one of their results, and so are the ops that they need, from what the region read. A result that ops
 * outside of the region read, one that its policy saves, and one of an op with an effect stay what they are. For a
 * backward in the body results of the function do, too; before a later one the caller may write them, which is no
 * error, as eager's second run makes others. Nothing else is done here: what is read no more dies in the forward,
 * since nodes of other runs are no common subexpressions (cse.c), groups run where their last node stands (order.c),
 * and the partition never saves what is computed again.
 *
 * Regions lie in each other: the copy of an inner one is a region of its own, which the rules' reads of it copy once
 * more. So there is a wave for each depth. */
#include <stdlib.h>

#include "passes/internal.h"
#include "passes/recompute.h"
#include "runtime/base/error.h"

typedef struct Wave {
    Graph *graph;
    Node *first_rule, *stop; /* rules stand from first_rule up to stop; what is computed again is none */
    int first_region;        /* the regions of earlier waves come before it */
    int *top;                /* by region: the outermost one that it lies in, if it is of this wave; 0: not */
    int *again;              /* by such a region: its run; 0: not yet */
    int *copied;             /* by region inside: its copy; 0: not yet */
    bool *stays;             /* by value id: read outside of its region, too */
    GVal **copy;             /* by value id */
    bool *listed;            /* by node id: it has been in the list */
    VEC(Node *) list;        /* nodes to be copied */
    int n_regions;           /* when the wave began; copies are in later ones, or in none */
} Wave;

static int top_of(const Wave *w, const Node *node) {
    return node && node->region && node->region <= w->n_regions ? w->top[node->region] : 0;
}

static bool wave_init(Wave *w, Graph *graph, Node *first_rule, Node *stop, int first_region) {
    graph_number(graph);
    const int n = graph->regions.n;
    Arena *const arena = graph->arena;
    *w = (Wave){.graph = graph,
                .first_rule = first_rule,
                .stop = stop,
                .first_region = first_region,
                .top = ARENA_ARRAY(arena, int, n + 1),
                .again = ARENA_ARRAY(arena, int, n + 1),
                .copied = ARENA_ARRAY(arena, int, n + 1),
                .stays = ARENA_ARRAY(arena, bool, graph->n_vals + 1),
                .copy = ARENA_ARRAY(arena, GVal *, graph->n_vals + 1),
                .listed = ARENA_ARRAY(arena, bool, graph->n_nodes + 1),
                .n_regions = n};
    if (!w->top || !w->again || !w->copied || !w->stays || !w->copy || !w->listed) return false;
    for (int r = first_region; r <= n; r++) w->top[r] = regions_top(&graph->regions, r);
    return true;
}

typedef struct Reader {
    Wave *wave;
    Node *node;
} Reader;

static void look_at_use(void *context, GVal **slot) {
    const Reader *const reader = context;
    const GVal *const value = *slot;
    if (value && top_of(reader->wave, value->def) != top_of(reader->wave, reader->node))
        reader->wave->stays[value->id] = true;
}

static void stay(Wave *w, const GVal *value) {
    if (value) w->stays[value->id] = true;
}

static void find_stays(Wave *w) {
    Graph *const graph = w->graph;
    bool rules = false;
    for (Node *node = graph->first; node; node = node->next) {
        rules = (rules || node == w->first_rule) && node != w->stop;
        Reader reader = {w, node};
        if (!rules || node->again) node_each_input(node, look_at_use, &reader);
    }
    for (int i = 0; w->stop && i < graph->outputs.n; i++)
        if (graph->outputs.at[i].kind != OUT_kept) stay(w, graph->outputs.at[i].value);
    for (int i = 0; i < graph->writes.n; i++) stay(w, graph->writes.at[i].value);
}

static bool may_copy(const Node *node) {
    return node->form == FORM_functional && !node_kept_by_region(node) && !(node->row->flags & OPF_host) &&
           node->row->role != ROLE_gradients;
}

/* Is it one that is computed again? */
static bool is_again(const Wave *w, const GVal *value) {
    return top_of(w, value->def) && !w->stays[value->id] && may_copy(value->def);
}

/* What a rule reads in a value's place. */
static GVal *again(const Wave *w, GVal *value) {
    GVal *const copy = is_again(w, value) ? w->copy[value->id] : NULL;
    return copy ? copy : value;
}

/* The region of the copy of a node of `region`. Nodes of the region that runs again are copied into none. */
static int copied_region(Wave *w, int region) {
    if (!region || w->top[region] == region) return 0;
    if (w->copied[region]) return w->copied[region];
    const int outer = copied_region(w, regions_outer(&w->graph->regions, region));
    graph_region(w->graph, w->graph->regions.n + 1, outer);
    return w->copied[region] = w->graph->regions.n;
}

/* The copy of a value: the node that makes it was copied before. */
static Val *again_val(void *context, Val *val) {
    const Wave *const w = context;
    return val ? &again(w, gval(val))->base : NULL;
}

static void copy_node(Wave *w, const Node *node, Node *before) {
    Graph *const graph = w->graph;
    const int top = top_of(w, node);
    Arg *const args = ARENA_ARRAY(graph->arena, Arg, node->n_args + 1);
    if (!args) return;
    for (int i = 0; i < node->n_args; i++) args[i] = arg_map_vals(graph->arena, node->args[i], again_val, w);
    if (!w->again[top]) w->again[top] = ++graph->n_again;
    const NewNodes saved = nodes_like(graph, node, before);
    graph->modes |= NODE_no_grad;
    graph->region = copied_region(w, node->region);
    graph->again = w->again[top];
    const Node *const made = graph_append(graph, node->row, node->form, args);
    nodes_restore(graph, saved);
    for (int i = 0; made && i < node->n_outs; i++) w->copy[node->outs[i].id] = &made->outs[i];
}

static void want_copy(void *context, GVal **slot) {
    Wave *const w = context;
    if (!*slot || !is_again(w, *slot) || w->copy[(*slot)->id] || w->listed[(*slot)->def->id]) return;
    w->listed[(*slot)->def->id] = true;
    VEC_PUSH(w->graph->arena, &w->list, (*slot)->def);
}

static int by_id(const void *a, const void *b) { return (*(Node *const *)a)->id - (*(Node *const *)b)->id; }

/* What makes a value that a rule reads, in program order, before that. */
static void copy_for(Wave *w, GVal *value, Node *before) {
    w->list.n = 0;
    want_copy(w, &value);
    for (int i = 0; i < w->list.n; i++) node_each_input(w->list.at[i], want_copy, w);
    if (w->list.n > 1) qsort(w->list.at, (size_t)w->list.n, sizeof *w->list.at, by_id);
    for (int i = 0; i < w->list.n; i++) copy_node(w, w->list.at[i], before);
}

static void read_again(void *context, GVal **slot) {
    const Reader *const reader = context;
    if (!*slot) return;
    copy_for(reader->wave, *slot, reader->node);
    *slot = again(reader->wave, *slot);
}

static void replace_reads(Wave *w) {
    for (Node *node = w->first_rule; node && node != w->stop; node = node->next) {
        Reader reader = {w, node};
        if (!node->again) node_each_input(node, read_again, &reader);
    }
    for (int i = 0; i < w->graph->outputs.n; i++) {
        Output *const output = &w->graph->outputs.at[i];
        if (output->kind != OUT_kept) continue;
        copy_for(w, output->value, w->stop);
        output->value = again(w, output->value);
    }
}

Status recompute_regions(Graph *graph, Node *last, Node *stop) {
    Node *const first_rule = last ? last->next : graph->first;
    for (int first = 1, next; first <= graph->regions.n; first = next) {
        Wave wave;
        next = graph->regions.n + 1;
        if (!wave_init(&wave, graph, first_rule, stop, first)) return ST_MEMORY;
        find_stays(&wave);
        replace_reads(&wave);
    }
    return error_pending();
}
