/* test_interp.c: the block interpreter gives the bits of the exact reference on random nests, for
 * every instruction set of this machine; on parts of the outer dims; and close to the double
 * reference on a plain one. */
#include <math.h>
#include <stdlib.h>

#include "kernels/kernels.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/cpu/interp.h"
#include "tests/ref/random_nest.h"
#include "tests/ref/ref_eval.h"
#include "tests/unit/suite.h"

static int first_seed = 1, n_seeds = 250;

static void fail_with(const RandomNest *nest, const BlockProgram *program, const char *what) {
    Text text = {0};
    kernel_print(&nest->kernel, &text);
    if (program) block_print(program, &text);
    for (int i = 0; i < nest->kernel.n_params; i++) text_printf(&text, "p%d = %lld\n", i, (long long)nest->params[i]);
    ck_abort_msg("seed %llu: %s\n%s", (unsigned long long)nest->seed, what, text_str(&text));
}

static void run_parts(const BlockProgram *program, const Nest *nest, void *const *memory, const int64_t *params,
                      NestError *error) {
    int64_t lo[MAX_LOOP_DIMS] = {0}, hi[MAX_LOOP_DIMS];
    for (int i = 0; i < nest->n_outer; i++)
        hi[i] = sym_is(nest->extent[i]) ? params[sym_id(nest->extent[i])] : nest->extent[i];
    if (!nest->n_outer) {
        interp_run(program, memory, params, lo, hi, error);
        return;
    }
    const int64_t whole = hi[0], middle = whole / 3;
    hi[0] = middle;
    interp_run(program, memory, params, lo, hi, error);
    lo[0] = middle;
    hi[0] = whole;
    if (error->inst < 0) interp_run(program, memory, params, lo, hi, error);
}

static void compare_once(const RandomNest *nest, const BlockProgram *program, bool parts) {
    Arena *const arena = arena_new();
    char *wanted[RANDOM_MAX_BUFS], *got[RANDOM_MAX_BUFS];
    void **const memory = random_memory(arena, nest, wanted), **const own = random_memory(arena, nest, got);
    NestError missed = {.inst = -1}, error = {.inst = -1};
    ref_exact(nest->kernel.nests, nest->kernel.bufs, memory, nest->params, NULL, NULL, &missed);
    if (parts)
        run_parts(program, nest->kernel.nests, own, nest->params, &error);
    else
        interp_run(program, own, nest->params, NULL, NULL, &error);
    if ((missed.inst >= 0) != (error.inst >= 0)) fail_with(nest, program, "one of both missed an index");
    if (missed.inst >= 0 && !nest->may_miss) fail_with(nest, program, "an index was missed");
    int buf;
    int64_t element;
    if (missed.inst < 0 && !random_same(nest, wanted, got, &buf, &element))
        fail_with(nest, program, arena_printf(arena, "buffer b%d differs at element %lld", buf, (long long)element));
    arena_free(arena);
}

static void compare_seed(uint64_t seed) {
    Arena *const arena = arena_new();
    const RandomNest *const nest = random_nest(arena, seed);
    BlockProgram *program;
    if (kernel_verify(&nest->kernel) != ST_OK) fail_with(nest, NULL, error_slot()->message);
    ck_assert_int_eq(block_compile(nest->kernel.nests, nest->kernel.bufs, &program), ST_OK);
    compare_once(nest, program, false);
    compare_once(nest, program, true);
    mem_free(program);
    arena_free(arena);
}

START_TEST(random_nests_give_the_exact_bits) {
    static const uint64_t found[] = {210, 30035}; /* empty argmax; a parameter in a small contiguous map */
    if (_i > (int)isa_host()) return;             /* this machine lacks the instructions */
    isa_force(_i);
    for (int i = 0; i < COUNT_OF(found); i++) compare_seed(found[i]);
    for (int seed = first_seed; seed < first_seed + n_seeds; seed++) compare_seed((uint64_t)seed);
    isa_force(-1);
}
END_TEST

/* What the generator prints reads back to the same bytes. */
START_TEST(random_nests_print_and_parse) {
    for (uint64_t seed = 1; seed < 300; seed++) {
        Arena *const arena = arena_new();
        const RandomNest *const nest = random_nest(arena, seed);
        Text first = {0}, second = {0};
        Kernel *again;
        kernel_print(&nest->kernel, &first);
        if (kernel_parse(arena, text_str(&first), NULL, &again) != ST_OK) fail_with(nest, NULL, error_slot()->message);
        kernel_print(again, &second);
        ck_assert_str_eq(text_str(&first), text_str(&second));
        ck_assert_uint_eq(kernel_hash(&nest->kernel), kernel_hash(again));
        text_free(&first);
        text_free(&second);
        arena_free(arena);
    }
}
END_TEST

static void expect_sum(const char *text, int64_t n, int64_t columns) {
    Arena *const arena = arena_new();
    Kernel *kernel;
    BlockProgram *program;
    NestError error = {.inst = -1};
    if (kernel_parse(arena, text, NULL, &kernel) != ST_OK || kernel_verify(kernel) != ST_OK)
        ck_abort_msg("%s", error_slot()->message);
    ck_assert_int_eq(block_compile(&kernel->nests[0], kernel->bufs, &program), ST_OK);
    float *const x = malloc(sizeof *x * (size_t)(n * columns)), got[8], exact[8];
    for (int64_t i = 0; i < n * columns; i++) x[i] = (float)((i * 7919) % 1000) / 37 - 13;
    interp_run(program, (void *[]){x, got}, NULL, NULL, NULL, &error);
    ref_exact(&kernel->nests[0], kernel->bufs, (void *[]){x, exact}, NULL, NULL, NULL, &error);
    ck_assert_mem_eq(got, exact, sizeof(float) * (size_t)columns);
    for (int64_t c = 0; c < columns; c++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += x[i * columns + c];
        ck_assert_double_eq_tol(got[c], sum, 1e-6 * (double)n);
    }
    free(x);
    mem_free(program);
    arena_free(arena);
}

START_TEST(long_sums_pass_through_all_levels) {
    expect_sum("kernel k(b0: in f32, b1: out f32) { nest outer() inner(1100000) order L { reduce "
               "inner: %0 = load f32 b0[j0] %1 = reduce sum.f32 %0 "
               "map outer: store b1[0], %1 } }",
               1100000, 1);
    expect_sum("kernel k(b0: in f32, b1: out f32) { nest outer(3) inner(270000) order S { reduce "
               "inner: %0 = load f32 b0[i0 + 3*j0] %1 = reduce sum.f32 %0 "
               "map outer: store b1[i0], %1 } }",
               270000, 3);
}
END_TEST

START_TEST(the_double_reference_is_near) {
    Arena *const arena = arena_new();
    Kernel *kernel;
    const char *const text = "kernel k(b0: in f32, b1: out f32) { nest outer(6) inner(1300) order "
                             "L { reduce inner: %0 = load f32 b0[1300*i0 + j0] "
                             "%1 = reduce max.f32 %0 reduce inner: %2 = sub.f32 %0, %1 %3 = "
                             "exp.f32 %2 %4 = reduce sum.f32 %3 "
                             "map inner: %5 = div.f32 %3, %4 store b1[1300*i0 + j0], %5 } }";
    BlockProgram *program;
    NestError error = {.inst = -1};
    static float x[6 * 1300], got[6 * 1300], wanted[6 * 1300];
    for (int i = 0; i < COUNT_OF(x); i++) x[i] = (float)((i * 31) % 97) / 10;
    ck_assert_int_eq(kernel_parse(arena, text, NULL, &kernel), ST_OK);
    ck_assert_int_eq(kernel_verify(kernel), ST_OK);
    ck_assert_int_eq(block_compile(&kernel->nests[0], kernel->bufs, &program), ST_OK);
    interp_run(program, (void *[]){x, got}, NULL, NULL, NULL, &error);
    ref_double(&kernel->nests[0], kernel->bufs, (void *[]){x, wanted}, NULL, NULL, NULL, &error);
    for (int i = 0; i < COUNT_OF(x); i++) ck_assert_double_eq_tol(got[i], wanted[i], 2e-6 * wanted[i]);
    mem_free(program);
    arena_free(arena);
}
END_TEST

int main(int argc, char **argv) {
    if (argc > 2) { /* test_interp FIRST COUNT: more seeds */
        first_seed = atoi(argv[1]);
        n_seeds = atoi(argv[2]);
    }
    TCase *const all = tcase_create("all");
    tcase_set_timeout(all, 600);
    tcase_add_test(all, random_nests_print_and_parse);
    tcase_add_test(all, long_sums_pass_through_all_levels);
    tcase_add_test(all, the_double_reference_is_near);
    tcase_add_loop_test(all, random_nests_give_the_exact_bits, 0, ISA_COUNT);
    return suite_run("interp", all);
}
