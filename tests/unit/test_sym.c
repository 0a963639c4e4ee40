/* test_sym.c: symbolic integers: canonical forms, decisions and their guards, text. */
#include "ir/sym.h"
#include "runtime/base/error.h"
#include "tests/unit/suite.h"

static Arena *arena;
static SymEnv *env;
static int64_t s0, s1;

static void setup(void) {
    arena = arena_new();
    env = sym_env_new(arena);
    s0 = sym_free(env, 7, 2);
    s1 = sym_free(env, 12, 2);
}
static void teardown(void) { arena_free(arena); }

static void expect_text(int64_t a, const char *wanted) {
    Text text = {0};
    sym_print(env, &text, a);
    ck_assert_str_eq(text_str(&text), wanted);
    text_free(&text);
}

START_TEST(plain_numbers_need_no_environment) {
    ck_assert_int_eq(sym_add(NULL, 2, 3), 5);
    ck_assert_int_eq(sym_div(NULL, -7, 2), -4);
    ck_assert_int_eq(sym_mod(NULL, -7, 2), 1);
    ck_assert_int_eq(sym_max(NULL, 4, 9), 9);
    ck_assert(sym_decide(NULL, SYM_lt, 1, 2));
    ck_assert(!sym_is(NO_INT));
}
END_TEST

START_TEST(equal_expressions_have_equal_ids) {
    const int64_t a = sym_mul(env, sym_add(env, s0, s1), sym_sub(env, s0, s1));
    const int64_t b = sym_sub(env, sym_mul(env, s0, s0), sym_mul(env, s1, s1));
    ck_assert_int_eq(a, b);
    ck_assert_int_eq(sym_sub(env, a, b), 0);
    ck_assert_int_eq(sym_add(env, s1, s0), sym_add(env, s0, s1));
    ck_assert_int_eq(sym_div(env, sym_mul(env, sym_mul(env, s0, s1), 6), sym_mul(env, s1, 3)), sym_mul(env, s0, 2));
    ck_assert_int_eq(sym_mod(env, sym_add(env, sym_mul(env, s0, 8), 3), 4), 3);
    ck_assert_int_eq(sym_max(env, s0, 1), s0);
    ck_assert_int_eq(sym_min(env, s0, sym_add(env, s0, s1)), s0);
}
END_TEST

START_TEST(multiples_of_sums_divide_exactly) {
    const int64_t less = sym_sub(env, s1, 1), sum = sym_add(env, sym_mul(env, s0, 2), less);
    ck_assert_int_eq(sym_div(env, sym_mul(env, s0, less), less), s0);
    ck_assert_int_eq(sym_mod(env, sym_mul(env, s0, less), less), 0);
    ck_assert_int_eq(sym_div(env, sym_mul(env, sum, less), sum), less);
    ck_assert_int_eq(sym_div(env, sym_mul(env, sum, less), less), sum);
    const int64_t more = sym_add(env, sym_mul(env, s0, less), 1); /* no multiple */
    const int64_t quotient = sym_div(env, more, less), rest = sym_mod(env, more, less);
    for (int64_t x = 2; x < 12; x++) {
        for (int64_t y = 2; y < 12; y++) {
            const int64_t a = x * (y - 1) + 1;
            ck_assert_int_eq(sym_eval(env, quotient, (int64_t[]){x, y}), a / (y - 1));
            ck_assert_int_eq(sym_eval(env, rest, (int64_t[]){x, y}), a % (y - 1));
        }
    }
}
END_TEST

/* True of all values, by a grid of them; and found where it is. */
START_TEST(what_surely_holds_needs_no_guard) {
    const int64_t lines = sym_mul(env, sym_div(env, sym_add(env, sym_mul(env, s0, 4), 63), 64), 64);
    const int64_t both = sym_mul(env, s0, s1);
    const struct {
        int64_t a, b;
        bool surely;
    } rows[] = {
        {s0, sym_mul(env, s0, 2), true},
        {sym_mul(env, s0, 2), both, true},
        {sym_mul(env, s0, 3), both, false}, /* s1 may be 2 */
        {s0, s1, false},
        {lines, sym_mul(env, s0, 256), true},
        {sym_mul(env, s0, 4), lines, true},
        {lines, sym_mul(env, s0, 4), false},
        {lines, sym_add(env, sym_mul(env, s0, 4), 63), true},
        {lines, sym_add(env, sym_mul(env, s0, 4), 59), false},
        {sym_div(env, s0, 2), s0, true},
        {sym_mul(env, sym_div(env, s0, 2), 2), s0, true},
        {s0, sym_mul(env, sym_div(env, s0, 2), 2), false},
        {s0, sym_add(env, sym_mul(env, sym_div(env, s0, 2), 2), 1), true},
        {sym_sub(env, s0, s1), s0, true},
        {sym_add(env, s0, s1), both, true},
        {sym_add(env, sym_add(env, s0, s1), 1), both, false}, /* 2 and 2 */
    };
    for (int i = 0; i < COUNT_OF(rows); i++) {
        ck_assert_msg(sym_surely_at_most(env, rows[i].a, rows[i].b) == rows[i].surely, "row %d", i);
        bool holds = true;
        for (int64_t x = 2; x < 70; x++)
            for (int64_t y = 2; y < 20; y++)
                holds &= sym_eval(env, rows[i].a, (int64_t[]){x, y}) <= sym_eval(env, rows[i].b, (int64_t[]){x, y});
        ck_assert_msg(holds == rows[i].surely, "row %d over the grid", i);
    }
    ck_assert_int_eq(sym_guard_count(env), 0);
    ck_assert_int_eq(sym_content(env, sym_add(env, sym_mul(env, both, 12), 8)), 4);
    ck_assert_int_eq(sym_content(env, s0), 1);
    ck_assert_int_eq(sym_content(env, 0), 1);
}
END_TEST

START_TEST(evaluation_agrees_with_arithmetic) {
    int64_t a = sym_add(env, sym_mul(env, s0, 5), -3);
    a = sym_add(env, sym_div(env, a, 4), sym_mod(env, sym_mul(env, a, s1), 7));
    a = sym_max(env, a, sym_min(env, s1, sym_mul(env, s0, -1)));
    for (int64_t x = 2; x < 20; x++) {
        for (int64_t y = 2; y < 20; y++) {
            const int64_t p = 5 * x - 3, low = y < -x ? y : -x, sum = p / 4 + p * y % 7;
            ck_assert_int_eq(sym_eval(env, a, (int64_t[]){x, y}), sum > low ? sum : low);
        }
    }
    ck_assert_int_eq(sym_hint(env, a), sym_eval(env, a, (int64_t[]){7, 12}));
}
END_TEST

START_TEST(decisions_by_range_record_nothing) {
    ck_assert(!sym_same(env, s0, 1));
    ck_assert(sym_at_most(env, 2, s0));
    ck_assert(sym_less(env, s0, sym_add(env, s0, s1)));
    ck_assert(sym_decide(env, SYM_ne, sym_mul(env, s0, s1), 0));
    ck_assert_int_eq(sym_guard_count(env), 0);
}
END_TEST

START_TEST(decisions_by_hint_record_what_held) {
    ck_assert(!sym_same(env, s0, s1));
    ck_assert(!sym_same(env, s0, s1));
    ck_assert(sym_less(env, s0, s1));
    ck_assert(!sym_less(env, s1, s0));
    ck_assert_int_eq(sym_guard_count(env), 3);
    ck_assert_int_eq(sym_concrete(env, s0), 7);
    for (int i = 0; i < sym_guard_count(env); i++)
        ck_assert(sym_guard_holds(env, sym_guard_at(env, i), (int64_t[]){7, 12}));
    ck_assert(!sym_guard_holds(env, sym_guard_at(env, 0), (int64_t[]){5, 5}));
    ck_assert_int_eq(sym_guard_at(env, 3)->b, 7);
}
END_TEST

START_TEST(text_reads_back_in_a_fresh_environment) {
    static const char *const lines[] = {"s0*768+1",         "s0*s1-s1*3",     "-s0+5", "((s0+1)//2)*768",
                                        "max(s0,(s1*3)%5)", "min(s0*2-1,s1)", "-17",   "s3*s3*s3-s2"};
    static const char *const wanted[] = {"s0*768+1", "s0*s1-s1*3",     "-s0+5", "((s0+1)//2)*768",
                                         NULL,       "min(s1,s0*2-1)", "-17",   NULL};
    for (int i = 0; i < COUNT_OF(lines); i++) {
        SymEnv *const fresh = sym_env_new(arena), *const again = sym_env_new(arena);
        int64_t a, b;
        const char *end;
        Text first = {0}, second = {0};
        ck_assert_int_eq(sym_parse(fresh, lines[i], &end, &a), ST_OK);
        ck_assert(*end == '\0');
        sym_print(fresh, &first, a);
        if (wanted[i]) ck_assert_str_eq(text_str(&first), wanted[i]);
        ck_assert_int_eq(sym_parse(again, text_str(&first), &end, &b), ST_OK);
        sym_print(again, &second, b);
        ck_assert_str_eq(text_str(&first), text_str(&second));
        text_free(&first);
        text_free(&second);
    }
    expect_text(sym_sub(env, s0, sym_mul(env, s1, 3)), "s0-s1*3");
}
END_TEST

START_TEST(products_of_many_symbols_have_room) {
    int64_t product = 1;
    for (int i = 0; i < 40; i++) product = sym_mul(env, product, sym_free(env, 2, 2));
    const int64_t twice = sym_add(env, product, product);
    ck_assert_int_eq(sym_hint(env, sym_sub(env, twice, product)), (int64_t)1 << 40);
    ck_assert_int_eq(sym_mul(env, product, s0), sym_mul(env, product, s0));
}
END_TEST

START_TEST(bad_text_is_refused) {
    static const char *const lines[] = {"", "s", "s0*", "(s0", "max(s0", "s0//0", "+"};
    for (int i = 0; i < COUNT_OF(lines); i++) {
        int64_t a;
        const char *end;
        ck_assert_int_eq(sym_parse(env, lines[i], &end, &a), ST_PARSE);
        error_clear();
    }
}
END_TEST

int main(void) {
    TCase *const all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_test(all, plain_numbers_need_no_environment);
    tcase_add_test(all, equal_expressions_have_equal_ids);
    tcase_add_test(all, multiples_of_sums_divide_exactly);
    tcase_add_test(all, what_surely_holds_needs_no_guard);
    tcase_add_test(all, evaluation_agrees_with_arithmetic);
    tcase_add_test(all, decisions_by_range_record_nothing);
    tcase_add_test(all, decisions_by_hint_record_what_held);
    tcase_add_test(all, text_reads_back_in_a_fresh_environment);
    tcase_add_test(all, products_of_many_symbols_have_room);
    tcase_add_test(all, bad_text_is_refused);
    return suite_run("sym", all);
}
