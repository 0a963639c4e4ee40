/* test_saved_graphs.c: plans of graphs whose header has sizes that are solved for symbols, and of functions that return
 * arguments themselves, or what they close over [8.05]: the loaded plan gives the function's bits, and arguments. */
#include <stdio.h>
#include <unistd.h>

#include <sinter/array.h>

#include "runtime/base/alloc.h"
#include "runtime/capture/function/saved.h"
#include "runtime/core/bundle.h"
#include "tests/unit/contract.h"

static const char *file_name(void) {
    static char path[64];
    snprintf(path, sizeof path, "test_saved_graphs.%d.plan", (int)getpid());
    return path;
}

/* Saved, freed and loaded again. */
static sn_function *through_a_file(sn_function *fn) {
    const sn_status status = sn_plan_save(fn, file_name(), SN_PLAN_OPTIONS(.embed = true));
    ck_assert_msg(status == SN_OK, "%s", sn_error_take()->message);
    sn_function_free(fn);
    sn_function *const plan = sn_plan_load(file_name(), NULL);
    ck_assert_msg(plan != NULL, "%s", sn_error_take()->message);
    remove(file_name());
    return plan;
}

static sn_function *graph_of(const char *text, sn_compile_mode mode) {
    sn_graph *const g = sn_graph_parse(text, strlen(text));
    ck_assert_msg(g != NULL, "%s", sn_error_take()->message);
    sn_function *const fn = sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = mode));
    ck_assert_msg(fn != NULL, "%s", sn_error_take()->message);
    sn_graph_free(g);
    return fn;
}

/* Sizes that are solved ----------------------------------------------------------------------- */

typedef struct Solved {
    const char *text;
    int64_t rows[6][2], wrong[2]; /* of both inputs */
    const char *says;
} Solved;

static const Solved solved[] = {
    {"graph f(%x: f32[2*s0,4], %y: f32[3]) {\n  %0 = aten::view(%x, [s0, 8])\n  %1 = aten::exp(%0)\n  return %1\n}\n",
     {{8, 3}, {12, 3}, {4, 3}, {64, 3}, {30, 3}, {6, 3}},
     {7, 3},
     "guard (s0//2)*2 == s0, now 6 and 7"},
    {"graph f[s0=4>=1<=64, s1=8>=1](%x: f32[2*s0+1,4], %y: f32[s0*s1+s0]) {\n  %0 = aten::view(%y, [s0, s1+1])\n"
     "  %1 = aten::sum(%x)\n  %2 = aten::add.Tensor(%0, %1)\n  return %2\n}\n",
     {{9, 32}, {5, 8}, {17, 16}, {13, 12}, {31, 30}, {129, 128}},
     {131, 130},
     "<= 64, now 65 and 64"},
    {"graph f(%x: f32[s0+s1,4], %y: f32[s1]) {\n  %0 = aten::slice.Tensor(%x, 0, s0)\n  %1 = aten::select.int(%0, 1, "
     "0)\n"
     "  %2 = aten::mul.Tensor(%1, %y)\n  return %2\n}\n",
     {{9, 4}, {12, 5}, {5, 2}, {40, 38}, {7, 3}, {100, 50}},
     {4, 3},
     "at least 2, now 1"},
};

START_TEST(sizes_are_solved_in_a_plan) {
    const Solved *const s = &solved[_i];
    sn_function *const fn = graph_of(s->text, SN_COMPILE_REPLAY), *const eager = graph_of(s->text, SN_COMPILE_EAGER);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(SN_CALL(fn, F32(i, s->rows[i][0], 4), F32(9, s->rows[i][1])) != NULL, "%s",
                      sn_error_take()->message);
    ck_assert_int_eq(stats_of(fn).compiles, 1);
    sn_function *const plan = through_a_file(fn);
    for (int i = 0; i < 6; i++) {
        sn_tensor *const x = F32(i, s->rows[i][0], 4), *const y = F32(9 + i, s->rows[i][1]);
        sn_tensor *const want = SN_CALL(eager, x, y), *const got = SN_CALL(plan, x, y);
        ck_assert_msg(got != NULL, "%d: %s", i, sn_error_take()->message);
        ck_assert(same_bits(got, want));
    }
    ck_assert_int_eq(saved_run_by_ops(plan), ST_OK); /* what sinter verify compares with */
    sn_tensor *const x = F32(3, s->rows[3][0], 4), *const y = F32(4, s->rows[3][1]);
    ck_assert(same_bits(SN_CALL(plan, x, y), SN_CALL(eager, x, y)));
    ck_assert_ptr_null(SN_CALL(plan, F32(1, s->wrong[0], 4), F32(2, s->wrong[1])));
    expect_error(SN_ERR_ARGUMENT, s->says);
    sn_function_free(plan);
    sn_function_free(eager);
}
END_TEST

/* A row-major argument is that in the file, too, where the dim that goes fastest may have no element. */
START_TEST(sizes_from_0_are_in_a_plan) {
    const char *const text = "graph f[s0=3>=0, s1=3>=0](%x: f32[s0,s1]) {\n  %0 = aten::exp(%x)\n  return %0\n}\n";
    static const int64_t sizes[][2] = {{3, 2}, {7, 1}, {1, 5}, {64, 64}, {3, 0}, {0, 2}};
    sn_function *const fn = graph_of(text, SN_COMPILE_REPLAY);
    for (int i = 0; i < 6; i++) ck_assert_ptr_nonnull(SN_CALL(fn, F32(i, sizes[i][0], sizes[i][1])));
    sn_function *const plan = through_a_file(fn);
    for (int i = 0; i < 6; i++) {
        sn_tensor *const x = F32(i, sizes[i][0], sizes[i][1]), *const got = SN_CALL(plan, x);
        ck_assert_msg(got != NULL, "%d: %s", i, sn_error_take()->message);
        ck_assert(same_bits(got, sn_exp(x)));
    }
    sn_function_free(plan);
}
END_TEST

/* Returned arguments -------------------------------------------------------------------------- */

typedef struct Host {
    sn_tensor *w;
} Host;

/* Its first argument, the second, a view of the first, what it closes over, and something new. */
static sn_status gives_back(sn_frame *f) {
    const Host *const h = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *const y = sn_in(f, 1);
    sn_out(f, 0, sn_add(sn_mul(x, y), h->w));
    sn_out(f, 1, x);
    sn_out(f, 2, y);
    sn_out(f, 3, sn_transpose(x, 0, 1));
    return sn_out(f, 4, h->w);
}

START_TEST(arguments_come_back_as_they_are) {
    Host h = {F32(7, 4)};
    sn_function *const fn = sn_compile(gives_back, &h, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    sn_tensor *out[5];
    for (int i = 0; i < 3; i++)
        ck_assert(sn_call(fn, (sn_tensor *[]){F32(i, 3, 4), F32(i + 5, 3, 4)}, 2, out, 5) == SN_OK);
    sn_function *const plan = through_a_file(fn);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const x = F32(i, 3, 4), *const y = F32(i + 5, 3, 4);
        ck_assert_msg(sn_call(plan, (sn_tensor *[]){x, y}, 2, out, 5) == SN_OK, "%s", sn_error_take()->message);
        ck_assert(same_bits(out[0], sn_add(sn_mul(x, y), h.w)));
        ck_assert_ptr_eq(out[1], x);
        ck_assert_ptr_eq(out[2], y);
        ck_assert_ptr_eq(sn_data(sn_transpose(out[3], 0, 1), SN_F32), sn_data(x, SN_F32));
        ck_assert_msg(same_bits(out[4], h.w), "%s, not %s", sn_repr(out[4]), sn_repr(h.w));
    }
    float x[12] = {1, 2, 3}, y[12] = {4, 5, 6}, sum[12];
    sn_array in[] = {SN_ARRAY(x, SN_F32, 3, 4), SN_ARRAY(y, SN_F32, 3, 4)}, results[5] = {{.kind = 0}};
    results[0] = SN_ARRAY(sum, SN_F32, 3, 4);
    ck_assert_msg(sn_call_arrays(plan, in, 2, results, 5, NULL) == SN_OK, "%s", sn_error_take()->message);
    for (int i = 1; i < 4; i++) {
        ck_assert_int_eq(results[i].alias, SN_ALIAS_INPUT);
        ck_assert_int_eq(results[i].alias_of, i == 2);
        ck_assert(results[i].data == (i == 2 ? y : x));
    }
    ck_assert_int_eq(results[4].alias, SN_ALIAS_OTHER);
    for (int i = 0; i < 5; i++) sn_release(results[i].owner);
    sn_tensor *const in_twice[] = {F32(1, 3, 4), F32(2, 3, 4)};
    ck_assert(sn_call(plan, (sn_tensor **)in_twice, 2, out, 5) == SN_OK);
    sn_function_free(plan);
    ck_assert(same_bits(out[4], h.w)); /* it does not go with the plan */
}
END_TEST

/* It is written, and is the result. */
static sn_status counts_up(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_out(f, 1, sn_exp(x));
    return sn_out(f, 0, sn_add_(x, sn_in(f, 1)));
}

static sn_status only_argument(sn_frame *f) {
    sn_exp(sn_in(f, 0));
    return sn_out(f, 0, sn_in(f, 0));
}

START_TEST(written_arguments_come_back) {
    sn_function *const fn = sn_compile(counts_up, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    sn_tensor *out[2];
    for (int i = 0; i < 3; i++)
        ck_assert(sn_call(fn, (sn_tensor *[]){F32(i, 3, 4), F32(9 + i, 3, 4)}, 2, out, 2) == SN_OK);
    sn_function *const plan = through_a_file(fn);
    sn_tensor *const x = F32(1, 3, 4), *const before = sn_clone(x), *const y = F32(5, 3, 4);
    ck_assert_msg(sn_call(plan, (sn_tensor *[]){x, y}, 2, out, 2) == SN_OK, "%s", sn_error_take()->message);
    ck_assert_ptr_eq(out[0], x);
    ck_assert(same_bits(x, sn_add(before, y)) && same_bits(out[1], sn_exp(before)));
    sn_function_free(plan);
    sn_function *const same = sn_compile(only_argument, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    for (int i = 0; i < 3; i++) ck_assert(SN_CALL(same, F32(i, 4, 4)) != NULL);
    sn_function *const loaded = through_a_file(same);
    sn_tensor *const z = F32(8, 4, 4);
    ck_assert_ptr_eq(SN_CALL(loaded, z), z);
    sn_function_free(loaded);
}
END_TEST

/* Which of two is returned is known, whichever came twice. */
START_TEST(the_same_tensor_twice) {
    Host h = {F32(7, 4)};
    sn_function *const fn = sn_compile(gives_back, &h, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    sn_tensor *out[5];
    for (int i = 0; i < 3; i++) {
        sn_tensor *const x = F32(i, 3, 4);
        ck_assert(sn_call(fn, (sn_tensor *[]){x, x}, 2, out, 5) == SN_OK);
        ck_assert(sn_call(fn, (sn_tensor *[]){F32(i + 20, 3, 4), F32(i + 5, 3, 4)}, 2, out, 5) == SN_OK);
    }
    sn_function *const plan = through_a_file(fn);
    sn_tensor *const x = F32(1, 3, 4), *const y = F32(2, 3, 4);
    ck_assert(sn_call(plan, (sn_tensor *[]){x, x}, 2, out, 5) == SN_OK);
    ck_assert(out[1] == x && out[2] == x);
    ck_assert(sn_call(plan, (sn_tensor *[]){x, y}, 2, out, 5) == SN_OK);
    ck_assert(out[1] == x && out[2] == y);
    sn_function_free(plan);
}
END_TEST

/* By ops --------------------------------------------------------------------------------------- */

/* The plan in the file with `from` in the text of its graphs as `to`, as long: NULL: it is refused. */
static sn_function *edited(const char *from, const char *to) {
    Bundle b;
    ck_assert_int_eq(bundle_open(file_name(), "plan", &b), ST_OK);
    char *const at = strstr(strstr(b.text, "\nops "), from);
    ck_assert_ptr_nonnull(at);
    memcpy(at, to, strlen(to));
    b.parts[BUNDLE_text].at = b.text;
    ck_assert_int_eq(bundle_save("test_saved_graphs.edited", "plan", b.parts, &b.parts[BUNDLE_tensors], 1), ST_OK);
    bundle_close(&b);
    sn_function *const fn = sn_plan_load("test_saved_graphs.edited", NULL);
    remove("test_saved_graphs.edited");
    ck_assert_msg(fn != NULL, "%s", sn_error_take()->message);
    return fn;
}

/* The ops are those of the file, and not the code by another name: another op gives other bits, and a graph that is no
 * graph, or another case's, is said so. */
START_TEST(what_runs_by_ops_is_the_graph) {
    static const char text[] = "graph f(%x: f32[s0,4]) {\n  %0 = aten::exp(%x)\n  %1 = aten::mul.Tensor(%0, 3.0)\n  "
                               "return %1\n}\n";
    sn_function *const fn = graph_of(text, SN_COMPILE_REPLAY);
    for (int i = 0; i < 2; i++) ck_assert_ptr_nonnull(SN_CALL(fn, F32(i, 3 + i, 4)));
    ck_assert_int_eq(sn_plan_save(fn, file_name(), SN_PLAN_OPTIONS(.as_called = true)), SN_OK);
    sn_tensor *const x = F32(5, 6, 4), *const want = SN_CALL(fn, x);
    sn_function *const same = edited("aten::exp", "aten::exp"), *const other = edited("aten::exp", "aten::neg");
    ck_assert_int_eq(saved_run_by_ops(same), ST_OK);
    ck_assert(same_bits(SN_CALL(same, x), want));
    ck_assert(same_bits(SN_CALL(other, x), want)); /* by its code, still */
    ck_assert_int_eq(saved_run_by_ops(other), ST_OK);
    ck_assert(same_bits(SN_CALL(other, x), sn_mul_scalar(sn_neg(x), sn_float(3))));
    sn_function *const broken = edited("aten::exp", "aten::xpe");
    ck_assert_int_ne(saved_run_by_ops(broken), ST_OK);
    expect_error(SN_ERR_PARSE, "no op is called 'aten::xpe'");
    sn_function_free(fn);
    sn_function_free(same);
    sn_function_free(other);
    sn_function_free(broken);
    remove(file_name());
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("tests");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, sizes_from_0_are_in_a_plan);
    tcase_add_loop_test(tests, sizes_are_solved_in_a_plan, 0, sizeof solved / sizeof *solved);
    tcase_add_test(tests, arguments_come_back_as_they_are);
    tcase_add_test(tests, written_arguments_come_back);
    tcase_add_test(tests, the_same_tensor_twice);
    tcase_add_test(tests, what_runs_by_ops_is_the_graph);
    return suite_run("saved graphs", tests);
}
