/* test_kernels_math.c: the transcendental primitives: error bounds against libm in a wider type, edges against libm,
 * the same at every instruction set [semantics B4]. The bounds are those stated in kernels/cpu/math_*.h. */
#include "tests/unit/kernel_inputs.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>

typedef long double Reference(long double a, long double b);
static long double ref_exp(long double a, long double b) { return expl(a); }
static long double ref_exp2(long double a, long double b) { return exp2l(a); }
static long double ref_log(long double a, long double b) { return logl(a); }
static long double ref_sin(long double a, long double b) { return sinl(a); }
static long double ref_cos(long double a, long double b) { return cosl(a); }
static long double ref_tanh(long double a, long double b) { return tanhl(a); }
static long double ref_erf(long double a, long double b) { return erfl(a); }
/* glibc's powl(-inf, -2^63) is inf. */
static long double ref_pow(long double a, long double b) {
    return isinf(a) ? (long double)pow((double)a, (double)b) : powl(a, b);
}

typedef struct Sweep {
    const char *name;
    int prim;
    Reference *reference;
    double low, high;               /* of a */
    double second_low, second_high; /* of b, for pow */
    bool spread;                    /* uniform in the exponent instead of the value */
    double ulp_f32, ulp_f64;        /* allowed errors */
} Sweep;

#define ROW(name, ...)                                                                                                 \
    { #name, PRIM_##name, ref_##name, __VA_ARGS__ }
static const Sweep sweeps[] = {
    ROW(exp, -104, 89, 0, 0, false, 1.25, 1.25), ROW(exp, -745, 709.7, 0, 0, false, 1.25, 1.25),
    ROW(exp, -1, 1, 0, 0, false, 1.25, 1.25),    ROW(exp2, -150, 128, 0, 0, false, 1, 1),
    ROW(exp2, -1075, 1024, 0, 0, false, 1, 1),   ROW(log, -149, 128, 0, 0, true, 1, 1),
    ROW(log, -1074, 1024, 0, 0, true, 1, 1),     ROW(log, 0.5, 2, 0, 0, false, 1, 1),
    ROW(log, 0.99, 1.01, 0, 0, false, 1, 1),     ROW(sin, -10, 10, 0, 0, false, 1, 1),
    ROW(sin, -1e6, 1e6, 0, 0, false, 1, 1),      ROW(sin, -1074, 1024, 0, 0, true, 1, 1),
    ROW(cos, -10, 10, 0, 0, false, 1, 1),        ROW(cos, -1e6, 1e6, 0, 0, false, 1, 1),
    ROW(cos, -1074, 1024, 0, 0, true, 1, 1),     ROW(tanh, -10, 10, 0, 0, false, 1.5, 1.5),
    ROW(tanh, -1, 1, 0, 0, false, 1.5, 1.5),     ROW(tanh, -1074, 1024, 0, 0, true, 1.5, 1.5),
    ROW(erf, -6, 6, 0, 0, false, 1, 1.5),        ROW(erf, -1.2, 1.2, 0, 0, false, 1, 1.5),
    ROW(erf, -1074, 1024, 0, 0, true, 1, 1.5),   ROW(pow, 0, 10, -20, 20, false, 1, 1.25),
    ROW(pow, -1074, 1024, -2, 2, true, 1, 1.25), ROW(pow, 0.9, 1.1, -4000, 4000, false, 1, 1.25),
};

/* |got - want| in units of the last place of want in the type; 0 when both overflow, are NaN or are the same zero. */
static double ulps(SType type, double got, long double want) {
    if (isnan(want)) return isnan(got) ? 0 : 1e30;
    const int digits = type == S_f32 ? 24 : 53, least = type == S_f32 ? -149 : -1074;
    const long double largest = type == S_f32 ? 0x1.ffffffp127L : 0x1.fffffffffffffcp1023L;
    if (fabsl(want) >= largest) return isinf(got) && (got > 0) == (want > 0) ? 0 : 1e30;
    if (isinf(got)) return fabsl(want) > largest * (1 - 0x1p-22L) ? 1 : 1e30;
    int exponent;
    frexpl(want, &exponent);
    const int place = want == 0 || exponent - digits < least ? least : exponent - digits;
    return (double)ldexpl(fabsl((long double)got - want), -place);
}

static double element(SType type, const void *at, int i) {
    return type == S_f32 ? (double)((const float *)at)[i] : ((const double *)at)[i];
}

static void set_element(SType type, void *at, int i, double value) {
    if (type == S_f32)
        ((float *)at)[i] = (float)value;
    else
        ((double *)at)[i] = value;
}

static double sample(const Sweep *sweep, uint64_t counter) {
    if (!sweep->spread) return random_between(counter, sweep->low, sweep->high);
    const double size = exp2(random_between(counter, sweep->low, sweep->high));
    return sweep->reference == ref_log || sweep->reference == ref_pow || (counter & 1) ? size : -size;
}

static double worst_of(const Sweep *sweep, SType type, int rounds) {
    double a[BLOCK], b[BLOCK], out[BLOCK], worst = 0;
    BlockFn *const fn = kernel_table()->prim(sweep->prim, type);
    ck_assert_ptr_nonnull(fn);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < BLOCK; i++) {
            const uint64_t counter = (uint64_t)round * BLOCK + (uint64_t)i;
            set_element(type, a, i, sample(sweep, counter));
            set_element(type, b, i, random_between(~counter, sweep->second_low, sweep->second_high));
        }
        fn(out, a, b, NULL, BLOCK);
        for (int i = 0; i < BLOCK; i++) {
            const long double want = sweep->reference(element(type, a, i), element(type, b, i));
            const double error = ulps(type, element(type, out, i), want);
            if (error > worst) worst = error;
            if (error > 1e6 && getenv("KERNEL_TEST_VERBOSE"))
                printf("  %s(%a, %a) = %a, want %La\n", sweep->name, element(type, a, i), element(type, b, i),
                       element(type, out, i), want);
        }
    }
    return worst;
}

START_TEST(errors_stay_within_the_stated_bounds) {
    const Sweep *const sweep = &sweeps[_i];
    const bool verbose = getenv("KERNEL_TEST_VERBOSE") != NULL;
    const int rounds = verbose ? 400 : 30;
    const double f32 = worst_of(sweep, S_f32, rounds), f64 = worst_of(sweep, S_f64, rounds);
    if (verbose) printf("%-5s [%g, %g] f32 %.3f ulp, f64 %.3f ulp\n", sweep->name, sweep->low, sweep->high, f32, f64);
    ck_assert_msg(f32 <= sweep->ulp_f32, "%s.f32 on [%g, %g]: %g ulp", sweep->name, sweep->low, sweep->high, f32);
    ck_assert_msg(f64 <= sweep->ulp_f64, "%s.f64 on [%g, %g]: %g ulp", sweep->name, sweep->low, sweep->high, f64);
}
END_TEST

/* Every pair of edge values, at every level, within 2 ulp of libm; zeros and infinities with their signs. */
START_TEST(edges_agree_with_libm) {
    const Sweep *const sweep = &sweeps[_i];
    for (int level = 0; level < levels(); level++) {
        isa_force(level);
        for (int type = S_f32; type <= S_f64; type++) {
            const int n = COUNT_OF(edge_doubles);
            for (int second = 0; second < n; second++) {
                double a[BLOCK], b[BLOCK], out[BLOCK];
                for (int i = 0; i < n; i++) {
                    set_element((SType)type, a, i, edge_doubles[i]);
                    set_element((SType)type, b, i, edge_doubles[second]);
                }
                kernel_table()->prim(sweep->prim, (SType)type)(out, a, b, NULL, n);
                for (int i = 0; i < n; i++) {
                    const double x = element((SType)type, a, i), y = element((SType)type, b, i);
                    const double got = element((SType)type, out, i);
                    const long double want = sweep->reference(x, y);
                    ck_assert_msg(ulps((SType)type, got, want) <= 2, "%s.%s(%a, %a) = %a, not %La at %s", sweep->name,
                                  stype_name((SType)type), x, y, got, want, isa_name((Isa)level));
                    if (got == 0 && !isnan(want))
                        ck_assert_msg(!signbit(got) == !signbit(want), "sign of %s(%a, %a)", sweep->name, x, y);
                }
            }
        }
    }
    isa_force(-1);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("math");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, errors_stay_within_the_stated_bounds, 0, COUNT_OF(sweeps));
    tcase_add_loop_test(tests, edges_agree_with_libm, 0, COUNT_OF(sweeps));
    return suite_run("kernels_math", tests);
}
