/* escape.h: text of others (names of files, of tensors in files, of functions) in what we say: no byte of it moves a
 * terminal's cursor, begins a line of a log or breaks a reader of JSON. */
#ifndef SINTER_RUNTIME_BASE_ESCAPE_H
#define SINTER_RUNTIME_BASE_ESCAPE_H
#include "runtime/base/base.h"

/* How many bytes the character at `at` has, 1 to 4; 0: these bytes are no UTF-8 [RFC 3629], a NUL among them, so no
 * text is read beyond its end. */
int utf8_length(const char *at);
bool utf8_valid(const char *text);
/* Copies `text` with control characters and bytes that are no UTF-8 spelt as \n, \t or \x1b, and a backslash as two, so
 * that what was meant can be read back; characters in `keep` ("\n\t") stay. As many whole characters as fit. */
void escape_text(char *to, size_t capacity, const char *text, const char *keep);

#endif
