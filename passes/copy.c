/* copy.c: see copy.h. */
#include "passes/copy.h"

Graph *graph_beside(const Graph *graph, Arena *arena, const char *name) {
    Graph *const made = graph_new(arena, name);
    if (!made) return NULL;
    made->env = made->builder.env = graph->env;
    made->bail = graph->bail;
    made->seed = graph->seed;
    made->sequence = graph->sequence;
    made->n_random = graph->n_random;
    made->n_again = graph->n_again;
    regions_copy(arena, &made->regions, &graph->regions);
    for (int i = 0; i < graph->runtime_floats.n; i++)
        VEC_PUSH(arena, &made->runtime_floats, graph->runtime_floats.at[i]);
    return made;
}

bool copy_init(GraphCopy *copy, Graph *to, const Graph *from) {
    *copy = (GraphCopy){.to = to,
                        .map = ARENA_ARRAY(to->arena, GVal *, from->n_vals + 1),
                        .needed = ARENA_ARRAY(to->arena, bool, from->n_vals + 1)};
    return to && copy->map && copy->needed;
}

void copy_need(GraphCopy *copy, const GVal *value) { copy->needed[value->id] = true; }

static void need_slot(void *context, GVal **slot) {
    if (*slot) copy_need(context, *slot);
}

void copy_need_inputs(GraphCopy *copy, Graph *from, const bool *skip) {
    for (Node *node = from->last; node; node = node->prev) {
        if (!node->n_outs || (skip && skip[node->outs[0].id])) continue;
        bool wanted = !skip ? false : !node_is_pure(node);
        for (int i = 0; i < node->n_outs; i++) wanted |= copy->needed[node->outs[i].id] && !copy->map[node->outs[i].id];
        if (!wanted) continue;
        for (int i = 0; i < node->n_outs; i++) copy->needed[node->outs[i].id] |= !copy->map[node->outs[i].id];
        node_each_input(node, need_slot, copy);
    }
}

static Val *mapped(void *context, Val *value) {
    return value ? &((GraphCopy *)context)->map[gval(value)->id]->base : NULL;
}

static bool copy_node(GraphCopy *copy, const Node *node) {
    Arg *const args = ARENA_ARRAY(copy->to->arena, Arg, node->n_args + 1);
    if (!args) return false;
    for (int i = 0; i < node->n_args; i++) args[i] = arg_map_vals(copy->to->arena, node->args[i], mapped, copy);
    const NewNodes saved = nodes_like(copy->to, node, NULL);
    copy->to->unbacked.symbol = node->unbacked;
    Node *const made = graph_append(copy->to, node->row, node->form, args);
    nodes_restore(copy->to, saved);
    for (int i = 0; made && i < node->n_outs; i++)
        if (!copy->map[node->outs[i].id]) copy->map[node->outs[i].id] = &made->outs[i];
    return made != NULL;
}

bool copy_needed(GraphCopy *copy, const Graph *from) {
    for (const Node *node = from->first; node; node = node->next) {
        bool wanted = false;
        for (int i = 0; i < node->n_outs; i++) wanted |= copy->needed[node->outs[i].id] && !copy->map[node->outs[i].id];
        if (wanted && !copy_node(copy, node)) return false;
    }
    return true;
}

void copy_output(GraphCopy *copy, const Output *output) {
    Output made = *output;
    if (made.value) made.value = copy->map[made.value->id];
    VEC_PUSH(copy->to->arena, &copy->to->outputs, made);
}

bool copy_input(GraphCopy *copy, const char *name, const GVal *value) {
    return (copy->map[value->id] = graph_input(copy->to, name, value->base.meta)) != NULL;
}

void copy_need_gradients(GraphCopy *copy, Graph *joint) {
    for (int i = joint->n_forward_outputs; i < joint->outputs.n; i++)
        if (joint->outputs.at[i].value && !is_kept(&joint->outputs.at[i])) copy_need(copy, joint->outputs.at[i].value);
    copy_need_inputs(copy, joint, NULL);
}

bool copy_gradients(GraphCopy *copy, const Graph *joint) {
    copy->to->n_forward_inputs = copy->to->inputs.n;
    for (int i = joint->n_forward_inputs; i < joint->inputs.n; i++)
        if (!copy_input(copy, joint->inputs.at[i]->name, joint->inputs.at[i])) return false;
    if (!copy_needed(copy, joint)) return false;
    for (int i = joint->n_forward_outputs; i < joint->outputs.n; i++)
        if (!is_kept(&joint->outputs.at[i])) copy_output(copy, &joint->outputs.at[i]);
    own_outputs(copy->to);
    return true;
}

Graph *graph_copy(Graph *graph, Arena *arena) {
    graph_number(graph);
    Graph *const made = graph_beside(graph, arena, graph->name);
    GraphCopy copy;
    if (!copy_init(&copy, made, graph)) return NULL;
    for (int i = 0; i < graph->inputs.n; i++)
        if (!copy_input(&copy, graph->inputs.at[i]->name, graph->inputs.at[i])) return NULL;
    for (const Node *node = graph->first; node; node = node->next)
        if (!copy_node(&copy, node)) return NULL;
    for (int i = 0; i < graph->outputs.n; i++) copy_output(&copy, &graph->outputs.at[i]);
    for (int i = 0; i < graph->writes.n; i++)
        graph_write(made, copy.map[graph->writes.at[i].input->id], copy.map[graph->writes.at[i].value->id]);
    made->n_forward_inputs = graph->n_forward_inputs;
    made->n_forward_outputs = graph->n_forward_outputs;
    graph_number(made);
    return made;
}
