/* graph_build.c: the public functions of <sinter/graph.h> that build a graph: inputs, ops, results, places.
 *
 * Each makes what graph_parse makes of the line of text that says the same, by the same functions of ir: a built graph
 * prints as text that parses back to it. What may fail is tried first, so that a call that fails leaves the graph as it
 * was (symbols that it named may stay). */
#include <stdio.h>
#include <stdlib.h>

#include "frontend/api/graph_build.h"
#include "ir/schema.h"
#include "passes/internal.h"
#include "runtime/base/text_reader.h"

Status graph_wants(bool present, const char *function, const char *what) {
    if (error_pending()) return error_pending();
    return present ? ST_OK : error_raise(ST_ARGUMENT, "%s: %s is NULL", function, what);
}

static bool is_input_name(const char *text) {
    const char *at = text;
    while (is_word_char(*at)) at++;
    return at != text && !*at;
}

sn_graph *sn_graph_new(const char *name) {
    if (graph_wants(name, "sn_graph_new", "the name") != ST_OK) return NULL;
    if (!is_input_name(name)) {
        error_raise(ST_ARGUMENT, "sn_graph_new: '%.100s' is no name of a graph: letters, digits and _", name);
        return NULL;
    }
    Arena *const arena = arena_new();
    Graph *const graph = arena ? graph_new(arena, name) : NULL;
    sn_graph *const g = graph ? graph_wrap(arena, graph) : NULL;
    if (!g) arena_free(arena);
    return g;
}

/* Ids stay dense: those of inputs come before those of results. */
static void number_new(Graph *graph, GVal *values, int n) {
    for (int i = 0; i < n; i++) values[i].id = graph->n_vals++;
}

/* Inputs -------------------------------------------------------------------------------------- */

int graph_symbol_number(const char *name) {
    char *end;
    if (name[0] != 's' || name[1] < '0' || name[1] > '9') return -1;
    const long number = strtol(name + 1, &end, 10);
    return *end || number > MAX_INT_INPUT ? -1 : (int)number;
}

static bool is_int_input(const Graph *graph, int64_t symbol) {
    for (int i = 0; i < graph->int_inputs.n; i++)
        if (graph->int_inputs.at[i].symbol == symbol) return true;
    return false;
}

static sn_node *add_int(sn_graph *g, const char *name) {
    const int number = graph_symbol_number(name);
    const char *const own = arena_printf(g->arena, "%s", name);
    if (number < 0) {
        error_raise(ST_ARGUMENT, "sn_graph_input: an int is called as its symbol, s0 to s%d, not '%.100s'",
                    MAX_INT_INPUT, name);
        return NULL;
    }
    const int64_t symbol = graph_int_symbol(g->graph, number);
    if (is_int_input(g->graph, symbol)) {
        error_raise(ST_ARGUMENT, "sn_graph_input: graph %s has an int %s", g->graph->name, name);
        return NULL;
    }
    sn_node *const made =
        own && !error_pending() ? graph_handle_new(g, (sn_node){.number = symbol, .name = own}) : NULL;
    if (made) graph_int_input(g->graph, symbol);
    return made;
}

/* The whole text is a type; the graph is not touched. */
static Status try_type(const char *name, const char *type) {
    Arena *const arena = arena_new();
    Graph *const trial = arena ? graph_new(arena, "trial") : NULL;
    Meta *meta;
    const char *end;
    Status status = trial ? graph_type_parse(trial, type, &end, &meta) : ST_MEMORY;
    if (status == ST_OK && *end) status = error_raise(ST_PARSE, "text after it: \"%.40s\"", end);
    arena_free(arena);
    if (status == ST_OK || error_pending() == ST_MEMORY) return status;
    char said[sizeof error_slot()->message];
    memcpy(said, error_slot()->message, sizeof said);
    error_clear();
    return error_raise(ST_ARGUMENT, "sn_graph_input: %%%.100s is no type '%.100s': %s", name, type, said);
}

static Status check_input_name(const sn_graph *g, const char *name) {
    if (!is_input_name(name) || (*name >= '0' && *name <= '9'))
        return error_raise(ST_ARGUMENT,
                           "sn_graph_input: '%.100s' is no name of an input: letters, digits and _, no digit first",
                           name);
    for (int i = 0; i < g->graph->inputs.n; i++)
        if (!strcmp(g->graph->inputs.at[i]->name, name))
            return error_raise(ST_ARGUMENT, "sn_graph_input: graph %s has an input %%%s", g->graph->name, name);
    return ST_OK;
}

static sn_node *add_tensor(sn_graph *g, const char *name, const char *type) {
    Graph *const graph = g->graph;
    const char *end;
    Meta *meta;
    if (check_input_name(g, name) != ST_OK || try_type(name, type) != ST_OK) return NULL;
    if (graph_type_parse(graph, type, &end, &meta) != ST_OK) return NULL;
    sn_node *const made = graph_handle_new(g, (sn_node){0});
    if (made) made->input = graph_input(graph, name, meta);
    graph_number(graph);
    return made && made->input ? made : NULL;
}

sn_node *sn_graph_input(sn_graph *g, const char *name, const char *type) {
    if (graph_wants(g, "sn_graph_input", "the graph") != ST_OK ||
        graph_wants(name, "sn_graph_input", "the name") != ST_OK ||
        graph_wants(type, "sn_graph_input", "the type") != ST_OK || graph_is_own(g, "sn_graph_input") != ST_OK)
        return NULL;
    return strcmp(type, "int") ? add_tensor(g, name, type) : add_int(g, name);
}

/* Values -------------------------------------------------------------------------------------- */

sn_value graph_node_value(sn_node *n, int i) {
    sn_value v = sn_none();
    v.kind = SN_KIND_NODE;
    v.n = i;
    v.node = n;
    return v;
}

int sn_node_result_count(sn_node *n) {
    if (!n) return error_raise(ST_ARGUMENT, "sn_node_result_count: the node is NULL"), 0;
    return n->node && !node_is_number(n->node) ? n->node->n_outs : 1;
}

sn_value sn_node_result(sn_node *n, int i) {
    if (graph_wants(n, "sn_node_result", "the node") != ST_OK) return graph_node_value(NULL, i);
    const int count = sn_node_result_count(n);
    if (i >= 0 && i < count) return graph_node_value(n, i);
    error_raise(ST_ARGUMENT, "sn_node_result: %s has no result %d; it has %d", sn_node_op(n), i, count);
    return graph_node_value(NULL, i);
}

/* Arguments ----------------------------------------------------------------------------------- */

void graph_given_print(const GivenPlace *at, char *out, size_t capacity) {
    char item[24] = "";
    if (at->item >= 0) snprintf(item, sizeof item, "[%d]", at->item);
    if (at->op)
        snprintf(out, capacity, "%s: %s: %s%s", at->function, at->op, at->param, item);
    else
        snprintf(out, capacity, "%s: %s %d%s", at->function, at->param, at->index, item);
}

/* A node's result as the graph has it: a tensor, or an int. */
static Status given_node(const GivenPlace *at, const sn_value *given, Arg *out) {
    const sn_node *const n = given->node;
    if (!n) return GIVEN_WRONG(at, ST_ARGUMENT, "is result %d of a NULL node", given->n);
    if (n->graph != at->g)
        return GIVEN_WRONG(at, ST_ARGUMENT, "is of graph %s, not of %s", n->graph->graph->name, at->g->graph->name);
    if (!n->node && !n->input) return *out = A_INT(n->number), ST_OK;
    char what[320];
    graph_given_print(at, what, sizeof what);
    TRY(graph_check_node(at->g, n, what));
    const int count = sn_node_result_count((sn_node *)(uintptr_t)n);
    if (given->n < 0 || given->n >= count)
        return GIVEN_WRONG(at, ST_ARGUMENT, "is result %d of %s, which has %d", given->n,
                           sn_node_op((sn_node *)(uintptr_t)n), count);
    if (n->node && node_is_number(n->node)) return *out = A_INT(n->node->unbacked), ST_OK;
    *out = A_VAL(n->node ? &n->node->outs[given->n].base : &n->input->base);
    return ST_OK;
}

Status graph_given_value(const GivenPlace *at, const sn_value *given, Arg *out) {
    if (given->kind == SN_KIND_NODE) return given_node(at, given, out);
    if (given->kind == SN_KIND_TENSORS || (given->kind == SN_KIND_TENSOR && given->tensor))
        return GIVEN_WRONG(at, ST_ARGUMENT, "is a tensor, not a node's result: sn_graph_bind makes an input of %s",
                           given->kind == SN_KIND_TENSORS ? "each" : "it");
    memcpy(out, given, sizeof *out);
    if (given->kind == SN_KIND_INT && sym_is(given->i))
        return GIVEN_WRONG(at, ST_ARGUMENT, "is %lld, which stands for no int: sn_graph_sym gives symbols",
                           (long long)given->i);
    for (int i = 0; given->kind == SN_KIND_INTS && given->ints && i < given->n; i++)
        if (sym_is(given->ints[i]))
            return GIVEN_WRONG(at, ST_ARGUMENT, "has %lld at %d, which stands for no int: sn_graph_sym gives symbols",
                               (long long)given->ints[i], i);
    if (given->kind >= SN_KIND_DEFAULT && given->kind < SN_KIND_TENSORS) return ST_OK;
    return GIVEN_WRONG(at, ST_ARGUMENT, "is a value of unknown kind %d", given->kind);
}

static bool is_float_list(ParamType type) { return type == PT_floats_opt; }
static bool is_tensor_list(ParamType type) { return type == PT_tensors || type == PT_tensors_opt; }

/* A list is what its parameter is a list of. */
static Status given_item(const GivenPlace *at, ParamType type, const sn_value *given, void *out) {
    Arg arg;
    TRY(graph_given_value(at, given, &arg));
    const bool none = arg.kind == ARG_none || (arg.kind == ARG_tensor && !arg.val);
    if (is_tensor_list(type)) {
        *(Val **)out = arg.kind == ARG_tensor ? arg.val : NULL;
        return none || arg.kind == ARG_tensor ? ST_OK : GIVEN_WRONG(at, ST_ARGUMENT, "must be a Tensor%s", "");
    }
    const bool number = arg.kind == ARG_int || arg.kind == ARG_bool || (is_float_list(type) && arg.kind == ARG_float);
    if (!number) return GIVEN_WRONG(at, ST_ARGUMENT, "must be %s", is_float_list(type) ? "a number" : "an int");
    if (!is_float_list(type)) return *(int64_t *)out = arg.i, ST_OK;
    if (arg.kind == ARG_int && sym_is(arg.i)) return GIVEN_WRONG(at, ST_ARGUMENT, "must be a plain number%s", "");
    *(double *)out = arg_double(&arg);
    return ST_OK;
}

static Status given_list(GivenPlace at, ParamType type, const sn_value *given, Arg *out) {
    if (given->n < 0 || (given->n && !given->values))
        return GIVEN_WRONG(&at, ST_ARGUMENT, "is %s list of %d", given->n < 0 ? "a" : "a NULL", given->n);
    int64_t *const items =
        ARENA_ARRAY(at.g->arena, int64_t, given->n + 1); /* ints, floats and pointers have one size */
    if (!items) return ST_MEMORY;
    for (at.item = 0; at.item < given->n; at.item++)
        TRY(given_item(&at, type, &given->values[at.item], &items[at.item]));
    *out = (Arg){.kind = is_tensor_list(type)  ? ARG_tensors
                         : is_float_list(type) ? ARG_floats
                                               : ARG_ints,
                 .n = given->n,
                 .ints = items};
    return ST_OK;
}

static Status given_arg(GivenPlace at, ParamType type, const sn_value *given, Arg *out) {
    if (given->kind == SN_KIND_VALUES) return given_list(at, type, given, out);
    return graph_given_value(&at, given, out);
}

/* Ops ----------------------------------------------------------------------------------------- */

static Status find_op(const char *function, const char *op, BuiltCall *call) {
    const size_t n = strlen(op), tail = strlen(".default");
    call->row = op_find(op, n, &call->form);
    if (!call->row && n > tail && !strcmp(op + n - tail, ".default")) call->row = op_find(op, n - tail, &call->form);
    if (call->row) return ST_OK;
    Text near = {0};
    op_unknown_hint(&near, op, n);
    const Status status = error_raise(ST_ARGUMENT, "%s: no op is called '%.100s'%.300s", function, op, text_str(&near));
    text_free(&near);
    return status;
}

/* Behind the arguments of an out form, of which the last may be left out, stand the tensors that it writes. */
static Status given_outs(GivenPlace at, BuiltCall *call, const sn_value *given) {
    char name[16];
    for (int i = 0; call->form == FORM_out && i < call->row->n_out; i++) {
        snprintf(name, sizeof name, call->row->n_out == 1 ? "out" : "out%d", i);
        at.param = name;
        Arg *const out = &call->args[call->row->n_params + i];
        TRY(graph_given_value(&at, &given[i], out));
        if (out->kind != ARG_tensor || !out->val) return GIVEN_WRONG(&at, ST_ARGUMENT, "must be a Tensor%s", "");
    }
    return ST_OK;
}

static Status given_call(sn_graph *g, const char *function, BuiltCall *call, const sn_value *given, int n) {
    const OpRow *const row = call->row;
    GivenPlace at = {.g = g, .function = function, .op = op_form_name(row, call->form), .item = -1};
    const int n_params = op_form_params(row, call->form);
    Arg placed[MAX_ARGS];
    if (n < 0 || (n && !given))
        return error_raise(ST_ARGUMENT, "%s: %s: %s list of %d arguments", function, at.op, n < 0 ? "a" : "a NULL", n);
    const int n_outs = call->form == FORM_out ? row->n_out : 0, n_args = n - n_outs;
    if (n_args < 0)
        return error_raise(ST_ARGUMENT, "%s: %s writes %d tensors, which stand behind its arguments; %d are there",
                           function, at.op, n_outs, n);
    if (n_args > n_params)
        return error_raise(ST_ARGUMENT, "%s: %s: %d arguments at most, not %d", function, at.op, n_params, n_args);
    for (int i = 0; i < n_args; i++) {
        const Param *const param = &row->params[op_form_param(row, call->form, i)];
        at.param = param->name, at.index = i;
        TRY(given_arg(at, param->type, &given[i], &placed[i]));
    }
    TRY(op_args_of_form(row, call->form, placed, n_args, call->args));
    return given_outs(at, call, given + n_args);
}

/* An op that failed has taken no random number, nor given the graph a seed. */
sn_node *graph_append_call(sn_graph *g, const BuiltCall *call) {
    Graph *const graph = g->graph;
    sn_node *const made = graph_handle_new(g, (sn_node){0});
    if (made) made->node = graph_append(graph, call->row, call->form, call->args);
    if (!made || !made->node) return NULL;
    graph_take_random(graph, call->row, -1);
    made->node->random = graph->random;
    graph->random = 0;
    made->node->id = graph->n_nodes++;
    number_new(graph, made->node->outs, made->node->n_outs);
    return made;
}

void graph_take_back(sn_graph *g, const Node *last) {
    while (g->graph->last != last) graph_remove(g->graph, g->graph->last);
    graph_number(g->graph);
}

Status graph_given_call(sn_graph *g, const char *function, const char *op, const sn_value *args, int n_args,
                        BuiltCall *call) {
    TRY(find_op(function, op, call));
    return given_call(g, function, call, args, n_args);
}

sn_node *sn_graph_op(sn_graph *g, const char *op, const sn_value *args, int n_args) {
    BuiltCall call = {0};
    if (graph_wants(g, "sn_graph_op", "the graph") != ST_OK || graph_wants(op, "sn_graph_op", "the op's name") != ST_OK)
        return NULL;
    if (graph_given_call(g, "sn_graph_op", op, args, n_args, &call) != ST_OK) return NULL;
    if (call.row->flags & OPF_random && graph_is_own(g, "sn_graph_op: a random op") != ST_OK) return NULL;
    const Node *const last = g->graph->last;
    sn_node *const made = graph_cast_call(g, &call) == ST_OK ? graph_append_call(g, &call) : NULL;
    if (!made) graph_take_back(g, last);
    return made;
}

sn_status sn_node_place(sn_node *n, const char *file, int line, const char *function) {
    Status status = graph_wants(n, "sn_node_place", "the node");
    if (status == ST_OK) status = graph_wants(file, "sn_node_place", "the file");
    if (status == ST_OK) status = graph_check_node(n->graph, n, "sn_node_place: the node");
    if (status == ST_OK && !n->node) status = error_raise(ST_ARGUMENT, "sn_node_place: an input has no place");
    if (status != ST_OK) return (sn_status)status;
    char number[16] = "";
    if (line > 0) snprintf(number, sizeof number, ":%d", line);
    const char *const where =
        arena_printf(n->graph->arena, "%s%s%s%s", file, number, function ? " in " : "", function ? function : "");
    if (where) n->node->where = where;
    return (sn_status)(where ? ST_OK : ST_MEMORY);
}

/* Results ------------------------------------------------------------------------------------- */

Status graph_make_number(sn_graph *g, Arg number, Arg *out) {
    const DType dtype = number.kind == ARG_float ? DT_f64 : number.kind == ARG_bool ? DT_bool : DT_i64;
    const OpRow *const row = OP_ROW(full);
    const Arg given[] = {A_INTS(NULL, 0), number, A_INT(dtype)};
    BuiltCall call = {.row = row};
    TRY(op_args_normalize(row, given, 3, call.args));
    const sn_node *const made = graph_append_call(g, &call);
    if (!made) return error_pending() ? error_pending() : ST_MEMORY;
    *out = A_VAL(&made->node->outs[0].base);
    return ST_OK;
}

static Status given_results(sn_graph *g, const sn_value *values, int n, Arg *out) {
    GivenPlace at = {.g = g, .function = "sn_graph_return", .param = "result", .item = -1};
    for (at.index = 0; at.index < n; at.index++) {
        Arg *const arg = &out[at.index];
        if (values[at.index].kind == SN_KIND_VALUES) return GIVEN_WRONG(&at, ST_ARGUMENT, "is a list%s", "");
        TRY(graph_given_value(&at, &values[at.index], arg));
        if (arg->kind == ARG_tensor && !arg->val) *arg = A_NONE;
        if (arg->kind != ARG_tensor && arg->kind != ARG_none && !arg_is_number(arg))
            return GIVEN_WRONG(&at, ST_ARGUMENT, "must be a node's result, None or a number%s", "");
    }
    return ST_OK;
}

static Status add_results(sn_graph *g, const sn_value *values, int n) {
    Arg *const args = ARENA_ARRAY(g->arena, Arg, n + 1);
    if (!args) return ST_MEMORY;
    TRY(given_results(g, values, n, args));
    const Node *const last = g->graph->last;
    for (int i = 0; i < n; i++) {
        if (!arg_is_number(&args[i]) || graph_make_number(g, args[i], &args[i]) == ST_OK) continue;
        graph_take_back(g, last);
        return error_pending();
    }
    for (int i = 0; i < n; i++) graph_output(g->graph, args[i].kind == ARG_tensor ? gval(args[i].val) : NULL);
    g->returns = true;
    return error_pending();
}

sn_status sn_graph_return(sn_graph *g, const sn_value *values, int n) {
    Status status = graph_wants(g, "sn_graph_return", "the graph");
    if (status == ST_OK) status = graph_is_own(g, "sn_graph_return");
    if (status == ST_OK && (n < 0 || (n && !values)))
        status = error_raise(ST_ARGUMENT, "sn_graph_return: %s list of %d results", n < 0 ? "a" : "a NULL", n);
    if (status == ST_OK && (g->returns || g->graph->outputs.n))
        status = error_raise(ST_STATE, "sn_graph_return: graph %s has its results", g->graph->name);
    return (sn_status)(status == ST_OK ? add_results(g, values, n) : status);
}
