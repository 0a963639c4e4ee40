/* ulps.h: errors of the elementary functions against references in a wider type: f32 against libm's f64, f64 against
 * its long double, whose own errors are below 2^-9 of a unit in the last place. One table for the tests
 * (unit/test_ulps.c) and for the sweep by hand (`./dev ulps`). */
#ifndef SINTER_TESTS_REF_ULPS_H
#define SINTER_TESTS_REF_ULPS_H
#include "ir/loop.h"

typedef enum Trend { TREND_none, TREND_rises, TREND_falls } Trend;

typedef struct UlpsRow {
    const char *name; /* of the primitive, and of the op */
    int prim;
    double (*near)(double);
    long double (*wide)(long double);
    Trend trend; /* over all inputs of its domain */
    double root; /* a zero that is no number of the type, or 0: within 1/2 of it errors count in units of 1/8 */
} UlpsRow;
extern const UlpsRow ulps_rows[];
int ulps_row_count(void);

typedef struct UlpsPair { /* of two arguments */
    const char *name;
    int prim;
    double (*near)(double, double);
    long double (*wide)(long double, long double);
} UlpsPair;
extern const UlpsPair ulps_pairs[];
int ulps_pair_count(void);

/* |got - want| in units of the last place of want, rounded to the type; 0 where both are NaN, 1e30 where one is.
 * Infinity counts as the number that would follow the largest. */
double ulps_between(SType type, double got, long double want);

typedef struct UlpsWorst {      /* of a sweep */
    double ulps, at, at_second; /* the largest error, and its arguments */
    int64_t n, wrong_way;       /* inputs; neighbours that go against the trend */
    double wrong_at;
} UlpsWorst;

/* Input i of a sweep: of f32 the bit pattern i * every; of f64 by a hash, in pairs of neighbours, half of them between
 * 2^-40 and 2^12. */
double ulps_input(SType type, uint64_t i, uint64_t every);
/* Inputs `first`, first + 1... by the kernels of kernel_table(); adds to worst. */
void ulps_sweep(const UlpsRow *row, SType type, uint64_t first, int64_t n, uint64_t every, UlpsWorst *worst);
void ulps_sweep_pairs(const UlpsPair *row, SType type, uint64_t first, int64_t n, UlpsWorst *worst);

/* How many of all 65,536 numbers of a half dtype have a result that is not the exact one rounded once: a function of
 * halves is that of f32, rounded, and wrong where that is a tie which the exact value is not. */
int ulps_wrong_halves(const UlpsRow *row, DType dtype);

#endif
