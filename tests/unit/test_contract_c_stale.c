/* test_contract_c_stale.c: what a replayed call depends on beside its arguments [semantics C6, C7, C11, G4]: .grad
 * slots are looked up at each call, scalars that the body never reads do not count, and what a body does beside its ops
 * (another function in mode EAGER, the program's state) turns replay into verify, which is said. The queries that a
 * body may make are in test_contract_c_queries.c. */
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

static sn_status calls_strict(sn_frame *f) {
    sn_function *const strict = sn_closure(f);
    return sn_out(f, 0, sn_exp(SN_CALL(strict, sn_in(f, 0))));
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
    sn_function *const outer = sn_compile(calls_strict, strict, NULL);
    for (int i = 0; i < 2; i++) {
        ck_assert_ptr_null(SN_CALL(outer, number(1)));
        expect_error(SN_ERR_STRICT, "breaks inside");
    }
    sn_function_free(outer);
    sn_function_free(strict);
    sn_function_free(c.callee);
}
END_TEST

/* .grad slots --------------------------------------------------------------------------------- */

typedef struct Step {
    sn_dict *dict;
    sn_tensor *w, *v;
    sn_optim *optim;
    int runs;
} Step;

static sn_status steps(sn_frame *f) {
    Step *const s = sn_closure(f);
    s->runs++;
    sn_optim_step(s->optim);
    return sn_check();
}

static Step step_new(bool adamw) {
    Step s = {.dict = sn_dict_new(), .w = LEAF(1, 4), .v = LEAF(2, 4)};
    sn_dict_set(s.dict, "w", s.w);
    sn_dict_set(s.dict, "v", s.v);
    s.optim = adamw ? sn_adamw(s.dict, 0.1, 0.01) : sn_sgd(s.dict, 0.1, 0.5);
    return s;
}

static void step_free(const Step *s) {
    sn_optim_free(s->optim);
    sn_dict_free(s->dict);
}

/* Which of the two have a gradient at each call. */
static const int wanted[] = {3, 3, 3, 1, 0, 3, 3, 2, 0, 1, 3, 3};

START_TEST(g4_a_replayed_step_uses_the_gradients_of_now) {
    Step fast = step_new(_i), slow = step_new(_i);
    sn_function *const fn = sn_compile(steps, &fast, REPLAY(.full_graph = true));
    sn_function *const eager = sn_compile(steps, &slow, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    int settled = 0;
    for (int i = 0; i < 36; i++) {
        const int now = wanted[i % 12];
        for (int k = 0; k < 2; k++) {
            Step *const s = k ? &slow : &fast;
            sn_grad_set(s->w, now & 1 ? F32(10 + i, 4) : NULL);
            sn_grad_set(s->v, now & 2 ? F32(50 + i, 4) : NULL);
        }
        ck_assert_int_eq(sn_call(fn, NULL, 0, NULL, 0), SN_OK);
        ck_assert_int_eq(sn_call(eager, NULL, 0, NULL, 0), SN_OK);
        ck_assert_msg(same_bits(fast.w, slow.w) && same_bits(fast.v, slow.v), "step %d differs", i);
        if (i == 23) settled = fast.runs;
    }
    const int without_ops = _i ? 0 : 2; /* SGD without a gradient: there is nothing to replay */
    ck_assert_msg(fast.runs == settled + without_ops, "%d runs, %d of them late", fast.runs, fast.runs - settled);
    sn_function_free(fn);
    sn_function_free(eager);
    step_free(&fast);
    step_free(&slow);
}
END_TEST

typedef struct Holder {
    sn_tensor *w, *kept;
    int runs;
    bool reads_kept;
} Holder;

/* Of an argument; the gradient of one is written, too. */
static sn_status scales_gradient(sn_frame *f) {
    Holder *const h = sn_closure(f);
    h->runs++;
    const sn_grad_mode before = sn_grad_mode_set(SN_GRAD_OFF);
    sn_tensor *const g = sn_grad(sn_in(f, 0));
    sn_tensor *y = sn_in(f, 1);
    if (g) sn_mul_scalar_(g, sn_float(0.5)), y = sn_add(y, g);
    y = sn_exp(y);
    sn_grad_mode_set(before);
    return sn_out(f, 0, y);
}

START_TEST(g4_the_gradient_of_an_argument_is_looked_up) {
    Holder fast = {0}, slow = {0};
    const Twin twin = twin_new(scales_gradient, &fast, &slow, REPLAY(0));
    for (int i = 0; i < 12; i++) {
        sn_tensor *in[2][2] = {{LEAF(1, 4), F32(i, 4)}, {LEAF(1, 4), F32(i, 4)}}, *out[2];
        for (int k = 0; k < 2 && i % 4 != 3; k++) sn_grad_set(in[k][0], F32(20 + i, 4));
        ck_assert_int_eq(sn_call(twin.fast, in[0], 2, &out[0], 1), SN_OK);
        ck_assert_int_eq(sn_call(twin.eager, in[1], 2, &out[1], 1), SN_OK);
        ck_assert_msg(same_bits(out[0], out[1]), "call %d differs", i);
        ck_assert(i % 4 == 3 || same_bits(sn_grad(in[0][0]), sn_grad(in[1][0])));
    }
    ck_assert_msg(fast.runs <= 4, "%d runs", fast.runs);
    twin_free(twin);
}
END_TEST

/* What the body uses may be the slot's tensor of the first calls, closed over. */
static sn_status uses_one_of_them(sn_frame *f) {
    Holder *const h = sn_closure(f);
    h->runs++;
    const sn_grad_mode before = sn_grad_mode_set(SN_GRAD_OFF);
    sn_tensor *const g = sn_grad(h->w), *const used = h->reads_kept ? h->kept : g;
    sn_tensor *const y = sn_mul(sn_in(f, 0), used);
    sn_grad_mode_set(before);
    return sn_out(f, 0, y);
}

START_TEST(g4_a_closed_over_tensor_is_not_taken_for_the_slot) {
    sn_tensor *const w = LEAF(1, 4);
    sn_grad_set(w, F32(2, 4));
    sn_tensor *const kept = sn_retain(sn_grad(w));
    Holder fast = {w, kept, 0, _i}, slow = fast;
    const Twin twin = twin_new(uses_one_of_them, &fast, &slow, REPLAY(0));
    for (int i = 0; i < 9; i++) {
        if (i > 2) sn_grad_set(w, F32(30 + i, 4));
        TWIN_CALL(twin, F32(i, 4));
    }
    ck_assert_int_le(fast.runs, 4);
    twin_free(twin);
    sn_release(kept);
}
END_TEST

/* Scalars that the body never reads ------------------------------------------------------------ */

static sn_status ignores_the_rest(sn_frame *f) {
    ((Counter *)sn_closure(f))->runs++;
    return sn_out(f, 0, sn_exp(sn_in(f, 0)));
}

START_TEST(c6_a_scalar_that_is_not_read_does_not_count) {
    Counter c = {0};
    sn_function *const fn = sn_compile(ignores_the_rest, &c, REPLAY(.full_graph = true));
    for (int i = 0; i < 20; i++) {
        sn_tensor *y = NULL;
        const sn_value in[] = {sn_val(F32(i, 4 + i % 3)), sn_float(i * 0.25), sn_int(i - 7)};
        ck_assert_int_eq(sn_call_values(fn, in, 3, &y, 1), SN_OK);
        ck_assert(same_bits(y, sn_exp(F32(i, 4 + i % 3))));
    }
    ck_assert_msg(c.runs == 2, "%d runs", c.runs);
    sn_function_free(fn);
}
END_TEST

static sn_status reads_the_number(sn_frame *f) {
    ((Counter *)sn_closure(f))->runs++;
    return sn_out(f, 0, sn_add_scalar(sn_in(f, 0), sn_float(sn_in_float(f, 1))));
}

/* What defeats replay is said, once, with the guard that failed. */
START_TEST(c6_cases_without_end_are_said) {
    listen();
    Counter c = {0};
    sn_function *const fn = sn_compile(reads_the_number, &c, REPLAY(.name = "numbers"));
    for (int i = 0; i < 80; i++) {
        sn_tensor *y = NULL;
        const sn_value in[] = {sn_val(F32(i, 4)), sn_float(i * 0.25)};
        ck_assert_int_eq(sn_call_values(fn, in, 2, &y, 1), SN_OK);
    }
    ck_assert_int_eq(c.runs, 80);
    ck_assert_msg(n_said == 1, "said %d times: %s", n_said, said);
    ck_assert_msg(strstr(said, "numbers") && strstr(said, "argument 1"), "%s", said);
    sn_function_free(fn);
}
END_TEST

/* Memory that the body makes ------------------------------------------------------------------- */

static sn_status accumulates(sn_frame *f) {
    ((Counter *)sn_closure(f))->runs++;
    static const float zeros[4];
    sn_tensor *const sum = sn_from_data(zeros, SN_INTS(4), SN_F32);
    sn_add_(sum, sn_in(f, 0));
    return sn_out(f, 0, sn_exp(sum));
}

START_TEST(c6_what_the_body_makes_and_writes_is_made_at_each_call) {
    Counter c = {0};
    sn_function *const fn = sn_compile(accumulates, &c, REPLAY(0));
    for (int i = 0; i < 6; i++) ck_assert(same_bits(SN_CALL(fn, F32(i, 4)), sn_exp(F32(i, 4))));
    sn_function_free(fn);
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
    tcase_add_loop_test(tests, g4_a_replayed_step_uses_the_gradients_of_now, 0, 2);
    tcase_add_test(tests, g4_the_gradient_of_an_argument_is_looked_up);
    tcase_add_loop_test(tests, g4_a_closed_over_tensor_is_not_taken_for_the_slot, 0, 2);
    tcase_add_test(tests, c6_a_scalar_that_is_not_read_does_not_count);
    tcase_add_test(tests, c6_cases_without_end_are_said);
    tcase_add_test(tests, c6_what_the_body_makes_and_writes_is_made_at_each_call);
    return suite_run("test_contract_c_stale", tests);
}
