/* internal.c: helpers of the passes, see internal.h. Replacement tables map a dense value id to the
 * value that stands for it (NULL: itself); chains are followed, so a pass may replace a value by
 * one that is replaced later. */
#include "passes/internal.h"

#include "runtime/base/hash.h"

static NewNodes settings(const Graph *graph) {
    return (NewNodes){graph->insert_at, graph->random, graph->region, graph->again,
                      graph->modes,     graph->where,  graph->site,   graph->origin};
}

NewNodes nodes_like(Graph *graph, const Node *node, Node *before) {
    const NewNodes saved = settings(graph);
    graph->insert_at = before;
    graph->random = node->random;
    graph->region = node->region;
    graph->again = node->again;
    graph->modes = node->modes;
    graph->where = node->where;
    graph->site = node->site;
    graph->origin = node->origin;
    return saved;
}

void nodes_restore(Graph *graph, NewNodes saved) {
    graph->insert_at = saved.insert_at;
    graph->random = saved.random;
    graph->region = saved.region;
    graph->again = saved.again;
    graph->modes = saved.modes;
    graph->where = saved.where;
    graph->site = saved.site;
    graph->origin = saved.origin;
}

GVal *replaced(GVal *const *table, GVal *value) {
    while (value && table[value->id]) value = table[value->id];
    return value;
}

static void replace_slot(void *context, GVal **slot) { *slot = replaced(context, *slot); }

void replace_uses(Graph *graph, Node *node, GVal *const *table) {
    (void)graph;
    node_each_input(node, replace_slot, (void *)table);
}

void replace_ends(Graph *graph, GVal *const *table) {
    for (int i = 0; i < graph->outputs.n; i++) {
        Output *const output = &graph->outputs.at[i];
        output->value = replaced(table, output->value);
    }
    for (int i = 0; i < graph->writes.n; i++) {
        Write *const write = &graph->writes.at[i];
        write->value = replaced(table, write->value);
    }
}

uint64_t arg_hash(uint64_t seed, const Arg *arg) {
    seed = hash_mix(seed, (uint64_t)arg->kind);
    switch ((ArgKind)arg->kind) {
    case ARG_default:
    case ARG_none:
        return seed;
    case ARG_string:
        return hash_bytes(seed, arg->string, strlen(arg->string));
    case ARG_ints:
    case ARG_floats:
        return hash_bytes(seed, arg->ints, 8 * (size_t)arg->n);
    case ARG_tensors:
        for (int i = 0; i < arg->n; i++) seed = hash_mix(seed, (uint64_t)gval(arg->vals[i])->id);
        return hash_mix(seed, (uint64_t)arg->n);
    case ARG_tensor:
        return hash_mix(seed, arg->val ? (uint64_t)gval(arg->val)->id : UINT64_MAX);
    default:
        return hash_mix(seed, (uint64_t)arg->i);
    }
}

bool meta_equal(const Meta *a, const Meta *b) {
    if (a == b) return true;
    if (a->dtype != b->dtype || a->device != b->device || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->sizes[i] != b->sizes[i] || a->strides[i] != b->strides[i]) return false;
    return true;
}

static GVal *copied(Graph *graph, GVal *value) {
    const Meta *const meta = value->base.meta;
    Val *const copy = E(&graph->builder, restride, V(&value->base), A_INTS(meta->strides, meta->rank));
    return copy ? gval(copy) : value;
}

bool is_seen_input(const GVal *value) { return !view_root(value)->def; }

static bool is_input_itself(const GVal *value) { return !value->def; }

static void own_what(Graph *graph, bool (*foreign)(const GVal *value)) {
    const NewNodes saved = settings(graph);
    graph_number(graph);
    bool *const given = ARENA_ARRAY(graph->arena, bool, graph->n_vals + 1); /* by value: an output before has it */
    if (!given) return;
    graph->insert_at = NULL;
    graph->modes = NODE_no_grad;
    for (int i = 0; i < graph->outputs.n; i++) {
        Output *const output = &graph->outputs.at[i];
        if (output->kind != OUT_new || !output->value) continue;
        const int id = output->value->id;
        if (foreign(output->value) || given[id]) output->value = copied(graph, output->value);
        given[id] = true;
    }
    for (int i = 0; i < graph->writes.n; i++) {
        Write *const write = &graph->writes.at[i];
        if (is_seen_input(write->value) && write->value != write->input) write->value = copied(graph, write->value);
    }
    nodes_restore(graph, saved);
}

void own_outputs(Graph *graph) { own_what(graph, is_input_itself); }
void own_outputs_and_views(Graph *graph) { own_what(graph, is_seen_input); }

int node_count(const Graph *graph) {
    int n = 0;
    for (const Node *node = graph->first; node; node = node->next) n++;
    return n;
}
