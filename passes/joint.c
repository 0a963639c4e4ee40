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
 * ops without a derivative (detach, comparisons) and values that are not floats end the traversal. The
 * graph is the rules' builder, so the ops are those that eager emits. sn::gradients nodes are
 * expanded in program order, each through what stands before it: with create_graph, a later one
 * differentiates the earlier one's ops. What regions made is then computed again (recompute.c). */
#include "ir/meta_rules.h"
#include "ir/saves.h"
#include "passes/internal.h"
#include "passes/recompute.h"
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
    return op_recorded(node->row, node->form, node->modes, 1) && deriv_rule(node->row);
}

static bool arg_wanted(const Tape *tape, const Arg *arg) {
    if (arg->kind == ARG_tensor) return arg->val && tape->wanted[gval(arg->val)->id];
    for (int i = 0; arg->kind == ARG_tensors && i < arg->n; i++)
        if (arg->vals[i] && tape->wanted[gval(arg->vals[i])->id]) return true;
    return false;
}

static bool any_wanted(const Tape *tape, const Node *node) {
    bool any = false;
    for (int i = 0; i < node->n_args; i++) any |= arg_wanted(tape, &node->args[i]);
    return any;
}

static void mark(Tape *tape) {
    for (Node *node = tape->graph->first; node && node != tape->end; node = node->next) {
        if (!any_wanted(tape, node) || !differentiable(node)) continue;
        for (int i = 0; i < node->n_outs; i++)
            if (result_has_gradient(node->outs[i].base.meta)) tape->wanted[node->outs[i].id] = true;
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

/* What the rule of control flow gives has gone on from the sums. */
static Status replace_sums(Tape *tape, const Node *node, const Deriv *deriv) {
    const Arg *const operands = &node->args[op_param_find(node->row, "operands")];
    for (int k = 0; k < operands->n; k++)
        if (deriv->grad_list[k]) *sum_of(tape, gval(operands->vals[k])) = deriv->grad_list[k];
    return ST_OK;
}

static Status contribute_all(Tape *tape, Node *node, const Deriv *deriv) {
    if (deriv->flow) return replace_sums(tape, node, deriv);
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

/* The operands' sums, and the generator that the call has. */
static Status enter_flow(Tape *tape, Node *node, Deriv *deriv) {
    Graph *const graph = tape->graph;
    const Arg *const operands = &node->args[op_param_find(node->row, "operands")];
    DerivFlow *const flow = ARENA_NEW(graph->arena, DerivFlow);
    Arg *const args = ARENA_ARRAY(graph->arena, Arg, node->n_args);
    if (!flow || !args) return ST_MEMORY;
    *flow = (DerivFlow){.n_results = node->n_outs};
    for (int k = 0; k < operands->n && k < FLOW_OPERANDS; k++) {
        flow->wanted[k] = tape->wanted[gval(operands->vals[k])->id];
        flow->sums[k] = *sum_of(tape, gval(operands->vals[k]));
        while (sum_of(tape, gval(operands->vals[flow->same[k]])) != sum_of(tape, gval(operands->vals[k])))
            flow->same[k]++;
    }
    memcpy(args, node->args, sizeof *args * (size_t)node->n_args);
    args[op_param_find(node->row, "seed")] = A_INT(graph->seed);
    args[op_param_find(node->row, "number")] = A_INT(sym_add(graph->env, graph->sequence, node->random));
    deriv->flow = flow;
    deriv->args = args;
    return ST_OK;
}

/* Of a rule that only eager can run: each gradient that it may give. */
static Status stand_in(const Tape *tape, Deriv *deriv) {
    error_clear();
    for (int i = 0; i < deriv->row->n_params; i++) {
        if (!deriv->needs[i] || !deriv->arg_meta[i]) continue;
        GVal *const value = graph_input(tape->graph, "unknown", deriv->arg_meta[i]);
        if (!value) return error_pending();
        deriv->grad_in[i] = &value->base;
    }
    return ST_OK;
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
    Deriv deriv = {.b = &tape->graph->builder,
                   .row = row,
                   .args = node->args,
                   .results = results,
                   .grad_out = grad_out,
                   .needs = needs,
                   .arg_meta = arg_meta,
                   .result_meta = result_meta,
                   .grad_in = grad_in,
                   .grad_list = grad_list,
                   .n_results = node->n_outs};
    if (row->flags & OPF_flow) TRY(enter_flow(tape, node, &deriv));
    const Status status = deriv_rule(row)(&deriv);
    if (UNLIKELY(status != ST_OK && deriv.eager_only && tape->graph->trial))
        TRY(stand_in(tape, &deriv));
    else
        TRY(status);
    return contribute_all(tape, node, &deriv);
}

/* Of rules: they are no part of the region of what they are the rule of. */
static NewNodes rule_nodes(Graph *graph, const Node *node, Node *before) {
    const NewNodes saved = nodes_like(graph, node, before);
    graph->region = graph->again = 0;
    return saved;
}

static Status traverse_back(Tape *tape, uint8_t modes) {
    Graph *const graph = tape->graph;
    for (Node *node = tape->last; node; node = node->prev) {
        if (!differentiable(node) || !has_gradient(tape, node)) continue;
        const NewNodes saved = rule_nodes(graph, node, tape->end);
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

/* What stands behind the bar is for the engine, which lays out what becomes .grad itself. */
static bool for_engine(const Graph *graph, const GVal *value, const int *uses) {
    int n = 0;
    for (int i = graph->n_forward_outputs; i && i < graph->outputs.n; i++) n += graph->outputs.at[i].value == value;
    return n && n == uses[value->id];
}

/* A gradient has the layout of its leaf, as the tape gives it: strides of dims of size 1 too, which sn_strides
 * shows. */
static Val *like_leaf(Graph *graph, Node *node, Val *sum, const GVal *wanted, const int *uses) {
    const Meta *const have = sum->meta, *const want = wanted->base.meta;
    bool same = true;
    for (int d = 0; d < want->rank; d++) same &= have->strides[d] == want->strides[d];
    if (same || for_engine(graph, wanted, uses)) return sum;
    const NewNodes saved = rule_nodes(graph, node, node);
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
        Val *const laid_out = like_leaf(tape->graph, node, sum, &node->outs[i], uses);
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

/* The gradients of control flow have none in a graph: eager's have, which are made op by op. */
static Status refuse_flow(const Tape *tape) {
    for (const Node *node = tape->last; node; node = node->prev)
        if (node->row->flags & OPF_flow && differentiable(node) && any_wanted(tape, node))
            return error_raise(ST_UNSUPPORTED, "gradients of gradients of control flow");
    return ST_OK;
}

/* ran: NULL, or gets the nodes (by their present ids) whose rules were applied. */
static Status expand_gradients(Graph *graph, Node *node, const bool **ran) {
    Tape tape;
    if (!tape_init(&tape, graph, node)) return error_pending();
    if (ran && !(*ran = tape.ran = ARENA_ARRAY(graph->arena, bool, graph->n_nodes + 1))) return ST_MEMORY;
    const int *const uses = graph_use_counts(graph);
    mark_leaves(&tape, node);
    mark(&tape);
    const uint8_t modes = node->args[G_create_graph].i ? node->modes : node->modes | NODE_no_grad;
    const NewNodes saved = rule_nodes(graph, node, node);
    graph->modes = modes;
    Status status = ST_OK;
    for (int i = 0; i < node->args[G_roots].n && status == ST_OK; i++)
        status = contribute(&tape, gval(node->args[G_roots].vals[i]), node->args[G_grads].vals[i]);
    nodes_restore(graph, saved);
    TRY(status);
    if (node->args[G_create_graph].i) TRY(refuse_flow(&tape));
    TRY(traverse_back(&tape, modes));
    return put_gradients(&tape, node, uses);
}

/* In order. ran: NULL, or by node id of now; what ran before an error counts. */
static Status expand_all(Graph *graph, bool *ran) {
    graph_number(graph);
    const int n = graph->n_nodes;
    Node **const nodes = ran ? ARENA_ARRAY(graph->arena, Node *, n + 1) : NULL;
    if (ran && !nodes) return ST_MEMORY;
    for (Node *node = graph->first; nodes && node; node = node->next) nodes[node->id] = node;
    for (Node *node = graph->first, *next; node; node = next) {
        const bool *now = NULL;
        Node *const last = node->prev;
        next = node->next;
        if (node->row->role != ROLE_gradients) continue;
        const Status status = expand_gradients(graph, node, ran ? &now : NULL);
        for (int i = 0; now && i < n; i++) /* ids are of the last numbering; those of expanded nodes of an older one */
            ran[i] |= nodes[i]->row->role != ROLE_gradients && now[nodes[i]->id];
        TRY(status);
        /* What a later backward goes through is what the forward made. */
        if (graph->regions.n && !node->args[G_create_graph].i) TRY(recompute_regions(graph, last, next));
    }
    return ST_OK;
}

static bool has_gradients(const Graph *graph) {
    for (const Node *node = graph->first; node; node = node->next)
        if (node->row->role == ROLE_gradients) return true;
    return false;
}

bool pass_joint(Graph *graph, const PassOptions *options) {
    const bool composites = decompose_composites(graph), gradients = has_gradients(graph);
    if (gradients && error_pending() == ST_OK) expand_all(graph, options->ran);
    own_outputs(graph);
    return composites || gradients;
}

/* a forward and its backward as one graph ----------------------------------------------------- */

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
static const Meta *sum_meta(Graph *graph, const JointSpec *spec, int i) {
    const Meta *const input = graph->inputs.at[i]->base.meta;
    if (spec->sum_meta && spec->sum_meta[i]) return spec->sum_meta[i];
    int64_t strides[MAX_RANK];
    preserved_strides(graph->env, input, strides);
    return meta_new(graph->arena, graph->env, input->dtype, input->device, input->sizes, strides, input->rank);
}

/* The arguments of sn::gradients. */
typedef struct GradientEnds {
    VEC(Val *) roots, grads, leaves;
} GradientEnds;

static Status add_root(Graph *graph, GradientEnds *ends, GVal *root, const char *name, const Meta *grad_meta) {
    GVal *const grad = graph_input(graph, name, grad_meta);
    if (!grad) return error_pending();
    VEC_PUSH(graph->arena, &ends->roots, &root->base);
    VEC_PUSH(graph->arena, &ends->grads, &grad->base);
    return ST_OK;
}

/* A partial sum is a gradient that its input has before all others: the first stands. */
static Status find_ends(Graph *graph, const JointSpec *spec, GradientEnds *ends) {
    Arena *const arena = graph->arena;
    for (int i = 0; i < graph->n_forward_inputs; i++) {
        GVal *const input = graph->inputs.at[i];
        if (!spec->want[i]) continue;
        VEC_PUSH(arena, &ends->leaves, &input->base);
        if (!spec->partial || !spec->partial[i]) continue;
        TRY(add_root(graph, ends, input, arena_printf(arena, "sum_%s", input->name), sum_meta(graph, spec, i)));
    }
    for (int i = 0; i < graph->n_forward_outputs; i++)
        if (spec->grad_defined[i])
            TRY(add_root(graph, ends, graph->outputs.at[i].value, arena_printf(arena, "grad_%d", i),
                         seed_meta(graph, spec, i)));
    return error_pending();
}

Status joint_append(Graph *forward, const JointSpec *spec) {
    GradientEnds ends = {0};
    forward->n_forward_inputs = forward->inputs.n;
    forward->n_forward_outputs = forward->outputs.n;
    forward->insert_at = NULL;
    TRY(find_ends(forward, spec, &ends));
    const Arg args[] = {[G_roots] = A_VALS(ends.roots.at, ends.roots.n),
                        [G_grads] = A_VALS(ends.grads.at, ends.grads.n),
                        [G_leaves] = A_VALS(ends.leaves.at, ends.leaves.n),
                        [G_earlier] = A_VALS(NULL, 0),
                        [G_of] = A_INTS(NULL, 0),
                        [G_create_graph] = A_BOOL(false)};
    Node *const node = graph_append(forward, OP_ROW(gradients), FORM_functional, args);
    for (int i = 0; node && i < node->n_outs; i++) graph_output(forward, &node->outs[i]);
    graph_number(forward);
    return error_pending();
}

/* what eager's tape records, and what a backward goes through --------------------------------- */

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

static Graph *trial_copy(Graph *forward, Arena *arena, SymEnv *env) {
    Graph *const graph = graph_copy(forward, arena);
    if (!graph) return NULL;
    graph->bail = NULL;
    graph->insert_at = NULL;
    graph->env = graph->builder.env = env;
    graph->trial = true;
    return graph;
}

/* Of a backward its own node alone: others have been gone through when it comes. */
const bool *joint_ran(Graph *functional, Arena *arena, SymEnv *env, const JointSpec *spec) {
    Graph *const graph = trial_copy(functional, arena, env);
    bool *const all = graph && !spec ? ARENA_ARRAY(arena, bool, graph->n_nodes + 1) : NULL;
    const bool *ran = all;
    if (!graph || (spec ? joint_append(graph, spec) != ST_OK : !all)) return NULL;
    const Status status = spec ? expand_gradients(graph, graph->last, &ran) : expand_all(graph, all);
    if (status == ST_MEMORY) return NULL;
    error_clear(); /* a rule's error ends the traversal, as it ends the backward */
    return ran;
}
