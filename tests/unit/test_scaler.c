/* test_scaler.c: gradient scaling by public functions alone [acceptance 4.03], eager and compiled each. */
#include <stdio.h>
#include <unistd.h>

#include "tests/unit/contract.h"

enum { WIDTH = 32, LAYERS = 4 };

typedef struct Model { /* LAYERS times x <- tanh(x w), loss sum(x) spike */
    sn_dict *params;
    sn_tensor *w[LAYERS];
    sn_optim *optim;
    sn_scaler *scaler; /* NULL: a plain step */
} Model;

typedef sn_optim *Maker(sn_dict *d);
static sn_optim *adamw(sn_dict *d) { return sn_adamw(d, 1e-2, 0.01); }
static sn_optim *adam(sn_dict *d) { return sn_adam(d, 1e-2, 0.1); }
static sn_optim *sgd(sn_dict *d) { return sn_sgd(d, 1e-2, 0); }
static sn_optim *momentum(sn_dict *d) { return sn_sgd(d, 1e-2, 0.9); }
static Maker *const makers[] = {adamw, adam, sgd, momentum};
enum { MAKERS = sizeof makers / sizeof *makers };

static Model model_new(Maker *make, int64_t width, const sn_scaler_options *options) {
    Model m = {.params = sn_dict_new(), .scaler = options ? sn_scaler_new(options) : NULL};
    for (int i = 0; i < LAYERS; i++) {
        const char name[] = {'w', (char)('0' + i), 0};
        m.w[i] = sn_param(m.params, name, sn_mul_scalar(F32(1 + (uint64_t)i, width, width), sn_float(0.1)));
    }
    m.optim = make(m.params);
    ck_assert_msg(m.optim && !options == !m.scaler, "%s", sn_error_take()->message);
    return m;
}

static void model_free(Model m) {
    sn_scaler_free(m.scaler);
    sn_optim_free(m.optim);
    sn_dict_free(m.params);
}

static sn_status backward(sn_frame *f, const Model *m) {
    sn_optim_zero_grad(m->optim);
    sn_tensor *x = sn_in(f, 0);
    for (int i = 0; i < LAYERS; i++) x = sn_tanh(sn_matmul(x, m->w[i]));
    sn_tensor *const loss = sn_sum(sn_mul(x, sn_in(f, 1)));
    sn_out(f, 0, loss);
    return sn_backward(m->scaler ? sn_scaler_scale(m->scaler, loss) : loss);
}

static sn_status step(sn_frame *f) {
    const Model *const m = sn_closure(f);
    if (!m->scaler) return sn_optim_step(m->optim);
    sn_scaler_step(m->scaler, m->optim);
    return sn_scaler_update(m->scaler);
}

static sn_status train(sn_frame *f) {
    const Model *const m = sn_closure(f);
    backward(f, m);
    return step(f);
}

/* Infinite where `spike` is 1 / 0. */
static sn_tensor *spike(bool infinite) {
    return sn_from_data(&(float){infinite ? INFINITY : 1}, (sn_ints){(const int64_t[]){0}, 0}, SN_F32);
}

static float scale_of(const Model *m) { return (float)sn_item(sn_dict_get(sn_scaler_dict(m->scaler), "scale")); }
static int64_t tracker_of(const Model *m) {
    return sn_item_int(sn_dict_get(sn_scaler_dict(m->scaler), "growth_tracker"));
}

/* Parameters, moments, and counts. */
static bool same_models(const Model *a, const Model *b) {
    for (int i = 0; i < LAYERS; i++)
        if (!same_bits(a->w[i], b->w[i])) return false;
    sn_dict *const x = sn_optim_dict(a->optim), *const y = sn_optim_dict(b->optim);
    for (int i = 0; i < sn_dict_count(x); i++)
        if (!same_bits(sn_dict_at(x, i), sn_dict_at(y, i))) return false;
    return !a->scaler || !b->scaler || (scale_of(a) == scale_of(b) && tracker_of(a) == tracker_of(b));
}

/* A copy of all that a step may change. */
static sn_dict *snapshot(const Model *m) {
    sn_dict *const d = sn_dict_new(), *const state = sn_optim_dict(m->optim);
    for (int i = 0; i < LAYERS; i++) sn_dict_set(d, sn_dict_name(m->params, i), sn_clone(sn_detach(m->w[i])));
    for (int i = 0; i < sn_dict_count(state); i++)
        sn_dict_set(d, sn_dict_name(state, i), sn_clone(sn_dict_at(state, i)));
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
    return d;
}

static bool unchanged(const Model *m, sn_dict *before) {
    sn_dict *const now = snapshot(m);
    bool same = true;
    for (int i = 0; i < sn_dict_count(now); i++) same &= same_bits(sn_dict_at(now, i), sn_dict_at(before, i));
    sn_dict_free(now);
    return same;
}

static int64_t version_of(sn_tensor *t) {
    sn_storage info = {.size = sizeof info};
    ck_assert_int_eq(sn_storage_of(t, &info), SN_OK);
    return info.version;
}

static void call(sn_function *fn, bool infinite) {
    sn_tensor *loss;
    ck_assert_msg(sn_call(fn, (sn_tensor *[]){F32(9, 8, WIDTH), spike(infinite)}, 2, &loss, 1) == SN_OK, "%s",
                  sn_error_take()->message);
}

/* 4.03 ---------------------------------------------------------------------------------------- */

static void skips_and_halves(Maker *make, sn_compile_mode mode) {
    const Model m = model_new(make, WIDTH, SN_SCALER_OPTIONS(.init_scale = 1024));
    sn_function *const fn = sn_compile(train, (void *)&m, SN_COMPILE_OPTIONS(.mode = mode));
    for (int i = 0; i < 3; i++) call(fn, false);
    sn_dict *const before = snapshot(&m);
    const int64_t version = version_of(m.w[0]);
    call(fn, true);
    ck_assert(unchanged(&m, before));
    ck_assert_float_eq(scale_of(&m), 512);
    ck_assert_int_gt(version_of(m.w[0]), version); /* as a step that happens */
    call(fn, false);
    ck_assert(!unchanged(&m, before));
    ck_assert_float_eq(scale_of(&m), 512);
    for (int i = 0; i < LAYERS; i++) ck_assert(isfinite(sn_item(sn_sum(m.w[i]))));
    sn_dict_free(before);
    sn_function_free(fn);
    model_free(m);
}

START_TEST(a4_03_a_forced_infinity_skips_the_step_and_halves_the_scale) {
    skips_and_halves(makers[_i / 2], _i % 2 ? SN_COMPILE_VERIFY : SN_COMPILE_EAGER);
}
END_TEST

START_TEST(a4_03_the_scale_grows_after_n_good_steps) {
    static const float want[] = {8, 8, 16, 16, 16, 32, 16, 16, 16, 32}; /* growth by 2 after 3; the seventh is bad */
    Model m = model_new(adamw, WIDTH, SN_SCALER_OPTIONS(.init_scale = 8, .growth_interval = 3));
    sn_function *const fn =
        sn_compile(train, &m, SN_COMPILE_OPTIONS(.mode = _i ? SN_COMPILE_VERIFY : SN_COMPILE_EAGER));
    for (int i = 0; i < 10; i++) {
        call(fn, i == 6);
        ck_assert_float_eq(scale_of(&m), want[i]);
    }
    sn_function_free(fn);
    model_free(m);
}
END_TEST

/* Scales are powers of two: a step that happens has the bits of one without a scaler. Compiled is eager's, and all
 * of it one graph: beside the kernels of the plain step there are three at most, however many gradients there are. */
START_TEST(a4_03_a_whole_step_is_one_graph) {
    Model fast = model_new(makers[_i], WIDTH, SN_SCALER_OPTIONS(.growth_interval = 3));
    Model eager = model_new(makers[_i], WIDTH, SN_SCALER_OPTIONS(.growth_interval = 3));
    Model plain = model_new(makers[_i], WIDTH, NULL);
    const Twin twin = twin_new(train, &fast, &eager, NULL);
    sn_function *const plainly = sn_compile(train, &plain, NULL);
    for (int i = 0; i < 9; i++) {
        const bool bad = i % 4 == 2;
        TWIN_CALL(twin, F32(9, 8, WIDTH), spike(bad));
        ck_assert(same_models(&fast, &eager));
        if (!bad) call(plainly, false);
        ck_assert_msg(same_models(&fast, &plain), "call %d", i);
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    const sn_stats stats = stats_of(twin.fast), without = stats_of(plainly);
    ck_assert_int_eq(stats.breaks, 0);
    ck_assert_int_eq(stats.graphs, 1);
    printf("%lld kernels, %lld without a scaler\n", (long long)stats.kernels, (long long)without.kernels);
    ck_assert_int_le(stats.kernels, without.kernels + 3);
    twin_free(twin);
    sn_function_free(plainly);
    model_free(fast), model_free(eager), model_free(plain);
}
END_TEST

/* Bytes above those in use before. */
static int64_t peak_of_call(sn_function *fn, sn_tensors in, sn_tensor **out, int n_out) {
    sn_memory memory = {.size = sizeof memory};
    sn_memory_reset_peak(SN_CPU);
    sn_memory_get(SN_CPU, &memory);
    const int64_t before = memory.current;
    ck_assert_msg(sn_call(fn, in.data, (int)in.n, out, n_out) == SN_OK, "%s", sn_error_take()->message);
    sn_memory_get(SN_CPU, &memory);
    return memory.peak - before;
}

/* Of the third step. */
static int64_t peak_of(Maker *make, const sn_scaler_options *options, sn_compile_mode mode) {
    enum { WIDE = 256 };
    const Model m = model_new(make, WIDE, options);
    sn_function *const fn = sn_compile(train, (void *)&m, SN_COMPILE_OPTIONS(.mode = mode));
    int64_t peak = 0;
    for (int i = 0; i < 3; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *loss;
        peak = peak_of_call(fn, SN_TENSORS(F32(9, 8, WIDE), spike(false)), &loss, 1);
        sn_scope_end(scope);
    }
    sn_function_free(fn);
    model_free(m);
    return peak;
}

/* A parameter has 262,144 bytes: pages of 0-dim tensors may come on top; and a graph orders its ops as it likes, so
 * that activations, of 8 KB, may live longer in one of the two. */
START_TEST(a4_03_the_peak_is_no_higher_than_the_plain_steps) {
    const sn_compile_mode mode = _i % 2 ? SN_COMPILE_VERIFY : SN_COMPILE_EAGER;
    const int64_t with = peak_of(makers[_i / 2], SN_SCALER_OPTIONS(.init_scale = 1024), mode);
    const int64_t without = peak_of(makers[_i / 2], NULL, mode);
    printf("%d: peak %lld bytes, %lld without a scaler\n", _i, (long long)with, (long long)without);
    ck_assert_int_gt(without, 0);
    ck_assert_int_le(with, without + LAYERS * 8 * 256 * 4 + 8192);
}
END_TEST

/* Of the third step by itself. */
static int64_t peak_of_step(Maker *make, int n, bool scaled) {
    enum { SIDE = 128 };
    sn_dict *const params = sn_dict_new();
    sn_tensor *w[8];
    for (int i = 0; i < n; i++) {
        const char name[] = {'w', (char)('0' + i), 0};
        w[i] = sn_param(params, name, F32(1 + (uint64_t)i, SIDE, SIDE));
    }
    const Model m = {.optim = make(params),
                     .scaler = scaled ? sn_scaler_new(SN_SCALER_OPTIONS(.init_scale = 8)) : NULL};
    sn_function *const fn = sn_compile(step, (void *)&m, NULL);
    int64_t peak = 0;
    for (int call = 0; call < 3; call++) {
        const sn_scope scope = sn_scope_begin();
        for (int i = 0; i < n; i++) sn_grad_set(w[i], F32(20 + (uint64_t)i, SIDE, SIDE));
        peak = peak_of_call(fn, (sn_tensors){NULL, 0}, NULL, 0);
        sn_scope_end(scope);
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    sn_function_free(fn);
    sn_scaler_free(m.scaler);
    sn_optim_free(m.optim);
    sn_dict_free(params);
    return peak;
}

/* A parameter has 65,536 bytes. Their chains share scalars and are too many for one nest: where it ends, nothing as
 * large as a parameter is kept for the next one. */
START_TEST(a4_03_the_peak_of_many_parameters_is_that_of_the_plain_step) {
    for (int n = 1; n <= 8; n++) {
        const int64_t with = peak_of_step(makers[_i], n, true), without = peak_of_step(makers[_i], n, false);
        printf("%d parameters: peak %lld bytes, %lld without a scaler\n", n, (long long)with, (long long)without);
        ck_assert_int_le(with, without + 4096); /* 0-dim tensors */
    }
}
END_TEST

/* turns --------------------------------------------------------------------------------------- */

static void some_gradients(const Model *m) {
    for (int i = 0; i < LAYERS; i++) sn_grad_set(m->w[i], F32(20 + (uint64_t)i, WIDTH, WIDTH));
}

START_TEST(calls_out_of_turn_are_errors) {
    Model m = model_new(adamw, WIDTH, SN_SCALER_OPTIONS(.init_scale = 4));
    some_gradients(&m);
    ck_assert_int_eq(sn_scaler_update(m.scaler), SN_ERR_STATE);
    expect_error(SN_ERR_STATE, "sn_scaler_update: no optimizer was unscaled");
    ck_assert_ptr_null(sn_scaler_found_inf(m.scaler, m.optim));
    expect_error(SN_ERR_STATE, "sn_scaler_found_inf: this optimizer of sn_adamw was not unscaled");
    ck_assert_int_eq(sn_scaler_unscale(m.scaler, m.optim), SN_OK);
    sn_tensor *const want = sn_clone(sn_grad(m.w[0]));
    ck_assert(same_bits(want, sn_mul_scalar(F32(20, WIDTH, WIDTH), sn_float(0.25))));
    ck_assert_int_eq(sn_scaler_unscale(m.scaler, m.optim), SN_ERR_STATE);
    expect_error(SN_ERR_STATE, "sn_scaler_unscale: this optimizer of sn_adamw was unscaled since");
    ck_assert_int_eq(sn_scaler_step(m.scaler, m.optim), SN_OK); /* does not unscale again */
    ck_assert(same_bits(want, sn_grad(m.w[0])));
    ck_assert_int_eq(sn_scaler_step(m.scaler, m.optim), SN_ERR_STATE);
    expect_error(SN_ERR_STATE, "sn_scaler_step: this optimizer of sn_adamw was stepped since");
    ck_assert_int_eq(sn_scaler_unscale(m.scaler, m.optim), SN_ERR_STATE);
    expect_error(SN_ERR_STATE, "was stepped since");
    ck_assert_int_eq(sn_scaler_update(m.scaler), SN_OK);
    ck_assert_int_eq(sn_scaler_step(m.scaler, m.optim), SN_OK);
    model_free(m);
}
END_TEST

/* An unscale that found no gradient leaves those that come later to the step. */
START_TEST(gradients_behind_an_empty_unscale_are_unscaled) {
    Model m = model_new(sgd, WIDTH, SN_SCALER_OPTIONS(.init_scale = 4));
    ck_assert_int_eq(sn_scaler_unscale(m.scaler, m.optim), SN_OK);
    ck_assert_int_eq(sn_item_int(sn_scaler_found_inf(m.scaler, m.optim)), 0);
    some_gradients(&m);
    ck_assert_int_eq(sn_scaler_step(m.scaler, m.optim), SN_OK);
    ck_assert(same_bits(sn_grad(m.w[0]), sn_mul_scalar(F32(20, WIDTH, WIDTH), sn_float(0.25))));
    ck_assert_int_eq(sn_scaler_unscale(m.scaler, m.optim), SN_ERR_STATE);
    expect_error(SN_ERR_STATE, "was stepped since");
    model_free(m);
}
END_TEST

static sn_status found_in_body(sn_frame *f) {
    const Model *const m = sn_closure(f);
    return sn_out(f, 0, sn_where(sn_scaler_found_inf(m->scaler, m->optim), sn_neg(sn_in(f, 0)), sn_in(f, 0)));
}

/* Whose round it is no guard sees: such a body runs in each call. */
START_TEST(a_round_that_a_replayed_body_asks_for_is_that_of_the_call) {
    Model m = model_new(sgd, WIDTH, SN_SCALER_OPTIONS(.init_scale = 4));
    sn_function *const fn = sn_compile(found_in_body, &m, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    sn_tensor *const x = F32(5, 3);
    for (int i = 0; i < 6; i++) {
        some_gradients(&m);
        if (i != 4) sn_scaler_unscale(m.scaler, m.optim);
        sn_tensor *const y = SN_CALL(fn, x);
        ck_assert(i == 4 ? !y : same_bits(y, x));
        if (i == 4) expect_error(SN_ERR_STATE, "sn_scaler_found_inf: this optimizer of sn_sgd was not unscaled");
        ck_assert_int_eq(sn_scaler_step(m.scaler, m.optim), SN_OK);
        ck_assert_int_eq(sn_scaler_update(m.scaler), SN_OK);
    }
    sn_function_free(fn), model_free(m);
}
END_TEST

/* An index of x that may be outside; then a step; then another one, and the end of the round. */
static sn_status step_between_checks(sn_frame *f) {
    const Model *const m = sn_closure(f);
    sn_tensor *const first = sn_index_select(sn_in(f, 0), 0, sn_in(f, 1));
    sn_scaler_step(m->scaler, m->optim);
    sn_out(f, 0, sn_add(first, sn_index_select(sn_in(f, 0), 0, sn_in(f, 2))));
    return sn_scaler_update(m->scaler);
}

static sn_tensor *index_at(int64_t i) { return sn_from_data(&i, (sn_ints){(const int64_t[]){1}, 1}, SN_I64); }

/* The round is where the op that failed found it, as in eager. */
START_TEST(a_failed_op_takes_back_the_round_behind_it) {
    const sn_compile_mode mode = _i % 2 ? SN_COMPILE_VERIFY : SN_COMPILE_EAGER;
    const bool first = _i / 2;
    Model m = model_new(sgd, WIDTH, SN_SCALER_OPTIONS(.init_scale = 4));
    sn_function *const fn = sn_compile(step_between_checks, &m, SN_COMPILE_OPTIONS(.mode = mode));
    sn_tensor *const x = F32(5, 3), *const good = index_at(1), *const bad = index_at(7);
    for (int i = 0; i < 3; i++) {
        some_gradients(&m);
        ck_assert_msg(SN_CALL(fn, x, good, good) != NULL, "%s", sn_error_take()->message);
        some_gradients(&m);
        ck_assert_ptr_null(first ? SN_CALL(fn, x, bad, good) : SN_CALL(fn, x, good, bad));
        expect_error(SN_ERR_VALUE, "index_select");
        const sn_status status = sn_scaler_update(m.scaler);
        ck_assert_int_eq(status, first ? SN_ERR_STATE : SN_OK); /* nothing was stepped, or all but the update ran */
        if (first) expect_error(SN_ERR_STATE, "no optimizer was unscaled or stepped");
    }
    sn_function_free(fn), model_free(m);
}
END_TEST

START_TEST(bad_arguments_are_named) {
    Model m = model_new(sgd, WIDTH, SN_SCALER_OPTIONS(.init_scale = 4));
    sn_scaler_step(m.scaler, NULL);
    expect_error(SN_ERR_ARGUMENT, "sn_scaler_step: the optimizer is NULL");
    sn_scaler_unscale(m.scaler, NULL);
    expect_error(SN_ERR_ARGUMENT, "sn_scaler_unscale: the optimizer is NULL");
    sn_scaler_step(NULL, m.optim);
    expect_error(SN_ERR_ARGUMENT, "sn_scaler_step: the scaler is NULL");
    sn_scaler_scale(NULL, F32(1, 2));
    expect_error(SN_ERR_ARGUMENT, "sn_scaler_scale: the scaler is NULL");
    sn_scaler_update(NULL);
    expect_error(SN_ERR_ARGUMENT, "sn_scaler_update: the scaler is NULL");
    ck_assert_ptr_null(sn_scaler_new(SN_SCALER_OPTIONS(.growth_factor = 1)));
    expect_error(SN_ERR_ARGUMENT, "growth_factor 1");
    ck_assert_ptr_null(sn_scaler_new(SN_SCALER_OPTIONS(.backoff_factor = 1.5)));
    expect_error(SN_ERR_ARGUMENT, "backoff_factor 1.5");
    ck_assert_ptr_null(sn_scaler_new(SN_SCALER_OPTIONS(.init_scale = -2)));
    expect_error(SN_ERR_ARGUMENT, "init_scale -2");
    ck_assert_ptr_null(sn_scaler_new(SN_SCALER_OPTIONS(.init_scale = 1e-60)));
    expect_error(SN_ERR_ARGUMENT, "init_scale 1e-60");
    ck_assert_ptr_null(sn_scaler_new(SN_SCALER_OPTIONS(.growth_interval = -3)));
    expect_error(SN_ERR_ARGUMENT, "growth_interval -3");
    sn_dict *const d = sn_dict_new();
    sn_tensor *const half = sn_param(d, "half", sn_to(F32(1, 4), SN_F16));
    sn_optim *const o = sn_sgd(d, 1, 0);
    sn_grad_set(half, sn_to(F32(2, 4), SN_F16));
    sn_scaler_step(m.scaler, o);
    expect_error(SN_ERR_DTYPE, "'half' is f16");
    sn_optim_free(o);
    sn_dict_free(d);
    model_free(m);
}
END_TEST

/* One optimizer's infinity is not the other's, but the scale is everybody's. */
START_TEST(a_disabled_one_leaves_the_plain_step) {
    for (int k = 0; k < 2 * MAKERS; k++) {
        Model plain = model_new(makers[k / 2], WIDTH, NULL);
        Model off = model_new(makers[k / 2], WIDTH, SN_SCALER_OPTIONS(.disabled = true));
        const sn_compile_options *const options =
            SN_COMPILE_OPTIONS(.mode = k % 2 ? SN_COMPILE_VERIFY : SN_COMPILE_EAGER);
        sn_function *const fns[] = {sn_compile(train, &plain, options), sn_compile(train, &off, options)};
        for (int i = 0; i < 3; i++) call(fns[0], false), call(fns[1], false);
        for (int i = 0; i < LAYERS; i++) ck_assert(same_bits(plain.w[i], off.w[i]));
        ck_assert_float_eq(scale_of(&off), 65536);
        ck_assert_int_eq(sn_scaler_unscale(off.scaler, off.optim), SN_OK);
        ck_assert(!sn_scaler_found_inf(off.scaler, off.optim) && !sn_check());
        for (int f = 0; f < 2; f++) sn_function_free(fns[f]);
        model_free(plain), model_free(off);
    }
}
END_TEST

START_TEST(two_optimizers_share_a_scale) {
    Model a = model_new(adam, WIDTH, SN_SCALER_OPTIONS(.init_scale = 4)), b = model_new(momentum, WIDTH, NULL);
    some_gradients(&a), some_gradients(&b);
    sn_fill_(sn_select(sn_select(sn_grad(b.w[2]), 0, 3), 0, 5), sn_float(-INFINITY));
    sn_dict *const before_a = snapshot(&a), *const before_b = snapshot(&b);
    ck_assert_int_eq(sn_scaler_step(a.scaler, a.optim), SN_OK);
    ck_assert_int_eq(sn_scaler_step(a.scaler, b.optim), SN_OK);
    ck_assert_int_eq(sn_item_int(sn_scaler_found_inf(a.scaler, a.optim)), 0);
    ck_assert_int_eq(sn_item_int(sn_scaler_found_inf(a.scaler, b.optim)), 1);
    ck_assert_int_eq(sn_scaler_update(a.scaler), SN_OK);
    ck_assert(!unchanged(&a, before_a) && unchanged(&b, before_b));
    ck_assert_float_eq(scale_of(&a), 2);
    sn_dict_free(before_a), sn_dict_free(before_b);
    model_free(a), model_free(b);
}
END_TEST

/* state, and what bodies may hold ------------------------------------------------------------- */

START_TEST(a_saved_scaler_goes_on) {
    char path[] = "/tmp/sinter_scaler_XXXXXX";
    close(mkstemp(path));
    Model m = model_new(sgd, WIDTH, SN_SCALER_OPTIONS(.init_scale = 8, .growth_interval = 3));
    sn_function *const fn = sn_compile(train, &m, NULL);
    for (int i = 0; i < 5; i++) call(fn, false);
    ck_assert_int_eq(sn_dict_save(sn_scaler_dict(m.scaler), path), SN_OK);
    sn_scaler *const other = sn_scaler_new(SN_SCALER_OPTIONS(.growth_interval = 3));
    sn_dict *const loaded = sn_dict_load(path);
    ck_assert_int_eq(sn_dict_copy(sn_scaler_dict(other), loaded), SN_OK);
    sn_scaler_free(m.scaler);
    m.scaler = other;
    ck_assert_float_eq(scale_of(&m), 16);
    ck_assert_int_eq(tracker_of(&m), 2);
    call(fn, false); /* the body asks its closure anew */
    ck_assert_float_eq(scale_of(&m), 32);
    unlink(path);
    sn_dict_free(loaded);
    sn_function_free(fn);
    model_free(m);
}
END_TEST

static sn_status only_unscale(sn_frame *f) {
    const Model *const m = sn_closure(f);
    backward(f, m);
    return sn_scaler_unscale(m->scaler, m->optim);
}

static sn_status only_step(sn_frame *f) {
    const Model *const m = sn_closure(f);
    sn_scaler_step(m->scaler, m->optim);
    return sn_scaler_update(m->scaler);
}

/* A round over two functions, which were asked to run without their bodies: whose turn it is stays right. */
START_TEST(a_round_may_span_functions) {
    Model m = model_new(adamw, WIDTH, SN_SCALER_OPTIONS(.init_scale = 1024)), eager = m;
    eager = model_new(adamw, WIDTH, SN_SCALER_OPTIONS(.init_scale = 1024));
    sn_function *const first = sn_compile(only_unscale, &m, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    sn_function *const second = sn_compile(only_step, &m, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    sn_function *const whole = sn_compile(train, &eager, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    for (int i = 0; i < 6; i++) {
        call(first, i == 3);
        ck_assert_int_eq(sn_scaler_unscale(m.scaler, m.optim), SN_ERR_STATE);
        expect_error(SN_ERR_STATE, "was unscaled since");
        ck_assert_msg(sn_call(second, NULL, 0, NULL, 0) == SN_OK, "%s", sn_error_take()->message);
        call(whole, i == 3);
        ck_assert_msg(same_models(&m, &eager), "round %d", i);
    }
    ck_assert_int_eq(last_path(), SN_PATH_EAGER);
    ck_assert_int_eq(stats_of(second).graphs, 1);
    sn_function_free(first), sn_function_free(second), sn_function_free(whole);
    model_free(m), model_free(eager);
}
END_TEST

typedef struct Own { /* an optimizer of one's own: p -= sign(g) / 8 */
    Model m;
    bool branches;
} Own;

static sn_status own_formula(sn_frame *f) {
    const Own *const own = sn_closure(f);
    const Model *const m = &own->m;
    backward(f, m);
    sn_scaler_unscale(m->scaler, m->optim);
    sn_tensor *const found = sn_scaler_found_inf(m->scaler, m->optim);
    const sn_grad_mode before = sn_grad_mode_set(SN_GRAD_OFF);
    const bool skip = own->branches && sn_item_int(found);
    for (int i = 0; i < LAYERS && !skip; i++) {
        sn_tensor *const way = sn_mul_scalar(sn_sign(sn_grad(m->w[i])), sn_float(0.125));
        sn_sub_(m->w[i], own->branches ? way : sn_masked_fill(way, found, sn_int(0)));
    }
    sn_grad_mode_set(before);
    return sn_scaler_update(m->scaler);
}

START_TEST(other_optimizers_have_what_was_found) {
    Own all[] = {{model_new(sgd, WIDTH, SN_SCALER_OPTIONS(.init_scale = 64)), false},
                 {model_new(sgd, WIDTH, SN_SCALER_OPTIONS(.init_scale = 64)), true}};
    sn_function *fn[2];
    for (int k = 0; k < 2; k++) fn[k] = sn_compile(own_formula, &all[k], NULL);
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 2; k++) call(fn[k], i == 3);
        ck_assert(same_models(&all[0].m, &all[1].m));
    }
    ck_assert_float_eq(scale_of(&all[0].m), 32);
    ck_assert_int_eq(stats_of(fn[0]).breaks, 0);
    ck_assert_int_eq(stats_of(fn[1]).breaks, 1);
    for (int k = 0; k < 2; k++) sn_function_free(fn[k]), model_free(all[k].m);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("scaler");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, a4_03_a_forced_infinity_skips_the_step_and_halves_the_scale, 0, 2 * MAKERS);
    tcase_add_loop_test(tests, a4_03_the_scale_grows_after_n_good_steps, 0, 2);
    tcase_add_loop_test(tests, a4_03_a_whole_step_is_one_graph, 0, MAKERS);
    tcase_add_loop_test(tests, a4_03_the_peak_is_no_higher_than_the_plain_steps, 0, 2 * MAKERS);
    tcase_add_loop_test(tests, a4_03_the_peak_of_many_parameters_is_that_of_the_plain_step, 0, MAKERS);
    tcase_add_loop_test(tests, a_failed_op_takes_back_the_round_behind_it, 0, 4);
    TTest const *const rest[] = {calls_out_of_turn_are_errors,
                                 gradients_behind_an_empty_unscale_are_unscaled,
                                 a_round_that_a_replayed_body_asks_for_is_that_of_the_call,
                                 bad_arguments_are_named,
                                 a_disabled_one_leaves_the_plain_step,
                                 two_optimizers_share_a_scale,
                                 a_saved_scaler_goes_on,
                                 a_round_may_span_functions,
                                 other_optimizers_have_what_was_found};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) tcase_add_test(tests, rest[i]);
    return suite_run("scaler", tests);
}
