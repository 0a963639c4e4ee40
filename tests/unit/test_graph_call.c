/* test_graph_call.c: graphs from text that are called: what their header says is asked of the call, symbols have
 * values, views by numbers stay in their memory, errors name the line; inputs may be ints, and many. */
#include <stdio.h>

#include "tests/unit/contract.h"

static sn_graph *parsed(const char *text) {
    sn_graph *const g = sn_graph_parse(text, strlen(text));
    ck_assert_msg(g != NULL, "%s", sn_error_take()->message);
    return g;
}

static sn_function *compiled(const char *text, sn_compile_mode mode) {
    sn_graph *const g = parsed(text);
    ck_assert_msg(sn_graph_check(g) == SN_OK, "%s", sn_error_take()->message);
    sn_function *const fn = sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = mode));
    sn_graph_free(g);
    ck_assert_msg(fn != NULL, "%s", sn_error_take()->message);
    return fn;
}

static const sn_compile_mode modes[] = {SN_COMPILE_EAGER, SN_COMPILE_VERIFY, SN_COMPILE_REPLAY};
enum { MODES = sizeof modes / sizeof *modes };

/* Neither checked nor compiled: both say so. */
static void refused(const char *text, sn_status status, const char *says) {
    sn_graph *const g = parsed(text);
    ck_assert_int_eq(sn_graph_check(g), status);
    expect_error(status, says);
    ck_assert_ptr_null(sn_graph_compile(g, NULL));
    expect_error(status, says);
    sn_graph_free(g);
}

START_TEST(views_by_numbers_that_leave_their_memory) {
#define SCATTER(view) "graph f(%x: f32[4,4], %y: f32[4]) {\n  %0 = sn::view_scatter(%x, %y, " view ")\n  return %0\n}\n"
    refused(SCATTER("[4], [1], 13"), SN_ERR_ARGUMENT, "sn::view_scatter: elements 13 to 16 lie outside");
    refused(SCATTER("[4], [8], 0"), SN_ERR_ARGUMENT, "elements 0 to 24");
    refused(SCATTER("[4], [1], -1"), SN_ERR_ARGUMENT, "elements -1 to 2");
    refused(SCATTER("[4], [1], 4611686018427387904"), SN_ERR_ARGUMENT, "lie outside");
    refused("graph f(%x: f32[4,4]) {\n  %0 = aten::relu(%x)\n  %1 = sn::view_of(%0, [4], [8], 0)\n  return %1\n}\n",
            SN_ERR_ARGUMENT, "sn::view_of: elements 0 to 24");
    refused("graph f(%x: f32[4,4]) {\n  %0 = aten::relu(%x)\n  %1 = aten::select.int(%0, 0, 3)\n"
            "  %2 = sn::view_of(%1, [5], [1], 0)\n  return %2\n}\n",
            SN_ERR_ARGUMENT, "elements 12 to 16");
    refused("graph f(%x: f32[4,4]) {\n  %0 = aten::relu(%x)\n  %1 = aten::as_strided(%0, [2,2], [4,8], 5)\n"
            "  return %1\n}\n",
            SN_ERR_ARGUMENT, "elements 5 to 17");
    static const char *const unreadable[] = {
        SCATTER("[4], [-1], 8"), "graph f(%x: f32[4]) {\n  %0 = sn::restride(%x, [-2])\n  return %0\n}\n",
        "graph f() {\n  %0 = sn::zeros_strided([4], [-1], dtype=f32)\n  return %0\n}\n",
        "graph f(%x: f32[4]) {\n  %0 = sn::restride(%x, [4611686018427387904])\n  return %0\n}\n",
        "graph f(%x: f32[4]) {\n  %0 = sn::view_of(%x, [4611686018427387904,4], [1,1], 0)\n  return %0\n}\n"};
    for (size_t i = 0; i < sizeof unreadable / sizeof *unreadable; i++) {
        ck_assert_ptr_null(sn_graph_parse(unreadable[i], strlen(unreadable[i])));
        expect_error(SN_ERR_PARSE, "sn::");
    }
}
END_TEST

/* An input's memory is known when there is one, a symbolic view's place when the symbols have values. In a graph
 * as_strided counts from the input's first element: its storage is the caller's. */
START_TEST(views_of_inputs_are_checked_at_the_call) {
    static const char *const texts[] = {
        "graph f(%x: f32[4]) {\n  %0 = sn::view_of(%x, [8], [1], -4)\n  return %0\n}\n",
        "graph f(%x: f32[4]) {\n  %0 = aten::as_strided(%x, [8], [1], 0)\n  return %0\n}\n"};
    sn_tensor *const whole = F32(3, 8), *out = NULL;
    for (int i = 0; i < 2 * MODES; i++) {
        sn_function *const fn = compiled(texts[i % 2], modes[i / 2]);
        sn_tensor *const inside = sn_narrow(whole, 0, i % 2 ? 0 : 4, 4);
        for (int k = 0; k < 3; k++) {
            sn_tensor *alone = F32(1, 4);
            ck_assert_int_ne(sn_call(fn, &alone, 1, &out, 1), SN_OK);
            expect_error(SN_ERR_VALUE, "outside of the memory");
        }
        for (int k = 0; k < 3; k++) {
            ck_assert_msg(sn_call(fn, (sn_tensor *[]){inside}, 1, &out, 1) == SN_OK, "%s", sn_error_take()->message);
            ck_assert(same_bits(out, whole));
        }
        sn_function_free(fn);
    }
}
END_TEST

START_TEST(symbolic_views_are_checked_at_the_call) {
    for (int i = 0; i < MODES; i++) {
        sn_function *const fn = compiled(
            "graph f(%x: f32[s0], %y: f32[8]) {\n  %0 = sn::view_scatter(%x, %y, [8], [1], 2)\n  return %0\n}\n",
            modes[i]);
        static const int64_t sizes[] = {16, 12, 10, 9, 16, 3, 11};
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            sn_tensor *const in[] = {F32(k, sizes[k]), F32(50 + k, 8)}, *out = NULL;
            const sn_status status = sn_call(fn, in, 2, &out, 1);
            if (sizes[k] < 10) {
                ck_assert_int_ne(status, SN_OK);
                expect_error(SN_ERR_VALUE, "outside of the memory");
                continue;
            }
            ck_assert_msg(status == SN_OK, "%s", sn_error_take()->message);
            sn_tensor *const want = sn_clone(in[0]);
            sn_copy_(sn_narrow(want, 0, 2, 8), in[1]);
            ck_assert(same_bits(out, want));
        }
        sn_function_free(fn);
    }
}
END_TEST

START_TEST(symbols_without_a_value) {
    refused("graph f(%x: f32[s0,3]) {\n  %0 = aten::expand(%x, [s1, s0, 3])\n  return %0\n}\n", SN_ERR_ARGUMENT, "s1");
    refused("graph f(%x: f32[s0//2,3]) {\n  %0 = aten::relu(%x)\n  return %0\n}\n", SN_ERR_ARGUMENT, "x has s0");
    sn_function *const fn =
        compiled("graph f(%x: f32[s0*2,3], %y: f32[s0]) {\n  %0 = aten::mul.Tensor(%x, 2.0)\n  return %0\n}\n",
                 SN_COMPILE_VERIFY);
    sn_tensor *in[] = {F32(1, 8, 3), F32(1, 4)}, *out = NULL;
    ck_assert_int_eq(sn_call(fn, in, 2, &out, 1), SN_OK);
    in[1] = F32(1, 5);
    ck_assert_int_ne(sn_call(fn, in, 2, &out, 1), SN_OK);
    expect_error(SN_ERR_SHAPE, "argument 0 wants f32[s0*2,3], got f32[8,3]");
    sn_function_free(fn);
}
END_TEST

/* Sizes that are 1 by the hints of the text, and what they are at the call. */
START_TEST(sizes_that_may_be_1) {
    for (int i = 0; i < MODES; i++) {
        sn_function *const fn = compiled("graph f(%x: f32[s0,3], s1: int) {\n"
                                         "  %0 = aten::slice.Tensor(%x, 0, s0//2, 300)\n"
                                         "  %1 = aten::expand(%0, [7%s1, s0-(s0//2), 3])\n"
                                         "  return %0, %1\n}\n",
                                         modes[i]);
        for (int k = 0; k < 12; k++) {
            const int64_t rows = 2 + k % 5, by = 2 + k % 4;
            sn_tensor *const x = F32(k, rows, 3), *out[2];
            ck_assert_msg(sn_call_values(fn, (sn_value[]){sn_val(x), sn_int(by)}, 2, out, 2) == SN_OK, "%s",
                          sn_error_take()->message);
            sn_tensor *const half = sn_slice(x, 0, rows / 2, 300, 1);
            ck_assert(same_bits(out[0], half));
            ck_assert(same_bits(out[1], sn_expand(half, SN_INTS(7 % by, rows - rows / 2, 3))));
        }
        sn_function_free(fn);
    }
}
END_TEST

/* Of results, arguments in lists and sizes of inputs. */
START_TEST(division_by_0_has_no_value) {
    static const char *const texts[] = {
        "graph f(%x: f32[6], s0: int) {\n  %0 = aten::expand(%x, [6//s0, 6])\n  return %0\n}\n",
        "graph f(%x: f32[6], s0: int) {\n  %0 = aten::slice.Tensor(%x, 0, 4%s0, 6)\n  return %0\n}\n",
        "graph f(%x: f32[6//s0*3], s0: int) {\n  %0 = aten::relu(%x)\n  return %0\n}\n"};
    for (int i = 0; i < MODES * 3; i++) {
        sn_function *const fn = compiled(texts[i / MODES], modes[i % MODES]);
        for (int k = 0; k < 8; k++) {
            sn_tensor *out = NULL;
            const sn_status status = sn_call_values(fn, (sn_value[]){sn_val(F32(k, 6)), sn_int(k % 2 * 3)}, 2, &out, 1);
            if (k % 2) {
                ck_assert_msg(status == SN_OK, "%s", sn_error_take()->message);
                continue;
            }
            ck_assert_int_ne(status, SN_OK);
            expect_error(SN_ERR_VALUE, "divides by 0");
        }
        sn_function_free(fn);
    }
}
END_TEST

START_TEST(calls_check_layouts) {
    sn_function *const fn = compiled("graph f(%x: f32[3,s0]{1,3}, %y: f32[1,4]{9,1}) {\n  %0 = aten::relu(%x)\n"
                                     "  %1 = aten::relu(%y)\n  return %0, %1\n}\n",
                                     SN_COMPILE_VERIFY);
    sn_tensor *const right = sn_t(F32(1, 5, 3)), *const wrong = F32(1, 3, 5), *const row = F32(2, 1, 4), *out[2];
    for (int i = 0; i < 2; i++) {
        ck_assert_int_ne(sn_call(fn, (sn_tensor *[]){wrong, row}, 2, out, 2), SN_OK);
        expect_error(SN_ERR_SHAPE, "argument 0 wants f32[3,s0]{1,3}, got f32[3,5]");
        ck_assert_int_eq(sn_call(fn, (sn_tensor *[]){right, row}, 2, out, 2), SN_OK); /* a dim of size 1 */
        ck_assert(same_bits(out[1], sn_relu(row)));
    }
    sn_function_free(fn);
    const char *const text = "graph f(%x: f32[1,3]) {\n  %0: f32[1,3]{7,1} = aten::relu(%x)\n  return %0\n}\n";
    sn_graph_free(parsed(text));
}
END_TEST

START_TEST(none_is_a_result) {
    for (int i = 0; i < MODES; i++) {
        sn_function *const fn =
            compiled("graph f(%x: f32[4]) {\n  %0 = aten::relu(%x)\n  return None, %0, None\n}\n", modes[i]);
        for (int k = 0; k < 4; k++) {
            sn_tensor *const x = F32(k, 4), *out[3] = {x, x, x};
            ck_assert_msg(sn_call(fn, &x, 1, out, 3) == SN_OK, "%s", sn_error_take()->message);
            ck_assert(!out[0] && !out[2] && same_bits(out[1], sn_relu(x)));
        }
        sn_function_free(fn);
    }
}
END_TEST

START_TEST(copy_keeps_selfs_strides) {
    sn_function *const fn = compiled(
        "graph f(%x: i64[2,31]{32,1}, %y: i64[31]) {\n  %0: i64[2,31]{32,1} = aten::copy(%x, %y)\n  return %0\n}\n",
        SN_COMPILE_VERIFY);
    sn_tensor *const whole = sn_zeros(SN_INTS(2, 32), SN_I64), *const y = sn_to(F32(1, 31), SN_I64);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const in[] = {sn_narrow(whole, 1, 0, 31), y}, *out = NULL;
        ck_assert_msg(sn_call(fn, in, 2, &out, 1) == SN_OK, "%s", sn_error_take()->message);
        ck_assert_int_eq(sn_strides(out).data[0], 32);
        ck_assert(same_bits(out, sn_expand(y, SN_INTS(2, 31))));
    }
    sn_function_free(fn);
}
END_TEST

static void expect_line(const char *says, const char *line) {
    const sn_error *const error = sn_error_take();
    ck_assert_msg(strstr(error->message, says) != NULL, "%s", error->message);
    ck_assert_msg(!strcmp(error->where, line), "'%s' is not '%s': %s", error->where, line, error->message);
}

START_TEST(errors_name_the_line) {
    const char *const text = "# a head\ngraph f(%x: f32[4,s0], %i: i64[2]) {\n  %0 = aten::relu(%x)\n\n"
                             "  %1 = aten::index_select(%0, 0, %i)\n  %2 = aten::exp(%1)\n  return %2\n}\n";
    for (int i = 0; i < MODES; i++) {
        sn_function *const fn = compiled(text, modes[i]);
        for (int k = 0; k < 3; k++) {
            const int64_t good[] = {0, 3}, bad[] = {0, 4};
            sn_tensor *in[] = {F32(k, 4, 3 + k), sn_from_data(good, SN_INTS(2), SN_I64)}, *out = NULL;
            ck_assert_int_eq(sn_call(fn, in, 2, &out, 1), SN_OK);
            in[1] = sn_from_data(bad, SN_INTS(2), SN_I64);
            ck_assert_int_ne(sn_call(fn, in, 2, &out, 1), SN_OK);
            expect_line("4", "f:5");
        }
        sn_function_free(fn);
    }
    sn_function *const said = compiled("graph f(%x: f32[4], %i: i64[1]) {\n"
                                       "  %0 = aten::index_select(%x, 0, %i) at='model.c:7'\n  return %0\n}\n",
                                       SN_COMPILE_VERIFY);
    const int64_t far = 9;
    sn_tensor *const in[] = {F32(1, 4), sn_from_data(&far, SN_INTS(1), SN_I64)}, *out = NULL;
    ck_assert_int_ne(sn_call(said, in, 2, &out, 1), SN_OK);
    expect_line("9", "model.c:7");
    sn_function_free(said);
}
END_TEST

START_TEST(parse_errors_quote_their_line) {
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"graph f(%x: f33[4]) {\n  %0 = aten::relu(%x)\n}\n",
         "line 1, column 13: expected dtype[sizes] at \"f33[4]) {\""},
        {"graph f(%x: f32[4) {\n  %0 = aten::relu(%x)\n}\n", "expected ',' or ']' at \") {\""},
        {"graph f(%x: f32[s]\n) {\n  %0 = aten::relu(%x)\n}\n", "\"s]\""},
        {"graph f(%x: f32[4]@mars) {\n}\n", "at \"@mars) {\""},
        {"graph f(%x: f32[99999999999999999999]) {\n}\n", "line 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_ptr_null(sn_graph_parse(rows[i].text, strlen(rows[i].text)));
        const sn_error *const error = sn_error_take();
        ck_assert_msg(strstr(error->message, rows[i].says) != NULL, "'%s' is not in: %s", rows[i].says, error->message);
        ck_assert_msg(!strchr(error->message, '\n'), "more than a line: %s", error->message);
    }
}
END_TEST

START_TEST(words_as_python_writes_them) {
    sn_function *const fn = compiled("graph f(%x: f32[4,4]) {\n  %0 = aten::relu.default(%x)\n"
                                     "  %1 = aten::gelu.default(%0, approximate=\"tanh\")\n"
                                     "  %2, %3, %4 = aten::native_layer_norm.default(%1, [4], None, None, 1e-05)\n"
                                     "  %5, %6, %7 = aten::native_layer_norm_backward(%x, %1, [4], %3, %4, None, None, "
                                     "[True, False, False])\n  return %5\n}\n",
                                     SN_COMPILE_VERIFY);
    sn_function_free(fn);
}
END_TEST

START_TEST(ints_among_the_inputs) {
    for (int i = 0; i < MODES; i++) {
        sn_function *const fn = compiled("graph f[s0=8,s1=1>=-8,s2=2](s1: int, %x: f32[s0,3], s2: int) {\n"
                                         "  %0 = aten::select.int(%x, 0, s1)\n"
                                         "  %1 = aten::expand(%0, [s2+1, 3])\n  return %1\n}\n",
                                         modes[i]);
        for (int k = 0; k < 12; k++) {
            const int64_t at = k % 4 - 1, more = 2 + k % 5;
            sn_tensor *const x = F32(k, 4 + k % 3, 3), *out = NULL;
            const sn_value in[] = {sn_int(at), sn_val(x), sn_int(more)};
            ck_assert_msg(sn_call_values(fn, in, 3, &out, 1) == SN_OK, "%s", sn_error_take()->message);
            ck_assert(same_bits(out, sn_expand(sn_select(x, 0, at), SN_INTS(more + 1, 3))));
        }
        sn_tensor *const x = F32(1, 4, 3), *out = NULL;
        const sn_value few[] = {sn_int(0), sn_val(x)}, swapped[] = {sn_val(x), sn_int(0), sn_int(1)};
        ck_assert_int_ne(sn_call_values(fn, few, 2, &out, 1), SN_OK);
        expect_error(SN_ERR_ARGUMENT, "3 inputs wanted, 2 given");
        ck_assert_int_ne(sn_call_values(fn, swapped, 3, &out, 1), SN_OK);
        sn_error_take();
        sn_function_free(fn);
    }
}
END_TEST

START_TEST(an_int_is_printed_and_read_again) {
    static const char *const texts[] = {
        "graph f[s0=2>=-1152921504606846976](s0: int, %x: f32[4]) {\n  %0 = aten::select.int(%x, 0, s0)\n  return "
        "%0\n}\n",
        "graph f(%x: f32[s0], s0: int) {\n  %0 = aten::expand(%x, [3, s0])\n  return %0\n}\n"};
    for (int i = 0; i < 2; i++) {
        sn_graph *const g = parsed(texts[i]);
        ck_assert_str_eq(sn_graph_text(g), texts[i]);
        sn_graph_free(g);
    }
}
END_TEST

enum { MANY = 300 };

/* x0 + x1 + ... and every partial sum as a result. */
static char *sum_of_many(void) {
    char *const text = malloc(64 * MANY * 3), *at = text;
    at += sprintf(at, "graph sums(");
    for (int i = 0; i < MANY; i++) at += sprintf(at, "%s%%x%d: f32[3]", i ? ", " : "", i);
    at += sprintf(at, ") {\n");
    for (int i = 1; i < MANY; i++)
        at += sprintf(at,
                      i > 1 ? "  %%%d = aten::add.Tensor(%%%d, %%x%d)\n" : "  %%%d = aten::add.Tensor(%%x%d, %%x%d)\n",
                      i - 1, i > 1 ? i - 2 : 0, i);
    at += sprintf(at, "  return");
    for (int i = 0; i < MANY - 1; i++) at += sprintf(at, "%s%%%d", i ? ", " : " ", i);
    sprintf(at, "\n}\n");
    return text;
}

START_TEST(many_inputs) {
    char *const text = sum_of_many();
    for (int i = 0; i < MODES; i++) {
        sn_function *const fn = compiled(text, modes[i]);
        for (int k = 0; k < 3; k++) {
            sn_tensor *in[MANY], *out[MANY - 1], *sum;
            for (int j = 0; j < MANY; j++) in[j] = F32(1000 * k + j, 3);
            ck_assert_msg(sn_call(fn, in, MANY, out, MANY - 1) == SN_OK, "%s", sn_error_take()->message);
            sum = in[0];
            for (int j = 1; j < MANY; j++) ck_assert(same_bits(out[j - 1], sum = sn_add(sum, in[j])));
        }
        sn_function_free(fn);
    }
    free(text);
}
END_TEST

/* An op that gives a list of more tensors than any other op has results. */
START_TEST(many_results) {
    char text[2048], *at = text;
    at += sprintf(at, "graph parts(%%x: f32[40,2]) {\n ");
    for (int i = 0; i < 40; i++) at += sprintf(at, "%s%%%d", i ? ", " : " ", i);
    at += sprintf(at, " = aten::unbind.int(%%x, 0)\n  return");
    for (int i = 0; i < 40; i++) at += sprintf(at, "%s%%%d", i ? ", " : " ", i);
    sprintf(at, "\n}\n");
    for (int i = 0; i < MODES; i++) {
        sn_function *const fn = compiled(text, modes[i]);
        for (int k = 0; k < 3; k++) {
            sn_tensor *const in = sn_reshape(F32(7 * k, 80), SN_INTS(40, 2)), *out[40];
            ck_assert_msg(sn_call(fn, &in, 1, out, 40) == SN_OK, "%s", sn_error_take()->message);
            for (int j = 0; j < 40; j++) ck_assert(same_bits(out[j], sn_select(in, 0, j)));
        }
        sn_function_free(fn);
    }
}
END_TEST

/* A function's own body, in any mode: which are absent may change from call to call. */
static sn_status some_absent(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    const int64_t which = sn_in_int(f, 1);
    for (int i = 0; i < 3; i++) {
        if (i == which)
            sn_out_none(f, i);
        else
            sn_out(f, i, sn_mul_scalar(x, sn_float(i + 1)));
    }
    return sn_check();
}

static sn_status absent_inside(sn_frame *f) {
    sn_function *const inner = sn_closure(f);
    const sn_value in[] = {sn_val(sn_exp(sn_in(f, 0))), sn_in_value(f, 1)};
    sn_tensor *out[3];
    if (sn_call_values(inner, in, 2, out, 3) != SN_OK) return sn_check();
    for (int i = 0; i < 3; i++) out[i] ? sn_out(f, i, out[i]) : sn_out_none(f, i);
    return sn_check();
}

static sn_status absent_at_all(sn_frame *f) { return sn_out_none(f, 0); }

START_TEST(results_of_any_function_may_be_absent) {
    const sn_compile_mode in_modes[] = {SN_COMPILE_VERIFY, SN_COMPILE_REPLAY, SN_COMPILE_EAGER};
    for (int m = 0; m < 6; m++) { /* with gradients, and without, where a replayed call is one */
        sn_function *const fn = sn_compile(some_absent, NULL, SN_COMPILE_OPTIONS(.mode = in_modes[m % 3]));
        sn_function *const outer = sn_compile(absent_inside, fn, SN_COMPILE_OPTIONS(.mode = in_modes[m % 3]));
        for (int call = 0; call < 12; call++) {
            sn_tensor *const x = sn_requires_grad_(F32(1 + call, 5), m < 3), *out[3], *grad;
            const int64_t which = call / 4;
            const sn_value in[] = {sn_val(x), sn_int(which)};
            for (int k = 0; k < 2; k++) {
                ck_assert_msg(sn_call_values(k ? outer : fn, in, 2, out, 3) == SN_OK, "%s", sn_error_take()->message);
                sn_tensor *const base = k ? sn_exp(x) : x;
                for (int i = 0; i < 3; i++)
                    ck_assert(same_bits(out[i], i == which ? NULL : sn_mul_scalar(base, sn_float(i + 1))));
                if (m >= 3) continue;
                sn_tensor *const loss = sn_sum(out[which ? 0 : 1]);
                const sn_tensors leaves = SN_TENSORS(x), ones = {NULL, 0};
                ck_assert_int_eq(sn_gradients(SN_TENSORS(loss), leaves, ones, 0, &grad), SN_OK);
                sn_tensor *const slope = sn_mul_scalar(k ? base : sn_ones_like(x), sn_float(which ? 1 : 2));
                ck_assert(same_bits(grad, slope));
            }
        }
        sn_function_free(outer);
        sn_function_free(fn);
    }
    sn_tensor *const t = F32(1, 2), *y = NULL;
    const sn_map_options *const none = NULL;
    ck_assert_int_ne(sn_map(absent_at_all, NULL, none, SN_TENSORS(t), &y, 1), SN_OK);
    expect_error(SN_ERR_UNSUPPORTED, "output 0 can't be absent");
}
END_TEST

int main(void) {
    const TTest *const tests[] = {results_of_any_function_may_be_absent,
                                  views_by_numbers_that_leave_their_memory,
                                  views_of_inputs_are_checked_at_the_call,
                                  symbolic_views_are_checked_at_the_call,
                                  symbols_without_a_value,
                                  sizes_that_may_be_1,
                                  division_by_0_has_no_value,
                                  calls_check_layouts,
                                  none_is_a_result,
                                  copy_keeps_selfs_strides,
                                  errors_name_the_line,
                                  parse_errors_quote_their_line,
                                  words_as_python_writes_them,
                                  ints_among_the_inputs,
                                  an_int_is_printed_and_read_again,
                                  many_inputs,
                                  many_results};
    return contract_main("test_graph_call", tests, (int)(sizeof tests / sizeof *tests));
}
