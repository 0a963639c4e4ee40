/* escape.c: see escape.h. */
#include "runtime/base/escape.h"

#include <stdio.h>

static bool is_between(unsigned char byte, unsigned low, unsigned high) { return byte >= low && byte <= high; }

/* What may follow a first byte: overlong forms, surrogates and what lies above U+10FFFF are refused by the second. */
static bool is_second(unsigned char first, unsigned char byte) {
    switch (first) {
    case 0xE0:
        return is_between(byte, 0xA0, 0xBF);
    case 0xED:
        return is_between(byte, 0x80, 0x9F);
    case 0xF0:
        return is_between(byte, 0x90, 0xBF);
    case 0xF4:
        return is_between(byte, 0x80, 0x8F);
    default:
        return is_between(byte, 0x80, 0xBF);
    }
}

static int length_by_first(unsigned char first) {
    if (is_between(first, 1, 0x7F)) return 1;
    if (is_between(first, 0xC2, 0xDF)) return 2;
    return is_between(first, 0xE0, 0xEF) ? 3 : is_between(first, 0xF0, 0xF4) ? 4 : 0;
}

int utf8_length(const char *at) {
    const unsigned char *const bytes = (const unsigned char *)at;
    const int n = length_by_first(bytes[0]);
    for (int i = 1; i < n; i++)
        if (i == 1 ? !is_second(bytes[0], bytes[1]) : !is_between(bytes[i], 0x80, 0xBF)) return 0;
    return n;
}

bool utf8_valid(const char *text) {
    for (int n; *text; text += n)
        if ((n = utf8_length(text)) == 0) return false;
    return true;
}

/* C0, DEL and C1. */
static bool is_control(const char *at, int n) {
    const unsigned char first = (unsigned char)at[0], second = n == 2 ? (unsigned char)at[1] : 0;
    return (n == 1 && (first < 0x20 || first == 0x7F)) || (first == 0xC2 && is_between(second, 0x80, 0x9F));
}

/* One byte as an escape, or a character of n bytes as it is; gives what was taken of the text. */
static int spell(const char *at, const char *keep, char shown[8]) {
    const int n = utf8_length(at);
    if (n && *at != '\\' && (!is_control(at, n) || (n == 1 && strchr(keep, *at)))) {
        memcpy(shown, at, (size_t)n);
        shown[n] = '\0';
        return n;
    }
    if (*at == '\n' || *at == '\t' || *at == '\\')
        snprintf(shown, 8, "\\%c", *at == '\n' ? 'n' : *at == '\t' ? 't' : '\\');
    else
        snprintf(shown, 8, "\\x%02x", (unsigned char)*at);
    return 1;
}

void escape_text(char *to, size_t capacity, const char *text, const char *keep) {
    char shown[8];
    size_t used = 0;
    for (int taken; *text; text += taken) {
        taken = spell(text, keep, shown);
        const size_t n = strlen(shown);
        if (used + n >= capacity) break;
        memcpy(to + used, shown, n);
        used += n;
    }
    to[used] = '\0';
}
