/* test_debug_print.c: sn_debug_print [semantics T7]: the same texts in the same order, eager and compiled, each once,
   and no break for it. What is printed is kept by the log handler of this file. */
#include <sinter/transform.h>
#include <stdio.h>

#include "tests/unit/contract.h"

static char said[1 << 16];
static void keep(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level;
    if (strcmp(topic, "print") != 0) return;
    const size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", line);
}

/* What a call prints; the text lives until the test ends. */
static char *said_by(sn_function *fn, sn_tensors in, sn_tensor **out, int n_out) {
    said[0] = 0;
    const sn_status status = sn_call(fn, in.data, in.n, out, n_out);
    if (status != SN_OK && sn_check() == SN_OK) ck_abort_msg("failed without an error");
    return strdup(said);
}

typedef struct Fns {
    sn_function *at[3]; /* eager, verify, replay */
} Fns;
static Fns fns_new(sn_body body, void *closure) {
    return (Fns){{sn_compile(body, closure, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER)),
                  sn_compile(body, closure, SN_COMPILE_OPTIONS(.full_graph = true)),
                  sn_compile(body, closure, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY, .full_graph = true))}};
}
static void fns_free(Fns fns) {
    for (int k = 0; k < 3; k++) sn_function_free(fns.at[k]);
}

/* Prints an input, a value that is written afterwards, one that nothing else needs, and one twice. */
static sn_status prints(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const w = sn_closure(f);
    sn_debug_print("x", x);
    sn_tensor *const h = sn_add_scalar(sn_mul(x, w), sn_float(1));
    sn_debug_print("before", h);
    sn_mul_scalar_(h, sn_float(2));
    sn_debug_print(NULL, h);
    sn_debug_print("unused", sn_argmax(h, SN_NO_INT, false));
    sn_tensor *const y = sn_sum(sn_sin(h));
    sn_debug_print("y", y);
    sn_debug_print("y again", y);
    return sn_out(f, 0, y);
}

static void alike(sn_body body, void *closure, bool grads) {
    sn_logging_set(keep, NULL, NULL);
    const Fns fns = fns_new(body, closure);
    for (uint64_t i = 0; i < 6; i++) {
        char *texts[3];
        sn_tensor *results[3];
        for (int k = 0; k < 3; k++) {
            const int64_t rows = 2 + (int64_t)(i % 3);
            sn_tensor *const x = grads ? LEAF(i, rows, 3) : F32(i, rows, 3);
            texts[k] = said_by(fns.at[k], SN_TENSORS(x), &results[k], 1);
            ck_assert_msg(results[k] != NULL, "call %d: %s", (int)i, sn_error_take()->message);
            if (grads) ck_assert_int_eq(sn_backward(results[k]), SN_OK);
            if (grads) results[k] = sn_grad(x);
            ck_assert_msg(!strcmp(texts[k], texts[0]), "call %d, way %d:\n%snot\n%s", (int)i, k, texts[k], texts[0]);
            ck_assert(same_bits(results[k], results[0]));
        }
        ck_assert_msg(strstr(texts[0], "y again: tensor("), "%s", texts[0]);
        for (int k = 0; k < 3; k++) free(texts[k]);
    }
    for (int k = 1; k < 3; k++) {
        ck_assert_int_eq(stats_of(fns.at[k]).breaks, 0);
        ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    }
    fns_free(fns);
    sn_logging_set(NULL, NULL, NULL);
}

START_TEST(t7_prints_are_those_of_eager) { alike(prints, F32(7, 3), false); }
END_TEST
START_TEST(t7_a_training_forward_prints) { alike(prints, F32(7, 3), true); }
END_TEST

/* Of a transform a tensor from outside of it: no handle of the level's, and neither is the copy that is printed. */
static sn_status prints_outside(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const w = sn_closure(f);
    sn_debug_print("y again", w);
    return sn_out(f, 0, sn_sum(sn_mul(sn_sin(x), x)));
}
static sn_status prints_in_levels(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const w = sn_closure(f);
    sn_tensor *rows = NULL, *grad = NULL, *forward = NULL, *twice = NULL;
    sn_vmap(prints_outside, w, NULL, SN_TENSORS(x), &rows, 1);
    sn_func_grad(prints_outside, w, NULL, SN_TENSORS(x), &grad, 1);
    sn_jacobian(prints_outside, w, SN_JACOBIAN_OPTIONS(.forward = true), SN_TENSORS(x), &forward, 1);
    sn_hessian(prints_outside, w, NULL, SN_TENSORS(x), &twice, 1);
    return sn_out(f, 0, sn_add(sn_add(sn_sum(rows), sn_sum(grad)), sn_add(sn_sum(forward), sn_sum(twice))));
}
START_TEST(t7_prints_in_transforms_are_those_of_eager) { alike(prints_in_levels, F32(7, 3), false); }
END_TEST

START_TEST(t7_replay_prints_without_the_body) {
    sn_logging_set(keep, NULL, NULL);
    sn_tensor *const w = F32(7, 3);
    sn_function *const fn = sn_compile(prints, w, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    sn_tensor *y;
    for (uint64_t i = 0; i < 3; i++) free(said_by(fn, SN_TENSORS(F32(i, 2, 3)), &y, 1));
    const int64_t before = sn_use_count(y);
    char *const text = said_by(fn, SN_TENSORS(sn_zeros(SN_INTS(2, 3), SN_F32)), &y, 1);
    ck_assert_str_eq(text, "x: tensor([[0., 0., 0.],\n           [0., 0., 0.]])\n"
                           "before: tensor([[1., 1., 1.],\n                [1., 1., 1.]])\n"
                           "tensor([[2., 2., 2.],\n        [2., 2., 2.]])\n"
                           "unused: tensor(0)\ny: tensor(5.4558)\ny again: tensor(5.4558)\n");
    ck_assert_int_eq(sn_use_count(y), before);
    free(text);
    ck_assert_int_eq(sn_plan_save(fn, "/nowhere", NULL), SN_ERR_UNSUPPORTED);
    expect_error(SN_ERR_UNSUPPORTED, "sn_debug_print");
    sn_function_free(fn);
    sn_logging_set(NULL, NULL, NULL);
}
END_TEST

static sn_status fails_between(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const i = sn_in(f, 1);
    sn_debug_print("first", x);
    sn_tensor *const y = sn_index_select(sn_exp(x), 0, i);
    sn_debug_print("second", y);
    return sn_out(f, 0, y);
}

START_TEST(t7_a_failed_check_prints_what_came_before) {
    sn_logging_set(keep, NULL, NULL);
    const Fns fns = fns_new(fails_between, NULL);
    for (int n = 0; n < 5; n++)
        for (int k = 0; k < 3; k++) {
            const int64_t at[] = {0, n == 3 ? 9 : 1};
            sn_tensor *y;
            char *const text = said_by(fns.at[k], SN_TENSORS(F32(1, 4), sn_from_data(at, SN_INTS(2), SN_I64)), &y, 1);
            ck_assert_int_eq(sn_check(), n == 3 ? SN_ERR_VALUE : SN_OK);
            if (n == 3) expect_error(SN_ERR_VALUE, "9");
            ck_assert(strstr(text, "first: ") == text && !strstr(text + 1, "first: "));
            ck_assert_int_eq(strstr(text, "second: ") != NULL, n != 3);
            free(text);
        }
    fns_free(fns);
    sn_logging_set(NULL, NULL, NULL);
}
END_TEST

static sn_status block(sn_frame *f) {
    sn_tensor *const h = sn_exp(sn_in(f, 0));
    sn_debug_print("inside", h);
    return sn_out(f, 0, sn_sin(sn_mul(h, h)));
}
static sn_status checkpointed(sn_frame *f) {
    sn_tensor *y;
    sn_debug_print("x", sn_in(f, 0));
    if (sn_checkpoint(block, NULL, NULL, SN_TENSORS(sn_in(f, 0)), &y, 1) != SN_OK) return sn_check();
    sn_debug_print("y again", y);
    return sn_out(f, 0, sn_sum(y));
}

START_TEST(t7_a_checkpoint_prints_once) {
    sn_logging_set(keep, NULL, NULL);
    sn_function *const fns[] = {sn_compile(checkpointed, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER)),
                                sn_compile(checkpointed, NULL, NULL)};
    for (int i = 0; i < 4; i++) {
        char *texts[2];
        for (int k = 0; k < 2; k++) {
            sn_tensor *y;
            said[0] = 0;
            ck_assert_int_eq(sn_call(fns[k], (sn_tensor *[]){LEAF(i, 2)}, 1, &y, 1), SN_OK);
            ck_assert_int_eq(sn_backward(y), SN_OK);
            texts[k] = strdup(said);
            const char *const once = strstr(said, "inside: ");
            ck_assert(once && !strstr(once + 1, "inside: "));
        }
        ck_assert_str_eq(texts[0], texts[1]);
        free(texts[0]), free(texts[1]);
    }
    sn_function_free(fns[0]), sn_function_free(fns[1]);
    sn_logging_set(NULL, NULL, NULL);
}
END_TEST

static sn_status doubles(sn_frame *f) {
    sn_debug_print("taken", sn_in(f, 0));
    return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(2)));
}
static sn_status negates(sn_frame *f) { return sn_out(f, 0, sn_neg(sn_in(f, 0))); }
static sn_status branches(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *y;
    sn_debug_print("x", x);
    if (sn_cond(sn_gt_scalar(sn_sum(x), sn_float(0)), doubles, negates, NULL, NULL, SN_TENSORS(x), &y, 1) != SN_OK)
        return sn_check();
    sn_debug_print("y", y);
    return sn_out(f, 0, y);
}

START_TEST(t7_a_branch_prints_where_it_is_taken) {
    sn_logging_set(keep, NULL, NULL);
    sn_function *const fns[] = {sn_compile(branches, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER)),
                                sn_compile(branches, NULL, NULL)};
    for (int i = 0; i < 6; i++) {
        sn_tensor *const x = sn_full(SN_INTS(3), sn_float(i % 2 ? 1 : -1), SN_F32), *y;
        char *const want = said_by(fns[0], SN_TENSORS(x), &y, 1), *const got = said_by(fns[1], SN_TENSORS(x), &y, 1);
        ck_assert_str_eq(got, want);
        ck_assert_int_eq(strstr(got, "taken: ") != NULL, i % 2);
        free(want), free(got);
    }
    sn_function_free(fns[0]), sn_function_free(fns[1]);
    sn_logging_set(NULL, NULL, NULL);
}
END_TEST

static sn_status says(sn_frame *f) {
    snprintf(said + strlen(said), sizeof said - strlen(said), "op\n");
    return sn_out(f, 0, sn_neg(sn_in(f, 0)));
}
static sn_status like(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }
static sn_status speaks_between(sn_frame *f) {
    sn_debug_print("before", sn_in(f, 0));
    sn_tensor *const y = sn_op_call1(sn_closure(f), (sn_value[]){sn_val(sn_in(f, 0))}, 1);
    sn_debug_print("after", y);
    return sn_out(f, 0, y);
}

START_TEST(t7_prints_and_ordered_ops_keep_their_order) {
    sn_logging_set(keep, NULL, NULL);
    const sn_op *const op = sn_op_register(
        SN_OP_DESC(.schema = "prints::says(Tensor x) -> Tensor", .flags = SN_OP_ORDERED, .meta = like, .cpu = says));
    sn_function *const fn = sn_compile(speaks_between, (void *)(uintptr_t)op, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *y;
        char *const text = said_by(fn, SN_TENSORS(sn_zeros(SN_INTS(1), SN_F32)), &y, 1);
        ck_assert_str_eq(text, "before: tensor([0.])\nop\nafter: tensor([-0.])\n");
        free(text);
    }
    sn_function_free(fn);
    sn_logging_set(NULL, NULL, NULL);
}
END_TEST

static sn_status prints_example(sn_frame *f) {
    sn_debug_print("x", sn_in(f, 0));
    return sn_out(f, 0, sn_neg(sn_in(f, 0)));
}

START_TEST(t7_what_cannot_be_printed_is_an_error) {
    sn_tensor *y;
    ck_assert_int_eq(sn_debug_print("x", NULL), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sn_debug_print");
    ck_assert_int_ne(sn_vmap(prints_example, NULL, NULL, SN_TENSORS(F32(1, 3, 2)), &y, 1), SN_OK);
    ck_assert_msg(strstr(sn_error_take()->message, "sn_debug_print"), "%s", sn_error_take()->message);
}
END_TEST

START_TEST(t7_prints_can_be_switched_off) {
    sn_logging_set(keep, NULL, "-print");
    said[0] = 0;
    ck_assert_int_eq(sn_debug_print("x", F32(1, 3)), SN_OK);
    ck_assert_str_eq(said, "");
    sn_logging_set(keep, NULL, "print");
    sn_debug_print("x", sn_zeros(SN_INTS(1), SN_F32));
    ck_assert_str_eq(said, "x: tensor([0.])\n");
    sn_logging_set(NULL, NULL, NULL);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        t7_prints_are_those_of_eager,
        t7_a_training_forward_prints,
        t7_prints_in_transforms_are_those_of_eager,
        t7_replay_prints_without_the_body,
        t7_a_failed_check_prints_what_came_before,
        t7_a_checkpoint_prints_once,
        t7_a_branch_prints_where_it_is_taken,
        t7_prints_and_ordered_ops_keep_their_order,
        t7_what_cannot_be_printed_is_an_error,
        t7_prints_can_be_switched_off,
    };
    return contract_main("test_debug_print", tests, (int)(sizeof tests / sizeof *tests));
}
