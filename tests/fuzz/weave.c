/* weave.c: many pointwise ops over one value's sizes, each of some values before it, with native ops between, sums
 * along a dim and writes into inputs: graphs that a scheduler cuts into several nests which share values, as those of
 * an optimizer or of a backward. Random forms seldom fit each other so often. */
#include <string.h>

#include "tests/fuzz/gen.h"

typedef enum Takes { TAKES_value, TAKES_number, TAKES_values, TAKES_dim, TAKES_dims, TAKES_input, TAKES_three } Takes;

static const struct Woven {
    const char *op;
    Takes takes;
} woven[] = {
    {"aten::neg", TAKES_value},         {"aten::sigmoid", TAKES_value},        {"aten::mul.Tensor", TAKES_number},
    {"aten::add.Tensor", TAKES_number}, {"aten::mul.Tensor", TAKES_values},    {"aten::mul.Tensor", TAKES_values},
    {"aten::add.Tensor", TAKES_values}, {"aten::sub.Tensor", TAKES_values},    {"aten::maximum", TAKES_values},
    {"aten::gt.Tensor", TAKES_values},  {"aten::where.self", TAKES_three},     {"aten::cumsum", TAKES_dim},
    {"aten::cumsum", TAKES_dim},        {"aten::sum.dim_IntList", TAKES_dims}, {"aten::amax", TAKES_dims},
    {"aten::copy_", TAKES_input},       {"aten::mul_.Tensor", TAKES_input},    {"aten::add_.Tensor", TAKES_input}};

static bool same_dims(const Gen *g, int a, int b) {
    if (gen_rank(g, a) != gen_rank(g, b)) return false;
    for (int s = 0; s < FZ_SETTINGS; s++)
        if (memcmp(g->v[a].at[s].meta.sizes, g->v[b].at[s].meta.sizes, sizeof(int64_t) * (size_t)gen_rank(g, a)))
            return false;
    return true;
}

/* A live value of the sizes of `like`: floats, or bools; -1: none was found. */
static int strand(Gen *g, int like, bool floats) {
    for (int i = 0; i < 30; i++) {
        const int v = gen_any(g);
        if (v >= 0 && same_dims(g, v, like) && (floats ? dtype_is_float(gen_dtype(g, v)) : gen_dtype(g, v) == DT_bool))
            return v;
    }
    return -1;
}

static FzArg value_arg(int v) { return (FzArg){.kind = FZ_value, .value = v}; }
static FzArg dim_arg(Gen *g, int of) { return (FzArg){.kind = FZ_int, .i = {gen_below(g, gen_rank(g, of)), -1}}; }

static bool weave_step(Gen *g, int like, FzStep *step) {
    const struct Woven *const way = &woven[gen_below(g, COUNT_OF(woven))];
    const int a = strand(g, like, true), b = strand(g, like, true), input = (int)gen_below(g, g->p->n_inputs);
    if (a < 0 || b < 0) return false;
    *step = (FzStep){.kind = FZ_op, .n_args = 1};
    strcpy(step->op, way->op);
    step->args[0] = value_arg(a);
    if (way->takes == TAKES_number) step->args[step->n_args++] = (FzArg){.kind = FZ_float, .f = 1.5, .i.var = -1};
    if (way->takes == TAKES_values || way->takes == TAKES_input) step->args[step->n_args++] = value_arg(b);
    if (way->takes == TAKES_input) step->args[0] = value_arg(input);
    if (way->takes == TAKES_dim) step->args[step->n_args++] = dim_arg(g, a);
    if (way->takes == TAKES_dims) {
        step->args[1] = (FzArg){.kind = FZ_ints, .n = 1, .ints = {dim_arg(g, a).i}};
        step->args[2] = (FzArg){.kind = FZ_bool, .i = {1, -1}};
        step->n_args = 3;
    }
    const int mask = way->takes == TAKES_three ? strand(g, like, false) : 0;
    if (way->takes == TAKES_three) {
        step->args[0] = value_arg(mask), step->args[1] = value_arg(a), step->args[2] = value_arg(b);
        step->n_args = 3;
    }
    return mask >= 0;
}

void gen_weave(Gen *g, int steps) {
    int like = -1;
    for (int i = 0; i < g->p->n_inputs && like < 0; i++)
        if (gen_rank(g, i) && dtype_is_float(gen_dtype(g, i))) like = i;
    for (int i = 0, tries = 0; like >= 0 && i < steps && tries < 8 * steps; tries++) {
        if (g->p->n_steps >= FZ_STEPS - 2 || g->p->n_values > FZ_VALUES - 8) break;
        FzStep step;
        if (!weave_step(g, like, &step)) continue;
        const int before = g->p->n_steps, values = g->p->n_values;
        if (gen_try(g, &step))
            i++;
        else
            g->p->n_steps = before, g->p->n_values = values;
    }
}
