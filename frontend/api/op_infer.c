/* op_infer.c: what an op's results are, without a run (sinter/infer.h): the op becomes a node behind a graph whose
 * inputs are what is described, and the node knows its results:
 *
 *     "f32[s0,4]"                      an input %a0
 *     "[f32[2,3], f32[s0,3]]"          two inputs, a list
 *     "2*s0", "[s0, 4]"                expressions of the same symbols
 */
#include <sinter/infer.h>
#include <stdio.h>

#include "frontend/api/graph_build.h"
#include "frontend/api/enter.h"
#include "ir/alias.h"
#include "runtime/core/custom_op.h"

enum { MAX_TYPE = 512 };

typedef struct Inference {
    sn_graph *graph;
    const char *op;
    const sn_value *given;
    int inputs, arguments; /* arguments: given, those of an out form without the tensors that it writes */
} Inference;

/* Arguments ----------------------------------------------------------------------------------- */

static Status infer_wrong(const Inference *in, const Param *param, const char *text, const char *why) {
    char said[256];
    snprintf(said, sizeof said, "%.255s", error_pending() ? error_slot()->message : why);
    if (error_pending() == ST_MEMORY) return ST_MEMORY;
    error_clear();
    return error_raise(ST_ARGUMENT, "sn_op_infer: %s: %s is '%.100s': %s", in->op, param->name, text, said);
}

static Status described_tensor(Inference *in, const Param *param, const char *type, sn_value *out) {
    char name[16];
    snprintf(name, sizeof name, "a%d", in->inputs++);
    if (!strcmp(type, "None")) return *out = sn_none(), ST_OK;
    sn_node *const made = sn_graph_input(in->graph, name, type);
    *out = made ? sn_node_result(made, 0) : sn_none();
    if (made && made->input) return ST_OK;
    return infer_wrong(in, param, type, "no type of a tensor, as \"f32[s0,4]\"");
}

static Status described_int(const Inference *in, const Param *param, const char *text, sn_value *out) {
    *out = sn_graph_sym(in->graph, text);
    return error_pending() ? infer_wrong(in, param, text, "") : ST_OK;
}

/* A real tensor, of which its layout counts. */
static Status real_tensor(Inference *in, sn_tensor *t, sn_value *out) {
    char name[16];
    if (!t) return *out = sn_none(), ST_OK;
    TRY(tensor_valid(t, "sn_op_infer"));
    snprintf(name, sizeof name, "a%d", in->inputs++);
    const Meta *const is = t->base.meta;
    Graph *const graph = in->graph->graph;
    Meta *const meta = meta_new(in->graph->arena, graph->env, is->dtype, is->device, is->sizes, is->strides, is->rank);
    sn_node *const made = meta ? graph_handle_new(in->graph, (sn_node){0}) : NULL;
    const char *const kept = arena_printf(in->graph->arena, "%s", name);
    if (!made || !kept) return ST_MEMORY;
    meta->wrapped = is->wrapped;
    made->input = graph_input(graph, kept, meta);
    graph_number(graph);
    *out = sn_node_result(made, 0);
    return error_pending();
}

/* The next item of "a, b[1,2], max(c,d)" into `item`; false: there is none, or it is too long. */
static bool next_item(const char **at, char item[MAX_TYPE]) {
    int depth = 0, n = 0;
    *at += strspn(*at, ", ");
    for (; **at && !(**at == ',' && !depth); ++*at) {
        depth += strchr("[({", **at) ? 1 : strchr("])}", **at) ? -1 : 0;
        if (depth < 0 || n == MAX_TYPE - 1) break;
        item[n++] = **at;
    }
    while (n && item[n - 1] == ' ') n--;
    item[n] = '\0';
    return n > 0;
}

static Status described_list(Inference *in, const Param *param, bool tensors, const char *text, sn_value *out) {
    char item[MAX_TYPE];
    VEC(sn_value) items = {0};
    const char *at = text + (*text == '[');
    while (next_item(&at, item)) {
        sn_value value;
        TRY(tensors ? described_tensor(in, param, item, &value) : described_int(in, param, item, &value));
        VEC_PUSH(in->graph->arena, &items, value);
    }
    if (*at && strcmp(at, "]")) return infer_wrong(in, param, text, "no list, as \"[a, b]\"");
    *out = sn_values(items.at, items.n);
    return error_pending();
}

static Status real_list(Inference *in, const sn_value *given, sn_value *out) {
    sn_value *const items = ARENA_ARRAY(in->graph->arena, sn_value, given->n + 1);
    if (!items) return ST_MEMORY;
    if (given->n < 0 || (given->n && !given->tensors))
        return error_raise(ST_ARGUMENT, "sn_op_infer: %s: a list of %d tensors is none", in->op, given->n);
    for (int i = 0; i < given->n; i++) TRY(real_tensor(in, given->tensors[i], &items[i]));
    *out = sn_values(items, given->n);
    return ST_OK;
}

static bool is_tensor_type(ParamType type) { return type == PT_tensor || type == PT_tensor_opt; }
static bool is_text_type(ParamType type) { return type == PT_string || type == PT_string_opt; }

static Status infer_argument(Inference *in, const Param *param, const sn_value *given, sn_value *out) {
    const bool list = param->type == PT_tensors || param->type == PT_tensors_opt;
    *out = *given;
    if (given->kind == SN_KIND_TENSOR) return real_tensor(in, given->tensor, out);
    if (given->kind == SN_KIND_TENSORS) return real_list(in, given, out);
    if (given->kind != SN_KIND_STRING || is_text_type(param->type)) return ST_OK;
    if (list || *given->string == '[') return described_list(in, param, list, given->string, out);
    return is_tensor_type(param->type) ? described_tensor(in, param, given->string, out)
                                       : described_int(in, param, given->string, out);
}

static Status infer_arguments(Inference *in, const OpRow *row, OpForm form, const sn_value *given, int n,
                              sn_value *args) {
    static const Param written = {.name = "out", .type = PT_tensor};
    in->arguments = form == FORM_out ? max_i64(n - row->n_out, 0) : n;
    const int n_params = min_i64(in->arguments, op_form_params(row, form));
    for (int i = 0; i < n; i++) {
        const Param *const param = i < n_params ? &row->params[op_form_param(row, form, i)] : &written;
        TRY(infer_argument(in, param, &given[i], &args[i]));
    }
    return error_pending();
}

/* Results ------------------------------------------------------------------------------------- */

/* As the caller counts arguments. */
static int place_of_argument(const Inference *in, const Node *node, int arg) {
    const int n = op_form_params(node->row, node->form);
    for (int i = 0; i < n; i++)
        if (op_form_param(node->row, node->form, i) == arg) return i;
    return arg < node->row->n_params ? -1 : in->arguments + arg - node->row->n_params;
}

static size_t result_bytes(const GVal *value) { return 2 * sizeof(int64_t) * (size_t)value->base.meta->rank; }

static void plain_numbers(const int64_t *from, int n, int64_t *to) {
    for (int i = 0; i < n; i++) to[i] = sym_is(from[i]) ? -1 : from[i];
}

/* The argument that a result is itself, by the schema of an op of the program's own; -1: by its rule. */
static int written_argument(const GVal *value) {
    const DynamicOp *const op = op_dynamic(value->def->row);
    const int arg = op && op->n_written ? op->result_of[value->index] : -1;
    return arg >= 0 && value->def->args[arg].kind == ARG_tensor && value->def->args[arg].val ? arg : -1;
}

static const Meta *result_meta(const GVal *value) {
    const int written = written_argument(value);
    return written < 0 ? value->base.meta : value->def->args[written].val->meta;
}

/* How far behind the argument's first element a result begins. An offset of as_strided counts from where the storage
 * does, which for a described tensor is its first element. */
static int64_t result_offset(const Inference *in, const GVal *value, int of) {
    const OpRow *const row = value->def->row;
    const Arg *const at = &value->def->args[row->n_params - 1];
    if (sym_is(value->offset)) return -1;
    const bool counted =
        row == op_row(OP_ID(as_strided)) && at->kind == ARG_int && in->given[of].kind == SN_KIND_TENSOR;
    return value->offset - (counted ? in->given[of].tensor->offset : 0);
}

static void infer_result(const Inference *in, const GVal *value, int64_t *numbers, const char *type, sn_inferred *out) {
    const int written = written_argument(value), alias = written < 0 ? value->alias : written;
    const Meta *const meta = result_meta(value);
    const int of = alias < 0 ? -1 : place_of_argument(in, value->def, alias);
    plain_numbers(meta->sizes, meta->rank, numbers);
    plain_numbers(meta->strides, meta->rank, numbers + meta->rank);
    *out = (sn_inferred){.type = type,
                         .dtype = (sn_dtype)meta->dtype,
                         .device = meta->device,
                         .rank = meta->rank,
                         .alias_of = of,
                         .offset = of < 0 || written >= 0 ? 0 : result_offset(in, value, of),
                         .sizes = numbers,
                         .strides = numbers + meta->rank};
}

/* Numbers, then texts, in one block that the state keeps. */
static Status infer_results(const Inference *in, const Node *node, sn_inferred *out) {
    const Graph *const graph = in->graph->graph;
    size_t numbers = 0;
    Text texts = {0};
    for (int i = 0; i < node->n_outs; i++) {
        numbers += result_bytes(&node->outs[i]);
        meta_print(graph->env, &texts, result_meta(&node->outs[i]));
        text_put(&texts, "", 1);
    }
    char *const block = error_pending() ? NULL : mem_alloc(numbers + texts.n + 1);
    if (block) memcpy(block + numbers, text_str(&texts), texts.n + 1);
    text_free(&texts);
    if (!block) return ST_MEMORY;
    if (state_text(state_get(), block) != block) return ST_MEMORY;
    int64_t *number = (int64_t *)(void *)block;
    const char *type = block + numbers;
    for (int i = 0; i < node->n_outs; i++, type += strlen(type) + 1) {
        infer_result(in, &node->outs[i], number, type, &out[i]);
        number += 2 * node->outs[i].base.meta->rank;
    }
    return ST_OK;
}

static const char *infer_assumed(const Graph *graph, int before) {
    Text text = {0};
    for (int i = before; i < sym_guard_count(graph->env); i++) {
        if (text.n) text_puts(&text, "\n");
        sym_guard_print(graph->env, &text, sym_guard_at(graph->env, i));
    }
    return text.n ? state_text(state_get(), text.at) : "";
}

/* The call ------------------------------------------------------------------------------------ */

static Status infer_op(Inference *in, const sn_value *given, int n, sn_inferred *out, int *n_out,
                       const char **assumed) {
    OpForm form;
    BuiltCall call = {0};
    const OpRow *const row = op_find(in->op, strlen(in->op), &form);
    sn_value *const args = ARENA_ARRAY(in->graph->arena, sn_value, n + 1);
    if (!args || !row) return error_pending() ? error_pending() : ST_MEMORY;
    TRY(infer_arguments(in, row, form, given, n, args));
    const int before = sym_guard_count(in->graph->graph->env);
    TRY(graph_given_call(in->graph, "sn_op_infer", in->op, args, n, &call));
    const Node *const made = graph_node_alone(in->graph->graph, call.row, call.form, call.args);
    if (!made) return error_pending() ? error_pending() : ST_MEMORY;
    if (made->unbacked)
        return error_raise(ST_UNSUPPORTED, "sn_op_infer: %s: %s from values", in->op,
                           node_is_number(made) ? "its number follows" : "sizes of its results follow");
    const int room = *n_out;
    *n_out = made->n_outs;
    if (room < made->n_outs || (made->n_outs && !out))
        return error_raise(ST_ARGUMENT, "sn_op_infer: %s gives %d results, there is room for %d", in->op, made->n_outs,
                           out ? room : 0);
    TRY(infer_results(in, made, out));
    if (assumed) *assumed = infer_assumed(in->graph->graph, before);
    return error_pending();
}

sn_status sn_op_infer(const sn_op *op, const sn_value *in, int n_in, sn_inferred *out, int *n_out,
                      const char **assumed) {
    API_ENTER(sn_op_infer);
    if (assumed) *assumed = "";
    if (error_pending()) return sn_check();
    if (!op || !n_out || n_in < 0 || (n_in && !in))
        return (sn_status)error_raise(ST_ARGUMENT, "sn_op_infer: the op, the list of arguments or n_out is NULL");
    sn_graph *const graph = sn_graph_new("infer");
    Inference inference = {.graph = graph, .op = sn_op_name(op), .given = in};
    const Status status = graph ? infer_op(&inference, in, n_in, out, n_out, assumed) : ST_MEMORY;
    sn_graph_free(graph);
    if (status != ST_OK) *n_out = 0;
    return sn_check();
}
