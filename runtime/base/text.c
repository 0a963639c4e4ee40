/* text.c: see text.h. */
#include "runtime/base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/alloc.h"
#include "runtime/base/escape.h"

static bool reserve(Text *text, size_t more) {
    if (text->n + more + 1 <= text->capacity) return true;
    size_t capacity = text->capacity ? text->capacity * 2 : 256;
    while (capacity < text->n + more + 1) capacity *= 2;
    char *const block = mem_resize(text->at, capacity);
    if (!block) return false;
    text->at = block;
    text->capacity = capacity;
    return true;
}

void text_put(Text *text, const char *bytes, size_t n) {
    if (!reserve(text, n)) return;
    if (n) memcpy(text->at + text->n, bytes, n);
    text->n += n;
    text->at[text->n] = '\0';
}

void text_puts(Text *text, const char *string) { text_put(text, string, strlen(string)); }

void text_printf(Text *text, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length >= 0 && reserve(text, (size_t)length)) {
        vsnprintf(text->at + text->n, (size_t)length + 1, format, again);
        text->n += (size_t)length;
    }
    va_end(again);
}

/* Bytes that are no UTF-8 are no JSON either: each becomes U+FFFD. */
void text_json_string(Text *text, const char *string) {
    text_puts(text, "\"");
    for (const char *p = string; *p;) {
        const unsigned char c = (unsigned char)*p;
        const int n = utf8_length(p);
        if (!n)
            text_puts(text, "\xEF\xBF\xBD");
        else if (c == '"' || c == '\\')
            text_printf(text, "\\%c", c);
        else if (c == '\n')
            text_puts(text, "\\n");
        else if (c == '\t')
            text_puts(text, "\\t");
        else if (c < 0x20)
            text_printf(text, "\\u%04x", c);
        else
            text_put(text, p, (size_t)n);
        p += n ? n : 1;
    }
    text_puts(text, "\"");
}

void text_quoted(Text *text, const char *string) {
    text_puts(text, "'");
    for (const char *c = string; *c; c++) {
        if (*c == '\n')
            text_puts(text, "\\n");
        else
            text_printf(text, *c == '\'' || *c == '\\' ? "\\%c" : "%c", *c);
    }
    text_puts(text, "'");
}

bool text_begins_hex(const char *string, size_t n) { return strspn(string, "0123456789abcdef") >= n; }

const char *text_str(const Text *text) { return text->at ? text->at : ""; }

void text_free(Text *text) {
    mem_free(text->at);
    *text = (Text){0};
}

void text_double(Text *text, double value) {
    if (isnan(value)) {
        text_puts(text, "nan");
        return;
    }
    if (isinf(value)) {
        text_puts(text, value < 0 ? "-inf" : "inf");
        return;
    }
    char digits[40];
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) break;
    }
    text_puts(text, digits);
    if (!strpbrk(digits, ".en")) text_puts(text, ".0");
}
