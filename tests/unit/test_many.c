/* test_many.c: programs with many of something: tensors of a list, parameters of a training step, paths of a function.
 * Nothing there has a fixed room. */
#include <stdio.h>

#include "tests/unit/contract.h"
#include "runtime/capture/function/function.h"

enum { LIST = 700, LAYERS = 150 };

static sn_status joined(sn_frame *f) {
    sn_tensor *rows[LIST];
    for (int i = 0; i < LIST; i++) rows[i] = sn_select(sn_in(f, 0), 0, i);
    return sn_out(f, 0, sn_relu(sn_stack((sn_tensors){rows, LIST}, 1)));
}

START_TEST(a_list_of_hundreds_of_tensors) {
    const Twin twin = twin_new(joined, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) TWIN_CALL(twin, F32((uint64_t)i, LIST, 5));
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

typedef struct Deep {
    sn_dict *dict;
    sn_optim *optim;
    sn_tensor *w[LAYERS], *b[LAYERS];
} Deep;

static Deep deep_new(void) {
    Deep m = {.dict = sn_dict_new()};
    char name[32];
    for (int i = 0; i < LAYERS; i++) {
        snprintf(name, sizeof name, "w%d", i);
        m.w[i] = sn_param(m.dict, name, sn_mul_scalar(F32((uint64_t)i, 4, 4), sn_float(0.5)));
        snprintf(name, sizeof name, "b%d", i);
        m.b[i] = sn_param(m.dict, name, F32((uint64_t)(1000 + i), 4));
    }
    m.optim = sn_adamw(m.dict, 1e-2, 0.1);
    return m;
}

static void deep_free(Deep *m) {
    sn_optim_free(m->optim);
    sn_dict_free(m->dict);
}

static sn_status train(sn_frame *f) {
    const Deep *const m = sn_closure(f);
    sn_tensor *x = sn_in(f, 0);
    sn_optim_zero_grad(m->optim);
    for (int i = 0; i < LAYERS; i++) x = sn_tanh(sn_linear(x, m->w[i], m->b[i]));
    sn_tensor *const loss = sn_mean(sn_mul(x, x));
    sn_backward(loss);
    sn_optim_step(m->optim);
    return sn_out(f, 0, loss);
}

START_TEST(a_training_step_of_hundreds_of_parameters) {
    Deep fast = deep_new(), slow = deep_new();
    const Twin twin = twin_new(train, &fast, &slow, NULL);
    for (int i = 0; i < 4; i++) TWIN_CALL(twin, F32((uint64_t)i, 3, 4));
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    for (int i = 0; i < LAYERS; i++) {
        ck_assert(same_bits(fast.w[i], slow.w[i]));
        ck_assert(same_bits(fast.b[i], slow.b[i]));
    }
    twin_free(twin);
    deep_free(&fast);
    deep_free(&slow);
}
END_TEST

/* A loop in host code, as often as the closure says: every count is a path of its own. */
static sn_status repeated(sn_frame *f) {
    sn_tensor *x = sn_in(f, 0);
    for (int i = 0; i < *(const int *)sn_closure(f); i++) x = sn_add(sn_sin(x), sn_in(f, 1));
    return sn_out(f, 0, x);
}

START_TEST(endless_new_paths_stop_compiling) {
    int rounds = 0;
    sn_setting_set("accumulated_recompile_limit", "10");
    const Twin twin = twin_new(repeated, &rounds, &rounds, NULL);
    for (rounds = 1; rounds <= 40; rounds++) TWIN_CALL(twin, F32(1, 6), F32(2, 6));
    ck_assert_int_eq(twin.fast->variants.n, 10);
    ck_assert_int_ge(twin.fast->limit_hits, 30);
    const int nodes = twin.fast->n_nodes;
    for (int again = 0; again < 2; again++)
        for (rounds = 1; rounds <= 60; rounds++) TWIN_CALL(twin, F32(3, 6), F32(4, 6));
    ck_assert_int_eq(twin.fast->n_nodes, nodes); /* nothing grows any more */
    rounds = 5;
    TWIN_CALL(twin, F32(3, 6), F32(4, 6));
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
    sn_setting_set("accumulated_recompile_limit", "256");
}
END_TEST

/* Replay of thousands of tensors: arguments, closed over, results ------------------------------- */

enum { TENSORS = 2000 };

static sn_status pairwise(sn_frame *f) {
    sn_tensor *const *const weights = sn_closure(f);
    for (int i = 0; i < TENSORS; i++) sn_out(f, i, sn_add(sn_mul(sn_in(f, i), sn_in(f, TENSORS - 1 - i)), weights[i]));
    return sn_check();
}

/* Of n elements each, or of 2 to n: more sizes than a case has room for. */
static void make_tensors(sn_tensor **to, int n, bool varied) {
    for (int i = 0; i < TENSORS; i++) {
        const int k = i < TENSORS / 2 ? i : TENSORS - 1 - i;
        to[i] = F32((uint64_t)(n + i), varied ? 2 + (k + n) % 900 : n);
    }
}

static void check_replay(bool varied) {
    static sn_tensor *weights[TENSORS], *in[TENSORS], *fast[TENSORS], *slow[TENSORS];
    const sn_scope outer = sn_scope_begin();
    for (int i = 0; i < TENSORS; i++) weights[i] = F32((uint64_t)i, 1);
    sn_function *const fn =
        sn_compile(pairwise, weights, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY, .name = "many"));
    sn_function *const eager = sn_compile(pairwise, weights, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    for (int call = 0; call < 4; call++) {
        const sn_scope scope = sn_scope_begin();
        make_tensors(in, 3 + call, varied);
        ck_assert_int_eq(sn_call(fn, in, TENSORS, fast, TENSORS), SN_OK);
        ck_assert_int_eq(sn_call(eager, in, TENSORS, slow, TENSORS), SN_OK);
        for (int i = 0; i < TENSORS; i++) ck_assert(same_bits(fast[i], slow[i]));
        sn_scope_end(scope);
    }
    if (!varied) {
        make_tensors(in, 17, false);
        ck_assert_int_eq(sn_call(fn, in, TENSORS, fast, TENSORS), SN_OK);
        const int64_t before = fn->n_nodes;
        const int64_t bodies = fn->stats.calls;
        make_tensors(in, 19, false);
        ck_assert_int_eq(sn_call(fn, in, TENSORS, fast, TENSORS), SN_OK);
        ck_assert_int_eq(fn->n_nodes, before);
        ck_assert_int_eq(fn->stats.calls, bodies); /* what ran no body is counted elsewhere */
        ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
        ck_assert_ptr_null(fn->not_saved);
    }
    sn_function_free(fn);
    sn_function_free(eager);
    sn_scope_end(outer);
}

START_TEST(thousands_of_tensors_are_replayed) { check_replay(false); }
END_TEST

START_TEST(hundreds_of_sizes_that_vary) { check_replay(true); }
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a_list_of_hundreds_of_tensors,    a_training_step_of_hundreds_of_parameters,
        endless_new_paths_stop_compiling, thousands_of_tensors_are_replayed,
        hundreds_of_sizes_that_vary,
    };
    return contract_main("test_many", tests, (int)(sizeof tests / sizeof *tests));
}
