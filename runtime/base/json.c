/* json.c: recursive descent; children of a list are collected in a growing array in the arena. */
#include "runtime/base/json.h"

#include <errno.h>
#include <stdlib.h>

#include "runtime/base/error.h"
#include "runtime/base/escape.h"

enum { MAX_DEPTH = 64 };

typedef struct JsonReader {
    Arena *arena;
    const char *start, *at, *end;
    int depth;
} JsonReader;

static Status read_value(JsonReader *r, Json *out);

static Status json_fail(const JsonReader *r, const char *what) {
    return error_raise(ST_PARSE, "JSON, byte %zu: %s", (size_t)(r->at - r->start), what);
}

static void skip_space(JsonReader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) r->at++;
}

static bool accept(JsonReader *r, const char *token) {
    const size_t n = strlen(token);
    skip_space(r);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, token, n)) return false;
    r->at += n;
    return true;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool read_hex4(JsonReader *r, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < 4; i++) {
        const int digit = r->at < r->end ? hex_digit(*r->at++) : -1;
        if (digit < 0) return false;
        *out = *out * 16 + (uint32_t)digit;
    }
    return true;
}

static char *put_utf8(char *to, uint32_t code) {
    if (code < 0x80) return *to++ = (char)code, to;
    if (code < 0x800) {
        *to++ = (char)(0xC0 | code >> 6);
    } else {
        if (code < 0x10000) {
            *to++ = (char)(0xE0 | code >> 12);
        } else {
            *to++ = (char)(0xF0 | code >> 18);
            *to++ = (char)(0x80 | (code >> 12 & 63));
        }
        *to++ = (char)(0x80 | (code >> 6 & 63));
    }
    *to++ = (char)(0x80 | (code & 63));
    return to;
}

static Status read_unicode(JsonReader *r, char **to) {
    uint32_t code, low;
    if (!read_hex4(r, &code) || !code) return json_fail(r, "bad \\u escape");
    if (code >= 0xDC00 && code < 0xE000) return json_fail(r, "a lone surrogate");
    if (code >= 0xD800 && code < 0xDC00) {
        if (r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u') return json_fail(r, "a lone surrogate");
        r->at += 2;
        if (!read_hex4(r, &low) || low < 0xDC00 || low >= 0xE000) return json_fail(r, "a lone surrogate");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    *to = put_utf8(*to, code);
    return ST_OK;
}

static Status read_escape(JsonReader *r, char **to) {
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    if (r->at == r->end) return json_fail(r, "an escape is cut off");
    const char c = *r->at++;
    if (c == 'u') return read_unicode(r, to);
    const char *found = c ? strchr(from, c) : NULL;
    if (!found) return json_fail(r, "unknown escape");
    *(*to)++ = into[found - from];
    return ST_OK;
}

/* The text need not end in a NUL, but a string ends in a quote, which is no part of a character. */
static Status read_character(JsonReader *r, char **to) {
    const int n = utf8_length(r->at);
    if (!n) return json_fail(r, "a string is no UTF-8");
    memcpy(*to, r->at, (size_t)n);
    *to += n, r->at += n;
    return ST_OK;
}

/* Decoded text is never longer than the source. */
static Status read_string(JsonReader *r, const char **out) {
    const char *close = r->at;
    while (close < r->end && *close != '"') close += *close == '\\' ? 2 : 1;
    if (close >= r->end) return json_fail(r, "a string is not closed");
    char *to = arena_alloc(r->arena, (size_t)(close - r->at) + 1);
    if (!to) return ST_MEMORY;
    *out = to;
    while (*r->at != '"') {
        if ((unsigned char)*r->at < 0x20) return json_fail(r, "a control character in a string");
        if (*r->at == '\\') {
            r->at++;
            TRY(read_escape(r, &to));
        } else {
            TRY(read_character(r, &to));
        }
    }
    *to = 0;
    r->at++;
    return ST_OK;
}

static bool is_digit(const JsonReader *r) { return r->at < r->end && *r->at >= '0' && *r->at <= '9'; }

static Status read_digits(JsonReader *r) {
    if (!is_digit(r)) return json_fail(r, "expected a value");
    while (is_digit(r)) r->at++;
    return ST_OK;
}

static Status json_number(JsonReader *r, Json *out) {
    const char *begin = r->at;
    char copy[64];
    if (*r->at == '-') r->at++;
    if (is_digit(r) && *r->at == '0')
        r->at++; /* no leading zeros */
    else
        TRY(read_digits(r));
    out->is_int = true;
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        out->is_int = false;
        TRY(read_digits(r));
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        out->is_int = false;
        if (r->at < r->end && (*r->at == '+' || *r->at == '-')) r->at++;
        TRY(read_digits(r));
    }
    const size_t n = (size_t)(r->at - begin);
    if (n >= sizeof copy) return json_fail(r, "a number is too long");
    memcpy(copy, begin, n);
    copy[n] = 0;
    out->kind = JSON_number;
    out->number = strtod(copy, NULL);
    if (!out->is_int) return ST_OK;
    errno = 0;
    out->i = strtoll(copy, NULL, 10);
    out->is_int = errno == 0;
    return ST_OK;
}

static Status read_item(JsonReader *r, bool object, Json *out) {
    const char *key = NULL;
    if (object) {
        if (!accept(r, "\"")) return json_fail(r, "expected a key");
        TRY(read_string(r, &key));
        if (!accept(r, ":")) return json_fail(r, "expected ':'");
    }
    TRY(read_value(r, out));
    out->key = key;
    return ST_OK;
}

static Status read_items(JsonReader *r, bool object, Json *out) {
    VEC(Json) items = {0};
    const char *close = object ? "}" : "]";
    out->kind = object ? JSON_object : JSON_list;
    if (++r->depth > MAX_DEPTH) return json_fail(r, "nested too deeply");
    while (!accept(r, close)) {
        Json item;
        if (items.n && !accept(r, ",")) return json_fail(r, "expected ','");
        TRY(read_item(r, object, &item));
        const int before = items.n;
        VEC_PUSH(r->arena, &items, item);
        if (items.n == before) return ST_MEMORY;
    }
    r->depth--;
    out->items = items.at;
    out->n = items.n;
    return ST_OK;
}

static Status read_value(JsonReader *r, Json *out) {
    *out = (Json){.kind = JSON_null};
    if (accept(r, "null")) return ST_OK;
    if (accept(r, "{")) return read_items(r, true, out);
    if (accept(r, "[")) return read_items(r, false, out);
    if (accept(r, "\"")) return out->kind = JSON_string, read_string(r, &out->string);
    if (accept(r, "true")) return *out = (Json){.kind = JSON_bool, .i = 1}, ST_OK;
    if (accept(r, "false")) return *out = (Json){.kind = JSON_bool}, ST_OK;
    if (r->at == r->end) return json_fail(r, "the text ends early");
    return json_number(r, out);
}

Status json_parse(Arena *arena, const char *text, size_t n, const Json **out) {
    JsonReader r = {.arena = arena, .start = text, .at = text, .end = text + n};
    Json *root = ARENA_NEW(arena, Json);
    if (!root) return ST_MEMORY;
    TRY(read_value(&r, root));
    skip_space(&r);
    if (r.at != r.end) return json_fail(&r, "text after the value");
    *out = root;
    return ST_OK;
}

const Json *json_get(const Json *object, const char *key) {
    if (!object || !key || object->kind != JSON_object) return NULL;
    for (int i = 0; i < object->n; i++)
        if (!strcmp(object->items[i].key, key)) return &object->items[i];
    return NULL;
}

const char *json_string(const Json *value) { return value && value->kind == JSON_string ? value->string : NULL; }
