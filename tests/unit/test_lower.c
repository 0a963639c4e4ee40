/* test_lower.c: scheduling and lowering: how many kernels a graph becomes, and the law that fusing
 * changes no bit: plans with and without fusion run on the interpreter and every result and
 * write-back is compared [semantics B1, C8]. */

#include <stdio.h>

#include "passes/lower.h"
#include "runtime/device/execute.h"
#include "tests/unit/suite.h"

enum { MOST = 128 };

typedef struct Built {
    Arena *arena;
    Graph *graph;
    Plan *plan;
    Bail bail;
} Built;

static void build(Built *built, const char *text, bool fuse) {
    built->arena = arena_new();
    if (graph_parse(built->arena, text, strlen(text), &built->graph) != ST_OK)
        ck_abort_msg("%s\n%.2000s", error_slot()->message, text);
    built->graph->bail = &built->bail;
    if (setjmp(built->bail.exit)) ck_abort_msg("%s\n%.2000s", built->bail.message, text);
    if (passes_run(built->graph, "decompose,cse,dce,plan", &(PassOptions){.verify = true, .unfused = !fuse}) != ST_OK)
        ck_abort_msg("%s\n%.2000s", error_slot()->message, text);
    built->plan = built->graph->plan;
}

/* running ------------------------------------------------------------------------------------- */

static uint64_t random_state;
static uint32_t next_random(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

static sn_tensor *random_input(const Meta *meta) {
    const Meta *const own = meta_intern(meta->dtype, DEV_cpu, meta->sizes, meta->strides, meta->rank, false);
    sn_tensor *const t = tensor_new(own);
    for (int64_t i = 0; i < meta->numel; i++) {
        const uint32_t r = next_random();
        const float real = (float)(int32_t)(r % 4001) / 1000.0f - 2.0f;
        char *const at = (char *)tensor_data(t) + i * dtype_bytes(meta->dtype);
        const uint32_t bits = *(const uint32_t *)&real;
        const uint16_t high = (uint16_t)(bits >> 16);
        const double wide = (double)real;
        const int64_t whole = r % 4;
        switch (meta->dtype) {
        case DT_f32:
            memcpy(at, &real, 4);
            break;
        case DT_f64:
            memcpy(at, &wide, 8);
            break;
        case DT_bf16:
            memcpy(at, &high, 2);
            break;
        case DT_bool:
            *at = (char)(r & 1);
            break;
        default:
            memcpy(at, &whole, (size_t)dtype_bytes(meta->dtype));
            break;
        }
    }
    return t;
}

/* The plan as its text says it, in an arena of its own: what it was made from is gone. */
static void reparse(Built *built, const char *graph) {
    Arena *const arena = arena_new();
    Text text = {0}, again = {0};
    Plan *plan;
    const char *end;
    plan_print(built->plan, &text);
    arena_free(built->arena);
    if (plan_parse(arena, text_str(&text), &end, &plan) != ST_OK)
        ck_abort_msg("%s\n%.4000s\n%.2000s", error_slot()->message, text_str(&text), graph);
    ck_assert_int_eq(*end, 0);
    ck_assert_msg(plan_check_reach(plan, (int64_t[]){3, 0}) == ST_OK, "%s", error_slot()->message);
    plan_print(plan, &again);
    ck_assert_str_eq(text_str(&again), text_str(&text));
    text_free(&text);
    text_free(&again);
    built->arena = arena;
    built->plan = plan;
}

typedef enum Way { WAY_unfused, WAY_fused, WAY_parsed } Way;

typedef struct Result {
    int n;
    sn_tensor *at[MOST];
} Result;

/* Outputs, then what became of the written inputs. */
static Result run(const char *text, Way way, uint64_t seed) {
    Built built;
    build(&built, text, way != WAY_unfused);
    if (way == WAY_parsed) reparse(&built, text);
    random_state = seed;
    Result result = {0};
    sn_tensor *inputs[MOST], *outs[MOST] = {0};
    const Plan *const plan = built.plan;
    for (int i = 0; i < plan->inputs.n; i++) inputs[i] = random_input(plan->slots.at[i].meta);
    Executable *executable;
    ck_assert_int_eq(executable_new(built.plan, false, NULL, NULL, &executable), ST_OK);
    if (execute(executable, inputs, NULL, NULL, outs) != ST_OK)
        ck_abort_msg("%s\n%.2000s", error_slot()->message, text);
    for (int i = 0; i < plan->outputs.n; i++)
        if (outs[i]) result.at[result.n++] = outs[i];
    for (int i = 0; i < plan->inputs.n; i++)
        if (plan->inputs.at[i].written) result.at[result.n++] = inputs[i];
    executable_free(executable);
    arena_free(built.arena);
    return result;
}

/* Equal bits, or two NaN. */
static bool same_element(DType dtype, const char *a, const char *b) {
    const size_t bytes = (size_t)dtype_bytes(dtype);
    if (!memcmp(a, b, bytes)) return true;
    float x, y;
    if (dtype == DT_bf16) {
        const uint32_t wide_a = (uint32_t) * (const uint16_t *)a << 16, wide_b = (uint32_t) * (const uint16_t *)b << 16;
        memcpy(&x, &wide_a, 4);
        memcpy(&y, &wide_b, 4);
        return x != x && y != y;
    }
    if (dtype != DT_f32) return false;
    memcpy(&x, a, 4);
    memcpy(&y, b, 4);
    return x != x && y != y;
}

static void same_results(const char *text, const Result *a, const Result *b, const char *what) {
    ck_assert_int_eq(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        const Meta *const meta = a->at[i]->base.meta;
        ck_assert_ptr_eq(meta, b->at[i]->base.meta);
        for (int64_t k = 0; k < meta->numel; k++) {
            const int64_t at = k * dtype_bytes(meta->dtype);
            if (!same_element(meta->dtype, (char *)tensor_data(a->at[i]) + at, (char *)tensor_data(b->at[i]) + at))
                ck_abort_msg("%s: result %d differs at %lld of\n%s", what, i, (long long)k, text);
        }
    }
}

static void same_bits(const char *text, uint64_t seed) {
    const sn_scope mark = sn_scope_begin();
    const Result plain = run(text, WAY_unfused, seed), fused = run(text, WAY_fused, seed),
                 parsed = run(text, WAY_parsed, seed);
    same_results(text, &plain, &fused, "fused");
    same_results(text, &fused, &parsed, "of its text");
    sn_scope_end(mark);
}

/* counts -------------------------------------------------------------------------------------- */

typedef struct Case {
    const char *what, *text;
    int kernels;
} Case;

static const Case cases[] = {
    {"a * 2 + b",
     "graph g(%a: f32[64], %b: f32[64]) { %0 = aten::mul.Tensor(%a, 2.0)\n %1 = "
     "aten::add.Tensor(%0, %b)\n return %1 }",
     1},
    {"layer_norm(gelu(x + b) + r)",
     "graph g(%x: f32[6,70], %b: f32[70], %r: f32[6,70], %w: f32[70], %c: f32[70]) {\n"
     "%0 = aten::add.Tensor(%x, %b)\n %1 = aten::gelu(%0, approximate='tanh')\n %2 = "
     "aten::add.Tensor(%1, %r)\n"
     "%3, %4, %5 = aten::native_layer_norm(%2, [70], %w, %c, 1e-05)\n return %3, %4, %5 }",
     1},
    {"softmax", "graph g(%x: f32[5,130]) { %0 = aten::_softmax(%x, -1, False)\n return %0 }", 1},
    {"softmax over rows", "graph g(%x: bf16[130,5]) { %0 = aten::_softmax(%x, 0, False)\n return %0 }", 1},
    {"linear, gelu",
     "graph g(%x: f32[2,7,16], %w: f32[24,16], %b: f32[24]) { %0 = aten::linear(%x, %w, %b)\n %1 = "
     "aten::gelu(%0)\n return %1 }",
     1},
    {"cross entropy",
     "graph g(%x: f32[9,33], %t: i64[9]) { %0 = aten::_log_softmax(%x, 1, False)\n"
     "%1, %2 = aten::nll_loss_forward(%0, %t, None, 1, -100)\n return %1, %0, %2 }",
     1},
    {"residual through a view",
     "graph g(%x: f32[2,3,8], %w: f32[8,8], %r: f32[2,3,8]) { %0 = aten::matmul(%x, %w)\n %1 = "
     "aten::add.Tensor(%0, %r)\n return %1 }",
     1},
    {"cat of two", "graph g(%x: f32[2,3], %y: f32[2,5]) { %0 = aten::cat([%x, %y], 1)\n return %0 }", 1},
};

START_TEST(kernels_of_a_graph) {
    const Case *const c = &cases[_i];
    Built built;
    build(&built, c->text, true);
    if (built.plan->steps.n != c->kernels) {
        Text text = {0};
        plan_print(built.plan, &text);
        ck_abort_msg("%s: %d steps, not %d\n%s%s", c->what, built.plan->steps.n, c->kernels, text_str(&text),
                     plan_refusals(built.plan));
    }
    arena_free(built.arena);
    same_bits(c->text, 7);
}
END_TEST

/* Twenty AdamW updates of tensors of different sizes, in place. */
START_TEST(optimizer_is_one_kernel) {
    Text text = {0};
    enum { TENSORS = 20 };
    text_puts(&text, "graph g(");
    for (int i = 0; i < TENSORS; i++)
        text_printf(&text, "%s%%p%d: f32[%d], %%g%d: f32[%d], %%m%d: f32[%d], %%v%d: f32[%d]", i ? ", " : "", i, 5 + i,
                    i, 5 + i, i, 5 + i, i, 5 + i);
    text_puts(&text, ") {\n");
    for (int i = 0, n = 0; i < TENSORS; i++, n += 8)
        text_printf(&text,
                    "%%%d = aten::lerp.Tensor(%%m%d, %%g%d, 0.1)\n%%%d = aten::mul.Tensor(%%v%d, 0.99)\n"
                    "%%%d = aten::addcmul(%%%d, %%g%d, %%g%d, value=0.01)\n%%%d = aten::sqrt(%%%d)\n"
                    "%%%d = aten::add.Tensor(%%%d, 1e-08)\n%%%d = aten::mul.Tensor(%%p%d, 0.999)\n"
                    "%%%d = aten::addcdiv(%%%d, %%%d, %%%d, value=-0.001)\n%%%d = aten::relu(%%%d)\n"
                    "write %%p%d = %%%d\nwrite %%m%d = %%%d\nwrite %%v%d = %%%d\n",
                    n, i, i, n + 1, i, n + 2, n + 1, i, i, n + 3, n + 2, n + 4, n + 3, n + 5, i, n + 6, n + 5, n, n + 4,
                    n + 7, n + 6, i, n + 6, i, n, i, n + 2);
    text_puts(&text, "}\n");
    Built built;
    build(&built, text_str(&text), true);
    ck_assert_int_eq(built.plan->steps.n, 1);
    ck_assert(built.plan->steps.at[0].write_back);
    ck_assert(built.plan->steps.at[0].kernel->independent);
    ck_assert_int_eq(built.plan->steps.at[0].kernel->n_nests, TENSORS);
    arena_free(built.arena);
    same_bits(text_str(&text), 3);
    text_free(&text);
}
END_TEST

/* A write must not be seen by readers of the old contents, nor come before a check. */
START_TEST(write_backs_keep_their_order) {
    same_bits("graph g(%x: f32[4,4], %y: f32[4,4]) { %0 = aten::add.Tensor(%x, %y)\n %1 = aten::t(%x)\n"
              "%2 = aten::mul.Tensor(%1, %0)\n write %x = %0\n return %2 }",
              11);
    Built built;
    build(&built,
          "graph g(%x: f32[4], %w: f32[4,4], %i: i64[3]) { %0 = aten::mul.Tensor(%x, 2.0)\n %1 = "
          "aten::embedding(%w, %i)\n"
          "write %x = %0\n return %1 }",
          true);
    bool written = false;
    for (int i = 0; i < built.plan->steps.n; i++) {
        ck_assert(
            !(written && built.graph->first->next->row->flags & OPF_check && !built.plan->steps.at[i].write_back));
        written |= built.plan->steps.at[i].write_back;
    }
    ck_assert(written && built.plan->steps.at[built.plan->steps.n - 1].write_back);
    arena_free(built.arena);
}
END_TEST

/* random graphs ------------------------------------------------------------------------------- */

typedef struct RandomGraph {
    Text text;
    int n;
    int64_t sizes[MOST][4];
    int rank[MOST];
} RandomGraph;

static int pick(const RandomGraph *g) { return (int)(next_random() % (uint32_t)g->n); }

static void result(RandomGraph *g, const int64_t *sizes, int rank) {
    memcpy(g->sizes[g->n], sizes, sizeof(int64_t) * 4);
    g->rank[g->n++] = rank;
}

static void add_unary(RandomGraph *g) {
    static const char *const names[] = {"aten::gelu",    "aten::relu", "aten::neg",
                                        "aten::sigmoid", "aten::abs",  "aten::tanh"};
    const int x = pick(g);
    text_printf(&g->text, "%%%d = %s(%%%d)\n", g->n, names[next_random() % 6], x);
    result(g, g->sizes[x], g->rank[x]);
}

static bool broadcasts(const RandomGraph *g, int x, int y, int64_t *sizes) {
    if (g->rank[x] != g->rank[y]) return false;
    for (int d = 0; d < g->rank[x]; d++) {
        const int64_t a = g->sizes[x][d], b = g->sizes[y][d];
        if (a != b && a != 1 && b != 1) return false;
        sizes[d] = a == 1 ? b : a;
    }
    return true;
}

static void add_binary(RandomGraph *g) {
    static const char *const names[] = {"add.Tensor", "mul.Tensor", "sub.Tensor", "maximum"};
    const int x = pick(g);
    int64_t sizes[4] = {0};
    int y = pick(g);
    for (int tries = 0; tries < 20 && !broadcasts(g, x, y, sizes); tries++) y = pick(g);
    if (!broadcasts(g, x, y, sizes)) return;
    text_printf(&g->text, "%%%d = aten::%s(%%%d, %%%d)\n", g->n, names[next_random() % 4], x, y);
    result(g, sizes, g->rank[x]);
}

static void add_reduction(RandomGraph *g) {
    static const char *const names[] = {"sum.dim_IntList", "amax", "mean.dim"};
    const int x = pick(g), dim = (int)(next_random() % (uint32_t)g->rank[x]);
    int64_t sizes[4];
    memcpy(sizes, g->sizes[x], sizeof sizes);
    sizes[dim] = 1;
    text_printf(&g->text, "%%%d = aten::%s(%%%d, [%d], True)\n", g->n, names[next_random() % 3], x, dim);
    result(g, sizes, g->rank[x]);
}

static void add_view(RandomGraph *g) {
    const int x = pick(g);
    int64_t sizes[4] = {0};
    if (next_random() % 2 && g->rank[x] == 3) {
        text_printf(&g->text, "%%%d = aten::permute(%%%d, [1, 0, 2])\n", g->n, x);
        sizes[0] = g->sizes[x][1], sizes[1] = g->sizes[x][0], sizes[2] = g->sizes[x][2];
        result(g, sizes, 3);
    } else if (g->rank[x] == 3) {
        sizes[0] = g->sizes[x][0] * g->sizes[x][1], sizes[1] = g->sizes[x][2];
        text_printf(&g->text, "%%%d = aten::reshape(%%%d, [%d, %d])\n", g->n, x, (int)sizes[0], (int)sizes[1]);
        result(g, sizes, 2);
    } else {
        sizes[0] = g->sizes[x][0], sizes[1] = 1, sizes[2] = g->sizes[x][1];
        text_printf(&g->text, "%%%d = aten::unsqueeze(%%%d, 1)\n", g->n, x);
        result(g, sizes, 3);
    }
}

static void add_softmax(RandomGraph *g) {
    const int x = pick(g);
    text_printf(&g->text, "%%%d = aten::_softmax(%%%d, %d, False)\n", g->n, x,
                (int)(next_random() % (uint32_t)g->rank[x]));
    result(g, g->sizes[x], g->rank[x]);
}

static void random_graph(RandomGraph *g, const char *dtype) {
    static void (*const adders[])(RandomGraph *) = {add_unary,     add_binary, add_binary,
                                                    add_reduction, add_view,   add_softmax};
    text_printf(&g->text, "graph g(%%a: %s[4,3,70], %%b: %s[1,3,70], %%c: %s[4,1,1], %%d: %s[12,70]) {\n", dtype, dtype,
                dtype, dtype);
    static const int64_t sizes[4][4] = {{4, 3, 70}, {1, 3, 70}, {4, 1, 1}, {12, 70}};
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
        text_printf(&g->text, "%%%d = aten::mul.Tensor(%%%s, 0.75)\n", g->n, names[i]);
        result(g, sizes[i], i == 3 ? 2 : 3);
    }
    const int length = 6 + (int)(next_random() % 14);
    for (int i = 0; i < length; i++) adders[next_random() % 6](g);
    text_printf(&g->text, "%%%d = aten::clone(%%%d)\n%%%d = aten::clone(%%%d)\nreturn %%%d, %%%d }\n", g->n, g->n - 1,
                g->n + 1, g->n / 2, g->n, g->n + 1);
}

START_TEST(fusing_changes_no_bit) {
    static const char *const dtypes[] = {"f32", "bf16", "f64"};
    random_state = 1000 + (uint64_t)_i;
    RandomGraph g = {0};
    random_graph(&g, dtypes[_i % 3]);
    same_bits(text_str(&g.text), 500 + (uint64_t)_i);
    text_free(&g.text);
}
END_TEST

/* The only dim of a tensor without dims may be named [-1]: nothing is reduced, and nothing beside the array written. */
START_TEST(reduced_dims_of_rank_0) {
    static const char *const calls[] = {"sum.dim_IntList(%x, [-1])",
                                        "mean.dim(%x, [-1])",
                                        "amax(%x, [-1])",
                                        "amin(%x, [0])",
                                        "argmax(%x, -1)",
                                        "all.dim(%x, -1)"};
    char text[200];
    snprintf(text, sizeof text, "graph g(%%x: f32[]) {\n%%0 = aten::%s\nreturn %%0 }\n", calls[_i]);
    Arena *const arena = arena_new();
    Graph *graph;
    ck_assert_int_eq(graph_parse(arena, text, strlen(text), &graph), ST_OK);
    bool around[MAX_RANK + 2] = {[0] = true, [MAX_RANK + 1] = true};
    ck_assert(reduced_dims(graph->first, around + 1));
    ck_assert(around[0] && around[MAX_RANK + 1]);
    for (int d = 1; d <= MAX_RANK; d++) ck_assert(!around[d]);
    arena_free(arena);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("lower");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, kernels_of_a_graph, 0, COUNT_OF(cases));
    tcase_add_test(tests, optimizer_is_one_kernel);
    tcase_add_test(tests, write_backs_keep_their_order);
    tcase_add_loop_test(tests, fusing_changes_no_bit, 0, 150);
    tcase_add_loop_test(tests, reduced_dims_of_rank_0, 0, 6);
    return suite_run("lower", tests);
}
