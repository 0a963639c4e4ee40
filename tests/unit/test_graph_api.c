/* test_graph_api.c: graphs as objects [acceptance 5.22]: captured from a function, edited, checked, compiled again. */
#include "tests/unit/contract.h"

static sn_status two_results(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_out(f, 0, sn_relu(x));
    return sn_out(f, 1, sn_exp(sn_add(x, x)));
}

static sn_graph *captured(sn_body body, sn_tensor *x) {
    sn_function *const fn = sn_compile(body, NULL, NULL);
    const sn_value in[] = {sn_val(x)};
    sn_graph *const g = sn_graph_capture(fn, in, 1);
    sn_function_free(fn); /* the graph is the caller's own */
    ck_assert_msg(g != NULL, "%s", sn_error_take()->message);
    return g;
}

static sn_node *find(sn_graph *g, const char *op) {
    for (int i = 0; i < sn_graph_count(g); i++)
        if (!strcmp(sn_node_op(sn_graph_node(g, i)), op)) return sn_graph_node(g, i);
    ck_abort_msg("no %s in %s", op, sn_graph_text(g));
}

START_TEST(a5_22_an_op_is_replaced) {
    sn_tensor *const x = F32(1, 6), *outs[2];
    sn_graph *const g = captured(two_results, x);
    ck_assert_int_eq(sn_graph_count(g), 4); /* the input and three ops */
    ck_assert_int_eq(sn_graph_check(g), SN_OK);
    sn_node *const relu = find(g, "aten::relu"), *in[] = {sn_node_in(relu, 0)};
    ck_assert_str_eq(sn_node_op(in[0]), "input");
    sn_node *const tanh = sn_graph_insert(g, relu, "aten::tanh", in, 1, NULL, 0);
    ck_assert_ptr_nonnull(tanh);
    ck_assert_int_eq(sn_node_erase(relu), SN_ERR_STATE); /* used */
    sn_error_take();
    ck_assert_int_eq(sn_node_replace(relu, tanh), SN_OK);
    ck_assert_int_eq(sn_node_erase(relu), SN_OK);
    ck_assert_int_eq(sn_graph_check(g), SN_OK);
    sn_function *const edited = sn_graph_compile(g, NULL);
    sn_graph_free(g);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(sn_call(edited, &x, 1, outs, 2), SN_OK);
        ck_assert(same_bits(outs[0], sn_tanh(x)));
        ck_assert(same_bits(outs[1], sn_exp(sn_add(x, x))));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    sn_function_free(edited);
}
END_TEST

START_TEST(text_parses_back_and_passes_run) {
    sn_graph *const g = captured(two_results, F32(1, 6));
    const char *const text = sn_graph_text(g);
    sn_graph *const again = sn_graph_parse(text, strlen(text));
    ck_assert_str_eq(sn_graph_text(again), text);
    ck_assert_int_eq(sn_graph_run(again, "functionalize,cse,dce"), SN_OK);
    ck_assert_int_ne(sn_graph_run(again, "no_such_pass"), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "no_such_pass");
    const char *const wrong = "graph f(%x: f32[2]) {\n  %0 = aten::nonsense(%x)\n}";
    ck_assert_ptr_null(sn_graph_parse(wrong, strlen(wrong)));
    expect_error(SN_ERR_PARSE, "line 2");
    sn_graph_free(again);
    sn_graph_free(g);
}
END_TEST

static sn_status breaks(sn_frame *f) {
    sn_tensor *const y = sn_relu(sn_in(f, 0));
    sn_graph_break("on purpose");
    return sn_out(f, 0, sn_exp(y));
}

START_TEST(a_call_of_several_graphs_is_refused) {
    sn_function *const fn = sn_compile(breaks, NULL, NULL);
    const sn_value in[] = {sn_val(F32(1, 6))};
    ck_assert_ptr_null(sn_graph_capture(fn, in, 1));
    expect_error(SN_ERR_UNSUPPORTED, "2 graphs");
    sn_function_free(fn);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {a5_22_an_op_is_replaced, text_parses_back_and_passes_run,
                                  a_call_of_several_graphs_is_refused};
    return contract_main("test_graph_api", tests, (int)(sizeof tests / sizeof *tests));
}
