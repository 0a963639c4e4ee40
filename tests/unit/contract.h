/* contract.h: what the tests of the contract share: inputs made from a number, "these tensors have
 * the same bits" [semantics B1], a function beside its eager twin, and a suite from a list of
 * tests. A body reads what it needs from its closure; calls count the body's runs there. */
#ifndef SINTER_TESTS_UNIT_CONTRACT_H
#define SINTER_TESTS_UNIT_CONTRACT_H
#include <math.h>
#include <sinter/sinter.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/suite.h"

/* For tests that count memory, addresses or tensors: whatever the environment says, ended handles go. */
static inline void keep_no_handles(void) { ck_assert_int_eq(sn_setting_set("check_handles", "0"), SN_OK); }

/* n floats in [-2, 2), by seed. */
static inline void fill_floats(float *to, int64_t n, uint64_t seed) {
    uint64_t s = seed * 2862933555777941757u + 3037000493u;
    for (int64_t i = 0; i < n; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        to[i] = (float)((double)(s >> 40) * 0x1p-22 - 2.0);
    }
}

static inline sn_tensor *make_f32(sn_ints sizes, uint64_t seed) {
    int64_t n = 1;
    for (int64_t i = 0; i < sizes.n; i++) n *= sizes.data[i];
    float *const data = malloc((size_t)(n + 1) * sizeof *data);
    fill_floats(data, n, seed);
    sn_tensor *const t = sn_from_data(data, sizes, SN_F32);
    free(data);
    return t;
}
#define F32(seed, ...)  make_f32(SN_INTS(__VA_ARGS__), seed)
#define LEAF(seed, ...) sn_requires_grad_(F32(seed, __VA_ARGS__), true)

static inline int64_t item_bytes(sn_dtype dtype) {
    switch (dtype) {
    case SN_F64:
    case SN_I64:
        return 8;
    case SN_F32:
    case SN_I32:
        return 4;
    case SN_F16:
    case SN_BF16:
    case SN_I16:
        return 2;
    default:
        return 1;
    }
}

static inline bool is_nan_at(sn_dtype dtype, const char *at) {
    double f64;
    float f32;
    if (dtype == SN_F64) return memcpy(&f64, at, sizeof f64), isnan(f64);
    if (dtype == SN_F32) return memcpy(&f32, at, sizeof f32), isnan(f32);
    return false;
}

/* All bits equal, except that a NaN equals any NaN; sizes and dtype too. Two NULLs are equal. */
static inline bool same_bits(sn_tensor *a, sn_tensor *b) {
    if (!a || !b) return a == b;
    const sn_ints as = sn_sizes(a), bs = sn_sizes(b);
    const sn_dtype dtype = sn_dtype_of(a);
    if (dtype != sn_dtype_of(b) || as.n != bs.n) return false;
    if (as.n && memcmp(as.data, bs.data, (size_t)as.n * sizeof *as.data)) return false;
    const int64_t width = item_bytes(dtype), n = sn_numel(a);
    char *const x = malloc((size_t)(n * width + 1)), *const y = malloc((size_t)(n * width + 1));
    bool same = sn_read(a, x, (size_t)(n * width)) == SN_OK && sn_read(b, y, (size_t)(n * width)) == SN_OK;
    for (int64_t i = 0; i < n && same; i++)
        same = !memcmp(x + i * width, y + i * width, (size_t)width) ||
               (is_nan_at(dtype, x + i * width) && is_nan_at(dtype, y + i * width));
    free(x);
    free(y);
    return same;
}

static inline sn_stats stats_of(sn_function *fn) {
    sn_stats stats = {.size = sizeof stats};
    sn_function_stats(fn, &stats);
    return stats;
}

static inline sn_path last_path(void) {
    sn_call_report report = {.size = sizeof report};
    sn_last_call(&report);
    return report.path;
}

static inline const char *last_reason(void) {
    sn_call_report report = {.size = sizeof report};
    sn_last_call(&report);
    return report.reason;
}

/* One body compiled and run eagerly, each with a closure of its own where it has state. */
typedef struct Twin {
    sn_function *fast, *eager;
} Twin;

static inline Twin twin_new(sn_body body, void *fast, void *eager, const sn_compile_options *options) {
    return (Twin){sn_compile(body, fast, options),
                  sn_compile(body, eager, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER))};
}

static inline void twin_free(Twin twin) {
    sn_function_free(twin.fast);
    sn_function_free(twin.eager);
}

/* Both run on their own inputs; asserts equal bits of one result. */
static inline sn_tensor *twin_call(Twin twin, sn_tensors fast, sn_tensors eager) {
    sn_tensor *const want = sn_call1(twin.eager, eager);
    ck_assert_msg(want != NULL, "eager: %s", sn_error_take()->message);
    sn_tensor *const got = sn_call1(twin.fast, fast);
    ck_assert_msg(got != NULL, "compiled: %s", sn_error_take()->message);
    ck_assert_msg(same_bits(got, want), "compiled and eager differ");
    return got;
}
#define TWIN_CALL(twin, ...) twin_call(twin, SN_TENSORS(__VA_ARGS__), SN_TENSORS(__VA_ARGS__))

/* Takes the pending error and asserts its status and that its message or op has the text. */
static inline void expect_error(sn_status status, const char *text) {
    const sn_error *const error = sn_error_take();
    ck_assert_msg(error->status == status, "status %d, not %d: %s", error->status, status, error->message);
    ck_assert_msg(strstr(error->message, text) || strstr(error->op, text), "'%s' is not in: %s: %s", text, error->op,
                  error->message);
}

/* A mode's handler: twice what the op named by the closure gives. */
static inline sn_status doubles_op(sn_frame *f) {
    sn_redispatch(f);
    if (strcmp(sn_op_name(sn_frame_op(f)), sn_closure(f)) != 0) return sn_check();
    return sn_out(f, 0, sn_mul_scalar(sn_result(f, 0), sn_float(2)));
}

static inline int contract_main(const char *name, const TTest *const *tests, int n) {
    TCase *const tcase = tcase_create(name);
    tcase_set_timeout(tcase, 60);
    for (int i = 0; i < n; i++) tcase_add_test(tcase, tests[i]);
    return suite_run(name, tcase);
}

#endif
