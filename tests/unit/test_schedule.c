/* test_schedule.c: the work of scheduling and packing grows with the graph and no faster: nests tried, groups and slots
 * looked at are counted on graphs of one shape and two sizes (tests/ref/big_graph.h). What is fused is test_lower.c's
 * and the goldens'. */
#include "passes/lower.h"
#include "runtime/base/error.h"
#include "tests/ref/big_graph.h"
#include "tests/unit/suite.h"

typedef struct Scheduled {
    int nodes, kernels;
    struct LowerWork work;
} Scheduled;

static Scheduled scheduled(const char *kind, int n) {
    Text text = {0};
    Graph *graph = NULL;
    Bail bail = {0};
    Arena *const arena = arena_new();
    ck_assert(big_graph(&text, kind, n));
    if (graph_parse(arena, text_str(&text), strlen(text_str(&text)), &graph) != ST_OK)
        ck_abort_msg("%s", error_slot()->message);
    graph->bail = &bail;
    if (setjmp(bail.exit)) ck_abort_msg("%s", bail.message);
    if (passes_run(graph, "prepare,plan", &(PassOptions){0}) != ST_OK) ck_abort_msg("%s", error_slot()->message);
    const Scheduled result = {graph->n_nodes, graph->lowering->groups.n, graph->lowering->work};
    text_free(&text);
    arena_free(arena);
    return result;
}

static void check_grows(const char *kind, int small, int large, int most) {
    const Scheduled a = scheduled(kind, small), b = scheduled(kind, large);
    ck_assert_msg(b.work.trials <= most * a.work.trials, "%s: %lld trials of %d nodes, %lld of %d", kind,
                  (long long)a.work.trials, a.nodes, (long long)b.work.trials, b.nodes);
    ck_assert_msg(b.work.visits <= most * a.work.visits, "%s: %lld visits of %d nodes, %lld of %d", kind,
                  (long long)a.work.visits, a.nodes, (long long)b.work.visits, b.nodes);
    ck_assert_int_gt(a.work.trials, 0);
    ck_assert_int_gt(a.work.visits, 0);
    ck_assert_msg(b.kernels <= (most * a.kernels) + 1, "%s: %d and %d kernels", kind, a.kernels, b.kernels);
}

/* 16 times the nodes, 12 times the layers; the rest is for the ends. */
START_TEST(work_grows_with_a_chain) { check_grows("chain", 500, 8000, 20); }
END_TEST
START_TEST(work_grows_with_layers) { check_grows("layers", 500, 8000, 20); }
END_TEST
START_TEST(work_grows_with_wide_graphs) { check_grows("heads", 250, 4000, 20); }
END_TEST
START_TEST(work_grows_with_gpt2) { check_grows("gpt2", 2, 24, 13); }
END_TEST

/* Where few slots live at once: first fit looks at all that do. */
START_TEST(packing_grows_with_layers) {
    const Scheduled a = scheduled("layers", 500), b = scheduled("layers", 8000);
    ck_assert_msg(b.work.places <= 20 * a.work.places, "%lld places of %d nodes, %lld of %d", (long long)a.work.places,
                  a.nodes, (long long)b.work.places, b.nodes);
    ck_assert_int_gt(a.work.places, 0);
}
END_TEST

/* Each node is tried alone, once, and nothing with another one: all of them obviously fit. */
START_TEST(chains_are_tried_node_by_node) {
    const Scheduled chain = scheduled("chain", 500);
    ck_assert_int_le(chain.work.trials, chain.nodes);
    ck_assert_int_eq(chain.kernels, 4); /* of at most 128 nodes */
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("schedule");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, work_grows_with_a_chain);
    tcase_add_test(tests, work_grows_with_layers);
    tcase_add_test(tests, work_grows_with_wide_graphs);
    tcase_add_test(tests, work_grows_with_gpt2);
    tcase_add_test(tests, packing_grows_with_layers);
    tcase_add_test(tests, chains_are_tried_node_by_node);
    return suite_run("schedule", tests);
}
