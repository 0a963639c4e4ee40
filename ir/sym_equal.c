/* sym_equal.c: what guards make of symbols: after s0 == s1-1 there is s0+1 for s1, after s0 == 6 there is 6 for s0.
 * Guards that no symbol is a term of by itself (s0*2 == s1*3) say nothing. */
#include "ir/sym.h"

typedef struct Solving {
    SymEnv *env;
    int64_t *by;    /* by free symbol: itself, or what it equals */
    int64_t *alone; /* itself */
    int n;
} Solving;

static int64_t equated(const Solving *e, int64_t a) { return sym_move(e->env, e->env, a, e->by); }

/* The expression with another value in the place of symbol k. */
static int64_t with(SymEnv *env, int64_t *alone, int64_t a, int k, int64_t value) {
    const int64_t symbol = alone[k];
    alone[k] = value;
    const int64_t made = sym_move(env, env, a, alone);
    alone[k] = symbol;
    return made;
}

bool sym_linear(SymEnv *env, int64_t a, int k, int64_t *alone, int64_t *times, int64_t *rest) {
    *rest = with(env, alone, a, k, 0);
    *times = sym_sub(env, with(env, alone, a, k, 1), *rest);
    return *times != 0 && sym_add(env, *rest, sym_mul(env, alone[k], *times)) == a;
}

/* What symbol k is where `zero` is 0: it must be a term of it once, by itself. */
static bool solve(const Solving *e, int64_t zero, int k, int64_t *value) {
    int64_t times, rest;
    if (!sym_linear(e->env, zero, k, e->alone, &times, &rest) || (times != 1 && times != -1)) return false;
    *value = sym_mul(e->env, rest, -times);
    return true;
}

/* The last symbol goes that can. */
static bool learn(Solving *e, const SymGuard *guard) {
    if (guard->rel != SYM_eq) return false;
    const int64_t zero = equated(e, sym_sub(e->env, guard->a, guard->b));
    int64_t value;
    int k = e->n - 1;
    while (k >= 0 && !solve(e, zero, k, &value)) k--;
    if (k < 0) return false;
    e->by[k] = value;
    for (int i = 0; i < e->n; i++) e->by[i] = equated(e, e->by[i]);
    return true;
}

bool sym_equalities(SymEnv *env, int64_t *by, int64_t *scratch) {
    Solving e = {env, by, scratch, sym_free_count(env)};
    bool any = false;
    for (int i = 0; i < e.n; i++) by[i] = scratch[i] = sym_free_at(env, i);
    for (int i = 0; i < sym_guard_count(env); i++) any |= learn(&e, sym_guard_at(env, i));
    return any;
}
