/* sym.h: sizes that may be symbolic.
 *
 * Every size, stride, offset and int attribute in the IR is an int64_t. Values in a reserved range far below any real
 * size stand for an expression of a SymEnv; everything else is itself. NO_INT (None) is not in the range. Plain C
 * arithmetic on one is a bug: go through sym_*, which fold plain numbers at no cost and need no environment for them.
 *
 * A decision on a symbolic value (sym_same, sym_less, sym_at_most, sym_decide) that structure and ranges leave open is
 * made by the hints and records a guard; guards are evaluated again on every call [semantics C5]. A free symbol is
 * never less than the lower bound it was made with. Expressions are hash-consed in canonical form (sums of products in
 * a structural order), so equal ones have equal ids. */
#ifndef SINTER_IR_SYM_H
#define SINTER_IR_SYM_H
#include "runtime/base/arena.h"
#include "ir/float_limit.h"
#include "runtime/base/text.h"

typedef struct SymEnv SymEnv;

#define SYM_LOW  (-(INT64_C(3) << 61)) /* expressions: SYM_LOW + id */
#define SYM_HIGH (SYM_LOW + (INT64_C(1) << 32))
static inline bool sym_is(int64_t v) { return UNLIKELY(v >= SYM_LOW && v < SYM_HIGH); }
static inline int sym_id(int64_t v) { return (int)(v - SYM_LOW); }
static inline int64_t sym_make(int id) { return SYM_LOW + id; }

typedef enum SymOp { SYM_free, SYM_add, SYM_mul, SYM_div, SYM_mod, SYM_max, SYM_min } SymOp;
typedef enum SymRel { SYM_eq, SYM_ne, SYM_lt, SYM_le } SymRel;

typedef struct SymExpr {
    SymOp op;     /* div and mod round toward minus infinity */
    int64_t a, b; /* operands, plain or symbolic; free: a = its number (s0, s1...), b = lower bound */
    int64_t hint; /* value under the hints */
    int64_t most; /* free, of a header that says so: the upper bound, SYM_MOST: none */
    /* free: its bounds are given, by a header: a call outside of them is an error, no other case, and 1 is a size as
     * any other, but where a rule has to know */
    bool given;
    bool open; /* free: what values give as a graph runs; before that its hint says nothing */
} SymExpr;

typedef struct SymGuard {
    SymRel rel;
    int64_t a, b; /* must hold: a rel b */
} SymGuard;

SymEnv *sym_env_new(Arena *arena);
/* With the same ids and guards, and hints by free symbol: what is decided in the copy leaves env alone. */
SymEnv *sym_env_copy(const SymEnv *env, Arena *arena, const int64_t *hints);
#define SYM_LEAST (-(INT64_C(1) << 60))                           /* a lower bound that says nothing */
#define SYM_MOST  (INT64_C(1) << 60)                              /* an upper one */
int64_t sym_free(SymEnv *env, int64_t hint, int64_t lower_bound); /* a new free symbol */
/* Its bounds, both included, are given, and its hint is another one. Before it is used: what was decided stays. */
void sym_free_give(SymEnv *env, int64_t symbol, int64_t hint, int64_t least, int64_t most);
void sym_free_hint(SymEnv *env, int64_t symbol, int64_t hint); /* the same of the hint alone */
bool sym_all_given(const SymEnv *env, int64_t a);              /* of all free symbols in it */
void sym_free_open(SymEnv *env, int64_t symbol);
bool sym_is_open(const SymEnv *env, int64_t a); /* a free symbol in it is */
int sym_free_count(const SymEnv *env);
int64_t sym_free_at(const SymEnv *env, int i); /* the i-th free symbol, "s<i>" */
const SymExpr *sym_expr(const SymEnv *env, int64_t symbolic);
bool sym_mentions(const SymEnv *env, int64_t a, int64_t symbol); /* a free one is a, or in it */
/* A plain number, or an expression of env (NULL: none is): for what callers give. */
bool sym_belongs(const SymEnv *env, int64_t a);

/* env may be NULL where both operands are plain. Plain arithmetic wraps: products of sizes
 * that a user gave are checked first (check_numel). */
int64_t sym_add(SymEnv *env, int64_t a, int64_t b);
int64_t sym_sub(SymEnv *env, int64_t a, int64_t b);
int64_t sym_mul(SymEnv *env, int64_t a, int64_t b);
int64_t sym_div(SymEnv *env, int64_t a, int64_t b); /* floor; b must not be 0 */
int64_t sym_mod(SymEnv *env, int64_t a, int64_t b);
/* a = *quotient * b + *rest by structure: terms that are multiples go to the quotient. */
void sym_split(SymEnv *env, int64_t a, int64_t b, int64_t *quotient, int64_t *rest);
int64_t sym_max(SymEnv *env, int64_t a, int64_t b);
int64_t sym_min(SymEnv *env, int64_t a, int64_t b);
int64_t sym_product(SymEnv *env, const int64_t *sizes, int n);

/* Bounds that hold for all values that the symbols may have; no guard. */
int64_t sym_least(const SymEnv *env, int64_t a); /* SYM_LEAST: not known */
bool sym_surely_at_most(SymEnv *env, int64_t a, int64_t b);
/* The largest number that divides every term, at least 1; of 0: 1. */
int64_t sym_content(const SymEnv *env, int64_t a);

/* Decisions: true by structure or range where possible, else by hints with a guard recorded. */
bool sym_decide(SymEnv *env, SymRel rel, int64_t a, int64_t b);
static inline bool sym_same(SymEnv *env, int64_t a, int64_t b) {
    return a == b || ((sym_is(a) || sym_is(b)) && sym_decide(env, SYM_eq, a, b));
}
static inline bool sym_less(SymEnv *env, int64_t a, int64_t b) {
    return sym_is(a) || sym_is(b) ? sym_decide(env, SYM_lt, a, b) : a < b;
}
static inline bool sym_at_most(SymEnv *env, int64_t a, int64_t b) {
    return sym_is(a) || sym_is(b) ? sym_decide(env, SYM_le, a, b) : a <= b;
}
/* Equal without adding a guard: the same plain number or the same expression. */
static inline bool sym_identical(int64_t a, int64_t b) { return a == b; }
/* Known by structure, ranges or a guard that is there; false: it may hold, which nothing asks of a call. */
bool sym_known(SymEnv *env, SymRel rel, int64_t a, int64_t b);
/* Specialises: the hint, with a guard that the expression equals it. */
int64_t sym_concrete(SymEnv *env, int64_t a);
int64_t sym_hint(const SymEnv *env, int64_t a); /* no guard: for costs and messages only */

/* Evaluation on a call: values[i] is the i-th free symbol's. */
int64_t sym_eval(const SymEnv *env, int64_t a, const int64_t *values);
/* The same where the values are expressions of `to` (NULL: plain numbers). */
int64_t sym_move(SymEnv *to, const SymEnv *from, int64_t a, const int64_t *values);
void sym_require(SymEnv *env, SymRel rel, int64_t a, int64_t b); /* a guard, once */
int sym_guard_count(const SymEnv *env);
const SymGuard *sym_guard_at(const SymEnv *env, int i);
bool sym_guard_holds(const SymEnv *env, const SymGuard *guard, const int64_t *values);
/* What guards make of symbols: by[i] is the i-th free symbol or what it equals, for sym_move. Of scratch as many are
 * wanted. False: all stay. */
bool sym_equalities(SymEnv *env, int64_t *by, int64_t *scratch);

/* a = times * (the k-th free symbol) + rest, neither with the symbol in it; false: a has it in another way, or not.
 * alone[i] is the i-th free symbol. */
bool sym_linear(SymEnv *env, int64_t a, int k, int64_t *alone, int64_t *times, int64_t *rest);

FloatLimits *sym_floats(SymEnv *env); /* what rules ask of the runtime floats beside it: guards, too */

/* "s0*768+1"; plain numbers print as themselves. sym_parse reads what sym_print prints, making free symbols with
 * hint 2 as they first appear; *end is past the text read; raises ST_PARSE. sym_parse knows the functions of PyTorch's
 * expressions as well: FloorDiv, CleanDiv, CeilDiv, Mod, PythonMod, Max, Min, and powers by a number. */
void sym_print(const SymEnv *env, Text *text, int64_t a);
Status sym_parse(SymEnv *env, const char *text, const char **end, int64_t *out);
/* "s0==s1*2", "(s0%8)==0": what must hold. */
void sym_guard_print(const SymEnv *env, Text *text, const SymGuard *guard);
Status sym_guard_parse(SymEnv *env, const char *text, const char **end, SymGuard *out);

#endif
