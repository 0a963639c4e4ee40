/* captured_graph.c: see captured_graph.h. The capture graph has its inputs by first use and its outputs by value;
 * both are put in the order of the call. */
#include "runtime/capture/function/captured_graph.h"
#include "runtime/core/site.h"

typedef struct Made {
    const CapturedCall *call;
    const Variant *variant;
    Graph *graph;
    GVal **captured;  /* by input of the trace; NULL: the graph has none for it */
    GVal **arguments; /* by argument; NULL: a number, or absent */
} Made;

static const sn_tensor *argument(const CapturedCall *call, int i) {
    return call->in[i].kind == ARG_tensor && call->in[i].val ? tensor_of(call->in[i].val) : NULL;
}

/* The first argument that is this tensor, or -1. */
static int argument_of(const CapturedCall *call, const sn_tensor *t) {
    for (int i = 0; t && i < call->n_in; i++)
        if (argument(call, i) == t) return i;
    return -1;
}

static int captured_of(const CapturedCall *call, const sn_tensor *t) {
    for (int i = 0; i < call->trace->inputs.n; i++)
        if (call->trace->inputs.at[i].tensor == t) return i;
    return -1;
}

static Status find_inputs(Made *m) {
    const Variant *const v = m->variant;
    m->captured = ARENA_ARRAY(m->graph->arena, GVal *, m->call->trace->inputs.n);
    m->arguments = ARENA_ARRAY(m->graph->arena, GVal *, m->call->n_in);
    if (!m->captured || !m->arguments) return ST_MEMORY;
    for (int i = 0; i < v->n_graph_inputs; i++) {
        if (v->graph_inputs[i].base)
            return error_raise(ST_UNSUPPORTED, "%s: no graph of its arguments: written inputs share memory",
                               m->call->trace->capture->fn->name);
        m->captured[v->graph_inputs[i].captured] = m->graph->inputs.at[i];
    }
    return ST_OK;
}

/* The next input: a value that the graph has, or one that nothing uses. */
static GVal *put_input(Made *m, GVal *value, const char *name, const Meta *meta) {
    GVal *const made = name ? graph_input(m->graph, name, meta) : NULL;
    if (!made || !value) return made;
    value->name = made->name;
    value->index = made->index;
    return m->graph->inputs.at[made->index] = value;
}

static Status put_arguments(Made *m) {
    for (int i = 0; i < m->call->n_in; i++) {
        const sn_tensor *const t = argument(m->call, i);
        if (!t) continue;
        const int k = argument_of(m->call, t) == i ? captured_of(m->call, t) : -1;
        GVal *const value = k >= 0 ? m->captured[k] : NULL;
        const char *const name = arena_printf(m->graph->arena, "x%d", i);
        if (!value) meta_stay(t->base.meta);
        m->arguments[i] = put_input(m, value, name, value ? value->base.meta : t->base.meta);
        if (!m->arguments[i]) return ST_MEMORY;
    }
    return ST_OK;
}

static Status put_closed_over(Made *m) {
    const Trace *const trace = m->call->trace;
    for (int k = 0, n = 0; k < trace->inputs.n; k++) {
        if (!m->captured[k] || argument_of(m->call, trace->inputs.at[k].tensor) >= 0) continue;
        const char *const name = arena_printf(m->graph->arena, "closed%d", n++);
        if (!put_input(m, m->captured[k], name, m->captured[k]->base.meta)) return ST_MEMORY;
    }
    return ST_OK;
}

static Status order_inputs(Made *m) {
    graph_drop_inputs(m->graph); /* names of the old order make room */
    TRY(put_arguments(m));
    return put_closed_over(m);
}

static GVal *value_of(const Made *m, const Output *outputs, const sn_tensor *t) {
    for (int i = 0; i < m->variant->n_outputs; i++)
        if (m->call->trace->values.at[m->variant->outputs[i]] == t) return outputs[i].value;
    const int argument = argument_of(m->call, t), k = captured_of(m->call, t);
    return argument >= 0 ? m->arguments[argument] : k >= 0 ? m->captured[k] : NULL;
}

static Status order_outputs(Made *m) {
    const Output *const before = m->graph->outputs.at;
    m->graph->outputs.at = NULL;
    m->graph->outputs.n = m->graph->outputs.capacity = 0;
    int n = m->call->n_out;
    while (n && !m->call->out[n - 1]) n--;
    for (int i = 0; i < n; i++) {
        const sn_tensor *const t = m->call->out[i];
        GVal *const value = t ? value_of(m, before, t) : NULL;
        if (t && !value)
            return error_raise(ST_UNSUPPORTED, "%s: output %d is neither a result of its ops nor an input",
                               m->call->trace->capture->fn->name, i);
        graph_output(m->graph, value);
    }
    return ST_OK;
}

static sn_tensor **closed_over(const Made *m) {
    const Trace *const trace = m->call->trace;
    sn_tensor **const closed = ARENA_ARRAY(m->graph->arena, sn_tensor *, m->graph->inputs.n);
    for (int k = 0; closed && k < trace->inputs.n; k++) {
        sn_tensor *const t = trace->inputs.at[k].tensor;
        if (!m->captured[k] || argument_of(m->call, t) >= 0) continue;
        tensor_retain(t);
        closed[m->captured[k]->index] = t;
    }
    return closed;
}

Status captured_graph(const CapturedCall *call, const Variant *variant, Arena *arena, Graph **out,
                      sn_tensor ***closed) {
    Made m = {.call = call, .variant = variant};
    TRY(graph_parse(arena, variant->text, strlen(variant->text), &m.graph));
    dump_sites(m.graph, variant->origin.sites);
    TRY(find_inputs(&m));
    TRY(order_inputs(&m));
    TRY(order_outputs(&m));
    graph_number(m.graph);
    *out = m.graph;
    return (*closed = closed_over(&m)) ? ST_OK : ST_MEMORY;
}

/* In the stage "capture" ----------------------------------------------------------------------- */

static GVal *input_called(GVal *const *inputs, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (!strcmp(inputs[i]->name, name)) return inputs[i];
    return NULL;
}

static Status put_in_order(const Variant *v, Graph *graph) {
    GVal *const *const inputs = graph->inputs.at;
    const int n = graph->inputs.n;
    graph->inputs.at = NULL;
    graph->inputs.n = graph->inputs.capacity = 0;
    for (int i = 0; i < v->origin.n_arguments; i++) {
        const char *const name = input_name_word(graph->arena, (InputName){INPUT_argument, i});
        GVal *const used = name ? input_called(inputs, n, name) : NULL;
        if (!name) return ST_MEMORY;
        if (used)
            VEC_PUSH(graph->arena, &graph->inputs, used);
        else if (v->origin.arguments[i] && !graph_input(graph, name, v->origin.arguments[i]))
            return ST_MEMORY;
    }
    for (int i = 0; i < n; i++)
        if (inputs[i]->name[0] != 'x') VEC_PUSH(graph->arena, &graph->inputs, inputs[i]);
    for (int i = 0; i < graph->inputs.n; i++) graph->inputs.at[i]->index = i;
    return error_pending();
}

Status captured_text(const Variant *variant, const Dump *dump, Text *text) {
    Arena *const arena = arena_new();
    Graph *graph = NULL;
    Status status = arena ? graph_parse(arena, variant->text, strlen(variant->text), &graph) : ST_MEMORY;
    if (status == ST_OK) dump_sites(graph, variant->origin.sites);
    if (status == ST_OK) status = put_in_order(variant, graph);
    if (status == ST_OK) graph_print_notes(graph, dump_notes(dump, site_name), text);
    arena_free(arena);
    return status;
}
