/* Texts of others in what we say: escaped in errors, logs and JSON (runtime/base/escape.h). */
#include <stdio.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/base/text.h"
#include "tests/unit/suite.h"

START_TEST(lengths_are_those_of_utf8) {
    static const struct {
        const char *text;
        int n;
    } rows[] = {{"a", 1},
                {"\xC3\xA9", 2},
                {"\xE2\x82\xAC", 3},
                {"\xF0\x9F\x98\x80", 4},
                {"", 0},
                {"\x80", 0},
                {"\xC0\x80", 0},
                {"\xC1\xBF", 0},
                {"\xE0\x9F\xBF", 0},
                {"\xE2\x82", 0},
                {"\xED\xA0\x80", 0},
                {"\xF0\x8F\xBF\xBF", 0},
                {"\xF4\x90\x80\x80", 0},
                {"\xF5\x80\x80\x80", 0},
                {"\xE2\x28\xA1", 0},
                {"\xF4\x8F\xBF\xBF", 4},
                {"\xED\x9F\xBF", 3},
                {"\xFF", 0}};
    for (int i = 0; i < COUNT_OF(rows); i++) ck_assert_msg(utf8_length(rows[i].text) == rows[i].n, "row %d", i);
}
END_TEST

static void expect_shown(const char *text, const char *keep, const char *shown) {
    char out[64];
    escape_text(out, sizeof out, text, keep);
    ck_assert_str_eq(out, shown);
}

START_TEST(what_moves_a_cursor_is_spelt) {
    expect_shown("w\xC3\xA9\x1B[2J\r\x7F", "", "w\xC3\xA9\\x1b[2J\\x0d\\x7f");
    expect_shown("a\nb\tc", "", "a\\nb\\tc");
    expect_shown("a\nb\tc\r", "\n\t", "a\nb\tc\\x0d");
    expect_shown("\xC2\x9B"
                 "31m",
                 "",
                 "\\xc2\\x9b"
                 "31m"); /* a control sequence of C1 */
    expect_shown("\xE2\x82", "", "\\xe2\\x82");
    expect_shown("a\\x1b", "", "a\\\\x1b"); /* which is not "a" and an escape */
    expect_shown("a\\nb\n", "\n", "a\\\\nb\n");
}
END_TEST

START_TEST(a_character_is_kept_whole_or_not_at_all) {
    char out[4];
    escape_text(out, sizeof out, "ab\xE2\x82\xAC", "");
    ck_assert_str_eq(out, "ab");
    escape_text(out, sizeof out, "abc\x01", "");
    ck_assert_str_eq(out, "abc");
}
END_TEST

START_TEST(errors_have_one_line) {
    error_raise(ST_ARGUMENT, "no '%s'", "a\nsinter error: b\x1B[0m");
    ck_assert_str_eq(error_slot()->message, "no 'a\\nsinter error: b\\x1b[0m'");
    error_add_path("f\x01");
    ck_assert_ptr_nonnull(strstr(error_slot()->message, " in 'f\\x01'"));
    error_clear();
    error_raise_lines(ST_ARGUMENT, "cc: ", "one\ntwo\x07");
    ck_assert_str_eq(error_slot()->message, "cc: one\ntwo\\x07");
    error_clear();
}
END_TEST

static char said[256];
static void keep_line(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level, (void)topic;
    snprintf(said, sizeof said, "%s", line);
}

START_TEST(a_name_begins_no_line_of_a_log) {
    log_handler_set(keep_line, NULL);
    LOG(general, WARNING, "function '%s'", "f\nsinter error: general: gone\xFF");
    log_handler_set(NULL, NULL);
    ck_assert_str_eq(said, "function 'f\\nsinter error: general: gone\\xff'");
}
END_TEST

static const Json *parse(Arena *arena, const char *text) {
    const Json *value;
    return json_parse(arena, text, strlen(text), &value) == ST_OK ? value : NULL;
}

START_TEST(json_is_json_whatever_the_name) {
    Arena *const arena = arena_new();
    Text text = {0};
    text_json_string(&text, "a\xFF"
                            "b\x1B\"\n\xC3\xA9");
    const Json *const value = parse(arena, text_str(&text));
    ck_assert_str_eq(json_string(value), "a\xEF\xBF\xBD"
                                         "b\x1B\"\n\xC3\xA9");
    ck_assert_ptr_null(parse(arena, "\"\xFF\"")); /* and what is none is not read */
    ck_assert_int_eq(error_pending(), ST_PARSE);
    error_clear();
    text_free(&text);
    arena_free(arena);
}
END_TEST

int main(void) {
    TCase *const all = tcase_create("escape");
    tcase_add_test(all, lengths_are_those_of_utf8);
    tcase_add_test(all, what_moves_a_cursor_is_spelt);
    tcase_add_test(all, a_character_is_kept_whole_or_not_at_all);
    tcase_add_test(all, errors_have_one_line);
    tcase_add_test(all, a_name_begins_no_line_of_a_log);
    tcase_add_test(all, json_is_json_whatever_the_name);
    return suite_run("escape", all);
}
