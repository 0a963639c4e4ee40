/* shrink.c: see shrink.h. Delta debugging: a step is tried on a fresh reading of the text; if what comes of it still
 * shows what is looked for, it is the text from then on. Rounds of all steps are made until one changes nothing. */
#include "frontend/tool/shrink.h"

#include <string.h>

#include "frontend/tool/target.h"
#include "ir/graph.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"

enum { MAX_SYMBOL_SIZES = 256, SIZES_SEEN = 64 };

typedef struct Shrink {
    char *text;
    ShrinkTest *shows;
    void *context;
    bool changed;
} Shrink;

/* a, b: which place; false: there is none, or nothing would change. */
typedef bool ShrinkStep(Graph *graph, int64_t a, int64_t b);

/* What is left over ---------------------------------------------------------------------------- */

static bool writes_or_acts(const Node *node) {
    if (node->form != FORM_functional || node->row->flags & OPF_ordered) return true;
    for (int i = 0; i < node->row->n_params; i++)
        if (param_is_written(&node->row->params[i])) return true;
    return false;
}

static void drop_unused_nodes(Graph *graph) {
    graph_number(graph);
    const int *const uses = graph_use_counts(graph);
    bool dropped = false;
    for (Node *node = graph->last, *before; node; node = before) {
        bool used = writes_or_acts(node);
        before = node->prev;
        for (int i = 0; i < node->n_outs; i++) used |= uses[node->outs[i].id] > 0;
        if (used) continue;
        graph_remove(graph, node);
        dropped = true;
    }
    if (dropped) drop_unused_nodes(graph);
}

static Node *node_at(const Graph *graph, int64_t i) {
    Node *node = graph->first;
    while (node && i-- > 0) node = node->next;
    return node;
}

/* Steps ---------------------------------------------------------------------------------------- */

static bool cut_behind(Graph *graph, int64_t at, int64_t b) {
    const Node *const last = node_at(graph, at);
    if (!last || b) return false;
    graph->outputs.n = graph->writes.n = 0;
    while (graph->last != last) graph_remove(graph, graph->last);
    for (int i = 0; i < last->n_outs; i++) graph_output(graph, &graph->last->outs[i]);
    return true;
}

static bool drop_output(Graph *graph, int64_t at, int64_t b) {
    if (at >= graph->outputs.n || graph->outputs.n < 2 || b) return false;
    memmove(&graph->outputs.at[at], &graph->outputs.at[at + 1],
            sizeof *graph->outputs.at * (size_t)(graph->outputs.n - at - 1));
    graph->outputs.n--;
    return true;
}

/* n ops from `at` on. */
static bool replace_by_inputs(Graph *graph, int64_t at, int64_t n) {
    Node *node = node_at(graph, at);
    if (!node) return false;
    for (int64_t k = 0; k < n && node; k++) {
        Node *const next = node->next;
        for (int i = 0; i < node->n_outs; i++) {
            const char *const name = arena_printf(graph->arena, "v%d", graph->inputs.n);
            GVal *const input = name ? graph_input(graph, name, node->outs[i].base.meta) : NULL;
            if (!input) return false;
            graph_replace(graph, &node->outs[i], input);
        }
        graph_remove(graph, node);
        node = next;
    }
    return true;
}

static bool replace_by_argument(Graph *graph, int64_t at, int64_t argument) {
    Node *const node = node_at(graph, at);
    if (!node || argument >= node->row->n_params || node->n_outs != 1) return false;
    const Arg *const arg = &node->args[argument];
    if (arg->kind != ARG_tensor || !arg->val) return false;
    const Meta *const was = node->outs[0].base.meta, *const is = arg->val->meta;
    if (was->dtype != is->dtype || was->device != is->device || !meta_same_sizes(was, is)) return false;
    graph_replace(graph, &node->outs[0], gval(arg->val));
    graph_remove(graph, node);
    return true;
}

static bool drop_input(Graph *graph, int64_t at, int64_t b) {
    if (at >= graph->inputs.n || graph->inputs.n < 2 || b) return false;
    graph_number(graph);
    if (graph_use_counts(graph)[graph->inputs.at[at]->id]) return false;
    memmove(&graph->inputs.at[at], &graph->inputs.at[at + 1],
            sizeof *graph->inputs.at * (size_t)(graph->inputs.n - at - 1));
    graph->inputs.n--;
    return true;
}

/* All numbers of the inputs and of the ops' arguments, changed as a function says; whether one was. */
typedef struct NumberChange {
    int64_t (*change)(const Graph *graph, const struct NumberChange *how, int64_t number);
    int64_t from, to;
} NumberChange;

static bool change_list(const Graph *graph, const NumberChange *how, const int64_t *from, int64_t *to, int n) {
    bool changed = false;
    for (int i = 0; i < n; i++) changed |= (to[i] = how->change(graph, how, from[i])) != from[i];
    return changed;
}

/* Strides become row-major. */
static bool change_inputs(Graph *graph, const NumberChange *how) {
    bool changed = false;
    for (int i = 0; i < graph->inputs.n; i++) {
        Val *const input = &graph->inputs.at[i]->base;
        const Meta *const m = input->meta;
        int64_t sizes[MAX_RANK], strides[MAX_RANK];
        if (!change_list(graph, how, m->sizes, sizes, m->rank)) continue;
        meta_contiguous_strides(graph->env, sizes, m->rank, strides);
        const Meta *const made = meta_new(graph->arena, graph->env, m->dtype, m->device, sizes, strides, m->rank);
        if (!made) return false;
        input->meta = made;
        changed = true;
    }
    return changed;
}

static void change_arguments(Graph *graph, const NumberChange *how) {
    for (Node *node = graph->first; node; node = node->next)
        for (int i = 0; i < node->row->n_params; i++) {
            Arg *const arg = &node->args[i];
            if (arg->kind == ARG_int && sym_is(arg->i)) arg->i = how->change(graph, how, arg->i);
            int64_t *const list = arg->kind == ARG_ints ? ARENA_ARRAY(graph->arena, int64_t, arg->n + 1) : NULL;
            if (list && change_list(graph, how, arg->ints, list, arg->n)) arg->ints = list;
        }
}

static int64_t number_of_symbol(const Graph *graph, const NumberChange *how, int64_t number) {
    int64_t symbols[MAX_SYMBOL_SIZES];
    for (int i = 0; i < MAX_SYMBOL_SIZES; i++) symbols[i] = how->to;
    return sym_is(number) && sym_free_count(graph->env) <= MAX_SYMBOL_SIZES ? sym_eval(graph->env, number, symbols)
                                                                            : number;
}

static bool make_numbers(Graph *graph, int64_t a, int64_t b) {
    const NumberChange how = {.change = number_of_symbol, .to = DEFAULT_SIZE};
    if (a || b || !change_inputs(graph, &how)) return false;
    change_arguments(graph, &how);
    return true;
}

static int64_t other_size(const Graph *graph, const NumberChange *how, int64_t number) {
    (void)graph;
    return number == how->from ? how->to : number;
}

static bool change_size(Graph *graph, int64_t from, int64_t to) {
    const NumberChange how = {.change = other_size, .from = from, .to = to};
    if (!change_inputs(graph, &how)) return false;
    change_arguments(graph, &how);
    return true;
}

/* Trying --------------------------------------------------------------------------------------- */

/* The text that a step leaves; NULL: it changes nothing. mem_free. */
static char *stepped(const char *text, ShrinkStep *step, int64_t a, int64_t b) {
    Arena *const arena = arena_new();
    Graph *graph;
    Text out = {0};
    if (arena && graph_parse(arena, text, strlen(text), &graph) == ST_OK) {
        graph->n_forward_outputs = graph->n_forward_inputs = 0;
        graph_number(graph);
        if (step(graph, a, b)) {
            drop_unused_nodes(graph);
            if (graph->outputs.n) graph_print(graph, &out);
        }
    }
    error_clear();
    arena_free(arena);
    if (out.at && !strcmp(out.at, text)) text_free(&out);
    return out.at;
}

static bool attempt_step(Shrink *s, ShrinkStep *step, int64_t a, int64_t b) {
    char *const smaller = stepped(s->text, step, a, b);
    if (!smaller) return false;
    if (!s->shows(s->context, smaller)) {
        mem_free(smaller);
        return false;
    }
    mem_free(s->text);
    s->text = smaller;
    return s->changed = true;
}

static int count_ops(const Shrink *s) { return shrink_size(s->text).ops; }

/* The shortest beginning. */
static void shorten(Shrink *s) {
    for (int i = 0; i < count_ops(s) - 1; i++)
        if (attempt_step(s, cut_behind, i, 0)) return;
}

/* What goes moves the rest to its place. */
static void drop_each(Shrink *s, ShrinkStep *step, int n) {
    for (int i = n - 1; i >= 0; i--) attempt_step(s, step, i, 0);
}

static void drop_rows(Shrink *s) {
    for (int n = count_ops(s) / 2; n > 0; n /= 2)
        for (int at = 0; at < count_ops(s);) at += attempt_step(s, replace_by_inputs, at, n) ? 0 : n;
}

static void bypass_each(Shrink *s) {
    enum { FIRST_ARGUMENTS = 4 };
    for (int at = count_ops(s) - 1; at >= 0; at--)
        for (int argument = 0; argument < FIRST_ARGUMENTS; argument++)
            if (attempt_step(s, replace_by_argument, at, argument)) break;
}

/* Distinct sizes of the inputs above 1. */
static int sizes_of(const char *text, int64_t *out) {
    Arena *const arena = arena_new();
    Graph *graph;
    int n = 0;
    if (arena && graph_parse(arena, text, strlen(text), &graph) == ST_OK)
        for (int i = 0; i < graph->inputs.n; i++) {
            const Meta *const m = graph->inputs.at[i]->base.meta;
            for (int d = 0; d < m->rank && n < SIZES_SEEN; d++) {
                bool seen = sym_is(m->sizes[d]) || m->sizes[d] < 2;
                for (int k = 0; k < n; k++) seen |= out[k] == m->sizes[d];
                if (!seen) out[n++] = m->sizes[d];
            }
        }
    error_clear();
    arena_free(arena);
    return n;
}

/* Down to the least that shows it: 1, then halves, then by one. */
static void shrink_one_size(Shrink *s, int64_t size) {
    if (attempt_step(s, change_size, size, 1)) return;
    while (size > 3 && attempt_step(s, change_size, size, size / 2)) size /= 2;
    while (size > 2 && attempt_step(s, change_size, size, size - 1)) size--;
}

static void shrink_sizes(Shrink *s) {
    int64_t sizes[SIZES_SEEN];
    const int n = sizes_of(s->text, sizes);
    for (int i = 0; i < n; i++) shrink_one_size(s, sizes[i]);
}

ShrinkSize shrink_size(const char *text) {
    Arena *const arena = arena_new();
    Graph *graph;
    ShrinkSize size = {0};
    if (arena && graph_parse(arena, text, strlen(text), &graph) == ST_OK) {
        size = (ShrinkSize){.inputs = graph->inputs.n, .outputs = graph->outputs.n};
        for (const Node *node = graph->first; node; node = node->next) size.ops++;
    }
    error_clear();
    arena_free(arena);
    return size;
}

static void make_round(Shrink *s) {
    s->changed = false;
    shorten(s);
    drop_each(s, drop_output, shrink_size(s->text).outputs);
    drop_rows(s);
    bypass_each(s);
    drop_each(s, drop_input, shrink_size(s->text).inputs);
    attempt_step(s, make_numbers, 0, 0);
    shrink_sizes(s);
}

Status shrink_graph(char **text, ShrinkTest *shows, void *context) {
    Arena *const arena = arena_new();
    Graph *graph;
    const Status status = arena ? graph_parse(arena, *text, strlen(*text), &graph) : ST_MEMORY;
    arena_free(arena);
    TRY(status);
    Shrink s = {.text = *text, .shows = shows, .context = context};
    do make_round(&s);
    while (s.changed);
    *text = s.text;
    return ST_OK;
}
