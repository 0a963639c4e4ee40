/* graph_eval.c: see graph_eval.h. Values are kept by dense id; arguments are copied with graph
 * values replaced by tensors and expressions by numbers. Nodes of no_grad mode run in it. */
#include "tests/ref/graph_eval.h"
#include "ir/op_ids.h"

#include "runtime/base/error.h"

typedef struct Eval {
    Graph *graph;
    const int64_t *symbols;
    sn_tensor **values; /* by value id */
    uint64_t sequence;  /* the generator's at the start */
} Eval;

static Val *value_of(void *context, Val *value) {
    const Eval *const eval = context;
    return value ? &eval->values[gval(value)->id]->base : NULL;
}

static int64_t plain(const Eval *eval, int64_t v) {
    return sym_is(v) ? sym_eval(eval->graph->env, v, eval->symbols) : v;
}

static Arg evaluated(Eval *eval, Arg arg) {
    Arena *const arena = eval->graph->arena;
    arg = arg_map_vals(arena, arg, value_of, eval);
    if (arg.kind == ARG_int) arg.i = plain(eval, arg.i);
    if (arg.kind == ARG_runtime) return A_FLOAT(eval->graph->runtime_floats.at[arg.i]);
    if (arg.kind != ARG_ints || !arg.n) return arg;
    int64_t *const ints = ARENA_ARRAY(arena, int64_t, arg.n);
    for (int i = 0; i < arg.n; i++) ints[i] = plain(eval, arg.ints[i]);
    arg.ints = ints;
    return arg;
}

/* The tape's answer; undefined gradients stay NULL. */
static Status eval_gradients(const Arg *args, int n_outs, sn_tensor **outs) {
    sn_tensor *roots[64], *leaves[64], *grads[64];
    for (int i = 0; i < args[0].n; i++) roots[i] = tensor_of(args[0].vals[i]), grads[i] = tensor_of(args[1].vals[i]);
    for (int i = 0; i < args[2].n; i++) leaves[i] = tensor_of(args[2].vals[i]);
    const uint32_t flags = SN_RETAIN_GRAPH | SN_ALLOW_UNUSED | (args[5].i ? SN_CREATE_GRAPH : 0);
    return (Status)sn_gradients((sn_tensors){roots, args[0].n}, (sn_tensors){leaves, n_outs},
                                (sn_tensors){grads, args[0].n}, flags, outs);
}

static Status eval_op(const Node *node, const Arg *args, sn_tensor **outs) {
    if (node->row->id == OP_gradients) return eval_gradients(args, node->n_outs, outs);
    sn_tensor *written[MAX_OUTS] = {NULL};
    for (int i = node->row->n_params; i < node->n_args; i++) written[i - node->row->n_params] = tensor_of(args[i].val);
    if (!node->row->returns_list)
        return dispatch(node->row, node->form, args, node->form == FORM_out ? written : NULL, outs);
    int n;
    return dispatch_list(node->row, args, outs, &n);
}

static Status eval_node(Eval *eval, const Node *node) {
    Arg args[MAX_ARGS + MAX_OUTS];
    sn_tensor *outs[MAX_LIST] = {NULL};
    for (int i = 0; i < node->n_args; i++) args[i] = evaluated(eval, node->args[i]);
    sn_state *const state = state_get();
    const sn_grad_mode mode = state->grad_mode;
    if (node->modes & NODE_no_grad) state->grad_mode = SN_GRAD_OFF;
    if (node->row->flags & OPF_random) state->sequence = eval->sequence + (uint64_t)node->random;
    const Status status = eval_op(node, args, outs);
    state->grad_mode = mode;
    TRY(status);
    for (int i = 0; i < node->n_outs; i++) eval->values[node->outs[i].id] = outs[i];
    return ST_OK;
}

static Status eval_writes(Eval *eval) {
    const Graph *const graph = eval->graph;
    sn_state *const state = state_get();
    const sn_grad_mode mode = state->grad_mode;
    state->grad_mode = SN_GRAD_OFF;
    Status status = ST_OK;
    for (int i = 0; i < graph->writes.n && status == ST_OK; i++) {
        const Write *const write = &graph->writes.at[i];
        sn_tensor *const to = eval->values[write->input->id], *const from = eval->values[write->value->id];
        if (to->storage == from->storage) continue; /* written in place */
        const Arg args[] = {A_VAL(&to->base), A_VAL(&from->base), A_BOOL(false)};
        sn_tensor *out;
        status = dispatch(op_row(OP_copy), FORM_inplace, args, NULL, &out);
    }
    state->grad_mode = mode;
    return status;
}

Status graph_eval(Graph *graph, sn_tensor *const *inputs, const int64_t *symbols, sn_tensor **outs) {
    graph_number(graph);
    Eval eval = {graph, symbols, ARENA_ARRAY(graph->arena, sn_tensor *, graph->n_vals + 1), state_get()->sequence};
    if (!eval.values) return ST_MEMORY;
    for (int i = 0; i < graph->inputs.n; i++) eval.values[graph->inputs.at[i]->id] = inputs[i];
    for (const Node *node = graph->first; node; node = node->next) TRY(eval_node(&eval, node));
    state_get()->sequence = eval.sequence + (uint64_t)graph->n_random;
    TRY(eval_writes(&eval));
    for (int i = 0; i < graph->outputs.n; i++) {
        const Output *const output = &graph->outputs.at[i];
        outs[i] = output->value ? eval.values[output->value->id] : NULL;
    }
    return ST_OK;
}
