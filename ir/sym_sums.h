/* sym_sums.h: expressions as sums of products, and their ranges: what sym.c and sym_bounds.c share. */
#ifndef SINTER_IR_SYM_SUMS_H
#define SINTER_IR_SYM_SUMS_H
#include "ir/sym.h"

enum { MAX_FACTORS = 16 };

typedef struct Term {
    int64_t coef;
    int n;
    int64_t factors[MAX_FACTORS]; /* atoms, in order */
} Term;

typedef struct Poly {
    VEC(Term) terms; /* in order; the constant last, with no factors; no zero coefficients */
} Poly;

typedef struct Range {
    int64_t low, high;
} Range;

Poly sym_poly_of(SymEnv *env, int64_t a);
void sym_poly_done(SymEnv *env, const Poly *poly); /* gives its room back */
int64_t sym_pack_term(SymEnv *env, const Term *term);
/* term / by exactly, if by's factors and coefficient are in it. */
bool sym_term_divide(const Term *term, const Term *by, Term *out);

/* From the free symbols' lower bounds; it saturates at -SYM_LEAST. */
Range sym_range(const SymEnv *env, int64_t a);
/* Whether difference rel 0: 1 true, 0 false, -1 not known. */
int sym_range_known(SymRel rel, Range difference);
/* Whether a rel b by structure and ranges alone, likewise; *difference: a - b where that leaves it open. */
int sym_plainly(SymEnv *env, SymRel rel, int64_t a, int64_t b, int64_t *difference);
/* Of plain numbers. */
bool sym_holds(SymRel rel, int64_t a, int64_t b);
int64_t sym_wrap_mul(int64_t a, int64_t b); /* modulo 2^64, and never an expression */

#endif
