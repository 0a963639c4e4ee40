/* test_graph_build.c: graphs built in code: what is built prints as the text that says the same, which parses back; the
 * bits are those of the op functions; errors name op, argument and value. */
#include "tests/unit/contract.h"

/* The text parses, and prints as itself; so does what was built. */
static void expect_text(sn_graph *g, const char *text) {
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
    ck_assert_str_eq(sn_graph_text(g), text);
    sn_graph *const parsed = sn_graph_parse(text, strlen(text));
    ck_assert_msg(parsed != NULL, "%s", sn_error_take()->message);
    ck_assert_str_eq(sn_graph_text(parsed), text);
    ck_assert_msg(sn_graph_check(g) == SN_OK, "%s", sn_error_take()->message);
    ck_assert_int_eq(sn_graph_check(parsed), SN_OK);
    sn_graph_free(parsed);
}

static sn_node *op(sn_graph *g, const char *name, int n, const sn_value *args) { return sn_graph_op(g, name, args, n); }
#define OP(g, name, ...) op(g, name, (int)SN_COUNT(sn_value, __VA_ARGS__), (const sn_value[]){__VA_ARGS__})
#define R(n)             sn_node_result(n, 0)

static sn_graph *halves(void) {
    sn_graph *const g = sn_graph_new("halves");
    sn_node *const x = sn_graph_input(g, "x", "f32[s0,8]");
    sn_node *const parts = OP(g, "aten::split.Tensor", R(x), sn_int(4), sn_int(1));
    ck_assert_int_eq(sn_node_result_count(parts), 2);
    const sn_value both[] = {sn_node_result(parts, 1), sn_node_result(parts, 0)};
    const sn_value out = R(OP(g, "aten::cat", sn_values(both, 2), sn_int(1)));
    ck_assert_int_eq(sn_graph_return(g, &out, 1), SN_OK);
    return g;
}

START_TEST(lists_of_results_and_of_arguments) {
    sn_graph *const g = halves();
    expect_text(g, "graph halves(%x: f32[s0,8]) {\n"
                   "  %0, %1 = aten::split.Tensor(%x, 4, 1)\n"
                   "  %2 = aten::cat([%1, %0], 1)\n"
                   "  return %2\n"
                   "}\n");
    sn_function *const fn = sn_graph_compile(g, NULL);
    sn_graph_free(g);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const x = F32(1, 3 + i, 8);
        sn_tensor *const want = sn_cat(SN_TENSORS(sn_narrow(x, 1, 4, 4), sn_narrow(x, 1, 0, 4)), 1);
        ck_assert(same_bits(SN_CALL(fn, x), want));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    sn_function_free(fn);
}
END_TEST

/* In-place and out forms, indices with None, ints that are symbols, an int input, numbers and None as results. */
static sn_graph *of_all_kinds(void) {
    sn_graph *const g = sn_graph_new("kinds");
    sn_node *const x = sn_graph_input(g, "x", "f32[s0,6]"), *const i = sn_graph_input(g, "i", "i64[3]");
    sn_node *const n = sn_graph_input(g, "s1", "int"), *const o = sn_graph_input(g, "o", "f32[6,s0]");
    sn_node *const y = OP(g, "aten::clone", R(x));
    OP(g, "aten::mul_.Tensor", R(y), sn_float(2));
    const sn_value at[] = {sn_none(), R(i)};
    sn_node *const picked = OP(g, "aten::index.Tensor", R(y), sn_values(at, 2));
    const sn_value sizes[] = {sn_int(3), sn_graph_sym(g, "s0")}, grown[] = {R(n), sn_graph_sym(g, "2 * s0 + 1")};
    sn_node *const seen = OP(g, "aten::reshape", R(picked), sn_values(sizes, 2));
    sn_node *const t = OP(g, "aten::t", R(x));
    OP(g, "aten::add.out", R(t), R(o), ((sn_value){.kind = SN_KIND_DEFAULT}), R(o));
    sn_node *const ones = OP(g, "aten::ones", sn_values(grown, 2), sn_int(SN_F64));
    ck_assert_int_eq(sn_node_place(ones, "model.py", 57, "forward"), SN_OK);
    const sn_value out[] = {R(seen),       sn_none(), R(ones), R(ones), R(x), sn_graph_sym(g, "s0"),
                            sn_float(0.5), sn_bool(1)};
    ck_assert_int_eq(sn_graph_return(g, out, 8), SN_OK);
    return g;
}

static const char kinds[] =
    "graph kinds[s0=2, s1=2>=-1152921504606846976](%x: f32[s0,6], %i: i64[3], s1: int, %o: f32[6,s0]) {\n"
    "  %0 = aten::clone(%x)\n"
    "  %1 = aten::mul_.Tensor(%0, 2.0)\n"
    "  %2 = aten::index.Tensor(%0, [None, %i])\n"
    "  %3 = aten::reshape(%2, [3, s0])\n"
    "  %4 = aten::t(%x)\n"
    "  %5 = aten::add.out(%4, %o, out=%o)\n"
    "  %6 = aten::ones([s1, s0*2+1], dtype=f64) at='model.py:57 in forward'\n"
    "  %7 = aten::full([], s0, dtype=i64)\n"
    "  %8 = aten::full([], 0.5, dtype=f64)\n"
    "  %9 = aten::full([], True, dtype=bool)\n"
    "  return %3, None, %6, %6, %x, %7, %8, %9\n"
    "}\n";

START_TEST(all_kinds_of_arguments_and_results) {
    sn_graph *const g = of_all_kinds();
    expect_text(g, kinds);
    sn_function *const fn = sn_graph_compile(g, NULL);
    sn_graph_free(g);
    for (int k = 0; k < 4; k++) {
        const int64_t rows = 3 + k / 2, index[] = {5, 0, k};
        sn_tensor *const x = F32(1, rows, 6), *const i = sn_from_data(index, SN_INTS(3), SN_I64);
        sn_tensor *const o = F32(2, 6, rows), *const sum = sn_add(sn_t(x), sn_clone(o)), *y[8];
        const sn_value in[] = {sn_val(x), sn_val(i), sn_int(2 + k), sn_val(o)};
        ck_assert_msg(sn_call_values(fn, in, 4, y, 8) == SN_OK, "%s", sn_error_take()->message);
        sn_tensor *const doubled = sn_mul_scalar(x, sn_float(2));
        ck_assert(same_bits(y[0], sn_reshape(sn_index_select(doubled, 1, i), SN_INTS(3, rows))));
        ck_assert_ptr_null(y[1]);
        ck_assert(same_bits(y[2], sn_ones(SN_INTS(2 + k, 2 * rows + 1), SN_F64)) && same_bits(y[2], y[3]));
        ck_assert(sn_data(y[4], SN_F32) == sn_data(x, SN_F32) && same_bits(o, sum));
        ck_assert(sn_item_int(y[5]) == rows && sn_item(y[6]) == 0.5 && sn_item(y[7]) == 1);
        ck_assert(sn_dtype_of(y[5]) == SN_I64 && sn_dtype_of(y[6]) == SN_F64 && sn_dtype_of(y[7]) == SN_BOOL);
        ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
    }
    sn_function_free(fn);
}
END_TEST

/* A linear layer, gelu, a second one and the mean of squares: trained through, with the gradients of the functions. */
START_TEST(a_built_net_has_gradients) {
    sn_graph *const g = sn_graph_new("net");
    sn_node *const x = sn_graph_input(g, "x", "f32[s0,6]"), *const w = sn_graph_input(g, "w", "f32[5,6]");
    sn_node *const b = sn_graph_input(g, "b", "f32[5]"), *const v = sn_graph_input(g, "v", "f32[2,5]");
    sn_node *const hidden = OP(g, "gelu", R(OP(g, "aten::linear", R(x), R(w), R(b))), sn_str("tanh"));
    sn_node *const y = OP(g, "aten::linear.default", R(hidden), R(v));
    const sn_value loss = R(OP(g, "aten::mean", R(OP(g, "aten::mul.Tensor", R(y), R(y)))));
    ck_assert_int_eq(sn_graph_return(g, &loss, 1), SN_OK);
    expect_text(g, "graph net(%x: f32[s0,6], %w: f32[5,6], %b: f32[5], %v: f32[2,5]) {\n"
                   "  %0 = aten::linear(%x, %w, %b)\n"
                   "  %1 = aten::gelu(%0, approximate='tanh')\n"
                   "  %2 = aten::linear(%1, %v)\n"
                   "  %3 = aten::mul.Tensor(%2, %2)\n"
                   "  %4 = aten::mean(%3) order=L\n"
                   "  return %4\n"
                   "}\n");
    sn_function *const fn = sn_graph_compile(g, NULL);
    sn_graph_free(g);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const in[] = {F32(1, 4, 6), LEAF(2, 5, 6), LEAF(3, 5), LEAF(4, 2, 5)}, *got[3], *want[3], *out;
        ck_assert_msg(sn_call(fn, in, 4, &out, 1) == SN_OK, "%s", sn_error_take()->message);
        sn_tensor *const h = sn_gelu_ex(sn_linear(in[0], in[1], in[2]), "tanh"), *const z = sn_linear(h, in[3], NULL);
        sn_tensor *const own = sn_mean(sn_mul(z, z));
        ck_assert(same_bits(out, own));
        const sn_tensors leaves = {in + 1, 3}, ones = {NULL, 0};
        ck_assert_int_eq(sn_gradients(SN_TENSORS(out), leaves, ones, 0, got), SN_OK);
        ck_assert_int_eq(sn_gradients(SN_TENSORS(own), leaves, ones, 0, want), SN_OK);
        for (int k = 0; k < 3; k++) ck_assert(same_bits(got[k], want[k]));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    sn_function_free(fn);
}
END_TEST

/* Random ops take numbers as they come; one that fails takes none. */
START_TEST(random_ops_are_numbered) {
    sn_graph *const g = sn_graph_new("noise");
    sn_node *const x = sn_graph_input(g, "x", "f32[s0]");
    sn_node *const a = OP(g, "aten::rand_like", R(x));
    ck_assert_ptr_null(OP(g, "aten::rand", sn_ints_value(SN_INTS(-3))));
    expect_error(SN_ERR_SHAPE, "aten::rand");
    sn_node *const b = OP(g, "aten::bernoulli.p", R(a), sn_float(0.5));
    const sn_value out[] = {R(a), R(b)};
    ck_assert_int_eq(sn_graph_return(g, out, 2), SN_OK);
    expect_text(g, "graph noise[s0=2, s1=2>=0, s2=2>=0](%x: f32[s0]) {\n"
                   "  random seed=s1 sequence=s2 count=2\n"
                   "  %0 = aten::rand_like(%x) random=0\n"
                   "  %1 = aten::bernoulli.p(%0, 0.5) random=1\n"
                   "  return %0, %1\n"
                   "}\n");
    sn_function *const fn = sn_graph_compile(g, NULL);
    sn_graph_free(g);
    sn_tensor *const t = F32(1, 40), *y[2];
    for (int i = 0; i < 3; i++) {
        sn_seed(7);
        ck_assert_int_eq(sn_call(fn, &t, 1, y, 2), SN_OK);
        sn_seed(7);
        sn_tensor *const u = sn_rand_like(t);
        ck_assert(same_bits(y[0], u) && same_bits(y[1], sn_bernoulli_p(u, 0.5)));
    }
    sn_function_free(fn);
}
END_TEST

/* A part without gradients, and one in a region of autocast: the text says so, the bits are those of the modes. */
static sn_tensor *in_modes(sn_tensor *x, sn_tensor *w) {
    sn_grad_mode_set(SN_GRAD_OFF);
    sn_tensor *const scale = sn_exp(x);
    sn_grad_mode_set(SN_GRAD_ON);
    const sn_scope region = sn_scope_begin();
    sn_autocast_set(SN_CPU, SN_BF16);
    sn_tensor *const y = sn_cat(SN_TENSORS(sn_mm(sn_mul(x, scale), w), w), 0);
    return sn_scope_return(region, sn_softmax(y, 1));
}

static sn_graph *built_modes(void) {
    sn_graph *const g = sn_graph_new("modes");
    sn_node *const x = sn_graph_input(g, "x", "f32[s0,4]"), *const w = sn_graph_input(g, "w", "f32[4,4]");
    sn_graph_grad_mode_set(g, SN_GRAD_OFF);
    sn_node *const scale = OP(g, "aten::exp", R(x));
    sn_graph_grad_mode_set(g, SN_GRAD_ON);
    sn_graph_autocast_set(g, SN_CPU, SN_BF16);
    const sn_value both[] = {R(OP(g, "aten::mm", R(OP(g, "aten::mul.Tensor", R(x), R(scale))), R(w))), R(w)};
    sn_node *const y = OP(g, "aten::softmax.int", R(OP(g, "aten::cat", sn_values(both, 2), sn_int(0))), sn_int(1));
    ck_assert_ptr_null(OP(g, "aten::mm", R(w), R(OP(g, "aten::zeros", sn_ints_value(SN_INTS(3, 3))))));
    expect_error(SN_ERR_SHAPE, "aten::mm"); /* its casts go, too; the zeros are an op of its own */
    sn_node_erase(sn_graph_node(g, sn_graph_count(g) - 1));
    sn_graph_autocast_set(g, SN_CPU, SN_F32);
    const sn_value out[] = {R(y), R(OP(g, "aten::mm", R(w), R(w)))};
    sn_graph_return(g, out, 2);
    return g;
}

START_TEST(modes_are_of_ops) {
    sn_graph *const g = built_modes();
    expect_text(g, "graph modes(%x: f32[s0,4], %w: f32[4,4]) {\n"
                   "  %0 = aten::exp(%x) no_grad\n"
                   "  %1 = aten::mul.Tensor(%x, %0)\n"
                   "  %2 = aten::_to_copy(%1, dtype=bf16)\n"
                   "  %3 = aten::_to_copy(%w, dtype=bf16)\n"
                   "  %4 = aten::mm(%2, %3) order=chain\n"
                   "  %5 = aten::cat([%4, %w])\n"
                   "  %6 = aten::softmax.int(%5, 1)\n"
                   "  %7 = aten::mm(%w, %w) order=chain\n"
                   "  return %6, %7\n"
                   "}\n");
    sn_function *const fn = sn_graph_compile(g, NULL);
    sn_graph_free(g);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const x = LEAF(1, 3, 4), *const w = LEAF(2, 4, 4), *in[] = {x, w}, *out[2], *got[2], *want[2];
        ck_assert_msg(sn_call(fn, in, 2, out, 2) == SN_OK, "%s", sn_error_take()->message);
        sn_tensor *const own = in_modes(x, w), *const weight = F32(3, 7, 4);
        ck_assert(same_bits(out[0], own));
        const sn_tensors leaves = {in, 2}, seeds = SN_TENSORS(weight);
        ck_assert_int_eq(sn_gradients(SN_TENSORS(out[0]), leaves, seeds, 0, got), SN_OK);
        ck_assert_int_eq(sn_gradients(SN_TENSORS(own), leaves, seeds, 0, want), SN_OK);
        ck_assert(same_bits(got[0], want[0]) && same_bits(got[1], want[1]));
    }
    sn_function_free(fn);
}
END_TEST

/* Each is tried on a graph of x: f32[2,3], i: i64[4], s5: int and an op with two results; nothing is added. */
enum { OF_X = -100, OF_I, OF_TWO, OF_SYM, OF_NULL, OF_OTHER, OF_GONE, OF_MISSING };
static const struct {
    const char *op;
    sn_value args[4];
    int n;
    const char *message;
} wrong[] = {
    {"aten::nonsense", {}, 0, "sn_graph_op: no op is called 'aten::nonsense'"},
    {"aten::ad.Tensor", {}, 0, "sn_graph_op: no op is called 'aten::ad.Tensor'"},
    {"aten::add.Tensor", {{.kind = OF_X}}, 1, "aten::add.Tensor: other is missing"},
    {"aten::add.Tensor",
     {{.kind = OF_X}, {.kind = OF_NULL}},
     2,
     "sn_graph_op: aten::add.Tensor: other is result 0 of a NULL node"},
    {"aten::add.Tensor",
     {{.kind = OF_X}, {.kind = OF_OTHER}},
     2,
     "sn_graph_op: aten::add.Tensor: other is of graph other, not of wrong"},
    {"aten::add.Tensor",
     {{.kind = OF_X}, {.kind = OF_GONE}},
     2,
     "sn_graph_op: aten::add.Tensor: other is no node of graph wrong"},
    {"aten::add.Tensor",
     {{.kind = OF_X}, {.kind = OF_MISSING}},
     2,
     "sn_graph_op: aten::add.Tensor: other is result 9 of aten::split.Tensor, which has 2"},
    {"aten::add.Tensor",
     {{.kind = OF_X}, {.kind = OF_I}},
     2,
     "aten::add.Tensor: other [4] does not broadcast with [2, 3]"},
    {"aten::mm", {{.kind = OF_X}, {.kind = OF_SYM}}, 2, "aten::mm: mat2 must be Tensor, not int"},
    {"aten::add.Tensor",
     {{.kind = OF_X}, {.kind = 99}},
     2,
     "sn_graph_op: aten::add.Tensor: other is a value of unknown kind 99"},
    {"aten::add.Tensor",
     {{.kind = OF_X}, {.kind = 10}},
     2,
     "sn_graph_op: aten::add.Tensor: other is a value of unknown kind 10"},
    {"aten::relu", {{.kind = OF_X}, {.kind = OF_X}}, 2, "sn_graph_op: aten::relu: 1 arguments at most, not 2"},
    {"aten::relu", {{.kind = OF_X}}, -1, "sn_graph_op: aten::relu: a list of -1 arguments"},
    {"aten::cat", {{.kind = SN_KIND_VALUES, .n = 2}}, 1, "sn_graph_op: aten::cat: tensors is a NULL list of 2"},
    {"aten::cat", {{.kind = SN_KIND_VALUES, .n = -2}}, 1, "sn_graph_op: aten::cat: tensors is a list of -2"},
    {"aten::cat",
     {{.kind = SN_KIND_VALUES, .n = 1, .values = (const sn_value[]){{.kind = SN_KIND_NONE}}}},
     1,
     "aten::cat: tensors[0] is NULL"},
    {"aten::cat",
     {{.kind = SN_KIND_VALUES, .n = 1, .values = (const sn_value[]){{.kind = SN_KIND_INT, .i = 3}}}},
     1,
     "sn_graph_op: aten::cat: tensors[0] must be a Tensor"},
    {"aten::reshape",
     {{.kind = OF_X}, {.kind = SN_KIND_VALUES, .n = 1, .values = (const sn_value[]){{.kind = SN_KIND_FLOAT, .f = 6}}}},
     2,
     "sn_graph_op: aten::reshape: shape[0] must be an int"},
    {"aten::reshape",
     {{.kind = OF_X}, {.kind = SN_KIND_INT, .i = -(INT64_C(3) << 61)}},
     2,
     "sn_graph_op: aten::reshape: shape is -6917529027641081856, which stands for no int"},
    {"aten::max.dim_max",
     {{.kind = OF_X}},
     1,
     "sn_graph_op: aten::max.dim_max writes 2 tensors, which stand behind its arguments; 1 are there"},
    {"aten::add.out",
     {{.kind = OF_X}, {.kind = OF_X}, {.kind = SN_KIND_DEFAULT}, {.kind = SN_KIND_NONE}},
     4,
     "sn_graph_op: aten::add.out: out must be a Tensor"},
    {"aten::exp_", {{.kind = OF_I}}, 1, "aten::exp_: a result of f32 doesn't fit a tensor of i64"},
};

START_TEST(wrong_ops_name_op_argument_and_value) {
    sn_graph *const g = sn_graph_new("wrong"), *const other = sn_graph_new("other");
    sn_node *const x = sn_graph_input(g, "x", "f32[2,3]"), *const i = sn_graph_input(g, "i", "i64[4]");
    sn_node *const n = sn_graph_input(g, "s5", "int"), *const y = sn_graph_input(other, "y", "f32[2,3]");
    sn_node *const two = OP(g, "aten::split.Tensor", R(x), sn_int(1)), *const gone = OP(g, "aten::relu", R(x));
    sn_node_erase(gone);
    char *const before = strdup(sn_graph_text(g));
    const sn_value by_kind[] = {R(x),
                                R(i),
                                R(two),
                                R(n),
                                {.kind = SN_KIND_NODE},
                                R(y),
                                {.kind = SN_KIND_NODE, .node = gone},
                                {.kind = SN_KIND_NODE, .n = 9, .node = two}};
    for (int k = 0; k < (int)(sizeof wrong / sizeof *wrong); k++) {
        sn_value args[4];
        for (int a = 0; a < 4; a++) {
            args[a] = wrong[k].args[a];
            if (args[a].kind <= OF_MISSING && args[a].kind >= OF_X) args[a] = by_kind[args[a].kind - OF_X];
        }
        ck_assert_ptr_null(sn_graph_op(g, wrong[k].op, args, wrong[k].n));
        const sn_error *const e = sn_error_take();
        ck_assert_msg(!strncmp(e->message, wrong[k].message, strlen(wrong[k].message)), "%s: %s", wrong[k].op,
                      e->message);
        ck_assert_str_eq(sn_graph_text(g), before);
    }
    free(before);
    sn_graph_free(g);
    sn_graph_free(other);
}
END_TEST

/* Ranges and conditions are those of a text's header, and checked at calls. */
START_TEST(symbols_have_ranges_and_conditions) {
    sn_graph *const g = sn_graph_new("sized");
    ck_assert_int_eq(sn_graph_range(g, "s0", 1, 64, 8), SN_OK);
    ck_assert_int_eq(sn_graph_range(g, "s1", 0, INT64_MAX, 0), SN_OK);
    ck_assert_int_eq(sn_graph_assume(g, "Mod(s0, 2) == 0"), SN_OK);
    sn_node *const x = sn_graph_input(g, "x", "f32[s0,4]"), *const y = sn_graph_input(g, "y", "f32[s0//2,s1]");
    ck_assert_int_eq(sn_graph_assume(g, "s1 <= 2*s0"), SN_OK);
    const sn_value sizes[] = {sn_graph_sym(g, "s0//2"), sn_int(8)};
    const sn_value both[] = {R(OP(g, "aten::reshape", R(x), sn_values(sizes, 2))), R(y)};
    const sn_value out = R(OP(g, "aten::cat", sn_values(both, 2), sn_int(1)));
    sn_graph_return(g, &out, 1);
    char *const text = strdup(sn_graph_text(g));
    expect_text(g, text);
    ck_assert_msg(strstr(text, "[s0=8>=1<=64, s1=2>=0; (s0%2)==0, s1<=s0*2]") != NULL, "%s", text);
    free(text);
    sn_function *const fn = sn_graph_compile(g, NULL);
    sn_graph_free(g);
    static const struct {
        int64_t s0, s1;
        const char *error;
    } rows[] = {{2, 3, NULL}, {4, 0, NULL}, {64, 128, NULL}, {3, 1, "s0%2"}, {66, 1, "64"}, {2, 5, "s1"}, {8, 1, NULL}};
    for (int i = 0; i < 7; i++) {
        sn_tensor *const in[] = {F32(1, rows[i].s0, 4), F32(2, rows[i].s0 / 2, rows[i].s1)}, *z;
        const sn_status status = sn_call(fn, in, 2, &z, 1);
        if (rows[i].error) {
            ck_assert_int_ne(status, SN_OK);
            const sn_error *const e = sn_error_take();
            ck_assert_msg(strstr(e->message, rows[i].error) != NULL, "%s", e->message);
            continue;
        }
        ck_assert_msg(status == SN_OK, "%s", sn_error_take()->message);
        sn_tensor *const shaped = sn_reshape(in[0], SN_INTS(rows[i].s0 / 2, 8));
        ck_assert(same_bits(z, sn_cat(SN_TENSORS(shaped, in[1]), 1)));
    }
    sn_function_free(fn);
}
END_TEST

#define EXPECT(call, said)                                                                                             \
    do {                                                                                                               \
        call;                                                                                                          \
        const sn_error *const e = sn_error_take();                                                                     \
        ck_assert_msg(strstr(e->message, said) != NULL, "%s", e->message);                                             \
    } while (0)

START_TEST(wrong_inputs_results_and_places) {
    EXPECT(sn_graph_new(NULL), "sn_graph_new: the name is NULL");
    EXPECT(sn_graph_new("two words"), "'two words' is no name of a graph");
    EXPECT(sn_graph_new(""), "'' is no name of a graph");
    sn_graph *const g = sn_graph_new("g");
    sn_node *const x = sn_graph_input(g, "x", "f32[2,3]");
    EXPECT(sn_graph_input(NULL, "y", "f32[2]"), "sn_graph_input: the graph is NULL");
    EXPECT(sn_graph_input(g, NULL, "f32[2]"), "the name is NULL");
    EXPECT(sn_graph_input(g, "y", NULL), "the type is NULL");
    EXPECT(sn_graph_input(g, "x", "f32[2]"), "graph g has an input %x");
    sn_graph *const ints = sn_graph_new("ints");
    ck_assert_ptr_nonnull(sn_graph_input(ints, "s7", "int"));
    EXPECT(sn_graph_input(ints, "s7", "int"), "graph ints has an int s7");
    sn_graph_free(ints);
    EXPECT(sn_graph_input(g, "0", "f32[2]"), "'0' is no name of an input");
    EXPECT(sn_graph_input(g, "a b", "f32[2]"), "'a b' is no name of an input");
    EXPECT(sn_graph_input(g, "y", "f32[2"), "%y is no type 'f32[2'");
    EXPECT(sn_graph_input(g, "y", "f32[2] "), "text after it");
    EXPECT(sn_graph_input(g, "y", "c64[2]"), "%y is no type 'c64[2]'");
    EXPECT(sn_graph_input(g, "y", "f32[-2]"), "size -2 of dim 0 is negative");
    EXPECT(sn_graph_input(g, "y", "f32[2,3]{3,-1}"), "stride -1 of dim 1 is negative");
    EXPECT(sn_graph_input(g, "y", "f32[s0,3]{-3,1}"), "stride -3 of dim 0 is negative");
    EXPECT(sn_graph_input(g, "y", "f32[s0,3]{-1*s0,1}"), "of dim 0 is negative");
    EXPECT(sn_graph_input(g, "y", "f32[-2*s0-1]"), "of dim 0 is negative");
    EXPECT(sn_graph_input(g, "y", "f32[s0]{1,2}"), "2 strides for 1 sizes");
    EXPECT(sn_graph_input(g, "n", "int"), "an int is called as its symbol, s0 to s4096, not 'n'");
    EXPECT(sn_graph_input(g, "s9999999999", "int"), "an int is called as its symbol");
    EXPECT(sn_graph_sym(g, "s0+"), "sn_graph_sym: 's0+' is no expression");
    EXPECT(sn_graph_sym(g, "n"), "sn_graph_sym: 'n' is no expression");
    EXPECT(sn_graph_sym(g, "s0//0"), "a divisor that is not 0");
    EXPECT(sn_graph_sym(NULL, "s0"), "the graph is NULL");
    EXPECT(sn_graph_range(g, "x", 1, 2, 0), "'x' is no symbol: s0 to s4096");
    EXPECT(sn_graph_range(g, NULL, 1, 2, 0), "the symbol is NULL");
    EXPECT(sn_graph_range(g, "s0", 3, 2, 0), "s0 from 3 to 2");
    EXPECT(sn_graph_range(g, "s0", 3, 5, 9), "for instance 9");
    EXPECT(sn_graph_assume(g, "s0 = 2"), "'s0 = 2' is no condition");
    EXPECT(sn_graph_assume(g, "s7 == 2"), "there is no s7");
    EXPECT(sn_graph_assume(g, NULL), "the condition is NULL");
    EXPECT(sn_node_result(NULL, 0), "sn_node_result: the node is NULL");
    EXPECT(sn_node_result(x, 1), "sn_node_result: input has no result 1; it has 1");
    EXPECT(sn_node_result(x, -1), "has no result -1");
    EXPECT(sn_node_result_count(NULL), "the node is NULL");
    EXPECT(sn_node_place(x, "a.py", 1, NULL), "an input has no place");
    EXPECT(sn_node_place(NULL, "a.py", 1, NULL), "the node is NULL");
    EXPECT(sn_graph_grad_mode_set(g, (sn_grad_mode)7), "7 is no grad mode");
    EXPECT(sn_graph_grad_mode_set(NULL, SN_GRAD_OFF), "the graph is NULL");
    EXPECT(sn_graph_autocast_set(g, SN_CPU, SN_I64), "it is bf16 or f16, or f32 for off");
    EXPECT(sn_graph_autocast_set(g, 17, SN_BF16), "there is no device 17");
    EXPECT(sn_graph_autocast_set(NULL, SN_CPU, SN_BF16), "the graph is NULL");
    EXPECT(sn_node_place(x, NULL, 1, NULL), "the file is NULL");
    const sn_value none = sn_none(), list = sn_values(&none, 1), text = sn_str("x"), tensor = sn_val(F32(1, 2));
    EXPECT(sn_graph_return(g, NULL, 1), "a NULL list of 1 results");
    EXPECT(sn_graph_return(g, &none, -1), "a list of -1 results");
    EXPECT(sn_graph_return(g, &list, 1), "sn_graph_return: result 0 is a list");
    EXPECT(sn_graph_return(g, &text, 1), "result 0 must be a node's result, None or a number");
    EXPECT(sn_graph_return(g, &tensor, 1), "result 0 is a tensor, not a node's result");
    ck_assert_str_eq(sn_graph_text(g), "graph g(%x: f32[2,3]) {\n}\n");
    ck_assert_int_eq(sn_graph_return(g, NULL, 0), SN_OK);
    EXPECT(sn_graph_return(g, &none, 1), "graph g has its results");
    sn_node *const n = sn_graph_input(g, "s0", "int");
    EXPECT(sn_graph_range(g, "s0", 1, 5, 2), "graph g has s0: before what mentions it");
    ck_assert_str_eq(sn_node_name(n), "s0");
    ck_assert_str_eq(sn_node_op(n), "input");
    EXPECT(sn_node_dtype(n), "is an int");
    EXPECT(sn_node_erase(n), "is an int");
    EXPECT(sn_node_bind(n, F32(1, 2)), "is an int");
    EXPECT(sn_node_replace(n, x), "is an int");
    EXPECT(sn_graph_insert(g, NULL, "aten::relu", (sn_node *[]){n}, 1, NULL, 0), "is an int");
    ck_assert_int_eq(sn_node_in_count(n), 0);
    ck_assert_ptr_nonnull(OP(g, "aten::relu", R(x)));
    EXPECT(sn_graph_range(g, "s1", 1, 5, 2), "graph g has ops: before the first one");
    EXPECT(sn_graph_assume(g, "s0 == 2"), "graph g has ops: before the first one");
    sn_graph_free(g);
}
END_TEST

/* After an error all others do nothing, down to the compile; what was first stays to be told. */
START_TEST(one_look_at_the_end_is_enough) {
    sn_graph *const g = sn_graph_new("g");
    sn_node *const x = sn_graph_input(g, "x", "f32[2,3]");
    sn_node *const y = OP(g, "aten::relu", R(OP(g, "aten::mm", R(x), R(x)))), *const z = OP(g, "aten::relu", R(y));
    const sn_value out = R(z);
    ck_assert_int_ne(sn_graph_return(g, &out, 1), SN_OK);
    ck_assert_ptr_null(sn_graph_compile(g, NULL));
    expect_error(SN_ERR_SHAPE, "aten::mm: mat2 [2, 3] does not match self [2, 3]");
    ck_assert_str_eq(sn_graph_text(g), "graph g(%x: f32[2,3]) {\n}\n");
    sn_graph_free(g);
}
END_TEST

/* Errors of a call name the place that was given, or the line of the text. */
START_TEST(errors_name_places) {
    for (int given = 0; given < 2; given++) {
        sn_graph *const g = sn_graph_new("g");
        sn_node *const x = sn_graph_input(g, "x", "f32[4]"), *const i = sn_graph_input(g, "i", "i64[2]");
        OP(g, "aten::relu", R(x));
        sn_node *const picked = OP(g, "aten::index_select", R(x), sn_int(0), R(i));
        if (given) sn_node_place(picked, "it's \"a\\file\".py", 12, "forward");
        const sn_value out = R(picked);
        sn_graph_return(g, &out, 1);
        const char *const text = sn_graph_text(g);
        sn_graph *const parsed = sn_graph_parse(text, strlen(text));
        ck_assert_str_eq(sn_graph_text(parsed), text);
        sn_function *const fns[] = {sn_graph_compile(g, NULL), sn_graph_compile(parsed, NULL)};
        sn_graph_free(g);
        sn_graph_free(parsed);
        for (int k = 0; k < 2; k++) {
            sn_tensor *const in[] = {F32(1, 4), sn_from_data((const int64_t[]){1, 9}, SN_INTS(2), SN_I64)}, *y;
            if (sn_call(fns[k], in, 2, &y, 1) == SN_OK) sn_data(y, SN_F32);
            const sn_error *const e = sn_error_take();
            ck_assert_str_eq(e->where, given ? "it's \"a\\file\".py:12 in forward" : "g:3");
            sn_function_free(fns[k]);
        }
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {lists_of_results_and_of_arguments,
                                  all_kinds_of_arguments_and_results,
                                  a_built_net_has_gradients,
                                  random_ops_are_numbered,
                                  modes_are_of_ops,
                                  symbols_have_ranges_and_conditions,
                                  wrong_ops_name_op_argument_and_value,
                                  wrong_inputs_results_and_places,
                                  one_look_at_the_end_is_enough,
                                  errors_name_places};
    return contract_main("test_graph_build", tests, (int)(sizeof tests / sizeof *tests));
}
