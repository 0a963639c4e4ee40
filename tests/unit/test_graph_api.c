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

static sn_status product_and_sum(sn_frame *f) {
    sn_tensor *const *const closed = sn_closure(f);
    sn_tensor *const y = sn_add(sn_mm(sn_in(f, 0), closed[0]), closed[1]);
    return sn_out(f, 0, sn_relu(y));
}

/* A product and the sum behind it become one op; what the function closed over is bound, so calls give x alone. */
START_TEST(a5_22_a_subgraph_is_fused) {
    sn_tensor *const x = F32(1, 3, 4), *const closed[] = {F32(2, 4, 5), F32(3, 5)}, *y = NULL;
    sn_function *const fn = sn_compile(product_and_sum, (void *)closed, NULL);
    sn_graph *const g = sn_graph_capture(fn, (const sn_value[]){sn_val(x)}, 1);
    ck_assert_ptr_nonnull(g);
    sn_node *const mm = find(g, "aten::mm"), *const add = find(g, "aten::add.Tensor");
    ck_assert_ptr_eq(sn_node_in(add, 0), mm);
    sn_node *const in[] = {sn_node_in(add, 1), sn_node_in(mm, 0), sn_node_in(mm, 1)};
    sn_node *const fused = sn_graph_insert(g, add, "aten::addmm", in, 3, NULL, 0);
    ck_assert_int_eq(sn_node_replace(add, fused), SN_OK);
    ck_assert_int_eq(sn_node_erase(add), SN_OK);
    ck_assert_int_eq(sn_node_erase(mm), SN_OK);
    for (int i = 0; i < sn_graph_count(g); i++) {
        sn_node *const n = sn_graph_node(g, i);
        if (sn_node_tensor(n)) ck_assert_int_eq(sn_node_bind(n, sn_node_tensor(n)), SN_OK);
    }
    ck_assert_int_eq(sn_graph_check(g), SN_OK);
    sn_function *const edited = sn_graph_compile(g, NULL);
    sn_graph_free(g);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(sn_call(edited, &x, 1, &y, 1), SN_OK);
        ck_assert(same_bits(y, SN_CALL(fn, x)));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    sn_function_free(edited);
    sn_function_free(fn);
}
END_TEST

START_TEST(inputs_stand_for_tensors) {
    const char *const text = "graph f(%x: f32[2,3], %w: f32[3], s1: int, %y: f32[2,3]) {\n"
                             "  %0 = aten::add.Tensor(%x, %y, 2.5)\n  return %0\n}\n";
    sn_graph *const g = sn_graph_parse(text, strlen(text));
    ck_assert_msg(g != NULL, "%s", sn_error_take()->message);
    sn_node *const x = sn_graph_node(g, 0), *const w = sn_graph_node(g, 1), *const add = sn_graph_node(g, 3);
    ck_assert_str_eq(sn_node_name(w), "w");
    ck_assert_ptr_null(sn_node_tensor(w));
    ck_assert_int_eq(sn_node_erase(x), SN_ERR_STATE);
    expect_error(SN_ERR_STATE, "input is used");
    ck_assert_int_eq(sn_node_erase(w), SN_OK); /* nothing uses it */
    ck_assert_int_eq(sn_node_erase(w), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "no node");
    sn_tensor *const b = F32(5, 3), *const given = F32(1, 2, 3), *const bound = F32(2, 2, 3), *y = NULL;
    sn_node *const bias = sn_graph_bind(g, "bias", b), *const both[] = {add, bias};
    sn_node *const again = sn_graph_bind(g, "x", b); /* its name is taken */
    ck_assert_str_ne(sn_node_name(again), "x");
    ck_assert_int_eq(sn_node_erase(again), SN_OK);
    sn_node *const sum = sn_graph_insert(g, NULL, "aten::add.Tensor", both, 2, NULL, 0);
    ck_assert_int_eq(sn_node_replace(add, sum), SN_ERR_ARGUMENT); /* it is an argument of the sum */
    sn_error_take();
    ck_assert_int_eq(sn_node_erase(sum), SN_OK);
    sn_node *const arguments[] = {x, bias}, *const other =
                                                sn_graph_insert(g, add, "aten::mul.Tensor", arguments, 2, NULL, 0);
    ck_assert_int_eq(sn_node_replace(add, other), SN_OK);
    ck_assert_int_eq(sn_node_bind(x, b), SN_ERR_SHAPE);
    expect_error(SN_ERR_SHAPE, "2 dims");
    ck_assert_int_eq(sn_node_bind(x, bound), SN_OK);
    ck_assert_ptr_eq(sn_node_tensor(x), bound);
    ck_assert_ptr_nonnull(strstr(sn_graph_text(g), "(%x: f32[2,3], s1: int, %y: f32[2,3], %bias: f32[3])"));
    sn_function *const fn = sn_graph_compile(g, NULL);
    sn_graph_free(g);
    const sn_value in[] = {sn_int(3), sn_val(given)};
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(sn_call_values(fn, in, 2, &y, 1) == SN_OK, "%s", sn_error_take()->message);
        ck_assert(same_bits(y, sn_mul(bound, b)));
    }
    ck_assert_int_ne(sn_call(fn, &given, 1, &y, 1), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "2 inputs wanted, 1 given");
    sn_function_free(fn);
}
END_TEST

START_TEST(nodes_say_what_they_are) {
    const char *const text = "graph f(%x: f32[s0,3]) {\n  %0 = aten::sum.dim_IntList(%x, [1], True) order=L\n"
                             "  %1 = aten::mul.Tensor(%0, 2.5)\n  return %1\n}\n";
    sn_graph *const g = sn_graph_parse(text, strlen(text));
    sn_node *const x = sn_graph_node(g, 0), *const sum = sn_graph_node(g, 1);
    sn_value v;
    ck_assert(sn_node_dtype(sum) == SN_F32 && sn_node_rank(sum) == 2 && sn_node_size(sum, 1) == 1);
    ck_assert(sn_node_size(x, 0) == -1 && sn_node_size(x, 1) == 3 && sn_node_stride(x, 0) == 3);
    ck_assert_int_eq(sn_node_size(x, 2), -1);
    expect_error(SN_ERR_ARGUMENT, "dim 2 is out of range for a value of 2 dims");
    ck_assert_int_eq(sn_node_arg(sum, "dim", &v), SN_OK);
    ck_assert(v.kind == SN_KIND_INTS && v.n == 1 && v.ints[0] == 1);
    ck_assert_int_eq(sn_node_arg(sum, "keepdim", &v), SN_OK);
    ck_assert(v.kind == SN_KIND_BOOL && v.i == 1);
    ck_assert_int_eq(sn_node_arg(sum, "self", &v), SN_OK);
    ck_assert(v.kind == SN_KIND_TENSOR && !v.tensor);
    ck_assert_int_eq(sn_node_arg(sum, "other", &v), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "no argument 'other'");
    ck_assert_int_eq(sn_node_arg(sn_graph_node(g, 2), "other", &v), SN_OK);
    ck_assert(v.kind == SN_KIND_FLOAT && v.f == 2.5);
    sn_graph_free(g);
}
END_TEST

START_TEST(text_parses_back_and_passes_run) {
    sn_graph *const g = captured(two_results, F32(1, 6));
    const char *const text = sn_graph_text(g);
    sn_graph *const again = sn_graph_parse(text, strlen(text));
    ck_assert_str_eq(sn_graph_text(again), text);
    for (int dynamic = SN_DYNAMIC_AUTO; dynamic <= SN_DYNAMIC_NEVER; dynamic++) {
        sn_function *const fn = sn_graph_compile(again, SN_COMPILE_OPTIONS(.dynamic = (sn_dynamic)dynamic));
        ck_assert_int_eq(sn_function_result_count(fn), 2);
        sn_function_free(fn);
    }
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

static sn_graph *chain(sn_node **nodes) { /* input, mm, relu */
    const char *const text = "graph f(%x: f32[4,4]) {\n  %0 = aten::mm(%x, %x) order=chain\n"
                             "  %1 = aten::relu(%0)\n  return %1\n}\n";
    sn_graph *const g = sn_graph_parse(text, strlen(text));
    for (int i = 0; i < 3; i++) nodes[i] = sn_graph_node(g, i);
    return g;
}

static void no_insert(sn_graph *g, sn_node *before, sn_node *arg, const char *says) {
    ck_assert_ptr_null(sn_graph_insert(g, before, "aten::exp", &arg, 1, NULL, 0));
    expect_error(SN_ERR_ARGUMENT, says);
}

static void no_replace(sn_node *n, sn_node *by, const char *says) {
    ck_assert_int_eq(sn_node_replace(n, by), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, says);
}

/* Nodes of another graph, erased ones, uses before definitions: the graph stays as it was. */
START_TEST(edits_that_make_no_graph) {
    sn_node *n[3], *other[3];
    sn_graph *const g = chain(n), *const h = chain(other);
    char *const before = strdup(sn_graph_text(g));
    ck_assert_ptr_null(sn_graph_insert(g, NULL, "aten::exp", NULL, 1, NULL, 0));
    expect_error(SN_ERR_ARGUMENT, "the list of 1 nodes is NULL");
    ck_assert_ptr_null(sn_graph_insert(g, NULL, "aten::exp", n, 1, NULL, 1));
    expect_error(SN_ERR_ARGUMENT, "the list of 1 values is NULL");
    no_insert(g, NULL, NULL, "argument 0 of graph f is NULL");
    no_insert(g, NULL, other[1], "argument 0 is no node of graph f");
    no_insert(g, other[2], n[1], "`before` is no node of graph f");
    no_insert(g, n[0], n[0], "`before` is an input");
    no_insert(g, n[1], n[2], "aten::relu, does not come before");
    no_insert(g, n[1], n[1], "aten::mm, does not come before");
    ck_assert_ptr_null(sn_graph_insert(g, NULL, "aten::exp.out", n, 2, NULL, 0));
    expect_error(SN_ERR_ARGUMENT, "aten::exp.out");
    const sn_value tensor = sn_val(F32(1, 4, 4)), unknown = {.kind = 99};
    ck_assert_ptr_null(sn_graph_insert(g, NULL, "aten::mm", n, 1, &tensor, 1));
    expect_error(SN_ERR_ARGUMENT, "argument 1 is a tensor, not a node");
    ck_assert_ptr_null(sn_graph_insert(g, NULL, "aten::sum.dim_IntList", n, 1, &unknown, 1));
    expect_error(SN_ERR_ARGUMENT, "dim is a value of unknown kind 99");
    no_replace(n[1], other[1], "the replacement is no node of graph f");
    no_replace(n[1], n[2], "aten::relu uses the node");
    no_replace(n[0], n[1], "aten::mm uses the node");
    ck_assert_int_eq(sn_node_replace(n[1], n[1]), SN_OK);
    ck_assert_str_eq(sn_graph_text(g), before);
    free(before);
    ck_assert_int_eq(sn_node_replace(n[2], n[1]), SN_OK);
    ck_assert_int_eq(sn_node_erase(n[2]), SN_OK);
    no_insert(g, n[2], n[1], "`before` is no node of graph f"); /* erased */
    no_insert(g, NULL, n[2], "argument 0 is no node of graph f");
    no_replace(n[2], n[1], "the node is no node of graph f");
    ck_assert_int_eq(sn_node_erase(n[2]), SN_ERR_ARGUMENT);
    sn_error_take();
    ck_assert_int_eq(sn_graph_check(g), SN_OK);
    ck_assert_int_eq(sn_graph_count(g), 2);
    sn_graph_free(g);
    sn_graph_free(h);
}
END_TEST

static sn_status silent(sn_frame *f) { return SN_OK; }

START_TEST(a_node_without_results_is_no_value) {
    ck_assert_ptr_nonnull(sn_op_register(
        SN_OP_DESC(.schema = "test::silent(Tensor x) -> ()", .flags = SN_OP_ORDERED, .cpu = silent, .meta = silent)));
    sn_node *n[3];
    sn_graph *const g = chain(n);
    sn_node *const none = sn_graph_insert(g, NULL, "test::silent", n, 1, NULL, 0);
    ck_assert_ptr_nonnull(none);
    no_insert(g, NULL, none, "argument 0, test::silent, has no result");
    no_replace(n[1], none, "the replacement, test::silent, has no result");
    ck_assert_int_eq(sn_node_erase(none), SN_OK);
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

static sn_status counted(sn_frame *f) {
    ++*(int *)sn_closure(f);
    return sn_out(f, 0, sn_relu(sn_in(f, 0)));
}

/* A graph that is asked for, before or between calls, teaches a replayed function nothing. */
START_TEST(a_replayed_function_stays_one) {
    int bodies = 0;
    sn_function *const fn = sn_compile(counted, &bodies, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    sn_tensor *const x = F32(1, 6);
    const sn_value in[] = {sn_val(x)};
    for (int i = 0; i < 6; i++) {
        sn_graph *const g = sn_graph_capture(fn, in, 1);
        ck_assert_msg(g != NULL, "%s", sn_error_take()->message);
        sn_graph_free(g);
        const int before = bodies;
        ck_assert(same_bits(SN_CALL(fn, x), sn_relu(x)));
        ck_assert_int_eq(bodies - before, i == 0);
    }
    sn_function_free(fn);
}
END_TEST

/* In the order of the call [semantics C15] ----------------------------------------------------- */

typedef struct Closed {
    sn_tensor *w, *b;
} Closed;

/* Neither inputs nor outputs come in the order of first use; argument 1 is not used, 3 is a number. */
static sn_status crossed(sn_frame *f) {
    const Closed *const c = sn_closure(f);
    sn_tensor *const late = sn_sub(sn_in(f, 2), c->b), *const h = sn_mul(late, c->w);
    sn_tensor *const y = sn_sub(sn_in(f, 0), sn_mul_scalar(h, sn_int(sn_in_int(f, 3))));
    sn_out(f, 2, late);
    sn_out(f, 3, sn_in(f, 1));
    sn_out(f, 1, sn_in(f, 2));
    return sn_out(f, 0, y);
}

static void is_called_as_the_function(sn_compile_mode mode) {
    const Closed c = {F32(1, 4), F32(2, 4)};
    sn_function *const fn = sn_compile(crossed, (void *)&c, SN_COMPILE_OPTIONS(.mode = mode));
    sn_tensor *x[] = {F32(3, 4), F32(4, 5), F32(5, 4)};
    const sn_value in[] = {sn_val(x[0]), sn_val(x[1]), sn_val(x[2]), sn_int(3)};
    sn_tensor *want[4], *got[4];
    for (int round = 0; round < 3; round++) {
        sn_graph *const g = sn_graph_capture(fn, in, 4);
        ck_assert_msg(g != NULL, "%s", sn_error_take()->message);
        ck_assert_int_eq(sn_graph_check(g), SN_OK);
        const char *const text = sn_graph_text(g);
        ck_assert_msg(strstr(text, "(%x0: f32[4], %x1: f32[5], %x2: f32[4], %closed0: f32[4], %closed1: f32[4])"), "%s",
                      text);
        sn_graph *const again = sn_graph_parse(text, strlen(text));
        ck_assert_ptr_nonnull(again);
        sn_graph_free(again);
        sn_function *const compiled = sn_graph_compile(g, NULL);
        sn_graph_free(g);
        sn_tensor *const all[] = {x[0], x[1], x[2], c.b, c.w};
        ck_assert_int_eq(sn_call_values(fn, in, 4, want, 4), SN_OK);
        for (int i = 0; i < 2; i++) {
            ck_assert_int_eq(sn_call(compiled, all, 5, got, 4), SN_OK);
            for (int k = 0; k < 4; k++) ck_assert_msg(same_bits(got[k], want[k]), "result %d differs", k);
        }
        sn_function_free(compiled);
    }
    sn_function_free(fn);
}

START_TEST(c15_a_captured_graph_is_called_as_the_function_was) {
    is_called_as_the_function(SN_COMPILE_VERIFY);
    is_called_as_the_function(SN_COMPILE_REPLAY);
}
END_TEST

/* One tensor twice, and one that is closed over, too: both are arguments. */
static sn_status subtracts(sn_frame *f) {
    const Closed *const c = sn_closure(f);
    return sn_out(f, 0, sn_sub(sn_mul_scalar(c->w, sn_int(2)), sn_in(f, 1)));
}

START_TEST(c15_an_argument_that_is_used_otherwise_keeps_its_place) {
    const Closed c = {F32(1, 4), NULL};
    sn_function *const fn = sn_compile(subtracts, (void *)&c, NULL);
    sn_tensor *x[] = {c.w, c.w, F32(7, 4)};
    const sn_value in[] = {sn_val(x[0]), sn_val(x[1]), sn_val(x[2])};
    sn_graph *const g = sn_graph_capture(fn, in, 3);
    ck_assert_msg(g != NULL, "%s", sn_error_take()->message);
    sn_function *const compiled = sn_graph_compile(g, NULL);
    sn_tensor *want = NULL, *got = NULL;
    ck_assert_int_eq(sn_call(fn, x, 3, &want, 1), SN_OK);
    ck_assert_int_eq(sn_call(compiled, x, 3, &got, 1), SN_OK);
    ck_assert(same_bits(got, want));
    sn_graph_free(g);
    sn_function_free(compiled);
    sn_function_free(fn);
}
END_TEST

/* Each is one segment, and more than that: a break at its end, a branch on a value, a hook. */
static sn_status breaks_at_the_end(sn_frame *f) {
    sn_tensor *const y = sn_relu(sn_in(f, 0));
    sn_graph_break("on purpose");
    return sn_out(f, 0, y);
}
static sn_status branches(sn_frame *f) {
    sn_tensor *const y = sn_relu(sn_in(f, 0));
    const bool large = sn_item(sn_sum(y)) > 1;
    return large ? sn_out(f, 0, y) : sn_out(f, 1, y);
}
static sn_status same_gradient(sn_frame *f) { return SN_OK; }
static sn_status hooks(sn_frame *f) {
    sn_hook_add(sn_in(f, 0), same_gradient, NULL);
    return sn_out(f, 0, sn_relu(sn_in(f, 0)));
}

START_TEST(c15_a_call_that_is_more_than_a_graph_is_refused) {
    static const sn_body bodies[] = {breaks_at_the_end, branches, hooks};
    static const char *const says[] = {"breaks", "a value is needed on the host", "sn_hook_add"};
    for (int i = 0; i < 6; i++) {
        sn_function *const fn = sn_compile(bodies[i / 2], NULL, NULL);
        const sn_value in[] = {sn_val(LEAF(1, 6))};
        if (i % 2) SN_CALL(fn, in[0].tensor); /* recorded before */
        sn_error_take();
        ck_assert_ptr_null(sn_graph_capture(fn, in, 1));
        expect_error(SN_ERR_UNSUPPORTED, says[i / 2]);
        sn_function_free(fn);
    }
}
END_TEST

static sn_status calls_closure(sn_frame *f) {
    sn_tensor *const y = SN_CALL((sn_function *)sn_closure(f), sn_relu(sn_in(f, 0)));
    return sn_out(f, 0, sn_exp(y));
}
static sn_status just_relu(sn_frame *f) { return sn_out(f, 0, sn_relu(sn_in(f, 0))); }

START_TEST(c15_an_eager_function_has_no_graph_by_itself_or_as_a_callee) {
    sn_function *const eager = sn_compile(just_relu, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_function *const outer = sn_compile(calls_closure, eager, NULL);
    const sn_value in[] = {sn_val(F32(1, 6))};
    ck_assert_ptr_null(sn_graph_capture(eager, in, 1));
    expect_error(SN_ERR_UNSUPPORTED, "no graph: its mode is SN_COMPILE_EAGER");
    ck_assert_ptr_null(sn_graph_capture(outer, in, 1));
    expect_error(SN_ERR_UNSUPPORTED, "a callee in mode SN_COMPILE_EAGER");
    sn_function_free(outer);
    sn_function_free(eager);
}
END_TEST

/* Whose written arguments share memory has no graph of the arguments. */
static sn_status writes_one(sn_frame *f) {
    sn_mul_(sn_in(f, 0), sn_in(f, 1));
    return sn_out(f, 0, sn_exp(sn_in(f, 1)));
}

START_TEST(c15_written_arguments_that_share_memory_are_refused) {
    sn_tensor *const whole = F32(1, 8), *const x[] = {sn_narrow(whole, 0, 0, 4), sn_narrow(whole, 0, 2, 4)};
    sn_function *const fn = sn_compile(writes_one, NULL, NULL);
    const sn_value in[] = {sn_val(x[0]), sn_val(x[1])};
    ck_assert_ptr_null(sn_graph_capture(fn, in, 2));
    expect_error(SN_ERR_UNSUPPORTED, "share memory");
    sn_function_free(fn);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {a5_22_an_op_is_replaced,
                                  a5_22_a_subgraph_is_fused,
                                  inputs_stand_for_tensors,
                                  nodes_say_what_they_are,
                                  text_parses_back_and_passes_run,
                                  edits_that_make_no_graph,
                                  a_node_without_results_is_no_value,
                                  a_call_of_several_graphs_is_refused,
                                  a_replayed_function_stays_one,
                                  c15_a_captured_graph_is_called_as_the_function_was,
                                  c15_an_argument_that_is_used_otherwise_keeps_its_place,
                                  c15_a_call_that_is_more_than_a_graph_is_refused,
                                  c15_an_eager_function_has_no_graph_by_itself_or_as_a_callee,
                                  c15_written_arguments_that_share_memory_are_refused};
    return contract_main("test_graph_api", tests, (int)(sizeof tests / sizeof *tests));
}
