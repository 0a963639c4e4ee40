/* test_graph_text.c: the op table is whole; graph text prints, parses back to the same bytes and verifies; errors name
 * line and column; meta rules give PyTorch's dtypes and strides. */
#include <stdio.h>

#include "ir/alias.h"
#include "ir/schema.h"
#include "runtime/base/error.h"
#include "tests/unit/suite.h"

static Arena *arena;
static void setup(void) { arena = arena_new(); }
static void teardown(void) {
    error_clear();
    arena_free(arena);
}

static const char norm[] = "graph norm(%x: f32[s0,768], %w: f32[768]) {\n"
                           "  %0 = aten::gelu(%x)\n"
                           "  %1 = aten::add.Tensor(%0, %w, alpha=2)\n"
                           "  %2 = aten::mul_.Tensor(%1, 2.0) no_grad at='x.c:3'\n"
                           "  %3 = aten::sum.dim_IntList(%2, [-1], True, dtype=f64) order=L\n"
                           "  %4 = aten::sum.dim_IntList(%2, [0]) order=S\n"
                           "  %5 = aten::view(%x, [-1, 2, 384])\n"
                           "  %6 = aten::add.out(%x, %w, out=%2)\n"
                           "  %7 = sn::restride(%4, [1]) no_autocast puts saved rest\n"
                           "  write %x = %1\n"
                           "  return %1 | %3 views %x at s0*2, %4, None\n"
                           "}\n";

START_TEST(test_rows) {
    for (int i = 0; i < op_row_count(); i++) {
        const OpRow *row = op_row_at(i);
        ck_assert_msg(row->name != NULL, "row %d does not parse: %s", i, row->schema);
        for (int form = 0; form < FORM_COUNT; form++) {
            const char *name = op_form_name(row, (OpForm)form);
            OpForm found;
            ck_assert_msg(op_find(name, strlen(name), &found) == row, "%s finds another row", name);
        }
        ck_assert_msg(!(row->flags & OPF_check) ||
                          op_param_find(row->alias_of ? row->alias_of : row, row->check.param) >= 0,
                      "%s: what does it check? .check names no parameter", row->name);
        ck_assert_msg(!row->c.name || row->c.shown <= row->n_params, "%s: c", row->name);
    }
    ck_assert_ptr_null(op_find("aten::no_such_op", 16, NULL));
}
END_TEST

/* A position counted from the end: its symbol may be negative, and so is its value here. */
static const char from_end[] = "graph f[s0=-5>=-1152921504606846976](%x: f32[40,3]) {\n"
                               "  %0 = aten::select.int(%x, 0, s0)\n"
                               "  return %0\n"
                               "}\n";

START_TEST(test_negative_symbols) {
    Graph *graph;
    Text text = {0};
    ck_assert_int_eq(graph_parse(arena, from_end, sizeof from_end - 1, &graph), ST_OK);
    graph_print(graph, &text);
    ck_assert_str_eq(text_str(&text), from_end);
    text_free(&text);
}
END_TEST

START_TEST(test_identity) {
    Graph *graph, *again;
    Text first = {0}, second = {0};
    ck_assert_int_eq(graph_parse(arena, norm, sizeof norm - 1, &graph), ST_OK);
    graph_print(graph, &first);
    ck_assert_str_eq(text_str(&first), norm);
    ck_assert_int_eq(graph_parse(arena, first.at, first.n, &again), ST_OK);
    graph_print(again, &second);
    ck_assert_str_eq(text_str(&second), norm);
    ck_assert(graph_hash(graph) == graph_hash(again));
    ck_assert_int_eq(graph_verify(again, STAGE_capture), ST_OK);
    ck_assert_int_ne(graph_verify(again, STAGE_functional), ST_OK); /* in-place and out forms */
    text_free(&first);
    text_free(&second);
}
END_TEST

static const struct {
    const char *line, *error;
} wrong[] = {
    {"%0 = aten::mm(%x, %x)", "line 2, column 8: aten::mm: mat2 [2, 3] does not match self [2, 3]: 3 != 2"},
    {"%0 = aten::foo(%x)", "line 2, column 8: no op is called 'aten::foo'"},
    {"%0 = aten::add.Tensor(%x, %z)", "line 2, column 30: %z is not defined above"},
    {"%0 = aten::add.Tensor(%x)", "line 2, column 8: aten::add.Tensor: other is missing"},
    {"%0 = aten::exp_(%i)", "line 2, column 8: aten::exp_: a result of f32 doesn't fit a tensor of i64"},
    {"%0 = aten::add.Tensor(%x, %i)", "line 2, column 8: aten::add.Tensor: other [4] does not broadcast with [2, 3]"},
    {"%0 = aten::as_strided(%x, [2], [1, 1])", "line 2, column 8: aten::as_strided: size has 1 dims, but stride has 2"},
    {"%0: f32[2] = aten::relu(%x)", "line 2, column 4: %0 is f32[2,3]"},
    {"%0 = aten::relu(%x)\n  %0 = aten::exp(%x)\n\n", "line 3, column 4: %0 is defined twice"},
    {"%0 = aten::sum.dim_IntList(%x, [1, -1])", "line 2, column 8: aten::sum.dim_IntList: dim 1 appears twice"},
    {"%0 = aten::view(%t, [6])", "line 2, column 8: aten::view: sizes [6] are not a view of self "
                                 "[3, 2] with its strides; use reshape(), or contiguous() first"},
};

START_TEST(what_puts_is_a_copy_or_a_scatter) {
    static const char text[] = "graph g(%x: f32[2]) {\n  %0 = aten::exp(%x) puts\n  return %0\n}\n";
    Graph *graph;
    ck_assert_int_eq(graph_parse(arena, text, sizeof text - 1, &graph), ST_OK);
    ck_assert_int_ne(graph_verify(graph, STAGE_functional), ST_OK);
    ck_assert_str_eq(error_slot()->message, "verify functional: node 0, aten::exp: puts no value into memory");
}
END_TEST

/* What a scatter in place writes over is read by nobody afterwards, and is an input's only if that is written. */
static const struct {
    const char *body, *message;
} scattered[] = {
    {"%0 = sn::view_scatter_(%x, %y, [], [], 0) puts\n  write %x = %0", ""},
    {"%0 = aten::exp(%x)\n  %1 = sn::view_scatter_(%0, %y, [], [], 0) puts\n  return %1", ""},
    {"%0 = sn::view_scatter_(%x, %y, [], [], 0) puts\n  return %0", "graph: a scatter overwrites input 0, which is not "
                                                                    "written"},
    {"%0 = sn::view_scatter_(%x, %y, [], [], 0) puts\n  %1 = aten::exp(%x)\n  write %x = %1",
     "aten::exp: reads what a scatter in place has overwritten"},
    {"%0 = aten::select.int(%x, 0, 1)\n  %1 = sn::view_scatter_(%x, %y, [], [], 0) puts\n  write %x = %1\n  return %0",
     "graph: output 0 is what a scatter in place has overwritten"},
    {"%0 = sn::view_scatter_(%x, %y, [], [], 0) puts\n  %1 = sn::view_scatter_(%0, %y, [], [], 1) puts\n"
     "  write %x = %1\n  write %z = %0",
     "graph: write 1 is of what a scatter in place has overwritten"},
    {"%0 = sn::view_scatter_(%x, %y, [], [], 0) puts\n  %1 = sn::view_scatter(%0, %y, [], [], 1) puts\n"
     "  write %x = %1\n  write %z = %0",
     "graph: write 1 is of an input that is written, too"},
    {"%0 = sn::view_scatter_(%x, %y, [], [], 0) puts\n  %1 = aten::neg(%0)\n  write %x = %x\n  return %1",
     "graph: write 0 is of what a scatter in place has overwritten"},
};

START_TEST(overwritten_values_are_not_read) {
    char text[512];
    Graph *graph;
    const int n =
        snprintf(text, sizeof text, "graph g(%%x: f32[2], %%y: f32[], %%z: f32[2]) {\n  %s\n}\n", scattered[_i].body);
    ck_assert_msg(graph_parse(arena, text, (size_t)n, &graph) == ST_OK, "%s", error_slot()->message);
    ck_assert_int_eq(graph_verify(graph, STAGE_reinplaced) == ST_OK, !*scattered[_i].message);
    ck_assert_msg(strstr(error_slot()->message, scattered[_i].message) != NULL, "%s", error_slot()->message);
}
END_TEST

/* What is kept of a value's memory is what the meta rule says of it, whatever stands in the argument's place. */
START_TEST(memory_is_as_the_rule_says) {
    static const char text[] = "graph g(%x: f32[4,3], %y: f32[4,3]) {\n  %0 = aten::slice.Tensor(%x, 0, 2, 4)\n"
                               "  %1 = aten::view(%0, [6])\n  %2 = aten::clone(%1)\n  return %2\n}\n";
    Graph *graph;
    ck_assert_int_eq(graph_parse(arena, text, sizeof text - 1, &graph), ST_OK);
    GVal *const part = graph->first->outs, *const flat = graph->first->next->outs, *const own = graph->last->outs;
    ck_assert(value_memory(part) == graph->inputs.at[0] && part->offset == 6);
    ck_assert(value_memory(flat) == part && flat->offset == 0 && view_root(flat) == graph->inputs.at[0]);
    ck_assert(!value_memory(own) && view_root(own) == own);
    graph_replace(graph, graph->inputs.at[0], graph->inputs.at[1]);
    ck_assert_ptr_eq(view_root(flat), graph->inputs.at[1]);
    ck_assert_int_eq(graph_verify(graph, STAGE_capture), ST_OK);
    part->offset = 3;
    ck_assert_int_ne(graph_verify(graph, STAGE_capture), ST_OK);
    ck_assert_str_eq(error_slot()->message,
                     "verify capture: node 0, aten::slice.Tensor: result 0 shows other memory than the meta rule says");
}
END_TEST

START_TEST(test_errors) {
    char text[512];
    Graph *graph;
    const int n = snprintf(text, sizeof text, "graph g(%%x: f32[2,3], %%i: i64[4], %%t: f32[3,2]{1,3}) {\n  %s\n}\n",
                           wrong[_i].line);
    ck_assert_int_eq(graph_parse(arena, text, (size_t)n, &graph), ST_PARSE);
    ck_assert_str_eq(error_slot()->message, wrong[_i].error);
}
END_TEST

static const struct {
    const char *call, *meta;
} metas[] = {
    {"aten::add.Tensor(%i, 2.5)", "f32[4]"},
    {"aten::add.Tensor(%h, 2.5)", "bf16[2,3]"},
    {"aten::add.Tensor(%h, %d)", "bf16[2,3]"}, /* a 0-dim tensor of the same category does not promote */
    {"aten::exp(%i)", "f32[4]"},
    {"aten::mul.Tensor(%t, %t)", "f32[3,2]{1,3}"}, /* dense operands keep their strides */
    {"aten::add.Tensor(%t, 1)", "f32[3,2]{1,3}"},
    {"aten::sum.dim_IntList(%i, None)", "i64[]"},
    {"aten::mm(%x, %t)", "f32[2,2]"},
};

START_TEST(test_metas) {
    char text[512];
    Graph *graph;
    Text printed = {0};
    const int n = snprintf(text, sizeof text,
                           "graph g(%%x: f32[2,3], %%i: i64[4], %%t: f32[3,2]{1,3}, %%h: "
                           "bf16[2,3], %%d: f64[]) {\n  %%0 = %s\n}\n",
                           metas[_i].call);
    ck_assert_msg(graph_parse(arena, text, (size_t)n, &graph) == ST_OK, "%s", error_slot()->message);
    meta_print(graph->env, &printed, graph->first->outs[0].base.meta);
    ck_assert_str_eq(text_str(&printed), metas[_i].meta);
    text_free(&printed);
}
END_TEST

int main(void) {
    TCase *tests = tcase_create("graph_text");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_rows);
    tcase_add_test(tests, test_negative_symbols);
    tcase_add_test(tests, test_identity);
    tcase_add_test(tests, what_puts_is_a_copy_or_a_scatter);
    tcase_add_test(tests, memory_is_as_the_rule_says);
    tcase_add_loop_test(tests, test_errors, 0, (int)(sizeof wrong / sizeof *wrong));
    tcase_add_loop_test(tests, overwritten_values_are_not_read, 0, (int)(sizeof scattered / sizeof *scattered));
    tcase_add_loop_test(tests, test_metas, 0, (int)(sizeof metas / sizeof *metas));
    return suite_run("graph_text", tests);
}
