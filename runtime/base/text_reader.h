/* text_reader.h: a cursor over NUL-terminated text, for the parsers of what we print. A format says once what stands
 * between its tokens; errors name the format and the line.
 *
 *     TextReader in = {.what = "plan text", .between = BETWEEN_nothing, .start = text, .at = text};
 *     EAT(&in, "steps ");
 *     TRY(reader_count(&in, &first)); */
#ifndef SINTER_RUNTIME_BASE_TEXT_READER_H
#define SINTER_RUNTIME_BASE_TEXT_READER_H
#include "runtime/base/arena.h"

typedef enum Between {
    BETWEEN_nothing,  /* tokens hold their blanks, and are compared letter by letter */
    BETWEEN_blanks,   /* blanks and line ends; a token that ends like a word is a whole word */
    BETWEEN_comments, /* the same, and comments from # or // to the line's end */
} Between;

typedef struct TextReader {
    const char *what; /* "plan text": the first words of an error; NULL: it begins with line and column */
    Between between;
    const char *start, *at;
    const char *counted; /* NULL: nothing; what stands before it has `lines` ends of lines (reader_count_lines) */
    int lines;
} TextReader;

static inline bool is_word_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* To the next token. The others begin with it. */
void reader_skip(TextReader *r);
/* Goes past the token if it is next. */
bool reader_eat(TextReader *r, const char *token);
/* The letters, digits and underscores that are next; n is 0 and the result false if there are none. */
bool reader_word(TextReader *r, const char **word, size_t *n);
Status reader_int(TextReader *r, int64_t *out);
/* 0 to 2^31 - 1 */
Status reader_count(TextReader *r, int *out);
/* What text_quoted wrote, its quotes single or double; a copy in the arena. */
Status reader_string(TextReader *r, Arena *arena, const char **out);
/* The line of `at`, from 1, and if asked for its column. */
int reader_line(const TextReader *r, int *column);
/* The same, and what stands before is not counted again: for a parser that notes the line of everything it reads. */
int reader_count_lines(TextReader *r);
/* How many of the letters from `at` on an error quotes: at most `most`, and none of the next line. */
int reader_quoted(const char *at, int most);
/* ST_PARSE at `at`: "plan text, line 3: ...", or "line 3, column 8: ..." where the text has no name; the error's slot
 * has the place, too. */
Status reader_fail(const TextReader *r, const char *format, ...) PRINTF_LIKE(2, 3);
/* The same of the pending error's message, whatever it was; ST_MEMORY stays. */
Status reader_fail_again(const TextReader *r);
/* "plan text, line 3: expected a count at "..."" */
Status reader_expected(const TextReader *r, const char *what);

#define EAT(reader, token)                                                                                             \
    do {                                                                                                               \
        if (!reader_eat((reader), (token))) return reader_expected((reader), "\"" token "\"");                         \
    } while (0)

#endif
