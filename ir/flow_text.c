/* flow_text.c: see flow_text.h. A text gets its numbers as a graph: each symbolic int of it is evaluated, then it is
 * printed, and read again for the bodies in it, whose operands have numbers now. */
#include "ir/flow_text.h"

Status flow_text_read(Arena *arena, const char *text, const Arg *ints, int *next, FlowText *out, bool *enough) {
    TRY(graph_parse(arena, text, strlen(text), &out->graph));
    Graph *const graph = out->graph;
    const int n = sym_free_count(graph->env);
    out->values = ARENA_ARRAY(arena, int64_t, n + 1);
    out->bound = ARENA_ARRAY(arena, bool, n + 1);
    if (!out->values || !out->bound) return ST_MEMORY;
    *enough = ints->n - *next >= graph->int_inputs.n;
    for (int i = 0; *enough && i < graph->int_inputs.n; i++) {
        const int64_t symbol = sym_expr(graph->env, graph->int_inputs.at[i].symbol)->a;
        out->values[symbol] = ints->ints[(*next)++];
        out->bound[symbol] = true;
    }
    return ST_OK;
}

void flow_text_bind(const FlowText *text, const Meta *input, const int64_t *sizes) {
    for (int d = 0; d < input->rank; d++) {
        const SymExpr *const e = sym_is(input->sizes[d]) ? sym_expr(text->graph->env, input->sizes[d]) : NULL;
        if (!e || e->op != SYM_free || text->bound[e->a]) continue;
        text->values[e->a] = sizes[d];
        text->bound[e->a] = true;
    }
}

bool flow_text_is_bound(const FlowText *text, int64_t v) {
    if (!sym_is(v)) return true;
    const SymExpr *const e = sym_expr(text->graph->env, v);
    if (e->op == SYM_free) return text->bound[e->a];
    return flow_text_is_bound(text, e->a) && flow_text_is_bound(text, e->b);
}

int64_t flow_text_value(const FlowText *text, SymEnv *env, int64_t v) {
    return sym_is(v) ? sym_move(env, text->graph->env, v, text->values) : v;
}

static int64_t unbound_in_list(const FlowText *text, const int64_t *list, int n) {
    for (int i = 0; i < n; i++)
        if (!flow_text_is_bound(text, list[i])) return list[i];
    return 0;
}

static int64_t unbound_in_node(const FlowText *text, const Node *node) {
    for (int i = 0; i < node->n_args; i++) {
        const Arg *const a = &node->args[i];
        const int n = a->kind == ARG_int ? 1 : a->kind == ARG_ints ? a->n : 0;
        const int64_t found = unbound_in_list(text, a->kind == ARG_int ? &a->i : a->ints, n);
        if (found) return found;
    }
    return 0;
}

int64_t flow_text_unbound(const FlowText *text) {
    const Graph *const graph = text->graph;
    int64_t found = 0;
    for (const Node *node = graph->first; node && !found; node = node->next) found = unbound_in_node(text, node);
    for (int i = 0; i < graph->outputs.n && !found; i++) {
        const Meta *const meta = graph->outputs.at[i].value ? graph->outputs.at[i].value->base.meta : NULL;
        found = meta ? unbound_in_list(text, meta->sizes, meta->rank) : 0;
    }
    return found;
}

bool flow_text_has_numbers(const Graph *graph) {
    return !graph->int_inputs.n && sym_free_count(graph->env) == (graph->seed ? 2 : 0);
}

/* Numbers ------------------------------------------------------------------------------------- */

static const int64_t *plain_list(const FlowText *text, const int64_t *list, int n) {
    int64_t *const out = ARENA_ARRAY(text->graph->arena, int64_t, n + 1);
    for (int i = 0; out && i < n; i++) out[i] = flow_text_value(text, NULL, list[i]);
    return out;
}

static Status plain_input(const FlowText *text, GVal *input) {
    const Meta *const meta = input->base.meta;
    const int64_t *const sizes = plain_list(text, meta->sizes, meta->rank);
    const int64_t *const strides = plain_list(text, meta->strides, meta->rank);
    if (!sizes || !strides) return ST_MEMORY;
    Meta *const plain = meta_new(text->graph->arena, NULL, meta->dtype, meta->device, sizes, strides, meta->rank);
    if (!plain) return ST_MEMORY;
    plain->wrapped = meta->wrapped;
    input->base.meta = plain;
    return ST_OK;
}

static Status plain_node(const FlowText *text, Node *node) {
    for (int i = 0; i < node->n_args; i++) {
        Arg *const a = &node->args[i];
        if (a->kind == ARG_int) a->i = flow_text_value(text, NULL, a->i);
        if (a->kind == ARG_ints && !(a->ints = plain_list(text, a->ints, a->n))) return ST_MEMORY;
    }
    return ST_OK;
}

/* What is left of the symbols are the generator's two. */
static Status plain_graph(const FlowText *text) {
    Graph *const graph = text->graph;
    for (int i = 0; i < graph->inputs.n; i++) TRY(plain_input(text, graph->inputs.at[i]));
    for (Node *node = graph->first; node; node = node->next) TRY(plain_node(text, node));
    graph->int_inputs.n = 0;
    graph->env = graph->builder.env = sym_env_new(graph->arena);
    if (!graph->env) return ST_MEMORY;
    if (graph->seed) {
        graph->seed = sym_free(graph->env, 2, 0);
        graph->sequence = sym_free(graph->env, 2, 0);
    }
    return ST_OK;
}

static Status print_into(Arena *arena, Graph *graph, const char **out) {
    Text text = {0};
    graph_print(graph, &text);
    *out = arena_strdup(arena, text_str(&text));
    text_free(&text);
    return *out ? ST_OK : ST_MEMORY;
}

static Status plain_inside(Arena *arena, const char **text) {
    Graph *graph;
    bool any = false;
    TRY(graph_parse(arena, *text, strlen(*text), &graph));
    for (Node *node = graph->first; node; node = node->next) {
        if (!(node->row->flags & OPF_flow) || flow_args_are_plain(node->row, node->args)) continue;
        TRY(flow_args_plain(arena, node->row, node->args, NULL));
        any = true;
    }
    return any ? print_into(arena, graph, text) : ST_OK;
}

static void note_numbers(FlowNumbers *numbers, const FlowText *text, int param, const char *general) {
    if (!numbers) return;
    const int i = numbers->count++;
    numbers->texts[i].param = param, numbers->texts[i].general = general;
    numbers->texts[i].values = text->values, numbers->texts[i].n = sym_free_count(text->graph->env);
}

Status flow_args_plain(Arena *arena, const OpRow *row, Arg *args, FlowNumbers *numbers) {
    FlowText texts[FLOW_BODIES];
    int params[FLOW_BODIES], n = 0;
    MetaCall call = {.row = row, .args = args};
    if (numbers) numbers->count = 0;
    TRY(meta_flow_bind(&call, arena, texts, params, &n));
    for (int i = 0; i < n; i++) {
        if (flow_text_has_numbers(texts[i].graph)) continue;
        note_numbers(numbers, &texts[i], params[i], args[params[i]].string);
        TRY(plain_graph(&texts[i]));
        TRY(print_into(arena, texts[i].graph, &args[params[i]].string));
    }
    for (int i = 0; i < n; i++) TRY(plain_inside(arena, &args[params[i]].string));
    const int ints = op_param_find(row, "ints");
    if (ints >= 0) args[ints] = A_INTS(NULL, 0);
    return ST_OK;
}

/* "s3" that is no part of a word, nor a value's name. */
static bool names_symbol(const char *text) {
    for (const char *at = text; (at = strchr(at, 's')); at++) {
        const char before = at == text ? ' ' : at[-1];
        const bool inside = before == '%' || before == '_' || (before >= '0' && before <= '9') ||
                            (before >= 'A' && before <= 'Z') || (before >= 'a' && before <= 'z');
        if (!inside && at[1] >= '0' && at[1] <= '9') return true;
    }
    return false;
}

bool flow_args_are_plain(const OpRow *row, const Arg *args) {
    for (int i = 0; i < row->n_params; i++)
        if (args[i].kind == ARG_string && names_symbol(args[i].string)) return false;
    const int ints = op_param_find(row, "ints");
    return ints < 0 || !args[ints].n;
}
