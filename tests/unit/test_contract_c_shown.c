/* What is shown is what runs [semantics C16]: texts of a function are those of its plans, whatever the options of the
 * compile were, and whatever passes, backends and failpoints there are when they are asked for. */
#include <stdio.h>

#include "runtime/base/bail.h"
#include "tests/unit/contract.h"

static bool has(const char *text, const char *part) { return strstr(text, part) != NULL; }

static int count(const char *text, const char *part) {
    int n = 0;
    while ((text = strstr(text, part))) text++, n++;
    return n;
}

/* A text of the function that stays. */
static char *shown(sn_function *fn, const char *stage) {
    char *const text = strdup(sn_dump(fn, stage));
    ck_assert_msg(!sn_check(), "%s: %s", stage, sn_error_take()->message);
    return text;
}

static void expect_shown(sn_function *fn, const char *stage, const char *part) {
    char *const text = shown(fn, stage);
    ck_assert_msg(has(text, part), "stage %s lacks '%s':\n%s", stage, part, text);
    free(text);
}

static sn_status exp_by_relu(sn_frame *f) { return sn_out(f, 0, sn_mul(sn_exp(sn_in(f, 0)), sn_relu(sn_in(f, 0)))); }

static sn_function *called(sn_body body, const char *backend) {
    sn_function *const fn = sn_compile(body, NULL, SN_COMPILE_OPTIONS(.backend = backend));
    for (int i = 0; i < 3; i++) SN_CALL(fn, F32(i, 3, 4));
    ck_assert_int_eq(sn_check(), SN_OK);
    return fn;
}

/* backends ------------------------------------------------------------------------------------ */

START_TEST(c16_a_backend_is_that_of_the_compile) {
    static const struct {
        const char *name, *llvm;
        int kernels;
    } rows[] = {{"generated", "define ", 1},
                {"unfused", "define ", 3},
                {"interpreter", "; the interpreter runs these loops: the backend is interpreter", 1},
                {"eager", "nothing is compiled: the backend is eager", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sn_function *const fn = called(exp_by_relu, rows[i].name);
        char *const loops = shown(fn, "loops"), said[32];
        ck_assert_msg(count(loops, "\nkernel ") == rows[i].kernels, "%s:\n%s", rows[i].name, loops);
        snprintf(said, sizeof said, "\"kernels\": %d,", rows[i].kernels);
        ck_assert(has(sn_explain_json(fn), said));
        expect_shown(fn, "llvm", rows[i].llvm);
        ck_assert_int_eq(has(sn_dump(fn, "shapes"), "the interpreter runs"), i == 2);
        if (!rows[i].kernels) expect_shown(fn, "decomposed", "nothing is compiled");
        free(loops);
        sn_function_free(fn);
    }
}
END_TEST

/* What a program's gets, and how often it is asked. */
static int n_asked;
static sn_function *op_by_op(sn_graph *g, void *closure) {
    n_asked++;
    return sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
}

START_TEST(c16_a_backend_is_not_asked_again) {
    ck_assert_int_eq(sn_backend_register("shown", "1", op_by_op, NULL), SN_OK);
    sn_function *const fn = called(exp_by_relu, "shown");
    const int asked = n_asked;
    ck_assert_int_gt(asked, 0);
    const char *stage;
    for (int i = 0; (stage = sn_stage_name(i)); i++) free(shown(fn, stage));
    ck_assert_int_eq(n_asked, asked);
    expect_shown(fn, "decomposed", "aten::exp");
    ck_assert(!has(sn_dump(fn, "loops"), "exp.f32")); /* it computes that */
    sn_function_free(fn);
}
END_TEST

/* passes --------------------------------------------------------------------------------------- */

static int n_passes;
static sn_status exp_to_neg(sn_graph *g, void *closure) {
    n_passes++;
    static const char exps[] = "graph p(%x: f32[s0,s1]) {\n  %0 = aten::exp(%x)\n  return %0\n}\n";
    static const char negs[] = "graph r(%x: f32[s0,s1]) {\n  %0 = aten::neg(%x)\n  return %0\n}\n";
    return sn_graph_rewrite(g, exps, negs) < 0 ? sn_check() : SN_OK;
}

enum { MOST_STAGES = 20 };

static int shown_all(sn_function *fn, char **texts) {
    const char *stage;
    int n = 0;
    for (; (stage = sn_stage_name(n)) && n < MOST_STAGES; n++) texts[n] = shown(fn, stage);
    return n;
}

static void expect_same(sn_function *fn, char **texts, int n) {
    for (int i = 0; i < n; i++) {
        char *const again = shown(fn, sn_stage_name(i));
        ck_assert_msg(!strcmp(texts[i], again), "stage %s was\n%s\nand is\n%s", sn_stage_name(i), texts[i], again);
        free(again);
        free(texts[i]);
    }
}

/* A pass that is gone, one that came later, and passes that now fail are no part of what ran. */
START_TEST(c16_passes_are_those_that_ran) {
    char *texts[MOST_STAGES];
    sn_pass_register(SN_PASS_CAPTURED, exp_to_neg, NULL, "exp_to_neg", "1");
    sn_function *const with = called(exp_by_relu, NULL);
    expect_shown(with, "functional", "aten::neg");
    expect_shown(with, "fused", "aten::neg");
    expect_shown(with, "loops", "neg.f32");
    const int ran = n_passes, n = shown_all(with, texts);
    sn_pass_remove("exp_to_neg");
    sn_function *const without = called(exp_by_relu, NULL);
    failpoint_set("pass:decompose");
    expect_same(with, texts, n);
    shown_all(without, texts);
    failpoint_set("");
    sn_pass_register(SN_PASS_CAPTURED, exp_to_neg, NULL, "exp_to_neg", "1");
    expect_same(without, texts, n);
    expect_shown(without, "functional", "aten::exp");
    ck_assert_int_eq(n_passes, ran);
    sn_pass_remove("exp_to_neg");
    sn_function_free(with);
    sn_function_free(without);
}
END_TEST

/* stages --------------------------------------------------------------------------------------- */

static sn_status softmax_relu(sn_frame *f) { return sn_out(f, 0, sn_relu(sn_softmax(sn_in(f, 0), -1))); }

static sn_function *trained(void) {
    sn_function *const fn = sn_compile(softmax_relu, NULL, NULL);
    for (int i = 0; i < 3; i++) sn_backward(sn_sum(SN_CALL(fn, LEAF(i, 3, 4))));
    ck_assert_int_eq(sn_check(), SN_OK);
    return fn;
}

/* Each as its pass left it: none is an earlier or a later one, nor that of the forward alone. */
START_TEST(c16_a_trained_function_has_the_stages_of_its_joint_graph) {
    sn_function *const fn = trained();
    static const struct {
        const char *stage, *has, *lacks;
    } rows[] = {{"functional", "aten::_softmax(", "aten::threshold_backward"},
                {"joint", "aten::_softmax_backward_data", "aten::amax"},
                {"joint", "aten::threshold_backward", "kernel="},
                {"decomposed", "aten::amax", "aten::_softmax("},
                {"decomposed", "aten::threshold_backward", "kernel="},
                {"fused", "# backward\n# no call has run it: gradients came of other keys\ngraph ", "aten::_softmax"},
                {"fused", "# forward\ngraph ", "aten::_softmax"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect_shown(fn, rows[i].stage, rows[i].has);
        ck_assert_msg(!has(sn_dump(fn, rows[i].stage), rows[i].lacks), "%s", sn_dump(fn, rows[i].stage));
    }
    expect_shown(fn, "joint", "| %grad_0");
    sn_function_free(fn);
}
END_TEST

/* No code: what is shown says so. */
START_TEST(c16_what_no_call_runs_says_so) {
    failpoint_set("codegen");
    sn_function *const slow = called(exp_by_relu, NULL);
    failpoint_set("backward");
    sn_function *const half = trained();
    failpoint_set("");
    expect_shown(slow, "llvm", "; the interpreter runs these loops: ");
    expect_shown(slow, "shapes", "# the interpreter runs these loops: ");
    ck_assert(!has(sn_dump(slow, "llvm@v2"), "the interpreter runs")); /* of another machine, by name */
    expect_shown(half, "loops", "# backward\n# no call runs it");
    expect_shown(half, "asm", "; no call runs it");
    sn_function_free(slow);
    sn_function_free(half);
}
END_TEST

/* Of a sum's gradient, which is one number expanded, the usual backward, of row-major gradients, is not what runs. */
START_TEST(c16_a_backward_of_another_key_is_shown) {
    sn_function *const other = trained();
    sn_function *const usual = sn_compile(softmax_relu, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const y = SN_CALL(usual, LEAF(i, 3, 4));
        sn_backward_ex(SN_TENSORS(y), SN_TENSORS(sn_ones_like(sn_detach(y))), 0);
    }
    static const char *const stages[] = {"backward", "fused", "loops", "memory", "llvm"};
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        const char *const mark = strcmp(stages[i], "llvm") ? "#" : ";";
        char *const text = shown(other, stages[i]), note[96], key[96];
        snprintf(note, sizeof note, "%s no call has run it: gradients came of other keys\n", mark);
        snprintf(key, sizeof key, "%s backward: gradients of results 0; wanted: inputs 0; result 0: f32[3,4]{0,0}\n",
                 mark);
        ck_assert_msg(count(text, note) == 1 && count(text, key) == 1, "%s: %s", stages[i], text);
        ck_assert_msg(strlen(strstr(text, key)) > strlen(key) + 40, "%s: %s", stages[i], text); /* what ran */
        ck_assert(!has(sn_dump(usual, stages[i]), "no call has run it") &&
                  !has(sn_dump(usual, stages[i]), "backward: "));
        free(text);
    }
    sn_function_free(other);
    sn_function_free(usual);
}
END_TEST

/* numerics --------------------------------------------------------------------------------------- */

START_TEST(c16_a_saved_plan_answers_the_same_request) {
    sn_function *const fn =
        sn_compile(softmax_relu, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY, .backend = "unfused"));
    for (int i = 0; i < 3; i++) sn_backward(sn_sum(SN_CALL(fn, LEAF(i, 3, 4))));
    ck_assert_msg(sn_plan_save(fn, "shown.plan", NULL) == SN_OK, "%s", sn_error_take()->message);
    sn_function *const loaded = sn_plan_load("shown.plan", NULL);
    remove("shown.plan");
    ck_assert_msg(loaded, "%s", sn_error_take()->message);
    char *const loops = shown(loaded, "loops");
    ck_assert_msg(count(loops, "\nkernel ") == 6, "%s", loops); /* amax, sub, exp, sum, div, relu */
    free(loops);
    sn_function_free(loaded);
    sn_function_free(fn);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        c16_a_backend_is_that_of_the_compile,
        c16_a_backend_is_not_asked_again,
        c16_passes_are_those_that_ran,
        c16_a_trained_function_has_the_stages_of_its_joint_graph,
        c16_a_backward_of_another_key_is_shown,
        c16_what_no_call_runs_says_so,
        c16_a_saved_plan_answers_the_same_request,
    };
    return contract_main("test_contract_c_shown", tests, (int)(sizeof tests / sizeof *tests));
}
