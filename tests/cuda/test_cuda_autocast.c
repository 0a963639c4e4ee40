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
    tcase_add_test(tests, a4_02_a_weight_on_a_device_is_cast_once_per_region);
    tcase_add_test(tests, a4_05_products_on_a_device_add_in_f32);
    tcase_add_test(tests, t8_regions_are_by_kind_of_device);
    tcase_add_test(tests, t8_compiled_training_on_a_device_has_eagers_bits);
    return suite_run("cuda_autocast", tests);
}
