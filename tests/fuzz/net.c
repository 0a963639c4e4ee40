/* net.c: nets that are trained, as programs: products with weights that come back, activations, sums along a dim that
 * all elements read, norms, softmax, dropout, over tensors of some tens of rows and columns; some of blocks that are
 * wider inside. Each of their steps is read by a later one, and what backwards read is most of their memory: peak.c
 * runs them. Some take values to pieces and put them together again, some are of images, some of half dtypes. Random
 * forms seldom fit each other so. */
#include "tests/fuzz/gen.h"

/* v: a value of the net's sizes; c: a column or a row; w: a weight, u and d: one to and from the width of a block;
 * b: a value inside of a block; h: half a value, by columns; T: two values, one below the other; S: two in a new dim;
 * o: a bias. V, H: lists of two values, of two halves. n: a number; i: a dim; I: in a list; l: the last size; p, q:
 * half the width, the width; r, R: the rows, twice as many; z, a: 0, 1; k, K, m: [1, 1], [0, 0], [3, 3]; x: none;
 * 0, 1: bools */
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
/* Parts of values, and values of parts. The first ones end what the others begin. */
static const Layer pieces[] = {{"aten::cat", "Ha"},
                               {"aten::slice.Tensor", "Tzzr"},
                               {"aten::slice.Tensor", "TzrR"},
                               {"aten::sum.dim_IntList", "SZ0"},
                               {"aten::select.int", "Sza"},
                               {"aten::cat", "Ha"},
                               {"aten::slice.Tensor", "vazp"},
                               {"aten::slice.Tensor", "vapq"},
                               {"aten::narrow", "vazp"},
                               {"aten::split.Tensor", "vpa"},
                               {"aten::chunk", "v2a"},
                               {"aten::gelu", "h"},
                               {"aten::tanh", "h"},
                               {"aten::silu", "h"},
                               {"aten::mul.Tensor", "hh"},
                               {"aten::add.Tensor", "hh"},
                               {"aten::cat", "Vz"},
                               {"aten::tanh", "T"},
                               {"aten::gelu", "T"},
                               {"aten::stack", "Vz"},
                               {"aten::gelu", "S"},
                               {"aten::_softmax", "Sz0"}};
enum { ENDING = 4 /* of pieces */, MOST_RETURNS = 4 };
/* Of images. */
static const Layer windows[] = {{"aten::convolution", "vwxkkk0Ka"},
                                {"aten::convolution", "vwxkkk0Ka"},
                                {"aten::convolution", "vwokkk0Ka"},
                                {"aten::relu", "v"},
                                {"aten::silu", "v"},
                                {"aten::gelu", "v"},
                                {"aten::add.Tensor", "vv"},
                                {"aten::mul.Tensor", "vv"},
                                {"aten::mul.Tensor", "vc"},
                                {"aten::sum.dim_IntList", "vI1"},
                                {"aten::native_batch_norm", "vxxxx1nn"},
                                {"aten::max_pool2d_with_indices", "vmkk"},
                                {"aten::avg_pool2d", "vmkk"},
                                {"aten::native_dropout", "vn1"}};
static const Layer inside[] = {{"aten::gelu", "b"}, {"aten::silu", "b"}, {"aten::gelu", "b"}, {"aten::softplus", "b"}};

static const FzInt rows = {1, 0}, width = {2, 1}, half = {1, 1}, wide = {1, 2}, one = {1, -1};

typedef struct NetDims {
    int rank;
    FzInt at[FZ_DIMS];
} NetDims;

/* What a letter stands for; images have rows of them: [rows, width, wide, wide]. */
static NetDims dims_of(Gen *g, char what, bool images) {
    const bool first = gen_chance(g, 50);
    if (images && what == 'v') return (NetDims){4, {rows, width, wide, wide}};
    if (images && what == 'w') return (NetDims){4, {width, width, {3, -1}, {3, -1}}};
    if (images && what == 'c') return (NetDims){4, {first ? rows : one, width, one, one}};
    if (what == 'o') return (NetDims){1, {width}};
    if (what == 'w') return (NetDims){2, {width, width}};
    if (what == 'u') return (NetDims){2, {width, wide}};
    if (what == 'd') return (NetDims){2, {wide, width}};
    if (what == 'b') return (NetDims){2, {rows, wide}};
    if (what == 'h') return (NetDims){2, {rows, half}};
    if (what == 'T') return (NetDims){2, {{2, 0}, width}};
    if (what == 'S') return (NetDims){3, {{2, -1}, rows, width}};
    if (what == 'c') return (NetDims){2, {first ? rows : one, first ? one : width}};
    return (NetDims){2, {rows, width}};
}

static bool has_dims(const Gen *g, int v, const NetDims *dims) {
    if (!gen_live(g, v) || gen_rank(g, v) != dims->rank || !dtype_is_float(gen_dtype(g, v))) return false;
    for (int d = 0; d < dims->rank; d++)
        if (g->v[v].at[0].meta.sizes[d] != fz_int(g->p, dims->at[d], 0)) return false;
    return true;
}

static bool arg_reads(const FzArg *arg, int v) {
    bool reads = arg->kind == FZ_value && arg->value == v;
    for (int i = 0; arg->kind == FZ_values && i < arg->n; i++) reads |= arg->values[i] == v;
    return reads;
}

static bool is_read(const FzProgram *p, int v) {
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_args; k++)
            if (arg_reads(&p->steps[i].args[k], v)) return true;
    return false;
}

static bool is_loose(const Gen *g, int v, const NetDims *dims) { return has_dims(g, v, dims) && !is_read(g->p, v); }

typedef struct Net {
    Gen *g;
    bool images;
    bool towers; /* several values grow side by side */
    DType dtype; /* of inputs */
} Net;

/* Mostly what nothing has read, the newest or any, so that little is computed in vain; -1: none was found. `but`:
 * another one. */
static int value_of(const Net *net, const NetDims *dims, int but) {
    Gen *const g = net->g;
    const int n = g->p->n_values - FZ_INPUTS, from = net->towers && n ? (int)gen_below(g, n) : 0;
    for (int i = 0; i < n; i++) {
        const int v = FZ_INPUTS + (2 * n - 1 - i - from) % n;
        if (v != but && is_loose(g, v, dims) && gen_chance(g, 85)) return v;
    }
    for (int i = 0; i < 40; i++) {
        const int v = gen_any(g);
        if (v >= 0 && has_dims(g, v, dims)) return v;
    }
    return -1;
}

static int weight_of(const Net *net, const NetDims *dims) {
    const int known = gen_chance(net->g, 50) ? value_of(net, dims, -1) : -1;
    return known >= 0 ? known : gen_value(net->g, net->dtype, dims->at, dims->rank, 0, -1);
}

static int operand(const Net *net, char what, int but) {
    const NetDims dims = dims_of(net->g, what, net->images);
    return strchr("wudo", what) ? weight_of(net, &dims) : value_of(net, &dims, but);
}

static bool pair(const Net *net, char what, FzArg *arg) {
    *arg = (FzArg){.kind = FZ_values, .n = 2};
    arg->values[0] = operand(net, what, -1);
    arg->values[1] = operand(net, what, arg->values[0]);
    return arg->values[0] >= 0 && arg->values[1] >= 0;
}

static FzArg same_ints(int64_t value, int n) {
    FzArg arg = {.kind = FZ_ints, .n = n};
    for (int i = 0; i < n; i++) arg.ints[i] = (FzInt){value, -1};
    return arg;
}

static bool layer_arg(const Net *net, char what, FzArg *arg) {
    static const struct {
        char what;
        FzInt i;
    } ints[] = {{'z', {0, -1}}, {'a', {1, -1}}, {'2', {2, -1}}, {'p', half}, {'q', width}, {'r', rows}, {'R', {2, 0}}};
    const FzInt dim = {gen_below(net->g, 2), -1};
    if (strchr("vcwudbhTSo", what)) {
        *arg = (FzArg){.kind = FZ_value, .value = operand(net, what, -1)};
        return arg->value >= 0;
    }
    if (what == 'V' || what == 'H') return pair(net, what == 'V' ? 'v' : 'h', arg);
    for (int i = 0; i < COUNT_OF(ints); i++)
        if (ints[i].what == what) *arg = (FzArg){.kind = FZ_int, .i = ints[i].i};
    if (what == 'n') *arg = (FzArg){.kind = FZ_float, .f = 0.25, .i.var = -1};
    if (what == 'i') *arg = (FzArg){.kind = FZ_int, .i = dim};
    if (what == 'I') *arg = (FzArg){.kind = FZ_ints, .n = 1, .ints = {dim}};
    if (what == 'l') *arg = (FzArg){.kind = FZ_ints, .n = 1, .ints = {width}};
    if (what == 'Z') *arg = same_ints(0, 1);
    if (what == 'k') *arg = same_ints(1, 2);
    if (what == 'K') *arg = same_ints(0, 2);
    if (what == 'm') *arg = same_ints(3, 2);
    if (what == 'x') *arg = (FzArg){.kind = FZ_none};
    if (what == '0' || what == '1') *arg = (FzArg){.kind = FZ_bool, .i = {what == '1', -1}};
    return true;
}

/* What a step that does not fit has made is taken back. */
static bool add_layer(const Net *net, Layer layer) {
    FzProgram *const p = net->g->p;
    const int steps = p->n_steps, values = p->n_values, inputs = p->n_inputs;
    FzStep step = {.kind = FZ_op, .n_args = (int)strlen(layer.args)};
    strcpy(step.op, layer.op);
    bool fits = true;
    for (int i = 0; i < step.n_args && fits; i++) fits = layer_arg(net, layer.args[i], &step.args[i]);
    if (fits && gen_try(net->g, &step)) return true;
    p->n_steps = steps, p->n_values = values, p->n_inputs = inputs;
    return false;
}

static bool has_capacity(const Net *net) {
    const FzProgram *const p = net->g->p;
    return p->n_steps < FZ_STEPS - 8 && p->n_values <= FZ_VALUES - 12;
}

static void add_block(const Net *net) {
    static const Layer up = {"aten::mm", "vu"}, down = {"aten::mm", "bd"}, join = {"aten::add.Tensor", "vv"};
    if (!add_layer(net, up) || !add_layer(net, inside[gen_below(net->g, COUNT_OF(inside))]) || !add_layer(net, down))
        return;
    add_layer(net, join);
}

static void add_any(const Net *net, bool in_pieces) {
    Gen *const g = net->g;
    if (net->images)
        add_layer(net, windows[gen_below(g, COUNT_OF(windows))]);
    else if (in_pieces && gen_chance(g, 50))
        add_layer(net, pieces[gen_below(g, COUNT_OF(pieces))]);
    else
        add_layer(net, layers[gen_below(g, COUNT_OF(layers))]);
}

static int n_loose(const Net *net) {
    const NetDims dims = dims_of(net->g, 'v', net->images);
    int n = 0;
    for (int v = FZ_INPUTS; v < net->g->p->n_values; v++) n += is_loose(net->g, v, &dims);
    return n;
}

/* What is loose yet; branches that are not among these no backward reaches. */
static void return_loose(const Net *net, const NetDims *dims) {
    FzProgram *const p = net->g->p;
    for (int v = FZ_INPUTS; v < p->n_values && p->n_returns < MOST_RETURNS; v++)
        if (v != p->returns[0] && is_loose(net->g, v, dims)) p->returns[p->n_returns++] = v;
}

/* What is loose is summed, and returned; the backward is in the body of some. */
static void end_net(const Net *net, bool in_pieces) {
    static const Layer join = {"aten::add.Tensor", "vv"}, sum = {"aten::sum", "v"};
    Gen *const g = net->g;
    FzProgram *const p = g->p;
    for (int i = 0; in_pieces && i < ENDING && p->n_steps < FZ_STEPS - 4; i++) add_layer(net, pieces[i]);
    const int branches = net->towers ? MOST_RETURNS : 1;
    for (int i = 0; i < 40 && p->n_steps < FZ_STEPS - 3 && n_loose(net) > branches; i++) add_layer(net, join);
    const NetDims dims = dims_of(g, 'v', net->images);
    const int last = value_of(net, &dims, -1);
    p->outer_backward = !gen_chance(g, 30) || last < 0 || !g->v[last].grad || !add_layer(net, sum);
    if (!p->outer_backward)
        p->steps[p->n_steps++] = (FzStep){.kind = FZ_backward, .value = p->steps[p->n_steps - 1].out};
    if (last >= 0) p->returns[p->n_returns++] = last;
    if (p->outer_backward && last >= 0) return_loose(net, &dims);
}

/* A value that is read, from which more are to come. */
static void begin_tower(const Net *net) {
    const NetDims dims = dims_of(net->g, 'v', net->images);
    const int input = gen_value(net->g, net->dtype, dims.at, dims.rank, 0, -1);
    FzStep step = {.kind = FZ_op, .op = "aten::tanh", .n_args = 1, .args = {{.kind = FZ_value, .value = input}}};
    if (net->towers) gen_try(net->g, &step);
}

/* Large enough for each part to be counted (peak.c: SMALL_BYTES). */
static void choose_sizes(const Net *net, bool blocks) {
    static const int16_t few[] = {12, 16, 24, 32, 12}, many[] = {64, 80, 96, 192}, side[] = {8, 9, 12};
    Gen *const g = net->g;
    FzProgram *const p = g->p;
    const int16_t sizes[] = {blocks ? many[gen_below(g, 4)] : 2 * few[gen_below(g, 5)],
                             few[gen_below(g, blocks ? 3 : 5)],
                             blocks ? many[gen_below(g, 3)] : 2 * few[gen_below(g, 5)]};
    const int16_t image[] = {(int16_t)(2 + gen_below(g, 2)), (int16_t)(2 + gen_below(g, 7)), side[gen_below(g, 3)]};
    p->n_sizes = 3;
    for (int i = 0; i < p->n_sizes; i++) p->sizes[0][i] = p->sizes[1][i] = net->images ? image[i] : sizes[i];
}

void fz_generate_net(FzProgram *p, uint64_t seed) {
    static const DType halves[] = {DT_bf16, DT_f16};
    const bool blocks = seed % 2;
    static Gen g;
    memset(&g, 0, sizeof g);
    memset(p, 0, sizeof *p);
    g = (Gen){.p = p, .random = (seed + 1) * 0x9E3779B97F4A7C15u, .grad_on = true, .training = true};
    p->n_values = FZ_INPUTS;
    const bool in_pieces = gen_chance(&g, 40), half_dtype = gen_chance(&g, 12);
    const Net net = {&g, !blocks && gen_chance(&g, 25), !blocks && gen_chance(&g, 25),
                     half_dtype ? halves[gen_below(&g, 2)] : DT_f32};
    choose_sizes(&net, blocks);
    if (!half_dtype && gen_chance(&g, 15)) p->region = g.autocast = 1 + (int)gen_below(&g, 2);
    for (int n = net.towers ? 2 + (int)gen_below(&g, 2) : 1; n > 0; n--) begin_tower(&net);
    if (blocks)
        for (int n = 2 + (int)gen_below(&g, 6); n > 0 && has_capacity(&net); n--) add_block(&net);
    else
        for (int n = 4 + (int)gen_below(&g, 80); n > 0 && has_capacity(&net); n--) add_any(&net, in_pieces);
    end_net(&net, in_pieces && !net.images);
    gen_regions(&g);
}
