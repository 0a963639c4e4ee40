/* check_saves.c: a derivative reads what its row says that it saves [ir/ops/derivatives.def]. The rule runs on a graph
 * twice, once given all arguments and results, as the joint pass does, once only those that `saves` lists, as the tape
 * does: it must emit the same ops both times, for the gradient of each argument alone and for all. */
#include "runtime/autograd/tape.h"
#include "runtime/base/error.h"
#include "tests/ops/ops.h"

typedef struct RuleRun {
    Graph *graph;
    Node *node;
    uint32_t needs; /* bits of arguments */
    bool listed;    /* only what `saves` lists is given */
} RuleRun;

static bool is_given(const RuleRun *r, int arg, int result) {
    return !r->listed || tape_row_saves(r->node->row, arg, result, r->needs);
}

/* Of a list that is not saved the rule knows metadata: inputs of the graph that nothing else names. */
static Arg given_arg(const RuleRun *r, int i) {
    Graph *const graph = r->graph;
    Arg arg = r->node->args[i];
    if (arg.kind == ARG_tensor && !is_given(r, i, -1)) arg.val = NULL;
    if (arg.kind != ARG_tensors) return arg;
    Val **const unsaved = ARENA_ARRAY(graph->arena, Val *, arg.n + 1);
    for (int k = 0; k < arg.n; k++)
        unsaved[k] = &graph_input(graph, arena_printf(graph->arena, "unsaved%d", k), arg.vals[k]->meta)->base;
    if (!is_given(r, i, -1)) arg.vals = unsaved;
    return arg;
}

/* Ones of the result's sizes for a float, as the gradient that comes in. */
static Val *incoming(Graph *graph, const GVal *out, int i) {
    if (!dtype_is_float(out->base.meta->dtype)) return NULL;
    return &graph_input(graph, arena_printf(graph->arena, "g%d", i), out->base.meta)->base;
}

/* The gradients become the graph's outputs. */
static Status run_rule(const RuleRun *r) {
    Graph *const graph = r->graph;
    const int n = r->node->row->n_params, n_outs = r->node->n_outs;
    Arg args[MAX_ARGS];
    bool needs[MAX_ARGS] = {false};
    const Meta *arg_meta[MAX_ARGS] = {NULL};
    Val *grad_in[MAX_ARGS] = {NULL};
    int n_list = 0;
    bool starts = false;
    for (int i = 0; i < n; i++) {
        const Arg *const a = &r->node->args[i];
        args[i] = given_arg(r, i);
        needs[i] = r->needs >> i & 1;
        if (a->kind == ARG_tensor && a->val) arg_meta[i] = a->val->meta;
        if (a->kind == ARG_tensors) n_list = a->n;
    }
    Val **const results = ARENA_ARRAY(graph->arena, Val *, n_outs + 1);
    Val **const grad_out = ARENA_ARRAY(graph->arena, Val *, n_outs + 1);
    Val **const grad_list = ARENA_ARRAY(graph->arena, Val *, n_list + 1);
    const Meta **const result_meta = ARENA_ARRAY(graph->arena, const Meta *, n_outs + 1);
    for (int i = 0; i < n_outs; i++) {
        GVal *const out = &r->node->outs[i];
        results[i] = is_given(r, -1, i) ? &out->base : NULL;
        grad_out[i] = incoming(graph, out, i);
        starts |= grad_out[i] != NULL;
        result_meta[i] = out->base.meta;
    }
    Deriv d = {&graph->builder, r->node->row, args,        results, grad_out,
               needs,           arg_meta,     result_meta, grad_in, grad_list};
    if (starts) TRY(deriv_rule(r->node->row)(&d)); /* never called without a gradient */
    for (int i = 0; i < n; i++)
        if (grad_in[i]) graph_output(graph, gval(grad_in[i]));
    for (int i = 0; i < n_list; i++)
        if (grad_list[i]) graph_output(graph, gval(grad_list[i]));
    return ST_OK;
}

/* What the rule emits, as text, or its error. */
static void emitted(const Case *c, const SampleCall *call, uint32_t needs, bool listed, Text *text) {
    Arena *const arena = arena_new();
    Graph *const graph = ops_graph(call, arena);
    if (graph) {
        graph->outputs.n = 0;
        const RuleRun run = {graph, graph->last, needs, listed};
        ops_now(listed ? "its derivative, which reads what `saves` does not list" : "its derivative");
        if (run_rule(&run) == ST_OK) graph_print(graph, text);
        ops_now(NULL);
    }
    if (sn_check() != SN_OK) text_printf(text, "%s", sn_error_take()->message);
    arena_free(arena);
}

static void compare(const Case *c, const SampleCall *call, uint32_t needs) {
    Text all = {0}, listed = {0};
    emitted(c, call, needs, false, &all);
    emitted(c, call, needs, true, &listed);
    if (strcmp(text_str(&all), text_str(&listed)))
        ops_fail(c, "the derivative reads what saves \"%s\" does not list\n%s\n%s", c->row->saves, text_str(&all),
                 text_str(&listed));
    text_free(&all);
    text_free(&listed);
}

static bool can_need(const OpRow *row, const Arg *args, int i) {
    const Arg *const a = &args[i];
    const Val *const val = a->kind == ARG_tensor ? a->val : a->kind == ARG_tensors && a->n ? a->vals[0] : NULL;
    return val && dtype_is_float(val->meta->dtype) && deriv_reaches(row, i, (uint32_t)DERIV_all_results);
}

void check_saves(const Case *c) {
    SampleCall call;
    if (c->row->alias_of || !deriv_rule(c->row)) return;
    if (tape_saves_check(c->row) != ST_OK) {
        ops_fail(c, "%s", sn_error_take()->message);
        return;
    }
    if (!ops_make(c, &call)) return;
    ops_count();
    uint32_t all = 0;
    for (int i = 0; i < c->row->n_params; i++) {
        if (!can_need(c->row, call.args, i)) continue;
        all |= 1u << i;
        compare(c, &call, 1u << i);
    }
    if (all) compare(c, &call, all);
}
