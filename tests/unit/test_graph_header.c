/* test_graph_header.c: the header of a graph from text is the truth: its symbols, their bounds and what it assumes. It
 * is compiled once for all sizes that it allows, before its first call, which runs compiled; other sizes are errors. */
#include <stdio.h>

#include "tests/unit/contract.h"

static const sn_compile_mode modes[] = {SN_COMPILE_VERIFY, SN_COMPILE_REPLAY};
enum { MODES = sizeof modes / sizeof *modes };

static sn_function *compiled(const char *text, sn_compile_mode mode) {
    sn_graph *const g = sn_graph_parse(text, strlen(text));
    ck_assert_msg(g != NULL, "%s", sn_error_take()->message);
    ck_assert(!strncmp(sn_graph_text(g), text, strcspn(text, "(")));
    sn_function *const fn = sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = mode));
    ck_assert_msg(fn != NULL, "%s", sn_error_take()->message);
    sn_graph_free(g);
    return fn;
}

/* Both run a call and agree. */
static void agree(sn_function *fn, sn_function *eager, sn_tensor **in, int n_in, int n_out) {
    sn_tensor *got[8] = {0}, *want[8] = {0};
    ck_assert_msg(sn_call(fn, in, n_in, got, n_out) == SN_OK, "%s", sn_error_take()->message);
    ck_assert_msg(sn_call(eager, in, n_in, want, n_out) == SN_OK, "%s", sn_error_take()->message);
    for (int i = 0; i < n_out; i++) ck_assert(same_bits(got[i], want[i]));
}

/* No op has run eagerly, from the first call on. */
static void only_compiled(sn_function *fn, int64_t compiles) {
    const sn_stats stats = stats_of(fn);
    if (stats.ops_eager || stats.compiles != compiles) fputs(sn_explain(fn), stderr);
    ck_assert_int_eq(stats.ops_eager, 0);
    ck_assert_int_eq(stats.compiles, compiles);
    ck_assert_int_gt(stats.ops_generated, 0);
}

static const char *const decoder =
    "graph decoder[s0=2>=1<=8, s1=16>=1<=64](%x: f32[s0,s1,8], %wq: f32[8,8], %wk: f32[8,8], %wv: f32[8,8], "
    "%mask: bool[64,64]) {\n"
    "  %0 = aten::pow.Tensor_Scalar(%x, 2)\n"
    "  %1 = aten::mean.dim(%0, [-1], True)\n"
    "  %2 = aten::add.Scalar(%1, 1e-06)\n"
    "  %3 = aten::rsqrt(%2)\n"
    "  %4 = aten::mul.Tensor(%x, %3)\n"
    "  %5 = aten::linear(%4, %wq)\n"
    "  %6 = aten::view(%5, [s0, s1, 2, 4])\n"
    "  %7 = aten::transpose.int(%6, 1, 2)\n"
    "  %8 = aten::linear(%4, %wk)\n"
    "  %9 = aten::view(%8, [s0, s1, 2, 4])\n"
    "  %10 = aten::transpose.int(%9, 1, 2)\n"
    "  %11 = aten::linear(%4, %wv)\n"
    "  %12 = aten::view(%11, [s0, s1, 2, 4])\n"
    "  %13 = aten::transpose.int(%12, 1, 2)\n"
    "  %14 = aten::transpose.int(%10, 2, 3)\n"
    "  %15 = aten::matmul(%7, %14)\n"
    "  %16 = aten::slice.Tensor(%mask, 0, 0, s1)\n"
    "  %17 = aten::slice.Tensor(%16, 1, 0, s1)\n"
    "  %18 = aten::scalar_tensor(-inf, dtype=f32, device=cpu)\n"
    "  %19 = aten::where.self(%17, %15, %18)\n"
    "  %20 = aten::softmax.int(%19, -1)\n"
    "  %21 = aten::matmul(%20, %13)\n"
    "  %22 = aten::transpose.int(%21, 1, 2)\n"
    "  %23 = aten::reshape(%22, [s0, s1, 8])\n"
    "  %24 = aten::add.Tensor(%23, %x)\n"
    "  return %24\n}\n";

static void decoder_inputs(sn_tensor **in, uint64_t seed, int64_t batch, int64_t length) {
    in[0] = F32(seed, batch, length, 8);
    for (int i = 1; i < 4; i++) in[i] = F32(seed + (uint64_t)i, 8, 8);
    in[4] = sn_tril(sn_ones(SN_INTS(64, 64), SN_BOOL), 0);
}

static const int64_t lengths[][2] = {{2, 16}, {3, 5}, {8, 63}, {2, 17}, {5, 2}, {2, 48}};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

START_TEST(a_decoder_is_compiled_once) {
    for (int m = 0; m < MODES; m++) {
        sn_function *const fn = compiled(decoder, modes[m]), *const eager = compiled(decoder, SN_COMPILE_EAGER);
        for (int i = 0; i < LENGTHS; i++) {
            sn_tensor *in[5];
            decoder_inputs(in, 10 * (uint64_t)i, lengths[i][0], lengths[i][1]);
            agree(fn, eager, in, 5, 1);
        }
        only_compiled(fn, 1);
        sn_function_free(fn);
        sn_function_free(eager);
    }
}
END_TEST

/* In another way a reshape is computed where there is one row (a view), which is a case of its own. */
START_TEST(rows_of_one) {
    static const int64_t ones[][2] = {{1, 1}, {3, 1}, {1, 5}, {2, 16}, {1, 9}, {4, 3}, {7, 1}, {1, 1}};
    for (int m = 0; m < MODES; m++) {
        sn_function *const fn = compiled(decoder, modes[m]), *const eager = compiled(decoder, SN_COMPILE_EAGER);
        for (int i = 0; i < 8; i++) {
            sn_tensor *in[5];
            decoder_inputs(in, 10 * (uint64_t)i, ones[i][0], ones[i][1]);
            agree(fn, eager, in, 5, 1);
        }
        only_compiled(fn, 4);
        sn_function_free(fn);
        sn_function_free(eager);
    }
}
END_TEST

/* A range from 1 has size 1: the same code. */
START_TEST(a_range_from_1) {
    const char *const text = "graph f[s0=1>=1<=64, s1=3>=1](%x: f32[s0,s1,8], %y: f32[1,s1,8], %w: f32[s0,8]) {\n"
                             "  %0 = aten::mul.Tensor(%x, %y)\n"
                             "  %1 = aten::sum.dim_IntList(%0, [1])\n"
                             "  %2 = aten::add.Tensor(%1, %w)\n"
                             "  %3 = aten::view(%0, [s0*s1, 8])\n"
                             "  %4 = aten::softmax.int(%3, 1)\n"
                             "  return %2, %4\n}\n";
    static const int64_t sizes[][2] = {{1, 1}, {3, 1}, {1, 5}, {2, 16}, {1, 9}, {4, 3}, {7, 1}, {64, 30}};
    for (int m = 0; m < MODES; m++) {
        sn_function *const fn = compiled(text, modes[m]), *const eager = compiled(text, SN_COMPILE_EAGER);
        for (int i = 0; i < 8; i++) {
            const int64_t rows = sizes[i][0], length = sizes[i][1];
            sn_tensor *in[] = {F32(i, rows, length, 8), F32(20 + i, 1, length, 8), F32(40 + i, rows, 8)};
            agree(fn, eager, in, 3, 2);
        }
        only_compiled(fn, 1);
        sn_function_free(fn);
        sn_function_free(eager);
    }
}
END_TEST

/* A forward and a backward, once each. */
START_TEST(a_decoder_that_trains) {
    sn_function *const fn = compiled(decoder, SN_COMPILE_VERIFY), *const eager = compiled(decoder, SN_COMPILE_EAGER);
    for (int i = 0; i < LENGTHS; i++) {
        sn_tensor *in[5], *out, *grads[2][4];
        for (int way = 0; way < 2; way++) {
            decoder_inputs(in, 10 * (uint64_t)i, lengths[i][0], lengths[i][1]);
            for (int k = 0; k < 4; k++) sn_requires_grad_(in[k], true);
            ck_assert_msg(sn_call(way ? eager : fn, in, 5, &out, 1) == SN_OK, "%s", sn_error_take()->message);
            ck_assert_int_eq(sn_backward(sn_sum(sn_mul(out, out))), SN_OK);
            for (int k = 0; k < 4; k++) grads[way][k] = sn_grad(in[k]);
        }
        for (int k = 0; k < 4; k++) ck_assert(same_bits(grads[0][k], grads[1][k]));
    }
    only_compiled(fn, 1);
    sn_function_free(fn);
    sn_function_free(eager);
}
END_TEST

static const char *const solved = "graph f[s0=4>=1<=64, s1=8](%x: f32[s0*2,4], %y: f32[s1+s0-1]) {\n"
                                  "  %0 = aten::view(%x, [s0, 8])\n"
                                  "  %1 = aten::sum.dim_IntList(%0, [1], False)\n"
                                  "  %2 = aten::slice.Tensor(%y, 0, 0, s1//2)\n"
                                  "  %3 = aten::sum(%2)\n"
                                  "  %4 = aten::add.Tensor(%1, %3)\n"
                                  "  return %4\n}\n";

START_TEST(symbols_that_sizes_are_solved_for) {
    for (int m = 0; m < MODES; m++) {
        sn_function *const fn = compiled(solved, modes[m]), *const eager = compiled(solved, SN_COMPILE_EAGER);
        static const int64_t sizes[][2] = {{4, 8}, {7, 3}, {1, 9}, {64, 30}};
        for (int i = 0; i < 4; i++) {
            sn_tensor *const in[] = {F32(i, sizes[i][0] * 2, 4), F32(20 + i, sizes[i][0] + sizes[i][1] - 1)};
            agree(fn, eager, (sn_tensor **)in, 2, 1);
        }
        only_compiled(fn, 1);
        sn_tensor *in[] = {F32(1, 7, 4), F32(2, 9)}, *out;
        sn_function *const both[] = {fn, eager};
        for (int k = 0; k < 2; k++) {
            in[0] = F32(1, 7, 4);
            ck_assert_int_eq(sn_call(both[k], in, 2, &out, 1), SN_ERR_SHAPE);
            expect_error(SN_ERR_SHAPE, "argument 0 wants f32[s0*2,4], got f32[7,4]");
            in[0] = F32(1, 130, 4);
            ck_assert_int_eq(sn_call(both[k], in, 2, &out, 1), SN_ERR_SHAPE);
            expect_error(SN_ERR_SHAPE, "s0 is 65, from size 130 of dim 0 of %x: at least 1 and at most 64");
        }
        sn_function_free(fn);
        sn_function_free(eager);
    }
}
END_TEST

static const char *const assumed = "graph f[s0=4, s1=8; s1==s0*2, (s0%4)==0](%x: f32[s0,3], %y: f32[s1,3]) {\n"
                                   "  %0 = aten::cat([%x, %x], 0)\n"
                                   "  %1 = aten::add.Tensor(%0, %y)\n"
                                   "  %2 = aten::view(%1, [s0//4, 24])\n"
                                   "  return %2\n}\n";

START_TEST(what_a_header_assumes) {
    for (int m = 0; m < MODES; m++) {
        sn_function *const fn = compiled(assumed, modes[m]), *const eager = compiled(assumed, SN_COMPILE_EAGER);
        for (int64_t n = 8; n < 40; n += 4) {
            sn_tensor *const in[] = {F32(n, n, 3), F32(n + 1, 2 * n, 3)};
            agree(fn, eager, (sn_tensor **)in, 2, 1);
        }
        only_compiled(fn, 1);
        sn_tensor *out, *in[] = {F32(1, 6, 3), F32(1, 12, 3)};
        ck_assert_int_eq(sn_call(fn, in, 2, &out, 1), SN_ERR_SHAPE);
        expect_error(SN_ERR_SHAPE, "the sizes are 2 and 0 where the header assumes (s0%4)==0, s0 = 6 from size 6 of "
                                   "dim 0 of %x");
        in[0] = F32(1, 8, 3);
        ck_assert_int_eq(sn_call(fn, in, 2, &out, 1), SN_ERR_SHAPE);
        expect_error(SN_ERR_SHAPE, "where the header assumes s1==s0*2");
        sn_function_free(fn);
        sn_function_free(eager);
    }
}
END_TEST

/* Without bounds 0 and 1 are cases of their own, and no errors. */
START_TEST(symbols_without_bounds) {
    const char *const text = "graph f(%x: f32[s0,3]) {\n  %0 = aten::relu(%x)\n  return %0\n}\n";
    for (int m = 0; m < MODES; m++) {
        sn_function *const fn = compiled(text, modes[m]), *const eager = compiled(text, SN_COMPILE_EAGER);
        static const int64_t sizes[] = {5, 1, 0, 7, 1, 0, 3};
        for (int i = 0; i < 7; i++) agree(fn, eager, (sn_tensor *[]){F32(i, sizes[i], 3)}, 1, 1);
        only_compiled(fn, 3);
        sn_function_free(fn);
        sn_function_free(eager);
    }
}
END_TEST

/* The hints of a header follow from what it assumes; other texts of it print alike. */
START_TEST(headers_as_text) {
    static const char *const texts[][2] = {
        {"graph f[s0=2, s1=2; s1 == CeilDiv(s0, 2)+1, Mod(s0, 8)==0, s0 > 3](%x: f32[s0,s1]) {\n  return %x\n}\n",
         "graph f[s0=8, s1=5; s1==-((-s0)//2)+1, (s0%8)==0, 3<s0](%x: f32[s0,s1]) {\n  return %x\n}\n"},
        {"graph f[s0=2<=7](%x: f32[Max(s0, 3)*s0**2]) {\n  return %x\n}\n", NULL}};
    for (int i = 0; i < 2; i++) {
        sn_graph *const g = sn_graph_parse(texts[i][0], strlen(texts[i][0]));
        ck_assert_msg(g != NULL, "%s", sn_error_take()->message);
        char first[400];
        snprintf(first, sizeof first, "%s", sn_graph_text(g));
        if (texts[i][1]) ck_assert_str_eq(first, texts[i][1]);
        sn_graph *const again = sn_graph_parse(first, strlen(first));
        ck_assert_msg(again != NULL, "%s: %s", first, sn_error_take()->message);
        ck_assert_str_eq(sn_graph_text(again), first);
        sn_graph_free(g);
        sn_graph_free(again);
    }
    static const char *const wrong[] = {"graph f[s0=2>=5<=4](%x: f32[s0]) {\n  return %x\n}\n",
                                        "graph f[s0=2; s1==s0](%x: f32[s0]) {\n  return %x\n}\n",
                                        "graph f[s0=2; s0](%x: f32[s0]) {\n  return %x\n}\n"};
    static const char *const says[] = {"no number is from 5 to 4", "s1 is not in the list", "expected '=='"};
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_null(sn_graph_parse(wrong[i], strlen(wrong[i])));
        expect_error(SN_ERR_PARSE, says[i]);
    }
}
END_TEST

/* What only values give is a symbol from there on: the graph runs by segments, each compiled once. */
START_TEST(sizes_that_values_give) {
    for (int m = 0; m < MODES; m++) {
        const char *const whole = "graph f[s0=8>=1, s1=2>=0, s2=2>=0<=40, s3=2>=0](%x: f32[s0,4], %m: bool[s0]) {\n"
                                  "  %0 = aten::relu(%x)\n"
                                  "  %1: i64[s1,2]{1,max(s1,1)} = aten::nonzero(%0)\n"
                                  "  %2 = aten::select.int(%1, 1, 0)\n"
                                  "  %3 = aten::mul.Scalar(%2, 2)\n"
                                  "  %4: f32[s2,4] = aten::index.Tensor(%0, [%m])\n"
                                  "  %5 = aten::view(%4, [s2*4])\n"
                                  "  %6 = aten::exp(%5)\n"
                                  "  %7 = aten::view(%6, [s2, 4])\n"
                                  "  %8 = aten::gt.Scalar(%7, 1.5)\n"
                                  "  %9: f32[s3] = aten::masked_select(%7, %8)\n"
                                  "  %10 = aten::add.Scalar(%9, 1)\n"
                                  "  return %3, %7, %10\n"
                                  "}\n";
        sn_graph *const g = sn_graph_parse(whole, strlen(whole));
        ck_assert_msg(g != NULL, "%s", sn_error_take()->message);
        ck_assert_str_eq(sn_graph_text(g), whole);
        sn_graph_free(g);
        sn_function *const fn = compiled(whole, modes[m]), *const eager = compiled(whole, SN_COMPILE_EAGER);
        int64_t compiles = 0;
        for (int64_t i = 0; i < 8; i++) {
            sn_tensor *const x = F32(i, 5 + 3 * i, 4);
            sn_tensor *in[] = {x, sn_gt_scalar(sn_select(x, 1, 0), sn_float(i == 5 ? 9 : -0.5))};
            agree(fn, eager, in, 2, 3);
            if (i == 0) compiles = stats_of(fn).compiles;
        }
        only_compiled(fn, compiles + 2); /* of what is empty: cases of their own */
        sn_tensor *in[] = {F32(1, 60, 4), sn_ones(SN_INTS(60), SN_BOOL)}, *out[3];
        ck_assert_int_eq(sn_call(fn, in, 2, out, 3), SN_ERR_SHAPE);
        expect_error(SN_ERR_SHAPE, "s2 is 60, from what aten::index.Tensor finds: at least 0 and at most 40");
        sn_function_free(fn);
        sn_function_free(eager);
    }
}
END_TEST

/* How many places a mask stands for is no size of what is written. */
START_TEST(masks_say_where_to_write) {
    const char *const text = "graph f[s0=8>=1](%x: f32[s0,4], %m: bool[s0], %v: f32[]) {\n"
                             "  %0 = aten::relu(%x)\n"
                             "  %1 = aten::index_put(%0, [%m], %v)\n"
                             "  %2 = aten::exp(%1)\n"
                             "  return %2\n}\n";
    for (int m = 0; m < MODES; m++) {
        sn_function *const fn = compiled(text, modes[m]), *const eager = compiled(text, SN_COMPILE_EAGER);
        for (int64_t i = 0; i < 6; i++) {
            sn_tensor *const x = F32(i, 5 + 3 * i, 4);
            sn_tensor *in[] = {x, sn_gt_scalar(sn_select(x, 1, 0), sn_float(i == 5 ? 9 : -0.5)), sn_mean(x)};
            agree(fn, eager, in, 3, 1);
        }
        sn_function_free(fn);
        sn_function_free(eager);
    }
}
END_TEST

/* Memory of its own begins at 0, whatever the sizes are; where a view of it begins a call says. */
START_TEST(offsets_in_new_memory_break_nothing) {
    static const char *const texts[] = {"graph f[s0=8>=2](%x: f32[s0,4], %v: f32[2,2]) {\n"
                                        "  %0 = aten::exp(%x)\n"
                                        "  %1 = aten::as_strided_scatter(%0, %v, [2, 2], [4, 1], 1)\n"
                                        "  %2 = aten::exp(%1)\n"
                                        "  return %1, %2\n}\n",
                                        "graph f[s0=8>=2](%x: f32[s0,4], %v: f32[2,2]) {\n"
                                        "  %0 = aten::exp(%x)\n"
                                        "  %1 = aten::slice.Tensor(%0, 0, -2)\n"
                                        "  %2 = aten::as_strided_scatter(%1, %v, [2, 2], [4, 1], s0*4-7)\n"
                                        "  return %1, %2\n}\n"};
    for (int m = 0; m < 2 * MODES; m++) {
        sn_function *const fn = compiled(texts[m / MODES], modes[m % MODES]);
        sn_function *const eager = compiled(texts[m / MODES], SN_COMPILE_EAGER);
        for (int64_t i = 0; i < 6; i++) {
            sn_tensor *in[] = {F32(i, 2 + 3 * i, 4), F32(i, 2, 2)};
            agree(fn, eager, in, 2, 2);
        }
        if (m < MODES) ck_assert_int_eq(stats_of(fn).breaks, 0);
        sn_function_free(fn);
        sn_function_free(eager);
    }
}
END_TEST

START_TEST(views_in_another_dtype) {
    const char *const text = "graph f(%x: f32[s0,4]) {\n"
                             "  %0 = aten::relu(%x)\n"
                             "  %1 = aten::view.dtype(%0, i16)\n"
                             "  %2 = aten::add.Scalar(%1, 1)\n"
                             "  %3 = aten::view(%2, [s0*8])\n"
                             "  return %3\n}\n";
    for (int m = 0; m < MODES; m++) {
        sn_function *const fn = compiled(text, modes[m]), *const eager = compiled(text, SN_COMPILE_EAGER);
        for (int64_t i = 2; i < 8; i++) agree(fn, eager, (sn_tensor *[]){F32(i, i, 4)}, 1, 1);
        const sn_stats stats = stats_of(fn);
        ck_assert_int_eq(stats.compiles, 2);
        ck_assert_int_eq(stats.ops_eager, 6); /* the view itself */
        sn_function_free(fn);
        sn_function_free(eager);
    }
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("tests");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, a_decoder_is_compiled_once);
    tcase_add_test(tests, rows_of_one);
    tcase_add_test(tests, a_range_from_1);
    tcase_add_test(tests, a_decoder_that_trains);
    tcase_add_test(tests, symbols_that_sizes_are_solved_for);
    tcase_add_test(tests, what_a_header_assumes);
    tcase_add_test(tests, symbols_without_bounds);
    tcase_add_test(tests, headers_as_text);
    tcase_add_test(tests, sizes_that_values_give);
    tcase_add_test(tests, masks_say_where_to_write);
    tcase_add_test(tests, offsets_in_new_memory_break_nothing);
    tcase_add_test(tests, views_in_another_dtype);
    return suite_run("graph header", tests);
}
