/* graph.c: the public functions of <sinter/graph.h> for whole graphs, as objects and text; graph_node.c has
 * those for nodes. */
#include <stdio.h>

#include "frontend/api/enter.h"
#include "frontend/api/graph_handle.h"
#include "frontend/api/graph_strides.h"
#include "frontend/lib/options.h"
#include "passes/passes.h"
#include "runtime/base/alloc.h"
#include "runtime/core/frame.h"
#include "runtime/capture/function/function.h"
#include "runtime/autograd/graph_run.h"
#include "runtime/core/site.h"

sn_graph *graph_wrap(Arena *arena, Graph *graph) {
    sn_graph *const g = ARENA_NEW(arena, sn_graph);
    if (!g) return NULL;
    g->arena = arena;
    g->graph = graph;
    graph_number(graph);
    return g;
}

void graph_accept_strides(sn_graph *g) { g->any_strides = true; }

sn_graph *sn_graph_parse(const char *text, size_t length) {
    if (error_pending()) return NULL;
    if (!text) {
        error_raise(ST_ARGUMENT, "sn_graph_parse: text is NULL");
        return NULL;
    }
    Arena *const arena = arena_new();
    Graph *graph;
    if (arena && graph_parse(arena, text, length, &graph) == ST_OK) {
        sn_graph *const g = graph_wrap(arena, graph);
        if (g) return g;
    }
    arena_free(arena);
    return NULL;
}

Status graph_is_own(const sn_graph *g, const char *what) {
    if (!g->lent) return ST_OK;
    return error_raise(ST_STATE, "%s: not in a pass, whose graph has the inputs of what is compiled", what);
}

void sn_graph_free(sn_graph *g) {
    if (!g || graph_is_own(g, "sn_graph_free") != ST_OK) return;
    for (int i = 0; i < g->known.n; i++) tensor_release(g->known.at[i].tensor);
    arena_free(g->arena);
}

/* What fn closed over; the references are the graph's from here on. */
static Status keep_closed(sn_graph *g, sn_tensor *const *closed) {
    for (int i = 0; i < g->graph->inputs.n; i++)
        if (closed[i]) VEC_PUSH(g->arena, &g->known, ((KnownInput){g->graph->inputs.at[i], closed[i], false}));
    return error_pending();
}

static sn_graph *captured(Status (*capture)(sn_function *, const Arg *, int, Arena *, Graph **, sn_tensor ***),
                          sn_function *fn, const sn_value *in, int n_in) {
    Arena *const arena = arena_new();
    if (!arena) return NULL;
    Graph *graph;
    sn_tensor **closed;
    const sn_scope scope = scope_begin_own();
    const Status status = capture(fn, (const Arg *)(const void *)in, n_in, arena, &graph, &closed);
    sn_scope_end(scope);
    sn_graph *const g = status == ST_OK ? graph_wrap(arena, graph) : NULL;
    if (!g)
        arena_free(arena);
    else
        keep_closed(g, closed);
    return g;
}

sn_graph *sn_graph_capture(sn_function *fn, const sn_value *in, int n_in) {
    API_ENTER(sn_graph_capture);
    if (!fn) {
        error_raise(ST_ARGUMENT, "sn_graph_capture: the function is NULL");
        return NULL;
    }
    if (n_in < 0 || (n_in && !in)) {
        error_raise(ST_ARGUMENT, "sn_graph_capture: the list of %d inputs is %s", n_in, n_in < 0 ? "none" : "NULL");
        return NULL;
    }
    return captured(function_capture, fn, in, n_in);
}

sn_graph *graph_capture_step(sn_function *fn, const sn_value *in, int n_in) {
    return captured(function_capture_step, fn, in, n_in);
}

/* A compiled graph is a compiled function whose body runs the graph's ops. -------------------- */

typedef struct GraphCall {
    sn_tensor **tensors, **outs;
    int64_t *ints;
} GraphCall;

static int count_bound(const sn_graph *g) {
    int n = 0;
    for (int i = 0; i < g->known.n; i++) n += g->known.at[i].bound;
    return n;
}

/* The call's arguments: tensors and ints in the order of the header, but for what is bound. */
static Status collect_inputs(sn_frame *f, const sn_graph *g, const GraphCall *call) {
    const Graph *const graph = g->graph;
    const int n = graph->inputs.n + graph->int_inputs.n, wanted = n - count_bound(g);
    if (sn_in_count(f) != wanted)
        return error_raise(ST_ARGUMENT, "graph %s: %d inputs wanted, %d given", graph->name, wanted, sn_in_count(f));
    for (int i = 0, k = 0, given = 0; i + k < n;) {
        if (k < graph->int_inputs.n && graph->int_inputs.at[k].before == i) {
            call->ints[k++] = sn_sym_arg(sn_in_sym(f, given++));
        } else {
            sn_tensor *const bound = graph_bound(g, graph->inputs.at[i]);
            if (!(call->tensors[i] = bound ? bound : sn_in(f, given++))) return error_pending();
            i++;
        }
    }
    return error_pending();
}

static Status run_graph(sn_frame *f, sn_graph *g, const GraphCall *call) {
    TRY(collect_inputs(f, g, call));
    const GraphInputs inputs = {call->tensors, call->ints, g->sites, g->any_strides};
    TRY(graph_run(g->graph, &inputs, call->outs));
    for (int i = 0; i < g->graph->outputs.n; i++)
        if (call->outs[i]) sn_out(f, i, call->outs[i]);
    return error_pending();
}

static sn_status body_of_graph(sn_frame *f) {
    sn_graph *const g = sn_closure(f);
    Arena *const arena = arena_new();
    const GraphCall call = {arena ? ARENA_ARRAY(arena, sn_tensor *, g->graph->inputs.n + 1) : NULL,
                            arena ? ARENA_ARRAY(arena, sn_tensor *, g->graph->outputs.n + 1) : NULL,
                            arena ? ARENA_ARRAY(arena, int64_t, g->graph->int_inputs.n + 1) : NULL};
    f->outs_optional |= g->returns_none;
    const Status status = call.tensors && call.outs && call.ints ? run_graph(f, g, &call) : ST_MEMORY;
    arena_free(arena);
    return (sn_status)status;
}

/* Where an error or a break in the graph is said to be: what the text says, or its line. */
static Status name_sites(sn_graph *g) {
    char place[300];
    const void **const sites = ARENA_ARRAY(g->arena, const void *, g->graph->n_nodes + 1);
    if (!sites) return ST_MEMORY;
    for (const Node *node = g->graph->first; node; node = node->next) {
        snprintf(place, sizeof place, node->where ? "%s" : "%s:%d", node->where ? node->where : g->graph->name,
                 node->line);
        sites[node->id] = site_of_text(place);
    }
    g->sites = sites;
    return ST_OK;
}

/* The copy was printed and read again: its lines are those of the text that the user wrote, if there was one. */
static void copy_lines(Graph *copy, const Graph *from) {
    const Node *old = from->first;
    for (Node *node = copy->first; node && old; node = node->next, old = old->next)
        if (old->line) node->line = old->line;
}

static Status copy_bound(sn_graph *copy, const sn_graph *from) {
    for (int i = 0; i < from->graph->inputs.n; i++) {
        sn_tensor *const t = graph_bound(from, from->graph->inputs.at[i]);
        if (t) TRY(graph_know(copy, copy->graph->inputs.at[i], t, true));
    }
    return ST_OK;
}

/* What the calls give and what is bound, for capture. */
static Status make_header(sn_graph *g) {
    Graph *const graph = g->graph;
    const int n = graph->inputs.n + graph->int_inputs.n;
    HeaderArgument *const arguments = ARENA_ARRAY(g->arena, HeaderArgument, n + 1);
    sn_tensor **const bound = ARENA_ARRAY(g->arena, sn_tensor *, graph->inputs.n + 1);
    if (!arguments || !bound) return ST_MEMORY;
    int given = 0;
    for (int i = 0, k = 0; i + k < n;) {
        if (k < graph->int_inputs.n && graph->int_inputs.at[k].before == i)
            arguments[given++] = (HeaderArgument){.tensor = -1, .number = k++};
        else if (!(bound[i] = graph_bound(g, graph->inputs.at[i])))
            arguments[given++] = (HeaderArgument){.tensor = i++, .number = -1};
        else
            i++;
    }
    g->header = (GraphHeader){.graph = graph, .n = given, .arguments = arguments, .bound = bound};
    return ST_OK;
}

/* What can be said before any call. */
static Status prepare_graph(sn_graph *g, const sn_graph *from) {
    copy_lines(g->graph, from->graph);
    g->any_strides = from->any_strides;
    TRY(copy_bound(g, from));
    TRY(graph_verify(g->graph, STAGE_capture));
    TRY(graph_check_symbols(g->graph));
    for (int i = 0; i < g->graph->outputs.n; i++) g->returns_none |= !g->graph->outputs.at[i].value;
    TRY(make_header(g));
    return name_sites(g);
}

static void free_closure(void *closure, void *context) {
    (void)context;
    sn_graph_free(closure);
}

sn_function *sn_graph_compile(sn_graph *g, const sn_compile_options *options) {
    if (!g) {
        error_raise(ST_ARGUMENT, "sn_graph_compile: the graph is NULL");
        return NULL;
    }
    sn_compile_options mine = {0};
    if (options_copy_in(&mine, sizeof mine, options, "sn_graph_compile") != ST_OK) return NULL;
    Text text = {0};
    graph_print(g->graph, &text);
    sn_graph *const copy = sn_graph_parse(text_str(&text), text.n);
    text_free(&text);
    if (!copy) return NULL;
    if (prepare_graph(copy, g) != ST_OK) {
        sn_graph_free(copy);
        return NULL;
    }
    mine.size = sizeof mine;
    mine.closure_free = free_closure;
    if (!mine.name) mine.name = copy->graph->name;
    sn_function *const fn = sn_compile(body_of_graph, copy, &mine);
    if (!fn) return sn_graph_free(copy), NULL;
    fn->n_results = copy->graph->outputs.n;
    if (mine.dynamic == SN_DYNAMIC_AUTO) fn->header = &copy->header; /* else the caller says what is symbolic */
    return fn;
}

const char *sn_graph_text(sn_graph *g) {
    API_ENTER(sn_graph_text);
    if (!g) return error_raise(ST_ARGUMENT, "sn_graph_text: the graph is NULL"), "";
    Text text = {0};
    graph_print(g->graph, &text);
    return text.at ? state_text(state_get(), text.at) : "";
}

sn_status sn_graph_check(sn_graph *g) {
    if (!g) return (sn_status)error_raise(ST_ARGUMENT, "sn_graph_check: the graph is NULL");
    const Status status = graph_verify(g->graph, g->lent ? g->stage : STAGE_capture);
    if (g->lent) return (sn_status)status;
    return (sn_status)(status == ST_OK ? graph_check_symbols(g->graph) : status);
}

typedef struct GraphPasses {
    Graph *graph;
    const char *names;
    bool lent;
} GraphPasses;

/* A lent graph (in a pass) takes only passes that keep its stage, its inputs and its outputs. */
static Status check_lent(const PassList *list) {
    PassList kept;
    TRY(passes_list("simplify", &kept));
    for (int i = 0; i < list->n; i++) {
        bool keeps = false;
        for (int k = 0; k < kept.n; k++) keeps |= list->at[i] == kept.at[k];
        if (!keeps) return error_raise(ST_STATE, "sn_graph_run: not in a pass: '%s'", list->at[i]->name);
    }
    return ST_OK;
}

static Status run_graph_passes(void *context) {
    const GraphPasses *const run = context;
    PassList list;
    TRY(passes_list(run->names, &list)); /* an unknown name is the caller's error, no pass that gave up */
    if (run->lent) TRY(check_lent(&list));
    return passes_run(run->graph, run->names, NULL);
}

sn_status sn_graph_run(sn_graph *g, const char *passes) {
    API_ENTER(sn_graph_run);
    if (!g || !passes) return (sn_status)error_raise(ST_ARGUMENT, "sn_graph_run: NULL argument");
    Bail exit;
    GraphPasses run = {g->graph, passes, g->lent};
    Status status = compile_exit(g->graph, run_graph_passes, &run, &exit);
    if (exit.code != BAIL_none) status = error_raise(status, "sn_graph_run: %s", exit.message);
    graph_number(g->graph);
    return (sn_status)status;
}
