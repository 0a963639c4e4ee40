/* patterns.c: groups of steps that single proposals rarely make together, about what the tape and capture must get
 * right in common: views of memory that is written and then used on both sides, fresh memory that is filled through
 * views, values without their history beside those with it, leaves on both sides of a break, and what a backward may
 * not read any more. */
#include <stdio.h>

#include "tests/fuzz/gen.h"

static FzArg of_value(int v) { return (FzArg){.kind = FZ_value, .value = v}; }
static FzArg of_int(int64_t i) { return (FzArg){.kind = FZ_int, .i = {i, -1}}; }
static FzArg of_float(double f) { return (FzArg){.kind = FZ_float, .f = f, .i.var = -1}; }

/* The first result; -1: the op would fail, an argument is none, or there is no room. */
static int call(Gen *g, const char *op, int n, const FzArg *args) {
    for (int i = 0; i < n; i++)
        if (args[i].kind == FZ_value && args[i].value < 0) return -1;
    FzStep step = {.kind = FZ_op, .n_args = n};
    snprintf(step.op, sizeof step.op, "%s", op);
    memcpy(step.args, args, sizeof *args * (size_t)n);
    return gen_try(g, &step) ? step.out : -1;
}
#define CALL(g, op, ...) call(g, op, (int)(sizeof((FzArg[]){__VA_ARGS__}) / sizeof(FzArg)), (FzArg[]){__VA_ARGS__})

static int scaled(Gen *g, int v, double by) { return CALL(g, "aten::mul.Tensor", of_value(v), of_float(by)); }

/* A float that has a gradient; -1: none was found. */
static int tracked(Gen *g, bool leaf) {
    for (int i = 0; i < 30; i++) {
        const int v = leaf ? (int)gen_below(g, g->p->n_inputs) : gen_any(g);
        if (v >= 0 && gen_live(g, v) && g->v[v].grad && dtype_is_float(gen_dtype(g, v)) &&
            (!leaf || g->p->inputs[v].grad))
            return v;
    }
    return -1;
}

static int view_of(Gen *g, int v) {
    const int last = gen_rank(g, v) - 1;
    switch (last < 0 ? 0 : gen_below(g, 5)) {
    case 1:
        return CALL(g, "aten::transpose.int", of_value(v), of_int(0), of_int(last));
    case 2:
        return CALL(g, "aten::select.int", of_value(v), of_int(gen_below(g, last + 1)), of_int(0));
    case 3:
        return CALL(g, "aten::slice.Tensor", of_value(v), of_int(last), of_int(0), of_int(1 << 20), of_int(2));
    case 4:
        return CALL(g, "aten::unsqueeze", of_value(v), of_int(0));
    default:
        return CALL(g, "aten::alias", of_value(v));
    }
}

static void add(Gen *g, FzStep step) {
    if (g->p->n_steps < FZ_STEPS) g->p->steps[g->p->n_steps++] = step;
}

static void backward_from(Gen *g, int v) {
    const int sum = g->grad_on && g->v[v].grad ? CALL(g, "aten::sum", of_value(v)) : -1;
    if (sum >= 0) add(g, (FzStep){.kind = FZ_backward, .value = sum});
}

static void maybe_break(Gen *g, int percent) {
    if (gen_chance(g, percent)) add(g, (FzStep){.kind = FZ_break});
}

static int write(Gen *g, int v) {
    switch (gen_below(g, 3)) {
    case 0:
        return CALL(g, "aten::mul_.Tensor", of_value(v), of_float(0.5));
    case 1:
        return CALL(g, "aten::sin_", of_value(v));
    default:
        return CALL(g, "aten::add_.Tensor", of_value(v), of_value(tracked(g, false)));
    }
}

static int use(Gen *g, int v) { return gen_chance(g, 60) ? scaled(g, v, 0.75) : CALL(g, "aten::tanh", of_value(v)); }

/* Base and views are used several times after either was written. */
static void written_views(Gen *g) {
    const int from = tracked(g, false), base = from < 0 ? -1 : scaled(g, from, 1.5);
    const int view = base < 0 ? -1 : view_of(g, base);
    if (view < 0) return;
    const int other = gen_chance(g, 30) ? view_of(g, view) : view;
    if (write(g, gen_chance(g, 50) ? base : view) < 0) return;
    maybe_break(g, 5);
    const int first = use(g, view); /* makes the view's history again, newer than its own */
    use(g, base), use(g, other < 0 ? view : other);
    const int total = CALL(g, "aten::mul.Tensor", of_value(view), of_float(3));
    const int root = gen_chance(g, 50) ? total : first;
    if (root >= 0 && gen_chance(g, 40)) backward_from(g, root);
}

/* Memory made here is filled through views and returned. */
static void fresh_memory(Gen *g) {
    const int from = tracked(g, false);
    if (from < 0) return;
    const int memory = gen_chance(g, 40)   ? CALL(g, "aten::clone", of_value(from))
                       : gen_chance(g, 50) ? CALL(g, "aten::zeros_like", of_value(from))
                                           : CALL(g, "aten::empty_like", of_value(from));
    const int view = memory < 0 ? -1 : view_of(g, memory), part = view < 0 ? -1 : view_of(g, from);
    if (part < 0 || write(g, view) < 0) return;
    CALL(g, gen_chance(g, 50) ? "aten::copy_" : "aten::add_.Tensor", of_value(view), of_value(from));
    g->result = gen_chance(g, 60) ? memory : view;
}

/* A leaf or what came of it loses its history before a backward. */
static void detached(Gen *g) {
    const int v = tracked(g, gen_chance(g, 50));
    const int plain = v < 0 ? -1 : CALL(g, "aten::detach", of_value(v));
    const int both = plain < 0 ? -1 : CALL(g, "aten::mul.Tensor", of_value(plain), of_value(v));
    if (both >= 0 && gen_chance(g, 80)) backward_from(g, both);
}

static void around_a_break(Gen *g) {
    const int leaf = tracked(g, true), before = leaf < 0 ? -1 : use(g, leaf);
    if (before < 0) return;
    maybe_break(g, 100);
    const int after = use(g, leaf);
    const int both = after < 0 ? -1 : CALL(g, "aten::add.Tensor", of_value(before), of_value(after));
    if (both >= 0 && gen_chance(g, 40)) backward_from(g, both);
}

static int holds_it(Gen *g, int v) {
    static const char *const ops[] = {"aten::cos", "aten::exp", "aten::tanh", "aten::relu"};
    return CALL(g, ops[gen_below(g, COUNT_OF(ops))], of_value(v));
}

/* Memory that one op holds, and of which what another holds could be made again, is written before the backward; which
 * of the two it comes to, if any, is left to chance. */
static void written_meanwhile(Gen *g) {
    const int from = tracked(g, gen_chance(g, 50));
    const int memory = from < 0 || gen_chance(g, 50) ? from : scaled(g, from, 1.5);
    const int far = memory < 0 ? -1 : gen_chance(g, 70) ? scaled(g, memory, 2) : memory;
    const int first = far < 0 ? -1 : holds_it(g, memory), second = first < 0 ? -1 : holds_it(g, far);
    if (second < 0 || !g->grad_on) return;
    const int root = gen_chance(g, 70) ? second : first;
    const int sum = g->v[root].grad ? CALL(g, "aten::sum", of_value(root)) : -1;
    maybe_break(g, 60);
    add(g, (FzStep){.kind = FZ_grad_mode, .times = SN_GRAD_OFF});
    CALL(g, "aten::mul_.Tensor", of_value(memory), of_float(0.5));
    add(g, (FzStep){.kind = FZ_grad_mode, .times = SN_GRAD_ON});
    if (sum >= 0) add(g, (FzStep){.kind = FZ_backward, .value = sum});
}

static int sorted(Gen *g, int v) { return CALL(g, "aten::sort", of_value(v), of_int(-1), (FzArg){.kind = FZ_bool}); }

/* Memory that no other kernel may have yet: what a pointwise one reads, of two kernels that nothing fuses with, is read
 * again behind the second, at once or later. 64 rows, so that it is more than what one line of a cache holds. */
void gen_read_again(Gen *g) {
    const int from = gen_any(g);
    if (from < 0 || !dtype_is_float(gen_dtype(g, from)) || gen_rank(g, from) > 2) return;
    if (g->p->n_steps > FZ_STEPS - 16 || g->p->n_values > FZ_VALUES - 24) return;
    FzArg repeats = {.kind = FZ_ints, .n = gen_rank(g, from) + 1};
    for (int i = 0; i < repeats.n; i++) repeats.ints[i] = (FzInt){i == repeats.n - 1 ? 64 : 1, -1};
    const int wide = CALL(g, "aten::repeat", of_value(from), repeats);
    const int held = wide < 0 ? -1 : sorted(g, wide), next = held < 0 ? -1 : use(g, held);
    const int other = next < 0 ? -1 : sorted(g, gen_chance(g, 50) ? next : use(g, next));
    const int both = other < 0 ? -1 : CALL(g, "aten::mul.Tensor", of_value(other), of_value(held));
    if (both >= 0 && gen_chance(g, 70)) g->result = both;
}

/* A float on which the rule of a composite branches, in a program whose numbers the calls give. */
void gen_branching(Gen *g) {
    static const double exponents[] = {0.5, 1.5, 2, 3};
    const int v = tracked(g, false) >= 0 ? tracked(g, false) : gen_any(g);
    if (v < 0 || !dtype_is_float(gen_dtype(g, v))) return;
    const FzArg x = of_value(v), number = of_float(exponents[gen_below(g, COUNT_OF(exponents))]);
    const int made = gen_chance(g, 40)   ? CALL(g, "aten::norm.Scalar", x, number)
                     : gen_chance(g, 50) ? CALL(g, "aten::float_power.Tensor_Scalar", x, number)
                                         : CALL(g, "aten::dist", x, of_value(scaled(g, v, 0.5)), number);
    if (made >= 0) g->result = made;
}

void gen_pattern(Gen *g) {
    static void (*const patterns[])(Gen *) = {written_views, fresh_memory,   detached,
                                              detached,      around_a_break, written_meanwhile};
    if (g->p->n_steps < FZ_STEPS - 16 && g->p->n_values < FZ_VALUES - 16) patterns[gen_below(g, COUNT_OF(patterns))](g);
}

static int drawn(Gen *g, int v) { return CALL(g, "aten::bernoulli.p", of_value(v), of_float(0.5)); }

void gen_generator(Gen *g) {
    const int v = gen_any(g);
    if (v < 0 || !dtype_is_float(gen_dtype(g, v)) || g->p->n_steps > FZ_STEPS - 16 || g->p->n_values > FZ_VALUES - 16)
        return;
    if (gen_chance(g, 30)) drawn(g, v);
    if (gen_chance(g, 70)) add(g, (FzStep){.kind = FZ_rng, .times = FZ_rng_save});
    const int first = gen_chance(g, 80) ? drawn(g, v) : v;
    if (gen_chance(g, 30)) drawn(g, v);
    add(g, (FzStep){.kind = FZ_rng, .times = (int)gen_below(g, FZ_RNGS)});
    const int second = drawn(g, v);
    const int both = CALL(g, "aten::sub.Tensor", of_value(first), of_value(second));
    if (both >= 0 && gen_chance(g, 50)) CALL(g, "aten::mul.Tensor", of_value(both), of_value(v));
}

/* An order of truths, of which each byte but 0 is one, also beside a number and as a part of others. */
void gen_bools(Gen *g) {
    static const char *const orders[] = {"aten::lt.Tensor", "aten::le.Tensor", "aten::gt.Tensor", "aten::ge.Tensor"};
    static const char *const by_number[] = {"aten::lt.Scalar", "aten::ge.Scalar", "aten::gt.Scalar", "aten::le.Scalar"};
    int v = gen_any(g);
    if (v < 0) return;
    const int other = gen_any(g);
    const bool is_bool = gen_dtype(g, v) == DT_bool;
    const int first = is_bool ? v : CALL(g, "aten::gt.Scalar", of_value(v), of_float(0.25));
    const int second = gen_chance(g, 40) && other >= 0 ? CALL(g, "aten::lt.Tensor", of_value(v), of_value(other))
                                                       : CALL(g, "aten::le.Scalar", of_value(v), of_float(0.75));
    CALL(g, orders[gen_below(g, 4)], of_value(first), of_value(second));
    const int order = CALL(g, orders[gen_below(g, 4)], of_value(second), of_value(first));
    if (gen_chance(g, 50)) CALL(g, by_number[gen_below(g, 4)], of_value(order), of_int(gen_below(g, 3) - 1));
    if (order >= 0 && gen_chance(g, 50)) g->result = order;
}

/* A region keeps what it has cast a leaf to: not across a write of the leaf, nor one of what it was cast to. */
void gen_cast_leaf(Gen *g) {
    const int leaf = tracked(g, true), autocast = g->autocast;
    if (leaf < 0 || gen_rank(g, leaf) != 2 || gen_dtype(g, leaf) != DT_f32 || !g->grad_on) return;
    if (!autocast) add(g, (FzStep){.kind = FZ_autocast, .times = g->autocast = 1 + (int)gen_below(g, 2)});
    const int first = CALL(g, "aten::linear", of_value(leaf), of_value(leaf));
    add(g, (FzStep){.kind = FZ_grad_mode, .times = SN_GRAD_OFF});
    g->grad_on = false;
    CALL(g, "aten::mul_.Tensor", of_value(leaf), of_float(gen_chance(g, 50) ? 0.5 : -1.5));
    g->grad_on = true;
    add(g, (FzStep){.kind = FZ_grad_mode, .times = SN_GRAD_ON});
    const int second = CALL(g, "aten::linear", of_value(leaf), of_value(leaf));
    const int both = first < 0 || second < 0 ? -1 : CALL(g, "aten::sub.Tensor", of_value(first), of_value(second));
    if (!autocast) add(g, (FzStep){.kind = FZ_autocast, .times = g->autocast = 0});
    if (both >= 0) g->result = gen_chance(g, 50) ? both : second;
}

/* Who reads the memory next sees the write where the parts lie on one another in this call. */
void gen_shifted(Gen *g) {
    int part = 0;
    while (part < g->p->n_inputs && !g->p->inputs[part].shifted) part++;
    if (part == g->p->n_inputs) return;
    const int whole = g->p->inputs[part].alias, first = gen_chance(g, 50) ? part : whole, other = part + whole - first;
    CALL(g, "aten::mul_.Tensor", of_value(first), of_float(1.5));
    const int read = CALL(g, "aten::add.Tensor", of_value(other), of_float(0.25));
    CALL(g, gen_chance(g, 50) ? "aten::add_.Tensor" : "aten::copy_", of_value(other), of_value(first));
    const int both = read < 0 ? -1 : CALL(g, "aten::mul.Tensor", of_value(read), of_value(first));
    if (both >= 0) g->result = both;
}
