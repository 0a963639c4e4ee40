/* test_passes.c: what passes produce means what the capture graph meant, bit for bit. Each program
 * is a text graph in capture form; running it node by node (in-place ops write, sn::gradients walks
 * the tape) is the truth; then the same program is run after functionalize, after joint, and after
 * the whole pipeline [semantics G1, G2, G5, B1]. */
#include <check.h>
#include <sinter/autograd.h>

#include "passes/passes.h"
#include "runtime/base/error.h"
#include "tests/ref/graph_eval.h"

enum { MAX_ENDS = 8, MAX_BYTES = 4096 };

typedef struct Ends { /* bytes of outputs and inputs after a run */
    int n;
    size_t bytes[MAX_ENDS * 2];
    char data[MAX_ENDS * 2][MAX_BYTES];
} Ends;

static const char *const programs[] = {
    /* several uses of one tensor: the order of the sums */
    "graph sums(%x: f32[3,5], %g: f32[3,5]) {\n"
    "  %0 = aten::exp(%x)\n  %1 = aten::mul.Tensor(%x, %0)\n  %2 = aten::mul.Tensor(%x, %x)\n"
    "  %3 = aten::add.Tensor(%1, %2, alpha=0.3)\n  %4 = aten::mul.Tensor(%3, %x)\n"
    "  %5 = sn::gradients([%4], [%g], [%x], [], [], False)\n  return %4, %5\n}\n",
    /* broadcasting: gradients are summed to size */
    "graph broadcast(%x: f32[4,1,6], %w: f32[3,1], %g: f32[4,3,6]) {\n"
    "  %0 = aten::mul.Tensor(%x, %w)\n  %1 = aten::exp(%0)\n  %2 = aten::add.Tensor(%1, %w)\n"
    "  %3, %4 = sn::gradients([%2], [%g], [%x, %w], [], [], False)\n  return %2, %3, %4\n}\n",
    /* a write through a view between two uses of its base, and of another view */
    "graph views(%x: f32[2,6], %w: f32[12], %g: f32[2,6]) {\n"
    "  %0 = aten::mul.Tensor(%x, 1.5)\n  %1 = aten::view(%0, [12])\n  %2 = aten::view(%0, [3,4])\n"
    "  %3 = aten::exp(%2)\n  %4 = aten::mul_.Tensor(%1, %w)\n  %5 = aten::mul.Tensor(%2, %3)\n"
    "  %6 = aten::view(%5, [2,6])\n  %7 = aten::add.Tensor(%6, %0)\n"
    "  %8, %9 = sn::gradients([%7], [%g], [%x, %w], [], [], False)\n  return %7, %8, %9\n}\n",
    /* in place on a result that its own derivative does not read */
    "graph inplace(%x: f32[7], %y: f32[7], %g: f32[7]) {\n"
    "  %0 = aten::mul.Tensor(%x, %y)\n  %1 = aten::add_.Tensor(%0, %x, alpha=2.0)\n  %2 = "
    "aten::exp_(%0)\n"
    "  %3, %4 = sn::gradients([%0], [%g], [%x, %y], [], [], False)\n  return %0, %3, %4\n}\n",
    /* a step: the leaf is written in no_grad mode and used again */
    "graph step(%w: f32[5], %x: f32[5], %g: f32[5]) {\n"
    "  %0 = aten::mul.Tensor(%w, %x)\n  %1 = aten::exp(%0)\n"
    "  %2 = sn::gradients([%1], [%g], [%w], [], [], False)\n"
    "  %3 = aten::add_.Tensor(%w, %2, alpha=-0.1) no_grad\n  %4 = aten::mul.Tensor(%w, %x)\n"
    "  %5 = sn::gradients([%4], [%g], [%w], [], [], False)\n  return %2, %5\n}\n",
    /* double backward */
    "graph twice(%x: f32[6], %g: f32[6], %h: f32[6]) {\n"
    "  %0 = aten::exp(%x)\n  %1 = aten::mul.Tensor(%0, %x)\n"
    "  %2 = sn::gradients([%1], [%g], [%x], [], [], True)\n"
    "  %3 = sn::gradients([%2], [%h], [%x], [], [], False)\n  return %2, %3\n}\n",
    /* two roots, a detour in no_grad mode, an unused leaf */
    "graph roots(%x: f32[4], %u: f32[4], %g: f32[4]) {\n"
    "  %0 = aten::exp(%x)\n  %1 = aten::mul.Tensor(%0, 2.0) no_grad\n  %2 = aten::mul.Tensor(%0, "
    "%1)\n"
    "  %3, %4 = sn::gradients([%2, %0], [%g, %g], [%x, %u], [], [], False)\n  return %3, %4\n}\n",
};

static Graph *parsed(Arena *arena, const char *text) {
    Graph *graph = NULL;
    ck_assert_msg(graph_parse(arena, text, strlen(text), &graph) == ST_OK, "%s",
                  error_slot()->message);
    return graph;
}

/* The same inputs for every run: values in (-1, 1) from a small generator, never NaN. */
static sn_tensor *input(const Meta *meta, uint32_t seed, bool leaf) {
    float values[256];
    for (int64_t i = 0; i < meta->numel; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(int32_t)seed / 2147483648.0f;
    }
    sn_tensor *const t = sn_from_data(values, (sn_ints){meta->sizes, meta->rank}, SN_F32);
    ck_assert(t);
    return leaf ? sn_requires_grad_(t, true) : t;
}

static bool is_leaf(const Graph *capture, const char *name) {
    for (const Node *node = capture->first; node; node = node->next)
        for (int i = 0; node->row->id == OP_gradients && i < node->args[2].n; i++) {
            const GVal *const value = gval(node->args[2].vals[i]);
            if (value->name && !strcmp(value->name, name)) return true;
        }
    return false;
}

static void keep(Ends *ends, sn_tensor *t) {
    ck_assert_int_lt(ends->n, MAX_ENDS * 2);
    const int at = ends->n++;
    ends->bytes[at] = t ? (size_t)(sn_numel(t) * 4) : 0;
    if (t)
        ck_assert_msg(sn_read(t, ends->data[at], ends->bytes[at]) == SN_OK, "%s",
                      error_slot()->message);
}

static void run(const char *text, const char *passes, Ends *ends) {
    Arena *const arena = arena_new();
    Graph *const capture = parsed(arena, text), *const graph = parsed(arena, text);
    const int n_user = capture->outputs.n;
    const PassOptions options = {.verify = true};
    ck_assert_msg(passes_run(graph, passes, &options) == ST_OK, "%s: %s", passes,
                  error_slot()->message);
    const sn_scope scope = sn_scope_begin();
    sn_tensor *inputs[MAX_ENDS], *outs[MAX_ENDS];
    for (int i = 0; i < graph->inputs.n; i++)
        inputs[i] = input(graph->inputs.at[i]->base.meta, 17u + (uint32_t)i,
                          !*passes && is_leaf(capture, capture->inputs.at[i]->name));
    ck_assert_msg(graph_eval(graph, inputs, NULL, outs) == ST_OK, "%s %s: %s", capture->name,
                  passes, error_slot()->message);
    for (int i = 0; i < n_user; i++) keep(ends, outs[i]);
    for (int i = 0; i < graph->inputs.n; i++) keep(ends, inputs[i]);
    sn_scope_end(scope);
    arena_free(arena);
}

START_TEST(passes_keep_the_bits) {
    static const char *const pipelines[] = {"functionalize,joint",
                                            "functionalize,joint,decompose,fold,cse,dce",
                                            "functionalize,joint,decompose,fold,cse,dce,reinplace"};
    static Ends truth, got;
    truth.n = 0;
    run(programs[_i], "", &truth);
    for (int i = 0; i < COUNT_OF(pipelines); i++) {
        got.n = 0;
        run(programs[_i], pipelines[i], &got);
        ck_assert_int_eq(got.n, truth.n);
        for (int k = 0; k < truth.n; k++) {
            ck_assert_uint_eq(got.bytes[k], truth.bytes[k]);
            ck_assert_msg(!memcmp(got.data[k], truth.data[k], truth.bytes[k]),
                          "program %d, value %d after %s", _i, k, pipelines[i]);
        }
    }
}
END_TEST

int main(void) {
    Suite *const suite = suite_create("passes");
    TCase *const tcase = tcase_create("bits");
    tcase_add_loop_test(tcase, passes_keep_the_bits, 0, COUNT_OF(programs));
    suite_add_tcase(suite, tcase);
    SRunner *const runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
