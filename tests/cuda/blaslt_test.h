/* blaslt_test.h: what tests of products by cuBLASLt share: tensors there and here, what the look-alike has counted. */
#ifndef SINTER_TESTS_CUDA_BLASLT_TEST_H
#define SINTER_TESTS_CUDA_BLASLT_TEST_H
#include "tests/cuda/emulated_control.h"
#include "tests/emulator/blaslt.h"
#include "tests/unit/contract.h"

enum { GPU = SN_CUDA(0) };

static inline bool on_emulator(void) { return control("emulator_fail") != NULL; }
static inline void expect_ok(void) { ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message); }
static inline sn_tensor *there(sn_tensor *x) { return sn_to_device(x, GPU); }
static inline sn_tensor *here(sn_tensor *x) { return sn_to_device(x, SN_CPU); }
static inline sn_tensor *values(sn_ints sizes, sn_dtype dtype) { return there(sn_to(sn_randn(sizes, SN_F32), dtype)); }
static inline sn_tensor *rows_from(sn_tensor *x, int64_t first, int64_t n) {
    return sn_slice(x, 0, first, first + n, 1);
}

static inline void *look_alike(const char *name) {
    const char *const path = getenv("SINTER_CUDA_BLASLT");
    void *const library = path ? dlopen(path, RTLD_NOW) : NULL;
    return library ? dlsym(library, name) : NULL;
}

/* Zeros by a real library. */
static inline EmulatedBlasltCounts library_counts(void) {
    EmulatedBlasltCount *count;
    EmulatedBlasltCounts counts = {0};
    *(void **)&count = look_alike("emulated_blaslt_count");
    if (count) count(&counts);
    return counts;
}

static inline void library_fails(const char *name, int status, int after) {
    EmulatedBlasltFail *plan;
    *(void **)&plan = look_alike("emulated_blaslt_fail");
    plan(name, status, after);
}

static inline void expect_same(sn_tensor *got, sn_tensor *want, const char *what, int64_t number) {
    expect_ok();
    ck_assert_msg(same_bits(here(got), here(want)), "%s, %lld", what, (long long)number);
}

/* What the products are, but for the order of their sums and what tf32 keeps of each factor, 11 bits: an error of up to
 * 2^-10 of the sizes of up to 30 terms, in all. */
static inline void expect_near(sn_tensor *got, sn_tensor *want) {
    expect_ok();
    const int64_t n = sn_numel(want);
    float *const x = malloc((size_t)n * sizeof *x), *const y = malloc((size_t)n * sizeof *y);
    ck_assert_int_eq(sn_read(sn_to(here(got), SN_F32), x, (size_t)n * sizeof *x), SN_OK);
    ck_assert_int_eq(sn_read(sn_to(want, SN_F32), y, (size_t)n * sizeof *y), SN_OK);
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(fabsf(x[i] - y[i]) <= 0.01f * fabsf(y[i]) + 0.03f, "%lld: %g, not %g", (long long)i, x[i], y[i]);
    free(x), free(y);
}

#endif
