/* test_mapping.c: how kernels run on a GPU, without any text of CUDA C: what is decided for random kernels is accepted
 * and the same as text, and so are other mappings; what the verifier and the reader refuse. */
#include "runtime/base/error.h"
#include "tests/ref/random_kernel.h"
#include "tests/ref/random_mapping.h"
#include "tests/unit/suite.h"

static Arena *arena;
static void setup(void) { arena = arena_new(); }
static void teardown(void) {
    arena_free(arena);
    error_clear();
}

static const char *text_of(const CudaMapping *mapping, const Kernel *kernel) {
    Text text = {0};
    cuda_mapping_print(mapping, kernel, &text);
    const char *const copy = arena_strdup(arena, text_str(&text));
    text_free(&text);
    return copy;
}

static CudaMapping *read_mapping(const char *text, const Kernel *kernel) {
    TextReader in = {.what = "shapes", .between = BETWEEN_comments, .start = text, .at = text};
    CudaMapping *mapping = NULL;
    return cuda_mapping_parse(arena, &in, kernel, &mapping) == ST_OK ? mapping : NULL;
}

START_TEST(random_mappings_print_and_parse) {
    int differ = 0, launches = 0, split = 0;
    for (int seed = 1; seed <= 400; seed++) {
        arena_reset(arena);
        const RandomKernel *const random =
            random_kernel(arena, (uint64_t)seed, 1 + seed % RANDOM_KERNEL_NESTS, seed % 2);
        const Kernel *const kernel = &random->kernel;
        ck_assert_msg(kernel_verify(kernel) == ST_OK, "seed %d: %s", seed, error_slot()->message);
        const CudaKernel of = {.kernel = kernel, .hint = random->params};
        const char *const decided = text_of(cuda_mapping_decide(arena, &of, machine_gpu()), kernel);
        ck_assert_str_eq(decided, text_of(cuda_mapping_decide(arena, &of, machine_gpu_at(0)), kernel));
        const CudaMapping *const mapping = random_mapping(arena, &of, machine_gpu(), (uint64_t)seed);
        const char *const texts[2] = {decided, text_of(mapping, kernel)};
        differ += strcmp(texts[0], texts[1]) != 0;
        launches += mapping->parts[mapping->n - 1].mapping.launch > 0;
        for (int p = 0; p < mapping->n; p++) split += mapping->parts[p].task == CUDA_once;
        for (int k = 0; k < 2; k++) {
            const CudaMapping *const again = read_mapping(texts[k], kernel);
            ck_assert_msg(again != NULL, "%s\n%s", error_slot()->message, texts[k]);
            ck_assert_str_eq(text_of(again, kernel), texts[k]);
            ck_assert_msg(cuda_mapping_verify(again, kernel, machine_gpu()) == ST_OK, "seed %d: %s\n%s", seed,
                          error_slot()->message, texts[k]);
        }
    }
    ck_assert_int_gt(differ, 390);
    ck_assert_int_gt(launches, 80);
    ck_assert_int_gt(split, 50);
}
END_TEST

static Kernel *kernel_of(const char *text) {
    Kernel *kernel = NULL;
    const char *end;
    ck_assert_msg(kernel_parse(arena, text, &end, &kernel) == ST_OK, "%s", error_slot()->message);
    ck_assert_msg(kernel_verify(kernel) == ST_OK, "%s", error_slot()->message);
    return kernel;
}

#define NESTS                                                                                                          \
    "  nest m outer(3, 8) {\n"                                                                                         \
    "    map:\n"                                                                                                       \
    "      %0 = load f32 b0[8*i0 + i1]\n"                                                                              \
    "      store b1[8*i0 + i1], %0\n"                                                                                  \
    "  }\n"                                                                                                            \
    "  nest r outer(3) inner(8) order L {\n"                                                                           \
    "    reduce inner:\n"                                                                                              \
    "      %0 = load f32 b2[8*i0 + j0]\n"                                                                              \
    "      %1 = reduce sum.f32 %0\n"                                                                                   \
    "    map outer:\n"                                                                                                 \
    "      store b3[i0], %1\n"                                                                                         \
    "    map inner:\n"                                                                                                 \
    "      %3 = sub.f32 %0, %1\n"                                                                                      \
    "      store b4[8*i0 + j0], %3\n"                                                                                  \
    "  }\n"                                                                                                            \
    "}\n"
static const char in_turn[] = "kernel k(b0: in f32, b1: out f32, b2: in f32, b3: out f32, b4: out f32) {\n" NESTS;
static const char at_once[] =
    "kernel k(b0: in f32, b1: out f32, b2: in f32, b3: out f32, b4: out f32) independent {\n" NESTS;

#define M       "shape m { map launch 0 threads 128 dims (i0 i1) level 0 whole } "
#define R       "shape r { rows launch 0 threads 128 dims (i0) L (j0) "
#define R_PARTS "level 1 chunks phase 0 level 2 join_l phase 0 after 1 level 3 elements phase 2 }"

START_TEST(mappings_that_do_not_fit_are_refused) {
    static const struct {
        const char *kernel, *shapes, *why; /* NULL: it fits */
    } rows[] = {
        {in_turn, M R "level 1 whole }", NULL},
        {in_turn, M R R_PARTS, NULL},
        {in_turn, M R "level 1 chunks phase 0 level 2 join_l phase 0 level 3 once phase 1 level 4 elements phase 2 }",
         NULL},
        {in_turn, M "shape r { rows launch 1 threads 96 dims (i0) L (j0) level 0 whole }", NULL},
        {in_turn,
         "shape m { map launch 0 threads 1024 dims (i0) (i1) level 0 whole } "
         "shape r { rows launch 1 threads 32 dims (i0) L (j0) level 0 whole }",
         NULL},
        {at_once, M R "level 0 whole }", NULL},
        {at_once, M R "level 0 whole unroll 32 }", NULL},
        {in_turn,
         M R "level 1 chunks phase 0 unroll 2 level 2 join_l phase 0 after 1 unroll 3 level 3 elements phase 2 }",
         NULL},
        {at_once, M R "level 0 whole unroll 33 }", "unroll: from 1 to 32 elements"},
        {at_once, M R "level 0 whole unroll 0 }", "unroll: from 1 to 32 elements"},
        {at_once, "shape m { map launch 0 threads 128 dims (i0 i1) level 0 whole unroll 2 } " R "level 0 whole }",
         "shape of m: unroll"},
        {in_turn,
         M R "level 1 chunks phase 0 level 2 join_l phase 0 level 3 once phase 1 unroll 2 level 4 elements phase 2 }",
         "1 where a task has no loop"},
        {at_once, M R "level 0 chunks phase 0 level 1 join_l phase 0 after 1 level 3 elements phase 2 }", NULL},
        {in_turn, M R "level 0 whole }", "level: it may see what the nest before it stores"},
        {at_once, M R "level 2 whole }", "level: not below the launch's number of tasks"},
        {in_turn, M "shape r { rows launch 2 threads 96 dims (i0) L (j0) level 0 whole }",
         "shape of r: launch: not the last one or the next"},
        {in_turn, M "shape r { rows launch 1 threads 96 dims (i0) L (j0) level 1 whole }",
         "level: not below the launch's number of tasks"},
        {in_turn, M "shape r { rows launch 0 threads 96 dims (i0) L (j0) level 1 whole }",
         "threads: another number than the launch has"},
        {in_turn, "shape m { map launch 1 threads 128 dims (i0 i1) level 0 whole } " R "level 0 whole }",
         "shape of m: launch: the first one is 0"},
        {in_turn, "shape m { map launch 0 threads 0 dims (i0 i1) level 0 whole } " R "level 1 whole }",
         "threads: not whole warps"},
        {in_turn, "shape m { map launch 0 threads 48 dims (i0 i1) level 0 whole } " R "level 1 whole }",
         "threads: not whole warps"},
        {in_turn, "shape m { map launch 0 threads 1056 dims (i0 i1) level 0 whole } " R "level 1 whole }",
         "threads: not whole warps"},
        {in_turn, "shape m { columns launch 0 threads 128 dims (i0 i1) level 0 whole } " R "level 1 whole }",
         "mode: L dims run as rows"},
        {in_turn, "shape m { map launch 0 threads 128 dims (i0) level 0 whole } " R "level 1 whole }",
         "dims: some are in no group"},
        {in_turn, "shape m { map launch 0 threads 128 dims (i0 i1) level 0 elements phase 0 } " R "level 1 whole }",
         "tasks: a nest without reductions is whole"},
        {in_turn, M R "level 1 whole level 2 whole }", "whole: another task beside it"},
        {in_turn, M R "level 1 chunks phase 0 level 2 whole }", "tasks: not those of each phase"},
        {in_turn, M R "level 1 chunks phase 0 level 1 join_l phase 0 after 1 level 3 elements phase 2 }",
         "level: each task of a nest waits"},
        {in_turn, M R "level 1 chunks phase 0 level 2 elements phase 2 }", "tasks: not those of each phase"},
        {in_turn, M R "level 1 chunks phase 0 level 2 join_s phase 0 after 1 level 3 elements phase 2 }",
         "tasks: not those of each phase"},
        {in_turn, M R "level 1 chunks phase 0 level 2 join_l phase 0 level 3 elements phase 2 }",
         "tasks: not those of each phase"},
        {in_turn, M R "level 1 chunks phase 0 level 2 join_l phase 0 after 2 level 3 elements phase 2 }",
         "after: maps over outer dims alone"},
        {in_turn, M R "level 1 chunks phase 0 after 1 level 2 join_l phase 0 after 1 level 3 elements phase 2 }",
         "after: maps over outer dims alone"},
        {in_turn, M R "level 1 chunks phase 0 level 2 join_l phase 0 after 1 }", "tasks: some are missing"},
        {in_turn,
         M R "level 1 chunks phase 0 level 2 join_l phase 0 after 1 level 3 elements phase 2 level 4 once phase 1 }",
         "tasks: more than there are phases for"},
    };
    for (int i = 0; i < COUNT_OF(rows); i++) {
        const Kernel *const kernel = kernel_of(rows[i].kernel);
        const CudaMapping *const mapping = read_mapping(rows[i].shapes, kernel);
        ck_assert_msg(mapping != NULL, "%s: %s", rows[i].shapes, error_slot()->message);
        const Status status = cuda_mapping_verify(mapping, kernel, machine_gpu());
        if (!rows[i].why) {
            ck_assert_msg(status == ST_OK, "%s: %s", rows[i].shapes, error_slot()->message);
            continue;
        }
        ck_assert_msg(status == ST_INTERNAL, "%s is accepted", rows[i].shapes);
        ck_assert_msg(strstr(error_slot()->message, rows[i].why) != NULL, "%s: %s", rows[i].shapes,
                      error_slot()->message);
        error_clear();
    }
}
END_TEST

/* A launch takes a limited number of words. */
START_TEST(words_of_the_machine_count) {
    const Kernel *const kernel = kernel_of(in_turn);
    Machine small = *machine_gpu();
    const CudaMapping *const together = read_mapping(M R "level 1 whole }", kernel);
    ck_assert_int_eq(cuda_mapping_verify(together, kernel, &small), ST_OK);
    small.words = cuda_mapping_args(kernel, &kernel->nests[1], CUDA_whole);
    ck_assert_int_eq(cuda_mapping_verify(together, kernel, &small), ST_INTERNAL);
    ck_assert_ptr_nonnull(strstr(error_slot()->message, "launch: more words than the machine takes"));
    error_clear();
    const CudaMapping *const decided = cuda_mapping_decide(arena, &(CudaKernel){.kernel = kernel}, &small);
    ck_assert_int_eq(cuda_mapping_verify(decided, kernel, &small), ST_OK);
    ck_assert_int_eq(decided->parts[1].mapping.launch, 1);
}
END_TEST

START_TEST(texts_that_are_none_are_refused) {
    static const char *const wrong[] = {
        M,
        "shape r { map launch 0 threads 128 dims (i0 i1) level 0 whole }",
        "shape m { launch 0 threads 128 dims (i0 i1) level 0 whole }",
        "shape m { map threads 128 dims (i0 i1) level 0 whole }",
        "shape m { map launch 0 dims (i0 i1) level 0 whole }",
        "shape m { map launch 0 threads 128 dims (i0 i2) level 0 whole }",
        "shape m { map launch 0 threads 128 dims (i0 i1) }",
        "shape m { map launch 0 threads 128 dims (i0 i1) level 0 none }",
        "shape m { map launch 0 threads 128 dims (i0 i1) level 0 chunks }",
        "shape m { map launch 0 threads 128 dims (i0 i1) level 0 chunks phase 1 }",
        "shape m { map launch 0 threads 128 dims (i0 i1) level 0 whole unroll }",
        "shape m { map launch 0 threads 128 dims (i0 i1) level 0 whole level 1 whole level 2 whole level 3 whole }",
        "shape m { map launch 0 threads 128 dims (i0 i1) level 0 whole"};
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        ck_assert_msg(!read_mapping(wrong[i], kernel_of(in_turn)), "%s is read", wrong[i]);
        ck_assert_int_eq(error_pending(), ST_PARSE);
        error_clear();
    }
}
END_TEST

START_TEST(gpus_print_and_parse) {
    for (int i = 0; machine_gpu_at(i); i++) {
        Text text = {0}, again = {0};
        machine_print(machine_gpu_at(i), &text);
        TextReader in = {.what = "m", .between = BETWEEN_comments, .start = text_str(&text), .at = text_str(&text)};
        Machine m;
        ck_assert_int_eq(machine_parse(&in, &m), ST_OK);
        machine_print(&m, &again);
        ck_assert_str_eq(text_str(&text), text_str(&again));
        ck_assert_ptr_eq(machine_of_capability(m.capability), machine_gpu_at(i));
        ck_assert_ptr_eq(machine_find(m.name, strlen(m.name)), machine_gpu_at(i));
        ck_assert_int_le(m.words, KERNEL_MOST_ARGS); /* arrays of a launch have room for no more */
        text_free(&text), text_free(&again);
    }
    ck_assert_str_eq(machine_of_capability(75)->name, "sm_80");
    ck_assert_str_eq(machine_of_capability(89)->name, "sm_80");
    ck_assert_str_eq(machine_of_capability(120)->name, "sm_90");
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("mapping");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, random_mappings_print_and_parse);
    tcase_add_test(tests, mappings_that_do_not_fit_are_refused);
    tcase_add_test(tests, words_of_the_machine_count);
    tcase_add_test(tests, texts_that_are_none_are_refused);
    tcase_add_test(tests, gpus_print_and_parse);
    return suite_run("mapping", tests);
}
