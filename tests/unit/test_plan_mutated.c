/* test_plan_mutated.c: texts of plans with something in them changed at random are refused, or are plans that stay in
 * their memory: 1,000 of them never crash. What is not refused runs on the interpreter; its results are those of
 * another plan, and nobody compares them. SINTER_TEST_PLANS=N tries N, SINTER_TEST_SEED=N that one alone. */
#include <stdio.h>
#include <stdlib.h>

#include "passes/passes.h"
#include "runtime/base/error.h"
#include "runtime/device/execute.h"
#include "tests/unit/contract.h"
#include "tests/unit/mutated_text.h"

static const char *const graphs[] = {
    "graph f(%x: f32[8,s0], %w: f32[16,16], %i: i64[s0]) {\n"
    "  %0 = aten::exp(%x)\n  %1, %2 = aten::topk(%0, 2, 1)\n  %3 = aten::embedding(%w, %i)\n"
    "  %4 = aten::mm(%3, %w)\n  %5 = aten::mm(%w, %w)\n  %6 = aten::copy_(%w, %5)\n  return %1, %2, %4\n}\n",
    "graph f(%x: f32[4,s0], %w: f32[s0], %b: f32[s0]) {\n"
    "  %0, %1, %2 = aten::native_layer_norm(%x, [s0], %w, %b, 1e-05)\n  %3 = aten::gelu(%0)\n"
    "  %4 = aten::_softmax(%3, 1, False)\n  %5 = aten::sum.dim_IntList(%4, [0])\n  return %4, %5, %1\n}\n",
    "graph f(%x: f32[2,3,7,6], %w: f32[4,3,3,3], %b: f32[4]) {\n"
    "  %0 = aten::convolution(%x, %w, %b, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)\n  %1 = aten::relu(%0)\n"
    "  %2, %3 = aten::max_pool2d_with_indices(%1, [2, 2])\n  return %2, %3\n}\n",
    "graph f[s0=17>=0, s1=0>=0](%x: f32[6,5], %y: f32[3,5], %i: i64[4]) {\n  random seed=s0 sequence=s1 count=1\n"
    "  %0 = aten::cat([%x, %y])\n  %1 = aten::index_select(%0, 0, %i)\n  %2 = aten::t(%1)\n"
    "  %3 = aten::dropout(%2, 0.5, True) random=0\n  %4 = aten::constant_pad_nd(%3, [1, 2], 0.5)\n"
    "  return %4\n}\n",
    "graph f[s0=17>=0, s1=0>=0](%x: f32[6,5], %y: f32[5,7], %b: f32[7]) {\n  random seed=s0 sequence=s1 count=1\n"
    "  %0 = aten::addmm(%b, %x, %y)\n  %1 = aten::gelu(%0)\n  %2 = aten::slice.Tensor(%1, 1, 1, 6, 2)\n"
    "  %3 = aten::rand_like(%2) random=0\n  %4 = aten::cumsum(%2, 0)\n  %5 = aten::argmax(%4, 1)\n"
    "  %6 = aten::add_.Scalar(%x, 1.5)\n  return %3, %4, %5, %2\n}\n",
};
enum { GRAPHS = 5, MOST_ELEMENTS = 1 << 16 };

static void text_of_graph(const char *text, Text *out) {
    Arena *const arena = arena_new();
    Graph *graph;
    Bail exit = {.code = BAIL_none};
    ck_assert_msg(graph_parse(arena, text, strlen(text), &graph) == ST_OK, "%s", error_slot()->message);
    graph->bail = &exit;
    if (setjmp(exit.exit)) ck_abort_msg("%s", exit.message);
    ck_assert_int_eq(passes_run(graph, "functionalize,decompose,fold,cse,dce,reinplace,plan", NULL), ST_OK);
    plan_print(graph->plan, out);
    arena_free(arena);
}

/* running ------------------------------------------------------------------------------------- */

static sn_tensor *input_for(const Plan *plan, int i, const int64_t *symbols) {
    const Meta *const want = plan->slots.at[i].meta;
    int64_t sizes[MAX_RANK], strides[MAX_RANK], numel = 1;
    for (int d = 0; d < want->rank; d++) {
        sizes[d] = sym_eval(plan->env, want->sizes[d], symbols);
        strides[d] = sym_eval(plan->env, want->strides[d], symbols);
        numel = numel > MOST_ELEMENTS ? numel : numel * sizes[d];
    }
    int64_t span;
    if (numel > MOST_ELEMENTS || !meta_span(sizes, strides, want->rank, &span) || span > MOST_ELEMENTS) return NULL;
    const Meta *const meta = meta_intern(want->dtype, want->device, sizes, strides, want->rank, false);
    sn_tensor *const t = meta ? tensor_new_zero(meta) : NULL;
    char *const data = t ? tensor_data(t) : NULL;
    for (int64_t k = 0; data && k < span * dtype_bytes(want->dtype); k += dtype_bytes(want->dtype)) data[k] = k & 1;
    return t;
}

static bool is_large(const Plan *plan, const int64_t *symbols) {
    int64_t bytes = 0;
    for (int i = 0; i < plan->arenas.n; i++) bytes += sym_eval(plan->env, plan->arenas.at[i].bytes, symbols);
    return bytes > 1 << 24;
}

typedef struct Counts {
    int refused, unsafe, ran;
} Counts;

static void run_plan(Plan *plan, Counts *counts) {
    int64_t symbols[64] = {0};
    const double floats[64] = {0};
    sn_tensor *in[64], *out[64] = {NULL};
    const int n_symbols = sym_free_count(plan->env);
    if (n_symbols > 64 || plan->inputs.n > 64 || plan->outputs.n > 64 || plan->floats.n > 64) return;
    for (int i = 0; i < n_symbols; i++) symbols[i] = sym_hint(plan->env, sym_free_at(plan->env, i));
    if (plan_check_reach(plan, symbols) != ST_OK) {
        counts->unsafe++;
        return;
    }
    bool small = !is_large(plan, symbols);
    for (int i = 0; small && i < plan->inputs.n; i++) small = (in[i] = input_for(plan, i, symbols)) != NULL;
    Executable *executable = NULL;
    if (small && executable_new(plan, false, NULL, NULL, &executable) == ST_OK) {
        counts->ran++;
        execute(executable, in, symbols, floats, out);
    }
    executable_free(executable);
}

static void try_once(const Text *bases, uint64_t seed, Counts *counts) {
    Arena *const arena = arena_new();
    Text text = {0}, twice = {0};
    Plan *plan;
    const char *end;
    random_state = seed * 0x9E3779B97F4A7C15u;
    next_random(1);
    change(bases[seed % GRAPHS].at, &text);
    if (next_random(3) == 0) change(text_str(&text), &twice);
    const sn_scope scope = sn_scope_begin();
    if (plan_parse(arena, twice.at ? twice.at : text_str(&text), &end, &plan) == ST_OK)
        run_plan(plan, counts);
    else
        counts->refused++;
    error_clear();
    sn_scope_end(scope);
    text_free(&text);
    text_free(&twice);
    arena_free(arena);
}

START_TEST(mutated_texts_never_crash) {
    const char *const many = getenv("SINTER_TEST_PLANS"), *const one = getenv("SINTER_TEST_SEED");
    const int n = many ? atoi(many) : 1000;
    Text bases[GRAPHS] = {{0}};
    Counts counts = {0};
    for (int i = 0; i < GRAPHS; i++) text_of_graph(graphs[i], &bases[i]);
    for (int seed = one ? atoi(one) : 0; seed < (one ? atoi(one) + 1 : n); seed++) {
        if (getenv("SINTER_TEST_SAY")) fprintf(stderr, "%d\n", seed);
        try_once(bases, (uint64_t)seed, &counts);
    }
    if (!one) /* all three ways are taken */
        ck_assert_msg(counts.refused > n / 4 && counts.unsafe > n / 100 && counts.ran > n / 50, "%d %d %d",
                      counts.refused, counts.unsafe, counts.ran);
    for (int i = 0; i < GRAPHS; i++) text_free(&bases[i]);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {mutated_texts_never_crash};
    return contract_main("test_plan_mutated", tests, COUNT_OF(tests));
}
