/* net.c: nets that are trained, as programs: products with weights that come back, activations, sums along a dim that
 * all elements read, norms, softmax, dropout, over tensors of some tens of rows and columns; some of blocks that are
 * wider inside. Each of their steps is read by a later one, and what backwards read is most of their memory: peak.c
 * runs them. Random forms seldom fit each other so. */
#include "tests/fuzz/gen.h"

/* v: a value of the net's sizes; c: a column or a row; w: a weight, u and d: one to and from the width of a block;
 * b: a value inside of a block; n: a number; i: a dim; I: in a list; l: the last size; x: none; 0, 1: bools */
typedef struct Layer {
    const char *op, *args;
} Layer;
static const Layer layers[] = {{"aten::mm", "vw"},
                               {"aten::mm", "vw"},
                               {"aten::mm", "vw"},
                               {"aten::gelu", "v"},
                               {"aten::gelu", "v"},
                               {"aten::silu", "v"},
                               {"aten::tanh", "v"},
                               {"aten::relu", "v"},
                               {"aten::sigmoid", "v"},
                               {"aten::softplus", "v"},
                               {"aten::add.Tensor", "vv"},
                               {"aten::add.Tensor", "vv"},
                               {"aten::mul.Tensor", "vv"},
                               {"aten::mul.Tensor", "vc"},
                               {"aten::sub.Tensor", "vc"},
                               {"aten::mul.Tensor", "vn"},
                               {"aten::sum.dim_IntList", "vI1"},
                               {"aten::amax", "vI1"},
                               {"aten::_softmax", "vi0"},
                               {"aten::_log_softmax", "vi0"},
                               {"aten::native_layer_norm", "vlxxn"},
                               {"aten::native_dropout", "vn1"},
                               {"aten::cumsum", "vi"},
                               {"aten::flip", "vI"},
                               {"aten::t", "w"},
                               {"aten::t", "w"}};
static const Layer inside[] = {{"aten::gelu", "b"}, {"aten::silu", "b"}, {"aten::gelu", "b"}, {"aten::softplus", "b"}};

static const FzInt rows = {1, 0}, width = {1, 1}, wide = {1, 2}, one = {1, -1};

static bool has_dims(const Gen *g, int v, const FzInt dims[2]) {
    if (!gen_live(g, v) || gen_rank(g, v) != 2 || !dtype_is_float(gen_dtype(g, v))) return false;
    const int64_t *const sizes = g->v[v].at[0].meta.sizes;
    return sizes[0] == fz_int(g->p, dims[0], 0) && sizes[1] == fz_int(g->p, dims[1], 0);
}

static bool is_read(const FzProgram *p, int v) {
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_args; k++)
            if (p->steps[i].args[k].kind == FZ_value && p->steps[i].args[k].value == v) return true;
    return false;
}

static bool is_loose(const Gen *g, int v, const FzInt dims[2]) { return has_dims(g, v, dims) && !is_read(g->p, v); }

/* Mostly what nothing has read, so that little is computed in vain; -1: none was found. */
static int value_of(Gen *g, FzInt first, FzInt second) {
    const FzInt dims[] = {first, second};
    for (int v = g->p->n_values - 1; v >= FZ_INPUTS; v--)
        if (is_loose(g, v, dims) && gen_chance(g, 85)) return v;
    for (int i = 0; i < 40; i++) {
        const int v = gen_any(g);
        if (v >= 0 && has_dims(g, v, dims)) return v;
    }
    return -1;
}

static int weight_of(Gen *g, FzInt first, FzInt second) {
    const int known = gen_chance(g, 50) ? value_of(g, first, second) : -1;
    return known >= 0 ? known : gen_value(g, DT_f32, (const FzInt[]){first, second}, 2, 0, -1);
}

static int operand(Gen *g, char what) {
    const bool column = what == 'c' && gen_chance(g, 50);
    if (what == 'w') return weight_of(g, width, width);
    if (what == 'u') return weight_of(g, width, wide);
    if (what == 'd') return weight_of(g, wide, width);
    if (what == 'b') return value_of(g, rows, wide);
    if (what == 'v') return value_of(g, rows, width);
    return value_of(g, column ? rows : one, column ? one : width);
}

static bool layer_arg(Gen *g, char what, FzArg *arg) {
    const FzInt dim = {gen_below(g, 2), -1};
    if (strchr("vcwudb", what)) {
        *arg = (FzArg){.kind = FZ_value, .value = operand(g, what)};
        return arg->value >= 0;
    }
    if (what == 'n') *arg = (FzArg){.kind = FZ_float, .f = 0.25, .i.var = -1};
    if (what == 'i') *arg = (FzArg){.kind = FZ_int, .i = dim};
    if (what == 'I') *arg = (FzArg){.kind = FZ_ints, .n = 1, .ints = {dim}};
    if (what == 'l') *arg = (FzArg){.kind = FZ_ints, .n = 1, .ints = {width}};
    if (what == 'x') *arg = (FzArg){.kind = FZ_none};
    if (what == '0' || what == '1') *arg = (FzArg){.kind = FZ_bool, .i = {what == '1', -1}};
    return true;
}

/* What a step that does not fit has made is taken back. */
static bool add_layer(Gen *g, Layer layer) {
    FzProgram *const p = g->p;
    const int steps = p->n_steps, values = p->n_values, inputs = p->n_inputs;
    FzStep step = {.kind = FZ_op, .n_args = (int)strlen(layer.args)};
    strcpy(step.op, layer.op);
    bool fits = true;
    for (int i = 0; i < step.n_args && fits; i++) fits = layer_arg(g, layer.args[i], &step.args[i]);
    if (fits && gen_try(g, &step)) return true;
    p->n_steps = steps, p->n_values = values, p->n_inputs = inputs;
    return false;
}

static bool has_room(const Gen *g) { return g->p->n_steps < FZ_STEPS - 8 && g->p->n_values <= FZ_VALUES - 12; }

static void add_block(Gen *g) {
    static const Layer up = {"aten::mm", "vu"}, down = {"aten::mm", "bd"}, join = {"aten::add.Tensor", "vv"};
    if (!add_layer(g, up) || !add_layer(g, inside[gen_below(g, COUNT_OF(inside))]) || !add_layer(g, down)) return;
    add_layer(g, join);
}

static int n_loose(const Gen *g) {
    int n = 0;
    for (int v = FZ_INPUTS; v < g->p->n_values; v++) n += is_loose(g, v, (const FzInt[]){rows, width});
    return n;
}

/* What is loose is summed, and returned; the backward is in the body of some. */
static void end_net(Gen *g) {
    static const Layer join = {"aten::add.Tensor", "vv"}, sum = {"aten::sum", "v"};
    FzProgram *const p = g->p;
    for (int i = 0; i < 40 && p->n_steps < FZ_STEPS - 3 && n_loose(g) > 1; i++) add_layer(g, join);
    const int last = value_of(g, rows, width);
    p->outer_backward = !gen_chance(g, 30) || last < 0 || !g->v[last].grad || !add_layer(g, sum);
    if (!p->outer_backward)
        p->steps[p->n_steps++] = (FzStep){.kind = FZ_backward, .value = p->steps[p->n_steps - 1].out};
    if (last >= 0) p->returns[p->n_returns++] = last;
}

void fz_generate_net(FzProgram *p, uint64_t seed) {
    static const int16_t few[] = {16, 24, 32, 48, 64}, many[] = {64, 80, 96, 192};
    const bool blocks = seed % 2;
    static Gen g;
    memset(&g, 0, sizeof g);
    memset(p, 0, sizeof *p);
    g = (Gen){.p = p, .random = (seed + 1) * 0x9E3779B97F4A7C15u, .grad_on = true, .training = true};
    p->n_values = FZ_INPUTS;
    p->n_sizes = 3;
    for (int i = 0; i < p->n_sizes; i++) {
        const bool is_width = i == 1 || !(blocks || i);
        p->sizes[0][i] = p->sizes[1][i] =
            is_width ? few[gen_below(&g, blocks ? 3 : 5)] : many[gen_below(&g, i ? 3 : 4)];
    }
    if (gen_chance(&g, 15)) p->region = g.autocast = 1 + (int)gen_below(&g, 2);
    gen_value(&g, DT_f32, (const FzInt[]){rows, width}, 2, 0, -1);
    if (blocks)
        for (int n = 2 + (int)gen_below(&g, 6); n > 0 && has_room(&g); n--) add_block(&g);
    else
        for (int n = 4 + (int)gen_below(&g, 80); n > 0 && has_room(&g); n--)
            add_layer(&g, layers[gen_below(&g, COUNT_OF(layers))]);
    end_net(&g);
    gen_regions(&g);
}
