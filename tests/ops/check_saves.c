/* check_saves.c: a derivative reads what its row says that it saves [ir/ops/derivatives.def]. The rule runs on a graph
 * twice, once given all arguments and results, as the joint pass does, once only those that `saves` lists, as the tape
 * does: it must emit the same ops both times, for the gradient of each argument alone and for all. */
#include "ir/saves.h"
#include "runtime/autograd/tape.h"
#include "runtime/base/error.h"
#include "tests/ops/rule_run.h"

/* What the rule emits, as text, or its error. */
static void emitted(const Case *c, const SampleCall *call, uint32_t needs, bool listed, Text *text) {
    Arena *const arena = arena_new();
    Graph *const graph = ops_graph(call, arena);
    if (graph) {
        graph->outputs.n = 0;
        RuleRun run = {graph, graph->last, needs, UINT32_MAX, listed, 0};
        ops_now(listed ? "its derivative, which reads what `saves` does not list" : "its derivative");
        if (rule_run(&run) == ST_OK) graph_print(graph, text);
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

void check_saves(const Case *c) {
    SampleCall call;
    if (c->row->alias_of || !deriv_rule(c->row)) return;
    if (saves_check(c->row) != ST_OK) {
        ops_fail(c, "%s", sn_error_take()->message);
        return;
    }
    if (!ops_make(c, &call)) return;
    ops_count();
    uint32_t all = 0;
    for (int i = 0; i < c->row->n_params; i++) {
        if (!rule_can_need(c->row, call.args, i)) continue;
        all |= 1u << i;
        compare(c, &call, 1u << i);
    }
    if (all) compare(c, &call, all);
}
