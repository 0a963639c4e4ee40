/* tape_limits.c: what eager's tape would do that a compiled segment cannot: such segments run
 * eagerly.
 *
 * Values that share memory form one class (views, aliases among inputs). A tracked op that saves a
 * value marks its class; a later write into a marked class is what eager's version check finds in
 * backward [semantics G3]. sn::gradients uses up what its roots reach: marks end there
 * (training_history.c: what that leaves to results). */
#include "runtime/capture/record/tape_limits.h"

#include "ir/saves.h"
#include "runtime/autograd/tape.h"
#include "runtime/core/breaks.h"

typedef struct Limits {
    Graph *graph;
    const TapeNeeds *tape;
    int *class_of;   /* by value id: the value that stands for its memory */
    bool *saved;     /* by class */
    int *region;     /* by class: the outermost region that made it; 0: none */
    bool *history;   /* by class, so far */
    bool *detached;  /* by value id: shares memory, not the history */
    const int *uses; /* by value id */
    bool *parted;    /* by class: an _unsafe_view of what is no temporary: two histories */
    bool unseen;     /* a leaf was written with gradients on, yet not recorded */
    Reason why;
} Limits;

/* A composite whose parts are views saves nothing. */
static bool gives_views(const OpRow *row) { return row->shares || row->flags & OPF_maybe_copy; }

/* detach */
static bool is_cut(const Node *node) { return node->row->kind == KIND_view && node->row->flags & OPF_nodiff; }

/* Made here in memory of its own, and used once. */
static bool is_temporary(const Limits *l, const GVal *value) {
    return value->def && !value_memory(value) && l->uses[value->id] == 1;
}

/* inputs NULL: none is written, and which ones share memory is all the same. */
static void find_classes(Limits *l, const Trace *trace, const GraphInput *inputs) {
    const Graph *const graph = l->graph;
    for (int i = 0; i < graph->n_vals; i++) l->class_of[i] = i;
    for (int i = 0; inputs && i < graph->inputs.n; i++)
        for (int k = 0; k < i; k++)
            if (trace->inputs.at[inputs[i].captured].storage_number ==
                trace->inputs.at[inputs[k].captured].storage_number)
                l->class_of[graph->inputs.at[i]->id] = l->class_of[graph->inputs.at[k]->id];
    for (const Node *node = graph->first; node; node = node->next)
        for (int i = 0; i < node->n_outs; i++) {
            const GVal *const memory = value_memory(&node->outs[i]);
            const int id = node->outs[i].id;
            if (!memory) l->region[id] = graph_top_region(graph, node);
            if (!memory) continue;
            l->class_of[id] = l->class_of[memory->id];
            l->detached[id] = l->detached[memory->id] || is_cut(node);
            if (node->row->role == ROLE_new_base) l->parted[l->class_of[id]] |= !is_temporary(l, memory);
        }
}

static uint32_t needs_of(const Limits *l, const Node *node) { return l->tape->needs[node->id]; }

/* Composites save through their parts, of which nothing is known here. */
static bool saves_arg(const Limits *l, const Node *node, int i) {
    return node->row->kind == KIND_composite ? !gives_views(node->row)
                                             : tape_row_saves(node->row, i, -1, needs_of(l, node));
}

static bool saves_result(const Limits *l, const Node *node, int i) {
    const bool product = node->row->flags & OPF_product;
    return node->row->kind == KIND_composite ? !gives_views(node->row) && !product
                                             : tape_row_saves(node->row, -1, i, needs_of(l, node));
}

static void record_saved(Limits *l, const Node *node) {
    for (int i = 0; i < node->row->n_params; i++) {
        const Arg *const a = &node->args[i];
        if (!saves_arg(l, node, i)) continue;
        if (a->kind == ARG_tensor && a->val) l->saved[l->class_of[gval(a->val)->id]] = true;
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++)
            if (a->vals[k]) l->saved[l->class_of[gval(a->vals[k])->id]] = true;
    }
    for (int i = 0; i < node->n_outs; i++)
        if (saves_result(l, node, i)) l->saved[l->class_of[node->outs[i].id]] = true;
}

/* What a region reads from outside it reads again, which is checked like what is saved. */
static void record_region_read(Limits *l, int top, const Val *val) {
    const int class = val ? l->class_of[gval((Val *)val)->id] : -1;
    if (val && l->region[class] != top) l->saved[class] = true;
}
static void record_region(Limits *l, const Node *node) {
    const int top = graph_top_region(l->graph, node);
    for (int i = 0; top && i < node->row->n_params; i++) {
        const Arg *const a = &node->args[i];
        if (a->kind == ARG_tensor) record_region_read(l, top, a->val);
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++) record_region_read(l, top, a->vals[k]);
    }
}

/* The graph's new value has the history of what wrote it; eager's tensor that of the recorded ops. */
static void check_history(Limits *l, const Node *node, const GVal *to) {
    const int class = l->class_of[to->id];
    const bool input = class < l->graph->inputs.n;
    if (needs_of(l, node)) {
        if (input) l->why = BREAK_REASON(input_takes_history);
        if (l->detached[to->id]) l->why = BREAK_REASON(detached_write);
        if (l->parted[class]) l->why = BREAK_REASON(parted_write);
    } else if (l->history[class]) {
        if (!input) l->why = BREAK_REASON(unseen_write);
        l->unseen |= !(node->modes & (NODE_no_grad | NODE_inference));
    }
}

static void check_writes(Limits *l, const Node *node) {
    const int first = node->form == FORM_inplace ? 0 : node->row->n_params;
    const int n = node->form == FORM_inplace ? 1 : node->n_args - first;
    for (int i = 0; i < n; i++) {
        const GVal *const to = gval(node->args[first + i].val);
        if (!to) continue;
        if (l->saved[l->class_of[to->id]]) l->why = BREAK_REASON(saved_written);
        check_history(l, node, to);
    }
}

static bool lacks_derivative(const Node *node) {
    return node->row->kind != KIND_composite && !(node->row->flags & OPF_nodiff) && !tape_row_differentiable(node->row);
}

static void check_nodes(Limits *l) {
    for (const Node *node = l->graph->first; node; node = node->next) {
        if (node->row->role == ROLE_gradients) {
            if (l->unseen) l->why = BREAK_REASON(leaf_written);
            memset(l->saved, 0, sizeof *l->saved * (size_t)l->graph->n_vals);
        }
        if (node->form != FORM_functional) check_writes(l, node);
        if (node->region) record_region(l, node);
        if (node->modes & NODE_rest) l->why = BREAK_REASON(cut_checkpoint);
        if (!needs_of(l, node)) continue;
        if (lacks_derivative(node)) l->why = BREAK_REASON(no_derivative);
        record_saved(l, node);
        for (int i = 0; i < node->n_outs; i++)
            l->history[l->class_of[node->outs[i].id]] |= result_has_gradient(node->outs[i].base.meta);
    }
}

/* Inputs that share written memory enter the graph as one plain tensor, which has no history. */
static void check_bases(Limits *l, const Trace *trace, const GraphInput *inputs) {
    for (int i = 0; inputs && i < l->graph->inputs.n; i++)
        for (int k = 0; inputs[i].base && k < trace->inputs.n; k++)
            if (trace->inputs.at[k].requires_grad &&
                trace->inputs.at[k].storage_number == trace->inputs.at[inputs[i].captured].storage_number)
                l->why = BREAK_REASON(shared_inputs);
}

Reason tape_limits_refusal(Graph *graph, const TapeNeeds *tape, const Trace *trace, const GraphInput *inputs) {
    Limits l = {.graph = graph,
                .tape = tape,
                .uses = graph_use_counts(graph),
                .class_of = ARENA_ARRAY(graph->arena, int, graph->n_vals),
                .saved = ARENA_ARRAY(graph->arena, bool, graph->n_vals),
                .region = ARENA_ARRAY(graph->arena, int, graph->n_vals),
                .history = ARENA_ARRAY(graph->arena, bool, graph->n_vals),
                .detached = ARENA_ARRAY(graph->arena, bool, graph->n_vals),
                .parted = ARENA_ARRAY(graph->arena, bool, graph->n_vals)};
    if (!l.class_of || !l.saved || !l.region || !l.history || !l.detached || !l.parted || !l.uses)
        return BREAK_REASON(limits_memory);
    find_classes(&l, trace, inputs);
    for (int i = 0; i < graph->inputs.n; i++) l.history[l.class_of[graph->inputs.at[i]->id]] |= tape->want[i];
    check_nodes(&l);
    check_bases(&l, trace, inputs);
    return l.why;
}
