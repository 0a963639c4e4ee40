/* locator.c: see locator.h. */
#include "frontend/tool/locator.h"

#include <stdio.h>
#include <string.h>

#include "frontend/api/graph_handle.h"
#include "frontend/tool/inputs.h"
#include "passes/passes.h"
#include "runtime/base/text.h"
#include "runtime/compile/compile.h"

/* What is said of it -------------------------------------------------------------------------- */

/* Line `line` of a text, without blanks before it. */
static void copy_line(const char *text, int line, char *out, size_t capacity) {
    while (--line > 0 && text) text = (text = strchr(text, '\n')) ? text + 1 : NULL;
    if (!text) text = "";
    text += strspn(text, " ");
    snprintf(out, capacity, "%.*s", (int)strcspn(text, "\n"), text);
}

static void name_place(const Locator *l, const Node *node, char *out, size_t capacity) {
    char site[256] = "";
    if (node->site) site_name(node->site, site, sizeof site);
    const size_t n = strlen(l->graph->name);
    const bool own = l->source && !strncmp(site, l->graph->name, n) && site[n] == ':';
    snprintf(out, capacity, "%s%s", own ? l->source : "", own ? site + n : site);
}

/* The i-th node of the text, which was read again: its line is that of the text. */
void locator_report(const Locator *l, const Node *node) {
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
static Status set_graph(Locator *l, sn_graph *graph, const char *source) {
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
    if (job->want) TRY(joint_append(job->graph, &(JointSpec){.want = job->want, .grad_defined = job->defined}));
    return passes_run(job->graph, "joint", NULL);
}

Status locator_join(Locator *l) {
    Graph *const graph = l->graph;
    const int n = graph->inputs.n;
    bool *const want = ARENA_ARRAY(l->arena, bool, n + 1), *const defined =
                                                               ARENA_ARRAY(l->arena, bool, graph->outputs.n + 1);
    if (!want || !defined) return ST_MEMORY;
    bool any = false;
    for (int i = 0; l->gradients && i < n && i < l->n_in; i++) any |= want[i] = sn_requires_grad(l->in[i]);
    for (int i = 0; i < graph->outputs.n; i++) {
        const GVal *const value = graph->outputs.at[i].value;
        defined[i] = value && dtype_is_float(value->base.meta->dtype);
    }
    CompileReport info = {0};
    JointJob job = {graph, any ? want : NULL, defined};
    TRY(compile_guarded(graph, append_joint, &job, &info));
    graph_number(graph);
    Text text = {0};
    graph_print(graph, &text);
    l->text = arena_strdup(l->arena, text_str(&text));
    text_free(&text);
    return l->text ? ST_OK : ST_MEMORY;
}

/* One for each output that has a gradient, laid out as its type says. */
Status locator_seed(Locator *l, sn_tensor *const *results) {
    for (int i = 0; l->n_in < l->graph->inputs.n; i++) {
        if (i >= TARGET_OUTPUTS || l->n_in == TARGET_INPUTS) return error_raise(ST_UNSUPPORTED, "too many gradients");
        if (!results[i] || !dtype_is_float((DType)sn_dtype_of(results[i]))) continue;
        sn_tensor *const seed = sn_keep(sn_ones_like(sn_detach(results[i])));
        if (!seed) return error_pending();
        l->in[l->n_in++] = seed;
    }
    for (int i = 0; i < l->n_in; i++) sn_requires_grad_(l->in[i], false);
    return error_pending();
}

Status locator_run(const Locator *l, sn_tensor **results) {
    if (l->graph->outputs.n > TARGET_OUTPUTS) return error_raise(ST_UNSUPPORTED, "too many results");
    sn_graph *const graph = sn_graph_parse(l->text, strlen(l->text));
    sn_function *const fn = graph ? sn_graph_compile(graph, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER)) : NULL;
    if (fn) call_with_numbers(fn, l->in, l->n_in, &l->numbers, results, l->graph->outputs.n);
    sn_function_free(fn);
    sn_graph_free(graph);
    return error_pending();
}

/* Of the target ------------------------------------------------------------------------------- */

static Status copy_inputs(Locator *l, sn_tensor *const *in, int n) {
    for (int i = 0; i < n; i++) {
        l->in[i] = input_copy(in[i], sn_dtype_of(in[i]));
        if (!l->in[i]) return error_pending();
        l->n_in++;
    }
    return ST_OK;
}

Status locator_load(Locator *l, Target *t, int call) {
    sn_tensor *in[TARGET_INPUTS];
    int n = 0;
    if (call && l->o->vary) target_inputs(l->o, t, DEFAULT_SIZE * (call + 1));
    TRY(error_pending());
    sn_graph *const graph = way_graph(l->o, t, in, &n);
    if (!graph) return error_pending();
    const bool own = t->graph && target_is_file(l->o->name) && !l->o->device_given;
    if (graph == t->graph) l->numbers = t->numbers;
    l->gradients = (t->backward || l->o->grad) && !t->asks_gradients;
    Status status = copy_inputs(l, in, n);
    if (status == ST_OK) status = set_graph(l, graph, own ? l->o->name : NULL);
    way_graph_free(t, graph);
    return status;
}

void locator_end(Locator *l) {
    for (int i = 0; i < l->n_in; i++) sn_release(l->in[i]);
    arena_free(l->arena);
}
