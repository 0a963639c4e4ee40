/* size_guard.c: reads guards, which are Python: sizes of inputs, numbers, + - * / // % **, max, min, roundings,
 * comparisons, and, or, not. From the loosest: or, and, not, comparison, sum, product, sign, power. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "frontend/import/size_make.h"
#include "runtime/base/error.h"
#include "runtime/base/text_reader.h"

typedef struct SizeGuardReader {
    Arena *arena;
    TextReader in;
    const char *const *paths;
    int n_paths, depth;
} SizeGuardReader;

enum { MOST_GUARD_DEPTH = 64 };
static Status read_any(SizeGuardReader *r, const SizeExpr **out);

static Status guard_refuse(const SizeGuardReader *r) {
    return error_raise(ST_UNSUPPORTED, "the guard %.300s: it can't be read from \"%.*s\" on", r->in.start,
                       reader_quoted(r->in.at, 20), r->in.at);
}

static Status made(const SizeExpr *e, const SizeExpr **out) {
    *out = e;
    return e ? ST_OK : ST_MEMORY;
}

/* The longest path that stands here. */
static int input_at(const SizeGuardReader *r) {
    int best = -1;
    for (int i = 0; i < r->n_paths; i++) {
        const size_t n = r->paths[i] ? strlen(r->paths[i]) : 0;
        if (n && !strncmp(r->in.at, r->paths[i], n) && (best < 0 || n > strlen(r->paths[best]))) best = i;
    }
    return best;
}

/* "L['a'][1]" of *a, whose values the file calls a_0, a_1; *length: of the text. -1: it is none. */
static int variadic_at(const SizeGuardReader *r, int *length) {
    int name = 0, index = 0;
    *length = 0;
    if (sscanf(r->in.at, "L['%*[^']%n'][%*[0-9]%n]%n", &name, &index, length) < 0 || !*length) return -1;
    const char *const digits = r->in.at + name + strlen("'][");
    const int n_digits = index - name - (int)strlen("'][");
    for (int i = 0; i < r->n_paths; i++) {
        const char *const path = r->paths[i];
        if (!path || strncmp(path, r->in.at, (size_t)name) || path[name] != '_') continue;
        if (!strncmp(path + name + 1, digits, (size_t)n_digits) && !strcmp(path + name + 1 + n_digits, "']")) return i;
    }
    return -1;
}

static Status read_of_input(SizeGuardReader *r, const SizeExpr **out) {
    int dim, length;
    int input = input_at(r);
    if (input >= 0)
        length = (int)strlen(r->paths[input]);
    else if ((input = variadic_at(r, &length)) < 0)
        return guard_refuse(r);
    r->in.at += length;
    if (*r->in.at != '.') return made(size_make(r->arena, (SizeExpr){.op = SIZE_given, .value = input}, NULL), out);
    if (!reader_eat(&r->in, ".size()[")) return guard_refuse(r);
    TRY(reader_count(&r->in, &dim));
    if (!reader_eat(&r->in, "]")) return guard_refuse(r);
    return made(size_make(r->arena, (SizeExpr){.op = SIZE_dim, .value = input, .dim = dim}, NULL), out);
}

typedef struct GuardFunction {
    const char *name;
    SizeOp op;
} GuardFunction;
static const GuardFunction guard_functions[] = {
    {"torch.sym_max(", SIZE_max}, {"torch.sym_min(", SIZE_min}, {"max(", SIZE_max}, {"min(", SIZE_min}};

/* Behind "max(". */
static Status read_extreme(SizeGuardReader *r, SizeOp op, const SizeExpr **out) {
    const SizeExpr *next;
    TRY(read_any(r, out));
    while (reader_eat(&r->in, ",")) {
        TRY(read_any(r, &next));
        TRY(made(size_pair(r->arena, op, *out, next), out));
    }
    return reader_eat(&r->in, ")") ? ST_OK : guard_refuse(r);
}

static const GuardFunction guard_roundings[] = {{"torch.sym_float(", SIZE_float}, {"math.trunc(", SIZE_trunc},
                                                {"math.floor(", SIZE_floor},      {"math.ceil(", SIZE_ceil},
                                                {"round(", SIZE_round},           {"torch._sym_sqrt(", SIZE_sqrt},
                                                {"math.sqrt(", SIZE_sqrt}};

static Status read_rounded(SizeGuardReader *r, SizeOp op, const SizeExpr **out) {
    TRY(read_any(r, out));
    if (!reader_eat(&r->in, ")")) return guard_refuse(r);
    return made(size_make(r->arena, (SizeExpr){.op = op, .n = 1}, out), out);
}

/* 3, or 0.5 */
static Status guard_number(SizeGuardReader *r, const SizeExpr **out) {
    char *end, *real_end;
    errno = 0;
    const long long value = strtoll(r->in.at, &end, 10);
    const double real = strtod(r->in.at, &real_end);
    if (real_end == r->in.at || *real_end == '.' || (errno && real_end == end)) return guard_refuse(r);
    r->in.at = real_end;
    if (real_end == end) return made(size_number(r->arena, value), out);
    return made(size_make(r->arena, (SizeExpr){.op = SIZE_real, .real = real}, NULL), out);
}

static Status read_atom(SizeGuardReader *r, const SizeExpr **out) {
    reader_skip(&r->in);
    for (int i = 0; i < COUNT_OF(guard_roundings); i++)
        if (reader_eat(&r->in, guard_roundings[i].name)) return read_rounded(r, guard_roundings[i].op, out);
    for (int i = 0; i < COUNT_OF(guard_functions); i++)
        if (reader_eat(&r->in, guard_functions[i].name)) return read_extreme(r, guard_functions[i].op, out);
    if (reader_eat(&r->in, "(")) {
        TRY(read_any(r, out));
        return reader_eat(&r->in, ")") ? ST_OK : guard_refuse(r);
    }
    if (*r->in.at == 'L') return read_of_input(r, out);
    if (reader_eat(&r->in, "True")) return made(size_number(r->arena, 1), out);
    if (reader_eat(&r->in, "False")) return made(size_number(r->arena, 0), out);
    return guard_number(r, out);
}

static Status read_power(SizeGuardReader *r, const SizeExpr **out) {
    const SizeExpr *by;
    TRY(read_atom(r, out));
    if (!reader_eat(&r->in, "**")) return ST_OK;
    TRY(read_atom(r, &by));
    return made(size_pair(r->arena, SIZE_power, *out, by), out);
}

static Status read_sign(SizeGuardReader *r, const SizeExpr **out) {
    reader_skip(&r->in);
    if (!reader_eat(&r->in, "-")) return read_power(r, out);
    if (++r->depth > MOST_GUARD_DEPTH) return guard_refuse(r);
    TRY(read_sign(r, out));
    r->depth--;
    return made(size_pair(r->arena, SIZE_mul, size_number(r->arena, -1), *out), out);
}

static Status read_product(SizeGuardReader *r, const SizeExpr **out) {
    TRY(read_sign(r, out));
    for (;;) {
        const SizeExpr *by;
        const SizeOp op = reader_eat(&r->in, "//")  ? SIZE_floordiv
                          : reader_eat(&r->in, "/") ? SIZE_truediv
                          : reader_eat(&r->in, "*") ? SIZE_mul
                          : reader_eat(&r->in, "%") ? SIZE_mod
                                                    : SIZE_number;
        if (op == SIZE_number) return ST_OK;
        TRY(read_sign(r, &by));
        TRY(made(size_pair(r->arena, op, *out, by), out));
    }
}

static Status read_sum(SizeGuardReader *r, const SizeExpr **out) {
    TRY(read_product(r, out));
    for (;;) {
        const SizeExpr *next;
        const bool plus = reader_eat(&r->in, "+");
        if (!plus && !reader_eat(&r->in, "-")) return ST_OK;
        TRY(read_product(r, &next));
        if (!plus) TRY(made(size_pair(r->arena, SIZE_mul, size_number(r->arena, -1), next), &next));
        TRY(made(size_pair(r->arena, SIZE_add, *out, next), out));
    }
}

typedef struct Comparison {
    const char *token;
    SizeOp op;
    bool swap;
} Comparison;
static const Comparison comparisons[] = {{"==", SIZE_eq, false}, {"!=", SIZE_ne, false}, {"<=", SIZE_le, false},
                                         {">=", SIZE_le, true},  {"<", SIZE_lt, false},  {">", SIZE_lt, true}};

/* Chains as in Python: a <= b <= c is a <= b and b <= c. */
static Status read_comparison(SizeGuardReader *r, const SizeExpr **out) {
    const SizeExpr *left, *right, *all = NULL;
    TRY(read_sum(r, &left));
    for (int i = 0; i < COUNT_OF(comparisons); i++) {
        const Comparison *const c = &comparisons[i];
        if (!reader_eat(&r->in, c->token)) continue;
        TRY(read_sum(r, &right));
        const SizeExpr *one =
            c->swap ? size_pair(r->arena, c->op, right, left) : size_pair(r->arena, c->op, left, right);
        TRY(made(all ? size_pair(r->arena, SIZE_and, all, one) : one, &all));
        left = right;
        i = -1;
    }
    *out = all ? all : left;
    return ST_OK;
}

static Status read_not(SizeGuardReader *r, const SizeExpr **out) {
    if (!reader_eat(&r->in, "not")) return read_comparison(r, out);
    if (++r->depth > MOST_GUARD_DEPTH) return guard_refuse(r);
    TRY(read_not(r, out));
    r->depth--;
    return made(size_make(r->arena, (SizeExpr){.op = SIZE_not, .n = 1}, out), out);
}

static Status read_and(SizeGuardReader *r, const SizeExpr **out) {
    const SizeExpr *next;
    TRY(read_not(r, out));
    while (reader_eat(&r->in, "and")) {
        TRY(read_not(r, &next));
        TRY(made(size_pair(r->arena, SIZE_and, *out, next), out));
    }
    return ST_OK;
}

static Status read_any(SizeGuardReader *r, const SizeExpr **out) {
    const SizeExpr *next;
    if (++r->depth > MOST_GUARD_DEPTH) return guard_refuse(r);
    TRY(read_and(r, out));
    while (reader_eat(&r->in, "or")) {
        TRY(read_and(r, &next));
        TRY(made(size_pair(r->arena, SIZE_or, *out, next), out));
    }
    r->depth--;
    return ST_OK;
}

Status size_parse_guard(SizeSymbols *all, const char *text, const char *const *paths, int n_paths,
                        const SizeExpr **out) {
    SizeGuardReader r = {.arena = all->arena,
                         .in = {.what = "a guard", .between = BETWEEN_blanks, .start = text, .at = text},
                         .paths = paths,
                         .n_paths = n_paths};
    TRY(read_any(&r, out));
    reader_skip(&r.in);
    return *r.in.at ? guard_refuse(&r) : ST_OK;
}
