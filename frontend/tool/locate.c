/* locate.c: see locate.h. The graph is cut into ever longer beginnings, each of which is run eagerly and compiled:
 *
 *   all   every result of the whole graph is one of its outputs: one run shows the first that differs. Not where ops
 *         write, since a result would be shown as a later op leaves it.
 *   one   the graph up to op k has the results of op k as its outputs, for each k in turn: what is wrong only where a
 *         result is used up by its neighbours shows so.
 *
 * For a target with gradients then the same on the graph that has the ops of the gradients, too. */
#include "frontend/tool/locate.h"

#include <stdio.h>
#include <string.h>

#include "frontend/graph_handle.h"
#include "passes/passes.h"
#include "runtime/base/text.h"
#include "runtime/compile/compile.h"

enum { RUNS = 2 /* the second is compiled */ };

typedef struct Locator {
    const TargetOptions *o;
    Way way;
    sn_tensor *in[TARGET_INPUTS]; /* kept */
    int n_in;
    Arena *arena;
    Graph *graph; /* whose nodes have their places */
    const char *text;
    const char *source; /* the file that places of the text are in; NULL: it is no text */
    Located *out;
} Locator;

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
        in[i] = sn_clone_ex(sn_detach(l->in[i]), sn_int(SN_PRESERVE_FORMAT));
        if (sn_requires_grad(l->in[i])) sn_requires_grad_(in[i], true);
    }
    if (out && sn_call(fn, in, l->n_in, out, n_out) == SN_OK)
        for (int i = 0; i < n_out; i++) {
            host_value_free(&values[i]);
            values[i] = host_value(out[i]);
        }
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

static void note_difference(const Locator *l, const HostValue *got, const HostValue *eager) {
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
    if (cut_begin(&run, n_out) && graph && run_cut(l, graph, WAY_eager, run.eager, n_out)) {
        const bool ran = run_cut(l, graph, l->way, run.compiled, n_out);
        if (!ran) {
            snprintf(l->out->how, sizeof l->out->how, "error: %.500s", error_slot()->message);
            first = n_out - 1;
        }
        int64_t element, n;
        for (int i = 0; i < n_out && ran && first < 0; i++)
            if (!host_values_same(&run.compiled[i], &run.eager[i], &element, &n)) first = i;
        if (ran && first >= 0) note_difference(l, &run.compiled[first], &run.eager[first]);
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

/* What is said of it -------------------------------------------------------------------------- */

/* Line `line` of a text, without blanks before it. */
static void copy_line(const char *text, int line, char *out, size_t room) {
    while (--line > 0 && text) text = (text = strchr(text, '\n')) ? text + 1 : NULL;
    if (!text) text = "";
    text += strspn(text, " ");
    snprintf(out, room, "%.*s", (int)strcspn(text, "\n"), text);
}

static void name_place(const Locator *l, const Node *node, char *out, size_t room) {
    char site[256] = "";
    if (node->site) site_name(node->site, site, sizeof site);
    const size_t n = strlen(l->graph->name);
    const bool own = l->source && !strncmp(site, l->graph->name, n) && site[n] == ':';
    snprintf(out, room, "%s%s", own ? l->source : "", own ? site + n : site);
}

/* The i-th node of the text, which was read again: its line is that of the text. */
static void say_node(const Locator *l, const Node *node) {
    Arena *const arena = arena_new();
    Graph *graph;
    Text text = {0};
    snprintf(l->out->op, sizeof l->out->op, "%s", op_form_name(node->row, node->form));
    name_place(l, node, l->out->place, sizeof l->out->place);
    if (arena && graph_parse(arena, l->text, strlen(l->text), &graph) == ST_OK) {
        graph_print_notes(graph, (GraphNotes){.types = true}, &text);
        graph_number(graph);
        const Node *same = graph->first;
        while (same && same->id != node->id) same = same->next;
        if (same) copy_line(text_str(&text), same->line, l->out->text, sizeof l->out->text);
    }
    text_free(&text);
    arena_free(arena);
    error_clear();
    l->out->found = true;
}

/* Graphs -------------------------------------------------------------------------------------- */

/* Where an error in a text is said to be: what it says, or its line. */
static void name_text_sites(Graph *graph) {
    char place[300];
    for (Node *node = graph->first; node; node = node->next) {
        snprintf(place, sizeof place, node->where ? "%s" : "%s:%d", node->where ? node->where : graph->name,
                 node->line);
        node->site = site_of_text(place);
    }
}

/* l->graph: with the places of a graph of the target, as the text that it prints. */
static Status take_graph(Locator *l, sn_graph *graph, const char *source) {
    const char *const printed = arena_strdup(l->arena, sn_graph_text(graph));
    if (!printed) return ST_MEMORY;
    l->source = source;
    TRY(graph_parse(l->arena, printed, strlen(printed), &l->graph));
    const Node *from = graph->graph->first;
    for (Node *node = l->graph->first; node && from; node = node->next, from = from->next)
        node->line = from->line, node->site = from->site;
    if (source) name_text_sites(l->graph);
    l->text = printed;
    graph_number(l->graph);
    return ST_OK;
}

typedef struct JointJob {
    Graph *graph;
    const bool *want, *defined;
} JointJob;

static Status append_joint(void *context) {
    const JointJob *const job = context;
    TRY(passes_run(job->graph, "functionalize", NULL));
    TRY(joint_append(job->graph, &(JointSpec){.want = job->want, .grad_defined = job->defined}));
    return passes_run(job->graph, "joint", NULL);
}

/* The graph goes on with the ops of the gradients, whose seeds are ones. */
static Status add_gradients(Locator *l) {
    Graph *const graph = l->graph;
    const int n = graph->inputs.n;
    bool *const want = ARENA_ARRAY(l->arena, bool, n + 1), *const defined =
                                                               ARENA_ARRAY(l->arena, bool, graph->outputs.n + 1);
    if (!want || !defined) return ST_MEMORY;
    for (int i = 0; i < n && i < l->n_in; i++) want[i] = sn_requires_grad(l->in[i]);
    for (int i = 0; i < graph->outputs.n; i++) {
        const GVal *const value = graph->outputs.at[i].value;
        defined[i] = value && dtype_is_float(value->base.meta->dtype);
    }
    CompileReport info = {0};
    JointJob job = {graph, want, defined};
    TRY(compile_guarded(graph, append_joint, &job, &info));
    graph_number(graph);
    Text text = {0};
    graph_print(graph, &text);
    l->text = arena_strdup(l->arena, text_str(&text));
    text_free(&text);
    return l->text ? ST_OK : ST_MEMORY;
}

/* One for each output that has a gradient, laid out as its type says. */
static Status add_seeds(Locator *l, sn_tensor *const *results) {
    for (int i = 0; l->n_in < l->graph->inputs.n; i++) {
        if (i >= TARGET_OUTPUTS || l->n_in == TARGET_INPUTS) return error_raise(ST_UNSUPPORTED, "too many gradients");
        if (!results[i] || !dtype_is_float((DType)sn_dtype_of(results[i]))) continue;
        sn_tensor *const seed = sn_keep(sn_ones_like(sn_detach(results[i])));
        if (!seed) return error_pending();
        l->in[l->n_in++] = seed;
    }
    return ST_OK;
}

/* Results of the eager graph, for their sizes. */
static Status run_results(const Locator *l, sn_tensor **results) {
    sn_graph *const graph = sn_graph_parse(l->text, strlen(l->text));
    sn_function *const fn = graph ? sn_graph_compile(graph, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER)) : NULL;
    if (fn) sn_call(fn, l->in, l->n_in, results, l->graph->outputs.n);
    sn_function_free(fn);
    sn_graph_free(graph);
    return error_pending();
}

static Status locate_backward(Locator *l) {
    sn_tensor *results[TARGET_OUTPUTS] = {NULL};
    if (l->graph->outputs.n > TARGET_OUTPUTS) return error_raise(ST_UNSUPPORTED, "too many results");
    TRY(run_results(l, results));
    TRY(add_gradients(l));
    TRY(add_seeds(l, results));
    for (int i = 0; i < l->n_in; i++) sn_requires_grad_(l->in[i], false);
    const Node *const node = find_node(l);
    l->out->backward = node != NULL;
    if (node) say_node(l, node);
    return ST_OK;
}

/* Of the target ------------------------------------------------------------------------------- */

static Status take_inputs(Locator *l, sn_tensor *const *in, int n) {
    for (int i = 0; i < n; i++) {
        l->in[i] = sn_keep(sn_clone_ex(sn_detach(in[i]), sn_int(SN_PRESERVE_FORMAT)));
        if (!l->in[i]) return error_pending();
        l->n_in++;
        if (sn_requires_grad(in[i])) sn_requires_grad_(l->in[i], true);
    }
    return ST_OK;
}

static Status locate_in(Locator *l, Target *t, int call) {
    sn_tensor *in[TARGET_INPUTS];
    int n = 0;
    if (call && l->o->vary) target_inputs(l->o, t, DEFAULT_SIZE * (call + 1));
    TRY(error_pending());
    sn_graph *const graph = way_graph(l->o, t, in, &n);
    if (!graph) return error_pending();
    const bool own = t->graph && target_is_file(l->o->name) && !l->o->device_given;
    Status status = take_inputs(l, in, n);
    if (status == ST_OK) status = take_graph(l, graph, own ? l->o->name : NULL);
    way_graph_free(t, graph);
    TRY(status);
    const Node *const node = find_node(l);
    if (node) say_node(l, node);
    if (node || !(t->backward || l->o->grad)) return ST_OK;
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
    for (int i = 0; i < l.n_in; i++) sn_release(l.in[i]);
    arena_free(l.arena);
}
