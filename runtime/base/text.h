/* text.h: a growable string for everything that prints. Zero-initialised means empty; text_free releases it.
 * When memory is out, printing stops silently and ST_MEMORY is pending; text_str is then what fitted. */
#ifndef SINTER_RUNTIME_BASE_TEXT_H
#define SINTER_RUNTIME_BASE_TEXT_H
#include "runtime/base/base.h"

typedef struct Text {
    char *at; /* NUL-terminated once anything was printed */
    size_t n, capacity;
} Text;

void text_printf(Text *text, const char *format, ...) PRINTF_LIKE(2, 3);
void text_put(Text *text, const char *bytes, size_t n);
void text_puts(Text *text, const char *string);
bool text_begins_hex(const char *string, size_t n);    /* in n digits, lower case */
void text_json_string(Text *text, const char *string); /* with quotes and escapes */
void text_quoted(Text *text, const char *string);      /* in single quotes, on one line; reader_string reads it */
const char *text_str(const Text *text);                /* never NULL */
void text_free(Text *text);
/* Shortest decimal text that reads back to the same double: "1.5", "inf", "-inf", "nan"; always has . e or a letter. */
void text_double(Text *text, double value);

#endif
