/* test_order.c: the canonical orders as ir/order.h has them: the tree of lanes is what the CPU's kernels add, and what
 * the text before CUDA kernels says; levels are as many as elements need. */
#include <stdio.h>

#include "ir/loop.h"
#include "kernels/cuda/prelude.h"
#include "kernels/kernels.h"
#include "tests/unit/suite.h"

enum { LANES_OF_THREAD = 4 }; /* on a GPU */

/* Bits depend on the order: numbers of very different size. */
static float some_float(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    const float sign = *state & 1 ? -1.0f : 1.0f;
    return sign * (float)(*state >> 8) * (float)(1u << (*state >> 27));
}

static float tree_of(const float *from) {
    float lane[LANES_L];
    memcpy(lane, from, sizeof lane);
#define JOIN(apart)                                                                                                    \
    for (int k = 0; k < LANES_L; k += 2 * (apart)) lane[k] += lane[k + (apart)];
    LANES_L_TREE(JOIN)
#undef JOIN
    return lane[0];
}

START_TEST(kernels_join_lanes_by_the_tree) {
    uint32_t state = 1;
    int differ = 0;
    for (int round = 0; round < 200; round++) {
        float lane[LANES_L], got, in_turn = 0;
        for (int k = 0; k < LANES_L; k++) lane[k] = some_float(&state), in_turn += lane[k];
        const float wanted = tree_of(lane);
        kernel_table()->reduce_L(RED_sum, S_f32)(&got, lane, NULL, LANES_L);
        ck_assert_mem_eq(&got, &wanted, sizeof got);
        differ += in_turn != wanted;
    }
    ck_assert_int_gt(differ, 50);
}
END_TEST

/* Of a thread's own lanes, then of threads: "s = join_##name(s, far_##name(s, 1))". */
START_TEST(cuda_text_joins_lanes_by_the_tree) {
    const char *at = strstr(cuda_prelude, "tree_##name(R a, R b, R c, R d)");
    ck_assert_ptr_nonnull(at);
    ck_assert_ptr_nonnull(at = strstr(at, "join_##name(join_##name(a, b), join_##name(c, d))"));
    int steps = 0;
#define STEP(apart)                                                                                                    \
    if ((apart) >= LANES_OF_THREAD) {                                                                                  \
        char wanted[32];                                                                                               \
        snprintf(wanted, sizeof wanted, "far_##name(s, %d)", (apart) / LANES_OF_THREAD);                               \
        const char *const next = strstr(at, "far_##name(s, ");                                                         \
        ck_assert_msg(next && !strncmp(next, wanted, strlen(wanted)), "%s is not next", wanted);                       \
        at = next + 1, steps++;                                                                                        \
    }
    LANES_L_TREE(STEP)
#undef STEP
    ck_assert_int_eq(steps, 4);
    const char *const more = strstr(at, "far_##name(s, "), *const end = strchr(at, '}');
    ck_assert(end && (!more || more > end));
}
END_TEST

START_TEST(levels_hold_what_there_is) {
    static const struct {
        int64_t n;
        int l, s;
    } rows[] = {{-1, L_LEVELS, S_LEVELS},
                {0, 1, 1},
                {1, 1, 1},
                {64, 1, 1},
                {65, 1, 2},
                {1024, 1, 2},
                {1025, 2, 2},
                {4096, 2, 2},
                {4097, 2, 3},
                {1 << 20, 2, 4},
                {1 + (1 << 20), 3, 4},
                {INT64_MAX, L_LEVELS, S_LEVELS}};
    for (int i = 0; i < COUNT_OF(rows); i++) {
        ck_assert_int_eq(order_levels(rows[i].n, CHUNK_L_BITS, L_LEVELS), rows[i].l);
        ck_assert_int_eq(order_levels(rows[i].n, CHUNK_S_BITS, S_LEVELS), rows[i].s);
    }
    ck_assert_int_eq(order_L_elements(1), CHUNK_L);
    ck_assert_int_eq(order_S_elements(2), CHUNK_S * CHUNK_S);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("order");
    tcase_add_test(tests, kernels_join_lanes_by_the_tree);
    tcase_add_test(tests, cuda_text_joins_lanes_by_the_tree);
    tcase_add_test(tests, levels_hold_what_there_is);
    return suite_run("order", tests);
}
