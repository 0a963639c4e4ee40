/* text_reader.c: see text_reader.h. Lines are counted only for an error, and where a parser notes them. */
#include "runtime/base/text_reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/error.h"

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

void reader_skip(TextReader *r) {
    if (r->between == BETWEEN_nothing) return;
    for (;;) {
        while (is_blank(*r->at)) r->at++;
        if (r->between != BETWEEN_comments) return;
        if (*r->at != '#' && (r->at[0] != '/' || r->at[1] != '/')) return;
        while (*r->at && *r->at != '\n') r->at++;
    }
}

bool reader_eat(TextReader *r, const char *token) {
    reader_skip(r);
    const size_t n = strlen(token);
    if (strncmp(r->at, token, n)) return false;
    const bool whole = r->between != BETWEEN_nothing && is_word_char(token[n - 1]);
    if (whole && is_word_char(r->at[n])) return false;
    r->at += n;
    return true;
}

bool reader_word(TextReader *r, const char **word, size_t *n) {
    reader_skip(r);
    *word = r->at;
    while (is_word_char(*r->at)) r->at++;
    *n = (size_t)(r->at - *word);
    return *n > 0;
}

/* strtoll would skip more than stands between our tokens. */
static bool read_number(TextReader *r, int64_t low, int64_t high, int64_t *out) {
    char *end;
    reader_skip(r);
    const int64_t value = strtoll(r->at, &end, 10);
    if (end == r->at || is_blank(*r->at) || value < low || value > high) return false;
    r->at = end;
    *out = value;
    return true;
}

Status reader_int(TextReader *r, int64_t *out) {
    return read_number(r, INT64_MIN, INT64_MAX, out) ? ST_OK : reader_expected(r, "an int");
}

Status reader_count(TextReader *r, int *out) {
    int64_t value;
    if (!read_number(r, 0, INT32_MAX, &value)) return reader_expected(r, "a count");
    *out = (int)value;
    return ST_OK;
}

int reader_line(const TextReader *r, int *column) {
    const bool known = r->counted && r->counted <= r->at;
    int line = 1 + (known ? r->lines : 0);
    for (const char *c = known ? r->counted : r->start; c < r->at; c++) line += *c == '\n';
    const char *first = r->at;
    while (first > r->start && first[-1] != '\n') first--;
    if (column) *column = 1 + (int)(r->at - first);
    return line;
}

int reader_count_lines(TextReader *r) {
    const int line = reader_line(r, NULL);
    r->lines = line - 1;
    r->counted = r->at;
    return line;
}

int reader_quoted(const char *at, int most) {
    int n = 0;
    while (n < most && at[n] && at[n] != '\n' && at[n] != '\r') n++;
    return n;
}

Status reader_fail(const TextReader *r, const char *format, ...) {
    char message[900];
    int column;
    const int line = reader_line(r, &column);
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    const TextPosition place = {.line = line, .column = column};
    return r->what ? error_raise_at(place, message, "%s, line %d: ", r->what, line)
                   : error_raise_at(place, message, "line %d, column %d: ", line, column);
}

Status reader_fail_again(const TextReader *r) {
    char said[sizeof error_slot()->message];
    if (error_pending() == ST_MEMORY) return ST_MEMORY;
    memcpy(said, error_slot()->message, sizeof said);
    error_clear();
    return reader_fail(r, "%s", said);
}

Status reader_expected(const TextReader *r, const char *what) {
    if (error_pending()) return error_pending(); /* out of memory: the list lacks what was read */
    return reader_fail(r, "expected %s at \"%.*s\"", what, reader_quoted(r->at, 16), r->at);
}

Status reader_string(TextReader *r, Arena *arena, const char **out) {
    const char quote = *r->at, *from = r->at + 1, *end = from;
    if (quote != '\'' && quote != '"') return reader_expected(r, "a quoted text");
    while (*end && *end != quote) end += *end == '\\' && end[1] ? 2 : 1;
    char *to = arena_alloc(arena, (size_t)(end - from) + 1);
    if (!to) return ST_MEMORY;
    *out = to;
    for (; from < end; from++) {
        const bool escaped = *from == '\\' && from + 1 < end;
        if (escaped) from++;
        *to++ = escaped && *from == 'n' ? '\n' : *from;
    }
    if (!*from) return reader_fail(r, "the text is not closed");
    r->at = from + 1;
    return ST_OK;
}
