/* locate.c: see locate.h. The graph is cut into ever longer beginnings, each of which is run eagerly and compiled:
 *
 *   all   every result of the whole graph is one of its outputs: one run shows the first that differs. Not where ops
 *         write, since a result would be shown as a later op leaves it.
 *   one   the graph up to op k has the results of op k as its outputs, for each k in turn: what is wrong only where a
 *         result is used up by its neighbours shows so.
 *
 * For a target with gradients then the same on the graph that has the ops of the gradients, too. */
#include <stdio.h>
#include <string.h>

#include "frontend/tool/inputs.h"
#include "frontend/tool/locator.h"
#include "frontend/tool/unset.h"
#include "runtime/base/alloc.h"
#include "runtime/base/text.h"

enum { RUNS = 2 /* the second is compiled */ };

/* Cuts ---------------------------------------------------------------------------------------- */

static bool node_writes(const Node *node) {
    if (node->form != FORM_functional) return true;
    for (int i = 0; i < node->row->n_params; i++)
        if (param_is_written(&node->row->params[i])) return true;
    return false;
}

static bool graph_has_writes(const Graph *graph) {
    bool writes = graph->writes.n > 0;
    for (const Node *node = graph->first; node && !writes; node = node->next) writes = node_writes(node);
    return writes;
}

/* Up to node `last`, with its results, or all, as outputs. */
static void cut_graph(Graph *graph, int last, bool all) {
    graph->outputs.n = graph->writes.n = 0;
    graph->n_forward_outputs = graph->n_forward_inputs = 0;
    while (graph->last && graph->last->id > last) graph_remove(graph, graph->last);
    for (Node *node = graph->first; node; node = node->next)
        for (int i = 0; i < node->n_outs && (all || node->id == last); i++)
            if (node->outs[i].base.meta) graph_output(graph, &node->outs[i]);
}

static sn_graph *cut(const Locator *l, int last, bool all, int *n_out) {
    Arena *const arena = arena_new();
    Graph *graph;
    Text text = {0};
    if (arena && graph_parse(arena, l->text, strlen(l->text), &graph) == ST_OK) {
        graph_number(graph);
        cut_graph(graph, last, all);
        *n_out = graph->outputs.n;
        graph_print(graph, &text);
    }
    sn_graph *const made = error_pending() ? NULL : sn_graph_parse(text_str(&text), text.n);
    text_free(&text);
    arena_free(arena);
    return made;
}

/* Runs ---------------------------------------------------------------------------------------- */

static void run_once(const Locator *l, sn_function *fn, HostValue *values, int n_out) {
    sn_tensor *in[TARGET_INPUTS], **const out = mem_zero((size_t)(n_out + 1) * sizeof *out);
    const sn_scope scope = sn_scope_begin();
    sn_seed(0);
    for (int i = 0; i < l->n_in; i++) {
        in[i] = input_copy(l->in[i], sn_dtype_of(l->in[i]));
    }
    if (out && !sn_check() && call_with_numbers(fn, in, l->n_in, &l->numbers, out, n_out) == SN_OK)
        for (int i = 0; i < n_out; i++) {
            host_value_free(&values[i]);
            values[i] = host_value(out[i]);
        }
    for (int i = 0; i < l->n_in; i++) sn_release(in[i]);
    sn_scope_end(scope);
    mem_free(out);
}

/* values: n_out, the last run's. False: an error is pending. */
static bool run_cut(const Locator *l, sn_graph *graph, Way way, HostValue *values, int n_out) {
    const sn_compile_options options = way_options(l->o, way);
    sn_function *const fn = sn_graph_compile(graph, &options);
    for (int i = 0; i < RUNS && fn && !sn_check(); i++) run_once(l, fn, values, n_out);
    sn_function_free(fn);
    return !sn_check();
}

/* As ways do it (unset.h). */
static bool run_eager_cut(const Locator *l, sn_graph *graph, HostValue *values, int n_out) {
    UnsetFill fill;
    unset_fill_begin(&fill, unset_bytes[0]);
    bool ran = run_cut(l, graph, WAY_eager, values, n_out);
    unset_fill_end(&fill);
    for (int k = 1; k < UNSET_FILLS && ran && fill.made; k++) {
        HostValue *const other = mem_zero((size_t)(n_out + 1) * sizeof *other);
        unset_fill_begin(&fill, unset_bytes[k]);
        ran = other && run_cut(l, graph, WAY_eager, other, n_out);
        unset_fill_end(&fill);
        for (int i = 0; i < n_out && other; i++) {
            if (ran) host_value_mark(&values[i], &other[i]);
            host_value_free(&other[i]);
        }
        mem_free(other);
    }
    return ran;
}

typedef struct CutRun {
    HostValue *eager, *compiled;
    int n;
} CutRun;

static bool cut_begin(CutRun *run, int n) {
    *run = (CutRun){mem_zero((size_t)(n + 1) * sizeof(HostValue)), mem_zero((size_t)(n + 1) * sizeof(HostValue)), n};
    return run->eager && run->compiled;
}

static void cut_end(CutRun *run) {
    for (int i = 0; i < run->n; i++) {
        if (run->eager) host_value_free(&run->eager[i]);
        if (run->compiled) host_value_free(&run->compiled[i]);
    }
    mem_free(run->eager);
    mem_free(run->compiled);
}

static void record_difference(const Locator *l, const HostValue *got, const HostValue *eager) {
    Text text = {0};
    host_values_print(got, eager, &text);
    snprintf(l->out->how, sizeof l->out->how, "%s", text_str(&text));
    text_free(&text);
}

/* Which output differs first; -1: none does, or a run fails, which says nothing of an op. */
static int first_output(const Locator *l, int last, bool all) {
    CutRun run;
    int first = -1, n_out = 0;
    sn_graph *const graph = cut(l, last, all, &n_out);
    if (cut_begin(&run, n_out) && graph && run_eager_cut(l, graph, run.eager, n_out)) {
        const bool ran = run_cut(l, graph, l->way, run.compiled, n_out);
        if (!ran) {
            snprintf(l->out->how, sizeof l->out->how, "error: %.500s", error_slot()->message);
            first = n_out - 1;
        }
        int64_t element, n;
        for (int i = 0; i < n_out && ran && first < 0; i++)
            if (!host_values_same(&run.compiled[i], &run.eager[i], &element, &n)) first = i;
        if (ran && first >= 0) record_difference(l, &run.compiled[first], &run.eager[first]);
    }
    error_clear();
    cut_end(&run);
    sn_graph_free(graph);
    return first;
}

/* The node whose result is that output of the whole graph's. */
static const Node *node_of_output(const Graph *graph, int output) {
    for (const Node *node = graph->first; node; node = node->next)
        for (int i = 0; i < node->n_outs; i++)
            if (node->outs[i].base.meta && output-- == 0) return node;
    return NULL;
}

static const Node *find_node(const Locator *l) {
    const Graph *const graph = l->graph;
    if (!graph->last) return NULL;
    const int output = graph_has_writes(graph) ? -1 : first_output(l, graph->last->id, true);
    if (output >= 0 && strncmp(l->out->how, "error", 5)) return node_of_output(graph, output);
    for (const Node *node = graph->first; node; node = node->next)
        if (first_output(l, node->id, false) >= 0) return node;
    return NULL;
}

static Status locate_backward(Locator *l) {
    sn_tensor *results[TARGET_OUTPUTS] = {NULL};
    TRY(locator_run(l, results));
    TRY(locator_join(l));
    TRY(locator_seed(l, results));
    const Node *const node = find_node(l);
    l->out->backward = node != NULL;
    if (node) locator_report(l, node);
    return ST_OK;
}

static Status locate_in(Locator *l, Target *t, int call) {
    TRY(locator_load(l, t, call));
    const Node *const node = find_node(l);
    if (node) locator_report(l, node);
    if (node || !l->gradients) return ST_OK;
    return locate_backward(l);
}

void locate_difference(const TargetOptions *o, Way way, int call, Located *out) {
    Target t;
    *out = (Located){0};
    Locator l = {.o = o, .way = way, .arena = arena_new(), .out = out};
    if (way_open(o, &t) && l.arena) {
        const Status status = locate_in(&l, &t, call);
        if (!out->found)
            snprintf(out->nothing, sizeof out->nothing, "%s",
                     status == ST_OK ? "by itself each op has eager's bits" : error_slot()->message);
        error_clear();
        way_close(&t);
    }
    locator_end(&l);
}
