/* mutated_text.h: texts with something in them changed at random, for the tests of what reads them. */
#ifndef SINTER_TESTS_UNIT_MUTATED_TEXT_H
#define SINTER_TESTS_UNIT_MUTATED_TEXT_H
#include <string.h>

#include "runtime/base/text.h"

static bool moderate_numbers; /* no size comes of it that fills the machine */

static uint64_t random_state;
static inline uint32_t next_random(uint32_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % below;
}

static inline void print_range(Text *to, const char *text, size_t from, size_t end) {
    text_put(to, text + from, end - from);
}

static inline size_t line_at(const char *text, size_t at) {
    while (at && text[at - 1] != '\n') at--;
    return at;
}
static inline size_t line_end(const char *text, size_t at) { return at + strcspn(text + at, "\n") + 1; }

static inline bool is_digit_at(const char *text, size_t at) { return text[at] >= '0' && text[at] <= '9'; }

/* A number becomes another one: where plans go wrong in earnest. */
static inline void change_number(const char *text, size_t n, Text *to) {
    static const char *const others[] = {"0", "1", "2", "3", "7", "16", "-1", "64", "100", "4096", "s0", "1000000007"};
    size_t at = next_random((uint32_t)n), end;
    while (at < n && !is_digit_at(text, at)) at++;
    for (end = at; end < n && is_digit_at(text, end); end++) {}
    print_range(to, text, 0, at);
    text_puts(to, others[next_random(COUNT_OF(others) - moderate_numbers)]);
    print_range(to, text, end, n);
}

/* A letter, a line gone, a line twice, two lines in each other's place, a word from elsewhere. */
static inline void change(const char *text, Text *to) {
    static const char letters[] = "0123456789 %[](){}<>=,.:;abistpk_-+*\n";
    const size_t n = strlen(text), at = next_random((uint32_t)n), from = line_at(text, at), end = line_end(text, at);
    const size_t other = line_at(text, next_random((uint32_t)n)), other_end = line_end(text, other);
    switch (next_random(8)) {
    case 0:
        print_range(to, text, 0, at);
        text_printf(to, "%c", letters[next_random(sizeof letters - 1)]);
        print_range(to, text, at + 1, n);
        break;
    case 1:
        print_range(to, text, 0, from);
        print_range(to, text, end < n ? end : n, n);
        break;
    case 2:
        print_range(to, text, 0, end);
        print_range(to, text, from, n);
        break;
    case 3: /* a line becomes another one */
        print_range(to, text, 0, from);
        print_range(to, text, other, other_end);
        print_range(to, text, end, n);
        break;
    default:
        change_number(text, n, to);
        break;
    }
}

#endif
