/* graph_symbols.c: where the symbols of a graph get their values: from the inputs' sizes that are one symbol alone,
 * from ints, then from sizes that are solved for a symbol when the others in them have theirs, and the random ones from
 * the generator. A graph that mentions another one can't be called.
 *
 *     f32[2*s0,4]          s0 = (size 0 - 0) / 2; that a call's size is even is compared with 2*s0 */
#include "ir/graph.h"
#include "runtime/base/error.h"

typedef struct Binding {
    const Graph *graph;
    bool *bound; /* by free symbol */
    int missing; /* a symbol that was asked for and is not bound; -1: none */
} Binding;

static void mark_bound(Binding *b, int64_t v) {
    if (sym_is(v) && sym_expr(b->graph->env, v)->op == SYM_free) b->bound[sym_expr(b->graph->env, v)->a] = true;
}

static void ask(Binding *b, int64_t v) {
    if (!sym_is(v) || b->missing >= 0) return;
    const SymExpr *const e = sym_expr(b->graph->env, v);
    if (e->op == SYM_free) {
        if (!b->bound[e->a]) b->missing = (int)e->a;
        return;
    }
    ask(b, e->a);
    ask(b, e->b);
}

static void ask_list(Binding *b, const int64_t *list, int n) {
    for (int i = 0; i < n; i++) ask(b, list[i]);
}

static void ask_meta(Binding *b, const Meta *meta) {
    ask_list(b, meta->sizes, meta->rank);
    ask_list(b, meta->strides, meta->rank);
}

static void ask_arguments(Binding *b, const Node *node) {
    for (int i = 0; i < node->n_args; i++) {
        const Arg *const arg = &node->args[i];
        if (arg->kind == ARG_int) ask(b, arg->i);
        if (arg->kind == ARG_ints) ask_list(b, arg->ints, arg->n);
    }
}

static void mark_all_bound(Binding *b) {
    const Graph *const graph = b->graph;
    mark_bound(b, graph->seed);
    mark_bound(b, graph->sequence);
    for (int i = 0; i < graph->int_inputs.n; i++) mark_bound(b, graph->int_inputs.at[i].symbol);
    for (int i = 0; i < graph->inputs.n; i++) {
        const Meta *const meta = graph->inputs.at[i]->base.meta;
        for (int d = 0; d < meta->rank; d++) mark_bound(b, meta->sizes[d]);
    }
}

/* Sizes solved for a symbol ----------------------------------------------------------------- */

/* Once: symbols that are not bound, each of them *which. */
static int count_unbound(const Binding *b, int64_t v, int *which) {
    if (!sym_is(v)) return 0;
    const SymExpr *const e = sym_expr(b->graph->env, v);
    if (e->op != SYM_free) {
        const int n = count_unbound(b, e->a, which);
        const int before = *which, more = count_unbound(b, e->b, which);
        return n && more && before == *which ? 1 : n + more;
    }
    if (b->bound[e->a]) return 0;
    *which = (int)e->a;
    return 1;
}

/* What may be 0 divides nothing. */
static bool is_divisor(const SymEnv *env, int64_t times) {
    return sym_is(times) ? sym_least(env, times) > 0 : times != 0;
}

static bool solve_size(Binding *b, Graph *graph, int64_t *alone, int input, int dim) {
    const int64_t size = graph->inputs.at[input]->base.meta->sizes[dim];
    int symbol = -1;
    SizeSolution made = {.input = input, .dim = dim};
    if (count_unbound(b, size, &symbol) != 1) return false;
    if (!sym_linear(graph->env, size, symbol, alone, &made.times, &made.rest)) return false;
    if (!is_divisor(graph->env, made.times)) return false;
    made.symbol = sym_free_at(graph->env, symbol);
    VEC_PUSH(graph->arena, &graph->solutions, made);
    return b->bound[symbol] = true;
}

static Status solve_sizes(Binding *b, Graph *graph) {
    const int n = sym_free_count(graph->env);
    int64_t *const alone = ARENA_ARRAY(graph->arena, int64_t, n + 1);
    if (!alone) return ST_MEMORY;
    for (int i = 0; i < n; i++) alone[i] = sym_free_at(graph->env, i);
    graph->solutions.n = 0;
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < graph->inputs.n; i++)
            for (int d = 0; d < graph->inputs.at[i]->base.meta->rank; d++) more |= solve_size(b, graph, alone, i, d);
    }
    return error_pending();
}

/* The first symbol that has no value, -1: there is none; *who mentions it. */
static int first_missing(Graph *graph, const char **who, Status *status) {
    Binding b = {graph, ARENA_ARRAY(graph->arena, bool, sym_free_count(graph->env) + 1), -1};
    *status = b.bound ? ST_OK : ST_MEMORY;
    if (!b.bound) return -1;
    mark_all_bound(&b);
    if ((*status = solve_sizes(&b, graph)) != ST_OK) return -1;
    for (int i = 0; i < graph->inputs.n && b.missing < 0; i++) {
        *who = graph->inputs.at[i]->name;
        ask_meta(&b, graph->inputs.at[i]->base.meta);
    }
    for (const Node *node = graph->first; node && b.missing < 0; node = node->next) {
        *who = op_form_name(node->row, node->form);
        ask_arguments(&b, node);
        mark_bound(&b, node->unbacked); /* no node before has it */
        for (int i = 0; i < node->n_outs; i++) ask_meta(&b, node->outs[i].base.meta);
    }
    for (int i = 0; i < graph->assumed.n && b.missing < 0; i++) {
        *who = "the header";
        ask(&b, graph->assumed.at[i].a);
        ask(&b, graph->assumed.at[i].b);
    }
    return b.missing;
}

Status graph_check_symbols(Graph *graph) {
    const char *who;
    Status status;
    const int missing = first_missing(graph, &who, &status);
    if (missing < 0) return status;
    return error_raise(
        ST_ARGUMENT,
        "graph %s: %s has s%d, which is no input's size by itself, is solved from none, and is no int input",
        graph->name, who, missing);
}

Status graph_assign_symbols(Graph *graph) {
    const char *who;
    Status status;
    for (int missing; (missing = first_missing(graph, &who, &status)) >= 0;)
        graph_int_input(graph, sym_free_at(graph->env, missing));
    return status;
}

static void put_value(const Graph *graph, int64_t symbol, int64_t value, int64_t *values, bool *given) {
    if (!sym_is(symbol) || sym_expr(graph->env, symbol)->op != SYM_free) return;
    const int64_t at = sym_expr(graph->env, symbol)->a;
    if (!given[at]) values[at] = value;
    given[at] = true;
}

void graph_symbol_values(const Graph *graph, const Meta *const *inputs, const int64_t *ints, int64_t *values,
                         bool *given) {
    for (int i = 0; i < graph->inputs.n; i++) {
        const Meta *const meta = graph->inputs.at[i]->base.meta;
        for (int d = 0; d < meta->rank; d++) put_value(graph, meta->sizes[d], inputs[i]->sizes[d], values, given);
    }
    for (int i = 0; i < graph->int_inputs.n; i++)
        put_value(graph, graph->int_inputs.at[i].symbol, ints[i], values, given);
    for (int i = 0; i < graph->solutions.n; i++) {
        const SizeSolution *const s = &graph->solutions.at[i];
        const int64_t times = sym_eval(graph->env, s->times, values), rest = sym_eval(graph->env, s->rest, values);
        if (times)
            put_value(graph, s->symbol, sym_div(NULL, inputs[s->input]->sizes[s->dim] - rest, times), values, given);
    }
}

/* What the header assumes ------------------------------------------------------------------- */

static bool assumptions_hold(const Graph *graph, const int64_t *hints) {
    bool hold = true;
    for (int i = 0; i < graph->assumed.n && hold; i++) hold = sym_guard_holds(graph->env, &graph->assumed.at[i], hints);
    return hold;
}

/* What other symbols are where the equalities hold and symbol k has its hint. */
static void follow_equalities(const Graph *graph, int k, int64_t *alone, int64_t *hints) {
    const int n = sym_free_count(graph->env);
    for (int i = 0; i < graph->assumed.n; i++) {
        const SymGuard *const guard = &graph->assumed.at[i];
        const int64_t zero = sym_sub(graph->env, guard->a, guard->b);
        int64_t times, rest;
        for (int other = n - 1; guard->rel == SYM_eq && other >= 0; other--) {
            if (other == k || !sym_linear(graph->env, zero, other, alone, &times, &rest)) continue;
            const int64_t by = sym_eval(graph->env, times, hints);
            if (by == 1 || by == -1) hints[other] = -by * sym_eval(graph->env, rest, hints);
            break;
        }
    }
}

/* Gives symbol k a hint, and those that equalities tie to it theirs, with which all holds that is assumed, if there is
 * a small one. */
static bool fit_hint(const Graph *graph, int k, int64_t *alone, int64_t *hints) {
    enum { MOST_TRIED = 1024 };
    const int n = sym_free_count(graph->env);
    const SymExpr s = *sym_expr(graph->env, alone[k]);
    const int64_t least = max_i64(s.b, 2);
    for (int64_t hint = least; hint < least + MOST_TRIED && hint <= s.most; hint++) {
        for (int i = 0; i < n; i++) hints[i] = sym_hint(graph->env, alone[i]);
        hints[k] = hint;
        follow_equalities(graph, k, alone, hints);
        if (!assumptions_hold(graph, hints)) continue;
        for (int i = 0; i < n; i++) sym_free_hint(graph->env, alone[i], hints[i]);
        return true;
    }
    return false;
}

void graph_assume(Graph *graph, SymGuard guard) {
    const int n = sym_free_count(graph->env);
    VEC_PUSH(graph->arena, &graph->assumed, guard);
    sym_require(graph->env, guard.rel, guard.a, guard.b);
    int64_t *const hints = ARENA_ARRAY(graph->arena, int64_t, n + 1);
    int64_t *const alone = ARENA_ARRAY(graph->arena, int64_t, n + 1);
    for (int k = 0; hints && alone && k < n; k++)
        hints[k] = sym_hint(graph->env, alone[k] = sym_free_at(graph->env, k));
    if (!hints || !alone || assumptions_hold(graph, hints)) return;
    for (int k = n - 1; k >= 0; k--)
        if (fit_hint(graph, k, alone, hints)) return;
}
