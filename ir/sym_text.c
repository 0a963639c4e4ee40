/* sym_text.c: symbolic ints as text, and back. */
#include <errno.h>
#include <stdlib.h>

#include "ir/sym.h"
#include "runtime/base/error.h"
#include "runtime/base/text_reader.h"

static void print_operand(const SymEnv *env, Text *text, int64_t a) {
    const bool wrap = sym_is(a) && (sym_expr(env, a)->op == SYM_add || sym_expr(env, a)->op == SYM_mul);
    if (wrap) text_puts(text, "(");
    sym_print(env, text, a);
    if (wrap) text_puts(text, ")");
}

static void print_pair(const SymEnv *env, Text *text, const SymExpr *e, const char *name) {
    text_printf(text, "%s(", name);
    sym_print(env, text, e->a);
    text_puts(text, ",");
    sym_print(env, text, e->b);
    text_puts(text, ")");
}

static void print_quotient(const SymEnv *env, Text *text, const SymExpr *e, const char *operator) {
    text_puts(text, "(");
    print_operand(env, text, e->a);
    text_puts(text, operator);
    print_operand(env, text, e->b);
    text_puts(text, ")");
}

static void print_sum(const SymEnv *env, Text *text, const SymExpr *e) {
    sym_print(env, text, e->a);
    Text term = {0};
    sym_print(env, &term, e->b);
    if (text_str(&term)[0] != '-') text_puts(text, "+");
    text_puts(text, text_str(&term));
    text_free(&term);
}

static void print_product(const SymEnv *env, Text *text, const SymExpr *e) {
    if (e->b == -1) {
        text_puts(text, "-");
        sym_print(env, text, e->a);
        return;
    }
    if (!sym_is(e->b) && e->b < 0) { /* the sign leads, so that sums read s0-s1*3 */
        text_puts(text, "-");
        sym_print(env, text, e->a);
        text_printf(text, "*%llu", (unsigned long long)-(uint64_t)e->b);
        return;
    }
    sym_print(env, text, e->a);
    text_puts(text, "*");
    sym_print(env, text, e->b);
}

void sym_print(const SymEnv *env, Text *text, int64_t a) {
    if (!sym_is(a)) {
        text_printf(text, "%lld", (long long)a);
        return;
    }
    const SymExpr *const e = sym_expr(env, a);
    switch (e->op) {
    case SYM_free:
        text_printf(text, "s%lld", (long long)e->a);
        break;
    case SYM_add:
        print_sum(env, text, e);
        break;
    case SYM_mul:
        print_product(env, text, e);
        break;
    case SYM_div:
        print_quotient(env, text, e, "//");
        break;
    case SYM_mod:
        print_quotient(env, text, e, "%");
        break;
    case SYM_max:
        print_pair(env, text, e, "max");
        break;
    case SYM_min:
        print_pair(env, text, e, "min");
        break;
    }
}

static bool eat(const char **at, const char *word) {
    const size_t n = strlen(word);
    if (strncmp(*at, word, n)) return false;
    *at += n;
    return true;
}

static Status expected(const char *at, const char *what) {
    return error_raise(ST_PARSE, "expected %s at \"%.*s\"", what, reader_quoted(at, 20), at);
}

static Status parse_symbol(SymEnv *env, const char **at, int64_t *out) {
    char *end;
    const long number = strtol(*at, &end, 10);
    if (end == *at || number < 0 || number > 9999) return expected(*at - 1, "a symbol");
    while (sym_free_count(env) <= number) sym_free(env, 2, 2);
    *at = end;
    *out = sym_free_at(env, (int)number);
    return ST_OK;
}

/* Parentheses and signs, one in the other: each level is one of the stack. */
enum { MAX_SYM_DEPTH = 64 };
static Status parse_sum(SymEnv *env, const char **at, int depth, int64_t *out);

static int64_t sym_ceil_div(SymEnv *env, int64_t a, int64_t b) {
    return sym_mul(env, sym_div(env, sym_mul(env, a, -1), b), -1);
}

typedef int64_t MakeSym(SymEnv *env, int64_t a, int64_t b);
static const struct {
    const char *name;
    MakeSym *make;
} functions[] = {{"max(", sym_max},      {"min(", sym_min},       {"Max(", sym_max},
                 {"Min(", sym_min},      {"FloorDiv(", sym_div},  {"Mod(", sym_mod},
                 {"CleanDiv(", sym_div}, {"PythonMod(", sym_mod}, {"CeilDiv(", sym_ceil_div}};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

static Status parse_pair(SymEnv *env, const char **at, MakeSym *make, int depth, int64_t *out) {
    int64_t a, b;
    const bool divides = make != sym_max && make != sym_min;
    TRY(parse_sum(env, at, depth, &a));
    if (!eat(at, ",")) return expected(*at, "','");
    eat(at, " ");
    TRY(parse_sum(env, at, depth, &b));
    if (divides && b == 0) return expected(*at, "a divisor that is not 0");
    if (!eat(at, ")")) return expected(*at, "')'");
    *out = make(env, a, b);
    return ST_OK;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static Status parse_factor(SymEnv *env, const char **at, int depth, int64_t *out) {
    if (depth == MAX_SYM_DEPTH) return error_raise(ST_PARSE, "an expression is nested more than %d deep", depth);
    if (is_digit((*at)[0]) || ((*at)[0] == '-' && is_digit((*at)[1]))) {
        char *end;
        errno = 0;
        *out = strtoll(*at, &end, 10);
        if (errno == ERANGE || sym_is(*out)) {
            return error_raise(ST_PARSE, "a number is out of range: %.*s", reader_quoted(*at, 24), *at);
        }
        *at = end;
        return ST_OK;
    }
    if (eat(at, "-")) {
        TRY(parse_factor(env, at, depth + 1, out));
        *out = sym_mul(env, *out, -1);
        return ST_OK;
    }
    for (int i = 0; i < N_FUNCTIONS; i++)
        if (eat(at, functions[i].name)) return parse_pair(env, at, functions[i].make, depth + 1, out);
    if (eat(at, "s")) return parse_symbol(env, at, out);
    if (!eat(at, "(")) return expected(*at, "a number, a symbol or '('");
    TRY(parse_sum(env, at, depth + 1, out));
    return eat(at, ")") ? ST_OK : expected(*at, "')'");
}

/* "**3" behind a factor. */
static Status parse_power(SymEnv *env, const char **at, int64_t *factor) {
    enum { MOST = 8 };
    const int64_t base = *factor;
    if (!eat(at, "**")) return ST_OK;
    const int by = is_digit((*at)[0]) && !is_digit((*at)[1]) ? (*at)[0] - '0' : 0;
    if (by < 1 || by > MOST) return expected(*at, "a power from 1 to 8");
    (*at)++;
    for (int i = 1; i < by; i++) *factor = sym_mul(env, *factor, base);
    return ST_OK;
}

static Status parse_term(SymEnv *env, const char **at, int depth, int64_t *out) {
    TRY(parse_factor(env, at, depth, out));
    TRY(parse_power(env, at, out));
    for (;;) {
        int64_t by;
        const bool is_mul = eat(at, "*"), is_div = !is_mul && eat(at, "//");
        if (!is_mul && !is_div && !eat(at, "%")) return ST_OK;
        TRY(parse_factor(env, at, depth, &by));
        TRY(parse_power(env, at, &by));
        if (!is_mul && by == 0) return expected(*at, "a divisor that is not 0");
        *out = is_mul ? sym_mul(env, *out, by) : is_div ? sym_div(env, *out, by) : sym_mod(env, *out, by);
    }
}

static Status parse_sum(SymEnv *env, const char **at, int depth, int64_t *out) {
    int64_t sum, term;
    TRY(parse_term(env, at, depth, &sum));
    for (;;) {
        const bool plus = eat(at, "+");
        if (!plus && !eat(at, "-")) break;
        TRY(parse_term(env, at, depth, &term));
        sum = plus ? sym_add(env, sum, term) : sym_sub(env, sum, term);
    }
    *out = sum;
    return ST_OK;
}

Status sym_parse(SymEnv *env, const char *text, const char **end, int64_t *out) {
    const char *at = text;
    TRY(parse_sum(env, &at, 0, out));
    *end = at;
    return ST_OK;
}

static const char *const relations[] = {[SYM_eq] = "==", [SYM_ne] = "!=", [SYM_lt] = "<", [SYM_le] = "<="};

void sym_guard_print(const SymEnv *env, Text *text, const SymGuard *guard) {
    sym_print(env, text, guard->a);
    text_puts(text, relations[guard->rel]);
    sym_print(env, text, guard->b);
}

/* *swapped: the operands are to be. */
static bool eat_relation(const char **at, SymRel *rel, bool *swapped) {
    *swapped = false;
    *rel = SYM_eq;
    if (eat(at, "==")) return true;
    *rel = SYM_ne;
    if (eat(at, "!=")) return true;
    *swapped = **at == '>';
    *rel = eat(at, "<=") || eat(at, ">=") ? SYM_le : SYM_lt;
    return *rel == SYM_le || eat(at, "<") || eat(at, ">");
}

static void skip_blanks(const char **at) { *at += strspn(*at, " "); }

Status sym_guard_parse(SymEnv *env, const char *text, const char **end, SymGuard *out) {
    const char *at = text;
    int64_t a, b;
    bool swapped;
    TRY(parse_sum(env, &at, 0, &a));
    skip_blanks(&at);
    if (!eat_relation(&at, &out->rel, &swapped)) return expected(at, "'==', '!=', '<', '<=', '>' or '>='");
    skip_blanks(&at);
    TRY(parse_sum(env, &at, 0, &b));
    out->a = swapped ? b : a;
    out->b = swapped ? a : b;
    *end = at;
    return ST_OK;
}
