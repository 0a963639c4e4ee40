/* test_passes.c: what passes produce means what the capture graph meant, bit for bit. Each program
 * is a text graph in capture form; running it node by node (in-place ops write, sn::gradients walks
 * the tape) is the truth; then the same program is run after functionalize, after joint, and after
 * the whole pipeline [semantics G1, G2, G5, B1]. */
#include <sinter/autograd.h>

#include "passes/passes.h"
#include "ir/op_ids.h"
#include "runtime/base/error.h"
#include "runtime/device/execute.h"
#include "tests/ref/graph_eval.h"
#include "tests/unit/suite.h"

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
    /* a training step: linear, layer norm, gelu, cross entropy, an update in place */
    "graph train(%x: f32[4,8], %w: f32[16,8], %b: f32[16], %g: f32[16], %h: f32[16], %t: i64[4]) "
    "{\n"
    "  %0 = aten::linear(%x, %w, %b)\n"
    "  %1, %2, %3 = aten::native_layer_norm(%0, [16], %g, %h, 1e-05)\n  %4 = aten::gelu(%1)\n"
    "  %5 = aten::cross_entropy_loss(%4, %t)\n  %6 = aten::ones_like(%5)\n"
    "  %7, %8, %9 = sn::gradients([%5], [%6], [%w, %b, %g], [], [], False)\n"
    "  %10 = aten::add_.Tensor(%w, %7, alpha=-0.1) no_grad\n  return %5, %8, %9\n}\n",
    /* slices, transposes and a softmax of a transposed value, written through */
    "graph slices(%x: f32[4,6], %g: f32[6,4]) {\n"
    "  %0 = aten::mul.Tensor(%x, 2.0)\n  %1 = aten::slice.Tensor(%0, 1, 1, 5, 2)\n"
    "  %2 = aten::mul_.Tensor(%1, 3.0)\n  %3 = aten::t(%0)\n  %4 = aten::_softmax(%3, 1, False)\n"
    "  %5 = aten::select.int(%0, 0, 2)\n  %6 = aten::relu_(%5)\n  %7 = aten::mul.Tensor(%4, %3)\n"
    "  %8 = sn::gradients([%7], [%g], [%x], [], [], False)\n  return %7, %8\n}\n",
    /* a cache written at one place, twice, and read: the scatters may write it */
    "graph cache(%c: f32[6,4], %k: f32[2,4], %v: f32[1,4]) {\n"
    "  %0 = aten::exp(%c)\n  %1 = aten::slice.Tensor(%c, 0, 2, 4)\n  %2 = aten::copy_(%1, %k)\n"
    "  %3 = aten::slice.Tensor(%c, 0, 5, 6)\n  %4 = aten::mul_.Tensor(%3, %v)\n"
    "  %5 = aten::relu(%c)\n  return %0, %5\n}\n",
    /* two roots, a detour in no_grad mode, an unused leaf */
    "graph roots(%x: f32[4], %u: f32[4], %g: f32[4]) {\n"
    "  %0 = aten::exp(%x)\n  %1 = aten::mul.Tensor(%0, 2.0) no_grad\n  %2 = aten::mul.Tensor(%0, "
    "%1)\n"
    "  %3, %4 = sn::gradients([%2, %0], [%g, %g], [%x, %u], [], [], False)\n  return %3, %4\n}\n",
};

static Graph *parsed(Arena *arena, const char *text) {
    Graph *graph = NULL;
    ck_assert_msg(graph_parse(arena, text, strlen(text), &graph) == ST_OK, "%s", error_slot()->message);
    return graph;
}

/* The same inputs for every run: floats in (-1, 1) from a small generator, never NaN; ints in 0..2. */
static sn_tensor *input(const Meta *meta, uint32_t seed, bool leaf) {
    float floats[256];
    int64_t ints[256];
    ck_assert_int_le(meta->numel, COUNT_OF(floats));
    for (int64_t i = 0; i < meta->numel; i++) {
        seed = seed * 1664525u + 1013904223u;
        floats[i] = (float)(int32_t)seed / 2147483648.0f;
        ints[i] = seed >> 16 & 1 ? 2 : 0;
    }
    const bool is_int = meta->dtype == DT_i64;
    sn_tensor *const t = sn_from_data(is_int ? (const void *)ints : floats, (sn_ints){meta->sizes, meta->rank},
                                      is_int ? SN_I64 : SN_F32);
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
    ends->bytes[at] = t ? (size_t)(sn_numel(t) * dtype_bytes((DType)sn_dtype_of(t))) : 0;
    if (t) ck_assert_msg(sn_read(t, ends->data[at], ends->bytes[at]) == SN_OK, "%s", error_slot()->message);
}

static void run(const char *text, const char *passes, Ends *ends) {
    Arena *const arena = arena_new();
    Graph *const capture = parsed(arena, text), *const graph = parsed(arena, text);
    const int n_user = capture->outputs.n;
    const PassOptions options = {.verify = true};
    ck_assert_msg(passes_run(graph, passes, &options) == ST_OK, "%s: %s", passes, error_slot()->message);
    const sn_scope scope = sn_scope_begin();
    sn_tensor *inputs[MAX_ENDS], *outs[MAX_ENDS];
    for (int i = 0; i < graph->inputs.n; i++)
        inputs[i] = input(graph->inputs.at[i]->base.meta, 17u + (uint32_t)i,
                          !*passes && is_leaf(capture, capture->inputs.at[i]->name));
    ck_assert_msg(graph_eval(graph, inputs, NULL, outs) == ST_OK, "%s %s: %s", capture->name, passes,
                  error_slot()->message);
    for (int i = 0; i < n_user; i++) keep(ends, outs[i]);
    for (int i = 0; i < graph->inputs.n; i++) keep(ends, inputs[i]);
    sn_scope_end(scope);
    arena_free(arena);
}

START_TEST(passes_keep_the_bits) {
    static const char *const pipelines[] = {"functionalize,joint", "functionalize,joint,decompose,simplify", "prepare"};
    static Ends truth, got;
    truth.n = 0;
    run(programs[_i], "", &truth);
    for (int i = 0; i < COUNT_OF(pipelines); i++) {
        got.n = 0;
        run(programs[_i], pipelines[i], &got);
        ck_assert_int_eq(got.n, truth.n);
        for (int k = 0; k < truth.n; k++) {
            ck_assert_uint_eq(got.bytes[k], truth.bytes[k]);
            ck_assert_msg(!memcmp(got.data[k], truth.data[k], truth.bytes[k]), "program %d, value %d after %s", _i, k,
                          pipelines[i]);
        }
    }
}
END_TEST

/* lists --------------------------------------------------------------------------------------- */

START_TEST(pipelines_stand_for_their_passes) {
    const PipelineRow *row;
    for (int i = 0; (row = pipeline_row(i)); i++) {
        PassList written, named;
        for (int k = 0; pass_row(k); k++) ck_assert_str_ne(pass_row(k)->name, row->name);
        ck_assert_msg(passes_list(row->passes, &written) == ST_OK, "%s: %s", row->name, error_slot()->message);
        ck_assert_int_eq(passes_list(row->name, &named), ST_OK);
        ck_assert_int_gt(written.n, 0);
        ck_assert_int_eq(named.n, written.n);
        for (int k = 0; k < named.n; k++) ck_assert_ptr_eq(named.at[k], written.at[k]);
    }
}
END_TEST

START_TEST(a_list_runs_up_to_a_stage) {
    for (Stage stage = STAGE_capture; stage < STAGE_COUNT; stage++) {
        Arena *const arena = arena_new();
        Graph *const graph = parsed(arena, programs[0]);
        ck_assert_int_eq(passes_run_to(graph, "compile", stage, &(PassOptions){.verify = true}), ST_OK);
        ck_assert_msg(graph_verify(graph, stage) == ST_OK, "%s: %s", stage_name(stage), error_slot()->message);
        ck_assert_int_eq(graph->plan != NULL, stage >= STAGE_lowered);
        arena_free(arena);
    }
}
END_TEST

/* plans --------------------------------------------------------------------------------------- */

/* Nothing between the setjmp and the bail changes a local that is read after it. */
static Plan *planned(Graph *graph) {
    Bail *const to = arena_alloc(graph->arena, sizeof *to);
    if (setjmp(to->exit)) ck_abort_msg("%s: %s", graph->name, to->message);
    graph->bail = to;
    ck_assert_int_eq(passes_run(graph, "plan", &(PassOptions){.verify = true}), ST_OK);
    graph->bail = NULL;
    return graph->plan;
}

static void run_plan(const char *text, const char *passes, Ends *ends) {
    Arena *const arena = arena_new();
    Graph *const graph = parsed(arena, text);
    const int n_user = graph->outputs.n;
    ck_assert_msg(passes_run(graph, passes, &(PassOptions){.verify = true}) == ST_OK, "%s", error_slot()->message);
    Executable *executable = NULL;
    ck_assert_msg(executable_new(planned(graph), false, NULL, NULL, &executable) == ST_OK, "%s", error_slot()->message);
    const sn_scope scope = sn_scope_begin();
    sn_tensor *inputs[MAX_ENDS], *outs[MAX_ENDS];
    for (int i = 0; i < graph->inputs.n; i++)
        inputs[i] = input(graph->inputs.at[i]->base.meta, 17u + (uint32_t)i, false);
    ck_assert_msg(execute(executable, inputs, NULL, NULL, outs) == ST_OK, "%s", error_slot()->message);
    for (int i = 0; i < n_user; i++) keep(ends, outs[i]);
    for (int i = 0; i < graph->inputs.n; i++) keep(ends, inputs[i]);
    sn_scope_end(scope);
    executable_free(executable);
    arena_free(arena);
}

START_TEST(plans_keep_the_bits) {
    static const char *const pipelines[] = {"functionalize,joint,decompose,simplify", "prepare"};
    static Ends truth, got;
    truth.n = 0;
    run(programs[_i], "", &truth);
    for (int i = 0; i < COUNT_OF(pipelines); i++) {
        got.n = 0;
        run_plan(programs[_i], pipelines[i], &got);
        ck_assert_int_eq(got.n, truth.n);
        for (int k = 0; k < truth.n; k++)
            ck_assert_msg(got.bytes[k] == truth.bytes[k] && !memcmp(got.data[k], truth.data[k], truth.bytes[k]),
                          "program %d, value %d as a plan after %s", _i, k, pipelines[i]);
    }
}
END_TEST

/* partition ----------------------------------------------------------------------------------- */

static const char *const forwards[] = {
    "graph chain(%x: f32[4,6], %b: f32[6], %c: f32[6]) {\n"
    "  %0 = aten::add.Tensor(%x, %b)\n  %1 = aten::exp(%0)\n  %2 = aten::mul.Tensor(%1, %c)\n"
    "  %3 = aten::gelu(%2)\n  return %3\n}\n",
    ("graph block(%x: f32[4,8], %w: f32[8,8], %b: f32[8]) {\n"
     "  %0 = aten::linear(%x, %w, %b)\n  %1 = aten::relu(%0)\n  %2 = aten::_softmax(%1, 1, False)\n"
     "  %3 = aten::mul.Tensor(%2, %x)\n  %4 = aten::t(%3)\n  return %4, %1\n}\n"),
    /* the saved value of a written input is a copy of its old contents */
    "graph written(%x: f32[6], %y: f32[6], %n: f32[6]) {\n"
    "  %0 = aten::mul.Tensor(%x, %n)\n  %1 = aten::exp(%n)\n  write %n = %1\n  return %0\n}\n",
};

enum { N_IN = 3 };

/* The gradients of all inputs for output gradients of their own, by the joint graph as a whole. */
static Graph *joint_of(Arena *arena, const char *text, int *n_user) {
    Graph *const graph = parsed(arena, text);
    *n_user = graph->outputs.n;
    const bool want[N_IN] = {true, true, false}, defined[] = {true, true};
    ck_assert_int_eq(joint_append(graph, &(JointSpec){.want = want, .grad_defined = defined}), ST_OK);
    ck_assert_msg(passes_run(graph, "joint,decompose,simplify", &(PassOptions){.verify = true}) == ST_OK, "%s",
                  error_slot()->message);
    return graph;
}

static void inputs_of(const Graph *graph, int first, int n, sn_tensor **to) {
    for (int i = first; i < first + n; i++) to[i] = input(graph->inputs.at[i]->base.meta, 40u + (uint32_t)i, false);
}

/* Forward, then backward on what it saved. */
static void run_parts(const Partition *parts, const Graph *joint, int n_user, Ends *ends) {
    sn_tensor *in[16], *outs[16], *back[16], *grads[16];
    inputs_of(joint, 0, joint->inputs.n, in);
    ck_assert_msg(graph_eval(parts->forward, in, NULL, outs) == ST_OK, "%s", error_slot()->message);
    int n_back = 0, extra = n_user;
    for (int i = 0; i < parts->n_saved; i++)
        back[n_back++] = parts->saved_inputs[i] >= 0 ? in[parts->saved_inputs[i]] : outs[extra++];
    ck_assert_int_eq(extra, parts->forward->outputs.n);
    for (int i = N_IN; i < joint->inputs.n; i++) back[n_back++] = in[i];
    ck_assert_int_eq(n_back, parts->backward->inputs.n);
    ck_assert_msg(graph_eval(parts->backward, back, NULL, grads) == ST_OK, "%s", error_slot()->message);
    for (int i = 0; i < n_user; i++) keep(ends, outs[i]);
    for (int i = 0; i < parts->backward->outputs.n; i++) keep(ends, grads[i]);
}

START_TEST(parts_are_the_joint_graph) {
    static Ends truth, got;
    truth.n = got.n = 0;
    Arena *const arena = arena_new();
    int n_user;
    Graph *const joint = joint_of(arena, forwards[_i], &n_user);
    const sn_scope scope = sn_scope_begin();
    sn_tensor *in[16], *outs[16];
    inputs_of(joint, 0, joint->inputs.n, in);
    ck_assert_msg(graph_eval(joint, in, NULL, outs) == ST_OK, "%s", error_slot()->message);
    for (int i = 0; i < joint->outputs.n; i++) keep(&truth, outs[i]);
    ck_assert_msg(passes_run(joint, "partition", &(PassOptions){.verify = true}) == ST_OK, "%s", error_slot()->message);
    const Partition *const parts = joint->parts;
    ck_assert_int_eq(graph_verify(parts->forward, STAGE_decomposed), ST_OK);
    ck_assert_int_eq(graph_verify(parts->backward, STAGE_decomposed), ST_OK);
    run_parts(parts, joint, n_user, &got);
    ck_assert_int_eq(got.n, truth.n);
    for (int k = 0; k < truth.n; k++) {
        ck_assert_uint_eq(got.bytes[k], truth.bytes[k]);
        ck_assert_msg(!memcmp(got.data[k], truth.data[k], truth.bytes[k]), "forward %d, value %d", _i, k);
    }
    sn_scope_end(scope);
    arena_free(arena);
}
END_TEST

int main(void) {
    TCase *const tcase = tcase_create("bits");
    tcase_add_loop_test(tcase, passes_keep_the_bits, 0, COUNT_OF(programs));
    tcase_add_test(tcase, pipelines_stand_for_their_passes);
    tcase_add_test(tcase, a_list_runs_up_to_a_stage);
    tcase_add_loop_test(tcase, plans_keep_the_bits, 0, COUNT_OF(programs));
    tcase_add_loop_test(tcase, parts_are_the_joint_graph, 0, COUNT_OF(forwards));
    return suite_run("passes", tcase);
}
