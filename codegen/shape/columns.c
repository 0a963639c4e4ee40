/* columns.c: how columns run. Short bodies: whole vectors side by side, then a masked loop for the rest. Long bodies,
 * whose every copy costs time to compile: one masked loop, with vectors side by side only where a chain is too long for
 * the processor to find the next vector behind it, and primitives repeat: one function then serves all uses and
 * vectors. S reductions over wide matrices run in panels, along the rows of memory: a few columns at a time would read
 * a short piece of every row, which no prefetcher likes. */
#include "codegen/shape/parts.h"

enum {
    REPEATS = 3,            /* uses of one library primitive from which a function is shared */
    LEAST_PANEL_ROWS = 8,   /* that panels pay for */
    LEAST_PANEL_VECTORS = 5 /* likewise, of columns */
};

/* The reductions of the first phase fit a panel: few, none of which remembers positions or holds bools. */
static bool reds_fit(const Nest *nest) {
    const Phase *const phase = &nest->phases[0];
    int n = 0;
    for (int i = phase->first; i < phase->first + phase->n; i++) {
        const Inst *const inst = &nest->insts[i];
        if (inst->op != LI_reduce) continue;
        if (is_positional(inst) || nest->insts[inst->a].type == S_b || n++ == PANEL_REDS) return false;
    }
    return true;
}

/* Rows of memory run along the columns. */
static bool reads_along(const NestMapping *shape, const Inst *inst) {
    if (!inst->inner || (inst->op != LI_load && inst->op != LI_gather)) return true;
    const int64_t step = inst->at->coef[shape->group[shape->n_outer_groups - 1].coef];
    return inst->op == LI_load && (step == 0 || step == 1);
}

bool panels_may(const Nest *nest, const NestMapping *shape) {
    if (shape_is_rows(shape) || shape->n_s_groups == 0 || shape->n_outer_groups == 0) return false;
    if (nest->phases[0].kind != PHASE_reduce || !reds_fit(nest)) return false;
    for (int i = 1; i < nest->n_phases; i++)
        if (!nest->phases[i].over_outer) return false;
    for (int i = 0; i < nest->n_insts; i++)
        if (!reads_along(shape, &nest->insts[i])) return false;
    return true;
}

static bool panels_pay(const Decider *d) {
    const int64_t columns = d->shape->group[d->shape->n_outer_groups - 1].extent, rows = shape_S_total(d->shape);
    return phase_cost(d, 0) < LONG_BODY && (rows < 0 || rows >= LEAST_PANEL_ROWS) &&
           (columns < 0 || columns >= (int64_t)LEAST_PANEL_VECTORS * d->machine->lanes);
}

/* Uses of the library primitive that is used most. */
static int repeats(const Decider *d) {
    int uses[PRIM_COUNT] = {0}, most = 0;
    for (int i = 0; i < d->nest->n_insts; i++) {
        const Inst *const inst = &d->nest->insts[i];
        if (inst->op != LI_prim || !machine_calls(d->machine, inst->prim, (SType)inst->type)) continue;
        if (++uses[inst->prim] > most) most = uses[inst->prim];
    }
    return most;
}

bool shared_may(const Nest *nest, const NestMapping *shape, const Machine *machine, int i) {
    const Inst *const inst = &nest->insts[i];
    if (nest->n_inner > 0 || inst->op != LI_prim || stype_bytes((SType)inst->type) != 4 ||
        !machine_calls(machine, inst->prim, (SType)inst->type))
        return false;
    const int16_t operand[3] = {inst->a, inst->b, inst->c};
    int arity = 0;
    for (; arity < 3 && operand[arity] >= 0; arity++)
        if (nest->insts[operand[arity]].type != inst->type) return false;
    return shape->copies > 1 && arity * shape->copies <= SHARED_VECTORS;
}

static void plain_columns(const Decider *d, int cost) {
    int reds = 0;
    for (int i = 0; i < d->nest->n_insts; i++) reds += d->nest->insts[i].op == LI_reduce;
    d->shape->copies = cost >= LONG_BODY || reds > 4 ? 1 : reds > 2 ? 2 : SHAPE_COPIES;
}

static void masked_columns(const Decider *d) {
    const int64_t columns = d->shape->group[d->shape->n_outer_groups - 1].extent;
    int n = repeats(d) >= REPEATS ? SHAPE_COPIES : 1;
    while (n > 1 && columns >= 0 && columns <= (int64_t)(n / 2) * d->machine->lanes) n /= 2;
    d->shape->masked = true;
    d->shape->copies = n;
}

/* Sums of a panel stay in the nearest cache; four rows are four streams from memory, and share a load and a store of
 * the sum. */
static void panel_shape(NestMapping *shape) {
    shape->mode = SHAPE_panels;
    shape->panel_columns = PANEL_COLUMNS;
    shape->panel_rows = PANEL_ROWS;
}

void columns_decide(Decider *d) {
    NestMapping *const shape = d->shape;
    if (shape_is_rows(shape) || shape->n_outer_groups == 0) return; /* no outer dims: one vector of equal lanes */
    const int cost = nest_cost(d);
    if (panels_may(d->nest, shape) && panels_pay(d))
        panel_shape(shape);
    else if (d->nest->n_inner > 0 || cost < LONG_BODY)
        plain_columns(d, cost);
    else
        masked_columns(d);
    for (int i = 0; i < d->nest->n_insts; i++) shape->inst[i].shared = shared_may(d->nest, shape, d->machine, i);
}
