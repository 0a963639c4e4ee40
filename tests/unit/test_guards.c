/* test_guards.c: guards of state that is the program's own (sn_guard_add) [acceptance 5.02, semantics C7]. */
#include <stdio.h>
#include <unistd.h>

#include "tests/unit/contract.h"

typedef struct Model { /* host state that the body branches on, and how often it ran */
    int64_t train, layers, asked;
    int bodies;
} Model;

static int64_t is_training(void *closure) {
    Model *const m = closure;
    m->asked++;
    return m->train;
}
static int64_t layers_of(void *closure) { return ((const Model *)closure)->layers; }

static sn_status body(sn_frame *f) {
    Model *const m = sn_closure(f);
    m->bodies++;
    sn_guard_add(f, "train", is_training, m);
    sn_guard_add(f, "layers", layers_of, m);
    sn_tensor *x = sn_in(f, 0);
    for (int64_t i = 0; i < m->layers; i++) x = m->train ? sn_sin(x) : sn_cos(x);
    return sn_out(f, 0, x);
}

static sn_tensor *want(const Model *m, sn_tensor *x) {
    for (int64_t i = 0; i < m->layers; i++) x = m->train ? sn_sin(x) : sn_cos(x);
    return x;
}

static char said[4096];
static void keep_lines(void *context, int level, const char *topic, const char *line) {
    if (strcmp(topic, "guards")) return;
    strncat(said, line, sizeof said - strlen(said) - 2);
    strcat(said, "\n");
}

/* Each state of the program has a graph of its own, which is replayed without the body once it was seen. */
START_TEST(a5_02_a_guard_of_the_programs_state) {
    Model m = {.train = 1, .layers = 2};
    sn_function *const fn = sn_compile(body, &m, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    sn_tensor *const x = F32(1, 4, 3);
    sn_setting_set("logs", "guards");
    sn_logging_set(keep_lines, NULL, NULL);
    for (int i = 0; i < 4; i++) ck_assert(same_bits(SN_CALL(fn, x), want(&m, x)));
    const int learnt = m.bodies;
    const int64_t asked = m.asked;
    ck_assert_int_lt(learnt, 4);
    ck_assert(same_bits(SN_CALL(fn, x), want(&m, x)));
    ck_assert_int_eq(m.bodies, learnt);
    ck_assert_int_eq(m.asked, asked + 1); /* before each replayed call */
    m.train = 0;
    said[0] = '\0';
    ck_assert(same_bits(SN_CALL(fn, x), want(&m, x)));
    ck_assert_int_eq(m.bodies, learnt + 1);
    ck_assert_msg(strstr(said, "guard 'train': 1, now 0") != NULL, "%s", said);
    m.layers = 5;
    said[0] = '\0';
    ck_assert(same_bits(SN_CALL(fn, x), want(&m, x)));
    ck_assert_msg(strstr(said, "guard 'layers': 2, now 5") != NULL, "%s", said);
    for (int i = 0; i < 3; i++) SN_CALL(fn, x);
    const int all = m.bodies;
    for (int i = 0; i < 4; i++) { /* states that were seen */
        m.train = i % 2 ? 0 : 1, m.layers = i % 2 ? 5 : 2;
        ck_assert(same_bits(SN_CALL(fn, x), want(&m, x)));
    }
    ck_assert_int_eq(m.bodies, all);
    sn_logging_set(NULL, NULL, NULL);
    sn_function_free(fn);
}
END_TEST

START_TEST(a5_02_in_the_other_modes_nothing_depends_on_it) {
    for (int mode = 0; mode < 2; mode++) {
        Model m = {.train = 1, .layers = 2};
        sn_function *const fn =
            sn_compile(body, &m, SN_COMPILE_OPTIONS(.mode = mode ? SN_COMPILE_EAGER : SN_COMPILE_VERIFY));
        sn_tensor *const x = F32(1, 4, 3);
        for (int i = 0; i < 6; i++) {
            m.train = i / 2 % 2;
            ck_assert(same_bits(SN_CALL(fn, x), want(&m, x)));
        }
        ck_assert_int_eq(m.bodies, 6);
        sn_function_free(fn);
    }
}
END_TEST

static int64_t calls_sinter(void *closure) { return sn_numel(sn_relu(closure)); }
static sn_status wrong_body(sn_frame *f) {
    sn_guard_add(f, "wrong", calls_sinter, sn_closure(f));
    return sn_out(f, 0, sn_relu(sn_in(f, 0)));
}

/* Bodies of control flow are traced, with no capture of their own. */
static sn_status scales_by_layers(sn_frame *f) {
    Model *const m = sn_closure(f);
    sn_guard_add(f, "layers", layers_of, m);
    return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_int(m->layers)));
}
static sn_status in_cond(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *out[1];
    void *const m = sn_closure(f);
    sn_cond(sn_ge_scalar(sn_sum(x), sn_float(-1e9)), scales_by_layers, scales_by_layers, m, NULL, SN_TENSORS(x), out,
            1);
    return sn_out(f, 0, out[0]);
}
static sn_status in_map(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *out[1];
    sn_map(scales_by_layers, sn_closure(f), NULL, SN_TENSORS(x), out, 1);
    return sn_out(f, 0, out[0]);
}

START_TEST(a5_02_a_guard_in_a_body_of_control_flow) {
    const sn_body bodies[] = {in_cond, in_map};
    for (int i = 0; i < 2; i++) {
        Model m = {.layers = 2};
        sn_function *const fn = sn_compile(bodies[i], &m, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
        sn_tensor *const x = F32(1, 2, 3);
        for (int k = 0; k < 6; k++) {
            m.layers = k < 4 ? 2 : 5;
            ck_assert(same_bits(SN_CALL(fn, x), sn_mul_scalar(x, sn_int(m.layers))));
        }
        sn_function_free(fn);
    }
}
END_TEST

START_TEST(a5_02_wrong_guards_are_named) {
    sn_tensor *const x = F32(1, 3);
    sn_function *fn = sn_compile(wrong_body, x, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    ck_assert_ptr_null(SN_CALL(fn, x));
    expect_error(SN_ERR_STATE, "sn_guard_add: guard 'wrong' calls Sinter");
    sn_function_free(fn);
    ck_assert_int_eq(sn_guard_add(NULL, "a", is_training, NULL), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sn_guard_add: the frame is NULL");
}
END_TEST

START_TEST(a5_02_a_function_with_a_guard_is_not_saved) {
    Model m = {.train = 1, .layers = 2};
    sn_function *const fn = sn_compile(body, &m, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY, .name = "guarded"));
    for (int i = 0; i < 4; i++) SN_CALL(fn, F32(1, 4, 3));
    ck_assert_int_ne(sn_plan_save(fn, "guarded.plan", NULL), SN_OK);
    expect_error(SN_ERR_UNSUPPORTED, "function 'guarded' cannot be saved: it has a guard of the program's, '");
    sn_function_free(fn);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a5_02_a_guard_of_the_programs_state,        a5_02_in_the_other_modes_nothing_depends_on_it,
        a5_02_a_guard_in_a_body_of_control_flow,    a5_02_wrong_guards_are_named,
        a5_02_a_function_with_a_guard_is_not_saved,
    };
    return contract_main("test_guards", tests, (int)(sizeof tests / sizeof *tests));
}
