/* check_reach.c: which arguments get a gradient is known before a derivative's rule runs (deriv_reaches): a captured
 * backward gives the others none, as eager does. For each set of results that have a gradient the rule runs on a graph,
 * for each argument alone and for all: it sets what deriv_reaches says, and nothing else. */
#include "tests/ops/rule_run.h"

static uint32_t wanted_args(const OpRow *row, const Arg *args) {
    uint32_t all = 0;
    for (int i = 0; i < row->n_params; i++) {
        const Arg *const a = &args[i];
        const Val *const val = a->kind == ARG_tensor ? a->val : a->kind == ARG_tensors && a->n ? a->vals[0] : NULL;
        if (val && dtype_is_float(val->meta->dtype)) all |= 1u << i;
    }
    return all;
}

static uint32_t reached_args(const OpRow *row, const Arg *args, uint32_t needs, uint32_t results) {
    uint32_t reached = 0;
    for (int i = 0; i < row->n_params; i++)
        if (needs >> i & 1 && deriv_reaches(row, args, i, results)) reached |= 1u << i;
    return reached;
}

/* Rows whose lists have elements without a gradient, or which give an error, say nothing here. */
static void check_set(const Case *c, const SampleCall *call, uint32_t needs, uint32_t results) {
    Arena *const arena = arena_new();
    Graph *const graph = ops_graph(call, arena);
    if (graph) {
        graph->outputs.n = 0;
        RuleRun run = {graph, graph->last, needs, results, false, 0};
        const OpRow *const row = graph->last->row;
        uint32_t want = reached_args(row, graph->last->args, needs, results);
        ops_now("its derivative");
        for (int i = 0; i < row->n_params; i++) /* of a list each element has its own */
            if (graph->last->args[i].kind == ARG_tensors) want &= ~(1u << i);
        if (rule_run(&run) == ST_OK && (run.set & needs) != want)
            ops_fail(c, "gradients of results %#x, wanted: arguments %#x: it sets %#x, deriv_reaches says %#x", results,
                     needs, run.set & needs, want);
        ops_now(NULL);
    }
    sn_error_take();
    arena_free(arena);
}

/* Results that are floats. */
static uint32_t float_results(const Case *c, const SampleCall *call) {
    Arena *const arena = arena_new();
    Graph *const graph = ops_graph(call, arena);
    uint32_t floats = 0;
    for (int i = 0; graph && i < graph->last->n_outs && i < 8; i++)
        if (dtype_is_float(graph->last->outs[i].base.meta->dtype)) floats |= 1u << i;
    if (!graph) sn_error_take();
    arena_free(arena);
    return floats;
}

static void check_sets(const Case *c, const SampleCall *call) {
    const uint32_t all = wanted_args(c->row, call->args), floats = float_results(c, call);
    for (uint32_t results = floats; results; results = (results - 1) & floats) {
        for (int i = 0; i < c->row->n_params; i++)
            if (all >> i & 1) check_set(c, call, 1u << i, results);
        if (all) check_set(c, call, all, results);
    }
}

/* By each choice of what is asked for. */
static void check_masks(const Case *c, SampleCall *call, int mask) {
    int64_t asked[MAX_OUTS];
    const int n = call->args[mask].n;
    for (int choice = 0; choice < 1 << n; choice++) {
        for (int i = 0; i < n; i++) asked[i] = choice >> i & 1;
        call->args[mask].ints = asked;
        check_sets(c, call);
    }
}

void check_reach(const Case *c) {
    SampleCall call;
    if (c->row->alias_of || !deriv_rule(c->row)) return;
    ops_count();
    if (c->row->returns_list || c->row->flags & OPF_flow || !ops_make(c, &call)) return; /* each element has its own */
    const int mask = op_param_find(c->row, "output_mask");
    if (mask < 0)
        check_sets(c, &call);
    else
        check_masks(c, &call, mask);
}
