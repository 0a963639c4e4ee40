/* pass.c: passes of the program's own, and patterns (sinter/graph.h). A pass gets the graph that is compiled, lent
 * as a graph object; between compile_disarm and compile_arm nothing bails out of its code. */
#include <stdio.h>

#include "frontend/api/backends.h"
#include "frontend/api/graph_handle.h"
#include "passes/pattern.h"
#include "passes/user_pass.h"
#include "runtime/base/alloc.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/custom_op.h"
#include "runtime/core/frame.h"

/* Registering --------------------------------------------------------------------------------- */

typedef struct PassCall {
    const UserPass *pass;
    sn_graph *graph;
    sn_status said;
} PassCall;

static void run_pass(void *argument) {
    PassCall *const call = argument;
    context_enter_scope(state_get(), CONTEXT_below_api);
    call->said = ((sn_pass_fn)call->pass->fn)(call->graph, call->pass->closure);
}

static Status call_pass(const UserPass *pass, sn_graph *g) {
    PassCall call = {pass, g, SN_OK};
    TRY(callback_run(pass->name, run_pass, &call));
    return call.said == SN_OK ? ST_OK : error_raise((Status)call.said, "it returned status %d", (int)call.said);
}

static Status run_on_graph(const UserPass *pass, Graph *graph) {
    Arena *const arena = arena_new(); /* of the handles */
    if (!arena) return ST_MEMORY;
    sn_graph lent = {.arena = arena, .graph = graph, .stage = pass->stage, .lent = true};
    graph_number(graph);
    Bail *const exit = compile_disarm(graph);
    const Status status = call_pass(pass, &lent);
    compile_arm(graph, exit);
    arena_free(arena);
    return status;
}

static const Stage stages[] = {
    [SN_PASS_CAPTURED] = STAGE_capture, [SN_PASS_JOINT] = STAGE_joint, [SN_PASS_DECOMPOSED] = STAGE_decomposed};

static Status register_pass(sn_pass_stage stage, sn_pass_fn fn, void *closure, const char *name, const char *version) {
    TRY(error_pending());
    TRY(extension_check("sn_pass_register", name, version));
    if ((unsigned)stage >= COUNT_OF(stages) || !fn)
        return error_raise(ST_ARGUMENT,
                           fn ? "sn_pass_register: there is no stage %d"
                              : "sn_pass_register: stage %d, the callback is NULL",
                           (int)stage);
    UserPass pass = {.stage = stages[stage],
                     .run = run_on_graph,
                     .fn = (void *)fn,
                     .closure = closure,
                     .batch = custom_op_batch(user_pass_withdraw)};
    snprintf(pass.name, sizeof pass.name, "%s", name); /* what extension_check lets through has room */
    snprintf(pass.version, sizeof pass.version, "%s", version ? version : "");
    return user_pass_add(&pass);
}

sn_status sn_pass_register(sn_pass_stage stage, sn_pass_fn fn, void *closure, const char *name, const char *version) {
    return (sn_status)register_pass(stage, fn, closure, name, version);
}

sn_status sn_pass_remove(const char *name) {
    if (!name) return (sn_status)error_raise(ST_ARGUMENT, "sn_pass_remove: the name is NULL");
    if (user_pass_remove(name)) return SN_OK;
    return (sn_status)error_raise(ST_ARGUMENT, "sn_pass_remove: there is no pass '%s'", name);
}

/* Patterns ------------------------------------------------------------------------------------ */

typedef struct PatternText {
    Arena *arena;
    Pattern pattern;
    Graph *replacement;
} PatternText;

static Status read_graph(Arena *arena, const char *text, const char *what, const char *which, Graph **out) {
    if (!text) return error_raise(ST_ARGUMENT, "%s: the %s is NULL", what, which);
    if (graph_parse(arena, text, strlen(text), out) == ST_OK) return ST_OK;
    char said[600];
    const Status status = error_pending();
    snprintf(said, sizeof said, "%.599s", error_slot()->message);
    error_clear();
    return error_raise(status, "%s: the %s: %s", what, which, said);
}

static Status read_pattern(const char *text, const char *what, PatternText *out) {
    Graph *graph;
    *out = (PatternText){.arena = arena_new()};
    if (!out->arena) return ST_MEMORY;
    TRY(read_graph(out->arena, text, what, "pattern", &graph));
    return pattern_of(graph, what, &out->pattern);
}

/* The first match whose last op stands behind `after`, or at `from` and behind. */
static bool find_match(const Pattern *pattern, Graph *graph, Node *from, Match *match) {
    const int *const uses = graph_use_counts(graph);
    for (Node *node = from; uses && node; node = node->next)
        if (pattern_matches(pattern, graph, uses, node, match)) return true;
    return false;
}

static int copy_match(sn_graph *g, const Match *match, sn_node **found, int capacity) {
    const Graph *const pattern = match->pattern->graph;
    int n = 0;
    for (int i = 0; i < pattern->inputs.n; i++, n++) {
        GVal *const value = match->values[pattern->inputs.at[i]->id];
        if (n < capacity) found[n] = value->def ? graph_handle(g, value->def, NULL) : graph_handle(g, NULL, value);
    }
    for (int i = 0; i < pattern->n_nodes; i++, n++)
        if (n < capacity) found[n] = graph_handle(g, match->nodes[i], NULL);
    return error_pending() ? -1 : n;
}

static int match_text(sn_graph *g, const char *text, sn_node *after, sn_node **found, int capacity) {
    PatternText read;
    Match match;
    int n = -1;
    if (read_pattern(text, "sn_graph_match", &read) == ST_OK) {
        graph_number(g->graph);
        Node *const from = after && after->node ? after->node->next : g->graph->first;
        n = find_match(&read.pattern, g->graph, from, &match) ? copy_match(g, &match, found, capacity) : 0;
    }
    arena_free(read.arena);
    return error_pending() ? -1 : n;
}

int sn_graph_match(sn_graph *g, const char *pattern, sn_node *after, sn_node **found, int capacity) {
    if (error_pending()) return -1;
    if (!g || capacity < 0 || (capacity && !found)) {
        error_raise(ST_ARGUMENT, "sn_graph_match: %s", g ? "no room for what is found" : "the graph is NULL");
        return -1;
    }
    if (after && graph_check_node(g, after, "sn_graph_match: `after`") != ST_OK) return -1;
    return match_text(g, pattern, after, found, capacity);
}

/* Behind what was put in: what a replacement gives is no new match. */
static int rewrite_all(sn_graph *g, PatternText *read) {
    static const char what[] = "sn_graph_rewrite";
    Match match;
    int n = 0;
    graph_number(g->graph);
    for (Node *from = g->graph->first; find_match(&read->pattern, g->graph, from, &match); n++) {
        from = match.nodes[read->pattern.graph->last->id]->next;
        if (pattern_replace(&match, g->graph, read->replacement, what) != ST_OK) return -1;
        graph_number(g->graph);
    }
    return n;
}

int sn_graph_rewrite(sn_graph *g, const char *pattern, const char *replacement) {
    static const char what[] = "sn_graph_rewrite";
    if (error_pending()) return -1;
    if (!g) return error_raise(ST_ARGUMENT, "%s: the graph is NULL", what), -1;
    PatternText read;
    Status status = read_pattern(pattern, what, &read);
    if (status == ST_OK) status = read_graph(read.arena, replacement, what, "replacement", &read.replacement);
    if (status == ST_OK) status = pattern_check_replacement(&read.pattern, read.replacement, what);
    const int n = status == ST_OK ? rewrite_all(g, &read) : -1;
    graph_number(g->graph);
    arena_free(read.arena);
    return error_pending() ? -1 : n;
}
