/* test_graph_numbers.c: numbers that only values give, in graphs: aten::item is a symbol from where it stands, in
 * sizes, expressions and other ops' numbers; what the header says of it is asked of each call. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/contract.h"

static const sn_compile_mode modes[] = {SN_COMPILE_VERIFY, SN_COMPILE_REPLAY};
enum { MODES = sizeof modes / sizeof *modes };

static sn_graph *parsed(const char *text) {
    sn_graph *const g = sn_graph_parse(text, strlen(text));
    ck_assert_msg(g != NULL, "%s", sn_error_take()->message);
    return g;
}

static sn_function *compiled_graph(sn_graph *g, sn_compile_mode mode) {
    sn_function *const fn = sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = mode));
    ck_assert_msg(fn != NULL, "%s", sn_error_take()->message);
    sn_graph_free(g);
    return fn;
}

static sn_function *compiled(const char *text, sn_compile_mode mode) { return compiled_graph(parsed(text), mode); }

static sn_tensor *number(int64_t value) { return sn_reshape(sn_full(SN_INTS(1), sn_int(value), SN_I64), (sn_ints){0}); }

static void agree(sn_function *fn, sn_function *eager, sn_tensor **in, int n_in, int n_out) {
    sn_tensor *got[8] = {0}, *want[8] = {0};
    ck_assert_msg(sn_call(fn, in, n_in, got, n_out) == SN_OK, "%s", sn_error_take()->message);
    ck_assert_msg(sn_call(eager, in, n_in, want, n_out) == SN_OK, "%s", sn_error_take()->message);
    for (int i = 0; i < n_out; i++) ck_assert(same_bits(got[i], want[i]));
}

static const char *const sized = "graph f[s0=8>=1, s1=5>=0<=64; s1<=s0](%x: f32[s0,4], %n: i64[]) {\n"
                                 "  %0 = aten::relu(%x)\n"
                                 "  %1 = aten::add.Tensor(%n, 1)\n"
                                 "  s1 = aten::item(%1)\n"
                                 "  %2 = aten::zeros([s1, s1*2+1])\n"
                                 "  %3 = aten::slice.Tensor(%0, 0, 0, s1)\n"
                                 "  %4 = aten::exp(%3)\n"
                                 "  %5 = aten::sum(%4) order=L\n"
                                 "  %6 = aten::add.Tensor(%2, %5)\n"
                                 "  %7 = aten::full([], s1*3, dtype=i64)\n"
                                 "  return %6, %7, %4\n"
                                 "}\n";

/* Two segments, each compiled once for all numbers, and one once more for what is empty, a case of its own. */
START_TEST(an_item_is_a_size) {
    static const int64_t numbers[] = {4, 6, 1, 3, 7, 7, 2, 0};
    for (int m = 0; m < MODES; m++) {
        sn_graph *const g = parsed(sized);
        ck_assert_str_eq(sn_graph_text(g), sized);
        sn_function *const fn = compiled_graph(g, modes[m]), *const eager = compiled(sized, SN_COMPILE_EAGER);
        for (int64_t i = 0; i < 8; i++) {
            sn_tensor *in[] = {F32((uint64_t)i, 8 + i, 4), number(numbers[i] - 1)}, *out[3];
            ck_assert_msg(sn_call(fn, in, 2, out, 3) == SN_OK, "%s", sn_error_take()->message);
            ck_assert_int_eq(sn_size(out[0], 0), numbers[i]);
            ck_assert_int_eq(sn_size(out[0], 1), 2 * numbers[i] + 1);
            ck_assert_int_eq(sn_item_int(out[1]), 3 * numbers[i]);
            agree(fn, eager, in, 2, 3);
            if (numbers[i]) ck_assert_int_eq(stats_of(fn).compiles, 2);
        }
        ck_assert_ptr_nonnull(strstr(sn_explain(fn), "s1 <= s0")); /* the header's symbol is the segment's */
        ck_assert_ptr_nonnull(strstr(sn_explain(fn), "s1 <= 64"));
        const sn_stats stats = stats_of(fn);
        ck_assert_int_eq(stats.ops_eager, 0);
        ck_assert_int_eq(stats.compiles, 3);
        sn_function_free(fn);
        sn_function_free(eager);
    }
}
END_TEST

static void refuse(sn_function *fn, int64_t rows, int64_t value, sn_status status, const char *says) {
    sn_tensor *in[] = {F32(1, rows, 4), number(value - 1)}, *out[3];
    ck_assert_int_eq(sn_call(fn, in, 2, out, 3), status);
    expect_error(status, says);
}

START_TEST(what_the_header_says_of_it_is_asked) {
    for (int m = -1; m < MODES; m++) {
        sn_function *const fn = compiled(sized, m < 0 ? SN_COMPILE_EAGER : modes[m]);
        for (int again = 0; again < 3; again++) {
            refuse(fn, 100, 65, SN_ERR_SHAPE, "s1 is 65, from what aten::item finds: at least 0 and at most 64");
            refuse(fn, 8, -2, SN_ERR_SHAPE, "s1 is -2, from what aten::item finds: at least 0");
            refuse(fn, 8, 9, SN_ERR_SHAPE,
                   "the sizes are 9 and 8 where the header assumes s1<=s0, s0 = 8 from size 8 of dim 0 of %x, s1 = 9 "
                   "from what aten::item finds");
            refuse(fn, 8, INT64_MIN + 5, SN_ERR_VALUE, "which is no number of sizes");
            refuse(fn, 8, (INT64_C(1) << 60) + 1, SN_ERR_VALUE, "which is no number of sizes");
            refuse(fn, 8, INT64_C(-6917529027641081856), SN_ERR_VALUE, "which is no number of sizes"); /* SYM_LOW */
            sn_tensor *in[] = {F32(1, 8, 4), number(3)}, *out[3];
            ck_assert(sn_call(fn, in, 2, out, 3) == SN_OK);
            ck_assert_int_eq(sn_size(out[0], 0), 4);
        }
        sn_function_free(fn);
    }
}
END_TEST

/* Several, in expressions of one another, with what nonzero finds, and equal to a size. */
START_TEST(items_beside_sizes) {
    const char *const text =
        "graph f[s0=6>=1, s1=3>=0, s2=2>=-8<=8, s3=6>=0; s3==s0](%x: f32[s0], %n: i32[1,1], %r: i64[]) {\n"
        "  %0, s1 = aten::nonzero(%x)\n"
        "  s2 = aten::_local_scalar_dense(%n)\n"
        "  s3 = aten::item(%r)\n"
        "  %1 = aten::zeros([max(s1,s2*s2), s3])\n"
        "  %2 = aten::add.Tensor(%1, %x)\n"
        "  %3 = aten::add.Scalar(%0, s2)\n"
        "  %4 = aten::arange(s1+s3)\n"
        "  return %2, %3, %4\n"
        "}\n";
    for (int m = 0; m < MODES; m++) {
        sn_function *const fn = compiled(text, modes[m]), *const eager = compiled(text, SN_COMPILE_EAGER);
        for (int64_t i = 0; i < 6; i++) {
            sn_tensor *const x = sn_relu(F32((uint64_t)i, 5 + i));
            sn_tensor *in[] = {x, sn_full(SN_INTS(1, 1), sn_int(i - 3), SN_I32), number(5 + i)};
            agree(fn, eager, in, 3, 3);
        }
        sn_tensor *in[] = {F32(1, 6), sn_full(SN_INTS(1, 1), sn_int(2), SN_I32), number(7)}, *out[3];
        ck_assert_int_eq(sn_call(fn, in, 3, out, 3), SN_ERR_SHAPE);
        expect_error(SN_ERR_SHAPE, "the sizes are 7 and 6 where the header assumes s3==s0");
        sn_function_free(fn);
        sn_function_free(eager);
    }
}
END_TEST

START_TEST(a_graph_with_an_item_trains) {
    const char *const text = "graph f[s0=8>=1, s1=5>=1](%x: f32[s0,4], %n: i64[]) {\n"
                             "  %0 = aten::exp(%x)\n"
                             "  s1 = aten::item(%n)\n"
                             "  %1 = aten::slice.Tensor(%0, 0, 0, s1)\n"
                             "  %2 = aten::mul.Tensor(%1, %1)\n"
                             "  %3 = aten::sum(%2)\n"
                             "  return %3\n"
                             "}\n";
    sn_function *const fn = compiled(text, SN_COMPILE_VERIFY), *const eager = compiled(text, SN_COMPILE_EAGER);
    for (int64_t i = 1; i < 6; i++) {
        sn_tensor *grads[2];
        for (int k = 0; k < 2; k++) {
            sn_tensor *const x = sn_requires_grad_(F32(3, 7, 4), true), *loss = NULL;
            ck_assert(sn_call(k ? eager : fn, (sn_tensor *[]){x, number(i)}, 2, &loss, 1) == SN_OK);
            ck_assert(sn_backward(loss) == SN_OK);
            grads[k] = sn_grad(x);
        }
        ck_assert(same_bits(grads[0], grads[1]));
        ck_assert(sn_item(sn_sum(sn_abs(sn_narrow(grads[0], 0, i, 7 - i)))) == 0);
    }
    sn_function_free(fn);
    sn_function_free(eager);
}
END_TEST

/* What is built is what the text says; the number is a result, and a name. */
START_TEST(an_item_is_built) {
    sn_graph *const g = sn_graph_new("f");
    sn_node *const x = sn_graph_input(g, "x", "f32[s0]"), *const n = sn_graph_input(g, "n", "i64[]");
    const sn_value of[] = {sn_node_result(n, 0)};
    sn_node *const item = sn_graph_op(g, "aten::item", of, 1);
    ck_assert_msg(item != NULL, "%s", sn_error_take()->message);
    ck_assert_int_eq(sn_node_result_count(item), 1);
    ck_assert_str_eq(sn_node_name(item), "s1");
    ck_assert(sn_graph_range(g, "s1", 2, 64, 5) == SN_OK);
    ck_assert(sn_graph_assume(g, "s1 <= s0") == SN_OK);
    const sn_value sizes[] = {sn_node_result(item, 0), sn_graph_sym(g, "2*s1+1")}, list = sn_values(sizes, 2);
    sn_node *const zeros = sn_graph_op(g, "aten::zeros", &list, 1);
    const sn_value cut[] = {sn_node_result(x, 0), sn_int(0), sn_int(0), sn_node_result(item, 0)};
    sn_node *const slice = sn_graph_op(g, "aten::slice.Tensor", cut, 4);
    const sn_value out[] = {sn_node_result(zeros, 0), sn_node_result(slice, 0), sn_node_result(item, 0)};
    ck_assert_msg(sn_graph_return(g, out, 3) == SN_OK, "%s", sn_error_take()->message);
    ck_assert_str_eq(sn_graph_text(g), "graph f[s0=2, s1=2<=64; s1<=s0](%x: f32[s0], %n: i64[]) {\n"
                                       "  s1 = aten::item(%n)\n"
                                       "  %0 = aten::zeros([s1, s1*2+1])\n"
                                       "  %1 = aten::slice.Tensor(%x, 0, 0, s1)\n"
                                       "  %2 = aten::full([], s1, dtype=i64)\n"
                                       "  return %0, %1, %2\n"
                                       "}\n");
    ck_assert(sn_graph_range(g, "s1", 2, 9, 0) == SN_ERR_STATE);
    expect_error(SN_ERR_STATE, "graph f has");
    ck_assert(sn_graph_assume(g, "s1 <= 7") == SN_ERR_STATE);
    expect_error(SN_ERR_STATE, "has ops: before the first one, or right behind the aten::item it is of");
    sn_function *const fn = compiled_graph(g, SN_COMPILE_VERIFY);
    for (int64_t i = 2; i < 6; i++) {
        sn_tensor *in[] = {F32(1, 7), number(i)}, *got[3];
        ck_assert_msg(sn_call(fn, in, 2, got, 3) == SN_OK, "%s", sn_error_take()->message);
        ck_assert_int_eq(sn_size(got[0], 1), 2 * i + 1);
        ck_assert_int_eq(sn_size(got[1], 0), i);
        ck_assert_int_eq(sn_item_int(got[2]), i);
    }
    sn_function_free(fn);
}
END_TEST

/* A failed call of an op leaves no number to the next one. */
START_TEST(a_failed_item_is_forgotten) {
    sn_graph *const g = sn_graph_new("f");
    const sn_value x = sn_node_result(sn_graph_input(g, "x", "f32[s0]"), 0);
    const sn_value n = sn_node_result(sn_graph_input(g, "n", "i64[2]"), 0);
    ck_assert_ptr_null(sn_graph_op(g, "aten::item", &x, 1));
    expect_error(SN_ERR_DTYPE, "aten::item: a graph has ints alone as numbers, and self is f32");
    ck_assert_ptr_null(sn_graph_op(g, "aten::item", &n, 1));
    expect_error(SN_ERR_SHAPE, "aten::item: self has sizes [2], not one element");
    const sn_value mask = sn_node_result(sn_graph_input(g, "m", "bool[4]"), 0);
    const sn_value at = sn_node_result(sn_graph_input(g, "at", "i64[3]"), 0);
    const sn_value w = sn_node_result(sn_graph_input(g, "w", "f32[4,4]"), 0);
    const sn_value both[] = {mask, at}, index[] = {w, sn_values(both, 2)};
    ck_assert_ptr_null(sn_graph_op(g, "aten::index.Tensor", index, 2)); /* it had given the mask's size a symbol */
    expect_error(SN_ERR_SHAPE, "aten::index.Tensor");
    sn_node *const relu = sn_graph_op(g, "aten::relu", &x, 1);
    ck_assert_str_eq(sn_node_name(relu), "");
    const sn_value out = sn_node_result(relu, 0);
    ck_assert(sn_graph_return(g, &out, 1) == SN_OK);
    ck_assert_ptr_nonnull(strstr(sn_graph_text(g), "  %0 = aten::relu(%x)\n  return %0\n}\n"));
    sn_graph_free(g);
}
END_TEST

/* Text that says it wrong. */
START_TEST(wrong_texts) {
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"graph f(%x: i64[]) {\n  %0 = aten::item(%x)\n  return %x\n}\n",
         "line 2, column 3: aten::item gives a number, which is a symbol: s0 = aten::item(...)"},
        {"graph f(%x: i64[]) {\n  s3 = aten::item(%x)\n  return %x\n}\n",
         "line 2, column 3: symbols are numbered in order: the next one is s0"},
        {"graph f(%x: i64[s0]) {\n  s0 = aten::item(%x)\n  return %x\n}\n", "s0 has its value from above"},
        {"graph f(%x: i64[2*s0]) {\n  s0 = aten::item(%x)\n  return %x\n}\n", "s0 has its value from above"},
        {"graph f(%x: i64[]) {\n  s0 = aten::item(%x)\n  s0 = aten::item(%x)\n  return %x\n}\n",
         "line 3, column 3: s0 has its value from above"},
        {"graph f(s0: int, %x: i64[]) {\n  s0 = aten::item(%x)\n  return %x\n}\n", "s0 has its value from above"},
        {"graph f(%x: i64[]) {\n  s0 = aten::relu(%x)\n  return %x\n}\n", "aten::relu gives no number s0"},
        {"graph f(%x: i64[]) {\n  %0, s0 = aten::relu(%x)\n  return %0\n}\n", "aten::relu gives no number s0"},
        {"graph f(%x: i64[]) {\n  s0 = aten::sym_numel(%x)\n  return %x\n}\n",
         "aten::sym_numel: it gives host code a number, which graphs don't have"},
        {"graph f(%x: bool[]) {\n  s0 = aten::item(%x)\n  return %x\n}\n", "self is bool"},
        {"graph f(%x: i64[3]) {\n  s0 = aten::item(%x)\n  return %x\n}\n", "self has sizes [3], not one element"},
        {"graph f(%x: i64[]) {\n  s0*2 = aten::item(%x)\n  return %x\n}\n", "expected '='"},
        {"graph f(%x: i64[]) {\n  s0, %0 = aten::item(%x)\n  return %x\n}\n", "expected '='"},
        {"graph f(%x: i64[]) {\n  s99999999999 = aten::item(%x)\n  return %x\n}\n", "expected a count"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_msg(!sn_graph_parse(wrong[i].text, strlen(wrong[i].text)), "%s", wrong[i].text);
        expect_error(sn_check(), wrong[i].says);
    }
}
END_TEST

/* A number is not known above the line that gives it, nor where its op is gone. */
START_TEST(numbers_before_their_op) {
    const char *const early = "graph f(%x: i64[]) {\n  %0 = aten::zeros([s0])\n  s0 = aten::item(%x)\n  return %0\n}\n";
    sn_graph *const g = parsed(early);
    ck_assert(sn_graph_check(g) == SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "graph f: aten::zeros has s0, which is no input's size by itself");
    ck_assert_ptr_null(sn_graph_compile(g, NULL));
    expect_error(SN_ERR_ARGUMENT, "aten::zeros has s0");
    sn_graph_free(g);
    const char *const late = "graph f(%x: i64[]) {\n  %0 = aten::relu(%x)\n  %1 = aten::zeros([s0])\n  s0 = "
                             "aten::item(%0)\n  return %1\n}\n";
    sn_graph *const other = parsed(late);
    ck_assert(sn_graph_check(other) == SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "aten::zeros has s0");
    sn_graph_free(other);
    const char *const nonzero = "graph f(%x: f32[3]) {\n  %0 = aten::zeros([s0])\n  %1: i64[s0,1]{1,max(s0,1)} = "
                                "aten::nonzero(%x)\n  return %0, %1\n}\n";
    sn_graph *const sizes = parsed(nonzero);
    ck_assert(sn_graph_check(sizes) == SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "aten::zeros has s0");
    sn_graph_free(sizes);
    const char *const unused = "graph f(%x: i64[]) {\n  s0 = aten::item(%x)\n  %0 = aten::relu(%x)\n  %1 = "
                               "aten::neg(%x)\n  %2 = aten::zeros([s0])\n  return %1, %2\n}\n";
    sn_graph *const kept = parsed(unused);
    ck_assert(sn_graph_run(kept, "dce") == SN_OK);
    ck_assert_ptr_nonnull(strstr(sn_graph_text(kept), "s0 = aten::item(%x)"));
    ck_assert_ptr_null(strstr(sn_graph_text(kept), "relu"));
    sn_graph_free(kept);
}
END_TEST

/* Random programs ------------------------------------------------------------------------------ */

static uint32_t next_random(uint64_t *state, uint32_t below) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % below;
}

/* Of numbers so far; few are sizes that any value allows. */
static void random_expression(uint64_t *state, int n_symbols, char *out, size_t capacity) {
    static const char *const forms[] = {"s%d",        "s%d+1",      "2*s%d",   "s%d//2",   "s%d%%3",
                                        "max(s%d,2)", "min(s%d,4)", "s%d*s%d", "s%d-s%d+3"};
    const int s = (int)next_random(state, (uint32_t)n_symbols), t = (int)next_random(state, (uint32_t)n_symbols);
    snprintf(out, capacity, forms[next_random(state, 9)], s, t);
}

/* s0: rows of %x; then items of %n, of what it becomes, and what nonzero finds, with ops that have them in between. */
static void random_program(uint64_t seed, char *out, size_t capacity) {
    static const char *const ops[] = {"aten::zeros([%s])",         "aten::full([], %s, dtype=i64)",
                                      "aten::arange(%s)",          "aten::slice.Tensor(%%x, 0, 0, %s)",
                                      "aten::add.Scalar(%%n, %s)", "aten::ones([%s, 2])",
                                      "aten::expand(%%n, [%s])",   "aten::narrow(%%x, 0, 0, %s)",
                                      "aten::mul.Scalar(%%x, %s)"};
    uint64_t state = seed * 977 + 5;
    char lines[2000] = "", returned[200] = "", line[200], expression[64], call[120];
    int n_symbols = 1, n_results = 0;
    for (int i = 0; i < 8; i++) {
        random_expression(&state, n_symbols, expression, sizeof expression);
        if (next_random(&state, 3) == 0) {
            snprintf(line, sizeof line, "  %%v%d = aten::add.Scalar(%%n, %s)\n  s%d = aten::item(%%v%d)\n", i,
                     expression, n_symbols++, i);
        } else if (next_random(&state, 6) == 0) {
            snprintf(line, sizeof line, "  %%v%d, s%d = aten::nonzero(%%x)\n", i, n_symbols++);
            snprintf(returned + strlen(returned), 40, "%s%%v%d", n_results++ ? ", " : "", i);
        } else {
            snprintf(call, sizeof call, ops[next_random(&state, 9)], expression);
            snprintf(line, sizeof line, "  %%v%d = %s\n", i, call);
            snprintf(returned + strlen(returned), 40, "%s%%v%d", n_results++ ? ", " : "", i);
        }
        strcat(lines, line);
    }
    snprintf(out, capacity, "graph f(%%x: f32[s0], %%n: i64[]) {\n%s  return %s\n}\n", lines,
             n_results ? returned : "%x");
}

/* The error's message, or "". */
static const char *called(sn_function *fn, sn_tensor **in, sn_tensor **out, int n_out, char *message) {
    message[0] = '\0';
    if (sn_call(fn, in, 2, out, n_out) != SN_OK) snprintf(message, 400, "%s", sn_error_take()->message);
    return message;
}

/* Compiled as eager: bits, and errors. A text may be refused, by a rule that a size of it cannot hold. */
START_TEST(random_programs_agree) {
    const char *const many = getenv("SINTER_TEST_PROGRAMS");
    int ran = 0, failed = 0;
    for (uint64_t seed = 0; seed < (many ? strtoull(many, NULL, 10) : 60); seed++) {
        const sn_scope scope = sn_scope_begin();
        char text[3000], got_error[400], want_error[400];
        random_program(seed, text, sizeof text);
        sn_graph *const g = sn_graph_parse(text, strlen(text));
        if (!g) {
            sn_error_take();
            sn_scope_end(scope);
            continue;
        }
        int n = 1;
        for (const char *c = strstr(text, "return"); *c; c++) n += *c == ',';
        sn_function *const eager = sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
        sn_function *const fn = compiled_graph(g, SN_COMPILE_VERIFY);
        for (int i = 0; i < 6; i++) {
            sn_tensor *in[] = {sn_relu(F32(seed + (uint64_t)i, 6)), number(i - 1)}, *got[8] = {0}, *want[8] = {0};
            called(fn, in, got, n, got_error), called(eager, in, want, n, want_error);
            ck_assert_msg(!strcmp(got_error, want_error), "seed %d, %d: '%s', not '%s'\n%s", (int)seed, i, got_error,
                          want_error, text);
            for (int k = 0; k < n && !*want_error; k++)
                ck_assert_msg(same_bits(got[k], want[k]), "seed %d, %d: result %d\n%s", (int)seed, i, k, text);
            *(*want_error ? &failed : &ran) += 1;
        }
        sn_function_free(fn);
        sn_function_free(eager);
        sn_scope_end(scope);
    }
    ck_assert_msg(many || (ran > 60 && failed > 5), "%d %d", ran, failed);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("tests");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, an_item_is_a_size);
    tcase_add_test(tests, what_the_header_says_of_it_is_asked);
    tcase_add_test(tests, items_beside_sizes);
    tcase_add_test(tests, a_graph_with_an_item_trains);
    tcase_add_test(tests, an_item_is_built);
    tcase_add_test(tests, a_failed_item_is_forgotten);
    tcase_add_test(tests, wrong_texts);
    tcase_add_test(tests, numbers_before_their_op);
    tcase_add_test(tests, random_programs_agree);
    return suite_run("graph numbers", tests);
}
