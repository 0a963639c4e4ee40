/* test_contract_c_stale.c: what a replayed call depends on beside its arguments [semantics C6, C7, C11, G4]: what a
 * body does beside its ops (another function in mode EAGER, the program's state) turns replay into verify, which is
 * said. */
#include "tests/unit/contract.h"
#include "tests/unit/suite.h"

#define REPLAY(...) SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY, __VA_ARGS__)

/* What the log said about replay. */
static char said[4096];
static int n_said;

static void listen_to(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level, (void)topic;
    if (!strstr(line, "replay")) return;
    n_said++;
    strncat(said, line, sizeof said - strlen(said) - 2);
}

static void listen(void) {
    said[0] = n_said = 0;
    sn_logging_set(listen_to, NULL, "");
}

/* A callee that runs as it is ----------------------------------------------------------------- */

typedef struct Counter {
    double count;
    sn_function *callee;
    int runs;
} Counter;

static sn_status counts(sn_frame *f) {
    Counter *const c = sn_closure(f);
    c->count += 1;
    return sn_out(f, 0, sn_add_scalar(sn_in(f, 0), sn_float(c->count)));
}

static sn_status calls_first(sn_frame *f) {
    Counter *const c = sn_closure(f);
    c->runs++;
    sn_tensor *const h = SN_CALL(c->callee, sn_in(f, 0));
    return sn_out(f, 0, sn_add(h, sn_in(f, 0)));
}

static sn_status calls_only(sn_frame *f) {
    Counter *const c = sn_closure(f);
    c->runs++;
    return sn_out(f, 0, SN_CALL(c->callee, sn_in(f, 0)));
}

static float first(sn_tensor *t) {
    float value = NAN;
    char all[64];
    if (t && sn_numel(t) <= 16) sn_read(t, all, (size_t)sn_numel(t) * 4), memcpy(&value, all, 4);
    return value;
}

static sn_tensor *number(float value) { return sn_from_data(&value, SN_INTS(1), SN_F32); }

START_TEST(c11_an_eager_callee_is_a_break_where_nothing_is_pending) {
    listen();
    Counter c = {0};
    c.callee = sn_compile(counts, &c, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_function *const fn = sn_compile(_i ? calls_only : calls_first, &c, REPLAY(0));
    for (int i = 0; i < 5; i++) {
        const float got = first(SN_CALL(fn, number((float)i))), want = (float)(_i ? 2 * i + 1 : 3 * i + 1);
        ck_assert_msg(got == want, "call %d: %g, not %g", i, (double)got, (double)want);
    }
    ck_assert_int_eq(c.runs, 5);
    ck_assert_int_eq(stats_of(fn).breaks, 1);
    ck_assert_ptr_nonnull(strstr(sn_explain(fn), "SN_COMPILE_EAGER"));
    ck_assert_int_eq(n_said, 1);
    ck_assert_msg(strstr(said, "SN_COMPILE_EAGER"), "%s", said);
    sn_function_free(fn);

    sn_function *const strict = sn_compile(_i ? calls_only : calls_first, &c, REPLAY(.full_graph = true));
    ck_assert_ptr_null(SN_CALL(strict, number(1)));
    expect_error(SN_ERR_STRICT, "SN_COMPILE_EAGER");
    sn_function_free(strict);
    sn_function_free(c.callee);
}
END_TEST

/* The program's state, changed by a body ------------------------------------------------------ */

typedef struct Changes {
    sn_tensor *w;
    sn_dict *dict;
    sn_optim *optim;
    int64_t hook;
    int runs;
} Changes;

static sn_status no_hook(sn_frame *f) { return sn_out(f, 0, sn_in(f, 0)); }

static void removes_a_gradient(Changes *c) { sn_grad_set(c->w, NULL); }
static void zeroes_gradients(Changes *c) { sn_optim_zero_grad(c->optim); }
static void sets_a_gradient(Changes *c) { sn_grad_set(c->w, F32(3, 4)); }
static void switches_gradients(Changes *c) { sn_requires_grad_(c->w, !sn_requires_grad(c->w)); }
static void adds_a_hook(Changes *c) { sn_hook_add(c->w, no_hook, NULL); }
static void removes_a_hook(Changes *c) { sn_hook_remove(c->w, c->hook); }
static void sets_a_setting(Changes *c) { sn_setting_set("root_scope_warning", c->runs % 2 ? "9000" : "9001"); }
static void seeds(Changes *c) { sn_seed((uint64_t)c->runs); }
static void fills_a_dict(Changes *c) { sn_dict_set(c->dict, c->runs % 2 ? "a" : "b", c->w); }
static void makes_a_parameter(Changes *c) { sn_param(c->dict, c->runs % 2 ? "c" : "d", c->w); }
static void goes_backward(Changes *c) {
    const sn_grad_mode before = sn_grad_mode_set(SN_GRAD_ON);
    sn_backward(sn_sum(sn_mul(c->w, c->w)));
    sn_grad_mode_set(before);
}

static const struct Change {
    const char *name;
    void (*make)(Changes *c);
} changes[] = {{"sn_grad_set NULL", removes_a_gradient},
               {"sn_optim_zero_grad", zeroes_gradients},
               {"sn_grad_set", sets_a_gradient},
               {"sn_requires_grad_", switches_gradients},
               {"sn_hook_add", adds_a_hook},
               {"sn_hook_remove", removes_a_hook},
               {"sn_setting_set", sets_a_setting},
               {"sn_seed", seeds},
               {"sn_dict_set", fills_a_dict},
               {"sn_param", makes_a_parameter},
               {"sn_backward", goes_backward}};
enum { CHANGES = sizeof changes / sizeof *changes };
static const struct Change *change;
static bool ops_first;

static sn_status changes_state(sn_frame *f) {
    Changes *const c = sn_closure(f);
    c->runs++;
    const sn_grad_mode before = sn_grad_mode_set(SN_GRAD_OFF);
    sn_tensor *h = sn_in(f, 0);
    if (ops_first) h = sn_exp(h);
    change->make(c);
    if (!ops_first) h = sn_exp(h);
    sn_grad_mode_set(before);
    return sn_out(f, 0, h);
}

START_TEST(c6_what_a_body_changes_is_not_replayed) {
    listen();
    change = &changes[_i / 2];
    ops_first = _i % 2;
    Changes c = {.w = LEAF(1, 4), .dict = sn_dict_new()};
    sn_dict_set(c.dict, "w", c.w);
    c.optim = sn_sgd(c.dict, 0.1, 0);
    c.hook = sn_hook_add(c.w, no_hook, NULL);
    sn_function *const fn = sn_compile(changes_state, &c, REPLAY(0));
    for (int i = 0; i < 4; i++) ck_assert_ptr_nonnull(SN_CALL(fn, F32(i, 4)));
    ck_assert_msg(c.runs == 4, "%s: %d runs", change->name, c.runs);
    ck_assert_msg(n_said == 1, "%s: said %d times: %s", change->name, n_said, said);
    sn_function_free(fn);
    sn_optim_free(c.optim);
    sn_dict_free(c.dict);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("stale");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, c11_an_eager_callee_is_a_break_where_nothing_is_pending, 0, 2);
    tcase_add_loop_test(tests, c6_what_a_body_changes_is_not_replayed, 0, 2 * CHANGES);
    return suite_run("test_contract_c_stale", tests);
}
