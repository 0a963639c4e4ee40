/* graph_header.c: the public functions of <sinter/graph.h> for the symbols of a graph in the making: expressions of
 * them, what they may be, and what must hold of them: what the text has between "graph f" and its inputs. */
#include "frontend/api/graph_build.h"

/* Blanks are for the reader. */
static const char *without_blanks(Arena *arena, const char *text) {
    char *const out = arena_alloc(arena, strlen(text) + 1), *to = out;
    for (; out && *text; text++)
        if (*text != ' ') *to++ = *text;
    if (out) *to = '\0';
    return out;
}

/* "sn_graph_sym: 's0+' is no expression: ..." of the pending error; memory's stays. */
static Status said_of(const char *function, const char *what, const char *text) {
    char said[sizeof error_slot()->message];
    if (error_pending() == ST_MEMORY) return ST_MEMORY;
    memcpy(said, error_slot()->message, sizeof said);
    error_clear();
    return error_raise(ST_ARGUMENT, "%s: '%.100s' is no %s: %s", function, text, what, said);
}

static Status read_expression(SymEnv *env, const char *text, const char *whole, int64_t *out) {
    const char *end;
    Status status = sym_parse(env, text, &end, out);
    if (status == ST_OK && *end) status = error_raise(ST_PARSE, "text after it: \"%.40s\"", end);
    return status == ST_OK ? status : said_of("sn_graph_sym", "expression", whole);
}

sn_value sn_graph_sym(sn_graph *g, const char *expression) {
    int64_t number;
    if (graph_wants(g, "sn_graph_sym", "the graph") != ST_OK ||
        graph_wants(expression, "sn_graph_sym", "the expression") != ST_OK)
        return graph_node_value(NULL, 0);
    Arena *const arena = arena_new();
    const char *const text = arena ? without_blanks(arena, expression) : NULL;
    SymEnv *const trial = text ? sym_env_new(arena) : NULL;
    Status status = trial ? read_expression(trial, text, expression, &number) : ST_MEMORY;
    if (status == ST_OK) status = read_expression(g->graph->env, text, expression, &number);
    arena_free(arena);
    if (status != ST_OK) return graph_node_value(NULL, 0);
    return sym_is(number) ? graph_node_value(graph_handle_new(g, (sn_node){.number = number}), 0) : sn_int(number);
}

/* What is known before any op ------------------------------------------------------------------ */

/* Ops have decided by what was known of the symbols: but of the number that the last one has given none has. */
static Status check_early(const sn_graph *g, const char *function, bool of_last) {
    const Node *const last = g->graph->last;
    if (!last || (of_last && node_is_number(last))) return ST_OK;
    return error_raise(ST_STATE, "%s: graph %s has ops: before the first one, or right behind the aten::item it is of",
                       function, g->graph->name);
}

static Status check_own(const sn_graph *g, const char *function) {
    TRY(graph_wants(g, function, "the graph"));
    return graph_is_own(g, function);
}

static bool is_of_last(const sn_graph *g, int64_t expression) {
    const Node *const last = g->graph->last;
    return last && node_is_number(last) && sym_mentions(g->graph->env, expression, last->unbacked);
}

/* An input, or a value that was made. */
static bool is_mentioned(const sn_graph *g, int64_t symbol) {
    const Graph *const graph = g->graph;
    bool any = false;
    for (int i = 0; i < graph->inputs.n; i++) {
        const Meta *const meta = graph->inputs.at[i]->base.meta;
        for (int d = 0; d < meta->rank; d++)
            any |=
                sym_mentions(graph->env, meta->sizes[d], symbol) || sym_mentions(graph->env, meta->strides[d], symbol);
    }
    for (int i = 0; i < graph->int_inputs.n; i++) any |= graph->int_inputs.at[i].symbol == symbol;
    for (int i = 0; i < g->handles.n; i++) any |= sym_mentions(graph->env, g->handles.at[i]->number, symbol);
    for (int i = 0; i < graph->assumed.n; i++)
        any |= sym_mentions(graph->env, graph->assumed.at[i].a, symbol) ||
               sym_mentions(graph->env, graph->assumed.at[i].b, symbol);
    return any;
}

static int64_t within(int64_t v, int64_t least, int64_t most) { return min_i64(max_i64(v, least), most); }

static Status give_range(sn_graph *g, const char *name, int64_t min, int64_t max, int64_t hint) {
    SymEnv *const env = g->graph->env;
    const int number = graph_symbol_number(name);
    const int64_t least = max_i64(min, SYM_LEAST), most = min_i64(max, SYM_MOST);
    if (number < 0)
        return error_raise(ST_ARGUMENT, "sn_graph_range: '%.100s' is no symbol: s0 to s%d", name, MAX_INT_INPUT);
    if (least > most || (hint && (hint < least || hint > most)))
        return error_raise(ST_ARGUMENT, "sn_graph_range: %s from %lld to %lld, for instance %lld", name, (long long)min,
                           (long long)max, (long long)hint);
    if (number < sym_free_count(env) && is_mentioned(g, sym_free_at(env, number)))
        return error_raise(ST_STATE, "sn_graph_range: graph %s has %s: before what mentions it", g->graph->name, name);
    const bool there = number < sym_free_count(env);
    TRY(check_early(g, "sn_graph_range", there && is_of_last(g, sym_free_at(env, number))));
    while (number >= sym_free_count(env)) sym_free(env, 2, 2);
    sym_free_give(env, sym_free_at(env, number), hint ? hint : within(2, least, most), least, most);
    return error_pending();
}

sn_status sn_graph_range(sn_graph *g, const char *symbol, int64_t min, int64_t max, int64_t hint) {
    Status status = check_own(g, "sn_graph_range");
    if (status == ST_OK) status = graph_wants(symbol, "sn_graph_range", "the symbol");
    return (sn_status)(status == ST_OK ? give_range(g, symbol, min, max, hint) : status);
}

/* Its symbols are there. */
static Status read_guard(SymEnv *env, const char *text, const char *whole, SymGuard *out) {
    const char *end;
    const int n = sym_free_count(env);
    Status status = sym_guard_parse(env, text, &end, out);
    if (status == ST_OK && *end) status = error_raise(ST_PARSE, "text after it: \"%.40s\"", end);
    if (status == ST_OK && sym_free_count(env) > n)
        status = error_raise(ST_PARSE, "there is no s%d: sn_graph_range, or an input before it, names it",
                             sym_free_count(env) - 1);
    return status == ST_OK ? status : said_of("sn_graph_assume", "condition", whole);
}

static Status assume(sn_graph *g, const char *expression) {
    SymGuard guard;
    Arena *const arena = arena_new();
    const char *const text = arena ? without_blanks(arena, expression) : NULL;
    SymEnv *const trial = text ? sym_env_new(arena) : NULL;
    for (int i = 0; trial && i < sym_free_count(g->graph->env); i++) sym_free(trial, 2, 2);
    Status status = trial ? read_guard(trial, text, expression, &guard) : ST_MEMORY;
    if (status == ST_OK) status = read_guard(g->graph->env, text, expression, &guard);
    if (status == ST_OK) status = check_early(g, "sn_graph_assume", is_of_last(g, guard.a) || is_of_last(g, guard.b));
    arena_free(arena);
    if (status == ST_OK) graph_assume(g->graph, guard);
    return status == ST_OK ? error_pending() : status;
}

sn_status sn_graph_assume(sn_graph *g, const char *expression) {
    Status status = check_own(g, "sn_graph_assume");
    if (status == ST_OK) status = graph_wants(expression, "sn_graph_assume", "the condition");
    return (sn_status)(status == ST_OK ? assume(g, expression) : status);
}
