/* graph_print.c: graphs as text (grammar at the head of graph_parse.c). Positional arguments are printed up to the last
 * one that differs from its default, keyword-only ones by name where they differ; results as %0, %1... */
#include "ir/graph.h"
#include "ir/schema.h"

static int result_number(const Graph *graph, const GVal *value) { return value->id - graph->inputs.n; }

static void val_print(Text *text, const Graph *graph, const Val *val) {
    const GVal *value = (const GVal *)val;
    if (!value)
        text_puts(text, "None");
    else if (!value->def)
        text_printf(text, "%%%s", value->name);
    else
        text_printf(text, "%%%d", result_number(graph, value));
}

/* Ints that stand for a name. */
static bool named_int(Text *text, int64_t value, ParamType type) {
    switch (type) {
    case PT_dtype:
    case PT_dtype_opt:
        text_puts(text, dtype_name((DType)value));
        return true;
    case PT_device_opt:
        text_puts(text, DEVICE_TEXT((Device)value));
        return true;
    case PT_layout_opt:
        text_puts(text, "strided");
        return true;
    case PT_memory_format_opt:
        text_puts(text, memory_format_name(value));
        return true;
    default:
        return false;
    }
}

static void list_print(Text *text, const Graph *graph, const Arg *arg) {
    text_puts(text, "[");
    for (int i = 0; i < arg->n; i++) {
        if (i) text_puts(text, ", ");
        if (arg->kind == ARG_ints)
            sym_print(graph ? graph->env : NULL, text, arg->ints[i]);
        else if (arg->kind == ARG_floats)
            text_double(text, arg->floats[i]);
        else
            val_print(text, graph, arg->vals[i]);
    }
    text_puts(text, "]");
}

void arg_print(Text *text, const Graph *graph, const Arg *arg, ParamType type) {
    switch ((ArgKind)arg->kind) {
    case ARG_default:
        text_puts(text, "default");
        break;
    case ARG_none:
        text_puts(text, "None");
        break;
    case ARG_tensor:
        val_print(text, graph, arg->val);
        break;
    case ARG_int:
        if (!named_int(text, arg->i, type)) sym_print(graph ? graph->env : NULL, text, arg->i);
        break;
    case ARG_float:
        text_double(text, arg->f);
        break;
    case ARG_bool:
        text_puts(text, arg->i ? "True" : "False");
        break;
    case ARG_string:
        text_quoted(text, arg->string);
        break;
    case ARG_ints:
    case ARG_floats:
    case ARG_tensors:
        list_print(text, graph, arg);
        break;
    case ARG_runtime:
        text_printf(text, "runtime(%d", (int)arg->i);
        if (graph && arg->i < graph->runtime_floats.n) {
            text_puts(text, ", ");
            text_double(text, graph->runtime_floats.at[arg->i]);
        }
        text_puts(text, ")");
        break;
    }
}

/* An absent default and None mean the same to normalised arguments. */
static bool is_default(const Param *param, const Arg *arg) {
    if (param->fallback.kind == ARG_default) return arg->kind == ARG_default;
    if (arg_equal(&param->fallback, arg)) return true;
    if (!arg_is_number(&param->fallback) || !arg_is_number(arg) || arg->kind == ARG_runtime) return false;
    const bool converted = param->type != PT_scalar && param->type != PT_scalar_opt; /* int given for a float */
    return converted && arg_double(&param->fallback) == arg_double(arg);
}

static void args_print(Text *text, const Graph *graph, const Node *node) {
    const OpRow *row = node->row;
    int last = -1;
    const char *separator = "";
    for (int i = 0; i < row->n_params; i++)
        if (!row->params[i].keyword && !is_default(&row->params[i], &node->args[i])) last = i;
    for (int i = 0; i < row->n_params; i++) {
        const Param *param = &row->params[i];
        if (param->keyword ? is_default(param, &node->args[i]) : i > last) continue;
        text_puts(text, separator);
        if (param->keyword) text_printf(text, "%s=", param->name);
        arg_print(text, graph, &node->args[i], param->type);
        separator = ", ";
    }
    if (node->form != FORM_out) return;
    for (int i = 0; i < row->n_out; i++) {
        text_printf(text, row->n_out == 1 ? "%sout=" : "%sout%d=", separator, i);
        arg_print(text, graph, &node->args[row->n_params + i], PT_tensor);
        separator = ", ";
    }
}

/* And those that it lies in. */
static void region_print(Text *text, const Graph *graph, int region) {
    text_printf(text, " region=%d", region);
    while ((region = regions_outer(&graph->regions, region))) text_printf(text, "<%d", region);
}

static void attributes_print(Text *text, const Graph *graph, const Node *node) {
    if (node->order) text_printf(text, " order=%s", order_name(node->order));
    if (node->row->flags & OPF_random) text_printf(text, " random=%d", node->random);
    if (node->kernel) text_printf(text, " kernel=%d", node->kernel - 1);
    if (node->modes & NODE_no_grad) text_puts(text, " no_grad");
    if (node->modes & NODE_inference) text_puts(text, " inference");
    if (node->modes & NODE_no_autocast) text_puts(text, " no_autocast");
    if (node->modes & NODE_puts) text_puts(text, " puts");
    if (node->modes & NODE_saved) text_puts(text, " saved");
    if (node->modes & NODE_rest) text_puts(text, " rest");
    if (node->region) region_print(text, graph, node->region);
    if (node->again) text_printf(text, " again=%d", node->again);
    if (node->merged) text_puts(text, " merged");
    if (!node->where) return;
    text_puts(text, " at=");
    text_quoted(text, node->where);
}

/* "  # f32[4,8], i64[4]; of aten::_softmax; model.c:12" */
static void notes_print(Text *text, const Graph *graph, const Node *node, GraphNotes notes) {
    const char *between = "  # ";
    for (int i = 0; notes.types && i < node->n_outs; i++, between = ", ") {
        text_puts(text, between);
        meta_print(graph->env, text, node->outs[i].base.meta);
    }
    if (notes.types && node->n_outs) between = "; ";
    if (notes.types && node->origin) {
        text_printf(text, "%sof %s", between, node->origin->name);
        between = "; ";
    }
    if (!notes.place || !node->site) return;
    char where[256];
    notes.place(node->site, where, sizeof where);
    text_printf(text, "%s%s", between, where);
}

/* Where a size is what only values give, the text says which symbol that is. */
static void result_print(Text *text, const Graph *graph, const Node *node, int i) {
    text_printf(text, "%s%%%d", i ? ", " : "", result_number(graph, &node->outs[i]));
    if (!node->unbacked) return;
    text_puts(text, ": ");
    meta_print(graph->env, text, node->outs[i].base.meta);
}

static void node_print(Text *text, const Graph *graph, const Node *node, GraphNotes notes) {
    text_puts(text, "  ");
    for (int i = 0; i < node->n_outs; i++) result_print(text, graph, node, i);
    if (node_is_number(node)) sym_print(graph->env, text, node->unbacked);
    text_printf(text, "%s%s(", node->n_outs || node->unbacked ? " = " : "", op_form_name(node->row, node->form));
    args_print(text, graph, node);
    text_puts(text, ")");
    attributes_print(text, graph, node);
    notes_print(text, graph, node, notes);
    text_puts(text, "\n");
}

/* What a joint graph's text says of an output that eager's tape holds. */
static void print_kept(Text *text, const Graph *graph, const Output *output) {
    text_puts(text, " kept");
    if (output->base >= 0) text_printf(text, " of %%%s", graph->inputs.at[output->base]->name);
    if (!output->checked) return;
    text_puts(text, " checked");
    const bool *const outputs = output->checked + graph->n_forward_inputs;
    for (int i = 0; i < graph->n_forward_inputs; i++)
        if (output->checked[i]) text_printf(text, " %%%s", graph->inputs.at[i]->name);
    for (int i = 0; i < graph->n_forward_outputs; i++)
        if (outputs[i]) text_printf(text, " output %d", i);
}

static void output_print(Text *text, const Graph *graph, const Output *output) {
    val_print(text, graph, output->value ? &output->value->base : NULL);
    if (output->kind == OUT_kept) print_kept(text, graph, output);
    if (output->tape_saved) text_puts(text, " held");
    const bool is_input = output->kind == OUT_input, of_input = output->kind == OUT_view_of_input;
    if (!is_input && !of_input && output->kind != OUT_view_of_output) return;
    text_puts(text, is_input ? " is " : " views ");
    if (is_input || of_input)
        val_print(text, graph, &graph->inputs.at[output->base]->base);
    else
        text_printf(text, "output %d", output->base);
    if (!output->offset) return;
    text_puts(text, " at ");
    sym_print(graph->env, text, output->offset);
}

static bool has_usual_symbols(const SymEnv *env) {
    bool usual = true;
    for (int i = 0; i < sym_free_count(env); i++) {
        const SymExpr *const e = sym_expr(env, sym_free_at(env, i));
        usual = usual && e->hint == 2 && e->b == 2 && !e->given;
    }
    return usual;
}

/* Symbols whose hint or bound is not the usual 2 are listed, so that decisions come out the same after parsing; then
 * what the header assumes. */
static void symbols_print(Text *text, const Graph *graph) {
    const SymEnv *const env = graph->env;
    if (has_usual_symbols(env) && !graph->assumed.n) return;
    text_puts(text, "[");
    for (int i = 0; i < sym_free_count(env); i++) {
        const SymExpr *e = sym_expr(env, sym_free_at(env, i));
        text_printf(text, "%ss%d=%lld", i ? ", " : "", i, (long long)e->hint);
        if (e->b != 2 || (e->given && e->most == SYM_MOST)) text_printf(text, ">=%lld", (long long)e->b);
        if (e->most != SYM_MOST) text_printf(text, "<=%lld", (long long)e->most);
    }
    for (int i = 0; i < graph->assumed.n; i++) {
        text_puts(text, i ? ", " : "; ");
        sym_guard_print(env, text, &graph->assumed.at[i]);
    }
    text_puts(text, "]");
}

static void header_print(Text *text, const Graph *graph) {
    text_printf(text, "graph %s", graph->name);
    symbols_print(text, graph);
    text_puts(text, "(");
    for (int i = 0, k = 0; i < graph->inputs.n || k < graph->int_inputs.n;) {
        const bool number = k < graph->int_inputs.n && graph->int_inputs.at[k].before == i;
        const bool bar = !number && i && i == graph->n_forward_inputs;
        text_puts(text, bar ? " | " : i + k ? ", " : "");
        if (number) {
            sym_print(graph->env, text, graph->int_inputs.at[k++].symbol);
            text_puts(text, ": int");
            continue;
        }
        const GVal *const input = graph->inputs.at[i++];
        text_printf(text, "%%%s: ", input->name);
        meta_print(graph->env, text, input->base.meta);
    }
    text_puts(text, graph->inputs.n && graph->n_forward_inputs == graph->inputs.n ? " |) {\n" : ") {\n");
    if (!graph->seed) return;
    text_puts(text, "  random seed=");
    sym_print(graph->env, text, graph->seed);
    text_puts(text, " sequence=");
    sym_print(graph->env, text, graph->sequence);
    text_printf(text, " count=%d\n", graph->n_random);
}

static void results_print(Text *text, const Graph *graph) {
    if (!graph->outputs.n) return;
    text_puts(text, "  return");
    for (int i = 0; i < graph->outputs.n; i++) {
        const bool bar = graph->n_forward_outputs && i == graph->n_forward_outputs;
        text_puts(text, bar ? " | " : i ? ", " : " ");
        output_print(text, graph, &graph->outputs.at[i]);
    }
    text_puts(text, graph->n_forward_outputs == graph->outputs.n ? " |\n" : "\n");
}

void graph_print(Graph *graph, Text *text) { graph_print_notes(graph, (GraphNotes){0}, text); }

void graph_print_notes(Graph *graph, GraphNotes notes, Text *text) {
    graph_number(graph);
    header_print(text, graph);
    for (const Node *node = graph->first; node; node = node->next) node_print(text, graph, node, notes);
    for (int i = 0; i < graph->writes.n; i++) {
        const Write *write = &graph->writes.at[i];
        text_printf(text, "  write %%%s = ", write->input->name);
        val_print(text, graph, &write->value->base);
        text_puts(text, "\n");
    }
    results_print(text, graph);
    text_puts(text, "}\n");
}
