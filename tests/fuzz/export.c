/* export.c: a graph as a .pt2 file. What torch.export.save writes (torch/_export/serde/schema.py has the records):
 *
 *     models/model.json                     nodes, types of values, the signature, ranges and guards
 *     data/weights/..., data/constants/...  storages, and which tensor lies in which (config.json)
 *
 * The graph is as capture made it: not functional, so that the verifier is TRAINING. A size that is an expression is a
 * node of its own in the file (sym_size, _operator.mul), written where it is first used. */
#include "tests/fuzz/export.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "ir/schema.h"
#include "runtime/core/tensor.h"

enum { MOST_INTS = 128 };
typedef struct Export {
    const Graph *g;
    const FzWeight *weights;
    Text nodes, values, ints; /* of the JSON: nodes, tensor_values, sym_int_values */
    struct {
        int64_t e;
        char name[24];
    } named[MOST_INTS]; /* ints of sizes */
    int n_named;
    const char *why;
} Export;

static void comma(Text *to, bool first) { text_puts(to, first ? "" : ", "); }

static bool refuse(Export *x, const char *why) {
    if (!x->why) x->why = why;
    return false;
}

/* Types --------------------------------------------------------------------------------------- */

/* torch/_export/serde/schema.py, ScalarType; 0: there is none. */
static int scalar_type(DType dtype) {
    static const int codes[DT_COUNT] = {[DT_u8] = 1,  [DT_i8] = 2,  [DT_i16] = 3, [DT_i32] = 4,   [DT_i64] = 5,
                                        [DT_f16] = 6, [DT_f32] = 7, [DT_f64] = 8, [DT_bool] = 12, [DT_bf16] = 13};
    return codes[dtype];
}

/* Where the symbol is a size by itself: an input and a dim; dim -1: an int input. */
static bool find_symbol(const Graph *g, int64_t symbol, int *input, int *dim) {
    for (int i = 0; i < g->int_inputs.n; i++)
        if (g->int_inputs.at[i].symbol == symbol) return *input = i, *dim = -1, true;
    for (int i = 0; i < g->inputs.n; i++)
        for (int d = 0; d < g->inputs.at[i]->base.meta->rank; d++)
            if (g->inputs.at[i]->base.meta->sizes[d] == symbol) return *input = i, *dim = d, true;
    return false;
}

typedef struct Spelling { /* of an expression */
    const char *words[SYM_min + 1];
    bool infix, sympy;
} Spelling;
static const Spelling sympy = {{[SYM_add] = "Add",
                                [SYM_mul] = "Mul",
                                [SYM_div] = "FloorDiv",
                                [SYM_mod] = "Mod",
                                [SYM_max] = "Max",
                                [SYM_min] = "Min"},
                               .sympy = true};
static const Spelling python = {{[SYM_add] = " + ",
                                 [SYM_mul] = "*",
                                 [SYM_div] = "//",
                                 [SYM_mod] = "%",
                                 [SYM_max] = "torch.sym_max",
                                 [SYM_min] = "torch.sym_min"},
                                .infix = true};

static bool put_symbol(Export *x, const Spelling *how, Text *to, int64_t e) {
    int input, dim;
    if (how->sympy) return text_printf(to, "Symbol('s%" PRId64 "', integer=True)", sym_expr(x->g->env, e)->a), true;
    if (!find_symbol(x->g, e, &input, &dim)) return refuse(x, "a guard of a symbol that no input is by itself");
    if (dim < 0)
        text_printf(to, "L['int_%d']", input);
    else
        text_printf(to, "L['%s'].size()[%d]", x->g->inputs.at[input]->name, dim);
    return true;
}

static bool put_expression(Export *x, const Spelling *how, Text *to, int64_t e) {
    if (!sym_is(e)) return text_printf(to, how->sympy ? "Integer(%" PRId64 ")" : "%" PRId64, e), true;
    const SymExpr *const expr = sym_expr(x->g->env, e);
    if (expr->op == SYM_free) return put_symbol(x, how, to, e);
    if (!how->words[expr->op]) return refuse(x, "a size of another kind");
    const bool infix = how->infix && expr->op != SYM_max && expr->op != SYM_min;
    text_printf(to, "%s(", infix ? "" : how->words[expr->op]);
    const bool first = put_expression(x, how, to, expr->a);
    text_puts(to, infix ? how->words[expr->op] : ", ");
    const bool second = put_expression(x, how, to, expr->b);
    text_puts(to, ")");
    return first && second;
}

/* {"as_int": 3}, or {"as_expr": ...}. */
static void put_size(Export *x, Text *to, int64_t size) {
    if (!sym_is(size)) {
        text_printf(to, "{\"as_int\": %" PRId64 "}", size);
        return;
    }
    text_puts(to, "{\"as_expr\": {\"expr_str\": \"");
    put_expression(x, &sympy, to, size);
    text_printf(to, "\", \"hint\": {\"as_int\": %" PRId64 "}}}", sym_hint(x->g->env, size));
}

static void put_sizes(Export *x, Text *to, const int64_t *sizes, int n) {
    text_puts(to, "[");
    for (int i = 0; i < n; i++) comma(to, !i), put_size(x, to, sizes[i]);
    text_puts(to, "]");
}

static const char cpu[] = "{\"type\": \"cpu\", \"index\": null}";

static void put_meta(Export *x, Text *to, const Meta *meta, bool grad, int64_t offset) {
    if (!scalar_type(meta->dtype)) refuse(x, "a dtype");
    if (meta->device != DEV_cpu) refuse(x, "a device");
    text_printf(to, "{\"dtype\": %d, \"sizes\": ", scalar_type(meta->dtype));
    put_sizes(x, to, meta->sizes, meta->rank);
    text_printf(to, ", \"requires_grad\": %s, \"device\": %s, \"strides\": ", grad ? "true" : "false", cpu);
    put_sizes(x, to, meta->strides, meta->rank);
    text_printf(to, ", \"storage_offset\": {\"as_int\": %" PRId64 "}, \"layout\": 7}", offset);
}

static void value_name(const Export *x, const GVal *v, char *out, size_t n) {
    if (v->def)
        snprintf(out, n, "value_%d", v->id);
    else
        snprintf(out, n, "%s", x->g->inputs.at[v->index]->name);
}

static void put_value_name(const Export *x, Text *to, const GVal *v) {
    char name[128];
    value_name(x, v, name, sizeof name);
    text_printf(to, "{\"name\": \"%s\"}", name);
}

static void note_type(Export *x, const GVal *v) {
    char name[128];
    value_name(x, v, name, sizeof name);
    comma(&x->values, !x->values.n);
    text_printf(&x->values, "\"%s\": ", name);
    put_meta(x, &x->values, v->base.meta, false, 0);
}

/* Ints of sizes ------------------------------------------------------------------------------- */

static const char *named_int(const Export *x, int64_t e) {
    for (int i = 0; i < x->n_named; i++)
        if (x->named[i].e == e) return x->named[i].name;
    return NULL;
}

static const char *name_int(Export *x, int64_t e, const char *format, int number) {
    if (x->n_named == MOST_INTS) return refuse(x, "many sizes"), "";
    char *const name = x->named[x->n_named].name;
    snprintf(name, sizeof x->named[0].name, format, number);
    x->named[x->n_named++].e = e;
    comma(&x->ints, !x->ints.n);
    text_printf(&x->ints, "\"%s\": ", name);
    put_size(x, &x->ints, e);
    return name;
}

static void begin_node(Export *x, const char *target) {
    comma(&x->nodes, !x->nodes.n);
    text_printf(&x->nodes, "\n{\"target\": \"%s\", \"inputs\": [", target);
}

static void begin_argument(Text *to, const char *name, bool first, bool keyword) {
    comma(to, first);
    text_printf(to, "{\"name\": \"%s\", \"kind\": %d, \"arg\": ", name, keyword ? 2 : 1);
}

static void end_node(Export *x, const char *name) {
    text_printf(&x->nodes, "], \"metadata\": {}, \"is_hop_single_tensor_return\": null, \"name\": \"%s\"}", name);
}

static void end_int_node(Export *x, const char *name) {
    text_printf(&x->nodes, "], \"outputs\": [{\"as_sym_int\": {\"as_name\": \"%s\"}}", name);
    end_node(x, name);
}

static const char *int_of(Export *x, int64_t e);

static void put_operand(Export *x, const char *name, int64_t e) {
    begin_argument(&x->nodes, name, *name == 'a', false);
    const char *const known = sym_is(e) ? named_int(x, e) : NULL;
    if (known)
        text_printf(&x->nodes, "{\"as_sym_int\": {\"as_name\": \"%s\"}}}", known);
    else
        text_printf(&x->nodes, "{\"as_int\": %" PRId64 "}}", e);
}

static const char *size_of_input(Export *x, int64_t symbol) {
    int input, dim;
    if (!find_symbol(x->g, symbol, &input, &dim)) return refuse(x, "a symbol that no input is by itself"), "";
    const char *const name = name_int(x, symbol, "sym_size_int_%d", x->n_named);
    begin_node(x, "torch.ops.aten.sym_size.int");
    begin_argument(&x->nodes, "self", true, false);
    text_puts(&x->nodes, "{\"as_tensor\": ");
    put_value_name(x, &x->nodes, x->g->inputs.at[input]);
    text_puts(&x->nodes, "}}");
    begin_argument(&x->nodes, "dim", false, false);
    text_printf(&x->nodes, "{\"as_int\": %d}}", dim);
    end_int_node(x, name);
    return name;
}

/* Its name; the nodes that compute it are there then. */
static const char *int_of(Export *x, int64_t e) {
    static const char *const targets[SYM_min + 1] = {[SYM_add] = "_operator.add",
                                                     [SYM_mul] = "_operator.mul",
                                                     [SYM_div] = "_operator.floordiv",
                                                     [SYM_mod] = "_operator.mod"};
    const char *const known = named_int(x, e);
    if (known) return known;
    const SymExpr *const expr = sym_expr(x->g->env, e);
    if (expr->op == SYM_free) return size_of_input(x, e);
    if (!targets[expr->op]) return refuse(x, "the larger or smaller of two sizes"), "";
    if (sym_is(expr->a)) int_of(x, expr->a);
    if (sym_is(expr->b)) int_of(x, expr->b);
    const char *const name = name_int(x, e, "size_%d", x->n_named);
    begin_node(x, targets[expr->op]);
    put_operand(x, "a", expr->a);
    put_operand(x, "b", expr->b);
    end_int_node(x, name);
    return name;
}

/* Arguments ----------------------------------------------------------------------------------- */

static void put_float(Text *to, double f) {
    if (isfinite(f))
        text_printf(to, "%.17g%s", f, f == floor(f) && fabs(f) < 1e15 ? ".0" : "");
    else
        text_puts(to, isnan(f) ? "\"NaN\"" : f > 0 ? "\"Infinity\"" : "\"-Infinity\"");
}

static void put_ints(Export *x, Text *to, const Arg *a) {
    bool symbolic = false;
    for (int i = 0; i < a->n; i++) symbolic |= sym_is(a->ints[i]);
    text_printf(to, "{\"%s\": [", symbolic ? "as_sym_ints" : "as_ints");
    for (int i = 0; i < a->n; i++) {
        comma(to, !i);
        if (sym_is(a->ints[i]))
            text_printf(to, "{\"as_name\": \"%s\"}", int_of(x, a->ints[i]));
        else
            text_printf(to, symbolic ? "{\"as_int\": %" PRId64 "}" : "%" PRId64, a->ints[i]);
    }
    text_puts(to, "]}");
}

static void put_floats(Text *to, const Arg *a) {
    text_puts(to, "{\"as_floats\": [");
    for (int i = 0; i < a->n; i++) comma(to, !i), put_float(to, a->floats[i]);
    text_puts(to, "]}");
}

static void put_tensors(const Export *x, Text *to, const Arg *a, bool optional) {
    text_printf(to, "{\"%s\": [", optional ? "as_optional_tensors" : "as_tensors");
    for (int i = 0; i < a->n; i++) {
        comma(to, !i);
        if (optional) text_puts(to, a->vals[i] ? "{\"as_tensor\": " : "{\"as_none\": true");
        if (a->vals[i]) put_value_name(x, to, gval(a->vals[i]));
        if (optional) text_puts(to, "}");
    }
    text_puts(to, "]}");
}

static void put_code(Export *x, Text *to, ParamType type, int64_t i) {
    static const int formats[] = {
        [MF_contiguous] = 1, [MF_channels_last] = 2, [MF_channels_last_3d] = 3, [MF_preserve] = 4};
    if (type == PT_dtype || type == PT_dtype_opt) {
        if (i < 0 || i >= DT_COUNT || !scalar_type((DType)i)) refuse(x, "a dtype");
        text_printf(to, "{\"as_scalar_type\": %d}", x->why ? 0 : scalar_type((DType)i));
    } else if (type == PT_device_opt) {
        if (i != DEV_cpu) refuse(x, "a device");
        text_printf(to, "{\"as_device\": %s}", cpu);
    } else if (type == PT_layout_opt) {
        text_puts(to, "{\"as_layout\": 7}");
    } else {
        text_printf(to, "{\"as_memory_format\": %d}", formats[i & 3]);
    }
}

static void put_number(Export *x, Text *to, ParamType type, const Arg *a) {
    const bool floats = type == PT_float || type == PT_float_opt;
    if (type == PT_dtype || type == PT_dtype_opt || (type >= PT_device_opt && type <= PT_memory_format_opt)) {
        put_code(x, to, type, a->i);
    } else if (a->kind == ARG_bool || type == PT_bool || type == PT_bool_opt) {
        text_printf(to, "{\"as_bool\": %s}", a->i ? "true" : "false");
    } else if (a->kind == ARG_float || (floats && !sym_is(a->i))) {
        text_puts(to, "{\"as_float\": ");
        put_float(to, arg_double(a));
        text_puts(to, "}");
    } else if (sym_is(a->i)) {
        text_printf(to, "{\"as_sym_int\": {\"as_name\": \"%s\"}}", int_of(x, a->i));
    } else {
        text_printf(to, "{\"as_int\": %" PRId64 "}", a->i);
    }
}

static void put_argument(Export *x, Text *to, ParamType type, const Arg *a) {
    switch (a->kind) {
    case ARG_none:
        text_puts(to, "{\"as_none\": true}");
        return;
    case ARG_tensor:
        text_puts(to, "{\"as_tensor\": ");
        put_value_name(x, to, gval(a->val));
        text_puts(to, "}");
        return;
    case ARG_int:
    case ARG_float:
    case ARG_bool:
        put_number(x, to, type, a);
        return;
    case ARG_string:
        text_puts(to, "{\"as_string\": ");
        text_json_string(to, a->string);
        text_puts(to, "}");
        return;
    case ARG_ints:
        put_ints(x, to, a);
        return;
    case ARG_floats:
        put_floats(to, a);
        return;
    case ARG_tensors:
        put_tensors(x, to, a, type == PT_tensors_opt);
        return;
    default:
        refuse(x, "an argument");
    }
}

/* Nodes --------------------------------------------------------------------------------------- */

/* "aten::add_.Tensor" as "torch.ops.aten.add_.Tensor". */
static void target_of(const Node *node, char *out, size_t n) {
    const char *const name = op_form_name(node->row, node->form), *const base = strstr(name, "::");
    snprintf(out, n, "torch.ops.%.*s.%s%s", (int)(base - name), name, base + 2, strchr(base, '.') ? "" : ".default");
}

static void put_results(Export *x, const Node *node) {
    Text *const to = &x->nodes;
    text_puts(to, "], \"outputs\": [");
    if (node->row->returns_list) text_puts(to, "{\"as_tensors\": [");
    for (int i = 0; i < node->n_outs; i++) {
        comma(to, !i);
        if (!node->row->returns_list) text_puts(to, "{\"as_tensor\": ");
        put_value_name(x, to, &node->outs[i]);
        if (!node->row->returns_list) text_puts(to, "}");
        note_type(x, &node->outs[i]);
    }
    if (node->row->returns_list) text_puts(to, "]}");
}

/* The sizes among its arguments have names before it begins. */
static void name_ints(Export *x, const Arg *a) {
    if (a->kind == ARG_int && sym_is(a->i)) int_of(x, a->i);
    for (int i = 0; a->kind == ARG_ints && i < a->n; i++)
        if (sym_is(a->ints[i])) int_of(x, a->ints[i]);
}

static void put_node(Export *x, const Node *node) {
    const OpRow *const row = node->row;
    char target[160], name[24];
    const int n = op_form_params(row, node->form);
    bool first = true;
    if (node->form == FORM_out && row->n_out != 1) refuse(x, "several results to write");
    if (node->modes || node->unbacked || op_is_made(row) || row->flags & (OPF_flow | OPF_internal))
        refuse(x, "a mode, a size that values give, an op of the program's own, or control flow");
    for (int i = 0; i < n; i++) name_ints(x, &node->args[op_form_param(row, node->form, i)]);
    target_of(node, target, sizeof target);
    begin_node(x, target);
    for (int i = 0; i < n; i++) {
        const int at = op_form_param(row, node->form, i);
        if (node->args[at].kind == ARG_default) continue;
        begin_argument(&x->nodes, row->params[at].name, first, row->params[at].keyword);
        put_argument(x, &x->nodes, row->params[at].type, &node->args[at]);
        text_puts(&x->nodes, "}");
        first = false;
    }
    if (node->form == FORM_out) {
        begin_argument(&x->nodes, "out", first, true);
        put_argument(x, &x->nodes, PT_tensor, &node->args[row->n_params]);
        text_puts(&x->nodes, "}");
    }
    put_results(x, node);
    snprintf(name, sizeof name, "n%d", node->id);
    end_node(x, name);
}

/* The signature ------------------------------------------------------------------------------- */

/* Weights lead in the file, as they do in PyTorch's. */
typedef struct Given {
    int input;  /* of tensors */
    int number; /* of ints; -1: a tensor */
} Given;

static int list_given(const Graph *g, const FzWeight *weights, Given *out) {
    int n = 0;
    for (int i = 0; i < g->inputs.n; i++)
        if (weights[i]) out[n++] = (Given){i, -1};
    for (int i = 0, k = 0; i <= g->inputs.n; i++) {
        for (; k < g->int_inputs.n && g->int_inputs.at[k].before <= i; k++) out[n++] = (Given){0, k};
        if (i < g->inputs.n && !weights[i]) out[n++] = (Given){i, -1};
    }
    return n;
}

static const char *const weight_words[] = {
    [FZ_parameter] = "parameter", [FZ_buffer] = "buffer", [FZ_constant] = "tensor_constant"};

static void put_input_spec(const Export *x, Text *to, Given in) {
    if (in.number >= 0) {
        text_printf(to, "{\"user_input\": {\"arg\": {\"as_sym_int\": {\"as_name\": \"int_%d\"}}}}", in.number);
        return;
    }
    const char *const name = x->g->inputs.at[in.input]->name;
    const FzWeight kind = x->weights[in.input];
    if (kind)
        text_printf(to, "{\"%s\": {\"arg\": {\"name\": \"%s\"}, \"%s_name\": \"w.%s\"%s}}", weight_words[kind], name,
                    weight_words[kind], name, kind == FZ_buffer ? ", \"persistent\": true" : "");
    else
        text_printf(to, "{\"user_input\": {\"arg\": {\"as_tensor\": {\"name\": \"%s\"}}}}", name);
}

static void put_result(const Export *x, Text *to, const Output *out) {
    if (out->kind == OUT_none || !out->value) {
        text_puts(to, "{\"as_none\": true}");
        return;
    }
    text_puts(to, "{\"as_tensor\": ");
    put_value_name(x, to, out->value);
    text_puts(to, "}");
}

static void put_tree(Text *to, int n) {
    text_puts(to, "{\\\"type\\\": \\\"builtins.tuple\\\", \\\"context\\\": \\\"null\\\", \\\"children_spec\\\": [");
    for (int i = 0; i < n; i++) {
        comma(to, !i);
        text_puts(to, "{\\\"type\\\": null, \\\"context\\\": null, \\\"children_spec\\\": []}");
    }
    text_puts(to, "]}");
}

static void put_call(const Export *x, Text *to, const Given *in, int n) {
    int n_given = 0;
    for (int i = 0; i < n; i++) n_given += in[i].number >= 0 || !x->weights[in[i].input];
    text_puts(to, "\"module_call_graph\": [{\"fqn\": \"\", \"signature\": {\"inputs\": [], \"outputs\": [], "
                  "\"in_spec\": \"[1, {\\\"type\\\": \\\"builtins.tuple\\\", \\\"context\\\": \\\"null\\\", "
                  "\\\"children_spec\\\": [");
    put_tree(to, n_given);
    text_puts(to,
              ", {\\\"type\\\": \\\"builtins.dict\\\", \\\"context\\\": \\\"[]\\\", \\\"children_spec\\\": []}]}]\", "
              "\"out_spec\": \"[1, ");
    put_tree(to, x->g->outputs.n);
    text_puts(to, "]\", \"forward_arg_names\": [");
    for (int i = 0, k = 0; i < n; i++) {
        if (in[i].number < 0 && x->weights[in[i].input]) continue;
        comma(to, !k++);
        if (in[i].number >= 0)
            text_printf(to, "\"int_%d\"", in[i].number);
        else
            text_printf(to, "\"%s\"", x->g->inputs.at[in[i].input]->name);
    }
    text_puts(to, "]}}]");
}

static void put_signature(const Export *x, Text *to, const Given *in, int n) {
    text_puts(to, "\"signature\": {\"input_specs\": [");
    for (int i = 0; i < n; i++) comma(to, !i), put_input_spec(x, to, in[i]);
    text_puts(to, "], \"output_specs\": [");
    for (int i = 0; i < x->g->outputs.n; i++) {
        comma(to, !i);
        text_puts(to, "{\"user_output\": {\"arg\": ");
        put_result(x, to, &x->g->outputs.at[i]);
        text_puts(to, "}}");
    }
    text_puts(to, "]}, ");
}

static void put_ranges(const Export *x, Text *to) {
    text_puts(to, "\"range_constraints\": {");
    bool first = true;
    for (int i = 0; i < sym_free_count(x->g->env); i++) {
        const int64_t symbol = sym_free_at(x->g->env, i);
        const SymExpr *const e = sym_expr(x->g->env, symbol);
        int input, dim;
        if (!find_symbol(x->g, symbol, &input, &dim)) continue; /* the generator's */
        comma(to, first);
        text_printf(to, "\"s%" PRId64 "\": {\"min_val\": ", e->a);
        text_printf(to, e->b > SYM_LEAST ? "%" PRId64 : "null", e->b);
        text_puts(to, ", \"max_val\": ");
        text_printf(to, e->given && e->most < SYM_MOST ? "%" PRId64 "}" : "null}", e->most);
        first = false;
    }
    text_puts(to, "}, ");
}

static void put_guards(Export *x, Text *to) {
    static const char *const words[] = {[SYM_eq] = " == ", [SYM_ne] = " != ", [SYM_lt] = " < ", [SYM_le] = " <= "};
    text_puts(to, "\"guards_code\": [");
    for (int i = 0; i < x->g->assumed.n; i++) {
        const SymGuard *const guard = &x->g->assumed.at[i];
        comma(to, !i);
        text_puts(to, "\"");
        put_expression(x, &python, to, guard->a);
        text_puts(to, words[guard->rel]);
        put_expression(x, &python, to, guard->b);
        text_puts(to, "\"");
    }
    text_puts(to, "], ");
}

static void put_model(Export *x, Text *to) {
    const Graph *const g = x->g;
    Given in[2 * MAX_LIST];
    const int n = list_given(g, x->weights, in);
    text_puts(to, "{\"graph_module\": {\"graph\": {\"inputs\": [");
    for (int i = 0; i < n; i++) {
        comma(to, !i);
        if (in[i].number >= 0)
            text_printf(to, "{\"as_sym_int\": {\"as_name\": \"int_%d\"}}", in[i].number);
        else
            text_printf(to, "{\"as_tensor\": {\"name\": \"%s\"}}", g->inputs.at[in[i].input]->name);
    }
    text_puts(to, "], \"outputs\": [");
    for (int i = 0; i < g->outputs.n; i++) comma(to, !i), put_result(x, to, &g->outputs.at[i]);
    text_printf(to, "], \"nodes\": [%s], \"tensor_values\": {%s}, ", text_str(&x->nodes), text_str(&x->values));
    text_printf(to, "\"sym_int_values\": {%s}, ", text_str(&x->ints));
    text_puts(to, "\"sym_bool_values\": {}, \"is_single_tensor_return\": false, \"custom_obj_values\": {}, "
                  "\"sym_float_values\": {}}, ");
    put_signature(x, to, in, n);
    put_call(x, to, in, n);
    text_puts(to, ", \"metadata\": {}, \"treespec_namedtuple_fields\": {}}, \"opset_version\": {\"aten\": 10}, ");
    put_ranges(x, to);
    put_guards(x, to);
    text_puts(to, "\"schema_version\": {\"major\": 8, \"minor\": 20}, \"verifiers\": [\"TRAINING\"], "
                  "\"torch_version\": \"2.15.0\"}");
}

/* The archive --------------------------------------------------------------------------------- */

/* Storages of one kind, and which tensor lies in which. */
static void add_storages(Export *x, FzZip *zip, sn_tensor *const *tensors, bool constants) {
    const char *const folder = constants ? "constants" : "weights", *const word = constants ? "tensor" : "weight";
    Text config = {0};
    char path[64];
    int k = 0;
    text_puts(&config, "{\"config\": {");
    for (int i = 0; i < x->g->inputs.n; i++) {
        if (!x->weights[i] || (x->weights[i] == FZ_constant) != constants) continue;
        sn_tensor *const t = tensors[i];
        snprintf(path, sizeof path, "data/%s/%s_%d", folder, word, k);
        fz_zip_add(zip, path, t->storage->data, t->storage->bytes);
        comma(&config, !k);
        text_printf(&config,
                    "\"w.%s\": {\"path_name\": \"%s_%d\", \"is_param\": %s, \"use_pickle\": false, \"tensor_meta\": ",
                    x->g->inputs.at[i]->name, word, k, x->weights[i] == FZ_parameter ? "true" : "false");
        put_meta(x, &config, t->base.meta, sn_requires_grad(t), t->offset);
        text_puts(&config, "}");
        k++;
    }
    text_puts(&config, "}}");
    snprintf(path, sizeof path, "data/%s/model_%s_config.json", folder, folder);
    fz_zip_add(zip, path, text_str(&config), config.n);
    text_free(&config);
}

static void write_nodes(Export *x) {
    for (int i = 0; i < x->g->inputs.n; i++) note_type(x, x->g->inputs.at[i]);
    for (int i = 0; i < x->g->int_inputs.n; i++) name_int(x, x->g->int_inputs.at[i].symbol, "int_%d", i);
    for (const Node *node = x->g->first; node && !x->why; node = node->next) put_node(x, node);
}

bool fz_export(const Graph *graph, const FzWeight *weights, sn_tensor *const *tensors, const char *path,
               const char **why) {
    static Export x;
    FzZip zip = {.n = 0};
    Text model = {0};
    x = (Export){.g = graph, .weights = weights};
    write_nodes(&x);
    if (!graph->outputs.n) refuse(&x, "a program without results");
    if (graph->inputs.n + graph->int_inputs.n > MAX_LIST) refuse(&x, "many inputs");
    if (!x.why) put_model(&x, &model);
    if (!x.why) {
        add_storages(&x, &zip, tensors, false);
        add_storages(&x, &zip, tensors, true);
        fz_zip_add(&zip, "models/model.json", text_str(&model), model.n);
        fz_zip_add(&zip, "archive_format", "pt2", 3);
        fz_zip_add(&zip, "archive_version", "0", 1);
        fz_zip_add(&zip, ".data/version", "6\n", 2);
        fz_zip_add(&zip, "byteorder", "little", 6);
    }
    *why = x.why;
    text_free(&x.nodes);
    text_free(&x.values);
    text_free(&x.ints);
    text_free(&model);
    if (!x.why && fz_zip_save(&zip, path)) return true;
    text_free(&zip.bytes);
    text_free(&zip.directory);
    return false;
}
