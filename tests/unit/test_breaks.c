/* test_breaks.c: the rows of breaks.def: a text that was passed on is known as its row's, and what functions say of
 * their calls has the code of it. */
#include <stdio.h>

#include "runtime/base/arena.h"
#include "runtime/base/json.h"
#include "runtime/core/breaks.h"
#include "tests/unit/contract.h"

/* As code makes it of the row. */
static void fill(char *text, size_t capacity, const BreakReason *row) {
    const int id = (int)(row - break_reasons);
    snprintf(text, capacity, row->text, id == BREAK_called ? "sn_touch" : "one", "two");
}

START_TEST(each_text_is_its_rows) {
    for (int id = 1; id < BREAK_COUNT; id++) {
        char text[256];
        fill(text, sizeof text, &break_reasons[id]);
        const BreakId want = id == BREAK_user_break ? BREAK_none : (BreakId)id;
        ck_assert_msg(break_find(text) == want, "%s", text);
    }
    ck_assert_int_eq(break_find("no row has this"), BREAK_none);
    ck_assert_int_eq(break_find("control flow runs"), BREAK_none);
    ck_assert_int_eq(break_find("sn_touch now"), BREAK_none);
    ck_assert_int_eq(break_find(NULL), BREAK_none);
    ck_assert_str_eq(break_code(BREAK_host_value).text, "SB101");
    ck_assert_str_eq(break_code(BREAK_none).text, "");
}
END_TEST

static sn_status body(sn_frame *f) {
    sn_tensor *const x = sn_relu(sn_in(f, 0));
    sn_item(sn_sum(x));
    sn_tensor *const y = sn_neg(x);
    sn_graph_break("the program's own words");
    sn_tensor *const z = sn_abs(y);
    sn_touch(z);
    return sn_out(f, 0, sn_neg(z));
}

START_TEST(breaks_have_codes) {
    static const char *const want[] = {"SB101", "SB151", "SB150"};
    sn_function *const fn = sn_compile(body, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_VERIFY));
    SN_CALL(fn, F32(1, 2));
    Arena *const arena = arena_new();
    const char *const text = sn_explain_json(fn);
    const Json *json;
    ck_assert_int_eq(json_parse(arena, text, strlen(text), &json), ST_OK);
    const Json *const rows = json_get(json, "breaks");
    ck_assert_int_eq(rows->n, 3);
    for (int i = 0; i < 3; i++) ck_assert_str_eq(json_string(json_get(&rows->items[i], "code")), want[i]);
    arena_free(arena);
    sn_function_free(fn);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {each_text_is_its_rows, breaks_have_codes};
    return contract_main("breaks", tests, COUNT_OF(tests));
}
