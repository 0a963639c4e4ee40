/* graph_flow.c: the public functions of <sinter/graph.h> for control flow: other graphs become bodies, as texts in a
 * node (ir/ops/flow.def). Operands are a body's inputs in the order of its header; the node has the tensors among them,
 * then those that its bodies close over, and its ints once for each body. */
#include "frontend/api/graph_build.h"
#include "frontend/lib/options.h"

/* A node in the making. */
typedef struct FlowNode {
    sn_graph *g;
    const char *function;
    Arg *operands; /* as given: tensors and ints */
    int n;
    Val **vals; /* the node's tensors; has room for all of both bodies */
    int n_vals;
    int64_t *ints;
    int n_ints;
} FlowNode;

static Status read_operands(FlowNode *f, const sn_value *given) {
    GivenPlace at = {.g = f->g, .function = f->function, .param = "operand", .item = -1};
    if (f->n < 0 || (f->n && !given))
        return error_raise(ST_ARGUMENT, "%s: %s list of %d operands", f->function, f->n < 0 ? "a" : "a NULL", f->n);
    f->operands = ARENA_ARRAY(f->g->arena, Arg, f->n + 1);
    f->vals = ARENA_ARRAY(f->g->arena, Val *, 2 * f->n + 1);
    f->ints = ARENA_ARRAY(f->g->arena, int64_t, 2 * f->n + 1);
    if (!f->operands || !f->vals || !f->ints) return ST_MEMORY;
    for (at.index = 0; at.index < f->n; at.index++) {
        Arg *const arg = &f->operands[at.index];
        if (given[at.index].kind == SN_KIND_VALUES) return GIVEN_WRONG(&at, ST_ARGUMENT, "is a list%s", "");
        TRY(graph_given_value(&at, &given[at.index], arg));
        if (arg->kind != ARG_int && (arg->kind != ARG_tensor || !arg->val))
            return GIVEN_WRONG(&at, ST_ARGUMENT, "must be a Tensor or an int%s", "");
    }
    return ST_OK;
}

static Status check_graph(const FlowNode *f, const char *what, const sn_graph *body) {
    if (!body) return error_raise(ST_ARGUMENT, "%s: %s is NULL", f->function, what);
    if (body == f->g) return error_raise(ST_ARGUMENT, "%s: %s is the graph itself", f->function, what);
    for (int i = 0; i < body->graph->inputs.n; i++)
        if (graph_bound(body, body->graph->inputs.at[i]))
            return error_raise(ST_ARGUMENT, "%s: %s, graph %s, has input %%%s bound: make it an operand", f->function,
                               what, body->graph->name, body->graph->inputs.at[i]->name);
    for (int i = 0; i < body->graph->outputs.n; i++)
        if (!body->graph->outputs.at[i].value)
            return error_raise(ST_ARGUMENT, "%s: %s, graph %s, has None as result %d", f->function, what,
                               body->graph->name, i);
    return ST_OK;
}

/* Each operand is what the input at its place is, a tensor or an int. */
static Status check_header(const FlowNode *f, const char *what, const Graph *body) {
    if (body->inputs.n + body->int_inputs.n != f->n)
        return error_raise(ST_ARGUMENT, "%s: %d operands for %s, graph %s, which has %d inputs", f->function, f->n,
                           what, body->name, body->inputs.n + body->int_inputs.n);
    for (int i = 0, k = 0; i + k < f->n;) {
        const int at = i + k;
        const bool number = k < body->int_inputs.n && body->int_inputs.at[k].before == i;
        if (number != (f->operands[at].kind == ARG_int))
            return error_raise(ST_ARGUMENT, "%s: operand %d is %s, and %s's input of that place %s", f->function, at,
                               number ? "a Tensor" : "an int", what, number ? "an int" : "a Tensor");
        k += number, i += !number;
    }
    return ST_OK;
}

static void add_tensors(FlowNode *f, int from, int to) {
    for (int i = from; i < to; i++)
        if (f->operands[i].kind == ARG_tensor) f->vals[f->n_vals++] = f->operands[i].val;
}

/* Of one more body. */
static void add_ints(FlowNode *f) {
    for (int i = 0; i < f->n; i++)
        if (f->operands[i].kind == ARG_int) f->ints[f->n_ints++] = f->operands[i].i;
}

static Status add_body(FlowNode *f, const char *what, const sn_graph *body, Arg *out) {
    TRY(check_graph(f, what, body));
    TRY(check_header(f, what, body->graph));
    Text text = {0};
    graph_print(body->graph, &text);
    const char *const own = arena_strdup(f->g->arena, text_str(&text));
    text_free(&text);
    add_ints(f);
    *out = A_STR(own);
    return own ? ST_OK : ST_MEMORY;
}

static void set_arg(BuiltCall *call, const char *name, Arg arg) { call->args[op_param_find(call->row, name)] = arg; }

static sn_node *append_flow(const FlowNode *f, BuiltCall *call, int n_in) {
    set_arg(call, "operands", A_VALS(f->vals, f->n_vals));
    set_arg(call, "n_in", A_INT(n_in));
    set_arg(call, "ints", A_INTS(f->ints, f->n_ints));
    Arg args[MAX_ARGS];
    memcpy(args, call->args, sizeof args);
    return op_args_normalize(call->row, args, call->row->n_params, call->args) == ST_OK ? graph_append_call(f->g, call)
                                                                                        : NULL;
}

static Status flow_begin_node(FlowNode *f, const sn_value *operands) {
    TRY(graph_wants(f->g, f->function, "the graph"));
    TRY(graph_is_own(f->g, f->function));
    return read_operands(f, operands);
}

/* Cond ---------------------------------------------------------------------------------------- */

static Status read_predicate(const FlowNode *f, const sn_value *pred, Arg *out) {
    const GivenPlace at = {.g = f->g, .function = f->function, .op = "sn::cond", .param = "pred", .item = -1};
    if (pred->kind == SN_KIND_VALUES) return GIVEN_WRONG(&at, ST_ARGUMENT, "is a list%s", "");
    TRY(graph_given_value(&at, pred, out));
    if ((out->kind == ARG_tensor && out->val) || out->kind == ARG_bool) return ST_OK;
    return GIVEN_WRONG(&at, ST_ARGUMENT, "must be a Tensor or a bool%s", "");
}

sn_node *sn_graph_cond(sn_graph *g, sn_value pred, sn_graph *if_true, sn_graph *if_false, const sn_value *operands,
                       int n) {
    FlowNode f = {.g = g, .function = "sn_graph_cond", .n = n};
    BuiltCall call = {.row = OP_ROW(cond)};
    Arg taken, yes, no;
    if (flow_begin_node(&f, operands) != ST_OK || read_predicate(&f, &pred, &taken) != ST_OK ||
        add_body(&f, "if_true", if_true, &yes) != ST_OK || add_body(&f, "if_false", if_false, &no) != ST_OK)
        return NULL;
    const Node *const last = g->graph->last;
    if (taken.kind == ARG_bool && graph_make_number(g, taken, &taken) != ST_OK) return NULL;
    set_arg(&call, "pred", taken);
    set_arg(&call, "if_true", yes);
    set_arg(&call, "if_false", no);
    add_tensors(&f, 0, n);
    sn_node *const made = append_flow(&f, &call, f.n_vals);
    if (!made) graph_take_back(g, last);
    return made;
}

/* Loops --------------------------------------------------------------------------------------- */

/* What is carried or taken apart comes first, and is tensors. */
static Status check_counts(const FlowNode *f, const sn_graph_loop_options *loop, bool scans) {
    const int64_t first = (int64_t)loop->carries + loop->scanned;
    if (loop->carries < 0 || loop->scanned < 0 || first > f->n || (scans ? !loop->scanned : loop->scanned))
        return error_raise(ST_ARGUMENT, "%s: %d operands, of which %d are carried and %d scanned", f->function, f->n,
                           loop->carries, loop->scanned);
    if (loop->max_iterations < 0)
        return error_raise(ST_ARGUMENT, "%s: max_iterations is %lld", f->function, (long long)loop->max_iterations);
    for (int i = 0; i < first; i++)
        if (f->operands[i].kind != ARG_tensor)
            return error_raise(ST_ARGUMENT, "%s: operand %d is an int, and %s", f->function, i,
                               i < loop->carries ? "carried" : "scanned");
    return ST_OK;
}

static Status loop_begin(FlowNode *f, const sn_value *operands, const sn_graph_loop_options *options, bool scans,
                         sn_graph_loop_options *loop) {
    TRY(flow_begin_node(f, operands));
    TRY(options_copy_in(loop, sizeof *loop, options, f->function));
    if (!scans && !loop->carries) loop->carries = f->n;
    return check_counts(f, loop, scans);
}

sn_node *sn_graph_while_loop(sn_graph *g, sn_graph *condition, sn_graph *body, const sn_graph_loop_options *options,
                             const sn_value *operands, int n) {
    FlowNode f = {.g = g, .function = "sn_graph_while_loop", .n = n};
    BuiltCall call = {.row = OP_ROW(while_loop)};
    sn_graph_loop_options loop = {0};
    Arg test, round;
    if (loop_begin(&f, operands, options, false, &loop) != ST_OK ||
        add_body(&f, "condition", condition, &test) != ST_OK || add_body(&f, "body", body, &round) != ST_OK)
        return NULL;
    set_arg(&call, "max_iterations", A_INT(loop.max_iterations));
    set_arg(&call, "condition", test);
    set_arg(&call, "body", round);
    add_tensors(&f, 0, n);
    add_tensors(&f, loop.carries, n); /* what the body closes over */
    return append_flow(&f, &call, loop.carries);
}

sn_node *sn_graph_scan(sn_graph *g, sn_graph *body, const sn_graph_loop_options *options, const sn_value *operands,
                       int n) {
    FlowNode f = {.g = g, .function = "sn_graph_scan", .n = n};
    BuiltCall call = {.row = OP_ROW(scan)};
    sn_graph_loop_options loop = {0};
    Arg round;
    if (loop_begin(&f, operands, options, true, &loop) != ST_OK || add_body(&f, "body", body, &round) != ST_OK)
        return NULL;
    set_arg(&call, "n_carry", A_INT(loop.carries));
    set_arg(&call, "dim", A_INT(loop.dim));
    set_arg(&call, "reverse", A_BOOL(loop.reverse));
    set_arg(&call, "body", round);
    add_tensors(&f, 0, n);
    return append_flow(&f, &call, loop.carries + loop.scanned);
}
