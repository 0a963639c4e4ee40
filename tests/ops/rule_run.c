/* rule_run.c: the arguments and results that a rule is given are the graph's own values, all of them or those that
 * `saves` lists; incoming gradients are inputs of it. */
#include "tests/ops/rule_run.h"
#include "runtime/autograd/tape.h"

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
static Val *incoming(Graph *graph, uint32_t results, const GVal *out, int i) {
    if (!(results >> i & 1) || !dtype_is_float(out->base.meta->dtype)) return NULL;
    return &graph_input(graph, arena_printf(graph->arena, "g%d", i), out->base.meta)->base;
}

Status rule_run(RuleRun *r) {
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
        grad_out[i] = incoming(graph, r->results, out, i);
        starts |= grad_out[i] != NULL;
        result_meta[i] = out->base.meta;
    }
    Deriv d = {&graph->builder, r->node->row, args,    results,   grad_out,           needs,
               arg_meta,        result_meta,  grad_in, grad_list, .n_results = n_outs};
    if (starts) TRY(deriv_rule(r->node->row)(&d)); /* never called without a gradient */
    r->set = 0;
    for (int i = 0; i < n; i++) {
        if (grad_in[i]) graph_output(graph, gval(grad_in[i]));
        r->set |= grad_in[i] ? 1u << i : 0;
    }
    for (int i = 0; i < n_list; i++)
        if (grad_list[i]) graph_output(graph, gval(grad_list[i]));
    return ST_OK;
}

bool rule_can_need(const OpRow *row, const Arg *args, int arg) {
    const Arg *const a = &args[arg];
    const Val *const val = a->kind == ARG_tensor ? a->val : a->kind == ARG_tensors && a->n ? a->vals[0] : NULL;
    return val && dtype_is_float(val->meta->dtype) && deriv_reaches(row, args, arg, DERIV_all_results);
}
