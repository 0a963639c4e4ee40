/* test_graph_dynamic.c: what real models do with sizes that differ: recurrent layers and control flow of any batch and
 * length, attention, convolutional nets of any height and width. Graphs from text, with gradients: one compile, no
 * eager op, from the first call on, eager's bits; a body of control flow has one code, too. */
#include "tests/unit/contract.h"

#include "frontend/api/graph_handle.h"
#include "runtime/base/log.h"

enum { CALLS = 6, SYMBOLS = 4, INPUTS = 8, RESULTS = 4 };

typedef struct Program {
    const char *name, *text;
    int64_t symbols[CALLS][SYMBOLS]; /* by call; 0: there are no more */
    int64_t compiles;                /* 0: one */
    int64_t codes;                   /* of bodies of control flow, and of their gradients */
    bool forward;                    /* without gradients */
} Program;

/* Text graphs --------------------------------------------------------------------------------- */

static sn_tensor *input_at(const Graph *graph, int i, const int64_t *symbols, bool leaf) {
    const Meta *const meta = graph->inputs.at[i]->base.meta;
    int64_t sizes[MAX_RANK];
    for (int d = 0; d < meta->rank; d++) sizes[d] = sym_eval(graph->env, meta->sizes[d], symbols);
    sn_tensor *const t = make_f32((sn_ints){sizes, meta->rank}, 7 + (uint64_t)i);
    return leaf ? sn_requires_grad_(t, true) : t;
}

/* Results, then gradients of the sum of the first. */
static void call_once(const Graph *graph, sn_function *fn, const int64_t *symbols, bool leaf, sn_tensor **out) {
    sn_tensor *in[INPUTS];
    const int n = graph->inputs.n, n_out = graph->outputs.n;
    sn_seed(3);
    for (int i = 0; i < n; i++) in[i] = input_at(graph, i, symbols, leaf);
    ck_assert_msg(sn_call(fn, in, n, out, n_out) == SN_OK, "%s", sn_error_take()->message);
    if (!leaf) return;
    ck_assert_msg(sn_backward(sn_sum(out[0])) == SN_OK, "%s", sn_error_take()->message);
    for (int i = 0; i < n; i++) out[n_out + i] = sn_grad(in[i]);
}

static void count_code(void *count, int level, const char *topic, const char *line) {
    (void)level, (void)topic;
    *(int64_t *)count += strstr(line, "code of ") != NULL;
}

static void check_calls(const Program *p, const Graph *graph, sn_function *fn, sn_function *eager, bool leaf) {
    for (int k = 0; k < CALLS && p->symbols[k][0]; k++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *got[RESULTS + INPUTS] = {NULL}, *want[RESULTS + INPUTS] = {NULL};
        call_once(graph, fn, p->symbols[k], leaf, got);
        call_once(graph, eager, p->symbols[k], leaf, want);
        for (int i = 0; i < graph->outputs.n + (leaf ? graph->inputs.n : 0); i++)
            ck_assert_msg((!got[i] && !want[i]) || same_bits(got[i], want[i]), "%s, call %d, tensor %d", p->name, k, i);
        sn_scope_end(scope);
    }
}

static void check_program(const Program *p, sn_compile_mode mode, bool leaf) {
    sn_graph *const g = sn_graph_parse(p->text, strlen(p->text));
    ck_assert_msg(g != NULL, "%s: %s", p->name, sn_error_take()->message);
    sn_function *const fn = sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = mode));
    sn_function *const eager = sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    ck_assert_msg(fn && eager, "%s: %s", p->name, sn_error_take()->message);
    check_calls(p, g->graph, fn, eager, leaf);
    const sn_stats stats = stats_of(fn);
    const int64_t compiles = p->compiles ? p->compiles : 1;
    ck_assert_msg(stats.compiles == compiles && !stats.ops_eager, "%s: %lld compiles, %lld eager ops\n%.1500s", p->name,
                  (long long)stats.compiles, (long long)stats.ops_eager, sn_explain(fn));
    sn_function_free(fn);
    sn_function_free(eager);
    sn_graph_free(g);
}

static void check_programs(const Program *programs, int n) {
    static const sn_compile_mode modes[] = {SN_COMPILE_VERIFY, SN_COMPILE_REPLAY};
    for (int i = 0; i < n; i++) {
        int64_t codes = 0;
        log_handler_set(count_code, &codes);
        ck_assert_int_eq(log_topics_set("compile"), ST_OK);
        for (int m = 0; m < 2; m++) {
            check_program(&programs[i], modes[m], false);
            if (!programs[i].forward) check_program(&programs[i], modes[m], true);
        }
        log_topics_set("-compile");
        log_handler_set(NULL, NULL);
        ck_assert_msg(codes == programs[i].codes, "%s: %lld codes of bodies", programs[i].name, (long long)codes);
    }
}
#define CHECK(programs) check_programs(programs, sizeof(programs) / sizeof *(programs))

/* Loops --------------------------------------------------------------------------------------- */

START_TEST(recurrent_layers_of_any_batch_and_length) {
    static const Program programs[] = {
        {"lstm",
         "graph f[s0=4>=1<=64, s1=10>=2<=64](%x: f32[s1,s0,5], %h: f32[1,s0,3], %c: f32[1,s0,3], %w: f32[12,5], "
         "%u: f32[12,3]) {\n"
         "  %0, %1, %2 = aten::lstm.input(%x, [%h, %c], [%w, %u], False, 1, 0.0, False, False, False)\n"
         "  return %0, %1, %2\n}\n",
         {{4, 10}, {7, 3}, {5, 2}, {3, 20}, {64, 4}},
         .codes = 3},
        {"lstm of one",
         "graph f[s0=4>=1<=64, s1=10>=2<=64](%x: f32[s1,s0,5], %h: f32[1,s0,3], %c: f32[1,s0,3], %w: f32[12,5], "
         "%u: f32[12,3]) {\n"
         "  %0, %1, %2 = aten::lstm.input(%x, [%h, %c], [%w, %u], False, 1, 0.0, False, False, False)\n"
         "  return %0, %1, %2\n}\n",
         {{1, 10}, {1, 3}, {4, 5}, {1, 30}},
         .codes = 3}, /* a batch of one has code of its own, the others have that of above */
        {"gru, batch first, two ways",
         "graph f[s0=4>=1<=64, s1=10>=2<=64](%x: f32[s0,s1,5], %h: f32[2,s0,4], %w: f32[12,5], %u: f32[12,4], "
         "%v: f32[12,5], %r: f32[12,4]) {\n"
         "  %0, %1 = aten::gru.input(%x, %h, [%w, %u, %v, %r], False, 1, 0.0, False, True, True)\n"
         "  return %0, %1\n}\n",
         {{4, 10}, {7, 3}, {5, 2}, {3, 20}},
         .codes = 3},
        {"rnn of two layers",
         "graph f[s0=4>=1<=64, s1=10>=2<=64](%x: f32[s1,s0,5], %h: f32[2,s0,5], %w: f32[5,5], %u: f32[5,5]) {\n"
         "  %0, %1 = aten::rnn_tanh.input(%x, %h, [%w, %u, %w, %u], False, 2, 0.0, False, False, False)\n"
         "  return %0, %1\n}\n",
         {{4, 10}, {7, 3}, {5, 2}, {3, 20}},
         .codes = 4},
    };
    CHECK(programs);
}
END_TEST

static sn_node *op(sn_graph *g, const char *name, int n, const sn_value *args) { return sn_graph_op(g, name, args, n); }
#define OP(g, name, ...) op(g, name, (int)SN_COUNT(sn_value, __VA_ARGS__), (const sn_value[]){__VA_ARGS__})
#define R(n)             sn_node_result(n, 0)
#define RETURN(g, ...)   sn_graph_return(g, (const sn_value[]){__VA_ARGS__}, (int)SN_COUNT(sn_value, __VA_ARGS__))

/* h = tanh(h * x[:, :n]) with n = s1 - 1, which is the graph's around; inside a cond by the first element. */
static sn_graph *round_of(const char *name, const char *activation) {
    sn_graph *const g = sn_graph_new(name);
    sn_node *const h = sn_graph_input(g, "h", "f32[s0,s1]"), *const x = sn_graph_input(g, "x", "f32[s0,s2]");
    sn_node *const n = sn_graph_input(g, "s3", "int");
    sn_node *const part = OP(g, "aten::narrow", R(x), sn_int(1), sn_int(0), R(n));
    RETURN(g, R(OP(g, activation, R(OP(g, "aten::mul.Tensor", R(h), R(part))))));
    return g;
}

static sn_graph *chooses(void) {
    sn_graph *const g = sn_graph_new("chooses"), *const yes = round_of("yes", "aten::tanh"),
                    *const no = round_of("no", "aten::sigmoid");
    sn_node *const h = sn_graph_input(g, "h", "f32[s0,s1]"), *const x = sn_graph_input(g, "x", "f32[s0,s2]");
    sn_node *const n = sn_graph_input(g, "s3", "int");
    sn_node *const positive = OP(g, "aten::gt.Scalar", R(OP(g, "aten::sum", R(x))), sn_int(0));
    const sn_value in[] = {R(h), R(x), R(n)};
    sn_node *const next = sn_graph_cond(g, R(positive), yes, no, in, 3);
    RETURN(g, R(next), R(OP(g, "aten::mul.Scalar", R(next), sn_float(2))));
    sn_graph_free(yes);
    sn_graph_free(no);
    return g;
}

static sn_graph *scans(void) {
    sn_graph *const g = sn_graph_new("scans"), *const body = chooses();
    sn_graph_range(g, "s0", 1, 64, 4);
    sn_graph_range(g, "s1", 2, 64, 6);
    sn_graph_range(g, "s2", 1, 64, 5);
    sn_node *const h = sn_graph_input(g, "h", "f32[s0,s1-1]"), *const xs = sn_graph_input(g, "xs", "f32[s2,s0,s1]");
    const sn_value in[] = {R(h), R(xs), sn_graph_sym(g, "s1-1")};
    sn_node *const out = sn_graph_scan(g, body, SN_GRAPH_LOOP_OPTIONS(.carries = 1, .scanned = 1), in, 3);
    RETURN(g, R(out), sn_node_result(out, 1));
    sn_graph_free(body);
    return g;
}

/* A scan whose body has a cond, whose bodies have an int: each has one code. */
START_TEST(bodies_in_bodies) {
    sn_graph *const g = scans();
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
    char *const text = strdup(sn_graph_text(g));
    const Program programs[] = {
        {"scan", text, {{4, 6, 5}, {2, 3, 2}, {2, 3, 9}, {7, 9, 1}, {3, 3, 3}}, .codes = 3, .forward = true}};
    CHECK(programs);
    free(text);
    sn_graph_free(g);
}
END_TEST

/* Models -------------------------------------------------------------------------------------- */

START_TEST(images_of_any_size) {
    static const Program programs[] = {
        {"a net",
         "graph f[s0=2>=1<=8, s1=16>=4<=99, s2=20>=4<=99](%x: f32[s0,3,s1,s2], %w: f32[4,3,3,3], %v: f32[6,4,3,3], "
         "%l: f32[5,6]) {\n"
         "  %0 = aten::conv2d(%x, %w, None, [2, 2], [1, 1])\n"
         "  %1 = aten::relu(%0)\n"
         "  %2 = aten::max_pool2d(%1, [3, 3], [2, 2], [1, 1], [1, 1], True)\n"
         "  %3 = aten::conv2d(%2, %v, None, [1, 1], [1, 1])\n"
         "  %4 = aten::avg_pool2d(%3, [2, 2], [2, 2], [0, 0], True)\n"
         "  %5 = aten::adaptive_avg_pool2d(%4, [1, 1])\n"
         "  %6 = aten::flatten.using_ints(%5, 1)\n"
         "  %7 = aten::linear(%6, %l)\n"
         "  return %7\n}\n",
         {{2, 16, 20}, {1, 33, 17}, {3, 47, 48}, {2, 31, 64}}},
        {"down and up again",
         "graph f[s0=2>=1<=8, s1=16>=4<=99, s2=20>=4<=99](%x: f32[s0,3,s1,s2], %w: f32[4,3,3,3], %v: f32[4,4,2,2]) {\n"
         "  %0 = aten::conv2d(%x, %w, None, [1, 1], [1, 1])\n"
         "  %1 = aten::max_pool2d(%0, [2, 2])\n"
         "  %2 = aten::conv_transpose2d.input(%1, %v, None, [2, 2])\n"
         "  %3 = aten::constant_pad_nd(%2, [0, s2-s2//2*2, 0, s1-s1//2*2], 0.0)\n"
         "  %4 = aten::cat([%0, %3], 1)\n"
         "  return %4\n}\n",
         {{2, 16, 20}, {1, 33, 17}, {3, 7, 8}, {2, 31, 64}},
         .forward = true},
        {"up to a multiple, with its gradient",
         "graph f[s0=2>=2<=8, s1=16>=4<=99, s2=20>=4<=99](%x: f32[s0,3,s1,s2]) {\n"
         "  %0 = aten::tanh(%x)\n"
         "  %1 = aten::constant_pad_nd(%0, [0, s2%2, 0, s1-s1//2*2], 0.0)\n"
         "  return %1\n}\n",
         {{2, 16, 20}, {4, 33, 17}, {3, 7, 8}, {2, 31, 64}}},
        {"by factors",
         "graph f[s0=2>=1<=8, s1=16>=4<=99, s2=20>=4<=99](%x: f32[s0,3,s1,s2]) {\n"
         "  %0 = aten::upsample_nearest2d.vec(%x, None, [2.0, 2.0])\n"
         "  %1 = aten::upsample_bilinear2d.vec(%0, None, False, [0.5, 1.25])\n"
         "  %2 = aten::upsample_bilinear2d.vec(%x, None, True, [0.75, 3.0])\n"
         "  return %1, %2\n}\n",
         {{2, 16, 20}, {1, 33, 17}, {3, 7, 8}, {2, 31, 64}}},
        {"to sizes of another",
         "graph f[s0=2>=1<=8, s1=9>=2<=99, s2=20>=2<=99](%x: f32[s0,3,s1,s1], %y: f32[s0,3,s2,7]) {\n"
         "  %0 = aten::upsample_bilinear2d.vec(%x, [s2, 7], False, None)\n"
         "  %1 = aten::add.Tensor(%0, %y)\n"
         "  return %1\n}\n",
         {{2, 9, 20}, {1, 2, 17}, {3, 7, 2}, {2, 31, 64}}},
        {"parts of channels",
         "graph f[s0=2>=1<=8, s1=6>=1<=40, s2=5>=1<=99](%x: f32[s0,s1*2,s2], %y: f32[s0,4,s1*2,s2*2]) {\n"
         "  %0, %1 = aten::chunk(%x, 2, 1)\n"
         "  %2 = aten::sigmoid(%1)\n"
         "  %3 = aten::mul.Tensor(%0, %2)\n"
         "  %4 = aten::glu(%x, 1)\n"
         "  %5 = aten::pixel_shuffle(%y, 2)\n"
         "  return %3, %4, %5\n}\n",
         {{2, 6, 5}, {1, 1, 7}, {3, 7, 1}, {2, 20, 9}},
         .compiles = 3},
    };
    CHECK(programs);
}
END_TEST

START_TEST(lengths_of_any_size) {
    static const Program programs[] = {
        {"attention of any width",
         "graph f[s0=2>=1<=8, s1=9>=2<=99, s2=8>=2<=64](%q: f32[s0,2,s1,s2], %k: f32[s0,2,s1,s2], "
         "%v: f32[s0,2,s1,s2]) {\n"
         "  %0 = aten::scaled_dot_product_attention(%q, %k, %v, None, 0.0, True)\n"
         "  return %0\n}\n",
         {{2, 9, 8}, {1, 17, 3}, {3, 2, 64}, {2, 33, 5}}},
        {"halves of odd lengths",
         "graph f[s0=2>=1<=8, s1=9>=3<=99](%x: f32[s0,s1,4]) {\n"
         "  %0, %1 = aten::chunk(%x, 2, 1)\n"
         "  %2, %3 = aten::split.Tensor(%x, (s1+1)//2, 1)\n"
         "  %4 = aten::add.Tensor(%0, %2)\n"
         "  %5 = aten::mul.Tensor(%1, %3)\n"
         "  return %4, %5\n}\n",
         {{2, 9}, {4, 16}, {3, 5}, {2, 64}}},
        {"turned by half",
         "graph f[s0=2>=1<=8, s1=9>=3<=99](%x: f32[s0,s1,4]) {\n"
         "  %0 = aten::roll(%x, [s1//2, 1], [1, 2])\n"
         "  %1 = aten::roll(%x, [-s1//3])\n"
         "  return %0, %1\n}\n",
         {{2, 9}, {4, 16}, {3, 5}, {2, 64}}},
        {"moments by a float",
         "graph f[s0=2>=1<=8, s1=9>=3<=99](%x: f32[s0,s1,4]) {\n"
         "  %0 = aten::var.correction(%x, [1], correction=1.0)\n"
         "  %1 = aten::std.correction(%x, [1], correction=2)\n"
         "  return %0, %1\n}\n",
         {{2, 9}, {1, 16}, {3, 5}, {2, 64}}},
        {"dims by expressions",
         "graph f[s0=2>=1<=8, s1=3>=1<=33](%x: f32[s0,s1*6]) {\n"
         "  %0 = aten::unflatten.int(%x, 1, [s1*2, 3])\n"
         "  %1 = aten::view(%0, [s0*s1, 2, 3])\n"
         "  %2 = aten::softmax.int(%1, 2)\n"
         "  %3 = aten::transpose.int(%2, 0, 1)\n"
         "  %4 = aten::reshape(%3, [2*s0, s1*3])\n"
         "  return %4\n}\n",
         {{2, 3}, {1, 1}, {3, 5}, {8, 33}, {1, 7}, {4, 1}},
         .compiles = 2,
         .forward = true}, /* of one row a reshape is a view */
        {"a dim that may be one",
         "graph f[s0=3>=1<=8, s1=5>=1<=99](%x: f32[1,4], %y: f32[s0,4], %z: f32[s1,3]) {\n"
         "  %0 = aten::expand(%x, [s0, -1])\n"
         "  %1 = aten::mul.Tensor(%0, %y)\n"
         "  %2 = aten::tanh(%z)\n"
         "  return %1, %2\n}\n",
         {{3, 5}, {1, 1}, {1, 7}, {4, 1}, {1, 33}, {8, 2}},
         .compiles = 2}, /* that s0 is one says nothing of s1 */
        {"smoothed classes",
         "graph f[s0=4>=1<=64, s1=7>=2<=64](%x: f32[s0,s1], %y: f32[s0,s1]) {\n"
         "  %0 = aten::softmax.int(%y, 1)\n"
         "  %1 = aten::cross_entropy_loss(%x, %0, None, 1, -100, 0.25)\n"
         "  return %1\n}\n",
         {{4, 7}, {2, 2}, {9, 30}, {5, 5}}},
    };
    CHECK(programs);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("tests");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, recurrent_layers_of_any_batch_and_length);
    tcase_add_test(tests, bodies_in_bodies);
    tcase_add_test(tests, images_of_any_size);
    tcase_add_test(tests, lengths_of_any_size);
    return suite_run("graph dynamic", tests);
}
