/* pattern.c: see pattern.h. A match begins at the pattern's last op and goes along arguments, which decide everything:
 * there is nothing to try again. What was read between the ops that go is not asked again at their new place, so a
 * graph whose tensors change there (written forms) is left alone there. */
#include "passes/pattern.h"

#include "passes/internal.h"
#include "runtime/base/error.h"

enum { MAX_PATTERN_OPS = 256 };

/* What is a pattern --------------------------------------------------------------------------- */

static void mark_used(void *context, GVal **slot) {
    bool *const led = context;
    if ((*slot)->def) led[(*slot)->def->id] = true;
}

static Status check_ops(const Graph *graph, const char *what) {
    bool *const led = ARENA_ARRAY(graph->arena, bool, graph->n_nodes + 1);
    if (!led) return ST_MEMORY;
    led[graph->last->id] = true;
    for (Node *node = graph->last; node; node = node->prev) {
        if (node->form != FORM_functional || node->row->flags & (OPF_ordered | OPF_host | OPF_random) ||
            node->row->role == ROLE_gradients)
            return error_raise(ST_ARGUMENT, "%s: %s has an effect: no pattern has it", what,
                               op_form_name(node->row, node->form));
        if (!led[node->id])
            return error_raise(ST_ARGUMENT, "%s: %s of the pattern does not lead to its last op, %s", what,
                               node->row->name, graph->last->row->name);
        node_each_input(node, mark_used, led);
    }
    return ST_OK;
}

static Status check_ends(const Graph *graph, const int *uses, const char *what) {
    for (int i = 0; i < graph->inputs.n; i++)
        if (!uses[graph->inputs.at[i]->id])
            return error_raise(ST_ARGUMENT, "%s: no op of the pattern reads %%%s", what, graph->inputs.at[i]->name);
    if (!graph->outputs.n || graph->writes.n)
        return error_raise(ST_ARGUMENT, "%s: the pattern %s", what, graph->writes.n ? "writes" : "returns nothing");
    for (int i = 0; i < graph->outputs.n; i++)
        if (!graph->outputs.at[i].value || !graph->outputs.at[i].value->def)
            return error_raise(ST_ARGUMENT, "%s: result %d of the pattern is of no op", what, i);
    return ST_OK;
}

Status pattern_of(Graph *graph, const char *what, Pattern *out) {
    graph_number(graph);
    if (!graph->last || graph->n_nodes > MAX_PATTERN_OPS)
        return error_raise(ST_ARGUMENT, "%s: a pattern has 1 to %d ops, not %d", what, MAX_PATTERN_OPS, graph->n_nodes);
    const int *const uses = graph_use_counts(graph);
    if (!uses) return ST_MEMORY;
    TRY(check_ops(graph, what));
    TRY(check_ends(graph, uses, what));
    *out = (Pattern){graph, uses};
    return ST_OK;
}

Status pattern_check_replacement(const Pattern *pattern, const Graph *replacement, const char *what) {
    const Graph *const graph = pattern->graph;
    if (replacement->inputs.n != graph->inputs.n || replacement->int_inputs.n != graph->int_inputs.n ||
        replacement->outputs.n != graph->outputs.n)
        return error_raise(ST_ARGUMENT,
                           "%s: the pattern has %d tensors, %d ints and %d results, its replacement %d, %d and %d",
                           what, graph->inputs.n, graph->int_inputs.n, graph->outputs.n, replacement->inputs.n,
                           replacement->int_inputs.n, replacement->outputs.n);
    if (replacement->writes.n) return error_raise(ST_ARGUMENT, "%s: the replacement writes", what);
    for (int i = 0; i < replacement->outputs.n; i++)
        if (!replacement->outputs.at[i].value)
            return error_raise(ST_ARGUMENT, "%s: result %d of the replacement is None", what, i);
    for (const Node *node = replacement->first; node; node = node->next)
        if (node->form != FORM_functional || node->row->flags & (OPF_ordered | OPF_host | OPF_random) ||
            node->row->role == ROLE_gradients)
            return error_raise(ST_ARGUMENT, "%s: %s has an effect: no replacement has it", what,
                               op_form_name(node->row, node->form));
    return ST_OK;
}

/* Matching ------------------------------------------------------------------------------------ */

typedef struct Matching {
    Match *match;
    const Graph *pattern;
    Graph *graph;
    const int *uses;
} Matching;

static bool match_value(Matching *m, const GVal *want, GVal *got);

/* A symbol alone takes the number that it meets first; expressions are compared when all are known. */
static bool match_number(const Matching *m, int64_t want, int64_t got) {
    const SymExpr *const e = sym_is(want) ? sym_expr(m->pattern->env, want) : NULL;
    if (!e) return sym_identical(want, got);
    if (e->op != SYM_free) return true;
    if (!m->match->bound[e->a]) m->match->symbols[e->a] = got;
    m->match->bound[e->a] = true;
    return sym_identical(m->match->symbols[e->a], got);
}

static bool match_numbers(const Matching *m, const int64_t *want, const int64_t *got, int n) {
    for (int i = 0; i < n; i++)
        if (!match_number(m, want[i], got[i])) return false;
    return true;
}

static bool match_meta(const Matching *m, const Meta *want, const Meta *got) {
    if (want->dtype != got->dtype || want->device != got->device || want->rank != got->rank) return false;
    return match_numbers(m, want->sizes, got->sizes, want->rank) &&
           (want->contiguous || match_numbers(m, want->strides, got->strides, want->rank));
}

static bool match_list(Matching *m, const Arg *want, const Arg *got) {
    if (want->n != got->n) return false;
    for (int i = 0; i < want->n; i++) {
        if (!want->vals[i] || !got->vals[i]) {
            if (want->vals[i] != got->vals[i]) return false;
        } else if (!match_value(m, gval(want->vals[i]), gval(got->vals[i]))) {
            return false;
        }
    }
    return true;
}

static bool match_arg(Matching *m, const Arg *want, const Arg *got) {
    if (want->kind != got->kind) return false;
    if (want->kind == ARG_int) return match_number(m, want->i, got->i);
    if (want->kind == ARG_ints) return want->n == got->n && match_numbers(m, want->ints, got->ints, want->n);
    if (want->kind == ARG_tensors) return match_list(m, want, got);
    if (want->kind != ARG_tensor) return want->kind != ARG_runtime && arg_equal(want, got);
    if (!want->val || !got->val) return want->val == got->val;
    return match_value(m, gval(want->val), gval(got->val));
}

static bool is_taken(const Matching *m, const Node *node) {
    for (int i = 0; i < m->pattern->n_nodes; i++)
        if (m->match->nodes[i] == node) return true;
    return false;
}

static bool match_node(Matching *m, const Node *want, Node *got) {
    if (m->match->nodes[want->id]) return m->match->nodes[want->id] == got;
    if (got->row != want->row || got->form != want->form || got->n_outs != want->n_outs || is_taken(m, got))
        return false;
    m->match->nodes[want->id] = got;
    for (int i = 0; i < want->n_outs; i++) m->match->values[want->outs[i].id] = &got->outs[i];
    for (int i = 0; i < want->row->n_params; i++)
        if (!match_arg(m, &want->args[i], &got->args[i])) return false;
    return true;
}

static bool match_value(Matching *m, const GVal *want, GVal *got) {
    GVal **const known = &m->match->values[want->id];
    if (*known) return *known == got;
    if (want->def) return got->def && got->index == want->index && match_node(m, want->def, got->def);
    *known = got;
    return match_meta(m, want->base.meta, got->base.meta);
}

/* What an expression of symbols is in the graph. */
static int64_t moved_number(const Match *match, SymEnv *to, const SymEnv *from, int64_t value) {
    return sym_is(value) ? sym_move(to, from, value, match->symbols) : value;
}

static bool all_bound(const Matching *m) {
    for (int i = 0; i < sym_free_count(m->pattern->env); i++)
        if (!m->match->bound[i]) return false;
    return true;
}

static bool numbers_hold(const Matching *m, const int64_t *want, const int64_t *got, int n) {
    for (int i = 0; i < n; i++)
        if (!sym_identical(moved_number(m->match, m->graph->env, m->pattern->env, want[i]), got[i])) return false;
    return true;
}

static bool expressions_hold(const Matching *m) {
    for (int i = 0; i < m->pattern->inputs.n; i++) {
        const GVal *const want = m->pattern->inputs.at[i];
        const Meta *const meta = want->base.meta, *const got = m->match->values[want->id]->base.meta;
        if (!numbers_hold(m, meta->sizes, got->sizes, meta->rank)) return false;
        if (!meta->contiguous && !numbers_hold(m, meta->strides, got->strides, meta->rank)) return false;
    }
    for (const Node *node = m->pattern->first; node; node = node->next)
        for (int i = 0; i < node->row->n_params; i++) {
            const Arg *const want = &node->args[i], *const got = &m->match->nodes[node->id]->args[i];
            if (want->kind == ARG_int && !numbers_hold(m, &want->i, &got->i, 1)) return false;
            if (want->kind == ARG_ints && !numbers_hold(m, want->ints, got->ints, want->n)) return false;
        }
    return true;
}

/* Where it may be replaced -------------------------------------------------------------------- */

static bool is_returned(const Graph *pattern, const GVal *value) {
    for (int i = 0; i < pattern->outputs.n; i++)
        if (pattern->outputs.at[i].value == value) return true;
    return false;
}

static bool is_used_inside_only(const Matching *m) {
    for (const Node *node = m->pattern->first; node; node = node->next)
        for (int i = 0; i < node->n_outs; i++) {
            const GVal *const value = &node->outs[i];
            if (is_returned(m->pattern, value)) continue;
            if (m->uses[m->match->values[value->id]->id] != m->match->pattern->uses[value->id]) return false;
        }
    return true;
}

typedef struct UseSearch {
    const Matching *m;
    bool found;
} UseSearch;

static void look_for_result(void *context, GVal **slot) {
    UseSearch *const search = context;
    search->found |= (*slot)->def && is_taken(search->m, (*slot)->def);
}

/* From the first op of the match to the last nothing is written, nothing else reads what it gives (that would stand
 * before what replaces it), and all are in one mode and region. */
static bool is_movable(const Matching *m, const Node *last) {
    int left = m->pattern->n_nodes - 1;
    for (Node *node = last->prev; left && node; node = node->prev) {
        UseSearch search = {m, false};
        if (node->form != FORM_functional) return false;
        if (is_taken(m, node)) {
            if (node->modes != last->modes || node->region != last->region || node->again != last->again) return false;
            left--;
            continue;
        }
        node_each_input(node, look_for_result, &search);
        if (search.found) return false;
    }
    return true;
}

bool pattern_matches(const Pattern *pattern, Graph *graph, const int *uses, Node *last, Match *out) {
    Graph *const small = pattern->graph;
    if (last->row != small->last->row) return false;
    *out = (Match){.pattern = pattern,
                   .values = ARENA_ARRAY(small->arena, GVal *, small->n_vals + 1),
                   .nodes = ARENA_ARRAY(small->arena, Node *, small->n_nodes + 1),
                   .symbols = ARENA_ARRAY(small->arena, int64_t, sym_free_count(small->env) + 1),
                   .bound = ARENA_ARRAY(small->arena, bool, sym_free_count(small->env) + 1)};
    Matching m = {out, small, graph, uses};
    if (!out->values || !out->nodes || !out->symbols || !out->bound) return false;
    return match_node(&m, small->last, last) && all_bound(&m) && expressions_hold(&m) && is_used_inside_only(&m) &&
           is_movable(&m, last);
}

/* Replacing ----------------------------------------------------------------------------------- */

typedef struct Replacing {
    const Match *match;
    Graph *graph, *from;
    Match into; /* of the replacement's inputs: values by its ids, and its symbols */
    Node *before;
} Replacing;

static Val *replaced_val(void *context, Val *val) {
    return val ? &((Replacing *)context)->into.values[gval(val)->id]->base : NULL;
}

static bool fill_symbol(Replacing *r, int64_t want, int64_t got) {
    const Matching m = {&r->into, r->from, r->graph, NULL};
    return match_number(&m, want, got);
}

/* The replacement's symbols, by the same inputs. */
static bool bind_replacement(Replacing *r) {
    const Graph *const pattern = r->match->pattern->graph;
    bool fits = true;
    for (int i = 0; i < r->from->inputs.n; i++) {
        const GVal *const input = r->from->inputs.at[i];
        GVal *const value = r->match->values[pattern->inputs.at[i]->id];
        const Meta *const want = input->base.meta, *const got = value->base.meta;
        r->into.values[input->id] = value;
        fits &= want->dtype == got->dtype && want->rank == got->rank;
        for (int d = 0; fits && d < want->rank; d++) fits = fill_symbol(r, want->sizes[d], got->sizes[d]);
    }
    for (int i = 0; fits && i < r->from->int_inputs.n; i++) {
        const int64_t symbol = pattern->int_inputs.at[i].symbol;
        fits = fill_symbol(r, r->from->int_inputs.at[i].symbol, r->match->symbols[sym_expr(pattern->env, symbol)->a]);
    }
    for (int i = 0; fits && i < sym_free_count(r->from->env); i++) fits = r->into.bound[i];
    return fits;
}

static Arg replacement_arg(Replacing *r, const Arg *arg) {
    if (arg->kind == ARG_int) return A_INT(moved_number(&r->into, r->graph->env, r->from->env, arg->i));
    if (arg->kind == ARG_runtime) return A_FLOAT(r->from->runtime_floats.at[arg->i]);
    if (arg->kind != ARG_ints) return arg_map_vals(r->graph->arena, *arg, replaced_val, r);
    int64_t *const ints = ARENA_ARRAY(r->graph->arena, int64_t, arg->n + 1);
    for (int i = 0; ints && i < arg->n; i++)
        ints[i] = moved_number(&r->into, r->graph->env, r->from->env, arg->ints[i]);
    return A_INTS(ints, arg->n);
}

static Status copy_op(Replacing *r, const Node *node) {
    Arg args[MAX_ARGS];
    for (int i = 0; i < node->row->n_params; i++) args[i] = replacement_arg(r, &node->args[i]);
    TRY(error_pending());
    Node *const made = graph_append(r->graph, node->row, FORM_functional, args);
    if (!made) return error_pending() ? error_pending() : ST_MEMORY;
    for (int i = 0; i < made->n_outs && i < node->n_outs; i++) r->into.values[node->outs[i].id] = &made->outs[i];
    return ST_OK;
}

static const GVal *replaced_by(const Replacing *r, int i) { return r->into.values[r->from->outputs.at[i].value->id]; }

static Status check_replaced(const Replacing *r, const char *what) {
    const Graph *const pattern = r->match->pattern->graph;
    for (int i = 0; i < pattern->outputs.n; i++) {
        const Meta *const want = r->match->values[pattern->outputs.at[i].value->id]->base.meta;
        const Meta *const got = replaced_by(r, i)->base.meta;
        if (meta_equal(want, got)) continue;
        Text text = {0};
        meta_print(r->graph->env, &text, got);
        text_puts(&text, ", what it replaces ");
        meta_print(r->graph->env, &text, want);
        const Status status = error_raise(ST_SHAPE, "%s: result %d of the replacement is %s", what, i, text_str(&text));
        text_free(&text);
        return status;
    }
    return ST_OK;
}

/* What stands between the place that was last and the next node, newest first. */
static void undo_inserts(const Replacing *r, const Node *before_first) {
    for (Node *node = r->before->prev; node && node != before_first;) {
        Node *const previous = node->prev;
        graph_remove(r->graph, node);
        node = previous;
    }
}

static void put_results(const Replacing *r) {
    const Graph *const pattern = r->match->pattern->graph;
    for (int i = 0; i < pattern->outputs.n; i++)
        graph_replace(r->graph, r->match->values[pattern->outputs.at[i].value->id], (GVal *)replaced_by(r, i));
    for (int i = pattern->n_nodes; i-- > 0;) graph_remove(r->graph, r->match->nodes[i]);
}

static Status copy_ops(Replacing *r, const char *what) {
    for (const Node *node = r->from->first; node; node = node->next) TRY(copy_op(r, node));
    return check_replaced(r, what);
}

Status pattern_replace(const Match *match, Graph *graph, Graph *replacement, const char *what) {
    Node *const last = match->nodes[match->pattern->graph->last->id];
    graph_number(replacement);
    Replacing r = {.match = match, .graph = graph, .from = replacement, .before = last};
    r.into = (Match){.values = ARENA_ARRAY(replacement->arena, GVal *, replacement->n_vals + 1),
                     .symbols = ARENA_ARRAY(replacement->arena, int64_t, sym_free_count(replacement->env) + 1),
                     .bound = ARENA_ARRAY(replacement->arena, bool, sym_free_count(replacement->env) + 1)};
    if (!r.into.values || !r.into.symbols || !r.into.bound) return ST_MEMORY;
    if (!bind_replacement(&r))
        return error_raise(ST_SHAPE, "%s: the replacement does not take what the pattern's inputs stand for", what);
    const Node *const before_first = last->prev;
    const NewNodes saved = nodes_like(graph, last, last);
    const Status status = copy_ops(&r, what);
    nodes_restore(graph, saved);
    if (status == ST_OK)
        put_results(&r);
    else
        undo_inserts(&r, before_first);
    return status;
}
