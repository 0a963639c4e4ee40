/* test_accept_compile.c: lines of group 5 of the acceptance list about what compiling notices and says: guards and
 * their reasons, breaks, explain, inference, vector code. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/public_check.h"
#include "tests/unit/suite.h"

static sn_stats stats_of(sn_function *fn) {
    sn_stats stats = {.size = sizeof stats};
    sn_function_stats(fn, &stats);
    return stats;
}

static sn_tensor *floats(sn_ints sizes) { return sn_reshape(range(24), sizes); }

/* Guards: each kind fails once, and says why ------------------------------------------------------ */

static struct {
    bool train;
    int factor;
} host;

static sn_status guarded(sn_frame *f) {
    sn_tensor *const h = sn_mul_scalar(sn_in(f, 0), sn_int(host.factor));
    return sn_out(f, 0, sn_exp(sn_dropout(sn_tanh(h), 0.5, host.train)));
}

static char last_line[512];
static void keep_line(void *context, int level, const char *topic, const char *line) {
    if (!strcmp(topic, "recompiles")) snprintf(last_line, sizeof last_line, "%s", line);
}

typedef struct Culprit {
    const char *what, *says;
    sn_body body;
    sn_tensor *before, *now;
    void (*change)(void);
} Culprit;

static void nothing(void) {}
static void trains(void) { host.train = true; }
static void doubles(void) { host.factor = 4; }
static void without_gradients(void) { sn_grad_mode_set(SN_GRAD_OFF); }
static void lowers(void) { sn_autocast_set(SN_CPU, SN_BF16); }

static void expect_reported(const Culprit *c) {
    sn_function *const fn = sn_compile(c->body, NULL, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_NEVER));
    host.train = false, host.factor = 3;
    sn_logging_set(keep_line, NULL, "recompiles");
    const sn_scope scope = sn_scope_begin();
    for (int i = 0; i < 3; i++) SN_CALL(fn, c->before);
    ck_assert_int_eq(stats_of(fn).compiles, 1);
    *last_line = 0;
    c->change();
    SN_CALL(fn, c->now);
    ck_assert_msg(strstr(last_line, c->says) != NULL, "%s: '%s' does not say '%s'", c->what, last_line, c->says);
    ck_assert_msg(stats_of(fn).recompiles == 1, "%s: %d recompiles", c->what, (int)stats_of(fn).recompiles);
    ck_assert_msg(strstr(sn_explain(fn), c->says) != NULL, "%s: %s", c->what, sn_explain(fn));
    SN_CALL(fn, c->now);
    ck_assert_int_eq(stats_of(fn).compiles, 2);
    sn_scope_end(scope);
    expect_ok();
    sn_function_free(fn);
}

START_TEST(a5_02_each_kind_of_guard_fails_with_its_reason) {
    sn_tensor *const x = floats(SN_INTS(4, 6)), *const leaf = sn_requires_grad_(floats(SN_INTS(4, 6)), true);
    const Culprit kinds[] = {
        {"type", "argument 0: f32[4,6], now f64[4,6]", guarded, x, sn_to(x, SN_F64), nothing},
        {"rank", "argument 0: f32[4,6], now f32[24]", guarded, x, floats(SN_INTS(24)), nothing},
        {"size", "argument 0: f32[4,6], now f32[3,6]", guarded, x, sn_narrow(x, 0, 0, 3), nothing},
        {"stride", "argument 0: f32[4,6], now f32[4,6]{1,4}", guarded, x, sn_t(floats(SN_INTS(6, 4))), nothing},
        {"requires_grad", "requires_grad of argument 0: 0, now 1", guarded, x, leaf, nothing},
        {"train/eval", "aten::native_dropout", guarded, x, x, trains},
        {"ints", "other: 3, now 4", guarded, x, x, doubles},
    };
    for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds); i++) expect_reported(&kinds[i]);
}
END_TEST

static sn_status product(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_mm(x, sn_t(x)));
}

/* What makes code again, besides: modes of the thread, and a branch of the host that goes another way. */
START_TEST(a5_17_each_culprit_is_reproduced_and_reported) {
    sn_tensor *const x = floats(SN_INTS(4, 6));
    const Culprit culprits[] = {
        {"a new size", "argument 0: f32[4,6], now f32[2,6]", product, x, sn_narrow(x, 0, 1, 2), nothing},
        {"a new dtype", "argument 0: f32[4,6], now f64[4,6]", product, x, sn_to(x, SN_F64), nothing},
        {"grad mode", "without grad mode, before in grad mode", product, x, x, without_gradients},
        {"autocast", "a new path: aten::_to_copy", product, x, x, lowers},
        {"a flag of the host", "a new path", guarded, x, x, trains},
        {"a number of the host", "other: 3, now 4", guarded, x, x, doubles},
    };
    for (int i = 0; i < (int)(sizeof culprits / sizeof *culprits); i++) expect_reported(&culprits[i]);
}
END_TEST

/* Sizes that differ are no culprit for long: the second one makes them symbols. */
START_TEST(a5_17_sizes_that_vary_compile_twice) {
    sn_function *const fn = sn_compile(product, NULL, NULL);
    for (int64_t rows = 2; rows < 12; rows++) SN_CALL(fn, sn_reshape(range(rows * 6), SN_INTS(rows, 6)));
    ck_assert_int_eq(stats_of(fn).compiles, 2);
    sn_function_free(fn);
}
END_TEST

/* Breaks ------------------------------------------------------------------------------------------ */

static char printed[512];
static void say(const char *what, double value) {
    const size_t n = strlen(printed);
    snprintf(printed + n, sizeof printed - n, "%s %.3f\n", what, value);
}

static int line_of_print;

static sn_status sin_print_cos(sn_frame *f) {
    sn_tensor *const y = sn_sin(sn_in(f, 0));
    say("enters", 0);
    line_of_print = __LINE__ + 1;
    say("sum", sn_item(sn_sum(y)));
    sn_tensor *const z = sn_cos(y);
    say("leaves", 0);
    return sn_out(f, 0, z);
}

/* What comes behind a print that needs a value is a segment of its own; each call prints once, in order. */
START_TEST(a5_03_a_print_between_ops_parts_two_segments) {
    sn_function *const fn = sn_compile(sin_print_cos, NULL, NULL);
    for (int i = 0; i < 5; i++) {
        sn_tensor *const x = sn_add_scalar(range(6), sn_float(i));
        char want[128];
        snprintf(want, sizeof want, "enters 0.000\nsum %.3f\nleaves 0.000\n", sn_item(sn_sum(sn_sin(x))));
        *printed = 0;
        ck_assert(sn_equal(SN_CALL(fn, x), sn_cos(sn_sin(x))));
        ck_assert_str_eq(printed, want);
    }
    ck_assert_int_eq(stats_of(fn).graphs, 2);
    ck_assert_int_eq(stats_of(fn).breaks, 1);
    ck_assert_int_eq(stats_of(fn).ops_eager, 0);
    sn_function_free(fn);
}
END_TEST

START_TEST(a5_05_explain_says_where_sin_print_cos_breaks) {
    sn_function *const fn = sn_compile(sin_print_cos, NULL, NULL);
    char place[64];
    for (int i = 0; i < 3; i++) SN_CALL(fn, range(6));
    const char *const text = sn_explain(fn);
    ck_assert_msg(strstr(text, "2 graphs") && strstr(text, "1 break,"), "%s", text);
    ck_assert_msg(strstr(text, "a value is needed on the host") != NULL, "%s", text);
    ck_assert_ptr_nonnull(strstr(sn_explain_json(fn), "\"breaks\": [{\"where\": \""));
    snprintf(place, sizeof place, "test_accept_compile.c:%d", line_of_print);
    ck_assert_msg(strstr(text, place) != NULL, "%s", text);
    sn_function_free(fn);
}
END_TEST

/* A call of foreign code on the values, a branch on one, host state that changes, an op without a meta rule. */
static sn_status foreign_call(sn_frame *f) {
    sn_tensor *const h = sn_tanh(sn_in(f, 0));
    const float *const at = sn_data(h, SN_F32);
    float sum = 0;
    for (int64_t i = 0; at && i < sn_numel(h); i++) sum = fmaf(at[i], 2, sum);
    return sn_out(f, 0, sn_add_scalar(h, sn_float(sum)));
}

static sn_status branch(sn_frame *f) {
    sn_tensor *const h = sn_tanh(sn_in(f, 0));
    return sn_out(f, 0, sn_item(sn_sum(h)) > 0 ? sn_exp(h) : sn_neg(h));
}

static int64_t n_calls;
static sn_status mutation(sn_frame *f) {
    n_calls++;
    return sn_out(f, 0, sn_mul_scalar(sn_tanh(sn_in(f, 0)), sn_int(n_calls % 7)));
}

static sn_status twice(sn_frame *f) { return sn_out(f, 0, sn_add(sn_in(f, 0), sn_in(f, 0))); }
static const sn_op *unknown;
static sn_status unknown_op(sn_frame *f) {
    const sn_value in[] = {sn_val(sn_tanh(sn_in(f, 0)))};
    return sn_out(f, 0, sn_exp(sn_op_call1(unknown, in, 1)));
}

static void expect_as_eager(sn_body body, const char *reason) {
    sn_function *const fast = sn_compile(body, NULL, NULL);
    sn_function *const eager = sn_compile(body, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    for (int i = 0; i < 9; i++) {
        sn_tensor *const x = i & 1 ? sn_neg(range(6)) : range(6);
        const int64_t before = n_calls;
        sn_tensor *const want = SN_CALL(eager, x);
        n_calls = before;
        ck_assert(sn_equal(SN_CALL(fast, x), want));
        expect_ok();
    }
    ck_assert_msg(!reason == !stats_of(fast).breaks, "%d breaks", (int)stats_of(fast).breaks);
    ck_assert_msg(!reason || strstr(sn_explain(fast), reason), "%s", sn_explain(fast));
    ck_assert_int_gt(stats_of(fast).ops_generated, 0);
    sn_function_free(fast);
    sn_function_free(eager);
}

START_TEST(a5_04_each_kind_of_break_keeps_the_result) {
    unknown = sn_op_register(SN_OP_DESC(.schema = "accept::twice(Tensor x) -> Tensor", .cpu = twice));
    expect_as_eager(foreign_call, "a value is needed on the host");
    expect_as_eager(branch, "a value is needed on the host");
    expect_as_eager(mutation, NULL); /* host code runs on every call: nothing breaks */
    expect_as_eager(unknown_op, "accept::twice");
}
END_TEST

/* Parts ------------------------------------------------------------------------------------------- */

static sn_status normed(sn_frame *f) { return sn_out(f, 0, sn_layer_norm(sn_in(f, 0), SN_INTS(6), NULL, NULL)); }

/* The table lists what is made of other ops (`sinter ops --decompositions` prints it); of layer_norm the parts are
 * sums and pointwise ops. */
START_TEST(a5_11_decompositions_are_listed_and_shown) {
    static const char *const some[] = {"aten::native_layer_norm", "aten::_softmax", "aten::native_dropout",
                                       "aten::native_group_norm", "quantized_decomposed::quantize_per_tensor"};
    for (int i = 0; i < 5; i++) ck_assert(sn_op_has_tag(sn_op_find(some[i]), "decomposition"));
    ck_assert_int_ge(sn_op_tag_count("decomposition"), 5);
    sn_function *const fn = sn_compile(normed, NULL, NULL);
    for (int i = 0; i < 2; i++) SN_CALL(fn, floats(SN_INTS(4, 6)));
    ck_assert_ptr_nonnull(strstr(sn_dump(fn, "capture"), "aten::native_layer_norm"));
    const char *const parts = sn_dump(fn, "decomposed");
    ck_assert_ptr_null(strstr(parts, "layer_norm"));
    for (int line = 0; line < 2; line++)
        ck_assert_msg(strstr(parts, line ? "aten::sum" : "aten::rsqrt") != NULL, "%s", parts);
    int n = 0;
    for (const char *at = parts; (at = strstr(at, " = ")); at++, n++) {
        char name[64] = "";
        sscanf(at, " = %63[^(]", name);
        const sn_op *const op = sn_op_find(name);
        ck_assert_msg(op ? sn_op_has_tag(op, "reduction") || sn_op_has_tag(op, "pointwise") || sn_op_has_tag(op, "view")
                         : sn_error_take() && !strncmp(name, "sn::", 4) && strstr(name, "sum"),
                      "%s", name);
    }
    ck_assert_int_gt(n, 5);
    expect_ok();
    sn_function_free(fn);
}
END_TEST

/* Inference --------------------------------------------------------------------------------------- */

static sn_status layer(sn_frame *f) {
    sn_tensor *const *const w = sn_closure(f);
    return sn_out(f, 0, sn_relu(sn_linear(sn_in(f, 0), w[0], w[1])));
}

static void expect_backward(sn_grad_mode mode, bool wanted) {
    sn_tensor *w[] = {sn_requires_grad_(floats(SN_INTS(4, 6)), true), sn_requires_grad_(range(4), true)};
    sn_function *const fn = sn_compile(layer, w, NULL);
    const sn_grad_mode before = sn_grad_mode_set(mode);
    sn_tensor *y = NULL;
    for (int i = 0; i < 3; i++) y = SN_CALL(fn, floats(SN_INTS(4, 6)));
    sn_grad_mode_set(before);
    ck_assert_int_eq(sn_requires_grad(y), wanted);
    ck_assert_int_eq(strstr(sn_explain_json(fn), "\"part\": \"backward\"") != NULL, wanted);
    ck_assert_int_eq(strstr(sn_dump(fn, "backward"), "aten::mm") != NULL, wanted);
    ck_assert_int_eq(stats_of(fn).ops_eager, 0);
    sn_function_free(fn);
}

START_TEST(a5_12_inference_makes_no_backward) {
    expect_backward(SN_GRAD_ON, true);
    expect_backward(SN_GRAD_OFF, false);
    expect_backward(SN_INFERENCE, false);
}
END_TEST

/* Vector code ------------------------------------------------------------------------------------- */

static const char *own_registers(void) {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq"))
        return "%zmm";
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "%ymm" : "%xmm";
}

START_TEST(a5_14_code_is_of_the_vectors_that_the_cpu_has) {
    ck_assert_int_eq(unsetenv("SINTER_ISA"), 0);
    sn_function *const fn = sn_compile(guarded, NULL, NULL);
    host.train = false, host.factor = 3;
    for (int i = 0; i < 2; i++) SN_CALL(fn, floats(SN_INTS(4, 6)));
    ck_assert_ptr_nonnull(strstr(sn_dump(fn, "asm@v2"), "%xmm"));
    ck_assert_ptr_null(strstr(sn_dump(fn, "asm@v2"), "%ymm"));
    ck_assert_ptr_nonnull(strstr(sn_dump(fn, "asm@v3"), "%ymm"));
    ck_assert_ptr_null(strstr(sn_dump(fn, "asm@v3"), "%zmm"));
    ck_assert_ptr_nonnull(strstr(sn_dump(fn, "asm@v4"), "%zmm"));
    ck_assert_msg(strstr(sn_dump(fn, "asm"), own_registers()) != NULL, "no %s", own_registers());
    expect_ok();
    sn_function_free(fn);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("compiling");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a5_02_each_kind_of_guard_fails_with_its_reason);
    tcase_add_test(tests, a5_03_a_print_between_ops_parts_two_segments);
    tcase_add_test(tests, a5_04_each_kind_of_break_keeps_the_result);
    tcase_add_test(tests, a5_05_explain_says_where_sin_print_cos_breaks);
    tcase_add_test(tests, a5_11_decompositions_are_listed_and_shown);
    tcase_add_test(tests, a5_12_inference_makes_no_backward);
    tcase_add_test(tests, a5_14_code_is_of_the_vectors_that_the_cpu_has);
    tcase_add_test(tests, a5_17_each_culprit_is_reproduced_and_reported);
    tcase_add_test(tests, a5_17_sizes_that_vary_compile_twice);
    return suite_run("acceptance: compiling", tests);
}
