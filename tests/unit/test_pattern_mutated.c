/* test_pattern_mutated.c: texts that are nearly patterns, or nearly what is put in their place: each ends in an error
 * that leaves the graph as it was, or in a graph that the verifier takes. PATTERN_MUTATIONS=N tries N. */
#include "tests/unit/mutated_text.h"

#include "tests/unit/contract.h"

enum { MUTATIONS = 10000 };

static const char graph_text[] =
    "graph f(%x: f32[3,4], %w: f32[4,5], %b: f32[5], %i: i64[2]) {\n"
    "  %0 = aten::mm(%x, %w)\n  %1 = aten::add.Tensor(%0, %b)\n  %2 = aten::relu(%1)\n"
    "  %3 = aten::mul.Tensor(%2, 2.0)\n  %4 = aten::sum.dim_IntList(%3, [1], False)\n"
    "  %5 = aten::index_select(%3, 0, %i)\n  %6 = aten::cat([%5, %3], 0)\n  %7 = aten::view(%6, [25])\n"
    "  %8, %9 = aten::max.dim(%3, 0, False)\n  return %4, %7, %8, %9\n}\n";

static const char *const patterns[] = {
    "graph p(%x: f32[s0,s1], %w: f32[s1,s2], %b: f32[s2]) {\n  %0 = aten::mm(%x, %w)\n"
    "  %1 = aten::add.Tensor(%0, %b)\n  %2 = aten::relu(%1)\n  return %2\n}\n",
    "graph p(%x: f32[s0,s1]) {\n  %0 = aten::mul.Tensor(%x, 2.0)\n  return %0\n}\n",
    "graph p(%x: f32[s0,s1]) {\n  %0 = aten::sum.dim_IntList(%x, [1], False)\n  return %0\n}\n",
    "graph p(%x: f32[s0,5], %i: i64[s1]) {\n  %0 = aten::index_select(%x, 0, %i)\n"
    "  %1 = aten::cat([%0, %x], 0)\n  %2 = aten::view(%1, [s0*5+s1*5])\n  return %2\n}\n",
    "graph p(%x: f32[s0,s1]) {\n  %0, %1 = aten::max.dim(%x, 0, False)\n  return %1, %0\n}\n",
};
static const char *const replacements[] = {
    "graph r(%x: f32[s0,s1], %w: f32[s1,s2], %b: f32[s2]) {\n  %0 = aten::addmm(%b, %x, %w)\n"
    "  %1 = aten::relu(%0)\n  return %1\n}\n",
    "graph r(%x: f32[s0,s1]) {\n  %0 = aten::add.Tensor(%x, %x)\n  return %0\n}\n",
    "graph r(%x: f32[s0,s1]) {\n  %0 = aten::neg(%x)\n  %1 = aten::sum.dim_IntList(%0, [1], False)\n"
    "  return %1\n}\n",
    "graph r(%x: f32[s0,5], %i: i64[s1]) {\n  %0 = aten::index_select(%x, 0, %i)\n"
    "  %1 = aten::cat([%x, %0], 0)\n  %2 = aten::view(%1, [s1*5+s0*5])\n  return %2\n}\n",
    "graph r(%x: f32[s0,s1]) {\n  %0, %1 = aten::min.dim(%x, 0, False)\n  return %1, %0\n}\n",
};

/* 1: something was found; 0: nothing; -1: an error. */
static int rewritten(const char *pattern, const char *replacement) {
    sn_graph *const g = sn_graph_parse(graph_text, strlen(graph_text));
    ck_assert_ptr_nonnull(g);
    const int n = sn_graph_rewrite(g, pattern, replacement),
              matched = n < 0 ? 0 : sn_graph_match(g, pattern, NULL, NULL, 0);
    if (n < 0) {
        ck_assert_msg(sn_check() != SN_OK && sn_check() != SN_ERR_INTERNAL, "%s\n%s: %s", pattern, replacement,
                      sn_error_take()->message);
        sn_error_take();
    }
    ck_assert_int_ge(matched, 0);
    ck_assert_msg(sn_graph_check(g) == SN_OK, "%s\n%s%s: %s", pattern, replacement, sn_graph_text(g),
                  sn_error_take()->message);
    sn_graph_free(g);
    return n < 0 ? -1 : n > 0;
}

START_TEST(mutated_patterns_are_errors_or_graphs) {
    const char *const asked = getenv("PATTERN_MUTATIONS");
    const int n = asked ? atoi(asked) : MUTATIONS, n_pairs = (int)COUNT_OF(patterns);
    int counts[3] = {0};
    moderate_numbers = true;
    for (int i = 0; i < n; i++) {
        const sn_scope scope = sn_scope_begin();
        const int pair = i % n_pairs;
        Text pattern = {0}, replacement = {0};
        random_state = (uint64_t)i;
        text_puts(&pattern, patterns[pair]);
        text_puts(&replacement, replacements[pair]);
        Text *const changed = i % 2 ? &pattern : &replacement, again = *changed;
        *changed = (Text){0};
        change(text_str(&again), changed);
        counts[rewritten(text_str(&pattern), text_str(&replacement)) + 1]++;
        text_free(&again);
        text_free(&pattern);
        text_free(&replacement);
        sn_scope_end(scope);
    }
    ck_assert_msg(counts[0] > n / 10 && counts[1] > n / 100 && counts[2] > n / 100,
                  "%d errors, %d without, %d with places", counts[0], counts[1], counts[2]);
}
END_TEST

START_TEST(as_they_are_they_are_replaced) {
    for (int i = 0; i < (int)COUNT_OF(patterns); i++) ck_assert_int_eq(rewritten(patterns[i], replacements[i]), 1);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {as_they_are_they_are_replaced, mutated_patterns_are_errors_or_graphs};
    return contract_main("mutated patterns", tests, sizeof tests / sizeof *tests);
}
