/* test_optim_recorded.c: our steps beside PyTorch's [acceptance 3.01]: tests/oracle/optim.safetensors holds 50 steps of
 * each kind (tests/oracle/torch_optim.py). From PyTorch's state and gradient before a step, ours gives what PyTorch had
 * after it, within one ulp; eagerly, and compiled with the same bits.
 *
 * The ulp is that of the largest part of the sum that a step is: before, after, what is added. PyTorch's own results
 * depend on the machine by as much where a sum cancels: it has one rounding for a product and a sum where it has
 * vectors with fma, and a square root that is not always the nearest. */
#include <stdio.h>

#include "tests/unit/contract.h"

enum { STEPS = 50, WIDTH = 37, MAX_SLOTS = 2 };

typedef struct Kind {
    const char *name;
    const char *slots[MAX_SLOTS]; /* our state's names of the file's m and v */
    sn_optim *(*make)(sn_dict *d);
} Kind;

static sn_optim *sgd(sn_dict *d) { return sn_sgd(d, 0.05, 0); }
static sn_optim *momentum(sn_dict *d) { return sn_sgd(d, 0.02, 0.9); }
static sn_optim *adam(sn_dict *d) { return sn_adam(d, 0.01, 0); }
static sn_optim *adam_decay(sn_dict *d) { return sn_adam(d, 0.01, 0.1); }
static sn_optim *adamw(sn_dict *d) { return sn_adamw(d, 0.01, 0.01); }

static const Kind kinds[] = {{"sgd", {NULL, NULL}, sgd},
                             {"momentum", {"momentum.p", NULL}, momentum},
                             {"adam", {"exp_avg.p", "exp_avg_sq.p"}, adam},
                             {"adam_decay", {"exp_avg.p", "exp_avg_sq.p"}, adam_decay},
                             {"adamw", {"exp_avg.p", "exp_avg_sq.p"}, adamw}};
static const char *const slot_names[MAX_SLOTS] = {"m", "v"};

typedef struct Run {
    const Kind *kind;
    sn_dict *file, *params;
    sn_optim *optim;
} Run;

/* The file lies beside the sources. */
static sn_dict *recorded(void) {
    sn_dict *const d = sn_dict_load(SINTER_ORACLE "/optim.safetensors");
    ck_assert_msg(d != NULL, "%s", sn_error_take()->message);
    return d;
}

static Run run_new(const Kind *kind, sn_dict *file) {
    Run r = {.kind = kind, .file = file, .params = sn_dict_new()};
    ck_assert_ptr_nonnull(sn_param(r.params, "p", sn_zeros(SN_INTS(WIDTH), SN_F32)));
    r.optim = kind->make(r.params);
    ck_assert_ptr_nonnull(r.optim);
    return r;
}

static void run_free(Run r) {
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

static void set(sn_tensor *to, sn_tensor *from) { ck_assert_ptr_nonnull(sn_copy_(to, from)); }

/* PyTorch's state before step i. */
static void put_state(const Run *r, int i) {
    sn_dict *const state = sn_optim_dict(r->optim);
    sn_tensor *const p = sn_dict_get(r->params, "p");
    const sn_grad_mode before = sn_grad_mode_set(SN_GRAD_OFF);
    set(p, row(r, "p", i));
    set(sn_optim_lr(r->optim), row(r, "lr", i));
    for (int k = 0; k < MAX_SLOTS && r->kind->slots[k]; k++)
        set(sn_dict_get(state, r->kind->slots[k]), row(r, slot_names[k], i));
    if (r->kind->slots[1]) ck_assert_ptr_nonnull(sn_fill_(sn_dict_get(state, "step"), sn_int(i)));
    sn_grad_mode_set(before);
    ck_assert_int_eq(sn_grad_set(p, sn_clone(row(r, "g", i))), SN_OK);
}

static void floats(sn_tensor *t, float *out) {
    ck_assert_msg(sn_read(t, out, WIDTH * sizeof *out) == SN_OK, "%s", sn_error_take()->message);
}

/* The largest error in ulps of the largest of `before`, `want` and the way between them. */
static double error_of(sn_tensor *got, sn_tensor *want, sn_tensor *before) {
    float g[WIDTH], w[WIDTH], b[WIDTH];
    double worst = 0;
    floats(got, g), floats(want, w), floats(before, b);
    for (int k = 0; k < WIDTH; k++) {
        const float size = fmaxf(fmaxf(fabsf(w[k]), fabsf(b[k])), fabsf(w[k] - b[k]));
        const double ulp = (double)nextafterf(size, INFINITY) - size;
        ck_assert(isfinite(g[k]) && isfinite(w[k]));
        worst = fmax(worst, fabs((double)g[k] - w[k]) / ulp);
    }
    return worst;
}

static double step_error(const Run *r, int i) {
    double worst = error_of(sn_dict_get(r->params, "p"), row(r, "p", i + 1), row(r, "p", i));
    for (int k = 0; k < MAX_SLOTS && r->kind->slots[k]; k++) {
        const char *const slot = slot_names[k];
        sn_tensor *const got = sn_dict_get(sn_optim_dict(r->optim), r->kind->slots[k]);
        worst = fmax(worst, error_of(got, row(r, slot, i + 1), row(r, slot, i)));
    }
    return worst;
}

static sn_status step(sn_frame *f) {
    const Run *const r = sn_closure(f);
    return sn_optim_step(r->optim);
}

START_TEST(a3_01_recorded_steps_of_pytorch) {
    sn_dict *const file = recorded();
    const Run fast = run_new(&kinds[_i], file), eager = run_new(&kinds[_i], file);
    sn_function *const fn = sn_compile(step, (void *)&fast, NULL);
    int failed = 0;
    double worst = 0;
    for (int i = 0; i < STEPS; i++) {
        const sn_scope scope = sn_scope_begin();
        put_state(&fast, i), put_state(&eager, i);
        ck_assert_int_eq(sn_optim_step(eager.optim), SN_OK);
        ck_assert_msg(sn_call(fn, NULL, 0, NULL, 0) == SN_OK, "%s", sn_error_take()->message);
        const double error = step_error(&eager, i);
        worst = fmax(worst, error);
        failed += error > 1;
        ck_assert(same_bits(sn_dict_get(fast.params, "p"), sn_dict_get(eager.params, "p")));
        for (int k = 0; k < MAX_SLOTS && kinds[_i].slots[k]; k++)
            ck_assert(same_bits(sn_dict_get(sn_optim_dict(fast.optim), kinds[_i].slots[k]),
                                sn_dict_get(sn_optim_dict(eager.optim), kinds[_i].slots[k])));
        sn_scope_end(scope);
    }
    printf("%s: %d steps, %d failed, at most %.2f ulp\n", kinds[_i].name, STEPS, failed, worst);
    ck_assert_int_eq(failed, 0);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    ck_assert_int_eq(stats_of(fn).graphs, 1);
    sn_function_free(fn);
    run_free(fast), run_free(eager);
    sn_dict_free(file);
}
END_TEST

START_TEST(a3_01_parameters_require_gradients) {
    sn_dict *const d = sn_dict_new();
    sn_tensor *const p = sn_param(d, "p", F32(1, 4));
    ck_assert(sn_requires_grad(p));
    ck_assert_int_eq(sn_backward(sn_sum(sn_mul(p, p))), SN_OK);
    ck_assert(same_bits(sn_grad(p), sn_add(F32(1, 4), F32(1, 4))));
    sn_dict_free(d);
}
END_TEST

/* A tensor under two names (tied weights) steps once. */
START_TEST(a3_01_a_shared_parameter_steps_once) {
    sn_dict *const d = sn_dict_new();
    sn_tensor *const p = sn_param(d, "embedding", F32(1, 4));
    ck_assert_int_eq(sn_dict_set(d, "head", p), SN_OK);
    sn_optim *const o = sn_sgd(d, 1, 0);
    ck_assert_int_eq(sn_grad_set(p, sn_clone(sn_detach(p))), SN_OK);
    ck_assert_int_eq(sn_optim_step(o), SN_OK);
    ck_assert(same_bits(sn_detach(p), sn_zeros(SN_INTS(4), SN_F32)));
    sn_optim_free(o);
    sn_dict_free(d);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("optim_recorded");
    tcase_add_loop_test(tests, a3_01_recorded_steps_of_pytorch, 0, (int)(sizeof kinds / sizeof *kinds));
    tcase_add_test(tests, a3_01_parameters_require_gradients);
    tcase_add_test(tests, a3_01_a_shared_parameter_steps_once);
    return suite_run("optim_recorded", tests);
}
