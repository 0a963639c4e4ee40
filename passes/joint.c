/* joint.c: reverse-mode differentiation of a functional graph by the derivative rules, in the
 * tape's order [G1].
 *
 * The tape runs nodes in strictly decreasing sequence number; in a graph that is from the last node
 * to the first:
 *
 *     marks     leaves are wanted; results of differentiable ops with a wanted argument are wanted
 *     seeds     each root's gradient is added to its sum, in order
 *     backward  a node of which a result has a gradient: its rule gives one contribution per wanted
 *               argument; they are added to the arguments' sums in the order of the arguments: the
 *               first stands, then sum = add(sum, next)
 *
 * A gradient that nothing contributed to stays undefined. Nodes made in no_grad or inference mode,
 * ops without a derivative (detach, comparisons) and values that are not floats end the walk. The
 * graph is the rules' builder, so the ops are those that eager emits. sn::gradients nodes are
 * expanded in program order, each through what stands before it: with create_graph, a later one
 * differentiates the earlier one's ops. */
#include "ir/meta_rules.h"
#include "passes/internal.h"
#include "runtime/base/error.h"

PassFn pass_joint;

typedef struct Tape {
    Graph *graph;
    Node *end, *last; /* nodes before `end` are walked (NULL: all); the last of them, before
                         gradients are emitted */
    bool *wanted;     /* by value id */
    GVal **leaf;      /* by value id: the leaf that a value is an earlier version of; NULL: itself */
    Val **sums;       /* by value id: the gradient so far */
    bool *ran;        /* by node id: its rule was applied; NULL: nobody asks */
} Tape;

static bool tape_init(Tape *tape, Graph *graph, Node *end) {
    graph_number(graph);
    Arena *const arena = graph->arena;
    *tape = (Tape){.graph = graph,
                   .end = end,
                   .last = end ? end->prev : graph->last,
                   .wanted = ARENA_ARRAY(arena, bool, graph->n_vals + 1),
                   .leaf = ARENA_ARRAY(arena, GVal *, graph->n_vals + 1),
                   .sums = ARENA_ARRAY(arena, Val *, graph->n_vals + 1)};
    return tape->wanted && tape->leaf && tape->sums;
}

static Val **sum_of(Tape *tape, const GVal *value) {
    const GVal *const leaf = tape->leaf[value->id] ? tape->leaf[value->id] : value;
    return &tape->sums[leaf->id];
}

/* marks --------------------------------------------------------------------------------------- */

static bool differentiable(const Node *node) {
    return !(node->modes & (NODE_no_grad | NODE_inference)) && !(node->row->flags & OPF_nodiff) &&
           deriv_rule(node->row);
}

static bool arg_wanted(const Tape *tape, const Arg *arg) {
    if (arg->kind == ARG_tensor) return arg->val && tape->wanted[gval(arg->val)->id];
    for (int i = 0; arg->kind == ARG_tensors && i < arg->n; i++)
        if (arg->vals[i] && tape->wanted[gval(arg->vals[i])->id]) return true;
    return false;
}

static void mark(Tape *tape) {
    for (Node *node = tape->graph->first; node && node != tape->end; node = node->next) {
        bool any = false;
        for (int i = 0; i < node->n_args; i++) any |= arg_wanted(tape, &node->args[i]);
        if (!any || !differentiable(node)) continue;
        for (int i = 0; i < node->n_outs; i++)
            if (dtype_is_float(node->outs[i].base.meta->dtype)) tape->wanted[node->outs[i].id] = true;
    }
}

/* sums ---------------------------------------------------------------------------------------- */

static Status contribute(Tape *tape, GVal *value, Val *gradient) {
    if (!gradient || !tape->wanted[value->id]) return ST_OK;
    if (gradient->meta->dtype != value->base.meta->dtype || gradient->meta->rank != value->base.meta->rank)
        return error_raise(ST_INTERNAL, "the gradient of a %s of rank %d is %s of rank %d",
                           dtype_name(value->base.meta->dtype), value->base.meta->rank,
                           dtype_name(gradient->meta->dtype), gradient->meta->rank);
    Val **const sum = sum_of(tape, value);
    Val *const next = *sum ? E(&tape->graph->builder, add_Tensor, V(*sum), V(gradient)) : gradient;
    if (!next) return error_pending();
    *sum = next;
    return ST_OK;
}

static Status contribute_all(Tape *tape, Node *node, const Deriv *deriv) {
    for (int i = 0; i < node->row->n_params; i++) {
        const Arg *const arg = &node->args[i];
        if (!deriv->needs[i]) continue;
        if (arg->kind == ARG_tensor) TRY(contribute(tape, gval(arg->val), deriv->grad_in[i]));
        for (int k = 0; arg->kind == ARG_tensors && k < arg->n; k++)
            if (arg->vals[k]) TRY(contribute(tape, gval(arg->vals[k]), deriv->grad_list[k]));
    }
    return ST_OK;
}

/* one node ------------------------------------------------------------------------------------ */

static bool has_gradient(Tape *tape, const Node *node) {
    for (int i = 0; i < node->n_outs; i++)
        if (*sum_of(tape, &node->outs[i])) return true;
    return false;
}

static int longest_list(const Node *node) {
    int n = 0;
    for (int i = 0; i < node->n_args; i++)
        if (node->args[i].kind == ARG_tensors && node->args[i].n > n) n = node->args[i].n;
    return n;
}

static Status apply_rule(Tape *tape, Node *node) {
    Arena *const arena = tape->graph->arena;
    const int n_params = node->row->n_params;
    bool needs[MAX_ARGS] = {false};
    const Meta *arg_meta[MAX_ARGS] = {NULL};
    Val *grad_in[MAX_ARGS] = {NULL};
    Val **const results = ARENA_ARRAY(arena, Val *, node->n_outs + 1);
    Val **const grad_out = ARENA_ARRAY(arena, Val *, node->n_outs + 1);
    const Meta **const result_meta = ARENA_ARRAY(arena, const Meta *, node->n_outs + 1);
    Val **const grad_list = ARENA_ARRAY(arena, Val *, longest_list(node) + 1);
    if (!results || !grad_out || !result_meta || !grad_list) return error_pending();
    bool any = false;
    for (int i = 0; i < n_params; i++) {
        any |= needs[i] = arg_wanted(tape, &node->args[i]);
        if (node->args[i].kind == ARG_tensor && node->args[i].val) arg_meta[i] = node->args[i].val->meta;
    }
    if (!any) return ST_OK;
    if (tape->ran) tape->ran[node->id] = true;
    for (int i = 0; i < node->n_outs; i++) {
        results[i] = &node->outs[i].base;
        grad_out[i] = *sum_of(tape, &node->outs[i]);
        result_meta[i] = results[i]->meta;
    }
    const OpRow *const row = node->row->alias_of ? node->row->alias_of : node->row;
    Deriv deriv = {&tape->graph->builder, row,     node->args, results, grad_out, needs, arg_meta,
                   result_meta,           grad_in, grad_list};
    TRY(deriv_rule(row)(&deriv));
    return contribute_all(tape, node, &deriv);
}

static Status walk_back(Tape *tape, uint8_t modes) {
    Graph *const graph = tape->graph;
    for (Node *node = tape->last; node; node = node->prev) {
        if (!differentiable(node) || !has_gradient(tape, node)) continue;
        const NewNodes saved = nodes_like(graph, node, tape->end);
        graph->modes = modes;
        const Status status = apply_rule(tape, node);
        nodes_restore(graph, saved);
        if (status == ST_OK) continue;
        error_set_op(node->row->name);
        if (node->where) error_set_where(node->where);
        return status;
    }
    return ST_OK;
}

/* sn::gradients(roots, grad_roots, leaves, earlier, of, create_graph) ------------------------- */

enum { G_roots, G_grads, G_leaves, G_earlier, G_of, G_create_graph };

/* The result that nothing contributed to: undefined, as an output; anywhere else it has no meaning. */
static Status drop_undefined(Graph *graph, GVal *value, const int *uses) {
    int outputs = 0;
    for (int i = 0; i < graph->outputs.n; i++) {
        Output *const output = &graph->outputs.at[i];
        if (output->value != value) continue;
        *output = (Output){.kind = OUT_none};
        outputs++;
    }
    if (uses[value->id] == outputs) return ST_OK;
    return error_raise(ST_UNSUPPORTED, "an undefined gradient (result %d of sn::gradients) is used", value->index);
}

/* A gradient has the layout of its leaf, as the tape gives it: strides of dims of size 1 too, which sn_strides
 * shows. */
static Val *like_leaf(Graph *graph, Node *node, Val *sum, const GVal *wanted) {
    const Meta *const have = sum->meta, *const want = wanted->base.meta;
    bool same = true;
    for (int d = 0; d < want->rank; d++) same &= have->strides[d] == want->strides[d];
    if (same) return sum;
    const NewNodes saved = nodes_like(graph, node, node);
    Val *const copy = E(&graph->builder, restride, V(sum), A_INTS(want->strides, want->rank));
    nodes_restore(graph, saved);
    return copy;
}

static Status put_gradients(Tape *tape, Node *node, const int *uses) {
    const Arg *const leaves = &node->args[G_leaves];
    GVal **const by = ARENA_ARRAY(tape->graph->arena, GVal *, node->n_outs);
    for (int i = 0; i < node->n_outs; i++) {
        Val *const sum = *sum_of(tape, gval(leaves->vals[i]));
        if (!sum) {
            TRY(drop_undefined(tape->graph, &node->outs[i], uses));
            continue;
        }
        Val *const laid_out = like_leaf(tape->graph, node, sum, &node->outs[i]);
        if (!laid_out) return error_pending();
        by[i] = gval(laid_out);
    }
    graph_replace_results(tape->graph, node, by);
    graph_remove(tape->graph, node);
    return ST_OK;
}

static void mark_leaves(Tape *tape, const Node *node) {
    const Arg *const leaves = &node->args[G_leaves], *const earlier = &node->args[G_earlier];
    for (int i = 0; i < leaves->n; i++) tape->wanted[gval(leaves->vals[i])->id] = true;
    for (int i = 0; i < earlier->n; i++) {
        const GVal *const value = gval(earlier->vals[i]);
        tape->wanted[value->id] = true;
        tape->leaf[value->id] = gval(leaves->vals[node->args[G_of].ints[i]]);
    }
}

/* ran: NULL, or gets the nodes (by their present ids) whose rules were applied. */
static Status expand_gradients(Graph *graph, Node *node, const bool **ran) {
    Tape tape;
    if (!tape_init(&tape, graph, node)) return error_pending();
    if (ran) *ran = tape.ran = ARENA_ARRAY(graph->arena, bool, graph->n_nodes + 1);
    if (ran && !*ran) return ST_MEMORY;
    const int *const uses = graph_use_counts(graph);
    mark_leaves(&tape, node);
    mark(&tape);
    const uint8_t modes = node->args[G_create_graph].i ? node->modes : node->modes | NODE_no_grad;
    const NewNodes saved = nodes_like(graph, node, node);
    graph->modes = modes;
    Status status = ST_OK;
    for (int i = 0; i < node->args[G_roots].n && status == ST_OK; i++)
        status = contribute(&tape, gval(node->args[G_roots].vals[i]), node->args[G_grads].vals[i]);
    nodes_restore(graph, saved);
    TRY(status);
    TRY(walk_back(&tape, modes));
    return put_gradients(&tape, node, uses);
}

bool pass_joint(Graph *graph, const PassOptions *options) {
    bool changed = decompose_composites(graph);
    for (Node *node = graph->first, *next; node && error_pending() == ST_OK; node = next) {
        next = node->next;
        if (!(node->row->flags & OPF_gradients)) continue;
        changed = true;
        if (expand_gradients(graph, node, NULL) != ST_OK) break;
    }
    own_outputs(graph);
    return changed;
}

/* a compiled forward and its backward as one graph -------------------------------------------- */

/* An output's gradient has its layout, but for strides of 0 or windows that overlap, which memory
 * of its own cannot have: row-major then. */
static const Meta *seed_meta(Graph *graph, const JointSpec *spec, int output) {
    const GVal *const value = graph->outputs.at[output].value;
    if (spec->grad_meta && spec->grad_meta[output]) return spec->grad_meta[output];
    const Meta *const meta = value->base.meta;
    int64_t strides[MAX_RANK];
    if (!value->def || value->def->row->kind != KIND_view) return meta;
    meta_contiguous_strides(graph->env, meta->sizes, meta->rank, strides);
    return meta_new(graph->arena, graph->env, meta->dtype, meta->device, meta->sizes, strides, meta->rank);
}

/* A sum's memory is its own too: that of an input may name an element twice. */
static const Meta *sum_meta(Graph *graph, const Meta *input) {
    int64_t strides[MAX_RANK];
    preserved_strides(graph->env, input, strides);
    return meta_new(graph->arena, graph->env, input->dtype, input->device, input->sizes, strides, input->rank);
}

static void mark_inputs(Tape *tape, const bool *want) {
    for (int i = 0; i < tape->graph->inputs.n; i++)
        if (want[i]) tape->wanted[tape->graph->inputs.at[i]->id] = true;
    mark(tape);
}

const bool *joint_marks(Graph *forward, const bool *want) {
    Tape tape;
    if (!tape_init(&tape, forward, NULL)) return NULL;
    mark_inputs(&tape, want);
    return tape.wanted;
}

uint32_t joint_needs(const bool *marks, const Node *node) {
    const Tape tape = {.wanted = (bool *)marks};
    uint32_t needs = 0;
    for (int i = 0; differentiable(node) && i < node->row->n_params; i++)
        needs |= arg_wanted(&tape, &node->args[i]) ? 1u << i : 0;
    return needs;
}

Status joint_expand(Graph *forward) {
    decompose_composites(forward);
    graph_number(forward);
    return error_pending();
}

static Status seed_and_walk(Tape *tape, const JointSpec *spec) {
    Graph *const graph = tape->graph;
    const int n_inputs = graph->inputs.n;
    tape->ran = spec->ran;
    mark_inputs(tape, spec->want);
    for (int i = 0; i < n_inputs; i++) {
        GVal *const input = graph->inputs.at[i];
        if (!spec->partial || !spec->partial[i] || !spec->want[i]) continue;
        GVal *const sum =
            graph_input(graph, arena_printf(graph->arena, "sum_%s", input->name), sum_meta(graph, input->base.meta));
        if (!sum) return error_pending();
        tape->sums[input->id] = &sum->base;
    }
    for (int i = 0; i < graph->outputs.n; i++) {
        if (!spec->grad_defined[i]) continue;
        GVal *const value = graph->outputs.at[i].value;
        GVal *const seed = graph_input(graph, arena_printf(graph->arena, "grad_%d", i), seed_meta(graph, spec, i));
        if (!seed) return error_pending();
        TRY(contribute(tape, value, &seed->base));
    }
    return walk_back(tape, NODE_no_grad);
}

Graph *joint_build(Graph *forward, const JointSpec *spec) {
    Tape tape;
    decompose_composites(forward);
    if (error_pending() != ST_OK || !tape_init(&tape, forward, NULL)) return NULL;
    const int n_inputs = forward->inputs.n;
    forward->n_forward_outputs = forward->outputs.n;
    forward->n_forward_inputs = n_inputs;
    forward->insert_at = NULL;
    if (seed_and_walk(&tape, spec) != ST_OK) return NULL;
    for (int i = 0; i < n_inputs; i++) {
        if (!spec->want[i]) continue;
        Val *const sum = tape.sums[forward->inputs.at[i]->id];
        const Output none = {.kind = OUT_none};
        if (sum)
            graph_output(forward, gval(sum));
        else
            VEC_PUSH(forward->arena, &forward->outputs, none);
    }
    own_outputs(forward);
    graph_number(forward);
    return error_pending() == ST_OK ? forward : NULL;
}

/* what a backward goes through ---------------------------------------------------------------- */

static Graph *trial_copy(Graph *forward, Arena *arena, SymEnv *env) {
    Graph *const graph = graph_copy(forward, arena);
    if (!graph) return NULL;
    graph->bail = NULL;
    graph->insert_at = NULL;
    graph->env = graph->builder.env = env;
    return graph;
}

const bool *joint_ran(Graph *forward, Arena *arena, SymEnv *env, const JointSpec *spec) {
    Graph *const graph = trial_copy(forward, arena, env);
    JointSpec trial = *spec;
    Tape tape;
    if (!graph || !tape_init(&tape, graph, NULL)) return NULL;
    if (!(trial.ran = ARENA_ARRAY(arena, bool, graph->n_nodes + 1))) return NULL;
    const Status status = seed_and_walk(&tape, &trial);
    if (status == ST_MEMORY) return NULL;
    error_clear(); /* a rule's error ends the walk, as it ends the backward */
    return trial.ran;
}

const bool *joint_used(Graph *forward, Arena *arena, SymEnv *env) {
    Graph *const graph = trial_copy(forward, arena, env);
    const int n = graph ? graph->n_nodes : 0;
    Node **const nodes = ARENA_ARRAY(arena, Node *, n + 1);
    bool *const used = ARENA_ARRAY(arena, bool, n + 1);
    if (!graph || !nodes || !used) return NULL;
    for (Node *node = graph->first; node; node = node->next) nodes[node->id] = node;
    for (int at = 0; at < n; at++) {
        const bool *ran;
        if (!(nodes[at]->row->flags & OPF_gradients)) continue;
        if (expand_gradients(graph, nodes[at], &ran) != ST_OK) return NULL;
        for (int i = 0; i < at; i++) /* ids are of the last numbering */
            used[i] |= !(nodes[i]->row->flags & OPF_gradients) && ran[nodes[i]->id];
    }
    return used;
}
