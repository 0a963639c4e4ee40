/* test_scaler_recorded.c: our scaler beside PyTorch's [acceptance 4.03]: tests/oracle/scaler.safetensors holds 200
 * rounds of three of them (tests/oracle/torch_scaler.py), some with infinite gradients. From PyTorch's state before
 * a round ours gives what PyTorch had after it: scale, growth count and step count are equal; a step that does not
 * happen keeps every bit, one that does is within one ulp (of what, test_optim_recorded.c says). Compiled, with
 * eager's bits. */
#include <stdio.h>

#include "tests/unit/contract.h"

enum { ROUNDS = 200, WIDTH = 5 };

typedef struct Kind {
    const char *name;
    sn_scaler_options options;
} Kind;

#define SCALER(init, growth, backoff, interval)                                                                        \
    {                                                                                                                  \
        .size = sizeof(sn_scaler_options), .init_scale = init, .growth_factor = growth, .backoff_factor = backoff,     \
        .growth_interval = interval                                                                                    \
    }
static const Kind kinds[] = {
    {"plain", SCALER(65536, 2, 0.5, 7)}, {"odd", SCALER(1000, 1.7, 0.3, 3)}, {"highest", SCALER(0x1p125, 2, 0.5, 2)}};

typedef struct Run {
    const Kind *kind;
    sn_dict *file, *params;
    sn_tensor *p;
    sn_optim *optim;
    sn_scaler *scaler;
} Run;

static Run run_new(const Kind *kind, sn_dict *file) {
    Run r = {.kind = kind, .file = file, .params = sn_dict_new(), .scaler = sn_scaler_new(&kind->options)};
    r.p = sn_param(r.params, "p", sn_zeros(SN_INTS(WIDTH), SN_F32));
    r.optim = sn_adamw(r.params, 0.01, 0.01);
    ck_assert_msg(r.optim && r.scaler, "%s", sn_error_take()->message);
    return r;
}

static void run_free(Run r) {
    sn_scaler_free(r.scaler);
    sn_optim_free(r.optim);
    sn_dict_free(r.params);
}

static sn_tensor *row(const Run *r, const char *what, int i) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", r->kind->name, what);
    sn_tensor *const t = sn_select(sn_dict_get(r->file, name), 0, i);
    ck_assert_msg(t != NULL, "%s", sn_error_take()->message);
    return t;
}

enum { STATES = 6 };
static const char *const states[STATES] = {"p", "m", "v", "step", "scale", "tracker"};

/* What `states` are in ours. */
static sn_tensor *state(const Run *r, int k) {
    static const char *const names[STATES] = {NULL, "exp_avg.p", "exp_avg_sq.p", "step", "scale", "growth_tracker"};
    if (k == 0) return r->p;
    return sn_dict_get(k < 4 ? sn_optim_dict(r->optim) : sn_scaler_dict(r->scaler), names[k]);
}

static void put_state(const Run *r, int i) {
    const sn_grad_mode before = sn_grad_mode_set(SN_GRAD_OFF);
    for (int k = 0; k < STATES; k++)
        ck_assert_msg(sn_copy_(state(r, k), row(r, states[k], i)) != NULL, "%s", sn_error_take()->message);
    sn_grad_mode_set(before);
    ck_assert_int_eq(sn_grad_set(r->p, sn_clone(row(r, "g", i))), SN_OK);
}

static void floats(sn_tensor *t, float *out) {
    ck_assert_msg(sn_read(t, out, WIDTH * sizeof *out) == SN_OK, "%s", sn_error_take()->message);
}

static bool within_an_ulp(sn_tensor *got, sn_tensor *want, sn_tensor *before) {
    float g[WIDTH], w[WIDTH], b[WIDTH];
    floats(got, g), floats(want, w), floats(before, b);
    for (int k = 0; k < WIDTH; k++) {
        const float size = fmaxf(fmaxf(fabsf(w[k]), fabsf(b[k])), fabsf(w[k] - b[k]));
        if (!(fabs((double)g[k] - w[k]) <= (double)nextafterf(size, INFINITY) - size)) return false;
    }
    return true;
}

static bool round_is_right(const Run *r, int i) {
    const bool skipped = same_bits(row(r, "step", i), row(r, "step", i + 1));
    for (int k = 0; k < STATES; k++) {
        sn_tensor *const want = row(r, states[k], i + 1);
        if (k < 3 && !skipped ? !within_an_ulp(state(r, k), want, row(r, states[k], i)) : !same_bits(state(r, k), want))
            return false;
    }
    return true;
}

static sn_status one_round(sn_frame *f) {
    const Run *const r = sn_closure(f);
    sn_scaler_step(r->scaler, r->optim);
    return sn_scaler_update(r->scaler);
}

START_TEST(a4_03_recorded_rounds_of_pytorch) {
    sn_dict *const file = sn_dict_load(SINTER_ORACLE "/scaler.safetensors");
    ck_assert_msg(file != NULL, "%s", sn_error_take()->message);
    Run fast = run_new(&kinds[_i], file), eager = run_new(&kinds[_i], file);
    const Twin twin = twin_new(one_round, &fast, &eager, NULL);
    int failed = 0, skipped = 0;
    for (int i = 0; i < ROUNDS; i++) {
        const sn_scope scope = sn_scope_begin();
        put_state(&fast, i), put_state(&eager, i);
        ck_assert_msg(sn_call(twin.eager, NULL, 0, NULL, 0) == SN_OK, "%s", sn_error_take()->message);
        ck_assert_msg(sn_call(twin.fast, NULL, 0, NULL, 0) == SN_OK, "%s", sn_error_take()->message);
        failed += !round_is_right(&eager, i);
        skipped += same_bits(row(&eager, "step", i), row(&eager, "step", i + 1));
        for (int k = 0; k < STATES; k++)
            ck_assert_msg(same_bits(state(&fast, k), state(&eager, k)), "round %d, %s", i, states[k]);
        sn_scope_end(scope);
    }
    printf("%s: %d rounds, %d without a step, %d failed\n", kinds[_i].name, ROUNDS, skipped, failed);
    ck_assert_int_eq(failed, 0);
    ck_assert_int_ge(skipped, 9);
    const sn_stats stats = stats_of(twin.fast);
    ck_assert_int_eq(stats.graphs, 1);
    ck_assert_int_eq(stats.breaks, 0);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
    run_free(fast), run_free(eager);
    sn_dict_free(file);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("scaler_recorded");
    tcase_add_loop_test(tests, a4_03_recorded_rounds_of_pytorch, 0, (int)(sizeof kinds / sizeof *kinds));
    return suite_run("scaler_recorded", tests);
}
