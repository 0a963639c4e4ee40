/* rows.c: how a row is run, and what of it is kept for its later phases or prefetched.
 *
 * Kept: values that cost more to make again than to load, while there is room for rows of them. Prefetched: while a
 * phase of a row computes from the cache, memory would idle; the longest reduction, if one is long, else the phase
 * after the first use, fetches the next row's loads. */
#include "codegen/shape/parts.h"

enum {
    KEEP_ABOVE = 2,      /* cost of loading again */
    MOST_COST = 1000,    /* costs of shared operands count twice: they would run over */
    MAX_COPIES_COST = 60 /* of a reduction's body, in all its copies */
};

bool row_may_keep(const NestMapping *shape) {
    return shape_is_rows(shape) && shape->n_s_groups == 0 && shape_L_total(shape) >= 0;
}

int64_t row_bytes(const NestMapping *shape, const Inst *inst) {
    return stype_bytes((SType)inst->type) * round_up(shape_L_total(shape), LANES_L);
}

static void cost_insts(const Decider *d) {
    for (int i = 0; i < d->nest->n_insts; i++) {
        const Inst *const inst = &d->nest->insts[i];
        const int16_t operand[3] = {inst->a, inst->b, inst->c};
        int cost = inst->op == LI_gather ? 6 : 1;
        for (int k = 0; k < 3; k++)
            if (operand[k] >= 0 && d->nest->insts[operand[k]].inner) cost += d->cost[operand[k]];
        if (inst->op == LI_prim && machine_calls(d->machine, inst->prim, (SType)inst->type)) cost += 12;
        d->cost[i] = cost > MOST_COST ? MOST_COST : cost;
    }
}

/* What phase `phase` needs of instruction i, whose values may be kept from the phase that made them first. */
static void keep_visit(const Decider *d, int i, int phase, int64_t *capacity) {
    NestMapping *const shape = d->shape;
    if (i < 0 || !d->nest->insts[i].inner || d->seen[i] || shape->inst[i].kept_in >= 0) return;
    const Inst *const inst = &d->nest->insts[i];
    const bool earlier = d->first_phase[i] >= 0 && d->first_phase[i] < phase;
    const int64_t bytes = row_bytes(shape, inst);
    if (earlier && d->cost[i] > KEEP_ABOVE && bytes <= *capacity) {
        *capacity -= bytes;
        shape->inst[i].kept_in = (int16_t)d->first_phase[i];
        shape->kept[shape->n_kept++] = (int16_t)i;
        return;
    }
    d->seen[i] = true;
    if (d->first_phase[i] < 0) d->first_phase[i] = phase;
    keep_visit(d, inst->a, phase, capacity), keep_visit(d, inst->b, phase, capacity),
        keep_visit(d, inst->c, phase, capacity);
}

void kept_decide(Decider *d) {
    const int n = d->nest->n_insts;
    for (int i = 0; i < n; i++) d->first_phase[i] = -1;
    if (!row_may_keep(d->shape)) return;
    cost_insts(d);
    int64_t capacity = d->machine->keep_bytes;
    for (int p = 0; p < d->nest->n_phases; p++) {
        const Phase *const phase = &d->nest->phases[p];
        memset(d->seen, 0, sizeof *d->seen * (size_t)n);
        for (int i = phase->first; i < phase->first + phase->n; i++) {
            const Inst *const inst = &d->nest->insts[i];
            if (is_root(inst)) keep_visit(d, inst->a, p, &capacity), keep_visit(d, inst->b, p, &capacity);
        }
    }
}

bool prefetch_may(const Nest *nest, const NestMapping *shape, int i) {
    const Inst *const inst = &nest->insts[i];
    const int dim = shape_next_dim(nest), lanes_along = lane_group(shape, nest);
    return row_may_keep(shape) && dim >= 0 && lanes_along >= 0 && inst->op == LI_load && inst->inner &&
           inst->at->coef[shape->group[lanes_along].coef] == 1 && inst->at->coef[dim] != 0;
}

static bool is_prefetched(const Decider *d, int i) {
    return prefetch_may(d->nest, d->shape, i) && d->first_phase[i] >= 0;
}

/* -1: there is no other phase, and the loads of the row themselves keep memory busy. */
static int fetching_phase(const Decider *d, int first) {
    int best = -1, after = -1, most = LONG_BODY - 1, inner = 0;
    for (int p = 0; p < d->nest->n_phases; p++) {
        if (d->nest->phases[p].over_outer) continue;
        inner++;
        if (after < 0 && p > first) after = p;
        if (p < first || d->nest->phases[p].kind != PHASE_reduce) continue;
        const int cost = phase_cost(d, p);
        if (cost > most) best = p, most = cost;
    }
    return inner < 2 ? -1 : best >= 0 ? best : after;
}

void prefetch_decide(Decider *d) {
    NestMapping *const shape = d->shape;
    if (!row_may_keep(shape) || shape_next_dim(d->nest) < 0) return;
    int64_t bytes = 0;
    for (int i = 0; i < d->nest->n_insts; i++)
        if (is_prefetched(d, i)) bytes += shape_L_total(shape) * dtype_bytes(d->bufs[d->nest->insts[i].buf].dtype);
    if (bytes <= 0 || bytes > d->machine->prefetch_bytes) return;
    for (int i = 0; i < d->nest->n_insts; i++) {
        if (!is_prefetched(d, i)) continue;
        shape->inst[i].prefetch_in = (int16_t)fetching_phase(d, d->first_phase[i]);
        shape->near |= shape->inst[i].prefetch_in >= 0 && bytes <= d->machine->near_bytes;
    }
}

static PhaseShape reduction(const Decider *d, int cost) {
    const int vectors = LANES_L / d->machine->lanes;
    return (PhaseShape){.strategy = cost * vectors > MAX_COPIES_COST ? STRATEGY_memory : STRATEGY_registers};
}

static PhaseShape stores(const Decider *d, int cost) {
    const int64_t row = shape_L_total(d->shape);
    const bool is_long = cost >= LONG_BODY;
    if (is_long && (row < 0 || row % d->machine->lanes)) return (PhaseShape){.strategy = STRATEGY_masked};
    int copies = is_long ? 1 : SHAPE_COPIES;
    while (copies > 1 && row >= 0 && row % (copies * d->machine->lanes)) copies /= 2;
    return (PhaseShape){STRATEGY_copies, copies};
}

bool narrow_may(const NestMapping *shape) {
    const int64_t row = shape_L_total(shape);
    return row >= 0 && row < INT32_MAX - LANES_L;
}

void strategies_decide(Decider *d) {
    if (!shape_is_rows(d->shape)) return;
    if (shape_splits_rows(d->shape)) d->shape->index_bits = narrow_may(d->shape) ? 32 : 64;
    for (int p = 0; p < d->nest->n_phases; p++) {
        const Phase *const phase = &d->nest->phases[p];
        if (phase->over_outer) continue;
        d->shape->phase[p] = (phase->kind == PHASE_reduce ? reduction : stores)(d, phase_cost(d, p));
    }
}
