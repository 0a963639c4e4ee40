/* size_expr.c: the tree: made, printed, evaluated; and the reader of sympy's text. size_guard.c reads Python's. */
#include "frontend/import/size_expr.h"

#include <errno.h>
#include <stdlib.h>

#include "frontend/import/size_make.h"
#include "runtime/base/error.h"
#include "runtime/base/text_reader.h"

int size_symbol(SizeSymbols *all, const char *name, size_t n) {
    for (int i = 0; i < all->list.n; i++)
        if (strlen(all->list.at[i].name) == n && !memcmp(all->list.at[i].name, name, n)) return i;
    const char *const own = arena_printf(all->arena, "%.*s", (int)n, name);
    if (!own) return -1;
    VEC_PUSH(all->arena, &all->list, ((SizeSymbol){own, 0, INT64_MIN, INT64_MAX, -1}));
    return error_pending() ? -1 : all->list.n - 1;
}

const SizeExpr *size_make(Arena *arena, SizeExpr head, const SizeExpr *const *parts) {
    SizeExpr *const e = ARENA_NEW(arena, SizeExpr);
    const SizeExpr **const own = head.n ? arena_copy(arena, parts, sizeof *parts * (size_t)head.n) : NULL;
    if (!e || (head.n && !own)) return NULL;
    *e = head;
    e->parts = own;
    return e;
}

const SizeExpr *size_number(Arena *arena, int64_t value) {
    return size_make(arena, (SizeExpr){.op = SIZE_number, .value = value}, NULL);
}

const SizeExpr *size_pair(Arena *arena, SizeOp op, const SizeExpr *a, const SizeExpr *b) {
    return a && b ? size_make(arena, (SizeExpr){.op = op, .n = 2}, (const SizeExpr *const[]){a, b}) : NULL;
}

/* Sympy's text ----------------------------------------------------------------------------- */

typedef struct SympyReader {
    SizeSymbols *all;
    TextReader in;
    int depth;
} SympyReader;

enum { MOST_PARTS = 64, MOST_DEPTH = 64 };
typedef struct SympyParts {
    const SizeExpr *at[MOST_PARTS];
    int n;
} SympyParts;

static Status read_sympy(SympyReader *r, const SizeExpr **out);

static Status sympy_expected(SympyReader *r, const char *what) { return reader_expected(&r->in, what); }

/* ", positive=True" and the like say what ranges say, too. */
static Status skip_assumptions(SympyReader *r) {
    const char *word;
    size_t n;
    while (reader_eat(&r->in, ",")) {
        reader_skip(&r->in);
        if (!reader_word(&r->in, &word, &n) || !reader_eat(&r->in, "=")) return sympy_expected(r, "an assumption");
        reader_skip(&r->in);
        if (!reader_word(&r->in, &word, &n)) return sympy_expected(r, "a value");
    }
    return reader_eat(&r->in, ")") ? ST_OK : sympy_expected(r, "\")\"");
}

static Status read_symbol(SympyReader *r, const SizeExpr **out) {
    const char *name;
    size_t n;
    if (!reader_eat(&r->in, "'") || !reader_word(&r->in, &name, &n)) return sympy_expected(r, "a symbol's name");
    if (!reader_eat(&r->in, "'")) return sympy_expected(r, "the end of a symbol's name");
    TRY(skip_assumptions(r));
    const int symbol = size_symbol(r->all, name, n);
    if (symbol < 0) return ST_MEMORY;
    *out = size_make(r->all->arena, (SizeExpr){.op = SIZE_symbol, .value = symbol}, NULL);
    return *out ? ST_OK : ST_MEMORY;
}

static Status read_integer(SympyReader *r, const SizeExpr **out) {
    char *end;
    reader_skip(&r->in);
    errno = 0;
    const long long value = strtoll(r->in.at, &end, 10);
    if (end == r->in.at || errno) return sympy_expected(r, "an integer");
    r->in.at = end;
    if (!reader_eat(&r->in, ")")) return sympy_expected(r, "\")\"");
    *out = size_number(r->all->arena, value);
    return *out ? ST_OK : ST_MEMORY;
}

static Status read_parts(SympyReader *r, SympyParts *parts) {
    while (!reader_eat(&r->in, ")")) {
        if (parts->n && !reader_eat(&r->in, ",")) return sympy_expected(r, "\",\" or \")\"");
        if (parts->n == MOST_PARTS) return sympy_expected(r, "fewer parts");
        TRY(read_sympy(r, &parts->at[parts->n++]));
    }
    return ST_OK;
}

/* Functions of sympy, and of PyTorch's beside it, as ops of ours. `swap`: with the operands the other way round. */
typedef struct SympyFunction {
    const char *name;
    SizeOp op;
    int least, most;
    bool swap;
} SympyFunction;
static const SympyFunction functions[] = {
    {"Add", SIZE_add, 1, MOST_PARTS, false},
    {"Mul", SIZE_mul, 1, MOST_PARTS, false},
    {"Max", SIZE_max, 1, MOST_PARTS, false},
    {"Min", SIZE_min, 1, MOST_PARTS, false},
    {"FloorDiv", SIZE_floordiv, 2, 2, false},
    {"CleanDiv", SIZE_floordiv, 2, 2, false},
    {"CeilDiv", SIZE_ceildiv, 2, 2, false},
    {"Mod", SIZE_mod, 2, 2, false},
    {"PythonMod", SIZE_mod, 2, 2, false},
    {"Pow", SIZE_power, 2, 2, false},
    {"PowByNatural", SIZE_power, 2, 2, false},
    {"Identity", SIZE_add, 1, 1, false},
    {"Equality", SIZE_eq, 2, 2, false},
    {"Unequality", SIZE_ne, 2, 2, false},
    {"StrictLessThan", SIZE_lt, 2, 2, false},
    {"LessThan", SIZE_le, 2, 2, false},
    {"StrictGreaterThan", SIZE_lt, 2, 2, true},
    {"GreaterThan", SIZE_le, 2, 2, true},
    {"And", SIZE_and, 1, MOST_PARTS, false},
    {"Or", SIZE_or, 1, MOST_PARTS, false},
    {"Not", SIZE_not, 1, 1, false},
    {"ToFloat", SIZE_float, 1, 1, false},
    {"IntTrueDiv", SIZE_truediv, 2, 2, false},
    {"FloatTrueDiv", SIZE_truediv, 2, 2, false},
    {"FloatPow", SIZE_power, 2, 2, false},
    {"OpaqueUnaryFn_sqrt", SIZE_sqrt, 1, 1, false},
    {"TruncToInt", SIZE_trunc, 1, 1, false},
    {"FloorToInt", SIZE_floor, 1, 1, false},
    {"CeilToInt", SIZE_ceil, 1, 1, false},
    {"RoundToInt", SIZE_round, 1, 1, false},
};

static bool is_unary(SizeOp op) { return op == SIZE_not || op == SIZE_float || op == SIZE_sqrt || size_is_whole(op); }

/* Float('1.5', precision=53) */
static Status read_real(SympyReader *r, const SizeExpr **out) {
    char *end;
    if (!reader_eat(&r->in, "'")) return sympy_expected(r, "a number");
    const double real = strtod(r->in.at, &end);
    if (end == r->in.at) return sympy_expected(r, "a number");
    r->in.at = end;
    if (!reader_eat(&r->in, "'")) return sympy_expected(r, "the end of a number");
    TRY(skip_assumptions(r));
    *out = size_make(r->all->arena, (SizeExpr){.op = SIZE_real, .real = real}, NULL);
    return *out ? ST_OK : ST_MEMORY;
}

static Status read_function(SympyReader *r, const char *name, size_t n, const SizeExpr **out) {
    SympyParts parts = {.n = 0};
    Arena *const arena = r->all->arena;
    TRY(read_parts(r, &parts));
    if (n == 15 && !memcmp(name, "ModularIndexing", n) && parts.n == 3) {
        *out = size_pair(arena, SIZE_mod, size_pair(arena, SIZE_floordiv, parts.at[0], parts.at[1]), parts.at[2]);
        return *out ? ST_OK : ST_MEMORY;
    }
    for (int i = 0; i < COUNT_OF(functions); i++) {
        const SympyFunction *const f = &functions[i];
        if (strlen(f->name) != n || memcmp(f->name, name, n) || parts.n < f->least || parts.n > f->most) continue;
        if (f->swap) {
            *out = size_pair(arena, f->op, parts.at[1], parts.at[0]);
        } else {
            *out = parts.n == 1 && !is_unary(f->op) ? parts.at[0]
                                                    : size_make(arena, (SizeExpr){.op = f->op, .n = parts.n}, parts.at);
        }
        return *out ? ST_OK : ST_MEMORY;
    }
    return error_raise(ST_UNSUPPORTED, "sizes have no function '%.*s' of %d parts: %.200s", (int)n, name, parts.n,
                       r->in.start);
}

static Status read_sympy(SympyReader *r, const SizeExpr **out) {
    const char *word;
    size_t n;
    reader_skip(&r->in);
    if (!reader_word(&r->in, &word, &n)) return sympy_expected(r, "a function");
    if (n == 4 && (!memcmp(word, "true", 4) || !memcmp(word, "True", 4))) {
        *out = size_number(r->all->arena, 1);
        return *out ? ST_OK : ST_MEMORY;
    }
    if (!reader_eat(&r->in, "(")) return sympy_expected(r, "\"(\"");
    if (n == 7 && !memcmp(word, "Integer", n)) return read_integer(r, out);
    if (n == 6 && !memcmp(word, "Symbol", n)) return read_symbol(r, out);
    if (n == 5 && !memcmp(word, "Float", n)) return read_real(r, out);
    if (++r->depth > MOST_DEPTH) return error_raise(ST_PARSE, "a size is nested more than %d deep", MOST_DEPTH);
    TRY(read_function(r, word, n, out));
    r->depth--;
    return ST_OK;
}

Status size_parse_sympy(SizeSymbols *all, const char *text, const SizeExpr **out) {
    SympyReader r = {.all = all, .in = {.what = "a size", .between = BETWEEN_blanks, .start = text, .at = text}};
    TRY(read_sympy(&r, out));
    reader_skip(&r.in);
    return *r.in.at ? sympy_expected(&r, "its end") : ST_OK;
}

/* Printed ---------------------------------------------------------------------------------- */

static const char *infix(SizeOp op) {
    return op == SIZE_add ? "+" : op == SIZE_mul ? "*" : op == SIZE_floordiv ? "//" : op == SIZE_mod ? "%" : NULL;
}

static bool print_infix(const SizeSymbols *all, const SizeExpr *e, Text *text) {
    text_puts(text, "(");
    for (int i = 0; i < e->n; i++) {
        if (i) text_puts(text, infix(e->op));
        if (!size_print(all, e->parts[i], text)) return false;
    }
    text_puts(text, ")");
    return true;
}

/* max and min take two. */
static bool print_extreme(const SizeSymbols *all, const SizeExpr *e, bool largest, Text *text) {
    for (int i = 0; i + 1 < e->n; i++) text_puts(text, largest ? "max(" : "min(");
    for (int i = 0; i < e->n; i++) {
        if (i) text_puts(text, ",");
        if (!size_print(all, e->parts[i], text)) return false;
        if (i) text_puts(text, ")");
    }
    return true;
}

/* a rounded up over b is -(-a // b). */
static bool print_ceildiv(const SizeSymbols *all, const SizeExpr *e, Text *text) {
    text_puts(text, "(-1*((-1*");
    if (!size_print(all, e->parts[0], text)) return false;
    text_puts(text, ")//");
    if (!size_print(all, e->parts[1], text)) return false;
    text_puts(text, "))");
    return true;
}

enum { MOST_POWER = 8 };
static bool print_power(const SizeSymbols *all, const SizeExpr *e, Text *text) {
    const SizeExpr *const by = e->parts[1];
    if (by->op != SIZE_number || by->value < 1 || by->value > MOST_POWER) return false;
    text_puts(text, "(");
    for (int64_t i = 0; i < by->value; i++) {
        if (i) text_puts(text, "*");
        if (!size_print(all, e->parts[0], text)) return false;
    }
    text_puts(text, ")");
    return true;
}

/* Truths are numbers, 0 and 1, made of what graphs' sizes have: a < b is min(1, max(0, b - a)), a != b the larger of
 * a - b and b - a, at most 1. */
static bool print_difference(const SizeSymbols *all, const SizeExpr *const *pair, int from, Text *text) {
    text_puts(text, "(");
    if (!size_print(all, pair[from], text)) return false;
    text_puts(text, "+(-1*");
    if (!size_print(all, pair[1 - from], text)) return false;
    text_puts(text, "))");
    return true;
}

static bool print_relation(const SizeSymbols *all, const SizeExpr *e, Text *text) {
    const bool differ = e->op == SIZE_eq || e->op == SIZE_ne;
    text_puts(text, e->op == SIZE_eq ? "(1+(-1*min(1,max(" : e->op == SIZE_le ? "min(1,max(0,(1+" : "min(1,max(");
    if (differ) {
        if (!print_difference(all, e->parts, 0, text)) return false;
    } else if (e->op == SIZE_lt) {
        text_puts(text, "0");
    }
    if (e->op != SIZE_le) text_puts(text, ",");
    if (!print_difference(all, e->parts, 1, text)) return false;
    text_puts(text, e->op == SIZE_eq ? "))))" : e->op == SIZE_le ? ")))" : "))");
    return true;
}

static bool print_not(const SizeSymbols *all, const SizeExpr *e, Text *text) {
    text_puts(text, "(1+(-1*");
    if (!size_print(all, e->parts[0], text)) return false;
    text_puts(text, "))");
    return true;
}

bool size_print(const SizeSymbols *all, const SizeExpr *e, Text *text) {
    if (e->op == SIZE_number) return text_printf(text, "%lld", (long long)e->value), true;
    if (e->op == SIZE_symbol) {
        const int number = all->list.at[e->value].number;
        text_printf(text, "s%d", number);
        return number >= 0;
    }
    if (size_is_whole(e->op)) {
        const SizeExpr *const whole = size_whole(all, e);
        return whole && size_print(all, whole, text);
    }
    if (size_is_relation(e->op) && (size_is_real(e->parts[0]) || size_is_real(e->parts[1]))) return false;
    if (infix(e->op)) return print_infix(all, e, text);
    const bool largest = e->op == SIZE_max || e->op == SIZE_or;
    if (largest || e->op == SIZE_min || e->op == SIZE_and) return print_extreme(all, e, largest, text);
    if (size_is_relation(e->op)) return print_relation(all, e, text);
    if (e->op == SIZE_not) return print_not(all, e, text);
    if (e->op == SIZE_ceildiv) return print_ceildiv(all, e, text);
    return e->op == SIZE_power && print_power(all, e, text);
}

/* Evaluated -------------------------------------------------------------------------------- */

/* Toward minus infinity. */
static bool floor_quotient(int64_t a, int64_t b, int64_t *quotient, int64_t *rest) {
    if (!b || (a == INT64_MIN && b == -1)) return false;
    *quotient = a / b, *rest = a % b;
    if (*rest && (*rest < 0) != (b < 0)) *quotient -= 1, *rest += b;
    return true;
}

static bool raise_to(int64_t a, int64_t by, int64_t *out) {
    if (by < 0 || by > 62) return false;
    *out = 1;
    for (int64_t i = 0; i < by; i++)
        if (!mul_ok(*out, a, out)) return false;
    return true;
}

static bool size_apply(SizeOp op, int64_t a, int64_t b, int64_t *out) {
    int64_t rest;
    switch (op) {
    case SIZE_add:
        return add_ok(a, b, out);
    case SIZE_mul:
        return mul_ok(a, b, out);
    case SIZE_floordiv:
        return floor_quotient(a, b, out, &rest);
    case SIZE_mod:
        return floor_quotient(a, b, &rest, out);
    case SIZE_ceildiv:
        return a != INT64_MIN && floor_quotient(-a, b, out, &rest) && mul_ok(*out, -1, out);
    case SIZE_max:
        return *out = max_i64(a, b), true;
    case SIZE_min:
        return *out = min_i64(a, b), true;
    case SIZE_power:
        return raise_to(a, b, out);
    case SIZE_eq:
        return *out = a == b, true;
    case SIZE_ne:
        return *out = a != b, true;
    case SIZE_lt:
        return *out = a < b, true;
    case SIZE_le:
        return *out = a <= b, true;
    case SIZE_and:
        return *out = a && b, true;
    default:
        return *out = a || b, true;
    }
}

/* Of floats. */
static bool eval_relation(const SizeExpr *e, const SizeValues *values, int64_t *out) {
    double a, b;
    if (!size_eval_real(e->parts[0], values, &a) || !size_eval_real(e->parts[1], values, &b)) return false;
    *out = e->op == SIZE_eq ? a == b : e->op == SIZE_ne ? a != b : e->op == SIZE_lt ? a < b : a <= b;
    return true;
}

bool size_eval(const SizeExpr *e, const SizeValues *values, int64_t *out) {
    if (size_is_whole(e->op)) return size_eval_whole(e, values, out);
    if (size_is_relation(e->op) && (size_is_real(e->parts[0]) || size_is_real(e->parts[1])))
        return eval_relation(e, values, out);
    if (size_is_real(e)) return false;
    if (e->op == SIZE_number) return *out = e->value, true;
    if (e->op == SIZE_symbol) return *out = values->symbols[e->value], true;
    if (e->op == SIZE_dim || e->op == SIZE_given) return false;
    if (!size_eval(e->parts[0], values, out)) return false;
    if (e->op == SIZE_not) return *out = !*out, true;
    for (int i = 1; i < e->n; i++) {
        int64_t next;
        if (!size_eval(e->parts[i], values, &next) || !size_apply(e->op, *out, next, out)) return false;
    }
    return true;
}

int size_one_symbol(const SizeExpr *e) {
    if (e->op == SIZE_symbol) return (int)e->value;
    int found = -1;
    for (int i = 0; i < e->n; i++) {
        const int one = size_one_symbol(e->parts[i]);
        if (one != -1) found = found == -1 || found == one ? one : -2;
    }
    return found;
}

bool size_is_linear(const SizeExpr *e) {
    bool all = e->op <= SIZE_given || e->op == SIZE_add || e->op == SIZE_mul;
    for (int i = 0; i < e->n; i++) all = all && size_is_linear(e->parts[i]);
    return all;
}

bool size_solve(const SizeExpr *e, int symbol, int64_t size, int64_t *values, int64_t *out) {
    int64_t at0, at1, step;
    const SizeValues given = {.symbols = values};
    values[symbol] = 0;
    if (!size_eval(e, &given, &at0)) return false;
    values[symbol] = 1;
    if (!size_eval(e, &given, &at1) || !add_ok(at1, -at0, &step) || !step) return false;
    *out = (size - at0) / step;
    return true;
}
