/* test_quantize.c: rounding to integers [acceptance 5.23]: the ops, against PyTorch's formulas in plain C, eagerly and
 * compiled. */
#include <math.h>
#include <stdlib.h>

#include "tests/unit/public_check.h"
#include "tests/unit/suite.h"

typedef struct Grid {
    double scale;
    int64_t zero, low, high;
} Grid;

static const Grid grids[] = {{0.25, 3, 0, 255}, {0.1, -7, -128, 127}, {0.037, 0, -8, 7}};

enum { N = 64 };
static const float special[] = {0.125f, 0.375f, -0.125f, 0.625f, NAN, INFINITY, -INFINITY, 1e30f, -1e30f, -0.0f};

static void fill(float *x, int seed) {
    memcpy(x, special, sizeof special);
    for (int i = (int)(sizeof special / sizeof *special); i < N; i++)
        x[i] = (float)((i * 7919 + seed * 104729) % 2001 - 1000) / 37.0f;
}

/* The int that x is rounded to, before it is limited: ties go to the even one. */
static float whole_of(float x, const Grid *g) { return rintf(x * (1.0f / (float)g->scale)) + (float)g->zero; }
static bool is_inside(float q, const Grid *g) { return q >= (float)g->low && q <= (float)g->high; }
static int64_t limited(float q, const Grid *g) {
    return q >= (float)g->high ? g->high : q >= (float)g->low ? (int64_t)q : g->low; /* a NaN, too */
}

static sn_status fakes(sn_frame *f) {
    const Grid *const g = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const y = sn_fake_quantize_per_tensor_affine(x, g->scale, g->zero, g->low, g->high);
    sn_backward(sn_sum(sn_mul_scalar(y, sn_float(3))));
    sn_out(f, 1, sn_grad(x));
    return sn_out(f, 0, y);
}

static void expect_faked(const float *x, const Grid *g, sn_tensor *const *outs, const char *how) {
    float y[N], slope[N];
    sn_read(outs[0], y, sizeof y);
    sn_read(outs[1], slope, sizeof slope);
    expect_ok();
    for (int i = 0; i < N; i++) {
        const float q = whole_of(x[i], g), want = (float)(limited(q, g) - g->zero) * (float)g->scale;
        ck_assert_msg(!memcmp(&want, &y[i], sizeof want), "%s: %g of %g, not %g", how, y[i], x[i], want);
        ck_assert_msg(slope[i] == (is_inside(q, g) ? 3 : 0), "%s: slope %g at %g", how, slope[i], x[i]);
    }
}

START_TEST(a5_23_fake_quantize_rounds_and_lets_gradients_pass) {
    static const sn_compile_mode modes[] = {SN_COMPILE_EAGER, SN_COMPILE_VERIFY};
    for (int i = 0; i < 6; i++) {
        sn_function *const fn = sn_compile(fakes, (void *)&grids[i / 2], SN_COMPILE_OPTIONS(.mode = modes[i % 2]));
        for (int seed = 0; seed < 3; seed++) {
            float values[N];
            fill(values, seed);
            sn_tensor *const x = sn_requires_grad_(sn_from_data(values, SN_INTS(N), SN_F32), true), *outs[2];
            ck_assert_int_eq(sn_call(fn, &x, 1, outs, 2), SN_OK);
            expect_faked(values, &grids[i / 2], outs, i % 2 ? "compiled" : "eager");
        }
        sn_stats stats = {.size = sizeof stats};
        sn_function_stats(fn, &stats);
        ck_assert_int_eq(stats.breaks, 0);
        sn_function_free(fn);
    }
}
END_TEST

/* A scale of its own for each column. */
static sn_status columns(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const scale = sn_in(f, 1), *const zero = sn_in(f, 2);
    sn_tensor *const q = sn_quantize_per_channel(x, scale, zero, 1, -100, 100, SN_I8);
    sn_out(f, 0, sn_fake_quantize_per_channel_affine(x, scale, zero, 1, -100, 100));
    sn_out(f, 1, q);
    return sn_out(f, 2, sn_dequantize_per_channel(q, scale, zero, 1, -100, 100, SN_I8));
}

START_TEST(a5_23_channels_have_scales_of_their_own) {
    enum { COLUMNS = 4 };
    static const float scales[COLUMNS] = {0.25f, 0.1f, 0.037f, 2.0f};
    static const int32_t zeros[COLUMNS] = {3, -7, 0, 100};
    float x[N], fake[N], back[N];
    int8_t q[N];
    fill(x, 5);
    sn_tensor *const in[] = {sn_from_data(x, SN_INTS(N / COLUMNS, COLUMNS), SN_F32),
                             sn_from_data(scales, SN_INTS(COLUMNS), SN_F32),
                             sn_from_data(zeros, SN_INTS(COLUMNS), SN_I32)};
    sn_function *const fn = sn_compile(columns, NULL, NULL);
    for (int round = 0; round < 3; round++) {
        sn_tensor *outs[3];
        ck_assert_int_eq(sn_call(fn, in, 3, outs, 3), SN_OK);
        sn_read(outs[0], fake, sizeof fake);
        sn_read(outs[1], q, sizeof q);
        sn_read(outs[2], back, sizeof back);
        for (int i = 0; i < N; i++) {
            const Grid g = {scales[i % COLUMNS], zeros[i % COLUMNS], -100, 100};
            const int64_t want = limited(whole_of(x[i], &g), &g);
            const float value = (float)(want - g.zero) * (float)g.scale;
            ck_assert_int_eq(q[i], want);
            ck_assert(!memcmp(&value, &fake[i], sizeof value) && !memcmp(&value, &back[i], sizeof value));
        }
    }
    sn_function_free(fn);
}
END_TEST

static sn_status product(sn_frame *f) { return sn_out(f, 0, sn_int_mm(sn_in(f, 0), sn_in(f, 1))); }

enum { ROWS = 9, INNER = 301, COLUMNS = 17 };

/* Whatever has the most extreme sums, and values of all sizes. */
static int byte_at(int i, int seed, bool is_unsigned) {
    const int extreme = is_unsigned ? 255 : -128;
    return seed == 0 ? extreme : (i * 7919 + seed * 104729) % 256 - (is_unsigned ? 0 : 128);
}

static void expect_product(sn_function *fn, int seed, bool is_unsigned) {
    static uint8_t a[ROWS * INNER];
    static int8_t b[INNER * COLUMNS];
    int32_t got[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * INNER; i++) a[i] = (uint8_t)byte_at(i, seed, is_unsigned);
    for (int i = 0; i < INNER * COLUMNS; i++) b[i] = (int8_t)byte_at(i, seed, false);
    sn_tensor *const in[] = {sn_from_data(a, SN_INTS(ROWS, INNER), is_unsigned ? SN_U8 : SN_I8),
                             sn_from_data(b, SN_INTS(INNER, COLUMNS), SN_I8)};
    sn_tensor *out = NULL;
    ck_assert_int_eq(sn_call(fn, in, 2, &out, 1), SN_OK);
    ck_assert_int_eq(sn_dtype_of(out), SN_I32);
    sn_read(out, got, sizeof got);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        int64_t want = 0;
        for (int k = 0; k < INNER; k++) {
            const uint8_t x = a[i / COLUMNS * INNER + k];
            want += (is_unsigned ? x : (int8_t)x) * b[k * COLUMNS + i % COLUMNS];
        }
        ck_assert_int_eq(got[i], want);
    }
}

START_TEST(a5_23_products_of_bytes_are_exact) {
    for (int how = 0; how < 4; how++) {
        sn_function *const fn =
            sn_compile(product, NULL, SN_COMPILE_OPTIONS(.mode = how & 1 ? SN_COMPILE_VERIFY : SN_COMPILE_EAGER));
        for (int seed = 0; seed < 3; seed++) expect_product(fn, seed, how & 2);
        sn_function_free(fn);
    }
}
END_TEST

/* A scale that is a tensor may differ from call to call; the bits are those of the number. */
static sn_status by_scale(sn_frame *f) {
    sn_tensor *const scale = sn_in(f, 1), *const zero = sn_in(f, 2);
    sn_tensor *const q = sn_quantize_per_tensor_tensor(sn_in(f, 0), scale, zero, 0, 255, SN_U8);
    sn_out(f, 0, q);
    return sn_out(f, 1, sn_dequantize_per_tensor_tensor(q, scale, zero, 0, 255, SN_U8));
}

static void expect_ints(sn_tensor *const *outs, const float *x, const Grid *g) {
    float back[N];
    uint8_t q[N];
    sn_read(outs[0], q, sizeof q);
    sn_read(outs[1], back, sizeof back);
    expect_ok();
    for (int k = 0; k < N; k++) {
        const int64_t want = limited(whole_of(x[k], g), g);
        ck_assert_int_eq(q[k], want);
        ck_assert(back[k] == (float)(want - g->zero) * (float)g->scale);
    }
}

START_TEST(scales_are_numbers_or_tensors) {
    static const float scales[] = {0.1f, 0.3f, 1.0f / 3, 0.25f, 2, 1e-3f};
    const int32_t zero = 5;
    float x[N];
    fill(x, 1);
    sn_function *const fn = sn_compile(by_scale, NULL, NULL);
    for (int i = 0; i < 6; i++) {
        const Grid g = {scales[i], zero, 0, 255};
        sn_tensor *const in[] = {sn_from_data(x, SN_INTS(N), SN_F32), sn_from_data(&scales[i], SN_INTS(1), SN_F32),
                                 sn_from_data(&zero, SN_INTS(1), SN_I32)};
        sn_tensor *outs[2];
        ck_assert_int_eq(sn_call(fn, in, 3, outs, 2), SN_OK);
        expect_ints(outs, x, &g);
        outs[0] = sn_quantize_per_tensor(in[0], scales[i], zero, 0, 255, SN_U8);
        outs[1] = sn_dequantize_per_tensor(outs[0], scales[i], zero, 0, 255, SN_U8);
        expect_ints(outs, x, &g);
    }
    sn_stats stats = {.size = sizeof stats};
    sn_function_stats(fn, &stats);
    ck_assert_int_eq(stats.compiles, 1);
    sn_function_free(fn);
}
END_TEST

START_TEST(wrong_ranges_are_named) {
    sn_tensor *const x = range(6);
    ck_assert_ptr_null(sn_fake_quantize_per_tensor_affine(x, 0.5, 300, 0, 255));
    expect_error(SN_ERR_VALUE, "zero_point 300");
    ck_assert_ptr_null(sn_quantize_per_tensor(x, 0.5, 0, -129, 127, SN_I8));
    expect_error(SN_ERR_VALUE, "-129");
    ck_assert_ptr_null(sn_int_mm(x, x));
    expect_error(SN_ERR_SHAPE, "[6]");
    ck_assert_ptr_null(sn_fake_quantize_per_channel_affine(x, range(5), sn_zeros(SN_INTS(5), SN_I32), 0, -8, 7));
    expect_error(SN_ERR_SHAPE, "scale");
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("quantize");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a5_23_fake_quantize_rounds_and_lets_gradients_pass);
    tcase_add_test(tests, a5_23_channels_have_scales_of_their_own);
    tcase_add_test(tests, a5_23_products_of_bytes_are_exact);
    tcase_add_test(tests, scales_are_numbers_or_tensors);
    tcase_add_test(tests, wrong_ranges_are_named);
    return suite_run("quantize", tests);
}
