/* expression_parse.c: the text of an expression:
 *
 *   compare = sum [("<" | "<=" | ">" | ">=" | "==" | "!=") sum]
 *   sum     = product {("+" | "-") product}          product = sign {("*" | "/") sign}
 *   sign    = {"-" | "+"} part            (signs before a number are its own: -1 is one number)
 *   part    = number | name | name "(" compare {"," compare} ")" | "(" compare ")"
 *
 * A name is a parameter, before "(" a function; a number is an int, or, with a point or an exponent, a float. What each
 * operator does is the function of expression_call that it stands for. Errors name the column. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ir/expression.h"
#include "runtime/base/error.h"

typedef struct ExprReader {
    Expression *e;
    const char *at;
    int depth;
} ExprReader;

static int read_compare(ExprReader *r);

static int parse_fail(ExprReader *r, const char *what) {
    r->e->at = r->at;
    return expression_fail(r->e, ST_PARSE, "%s", what);
}

static void skip_blanks(ExprReader *r) {
    while (*r->at == ' ' || *r->at == '\t' || *r->at == '\n') r->at++;
}

static bool took(ExprReader *r, const char *token) {
    skip_blanks(r);
    const size_t n = strlen(token);
    if (strncmp(r->at, token, n) != 0) return false;
    r->at += n;
    return true;
}

/* The call's errors are at its name. */
static int call_at(ExprReader *r, const char *place, const char *function, size_t n, const int *in, int n_in) {
    for (int i = 0; i < n_in; i++)
        if (in[i] < 0) return -1;
    r->e->at = place;
    return expression_call(r->e, function, n, in, n_in);
}

static int operation(ExprReader *r, const char *place, const char *function, int x, int y) {
    return call_at(r, place, function, strlen(function), (const int[]){x, y}, 2);
}

/* One that int64 does not hold is an error: as a float it would be another number. */
static int int_number(ExprReader *r, const char *digits, const char *place) {
    errno = 0;
    const int64_t value = strtoll(digits, NULL, 10);
    r->e->at = place;
    if (errno == ERANGE) return expression_fail(r->e, ST_PARSE, "the int %s does not fit into i64", digits);
    return expression_number(r->e, A_INT(value));
}

/* strtod would take hexadecimals, infinities and a locale's comma. */
static int read_number(ExprReader *r, bool negative, const char *place) {
    char digits[64] = "-";
    const size_t sign = negative;
    size_t n = sign;
    bool is_float = false;
    const char *p = r->at;
    while (n < sizeof digits - 1 && (isdigit((unsigned char)*p) || *p == '.' || *p == 'e' || *p == 'E' ||
                                     ((*p == '-' || *p == '+') && n > sign && (p[-1] == 'e' || p[-1] == 'E')))) {
        is_float |= !isdigit((unsigned char)*p);
        digits[n++] = *p++;
    }
    digits[n] = '\0';
    char *end;
    const double value = strtod(digits, &end);
    if (end != digits + n || n == sizeof digits - 1) return parse_fail(r, "a number is not one");
    r->at = p;
    if (!is_float) return int_number(r, digits, place);
    r->e->at = place;
    return expression_number(r->e, A_FLOAT(value));
}

static int read_arguments(ExprReader *r, const char *name, size_t n) {
    int in[MAX_EXPR_ARGS], n_in = 0;
    do {
        if (n_in == MAX_EXPR_ARGS) return parse_fail(r, "too many arguments");
        if ((in[n_in++] = read_compare(r)) < 0) return -1;
    } while (took(r, ","));
    if (!took(r, ")")) return parse_fail(r, "',' or ')' is missing here");
    return call_at(r, name, name, n, in, n_in);
}

static int name_or_call(ExprReader *r) {
    const char *const name = r->at;
    while (isalnum((unsigned char)*r->at) || *r->at == '_') r->at++;
    const size_t n = (size_t)(r->at - name);
    if (took(r, "(")) return read_arguments(r, name, n);
    r->e->at = name;
    return expression_param(r->e, name, n);
}

static bool at_number(const ExprReader *r) { return isdigit((unsigned char)*r->at) || *r->at == '.'; }

static int read_part(ExprReader *r) {
    if (isalpha((unsigned char)*r->at) || *r->at == '_') return name_or_call(r);
    if (!took(r, "("))
        return parse_fail(r, *r->at ? "a number, a name or '(' should be here" : "the text ends too soon");
    const int inside = read_compare(r);
    if (inside < 0) return -1;
    return took(r, ")") ? inside : parse_fail(r, "')' is missing here");
}

static int read_sign(ExprReader *r) {
    bool negative = false;
    skip_blanks(r);
    const char *const place = r->at;
    for (;;) {
        if (took(r, "-"))
            negative = !negative;
        else if (!took(r, "+"))
            break;
    }
    if (at_number(r)) return read_number(r, negative, place);
    const int part = read_part(r);
    return negative ? call_at(r, place, "neg", 3, &part, 1) : part;
}

typedef struct ExprSign {
    const char *sign, *function;
} ExprSign;

static const char *consume_sign(ExprReader *r, const ExprSign *signs, int n) {
    for (int i = 0; i < n; i++)
        if (took(r, signs[i].sign)) return signs[i].function;
    return NULL;
}

/* a / b * c: from the left. */
static int read_chain(ExprReader *r, const ExprSign *signs, int n, int (*operand)(ExprReader *r)) {
    int x = operand(r);
    while (x >= 0) {
        skip_blanks(r);
        const char *const place = r->at, *const function = consume_sign(r, signs, n);
        if (!function) break;
        x = operation(r, place, function, x, operand(r));
    }
    return x;
}

static int read_product(ExprReader *r) {
    static const ExprSign signs[] = {{"*", "mul"}, {"/", "div"}};
    return read_chain(r, signs, COUNT_OF(signs), read_sign);
}

static int read_sum(ExprReader *r) {
    static const ExprSign signs[] = {{"+", "add"}, {"-", "sub"}};
    return read_chain(r, signs, COUNT_OF(signs), read_product);
}

static int read_compare(ExprReader *r) {
    static const ExprSign signs[] = {{"<=", "le"}, {">=", "ge"}, {"==", "eq"}, {"!=", "ne"}, {"<", "lt"}, {">", "gt"}};
    if (++r->depth > MAX_EXPR_DEPTH) return parse_fail(r, "too many parentheses are open");
    int x = read_sum(r);
    skip_blanks(r);
    const char *const place = r->at, *const function = x < 0 ? NULL : consume_sign(r, signs, COUNT_OF(signs));
    if (function) x = operation(r, place, function, x, read_sum(r));
    r->depth--;
    return x;
}

Status expression_parse(Expression *e, const char *text) {
    ExprReader r = {.e = e, .at = text};
    e->text = e->at = text;
    e->root = read_compare(&r);
    skip_blanks(&r);
    if (e->root >= 0 && *r.at) parse_fail(&r, "the expression has ended before");
    e->at = NULL;
    return error_pending();
}
