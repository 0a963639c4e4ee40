/* schema.c: a recursive-descent reader of ATen's schema grammar, as far as the table uses it, and its printer.
 *
 *   schema = name "(" [param {"," param}] ")" "->" result        param = "*" | type name ["=" default]
 *   type   = word ["(" alias ")"] ["[" [int] "]"] ["?"]          result = type | "(" type {"," type} ")" | "()" */
#include "ir/schema.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/error.h"
#include "runtime/base/text_reader.h"

typedef struct SchemaReader {
    const char *start, *at;
    Schema *out;
    bool keyword;
} SchemaReader;

typedef struct ParamTypeRow {
    const char *text;
    ParamType type;
} ParamTypeRow;

/* SymInt is read as int, and int[2] as int[1]: one int stands for all of the list. */
static const ParamTypeRow types[] = {
    {"Tensor", PT_tensor},
    {"Tensor?", PT_tensor_opt},
    {"Tensor[]", PT_tensors},
    {"Tensor?[]", PT_tensors_opt},
    {"Scalar", PT_scalar},
    {"Scalar?", PT_scalar_opt},
    {"int", PT_int},
    {"int?", PT_int_opt},
    {"int[]", PT_ints},
    {"int[]?", PT_ints_opt},
    {"int[1]", PT_int1},
    {"int[1]?", PT_int1_opt},
    {"bool[]", PT_ints},
    {"float", PT_float},
    {"float?", PT_float_opt},
    {"float[]?", PT_floats_opt},
    {"Scalar[]", PT_scalars},
    {"bool", PT_bool},
    {"bool?", PT_bool_opt},
    {"SymBool", PT_bool}, /* of results */
    {"str", PT_string},
    {"str?", PT_string_opt},
    {"ScalarType", PT_dtype},
    {"ScalarType?", PT_dtype_opt},
    {"Device?", PT_device_opt},
    {"Device", PT_device_opt},
    {"Layout?", PT_layout_opt},
    {"MemoryFormat?", PT_memory_format_opt},
    {"MemoryFormat", PT_memory_format_opt},
    {"Generator?", PT_generator_opt},
};

typedef struct EnumRow {
    const char *name;
    int value;
} EnumRow;
static const EnumRow formats[] = {{"contiguous_format", MF_contiguous}, {"preserve_format", MF_preserve},
                                  {"channels_last", MF_channels_last},  {"channels_last_3d", MF_channels_last_3d},
                                  {"contiguous", MF_contiguous},        {"preserve", MF_preserve}};
static const EnumRow words[] = {{"Mean", REDUCTION_mean}, {"Sum", REDUCTION_sum}, {"None_", 0}, {"strided", 0}};

const char *param_type_name(ParamType type) {
    for (int i = 0; i < COUNT_OF(types); i++)
        if (types[i].type == type) return types[i].text;
    return "?";
}

bool param_type_optional(ParamType type) {
    const char *name = param_type_name(type);
    return name[strlen(name) - 1] == '?';
}

int memory_format_find(const char *name, size_t n) {
    for (int i = 0; i < COUNT_OF(formats); i++)
        if (strlen(formats[i].name) == n && !memcmp(formats[i].name, name, n)) return formats[i].value;
    return -1;
}

const char *memory_format_name(int64_t format) {
    return format >= 0 && format <= MF_channels_last_3d ? formats[format].name : NULL;
}

static Status schema_fail(const SchemaReader *r, const char *what) {
    return error_raise(ST_PARSE, "schema \"%s\", column %d: %s", r->start, (int)(r->at - r->start) + 1, what);
}

static void skip_space(SchemaReader *r) {
    while (*r->at == ' ') r->at++;
}

static bool accept(SchemaReader *r, const char *token) {
    skip_space(r);
    const size_t n = strlen(token);
    if (strncmp(r->at, token, n)) return false;
    r->at += n;
    return true;
}

static Status schema_expect(SchemaReader *r, const char *token) {
    return accept(r, token) ? ST_OK : schema_fail(r, "a punctuation mark is missing here");
}

/* Copies text into the caller's room; the room is large enough by contract. */
static const char *keep(SchemaReader *r, const char *from, size_t n) {
    char *to = r->out->text + r->out->text_used;
    memcpy(to, from, n);
    to[n] = 0;
    r->out->text_used += n + 1;
    return to;
}

static Status read_word(SchemaReader *r, const char **out, size_t *n) {
    skip_space(r);
    const char *begin = r->at;
    while (is_word_char(*r->at)) r->at++;
    if (r->at == begin) return schema_fail(r, "a word is missing here");
    *out = begin;
    *n = (size_t)(r->at - begin);
    return ST_OK;
}

static void append_text(char *text, size_t capacity, const char *more, size_t n) {
    const size_t used = strlen(text);
    if (used + n + 1 > capacity) return;
    memcpy(text + used, more, n);
    text[used + n] = 0;
}

static Status read_alias(SchemaReader *r, const char **out) {
    *out = "";
    if (*r->at != '(') return ST_OK;
    const char *const close = strchr(r->at, ')');
    if (!close) return schema_fail(r, "an alias mark is not closed");
    *out = keep(r, r->at + 1, (size_t)(close - r->at) - 1);
    r->at = close + 1;
    return ST_OK;
}

/* "[2]?"; in normal form a length is 1, since an int may stand for a list of any, or left out: of bools. */
static Status read_suffix(SchemaReader *r, char *normal, size_t capacity, const char **out) {
    const char *const begin = r->at;
    while (*r->at == '?' || *r->at == '[') {
        if (*r->at == '?') {
            append_text(normal, capacity, "?", 1), r->at++;
            continue;
        }
        const bool one = r->at[1] != ']' && !strcmp(normal, "int");
        const char *close = strchr(r->at, ']');
        if (!close) return schema_fail(r, "a list type is not closed");
        append_text(normal, capacity, one ? "[1]" : "[]", one ? 3 : 2);
        r->at = close + 1;
    }
    *out = r->at == begin ? "" : keep(r, begin, (size_t)(r->at - begin));
    return ST_OK;
}

/* The type as written and as one of `types`: no alias marks, int for SymInt. */
static Status read_type(SchemaReader *r, Param *out) {
    const char *word;
    size_t n;
    char normal[32] = "";
    TRY(read_word(r, &word, &n));
    out->word = keep(r, word, n);
    out->symbolic = !strcmp(out->word, "SymInt");
    if (out->symbolic) word = "int", n = 3;
    append_text(normal, sizeof normal, word, n);
    TRY(read_alias(r, &out->alias));
    TRY(read_suffix(r, normal, sizeof normal, &out->suffix));
    for (int i = 0; i < COUNT_OF(types); i++)
        if (!strcmp(types[i].text, normal)) return out->type = types[i].type, ST_OK;
    return schema_fail(r, "an unknown type ends here");
}

static Status default_list(SchemaReader *r, Arg *out) {
    while ((uintptr_t)(r->out->text + r->out->text_used) % sizeof(int64_t)) r->out->text_used++;
    int64_t *list = (int64_t *)(void *)(r->out->text + r->out->text_used);
    int n = 0;
    while (!accept(r, "]")) {
        char *end;
        skip_space(r);
        list[n++] = strtoll(r->at, &end, 10);
        if (end == r->at || n > 4) return schema_fail(r, "a default list holds at most four ints");
        r->at = end;
        accept(r, ",");
    }
    r->out->text_used += sizeof(int64_t) * (size_t)n;
    *out = A_INTS(list, n);
    return ST_OK;
}

static Status default_number(SchemaReader *r, ParamType type, Arg *out) {
    char *end;
    const double value = strtod(r->at, &end);
    if (end == r->at) return schema_fail(r, "an unknown default");
    const size_t digits = strspn(r->at + (*r->at == '-'), "0123456789") + (*r->at == '-');
    const bool is_whole = digits == (size_t)(end - r->at), wants_float = type == PT_float || type == PT_float_opt;
    errno = 0;
    *out = is_whole && !wants_float ? A_INT(strtoll(r->at, NULL, 10)) : A_FLOAT(value);
    if (errno == ERANGE && out->kind == ARG_int) return schema_fail(r, "a default does not fit into 64 bits");
    r->at = end;
    return ST_OK;
}

static Status read_default(SchemaReader *r, ParamType type, Arg *out) {
    if (accept(r, "[")) return default_list(r, out);
    if (accept(r, "True")) return *out = A_BOOL(1), ST_OK;
    if (accept(r, "False")) return *out = A_BOOL(0), ST_OK;
    if (accept(r, "None")) return *out = A_NONE, ST_OK;
    if (*r->at == '"' || *r->at == '\'') {
        const char quote = *r->at++, *const close = strchr(r->at, quote);
        if (!close) return schema_fail(r, "a string is not closed");
        *out = A_STR(keep(r, r->at, (size_t)(close - r->at)));
        r->at = close + 1;
        return ST_OK;
    }
    if (*r->at == '-' || (*r->at >= '0' && *r->at <= '9')) return default_number(r, type, out);
    const char *word;
    size_t n;
    TRY(read_word(r, &word, &n));
    int value = memory_format_find(word, n);
    for (int i = 0; i < COUNT_OF(words); i++)
        if (strlen(words[i].name) == n && !memcmp(words[i].name, word, n)) value = words[i].value;
    if (value < 0) return schema_fail(r, "an unknown default ends here");
    *out = A_INT(value);
    return ST_OK;
}

static Status read_param(SchemaReader *r) {
    Schema *s = r->out;
    if (accept(r, "*")) return r->keyword = true, ST_OK;
    if (s->n_params == MAX_ARGS) return schema_fail(r, "too many parameters");
    Param *param = &s->params[s->n_params];
    *param = (Param){.keyword = r->keyword};
    const char *word;
    size_t n;
    TRY(read_type(r, param));
    TRY(read_word(r, &word, &n));
    param->name = keep(r, word, n);
    if (accept(r, "=")) TRY(read_default(r, param->type, &param->fallback));
    s->n_params++;
    return ST_OK;
}

static Status read_result(SchemaReader *r) {
    Schema *s = r->out;
    if (s->n_out == MAX_OUTS) return schema_fail(r, "too many results");
    Param *const result = &s->results[s->n_out++];
    *result = (Param){.name = ""};
    TRY(read_type(r, result));
    if (result->type == PT_tensors) s->returns_list = true;
    if (*r->at != ' ' || !is_word_char(r->at[1])) return ST_OK;
    const char *word; /* a result's name, as in "Tensor values" */
    size_t n;
    TRY(read_word(r, &word, &n));
    result->name = keep(r, word, n);
    return ST_OK;
}

static Status read_results(SchemaReader *r) {
    TRY(schema_expect(r, "->"));
    if (!accept(r, "(")) return skip_space(r), read_result(r);
    while (!accept(r, ")")) {
        skip_space(r);
        TRY(read_result(r));
        accept(r, ",");
    }
    return ST_OK;
}

static Status read_name(SchemaReader *r) {
    Schema *s = r->out;
    const char *word;
    size_t n;
    s->name_space = "aten";
    s->overload = "";
    TRY(read_word(r, &word, &n));
    if (accept(r, "::")) {
        s->name_space = keep(r, word, n);
        TRY(read_word(r, &word, &n));
    }
    s->base = keep(r, word, n);
    if (*r->at == '.') {
        r->at++;
        TRY(read_word(r, &word, &n));
        s->overload = keep(r, word, n);
    }
    return ST_OK;
}

Status schema_parse(const char *schema, Schema *out) {
    SchemaReader r = {.start = schema, .at = schema, .out = out};
    out->n_params = out->n_out = 0;
    out->returns_list = false;
    out->text_used = 0;
    TRY(read_name(&r));
    TRY(schema_expect(&r, "("));
    while (!accept(&r, ")")) {
        TRY(read_param(&r));
        if (!accept(&r, ",") && *r.at != ')') return schema_fail(&r, "',' or ')' is missing here");
    }
    return read_results(&r);
}

/* printing ------------------------------------------------------------------------------------ */

/* All digits, and a point: 1.0000000000000001e-05, 0.01, 0. */
static void float_print(Text *text, double value) {
    char digits[32];
    snprintf(digits, sizeof digits, "%.17g", value);
    text_puts(text, digits);
    if (!strpbrk(digits, ".en")) text_puts(text, ".");
}

static void default_print(Text *text, const Arg *a) {
    switch (a->kind) {
    case ARG_none:
        text_puts(text, "None");
        return;
    case ARG_bool:
        text_puts(text, a->i ? "True" : "False");
        return;
    case ARG_float:
        float_print(text, a->f);
        return;
    case ARG_string:
        text_printf(text, "\"%s\"", a->string);
        return;
    case ARG_ints:
        text_puts(text, "[");
        for (int i = 0; i < a->n; i++) text_printf(text, i ? ", %lld" : "%lld", (long long)a->ints[i]);
        text_puts(text, "]");
        return;
    default:
        text_printf(text, "%lld", (long long)a->i);
    }
}

static void param_print(Text *text, const Param *p) {
    text_puts(text, p->word);
    if (*p->alias) text_printf(text, "(%s)", p->alias);
    text_printf(text, *p->name ? "%s %s" : "%s%s", p->suffix, p->name);
    if (p->fallback.kind == ARG_default) return;
    text_puts(text, "=");
    default_print(text, &p->fallback);
}

void schema_print(Text *text, const Schema *s) {
    text_printf(text, "%s::%s%s%s(", s->name_space, s->base, *s->overload ? "." : "", s->overload);
    for (int i = 0; i < s->n_params; i++) {
        if (i) text_puts(text, ", ");
        if (s->params[i].keyword && !(i && s->params[i - 1].keyword)) text_puts(text, "*, ");
        param_print(text, &s->params[i]);
    }
    const bool single = s->n_out == 1;
    text_puts(text, single ? ") -> " : ") -> (");
    for (int i = 0; i < s->n_out; i++) {
        if (i) text_puts(text, ", ");
        param_print(text, &s->results[i]);
    }
    if (!single) text_puts(text, ")");
}
