/* test_loop.c: loop IR: phases that loop_finish forms, text identity, what the verifier refuses. */
#include "ir/loop.h"
#include "runtime/base/error.h"
#include "tests/unit/suite.h"

static Arena *arena;
static void setup(void) { arena = arena_new(); }
static void teardown(void) { arena_free(arena); }

static const char softmax_text[] = "kernel k0_softmax(b0: in f32, b1: out f32) params(p0) {\n"
                                   "  nest k0_n0 outer(p0) inner(768) order L {\n"
                                   "    reduce inner:\n"
                                   "      %0 = load f32 b0[768*i0 + j0]\n"
                                   "      %1 = reduce max.f32 %0\n"
                                   "    reduce inner:\n"
                                   "      %2 = sub.f32 %0, %1\n"
                                   "      %3 = exp.f32 %2\n"
                                   "      %4 = reduce sum.f32 %3\n"
                                   "    map inner:\n"
                                   "      %5 = div.f32 %3, %4\n"
                                   "      store b1[768*i0 + j0], %5\n"
                                   "  }\n"
                                   "}\n";

static const char mixed_text[] = "kernel k1(b0: in bf16, b1: in i64, b2: out f32, b3: inout bool, "
                                 "b4: temp i64) params(p0, p1: float) independent {\n"
                                 "  nest outer() inner(p0, 3; 4) order LS {\n"
                                 "    reduce inner:\n"
                                 "      %0 = load bf16 b0[p0*j0 + -4*j1 + j2 + 7]\n"
                                 "      %1 = load i64 b1[0]\n"
                                 "      %2 = gather bf16 b0[j2 + 768*%1 + 3] below p0 wrap\n"
                                 "      %3 = lt.f32 %0, %2\n"
                                 "      %4 = reduce any.b %3\n"
                                 "      %5 = reduce argmax.f32 %0\n"
                                 "      %6 = reduce dot.f32 %0, %2\n"
                                 "    map inner:\n"
                                 "      %7 = select.f32 %4, %0, %6\n"
                                 "      %8 = const f32 -0.0\n"
                                 "      %9 = const f32 nan\n"
                                 "      %10 = const f64 bits -2251799813685248\n"
                                 "      %11 = param f64 p1\n"
                                 "      %12 = fma.f64 %11, %10, %11\n"
                                 "      %13 = cast.f32 %12\n"
                                 "      %14 = max.f32 %13, %8\n"
                                 "      %15 = add.f32 %14, %9\n"
                                 "      %16 = mul.f32 %15, %7\n"
                                 "      store b2[12*j0 + 4*j1 + j2], %16\n"
                                 "    map outer:\n"
                                 "      store b3[0], %4\n"
                                 "      store b4[p0], %5\n"
                                 "  }\n"
                                 "  nest outer(2, 3) {\n"
                                 "    map:\n"
                                 "      %0 = index [3*i0 + i1]\n"
                                 "      store b4[3*i0 + i1], %0\n"
                                 "  }\n"
                                 "}\n";

static const char gemm_text[] = "kernel k2_mm_relu(b0: in f32, b1: in f32, b2: out f32, b3: tile f32) params(p0) {\n"
                                "  gemm f32 [1, p0, 768, 64] a=b0[0; 0, 64, 1] b=b1[8; 0, 1, 64] tile=b3\n"
                                "  nest outer(p0, 768) {\n"
                                "    map:\n"
                                "      %0 = load f32 b3[768*i0 + i1]\n"
                                "      %1 = const f32 0.0\n"
                                "      %2 = max.f32 %0, %1\n"
                                "      store b2[768*i0 + i1], %2\n"
                                "  }\n"
                                "}\n";

static const char plain_gemm_text[] = "kernel k3(b0: in bf16, b1: in bf16, b2: out bf16) {\n"
                                      "  gemm bf16 [2, 5, 6, 7] a=b0[0; 35, 7, 1] b=b1[0; 42, 6, 1] c=b2[0; 30, 6, 1]\n"
                                      "}\n";

static const char fast_gemm_text[] = "kernel k3(b0: in f32, b1: in f32, b2: out f32) {\n"
                                     "  gemm f32 fast [1, 5, 6, 7] a=b0[0; 0, 7, 1] b=b1[0; 0, 6, 1] c=b2[0; 0, 6, 1]\n"
                                     "}\n";

static void expect_identity(const char *text) {
    Kernel *kernel, *again;
    const char *end;
    Text printed = {0};
    if (kernel_parse(arena, text, &end, &kernel) != ST_OK) ck_abort_msg("%s", error_slot()->message);
    ck_assert(*end == '\0');
    if (kernel_verify(kernel) != ST_OK) ck_abort_msg("%s", error_slot()->message);
    kernel_print(kernel, &printed);
    ck_assert_str_eq(text_str(&printed), text);
    ck_assert_int_eq(kernel_parse(arena, text_str(&printed), NULL, &again), ST_OK);
    ck_assert_uint_eq(kernel_hash(kernel), kernel_hash(again));
    text_free(&printed);
}

START_TEST(text_reads_back_to_the_same_bytes) {
    expect_identity(softmax_text);
    expect_identity(mixed_text);
    expect_identity(gemm_text);
    expect_identity(plain_gemm_text);
    expect_identity(fast_gemm_text);
}
END_TEST

/* The same softmax through the builder, with a dead instruction and instructions out of phase
 * order. */
START_TEST(finish_forms_the_fewest_phases) {
    LoopBuilder *const b = loop_new(arena, 1, 1, 0, (const int64_t[]){sym_make(0), 768});
    const Affine at = {.coef = {768, 1}};
    const int x = loop_load(b, 0, DT_f32, &at);
    loop_prim(b, PRIM_sqrt, x, -1, -1);
    const int e = loop_prim(b, PRIM_exp, loop_prim(b, PRIM_sub, x, loop_reduce(b, RED_max, x, -1), -1), -1, -1);
    ck_assert_int_eq(loop_load(b, 0, DT_f32, &at), x);
    loop_store(b, 1, DT_f32, &at, loop_prim(b, PRIM_div, e, loop_reduce(b, RED_sum, e, -1), -1), false);
    Nest nest;
    loop_finish(b, &nest);
    nest.name = "k0_n0";
    Buf bufs[] = {{DT_f32, BUF_in}, {DT_f32, BUF_out}};
    bool floats[] = {false};
    const Kernel kernel = {.name = "k0_softmax",
                           .n_bufs = 2,
                           .n_params = 1,
                           .n_nests = 1,
                           .bufs = bufs,
                           .param_is_float = floats,
                           .nests = &nest};
    Text text = {0};
    ck_assert_int_eq(kernel_verify(&kernel), ST_OK);
    kernel_print(&kernel, &text);
    ck_assert_str_eq(text_str(&text), softmax_text);
    text_free(&text);
}
END_TEST

START_TEST(independent_reductions_share_a_phase) {
    LoopBuilder *const b = loop_new(arena, 1, 1, 1, (const int64_t[]){5, 9});
    const Affine at = {.coef = {1, 5}}, outer = {.coef = {1}};
    const int x = loop_load(b, 0, DT_f32, &at);
    const int low = loop_reduce(b, RED_min, x, -1), high = loop_reduce(b, RED_max, x, -1);
    loop_store(b, 1, DT_f32, &outer, loop_prim(b, PRIM_sub, high, low, -1), true);
    Nest nest;
    loop_finish(b, &nest);
    ck_assert_int_eq(nest.n_phases, 2);
    ck_assert_int_eq(nest.phases[0].kind, PHASE_reduce);
    ck_assert_int_eq(nest.phases[0].n, 3);
    ck_assert(nest.phases[1].over_outer);
}
END_TEST

START_TEST(a_nest_whose_reductions_died_is_a_map) {
    LoopBuilder *const b = loop_new(arena, 1, 1, 0, (const int64_t[]){5, 9});
    const Affine at = {.coef = {9, 1}};
    const int x = loop_load(b, 0, DT_f32, &at);
    loop_reduce(b, RED_sum, x, -1);
    loop_store(b, 1, DT_f32, &at, x, false);
    Nest nest;
    loop_finish(b, &nest);
    ck_assert_int_eq(nest.n_outer, 2);
    ck_assert_int_eq(nest.n_inner, 0);
    ck_assert_int_eq(nest.n_insts, 2);
}
END_TEST

/* Replaces the first `from` of the text by `to`; the result must be refused, with `why` in the
 * message. */
static void expect_refusal(const char *text, const char *from, const char *to, const char *why) {
    const char *const at = strstr(text, from);
    ck_assert_ptr_nonnull(at);
    const char *const changed = arena_printf(arena, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    Kernel *kernel;
    Status status = kernel_parse(arena, changed, NULL, &kernel);
    if (status == ST_OK) status = kernel_verify(kernel);
    ck_assert_msg(status != ST_OK, "accepted: %s", changed);
    ck_assert_msg(strstr(error_slot()->message, why) != NULL, "\"%s\" for \"%s\"", error_slot()->message, to);
    error_clear();
}

START_TEST(bad_kernels_are_refused) {
    expect_refusal(softmax_text, "sub.f32 %0", "sub.f32 %3", "smaller number");
    expect_refusal(softmax_text, "b1: out", "b1: in", "only read");
    expect_refusal(softmax_text, "b1: out f32", "b1: out f64", "another type");
    expect_refusal(softmax_text, "max.f32 %0", "any.f32 %0", "any and all");
    expect_refusal(softmax_text, "exp.f32 %2", "not.f32 %2", "does not exist");
    expect_refusal(softmax_text, "exp.f32 %2", "exp.f32 %2, %2", "number of operands");
    expect_refusal(softmax_text, "    reduce inner:\n      %2", "      %2", "own phase");
    expect_refusal(softmax_text, "map inner", "map outer", "inner");
    expect_refusal(softmax_text, "outer(p0)", "outer(p1)", "smaller number");
    expect_refusal(softmax_text, "params(p0)", "params(p0: float)", "bad extent");
    expect_refusal(softmax_text, "outer(p0)", "outer(-1)", "bad extent");
    expect_refusal(softmax_text, "768*i0", "768*i1", "smaller number");
    expect_refusal(mixed_text, "param f64 p1", "param f64 p0", "another type");
    expect_refusal(mixed_text, "768*%1", "768*%0", "not i64");
    expect_refusal(mixed_text, "select.f32 %4", "select.f32 %0", "not a bool");
    expect_refusal(gemm_text, "b3: tile", "b3: in", "tile");
    expect_refusal(gemm_text, "outer(p0, 768)", "outer(p0, 767)", "another size");
    expect_refusal(gemm_text, " tile=b3", "", "needs a tile");
    expect_refusal(plain_gemm_text, "gemm bf16 ", "gemm bf16 fast ", "no faster way");
}
END_TEST

START_TEST(the_hash_sees_structure_only) {
    Kernel *a, *b;
    ck_assert_int_eq(kernel_parse(arena, softmax_text, NULL, &a), ST_OK);
    ck_assert_int_eq(kernel_parse(arena, softmax_text, NULL, &b), ST_OK);
    b->name = b->nests[0].name = "other";
    b->nests[0].insts[0].source = 12;
    ck_assert_uint_eq(kernel_hash(a), kernel_hash(b));
    b->nests[0].insts[0].at->coef[1] = 2;
    ck_assert_uint_ne(kernel_hash(a), kernel_hash(b));
}
END_TEST

/* Letters stand for sizes once, dims are letters, a hole has the two dims of a tile, results come last. */
START_TEST(rows_of_templates_fit_their_room) {
    for (int i = 0; i < TEMPLATE_COUNT; i++) {
        const Template *const row = &templates[i];
        ck_assert_msg(strlen(row->sizes) <= TEMPLATE_SIZES, "%s has too many sizes", row->name);
        for (const char *c = row->sizes; *c; c++) ck_assert_ptr_eq(strchr(row->sizes, *c), c);
        bool results = false;
        for (int k = 0; k < TEMPLATE_OPERANDS && row->operands[k].name; k++) {
            const char *const dims = row->operands[k].dims;
            ck_assert_msg(strlen(dims) <= TEMPLATE_RANK, "%s: %s has too many dims", row->name, row->operands[k].name);
            ck_assert_uint_eq(strspn(dims, row->sizes), strlen(dims));
            ck_assert(row->operands[k].result || !results);
            results = row->operands[k].result;
        }
        const size_t rank = strlen(row->hole);
        ck_assert(results && rank >= 2 && rank <= TEMPLATE_RANK && strspn(row->hole, row->sizes) == rank);
    }
}
END_TEST

int main(void) {
    TCase *const all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_test(all, text_reads_back_to_the_same_bytes);
    tcase_add_test(all, finish_forms_the_fewest_phases);
    tcase_add_test(all, independent_reductions_share_a_phase);
    tcase_add_test(all, a_nest_whose_reductions_died_is_a_map);
    tcase_add_test(all, bad_kernels_are_refused);
    tcase_add_test(all, the_hash_sees_structure_only);
    tcase_add_test(all, rows_of_templates_fit_their_room);
    return suite_run("loop", all);
}
