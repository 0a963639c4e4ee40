/* test_optim.c: optimizers against torch.optim's numbers, parameters, and dictionaries of tensors
 * [acceptance 3.01, 3.12]. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sinter/autograd.h>
#include <sinter/inspect.h>
#include <sinter/nn.h>
#include <sinter/ops.h>

#include "tests/unit/optim_reference.h"
#include "tests/unit/suite.h"

#define OK(expr) ck_assert_msg((expr) == 0, "%s: %s", #expr, sn_error_take()->message)

static sn_tensor *floats(const float *values, int64_t n) { return sn_from_data(values, (sn_ints){&n, 1}, SN_F32); }
static float at(sn_tensor *t, int i) {
    float values[256];
    ck_assert_msg(t != NULL, "no tensor: %s", sn_error_take()->message);
    OK(sn_read(t, values, (size_t)sn_numel(t) * sizeof(float)));
    return values[i];
}
static void fails(const char *text) {
    const sn_error *const error = sn_error_take();
    ck_assert_msg(error->status != SN_OK && strstr(error->message, text), "'%s' lacks '%s'", error->message, text);
}
static void teardown(void) {
    sn_scope_end(SN_SCOPE_ROOT);
    ck_assert_int_eq(sn_live_nodes(NULL, 0), 0);
}

/* optimizers ---------------------------------------------------------------------------------- */

static const float start[] = {0.5f, -1.25f, 2.0f, 0.0f}, target[] = {1.0f, -1.0f, -0.5f, 0.25f},
                   weight[] = {1.0f, 0.5f, 2.0f, 0.125f};

static void one_step(sn_optim *o, sn_tensor *p) {
    const sn_scope scope = sn_scope_begin();
    OK(sn_optim_zero_grad(o));
    ck_assert_ptr_null(sn_grad(p));
    sn_tensor *const off = sn_sub(p, floats(target, 4));
    OK(sn_backward(sn_sum(sn_mul(sn_mul(off, off), floats(weight, 4)))));
    OK(sn_optim_step(o));
    OK(sn_scope_end(scope));
}

static void follow(sn_dict *d, sn_optim *o, const double reference[3][4]) {
    sn_tensor *const p = sn_dict_get(d, "p");
    ck_assert_ptr_nonnull(o);
    for (int step = 0, row = 0; step < 25; step++) {
        one_step(o, p);
        for (int i = 0; (step == 0 || step == 9 || step == 24) && i < 4; i++)
            ck_assert_double_eq_tol(at(p, i), reference[row][i], 1e-6);
        row += step == 0 || step == 9;
        if (step == 12) OK(sn_mul_scalar_(sn_optim_lr(o), sn_float(0.5)) ? 0 : 1);
    }
    sn_optim_free(o);
    sn_dict_free(d);
}

static sn_dict *problem(void) {
    sn_dict *const d = sn_dict_new();
    ck_assert_ptr_nonnull(sn_param(d, "p", floats(start, 4)));
    return d;
}

START_TEST(sgd_matches) {
    sn_dict *const d = problem();
    follow(d, sn_sgd(d, 0.05, 0), reference_sgd);
}
END_TEST
START_TEST(momentum_matches) {
    sn_dict *const d = problem();
    follow(d, sn_sgd(d, 0.02, 0.9), reference_momentum);
}
END_TEST
START_TEST(adamw_matches) {
    sn_dict *const d = problem();
    follow(d, sn_adamw(d, 0.1, 0.01), reference_adamw);
}
END_TEST
START_TEST(adam_matches) {
    sn_dict *const d = problem();
    follow(d, sn_adamw(d, 0.1, 0), reference_adam);
}
END_TEST

START_TEST(a_saved_state_continues_exactly) {
    sn_dict *const a = problem(), *const b = problem();
    sn_optim *const first = sn_adamw(a, 0.1, 0.01), *const second = sn_adamw(b, 0.3, 0.01);
    for (int i = 0; i < 5; i++) one_step(first, sn_dict_get(a, "p"));
    OK(sn_dict_copy(b, a));
    OK(sn_dict_copy(sn_optim_dict(second), sn_optim_dict(first)));
    one_step(first, sn_dict_get(a, "p"));
    one_step(second, sn_dict_get(b, "p"));
    for (int i = 0; i < 4; i++) ck_assert_float_eq(at(sn_dict_get(a, "p"), i), at(sn_dict_get(b, "p"), i));
    sn_optim_free(first), sn_optim_free(second), sn_dict_free(a), sn_dict_free(b);
}
END_TEST

START_TEST(optimizers_are_checked) {
    sn_dict *const d = sn_dict_new();
    OK(sn_dict_set(d, "plain", floats(start, 4)));
    ck_assert_ptr_null(sn_adamw(d, 1e-3, 0));
    fails("requires gradients");
    ck_assert_ptr_null(sn_sgd(d, -1, 0));
    fails("sn_sgd: lr is -1: it must be finite and at least 0");
    sn_dict_free(d);
}
END_TEST

/* parameters ---------------------------------------------------------------------------------- */

START_TEST(linear_parameters) {
    sn_dict *const d = sn_dict_new();
    sn_tensor *w, *b;
    sn_seed(7);
    OK(sn_param_linear(d, "fc", 16, 4, &w, &b));
    ck_assert_str_eq(sn_dict_name(d, 0), "fc.weight");
    ck_assert_str_eq(sn_dict_name(d, 1), "fc.bias");
    ck_assert(sn_requires_grad(w) && sn_requires_grad(b) && !sn_grad_fn(w));
    ck_assert_int_eq(sn_size(w, 0), 4);
    ck_assert_int_eq(sn_size(w, 1), 16);
    float low = 1, high = -1;
    for (int i = 0; i < 64; i++) low = fminf(low, at(w, i)), high = fmaxf(high, at(w, i));
    ck_assert(low >= -0.25f && low < -0.15f && high <= 0.25f && high > 0.15f);
    sn_dict_free(d);
}
END_TEST

/* dictionaries -------------------------------------------------------------------------------- */

START_TEST(dictionaries_keep_order_and_references) {
    sn_dict *const d = sn_dict_new();
    const sn_scope scope = sn_scope_begin();
    OK(sn_dict_set(d, "b", floats(start, 4)));
    OK(sn_dict_set(d, "a", floats(target, 4)));
    OK(sn_dict_set(d, "b", floats(weight, 2)));
    sn_scope_end(scope);
    ck_assert_int_eq(sn_dict_count(d), 2);
    ck_assert_str_eq(sn_dict_name(d, 0), "b");
    ck_assert_int_eq(sn_numel(sn_dict_at(d, 0)), 2);
    ck_assert_float_eq(at(sn_dict_get(d, "a"), 2), -0.5f);
    sn_dict_free(d);
}
END_TEST

START_TEST(a_missing_name_says_what_is_near) {
    sn_dict *const d = sn_dict_new();
    const char *const names[] = {"layer1.weight", "layer1.bias", "layer2.weight", "head", "embedding"};
    for (int i = 0; i < 5; i++) OK(sn_dict_set(d, names[i], floats(start, 4)));
    ck_assert_ptr_null(sn_dict_get(d, "layer1.wieght"));
    fails("no 'layer1.wieght'; near it: 'layer1.weight', 'layer2.weight', 'layer1.bias'");
    ck_assert_ptr_null(sn_dict_at(d, 5));
    fails("no entry 5");
    sn_dict_free(d);
}
END_TEST

START_TEST(files_hold_every_tensor) {
    char path[] = "/tmp/sinter_dict_XXXXXX";
    close(mkstemp(path));
    sn_dict *const d = sn_dict_new();
    OK(sn_dict_set(d, "x", floats(start, 4)));
    OK(sn_dict_set(d, "columns", sn_t(sn_view(floats(target, 4), SN_INTS(2, 2))))); /* saved row-major */
    const int64_t whole = 42;
    OK(sn_dict_set(d, "count", sn_from_data(&whole, (sn_ints){(const int64_t[]){0}, 0}, SN_I64)));
    OK(sn_dict_save(d, path));
    sn_dict *const back = sn_dict_load(path);
    ck_assert_msg(back != NULL, "%s", sn_error_take()->message);
    ck_assert_int_eq(sn_dict_count(back), 3);
    ck_assert_float_eq(at(sn_dict_get(back, "x"), 3), start[3]);
    ck_assert_float_eq(at(sn_dict_get(back, "columns"), 1), target[2]);
    ck_assert_int_eq(sn_rank(sn_dict_get(back, "count")), 0);
    ck_assert_int_eq(sn_item_int(sn_dict_get(back, "count")), 42);
    unlink(path);
    ck_assert_ptr_null(sn_dict_load(path));
    ck_assert_int_eq(sn_error_take()->status, SN_ERR_IO);
    sn_dict_free(d), sn_dict_free(back);
}
END_TEST

START_TEST(copy_checks_names_and_sizes) {
    sn_dict *const a = problem(), *const b = sn_dict_new();
    ck_assert_int_ne(sn_dict_copy(a, b), SN_OK);
    fails("no 'p'");
    OK(sn_dict_set(b, "p", floats(target, 3)));
    ck_assert_int_eq(sn_dict_copy(a, b), SN_ERR_SHAPE);
    fails("sizes of 'p'");
    sn_dict_free(a), sn_dict_free(b);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("optim");
    tcase_add_checked_fixture(tests, NULL, teardown);
    TTest const *const all[] = {sgd_matches,
                                momentum_matches,
                                adamw_matches,
                                adam_matches,
                                a_saved_state_continues_exactly,
                                optimizers_are_checked,
                                linear_parameters,
                                dictionaries_keep_order_and_references,
                                a_missing_name_says_what_is_near,
                                files_hold_every_tensor,
                                copy_checks_names_and_sizes};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    return suite_run("optim", tests);
}
