/* sym_bounds.c: what holds of expressions for all values that their symbols may have, without a guard.
 *
 * a <= b is proven of the difference, a sum of products of atoms. First quotients by a number are taken as far as they
 * can be off: q = x // c has c*q <= x <= c*q + c - 1; where all terms are multiples of m, a difference above -m is
 * enough. Then each atom is written as its least value and a rest that is not negative: where no coefficient of the sum
 * in these rests is below 0, neither is the sum. s0*256 - ((s0*4+63)//64)*64 with s0 >= 2:
 *
 *     s0*256 - (s0*4+63) + 63  =  s0*252  =  504 + r0*252
 */
#include "ir/sym_sums.h"

#include <string.h>

enum { MOST_TERMS = 24, MOST_FACTORS = 4, MOST_ROUNDS = 8, MOST_DIVISOR = 1 << 20 };
#define MOST_COEFFICIENT (INT64_C(1) << 40)

/* The number in front of one term of a sum. */
static int64_t coefficient(const SymEnv *env, int64_t term) {
    if (!sym_is(term)) return term;
    const SymExpr *const e = sym_expr(env, term);
    return e->op == SYM_mul && !sym_is(e->b) ? e->b : 1;
}

static int64_t without_coefficient(const SymEnv *env, int64_t term) {
    const SymExpr *const e = sym_expr(env, term);
    return e->op == SYM_mul && !sym_is(e->b) ? e->a : term;
}

/* The last term of a sum, and what is before it; 0: nothing is. */
static int64_t split_last(const SymEnv *env, int64_t *sum) {
    const int64_t last = *sum;
    const bool is_sum = sym_is(last) && sym_expr(env, last)->op == SYM_add;
    *sum = is_sum ? sym_expr(env, last)->a : 0;
    return is_sum ? sym_expr(env, last)->b : last;
}

int64_t sym_content(const SymEnv *env, int64_t a) {
    int64_t content = 0;
    do content = common_divisor(content, coefficient(env, split_last(env, &a)));
    while (a != 0);
    return content ? content : 1;
}

static bool is_moderate(const SymEnv *env, int64_t sum) {
    int n = 0;
    do {
        const int64_t number = coefficient(env, split_last(env, &sum));
        if (n++ == MOST_TERMS || number > MOST_COEFFICIENT || number < -MOST_COEFFICIENT) return false;
    } while (sum != 0);
    return true;
}

/* A term that is a number times a quotient by a number. */
static bool is_quotient(const SymEnv *env, int64_t term) {
    if (!sym_is(term)) return false;
    const SymExpr *const e = sym_expr(env, without_coefficient(env, term));
    return e->op == SYM_div && !sym_is(e->b) && e->b > 0 && e->b <= MOST_DIVISOR;
}

static int64_t find_quotient(const SymEnv *env, int64_t sum) {
    do {
        const int64_t term = split_last(env, &sum);
        if (is_quotient(env, term)) return term;
    } while (sum != 0);
    return 0;
}

/* A sum without quotients that is negative, or times a positive number is, wherever this one is. */
static int64_t without_quotients(SymEnv *env, int64_t sum) {
    for (int i = 0; i < MOST_ROUNDS && is_moderate(env, sum); i++) {
        const int64_t term = find_quotient(env, sum);
        if (term == 0) break;
        const SymExpr e = *sym_expr(env, without_coefficient(env, term));
        const int64_t number = coefficient(env, term), times = e.b / common_divisor(e.b, number);
        const int64_t least = number < 0 ? e.a : sym_sub(env, e.a, e.b - 1); /* of the quotient, times e.b */
        const int64_t rest = sym_mul(env, sym_sub(env, sum, term), times);
        sum = sym_add(env, rest, sym_mul(env, least, times * number / e.b));
    }
    return sum;
}

/* One term with every atom as its least value and a rest, for which the atom stands. */
static bool from_least(SymEnv *env, int64_t term, int64_t *out) {
    int64_t product = coefficient(env, term), left = sym_is(term) ? without_coefficient(env, term) : 1;
    for (int i = 0; left != 1; i++) {
        const bool many = sym_is(left) && sym_expr(env, left)->op == SYM_mul;
        const int64_t atom = many ? sym_expr(env, left)->b : left, least = sym_least(env, atom);
        left = many ? sym_expr(env, left)->a : 1;
        if (i == MOST_FACTORS || !sym_is(atom) || least <= -MOST_COEFFICIENT || least > MOST_COEFFICIENT) return false;
        product = sym_mul(env, product, sym_add(env, atom, least));
    }
    *out = product;
    return true;
}

static bool all_from_least(SymEnv *env, int64_t sum, int64_t *out) {
    *out = 0;
    do {
        int64_t term;
        if (!from_least(env, split_last(env, &sum), &term)) return false;
        *out = sym_add(env, *out, term);
    } while (sum != 0);
    return true;
}

static bool has_no_negative(const SymEnv *env, int64_t sum) {
    do
        if (coefficient(env, split_last(env, &sum)) < 0) return false;
    while (sum != 0);
    return true;
}

bool sym_surely_at_most(SymEnv *env, int64_t a, int64_t b) {
    const int64_t difference = sym_sub(env, b, a);
    if (!sym_is(difference)) return difference >= 0;
    if (!is_moderate(env, difference)) return false;
    const int64_t spare = sym_content(env, difference) - 1;
    const int64_t least = without_quotients(env, sym_add(env, difference, spare));
    int64_t rests;
    return is_moderate(env, least) && all_from_least(env, least, &rests) && has_no_negative(env, rests);
}

/* Bounds from above where factors are no numbers -------------------------------------------------- */

static bool never_negative(const SymEnv *env, const Term *term) {
    bool never = true;
    for (int i = 0; i < term->n; i++) never &= sym_range(env, term->factors[i]).low >= 0;
    return never;
}

/* The first factor that is a quotient by a divisor of the coefficient, -1: none. */
static int whole_quotient(const SymEnv *env, const Term *term) {
    for (int i = 0; i < term->n; i++) {
        const SymExpr *const e = sym_expr(env, term->factors[i]);
        if (e->op == SYM_div && !sym_is(e->b) && e->b > 0 && term->coef % e->b == 0) return i;
    }
    return -1;
}

static void remove_factor(Term *term, int at) {
    memmove(&term->factors[at], &term->factors[at + 1], sizeof *term->factors * (size_t)(term->n - at - 1));
    term->n--;
}

/* b * (a // b) is at most a. */
static int64_t without_quotient(SymEnv *env, Term term, int at) {
    const SymExpr e = *sym_expr(env, term.factors[at]);
    term.coef /= e.b;
    remove_factor(&term, at);
    return sym_mul(env, sym_pack_term(env, &term), e.a);
}

/* -x*y is at most -x times the least y, where x is what another term adds; of a term that is taken away. */
static int64_t least_product(SymEnv *env, const Poly *poly, const Term *term) {
    for (int k = 0; k < poly->terms.n; k++) {
        Term common = poly->terms.at[k], rest;
        if (common.coef <= 0 || !common.n || common.n >= term->n) continue;
        common.coef = 1;
        if (!sym_term_divide(term, &common, &rest)) continue;
        common.coef = rest.coef;
        for (int i = 0; i < rest.n; i++) common.coef = sym_wrap_mul(common.coef, sym_range(env, rest.factors[i]).low);
        return sym_pack_term(env, &common);
    }
    return sym_pack_term(env, term);
}

/* Something that a is never above, of which ranges may know more: a sum's range adds those of its terms, as if they had
 * nothing to do with each other. */
static int64_t bound_above(SymEnv *env, int64_t a) {
    const Poly poly = sym_poly_of(env, a);
    int64_t bound = 0;
    for (int i = 0; i < poly.terms.n; i++) {
        const Term *const term = &poly.terms.at[i];
        const int quotient = term->coef > 0 ? whole_quotient(env, term) : -1;
        const bool loose = term->n && never_negative(env, term);
        const int64_t most = !loose           ? sym_pack_term(env, term)
                             : quotient >= 0  ? without_quotient(env, *term, quotient)
                             : term->coef < 0 ? least_product(env, &poly, term)
                                              : sym_pack_term(env, term);
        bound = sym_add(env, bound, most);
    }
    sym_poly_done(env, &poly);
    return bound;
}

static bool known_loosely(SymEnv *env, SymRel rel, int64_t difference) {
    return (rel == SYM_lt || rel == SYM_le) && sym_range_known(rel, sym_range(env, bound_above(env, difference))) == 1;
}

static bool is_guarded(SymEnv *env, SymRel rel, int64_t difference) {
    for (int i = 0; i < sym_guard_count(env); i++) {
        const SymGuard *const guard = sym_guard_at(env, i);
        const bool implies = guard->rel == rel || (rel == SYM_le && guard->rel != SYM_ne);
        if (implies && sym_sub(env, guard->a, guard->b) == difference) return true;
    }
    return false;
}

bool sym_known(SymEnv *env, SymRel rel, int64_t a, int64_t b) {
    int64_t difference;
    const int answer = sym_plainly(env, rel, a, b, &difference);
    if (answer >= 0) return answer;
    return is_guarded(env, rel, difference) || known_loosely(env, rel, difference);
}
