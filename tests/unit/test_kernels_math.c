/* test_kernels_math.c: the transcendental primitives: errors against libm in a wider type where results vary; edges,
 * at every instruction set [semantics B4]. The bounds are those of ir/scalar.def; test_ulps.c takes inputs of all
 * exponents. */
#include "tests/ref/ulps.h"
#include "tests/unit/kernel_inputs.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct Sweep {
    const char *name;
    double low, high;               /* of a */
    double second_low, second_high; /* of b, for pow */
    bool spread;                    /* uniform in the exponent instead of the value */
} Sweep;

static const Sweep sweeps[] = {
    {"exp", -104, 89},
    {"exp", -745, 709.7},
    {"exp", -1, 1},
    {"exp2", -150, 128},
    {"exp2", -1075, 1024},
    {"log", -149, 128, .spread = true},
    {"log", -1074, 1024, .spread = true},
    {"log", 0.5, 2},
    {"log", 0.99, 1.01},
    {"log2", 0.9, 1.1},
    {"log10", 0.5, 200},
    {"log1p", -1, 1},
    {"expm1", -40, 40},
    {"sin", -10, 10},
    {"sin", -1e6, 1e6},
    {"sin", -1074, 1024, .spread = true},
    {"cos", -10, 10},
    {"cos", -1e6, 1e6},
    {"cos", -1074, 1024, .spread = true},
    {"tan", -10, 10},
    {"asin", -1, 1},
    {"acos", -1, 1},
    {"atan", -4, 4},
    {"sinh", -90, 90},
    {"cosh", -90, 90},
    {"asinh", -4, 4},
    {"acosh", 1, 4},
    {"atanh", -1, 1},
    {"tanh", -10, 10},
    {"tanh", -1, 1},
    {"tanh", -1074, 1024, .spread = true},
    {"sigmoid", -90, 90},
    {"sigmoid", -4, 4},
    {"erf", -6, 6},
    {"erf", -1.2, 1.2},
    {"erf", -1074, 1024, .spread = true},
    {"erfc", -6, 28},
    {"pow", 0, 10, -20, 20},
    {"pow", -1074, 1024, -2, 2, true},
    {"pow", 0.9, 1.1, -4000, 4000},
    {"atan2", -4, 4, -4, 4},
    {"hypot", -4, 4, -4, 4},
    {"fmod", -1000, 1000, -4, 4},
};

typedef struct Function {
    const char *name;
    int prim;
    const UlpsRow *row; /* of one argument, else NULL */
    const UlpsPair *pair;
} Function;

static Function function_at(int i) {
    const int rows = ulps_row_count();
    if (i < rows) return (Function){ulps_rows[i].name, ulps_rows[i].prim, .row = &ulps_rows[i]};
    return (Function){ulps_pairs[i - rows].name, ulps_pairs[i - rows].prim, .pair = &ulps_pairs[i - rows]};
}
static Function function_named(const char *name) {
    int i = 0;
    while (strcmp(function_at(i).name, name)) i++;
    return function_at(i);
}
static long double wanted(const Function *f, double a, double b) {
    return f->row ? f->row->wide(a) : f->pair->wide(a, b);
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
    return !strcmp(sweep->name, "log") || !strcmp(sweep->name, "pow") || (counter & 1) ? size : -size;
}

static void expect_bound(const Sweep *sweep, SType type, int rounds) {
    double a[BLOCK], b[BLOCK], out[BLOCK];
    const Function f = function_named(sweep->name);
    BlockFn *const fn = kernel_table()->prim(f.prim, type);
    ck_assert_ptr_nonnull(fn);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < BLOCK; i++) {
            const uint64_t counter = (uint64_t)round * BLOCK + (uint64_t)i;
            set_element(type, a, i, sample(sweep, counter));
            set_element(type, b, i, random_between(~counter, sweep->second_low, sweep->second_high));
        }
        fn(out, a, b, NULL, BLOCK);
        for (int i = 0; i < BLOCK; i++) {
            const double x = element(type, a, i), y = element(type, b, i), got = element(type, out, i);
            const double error = ulps_between(type, got, wanted(&f, x, y));
            if (error > prim_ulps((Prim)f.prim, type))
                ck_abort_msg("%s.%s(%a, %a) = %a: %g ulp", f.name, stype_name(type), x, y, got, error);
        }
    }
}

START_TEST(errors_stay_within_the_stated_bounds) {
    expect_bound(&sweeps[_i], S_f32, 30);
    expect_bound(&sweeps[_i], S_f64, 30);
}
END_TEST

/* Every pair of edge values, at every level, within 1 ulp of libm; zeros and infinities with their signs. */
START_TEST(edges_agree_with_libm) {
    const Function f = function_at(_i);
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
                kernel_table()->prim(f.prim, (SType)type)(out, a, b, NULL, n);
                for (int i = 0; i < n; i++) {
                    const double x = element((SType)type, a, i), y = element((SType)type, b, i);
                    const double got = element((SType)type, out, i);
                    const long double want = wanted(&f, x, y);
                    ck_assert_msg(ulps_between((SType)type, got, want) <= 1, "%s.%s(%a, %a) = %a, not %La at %s",
                                  f.name, stype_name((SType)type), x, y, got, want, isa_name((Isa)level));
                    if (got == 0 && !isnan(want))
                        ck_assert_msg(!signbit(got) == !signbit(want), "sign of %s(%a, %a)", f.name, x, y);
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
    tcase_add_loop_test(tests, edges_agree_with_libm, 0, ulps_row_count() + ulps_pair_count());
    return suite_run("kernels_math", tests);
}
