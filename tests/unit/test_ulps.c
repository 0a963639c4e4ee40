/* test_ulps.c: the elementary functions stay within the bounds of ir/scalar.def over 2^20 inputs, around special points
 * and in published worst cases, never go against their function's trend, are exact where the result is a number of the
 * type, and give halves that are correctly rounded but for a few inputs [B9]. Over all inputs: `./dev ulps`. */
#include <math.h>
#include <stdio.h>

#include "kernels/kernels.h"
#include "tests/ref/ulps.h"
#include "tests/unit/suite.h"

enum { SAMPLES = 1 << 20, AROUND = 512 };

static void expect_bound(const char *name, int prim, SType type, const UlpsWorst *worst) {
    ck_assert_msg(worst->ulps <= prim_ulps((Prim)prim, type), "%s.%s(%a, %a): %.4f ulp, more than %g", name,
                  stype_name(type), worst->at, worst->at_second, worst->ulps, prim_ulps((Prim)prim, type));
    ck_assert_msg(!worst->wrong_way, "%s.%s goes the wrong way at %a, %ld times", name, stype_name(type),
                  worst->wrong_at, (long)worst->wrong_way);
}

START_TEST(f32_stays_within_its_bound) {
    const UlpsRow *const row = &ulps_rows[_i];
    UlpsWorst worst = {0};
    ulps_sweep(row, S_f32, 0, SAMPLES, 4093, &worst);
    expect_bound(row->name, row->prim, S_f32, &worst);
}
END_TEST

START_TEST(f64_stays_within_its_bound) {
    const UlpsRow *const row = &ulps_rows[_i];
    UlpsWorst worst = {0};
    ulps_sweep(row, S_f64, 0, SAMPLES, 0, &worst);
    expect_bound(row->name, row->prim, S_f64, &worst);
}
END_TEST

/* Zeros, the ends of denormals, of domains and of the range, where results overflow, and infinities, with what lies
 * beside them. */
START_TEST(f32_is_right_around_special_points) {
    static const float points[] = {0.0f,    0x1p-126f, 0x1p-12f, 0.25f,   0.5f,   0.8f,     0.9f,    1.0f,
                                   1.5f,    2.0f,      4.0f,     9.0f,    16.0f,  18.7f,    60.0f,   80.0f,
                                   87.34f,  88.73f,    89.42f,   103.98f, 128.0f, 149.0f,   0x1p19f, 0x1p20f,
                                   0x1p23f, 0x1p64f,   0x1p96f,  10.06f,  9.19f,  HUGE_VALF};
    const UlpsRow *const row = &ulps_rows[_i];
    for (int k = 0; k < COUNT_OF(points) * 2; k++) {
        UlpsWorst worst = {0};
        uint32_t bits;
        memcpy(&bits, &points[k / 2], 4);
        if (k & 1) bits |= 1u << 31;
        const uint32_t first = bits & ~(1u << 31) ? bits - AROUND : bits;
        ulps_sweep(row, S_f32, first, first == bits ? AROUND : 2 * AROUND, 1, &worst);
        expect_bound(row->name, row->prim, S_f32, &worst);
    }
}
END_TEST

START_TEST(two_arguments_stay_within_their_bounds) {
    const UlpsPair *const row = &ulps_pairs[_i];
    for (int type = S_f32; type <= S_f64; type++) {
        UlpsWorst worst = {0};
        ulps_sweep_pairs(row, (SType)type, 0, SAMPLES, &worst);
        expect_bound(row->name, row->prim, (SType)type, &worst);
    }
}
END_TEST

/* One value of each type, as f64. */
static double value_of(int prim, SType type, double a, double b) {
    const float single[2] = {(float)a, (float)b};
    const double whole[2] = {a, b};
    double out = 0;
    float out_single;
    if (type == S_f64) {
        kernel_table()->prim(prim, type)(&out, &whole[0], &whole[1], NULL, 1);
        return out;
    }
    kernel_table()->prim(prim, type)(&out_single, &single[0], &single[1], NULL, 1);
    return (double)out_single;
}

static void expect_exact(int prim, SType type, double a, double b, double want) {
    const double got = value_of(prim, type, a, b);
    ck_assert_msg(got == want && !signbit(got) == !signbit(want), "%s.%s(%a, %a) = %a, not %a", prim_name((Prim)prim),
                  stype_name(type), a, b, got, want);
}

START_TEST(results_that_the_type_holds_are_exact) {
    for (int type = S_f32; type <= S_f64; type++) {
        const SType t = (SType)type;
        const int least = t == S_f32 ? -149 : -1074, most = t == S_f32 ? 127 : 1023, digits = t == S_f32 ? 24 : 53;
        for (int k = least; k <= most; k++) {
            expect_exact(PRIM_log2, t, ldexp(1, k), 0, k);
            expect_exact(PRIM_exp2, t, k, 0, ldexp(1, k));
            expect_exact(PRIM_pow, t, 2, k, ldexp(1, k));
        }
        for (int k = 0; k <= (t == S_f32 ? 10 : 22); k++) expect_exact(PRIM_log10, t, pow(10, k), 0, k);
        for (int base = -40; base <= 40; base++) {
            double power = 1;
            for (int k = 0; k <= 33 && fabs(power) <= ldexp(1, digits); k++, power *= base)
                expect_exact(PRIM_pow, t, base, k, power);
        }
        for (int k = 1; k < 4000; k++) {
            expect_exact(PRIM_hypot, t, 3 * k, -4 * k, 5 * k);
            expect_exact(PRIM_sqrt, t, (double)k * k, 0, k);
        }
        expect_exact(PRIM_sigmoid, t, 0, 0, 0.5);
        expect_exact(PRIM_cosh, t, 0, 0, 1);
        expect_exact(PRIM_erfc, t, 0, 0, 1);
        expect_exact(PRIM_acos, t, 1, 0, 0);
    }
}
END_TEST

/* fmod with quotients up to 2^2097: by the C library's, which is exact, and against what x mod y must be. */
START_TEST(remainders_of_all_quotients_are_exact) {
    static const double values[] = {0x1p-1074,
                                    0x1.8p-1073,
                                    0x1.fffffffffffffp-1023,
                                    0x1p-1022,
                                    1e-300,
                                    0x1p-149,
                                    1e-40,
                                    7.3e-5,
                                    0.1,
                                    1,
                                    3,
                                    88.8,
                                    1e18,
                                    1e22,
                                    3e38,
                                    1e300,
                                    0x1.fffffffffffffp1023,
                                    INFINITY,
                                    NAN,
                                    0};
    for (int type = S_f32; type <= S_f64; type++)
        for (int i = 0; i < COUNT_OF(values) * 2; i++)
            for (int k = 0; k < COUNT_OF(values) * 2; k++) {
                double x = i & 1 ? -values[i / 2] : values[i / 2], y = k & 1 ? -values[k / 2] : values[k / 2];
                if (type == S_f32) x = (float)x, y = (float)y;
                const double got = value_of(PRIM_fmod, (SType)type, x, y), want = fmod(x, y);
                ck_assert_msg(isnan(want) ? isnan(got) : got == want && !signbit(got) == !signbit(want),
                              "fmod.%s(%a, %a) = %a, not %a", stype_name((SType)type), x, y, got, want);
            }
}
END_TEST

/* A published worst case of f64: its result lies next to where rounding changes. */
typedef struct HardCase {
    char name[16];
    double x[2];
    long double want;
    int prim;
} HardCase;

static bool read_case(const char *line, HardCase *out) {
    char words[3][48];
    const int n = sscanf(line, "%15s %47s %47s %47s", out->name, words[0], words[1], words[2]);
    if (n < 3) return false;
    for (int i = 0; i < 2; i++) out->x[i] = i < n - 2 ? strtod(words[i], NULL) : 0;
    out->want = strtold(words[n - 2], NULL);
    out->prim = prim_find(out->name, strlen(out->name));
    return true;
}

/* CORE-MATH's, as oracle/hard_cases.py picks them. */
START_TEST(published_worst_cases_stay_within_bounds) {
    FILE *const file = fopen(SINTER_ORACLE "/hard_cases.txt", "r");
    ck_assert_ptr_nonnull(file);
    char line[200];
    int n = 0;
    while (fgets(line, sizeof line, file)) {
        HardCase c;
        ck_assert_msg(read_case(line, &c) && c.prim >= 0, "not a case: %s", line);
        const double ulps = ulps_between(S_f64, value_of(c.prim, S_f64, c.x[0], c.x[1]), c.want);
        ck_assert_msg(ulps <= prim_ulps((Prim)c.prim, S_f64), "%s: %.4f ulp", line, ulps);
        n++;
    }
    fclose(file);
    ck_assert_int_ge(n, 1000);
}
END_TEST

START_TEST(halves_are_rounded_correctly_but_for_a_few) {
    const UlpsRow *const row = &ulps_rows[_i];
    ck_assert_int_le(ulps_wrong_halves(row, DT_f16), 8);
    ck_assert_int_le(ulps_wrong_halves(row, DT_bf16), 8);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("ulps");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, f32_stays_within_its_bound, 0, ulps_row_count());
    tcase_add_loop_test(tests, f64_stays_within_its_bound, 0, ulps_row_count());
    tcase_add_loop_test(tests, f32_is_right_around_special_points, 0, ulps_row_count());
    tcase_add_loop_test(tests, two_arguments_stay_within_their_bounds, 0, ulps_pair_count());
    tcase_add_test(tests, results_that_the_type_holds_are_exact);
    tcase_add_test(tests, remainders_of_all_quotients_are_exact);
    tcase_add_test(tests, published_worst_cases_stay_within_bounds);
    tcase_add_loop_test(tests, halves_are_rounded_correctly_but_for_a_few, 0, ulps_row_count());
    return suite_run("ulps", tests);
}
