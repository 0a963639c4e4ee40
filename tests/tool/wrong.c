/* wrong.c: a library with mistakes made on purpose, for `sinter verify` and `sinter reduce`: a backend
 * that is off, one that makes no code, and the pass that WRONG_PASS names; and with an op that is right. */
#include <sinter/sinter.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))
SHOWN sn_status layers(sn_frame *f);
SHOWN sn_status at_most_8(sn_frame *f);
SHOWN sn_status ends_process(sn_frame *f);

sn_status layers(sn_frame *f) {
    sn_tensor *h = sn_mm(sn_in(f, 0), sn_in(f, 1));
    h = sn_relu(h); /* what the pass relu changes */
    h = sn_tanh(h);
    return sn_out(f, 0, sn_softmax(h, -1));
}

/* Right, and an error where there are more rows. */
sn_status at_most_8(sn_frame *f) {
    return sn_out(f, 0, sn_add(sn_in(f, 0), sn_narrow(sn_ones(SN_INTS(8), SN_F32), 0, 0, sn_size(sn_in(f, 0), 0))));
}

sn_status ends_process(sn_frame *f) {
    if (sn_size(sn_in(f, 0), 0) == 4) abort();
    return sn_out(f, 0, sn_relu(sn_in(f, 0)));
}

static sn_status same_layout(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }
static sn_status doubled(sn_frame *f) { return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(2))); }

/* x, but for what 10,000 hides of it. */
static sn_status lossy(sn_frame *f) {
    sn_tensor *const above = sn_add_scalar(sn_in(f, 0), sn_float(10000));
    return sn_out(f, 0, sn_sub_scalar(above, sn_float(10000)));
}

/* Wherever a relu is. */
static sn_status wrong_relu(sn_graph *g, void *closure) {
    (void)closure;
    sn_graph_rewrite(g, "graph p(%x: f32[s0,s1]) {\n  %0 = aten::relu(%x)\n  return %0\n}\n",
                     "graph r(%x: f32[s0,s1]) {\n  %0 = aten::abs(%x)\n  return %0\n}\n");
    return sn_check();
}

/* Only of a product that nothing else uses. */
static sn_status wrong_pair(sn_graph *g, void *closure) {
    (void)closure;
    sn_graph_rewrite(g,
                     "graph p(%x: f32[s0,s1], %w: f32[s1,s2]) {\n  %0 = aten::mm(%x, %w)\n  %1 = aten::relu(%0)\n"
                     "  return %1\n}\n",
                     "graph r(%x: f32[s0,s1], %w: f32[s1,s2]) {\n  %0 = aten::mm(%x, %w)\n  %1 = aten::abs(%0)\n"
                     "  return %1\n}\n");
    return sn_check();
}

/* Only of a graph with these two results. */
static sn_status wrong_whole(sn_graph *g, void *closure) {
    return strstr(sn_graph_text(g), "return %1, %2") ? wrong_relu(g, closure) : SN_OK;
}

/* The derivative of relu. */
static sn_status wrong_gradient(sn_graph *g, void *closure) {
    (void)closure;
    sn_graph_rewrite(g,
                     "graph p(%g: f32[s0,s1], %x: f32[s0,s1]) {\n  %0 = aten::threshold_backward(%g, %x, 0)\n"
                     "  return %0\n}\n",
                     "graph r(%g: f32[s0,s1], %x: f32[s0,s1]) {\n  %0 = aten::mul.Tensor(%g, %x)\n  return %0\n}\n");
    return sn_check();
}

static sn_status crashes(sn_graph *g, void *closure) {
    (void)closure;
    for (int i = 0; i < sn_graph_count(g); i++)
        if (!strcmp(sn_node_op(sn_graph_node(g, i)), "aten::relu")) abort();
    return sn_check();
}

static sn_function *one_off(sn_graph *g, void *closure) {
    wrong_relu(g, closure);
    return sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
}

static sn_function *no_code(sn_graph *g, void *closure) {
    (void)g, (void)closure;
    return NULL;
}

static void register_pass(const char *name) {
    static const struct {
        const char *name;
        sn_pass_stage stage;
        sn_pass_fn fn;
    } passes[] = {{"relu", SN_PASS_JOINT, wrong_relu},
                  {"pair", SN_PASS_JOINT, wrong_pair},
                  {"whole", SN_PASS_JOINT, wrong_whole},
                  {"gradient", SN_PASS_JOINT, wrong_gradient},
                  {"crash", SN_PASS_JOINT, crashes}};
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        if (!strcmp(passes[i].name, name)) sn_pass_register(passes[i].stage, passes[i].fn, NULL, name, "1");
}

__attribute__((constructor)) static void make_mistakes(void) {
    sn_op_register(SN_OP_DESC(.schema = "my::doubled(Tensor x) -> Tensor", .flags = SN_OP_PURE, .meta = same_layout,
                              .cpu = doubled));
    sn_op_register(
        SN_OP_DESC(.schema = "my::lossy(Tensor x) -> Tensor", .flags = SN_OP_PURE, .meta = same_layout, .cpu = lossy));
    sn_backend_register("one off", "1", one_off, NULL);
    sn_backend_register("no code", "1", no_code, NULL);
    if (getenv("WRONG_PASS")) register_pass(getenv("WRONG_PASS"));
}
