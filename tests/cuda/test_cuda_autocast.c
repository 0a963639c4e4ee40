/* test_cuda_autocast.c: autocast on a CUDA device, eager and compiled: regions are by kind of device, and the policies,
 * kept casts and gradients are those of the CPU (tests/unit/test_autocast.c) [semantics T8]. On the emulated device
 * bits are the CPU's as well; a GPU's products of bf16 are the vendor library's. */
#include <sinter/sinter.h>
#include <stdio.h>

#include "tests/cuda/emulated_control.h"
#include "tests/unit/contract.h"
#include "tests/unit/suite.h"

enum { GPU = SN_CUDA(0) };

static sn_tensor *on(sn_device device, sn_tensor *x) {
    sn_tensor *const t = sn_to_device(x, device);
    ck_assert_msg(t != NULL, "%s", sn_error_take()->message);
    return t;
}
static sn_tensor *there(sn_tensor *x) { return on(GPU, x); }
static sn_tensor *here(sn_tensor *x) { return on(SN_CPU, x); }
static bool has_cpu_bits(void) { return control("emulator_count") != NULL; }

static sn_scope region(sn_device device, sn_dtype dtype) {
    const sn_scope mark = sn_scope_begin();
    sn_autocast_set(device, dtype);
    return mark;
}

static void is_dtype(sn_tensor *t, sn_dtype want) {
    ck_assert_msg(t != NULL, "%s", sn_error_take()->message);
    ck_assert_int_eq(sn_dtype_of(t), want);
}

static sn_status matmul(sn_frame *f) { return sn_out(f, 0, sn_matmul(sn_in(f, 0), sn_in(f, 1))); }

START_TEST(a2_16_matmul_under_autocast_on_a_device) {
    sn_tensor *const x = F32(1, 2, 3), *const w = F32(2, 3, 4);
    sn_tensor *const gx = there(x), *const gw = sn_requires_grad_(there(w), true);
    sn_function *const fn = sn_compile(matmul, NULL, NULL);
    sn_grad_mode_set(SN_GRAD_OFF);
    sn_autocast_set(GPU, SN_BF16);
    sn_tensor *const y = sn_matmul(gx, gw);
    is_dtype(y, SN_BF16);
    ck_assert(!sn_requires_grad(y));
    for (int i = 0; i < 3; i++) ck_assert(same_bits(here(SN_CALL(fn, gx, gw)), here(y)));
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    if (has_cpu_bits()) ck_assert(same_bits(here(y), sn_matmul(sn_to(x, SN_BF16), sn_to(w, SN_BF16))));
    sn_function_free(fn);
}
END_TEST

START_TEST(t8_regions_are_by_kind_of_device) {
    sn_tensor *const x = F32(1, 4, 4), *const gx = there(x);
    sn_autocast_set(GPU, SN_BF16);
    ck_assert_int_eq(sn_autocast_get(SN_CUDA(1)), SN_BF16);
    ck_assert_int_eq(sn_autocast_get(SN_CPU), SN_F32);
    is_dtype(sn_mm(x, x), SN_F32);
    is_dtype(sn_mm(gx, gx), SN_BF16);
    sn_autocast_set(SN_CPU, SN_F16);
    is_dtype(sn_mm(x, x), SN_F16);
    is_dtype(sn_mm(gx, gx), SN_BF16);
    sn_autocast_set(GPU, SN_F32);
    is_dtype(sn_mm(gx, gx), SN_F32);
    is_dtype(sn_mm(x, x), SN_F16);
    /* A number of the CPU's goes with any device, and is none of the region's. */
    sn_autocast_set(GPU, SN_BF16);
    sn_tensor *const low = sn_to(gx, SN_BF16), *const one = sn_sum(sn_ones(SN_INTS(1), SN_F32));
    is_dtype(sn_addcmul(low, low, one), SN_BF16);
}
END_TEST

typedef struct Layers {
    sn_tensor *w1, *b1, *w2;
} Layers;

static Layers layers_on(sn_device device) {
    return (Layers){sn_requires_grad_(on(device, F32(1, 8, 6)), true), sn_requires_grad_(on(device, F32(2, 8)), true),
                    sn_requires_grad_(on(device, F32(3, 5, 8)), true)};
}

static sn_status loss_of(sn_frame *f) {
    const Layers *const m = sn_closure(f);
    sn_tensor *const h = sn_gelu(sn_layer_norm(sn_linear(sn_in(f, 0), m->w1, m->b1), SN_INTS(8), NULL, NULL));
    return sn_out(f, 0, sn_cross_entropy(sn_linear(h, m->w2, NULL), sn_in(f, 1)));
}

/* The loss; gradients are in the leaves. */
static sn_tensor *trained(sn_function *fn, const Layers *m, sn_device device, sn_dtype mode) {
    static const int64_t classes[] = {1, 4, 0};
    sn_tensor *const x = on(device, F32(9, 3, 6)), *const target =
                                                       on(device, sn_from_data(classes, SN_INTS(3), SN_I64));
    sn_tensor *const leaves[] = {m->w1, m->b1, m->w2};
    for (int i = 0; i < 3; i++) sn_grad_set(leaves[i], NULL);
    const sn_scope mark = region(device, mode);
    sn_tensor *const loss = SN_CALL(fn, x, target);
    is_dtype(loss, SN_F32);
    ck_assert_int_eq(sn_backward(loss), SN_OK);
    return sn_scope_return(mark, loss);
}

static void same_gradients(const Layers *a, const Layers *b) {
    ck_assert(same_bits(here(sn_grad(a->w1)), here(sn_grad(b->w1))));
    ck_assert(same_bits(here(sn_grad(a->b1)), here(sn_grad(b->b1))));
    ck_assert(same_bits(here(sn_grad(a->w2)), here(sn_grad(b->w2))));
}

START_TEST(t8_compiled_training_on_a_device_has_eagers_bits) {
    static const sn_dtype modes[] = {SN_BF16, SN_BF16, SN_F32, SN_F16, SN_BF16, SN_F16, SN_F32};
    Layers fast = layers_on(GPU), slow = layers_on(GPU), cpu = layers_on(SN_CPU);
    const Twin twin = twin_new(loss_of, &fast, &slow, NULL);
    sn_function *const by_cpu = sn_compile(loss_of, &cpu, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        sn_tensor *const want = trained(twin.eager, &slow, GPU, modes[i]);
        sn_tensor *const got = trained(twin.fast, &fast, GPU, modes[i]);
        ck_assert(i < 4 || last_path() == SN_PATH_COMPILED);
        ck_assert(same_bits(here(got), here(want)));
        same_gradients(&fast, &slow);
        if (!has_cpu_bits()) continue;
        ck_assert(same_bits(trained(by_cpu, &cpu, SN_CPU, modes[i]), here(want)));
        same_gradients(&fast, &cpu);
    }
    sn_function_free(by_cpu);
    twin_free(twin);
}
END_TEST

START_TEST(a4_02_a_weight_on_a_device_is_cast_once_per_region) {
    sn_tensor *const w = sn_requires_grad_(there(F32(1, 4, 4)), true), *const x = sn_to(there(F32(2, 4, 4)), SN_BF16);
    sn_autocast_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    sn_autocast_stats_get(&before);
    const sn_scope mark = region(GPU, SN_BF16);
    for (int i = 0; i < 3; i++) is_dtype(sn_mm(x, w), SN_BF16);
    sn_autocast_stats_get(&after);
    ck_assert_int_eq(after.casts, before.casts + 1);
    ck_assert_int_eq(after.shared, before.shared + 2);
    ck_assert_int_eq(after.kept_bytes, 32);
    sn_scope_end(mark);
}
END_TEST

enum { RESULTS = 8 };
static const sn_dtype wanted[RESULTS] = {SN_BF16, SN_F32, SN_F32, SN_BF16, SN_F32, SN_F32, SN_F32, SN_F64};

static sn_status policies(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const w = sn_in(f, 1), *const y = sn_matmul(x, w);
    sn_out(f, 0, y);                                          /* lower */
    sn_out(f, 1, sn_softmax(y, 1));                           /* f32, by dtype */
    sn_out(f, 2, sn_add(y, w));                               /* none: types promote, bf16 and f32 */
    sn_out(f, 3, sn_relu(y));                                 /* none */
    sn_out(f, 4, sn_exp(y));                                  /* f32 */
    sn_out(f, 5, sn_addcmul(x, y, w));                        /* promote: f32 is among them */
    sn_out(f, 6, sn_sum(y));                                  /* f32, by dtype */
    return sn_out(f, 7, sn_matmul(sn_in(f, 2), sn_in(f, 2))); /* f64 stays */
}

static void call_policies(sn_function *fn, sn_device device, sn_tensor **out) {
    sn_tensor *const in[] = {on(device, F32(1, 4, 4)), on(device, F32(2, 4, 4)),
                             on(device, sn_to(F32(3, 4, 4), SN_F64))};
    const sn_scope mark = region(device, SN_BF16);
    ck_assert_msg(sn_call(fn, in, 3, out, RESULTS) == SN_OK, "%s", sn_error_take()->message);
    for (int i = 0; i < RESULTS; i++) out[i] = sn_keep(out[i]);
    sn_scope_end(mark);
}

START_TEST(a4_01_policies_hold_on_a_device) {
    const Twin twin = twin_new(policies, NULL, NULL, NULL);
    sn_tensor *cpu[RESULTS], *want[RESULTS], *got[RESULTS];
    call_policies(twin.eager, SN_CPU, cpu);
    for (int i = 0; i < 3; i++) {
        call_policies(twin.eager, GPU, want);
        call_policies(twin.fast, GPU, got);
        for (int k = 0; k < RESULTS; k++) {
            is_dtype(want[k], wanted[k]);
            ck_assert_int_eq(sn_device_of(got[k]), GPU);
            ck_assert_msg(same_bits(here(got[k]), here(want[k])), "result %d of call %d", k, i);
            if (has_cpu_bits()) ck_assert_msg(same_bits(here(want[k]), cpu[k]), "result %d", k);
            sn_release(want[k]), sn_release(got[k]);
        }
    }
    for (int k = 0; k < RESULTS; k++) sn_release(cpu[k]);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

enum { STEPS = 60, POINTS = 64 };

/* Points inside and outside of a ball. */
static void make_points(sn_tensor **x, sn_tensor **target) {
    float points[POINTS * 6];
    int64_t classes[POINTS];
    fill_floats(points, POINTS * 6, 5);
    for (int i = 0; i < POINTS; i++) {
        float sum = 0;
        for (int k = 0; k < 6; k++) sum += points[6 * i + k] * points[6 * i + k];
        classes[i] = sum > 8;
    }
    *x = there(sn_from_data(points, SN_INTS(POINTS, 6), SN_F32));
    *target = there(sn_from_data(classes, SN_INTS(POINTS), SN_I64));
}

static sn_status in_bf16(sn_frame *f) {
    sn_autocast_set(GPU, SN_BF16);
    return loss_of(f);
}

static void train(sn_function *fn, const Layers *m, double *losses) {
    sn_dict *const params = sn_dict_new();
    sn_dict_set(params, "w1", m->w1), sn_dict_set(params, "b1", m->b1), sn_dict_set(params, "w2", m->w2);
    sn_optim *const optim = sn_adamw(params, 0.04, 0);
    sn_tensor *x, *target;
    make_points(&x, &target);
    for (int i = 0; i < STEPS; i++) {
        const sn_scope mark = sn_scope_begin();
        sn_tensor *const loss = SN_CALL(fn, x, target);
        is_dtype(loss, SN_F32);
        ck_assert_int_eq(sn_backward(loss), SN_OK);
        ck_assert_int_eq(sn_optim_step(optim), SN_OK);
        sn_optim_zero_grad(optim);
        losses[i] = sn_item(loss);
        sn_scope_end(mark);
    }
    sn_optim_free(optim);
    sn_dict_free(params);
}

START_TEST(a4_04_a_loop_converges_in_bf16_without_a_scaler) {
    const Layers fast = layers_on(GPU), slow = layers_on(GPU);
    const Twin twin = twin_new(in_bf16, (void *)&fast, (void *)&slow, NULL);
    double got[STEPS], want[STEPS];
    train(twin.eager, &slow, want);
    train(twin.fast, &fast, got);
    for (int i = 0; i < STEPS; i++) ck_assert_msg(got[i] == want[i], "step %d: %g, not %g", i, got[i], want[i]);
    ck_assert_msg(want[0] > 0.5 && want[STEPS - 1] < 0.4 * want[0], "%g, then %g", want[0], want[STEPS - 1]);
    is_dtype(fast.w1, SN_F32);
    ck_assert(same_bits(here(fast.w2), here(slow.w2)));
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

START_TEST(a4_05_products_on_a_device_add_in_f32) {
    sn_tensor *const a = there(sn_ones(SN_INTS(1, 1024), SN_F32)), *const b = there(sn_ones(SN_INTS(1024, 1), SN_F32));
    sn_function *const fn = sn_compile(matmul, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        const sn_scope mark = region(GPU, SN_BF16);
        sn_tensor *const eager = sn_matmul(a, b), *const compiled = SN_CALL(fn, a, b);
        is_dtype(compiled, SN_BF16);
        ck_assert_double_eq(sn_item(sn_sum(here(eager))), 1024);
        ck_assert_double_eq(sn_item(sn_sum(here(compiled))), 1024);
        sn_scope_end(mark);
    }
    sn_function_free(fn);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("cuda_autocast");
    tcase_set_timeout(tests, 300);
    if (lacks_compiler()) {
        puts("skipped: no clang here, by which the emulated device runs kernels");
        return 77;
    }
    tcase_add_test(tests, a2_16_matmul_under_autocast_on_a_device);
    tcase_add_test(tests, a4_01_policies_hold_on_a_device);
    tcase_add_test(tests, a4_02_a_weight_on_a_device_is_cast_once_per_region);
    tcase_add_test(tests, a4_04_a_loop_converges_in_bf16_without_a_scaler);
    tcase_add_test(tests, a4_05_products_on_a_device_add_in_f32);
    tcase_add_test(tests, t8_regions_are_by_kind_of_device);
    tcase_add_test(tests, t8_compiled_training_on_a_device_has_eagers_bits);
    return suite_run("cuda_autocast", tests);
}
