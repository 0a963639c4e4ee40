/* sym.c: symbolic integers, see sym.h.
 *
 * Every expression is kept as a sum of products: add(add(t1, t2), constant), each term mul(mul(x,
 * y), coefficient), where x, y are atoms: free symbols, div, mod, max, min. Terms and factors are
 * ordered by structure, not by id, so that text parsed into another environment gives the same
 * form. Operations unpack both operands into term lists, work on those, and pack the result;
 * packing hash-conses, so equal expressions have equal ids.
 *
 * Decisions first try structure (the difference is a plain number), then ranges (from the free
 * symbols' lower bounds), then a guard already there; only then the hints answer and a guard is
 * recorded. */
#include "ir/sym_sums.h"

#include <string.h>

#include "runtime/base/hash.h"

enum { FIRST_TABLE_SLOTS = 256, SPARES = 4 };
#define FAR (-SYM_LEAST) /* ranges saturate here */

typedef struct ExprSlot {
    int id; /* of the expression, plus 1; 0: free */
} ExprSlot;

struct SymEnv {
    Arena *arena;
    VEC(SymExpr) exprs;
    VEC(int64_t) frees;
    VEC(SymGuard) guards;
    FloatLimits floats;
    ExprSlot *table;
    int capacity;
    int n_spares;
    Poly spares[SPARES]; /* room of sums that are done: what sums are made of is not kept */
};

SymEnv *sym_env_new(Arena *arena) {
    SymEnv *const env = ARENA_NEW(arena, SymEnv);
    if (!env) return NULL;
    env->arena = env->floats.arena = arena;
    env->capacity = FIRST_TABLE_SLOTS;
    env->table = ARENA_ARRAY(arena, ExprSlot, env->capacity);
    return env->table ? env : NULL;
}

const SymExpr *sym_expr(const SymEnv *env, int64_t symbolic) { return &env->exprs.at[sym_id(symbolic)]; }
int sym_free_count(const SymEnv *env) { return env->frees.n; }
int64_t sym_free_at(const SymEnv *env, int i) { return env->frees.at[i]; }
int sym_guard_count(const SymEnv *env) { return env->guards.n; }
const SymGuard *sym_guard_at(const SymEnv *env, int i) { return &env->guards.at[i]; }
bool sym_belongs(const SymEnv *env, int64_t a) { return !sym_is(a) || (env && sym_id(a) < env->exprs.n); }
bool sym_mentions(const SymEnv *env, int64_t a, int64_t symbol) {
    if (!sym_is(a) || a == symbol) return a == symbol;
    const SymExpr *const e = sym_expr(env, a);
    return e->op != SYM_free && (sym_mentions(env, e->a, symbol) || sym_mentions(env, e->b, symbol));
}
int64_t sym_hint(const SymEnv *env, int64_t a) { return sym_is(a) ? sym_expr(env, a)->hint : a; }

/* plain arithmetic ---------------------------------------------------------------------------- */

/* What wraps never becomes an expression: no size or position is that far away. */
static int64_t outside(uint64_t v) { return sym_is((int64_t)v) ? SYM_LOW - 1 : (int64_t)v; }
static int64_t wrap_add(int64_t a, int64_t b) { return outside((uint64_t)a + (uint64_t)b); }
int64_t sym_wrap_mul(int64_t a, int64_t b) { return outside((uint64_t)a * (uint64_t)b); }

static int64_t floor_div(int64_t a, int64_t b) {
    if (b == -1) return sym_wrap_mul(a, -1);
    const int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t floor_mod(int64_t a, int64_t b) {
    return wrap_add(a, sym_wrap_mul(-1, sym_wrap_mul(floor_div(a, b), b)));
}

static int64_t apply(SymOp op, int64_t a, int64_t b) {
    switch (op) {
    case SYM_add:
        return wrap_add(a, b);
    case SYM_mul:
        return sym_wrap_mul(a, b);
    case SYM_div:
        return b ? floor_div(a, b) : 0;
    case SYM_mod:
        return b ? floor_mod(a, b) : 0;
    case SYM_max:
        return max_i64(a, b);
    case SYM_min:
        return min_i64(a, b);
    case SYM_free:
        break;
    }
    return 0;
}

bool sym_holds(SymRel rel, int64_t a, int64_t b) {
    switch (rel) {
    case SYM_eq:
        return a == b;
    case SYM_ne:
        return a != b;
    case SYM_lt:
        return a < b;
    case SYM_le:
        return a <= b;
    }
    return false;
}

/* interning ----------------------------------------------------------------------------------- */

static uint64_t expr_hash(SymOp op, int64_t a, int64_t b) {
    return hash_mix(hash_mix(hash_mix(1, (uint64_t)op), (uint64_t)a), (uint64_t)b);
}

static ExprSlot *expr_slot(const SymEnv *env, SymOp op, int64_t a, int64_t b) {
    for (uint64_t i = expr_hash(op, a, b);; i++) {
        ExprSlot *const slot = &env->table[i & (uint64_t)(env->capacity - 1)];
        if (!slot->id) return slot;
        const SymExpr *const e = &env->exprs.at[slot->id - 1];
        if (e->op == op && e->a == a && e->b == b) return slot;
    }
}

static void grow_table(SymEnv *env) {
    env->capacity *= 2;
    env->table = ARENA_ARRAY(env->arena, ExprSlot, env->capacity);
    if (!env->table) return;
    for (int i = 0; i < env->exprs.n; i++) {
        const SymExpr *const e = &env->exprs.at[i];
        expr_slot(env, e->op, e->a, e->b)->id = i + 1;
    }
}

static int64_t intern(SymEnv *env, SymOp op, int64_t a, int64_t b, int64_t hint) {
    ExprSlot *slot = expr_slot(env, op, a, b);
    if (slot->id) return sym_make(slot->id - 1);
    const int id = env->exprs.n;
    VEC_PUSH(env->arena, &env->exprs, ((SymExpr){.op = op, .a = a, .b = b, .hint = hint}));
    slot->id = id + 1;
    if (env->exprs.n * 2 > env->capacity) grow_table(env);
    return sym_make(id);
}

static int64_t node(SymEnv *env, SymOp op, int64_t a, int64_t b) {
    return intern(env, op, a, b, apply(op, sym_hint(env, a), sym_hint(env, b)));
}

int64_t sym_free(SymEnv *env, int64_t hint, int64_t lower_bound) {
    const int64_t made = intern(env, SYM_free, env->frees.n, lower_bound, hint);
    env->exprs.at[sym_id(made)].most = SYM_MOST;
    VEC_PUSH(env->arena, &env->frees, made);
    return made;
}

void sym_free_hint(SymEnv *env, int64_t symbol, int64_t hint) {
    env->exprs.at[sym_id(symbol)].hint = hint;
    for (int i = 0; i < env->exprs.n; i++) {
        SymExpr *const e = &env->exprs.at[i];
        if (e->op != SYM_free) e->hint = apply(e->op, sym_hint(env, e->a), sym_hint(env, e->b));
    }
}

static SymExpr *expr_of(SymEnv *env, int64_t symbolic) { return &env->exprs.at[sym_id(symbolic)]; }

/* A free symbol is found by its number, never by its bounds: they may change. */
void sym_free_give(SymEnv *env, int64_t symbol, int64_t hint, int64_t least, int64_t most) {
    SymExpr *const given = expr_of(env, symbol);
    given->b = least;
    given->most = most;
    given->given = true;
    sym_free_hint(env, symbol, hint);
}

bool sym_all_given(const SymEnv *env, int64_t a) {
    if (!sym_is(a)) return true;
    const SymExpr *const e = sym_expr(env, a);
    return e->op == SYM_free ? e->given : sym_all_given(env, e->a) && sym_all_given(env, e->b);
}

void sym_free_open(SymEnv *env, int64_t symbol) { expr_of(env, symbol)->open = true; }

bool sym_is_open(const SymEnv *env, int64_t a) {
    if (!sym_is(a)) return false;
    const SymExpr *const e = sym_expr(env, a);
    return e->op == SYM_free ? e->open : sym_is_open(env, e->a) || sym_is_open(env, e->b);
}

SymEnv *sym_env_copy(const SymEnv *env, Arena *arena, const int64_t *hints) {
    SymEnv *const copy = sym_env_new(arena);
    for (int i = 0; copy && i < env->exprs.n; i++) {
        const SymExpr *const e = &env->exprs.at[i];
        if (e->op == SYM_free) {
            SymExpr *const made = expr_of(copy, sym_free(copy, hints[e->a], e->b));
            made->most = e->most;
            made->given = e->given;
            made->open = e->open;
        } else
            node(copy, e->op, e->a, e->b);
    }
    for (int i = 0; copy && i < env->guards.n; i++) VEC_PUSH(arena, &copy->guards, env->guards.at[i]);
    for (int i = 0; copy && i < env->floats.by.n; i++) VEC_PUSH(arena, &copy->floats.by, env->floats.by.at[i]);
    return copy;
}

FloatLimits *sym_floats(SymEnv *env) { return &env->floats; }

/* the canonical order ------------------------------------------------------------------------- */

static int compare_exprs(const SymEnv *env, int64_t a, int64_t b) {
    if (a == b) return 0;
    if (!sym_is(a) || !sym_is(b)) return sym_is(a) ? -1 : sym_is(b) ? 1 : a < b ? -1 : 1;
    const SymExpr *const x = sym_expr(env, a), *const y = sym_expr(env, b);
    if (x->op != y->op) return x->op < y->op ? -1 : 1;
    const int first = compare_exprs(env, x->a, y->a);
    return first ? first : x->op == SYM_free ? 0 : compare_exprs(env, x->b, y->b);
}

static int compare_terms(const SymEnv *env, const Term *x, const Term *y) {
    for (int i = 0; i < x->n && i < y->n; i++) {
        const int order = compare_exprs(env, x->factors[i], y->factors[i]);
        if (order) return order;
    }
    return y->n - x->n; /* longer first, so the constant comes last */
}

/* sums of products ---------------------------------------------------------------------------- */

static Poly poly_new(SymEnv *env) {
    Poly poly = {0};
    if (env->n_spares) poly = env->spares[--env->n_spares];
    poly.terms.n = 0;
    return poly;
}

void sym_poly_done(SymEnv *env, const Poly *poly) {
    if (poly->terms.capacity && env->n_spares < SPARES) env->spares[env->n_spares++] = *poly;
}

static void poly_add_term(SymEnv *env, Poly *poly, const Term *term) {
    if (!term->coef) return;
    int at = 0, order = 1;
    while (at < poly->terms.n && (order = compare_terms(env, &poly->terms.at[at], term)) < 0) at++;
    if (at < poly->terms.n && order == 0) {
        Term *const same = &poly->terms.at[at];
        same->coef = wrap_add(same->coef, term->coef);
        if (same->coef) return;
        memmove(same, same + 1, sizeof *same * (size_t)(poly->terms.n - at - 1));
        poly->terms.n--;
        return;
    }
    VEC_PUSH(env->arena, &poly->terms, *term);
    Term *const made = &poly->terms.at[at];
    memmove(made + 1, made, sizeof *made * (size_t)(poly->terms.n - at - 1));
    *made = *term;
}

static void insert_factor(const SymEnv *env, Term *term, int64_t factor) {
    int at = term->n++;
    for (; at > 0 && compare_exprs(env, term->factors[at - 1], factor) > 0; at--)
        term->factors[at] = term->factors[at - 1];
    term->factors[at] = factor;
}

/* A canonical product as a term. What exceeds the room of a term stays one factor. */
static Term term_of(SymEnv *env, int64_t a) {
    Term term = {.coef = 1};
    for (; term.n < MAX_FACTORS - 1 && sym_is(a) && sym_expr(env, a)->op == SYM_mul; a = sym_expr(env, a)->a) {
        const int64_t last = sym_expr(env, a)->b;
        if (sym_is(last))
            insert_factor(env, &term, last);
        else
            term.coef = last;
    }
    if (sym_is(a))
        insert_factor(env, &term, a);
    else
        term.coef = sym_wrap_mul(term.coef, a);
    return term;
}

static void poly_add(SymEnv *env, Poly *poly, int64_t a, int64_t times) {
    for (; sym_is(a) && sym_expr(env, a)->op == SYM_add; a = sym_expr(env, a)->a) {
        Term term = term_of(env, sym_expr(env, a)->b);
        term.coef = sym_wrap_mul(term.coef, times);
        poly_add_term(env, poly, &term);
    }
    Term term = term_of(env, a);
    term.coef = sym_wrap_mul(term.coef, times);
    poly_add_term(env, poly, &term);
}

Poly sym_poly_of(SymEnv *env, int64_t a) {
    Poly poly = poly_new(env);
    poly_add(env, &poly, a, 1);
    return poly;
}

int64_t sym_pack_term(SymEnv *env, const Term *term) {
    if (!term->n) return term->coef;
    int64_t product = term->factors[0];
    for (int i = 1; i < term->n; i++) product = node(env, SYM_mul, product, term->factors[i]);
    return term->coef == 1 ? product : node(env, SYM_mul, product, term->coef);
}

/* As an expression; the sum is done. */
static int64_t pack(SymEnv *env, const Poly *poly) {
    int64_t sum = poly->terms.n ? sym_pack_term(env, &poly->terms.at[0]) : 0;
    for (int i = 1; i < poly->terms.n; i++) sum = node(env, SYM_add, sum, sym_pack_term(env, &poly->terms.at[i]));
    sym_poly_done(env, poly);
    return sum;
}

/* ranges -------------------------------------------------------------------------------------- */

static int64_t clip(__int128 v) { return v > FAR ? FAR : v < -FAR ? -FAR : (int64_t)v; }

static Range range_product(Range a, Range b) {
    const __int128 corner[4] = {(__int128)a.low * b.low, (__int128)a.low * b.high, (__int128)a.high * b.low,
                                (__int128)a.high * b.high};
    __int128 low = corner[0], high = corner[0];
    for (int i = 1; i < 4; i++) {
        if (corner[i] < low) low = corner[i];
        if (corner[i] > high) high = corner[i];
    }
    return (Range){clip(low), clip(high)};
}

static Range range_div(Range a, Range b) {
    if (b.low <= 0 || a.low < 0) return (Range){-FAR, FAR};
    return (Range){a.low / b.high, a.high >= FAR ? FAR : a.high / b.low};
}

Range sym_range(const SymEnv *env, int64_t a) {
    if (!sym_is(a)) return (Range){clip(a), clip(a)};
    const SymExpr *const e = sym_expr(env, a);
    if (e->op == SYM_free) return (Range){e->b, FAR};
    const Range x = sym_range(env, e->a), y = sym_range(env, e->b);
    switch (e->op) {
    case SYM_add:
        return (Range){clip((__int128)x.low + y.low), clip((__int128)x.high + y.high)};
    case SYM_mul:
        return range_product(x, y);
    case SYM_div:
        return range_div(x, y);
    case SYM_mod:
        return y.low > 0 ? (Range){0, y.high >= FAR ? FAR : y.high - 1} : (Range){-FAR, FAR};
    case SYM_max:
        return (Range){max_i64(x.low, y.low), max_i64(x.high, y.high)};
    case SYM_min:
        return (Range){min_i64(x.low, y.low), min_i64(x.high, y.high)};
    case SYM_free:
        break;
    }
    return (Range){-FAR, FAR};
}

int64_t sym_least(const SymEnv *env, int64_t a) { return sym_range(env, a).low; }

/* A bound at FAR means unknown, so only bounds inside it decide. */
static bool surely_below(Range a, Range b) { return a.high < FAR && b.low > -FAR && a.high < b.low; }
static bool surely_at_most(Range a, Range b) { return a.high < FAR && b.low > -FAR && a.high <= b.low; }

/* arithmetic ---------------------------------------------------------------------------------- */

int64_t sym_add(SymEnv *env, int64_t a, int64_t b) {
    if (!sym_is(a) && !sym_is(b)) return wrap_add(a, b);
    Poly poly = sym_poly_of(env, a);
    poly_add(env, &poly, b, 1);
    return pack(env, &poly);
}

int64_t sym_sub(SymEnv *env, int64_t a, int64_t b) {
    if (!sym_is(a) && !sym_is(b)) return wrap_add(a, sym_wrap_mul(b, -1));
    Poly poly = sym_poly_of(env, a);
    poly_add(env, &poly, b, -1);
    return pack(env, &poly);
}

int64_t sym_mul(SymEnv *env, int64_t a, int64_t b) {
    if (!sym_is(a) && !sym_is(b)) return sym_wrap_mul(a, b);
    const Poly x = sym_poly_of(env, a), y = sym_poly_of(env, b);
    Poly product = poly_new(env);
    for (int i = 0; i < x.terms.n; i++) {
        for (int j = 0; j < y.terms.n; j++) {
            Term term = x.terms.at[i];
            const Term *const by = &y.terms.at[j];
            if (term.n + by->n > MAX_FACTORS) return node(env, SYM_mul, a, b);
            for (int k = 0; k < by->n; k++) insert_factor(env, &term, by->factors[k]);
            term.coef = sym_wrap_mul(term.coef, by->coef);
            poly_add_term(env, &product, &term);
        }
    }
    sym_poly_done(env, &x);
    sym_poly_done(env, &y);
    return pack(env, &product);
}

int64_t sym_product(SymEnv *env, const int64_t *sizes, int n) {
    int64_t product = 1;
    for (int i = 0; i < n; i++) product = sym_mul(env, product, sizes[i]);
    return product;
}

bool sym_term_divide(const Term *term, const Term *by, Term *out) {
    if (!by->coef || term->coef % by->coef) return false;
    *out = (Term){.coef = term->coef / by->coef};
    int used = 0;
    for (int i = 0; i < term->n; i++) {
        if (used < by->n && term->factors[i] == by->factors[used])
            used++;
        else
            out->factors[out->n++] = term->factors[i];
    }
    return used == by->n;
}

/* from - part * by; false: a product has more factors than fit. */
static bool subtract_product(SymEnv *env, Poly *from, const Term *part, const Poly *by) {
    for (int i = 0; i < by->terms.n; i++) {
        const Term *const factor = &by->terms.at[i];
        Term term = *part;
        if (term.n + factor->n > MAX_FACTORS) return false;
        for (int k = 0; k < factor->n; k++) insert_factor(env, &term, factor->factors[k]);
        term.coef = sym_wrap_mul(sym_wrap_mul(term.coef, factor->coef), -1);
        poly_add_term(env, from, &term);
    }
    return true;
}

/* Whether a is a multiple of b, a sum: s0*s1 - s0 of s1 - 1. Leading terms are divided until nothing is left; the
 * terms' order is a lexicographic one, so that finds every exact quotient. */
static bool divide_exactly(SymEnv *env, int64_t a, const Poly *b, Poly *quotient) {
    enum { MOST_TERMS = 64 };
    Poly left = sym_poly_of(env, a);
    for (int i = 0; left.terms.n && i < MOST_TERMS; i++) {
        Term part;
        if (!sym_term_divide(&left.terms.at[0], &b->terms.at[0], &part) || !subtract_product(env, &left, &part, b))
            return false;
        poly_add_term(env, quotient, &part);
    }
    const bool exact = left.terms.n == 0;
    sym_poly_done(env, &left);
    return exact;
}

/* a = quotient * b + rest; floor(a / b) = quotient + floor(rest / b) holds for any split. */
static void split(SymEnv *env, int64_t a, int64_t b, Poly *quotient, Poly *rest) {
    const Poly x = sym_poly_of(env, a), y = sym_poly_of(env, b);
    Poly exact = {0};
    if (y.terms.n > 1 && divide_exactly(env, a, &y, &exact)) {
        *quotient = exact;
        return;
    }
    for (int i = 0; i < x.terms.n; i++) {
        const Term *const term = &x.terms.at[i];
        Term part;
        if (y.terms.n == 1 && sym_term_divide(term, &y.terms.at[0], &part)) {
            poly_add_term(env, quotient, &part);
        } else if (!sym_is(b) && !term->n) {
            poly_add_term(env, quotient, &(Term){.coef = floor_div(term->coef, b)});
            poly_add_term(env, rest, &(Term){.coef = floor_mod(term->coef, b)});
        } else {
            poly_add_term(env, rest, term);
        }
    }
    sym_poly_done(env, &x);
    sym_poly_done(env, &y);
}

void sym_split(SymEnv *env, int64_t a, int64_t b, int64_t *quotient, int64_t *rest) {
    Poly whole = poly_new(env), remainder = poly_new(env);
    split(env, a, b, &whole, &remainder);
    *quotient = pack(env, &whole);
    *rest = pack(env, &remainder);
}

static bool surely_within(const SymEnv *env, int64_t rest, int64_t b) {
    const Range r = sym_range(env, rest), of_b = sym_range(env, b);
    return r.low >= 0 && surely_below(r, of_b);
}

int64_t sym_div(SymEnv *env, int64_t a, int64_t b) {
    if (!sym_is(a) && !sym_is(b)) return apply(SYM_div, a, b);
    if (a == b) return 1;
    Poly quotient = poly_new(env), remainder = poly_new(env);
    split(env, a, b, &quotient, &remainder);
    const int64_t rest = pack(env, &remainder);
    if (rest != 0 && !surely_within(env, rest, b)) poly_add(env, &quotient, node(env, SYM_div, rest, b), 1);
    return pack(env, &quotient);
}

int64_t sym_mod(SymEnv *env, int64_t a, int64_t b) {
    if (!sym_is(a) && !sym_is(b)) return apply(SYM_mod, a, b);
    if (a == b) return 0;
    Poly quotient = poly_new(env), remainder = poly_new(env);
    split(env, a, b, &quotient, &remainder);
    const int64_t rest = pack(env, &remainder);
    return rest == 0 || surely_within(env, rest, b) ? rest : node(env, SYM_mod, rest, b);
}

static int64_t larger_or_smaller(SymEnv *env, SymOp op, int64_t a, int64_t b) {
    if (!sym_is(a) && !sym_is(b)) return apply(op, a, b);
    if (a == b) return a;
    const Range of_difference = sym_range(env, sym_sub(env, a, b)), zero = {0, 0};
    if (surely_at_most(of_difference, zero)) return op == SYM_max ? b : a;
    if (surely_at_most(zero, of_difference)) return op == SYM_max ? a : b;
    return compare_exprs(env, a, b) < 0 ? node(env, op, a, b) : node(env, op, b, a);
}

int64_t sym_max(SymEnv *env, int64_t a, int64_t b) { return larger_or_smaller(env, SYM_max, a, b); }
int64_t sym_min(SymEnv *env, int64_t a, int64_t b) { return larger_or_smaller(env, SYM_min, a, b); }

/* decisions ----------------------------------------------------------------------------------- */

int sym_range_known(SymRel rel, Range difference) {
    const Range zero = {0, 0};
    const bool below = surely_below(difference, zero), above = surely_below(zero, difference);
    switch (rel) {
    case SYM_eq:
        return below || above ? 0 : -1;
    case SYM_ne:
        return below || above ? 1 : -1;
    case SYM_lt:
        return below ? 1 : surely_at_most(zero, difference) ? 0 : -1;
    case SYM_le:
        return surely_at_most(difference, zero) ? 1 : above ? 0 : -1;
    }
    return -1;
}

int sym_plainly(SymEnv *env, SymRel rel, int64_t a, int64_t b, int64_t *difference) {
    if (!sym_is(a) && !sym_is(b)) return sym_holds(rel, a, b);
    *difference = sym_sub(env, a, b);
    if (!sym_is(*difference)) return sym_holds(rel, *difference, 0);
    return sym_range_known(rel, sym_range(env, *difference));
}

void sym_require(SymEnv *env, SymRel rel, int64_t a, int64_t b) {
    for (int i = 0; i < env->guards.n; i++) {
        const SymGuard *const old = &env->guards.at[i];
        if (old->rel == rel && old->a == a && old->b == b) return;
    }
    VEC_PUSH(env->arena, &env->guards, ((SymGuard){.rel = rel, .a = a, .b = b}));
}

bool sym_decide(SymEnv *env, SymRel rel, int64_t a, int64_t b) {
    int64_t difference;
    const int answer = sym_plainly(env, rel, a, b, &difference);
    if (answer >= 0) return answer;
    if (sym_holds(rel, sym_hint(env, a), sym_hint(env, b))) {
        sym_require(env, rel, a, b);
        return true;
    }
    switch (rel) {
    case SYM_eq:
        sym_require(env, SYM_ne, a, b);
        break;
    case SYM_ne:
        sym_require(env, SYM_eq, a, b);
        break;
    case SYM_lt:
        sym_require(env, SYM_le, b, a);
        break;
    case SYM_le:
        sym_require(env, SYM_lt, b, a);
        break;
    }
    return false;
}

int64_t sym_concrete(SymEnv *env, int64_t a) {
    if (!sym_is(a)) return a;
    const int64_t value = sym_hint(env, a);
    sym_decide(env, SYM_eq, a, value);
    return value;
}

int64_t sym_eval(const SymEnv *env, int64_t a, const int64_t *values) {
    if (!sym_is(a)) return a;
    const SymExpr *const e = sym_expr(env, a);
    if (e->op == SYM_free) return values[e->a];
    return apply(e->op, sym_eval(env, e->a, values), sym_eval(env, e->b, values));
}

int64_t sym_move(SymEnv *to, const SymEnv *from, int64_t a, const int64_t *values) {
    if (!sym_is(a)) return a;
    const SymExpr *const e = sym_expr(from, a);
    if (e->op == SYM_free) return values[e->a];
    const int64_t x = sym_move(to, from, e->a, values), y = sym_move(to, from, e->b, values);
    switch (e->op) {
    case SYM_add:
        return sym_add(to, x, y);
    case SYM_mul:
        return sym_mul(to, x, y);
    case SYM_div:
        return sym_same(to, y, 0) ? 0 : sym_div(to, x, y);
    case SYM_mod:
        return sym_same(to, y, 0) ? 0 : sym_mod(to, x, y);
    case SYM_max:
        return sym_max(to, x, y);
    default:
        return sym_min(to, x, y);
    }
}

bool sym_guard_holds(const SymEnv *env, const SymGuard *guard, const int64_t *values) {
    return sym_holds(guard->rel, sym_eval(env, guard->a, values), sym_eval(env, guard->b, values));
}
