/* training_marks.c: which values of a capture graph carry gradients when the segment ends, and which ops
 * eager's tape records. Both follow memory: a recorded write gives its target's base a history, and with it
 * every view of that base, older ones too.
 *
 *     %0 = zeros()              a base: nothing yet
 *     %1 = select(%0, 0, 0)     a view of it
 *     %2 = exp(%0)              not recorded
 *     copy_(%1, %x)             recorded: %0 and %1 carry gradients from here on
 *
 * What was detached, and what inference mode made, is a base of its own to the tape. */
#include "runtime/capture/training/training_parts.h"

typedef struct Marking {
    Graph *graph;
    TapeMarks *marks;
    int *base; /* by value id: the value that the tape has it as a view of; itself: a base */
} Marking;

static uint32_t tracked_args(const bool *tracked, const Node *node) {
    uint32_t bits = 0;
    for (int i = 0; i < node->row->n_params; i++) {
        const Arg *const a = &node->args[i];
        bool any = a->kind == ARG_tensor && a->val && tracked[gval(a->val)->id];
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++) any |= a->vals[k] && tracked[gval(a->vals[k])->id];
        if (any) bits |= 1u << i;
    }
    return bits;
}

/* The value whose history a result shares; NULL: it is a base. */
static const GVal *viewed_by(const Node *node, int result) {
    const GVal *const memory = value_memory(&node->outs[result]);
    const bool apart = !tape_notes(node->row) || node->modes & NODE_inference;
    return node->form == FORM_functional && apart ? NULL : memory;
}

/* All that is a view of what was written, and that itself. */
static void mark_views(Marking *m, const GVal *written) {
    for (int v = 0; v < m->graph->n_vals; v++)
        if (m->base[v] == m->base[written->id]) {
            m->marks->tracked[v] = true;
            m->marks->stale[v] = m->base[v] != v;
        }
}

static void visit_node(Marking *m, const Node *node) {
    bool *const tracked = m->marks->tracked;
    const uint32_t needs = m->marks->needs[node->id] =
        op_recorded(node->row, node->form, node->modes, tracked_args(tracked, node));
    for (int i = 0; i < node->n_outs; i++) {
        const GVal *const out = &node->outs[i], *const viewed = viewed_by(node, i);
        m->base[out->id] = viewed ? m->base[viewed->id] : out->id;
        tracked[out->id] =
            node->form == FORM_functional ? needs && dtype_is_float(out->base.meta->dtype) : tracked[viewed->id];
    }
    if (node->form == FORM_inplace && needs && dtype_is_float(node->args[0].val->meta->dtype))
        mark_views(m, gval(node->args[0].val));
}

Status tape_marks_make(Graph *graph, const bool *want, TapeMarks *marks) {
    graph_number(graph);
    Marking m = {.graph = graph, .marks = marks, .base = ARENA_ARRAY(graph->arena, int, graph->n_vals + 1)};
    *marks = (TapeMarks){.tracked = ARENA_ARRAY(graph->arena, bool, graph->n_vals + 1),
                         .stale = ARENA_ARRAY(graph->arena, bool, graph->n_vals + 1),
                         .needs = ARENA_ARRAY(graph->arena, uint32_t, graph->n_nodes + 1)};
    if (!m.base || !marks->tracked || !marks->stale || !marks->needs) return ST_MEMORY;
    memset(m.base, -1, sizeof *m.base * (size_t)graph->n_vals); /* not made yet */
    for (int i = 0; i < graph->inputs.n; i++) {
        const int id = graph->inputs.at[i]->id;
        m.base[id] = id;
        marks->tracked[id] = want[i];
    }
    for (const Node *node = graph->first; node; node = node->next) visit_node(&m, node);
    return ST_OK;
}
