/* test_graph_flow.c: control flow in graphs that are built: the text with its bodies parses back, the bits, also of
 * gradients, are those of sn_cond, sn_while_loop and sn_scan, for any sizes; errors name function, operand and body. */
#include "tests/unit/contract.h"

static sn_node *op(sn_graph *g, const char *name, int n, const sn_value *args) { return sn_graph_op(g, name, args, n); }
#define OP(g, name, ...) op(g, name, (int)SN_COUNT(sn_value, __VA_ARGS__), (const sn_value[]){__VA_ARGS__})
#define R(n)             sn_node_result(n, 0)
#define RETURN(g, ...)   sn_graph_return(g, (const sn_value[]){__VA_ARGS__}, (int)SN_COUNT(sn_value, __VA_ARGS__))

/* Compiled, of the graph and of its text, which parses back; the graph is freed. */
static void compile_both(sn_graph *g, sn_function **fns) {
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
    char *const text = strdup(sn_graph_text(g));
    sn_graph *const parsed = sn_graph_parse(text, strlen(text));
    ck_assert_msg(parsed != NULL, "%s\n%s", text, sn_error_take()->message);
    ck_assert_str_eq(sn_graph_text(parsed), text);
    ck_assert_msg(sn_graph_check(g) == SN_OK, "%s", sn_error_take()->message);
    fns[0] = sn_graph_compile(g, NULL);
    fns[1] = sn_graph_compile(parsed, NULL);
    ck_assert_msg(fns[0] && fns[1], "%s", sn_error_take()->message);
    free(text);
    sn_graph_free(parsed);
    sn_graph_free(g);
}

static void free_both(sn_function **fns) {
    sn_function_free(fns[0]);
    sn_function_free(fns[1]);
}

/* Cond: x[:n] * w or x * 2, of any rows, in a branch of which another cond decides by another value. */

static sn_graph *inner_branch(const char *name, double factor) {
    sn_graph *const g = sn_graph_new(name);
    sn_node *const x = sn_graph_input(g, "x", "f32[s0,4]");
    RETURN(g, R(OP(g, "aten::mul.Tensor", R(x), sn_float(factor))));
    return g;
}

static sn_graph *taken(void) {
    sn_graph *const g = sn_graph_new("taken"), *const yes = inner_branch("thrice", 3),
                    *const no = inner_branch("half", 0.5);
    sn_node *const x = sn_graph_input(g, "x", "f32[s0,4]"), *const n = sn_graph_input(g, "s1", "int");
    sn_node *const w = sn_graph_input(g, "w", "f32[4]"), *const deep = sn_graph_input(g, "deep", "bool[]");
    const sn_value in = R(x);
    sn_node *const y = sn_graph_cond(g, R(deep), yes, no, &in, 1);
    sn_node *const part = OP(g, "aten::narrow", R(y), sn_int(0), sn_int(0), R(n));
    RETURN(g,
           R(OP(g, "aten::sum.dim_IntList", R(OP(g, "aten::mul.Tensor", R(part), R(w))), sn_ints_value(SN_INTS(0)))));
    sn_graph_free(yes);
    sn_graph_free(no);
    return g;
}

static sn_graph *other(void) {
    sn_graph *const g = sn_graph_new("other");
    sn_node *const x = sn_graph_input(g, "a", "f32[s0,4]");
    sn_graph_input(g, "s3", "int");
    sn_graph_input(g, "b", "f32[4]");
    sn_graph_input(g, "c", "bool[]");
    RETURN(g, R(OP(g, "aten::amax", R(x), sn_ints_value(SN_INTS(0)))));
    return g;
}

typedef struct Deep {
    sn_tensor *deep;
    int64_t n;
} Deep;
static sn_status thrice(sn_frame *f) { return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(3))); }
static sn_status half(sn_frame *f) { return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(0.5))); }
static sn_status taken_body(sn_frame *f) {
    const Deep *const d = sn_closure(f);
    sn_tensor *y = NULL;
    sn_cond(d->deep, thrice, half, NULL, NULL, SN_TENSORS(sn_in(f, 0)), &y, 1);
    return sn_out(f, 0, sn_sum_dim(sn_mul(sn_narrow(y, 0, 0, d->n), sn_in(f, 1)), SN_INTS(0), false));
}
static sn_status other_body(sn_frame *f) { return sn_out(f, 0, sn_amax_ex(sn_in(f, 0), SN_INTS(0), false)); }

START_TEST(a_cond_has_the_bits_of_sn_cond) {
    sn_graph *const g = sn_graph_new("f"), *const yes = taken(), *const no = other();
    sn_node *const x = sn_graph_input(g, "x", "f32[s0,4]"), *const p = sn_graph_input(g, "p", "bool[]");
    sn_node *const n = sn_graph_input(g, "s1", "int"), *const w = sn_graph_input(g, "w", "f32[4]");
    const sn_value in[] = {R(OP(g, "aten::sin", R(x))), R(n), R(w), R(OP(g, "aten::logical_not", R(p)))};
    sn_node *const y = sn_graph_cond(g, R(p), yes, no, in, 4);
    RETURN(g, R(OP(g, "aten::sum", R(OP(g, "aten::exp", R(y))))));
    sn_graph_free(yes);
    sn_graph_free(no);
    sn_function *fns[2];
    compile_both(g, fns);
    for (int k = 0; k < 24; k++) {
        const int64_t rows = 3 + k / 12, count = 1 + k / 6 % 2;
        sn_tensor *const pred = sn_full(SN_INTS(), sn_bool(k % 2), SN_BOOL);
        for (int which = 0; which < 2; which++) {
            sn_tensor *const leaf = LEAF(1, rows, 4), *const weight = LEAF(2, 4), *got, *want = NULL, *grads[4];
            const sn_value args[] = {sn_val(leaf), sn_val(pred), sn_int(count), sn_val(weight)};
            ck_assert_msg(sn_call_values(fns[which], args, 4, &got, 1) == SN_OK, "%s", sn_error_take()->message);
            Deep deep = {sn_logical_not(pred), count};
            sn_cond(pred, taken_body, other_body, &deep, NULL, SN_TENSORS(sn_sin(leaf), weight), &want, 1);
            want = sn_sum(sn_exp(want));
            ck_assert(same_bits(got, want));
            const sn_tensors leaves = SN_TENSORS(leaf, weight), ones = {NULL, 0};
            const sn_status status = sn_gradients(SN_TENSORS(got), leaves, ones, 0, grads);
            ck_assert_msg(status == SN_OK, "%s", sn_error_take()->message);
            ck_assert_int_eq(sn_gradients(SN_TENSORS(want), leaves, ones, 0, grads + 2), SN_OK);
            ck_assert(same_bits(grads[0], grads[2]) && same_bits(grads[1], grads[3]));
        }
    }
    sn_tensor *const in_end[] = {F32(1, 4, 4), sn_full(SN_INTS(), sn_bool(true), SN_BOOL), F32(2, 4)}, *end;
    const sn_value last[] = {sn_val(in_end[0]), sn_val(in_end[1]), sn_int(2), sn_val(in_end[2])};
    for (int k = 0; k < 3; k++) ck_assert_int_eq(sn_call_values(fns[0], last, 4, &end, 1), SN_OK);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    free_both(fns);
}
END_TEST

/* While: (i, x) -> (i + 1, x * w + x) while i < 5 and the sum of x is small. */

static sn_graph *rising(void) {
    sn_graph *const g = sn_graph_new("rising");
    sn_node *const i = sn_graph_input(g, "i", "i64[]");
    sn_graph_input(g, "x", "f32[s0]");
    sn_graph_input(g, "w", "f32[s0]");
    sn_graph_input(g, "s1", "int");
    RETURN(g, R(OP(g, "aten::lt.Scalar", R(i), sn_graph_sym(g, "s0 + s1"))));
    return g;
}

static sn_graph *step(void) {
    sn_graph *const g = sn_graph_new("step");
    sn_node *const i = sn_graph_input(g, "i", "i64[]"), *const x = sn_graph_input(g, "x", "f32[s0]");
    sn_node *const w = sn_graph_input(g, "w", "f32[s0]");
    sn_graph_input(g, "s1", "int");
    sn_node *const product = OP(g, "aten::mul.Tensor", R(x), R(w));
    RETURN(g, R(OP(g, "aten::add.Tensor", R(i), sn_int(1))), R(OP(g, "aten::add.Tensor", R(product), R(x))));
    return g;
}

static sn_status rising_body(sn_frame *f) {
    return sn_out(f, 0, sn_lt_scalar(sn_in(f, 0), sn_int(*(int64_t *)sn_closure(f))));
}
static sn_status step_body(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 1);
    sn_out(f, 0, sn_add_scalar(sn_in(f, 0), sn_int(1)));
    return sn_out(f, 1, sn_add(sn_mul(x, *(sn_tensor **)sn_closure(f)), x));
}

START_TEST(a_while_loop_has_the_bits_of_sn_while_loop) {
    sn_graph *const g = sn_graph_new("f"), *const test = rising(), *const body = step();
    sn_node *const i = sn_graph_input(g, "i", "i64[]"), *const x = sn_graph_input(g, "x", "f32[s0]");
    sn_node *const w = sn_graph_input(g, "w", "f32[s0]"), *const n = sn_graph_input(g, "s1", "int");
    const sn_value in[] = {R(i), R(x), R(w), R(n)};
    sn_node *const out = sn_graph_while_loop(g, test, body, SN_GRAPH_LOOP_OPTIONS(.carries = 2), in, 4);
    ck_assert_int_eq(sn_node_result_count(out), 2);
    RETURN(g, sn_node_result(out, 1), R(out));
    sn_graph_free(test);
    sn_graph_free(body);
    sn_function *fns[2];
    compile_both(g, fns);
    for (int k = 0; k < 24; k++) {
        int64_t size = 2 + k / 12, limit = size + k / 4 % 3;
        sn_tensor *const start = sn_full(SN_INTS(), sn_int(0), SN_I64), *const t = F32(3, size), *got[2], *want[2];
        sn_tensor *weight = F32(4, size);
        const sn_value args[] = {sn_val(start), sn_val(t), sn_val(weight), sn_int(limit - size)};
        const sn_while_options options = {.size = sizeof options, .condition_closure = &limit};
        ck_assert_msg(sn_call_values(fns[k % 2], args, 4, got, 2) == SN_OK, "%s", sn_error_take()->message);
        const sn_path path = last_path();
        sn_while_loop(rising_body, step_body, &weight, &options, SN_TENSORS(start, t), want, 2);
        ck_assert(same_bits(got[0], want[1]) && same_bits(got[1], want[0]));
        ck_assert_int_eq(sn_item_int(got[1]), limit);
        if (k % 4 == 3) ck_assert_int_eq(path, SN_PATH_COMPILED);
    }
    free_both(fns);
}
END_TEST

/* Scan: h = tanh(h @ w + x), gives h * b each round; from the last slice on, along dim 1. */

static sn_graph *cell(void) {
    sn_graph *const g = sn_graph_new("cell");
    sn_node *const h = sn_graph_input(g, "h", "f32[s0,3]"), *const x = sn_graph_input(g, "x", "f32[s0,3]");
    sn_node *const w = sn_graph_input(g, "w", "f32[3,3]"), *const b = sn_graph_input(g, "b", "f32[3]");
    sn_node *const sum = OP(g, "aten::add.Tensor", R(OP(g, "aten::mm", R(h), R(w))), R(x));
    sn_node *const next = OP(g, "aten::tanh", R(sum));
    RETURN(g, R(next), R(OP(g, "aten::mul.Tensor", R(next), R(b))));
    return g;
}

static sn_status cell_body(sn_frame *f) {
    sn_tensor *const *const closed = sn_closure(f);
    sn_tensor *const h = sn_tanh(sn_add(sn_mm(sn_in(f, 0), closed[0]), sn_in(f, 1)));
    sn_out(f, 0, h);
    return sn_out(f, 1, sn_mul(h, closed[1]));
}

START_TEST(a_scan_has_the_bits_of_sn_scan) {
    sn_graph *const g = sn_graph_new("f"), *const body = cell();
    sn_node *const h = sn_graph_input(g, "h", "f32[s0,3]"), *const x = sn_graph_input(g, "x", "f32[s0,s1,3]");
    sn_node *const w = sn_graph_input(g, "w", "f32[3,3]"), *const b = sn_graph_input(g, "b", "f32[3]");
    const sn_value in[] = {R(h), R(x), R(w), R(b)};
    sn_node *const out =
        sn_graph_scan(g, body, SN_GRAPH_LOOP_OPTIONS(.carries = 1, .scanned = 1, .dim = 1, .reverse = true), in, 4);
    /* What is stacked has the length of what was taken apart. */
    const sn_value flat[] = {sn_graph_sym(g, "s0*s1"), sn_int(3)};
    RETURN(g, R(out), R(OP(g, "aten::view", sn_node_result(out, 1), sn_values(flat, 2))));
    sn_graph_free(body);
    sn_function *fns[2];
    compile_both(g, fns);
    for (int k = 0; k < 16; k++) {
        const int64_t rows = 2 + k / 8, length = 2 + k / 4;
        sn_tensor *const t[] = {LEAF(1, rows, 3), LEAF(2, rows, length, 3), LEAF(3, 3, 3), LEAF(4, 3)};
        sn_tensor *got[2], *want[2], *grads[8], *const closed[] = {t[2], t[3]};
        ck_assert_msg(sn_call(fns[k % 2], t, 4, got, 2) == SN_OK, "%s", sn_error_take()->message);
        sn_scan(cell_body, (void *)closed, SN_SCAN_OPTIONS(.carries = 1, .dim = 1, .reverse = true),
                SN_TENSORS(t[0], t[1]), want, 2);
        want[1] = sn_view(want[1], SN_INTS(rows * length, 3));
        ck_assert(same_bits(got[0], want[0]) && same_bits(got[1], want[1]));
        const sn_tensors leaves = {t, 4}, ones = {NULL, 0};
        sn_tensor *const a = sn_add(sn_sum(got[0]), sn_sum(got[1])), *const c =
                                                                         sn_add(sn_sum(want[0]), sn_sum(want[1]));
        ck_assert_int_eq(sn_gradients(SN_TENSORS(a), leaves, ones, 0, grads), SN_OK);
        ck_assert_int_eq(sn_gradients(SN_TENSORS(c), leaves, ones, 0, grads + 4), SN_OK);
        for (int i = 0; i < 4; i++) ck_assert(same_bits(grads[i], grads[i + 4]));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    free_both(fns);
}
END_TEST

/* Random numbers in a body are those of sn_cond's. */
static sn_status noisy_body(sn_frame *f) { return sn_out(f, 0, sn_mul(sn_in(f, 0), sn_rand_like(sn_in(f, 0)))); }

START_TEST(bodies_draw_numbers) {
    sn_graph *const g = sn_graph_new("f"), *const body = sn_graph_new("noisy");
    sn_node *const a = sn_graph_input(body, "a", "f32[s0]");
    RETURN(body, R(OP(body, "aten::mul.Tensor", R(a), R(OP(body, "aten::rand_like", R(a))))));
    sn_node *const x = sn_graph_input(g, "x", "f32[s0]");
    const sn_value in = R(OP(g, "aten::rand_like", R(x)));
    RETURN(g, R(sn_graph_cond(g, sn_bool(true), body, body, &in, 1)));
    sn_graph_free(body);
    sn_function *fns[2];
    compile_both(g, fns);
    for (int k = 0; k < 6; k++) {
        sn_tensor *const t = F32(1, 5 + k / 3), *got, *want = NULL;
        sn_seed(3);
        ck_assert_msg(sn_call(fns[k % 2], &t, 1, &got, 1) == SN_OK, "%s", sn_error_take()->message);
        sn_seed(3);
        sn_tensor *const u = sn_rand_like(t), *const yes = sn_full(SN_INTS(), sn_bool(true), SN_BOOL);
        sn_cond(yes, noisy_body, noisy_body, NULL, NULL, SN_TENSORS(u), &want, 1);
        ck_assert(same_bits(got, want));
    }
    free_both(fns);
}
END_TEST

/* dropout takes no number itself, only what it is made of does: no code has that, the bodies run op by op. */
static sn_status dropped_body(sn_frame *f) {
    return sn_out(f, 0, sn_dropout(sn_in(f, 0), 0.5, true)), sn_out(f, 1, sn_in(f, 1));
}

START_TEST(bodies_draw_numbers_inside_of_ops) {
    sn_graph *const g = sn_graph_new("f"), *const body = sn_graph_new("dropped");
    sn_node *const a = sn_graph_input(body, "a", "f32[4]"), *const b = sn_graph_input(body, "b", "f32[4]");
    RETURN(body, R(OP(body, "aten::dropout", R(a), sn_float(0.5), sn_bool(true))), R(b));
    sn_node *const h = sn_graph_input(g, "h", "f32[4]"), *const x = sn_graph_input(g, "x", "f32[s0,4]");
    const sn_value in[] = {R(h), R(x)};
    RETURN(g, R(sn_graph_scan(g, body, SN_GRAPH_LOOP_OPTIONS(.carries = 1, .scanned = 1), in, 2)));
    sn_graph_free(body);
    sn_function *fns[2];
    compile_both(g, fns);
    for (int k = 0; k < 6; k++) {
        sn_tensor *const ts[] = {sn_ones(SN_INTS(4), SN_F32), F32(1, 1 + k / 3, 4)}, *got, *want[2] = {NULL};
        sn_seed(k);
        ck_assert_msg(sn_call(fns[k % 2], ts, 2, &got, 1) == SN_OK, "%s", sn_error_take()->message);
        sn_seed(k);
        sn_scan(dropped_body, NULL, NULL, SN_TENSORS(ts[0], ts[1]), want, 2);
        ck_assert(same_bits(got, want[0]));
    }
    free_both(fns);
}
END_TEST

#define EXPECT(call, said)                                                                                             \
    do {                                                                                                               \
        ck_assert_ptr_null(call);                                                                                      \
        const sn_error *const raised = sn_error_take();                                                                \
        ck_assert_msg(strstr(raised->message, said) != NULL, "%s", raised->message);                                   \
        ck_assert_str_eq(sn_graph_text(g), before);                                                                    \
    } while (0)

START_TEST(what_is_no_control_flow) {
    sn_graph *const g = sn_graph_new("g"), *const body = sn_graph_new("body"), *const two = sn_graph_new("two");
    sn_graph *const none = sn_graph_new("none"), *const open = sn_graph_new("open"), *const far = sn_graph_new("far");
    sn_node *const x = sn_graph_input(g, "x", "f32[2,3]"), *const p = sn_graph_input(g, "p", "bool[]");
    sn_node *const n = sn_graph_input(g, "s0", "int"), *const a = sn_graph_input(body, "a", "f32[s0,3]");
    sn_node *const b = sn_graph_input(two, "b", "f32[2,3]"), *const c = sn_graph_input(far, "c", "f32[2,s0*2]");
    sn_node *const e = sn_graph_input(none, "e", "f32[2,3]"), *const d = sn_graph_input(open, "d", "f32[2,3]");
    RETURN(body, R(a));
    RETURN(two, R(b), R(b));
    RETURN(none, sn_none(), R(e));
    RETURN(far, R(c));
    RETURN(open, R(OP(open, "aten::mul.Tensor", R(d), sn_graph_sym(open, "s0"))));
    const sn_value in[] = {R(x), R(n)}, tensor = sn_val(F32(1, 2, 3)), of_body = R(a), list = sn_values(in, 2);
    char *const before = strdup(sn_graph_text(g));
    EXPECT(sn_graph_cond(NULL, R(p), body, body, in, 1), "sn_graph_cond: the graph is NULL");
    EXPECT(sn_graph_cond(g, R(p), NULL, body, in, 1), "sn_graph_cond: if_true is NULL");
    EXPECT(sn_graph_cond(g, R(p), body, g, in, 1), "if_false is the graph itself");
    EXPECT(sn_graph_cond(g, R(p), body, body, NULL, 1), "a NULL list of 1 operands");
    EXPECT(sn_graph_cond(g, R(p), body, body, in, -1), "a list of -1 operands");
    EXPECT(sn_graph_cond(g, R(p), body, body, in, 2), "2 operands for if_true, graph body, which has 1 inputs");
    EXPECT(sn_graph_cond(g, R(p), body, body, &in[1], 1),
           "operand 0 is an int, and if_true's input of that place a Tensor");
    EXPECT(sn_graph_cond(g, R(p), body, body, &tensor, 1), "operand 0 is a tensor, not a node's result");
    EXPECT(sn_graph_cond(g, R(p), body, body, &of_body, 1), "operand 0 is of graph body, not of g");
    EXPECT(sn_graph_cond(g, R(p), body, body, &list, 1), "operand 0 is a list");
    EXPECT(sn_graph_cond(g, R(n), body, body, in, 1), "sn::cond: pred must be a Tensor or a bool");
    EXPECT(sn_graph_cond(g, R(x), body, body, in, 1), "sn::cond: pred is f32[2, 3], not one bool");
    EXPECT(sn_graph_cond(g, sn_bool(true), body, two, in, 1), "1 results in one branch, 2 in the other");
    EXPECT(sn_graph_cond(g, R(p), body, two, in, 1), "1 results in one branch, 2 in the other");
    EXPECT(sn_graph_cond(g, R(p), body, none, in, 1), "if_false, graph none, has None as result 0");
    EXPECT(sn_graph_cond(g, R(p), body, open, in, 1), "graph open has s0, which no input says");
    EXPECT(sn_graph_cond(g, R(p), body, far, in, 1),
           "size 1 of input %c of a body is of symbols that no size before it is");
    EXPECT(sn_graph_while_loop(g, body, body, SN_GRAPH_LOOP_OPTIONS(.carries = 2), in, 1), "of which 2 are carried");
    EXPECT(sn_graph_while_loop(g, body, body, SN_GRAPH_LOOP_OPTIONS(.carries = -1), in, 1), "of which -1 are carried");
    EXPECT(sn_graph_while_loop(g, body, body, SN_GRAPH_LOOP_OPTIONS(.scanned = 1), in, 1), "and 1 scanned");
    EXPECT(sn_graph_while_loop(g, body, body, NULL, in, 1), "what condition gives is f32[2, 3], not one bool");
    EXPECT(sn_graph_while_loop(g, body, two, NULL, in, 1), "a body of 2, for 1 carries");
    EXPECT(sn_graph_while_loop(g, body, body, NULL, in + 1, 1), "operand 0 is an int, and carried");
    EXPECT(sn_graph_while_loop(g, body, body, SN_GRAPH_LOOP_OPTIONS(.max_iterations = -3), in, 1),
           "max_iterations is -3");
    EXPECT(sn_graph_scan(g, body, NULL, in, 1), "0 are carried and 0 scanned");
    EXPECT(sn_graph_scan(g, body, SN_GRAPH_LOOP_OPTIONS(.scanned = 1), in, 1), "has sizes [s0, 3], not [3]");
    EXPECT(sn_graph_scan(g, body, &(sn_graph_loop_options){.scanned = 1}, in, 1), "size");
    const sn_value bad[] = {R(p)};
    EXPECT(sn_graph_cond(g, R(p), body, body, bad, 1), "input %a of a body");
    free(before);
    sn_graph *const all[] = {g, body, two, none, open, far};
    for (int i = 0; i < 6; i++) sn_graph_free(all[i]);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {a_cond_has_the_bits_of_sn_cond,    a_while_loop_has_the_bits_of_sn_while_loop,
                                  a_scan_has_the_bits_of_sn_scan,    bodies_draw_numbers,
                                  bodies_draw_numbers_inside_of_ops, what_is_no_control_flow};
    return contract_main("test_graph_flow", tests, (int)(sizeof tests / sizeof *tests));
}
