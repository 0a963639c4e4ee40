/* test_cuda_fast.c: numerics fast: products of f32 go to cuBLASLt's tensor cores, which round their operands to tf32;
 * all else has eager's bits, and so has all on the CPU. What was decided is in texts: the kernel, the plan, explain. */
#include <sinter/sinter.h>
#include <stdio.h>

#include "runtime/cuda/blaslt.h"
#include "tests/cuda/blaslt_test.h"
#include "tests/unit/explained.h"

static sn_compile_options *fast(sn_compile_mode mode, sn_preset preset) {
    static sn_compile_options options;
    options = (sn_compile_options){.size = sizeof options, .mode = mode, .numerics = SN_FAST, .preset = preset};
    return &options;
}

static bool has_library(void) {
    const char *why;
    return blaslt_find(&why) != NULL;
}

static sn_status product_body(sn_frame *f) { return sn_out(f, 0, sn_gelu(sn_linear(sn_in(f, 0), sn_in(f, 1), NULL))); }

/* A call that has compiled code: the first one is eager's. */
static sn_tensor *compiled(sn_function *fn, sn_tensor *x, sn_tensor *w) {
    sn_tensor *y = SN_CALL(fn, x, w);
    if (last_path() == SN_PATH_EAGER) y = SN_CALL(fn, x, w);
    expect_ok();
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    return y;
}

START_TEST(products_of_f32_are_tf32_and_a_rows_bits_its_own) {
    sn_function *const fn = sn_compile(product_body, NULL, fast(SN_COMPILE_VERIFY, SN_PRESET_DEFAULT));
    sn_tensor *const x = values(SN_INTS(40, 20), SN_F32), *const w = values(SN_INTS(50, 20), SN_F32);
    sn_tensor *const exact = sn_gelu(sn_linear(x, w, NULL)), *const all = here(SN_CALL(fn, x, w));
    expect_same(all, exact, "the first call, which is eager's", 0);
    const int64_t before = library_counts().products;
    sn_tensor *const got = here(compiled(fn, x, w));
    expect_near(got, here(exact));
    ck_assert(!same_bits(got, here(exact)));
    if (on_emulator()) ck_assert_int_eq(library_counts().products, before + 1);
    for (int64_t m = 2; m < 40; m += 7)
        expect_same(compiled(fn, rows_from(x, 1, m), w), rows_from(got, 1, m), "rows", m);
    expect_explained(fn, "numerics fast: 1 kernel may round otherwise than eager");
    ck_assert_ptr_nonnull(strstr(sn_explain_json(fn), "\"fast_kernels\": 1"));
    ck_assert_ptr_nonnull(strstr(sn_dump(fn, "loops"), "\n  gemm f32 fast ["));
    sn_function_free(fn);
}
END_TEST

/* f64 and bf16 have one way each, in both numerics; what is no product has the bits of eager. */
static sn_status no_products_body(sn_frame *f) {
    return sn_out(f, 0, sn_softmax(sn_gelu(sn_add(sn_in(f, 0), sn_in(f, 1))), -1));
}

START_TEST(all_else_is_exact) {
    static const sn_dtype dtypes[] = {SN_F64, SN_BF16, SN_F16};
    for (int i = 0; i < COUNT_OF(dtypes); i++) {
        sn_function *const fn = sn_compile(product_body, NULL, fast(SN_COMPILE_VERIFY, SN_PRESET_DEFAULT));
        sn_tensor *const x = values(SN_INTS(9, 24), dtypes[i]), *const w = values(SN_INTS(16, 24), dtypes[i]);
        expect_same(compiled(fn, x, w), sn_gelu(sn_linear(x, w, NULL)), "dtype", dtypes[i]);
        sn_function_free(fn);
    }
    sn_function *const fn = sn_compile(no_products_body, NULL, fast(SN_COMPILE_VERIFY, SN_PRESET_DEFAULT));
    sn_tensor *const x = values(SN_INTS(9, 24), SN_F32), *const w = values(SN_INTS(24), SN_F32);
    expect_same(compiled(fn, x, w), sn_softmax(sn_gelu(sn_add(x, w)), -1), "softmax", 0);
    expect_explained(fn, "numerics fast changes nothing: all kernels of this graph are exact");
    sn_function_free(fn);
}
END_TEST

static sn_status loss_body(sn_frame *f) {
    return sn_out(f, 0, sn_sum(sn_mm(sn_tanh(sn_linear(sn_in(f, 0), sn_in(f, 1), NULL)), sn_in(f, 1))));
}

static sn_tensor *gradient(sn_function *fn, sn_tensor *x, sn_tensor *w) {
    sn_tensor *const leaf = sn_requires_grad_(sn_detach(w), true);
    sn_tensor *const loss = fn ? SN_CALL(fn, x, leaf) : sn_sum(sn_mm(sn_tanh(sn_linear(x, leaf, NULL)), leaf));
    ck_assert_int_eq(sn_backward(loss), SN_OK);
    return here(sn_grad(leaf));
}

START_TEST(products_of_backward_are_tf32_too) {
    sn_function *const fn = sn_compile(loss_body, NULL, fast(SN_COMPILE_VERIFY, SN_PRESET_DEFAULT));
    sn_tensor *const x = values(SN_INTS(12, 16), SN_F32), *const w = values(SN_INTS(24, 16), SN_F32);
    sn_tensor *const exact = gradient(NULL, x, w);
    expect_same(gradient(fn, x, w), exact, "the first call", 0);
    gradient(fn, x, w); /* its gradient's layout is a key of its own */
    const int64_t before = library_counts().products;
    sn_tensor *const got = gradient(fn, x, w);
    expect_near(got, exact);
    ck_assert(!same_bits(got, exact));
    if (on_emulator()) ck_assert_int_eq(library_counts().products, before + 5);
    expect_same(gradient(fn, x, w), got, "again", 0);
    sn_function_free(fn);
}
END_TEST

START_TEST(one_launch_has_the_bits_of_the_steps) {
    sn_tensor *const x = values(SN_INTS(12, 16), SN_F32), *const w = values(SN_INTS(24, 16), SN_F32);
    sn_function *const plain = sn_compile(product_body, NULL, fast(SN_COMPILE_REPLAY, SN_PRESET_DEFAULT));
    sn_function *const graph = sn_compile(product_body, NULL, fast(SN_COMPILE_VERIFY, SN_PRESET_REDUCE_OVERHEAD));
    sn_tensor *const want = here(compiled(plain, x, w));
    for (int i = 0; i < 4; i++) expect_same(compiled(graph, x, w), want, "one launch, call", i);
    for (int i = 0; i < 4; i++) expect_same(compiled(plain, x, w), want, "replayed, call", i);
    sn_function_free(plain), sn_function_free(graph);
}
END_TEST

START_TEST(without_the_library_it_is_exact) {
    setenv("SINTER_CUDA_BLASLT", "none", 1);
    sn_function *const fn = sn_compile(product_body, NULL, fast(SN_COMPILE_VERIFY, SN_PRESET_DEFAULT));
    sn_tensor *const x = values(SN_INTS(9, 24), SN_F32), *const w = values(SN_INTS(16, 24), SN_F32);
    expect_same(compiled(fn, x, w), sn_gelu(sn_linear(here(x), here(w), NULL)), "product", 0);
    sn_function_free(fn);
}
END_TEST

START_TEST(on_the_cpu_it_changes_nothing_and_says_so) {
    sn_function *const fn = sn_compile(product_body, NULL, fast(SN_COMPILE_VERIFY, SN_PRESET_DEFAULT));
    sn_tensor *const x = sn_randn(SN_INTS(9, 24), SN_F32), *const w = sn_randn(SN_INTS(16, 24), SN_F32);
    expect_same(compiled(fn, x, w), sn_gelu(sn_linear(x, w, NULL)), "product", 0);
    expect_explained(fn, "numerics fast changes nothing: all kernels of this graph are exact, as on cpu all are");
    sn_function_free(fn);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("cuda_fast");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, on_the_cpu_it_changes_nothing_and_says_so);
    if (lacks_compiler())
        puts("skipped: on a device: no clang here, by which the emulated device runs kernels");
    else {
        tcase_add_test(tests, all_else_is_exact);
        tcase_add_test(tests, without_the_library_it_is_exact);
        if (getenv("SINTER_CUDA_BLASLT") || has_library()) {
            tcase_add_test(tests, products_of_f32_are_tf32_and_a_rows_bits_its_own);
            tcase_add_test(tests, products_of_backward_are_tf32_too);
            tcase_add_test(tests, one_launch_has_the_bits_of_the_steps);
        }
    }
    return suite_run("cuda_fast", tests);
}
