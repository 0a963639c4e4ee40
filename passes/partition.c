/* partition.c: splits a joint graph into a forward that saves values and a backward that starts
 * from them, by a minimum cut over bytes.
 *
 * Every value is an edge of its size; a cut edge is a saved value:
 *
 *     source --many--> inputs, results that may not be recomputed (they exist after the forward)
 *     value in --bytes--> value out --many--> the results of its users (a user is recomputed from it)
 *     value out --many--> sink, where the backward reads it
 *
 * What lies behind the cut is recomputed in the backward, from saved values only, by the same ops
 * on the same bits: pointwise ops, views and creations. Random ones too: Philox depends on seed,
 * sequence and element [B6]. Never ops that check values, reductions, products. Views are never
 * saved: their base is. So gelu(x + b) saves the one tensor x + b. What a region computes again (recompute.c) is a
 * part of the backward, whatever its ops.
 *
 * Where the joint graph says what eager's tape holds (OUT_kept), all of that can be made again from
 * what is saved. What is read in the caller's memory, not saved: partition_places.c.
 *
 * Ties go to values that are there anyway: inputs and the caller's outputs weigh a hair less. */
#include "passes/copy.h"
#include "passes/flow.h"
#include "passes/partition.h"
#include "runtime/base/error.h"

/* what belongs where -------------------------------------------------------------------------- */

typedef struct UseContext {
    UseVisit *visit;
    void *context;
} UseContext;
static void visit_slot(void *context, GVal **slot) {
    const UseContext *const use = context;
    if (*slot) use->visit(use->context, *slot);
}
void each_use(Node *node, UseVisit *visit, void *context) {
    UseContext use = {visit, context};
    node_each_input(node, visit_slot, &use);
}

typedef struct AnyContext {
    const bool *table;
    bool any;
} AnyContext;
static void look_at_read(void *context, GVal *value) {
    AnyContext *const any = context;
    any->any |= any->table[value->id];
}
static bool any_input(Node *node, const bool *table) {
    AnyContext any = {table, false};
    each_use(node, look_at_read, &any);
    return any.any;
}

static void mark_read(void *context, GVal *value) {
    JointSplit *const split = context;
    if (!split->backward[value->id]) split->read[value->id] = true;
}

static void classify(JointSplit *split) {
    Graph *const joint = split->joint;
    for (int i = joint->n_forward_inputs; i < joint->inputs.n; i++) split->backward[joint->inputs.at[i]->id] = true;
    for (Node *node = joint->first; node; node = node->next) {
        if (!node->again && !any_input(node, split->backward)) continue;
        for (int i = 0; i < node->n_outs; i++) split->backward[node->outs[i].id] = true;
        each_use(node, mark_read, split);
    }
    for (int i = split->n_user; i < joint->outputs.n; i++)
        if (joint->outputs.at[i].value) mark_read(split, joint->outputs.at[i].value);
}

bool can_recompute(const Node *node) {
    if (!node_is_pure(node)) return false;
    const OpKind kind = node->row->kind;
    if (kind == KIND_pointwise || kind == KIND_view) return true;
    for (int i = 0; i < node->n_args; i++) /* creations read no tensor */
        if (node->args[i].kind == ARG_tensor || node->args[i].kind == ARG_tensors) return false;
    return true;
}

/* the cut ------------------------------------------------------------------------------------- */

static int64_t weight(const JointSplit *split, const GVal *value) {
    if (value->def && value->def->row->kind == KIND_view) return FLOW_MANY;
    const int64_t numel = sym_hint(split->joint->env, value->base.meta->numel);
    const int64_t bytes = max_i64(1, numel) * dtype_bytes(value->base.meta->dtype);
    const bool there = stays_in_place(split, value) || tape_saved_output(split, value) >= 0;
    return min_i64(bytes, FLOW_MANY >> 8) * 4 - (there ? 1 : 0);
}

/* Vertices: value in = 2 id, value out = 2 id + 1, then source and sink. */
typedef struct Network {
    const JointSplit *split;
    Flow *flow;
    int source, sink;
    const Node *user;
} Network;

static void connect_input(void *context, GVal *value) {
    const Network *const net = context;
    for (int i = 0; i < net->user->n_outs; i++)
        flow_edge(net->flow, 2 * value->id + 1, 2 * net->user->outs[i].id, FLOW_MANY);
}

static void add_value(const Network *net, const GVal *value, bool from_source) {
    const JointSplit *const split = net->split;
    flow_edge(net->flow, 2 * value->id, 2 * value->id + 1, weight(split, value));
    if (from_source) flow_edge(net->flow, net->source, 2 * value->id, FLOW_MANY);
    if (split->read[value->id]) flow_edge(net->flow, 2 * value->id + 1, net->sink, FLOW_MANY);
}

static bool cut_graph(JointSplit *split) {
    Graph *const joint = split->joint;
    const int n = joint->n_vals;
    Network net = {split, flow_new(joint->arena, 2 * n + 2), 2 * n, 2 * n + 1, NULL};
    if (!net.flow) return false;
    for (int i = 0; i < joint->n_forward_inputs; i++) add_value(&net, joint->inputs.at[i], true);
    for (Node *node = joint->first; node; node = node->next) {
        if (!node->n_outs || split->backward[node->outs[0].id]) continue;
        const bool recompute = can_recompute(node) && !split->fixed[node->id];
        for (int i = 0; i < node->n_outs; i++) add_value(&net, &node->outs[i], !recompute);
        net.user = node;
        if (recompute) each_use(node, connect_input, &net);
    }
    const bool *const side = flow_cut(net.flow, net.source, net.sink);
    if (!side) return false;
    for (int id = 0; id < n; id++) split->saved[id] = !split->backward[id] && side[2 * id] && !side[2 * id + 1];
    return true;
}

/* the two graphs ------------------------------------------------------------------------------ */

/* A saved value as an output of the forward: in the memory of a result that eager's tape holds, else in its own. */
static Output saved_output(const JointSplit *split, GVal *value) {
    const int there = tape_saved_output(split, value);
    return there >= 0 ? (Output){.value = value, .kind = OUT_view_of_output, .base = there}
                      : (Output){.value = value, .kind = OUT_new};
}

static Graph *beside(const Graph *joint, const char *suffix) {
    return graph_beside(joint, joint->arena, arena_printf(joint->arena, "%s_%s", joint->name, suffix));
}

static Graph *build_forward(const JointSplit *split, GVal *const *saved, Partition *partition) {
    Graph *const joint = split->joint;
    GraphCopy copy;
    if (!copy_init(&copy, beside(joint, "forward"), joint)) return NULL;
    for (int i = 0; i < joint->n_forward_inputs; i++)
        if (!copy_input(&copy, joint->inputs.at[i]->name, joint->inputs.at[i])) return NULL;
    for (int i = 0; i < split->n_user; i++)
        if (joint->outputs.at[i].value) copy_need(&copy, joint->outputs.at[i].value);
    for (int i = 0; i < joint->writes.n; i++) copy_need(&copy, joint->writes.at[i].value);
    for (int i = 0; i < partition->n_saved; i++) copy_need(&copy, saved[i]);
    copy_need_inputs(&copy, joint, split->backward);
    if (!copy_needed(&copy, joint)) return NULL;
    for (int i = 0; i < split->n_user; i++) copy_output(&copy, &joint->outputs.at[i]);
    for (int i = 0; i < joint->writes.n; i++)
        graph_write(copy.to, copy.map[joint->writes.at[i].input->id], copy.map[joint->writes.at[i].value->id]);
    for (int i = 0; i < partition->n_saved; i++) {
        const Output output = saved_output(split, saved[i]);
        if (partition->saved_inputs[i] < 0) copy_output(&copy, &output);
    }
    copy.to->n_forward_outputs = split->n_user;
    own_outputs(copy.to);
    return copy.to;
}

/* A graph whose inputs are the saved values. */
static bool begin_from_saved(GraphCopy *copy, const JointSplit *split, const char *suffix, GVal *const *saved, int n) {
    Graph *const joint = split->joint;
    if (!copy_init(copy, beside(joint, suffix), joint)) return false;
    for (int i = 0; i < n; i++)
        if (!copy_input(copy, arena_printf(joint->arena, "saved_%d", i), saved[i])) return false;
    return true;
}

static Graph *build_backward(const JointSplit *split, GVal *const *saved, int n_saved) {
    GraphCopy copy;
    if (!begin_from_saved(&copy, split, "backward", saved, n_saved)) return NULL;
    copy_need_gradients(&copy, split->joint);
    return copy_gradients(&copy, split->joint) ? copy.to : NULL;
}

/* What eager's tape holds. */
static Graph *build_restore(const JointSplit *split, GVal *const *saved, int n_saved) {
    Graph *const joint = split->joint;
    GraphCopy copy;
    if (!begin_from_saved(&copy, split, "restore", saved, n_saved)) return NULL;
    for (int i = split->n_user; i < joint->outputs.n; i++)
        if (is_kept(&joint->outputs.at[i])) copy_need(&copy, joint->outputs.at[i].value);
    copy_need_inputs(&copy, joint, NULL);
    if (!copy_needed(&copy, joint)) return NULL;
    for (int i = split->n_user; i < joint->outputs.n; i++)
        if (is_kept(&joint->outputs.at[i])) copy_output(&copy, &joint->outputs.at[i]);
    return copy.to;
}

/* Saved values in the order of their ids: inputs first. */
static GVal **list_saved(const JointSplit *split, Partition *partition) {
    Graph *const joint = split->joint;
    VEC(GVal *) saved = {0};
    for (int i = 0; i < joint->n_forward_inputs; i++)
        if (split->saved[joint->inputs.at[i]->id]) VEC_PUSH(joint->arena, &saved, joint->inputs.at[i]);
    for (Node *node = joint->first; node; node = node->next)
        for (int i = 0; i < node->n_outs; i++)
            if (split->saved[node->outs[i].id]) VEC_PUSH(joint->arena, &saved, &node->outs[i]);
    partition->n_saved = saved.n;
    partition->saved_inputs = ARENA_ARRAY(joint->arena, int, saved.n + 1);
    for (int i = 0; partition->saved_inputs && i < saved.n; i++)
        partition->saved_inputs[i] = stays_in_place(split, saved.at[i]) ? saved.at[i]->index : -1;
    return saved.at;
}

static Partition *split_joint(Graph *joint) {
    Arena *const arena = joint->arena;
    JointSplit split = {.joint = joint,
                        .n_user = joint->n_forward_outputs,
                        .backward = ARENA_ARRAY(arena, bool, joint->n_vals + 1),
                        .read = ARENA_ARRAY(arena, bool, joint->n_vals + 1),
                        .saved = ARENA_ARRAY(arena, bool, joint->n_vals + 1)};
    Partition *const partition = ARENA_NEW(arena, Partition);
    if (!split.backward || !split.read || !split.saved || !partition) return NULL;
    classify(&split);
    if (!partition_places(&split) || !cut_graph(&split)) return NULL;
    GVal *const *const saved = list_saved(&split, partition);
    if (!partition->saved_inputs) return NULL;
    partition->forward = build_forward(&split, saved, partition);
    partition->backward = partition->forward ? build_backward(&split, saved, partition->n_saved) : NULL;
    partition->restore = partition->backward ? build_restore(&split, saved, partition->n_saved) : NULL;
    return partition->restore ? partition : NULL;
}

bool pass_partition(Graph *joint, const PassOptions *options) {
    (void)options;
    if (!joint->n_forward_outputs) {
        error_raise(ST_ARGUMENT, "partition: the graph has no gradients to part from");
        return false;
    }
    graph_number(joint);
    joint->parts = split_joint(joint);
    if (!joint->parts) return false;
    joint->parts->forward->bail = joint->parts->backward->bail = joint->bail;
    graph_number(joint->parts->forward);
    graph_number(joint->parts->backward);
    graph_number(joint->parts->restore);
    return true;
}
