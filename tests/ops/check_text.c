/* check_text.c: print, parse, print gives the same bytes: a row's one-node graph as captured, functional and
 * decomposed, the kernels that it becomes, and their plan, which gives the same bits when it is read back. */
#include "runtime/base/error.h"
#include "runtime/device/execute.h"
#include "tests/ops/ops.h"

static void check_graph(const Case *c, Graph *graph, Stage stage, const char *name) {
    Arena *const arena = arena_new();
    Text first = {0}, second = {0};
    Graph *again;
    graph_number(graph);
    graph_print(graph, &first);
    if (graph_parse(arena, text_str(&first), first.n, &again) != ST_OK) {
        ops_fail(c, "%s graph: %s\n%.500s", name, sn_error_take()->message, text_str(&first));
    } else {
        graph_number(again);
        graph_print(again, &second);
        if (strcmp(text_str(&first), text_str(&second)))
            ops_fail(c, "%s graph\n%.500sis read as\n%.500s", name, text_str(&first), text_str(&second));
        if (graph_verify(again, stage) != ST_OK)
            ops_fail(c, "%s graph: %s\n%.500s", name, sn_error_take()->message, text_str(&first));
    }
    text_free(&first);
    text_free(&second);
    arena_free(arena);
}

static void check_kernel(const Case *c, const Kernel *kernel) {
    Arena *const arena = arena_new();
    Text first = {0}, second = {0};
    Kernel *again;
    kernel_print(kernel, &first);
    if (kernel_verify(kernel) != ST_OK || kernel_parse(arena, text_str(&first), NULL, &again) != ST_OK) {
        ops_fail(c, "kernel: %s\n%.900s", sn_error_take()->message, text_str(&first));
    } else {
        kernel_print(again, &second);
        if (strcmp(text_str(&first), text_str(&second)))
            ops_fail(c, "kernel\n%.900sis read as\n%.900s", text_str(&first), text_str(&second));
        if (kernel_verify(again) != ST_OK)
            ops_fail(c, "parsed kernel: %s\n%.900s", sn_error_take()->message, text_str(&first));
        if (kernel_hash(kernel) != kernel_hash(again))
            ops_fail(c, "the parsed kernel is another one\n%.900s", text_str(&first));
    }
    text_free(&first);
    text_free(&second);
    arena_free(arena);
}

/* Passes that need no bail leave their error pending. */
static bool run_passes(const Case *c, Graph *graph, const char *passes) {
    Bail exit = {.code = BAIL_none};
    graph->bail = &exit;
    const bool done = !setjmp(exit.exit) && passes_run(graph, passes, &(PassOptions){.verify = true}) == ST_OK;
    graph->bail = NULL;
    if (!done) ops_fail(c, "%s: %s", passes, exit.code ? exit.message : sn_error_take()->message);
    return done;
}

static const int64_t plan_symbols[] = {3, 0}; /* the generator's */

static void run_plan(Plan *plan, const SampleCall *call, Text *text) {
    const double floats[MAX_ARGS] = {0};
    const sn_scope scope = sn_scope_begin();
    sn_tensor *outs[MAX_LIST] = {NULL};
    Executable *executable = NULL;
    if (executable_new(plan, false, NULL, NULL, &executable) == ST_OK &&
        execute(executable, call->tensors, plan_symbols, floats, outs) == ST_OK)
        for (int i = 0; i < plan->outputs.n; i++) ops_show(text, outs[i]);
    if (sn_check() != SN_OK) text_printf(text, "error: %s\n", sn_error_take()->message);
    executable_free(executable);
    sn_scope_end(scope);
}

static bool is_unset(const OpRow *row) { return row->flags & OPF_unset; }

static void compare_plans(const Case *c, const SampleCall *call, Plan *plan, Plan *again, const char *said) {
    Text second = {0}, results[2] = {{0}, {0}};
    plan_print(again, &second);
    if (plan_check_reach(again, plan_symbols) != ST_OK)
        ops_fail(c, "plan: %s\n%.1500s", sn_error_take()->message, said);
    if (strcmp(said, text_str(&second))) ops_fail(c, "plan\n%.1500sis read as\n%.1500s", said, text_str(&second));
    run_plan(plan, call, &results[0]);
    run_plan(again, call, &results[1]);
    if (!is_unset(c->row) && strcmp(text_str(&results[0]), text_str(&results[1])))
        ops_fail(c, "the plan gives %.400s\nof its text %.400s\n%.1500s", text_str(&results[0]), text_str(&results[1]),
                 said);
    text_free(&second);
    for (int i = 0; i < 2; i++) text_free(&results[i]);
}

static void check_plan(const Case *c, const SampleCall *call, Plan *plan) {
    Arena *const arena = arena_new();
    Text first = {0};
    const char *end;
    Plan *again;
    plan_print(plan, &first);
    if (plan_parse(arena, text_str(&first), &end, &again) != ST_OK)
        ops_fail(c, "plan: %s\n%.2000s", sn_error_take()->message, text_str(&first));
    else
        compare_plans(c, call, plan, again, text_str(&first));
    text_free(&first);
    arena_free(arena);
}

static void check_stages(const Case *c, const SampleCall *call, Arena *arena) {
    Graph *const graph = ops_graph(call, arena);
    const char *why = NULL;
    Bail exit;
    if (!graph) {
        ops_fail(c, "no graph: %s", sn_error_take()->message);
        return;
    }
    check_graph(c, graph, STAGE_capture, "captured");
    if (!run_passes(c, graph, "functionalize")) return;
    check_graph(c, graph, STAGE_functional, "functional");
    if (!run_passes(c, graph, "decompose")) return;
    check_graph(c, graph, STAGE_decomposed, "decomposed");
    Plan *const plan = ops_plan(graph, "cse,dce,plan", &exit, &why);
    if (!plan) {
        ops_fail(c, "no plan: %s", why);
        return;
    }
    for (int i = 0; i < plan->steps.n; i++)
        if (plan->steps.at[i].kernel) check_kernel(c, plan->steps.at[i].kernel);
    check_plan(c, call, plan);
}

void check_text(const Case *c) {
    SampleCall call;
    sn_tensor *outs[MAX_LIST];
    int n;
    if (!ops_run(c, &call, outs, &n) || c->row->role == ROLE_bits) return; /* no graph holds it */
    Arena *const arena = arena_new();
    check_stages(c, &call, arena);
    arena_free(arena);
}
